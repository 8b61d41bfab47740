//! A thread of the job: what it was given to do, where it stands in its team, what it keeps for itself.

use std::cell::Cell;
use std::ptr;

use super::cancellation::Cancellation;
use super::keys::Values;
use super::members::{Member, Team};
use super::objects::Objects;
use super::root::Root;
use super::share::WorkShare;
use super::shown::Shown;
use super::tally::Tally;
use super::task::{Function, Task};
use crate::primitives::awake::Awake;
use crate::primitives::local::{self, Local};
use crate::primitives::parker::Parker;
use crate::primitives::stack_bounds::StackBounds;
use crate::primitives::store::Store;
use crate::primitives::thread_block;

/// Where a thread stands in a team.
#[derive(Clone, Copy)]
pub struct Seat {
    /// The team.
    pub team: &'static Team,
    /// Its number in the team.
    pub id: u32,
    /// What it executes.
    pub task: &'static Task,
    /// The last construct that shares work it came to.
    pub share: &'static WorkShare,
    /// How many `single` constructs it came to.
    pub singles: u32,
    /// Chunks of a static loop that it took, or the position of its chunk where the order matters.
    pub trip: u64,
    /// The chunk it has, by iteration.
    pub chunk: (u64, u64),
}

/// What is left by a thread of the program that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WayOut {
    /// The thread of the C library.
    Thread,
    /// A call of this process, by where its stack is kept ([`crate::primitives::leavable`]).
    Call(*mut usize),
    /// A call of another node.
    Visit(*const Visit),
}

/// A call of a function that another node made. It lies on the stack that the function runs on, whose frames
/// are below it.
#[derive(Debug, Default)]
pub struct Visit {
    /// Where the stack is kept by which the call is left ([`crate::primitives::leavable`]).
    pub stack: Cell<usize>,
    /// How it was left, if it did not return.
    pub left: Cell<Option<Left>>,
}

/// How a call of another node was left. Its caller goes on with that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// By `longjmp`: what `setjmp` filled in, and the value.
    Jump(usize, i32),
    /// By the end of the thread, with what it ends with.
    Exit(usize),
    /// By an exception of C++, which its caller is to throw again.
    Throw(usize),
}

/// A thread of the job. The first cache line is what others write, the rest is its own.
#[repr(C, align(64))]
pub struct Thread {
    /// Where it sleeps, and learns that it was given something to do.
    pub parker: Parker,
    /// Its number in the team it was given to.
    pub given_id: Cell<u32>,
    /// The team it was given to.
    pub given_team: Cell<*const Team>,
    /// What it is to run there.
    pub given_function: Cell<Option<Function>>,
    /// The argument of the function, or what else it was given to do.
    pub given_data: Cell<*mut libc::c_void>,
    /// The number of the region that it is of.
    pub given_region: Cell<u64>,
    /// Where: the place plus one, or 0, and the places that its own teams may use.
    pub given_place: Cell<(u32, (u32, u32))>,

    /// What the primitives keep of it.
    pub local: Local,
    seat: Padded<Cell<Option<Seat>>>,
    root: &'static Root,
    /// The number of the node that it is on.
    pub node: u32,
    /// Whether it runs; written by the thread that has it as a worker.
    pub started: Cell<bool>,
    /// A team that it had, with its workers, for the next region.
    pub spare: Cell<Option<&'static Team>>,
    /// Records of tasks that it ran at once, for the next such.
    pub included: Cell<Option<&'static Task>>,
    /// The next idle thread.
    pub next_idle: Cell<Option<&'static Thread>>,
    /// Its place among `OMP_PLACES`, plus one; 0 is none.
    pub place: Cell<u32>,
    /// The places that its teams may use: the first and how many.
    pub partition: Cell<(u32, u32)>,
    /// What it displayed last: the level and size of its team, its number and its place.
    pub displayed: Cell<[u32; 4]>,
    /// Number of teams of the league less one, and which of them this is.
    pub league: Cell<(u32, u32)>,
    /// The innermost `target data` that it is in: an address that [`crate::device`] gives a meaning to, or
    /// null.
    pub data: Cell<*const libc::c_void>,
    /// What it migrates as, once it has asked to: an address that [`crate::device`] gives a meaning to, or
    /// null.
    pub migrant: Cell<*const libc::c_void>,
    /// Its values of keys, once it has any.
    pub values: Cell<Option<&'static Values>>,
    /// Whether it is to end.
    pub cancellation: Cancellation,
    /// Its objects that are destroyed at its end.
    pub objects: Objects,
    /// Where its block of thread-local variables is, on all nodes.
    pub block: Cell<usize>,
    /// What the thread leaves that ends here.
    pub way_out: Cell<WayOut>,
    /// The stack that it runs on, where that is known.
    pub stack: Cell<Option<StackBounds>>,
    /// The stack of its signal handler, address and length, if that was mapped for it.
    pub signal_stack: Cell<Option<(usize, usize)>>,
    /// What can be seen of it from outside.
    pub shown: Shown,
}

#[repr(align(64))]
struct Padded<T>(T);

// SAFETY: of the cells, those of the first line are written by the thread that has this one as its worker and
// read by the thread after its parker said so, whose operations order the two; all others are the thread's
// own.
unsafe impl Sync for Thread {}

impl Thread {
    /// A thread on a node that has no team yet.
    pub fn create(root: &'static Root, node: u32) -> &'static Self {
        let thread = root.store.place_apart(Self {
            parker: Parker::default(),
            given_id: Cell::new(0),
            given_team: Cell::new(ptr::null()),
            given_function: Cell::new(None),
            given_data: Cell::new(ptr::null_mut()),
            given_region: Cell::new(0),
            given_place: Cell::new((0, (0, root.places().len()))),
            seat: Padded(Cell::new(None)),
            root,
            node,
            started: Cell::new(false),
            spare: Cell::new(None),
            included: Cell::new(None),
            next_idle: Cell::new(None),
            place: Cell::new(0),
            partition: Cell::new((0, root.places().len())),
            displayed: Cell::new([0; 4]),
            league: Cell::new((0, 0)),
            data: Cell::new(ptr::null()),
            migrant: Cell::new(ptr::null()),
            values: Cell::new(None),
            cancellation: Cancellation::default(),
            objects: Objects::default(),
            block: Cell::new(0),
            way_out: Cell::new(WayOut::Thread),
            stack: Cell::new(None),
            signal_stack: Cell::new(None),
            shown: Shown::new(),
            local: Local::new(root.nodes().awake(node)),
        });
        thread.local.set_parker(&thread.parker);
        root.enter(thread);
        thread
    }

    /// The threads that are awake on its processors.
    #[inline]
    pub fn awake(&self) -> &'static Awake {
        self.local.awake()
    }

    /// The job that the thread works for.
    #[inline]
    pub fn root(&self) -> &'static Root {
        self.root
    }

    /// Where the memory of the job is.
    #[inline]
    pub fn store(&self) -> &'static Store {
        self.root.store
    }

    /// Where it stands. Every thread that runs a program stands somewhere.
    #[inline]
    pub fn seat(&self) -> Seat {
        match self.seat.0.get() {
            Some(seat) => seat,
            None => self.first_seat(),
        }
    }

    /// Changes where it stands.
    #[inline]
    pub fn sit(&self, seat: Seat) {
        self.seat.0.set(Some(seat));
    }

    /// Stands nowhere any more; where it stood.
    pub fn stand(&self) -> Option<Seat> {
        self.seat.0.take()
    }

    /// Its number in its team and their number, while it has one. For handlers of signals: takes no memory.
    pub fn number(&self) -> Option<(u32, u32)> {
        self.seat.0.get().map(|seat| (seat.id, seat.team.size.get()))
    }

    /// Where its seat lies. A seat is long: callers read or write single fields of it.
    #[inline]
    fn seated(&self) -> *mut Seat {
        // SAFETY: the seat is this thread's own, and no reference to it is kept.
        match unsafe { &mut *self.seat.0.as_ptr() } {
            Some(seat) => ptr::from_mut(seat),
            None => self.seated_first(),
        }
    }

    #[cold]
    fn seated_first(&self) -> *mut Seat {
        self.sit(self.first_seat());
        self.seated()
    }

    /// The task that the thread executes.
    #[inline]
    pub fn task(&self) -> &'static Task {
        // SAFETY: the thread's own seat.
        unsafe { (*self.seated()).task }
    }

    /// Executes this from now on.
    #[inline]
    pub fn set_task(&self, task: &'static Task) {
        // SAFETY: the thread's own seat.
        unsafe { (*self.seated()).task = task };
    }

    /// The team that the thread is in.
    #[inline]
    pub fn team(&self) -> &'static Team {
        // SAFETY: the thread's own seat.
        unsafe { (*self.seated()).team }
    }

    /// Its number in the team.
    #[inline]
    pub fn id(&self) -> u32 {
        // SAFETY: the thread's own seat.
        unsafe { (*self.seated()).id }
    }

    /// Its part of the team.
    #[inline]
    pub fn member(&self) -> &'static Member {
        self.team().member(self.id())
    }

    /// The last construct that shares work it came to.
    #[inline]
    pub fn share(&self) -> &'static WorkShare {
        // SAFETY: the thread's own seat.
        unsafe { (*self.seated()).share }
    }

    /// Has come to the next construct that shares work.
    #[inline]
    pub fn set_share(&self, share: &'static WorkShare) {
        let seat = self.seated();
        // SAFETY: the thread's own seat.
        unsafe {
            (*seat).share = share;
            (*seat).trip = 0;
        }
    }

    /// Has come to one more `single`; how many it came to before.
    #[inline]
    pub fn count_single(&self) -> u32 {
        let seat = self.seated();
        // SAFETY: the thread's own seat.
        unsafe {
            let before = (*seat).singles;
            (*seat).singles = before.wrapping_add(1);
            before
        }
    }

    /// Takes one more chunk of a static loop; how many it took before.
    #[inline]
    pub fn count_trip(&self) -> u64 {
        let seat = self.seated();
        // SAFETY: the thread's own seat.
        unsafe {
            let before = (*seat).trip;
            (*seat).trip = before + 1;
            before
        }
    }

    /// The chunk it has, by iteration, where the order matters.
    #[inline]
    pub fn chunk(&self) -> (u64, u64) {
        // SAFETY: the thread's own seat.
        unsafe { (*self.seated()).chunk }
    }

    /// Has this chunk from now on.
    #[inline]
    pub fn set_chunk(&self, chunk: (u64, u64)) {
        // SAFETY: the thread's own seat.
        unsafe { (*self.seated()).chunk = chunk };
    }

    /// What it did in the region that it is in, if there is to be a report.
    #[inline]
    pub fn tally(&self) -> Option<&'static Tally> {
        if self.root.settings.report { Some(self.own_tally()) } else { None }
    }

    #[cold]
    fn own_tally(&self) -> &'static Tally {
        let seat = self.seat();
        &seat.team.member(seat.id).tally
    }

    /// A thread that OpenMP did not start is a team of its own, in an implicit region that is not active.
    #[cold]
    fn first_seat(&self) -> Seat {
        Team::outermost(self.root, self, 0)
    }
}

// What `local::set_me` asks for.
#[cfg(not(loom))]
const _: () = assert!(
    std::mem::offset_of!(Thread, parker) == 0 && std::mem::offset_of!(Thread, local) == local::OFFSET
);

/// The calling thread; `None` before it has a record.
#[inline]
pub fn known() -> Option<&'static Thread> {
    // SAFETY: what is not null was stored by `set_current`: a thread, which lives for ever.
    unsafe { local::record().cast::<Thread>().as_ref() }
}

/// Says which record the calling thread has.
pub fn set_current(thread: Option<&'static Thread>) {
    if let Some(thread) = thread {
        thread.block.set(thread_block::own());
    }
    // SAFETY: threads live for ever; where their parts are is asserted above.
    unsafe { local::set_me(thread.map_or(ptr::null(), |thread| ptr::from_ref(thread).cast())) };
}
