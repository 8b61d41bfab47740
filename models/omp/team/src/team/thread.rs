//! Thread of the job: the work it was given, its state in a team, and its own state.

use std::cell::Cell;
use std::ptr;

use super::cancellation::Cancellation;
use super::keys::Values;
use super::members::{Member, Team};
use super::objects::Objects;
use super::root::Root;
use super::share::WorkShare;
use super::tally::Tally;
use super::task::{Function, Task};
use super::thread_status::ThreadStatus;
use crate::primitives::local::{self, Local};
use crate::primitives::node_load::NodeLoad;
use crate::primitives::parker::Parker;
use crate::primitives::stack_bounds::StackBounds;
use crate::primitives::store::Store;
use crate::primitives::thread_block;

/// State of a thread in a team.
#[derive(Clone, Copy)]
pub struct TeamState {
    /// Team that the thread is in.
    pub team: &'static Team,
    /// Thread number in the team.
    pub id: u32,
    /// Task that the thread executes.
    pub task: &'static Task,
    /// Work-sharing construct that the thread reached last.
    pub share: &'static WorkShare,
    /// Number of `single` constructs that the thread has reached.
    pub singles: u32,
    /// Number of chunks taken of a static loop; in ordered loops, the position in the chunk.
    pub chunk_index: u64,
    /// Current chunk, as a range of iterations.
    pub chunk: (u64, u64),
}

/// Exit path of a thread of the program that ends here, as by `pthread_exit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitTarget {
    /// The C library's thread: it ends the usual way.
    Thread,
    /// Call made by this process, given by where its stack pointer is saved
    /// ([`crate::primitives::nonlocal_exit`]).
    Call(*mut usize),
    /// Call made by another node.
    RemoteCall(*const RemoteCall),
}

/// Call of a function made by another node. It is on the stack that the function runs on, above the
/// function's frames.
#[derive(Debug, Default)]
pub struct RemoteCall {
    /// Saved stack pointer, by which the call is left ([`crate::primitives::nonlocal_exit`]).
    pub stack: Cell<usize>,
    /// How the call was left, if it did not return.
    pub exit: Cell<Option<CallExit>>,
}

/// How a call made by another node was left. The caller continues accordingly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallExit {
    /// By `longjmp`, with the address of the buffer and the value.
    Jump(usize, i32),
    /// By the end of the thread, with its result.
    Exit(usize),
    /// By a C++ exception, which the caller rethrows.
    Throw(usize),
}

/// Record of a thread. Others write the first cache line; the rest is the thread's own.
#[repr(C, align(64))]
pub struct Thread {
    /// Parker on which it sleeps and is given work.
    pub parker: Parker,
    /// Its number in the team that it was assigned to.
    pub assigned_id: Cell<u32>,
    /// Team that it was assigned to; null if it was given a command of a device.
    pub assigned_team: Cell<*const Team>,
    /// Function to run in the team.
    pub assigned_function: Cell<Option<Function>>,
    /// Argument of the function, or the command.
    pub assigned_data: Cell<*mut libc::c_void>,
    /// Number of the region.
    pub assigned_region: Cell<u64>,
    /// Place plus one, or 0, and the partition for its own teams.
    pub assigned_place: Cell<(u32, (u32, u32))>,

    /// State kept by the primitives.
    pub local: Local,
    team_state: Padded<Cell<Option<TeamState>>>,
    root: &'static Root,
    /// Number of its node.
    pub node: u32,
    /// Whether the worker was started; written by the thread that acquired it.
    pub started: Cell<bool>,
    /// Last team that it was the master of, kept with its workers for the next region.
    pub cached_team: Cell<Option<&'static Team>>,
    /// Free list of records for tasks that run at once.
    pub free_included: Cell<Option<&'static Task>>,
    /// Next thread in the idle list.
    pub next_idle: Cell<Option<&'static Thread>>,
    /// Its place in `OMP_PLACES`, plus one; 0 if none.
    pub place: Cell<u32>,
    /// Partition of places for its teams: the first place and their number.
    pub partition: Cell<(u32, u32)>,
    /// Affinity displayed last: level and size of the team, thread number and place.
    pub displayed_affinity: Cell<[u32; 4]>,
    /// Number of teams of the league less one, and the index of its own.
    pub league: Cell<(u32, u32)>,
    /// Innermost enclosing `target data` region, or null; [`crate::device`] knows the type.
    pub target_data: Cell<*const libc::c_void>,
    /// Migration state, once it has asked to migrate, or null; [`crate::device`] knows the type.
    pub migration: Cell<*const libc::c_void>,
    /// Thread-specific values, once it has any.
    pub values: Cell<Option<&'static Values>>,
    /// Pending cancellation (`pthread_cancel`).
    pub cancellation: Cancellation,
    /// Thread-local objects to be destroyed at its end.
    pub objects: Objects,
    /// Address of its block of thread-local variables, the same on all nodes.
    pub tls_block: Cell<usize>,
    /// Exit path of the thread if it ends here.
    pub exit_target: Cell<ExitTarget>,
    /// Bounds of the stack that it runs on, if known.
    pub stack: Cell<Option<StackBounds>>,
    /// Alternate signal stack that was mapped for it: address and length.
    pub signal_stack: Cell<Option<(usize, usize)>>,
    /// State observable from outside.
    pub status: ThreadStatus,
}

#[repr(align(64))]
struct Padded<T>(T);

// SAFETY: cells of the first line are written by the thread that has this one as its worker, and read after
// the parker has published them, which orders the accesses. All other cells are the thread's own.
unsafe impl Sync for Thread {}

impl Thread {
    /// Creates the record of a thread on a node, without a team.
    pub fn create(root: &'static Root, node: u32) -> &'static Self {
        let thread = root.store.place_on_own_pages(Self {
            parker: Parker::default(),
            assigned_id: Cell::new(0),
            assigned_team: Cell::new(ptr::null()),
            assigned_function: Cell::new(None),
            assigned_data: Cell::new(ptr::null_mut()),
            assigned_region: Cell::new(0),
            assigned_place: Cell::new((0, (0, root.places().len()))),
            team_state: Padded(Cell::new(None)),
            root,
            node,
            started: Cell::new(false),
            cached_team: Cell::new(None),
            free_included: Cell::new(None),
            next_idle: Cell::new(None),
            place: Cell::new(0),
            partition: Cell::new((0, root.places().len())),
            displayed_affinity: Cell::new([0; 4]),
            league: Cell::new((0, 0)),
            target_data: Cell::new(ptr::null()),
            migration: Cell::new(ptr::null()),
            values: Cell::new(None),
            cancellation: Cancellation::default(),
            objects: Objects::default(),
            tls_block: Cell::new(0),
            exit_target: Cell::new(ExitTarget::Thread),
            stack: Cell::new(None),
            signal_stack: Cell::new(None),
            status: ThreadStatus::new(),
            local: Local::new(root.nodes().node_load(node)),
        });
        thread.local.set_parker(&thread.parker);
        root.register(thread);
        thread
    }

    /// Has this idle worker end.
    pub(super) fn end(&self) {
        // SAFETY: teams are never freed.
        let before = unsafe { self.assigned_team.replace(ptr::null()).as_ref() };
        self.assigned_data.set(ptr::null_mut());
        self.parker.publish_work(self.parker.work_count().wrapping_add(1) & (u32::MAX >> 1));
        if let Some(before) = before {
            before.wake_workers();
        }
    }

    /// Whether the work that this worker was given last is to end.
    pub fn is_to_end(&self) -> bool {
        self.assigned_team.get().is_null() && self.assigned_data.get().is_null()
    }

    /// Resets what a worker that ends must not leave to the next with this record.
    pub fn reset(&self) {
        self.team_state.0.set(None);
        self.place.set(0);
        self.partition.set((0, self.root.places().len()));
        self.displayed_affinity.set([0; 4]);
        self.started.set(false);
        self.parker.publish_work(0);
    }

    /// Returns the counter of awake threads on its processors.
    #[inline]
    pub fn node_load(&self) -> &'static NodeLoad {
        self.local.node_load()
    }

    /// Returns the job of the thread.
    #[inline]
    pub fn root(&self) -> &'static Root {
        self.root
    }

    /// Returns the store of the job.
    #[inline]
    pub fn store(&self) -> &'static Store {
        self.root.store
    }

    /// Returns its team state, creating the outermost one if it has none.
    #[inline]
    pub fn team_state(&self) -> TeamState {
        match self.team_state.0.get() {
            Some(team_state) => team_state,
            None => self.create_outermost_state(),
        }
    }

    /// Sets its team state.
    #[inline]
    pub fn set_team_state(&self, team_state: TeamState) {
        self.team_state.0.set(Some(team_state));
    }

    /// Removes and returns its team state.
    pub fn take_team_state(&self) -> Option<TeamState> {
        self.team_state.0.take()
    }

    /// Returns its number in its team and the team's size, if it has a team state. Async-signal-safe:
    /// allocates nothing.
    pub fn number(&self) -> Option<(u32, u32)> {
        self.team_state.0.get().map(|team_state| (team_state.id, team_state.team.size.get()))
    }

    /// Returns a pointer to its team state. It is large, so callers access single fields.
    #[inline]
    fn team_state_ptr(&self) -> *mut TeamState {
        // SAFETY: the team state is this thread's own, and no reference to it is kept.
        match unsafe { &mut *self.team_state.0.as_ptr() } {
            Some(team_state) => ptr::from_mut(team_state),
            None => self.init_team_state(),
        }
    }

    #[cold]
    fn init_team_state(&self) -> *mut TeamState {
        self.set_team_state(self.create_outermost_state());
        self.team_state_ptr()
    }

    /// Returns the task that the thread executes.
    #[inline]
    pub fn task(&self) -> &'static Task {
        // SAFETY: the thread's own team state.
        unsafe { (*self.team_state_ptr()).task }
    }

    /// Sets the task that the thread executes.
    #[inline]
    pub fn set_task(&self, task: &'static Task) {
        // SAFETY: the thread's own team state.
        unsafe { (*self.team_state_ptr()).task = task };
    }

    /// Returns the team that the thread is in.
    #[inline]
    pub fn team(&self) -> &'static Team {
        // SAFETY: the thread's own team state.
        unsafe { (*self.team_state_ptr()).team }
    }

    /// Returns its number in the team.
    #[inline]
    pub fn id(&self) -> u32 {
        // SAFETY: the thread's own team state.
        unsafe { (*self.team_state_ptr()).id }
    }

    /// Returns its member record in the team.
    #[inline]
    pub fn member(&self) -> &'static Member {
        self.team().member(self.id())
    }

    /// Returns the work-sharing construct that it reached last.
    #[inline]
    pub fn share(&self) -> &'static WorkShare {
        // SAFETY: the thread's own team state.
        unsafe { (*self.team_state_ptr()).share }
    }

    /// Moves the thread on to the next work-sharing construct.
    #[inline]
    pub fn set_share(&self, share: &'static WorkShare) {
        let team_state = self.team_state_ptr();
        // SAFETY: the thread's own team state.
        unsafe {
            (*team_state).share = share;
            (*team_state).chunk_index = 0;
        }
    }

    /// Counts a `single` construct as reached. Returns how many were reached before.
    #[inline]
    pub fn count_single(&self) -> u32 {
        let team_state = self.team_state_ptr();
        // SAFETY: the thread's own team state.
        unsafe {
            let before = (*team_state).singles;
            (*team_state).singles = before.wrapping_add(1);
            before
        }
    }

    /// Counts a chunk of a static loop as taken. Returns how many were taken before.
    #[inline]
    pub fn next_chunk_index(&self) -> u64 {
        let team_state = self.team_state_ptr();
        // SAFETY: the thread's own team state.
        unsafe {
            let before = (*team_state).chunk_index;
            (*team_state).chunk_index = before + 1;
            before
        }
    }

    /// Returns the current chunk of an ordered loop, as a range of iterations.
    #[inline]
    pub fn chunk(&self) -> (u64, u64) {
        // SAFETY: the thread's own team state.
        unsafe { (*self.team_state_ptr()).chunk }
    }

    /// Sets the current chunk of an ordered loop.
    #[inline]
    pub fn set_chunk(&self, chunk: (u64, u64)) {
        // SAFETY: the thread's own team state.
        unsafe { (*self.team_state_ptr()).chunk = chunk };
    }

    /// Returns its measurements in the current region, if a report is wanted.
    #[inline]
    pub fn tally(&self) -> Option<&'static Tally> {
        if self.root.settings.report { Some(self.own_tally()) } else { None }
    }

    #[cold]
    fn own_tally(&self) -> &'static Tally {
        let team_state = self.team_state();
        &team_state.team.member(team_state.id).tally
    }

    /// Creates the team state of a thread that OpenMP did not start: a team of its own in an inactive
    /// implicit region.
    #[cold]
    fn create_outermost_state(&self) -> TeamState {
        Team::create_outermost(self.root, self, 0)
    }
}

// Layout that `local::set_me` relies on.
#[cfg(not(loom))]
const _: () = assert!(
    std::mem::offset_of!(Thread, parker) == 0 && std::mem::offset_of!(Thread, local) == local::OFFSET
);

/// Returns the calling thread's record; `None` before it has one.
#[inline]
pub fn try_current() -> Option<&'static Thread> {
    // SAFETY: a non-null pointer was stored by `set_current` and refers to a thread, which is never freed.
    unsafe { local::record().cast::<Thread>().as_ref() }
}

/// Sets the record of the calling thread.
pub fn set_current(thread: Option<&'static Thread>) {
    if let Some(thread) = thread {
        thread.tls_block.set(thread_block::own_address());
    }
    // SAFETY: threads are never freed; the layout is asserted above.
    unsafe { local::set_me(thread.map_or(ptr::null(), |thread| ptr::from_ref(thread).cast())) };
}
