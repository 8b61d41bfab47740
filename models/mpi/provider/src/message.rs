//! Tagged and untagged messages.

use core::ffi::c_void;
use core::ptr;

use tombolo_mpi_fabric::{Memory, NO_ADDRESS, Peek, Receive, Send};

use crate::abi::*;
use crate::endpoint::Endpoint;
use crate::entry::{deref_param, entries, object, post_status};
use crate::span::Span;

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

/// Parameters of a message besides its bytes.
#[derive(Clone, Copy)]
struct MessageParams {
    to: u64,
    tag: Option<u64>,
    data: Option<u64>,
    context: *mut c_void,
}

#[inline(always)]
fn do_send(ep: *mut fid_ep, memory: Span, params: MessageParams, flags: u64) -> isize {
    let endpoint = object!(ep, Endpoint);
    let inject = flags & FI_INJECT != 0;
    if inject && memory.len() > tombolo_mpi_fabric::INJECT_BYTES {
        return -(FI_EMSGSIZE as isize);
    }
    let report = endpoint.reports_send(flags);
    post_status(endpoint.engine.send(Send {
        to: params.to,
        tag: params.tag,
        data: params.data,
        memory,
        context: params.context.expose_provenance(),
        report,
        inject,
        delivery: flags & FI_DELIVERY_COMPLETE != 0,
    }))
}

/// Sends with the default flags of the endpoint.
#[inline(always)]
fn send_plain(ep: *mut fid_ep, memory: Span, params: MessageParams) -> isize {
    let flags = object!(ep, Endpoint).tx_flags;
    do_send(ep, memory, params, flags)
}

/// Sends without a completion; the program may reuse the memory at once.
#[inline(always)]
fn send_injected(ep: *mut fid_ep, buf: *const c_void, len: usize, params: MessageParams) -> isize {
    let endpoint = object!(ep, Endpoint);
    if len > tombolo_mpi_fabric::INJECT_BYTES {
        return -(FI_EMSGSIZE as isize);
    }
    post_status(endpoint.engine.send(Send {
        to: params.to,
        tag: params.tag,
        data: params.data,
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
    post_status(endpoint.engine.receive(Receive {
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

/// Defines the table entries for tagged or untagged messages. Tagged sends take a tag, tagged receives a tag
/// and a mask of bits to ignore.
macro_rules! transfers {
    (
        $recv:ident $recvv:ident $send:ident $sendv:ident $inject:ident $senddata:ident $injectdata:ident,
        ($($tag:ident)?) => $sent:expr,
        ($($matched:ident)*) => $match:expr
    ) => {
        entries! { fid_ep:
            fn $recv(
                ep, buf: *mut c_void, len: usize, _desc: *mut c_void, from: u64 $(, $matched: u64)*, context: *mut c_void,
            ) -> isize {
                receive_plain(ep, Span::new(buf, len), from, $match, context)
            }

            fn $recvv(
                ep, iov: *const iovec, _desc: *mut *mut c_void, count: usize, from: u64 $(, $matched: u64)*,
                context: *mut c_void,
            ) -> isize {
                // SAFETY: the program passes an array of `count` entries.
                let memory = unsafe { Span::from_iov(iov, count) };
                receive_plain(ep, memory, from, $match, context)
            }

            fn $send(
                ep, buf: *const c_void, len: usize, _desc: *mut c_void, to: u64 $(, $tag: u64)?, context: *mut c_void,
            ) -> isize {
                send_plain(ep, Span::new(buf, len), MessageParams { to, tag: $sent, data: None, context })
            }

            fn $sendv(
                ep, iov: *const iovec, _desc: *mut *mut c_void, count: usize, to: u64 $(, $tag: u64)?, context: *mut c_void,
            ) -> isize {
                // SAFETY: the program passes an array of `count` entries.
                let memory = unsafe { Span::from_iov(iov, count) };
                send_plain(ep, memory, MessageParams { to, tag: $sent, data: None, context })
            }

            fn $inject(ep, buf: *const c_void, len: usize, to: u64 $(, $tag: u64)?) -> isize {
                send_injected(ep, buf, len, MessageParams { to, tag: $sent, data: None, context: ptr::null_mut() })
            }

            fn $senddata(
                ep, buf: *const c_void, len: usize, _desc: *mut c_void, data: u64, to: u64 $(, $tag: u64)?,
                context: *mut c_void,
            ) -> isize {
                send_plain(ep, Span::new(buf, len), MessageParams { to, tag: $sent, data: Some(data), context })
            }

            fn $injectdata(ep, buf: *const c_void, len: usize, data: u64, to: u64 $(, $tag: u64)?) -> isize {
                send_injected(ep, buf, len, MessageParams { to, tag: $sent, data: Some(data), context: ptr::null_mut() })
            }
        }
    };
}

transfers!(recv recvv send sendv inject senddata injectdata, () => None, () => None);
transfers!(
    trecv trecvv tsend tsendv tinject tsenddata tinjectdata,
    (tag) => Some(tag),
    (tag ignore) => Some((tag, ignore))
);

entries! { fid_ep:
    fn recvmsg(ep, msg: *const fi_msg, flags: u64) -> isize {
        if flags & (FI_PEEK | FI_CLAIM | FI_DISCARD) != 0 {
            return -(FI_EBADFLAGS as isize);
        }
        let msg = deref_param!(msg);
        // SAFETY: the program passes an array of `iov_count` entries.
        let memory = unsafe { Span::from_iov(msg.msg_iov, msg.iov_count) };
        do_receive(ep, memory, msg.addr, None, msg.context, flags)
    }

    fn sendmsg(ep, msg: *const fi_msg, flags: u64) -> isize {
        let msg = deref_param!(msg);
        // SAFETY: the program passes an array of `iov_count` entries.
        let memory = unsafe { Span::from_iov(msg.msg_iov, msg.iov_count) };
        let data = (flags & FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
        do_send(ep, memory, MessageParams { to: msg.addr, tag: None, data, context: msg.context }, flags)
    }

    fn trecvmsg(ep, msg: *const fi_msg_tagged, flags: u64) -> isize {
        let msg = deref_param!(msg);
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
        // SAFETY: the program passes an array of `iov_count` entries.
        let memory = unsafe { Span::from_iov(msg.msg_iov, msg.iov_count) };
        do_receive(ep, memory, msg.addr, Some((msg.tag, msg.ignore)), msg.context, flags)
    }

    fn tsendmsg(ep, msg: *const fi_msg_tagged, flags: u64) -> isize {
        let msg = deref_param!(msg);
        // SAFETY: the program passes an array of `iov_count` entries.
        let memory = unsafe { Span::from_iov(msg.msg_iov, msg.iov_count) };
        let data = (flags & FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
        do_send(ep, memory, MessageParams { to: msg.addr, tag: Some(msg.tag), data, context: msg.context }, flags)
    }
}
