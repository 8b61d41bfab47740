//! A thread of the job: what it is told, where it stands, what it keeps.

use std::cell::Cell;
use std::ptr;

use crate::device::Order;
use crate::dock::Dock;
use crate::home;
use crate::park::Parked;
use crate::root::{Root, root};
use crate::share::WorkShare;
use crate::store::{Cache, Store};
use crate::sys;
use crate::task::Task;
use crate::team::{Member, Team};
use crate::wait::{Asking, Awake};

/// An outlined function, with the address of its frame as its argument.
pub type Function = unsafe extern "C" fn(*mut libc::c_void);

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

/// A thread of the job. The first cache line is what others write, the rest is its own.
#[repr(C, align(64))]
pub struct Thread {
    /// Where it is told that there is something, and sleeps.
    pub dock: Dock,
    /// Its number in the team it was given to.
    pub given_id: Cell<u32>,
    /// The team it was given to.
    pub given_team: Cell<*const Team>,
    /// What it is to run there.
    pub given_function: Cell<Option<Function>>,
    /// With what.
    pub given_data: Cell<*mut libc::c_void>,
    /// The number of the region that it is of.
    pub given_region: Cell<u64>,
    /// Where: the place plus one, or 0, and the places that its own teams may use.
    pub given_place: Cell<(u32, (u32, u32))>,

    seat: Padded<Cell<Option<Seat>>>,
    root: &'static Root,
    /// The number of the node that it is on.
    pub node: u32,
    /// Whether it runs; written by whoever has it as a worker.
    pub started: Cell<bool>,
    cache: Cache,
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
    /// The `target data` that it is in.
    pub data: Cell<Option<&'static Order>>,
    /// The kernel's number of this thread.
    pub kernel: Cell<u64>,
    /// When it asks whether somebody wants its processor.
    pub asking: Asking,
    /// Where it sleeps on another's word.
    pub parked: Parked,
}

#[repr(align(64))]
struct Padded<T>(T);

// SAFETY: of the cells, those of the first line are written by whoever has the thread as its worker and read by the thread after
// its dock said so, whose operations order the two; all others are the thread's own.
unsafe impl Sync for Thread {}

impl Thread {
    /// A thread on a node that has no team yet.
    pub fn create(root: &'static Root, node: u32) -> &'static Self {
        root.store.place(Self {
            dock: Dock::default(),
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
            cache: Cache::default(),
            spare: Cell::new(None),
            included: Cell::new(None),
            next_idle: Cell::new(None),
            place: Cell::new(0),
            partition: Cell::new((0, root.places().len())),
            displayed: Cell::new([0; 4]),
            league: Cell::new((0, 0)),
            data: Cell::new(None),
            kernel: Cell::new(0),
            asking: Asking::default(),
            parked: Parked::default(),
        })
    }

    /// Objects that it keeps for itself.
    #[inline]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Who else is awake on its processors.
    #[inline]
    pub fn awake(&self) -> &'static Awake {
        self.root.nodes().awake(self.node)
    }

    /// The job.
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

    /// Where its seat lies. A seat is long: who needs one thing of it reads or writes just that.
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

    /// What it executes.
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

    /// Its team.
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

    /// A thread that OpenMP did not start is a team of its own, in an implicit region that is not active.
    #[cold]
    fn first_seat(&self) -> Seat {
        Team::outermost(self.root, self, 0)
    }
}

/// The calling thread. One that was never here becomes known.
#[inline]
pub fn current() -> &'static Thread {
    match sys::me() {
        Some(thread) => thread,
        None => first_call(),
    }
}

#[cold]
fn first_call() -> &'static Thread {
    let root = root();
    let thread = root.adopt();
    thread.dock.settle(home::here());
    thread.kernel.set(sys::thread_number());
    sys::set_me(Some(thread));
    thread.awake().came();
    root.forget_at_end(thread);
    thread
}

/// Called as a thread that OpenMP did not start ends.
pub fn left(thread: &'static Thread) {
    thread.awake().went();
    thread.root.leave(thread);
    sys::set_me(None);
}
