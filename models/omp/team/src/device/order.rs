//! Orders: what a thread of a device is told to do for a construct.

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

/// What a thread of a device is to do.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderKind {
    /// Get the data, run the region, give the data up.
    Run,
    /// Get the data.
    Begin,
    /// Give up what was got.
    End,
    /// Give up what is named.
    Exit,
    /// Have bytes go and come.
    Update,
    /// Allocate bytes of the device's memory.
    Allocate,
    /// Give them back.
    Release,
    /// Copy bytes, of the device's memory or what is shared.
    Copy,
    /// Call a function for a thread that migrates.
    Visit,
    /// Be a thread that the program creates.
    Live,
}

/// The constructs that orders come from, for messages.
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
    /// A call of a function.
    Call,
    /// A call by a thread that migrates.
    Migration,
    /// `pthread_create`.
    Create,
}

impl Construct {
    /// What it is called.
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

/// What a thread of a device is told. It lies in the store.
#[repr(C)]
pub struct Order {
    kind: Cell<OrderKind>,
    node: u32,
    construct: Construct,
    items: *mut Item,
    count: usize,
    /// What the region gets: an address for each item.
    addresses: *mut usize,
    function: Cell<Option<Function>>,
    begin: Cell<Option<Begin>>,
    limit: Cell<u32>,
    /// Numbers that some kinds need.
    pub(super) words: Cell<[usize; 3]>,
    /// The event of the task that ends with the order, if there is one.
    event: Cell<usize>,
    caller: Cell<Option<&'static Thread>>,
    done: AtomicU32,
    /// The exceptions that the thread holds.
    exceptions: Cell<Held>,
    /// The thread that migrates, in a visit.
    migrant: Cell<Option<&'static Migrant>>,
    /// How the function of a visit was left, if it did not return.
    left: Cell<Option<Left>>,
    /// The `target data` around, on the same thread.
    around: Cell<Option<&'static Order>>,
}

// SAFETY: cells are written before the order is handed over, by the thread that has it then.
unsafe impl Sync for Order {}

impl Order {
    /// For a node, with items.
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

    /// The node that it is for.
    pub fn node(&self) -> u32 {
        self.node
    }

    /// The region to run, and how many threads there may be in it; 0: as many as there are.
    pub fn runs(&self, function: Function, limit: u32) {
        self.function.set(Some(function));
        self.limit.set(limit);
    }

    /// The function to call for a thread that migrates, with the frame of its arguments and its result.
    pub(super) fn visits(&self, migrant: &'static Migrant, function: Function, frame: usize) {
        self.function.set(Some(function));
        self.migrant.set(Some(migrant));
        self.words.set([frame, sys::errno(), 0]);
        self.exceptions.set(exceptions::held());
    }

    /// The calling thread holds the exceptions that it holds after a visit.
    pub(super) fn hold_exceptions(&self) {
        exceptions::hold(self.exceptions.get());
    }

    /// What a thread that the program creates begins with.
    pub(super) fn lives(&self, migrant: &'static Migrant, begin: Begin, argument: usize) {
        self.begin.set(Some(begin));
        self.migrant.set(Some(migrant));
        self.words.set([argument, 0, 0]);
    }

    /// What that thread returned; in a visit, how long the function took, where that is measured.
    pub(super) fn result(&self) -> usize {
        self.words.get()[2]
    }

    /// What `errno` was when the function of a visit returned.
    pub(super) fn errno(&self) -> usize {
        self.words.get()[1]
    }

    /// What it is to be done with its items from now on.
    pub fn becomes(&self, kind: OrderKind) {
        self.kind.set(kind);
    }

    /// Its items. Only the thread that has the order may call this.
    #[expect(clippy::mut_from_ref, reason = "an order is one thread's at a time")]
    pub fn items(&self) -> &mut [Item] {
        // SAFETY: the list has `count` items, and only the caller uses the order.
        unsafe { slice::from_raw_parts_mut(self.items, self.count) }
    }

    /// Has it done by a thread of its node, and waits until it is.
    pub fn carry_out(&'static self, me: &'static Thread) {
        self.begin_for(me);
        self.hand_over(me.root(), me.root().hire_there(self.node));
        waiting::until_surely(me, || self.is_done());
    }

    /// This thread waits until it is done.
    pub(super) fn begin_for(&self, me: &'static Thread) {
        self.done.store(0, Ordering::Relaxed);
        self.event.set(0);
        self.caller.set(Some(me));
    }

    pub(super) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire) != 0
    }

    /// It is done: its caller goes on.
    pub(super) fn answer(&self) {
        let caller = self.caller.get();
        self.done.store(1, Ordering::Release);
        if let Some(caller) = caller {
            caller.parker.tell();
        }
    }

    /// Has it done by a thread of its node, which then ends the task that has this event, and gives the order
    /// back.
    pub fn carry_out_for(&'static self, me: &'static Thread, event: usize) {
        self.event.set(event);
        self.hand_over(me.root(), me.root().hire_there(self.node));
    }

    /// Gives it to a worker of its node, which was hired for it.
    pub(super) fn hand_over(&'static self, root: &'static Root, thread: &'static Thread) {
        // SAFETY: teams live for ever.
        let before = unsafe { thread.given_team.replace(ptr::null()).as_ref() };
        thread.given_data.set(ptr::from_ref(self).cast_mut().cast());
        exclusive::flush();
        thread.parker.give(thread.parker.given().wrapping_add(1) & (u32::MAX >> 1));
        if let Some(before) = before {
            // It may wait for that team's next region.
            before.call();
        }
        if let Err(text) = root.start(thread) {
            sys::fatal(text);
        }
    }

    /// Gives its memory back.
    pub fn release(&'static self, store: &Store) {
        for item in self.items() {
            for (flag, memory) in [(mapping::STAGED, item.seen), (mapping::COPIED, item.result)] {
                if item.flags & flag != 0 {
                    // SAFETY: the item says that it is its own, of the store.
                    unsafe { store.release(memory as *mut u8) };
                }
            }
        }
        // SAFETY: all came from the store, and the caller has the order alone and does not look at it again.
        unsafe {
            store.release(self.items.cast());
            store.release(self.addresses.cast());
            store.release(ptr::from_ref(self).cast_mut().cast());
        }
    }

    /// The calling thread has come into the `target data` that this is for.
    pub fn begin_data(&'static self, me: &Thread) {
        let around: *const Self = me.data.replace(ptr::from_ref(self).cast()).cast();
        // SAFETY: what is stored there came from this function, and is released only after `end_data`.
        self.around.set(unsafe { around.as_ref() });
    }

    /// The calling thread leaves the innermost `target data` that it is in.
    pub fn end_data(me: &Thread) -> Option<&'static Self> {
        // SAFETY: as in `begin_data`.
        let order: &'static Self = unsafe { me.data.get().cast::<Self>().as_ref() }?;
        me.data.set(order.around.get().map_or(ptr::null(), |around| ptr::from_ref(around).cast()));
        Some(order)
    }

    /// What a thread of the node does with it.
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
                        // SAFETY: the program's function, with an address for each thing that it uses.
                        unsafe { function(self.addresses.cast()) };
                    });
                }
                exclusive::flush();
                self.end(me, device);
            }
            OrderKind::Begin => self.begin(me, device),
            OrderKind::End => self.end(me, device),
            OrderKind::Exit => self.with_data(me, device, |work, items| {
                // SAFETY: the program says that what its construct names is there, and does not change.
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
            // SAFETY: the program says that it came from there.
            OrderKind::Release => unsafe { (memory::of(me.root()).release)(self.words.get()[0] as *mut u8) },
            OrderKind::Visit | OrderKind::Live => {
                alone::run(me, self.node + 1, 0, || self.call(me));
                exclusive::flush();
            }
            OrderKind::Copy => {
                let [target, source, bytes] = self.words.get();
                // SAFETY: the program says that both are there, so long.
                unsafe { ptr::copy(source as *const u8, target as *mut u8, bytes) };
            }
        }
    }

    /// Calls the function of a visit for the thread that migrates, which is this thread meanwhile, or that
    /// with which a thread begins.
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
            // SAFETY: the program's function, with its argument; the place is ours.
            let result = unsafe { leavable::call(begin, argument, &raw mut stack) };
            result as usize
        } else {
            let began_ns = me.root().settings.balance.then(sys::now_ns);
            if let Some(function) = self.function.get() {
                // SAFETY: the program's function, with the frame that `tombolo ompcc` made for it.
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

    /// How the function of a visit was left, if it did not return.
    pub(super) fn left(&self) -> Option<Left> {
        self.left.get()
    }

    /// The calling thread is the one that migrates from here on. What it did before.
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
            // SAFETY: the program says that what its construct names is there, and does not change.
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

/// Calls a marked function with its frame, so that it can be left by [`super::migrate::leave`]. How it was
/// left, if it did not return.
///
/// # Safety
/// The function may be called with the frame.
pub(super) unsafe fn visit(
    me: &'static Thread,
    function: Function,
    frame: *mut libc::c_void,
) -> Option<Left> {
    let visit = Visit::default();
    let way_out = me.way_out.replace(WayOut::Visit(&raw const visit));
    let mut called = Called { function, frame };
    let called = (&raw mut called).cast();
    // SAFETY: the caller says so; the place is ours.
    let thrown = handlers::within(|| unsafe { leavable::call(visited, called, visit.stack.as_ptr()) });
    me.way_out.set(way_out);
    visit.left.get().or_else(|| (!thrown.is_null()).then_some(Left::Throw(thrown as usize)))
}

/// What a visit calls.
struct Called {
    function: Function,
    frame: *mut libc::c_void,
}

/// Calls the function of a visit. What it throws, or null.
///
/// # Safety
/// The argument is a [`Called`] whose function may be called.
unsafe extern "C" fn visited(called: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: the caller says so.
    unsafe {
        let Called { function, frame } = called.cast::<Called>().read();
        exceptions::call(function, frame)
    }
}

/// Carries out the order that a worker was given.
pub(crate) fn carry_out_given(me: &'static Thread) {
    // SAFETY: orders lie in the store, and are released only once they are done.
    let Some(order) = (unsafe { me.given_data.get().cast::<Order>().as_ref::<'static>() }) else { return };
    order.obey(me);
    let event = order.event.get();
    // From here on it may be given something else to do.
    me.root().dismiss(me);
    if event != 0 {
        order.release(me.root().store);
        tasks::fulfill(event);
    } else {
        order.answer();
    }
}

/// Bytes went to a device and came back from it, for the calling thread.
pub(super) fn count_moved(device: &Device, moved: (u64, u64)) {
    device.count_moved(moved);
    tally_moved(moved.0 + moved.1);
}

/// Counts bytes that were moved between memories of nodes, by or for the calling thread: mapped data of
/// `target`, replicas and the like. The code that moves them calls this; loads and stores of shared memory
/// are not counted.
pub fn tally_moved(bytes: u64) {
    let Some(me) = thread::known().filter(|me| me.root().settings.report) else { return };
    match me.tally() {
        Some(tally) if me.team().level() > 0 => tally.move_bytes(bytes),
        _ => me.root().tallies.move_outside(bytes),
    }
}
