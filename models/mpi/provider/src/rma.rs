//! Reads and writes of peers' memory.

use core::ffi::c_void;
use core::ptr;

use tombolo_mpi_fabric::{Memory, Read, Write};

use crate::abi::*;
use crate::endpoint::Endpoint;
use crate::entry::{deref_param, entries, object, post_status};
use crate::span::Span;

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

/// The peer's memory, and the context of the operation.
#[derive(Clone, Copy)]
struct Target {
    peer: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
}

fn do_read(ep: *mut fid_ep, memory: Span, target: Target, flags: u64) -> isize {
    let endpoint = object!(ep, Endpoint);
    let report = endpoint.reports_send(flags);
    let Target { peer: from, address, key, context } = target;
    post_status(endpoint.engine.read(Read {
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
    target: Target,
    data: Option<u64>,
    flags: u64,
    report: bool,
) -> isize {
    let endpoint = object!(ep, Endpoint);
    let inject = flags & FI_INJECT != 0;
    if inject && memory.len() > tombolo_mpi_fabric::INJECT_BYTES {
        return -(FI_EMSGSIZE as isize);
    }
    let Target { peer: to, address, key, context } = target;
    let context = context.expose_provenance();
    post_status(endpoint.engine.write(Write { to, key, address, data, memory, context, report, inject }))
}

fn write_plain(ep: *mut fid_ep, memory: Span, target: Target, data: Option<u64>) -> isize {
    let endpoint = object!(ep, Endpoint);
    let flags = endpoint.tx_flags;
    let report = endpoint.reports_send(flags);
    do_write(ep, memory, target, data, flags, report)
}

fn read_plain(ep: *mut fid_ep, memory: Span, target: Target) -> isize {
    let flags = object!(ep, Endpoint).tx_flags;
    do_read(ep, memory, target, flags)
}

/// Returns the local memory and the target of a message, if it has exactly one target of the same length.
fn parse_msg(msg: &fi_msg_rma) -> Option<(Span, Target)> {
    if msg.rma_iov_count != 1 {
        return None;
    }
    let remote = deref_param!(msg.rma_iov);
    // SAFETY: the program passes an array of `iov_count` entries.
    let memory = unsafe { Span::from_iov(msg.msg_iov, msg.iov_count) };
    let target = Target { peer: msg.addr, address: remote.addr, key: remote.key, context: msg.context };
    (memory.len() == remote.len).then_some((memory, target))
}

entries! { fid_ep:
    fn read(
        ep, buf: *mut c_void, len: usize, _desc: *mut c_void, peer: u64, address: u64, key: u64, context: *mut c_void,
    ) -> isize {
        read_plain(ep, Span::new(buf, len), Target { peer, address, key, context })
    }

    fn readv(
        ep, iov: *const iovec, _desc: *mut *mut c_void, count: usize, peer: u64, address: u64, key: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the program passes an array of `count` entries.
        let memory = unsafe { Span::from_iov(iov, count) };
        read_plain(ep, memory, Target { peer, address, key, context })
    }

    fn readmsg(ep, msg: *const fi_msg_rma, flags: u64) -> isize {
        match parse_msg(deref_param!(msg)) {
            Some((memory, target)) => do_read(ep, memory, target, flags),
            None => -(FI_EINVAL as isize),
        }
    }

    fn write(
        ep, buf: *const c_void, len: usize, _desc: *mut c_void, peer: u64, address: u64, key: u64, context: *mut c_void,
    ) -> isize {
        write_plain(ep, Span::new(buf, len), Target { peer, address, key, context }, None)
    }

    fn writev(
        ep, iov: *const iovec, _desc: *mut *mut c_void, count: usize, peer: u64, address: u64, key: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the program passes an array of `count` entries.
        let memory = unsafe { Span::from_iov(iov, count) };
        write_plain(ep, memory, Target { peer, address, key, context }, None)
    }

    fn writemsg(ep, msg: *const fi_msg_rma, flags: u64) -> isize {
        let msg = deref_param!(msg);
        let Some((memory, target)) = parse_msg(msg) else { return -(FI_EINVAL as isize) };
        let data = (flags & FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
        let report = object!(ep, Endpoint).reports_send(flags);
        do_write(ep, memory, target, data, flags, report)
    }

    fn inject(ep, buf: *const c_void, len: usize, peer: u64, address: u64, key: u64) -> isize {
        let target = Target { peer, address, key, context: ptr::null_mut() };
        do_write(ep, Span::new(buf, len), target, None, FI_INJECT, false)
    }

    fn writedata(
        ep, buf: *const c_void, len: usize, _desc: *mut c_void, data: u64, peer: u64, address: u64, key: u64,
        context: *mut c_void,
    ) -> isize {
        write_plain(ep, Span::new(buf, len), Target { peer, address, key, context }, Some(data))
    }

    fn injectdata(ep, buf: *const c_void, len: usize, data: u64, peer: u64, address: u64, key: u64) -> isize {
        let target = Target { peer, address, key, context: ptr::null_mut() };
        do_write(ep, Span::new(buf, len), target, Some(data), FI_INJECT, false)
    }
}
