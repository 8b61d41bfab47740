//! Orders: the work that a construct gives to a thread of a device.

use std::cell::Cell;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

use super::exceptions::{self, Held};
use super::mapping::{self, Item, Work};
use super::migrant::Migrant;
use super::{alone, memory};
use crate::constructs::tasks;
use crate::primitives::leavable::{self, Begin};
use crate::primitives::store::Store;
use crate::primitives::{exclusive, handlers, processor_time, sys, thread_block};
use crate::team::devices::Device;
use crate::team::root::Root;
use crate::team::shown::Activity;
use crate::team::task::Function;
use crate::team::thread::{self, Left, Thread, Visit, WayOut};
use crate::team::waiting;

/// Action of an order.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderKind {
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
    Visit,
    /// Run a thread that the program creates.
    Live,
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

/// Order for a thread of a device, in the store.
#[repr(C)]
pub struct Order {
    kind: Cell<OrderKind>,
    node: u32,
    construct: Construct,
    items: *mut Item,
    count: usize,
    /// Argument of the region: an address per item.
    addresses: *mut usize,
    function: Cell<Option<Function>>,
    begin: Cell<Option<Begin>>,
    limit: Cell<u32>,
    /// Arguments and results of some kinds.
    pub(super) words: Cell<[usize; 3]>,
    /// Event of the task that ends with the order; 0 if none.
    event: Cell<usize>,
    caller: Cell<Option<&'static Thread>>,
    done: AtomicU32,
    /// Exception state of the thread that migrates.
    exceptions: Cell<Held>,
    /// Migrating thread, in a visit.
    migrant: Cell<Option<&'static Migrant>>,
    /// How the function of a visit was left, if it did not return.
    left: Cell<Option<Left>>,
    /// Enclosing `target data` region of the same thread.
    around: Cell<Option<&'static Order>>,
}

// SAFETY: only the thread that currently has the order writes the cells; handing it over synchronises them.
unsafe impl Sync for Order {}

impl Order {
    /// Creates an order for a node, with a copy of the items.
    pub fn new(
        root: &'static Root,
        node: u32,
        construct: Construct,
        kind: OrderKind,
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
            begin: Cell::new(None),
            limit: Cell::new(0),
            words: Cell::new([0; 3]),
            event: Cell::new(0),
            caller: Cell::new(None),
            done: AtomicU32::new(0),
            exceptions: Cell::new(exceptions::NONE),
            migrant: Cell::new(None),
            left: Cell::new(None),
            around: Cell::new(None),
        })
    }

    /// Returns the node that must execute it.
    pub fn node(&self) -> u32 {
        self.node
    }

    /// Sets the region to run and its thread limit; 0 for no limit.
    pub fn runs(&self, function: Function, limit: u32) {
        self.function.set(Some(function));
        self.limit.set(limit);
    }

    /// Sets the function to call for a thread that migrates, with the frame of its arguments and its result.
    pub(super) fn visits(&self, migrant: &'static Migrant, function: Function, frame: usize) {
        self.function.set(Some(function));
        self.migrant.set(Some(migrant));
        self.words.set([frame, sys::errno(), 0]);
        self.exceptions.set(exceptions::held());
    }

    /// Transfers the exception state after a visit to the calling thread.
    pub(super) fn hold_exceptions(&self) {
        exceptions::hold(self.exceptions.get());
    }

    /// Sets the start function of a thread that the program creates.
    pub(super) fn lives(&self, migrant: &'static Migrant, begin: Begin, argument: usize) {
        self.begin.set(Some(begin));
        self.migrant.set(Some(migrant));
        self.words.set([argument, 0, 0]);
    }

    /// Returns the result of that thread or, for a visit, the duration of the function if measured.
    pub(super) fn result(&self) -> usize {
        self.words.get()[2]
    }

    /// Returns `errno` at the return of a visit's function.
    pub(super) fn errno(&self) -> usize {
        self.words.get()[1]
    }

    /// Changes the action on its items.
    pub fn becomes(&self, kind: OrderKind) {
        self.kind.set(kind);
    }

    /// Returns its items. Only the thread that has the order may call this.
    #[expect(clippy::mut_from_ref, reason = "an order is one thread's at a time")]
    pub fn items(&self) -> &mut [Item] {
        // SAFETY: the list has `count` items, and only the caller accesses the order.
        unsafe { slice::from_raw_parts_mut(self.items, self.count) }
    }

    /// Has a thread of its node execute it, and waits for that.
    pub fn carry_out(&'static self, me: &'static Thread) {
        self.begin_for(me);
        self.hand_over(me.root(), me.root().hire_there(self.node));
        waiting::until_surely(me, || self.is_done());
    }

    /// Resets its completion and sets this thread as the one to be woken.
    pub(super) fn begin_for(&self, me: &'static Thread) {
        self.done.store(0, Ordering::Relaxed);
        self.event.set(0);
        self.caller.set(Some(me));
    }

    pub(super) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire) != 0
    }

    /// Marks it as done and wakes its caller.
    pub(super) fn answer(&self) {
        let caller = self.caller.get();
        self.done.store(1, Ordering::Release);
        if let Some(caller) = caller {
            caller.parker.tell();
        }
    }

    /// Has a thread of its node execute it. That thread then fulfills the task's event and releases the
    /// order.
    pub fn carry_out_for(&'static self, me: &'static Thread, event: usize) {
        self.event.set(event);
        self.hand_over(me.root(), me.root().hire_there(self.node));
    }

    /// Gives it to a worker of its node that was hired for it.
    pub(super) fn hand_over(&'static self, root: &'static Root, thread: &'static Thread) {
        // SAFETY: teams are never freed.
        let before = unsafe { thread.given_team.replace(ptr::null()).as_ref() };
        thread.given_data.set(ptr::from_ref(self).cast_mut().cast());
        exclusive::flush();
        thread.parker.give(thread.parker.given().wrapping_add(1) & (u32::MAX >> 1));
        if let Some(before) = before {
            // The worker may be waiting on the bell of its last team.
            before.call();
        }
        if let Err(text) = root.start(thread) {
            sys::fatal(text);
        }
    }

    /// Frees the order and the copies that its items own.
    pub fn release(&'static self, store: &Store) {
        for item in self.items() {
            for (flag, memory) in [(mapping::STAGED, item.seen), (mapping::COPIED, item.result)] {
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

    /// Records that the calling thread entered the `target data` region of this order.
    pub fn begin_data(&'static self, me: &Thread) {
        let around: *const Self = me.data.replace(ptr::from_ref(self).cast()).cast();
        // SAFETY: the pointer was stored by this function; the order is released only after `end_data`.
        self.around.set(unsafe { around.as_ref() });
    }

    /// Records that the calling thread left its innermost `target data` region, and returns that region's
    /// order.
    pub fn end_data(me: &Thread) -> Option<&'static Self> {
        // SAFETY: as in `begin_data`.
        let order: &'static Self = unsafe { me.data.get().cast::<Self>().as_ref() }?;
        me.data.set(order.around.get().map_or(ptr::null(), |around| ptr::from_ref(around).cast()));
        Some(order)
    }

    /// Executes the order on a thread of its node.
    fn obey(&self, me: &'static Thread) {
        let device = me.root().devices().at(self.node);
        match self.kind.get() {
            OrderKind::Run => {
                me.shown.carry(None, processor_time::own_time_ns);
                self.begin(me, device);
                for (index, item) in self.items().iter().enumerate() {
                    // SAFETY: there is an address for each item.
                    unsafe { self.addresses.add(index).write(item.result) };
                }
                if let Some(function) = self.function.get() {
                    alone::run(me, self.node + 1, self.limit.get(), || {
                        // SAFETY: the program's function, with an address for each item that it uses.
                        unsafe { function(self.addresses.cast()) };
                    });
                }
                exclusive::flush();
                self.end(me, device);
            }
            OrderKind::Begin => self.begin(me, device),
            OrderKind::End => self.end(me, device),
            OrderKind::Exit => self.with_data(me, device, |work, items| {
                // SAFETY: the program guarantees that the data of its construct is valid and does not change.
                unsafe { work.exit(items) };
                Ok(())
            }),
            OrderKind::Update => self.with_data(me, device, |work, items| {
                // SAFETY: as above.
                unsafe { work.update(items) }
            }),
            OrderKind::Allocate => {
                self.words.set([(memory::of(me.root()).allocate)(self.words.get()[0]) as usize, 0, 0])
            }
            // SAFETY: the program guarantees that the memory came from the same allocator.
            OrderKind::Release => unsafe { (memory::of(me.root()).release)(self.words.get()[0] as *mut u8) },
            OrderKind::Visit | OrderKind::Live => {
                alone::run(me, self.node + 1, 0, || self.call(me));
                exclusive::flush();
            }
            OrderKind::Copy => {
                let [target, source, bytes] = self.words.get();
                // SAFETY: the program guarantees that both ranges are valid.
                unsafe { ptr::copy(source as *const u8, target as *mut u8, bytes) };
            }
        }
    }

    /// Calls the function of a visit, with this thread acting as the migrating thread meanwhile, or the start
    /// function of a thread.
    pub(super) fn call(&self, me: &'static Thread) {
        let [argument, errno, _] = self.words.get();
        let argument = argument as *mut libc::c_void;
        let before = Migrant::take_over(self.migrant.get(), me);
        let activity = self.begin_as(me);
        let way_out = me.way_out.get();
        let program = self.migrant.get().map_or(me, Migrant::origin);
        let block = thread_block::enter(program.block.get());
        let held = exceptions::hold(self.exceptions.get());
        sys::set_errno(errno);
        let result = if let Some(begin) = self.begin.get() {
            let mut stack = 0;
            me.way_out.set(WayOut::Call(&raw mut stack));
            // SAFETY: the program's function, with its argument; `stack` is local.
            let result = unsafe { leavable::call(begin, argument, &raw mut stack) };
            result as usize
        } else {
            let began_ns = me.root().settings.balance.then(sys::now_ns);
            if let Some(function) = self.function.get() {
                // SAFETY: the program's function, with the frame that `tombolo ompcc` created for it.
                self.left.set(unsafe { visit(me, function, argument) });
            }
            began_ns.map_or(0, |began_ns| sys::now_ns().saturating_sub(began_ns)) as usize
        };
        self.words.set([argument as usize, sys::errno(), result]);
        self.exceptions.set(exceptions::hold(held));
        thread_block::leave(&block);
        me.way_out.set(way_out);
        me.shown.does(activity);
        Migrant::take_over(before, me);
    }

    /// Returns how the function of a visit was left, if it did not return.
    pub(super) fn left(&self) -> Option<Left> {
        self.left.get()
    }

    /// Makes the calling thread act as the migrating thread. Returns its previous activity.
    fn begin_as(&self, me: &'static Thread) -> Activity {
        let Some(migrant) = self.migrant.get() else { return me.shown.activity() };
        let function = self.function.get().map_or(0, |function| function as usize);
        let function = self.begin.get().map_or(function, |begin| begin as usize);
        migrant.go_on(me, function);
        let origin = migrant.origin();
        let other = (!ptr::eq(origin, me)).then_some(&origin.shown);
        me.shown.carry(other, processor_time::own_time_ns);
        me.shown.does(if other.is_some() { Activity::Carries } else { Activity::Runs })
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
        run: impl FnOnce(&mut Work<'_>, &mut [Item]) -> Result<(), mapping::Failure>,
    ) {
        let root = me.root();
        let items = self.items();
        if items.is_empty() {
            return;
        }
        let (moved, result) = device.with(|table| {
            let copies = root.settings.target_copies;
            let mut work = Work { table, store: root.store, memory: memory::of(root), copies, moved: (0, 0) };
            let result = run(&mut work, items);
            (work.moved, result)
        });
        count_moved(device, moved);
        if let Err(failure) = result {
            let (name, node) = (self.construct.name(), root.nodes().at(self.node).name());
            sys::fatal(format_args!("{name}: device {} (node {node}): {failure}", self.node - 1));
        }
    }
}

/// Calls a marked function with its frame such that [`super::migrate::leave`] can leave it. Returns how it
/// was left, if it did not return.
///
/// # Safety
/// The function must be callable with the frame.
pub(super) unsafe fn visit(
    me: &'static Thread,
    function: Function,
    frame: *mut libc::c_void,
) -> Option<Left> {
    let visit = Visit::default();
    let way_out = me.way_out.replace(WayOut::Visit(&raw const visit));
    let mut called = Called { function, frame };
    let called = (&raw mut called).cast();
    // SAFETY: guaranteed by the caller; the `Visit` is local.
    let thrown = handlers::within(|| unsafe { leavable::call(visited, called, visit.stack.as_ptr()) });
    me.way_out.set(way_out);
    visit.left.get().or_else(|| (!thrown.is_null()).then_some(Left::Throw(thrown as usize)))
}

/// Argument of [`visited`].
struct Called {
    function: Function,
    frame: *mut libc::c_void,
}

/// Calls the function of a visit. Returns the exception that it throws, or null.
///
/// # Safety
/// The argument must be a [`Called`] whose function is callable with its frame.
unsafe extern "C" fn visited(called: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let Called { function, frame } = called.cast::<Called>().read();
        exceptions::call(function, frame)
    }
}

/// Executes the order that a worker was given.
pub(crate) fn carry_out_given(me: &'static Thread) {
    // SAFETY: orders are in the store and are released only after completion.
    let Some(order) = (unsafe { me.given_data.get().cast::<Order>().as_ref::<'static>() }) else { return };
    order.obey(me);
    let event = order.event.get();
    // From here on the worker may be given other work.
    me.root().dismiss(me);
    if event != 0 {
        order.release(me.root().store);
        tasks::fulfill(event);
    } else {
        order.answer();
    }
}

/// Counts bytes copied to a device and back, for the calling thread.
pub(super) fn count_moved(device: &Device, moved: (u64, u64)) {
    device.count_moved(moved);
    tally_moved(moved.0 + moved.1);
}

/// Counts bytes moved between memories of nodes, by or for the calling thread: mapped data of `target`,
/// replicas and the like. Called by the code that moves them; loads and stores of shared memory are not
/// counted.
pub fn tally_moved(bytes: u64) {
    let Some(me) = thread::known().filter(|me| me.root().settings.report) else { return };
    match me.tally() {
        Some(tally) if me.team().level() > 0 => tally.move_bytes(bytes),
        _ => me.root().tallies.move_outside(bytes),
    }
}
