//! `target`: regions and data for devices, which are the job's other nodes. If there are none, or if the
//! program says so, regions run on the host, as OpenMP specifies.

pub mod copy;
mod host;
mod kinds;
pub mod memory;

use std::ffi::{c_int, c_void};
use std::ptr;

use tombolo_omp_team::constructs::tasking;
use tombolo_omp_team::constructs::tasks::{self, Create};
use tombolo_omp_team::device::calls;
use tombolo_omp_team::device::mapping::{Item, What};
use tombolo_omp_team::device::order::{Construct, Order, OrderKind};
use tombolo_omp_team::job::start;
use tombolo_omp_team::primitives::sys;
use tombolo_omp_team::team::depend::Dependence;
use tombolo_omp_team::team::task::Function;
use tombolo_omp_team::team::thread::Thread;

use self::host::Copies;
use crate::tasks::dependences;

/// GCC's device number for a construct without a `device` clause.
const DEFAULT: i32 = -1;
/// GCC's device number for a construct whose `if` clause is false, which runs on the host.
const FALLBACK: i32 = -2;
/// GCC's flags of device constructs.
const NOWAIT: u32 = 1;
const EXIT: u32 = 2;

const ARGUMENT_FOLLOWS: usize = 1 << 7;
const ARGUMENT_ID: usize = 0xff << 8;
const THREAD_LIMIT: usize = 2 << 8;

/// Returns the number of devices besides the host.
pub(crate) fn devices(me: &'static Thread) -> i32 {
    i32::try_from(calls::count(me.root())).unwrap_or(i32::MAX)
}

/// Returns the device number of the node that a thread is on.
pub(crate) fn device_of(me: &'static Thread) -> i32 {
    me.team().only().map_or_else(|| devices(me), |node| i32::try_from(node).unwrap_or(1) - 1)
}

/// Returns the node that executes a construct; `None` for the host.
fn node_of(me: &'static Thread, device: i32, construct: Construct) -> Option<u32> {
    if device == FALLBACK {
        return None;
    }
    let devices = devices(me);
    if devices == 0 {
        if me.root().settings.offload_mandatory {
            sys::fatal(
                "OMP_TARGET_OFFLOAD is mandatory, but the host is the only device; OMP_TOMBOLO_NODES adds nodes as devices",
            );
        }
        return None;
    }
    if me.team().only().is_some() {
        // OpenMP leaves device constructs on a device unspecified.
        return None;
    }
    let number = if device == DEFAULT { me.task().icv().device } else { device };
    match u32::try_from(number) {
        Ok(number) if number.cast_signed() < devices => Some(number + 1),
        Ok(number) if number.cast_signed() == devices => None,
        _ => sys::fatal(format_args!(
            "{}: device {number} does not exist: the other nodes of the job are devices 0 to {}, and the host is {devices}",
            construct.name(),
            devices - 1
        )),
    }
}

/// Returns the thread limit from the arguments of a region, 0 if there is none.
///
/// # Safety
/// `words` is null or ends with a zero word.
unsafe fn thread_limit(mut words: *const usize) -> u32 {
    let mut limit = 0;
    if words.is_null() {
        return limit;
    }
    // SAFETY: guaranteed by the caller.
    unsafe {
        while *words != 0 {
            let word = *words;
            words = words.add(1);
            let value = if word & ARGUMENT_FOLLOWS != 0 {
                words = words.add(1);
                *words.sub(1)
            } else {
                word.cast_signed().wrapping_shr(16).cast_unsigned()
            };
            if word & ARGUMENT_ID == THREAD_LIMIT {
                limit = u32::try_from(value).unwrap_or(0);
            }
        }
    }
    limit
}

/// Waits for the dependences of a construct. It runs immediately afterwards, so no other task waits for it.
///
/// # Safety
/// `words` is null or as passed by GCC.
unsafe fn wait_for(words: *const usize) {
    if words.is_null() {
        return;
    }
    let me = start::current();
    // SAFETY: guaranteed by the caller.
    let depend = unsafe { dependences(words) };
    tasks::wait_for_dependences(me, me.task(), &depend);
}

/// Creates the order that a construct sends to a device; `None` if it has nothing to do, because both can
/// access all of the data in place.
///
/// # Safety
/// Each list has `count` entries, with data of these sizes at these addresses.
unsafe fn order(
    me: &'static Thread,
    (node, construct, kind): (u32, Construct, OrderKind),
    count: usize,
    addresses: *mut *mut c_void,
    (sizes, kinds): (*const usize, *const u16),
) -> Option<&'static Order> {
    let root = me.root();
    // SAFETY: guaranteed by the caller.
    let items = unsafe { kinds::read(root, construct, count, addresses, sizes, kinds) };
    let idle = !root.settings.target_copies
        && root.devices().at(node).is_empty()
        && items.iter().all(|item| item.seen == item.host);
    (kind == OrderKind::Run || !idle).then(|| Order::new(root, node, construct, kind, &items))
}

/// Executes an order and copies results back to memory that only this process has.
///
/// # Safety
/// The data of its items exists.
unsafe fn carry_out(me: &'static Thread, order: &'static Order) {
    order.carry_out(me);
    for item in order.items() {
        // SAFETY: guaranteed by the caller.
        unsafe { kinds::stage_out(item) };
        item.came_back = 0;
    }
}

/// Executes a construct's order and frees it.
///
/// # Safety
/// As [`order`].
unsafe fn carry_out_once(
    me: &'static Thread,
    what: (u32, Construct, OrderKind),
    count: usize,
    addresses: *mut *mut c_void,
    lists: (*const usize, *const u16),
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if let Some(order) = order(me, what, count, addresses, lists) {
            carry_out(me, order);
            order.release(me.store());
        }
    }
}

/// Body of the task of a `target` construct with `nowait`: executes the order, and the task ends with it.
///
/// Exported under a C name, because any worker may run the task and builds agree on the addresses of such
/// functions.
///
/// # Safety
/// `words` are those that `defer` passes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_omp_target_task(words: *mut c_void) {
    // SAFETY: guaranteed by the caller.
    let [event, order] = unsafe { *words.cast::<[usize; 2]>() };
    // SAFETY: orders are in the store, and this one is not freed before it is executed.
    if let Some(order) = unsafe { (order as *const Order).as_ref::<'static>() } {
        order.carry_out_for(start::current(), event);
    }
}

/// Executes an order in a task of its own.
fn defer(me: &'static Thread, order: &'static Order, depend: Option<&[Dependence]>) {
    let mut words = [0, ptr::from_ref(order) as usize];
    let event = words.as_mut_ptr();
    let create = Create {
        function: tombolo_omp_target_task,
        data: event.cast(),
        copy: None,
        size: size_of_val(&words),
        align: align_of::<usize>(),
        deferred: true,
        last: false,
        priority: 0,
        depend,
        event: Some(event),
        bounds: None,
    };
    tasks::create(me, create);
    if depend.is_none() {
        // Without dependences it can start now, which takes no time here.
        tasking::run_newest(me);
    }
}

/// `target`.
///
/// # Safety
/// All pointers are null or as passed by GCC.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_target_ext(
    device: i32,
    function: Function,
    count: usize,
    addresses: *mut *mut c_void,
    sizes: *const usize,
    kinds: *const u16,
    flags: u32,
    depend: *const usize,
    arguments: *const usize,
) {
    let me = start::current();
    // SAFETY: guaranteed by the caller.
    unsafe {
        let limit = thread_limit(arguments);
        let Some(node) = node_of(me, device, Construct::Target) else {
            wait_for(depend);
            let copies = Copies::make(count, addresses, sizes, kinds);
            host::run(function, addresses, limit);
            return copies.end();
        };
        let nowait = flags & NOWAIT != 0;
        if !nowait {
            wait_for(depend);
        }
        let what = (node, Construct::Target, OrderKind::Run);
        let Some(order) = order(me, what, count, addresses, (sizes, kinds)) else { return };
        order.runs(function, limit);
        if nowait && order.items().iter().all(|item| item.seen == item.host) {
            let depend = (!depend.is_null()).then(|| dependences(depend));
            return defer(me, order, depend.as_deref());
        }
        if nowait {
            // Data that only this process has is passed as a copy of its value when the region begins. No
            // other process can make that copy.
            wait_for(depend);
            order.items().iter().for_each(|item| kinds::stage_in(item));
        }
        carry_out(me, order);
        order.release(me.store());
    }
}

/// `target` as called by GCC before 5, on the host.
///
/// # Safety
/// All pointers are null or as passed by GCC.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_target(
    _device: i32,
    function: Function,
    _unused: *const c_void,
    _count: usize,
    addresses: *mut *mut c_void,
    _sizes: *const usize,
    _kinds: *const u8,
) {
    host::run(function, addresses, 0);
}

/// `target data`.
///
/// # Safety
/// All pointers are null or as passed by GCC.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_target_data_ext(
    device: i32,
    count: usize,
    addresses: *mut *mut c_void,
    sizes: *const usize,
    kinds: *const u16,
) {
    let me = start::current();
    // SAFETY: guaranteed by the caller.
    let order = unsafe {
        node_of(me, device, Construct::Data).and_then(|node| {
            order(me, (node, Construct::Data, OrderKind::Begin), count, addresses, (sizes, kinds))
        })
    };
    if let Some(order) = order {
        order.carry_out(me);
        for (index, item) in order.items().iter().enumerate().filter(|(_, item)| item.what == What::Use) {
            // SAFETY: each entry can be written, and the construct's body reads it.
            unsafe { addresses.add(index).write(item.result as *mut c_void) };
        }
    }
    enter_data(me, order);
}

/// Records that the calling thread entered a `target data` region. Without an order, the region's end does
/// nothing.
fn enter_data(me: &'static Thread, order: Option<&'static Order>) {
    let order = order.unwrap_or_else(|| Order::new(me.root(), 0, Construct::Data, OrderKind::End, &[]));
    order.begin_data(me);
}

/// `target data` as called by GCC before 5, on the host.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_target_data(
    _device: i32,
    _unused: *const c_void,
    _count: usize,
    _addresses: *mut *mut c_void,
    _sizes: *const usize,
    _kinds: *const u8,
) {
    enter_data(start::current(), None);
}

/// The end of `target data`.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_target_end_data() {
    let me = start::current();
    let Some(order) = Order::end_data(me) else { return };
    if order.node() > 0 {
        let stage = |item: &mut Item| {
            // SAFETY: the construct's data exists until its end.
            unsafe { kinds::stage_in(item) };
        };
        order.items().iter_mut().for_each(stage);
        order.becomes(OrderKind::End);
        // SAFETY: as above.
        unsafe { carry_out(me, order) };
    }
    order.release(me.store());
}

/// `target update`.
///
/// # Safety
/// All pointers are null or as passed by GCC.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_target_update_ext(
    device: i32,
    count: usize,
    addresses: *mut *mut c_void,
    sizes: *const usize,
    kinds: *const u16,
    _flags: u32,
    depend: *const usize,
) {
    let me = start::current();
    // SAFETY: guaranteed by the caller.
    unsafe {
        wait_for(depend);
        if let Some(node) = node_of(me, device, Construct::Update) {
            carry_out_once(
                me,
                (node, Construct::Update, OrderKind::Update),
                count,
                addresses,
                (sizes, kinds),
            );
        }
    }
}

/// `target update` as called by GCC before 5, on the host.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_target_update(
    _device: i32,
    _unused: *const c_void,
    _count: usize,
    _addresses: *mut *mut c_void,
    _sizes: *const usize,
    _kinds: *const u8,
) {
}

/// `target enter data` and `target exit data`.
///
/// # Safety
/// All pointers are null or as passed by GCC.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_target_enter_exit_data(
    device: i32,
    count: usize,
    addresses: *mut *mut c_void,
    sizes: *const usize,
    kinds: *const u16,
    flags: u32,
    depend: *const usize,
) {
    let me = start::current();
    let (construct, kind) = if flags & EXIT == 0 {
        (Construct::EnterData, OrderKind::Begin)
    } else {
        (Construct::ExitData, OrderKind::Exit)
    };
    // SAFETY: guaranteed by the caller.
    unsafe {
        wait_for(depend);
        if let Some(node) = node_of(me, device, construct) {
            carry_out_once(me, (node, construct, kind), count, addresses, (sizes, kinds));
        }
    }
}

/// Registers code for accelerators. Ignored, because nodes run code for processors only.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_offload_register_ver(
    _version: u32,
    _host: *const c_void,
    _type: c_int,
    _data: *const c_void,
) {
}

/// See [`GOMP_offload_register_ver`].
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_offload_register(_host: *const c_void, _type: c_int, _data: *const c_void) {}

/// See [`GOMP_offload_register_ver`].
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_offload_unregister_ver(
    _version: u32,
    _host: *const c_void,
    _type: c_int,
    _data: *const c_void,
) {
}

/// See [`GOMP_offload_register_ver`].
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_offload_unregister(_host: *const c_void, _type: c_int, _data: *const c_void) {}
