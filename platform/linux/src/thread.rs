//! Where a thread runs, and before whom.

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::{Context, OsError};

/// Whom a thread runs before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheduling {
    /// As every thread unless said otherwise: shares the processor with all others (`SCHED_OTHER`).
    Fair,
    /// Before all that are fair and all of lower priority, for as long as it wants to (`SCHED_FIFO`). From 1 to 99.
    Fifo(u8),
    /// The same, taking turns with others of its priority (`SCHED_RR`). From 1 to 99.
    RoundRobin(u8),
}

/// How a thread was scheduled, exactly: also by policies that [`Scheduling`] has no name for.
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

fn result(answer: libc::c_long) -> Result<libc::c_long, Errno> {
    if answer >= 0 {
        return Ok(answer);
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// Schedules this thread.
///
/// # Errors
/// `EPERM`: a real-time priority takes the capability `CAP_SYS_NICE` or a limit `RLIMIT_RTPRIO` that high; `EINVAL`:
/// there is no such priority. Some emulators have no real-time scheduling at all: `ENOSYS`.
pub fn set_policy(policy: Policy) -> Result<(), OsError> {
    set_policy_here(policy).context("change the scheduling of a thread")
}

/// [`set_policy`] for a process between fork and exec: neither allocates nor locks.
pub(crate) fn set_policy_here(policy: Policy) -> Result<(), Errno> {
    let parameters = Parameters { priority: policy.priority };
    // A system call of its own: some C libraries have only a stub for it.
    // SAFETY: the kernel reads one `struct sched_param` where the pointer says, for the length of the call, and there
    // is one; it changes nothing but how this thread (0) is scheduled.
    let answer =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy.policy, &raw const parameters) };
    result(answer).map(|_| ())
}

/// How this thread is scheduled.
///
/// # Errors
/// What the kernel answered.
pub fn policy() -> Result<Policy, OsError> {
    let mut parameters = Parameters { priority: 0 };
    // SAFETY: takes a number and returns one.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    let policy = result(policy).context("ask for the scheduling of a thread")? as libc::c_int;
    // SAFETY: the kernel writes one `struct sched_param` where the pointer says, and there is room for one that
    // nothing else refers to.
    let answer = unsafe { libc::syscall(libc::SYS_sched_getparam, 0, &raw mut parameters) };
    result(answer).context("ask for the priority of a thread")?;
    Ok(Policy { policy, priority: parameters.priority })
}

fn set_of(cpus: &[usize]) -> Result<CpuSet, Errno> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        if *cpu >= CpuSet::MAX_CPU {
            return Err(Errno::INVAL);
        }
        set.set(*cpu);
    }
    Ok(set)
}

/// Keeps this thread on some processors.
///
/// # Errors
/// `EINVAL`: none of them is one that this process may use.
pub fn set_cpus(cpus: &[usize]) -> Result<(), OsError> {
    set_cpus_here(cpus).context("keep a thread on some processors")
}

/// [`set_cpus`] for a process between fork and exec: neither allocates nor locks.
pub(crate) fn set_cpus_here(cpus: &[usize]) -> Result<(), Errno> {
    sched_setaffinity(None, &set_of(cpus)?)
}

/// The processors that this thread may run on, in order.
///
/// # Errors
/// What the kernel answered.
pub fn cpus() -> Result<Vec<usize>, OsError> {
    let set = sched_getaffinity(None).context("ask which processors a thread may use")?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// Lets another thread have this processor, if one wants it.
#[inline]
pub fn yield_now() {
    rustix::thread::sched_yield();
}

/// How often this thread has lost its processor so far, because it waited or because others wanted it; 0 where the kernel does not say.
#[must_use]
pub fn switches() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes one `struct rusage` where the pointer says, and there is room for one that nothing else
    // refers to.
    let answer = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: all of it was zero before the call, which is a value of its, and the kernel writes whole numbers.
    let usage = unsafe { usage.assume_init() };
    if answer == 0 { usage.ru_nvcsw as u64 + usage.ru_nivcsw as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_can_be_kept_on_a_processor_that_there_is() {
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
    fn scheduling_is_set_as_far_as_this_user_may() {
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
    fn who_sleeps_has_lost_its_processor() {
        std::thread::spawn(|| {
            let before = switches();
            std::thread::sleep(std::time::Duration::from_millis(2));
            assert!(switches() > before);
        })
        .join()
        .unwrap();
    }
}
