//! Commands: the work that a construct gives to a thread of a device.

use std::cell::Cell;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

use super::exceptions::{self, EhGlobals};
use super::mapping::{self, Item, MappingContext};
use super::migration::MigrationState;
use super::{memory, one_thread_team};
use crate::constructs::tasks;
use crate::primitives::nonlocal_exit::{self, StartRoutine};
use crate::primitives::store::Store;
use crate::primitives::{handlers, processor_time, separate_processes, sys, thread_block};
use crate::team::devices::Device;
use crate::team::root::Root;
use crate::team::task::Function;
use crate::team::thread::{self, CallExit, ExitTarget, RemoteCall, Thread};
use crate::team::thread_status::Activity;
use crate::team::waiting;

/// Action of a command.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// Map the data, run the region, unmap the data.
    Run,
    /// Map the data.
    Begin,
    /// Unmap the data that `Begin` mapped.
    End,
    /// Unmap the data of `target exit data`.
    Exit,
    /// Copy data to the device or back.
    Update,
    /// Allocate device memory.
    Allocate,
    /// Free device memory.
    Release,
    /// Copy bytes within device memory or memory shared by all workers.
    Copy,
    /// Call a function for a thread that migrates.
    Call,
    /// Run a thread that the program creates.
    RunThread,
}

/// Constructs that orders come from, for messages.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Construct {
    /// `target`.
    Target,
    /// `target data`.
    Data,
    /// `target enter data`.
    EnterData,
    /// `target exit data`.
    ExitData,
    /// `target update`.
    Update,
    /// A call of a device memory routine.
    Call,
    /// A call of a marked function by a thread that migrates.
    Migration,
    /// `pthread_create`.
    Create,
}

impl Construct {
    /// Returns the name of the construct.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Target => "target",
            Self::Data => "target data",
            Self::EnterData => "target enter data",
            Self::ExitData => "target exit data",
            Self::Update => "target update",
            Self::Call => "omp_target_…",
            Self::Migration => "tombolo_migrate",
            Self::Create => "pthread_create",
        }
    }
}

/// Command for a thread of a device, in the store.
#[repr(C)]
pub struct Command {
    kind: Cell<CommandKind>,
    node: u32,
    construct: Construct,
    items: *mut Item,
    count: usize,
    /// Argument of the region: an address per item.
    addresses: *mut usize,
    function: Cell<Option<Function>>,
    start_routine: Cell<Option<StartRoutine>>,
    limit: Cell<u32>,
    /// Arguments and results of some kinds.
    pub(super) arguments: Cell<[usize; 3]>,
    /// Event of the task that ends with the command; 0 if none.
    event: Cell<usize>,
    caller: Cell<Option<&'static Thread>>,
    done: AtomicU32,
    /// Exception state of the thread that migrates.
    exceptions: Cell<EhGlobals>,
    /// Migrating thread, in a remote call.
    migration: Cell<Option<&'static MigrationState>>,
    /// How the function of a remote call was left, if it did not return.
    exit: Cell<Option<CallExit>>,
    /// Enclosing `target data` region of the same thread.
    enclosing: Cell<Option<&'static Command>>,
}

// SAFETY: only the thread that currently has the command writes the cells; handing it over synchronises them.
unsafe impl Sync for Command {}

impl Command {
    /// Creates a command for a node, with a copy of the items.
    pub fn new(
        root: &'static Root,
        node: u32,
        construct: Construct,
        kind: CommandKind,
        items: &[Item],
    ) -> &'static Self {
        let store = root.store;
        let count = items.len();
        let allocate = |bytes: usize| store.allocate(bytes.max(16), 16).unwrap_or_else(|| store.exhausted());
        let list = allocate(size_of_val(items)).cast::<Item>();
        let addresses = allocate(count * size_of::<usize>()).cast::<usize>();
        for (index, item) in items.iter().enumerate() {
            // SAFETY: the list has room for `count` items.
            unsafe { list.add(index).write(*item) };
        }
        store.place(Self {
            kind: Cell::new(kind),
            node,
            construct,
            items: list,
            count,
            addresses,
            function: Cell::new(None),
            start_routine: Cell::new(None),
            limit: Cell::new(0),
            arguments: Cell::new([0; 3]),
            event: Cell::new(0),
            caller: Cell::new(None),
            done: AtomicU32::new(0),
            exceptions: Cell::new(exceptions::NONE),
            migration: Cell::new(None),
            exit: Cell::new(None),
            enclosing: Cell::new(None),
        })
    }

    /// Returns the node that must execute it.
    pub fn node(&self) -> u32 {
        self.node
    }

    /// Sets the region to run and its thread limit; 0 for no limit.
    pub fn set_region(&self, function: Function, limit: u32) {
        self.function.set(Some(function));
        self.limit.set(limit);
    }

    /// Sets the function to call for a thread that migrates, with the frame of its arguments and its result.
    pub(super) fn set_call(&self, migration: &'static MigrationState, function: Function, frame: usize) {
        self.function.set(Some(function));
        self.migration.set(Some(migration));
        self.arguments.set([frame, sys::errno(), 0]);
        self.exceptions.set(exceptions::globals());
    }

    /// Transfers the exception state after a remote call to the calling thread.
    pub(super) fn restore_exceptions(&self) {
        exceptions::replace_globals(self.exceptions.get());
    }

    /// Sets the start function of a thread that the program creates.
    pub(super) fn set_thread_start(
        &self,
        migration: &'static MigrationState,
        start_routine: StartRoutine,
        argument: usize,
    ) {
        self.start_routine.set(Some(start_routine));
        self.migration.set(Some(migration));
        self.arguments.set([argument, 0, 0]);
    }

    /// Returns the result of that thread or, for a remote call, the duration of the function if measured.
    pub(super) fn result(&self) -> usize {
        self.arguments.get()[2]
    }

    /// Returns `errno` at the return of a remote call's function.
    pub(super) fn errno(&self) -> usize {
        self.arguments.get()[1]
    }

    /// Changes the action on its items.
    pub fn set_kind(&self, kind: CommandKind) {
        self.kind.set(kind);
    }

    /// Returns its items. Only the thread that has the command may call this.
    #[expect(clippy::mut_from_ref, reason = "a command is one thread's at a time")]
    pub fn items(&self) -> &mut [Item] {
        // SAFETY: the list has `count` items, and only the caller accesses the command.
        unsafe { slice::from_raw_parts_mut(self.items, self.count) }
    }

    /// Has a thread of its node execute it, and waits for that.
    pub fn execute_and_wait(&'static self, me: &'static Thread) {
        self.prepare(me);
        self.dispatch(me.root(), me.root().acquire_worker_on(self.node));
        waiting::until_true(me, || self.is_done());
    }

    /// Resets its completion and sets this thread as the one to be woken.
    pub(super) fn prepare(&self, me: &'static Thread) {
        self.done.store(0, Ordering::Relaxed);
        self.event.set(0);
        self.caller.set(Some(me));
    }

    pub(super) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire) != 0
    }

    /// Marks it as done and wakes its caller.
    pub(super) fn complete(&self) {
        let caller = self.caller.get();
        self.done.store(1, Ordering::Release);
        if let Some(caller) = caller {
            caller.parker.fence_and_wake();
        }
    }

    /// Has a thread of its node execute it. That thread then fulfills the task's event and releases the
    /// command.
    pub fn execute_detached(&'static self, me: &'static Thread, event: usize) {
        self.event.set(event);
        self.dispatch(me.root(), me.root().acquire_worker_on(self.node));
    }

    /// Gives it to a worker of its node that was acquired for it.
    pub(super) fn dispatch(&'static self, root: &'static Root, thread: &'static Thread) {
        // SAFETY: teams are never freed.
        let before = unsafe { thread.assigned_team.replace(ptr::null()).as_ref() };
        thread.assigned_data.set(ptr::from_ref(self).cast_mut().cast());
        separate_processes::flush();
        thread.parker.publish_work(thread.parker.work_count().wrapping_add(1) & (u32::MAX >> 1));
        if let Some(before) = before {
            // The worker may be waiting on the bell of its last team.
            before.wake_workers();
        }
        if let Err(text) = root.start(thread) {
            sys::fatal(text);
        }
    }

    /// Frees the command and the copies that its items own.
    pub fn release(&'static self, store: &Store) {
        for item in self.items() {
            for (flag, memory) in [(mapping::STAGED, item.device_view), (mapping::COPIED, item.result)] {
                if item.flags & flag != 0 {
                    // SAFETY: the flags mark memory from the store that the item owns.
                    unsafe { store.release(memory as *mut u8) };
                }
            }
        }
        // SAFETY: all came from the store, and the caller has the only reference and does not use it again.
        unsafe {
            store.release(self.items.cast());
            store.release(self.addresses.cast());
            store.release(ptr::from_ref(self).cast_mut().cast());
        }
    }

    /// Records that the calling thread entered the `target data` region of this command.
    pub fn begin_data(&'static self, me: &Thread) {
        let enclosing: *const Self = me.target_data.replace(ptr::from_ref(self).cast()).cast();
        // SAFETY: the pointer was stored by this function; the command is released only after `end_data`.
        self.enclosing.set(unsafe { enclosing.as_ref() });
    }

    /// Records that the calling thread left its innermost `target data` region, and returns that region's
    /// command.
    pub fn end_data(me: &Thread) -> Option<&'static Self> {
        // SAFETY: as in `begin_data`.
        let command: &'static Self = unsafe { me.target_data.get().cast::<Self>().as_ref() }?;
        me.target_data
            .set(command.enclosing.get().map_or(ptr::null(), |enclosing| ptr::from_ref(enclosing).cast()));
        Some(command)
    }

    /// Executes the command on a thread of its node.
    fn execute(&self, me: &'static Thread) {
        let device = me.root().devices().at(self.node);
        match self.kind.get() {
            CommandKind::Run => {
                me.status.charge_to(None, processor_time::current_thread_time_ns);
                self.begin(me, device);
                for (index, item) in self.items().iter().enumerate() {
                    // SAFETY: there is an address for each item.
                    unsafe { self.addresses.add(index).write(item.result) };
                }
                if let Some(function) = self.function.get() {
                    one_thread_team::run_in_own_team(me, self.node + 1, self.limit.get(), || {
                        // SAFETY: the program's function, with an address for each item that it uses.
                        unsafe { function(self.addresses.cast()) };
                    });
                }
                separate_processes::flush();
                self.end(me, device);
            }
            CommandKind::Begin => self.begin(me, device),
            CommandKind::End => self.end(me, device),
            CommandKind::Exit => self.with_data(me, device, |work, items| {
                // SAFETY: the program guarantees that the data of its construct is valid and does not change.
                unsafe { work.exit(items) };
                Ok(())
            }),
            CommandKind::Update => self.with_data(me, device, |work, items| {
                // SAFETY: as above.
                unsafe { work.update(items) }
            }),
            CommandKind::Allocate => self.arguments.set([
                (memory::allocator_of(me.root()).allocate)(self.arguments.get()[0]) as usize,
                0,
                0,
            ]),
            // SAFETY: the program guarantees that the memory came from the same allocator.
            CommandKind::Release => unsafe {
                (memory::allocator_of(me.root()).release)(self.arguments.get()[0] as *mut u8);
            },
            CommandKind::Call | CommandKind::RunThread => {
                one_thread_team::run_in_own_team(me, self.node + 1, 0, || self.call(me));
                separate_processes::flush();
            }
            CommandKind::Copy => {
                let [target, source, bytes] = self.arguments.get();
                // SAFETY: the program guarantees that both ranges are valid.
                unsafe { ptr::copy(source as *const u8, target as *mut u8, bytes) };
            }
        }
    }

    /// Calls the function of a remote call, with this thread acting as the migrating thread meanwhile, or the
    /// start function of a thread.
    pub(super) fn call(&self, me: &'static Thread) {
        let [argument, errno, _] = self.arguments.get();
        let argument = argument as *mut libc::c_void;
        let before = MigrationState::replace_current(self.migration.get(), me);
        let activity = self.act_as_migrating_thread(me);
        let exit_target = me.exit_target.get();
        let program = self.migration.get().map_or(me, MigrationState::origin);
        let saved = thread_block::switch_to(program.tls_block.get());
        let held = exceptions::replace_globals(self.exceptions.get());
        sys::set_errno(errno);
        let result = if let Some(start_routine) = self.start_routine.get() {
            let mut stack = 0;
            me.exit_target.set(ExitTarget::Call(&raw mut stack));
            // SAFETY: the program's function, with its argument; `stack` is local.
            let result = unsafe { nonlocal_exit::call(start_routine, argument, &raw mut stack) };
            result as usize
        } else {
            let began_ns = me.root().settings.balance.then(sys::now_ns);
            if let Some(function) = self.function.get() {
                // SAFETY: the program's function, with the frame that `tombolo ompcc` created for it.
                self.exit.set(unsafe { call_leavable(me, function, argument) });
            }
            began_ns.map_or(0, |began_ns| sys::now_ns().saturating_sub(began_ns)) as usize
        };
        self.arguments.set([argument as usize, sys::errno(), result]);
        self.exceptions.set(exceptions::replace_globals(held));
        thread_block::restore(&saved);
        me.exit_target.set(exit_target);
        me.status.set_activity(activity);
        MigrationState::replace_current(before, me);
    }

    /// Returns how the function of a remote call was left, if it did not return.
    pub(super) fn exit(&self) -> Option<CallExit> {
        self.exit.get()
    }

    /// Makes the calling thread act as the migrating thread. Returns its previous activity.
    fn act_as_migrating_thread(&self, me: &'static Thread) -> Activity {
        let Some(migration) = self.migration.get() else { return me.status.activity() };
        let function = self.function.get().map_or(0, |function| function as usize);
        let function = self.start_routine.get().map_or(function, |start_routine| start_routine as usize);
        migration.switch_to(me, function);
        let origin = migration.origin();
        let other = (!ptr::eq(origin, me)).then_some(&origin.status);
        me.status.charge_to(other, processor_time::current_thread_time_ns);
        me.status.set_activity(if other.is_some() {
            Activity::RunningMigratedThread
        } else {
            Activity::Running
        })
    }

    fn begin(&self, me: &'static Thread, device: &Device) {
        self.with_data(me, device, |work, items| {
            // SAFETY: the program guarantees that the data of its construct is valid and does not change.
            unsafe { work.begin(items) }
        });
    }

    fn end(&self, me: &'static Thread, device: &Device) {
        self.with_data(me, device, |work, items| {
            // SAFETY: as above.
            unsafe { work.end(items) };
            Ok(())
        });
    }

    fn with_data(
        &self,
        me: &'static Thread,
        device: &Device,
        run: impl FnOnce(&mut MappingContext<'_>, &mut [Item]) -> Result<(), mapping::MappingError>,
    ) {
        let root = me.root();
        let items = self.items();
        if items.is_empty() {
            return;
        }
        let (moved, result) = device.with_table(|table| {
            let copies = root.settings.target_copies;
            let mut work = MappingContext {
                table,
                store: root.store,
                memory: memory::allocator_of(root),
                copies,
                moved: (0, 0),
            };
            let result = run(&mut work, items);
            (work.moved, result)
        });
        count_transferred_bytes(device, moved);
        if let Err(failure) = result {
            let (name, node) = (self.construct.name(), root.nodes().at(self.node).name());
            sys::fatal(format_args!("{name}: device {} (node {node}): {failure}", self.node - 1));
        }
    }
}

/// Calls a marked function with its frame such that [`super::migrate::leave_call`] can leave it. Returns how
/// it was left, if it did not return.
///
/// # Safety
/// The function must be callable with the frame.
pub(super) unsafe fn call_leavable(
    me: &'static Thread,
    function: Function,
    frame: *mut libc::c_void,
) -> Option<CallExit> {
    let remote_call = RemoteCall::default();
    let exit_target = me.exit_target.replace(ExitTarget::RemoteCall(&raw const remote_call));
    let mut called = CallArguments { function, frame };
    let called = (&raw mut called).cast();
    // SAFETY: guaranteed by the caller; the `RemoteCall` is local.
    let thrown = handlers::preserve_across(|| unsafe {
        nonlocal_exit::call(call_and_catch, called, remote_call.stack.as_ptr())
    });
    me.exit_target.set(exit_target);
    remote_call.exit.get().or_else(|| (!thrown.is_null()).then_some(CallExit::Throw(thrown as usize)))
}

/// Argument of [`call_and_catch`].
struct CallArguments {
    function: Function,
    frame: *mut libc::c_void,
}

/// Calls the function of a remote call. Returns the exception that it throws, or null.
///
/// # Safety
/// The argument must be a [`CallArguments`] whose function is callable with its frame.
unsafe extern "C" fn call_and_catch(called: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let CallArguments { function, frame } = called.cast::<CallArguments>().read();
        exceptions::call(function, frame)
    }
}

/// Executes the command that a worker was given.
pub(crate) fn execute_assigned(me: &'static Thread) {
    // SAFETY: commands are in the store and are released only after completion.
    let Some(command) = (unsafe { me.assigned_data.get().cast::<Command>().as_ref::<'static>() }) else {
        return;
    };
    command.execute(me);
    let event = command.event.get();
    // From here on the worker may be given other work.
    me.root().release_worker(me);
    if event != 0 {
        command.release(me.root().store);
        tasks::fulfill(event);
    } else {
        command.complete();
    }
}

/// Counts bytes copied to a device and back, for the calling thread.
pub(super) fn count_transferred_bytes(device: &Device, moved: (u64, u64)) {
    device.count_transferred_bytes(moved);
    count_bytes_moved(moved.0 + moved.1);
}

/// Counts bytes moved between memories of nodes, by or for the calling thread: mapped data of `target`,
/// replicas and the like. Called by the code that moves them; loads and stores of shared memory are not
/// counted.
pub fn count_bytes_moved(bytes: u64) {
    let Some(me) = thread::try_current().filter(|me| me.root().settings.report) else { return };
    match me.tally() {
        Some(tally) if me.team().level() > 0 => tally.count_bytes_moved(bytes),
        _ => me.root().tallies.count_bytes_moved_outside(bytes),
    }
}
