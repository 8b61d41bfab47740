//! Placement and scheduling of threads.

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::{Context, OsError};

/// Scheduling class of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheduling {
    /// Shares the processor with all other threads: the default (`SCHED_OTHER`).
    Fair,
    /// Runs before all fair threads and lower priorities until it blocks (`SCHED_FIFO`). From 1 to 99.
    Fifo(u8),
    /// Like `Fifo`, but takes turns with threads of the same priority (`SCHED_RR`). From 1 to 99.
    RoundRobin(u8),
}

/// Exact scheduling of a thread, including policies that [`Scheduling`] cannot express.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    policy: libc::c_int,
    priority: libc::c_int,
}

/// The kernel's `struct sched_param`.
#[repr(C)]
struct Parameters {
    priority: libc::c_int,
}

impl From<Scheduling> for Policy {
    fn from(scheduling: Scheduling) -> Policy {
        let (policy, priority) = match scheduling {
            Scheduling::Fair => (libc::SCHED_OTHER, 0),
            Scheduling::Fifo(priority) => (libc::SCHED_FIFO, priority),
            Scheduling::RoundRobin(priority) => (libc::SCHED_RR, priority),
        };
        Policy { policy, priority: priority.into() }
    }
}

fn syscall_result(answer: libc::c_long) -> Result<libc::c_long, Errno> {
    if answer >= 0 {
        return Ok(answer);
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// Sets the scheduling of this thread.
///
/// # Errors
/// `EPERM` when a real-time priority needs the capability `CAP_SYS_NICE` or a higher
/// `RLIMIT_RTPRIO`; `EINVAL` for an invalid
/// priority; `ENOSYS` on emulators without real-time scheduling.
pub fn set_policy(policy: Policy) -> Result<(), OsError> {
    set_policy_after_fork(policy).context("change the scheduling of a thread")
}

/// Sets the policy like [`set_policy`], between fork and exec: neither allocates nor locks.
pub(crate) fn set_policy_after_fork(policy: Policy) -> Result<(), Errno> {
    let parameters = Parameters { priority: policy.priority };
    // A direct system call, because some C libraries have only a stub for it.
    // SAFETY: the kernel reads one `struct sched_param` at the pointer during the call; it only changes the
    // scheduling of this thread (0).
    let answer =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy.policy, &raw const parameters) };
    syscall_result(answer).map(|_| ())
}

/// Reservation of a thread under `SCHED_DEADLINE`: processor time in each period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservation {
    /// Run time in each period, in nanoseconds.
    pub runtime_ns: u64,
    /// Deadline relative to the start of the period, in nanoseconds.
    pub deadline_ns: u64,
    /// Length of the period, in nanoseconds.
    pub period_ns: u64,
}

/// The kernel's `struct sched_attr`, in its first version.
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Schedules this thread by earliest deadline with a reserved run time per period (`SCHED_DEADLINE`).
/// [`set_policy`] ends it.
///
/// # Errors
/// `EPERM` without the capability `CAP_SYS_NICE`, or for a thread restricted to some of the processors;
/// `EBUSY` if others have reserved too much already; `EINVAL` for a run time above the deadline, or a
/// deadline above the period; `ENOSYS` on emulators without real-time scheduling.
pub fn set_reservation(reservation: Reservation) -> Result<(), OsError> {
    let Reservation { runtime_ns, deadline_ns, period_ns } = reservation;
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: libc::SCHED_DEADLINE as u32,
        flags: 0,
        nice: 0,
        priority: 0,
        runtime_ns,
        deadline_ns,
        period_ns,
    };
    // SAFETY: the kernel reads one `struct sched_attr` of the size that is in it at the pointer during the
    // call; it only changes the scheduling of this thread (0).
    let answer = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    syscall_result(answer).map(|_| ()).context("reserve time of a processor for a thread")
}

/// Returns the scheduling of this thread.
///
/// # Errors
/// An error of the kernel.
pub fn policy() -> Result<Policy, OsError> {
    let mut parameters = Parameters { priority: 0 };
    // SAFETY: takes a number and returns one.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    let policy = syscall_result(policy).context("read the scheduling of a thread")? as libc::c_int;
    // SAFETY: the kernel writes one `struct sched_param` at the pointer, where there is room for one that
    // nothing else refers to.
    let answer = unsafe { libc::syscall(libc::SYS_sched_getparam, 0, &raw mut parameters) };
    syscall_result(answer).context("read the priority of a thread")?;
    Ok(Policy { policy, priority: parameters.priority })
}

fn cpu_set(cpus: &[usize]) -> Result<CpuSet, Errno> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        if *cpu >= CpuSet::MAX_CPU {
            return Err(Errno::INVAL);
        }
        set.set(*cpu);
    }
    Ok(set)
}

/// Restricts this thread to some processors.
///
/// # Errors
/// `EINVAL` if this process may use none of them.
pub fn set_cpus(cpus: &[usize]) -> Result<(), OsError> {
    set_cpus_after_fork(cpus).context("restrict a thread to some processors")
}

/// Restricts the processors like [`set_cpus`], between fork and exec: neither allocates nor locks.
pub(crate) fn set_cpus_after_fork(cpus: &[usize]) -> Result<(), Errno> {
    sched_setaffinity(None, &cpu_set(cpus)?)
}

/// Returns the processors that this thread may run on, in order.
///
/// # Errors
/// An error of the kernel.
pub fn cpus() -> Result<Vec<usize>, OsError> {
    let set = sched_getaffinity(None).context("read the processors that a thread may use")?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// Yields the processor to another thread that is ready to run.
#[inline]
pub fn yield_now() {
    rustix::thread::sched_yield();
}

/// Returns the number of context switches of this thread so far, voluntary and involuntary; 0 where the
/// kernel does not report it.
#[must_use]
pub fn context_switches() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes one `struct rusage` at the pointer, where there is room for one that
    // nothing else refers to.
    let answer = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: it was zeroed before the call, which is a valid value, and the kernel writes whole numbers.
    let usage = unsafe { usage.assume_init() };
    if answer == 0 { usage.ru_nvcsw as u64 + usage.ru_nivcsw as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_can_be_pinned_to_existing_processor() {
        std::thread::spawn(|| {
            let before = cpus().unwrap();
            set_cpus(&before[..1]).unwrap();
            assert_eq!(cpus().unwrap(), before[..1]);
            for none in [vec![], vec![CpuSet::MAX_CPU - 1], vec![CpuSet::MAX_CPU], vec![usize::MAX]] {
                assert_eq!(set_cpus(&none).unwrap_err().errno, Errno::INVAL, "{none:?}");
            }
            assert_eq!(cpus().unwrap(), before[..1]);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn scheduling_is_set_if_permitted() {
        std::thread::spawn(|| {
            let before = policy().unwrap();
            assert_eq!(set_policy(Scheduling::Fifo(0).into()).unwrap_err().errno, Errno::INVAL);
            assert_eq!(set_policy(Scheduling::Fifo(100).into()).unwrap_err().errno, Errno::INVAL);
            for scheduling in [Scheduling::Fifo(1), Scheduling::RoundRobin(2)] {
                match set_policy(scheduling.into()) {
                    Ok(()) => assert_eq!(policy().unwrap(), scheduling.into()),
                    Err(error) => assert_eq!(error.errno, Errno::PERM),
                }
            }
            set_policy(before).unwrap();
            assert_eq!(policy().unwrap(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn reservation_is_set_if_permitted() {
        let reserve = |runtime_ns, deadline_ns, period_ns| {
            set_reservation(Reservation { runtime_ns, deadline_ns, period_ns })
        };
        std::thread::spawn(move || {
            let before = policy().unwrap();
            let refused = reserve(2_000_000, 1_000_000, 10_000_000).unwrap_err().errno;
            assert!([Errno::INVAL, Errno::PERM, Errno::NOSYS].contains(&refused), "{refused}");
            match reserve(100_000, 5_000_000, 10_000_000) {
                Ok(()) => assert_ne!(policy().unwrap(), before),
                Err(error) => {
                    assert!([Errno::PERM, Errno::BUSY, Errno::NOSYS].contains(&error.errno), "{error}");
                }
            }
            set_policy(before).unwrap();
            assert_eq!(policy().unwrap(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_sleep_counts_as_a_context_switch() {
        std::thread::spawn(|| {
            let before = context_switches();
            std::thread::sleep(std::time::Duration::from_millis(2));
            assert!(context_switches() > before);
        })
        .join()
        .unwrap();
    }
}
