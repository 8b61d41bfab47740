//! Thread migration: calls of marked functions are executed on the node that the caller chose.
//!
//! A call becomes a command for a worker of that node, and the caller waits. If the function or one that it
//! calls migrates back to a node where a thread of the same caller waits, that thread executes the call. So
//! within such a chain of calls each node has one thread, with its stack and its thread-local variables.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::Ordering;

use super::command::{self, Command, CommandKind, Construct};
use super::migration::MigrationState;
use crate::primitives::nonlocal_exit::{self, StartRoutine};
use crate::primitives::{separate_processes, sys};
use crate::team::balancer::Balancer;
use crate::team::task::Function;
use crate::team::thread::{CallExit, RemoteCall, Thread};
use crate::team::waiting;

/// Makes a thread's calls of marked functions execute on this node from now on. Returns whether the node
/// exists.
#[must_use]
pub fn set_node(me: &'static Thread, node: u32) -> bool {
    if node >= me.root().nodes().count() {
        return false;
    }
    migration_of(me).set_explicit_target(node);
    true
}

/// Returns a thread's migration state, creating it if needed.
fn migration_of(me: &'static Thread) -> &'static MigrationState {
    let migration = MigrationState::of(me).unwrap_or_else(|| {
        let migration = me.store().place(MigrationState::new(me));
        me.status.migration.store(ptr::from_ref(migration).cast_mut().cast(), Ordering::Release);
        MigrationState::replace_current(Some(migration), me);
        migration
    });
    if is_origin(migration, me) {
        migration.set_pthread(sys::pthread_handle());
    }
    migration
}

/// Resets the migration state at the end of a thread that OpenMP did not start, for the next owner of its
/// record.
pub fn reset(thread: &Thread) {
    if let Some(migration) = MigrationState::of(thread) {
        if let (Some(balancer), Some(placement)) =
            (thread.root().balancer(), migration.replace_placement(None))
        {
            balancer.abandon_call(placement, thread.root().nodes());
        }
        migration.reset();
    }
}

/// Returns a value that identifies a thread of the program on all nodes: the address of its record.
#[must_use]
pub fn identity(me: &'static Thread) -> usize {
    ptr::from_ref(origin(me)) as usize
}

/// Returns the record of the thread of the program that this thread runs as.
#[must_use]
pub fn origin(me: &'static Thread) -> &'static Thread {
    MigrationState::of(me).map_or(me, MigrationState::origin)
}

/// Whether the program has requested that the next marked function runs on another node.
#[must_use]
pub fn has_pending_request(me: &'static Thread) -> bool {
    MigrationState::of(me)
        .is_some_and(|migration| migration.has_explicit_target() && migration.target_node() != me.node)
}

/// Whether an address is in the stack of any thread that this migrating thread runs as.
#[must_use]
pub fn is_on_stack(me: &'static Thread, address: usize) -> bool {
    let on_stack = |thread: &Thread| {
        thread.stack.get().is_some_and(|stack| (stack.lowest..=stack.lowest + stack.bytes).contains(&address))
    };
    on_stack(me)
        || MigrationState::of(me).is_some_and(|migration| {
            (0..me.root().nodes().count()).filter_map(|node| migration.thread_on(node)).any(on_stack)
        })
}

/// Leaves the call that another node made and that this thread executes. The caller continues according to
/// `exit`.
///
/// # Safety
/// The call must be of this thread and must not have returned; no function that is left may have anything to
/// clean up.
pub unsafe fn leave_call(remote_call: *const RemoteCall, exit: CallExit) -> ! {
    // SAFETY: the call has not returned, so the record is still on its stack.
    let remote_call = unsafe { &*remote_call };
    remote_call.exit.set(Some(exit));
    // SAFETY: guaranteed by the caller.
    unsafe { nonlocal_exit::leave(remote_call.stack.get(), ptr::null_mut()) }
}

/// Outcome of a call of a marked function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// Not called: the caller is on the right node and must make the call itself.
    NotYet,
    /// The function has returned.
    Returned,
    /// The function was left otherwise.
    Exited(CallExit),
}

fn outcome_of(exit: Option<CallExit>) -> CallOutcome {
    exit.map_or(CallOutcome::Returned, CallOutcome::Exited)
}

/// Calls a function with a frame on the node that the caller must migrate to.
pub fn call(me: &'static Thread, function: Function, frame: *mut c_void) -> CallOutcome {
    let migration = MigrationState::of(me);
    if let Some(balancer) = me.root().balancer()
        && !migration.is_some_and(MigrationState::has_explicit_target)
    {
        return call_balanced(me, balancer, function, frame);
    }
    let Some(migration) = migration else { return CallOutcome::NotYet };
    let node = migration.target_node();
    if node == me.node {
        return CallOutcome::NotYet;
    }
    call_on_node(me, migration, node, function, frame).0
}

/// Calls a function with a frame on another node. Returns also its duration there, in nanoseconds.
fn call_on_node(
    me: &'static Thread,
    migration: &'static MigrationState,
    node: u32,
    function: Function,
    frame: *mut c_void,
) -> (CallOutcome, u64) {
    let command = Command::new(me.root(), node, Construct::Migration, CommandKind::Call, &[]);
    command.set_call(migration, function, frame as usize);
    let command = execute_on_node(me, migration, command);
    let (errno, run_ns) = (command.errno(), command.result() as u64);
    let called = outcome_of(command.exit());
    command.restore_exceptions();
    command.release(me.store());
    sys::set_errno(errno);
    (called, run_ns)
}

/// Calls a function with a frame on the node with the shortest measured time, possibly this one.
fn call_balanced(
    me: &'static Thread,
    balancer: &Balancer,
    function: Function,
    frame: *mut c_void,
) -> CallOutcome {
    let (migration, nodes) = (migration_of(me), me.root().nodes());
    let outer = migration.replace_placement(None);
    let placement = balancer.begin_call(function as usize, me.node, outer, nodes);
    migration.replace_placement(Some(placement));
    let began_ns = sys::now_ns();
    let (called, run_ns) = if placement.node == me.node {
        // SAFETY: the program's function, with the frame that `tombolo ompcc` created for it.
        (outcome_of(unsafe { command::call_leavable(me, function, frame) }), None)
    } else {
        let (called, run_ns) = call_on_node(me, migration, placement.node, function, frame);
        (called, Some(run_ns))
    };
    let errno = sys::errno();
    let all_ns = sys::now_ns().saturating_sub(began_ns);
    balancer.end_call(placement, (run_ns.unwrap_or(all_ns), all_ns), nodes);
    migration.replace_placement(outer);
    sys::set_errno(errno);
    called
}

/// Runs the calling thread, which has not begun the program's function, on another node. Returns the
/// function's result. Meanwhile the caller executes calls that return to its own node.
pub fn run_thread_on(
    me: &'static Thread,
    node: u32,
    start_routine: StartRoutine,
    argument: *mut c_void,
) -> *mut c_void {
    let migration = migration_of(me);
    migration.set_target_node(node);
    let command = Command::new(me.root(), node, Construct::Create, CommandKind::RunThread, &[]);
    command.set_thread_start(migration, start_routine, argument as usize);
    let command = execute_on_node(me, migration, command);
    let result = command.result();
    command.release(me.store());
    result as *mut c_void
}

/// Returns the `pthread_t` of the thread of the program that this thread runs for, unless that is this
/// thread.
#[must_use]
pub fn origin_pthread(me: &'static Thread) -> Option<usize> {
    MigrationState::of(me).filter(|migration| !is_origin(migration, me)).map(MigrationState::pthread)
}

fn is_origin(migration: &MigrationState, me: &Thread) -> bool {
    ptr::eq(migration.origin(), me)
}

/// Has a thread of another node execute a command for a migrating thread, and waits for it. Meanwhile the
/// caller executes calls that return to its own node.
fn execute_on_node(
    me: &'static Thread,
    migration: &'static MigrationState,
    command: &'static Command,
) -> &'static Command {
    let (root, node) = (me.root(), command.node());
    command.prepare(me);
    let function = migration.snapshot().1;
    let there = migration.thread_on(node);
    if let Some(thread) = there {
        separate_processes::flush();
        migration.send_command(thread, ptr::from_ref(command).cast_mut().cast());
    } else {
        let thread = root.acquire_worker_on(node);
        migration.set_thread_on(node, Some(thread));
        command.dispatch(root, thread);
    }
    loop {
        waiting::until_true(me, || command.is_done() || pending_command(me, migration).is_some());
        if command.is_done() {
            break;
        }
        if let Some(command) = pending_command(me, migration) {
            migration.clear_command();
            command.call(me);
            separate_processes::flush();
            command.complete();
        }
    }
    migration.switch_to(me, function);
    if there.is_none() {
        migration.set_thread_on(node, None);
    }
    command
}

/// Returns the command that this thread must execute while it waits for another.
fn pending_command(me: &'static Thread, migration: &MigrationState) -> Option<&'static Command> {
    // SAFETY: orders are in the store and are released only after completion.
    let command = unsafe { migration.command().cast::<Command>().as_ref::<'static>() }?;
    (command.node() == me.node).then_some(command)
}
