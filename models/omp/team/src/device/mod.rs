//! Nodes as devices: regions and data of `target` constructs on nodes other than the master's.
//!
//! Device `k` is node `k + 1`, and the host is the device behind the last. A construct for a device becomes an [`Order`] that a thread of that node
//! carries out: it sees to the data ([`mapping`]), and runs the region, in which teams get threads of that node only. Memory that
//! all workers share need not be copied; a device has copies of what it cannot reach, or of everything if the program is to be run
//! as if devices had memory of their own (`OMP_TOMBOLO_TARGET=copy`).

pub mod mapping;
pub mod present;

use std::cell::{Cell, UnsafeCell};
use std::ptr;
use std::slice;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use self::mapping::{Item, Memory, Work};
use self::present::{Entry, FOREVER, Found, Table};
use crate::lock::Lock;
use crate::nodes::NODES;
use crate::root::Root;
use crate::store::Store;
use crate::team::Team;
use crate::thread::{Function, Thread};
use crate::wait;
use crate::{barrier, exclusive, share, sys, tally, task};

/// Threads that a team on a device has at most. Programs that are made for cards ask for thousands, which is too many for a node's processors.
pub const MOST_THREADS: u32 = 256;

/// What is known of a node as a device.
#[repr(C, align(64))]
pub struct Device {
    lock: Lock,
    table: UnsafeCell<Table>,
    /// Entries of the table, for whoever only wants to know whether there are any.
    entries: AtomicUsize,
    moved_to: AtomicU64,
    moved_from: AtomicU64,
}

// SAFETY: the table is touched only while the lock is held.
unsafe impl Sync for Device {}

/// All devices, by node. All zero is devices that have nothing.
pub struct Devices([Device; NODES]);

impl Devices {
    /// That which a node is.
    pub fn at(&self, node: u32) -> &Device {
        &self.0[node as usize % NODES]
    }
}

impl Device {
    /// Does something with what the device has.
    fn with<T>(&self, run: impl FnOnce(&mut Table) -> T) -> T {
        self.lock.acquire();
        // SAFETY: the lock is held.
        let table = unsafe { &mut *self.table.get() };
        let result = run(table);
        self.entries.store(table.entries().len(), Ordering::Release);
        self.lock.release();
        result
    }

    /// Whether it has nothing of the host's.
    pub fn is_empty(&self) -> bool {
        self.entries.load(Ordering::Acquire) == 0
    }

    /// Where it has an address of the host.
    pub fn translate(&self, host: usize) -> Option<usize> {
        self.with(|table| match table.find(host, 0) {
            Found::Whole(index) if host < table.entry(index).end => Some(table.entry(index).translate(host)),
            _ => None,
        })
    }

    /// Has it use memory that the program says for a range of the host's. Whether it can: nothing of the range is there, or all of it
    /// just so.
    pub fn associate(&self, store: &'static Store, host: usize, bytes: usize, device: usize) -> bool {
        self.with(|table| match table.find(host, bytes.max(1)) {
            Found::Nothing if bytes > 0 => {
                let end = host.saturating_add(bytes);
                table.insert(store, Entry { begin: host, end, device, count: FOREVER, born: 0, last: 0 });
                true
            }
            Found::Whole(index) => {
                let entry = *table.entry(index);
                entry.count == FOREVER && entry.translate(host) == device
            }
            _ => false,
        })
    }

    /// The reverse. Whether there was something to undo.
    pub fn dissociate(&self, host: usize) -> bool {
        self.with(|table| match table.find(host, 1) {
            Found::Whole(index) if table.entry(index).count == FOREVER => {
                table.remove(index);
                true
            }
            _ => false,
        })
    }

    /// Bytes that went there, and that came back.
    pub fn moved(&self) -> (u64, u64) {
        (self.moved_to.load(Ordering::Relaxed), self.moved_from.load(Ordering::Relaxed))
    }

    fn count_moved(&self, (to, from): (u64, u64)) {
        self.moved_to.fetch_add(to, Ordering::Relaxed);
        self.moved_from.fetch_add(from, Ordering::Relaxed);
        tally::moved(to + from);
    }
}

/// What a thread of a device is to do.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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
    /// Allocate so many bytes of the device's memory.
    Allocate,
    /// Give them back.
    Release,
    /// Copy bytes, of the device's memory or what is shared.
    Copy,
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
        }
    }
}

/// What a thread of a device is told. It lies in the store.
#[repr(C)]
pub struct Order {
    kind: Cell<Kind>,
    node: u32,
    construct: Construct,
    items: *mut Item,
    count: usize,
    /// What the region gets: an address for each item.
    addresses: *mut usize,
    function: Cell<Option<Function>>,
    limit: Cell<u32>,
    /// Numbers that some kinds need.
    words: Cell<[usize; 3]>,
    /// The event of the task that ends with the order, if there is one.
    event: Cell<usize>,
    caller: Cell<Option<&'static Thread>>,
    done: AtomicU32,
    /// The `target data` around, on the same thread.
    pub around: Cell<Option<&'static Order>>,
}

// SAFETY: cells are written before the order is handed over, by whoever has it then.
unsafe impl Sync for Order {}

impl Order {
    /// For a node, with items.
    pub fn new(
        root: &'static Root,
        node: u32,
        construct: Construct,
        kind: Kind,
        items: &[Item],
    ) -> &'static Self {
        let store = root.store;
        let count = items.len();
        let allocate = |bytes: usize| store.allocate(bytes.max(16), 16).unwrap_or_else(|| store.exhausted());
        let list = allocate(size_of_val(items)).cast::<Item>();
        let addresses = allocate(count * size_of::<usize>()).cast::<usize>();
        for (index, item) in items.iter().enumerate() {
            // SAFETY: there is room for so many.
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
            limit: Cell::new(0),
            words: Cell::new([0; 3]),
            event: Cell::new(0),
            caller: Cell::new(None),
            done: AtomicU32::new(0),
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

    /// What it is to be done with its items from now on.
    pub fn becomes(&self, kind: Kind) {
        self.kind.set(kind);
    }

    /// Its items. Whoever has the order alone may ask.
    #[expect(clippy::mut_from_ref, reason = "an order is one thread's at a time")]
    pub fn items(&self) -> &mut [Item] {
        // SAFETY: there are so many, and the order is the caller's.
        unsafe { slice::from_raw_parts_mut(self.items, self.count) }
    }

    /// Has it done by a thread of its node, and waits until it is.
    pub fn carry_out(&'static self, me: &'static Thread) {
        self.done.store(0, Ordering::Relaxed);
        self.event.set(0);
        self.caller.set(Some(me));
        self.hand_over(me.root());
        wait::until_surely(me, || self.done.load(Ordering::Acquire) != 0);
    }

    /// Has it done by a thread of its node, which then ends the task that has this event, and gives the order back.
    pub fn carry_out_for(&'static self, me: &'static Thread, event: usize) {
        self.event.set(event);
        self.hand_over(me.root());
    }

    fn hand_over(&'static self, root: &'static Root) {
        let thread = root.hire_there(self.node);
        // SAFETY: teams live for ever.
        let before = unsafe { thread.given_team.replace(ptr::null()).as_ref() };
        thread.given_data.set(ptr::from_ref(self).cast_mut().cast());
        exclusive::flush();
        thread.dock.give(thread.dock.given().wrapping_add(1) & (u32::MAX >> 1));
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

    /// What a thread of the node does with it.
    fn obey(&self, me: &'static Thread) {
        let device = me.root().devices().at(self.node);
        match self.kind.get() {
            Kind::Run => {
                self.begin(me, device);
                for (index, item) in self.items().iter().enumerate() {
                    // SAFETY: there is an address for each item.
                    unsafe { self.addresses.add(index).write(item.result) };
                }
                if let Some(function) = self.function.get() {
                    alone(me, self.node + 1, self.limit.get(), || {
                        // SAFETY: the program's function, with an address for each thing that it uses.
                        unsafe { function(self.addresses.cast()) };
                    });
                }
                exclusive::flush();
                self.end(me, device);
            }
            Kind::Begin => self.begin(me, device),
            Kind::End => self.end(me, device),
            Kind::Exit => self.with_data(me, device, |work, items| {
                // SAFETY: the program says that what its construct names is there, and nobody writes to it.
                unsafe { work.exit(items) };
                Ok(())
            }),
            Kind::Update => self.with_data(me, device, |work, items| {
                // SAFETY: as above.
                unsafe { work.update(items) }
            }),
            Kind::Allocate => {
                self.words.set([(memory(me.root()).allocate)(self.words.get()[0]) as usize, 0, 0])
            }
            // SAFETY: the program says that it came from there.
            Kind::Release => unsafe { (memory(me.root()).release)(self.words.get()[0] as *mut u8) },
            Kind::Copy => {
                let [target, source, bytes] = self.words.get();
                // SAFETY: the program says that both are there, so long.
                unsafe { ptr::copy(source as *const u8, target as *mut u8, bytes) };
            }
        }
    }

    fn begin(&self, me: &'static Thread, device: &Device) {
        self.with_data(me, device, |work, items| {
            // SAFETY: the program says that what its construct names is there, and nobody writes to it.
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
            let mut work = Work { table, store: root.store, memory: memory(root), copies, moved: (0, 0) };
            let result = run(&mut work, items);
            (work.moved, result)
        });
        device.count_moved(moved);
        if let Err(failure) = result {
            let (name, node) = (self.construct.name(), root.nodes().at(self.node).name());
            sys::fatal(format_args!("{name}: device {} (node {node}): {failure}", self.node - 1));
        }
    }
}

/// Runs what a worker was given that is no part of a region.
pub(crate) fn work(me: &'static Thread) {
    // SAFETY: orders lie in the store, and whoever gave it waits until it is done.
    let Some(order) = (unsafe { me.given_data.get().cast::<Order>().as_ref::<'static>() }) else { return };
    order.obey(me);
    let (event, caller) = (order.event.get(), order.caller.get());
    // From here on it may be given something else, which it will see at its dock.
    me.root().dismiss(me);
    if event != 0 {
        order.release(me.root().store);
        task::fulfill(event);
    } else {
        order.done.store(1, Ordering::Release);
        if let Some(caller) = caller {
            caller.dock.tell();
        }
    }
}

/// Runs something outside of the regions around, in a team of one. `only` is the node that its teams are to stay on plus one, 0 for any.
pub fn alone(me: &'static Thread, only: u32, limit: u32, run: impl FnOnce()) {
    let root = me.root();
    let (outside, league, spare, data) =
        (me.stand(), me.league.replace((0, 0)), me.spare.take(), me.data.take());
    let seat = Team::outermost(root, me, only);
    if limit > 0 {
        seat.task.set_icv(|icv| icv.limit = limit);
    }
    run();
    barrier::barrier(me, false);
    let seat = me.seat();
    share::leave(me, seat.team, seat.share);
    seat.task.end_implicit();
    root.give_team(seat.team);
    me.stand();
    if let Some(outside) = outside {
        me.sit(outside);
    }
    me.league.set(league);
    me.data.set(data);
    // The workers from before are kept; those of the region are for others.
    let used = if spare.is_some() || only > 0 { me.spare.replace(spare) } else { None };
    if let Some(team) = used {
        team.dismiss_from(1, root);
        root.give_team(team);
    }
}

/// How this process allocates memory of its own, which is a device's.
static OWN: OnceLock<Memory> = OnceLock::new();

/// Says how this process allocates memory of its own.
pub fn set_memory(memory: Memory) {
    let _ = OWN.set(memory);
}

/// Memory of the device that the calling thread is on: of its process, where all threads of a node are in one; of the arena where they are
/// not.
fn memory(root: &Root) -> Memory {
    let own = Memory { allocate: own_allocate, release: own_release };
    let shared = Memory { allocate: shared_allocate, release: shared_release };
    if root.settings.own_memory && OWN.get().is_some() { own } else { shared }
}

fn own_allocate(bytes: usize) -> *mut u8 {
    OWN.get().map_or(ptr::null_mut(), |own| (own.allocate)(bytes))
}

/// # Safety
/// It came from [`own_allocate`].
unsafe fn own_release(memory: *mut u8) {
    if let Some(own) = OWN.get() {
        // SAFETY: the caller says so.
        unsafe { (own.release)(memory) };
    }
}

fn shared_allocate(bytes: usize) -> *mut u8 {
    if bytes > isize::MAX as usize {
        return ptr::null_mut();
    }
    crate::root::root().store.allocate(bytes.max(1), 64).unwrap_or(ptr::null_mut())
}

/// # Safety
/// It came from [`shared_allocate`].
unsafe fn shared_release(memory: *mut u8) {
    // SAFETY: the caller says so.
    unsafe { crate::root::root().store.release(memory) };
}

/// Where builds of the program have what they share besides the store: from the first address to the second.
static SHARED: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Says which addresses mean the same to all workers, besides those of the store.
pub fn set_shared(begin: usize, end: usize) {
    SHARED[0].store(begin, Ordering::Relaxed);
    SHARED[1].store(end, Ordering::Relaxed);
}

/// Whether all workers have the same there.
pub fn is_shared(root: &Root, address: usize) -> bool {
    let [begin, end] = [&SHARED[0], &SHARED[1]].map(|word| word.load(Ordering::Relaxed));
    root.store.holds(address) || (begin..end).contains(&address)
}

/// How many devices there are besides the host.
pub fn count(root: &Root) -> u32 {
    if root.settings.offload_disabled { 0 } else { root.nodes().count() - 1 }
}

/// Memory of a device; 0 if there is none.
pub fn allocate(me: &'static Thread, node: u32, bytes: usize) -> usize {
    with_words(me, node, Kind::Allocate, [bytes, 0, 0])[0]
}

/// Gives memory of a device back.
pub fn release(me: &'static Thread, node: u32, memory: usize) {
    with_words(me, node, Kind::Release, [memory, 0, 0]);
}

fn with_words(me: &'static Thread, node: u32, kind: Kind, words: [usize; 3]) -> [usize; 3] {
    let order = Order::new(me.root(), node, Construct::Call, kind, &[]);
    order.words.set(words);
    order.carry_out(me);
    let words = order.words.get();
    order.release(me.store());
    words
}

/// Bytes that are copied at a time by way of memory that both sides reach.
const PIECE: usize = 1 << 20;

/// The order for a device to copy bytes, if one can do so alone: each side is of a device, by its node, or of the host, `None`.
pub fn order_to_copy(
    root: &'static Root,
    (to, target): (Option<u32>, usize),
    (from, source): (Option<u32>, usize),
    bytes: usize,
) -> Option<&'static Order> {
    let last = bytes.saturating_sub(1);
    let reaches = |address: usize| is_shared(root, address) && is_shared(root, address.saturating_add(last));
    let node = match (to, from) {
        (Some(node), None) if reaches(source) => node,
        (None, Some(node)) if reaches(target) => node,
        (Some(node), Some(other)) if node == other => node,
        _ => return None,
    };
    count_copied(root, to, from, bytes);
    let order = Order::new(root, node, Construct::Call, Kind::Copy, &[]);
    order.words.set([target, source, bytes]);
    Some(order)
}

fn count_copied(root: &Root, to: Option<u32>, from: Option<u32>, bytes: usize) {
    let count = |node: Option<u32>, moved: (u64, u64)| {
        if let Some(node) = node {
            root.devices().at(node).count_moved(moved);
        }
    };
    count(to, (bytes as u64, 0));
    count(from, (0, bytes as u64));
}

/// Copies bytes: each side is of a device, by its node, or of the host, `None`.
///
/// # Safety
/// Both are there, so long; on the host for the calling thread.
pub unsafe fn copy(
    me: &'static Thread,
    (to, target): (Option<u32>, usize),
    (from, source): (Option<u32>, usize),
    bytes: usize,
) {
    let root = me.root();
    if to.is_none() && from.is_none() {
        // SAFETY: the caller says so.
        return unsafe { ptr::copy(source as *const u8, target as *mut u8, bytes) };
    }
    if let Some(order) = order_to_copy(root, (to, target), (from, source), bytes) {
        order.carry_out(me);
        return order.release(me.store());
    }
    count_copied(root, to, from, bytes);
    let order = |node: u32, target: usize, source: usize, bytes: usize| {
        with_words(me, node, Kind::Copy, [target, source, bytes]);
    };
    let piece = bytes.clamp(1, PIECE);
    let Some(stage) = root.store.allocate(piece, 64) else { root.store.exhausted() };
    for at in (0..bytes).step_by(piece) {
        let length = piece.min(bytes - at);
        match from {
            Some(node) => order(node, stage as usize, source + at, length),
            // SAFETY: the caller says so; the piece is that long.
            None => unsafe { ptr::copy((source + at) as *const u8, stage, length) },
        }
        match to {
            Some(node) => order(node, target + at, stage as usize, length),
            // SAFETY: as above.
            None => unsafe { ptr::copy(stage, (target + at) as *mut u8, length) },
        }
    }
    // SAFETY: it came from the store, and nobody uses it any more.
    unsafe { root.store.release(stage) };
}
