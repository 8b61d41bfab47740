//! What can be seen of a thread from outside at any time: for lists of a job's threads.
//!
//! All of it is atomic, as a reader does not stop the thread. The thread writes its own, but for what it
//! is owed by workers that ran its calls on other nodes, and for what its process says when it is asked.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// What a thread is to the program.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// None: it has not begun, or has ended.
    None = 0,
    /// The one that calls `main`.
    Main = 1,
    /// One that the program has created.
    Created = 2,
    /// A worker of teams, which also runs calls for threads that migrate.
    Worker = 3,
    /// Another that came to the run-time: one of the run-time's own that has met the program's memory.
    Other = 4,
}

/// What a thread does.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It has nothing to do.
    Idle = 0,
    /// It runs the program.
    Runs = 1,
    /// It waits for a call of the C library that another process makes for it.
    Calls = 2,
    /// It is a thread of the program on this node, which migrates.
    Carries = 3,
}

/// What can be seen of a thread.
#[repr(C, align(64))]
pub struct Shown {
    /// The record that was made before this one; an address that [`super::root`] gives a meaning to.
    pub(super) next: AtomicPtr<libc::c_void>,
    role: AtomicU32,
    activity: AtomicU32,
    /// Which thread of the job it is, in the order in which they began.
    number: AtomicU32,
    /// Its number in its team.
    in_team: AtomicU32,
    /// The kernel's number.
    kernel: AtomicU64,
    /// What the C library calls it.
    handle: AtomicUsize,
    /// What it migrates as, once it has: an address that [`crate::device`] gives a meaning to.
    pub(crate) migrant: AtomicPtr<libc::c_void>,
    /// The record of the thread that its processor time is for, unless that is itself.
    carried: AtomicPtr<Shown>,
    /// Its processor time when it began to be that thread.
    since_ns: AtomicU64,
    /// Its processor time that was other threads'.
    lent_ns: AtomicU64,
    /// Processor time of others that was this thread's.
    owed_ns: AtomicU64,
    /// Its processor time, as its process said last.
    clock_ns: AtomicU64,
    /// The letter that the kernel has for its state, as its process said last; 0: it did not.
    letter: AtomicU32,
}

impl Shown {
    pub(super) fn new() -> Self {
        Self {
            next: AtomicPtr::new(ptr::null_mut()),
            role: AtomicU32::new(Role::None as u32),
            activity: AtomicU32::new(Activity::Idle as u32),
            number: AtomicU32::new(0),
            in_team: AtomicU32::new(0),
            kernel: AtomicU64::new(0),
            handle: AtomicUsize::new(0),
            migrant: AtomicPtr::new(ptr::null_mut()),
            carried: AtomicPtr::new(ptr::null_mut()),
            since_ns: AtomicU64::new(0),
            lent_ns: AtomicU64::new(0),
            owed_ns: AtomicU64::new(0),
            clock_ns: AtomicU64::new(0),
            letter: AtomicU32::new(0),
        }
    }

    /// The thread begins, with the kernel's number and what the C library calls it.
    pub(crate) fn begin(&self, role: Role, activity: Activity, number: u32, (kernel, handle): (u64, usize)) {
        for word in [&self.since_ns, &self.lent_ns, &self.owed_ns, &self.clock_ns] {
            word.store(0, Ordering::Relaxed);
        }
        self.carried.store(ptr::null_mut(), Ordering::Relaxed);
        self.letter.store(0, Ordering::Relaxed);
        self.kernel.store(kernel, Ordering::Relaxed);
        self.handle.store(handle, Ordering::Relaxed);
        self.number.store(number, Ordering::Relaxed);
        self.does(activity);
        self.becomes(role);
    }

    /// Says what it is to the program.
    pub(crate) fn becomes(&self, role: Role) {
        self.role.store(role as u32, Ordering::Release);
    }

    /// What it is to the program.
    pub fn role(&self) -> Role {
        let all = [Role::Main, Role::Created, Role::Worker, Role::Other];
        let number = self.role.load(Ordering::Acquire);
        all.into_iter().find(|role| *role as u32 == number).unwrap_or(Role::None)
    }

    /// Says what it does now; what it did before.
    pub fn does(&self, activity: Activity) -> Activity {
        let before = self.activity();
        self.activity.store(activity as u32, Ordering::Relaxed);
        before
    }

    /// What it does at the moment.
    pub fn activity(&self) -> Activity {
        let all = [Activity::Runs, Activity::Calls, Activity::Carries];
        let number = self.activity.load(Ordering::Relaxed);
        all.into_iter().find(|activity| *activity as u32 == number).unwrap_or(Activity::Idle)
    }

    /// Says that it has this number in its team.
    pub(crate) fn is_in_team(&self, number: u32) {
        self.in_team.store(number, Ordering::Relaxed);
    }

    /// Its number in its team.
    pub fn in_team(&self) -> u32 {
        self.in_team.load(Ordering::Relaxed)
    }

    /// Which thread of the job it is.
    pub fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    /// The kernel's number of it.
    pub fn kernel(&self) -> u64 {
        self.kernel.load(Ordering::Relaxed)
    }

    /// What the C library calls it.
    pub fn handle(&self) -> usize {
        self.handle.load(Ordering::Relaxed)
    }

    /// Its process says how long it has had a processor, and the letter of its state.
    pub fn measured(&self, clock_ns: u64, letter: u8) {
        self.clock_ns.store(clock_ns, Ordering::Relaxed);
        self.letter.store(letter.into(), Ordering::Relaxed);
    }

    /// The letter that the kernel has for its state.
    pub fn letter(&self) -> Option<u8> {
        u8::try_from(self.letter.load(Ordering::Relaxed)).ok().filter(|letter| *letter != 0)
    }

    /// From here on the processor time of this thread, the calling one, is that of another, or its own. The
    /// clock is asked only if that changes: calls of one thread in a row cost nothing.
    #[inline]
    pub(crate) fn carry(&self, other: Option<&'static Shown>, clock: impl FnOnce() -> u64) {
        let other = other.map_or(ptr::null_mut(), |other| ptr::from_ref(other).cast_mut());
        if self.carried.load(Ordering::Relaxed) != other {
            self.settle(other, clock());
        }
    }

    #[cold]
    fn settle(&self, other: *mut Shown, now_ns: u64) {
        let (before, used_ns) = self.unsettled(now_ns);
        if let Some(before) = before {
            before.owed_ns.fetch_add(used_ns, Ordering::Relaxed);
            self.lent_ns.fetch_add(used_ns, Ordering::Relaxed);
        }
        self.since_ns.store(now_ns, Ordering::Relaxed);
        self.carried.store(other, Ordering::Relaxed);
    }

    /// The thread that this one is now, and how much of this one's time at `now_ns` is that one's.
    fn unsettled(&self, now_ns: u64) -> (Option<&'static Shown>, u64) {
        // SAFETY: what is stored there came from a reference of this lifetime.
        let carried = unsafe { self.carried.load(Ordering::Relaxed).as_ref() };
        (carried, now_ns.saturating_sub(self.since_ns.load(Ordering::Relaxed)))
    }

    /// The processor time of this thread on all nodes, as the processes said last. `all` has all threads.
    pub fn time_ns(&self, all: impl Iterator<Item = &'static Shown>) -> u64 {
        let clock_ns = self.clock_ns.load(Ordering::Relaxed);
        let lent_ns = match self.unsettled(clock_ns) {
            (Some(_), used_ns) => used_ns,
            (None, _) => 0,
        };
        let of_others: u64 = all
            .map(|other| match other.unsettled(other.clock_ns.load(Ordering::Relaxed)) {
                (Some(carried), used_ns) if ptr::eq(carried, self) => used_ns,
                _ => 0,
            })
            .sum();
        let lent_ns = lent_ns.saturating_add(self.lent_ns.load(Ordering::Relaxed));
        let owed_ns = of_others.saturating_add(self.owed_ns.load(Ordering::Relaxed));
        clock_ns.saturating_sub(lent_ns).saturating_add(owed_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown() -> &'static Shown {
        let shown: &Shown = Box::leak(Box::new(Shown::new()));
        shown.begin(Role::Worker, Activity::Idle, 1, (7, 8));
        shown
    }

    #[test]
    fn processor_time_is_that_of_the_thread_that_was_run() {
        let (worker, one, two) = (shown(), shown(), shown());
        let all = [worker, one, two];
        let times = || all.map(|of| of.time_ns(all.into_iter()));
        one.measured(1000, b'S');
        worker.carry(Some(one), || 100);
        // The clock is not asked while it stays the same thread.
        worker.carry(Some(one), || unreachable!());
        worker.measured(130, b'R');
        assert_eq!(times(), [100, 1030, 0]);
        worker.carry(Some(two), || 150);
        worker.carry(None, || 170);
        worker.measured(200, b'S');
        assert_eq!(times(), [130, 1050, 20]);
        assert_eq!(times().into_iter().sum::<u64>(), 1200, "what the kernel has counted");
        // A process that has not answered yet has said an older time.
        worker.carry(Some(one), || 300);
        assert_eq!(times(), [130, 1050, 20]);
    }

    #[test]
    fn a_record_that_is_used_again_begins_anew() {
        let (worker, one) = (shown(), shown());
        worker.carry(Some(one), || 100);
        worker.carry(None, || 400);
        one.measured(50, b'R');
        assert_eq!(one.time_ns([worker, one].into_iter()), 350);
        one.begin(Role::Created, Activity::Runs, 9, (1, 2));
        assert_eq!((one.time_ns([worker, one].into_iter()), one.letter()), (0, None));
        assert_eq!((one.role(), one.activity(), one.number()), (Role::Created, Activity::Runs, 9));
    }
}
