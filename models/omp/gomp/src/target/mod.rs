//! `target`: regions and data for devices, which are the job's other nodes. If there are none, or if the
//! program says so, regions run on the host, as OpenMP specifies.

pub mod copy;
mod host;
mod kinds;
pub mod memory;

use std::ffi::{c_int, c_void};
use std::ptr;

use tombolo_omp_team::constructs::tasking;
use tombolo_omp_team::constructs::tasks::{self, NewTask};
use tombolo_omp_team::device::calls;
use tombolo_omp_team::device::command::{Command, CommandKind, Construct};
use tombolo_omp_team::device::mapping::{Item, ItemAction};
use tombolo_omp_team::job::start;
use tombolo_omp_team::primitives::sys;
use tombolo_omp_team::team::depend::Dependence;
use tombolo_omp_team::team::task::Function;
use tombolo_omp_team::team::thread::Thread;

use self::host::Copies;
use crate::tasks::decode_dependences;

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
    me.team().confined_node().map_or_else(|| devices(me), |node| i32::try_from(node).unwrap_or(1) - 1)
}

/// Returns the node that executes a construct; `None` for the host.
fn node_of(me: &'static Thread, device: i32, construct: Construct) -> Option<u32> {
    if device == FALLBACK {
        return None;
    }
    let devices = devices(me);
    if device == devices {
        // The program asks for the host.
        return None;
    }
    if devices == 0 {
        if me.root().settings.offload_mandatory {
            sys::fatal(
                "OMP_TARGET_OFFLOAD is mandatory, but the host is the only device; OMP_TOMBOLO_NODES adds nodes as devices",
            );
        }
        return None;
    }
    if me.team().confined_node().is_some() {
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
    let depend = unsafe { decode_dependences(words) };
    tasks::wait_for_dependences(me, me.task(), &depend);
}

/// Creates the command that a construct sends to a device; `None` if it has nothing to do, because both can
/// access all of the data in place.
///
/// # Safety
/// Each list has `count` entries, with data of these sizes at these addresses.
unsafe fn create_command(
    me: &'static Thread,
    (node, construct, kind): (u32, Construct, CommandKind),
    count: usize,
    addresses: *mut *mut c_void,
    (sizes, kinds): (*const usize, *const u16),
) -> Option<&'static Command> {
    let root = me.root();
    // SAFETY: guaranteed by the caller.
    let items = unsafe { kinds::decode_items(root, construct, count, addresses, sizes, kinds) };
    let idle = !root.settings.target_copies
        && root.devices().at(node).is_empty()
        && items.iter().all(|item| item.device_view == item.host);
    (kind == CommandKind::Run || !idle).then(|| Command::new(root, node, construct, kind, &items))
}

/// Executes a command and copies results back to memory that only this process has.
///
/// # Safety
/// The data of its items exists.
unsafe fn execute_and_copy_back(me: &'static Thread, command: &'static Command) {
    command.execute_and_wait(me);
    for item in command.items() {
        // SAFETY: guaranteed by the caller.
        unsafe { kinds::stage_out(item) };
        item.copied_back = 0;
    }
}

/// Executes a construct's command and frees it.
///
/// # Safety
/// As [`create_command`].
unsafe fn execute_and_free(
    me: &'static Thread,
    command_kind: (u32, Construct, CommandKind),
    count: usize,
    addresses: *mut *mut c_void,
    lists: (*const usize, *const u16),
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if let Some(command) = create_command(me, command_kind, count, addresses, lists) {
            execute_and_copy_back(me, command);
            command.release(me.store());
        }
    }
}

/// Body of the task of a `target` construct with `nowait`: executes the command, and the task ends with it.
///
/// Exported under a C name, because any worker may run the task and builds agree on the addresses of such
/// functions.
///
/// # Safety
/// `words` are those that `defer` passes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_omp_target_task(words: *mut c_void) {
    // SAFETY: guaranteed by the caller.
    let [event, command] = unsafe { *words.cast::<[usize; 2]>() };
    // SAFETY: commands are in the store, and this one is not freed before it is executed.
    if let Some(command) = unsafe { (command as *const Command).as_ref::<'static>() } {
        command.execute_detached(start::current(), event);
    }
}

/// Executes a command in a task of its own.
fn defer(me: &'static Thread, command: &'static Command, depend: Option<&[Dependence]>) {
    let mut words = [0, ptr::from_ref(command) as usize];
    let event = words.as_mut_ptr();
    let new_task = NewTask {
        function: tombolo_omp_target_task,
        data: event.cast(),
        copy: None,
        size: size_of_val(&words),
        align: align_of::<usize>(),
        deferred: true,
        is_final: false,
        priority: 0,
        depend,
        event: Some(event),
        bounds: None,
    };
    tasks::create(me, new_task);
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
            let copies = Copies::copy_firstprivate(count, addresses, sizes, kinds);
            host::run(function, addresses, limit);
            return copies.end();
        };
        let nowait = flags & NOWAIT != 0;
        if !nowait {
            wait_for(depend);
        }
        let command_kind = (node, Construct::Target, CommandKind::Run);
        let Some(command) = create_command(me, command_kind, count, addresses, (sizes, kinds)) else {
            return;
        };
        command.set_region(function, limit);
        if nowait && command.items().iter().all(|item| item.device_view == item.host) {
            let depend = (!depend.is_null()).then(|| decode_dependences(depend));
            return defer(me, command, depend.as_deref());
        }
        if nowait {
            // Data that only this process has is passed as a copy of its value when the region begins. No
            // other process can make that copy.
            wait_for(depend);
            command.items().iter().for_each(|item| kinds::stage_in(item));
        }
        execute_and_copy_back(me, command);
        command.release(me.store());
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
    let command = unsafe {
        node_of(me, device, Construct::Data).and_then(|node| {
            create_command(me, (node, Construct::Data, CommandKind::Begin), count, addresses, (sizes, kinds))
        })
    };
    if let Some(command) = command {
        command.execute_and_wait(me);
        for (index, item) in
            command.items().iter().enumerate().filter(|(_, item)| item.action == ItemAction::Use)
        {
            // SAFETY: each entry can be written, and the construct's body reads it.
            unsafe { addresses.add(index).write(item.result as *mut c_void) };
        }
    }
    enter_data(me, command);
}

/// Records that the calling thread entered a `target data` region. Without a command, the region's end does
/// nothing.
fn enter_data(me: &'static Thread, command: Option<&'static Command>) {
    let command =
        command.unwrap_or_else(|| Command::new(me.root(), 0, Construct::Data, CommandKind::End, &[]));
    command.begin_data(me);
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
    let Some(command) = Command::end_data(me) else { return };
    if command.node() > 0 {
        let stage = |item: &mut Item| {
            // SAFETY: the construct's data exists until its end.
            unsafe { kinds::stage_in(item) };
        };
        command.items().iter_mut().for_each(stage);
        command.set_kind(CommandKind::End);
        // SAFETY: as above.
        unsafe { execute_and_copy_back(me, command) };
    }
    command.release(me.store());
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
            execute_and_free(
                me,
                (node, Construct::Update, CommandKind::Update),
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
        (Construct::EnterData, CommandKind::Begin)
    } else {
        (Construct::ExitData, CommandKind::Exit)
    };
    // SAFETY: guaranteed by the caller.
    unsafe {
        wait_for(depend);
        if let Some(node) = node_of(me, device, construct) {
            execute_and_free(me, (node, construct, kind), count, addresses, (sizes, kinds));
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
