//! Reading and writing memory of peers.

use core::ffi::c_void;
use core::ptr;

use tombolo_fabric::{Memory, Read, Write};

use crate::abi::*;
use crate::endpoint::Endpoint;
use crate::span::Span;
use crate::{begun, given, object};

pub(crate) static OPS: fi_ops_rma = fi_ops_rma {
    size: size_of::<fi_ops_rma>(),
    read,
    readv,
    readmsg,
    write,
    writev,
    writemsg,
    inject,
    writedata,
    injectdata,
};

/// Where, and what is told of it.
#[derive(Clone, Copy)]
struct Place {
    peer: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
}

fn do_read(ep: *mut fid_ep, memory: Span, place: Place, flags: u64) -> isize {
    let endpoint = object!(ep, Endpoint);
    let report = endpoint.reports_send(flags);
    let Place { peer: from, address, key, context } = place;
    begun(endpoint.engine.read(Read {
        from,
        key,
        address,
        memory,
        context: context.expose_provenance(),
        report,
    }))
}

fn do_write(
    ep: *mut fid_ep,
    memory: Span,
    place: Place,
    data: Option<u64>,
    flags: u64,
    report: bool,
) -> isize {
    let endpoint = object!(ep, Endpoint);
    let inject = flags & FI_INJECT != 0;
    if inject && memory.len() > tombolo_fabric::INJECT_BYTES {
        return -(FI_EMSGSIZE as isize);
    }
    let Place { peer: to, address, key, context } = place;
    let context = context.expose_provenance();
    begun(endpoint.engine.write(Write { to, key, address, data, memory, context, report, inject }))
}

fn write_plain(ep: *mut fid_ep, memory: Span, place: Place, data: Option<u64>) -> isize {
    let endpoint = object!(ep, Endpoint);
    let flags = endpoint.tx_flags;
    let report = endpoint.reports_send(flags);
    do_write(ep, memory, place, data, flags, report)
}

fn read_plain(ep: *mut fid_ep, memory: Span, place: Place) -> isize {
    let flags = object!(ep, Endpoint).tx_flags;
    do_read(ep, memory, place, flags)
}

/// The memory of a structure and where it belongs, if it belongs to one place.
fn of_message(msg: &fi_msg_rma) -> Option<(Span, Place)> {
    if msg.rma_iov_count != 1 {
        return None;
    }
    let there = given!(msg.rma_iov);
    // SAFETY: the program passes so many entries.
    let memory = unsafe { Span::of_iov(msg.msg_iov, msg.iov_count) };
    let place = Place { peer: msg.addr, address: there.addr, key: there.key, context: msg.context };
    (memory.len() == there.len).then_some((memory, place))
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn read(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _: *mut c_void,
    peer: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    read_plain(ep, Span::new(buf, len), Place { peer, address, key, context })
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn readv(
    ep: *mut fid_ep,
    iov: *const iovec,
    _: *mut *mut c_void,
    count: usize,
    peer: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the program passes so many entries.
    let memory = unsafe { Span::of_iov(iov, count) };
    read_plain(ep, memory, Place { peer, address, key, context })
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn readmsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize {
    match of_message(given!(msg)) {
        Some((memory, place)) => do_read(ep, memory, place, flags),
        None => -(FI_EINVAL as isize),
    }
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn write(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _: *mut c_void,
    peer: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    write_plain(ep, Span::new(buf, len), Place { peer, address, key, context }, None)
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn writev(
    ep: *mut fid_ep,
    iov: *const iovec,
    _: *mut *mut c_void,
    count: usize,
    peer: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the program passes so many entries.
    let memory = unsafe { Span::of_iov(iov, count) };
    write_plain(ep, memory, Place { peer, address, key, context }, None)
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn writemsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize {
    let msg = given!(msg);
    let Some((memory, place)) = of_message(msg) else { return -(FI_EINVAL as isize) };
    let data = (flags & FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
    let report = object!(ep, Endpoint).reports_send(flags);
    do_write(ep, memory, place, data, flags, report)
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn inject(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    peer: u64,
    address: u64,
    key: u64,
) -> isize {
    let place = Place { peer, address, key, context: ptr::null_mut() };
    do_write(ep, Span::new(buf, len), place, None, FI_INJECT, false)
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn writedata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _: *mut c_void,
    data: u64,
    peer: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    write_plain(ep, Span::new(buf, len), Place { peer, address, key, context }, Some(data))
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn injectdata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    peer: u64,
    address: u64,
    key: u64,
) -> isize {
    let place = Place { peer, address, key, context: ptr::null_mut() };
    do_write(ep, Span::new(buf, len), place, Some(data), FI_INJECT, false)
}
