//! What there is once for a job.

use std::cell::{Cell, UnsafeCell};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::device::Devices;
use crate::icv::Settings;
use crate::lock::{Held, Lock, Spinlock};
use crate::nodes::{About, Isa, NODES, Nodes};
use crate::park::Lot;
use crate::places::Places;
use crate::report;
use crate::share::Line;
use crate::store::{SPAN, Store};
use crate::tally::Tallies;
use crate::team::Team;
use crate::thread::{self, Thread};
use crate::wait;
use crate::{env, sys};

/// How workers are made, which is all that differs between the ways to run a job.
pub type StartWorker = fn(&'static Thread) -> Result<(), String>;

/// What there is once for a job. It lies at the beginning of the store.
#[repr(C, align(64))]
pub struct Root {
    /// Where all that is shared lies.
    pub store: &'static Store,
    /// The lock of `critical` without a name.
    pub critical: Line<Lock>,
    /// The lock of `atomic` where the processor cannot.
    pub atomic: Line<Lock>,
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
    /// Teams that nobody has, by the logarithm of their capacity.
    spare_teams: UnsafeCell<[Option<&'static Team>; 32]>,
    /// Threads that are in teams, where there is a limit.
    pub busy: AtomicU32,
    /// Workers that were hired and have no stack in the arena yet.
    stacks_due: AtomicU32,
    /// What regions took, and who did what in them.
    pub tallies: Tallies,
    /// Those who sleep on words.
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
static MAKING: Spinlock = Spinlock::new();
static START_WORKER: OnceLock<StartWorker> = OnceLock::new();
/// What has [`thread::left`] called.
static KEY: OnceLock<u32> = OnceLock::new();

/// The job that this process is of. The first call makes it from the environment.
pub fn root() -> &'static Root {
    // SAFETY: once there, it is there for ever.
    match unsafe { ROOT.load(Ordering::Acquire).as_ref() } {
        Some(root) => root,
        None => make(),
    }
}

#[cold]
fn make() -> &'static Root {
    let _held = MAKING.hold();
    // SAFETY: once there, it is there for ever.
    if let Some(root) = unsafe { ROOT.load(Ordering::Acquire).as_ref() } {
        return root;
    }
    let read = env::read();
    if read.mode != env::Mode::Shared {
        sys::fatal(
            "OMP_TOMBOLO: OpenMP is used before main, or the program does not begin in a C library that is loaded, of glibc 2.34 \
             or newer: its workers cannot be processes",
        );
    }
    read.has_one_node();
    sys::keep_futexes();
    install(ordinary_store(&read), read, start_thread)
}

/// Makes the job that this process is of, in a store, with a way to start workers. Once in a process.
pub fn install(store: &'static Store, read: env::Read, start_worker: StartWorker) -> &'static Root {
    let display = read.display;
    report::ask_for(read.report.clone());
    env::keep(&read);
    let root = Root::create(store, &read);
    attach(root, start_worker);
    if let Some(verbosely) = display {
        sys::complain(env::display(root, verbosely));
    }
    root
}

/// Makes this process one of a job, which another may have made. Once in a process. What processes have each for themselves
/// does not lie in the store: they need not even be of one program file.
pub fn attach(root: &'static Root, start_worker: StartWorker) {
    let _ = START_WORKER.set(start_worker);
    let _ = KEY.set(thread_key());
    wait::patience().configure(root.settings.processors, root.settings.turns());
    ROOT.store(ptr::from_ref(root).cast_mut(), Ordering::Release);
}

/// Memory of this process alone. As much as the system lets us reserve; pages come when they are touched.
fn ordinary_store(read: &env::Read) -> &'static Store {
    let sizes = [read.settings.arena, 4 << 30, 1 << 30, 256 << 20, 64 << 20, 16 << 20];
    for size in sizes.into_iter().filter(|&size| size > 0) {
        let size = size.next_multiple_of(SPAN).max(16 << 20);
        if let Some(memory) = sys::reserve(size + SPAN) {
            let base = (memory as usize).next_multiple_of(SPAN) as *mut u8;
            // SAFETY: the mapping is fresh, zero and never unmapped; a span was added for the alignment.
            return unsafe { Store::format(base, size) };
        }
    }
    sys::fatal("there is no memory for the runtime: the limit of address space (ulimit -v) is below 16 MiB")
}

/// A worker of this process: a thread.
fn start_thread(thread: &'static Thread) -> Result<(), String> {
    if thread.node != 0 {
        let node = thread.root().nodes().at(thread.node).name();
        return Err(format!(
            "a thread of this process cannot be on node {node}: OMP_TOMBOLO=shared has one node"
        ));
    }
    let stack = thread.root().settings.stack;
    sys::start_thread(stack, crate::team::worker, thread).map_err(|error| {
        let error = std::io::Error::from_raw_os_error(error);
        format!("a thread could not be started: {error}; OMP_STACKSIZE sets how large its stack is, `ulimit -u` how many there may be")
    })
}

impl Root {
    /// Makes a job whose memory is this store.
    fn create(store: &'static Store, read: &env::Read) -> &'static Self {
        // Most of it is for jobs that are not like most, and stays zero: no page of that need be touched.
        let root: *mut Self = store.place_zeroed();
        let settings = read.settings;
        // SAFETY: the memory is the root's alone, and all that is not written is valid as zero: locks that nobody has, empty lists.
        let root = unsafe {
            (&raw mut (*root).store).write(store);
            (&raw mut (*root).settings).write(settings);
            (&raw mut (*root).places).write(Places::new(store, &read.places));
            &*root
        };
        root.nodes.begin(own_node(settings.processors), (settings.turns(), settings.turns_of_several()));
        root.changeable.teams.store(settings.teams, Ordering::Relaxed);
        root.changeable.teams_limit.store(settings.teams_limit, Ordering::Relaxed);
        let given = read.affinity_format.as_bytes();
        let length = given.len().min(255);
        // SAFETY: nobody else knows the root yet.
        unsafe { (&mut *root.changeable.format.get())[..length].copy_from_slice(&given[..length]) };
        root
    }

    /// A word of the store that nobody waits on, to try what the kernel does with such words.
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

    /// The nodes as devices.
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// Processors of all nodes.
    pub fn processors(&self) -> u32 {
        self.nodes.processors()
    }

    /// A worker on a node: one that is idle there, or a new one, which is to be started. Where the node has as many threads as it
    /// may have, which only regions within regions get to, it is one of another node.
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
            None => Err("there is nobody who starts workers".to_owned()),
        }
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

    /// A record for a thread that OpenMP did not start.
    pub fn adopt(&'static self) -> &'static Thread {
        let held = self.idle.hold();
        let left = self.left_threads.get();
        if let Some(thread) = left {
            self.left_threads.set(thread.next_idle.take());
        }
        drop(held);
        left.unwrap_or_else(|| Thread::create(self, 0))
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

    /// Has [`thread::left`] called when the thread ends.
    pub fn forget_at_end(&self, thread: &'static Thread) {
        if let Some(&key) = KEY.get() {
            // SAFETY: the key is of this process; the value is for `thread_ended` below only.
            unsafe { libc::pthread_setspecific(key, ptr::from_ref(thread).cast()) };
        }
    }

    /// A team for so many, if there is one that nobody has.
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

/// The master's node, until somebody says more of it.
fn own_node(processors: u32) -> About<'static> {
    About { name: "host", isa: Isa::own(), processors, threads: 0, runs_on: None }
}

fn thread_key() -> u32 {
    let mut key = 0;
    // SAFETY: the key is ours to write, and the destructor takes what is stored by `forget_at_end`.
    unsafe { libc::pthread_key_create(&raw mut key, Some(thread_ended)) };
    key
}

/// # Safety
/// The value is what [`Root::forget_at_end`] stored.
unsafe extern "C" fn thread_ended(value: *mut libc::c_void) {
    // SAFETY: the value is what `forget_at_end` stored, which lives for ever.
    if let Some(thread) = unsafe { value.cast::<Thread>().as_ref() } {
        thread::left(thread);
    }
}
