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
    Running = 1,
    /// Waits for a call of the C library that another process makes for it.
    Calling = 2,
    /// Runs as a migrating thread of the program on this node.
    RunningMigratedThread = 3,
}

/// Observable state of a thread.
#[repr(C, align(64))]
pub struct ThreadStatus {
    /// Previously created record; [`super::root`] knows the type.
    pub(super) next: AtomicPtr<libc::c_void>,
    role: AtomicU32,
    activity: AtomicU32,
    /// Number in the job, in the order in which threads began.
    number: AtomicU32,
    /// Number in its team.
    team_number: AtomicU32,
    /// Thread id of the kernel (tid).
    tid: AtomicU64,
    /// Handle of the C library (`pthread_t`).
    pthread: AtomicUsize,
    /// Migration state, once there is any; [`crate::device`] knows the type.
    pub(crate) migration: AtomicPtr<libc::c_void>,
    /// Thread that its processor time is charged to; null for itself.
    charged_to: AtomicPtr<ThreadStatus>,
    /// Its processor time when it began to be charged to that thread.
    charged_since_ns: AtomicU64,
    /// Processor time charged to other threads.
    charged_to_others_ns: AtomicU64,
    /// Processor time of other threads charged to this one.
    charged_from_others_ns: AtomicU64,
    /// Processor time last reported by its process.
    clock_ns: AtomicU64,
    /// State letter of the kernel, as last reported by its process; 0 if not reported.
    state_letter: AtomicU32,
}

impl ThreadStatus {
    pub(super) fn new() -> Self {
        Self {
            next: AtomicPtr::new(ptr::null_mut()),
            role: AtomicU32::new(Role::None as u32),
            activity: AtomicU32::new(Activity::Idle as u32),
            number: AtomicU32::new(0),
            team_number: AtomicU32::new(0),
            tid: AtomicU64::new(0),
            pthread: AtomicUsize::new(0),
            migration: AtomicPtr::new(ptr::null_mut()),
            charged_to: AtomicPtr::new(ptr::null_mut()),
            charged_since_ns: AtomicU64::new(0),
            charged_to_others_ns: AtomicU64::new(0),
            charged_from_others_ns: AtomicU64::new(0),
            clock_ns: AtomicU64::new(0),
            state_letter: AtomicU32::new(0),
        }
    }

    /// Initialises the state of a thread that begins, with its tid and `pthread_t`.
    pub(crate) fn begin(&self, role: Role, activity: Activity, number: u32, (tid, pthread): (u64, usize)) {
        for word in
            [&self.charged_since_ns, &self.charged_to_others_ns, &self.charged_from_others_ns, &self.clock_ns]
        {
            word.store(0, Ordering::Relaxed);
        }
        self.charged_to.store(ptr::null_mut(), Ordering::Relaxed);
        self.state_letter.store(0, Ordering::Relaxed);
        self.tid.store(tid, Ordering::Relaxed);
        self.pthread.store(pthread, Ordering::Relaxed);
        self.number.store(number, Ordering::Relaxed);
        self.set_activity(activity);
        self.set_role(role);
    }

    /// Sets the role of the thread.
    pub(crate) fn set_role(&self, role: Role) {
        self.role.store(role as u32, Ordering::Release);
    }

    /// Returns the role of the thread.
    pub fn role(&self) -> Role {
        let all = [Role::Main, Role::Created, Role::Worker, Role::Other];
        let number = self.role.load(Ordering::Acquire);
        all.into_iter().find(|role| *role as u32 == number).unwrap_or(Role::None)
    }

    /// Sets the current activity and returns the previous one.
    pub fn set_activity(&self, activity: Activity) -> Activity {
        let before = self.activity();
        self.activity.store(activity as u32, Ordering::Relaxed);
        before
    }

    /// Returns the current activity of the thread.
    pub fn activity(&self) -> Activity {
        let all = [Activity::Running, Activity::Calling, Activity::RunningMigratedThread];
        let number = self.activity.load(Ordering::Relaxed);
        all.into_iter().find(|activity| *activity as u32 == number).unwrap_or(Activity::Idle)
    }

    /// Sets its number in its team.
    pub(crate) fn set_team_number(&self, number: u32) {
        self.team_number.store(number, Ordering::Relaxed);
    }

    /// Returns its number in its team.
    pub fn team_number(&self) -> u32 {
        self.team_number.load(Ordering::Relaxed)
    }

    /// Returns its number in the job.
    pub fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    /// Returns the kernel's thread id.
    pub fn tid(&self) -> u64 {
        self.tid.load(Ordering::Relaxed)
    }

    /// Returns the handle of the C library (`pthread_t`).
    pub fn pthread(&self) -> usize {
        self.pthread.load(Ordering::Relaxed)
    }

    /// Records the processor time and state letter reported by its process.
    pub fn record_measurement(&self, clock_ns: u64, state_letter: u8) {
        self.clock_ns.store(clock_ns, Ordering::Relaxed);
        self.state_letter.store(state_letter.into(), Ordering::Relaxed);
    }

    /// Returns the state letter of the kernel, as in `/proc`.
    pub fn state_letter(&self) -> Option<u8> {
        u8::try_from(self.state_letter.load(Ordering::Relaxed)).ok().filter(|state_letter| *state_letter != 0)
    }

    /// Charges the processor time of the calling thread, whose record this is, to `other` or to itself from
    /// now on. Reads the clock only on a change, so that consecutive calls for one thread cost nothing.
    #[inline]
    pub(crate) fn charge_to(&self, other: Option<&'static ThreadStatus>, clock: impl FnOnce() -> u64) {
        let other = other.map_or(ptr::null_mut(), |other| ptr::from_ref(other).cast_mut());
        if self.charged_to.load(Ordering::Relaxed) != other {
            self.settle_charge(other, clock());
        }
    }

    #[cold]
    fn settle_charge(&self, other: *mut ThreadStatus, now_ns: u64) {
        let (before, used_ns) = self.unsettled_charge(now_ns);
        if let Some(before) = before {
            before.charged_from_others_ns.fetch_add(used_ns, Ordering::Relaxed);
            self.charged_to_others_ns.fetch_add(used_ns, Ordering::Relaxed);
        }
        self.charged_since_ns.store(now_ns, Ordering::Relaxed);
        self.charged_to.store(other, Ordering::Relaxed);
    }

    /// Returns the thread that this one is charged to, and the time until `now_ns` not yet accounted for.
    fn unsettled_charge(&self, now_ns: u64) -> (Option<&'static ThreadStatus>, u64) {
        // SAFETY: the pointer was stored from a `'static` reference.
        let charged_to = unsafe { self.charged_to.load(Ordering::Relaxed).as_ref() };
        (charged_to, now_ns.saturating_sub(self.charged_since_ns.load(Ordering::Relaxed)))
    }

    /// Returns the processor time of this thread on all nodes, as last reported. `all` iterates over all
    /// threads.
    pub fn time_ns(&self, all: impl Iterator<Item = &'static ThreadStatus>) -> u64 {
        let clock_ns = self.clock_ns.load(Ordering::Relaxed);
        let charged_to_others_ns = match self.unsettled_charge(clock_ns) {
            (Some(_), used_ns) => used_ns,
            (None, _) => 0,
        };
        let of_others: u64 = all
            .map(|other| match other.unsettled_charge(other.clock_ns.load(Ordering::Relaxed)) {
                (Some(charged_to), used_ns) if ptr::eq(charged_to, self) => used_ns,
                _ => 0,
            })
            .sum();
        let charged_to_others_ns =
            charged_to_others_ns.saturating_add(self.charged_to_others_ns.load(Ordering::Relaxed));
        let charged_from_others_ns =
            of_others.saturating_add(self.charged_from_others_ns.load(Ordering::Relaxed));
        clock_ns.saturating_sub(charged_to_others_ns).saturating_add(charged_from_others_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> &'static ThreadStatus {
        let status: &ThreadStatus = Box::leak(Box::new(ThreadStatus::new()));
        status.begin(Role::Worker, Activity::Idle, 1, (7, 8));
        status
    }

    #[test]
    fn processor_time_is_charged_to_the_thread_that_ran() {
        let (worker, one, two) = (status(), status(), status());
        let all = [worker, one, two];
        let times = || all.map(|of| of.time_ns(all.into_iter()));
        one.record_measurement(1000, b'S');
        worker.charge_to(Some(one), || 100);
        // The clock is not read while the thread stays the same.
        worker.charge_to(Some(one), || unreachable!());
        worker.record_measurement(130, b'R');
        assert_eq!(times(), [100, 1030, 0]);
        worker.charge_to(Some(two), || 150);
        worker.charge_to(None, || 170);
        worker.record_measurement(200, b'S');
        assert_eq!(times(), [130, 1050, 20]);
        assert_eq!(times().into_iter().sum::<u64>(), 1200, "what the kernel has counted");
        // The last report of the process is older than the change.
        worker.charge_to(Some(one), || 300);
        assert_eq!(times(), [130, 1050, 20]);
    }

    #[test]
    fn reused_record_starts_at_zero() {
        let (worker, one) = (status(), status());
        worker.charge_to(Some(one), || 100);
        worker.charge_to(None, || 400);
        one.record_measurement(50, b'R');
        assert_eq!(one.time_ns([worker, one].into_iter()), 350);
        one.begin(Role::Created, Activity::Running, 9, (1, 2));
        assert_eq!((one.time_ns([worker, one].into_iter()), one.state_letter()), (0, None));
        assert_eq!((one.role(), one.activity(), one.number()), (Role::Created, Activity::Running, 9));
    }
}
