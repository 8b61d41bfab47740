//! What there is once for a job.

use std::cell::{Cell, UnsafeCell};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::balancer::Balancer;
use super::devices::Devices;
use super::keys::Keys;
use super::members::Team;
use super::tally::Tallies;
use super::thread::Thread;
use crate::primitives::cache_line::CacheLine;
use crate::primitives::icv::{Created, Settings};
use crate::primitives::local;
use crate::primitives::lock::{Held, Lock, Spinlock};
use crate::primitives::nodes::{About, Isa, NODES, Node, Nodes};
use crate::primitives::park::{self, Lot};
use crate::primitives::places::Places;
use crate::primitives::store::Store;
use crate::primitives::sys::Processors;

/// How workers are made, which is all that differs between the ways to run a job.
pub type StartWorker = fn(&'static Thread) -> Result<(), String>;

/// What there is once for a job. It lies at the beginning of the store.
#[repr(C, align(64))]
pub struct Root {
    /// Where all that is shared lies.
    pub store: &'static Store,
    /// The lock of `critical` without a name.
    pub critical: CacheLine<Lock>,
    /// The lock of `atomic` where the processor cannot.
    pub atomic: CacheLine<Lock>,
    /// What was set for the whole program.
    pub settings: Settings,
    /// What the program may still change of it, for all threads.
    pub changeable: Changeable,
    places: Places,
    nodes: Nodes,
    devices: Devices,
    idle: Spinlock,
    /// By node.
    idle_threads: [Cell<Option<&'static Thread>>; NODES],
    /// Records of threads that OpenMP did not start and that have ended.
    left_threads: Cell<Option<&'static Thread>>,
    teams: Spinlock,
    /// Teams not in use, by the logarithm of their capacity.
    spare_teams: UnsafeCell<[Option<&'static Team>; 32]>,
    /// Threads that are in teams, where there is a limit.
    pub busy: AtomicU32,
    /// Workers that were hired and have no stack in the arena yet.
    stacks_due: AtomicU32,
    /// How many threads the program has created.
    created: AtomicU32,
    /// How many threads have begun.
    begun: AtomicU32,
    /// The record that was made last.
    last_made: AtomicPtr<Thread>,
    /// How long regions took, and what each thread did in them.
    pub tallies: Tallies,
    /// Keys of threads' own values.
    pub keys: Keys,
    /// Decides where marked functions run, if it is asked to.
    balancer: Cell<Option<&'static Balancer>>,
    /// The threads that sleep on words.
    pub(crate) lot: Lot,
}

/// What the program may change for all threads.
pub struct Changeable {
    /// `omp_set_num_teams`.
    pub teams: AtomicU32,
    /// `omp_set_teams_thread_limit`.
    pub teams_limit: AtomicU32,
    /// Guards the format.
    pub format_lock: Spinlock,
    /// `omp_set_affinity_format`.
    pub format: UnsafeCell<[u8; 256]>,
}

// SAFETY: what is in cells is touched only while the lock beside it is held.
unsafe impl Sync for Root {}

static ROOT: AtomicPtr<Root> = AtomicPtr::new(ptr::null_mut());
static START_WORKER: OnceLock<StartWorker> = OnceLock::new();

/// The job that this process is of; `None` before there is one.
#[inline]
pub fn current() -> Option<&'static Root> {
    // SAFETY: once there, it is there for ever.
    unsafe { ROOT.load(Ordering::Acquire).as_ref() }
}

impl Root {
    /// Makes the job that this process is of. What processes have each for themselves does not lie in the
    /// store: they need not even be of one program file. Once in a process.
    pub fn use_here(&'static self, start_worker: StartWorker) {
        let _ = START_WORKER.set(start_worker);
        local::unknown().configure(self.settings.processors, self.settings.turns());
        self.store.use_here();
        park::use_lot(&self.lot);
        ROOT.store(ptr::from_ref(self).cast_mut(), Ordering::Release);
    }

    /// Makes a job whose memory is this store, with `OMP_PLACES` and `OMP_AFFINITY_FORMAT`.
    pub fn create(
        store: &'static Store,
        settings: Settings,
        places: &[Processors],
        affinity_format: &str,
    ) -> &'static Self {
        // Most of it is for jobs that are not like most, and stays zero: no page of that need be touched.
        let root: *mut Self = store.place_zeroed();
        // SAFETY: the memory is the root's alone, and all that is not written is valid as zero: free locks,
        // empty lists.
        let root = unsafe {
            (&raw mut (*root).store).write(store);
            (&raw mut (*root).settings).write(settings);
            (&raw mut (*root).places).write(Places::new(store, places));
            &*root
        };
        root.nodes.begin(own_node(settings.processors), (settings.turns(), settings.turns_of_several()));
        if settings.balance {
            // SAFETY: all zero is a lock that is free and a balance that knows nothing.
            root.balancer.set(Some(unsafe { &*store.place_zeroed::<Balancer>() }));
        }
        root.changeable.teams.store(settings.teams, Ordering::Relaxed);
        root.changeable.teams_limit.store(settings.teams_limit, Ordering::Relaxed);
        let given = affinity_format.as_bytes();
        let length = given.len().min(255);
        // SAFETY: no other thread has the root yet.
        unsafe { (&mut *root.changeable.format.get())[..length].copy_from_slice(&given[..length]) };
        root
    }

    /// A word of the store that no thread waits on, to find out how the kernel's futexes treat such words.
    pub fn futex_probe(&self) -> &AtomicU32 {
        &self.changeable.teams
    }

    /// `OMP_PLACES`.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// The nodes that threads are on.
    #[inline]
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Threads that a region gets that does not say how many, where threads may be on all nodes.
    pub fn threads_of_nodes(&'static self) -> u32 {
        self.nodes.settle(|node| self.station(node))
    }

    /// The nodes as devices.
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// What decides where marked functions run, if it is asked to and there are several nodes.
    #[inline]
    pub fn balancer(&self) -> Option<&'static Balancer> {
        self.balancer.get().filter(|_| self.nodes.several())
    }

    /// Processors of all nodes.
    pub fn processors(&self) -> u32 {
        self.nodes.processors()
    }

    /// Adds a new record to those that [`threads`](Self::threads) has.
    pub(super) fn enter(&self, thread: &'static Thread) {
        let this = ptr::from_ref(thread).cast_mut();
        let mut last = self.last_made.load(Ordering::Relaxed);
        loop {
            thread.shown.next.store(last.cast(), Ordering::Relaxed);
            match self.last_made.compare_exchange_weak(last, this, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => last = now,
            }
        }
    }

    /// The records of all threads, also of those that have ended.
    pub fn threads(&self) -> impl Iterator<Item = &'static Thread> {
        let thread = |address: *mut Thread| {
            // SAFETY: records are entered once they are complete, and live for ever.
            unsafe { address.as_ref::<'static>() }
        };
        std::iter::successors(thread(self.last_made.load(Ordering::Acquire)), move |last| {
            thread(last.shown.next.load(Ordering::Relaxed).cast())
        })
    }

    /// The number of a thread that begins.
    pub(crate) fn next_number(&self) -> u32 {
        self.begun.fetch_add(1, Ordering::Relaxed)
    }

    /// A worker on a node: one that is idle there, or a new one, which is to be started. Where the node has
    /// as many threads as it may have, which only regions within regions get to, it is one of another node.
    pub fn hire(&'static self, node: u32) -> &'static Thread {
        let held = self.idle.hold();
        let idle = |node: u32| &self.idle_threads[node as usize % NODES];
        let can = |node: &u32| {
            let at = self.nodes.at(*node);
            idle(*node).get().is_some() || at.made.get() < at.most_threads()
        };
        let node = std::iter::once(node).chain(0..self.nodes.count()).find(can).unwrap_or(0);
        self.hire_of(node, held)
    }

    /// A worker on a node and no other, however many threads it has.
    pub fn hire_there(&'static self, node: u32) -> &'static Thread {
        self.hire_of(node, self.idle.hold())
    }

    /// A worker on a node. The lock of idle threads is held.
    fn hire_of(&'static self, node: u32, held: Held<'_>) -> &'static Thread {
        let idle = &self.idle_threads[node as usize % NODES];
        if let Some(thread) = idle.get() {
            idle.set(thread.next_idle.take());
            return thread;
        }
        let made = &self.nodes.at(node).made;
        made.set(made.get() + 1);
        drop(held);
        self.stacks_due.fetch_add(1, Ordering::Relaxed);
        Thread::create(self, node)
    }

    /// A hired worker gets its stack now. How many have none yet, this one included.
    pub(crate) fn take_stack_due(&self) -> u32 {
        let less = |due: u32| Some(due.saturating_sub(1));
        let due = self.stacks_due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        due.unwrap_or(1).max(1)
    }

    /// Starts a worker, unless it runs already.
    pub fn start(&self, thread: &'static Thread) -> Result<(), String> {
        if thread.started.replace(true) {
            return Ok(());
        }
        match START_WORKER.get() {
            Some(start) => start(thread),
            None => Err("this process cannot start workers: the job was not set up here".to_owned()),
        }
    }

    /// The node for the next thread that the program creates, by one of this node.
    pub fn node_for_created(&self, own: u32) -> u32 {
        let first = match self.settings.created {
            Created::Here => return own,
            Created::Spread => 0,
            Created::Others => 1,
        };
        let nodes = || self.nodes.all().filter(|(number, _)| *number >= first);
        let all: u32 = nodes().map(|(_, node)| node.processors().max(1)).sum();
        if all == 0 {
            return own;
        }
        let turn = self.created.fetch_add(1, Ordering::Relaxed) % all;
        // In each round of as many as there are processors, a node is next that has had the smallest part.
        let mut given = [0_u32; NODES];
        let mut next = own;
        for _ in 0..=turn {
            let part = |(number, node): &(u32, &Node)| {
                (u64::from(given[*number as usize % NODES]) + 1) * 1000 / u64::from(node.processors().max(1))
            };
            next = nodes().min_by_key(part).map_or(own, |(number, _)| number);
            given[next as usize % NODES] += 1;
        }
        next
    }

    /// Has a node get its first thread, which waits there for something to do.
    pub fn station(&'static self, node: u32) -> Result<(), String> {
        let thread = self.hire(node);
        self.start(thread)?;
        self.dismiss(thread);
        Ok(())
    }

    /// Takes a worker back that is at its dock.
    pub fn dismiss(&self, thread: &'static Thread) {
        let _held = self.idle.hold();
        let idle = &self.idle_threads[thread.node as usize % NODES];
        thread.next_idle.set(idle.replace(Some(thread)));
    }

    /// A record for a thread of a node that OpenMP did not start.
    pub fn adopt(&'static self, node: u32) -> &'static Thread {
        let held = self.idle.hold();
        let mut before: Option<&'static Thread> = None;
        let mut at = self.left_threads.get();
        while let Some(thread) = at.filter(|thread| thread.node != node) {
            before = Some(thread);
            at = thread.next_idle.get();
        }
        if let Some(thread) = at {
            before.map_or(&self.left_threads, |before| &before.next_idle).set(thread.next_idle.take());
        }
        drop(held);
        at.unwrap_or_else(|| Thread::create(self, node))
    }

    /// A thread that OpenMP did not start has ended: its workers are for others now.
    pub fn leave(&'static self, thread: &'static Thread) {
        if let Some(team) = thread.spare.take() {
            team.dismiss_from(1, self);
            self.give_team(team);
        }
        if let Some(seat) = thread.stand() {
            self.give_team(seat.team);
        }
        let _held = self.idle.hold();
        thread.next_idle.set(self.left_threads.replace(Some(thread)));
    }

    /// A team of this order that is not in use, if there is one.
    pub fn take_team(&self, order: usize) -> Option<&'static Team> {
        let _held = self.teams.hold();
        // SAFETY: the lock is held.
        let teams = unsafe { &mut *self.spare_teams.get() };
        let team = teams[order]?;
        teams[order] = team.next_spare.take();
        Some(team)
    }

    /// Gives a team back. Its memory stays a team: threads that left it may still look at it.
    pub fn give_team(&self, team: &'static Team) {
        let _held = self.teams.hold();
        // SAFETY: the lock is held.
        let teams = unsafe { &mut *self.spare_teams.get() };
        let list = &mut teams[team.order()];
        team.next_spare.set(list.replace(team));
    }
}

/// The master's node, before more is known of it.
fn own_node(processors: u32) -> About<'static> {
    About { name: "host", isa: Isa::own(), processors, threads: 0, runs_on: None }
}
