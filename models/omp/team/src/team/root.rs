//! State that exists once per job.

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
use crate::primitives::icv::{PthreadPlacement, Settings};
use crate::primitives::local;
use crate::primitives::lock::{Lock, Spinlock, SpinlockGuard};
use crate::primitives::nodes::{Isa, NODES_MAX, Node, NodeDescription, Nodes};
use crate::primitives::park::{self, ParkingLot};
use crate::primitives::places::Places;
use crate::primitives::store::Store;
use crate::primitives::sys::Processors;

/// Starts a worker. This is all that differs between the modes in which a job can run.
pub type StartWorker = fn(&'static Thread) -> Result<(), String>;

/// State that exists once per job, at the beginning of the store.
#[repr(C, align(64))]
pub struct Root {
    /// Memory shared by all workers.
    pub store: &'static Store,
    /// Lock of unnamed `critical` constructs.
    pub critical: CacheLine<Lock>,
    /// Lock of `atomic` constructs that the processor cannot execute.
    pub atomic: CacheLine<Lock>,
    /// Settings of the whole program.
    pub settings: Settings,
    /// Settings that the program can still change, for all threads.
    pub mutable_settings: MutableSettings,
    places: Places,
    nodes: Nodes,
    devices: Devices,
    idle_lock: Spinlock,
    /// Free lists of idle workers, by node.
    idle_threads: [Cell<Option<&'static Thread>>; NODES_MAX],
    /// Free list of records of ended threads that OpenMP did not start.
    free_records: Cell<Option<&'static Thread>>,
    cached_teams_lock: Spinlock,
    /// Free lists of teams, by the base-2 logarithm of their capacity.
    cached_teams: UnsafeCell<[Option<&'static Team>; 32]>,
    /// Number of threads in teams, if there is a thread limit.
    pub threads_in_teams: AtomicU32,
    /// Number of acquired workers that do not have a stack in the arena yet.
    pending_stacks: AtomicU32,
    /// Number of threads that the program has created.
    created: AtomicU32,
    /// Number of threads that have begun.
    thread_count: AtomicU32,
    /// Head of the list of all thread records: the newest.
    last_created: AtomicPtr<Thread>,
    /// Measurements of all regions.
    pub tallies: Tallies,
    /// Thread-specific keys (`pthread_key_create`).
    pub keys: Keys,
    /// Load balancer for marked functions, if enabled.
    balancer: Cell<Option<&'static Balancer>>,
    /// Wait queues of the threads that sleep on futex words.
    pub(crate) parking_lot: ParkingLot,
}

/// Settings that the program can change, for all threads.
pub struct MutableSettings {
    /// Set by `omp_set_num_teams`.
    pub teams: AtomicU32,
    /// Set by `omp_set_teams_thread_limit`.
    pub teams_limit: AtomicU32,
    /// Lock of `format`.
    pub format_lock: Spinlock,
    /// Set by `omp_set_affinity_format`.
    pub format: UnsafeCell<[u8; 256]>,
}

// SAFETY: the cells are touched only while the lock beside them is held.
unsafe impl Sync for Root {}

static ROOT: AtomicPtr<Root> = AtomicPtr::new(ptr::null_mut());
static START_WORKER: OnceLock<StartWorker> = OnceLock::new();

/// Returns this process's job; `None` before it is set up.
#[inline]
pub fn current() -> Option<&'static Root> {
    // SAFETY: a root is never freed.
    unsafe { ROOT.load(Ordering::Acquire).as_ref() }
}

impl Root {
    /// Makes this the process's job. Per-process state is not in the store, as processes may even run
    /// different program files. Called once per process.
    pub fn make_current(&'static self, start_worker: StartWorker) {
        let _ = START_WORKER.set(start_worker);
        local::unregistered_load().configure(self.settings.processors, self.settings.turns());
        self.store.make_current();
        park::set_parking_lot(&self.parking_lot);
        ROOT.store(ptr::from_ref(self).cast_mut(), Ordering::Release);
    }

    /// Creates a job in a store, with the values of `OMP_PLACES` and `OMP_AFFINITY_FORMAT`.
    pub fn create(
        store: &'static Store,
        settings: Settings,
        places: &[Processors],
        affinity_format: &str,
    ) -> &'static Self {
        // Most fields are needed by few jobs and stay zero, so that their pages are never touched.
        let root: *mut Self = store.place_zeroed();
        // SAFETY: nothing else refers to the memory, and zero is valid for all fields that are not written:
        // free locks, empty lists.
        let root = unsafe {
            (&raw mut (*root).store).write(store);
            (&raw mut (*root).settings).write(settings);
            (&raw mut (*root).places).write(Places::new(store, places));
            &*root
        };
        root.nodes
            .init(own_node(settings.processors), (settings.turns(), settings.turns_with_several_nodes()));
        if settings.balance {
            // SAFETY: an all-zero balancer is valid.
            root.balancer.set(Some(unsafe { &*store.place_zeroed::<Balancer>() }));
        }
        root.mutable_settings.teams.store(settings.teams, Ordering::Relaxed);
        root.mutable_settings.teams_limit.store(settings.teams_limit, Ordering::Relaxed);
        let given = affinity_format.as_bytes();
        let length = given.len().min(255);
        // SAFETY: no other thread has the root yet.
        unsafe { (&mut *root.mutable_settings.format.get())[..length].copy_from_slice(&given[..length]) };
        root
    }

    /// Returns a word of the store that no thread waits on, to probe how the kernel's futexes treat such
    /// words.
    pub fn futex_probe(&self) -> &AtomicU32 {
        &self.mutable_settings.teams
    }

    /// Returns the places of `OMP_PLACES`.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Returns the nodes of the job.
    #[inline]
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Returns the default number of threads of a region whose threads may be on all nodes.
    pub fn threads_of_nodes(&'static self) -> u32 {
        self.nodes.default_team_size(|node| self.start_first_worker(node))
    }

    /// Returns the nodes as devices.
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// Returns the load balancer, if it is enabled and there are several nodes.
    #[inline]
    pub fn balancer(&self) -> Option<&'static Balancer> {
        self.balancer.get().filter(|_| self.nodes.has_several())
    }

    /// Returns the number of processors of all nodes.
    pub fn processors(&self) -> u32 {
        self.nodes.processors()
    }

    /// Adds a new record to the list of [`threads`](Self::threads).
    pub(super) fn register(&self, thread: &'static Thread) {
        let this = ptr::from_ref(thread).cast_mut();
        let mut last = self.last_created.load(Ordering::Relaxed);
        loop {
            thread.status.next.store(last.cast(), Ordering::Relaxed);
            match self.last_created.compare_exchange_weak(last, this, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => last = now,
            }
        }
    }

    /// Iterates over the records of all threads, including ended ones.
    pub fn threads(&self) -> impl Iterator<Item = &'static Thread> {
        let thread = |address: *mut Thread| {
            // SAFETY: records are complete before they are registered, and are never freed.
            unsafe { address.as_ref::<'static>() }
        };
        std::iter::successors(thread(self.last_created.load(Ordering::Acquire)), move |last| {
            thread(last.status.next.load(Ordering::Relaxed).cast())
        })
    }

    /// Allocates the number of a thread that begins.
    pub(crate) fn next_number(&self) -> u32 {
        self.thread_count.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns a worker on a node: an idle one, or a new one that must be started. If the node is at its
    /// limit of threads, which happens only with nested regions, takes one of another node.
    pub fn acquire_worker(&'static self, node: u32) -> &'static Thread {
        let held = self.idle_lock.lock();
        let idle = |node: u32| &self.idle_threads[node as usize % NODES_MAX];
        let can = |node: &u32| {
            let at = self.nodes.at(*node);
            idle(*node).get().is_some() || at.created_threads.get() < at.max_threads()
        };
        let node = std::iter::once(node).chain(0..self.nodes.count()).find(can).unwrap_or(0);
        self.take_idle_or_create(node, held)
    }

    /// Returns a worker on exactly this node, regardless of its limit of threads.
    pub fn acquire_worker_on(&'static self, node: u32) -> &'static Thread {
        self.take_idle_or_create(node, self.idle_lock.lock())
    }

    /// Returns a worker on a node. The caller holds the lock of the idle lists.
    fn take_idle_or_create(&'static self, node: u32, held: SpinlockGuard<'_>) -> &'static Thread {
        let idle = &self.idle_threads[node as usize % NODES_MAX];
        if let Some(thread) = idle.get() {
            idle.set(thread.next_idle.take());
            return thread;
        }
        let created = &self.nodes.at(node).created_threads;
        created.set(created.get() + 1);
        drop(held);
        self.pending_stacks.fetch_add(1, Ordering::Relaxed);
        Thread::create(self, node)
    }

    /// Counts a worker that gets its stack now. Returns how many had none yet, this one included.
    pub(crate) fn take_pending_stack(&self) -> u32 {
        let less = |due: u32| Some(due.saturating_sub(1));
        let due = self.pending_stacks.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        due.unwrap_or(1).max(1)
    }

    /// Starts a worker unless it already runs.
    pub fn start(&self, thread: &'static Thread) -> Result<(), String> {
        if thread.started.replace(true) {
            return Ok(());
        }
        match START_WORKER.get() {
            Some(start) => start(thread),
            None => Err("this process cannot start workers: the job was not set up here".to_owned()),
        }
    }

    /// Chooses the node for the next thread created by the program, from a thread on node `own`.
    pub fn node_for_created(&self, own: u32) -> u32 {
        let first = match self.settings.pthread_placement {
            PthreadPlacement::Here => return own,
            PthreadPlacement::Spread => 0,
            PthreadPlacement::Others => 1,
        };
        let nodes = || self.nodes.all().filter(|(number, _)| *number >= first);
        let all: u32 = nodes().map(|(_, node)| node.processors().max(1)).sum();
        if all == 0 {
            return own;
        }
        let turn = self.created.fetch_add(1, Ordering::Relaxed) % all;
        // Each round covers as many threads as there are processors. The next node is the one with the
        // smallest share so far.
        let mut given = [0_u32; NODES_MAX];
        let mut next = own;
        for _ in 0..=turn {
            let part = |(number, node): &(u32, &Node)| {
                (u64::from(given[*number as usize % NODES_MAX]) + 1) * 1000
                    / u64::from(node.processors().max(1))
            };
            next = nodes().min_by_key(part).map_or(own, |(number, _)| number);
            given[next as usize % NODES_MAX] += 1;
        }
        next
    }

    /// Starts the first thread of a node, which waits there for work.
    pub fn start_first_worker(&'static self, node: u32) -> Result<(), String> {
        let thread = self.acquire_worker(node);
        self.start(thread)?;
        self.release_worker(thread);
        Ok(())
    }

    /// Returns a parked worker to the idle list.
    pub fn release_worker(&self, thread: &'static Thread) {
        let _held = self.idle_lock.lock();
        let idle = &self.idle_threads[thread.node as usize % NODES_MAX];
        thread.next_idle.set(idle.replace(Some(thread)));
    }

    /// Ends all idle workers of this process's job, whose workers are threads. Their records stay in the idle
    /// list, to be started again.
    pub fn end_idle_workers(&self) {
        let held = self.idle_lock.lock();
        let mut next = self.idle_threads[0].take();
        let (mut running, mut ended): (Option<&'static Thread>, Option<&'static Thread>) = (None, None);
        while let Some(thread) = next {
            let list = if thread.started.get() { &mut running } else { &mut ended };
            next = thread.next_idle.replace(list.replace(thread));
        }
        self.idle_threads[0].set(ended);
        drop(held);
        while let Some(thread) = running {
            running = thread.next_idle.take();
            thread.end();
        }
    }

    /// Forgets all idle workers, and the team that `thread` keeps: in the child of a `fork` their threads do
    /// not exist. Their records are not freed.
    pub fn forget_workers(&self, thread: Option<&Thread>) {
        let _held = self.idle_lock.lock();
        self.idle_threads.iter().for_each(|list| list.set(None));
        self.nodes.all().for_each(|(_, node)| node.created_threads.set(0));
        if let Some(thread) = thread {
            thread.cached_team.set(None);
        }
    }

    /// Returns a record for a thread on a node that OpenMP did not start.
    pub fn register_foreign_thread(&'static self, node: u32) -> &'static Thread {
        let held = self.idle_lock.lock();
        let mut before: Option<&'static Thread> = None;
        let mut at = self.free_records.get();
        while let Some(thread) = at.filter(|thread| thread.node != node) {
            before = Some(thread);
            at = thread.next_idle.get();
        }
        if let Some(thread) = at {
            before.map_or(&self.free_records, |before| &before.next_idle).set(thread.next_idle.take());
        }
        drop(held);
        at.unwrap_or_else(|| Thread::create(self, node))
    }

    /// Releases the workers that a thread keeps for its next region. Only that thread may call this.
    pub fn release_workers_of(&self, thread: &Thread) {
        if let Some(team) = thread.cached_team.take() {
            team.release_workers_from(1, self);
            self.return_team(team);
        }
    }

    /// Releases the record and the workers of an ended thread that OpenMP did not start.
    pub fn unregister_thread(&'static self, thread: &'static Thread) {
        self.release_workers_of(thread);
        if let Some(team_state) = thread.take_team_state() {
            self.return_team(team_state.team);
        }
        let _held = self.idle_lock.lock();
        thread.next_idle.set(self.free_records.replace(Some(thread)));
    }

    /// Takes a team of this order from the free list.
    pub fn take_team(&self, order: usize) -> Option<&'static Team> {
        let _held = self.cached_teams_lock.lock();
        // SAFETY: the lock is held.
        let teams = unsafe { &mut *self.cached_teams.get() };
        let team = teams[order]?;
        teams[order] = team.next_cached.take();
        Some(team)
    }

    /// Returns a team to the free list. Its memory stays a team, as threads that left it may still read it.
    pub fn return_team(&self, team: &'static Team) {
        let _held = self.cached_teams_lock.lock();
        // SAFETY: the lock is held.
        let teams = unsafe { &mut *self.cached_teams.get() };
        let list = &mut teams[team.order()];
        team.next_cached.set(list.replace(team));
    }
}

/// Description of the master's node before the node has reported itself.
fn own_node(processors: u32) -> NodeDescription<'static> {
    NodeDescription { name: "host", isa: Isa::own(), processors, threads: 0, runs_on: None }
}
