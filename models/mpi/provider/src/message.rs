//! Messages, tagged and not.

use core::ffi::c_void;

use tombolo_fabric::{Memory, NO_ADDRESS, Peek, Receive, Send};

use crate::abi::*;
use crate::endpoint::Endpoint;
use crate::span::Span;
use crate::{begun, given, object};

pub(crate) static MSG_OPS: fi_ops_msg = fi_ops_msg {
    size: size_of::<fi_ops_msg>(),
    recv,
    recvv,
    recvmsg,
    send,
    sendv,
    sendmsg,
    inject,
    senddata,
    injectdata,
};

pub(crate) static TAGGED_OPS: fi_ops_tagged = fi_ops_tagged {
    size: size_of::<fi_ops_tagged>(),
    recv: trecv,
    recvv: trecvv,
    recvmsg: trecvmsg,
    send: tsend,
    sendv: tsendv,
    sendmsg: tsendmsg,
    inject: tinject,
    senddata: tsenddata,
    injectdata: tinjectdata,
};

/// Which message, to whom.
#[derive(Clone, Copy)]
struct Letter {
    to: u64,
    tag: Option<u64>,
    data: Option<u64>,
    context: *mut c_void,
}

#[inline(always)]
fn do_send(ep: *mut fid_ep, memory: Span, letter: Letter, flags: u64) -> isize {
    let endpoint = object!(ep, Endpoint);
    let inject = flags & FI_INJECT != 0;
    if inject && memory.len() > tombolo_fabric::INJECT_BYTES {
        return -(FI_EMSGSIZE as isize);
    }
    let report = endpoint.reports_send(flags);
    begun(endpoint.engine.send(Send {
        to: letter.to,
        tag: letter.tag,
        data: letter.data,
        memory,
        context: letter.context.expose_provenance(),
        report,
        inject,
        delivery: flags & FI_DELIVERY_COMPLETE != 0,
    }))
}

/// A send with the flags that the endpoint has for those without.
#[inline(always)]
fn send_plain(ep: *mut fid_ep, memory: Span, letter: Letter) -> isize {
    let flags = object!(ep, Endpoint).tx_flags;
    do_send(ep, memory, letter, flags)
}

/// A send of what is the program's again at once, without a completion.
#[inline(always)]
fn send_injected(ep: *mut fid_ep, buf: *const c_void, len: usize, letter: Letter) -> isize {
    let endpoint = object!(ep, Endpoint);
    if len > tombolo_fabric::INJECT_BYTES {
        return -(FI_EMSGSIZE as isize);
    }
    begun(endpoint.engine.send(Send {
        to: letter.to,
        tag: letter.tag,
        data: letter.data,
        memory: Span::new(buf, len),
        context: 0,
        report: false,
        inject: true,
        delivery: false,
    }))
}

#[inline(always)]
fn do_receive(
    ep: *mut fid_ep,
    memory: Span,
    from: u64,
    tag: Option<(u64, u64)>,
    context: *mut c_void,
    flags: u64,
) -> isize {
    let endpoint = object!(ep, Endpoint);
    let report = endpoint.reports_receive(flags);
    begun(endpoint.engine.receive(Receive {
        from: if from == FI_ADDR_NOTAVAIL { NO_ADDRESS } else { from },
        tag,
        memory,
        context: context.expose_provenance(),
        report,
        multi: tag.is_none() && flags & FI_MULTI_RECV != 0,
        claimed: tag.is_some() && flags & FI_CLAIM != 0,
    }))
}

#[inline(always)]
fn receive_plain(
    ep: *mut fid_ep,
    memory: Span,
    from: u64,
    tag: Option<(u64, u64)>,
    context: *mut c_void,
) -> isize {
    let flags = object!(ep, Endpoint).rx_flags;
    do_receive(ep, memory, from, tag, context, flags)
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn recv(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _: *mut c_void,
    from: u64,
    context: *mut c_void,
) -> isize {
    receive_plain(ep, Span::new(buf, len), from, None, context)
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn recvv(
    ep: *mut fid_ep,
    iov: *const iovec,
    _: *mut *mut c_void,
    count: usize,
    from: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the program passes so many entries.
    let memory = unsafe { Span::of_iov(iov, count) };
    receive_plain(ep, memory, from, None, context)
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn recvmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
    if flags & (FI_PEEK | FI_CLAIM | FI_DISCARD) != 0 {
        return -(FI_EBADFLAGS as isize);
    }
    let msg = given!(msg);
    // SAFETY: the program passes so many entries.
    let memory = unsafe { Span::of_iov(msg.msg_iov, msg.iov_count) };
    do_receive(ep, memory, msg.addr, None, msg.context, flags)
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn send(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _: *mut c_void,
    to: u64,
    context: *mut c_void,
) -> isize {
    send_plain(ep, Span::new(buf, len), Letter { to, tag: None, data: None, context })
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn sendv(
    ep: *mut fid_ep,
    iov: *const iovec,
    _: *mut *mut c_void,
    count: usize,
    to: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the program passes so many entries.
    let memory = unsafe { Span::of_iov(iov, count) };
    send_plain(ep, memory, Letter { to, tag: None, data: None, context })
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn sendmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
    let msg = given!(msg);
    // SAFETY: the program passes so many entries.
    let memory = unsafe { Span::of_iov(msg.msg_iov, msg.iov_count) };
    let data = (flags & FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
    do_send(ep, memory, Letter { to: msg.addr, tag: None, data, context: msg.context }, flags)
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn inject(ep: *mut fid_ep, buf: *const c_void, len: usize, to: u64) -> isize {
    send_injected(ep, buf, len, Letter { to, tag: None, data: None, context: core::ptr::null_mut() })
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn senddata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _: *mut c_void,
    data: u64,
    to: u64,
    context: *mut c_void,
) -> isize {
    send_plain(ep, Span::new(buf, len), Letter { to, tag: None, data: Some(data), context })
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn injectdata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    to: u64,
) -> isize {
    send_injected(ep, buf, len, Letter { to, tag: None, data: Some(data), context: core::ptr::null_mut() })
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn trecv(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _: *mut c_void,
    from: u64,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    receive_plain(ep, Span::new(buf, len), from, Some((tag, ignore)), context)
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn trecvv(
    ep: *mut fid_ep,
    iov: *const iovec,
    _: *mut *mut c_void,
    count: usize,
    from: u64,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the program passes so many entries.
    let memory = unsafe { Span::of_iov(iov, count) };
    receive_plain(ep, memory, from, Some((tag, ignore)), context)
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn trecvmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> isize {
    let msg = given!(msg);
    let context = msg.context.expose_provenance();
    let engine = &mut object!(ep, Endpoint).engine;
    let (claim, discard) = (flags & FI_CLAIM != 0, flags & FI_DISCARD != 0);
    if flags & FI_PEEK != 0 {
        let from = if msg.addr == FI_ADDR_NOTAVAIL { NO_ADDRESS } else { msg.addr };
        engine.peek(Peek { from, tag: msg.tag, ignore: msg.ignore, context, claim, discard });
        return 0;
    }
    if discard {
        let found = claim && engine.discard_claimed(context);
        return if found { 0 } else { -(FI_EINVAL as isize) };
    }
    // SAFETY: the program passes so many entries.
    let memory = unsafe { Span::of_iov(msg.msg_iov, msg.iov_count) };
    do_receive(ep, memory, msg.addr, Some((msg.tag, msg.ignore)), msg.context, flags)
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn tsend(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _: *mut c_void,
    to: u64,
    tag: u64,
    context: *mut c_void,
) -> isize {
    send_plain(ep, Span::new(buf, len), Letter { to, tag: Some(tag), data: None, context })
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn tsendv(
    ep: *mut fid_ep,
    iov: *const iovec,
    _: *mut *mut c_void,
    count: usize,
    to: u64,
    tag: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the program passes so many entries.
    let memory = unsafe { Span::of_iov(iov, count) };
    send_plain(ep, memory, Letter { to, tag: Some(tag), data: None, context })
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn tsendmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> isize {
    let msg = given!(msg);
    // SAFETY: the program passes so many entries.
    let memory = unsafe { Span::of_iov(msg.msg_iov, msg.iov_count) };
    let data = (flags & FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
    do_send(ep, memory, Letter { to: msg.addr, tag: Some(msg.tag), data, context: msg.context }, flags)
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn tinject(ep: *mut fid_ep, buf: *const c_void, len: usize, to: u64, tag: u64) -> isize {
    send_injected(ep, buf, len, Letter { to, tag: Some(tag), data: None, context: core::ptr::null_mut() })
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn tsenddata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _: *mut c_void,
    data: u64,
    to: u64,
    tag: u64,
    context: *mut c_void,
) -> isize {
    send_plain(ep, Span::new(buf, len), Letter { to, tag: Some(tag), data: Some(data), context })
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn tinjectdata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    to: u64,
    tag: u64,
) -> isize {
    let letter = Letter { to, tag: Some(tag), data: Some(data), context: core::ptr::null_mut() };
    send_injected(ep, buf, len, letter)
}
