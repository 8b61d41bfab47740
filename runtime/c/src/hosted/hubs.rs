//! Hubs that programs on all nodes share: `tombolo/hubs.h`.

use std::ffi::{c_char, c_void};
use std::ptr::null_mut;
use std::time::Duration;

use tombolo::region::Mapping;
use tombolo_hubs::{Fault, Hub, HubError, Kind, Selection, Taken, Task};

use crate::boundary::{
    Exclusive, bytes, bytes_mut, check_not_null, deref, from_handle, guard, into_handle, text, write_result,
};
use crate::domain::DomainHandle;
use crate::status::{Failure, Status};
use crate::tasks::{wait_for_hub, wait_for_select};

/// `tombolo_task`.
#[derive(Debug)]
pub struct TaskHandle {
    pub(crate) task: Task,
}

/// `tombolo_hub`.
#[derive(Debug)]
pub struct HubHandle {
    state: Exclusive<State>,
}

#[derive(Debug)]
struct State {
    hub: Hub,
    /// Value that was longer than the caller's buffer: the next get returns it.
    pending_value: Option<Box<[u8]>>,
    memory: Option<Mapping>,
}

/// `tombolo_hub_info`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct HubInfo {
    kind: u32,
    capacity: u32,
    value_bytes: u32,
    depth: u32,
}

/// `tombolo_held`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Held {
    fencing_token: u64,
    number: u32,
    was_abandoned: bool,
}

/// `tombolo_select_arm`.
#[derive(Debug)]
#[repr(C)]
pub struct Arm {
    hub: *const HubHandle,
    puts: bool,
    value: *const c_void,
    buffer: *mut c_void,
    capacity: usize,
    length: usize,
    held: Held,
}

impl From<HubError> for Failure {
    fn from(error: HubError) -> Failure {
        match error {
            HubError::Tombolo(error) => error.into(),
            error => Failure::new(status_of(&error), error.to_string()),
        }
    }
}

fn status_of(error: &HubError) -> Status {
    match error {
        HubError::Fault { fault, .. } => match fault {
            Fault::WouldBlock => Status::WouldBlock,
            Fault::TimedOut => Status::TimedOut,
            Fault::Closed | Fault::AlreadyClosed => Status::HubClosed,
            Fault::TooLong(_) => Status::TooLong,
            Fault::NotHeld | Fault::AlreadyHeld => Status::HubHeld,
            _ => Status::HubRefused,
        },
        HubError::Unknown { .. } => Status::NoSuchName,
        HubError::Taken { .. } => Status::NameTaken,
        HubError::OtherKind { .. } | HubError::OtherType { .. } | HubError::BadValue { .. } => {
            Status::HubRefused
        }
        HubError::Lost { .. } => Status::PeerDied,
        HubError::NoAnswer { .. } | HubError::NothingReady { .. } => Status::TimedOut,
        HubError::Violation { .. } => Status::Violation,
        _ => Status::InvalidArgument,
    }
}

/// Returns the bit of a kind in C.
fn kind_bit(kind: Kind) -> u32 {
    match kind {
        Kind::Port => 1,
        Kind::Fifo => 2,
        Kind::Event => 4,
        Kind::Semaphore => 8,
        Kind::Resource => 16,
        Kind::Pool => 32,
    }
}

fn held_record(taken: &Taken) -> Option<Held> {
    match *taken {
        Taken::Block { number, token, abandoned } => {
            Some(Held { fencing_token: token, number, was_abandoned: abandoned })
        }
        _ => None,
    }
}

impl State {
    /// Copies a value into the caller's buffer, or keeps it if the buffer is too short.
    fn fill(&mut self, value: Box<[u8]>, room: &mut [u8]) -> Result<(), Failure> {
        let (length, capacity) = (value.len(), room.len());
        match room.get_mut(..length) {
            Some(room) => {
                room.copy_from_slice(&value);
                Ok(())
            }
            None => {
                self.pending_value = Some(value);
                let text = format!("a value of {length} bytes does not fit {capacity}; the next get has it");
                Err(Failure::new(Status::BufferTooShort, text))
            }
        }
    }
}

/// Runs `body` with the state of a hub.
///
/// # Safety
/// The pointer is null, or a live handle.
unsafe fn with<R>(
    hub: *const HubHandle,
    body: impl FnOnce(&mut State) -> Result<R, Failure>,
) -> Result<R, Failure> {
    // SAFETY: this function's safety condition; the mutable state of a handle is inside `Exclusive`.
    unsafe { deref(hub, "the hub") }?.state.with(body)
}

/// `tombolo_task_attach`: see `tombolo/hubs.h`.
///
/// # Safety
/// As documented in `tombolo/hubs.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_task_attach(
    domain: *const DomainHandle,
    priority: i32,
    result: *mut *mut TaskHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the task")?;
        // SAFETY: a live handle, by the contract; it never changes.
        let task = Task::attach(&unsafe { deref(domain, "the domain") }?.domain)?;
        let task = match (priority, u8::try_from(priority)) {
            (-1, _) => task,
            (_, Ok(priority)) => task.with_priority(priority),
            _ => return Err(Failure::invalid(format!("a priority of {priority}: give 0 to 255, or -1"))),
        };
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, into_handle(TaskHandle { task }), "where to put the task") }
    })
}

/// `tombolo_task_end`: see `tombolo/hubs.h`.
///
/// # Safety
/// As documented in `tombolo/hubs.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_task_end(task: *mut TaskHandle) {
    guard(|| {
        // SAFETY: null, or a handle that is released once, by the contract.
        drop(unsafe { from_handle(task) });
        Ok(())
    });
}

/// `tombolo_task_inherited_priority`: see `tombolo/hubs.h`.
///
/// # Safety
/// As documented in `tombolo/hubs.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_task_inherited_priority(task: *const TaskHandle, result: *mut u8) -> Status {
    guard(|| {
        // SAFETY: a live handle, by the contract; it never changes.
        let priority = unsafe { deref(task, "the task") }?.task.inherited_priority()?;
        // SAFETY: valid for a write of a number, by the contract.
        unsafe { write_result(result, priority, "where to put the priority") }
    })
}

/// `tombolo_hub_open`: see `tombolo/hubs.h`.
///
/// # Safety
/// As documented in `tombolo/hubs.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_hub_open(
    task: *const TaskHandle,
    name: *const c_char,
    kinds: u32,
    value_type: *const c_char,
    timeout_ns: u64,
    result: *mut *mut HubHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the hub")?;
        // SAFETY: a live handle, by the contract; it never changes.
        let task = unsafe { deref(task, "the task") }?.task.within(Duration::from_nanos(timeout_ns));
        // SAFETY: C strings, by the contract.
        let (name, value_type) = unsafe { (text(name, "the name")?, text(value_type, "the type")?) };
        let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| kinds & kind_bit(*kind) != 0).collect();
        if kinds.is_empty() {
            return Err(Failure::invalid("no kind of hubs is asked for"));
        }
        let state = State { hub: task.hub(name, &kinds, value_type)?, pending_value: None, memory: None };
        let handle = into_handle(HubHandle { state: Exclusive::new(state) });
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, handle, "where to put the hub") }
    })
}

/// `tombolo_hub_drop`: see `tombolo/hubs.h`.
///
/// # Safety
/// As documented in `tombolo/hubs.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_hub_drop(hub: *mut HubHandle) {
    guard(|| {
        // SAFETY: null, or a handle that is released once, by the contract.
        drop(unsafe { from_handle(hub) });
        Ok(())
    });
}

/// `tombolo_hub_get_info`: see `tombolo/hubs.h`.
///
/// # Safety
/// As documented in `tombolo/hubs.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_hub_get_info(hub: *const HubHandle, result: *mut HubInfo) -> Status {
    guard(|| {
        let info = |state: &mut State| {
            let (hub, depth) = (&state.hub, state.hub.status()?.depth);
            let (capacity, value_bytes) = (hub.capacity(), hub.value_bytes());
            Ok(HubInfo { kind: kind_bit(hub.kind()), capacity, value_bytes, depth })
        };
        // SAFETY: a live handle, by the contract.
        let info = unsafe { with(hub, info) }?;
        // SAFETY: valid for writes, by the contract.
        unsafe { write_result(result, info, "where to put the information") }
    })
}

/// `tombolo_hub_put`: see `tombolo/hubs.h`.
///
/// # Safety
/// As documented in `tombolo/hubs.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_hub_put(
    hub: *const HubHandle,
    value: *const c_void,
    length: usize,
    timeout_ns: u64,
) -> Status {
    guard(|| {
        // SAFETY: `length` bytes, by the contract.
        let value = unsafe { bytes(value.cast(), length, "the value") }?;
        let put = |state: &mut State| {
            wait_for_hub(state.hub.within(Duration::from_nanos(timeout_ns)).start_put(value)?).map(drop)
        };
        // SAFETY: a live handle, by the contract.
        unsafe { with(hub, put) }
    })
}

/// `tombolo_hub_get`: see `tombolo/hubs.h`.
///
/// # Safety
/// As documented in `tombolo/hubs.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_hub_get(
    hub: *const HubHandle,
    buffer: *mut c_void,
    capacity: usize,
    length: *mut usize,
    timeout_ns: u64,
) -> Status {
    guard(|| {
        // SAFETY: the caller's buffer with this capacity, by the contract.
        let room = unsafe { bytes_mut(buffer.cast(), capacity, "the buffer") }?;
        let get = |state: &mut State| {
            if must_be_returned(state.hub.kind()) {
                let text =
                    format!("hub '{}' is a {}: use tombolo_hub_take", state.hub.name(), state.hub.kind());
                return Err(Failure::new(Status::HubRefused, text));
            }
            let value = match state.pending_value.take() {
                Some(pending_value) => pending_value,
                None => {
                    match wait_for_hub(state.hub.within(Duration::from_nanos(timeout_ns)).start_get()?)? {
                        Taken::Value(value) => value,
                        _ => Box::default(),
                    }
                }
            };
            if !length.is_null() {
                // SAFETY: not null; valid for a write of a number, by the contract.
                unsafe { length.write(value.len()) };
            }
            state.fill(value, room)
        };
        // SAFETY: a live handle, by the contract.
        unsafe { with(hub, get) }
    })
}

/// Whether values taken from a hub of this kind have to be returned.
fn must_be_returned(kind: Kind) -> bool {
    matches!(kind, Kind::Resource | Kind::Pool)
}

/// `tombolo_hub_take`: see `tombolo/hubs.h`.
///
/// # Safety
/// As documented in `tombolo/hubs.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_hub_take(
    hub: *const HubHandle,
    timeout_ns: u64,
    result: *mut Held,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put what is held")?;
        let take = |state: &mut State| {
            if !must_be_returned(state.hub.kind()) {
                let text =
                    format!("hub '{}' is a {}: use tombolo_hub_get", state.hub.name(), state.hub.kind());
                return Err(Failure::new(Status::HubRefused, text));
            }
            let taken = wait_for_hub(state.hub.within(Duration::from_nanos(timeout_ns)).start_get()?)?;
            held_record(&taken).ok_or_else(|| Failure::new(Status::Violation, "the hub gave something else"))
        };
        // SAFETY: a live handle, by the contract.
        let held = unsafe { with(hub, take) }?;
        // SAFETY: valid for writes, by the contract.
        unsafe { write_result(result, held, "where to put what is held") }
    })
}

/// `tombolo_hub_give_back`: see `tombolo/hubs.h`.
///
/// # Safety
/// As documented in `tombolo/hubs.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_hub_give_back(hub: *const HubHandle, fencing_token: u64) -> Status {
    guard(|| {
        // SAFETY: a live handle, by the contract.
        unsafe { with(hub, |state| Ok(state.hub.give_back(fencing_token)?)) }
    })
}

/// `tombolo_hub_close`: see `tombolo/hubs.h`.
///
/// # Safety
/// As documented in `tombolo/hubs.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_hub_close(hub: *const HubHandle) -> Status {
    guard(|| {
        // SAFETY: a live handle, by the contract.
        unsafe { with(hub, |state| Ok(state.hub.close()?)) }
    })
}

/// `tombolo_hub_memory`: see `tombolo/hubs.h`.
///
/// # Safety
/// As documented in `tombolo/hubs.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_hub_memory(hub: *const HubHandle, result: *mut *mut c_void) -> Status {
    guard(|| {
        let memory = |state: &mut State| {
            if state.memory.is_none() {
                state.memory = state.hub.map()?;
            }
            Ok(state.memory.as_ref().map_or(null_mut(), |memory| memory.as_ptr().cast()))
        };
        // SAFETY: a live handle, by the contract.
        let memory = unsafe { with(hub, memory) }?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, memory, "where to put the memory") }
    })
}

/// `tombolo_select`: see `tombolo/hubs.h`.
///
/// # Safety
/// As documented in `tombolo/hubs.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_select(
    task: *const TaskHandle,
    arms: *mut Arm,
    count: usize,
    timeout_ns: u64,
    index: *mut usize,
) -> Status {
    guard(|| {
        check_not_null(index, "where to put the index")?;
        if arms.is_null() || count == 0 || count > tombolo_hubs::MAX_ARMS {
            let text = format!("a select over {count} hubs: give 1 to {}", tombolo_hubs::MAX_ARMS);
            return Err(Failure::invalid(text));
        }
        // SAFETY: a live handle, by the contract; it never changes.
        let task = &unsafe { deref(task, "the task") }?.task;
        // SAFETY: not null; `count` operations of the caller, by the contract.
        let arms = unsafe { std::slice::from_raw_parts_mut(arms, count) };
        // A kept value is ready before the hubs are asked.
        for (number, arm) in arms.iter_mut().enumerate() {
            // SAFETY: a live handle, by the contract.
            let pending_value =
                unsafe { with(arm.hub, |state| Ok(state.pending_value.take_if(|_| !arm.puts))) }?;
            if let Some(value) = pending_value {
                // SAFETY: valid for a write of a number, by the contract.
                unsafe { write_result(index, number, "where to put the index") }?;
                // SAFETY: the conditions of this operation, by the contract.
                return unsafe { deliver(arm, Taken::Value(value)) };
            }
        }
        // SAFETY: the conditions of these operations, by the contract.
        let selection = unsafe { start_select(task, arms, timeout_ns) }?;
        let chosen = wait_for_select(selection)?;
        let number = chosen.index;
        // SAFETY: valid for a write of a number, by the contract.
        unsafe { write_result(index, number, "where to put the index") }?;
        // SAFETY: the conditions of this operation, by the contract.
        unsafe { deliver(&mut arms[number], chosen.into_taken()) }
    })
}

/// Starts a select.
///
/// # Safety
/// The handles are live, and the values have the stated lengths.
unsafe fn start_select(task: &Task, arms: &[Arm], timeout_ns: u64) -> Result<Selection, Failure> {
    let mut select = task.within(Duration::from_nanos(timeout_ns)).select();
    for arm in arms {
        // SAFETY: a live handle, by this function's safety condition.
        let hub = unsafe { with(arm.hub, |state| Ok(state.hub.clone())) }?;
        if arm.puts {
            // SAFETY: the stated number of bytes, by this function's safety condition.
            select.put(&hub, unsafe { bytes(arm.value.cast(), arm.length, "the value") }?);
        } else {
            select.get(&hub);
        }
    }
    Ok(select.start()?)
}

/// Returns to C what an operation of a select took.
///
/// # Safety
/// The handle is live, and the buffer has the stated capacity.
unsafe fn deliver(arm: &mut Arm, taken: Taken) -> Result<(), Failure> {
    if let Some(held) = held_record(&taken) {
        arm.held = held;
    }
    let Taken::Value(value) = taken else { return Ok(()) };
    arm.length = value.len();
    // SAFETY: the caller's buffer with this capacity, by this function's safety condition.
    let room = unsafe { bytes_mut(arm.buffer.cast(), arm.capacity, "the buffer") }?;
    // SAFETY: a live handle, by this function's safety condition.
    unsafe { with(arm.hub, |state| state.fill(value, room)) }
}
