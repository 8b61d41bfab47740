//! Operations on numbers in memory of peers.

use core::ffi::{c_int, c_void};
use core::ptr;

use tombolo_fabric::{Atomic, AtomicOp, Memory};

use crate::abi::*;
use crate::domain::atomic_limit;
use crate::endpoint::Endpoint;
use crate::span::Span;
use crate::{begun, given, object};

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

/// Numbers by address.
#[derive(Clone, Copy)]
struct Numbers {
    iov: *const fi_ioc,
    count: usize,
}

/// Where, what, and what is told of it.
#[derive(Clone, Copy)]
struct Place {
    peer: u64,
    address: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
    context: *mut c_void,
}

/// Begins an operation. Each vector that is given has as many entries as it says.
fn begin(
    ep: *mut fid_ep,
    operands: Numbers,
    compares: Option<Numbers>,
    result: Option<Numbers>,
    place: Place,
    report: bool,
) -> isize {
    let Some((datatype, op, limit)) = atomic_limit(place.datatype, place.op) else {
        return -(FI_EOPNOTSUPP as isize);
    };
    if op.compares() != compares.is_some() || (op == AtomicOp::Read && result.is_none()) {
        return -(FI_EOPNOTSUPP as isize);
    }
    // SAFETY: the program passes so many entries.
    let span = |numbers: Numbers| unsafe { Span::of_ioc(numbers.iov, numbers.count, datatype.bytes()) };
    let result = result.map(span);
    let (operands, length) = match op {
        // What is read into says how much.
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
    let Place { peer: to, address, key, context, .. } = place;
    begun(object!(ep, Endpoint).engine.atomic(Atomic {
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

fn of_message(msg: &fi_msg_atomic) -> Option<(Numbers, Place)> {
    if msg.rma_iov_count != 1 {
        return None;
    }
    let there = given!(msg.rma_iov);
    let place = Place {
        peer: msg.addr,
        address: there.addr,
        key: there.key,
        datatype: msg.datatype,
        op: msg.op,
        context: msg.context,
    };
    Some((Numbers { iov: msg.msg_iov, count: msg.iov_count }, place))
}

fn begin_message(
    ep: *mut fid_ep,
    msg: &fi_msg_atomic,
    compares: Option<Numbers>,
    result: Option<Numbers>,
    flags: u64,
) -> isize {
    let Some((operands, place)) = of_message(msg) else { return -(FI_EINVAL as isize) };
    let report = object!(ep, Endpoint).reports_send(flags);
    begin(ep, operands, compares, result, place, report)
}

macro_rules! one {
    ($buf:expr, $count:expr) => {
        fi_ioc { addr: $buf.cast_mut(), count: $count }
    };
}

fn of_one(ioc: &fi_ioc) -> Numbers {
    Numbers { iov: ioc, count: 1 }
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn write(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _: *mut c_void,
    peer: u64,
    address: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
    context: *mut c_void,
) -> isize {
    let place = Place { peer, address, key, datatype, op, context };
    begin(ep, of_one(&one!(buf, count)), None, None, place, reports_plain(ep))
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn writev(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    _: *mut *mut c_void,
    count: usize,
    peer: u64,
    address: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
    context: *mut c_void,
) -> isize {
    let place = Place { peer, address, key, datatype, op, context };
    begin(ep, Numbers { iov, count }, None, None, place, reports_plain(ep))
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn writemsg(ep: *mut fid_ep, msg: *const fi_msg_atomic, flags: u64) -> isize {
    begin_message(ep, given!(msg), None, None, flags)
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn inject(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    peer: u64,
    address: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
) -> isize {
    let place = Place { peer, address, key, datatype, op, context: ptr::null_mut() };
    begin(ep, of_one(&one!(buf, count)), None, None, place, false)
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn readwrite(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _: *mut c_void,
    result: *mut c_void,
    _: *mut c_void,
    peer: u64,
    address: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
    context: *mut c_void,
) -> isize {
    let place = Place { peer, address, key, datatype, op, context };
    let (operands, result) = (one!(buf, count), fi_ioc { addr: result, count });
    begin(ep, of_one(&operands), None, Some(of_one(&result)), place, reports_plain(ep))
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn readwritev(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    _: *mut *mut c_void,
    count: usize,
    resultv: *const fi_ioc,
    _: *mut *mut c_void,
    result_count: usize,
    peer: u64,
    address: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
    context: *mut c_void,
) -> isize {
    let place = Place { peer, address, key, datatype, op, context };
    let result = Numbers { iov: resultv, count: result_count };
    begin(ep, Numbers { iov, count }, None, Some(result), place, reports_plain(ep))
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn readwritemsg(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    resultv: *const fi_ioc,
    _: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    let result = Numbers { iov: resultv, count: result_count };
    begin_message(ep, given!(msg), None, Some(result), flags)
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn compwrite(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _: *mut c_void,
    compare: *const c_void,
    _: *mut c_void,
    result: *mut c_void,
    _: *mut c_void,
    peer: u64,
    address: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
    context: *mut c_void,
) -> isize {
    let place = Place { peer, address, key, datatype, op, context };
    let (operands, compares) = (one!(buf, count), one!(compare, count));
    let result = fi_ioc { addr: result, count };
    begin(ep, of_one(&operands), Some(of_one(&compares)), Some(of_one(&result)), place, reports_plain(ep))
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn compwritev(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    _: *mut *mut c_void,
    count: usize,
    comparev: *const fi_ioc,
    _: *mut *mut c_void,
    compare_count: usize,
    resultv: *const fi_ioc,
    _: *mut *mut c_void,
    result_count: usize,
    peer: u64,
    address: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
    context: *mut c_void,
) -> isize {
    let place = Place { peer, address, key, datatype, op, context };
    let compares = Numbers { iov: comparev, count: compare_count };
    let result = Numbers { iov: resultv, count: result_count };
    begin(ep, Numbers { iov, count }, Some(compares), Some(result), place, reports_plain(ep))
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn compwritemsg(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    comparev: *const fi_ioc,
    _: *mut *mut c_void,
    compare_count: usize,
    resultv: *const fi_ioc,
    _: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    let compares = Numbers { iov: comparev, count: compare_count };
    let result = Numbers { iov: resultv, count: result_count };
    begin_message(ep, given!(msg), Some(compares), Some(result), flags)
}

fn valid(datatype: c_int, op: c_int, count: *mut usize, fits: impl Fn(AtomicOp) -> bool) -> c_int {
    match atomic_limit(datatype, op).filter(|(_, op, _)| fits(*op)) {
        Some((.., limit)) => {
            // SAFETY: the program passes where the answer goes, or null.
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

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn writevalid(_: *mut fid_ep, datatype: c_int, op: c_int, count: *mut usize) -> c_int {
    valid(datatype, op, count, |op| !op.compares() && op != AtomicOp::Read)
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn readwritevalid(_: *mut fid_ep, datatype: c_int, op: c_int, count: *mut usize) -> c_int {
    valid(datatype, op, count, |op| !op.compares())
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn compwritevalid(_: *mut fid_ep, datatype: c_int, op: c_int, count: *mut usize) -> c_int {
    valid(datatype, op, count, AtomicOp::compares)
}
