//! Functions that programs start on any node: `tombolo/tasks.h`.

use std::ffi::{c_char, c_void};
use std::process::ExitCode;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tombolo_hubs::{HubError, Pending, Selected, Selection, Taken};
use tombolo_tasks::{
    Cancelled, Canceller, Context, Functions, JoinHandle, Signature, TaskError, Tasks, block_on,
};

use crate::boundary::{
    Exclusive, bytes, bytes_mut, check_not_null, deref, from_handle, guard, into_handle, text, write_result,
};
use crate::child::{Spawn, program};
use crate::domain::{self, DomainHandle};
use crate::hubs::TaskHandle;
use crate::status::{Failure, Status, last_error_text, name_of};

/// `tombolo_signature`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SignatureNames {
    name: *const c_char,
    argument: *const c_char,
    result: *const c_char,
}

/// `tombolo_result`.
#[derive(Debug, Default)]
pub struct ResultHandle {
    state: Mutex<TaskResult>,
}

#[derive(Debug, Default)]
struct TaskResult {
    bytes: Vec<u8>,
    failed: Option<String>,
}

/// `tombolo_context`.
#[derive(Debug)]
pub struct ContextHandle {
    context: Context,
    domain: OnceLock<DomainHandle>,
}

/// `tombolo_function`.
type Body =
    unsafe extern "C" fn(*const ContextHandle, *const c_void, usize, *mut ResultHandle, *mut c_void) -> i32;

/// Function of a C program, with its context.
#[derive(Clone, Copy, Debug)]
struct Callback {
    body: Body,
    data: *mut c_void,
}

// SAFETY: a function, and an address that only C dereferences; by the contract of
// `tombolo_functions_register` the function may be called with it on other threads, by one at a time.
unsafe impl Send for Callback {}
// SAFETY: as above; nothing in it changes.
unsafe impl Sync for Callback {}

/// `tombolo_functions`.
#[derive(Debug)]
pub struct FunctionsHandle {
    registered: Exclusive<Vec<(Signature, Callback)>>,
}

/// `tombolo_tasks`.
#[derive(Debug)]
pub struct TasksHandle {
    tasks: Tasks,
}

/// `tombolo_join`.
#[derive(Debug)]
pub struct JoinedHandle {
    /// Separate from the state that one thread waits with, so that another thread can cancel.
    canceller: Canceller,
    state: Exclusive<JoinState>,
}

#[derive(Debug)]
struct JoinState {
    handle: JoinHandle<Vec<u8>>,
    signature: Signature,
    /// Result that was longer than the caller's buffer: the next wait returns it.
    pending_result: Option<Vec<u8>>,
}

impl From<TaskError> for Failure {
    fn from(error: TaskError) -> Failure {
        let status = match error {
            TaskError::Tombolo(error) => return error.into(),
            TaskError::Panicked { .. } => Status::TaskFailed,
            TaskError::Lost { .. } => Status::TaskLost,
            TaskError::Cancelled { .. } => Status::Cancelled,
            TaskError::TooLong { .. } => Status::TooLong,
            TaskError::TooMany { .. } => Status::Limit,
            TaskError::TimedOut { .. } => Status::TimedOut,
            TaskError::NotStarted { .. } => Status::StartFailed,
            TaskError::BadType { .. } | TaskError::Placement(_) => Status::InvalidArgument,
            _ => Status::TaskRefused,
        };
        Failure::new(status, error.to_string())
    }
}

impl From<Cancelled> for Failure {
    fn from(_: Cancelled) -> Failure {
        Failure::new(Status::Cancelled, "the task of this thread was cancelled: it is to return")
    }
}

/// Waits for an operation on a hub; in a task, other tasks of its worker run meanwhile.
pub(crate) fn wait_for_hub(pending: Pending) -> Result<Taken, Failure> {
    wait_with(pending, Pending::wait, Pending::wait_async)
}

/// Waits for a select, like [`wait_for_hub`].
pub(crate) fn wait_for_select(selection: Selection) -> Result<Selected, Failure> {
    wait_with(selection, Selection::wait, Selection::wait_async)
}

fn wait_with<W, R, F: Future<Output = Result<R, HubError>>>(
    work: W,
    wait: impl FnOnce(W) -> Result<R, HubError>,
    wait_async: impl FnOnce(W) -> F,
) -> Result<R, Failure> {
    if tombolo_tasks::is_task() { Ok(block_on(wait_async(work))??) } else { Ok(wait(work)?) }
}

/// # Safety
/// The pointer is null, or points to a signature of C strings.
unsafe fn signature(names: *const SignatureNames) -> Result<Signature, Failure> {
    // SAFETY: null, or a signature, by this function's safety condition.
    let names = unsafe { deref(names, "the signature") }?;
    // SAFETY: C strings, by this function's safety condition.
    let (name, argument, result) = unsafe {
        (
            text(names.name, "the name of the function")?,
            text(names.argument, "the type of its argument")?,
            text(names.result, "the type of its result")?,
        )
    };
    Ok(Signature::new(name, argument, result)?)
}

/// `tombolo_functions_create`: see `tombolo/tasks.h`.
///
/// # Safety
/// As documented in `tombolo/tasks.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_functions_create(result: *mut *mut FunctionsHandle) -> Status {
    guard(|| {
        check_not_null(result, "where to put the functions")?;
        let functions = into_handle(FunctionsHandle { registered: Exclusive::new(Vec::new()) });
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, functions, "where to put the functions") }
    })
}

/// `tombolo_functions_register`: see `tombolo/tasks.h`.
///
/// # Safety
/// As documented in `tombolo/tasks.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_functions_register(
    functions: *const FunctionsHandle,
    names: *const SignatureNames,
    function: Option<Body>,
    data: *mut c_void,
) -> Status {
    guard(|| {
        let body = function.ok_or_else(|| Failure::invalid("the function is null"))?;
        // SAFETY: a live handle, and a signature of C strings, by the contract.
        let (functions, signature) = unsafe { (deref(functions, "the functions")?, signature(names)?) };
        functions.registered.with(|registered| {
            registered.push((signature, Callback { body, data }));
            Ok(())
        })
    })
}

/// `tombolo_functions_run_worker`: see `tombolo/tasks.h`.
///
/// # Safety
/// As documented in `tombolo/tasks.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_functions_run_worker(
    functions: *mut FunctionsHandle,
    exit_status: *mut i32,
) -> bool {
    let mut is_worker = false;
    guard(|| {
        // SAFETY: null, or a handle that is released once, by the contract.
        let registered = unsafe { from_handle(functions) }.map(|functions| functions.registered.into_inner());
        let mut functions = Functions::new();
        for (signature, callback) in registered.into_iter().flatten() {
            let run = move |context, argument: Vec<u8>| run(callback, context, &argument);
            functions = functions.register_blocking(&signature, run);
        }
        if let Some(status) = functions.run_worker() {
            is_worker = true;
            if !exit_status.is_null() {
                // SAFETY: not null; valid for a write of a number, by the contract.
                unsafe { exit_status.write(i32::from(status != ExitCode::SUCCESS)) };
            }
        }
        Ok(())
    });
    is_worker
}

/// Runs a task in C.
fn run(callback: Callback, context: Context, argument: &[u8]) -> Result<Vec<u8>, String> {
    let context = ContextHandle { context, domain: OnceLock::new() };
    let mut result = ResultHandle::default();
    let Callback { body, data } = callback;
    // SAFETY: guaranteed by the contract of `tombolo_functions_register`; the arguments live until it has
    // returned.
    let status = unsafe { body(&context, argument.as_ptr().cast(), argument.len(), &mut result, data) };
    let given = result.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    match given.failed {
        None if status == Status::Ok as i32 => Ok(given.bytes),
        Some(text) => Err(text),
        None => Err(format!("{}: {}", name_of(status).to_string_lossy(), last_error_text())),
    }
}

/// `tombolo_result_set`: see `tombolo/tasks.h`.
///
/// # Safety
/// As documented in `tombolo/tasks.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_result_set(
    result: *const ResultHandle,
    value: *const c_void,
    length: usize,
) -> Status {
    guard(|| {
        // SAFETY: a live handle, and `length` bytes, by the contract.
        let (result, value) =
            unsafe { (deref(result, "the result")?, bytes(value.cast(), length, "the value")?) };
        result.state.lock().unwrap_or_else(PoisonError::into_inner).bytes = value.to_vec();
        Ok(())
    })
}

/// `tombolo_result_fail`: see `tombolo/tasks.h`.
///
/// # Safety
/// As documented in `tombolo/tasks.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_result_fail(result: *const ResultHandle, why: *const c_char) -> Status {
    guard(|| {
        // SAFETY: a live handle, and a C string, by the contract.
        let (result, why) = unsafe { (deref(result, "the result")?, text(why, "the text")?) };
        result.state.lock().unwrap_or_else(PoisonError::into_inner).failed = Some(why.to_owned());
        Err(Failure::new(Status::TaskFailed, why.to_owned()))
    })
}

/// `tombolo_context_domain`: see `tombolo/tasks.h`.
///
/// # Safety
/// As documented in `tombolo/tasks.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_context_domain(context: *const ContextHandle) -> *const DomainHandle {
    let mut domain: *const DomainHandle = std::ptr::null();
    guard(|| {
        // SAFETY: a live handle, by the contract; its mutable state is behind a lock.
        let context = unsafe { deref(context, "the context") }?;
        domain = context.domain.get_or_init(|| domain::of(context.context.domain().clone()));
        Ok(())
    });
    domain
}

/// `tombolo_context_hubs`: see `tombolo/tasks.h`.
///
/// # Safety
/// As documented in `tombolo/tasks.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_context_hubs(
    context: *const ContextHandle,
    result: *mut *mut TaskHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the task")?;
        // SAFETY: a live handle, by the contract; its mutable state is behind a lock.
        let task = unsafe { deref(context, "the context") }?.context.hubs()?.clone();
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, into_handle(TaskHandle { task }), "where to put the task") }
    })
}

/// `tombolo_task_yield`: see `tombolo/tasks.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_task_yield() -> Status {
    guard(|| Ok(block_on(tombolo_tasks::yield_now())?))
}

/// `tombolo_tasks_start`: see `tombolo/tasks.h`.
///
/// # Safety
/// As documented in `tombolo/tasks.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_tasks_start(
    domain: *const DomainHandle,
    options: *const Spawn,
    on: *const c_char,
    result: *mut *mut TasksHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the tasks")?;
        // SAFETY: a live handle and a C string, by the contract.
        let (domain, on) = unsafe { (deref(domain, "the domain")?, text(on, "the nodes")?) };
        let tasks = if options.is_null() {
            Tasks::start(&domain.domain, on)?
        } else {
            // SAFETY: not null; what to start, by the contract.
            let options = unsafe { program(deref(options, "the program")?) }?;
            Tasks::start_program(&domain.domain, &options, on)?
        };
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, into_handle(TasksHandle { tasks }), "where to put the tasks") }
    })
}

/// `tombolo_tasks_end`: see `tombolo/tasks.h`.
///
/// # Safety
/// As documented in `tombolo/tasks.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_tasks_end(tasks: *mut TasksHandle) {
    guard(|| {
        // SAFETY: null, or a handle that is released once, by the contract.
        drop(unsafe { from_handle(tasks) });
        Ok(())
    });
}

fn new_join_handle(handle: JoinHandle<Vec<u8>>, signature: Signature) -> *mut JoinedHandle {
    let canceller = handle.canceller();
    into_handle(JoinedHandle {
        canceller,
        state: Exclusive::new(JoinState { handle, signature, pending_result: None }),
    })
}

/// Starts a task on the given node, or on any.
///
/// # Safety
/// As documented in `tombolo/tasks.h` for the functions that start tasks; `result` is not null.
unsafe fn start_task(
    node: *const c_char,
    names: *const SignatureNames,
    argument: *const c_void,
    length: usize,
    result: *mut *mut JoinedHandle,
    go: impl FnOnce(Option<&str>, &Signature, &[u8]) -> Result<JoinHandle<Vec<u8>>, TaskError>,
) -> Result<(), Failure> {
    // SAFETY: a signature and the stated number of bytes, by this function's safety condition.
    let (signature, argument) =
        unsafe { (signature(names)?, bytes(argument.cast(), length, "the argument")?) };
    // SAFETY: not null where it is read; a C string, by this function's safety condition.
    let node = if node.is_null() { None } else { Some(unsafe { text(node, "the node") }?) };
    let handle = go(node, &signature, argument)?;
    // SAFETY: valid for a write of a pointer, by this function's safety condition.
    unsafe { write_result(result, new_join_handle(handle, signature), "where to put the task") }
}

/// `tombolo_tasks_go`: see `tombolo/tasks.h`.
///
/// # Safety
/// As documented in `tombolo/tasks.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_tasks_go(
    tasks: *const TasksHandle,
    node: *const c_char,
    names: *const SignatureNames,
    argument: *const c_void,
    length: usize,
    result: *mut *mut JoinedHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the task")?;
        // SAFETY: a live handle, by the contract.
        let tasks = unsafe { &deref(tasks, "the tasks")?.tasks };
        let go = |node: Option<&str>, signature: &Signature, argument: &[u8]| match node {
            None => tasks.go_bytes(signature, argument),
            Some(node) => tasks.on(node)?.go_bytes(signature, argument),
        };
        // SAFETY: by the contract.
        unsafe { start_task(node, names, argument, length, result, go) }
    })
}

/// `tombolo_context_go`: see `tombolo/tasks.h`.
///
/// # Safety
/// As documented in `tombolo/tasks.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_context_go(
    context: *const ContextHandle,
    node: *const c_char,
    names: *const SignatureNames,
    argument: *const c_void,
    length: usize,
    result: *mut *mut JoinedHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the task")?;
        // SAFETY: a live handle, by the contract.
        let context = unsafe { &deref(context, "the context")?.context };
        let go = |node: Option<&str>, signature: &Signature, argument: &[u8]| match node {
            None => context.go_bytes(signature, argument),
            Some(node) => context.on(node)?.go_bytes(signature, argument),
        };
        // SAFETY: by the contract.
        unsafe { start_task(node, names, argument, length, result, go) }
    })
}

impl JoinState {
    fn wait(&mut self, timeout: Duration) -> Result<Vec<u8>, Failure> {
        if let Some(pending_result) = self.pending_result.take() {
            return Ok(pending_result);
        }
        let ended = if tombolo_tasks::is_task() {
            block_on(self.handle.join_within_async(timeout))??
        } else {
            self.handle.join_within(timeout)?
        };
        let task = self.signature.name();
        let late = || TaskError::TimedOut { task: task.to_owned(), timeout };
        let result = ended.ok_or_else(late)?;
        self.signature.check_result(&result)?;
        Ok(result)
    }
}

/// `tombolo_join_wait`: see `tombolo/tasks.h`.
///
/// # Safety
/// As documented in `tombolo/tasks.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_join_wait(
    join: *const JoinedHandle,
    buffer: *mut c_void,
    capacity: usize,
    length: *mut usize,
    timeout_ns: u64,
) -> Status {
    guard(|| {
        // SAFETY: the caller's buffer with this capacity, by the contract.
        let room = unsafe { bytes_mut(buffer.cast(), capacity, "the buffer") }?;
        // SAFETY: a live handle, by the contract; its mutable state is behind marks and locks.
        let join = unsafe { deref(join, "the task") }?;
        join.state.with(|state| {
            let result = state.wait(Duration::from_nanos(timeout_ns))?;
            if !length.is_null() {
                // SAFETY: not null; valid for a write of a number, by the contract.
                unsafe { length.write(result.len()) };
            }
            let Some(room) = room.get_mut(..result.len()) else {
                let text = format!(
                    "a result of {} bytes does not fit {capacity}; the next wait has it",
                    result.len()
                );
                state.pending_result = Some(result);
                return Err(Failure::new(Status::BufferTooShort, text));
            };
            room.copy_from_slice(&result);
            Ok(())
        })
    })
}

/// `tombolo_join_cancel`: see `tombolo/tasks.h`.
///
/// # Safety
/// As documented in `tombolo/tasks.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_join_cancel(join: *const JoinedHandle) {
    guard(|| {
        // SAFETY: a live handle, by the contract; its mutable state is behind marks and locks.
        unsafe { deref(join, "the task") }?.canceller.cancel();
        Ok(())
    });
}

/// `tombolo_join_drop`: see `tombolo/tasks.h`.
///
/// # Safety
/// As documented in `tombolo/tasks.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_join_drop(join: *mut JoinedHandle) {
    guard(|| {
        // SAFETY: null, or a handle that is released once, by the contract.
        drop(unsafe { from_handle(join) });
        Ok(())
    });
}
