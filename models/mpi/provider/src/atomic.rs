//! Atomic operations on memory of peers.

use core::ffi::{c_int, c_void};
use core::ptr;

use tombolo_mpi_fabric::{Atomic, AtomicOp, Datatype, MAX_ATOMIC_BYTES, Memory};

use crate::abi::*;
use crate::endpoint::Endpoint;
use crate::entry::{deref_param, entries, object, post_status};
use crate::span::Span;

pub(crate) static OPS: fi_ops_atomic = fi_ops_atomic {
    size: size_of::<fi_ops_atomic>(),
    write,
    writev,
    writemsg,
    inject,
    readwrite,
    readwritev,
    readwritemsg,
    compwrite,
    compwritev,
    compwritemsg,
    writevalid,
    readwritevalid,
    compwritevalid,
};

/// A program's vector of numbers.
#[derive(Clone, Copy)]
struct IocVector {
    iov: *const fi_ioc,
    count: usize,
}

/// The peer's numbers, the operation on them, and its context.
#[derive(Clone, Copy)]
struct Target {
    peer: u64,
    address: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
    context: *mut c_void,
}

/// Begins an operation. The count of each vector must match its array.
fn post_atomic(
    ep: *mut fid_ep,
    operands: IocVector,
    compares: Option<IocVector>,
    result: Option<IocVector>,
    target: Target,
    report: bool,
) -> isize {
    let Some((datatype, op, limit)) = atomic_limit(target.datatype, target.op) else {
        return -(FI_EOPNOTSUPP as isize);
    };
    if op.compares() != compares.is_some() || (op == AtomicOp::Read && result.is_none()) {
        return -(FI_EOPNOTSUPP as isize);
    }
    // SAFETY: the program passes an array of `numbers.count` entries.
    let span = |numbers: IocVector| unsafe { Span::from_ioc(numbers.iov, numbers.count, datatype.bytes()) };
    let result = result.map(span);
    let (operands, length) = match op {
        // The length of the result buffer determines how many numbers are read.
        AtomicOp::Read => (Box::default(), result.as_ref().map_or(0, Span::len)),
        _ => {
            let operands = span(operands).to_boxed();
            let length = operands.len();
            (operands, length)
        }
    };
    let compares = compares.map(|compares| span(compares).to_boxed());
    let count = length / datatype.bytes();
    let fits = |other: usize| other == length;
    let matched = compares.as_ref().is_none_or(|compares| fits(compares.len()))
        && result.as_ref().is_none_or(|result| fits(result.len()));
    if !matched || count > limit {
        return -(FI_EINVAL as isize);
    }
    let Target { peer: to, address, key, context, .. } = target;
    post_status(object!(ep, Endpoint).engine.atomic(Atomic {
        to,
        key,
        address,
        op,
        datatype,
        count,
        operands,
        compares,
        result,
        context: context.expose_provenance(),
        report,
    }))
}

fn reports_plain(ep: *mut fid_ep) -> bool {
    let endpoint = object!(ep, Endpoint);
    endpoint.reports_send(endpoint.tx_flags)
}

fn parse_msg(msg: &fi_msg_atomic) -> Option<(IocVector, Target)> {
    if msg.rma_iov_count != 1 {
        return None;
    }
    let remote = deref_param!(msg.rma_iov);
    let target = Target {
        peer: msg.addr,
        address: remote.addr,
        key: remote.key,
        datatype: msg.datatype,
        op: msg.op,
        context: msg.context,
    };
    Some((IocVector { iov: msg.msg_iov, count: msg.iov_count }, target))
}

fn post_atomic_msg(
    ep: *mut fid_ep,
    msg: &fi_msg_atomic,
    compares: Option<IocVector>,
    result: Option<IocVector>,
    flags: u64,
) -> isize {
    let Some((operands, target)) = parse_msg(msg) else { return -(FI_EINVAL as isize) };
    let report = object!(ep, Endpoint).reports_send(flags);
    post_atomic(ep, operands, compares, result, target, report)
}

macro_rules! one {
    ($buf:expr, $count:expr) => {
        fi_ioc { addr: $buf.cast_mut(), count: $count }
    };
}

fn single(ioc: &fi_ioc) -> IocVector {
    IocVector { iov: ioc, count: 1 }
}

entries! { fid_ep:
    fn write(
        ep, buf: *const c_void, count: usize, _desc: *mut c_void, peer: u64, address: u64, key: u64, datatype: c_int,
        op: c_int, context: *mut c_void,
    ) -> isize {
        let target = Target { peer, address, key, datatype, op, context };
        post_atomic(ep, single(&one!(buf, count)), None, None, target, reports_plain(ep))
    }

    fn writev(
        ep, iov: *const fi_ioc, _desc: *mut *mut c_void, count: usize, peer: u64, address: u64, key: u64,
        datatype: c_int, op: c_int, context: *mut c_void,
    ) -> isize {
        let target = Target { peer, address, key, datatype, op, context };
        post_atomic(ep, IocVector { iov, count }, None, None, target, reports_plain(ep))
    }

    fn writemsg(ep, msg: *const fi_msg_atomic, flags: u64) -> isize {
        post_atomic_msg(ep, deref_param!(msg), None, None, flags)
    }

    fn inject(
        ep, buf: *const c_void, count: usize, peer: u64, address: u64, key: u64, datatype: c_int, op: c_int,
    ) -> isize {
        let target = Target { peer, address, key, datatype, op, context: ptr::null_mut() };
        post_atomic(ep, single(&one!(buf, count)), None, None, target, false)
    }

    fn readwrite(
        ep, buf: *const c_void, count: usize, _desc: *mut c_void, result: *mut c_void, _result_desc: *mut c_void,
        peer: u64, address: u64, key: u64, datatype: c_int, op: c_int, context: *mut c_void,
    ) -> isize {
        let target = Target { peer, address, key, datatype, op, context };
        let (operands, result) = (one!(buf, count), fi_ioc { addr: result, count });
        post_atomic(ep, single(&operands), None, Some(single(&result)), target, reports_plain(ep))
    }

    fn readwritev(
        ep, iov: *const fi_ioc, _desc: *mut *mut c_void, count: usize, resultv: *const fi_ioc,
        _result_desc: *mut *mut c_void, result_count: usize, peer: u64, address: u64, key: u64, datatype: c_int,
        op: c_int, context: *mut c_void,
    ) -> isize {
        let target = Target { peer, address, key, datatype, op, context };
        let result = IocVector { iov: resultv, count: result_count };
        post_atomic(ep, IocVector { iov, count }, None, Some(result), target, reports_plain(ep))
    }

    fn readwritemsg(
        ep, msg: *const fi_msg_atomic, resultv: *const fi_ioc, _result_desc: *mut *mut c_void, result_count: usize,
        flags: u64,
    ) -> isize {
        let result = IocVector { iov: resultv, count: result_count };
        post_atomic_msg(ep, deref_param!(msg), None, Some(result), flags)
    }

    fn compwrite(
        ep, buf: *const c_void, count: usize, _desc: *mut c_void, compare: *const c_void, _compare_desc: *mut c_void,
        result: *mut c_void, _result_desc: *mut c_void, peer: u64, address: u64, key: u64, datatype: c_int, op: c_int,
        context: *mut c_void,
    ) -> isize {
        let target = Target { peer, address, key, datatype, op, context };
        let (operands, compares) = (one!(buf, count), one!(compare, count));
        let result = fi_ioc { addr: result, count };
        let (compares, result) = (Some(single(&compares)), Some(single(&result)));
        post_atomic(ep, single(&operands), compares, result, target, reports_plain(ep))
    }

    fn compwritev(
        ep, iov: *const fi_ioc, _desc: *mut *mut c_void, count: usize, comparev: *const fi_ioc,
        _compare_desc: *mut *mut c_void, compare_count: usize, resultv: *const fi_ioc, _result_desc: *mut *mut c_void,
        result_count: usize, peer: u64, address: u64, key: u64, datatype: c_int, op: c_int, context: *mut c_void,
    ) -> isize {
        let target = Target { peer, address, key, datatype, op, context };
        let compares = IocVector { iov: comparev, count: compare_count };
        let result = IocVector { iov: resultv, count: result_count };
        post_atomic(ep, IocVector { iov, count }, Some(compares), Some(result), target, reports_plain(ep))
    }

    fn compwritemsg(
        ep, msg: *const fi_msg_atomic, comparev: *const fi_ioc, _compare_desc: *mut *mut c_void, compare_count: usize,
        resultv: *const fi_ioc, _result_desc: *mut *mut c_void, result_count: usize, flags: u64,
    ) -> isize {
        let compares = IocVector { iov: comparev, count: compare_count };
        let result = IocVector { iov: resultv, count: result_count };
        post_atomic_msg(ep, deref_param!(msg), Some(compares), Some(result), flags)
    }

    fn writevalid(_ep, datatype: c_int, op: c_int, count: *mut usize) -> c_int {
        valid(datatype, op, count, |op| !op.compares() && op != AtomicOp::Read)
    }

    fn readwritevalid(_ep, datatype: c_int, op: c_int, count: *mut usize) -> c_int {
        valid(datatype, op, count, |op| !op.compares())
    }

    fn compwritevalid(_ep, datatype: c_int, op: c_int, count: *mut usize) -> c_int {
        valid(datatype, op, count, AtomicOp::compares)
    }
}

fn valid(datatype: c_int, op: c_int, count: *mut usize, fits: impl Fn(AtomicOp) -> bool) -> c_int {
    match atomic_limit(datatype, op).filter(|(_, op, _)| fits(*op)) {
        Some((.., limit)) => {
            // SAFETY: the program passes a valid output pointer or null.
            unsafe {
                if !count.is_null() {
                    *count = limit;
                }
            }
            0
        }
        None => -FI_EOPNOTSUPP,
    }
}

/// Returns the decoded datatype and operation, and the maximum count; `None` for unsupported combinations.
fn atomic_limit(datatype: c_int, op: c_int) -> Option<(Datatype, AtomicOp, usize)> {
    let datatype = Datatype::from_number(u32::try_from(datatype).ok()?)?;
    let op = AtomicOp::from_number(u32::try_from(op).ok()?)?;
    op.supports(datatype).then(|| (datatype, op, MAX_ATOMIC_BYTES / datatype.bytes()))
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
pub(crate) unsafe extern "C" fn query_atomic(
    _: *mut fid_domain,
    datatype: c_int,
    op: c_int,
    attr: *mut fi_atomic_attr,
    flags: u64,
) -> c_int {
    let Some((datatype, op, count)) = atomic_limit(datatype, op) else { return -FI_EOPNOTSUPP };
    let compares = flags & FI_COMPARE_ATOMIC != 0;
    if op.compares() != compares || (op == AtomicOp::Read && flags & FI_FETCH_ATOMIC == 0) {
        return -FI_EOPNOTSUPP;
    }
    // SAFETY: the program passes a valid output pointer.
    unsafe { *attr = fi_atomic_attr { count, size: datatype.bytes() } };
    0
}
