//! Observable state of a thread, for listings of a job's threads.
//!
//! All fields are atomic, as a reader does not stop the thread. The thread writes its own fields, except for
//! the time owed by workers that ran its calls on other nodes, and for what its process reports on request.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Role of a thread in the program.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Not started or already ended.
    None = 0,
    /// Runs `main`.
    Main = 1,
    /// Created by the program.
    Created = 2,
    /// Worker of teams; also runs calls for threads that migrate.
    Worker = 3,
    /// Any other thread that uses the run-time, such as one of its own that accessed the program's memory.
    Other = 4,
}

/// Current activity of a thread.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Has no work.
    Idle = 0,
    /// Runs the program.
    Runs = 1,
    /// Waits for a call of the C library that another process makes for it.
    Calls = 2,
    /// Runs as a migrating thread of the program on this node.
    Carries = 3,
}

/// Observable state of a thread.
#[repr(C, align(64))]
pub struct Shown {
    /// Previously created record; [`super::root`] knows the type.
    pub(super) next: AtomicPtr<libc::c_void>,
    role: AtomicU32,
    activity: AtomicU32,
    /// Number in the job, in the order in which threads began.
    number: AtomicU32,
    /// Number in its team.
    in_team: AtomicU32,
    /// Thread id of the kernel (tid).
    kernel: AtomicU64,
    /// Handle of the C library (`pthread_t`).
    handle: AtomicUsize,
    /// Migration state, once there is any; [`crate::device`] knows the type.
    pub(crate) migrant: AtomicPtr<libc::c_void>,
    /// Thread that its processor time is charged to; null for itself.
    carried: AtomicPtr<Shown>,
    /// Its processor time when it began to be charged to that thread.
    since_ns: AtomicU64,
    /// Processor time charged to other threads.
    lent_ns: AtomicU64,
    /// Processor time of other threads charged to this one.
    owed_ns: AtomicU64,
    /// Processor time last reported by its process.
    clock_ns: AtomicU64,
    /// State letter of the kernel, as last reported by its process; 0 if not reported.
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

    /// Initialises the state of a thread that begins, with its tid and `pthread_t`.
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

    /// Sets the role of the thread.
    pub(crate) fn becomes(&self, role: Role) {
        self.role.store(role as u32, Ordering::Release);
    }

    /// Returns the role of the thread.
    pub fn role(&self) -> Role {
        let all = [Role::Main, Role::Created, Role::Worker, Role::Other];
        let number = self.role.load(Ordering::Acquire);
        all.into_iter().find(|role| *role as u32 == number).unwrap_or(Role::None)
    }

    /// Sets the current activity and returns the previous one.
    pub fn does(&self, activity: Activity) -> Activity {
        let before = self.activity();
        self.activity.store(activity as u32, Ordering::Relaxed);
        before
    }

    /// Returns the current activity of the thread.
    pub fn activity(&self) -> Activity {
        let all = [Activity::Runs, Activity::Calls, Activity::Carries];
        let number = self.activity.load(Ordering::Relaxed);
        all.into_iter().find(|activity| *activity as u32 == number).unwrap_or(Activity::Idle)
    }

    /// Sets its number in its team.
    pub(crate) fn is_in_team(&self, number: u32) {
        self.in_team.store(number, Ordering::Relaxed);
    }

    /// Returns its number in its team.
    pub fn in_team(&self) -> u32 {
        self.in_team.load(Ordering::Relaxed)
    }

    /// Returns its number in the job.
    pub fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    /// Returns the kernel's thread id.
    pub fn kernel(&self) -> u64 {
        self.kernel.load(Ordering::Relaxed)
    }

    /// Returns the handle of the C library (`pthread_t`).
    pub fn handle(&self) -> usize {
        self.handle.load(Ordering::Relaxed)
    }

    /// Records the processor time and state letter reported by its process.
    pub fn measured(&self, clock_ns: u64, letter: u8) {
        self.clock_ns.store(clock_ns, Ordering::Relaxed);
        self.letter.store(letter.into(), Ordering::Relaxed);
    }

    /// Returns the state letter of the kernel, as in `/proc`.
    pub fn letter(&self) -> Option<u8> {
        u8::try_from(self.letter.load(Ordering::Relaxed)).ok().filter(|letter| *letter != 0)
    }

    /// Charges the processor time of the calling thread, whose record this is, to `other` or to itself from
    /// now on. Reads the clock only on a change, so that consecutive calls for one thread cost nothing.
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

    /// Returns the thread that this one is charged to, and the time until `now_ns` not yet accounted for.
    fn unsettled(&self, now_ns: u64) -> (Option<&'static Shown>, u64) {
        // SAFETY: the pointer was stored from a `'static` reference.
        let carried = unsafe { self.carried.load(Ordering::Relaxed).as_ref() };
        (carried, now_ns.saturating_sub(self.since_ns.load(Ordering::Relaxed)))
    }

    /// Returns the processor time of this thread on all nodes, as last reported. `all` iterates over all
    /// threads.
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
        // The clock is not read while the thread stays the same.
        worker.carry(Some(one), || unreachable!());
        worker.measured(130, b'R');
        assert_eq!(times(), [100, 1030, 0]);
        worker.carry(Some(two), || 150);
        worker.carry(None, || 170);
        worker.measured(200, b'S');
        assert_eq!(times(), [130, 1050, 20]);
        assert_eq!(times().into_iter().sum::<u64>(), 1200, "what the kernel has counted");
        // The last report of the process is older than the change.
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
