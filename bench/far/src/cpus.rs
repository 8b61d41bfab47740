//! Processor affinity of the calling thread.

use std::fs;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns the processors on which this thread may run, in ascending order.
///
/// # Errors
/// The error of the kernel.
pub fn allowed() -> std::io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// Pins this thread to one processor.
///
/// # Errors
/// The error of the kernel, for example if the processor is not allowed.
pub fn pin(cpu: usize) -> std::io::Result<()> {
    set(&[cpu])
}

/// Pins this thread to these processors.
///
/// # Errors
/// As [`pin`].
pub fn set(cpus: &[usize]) -> std::io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Returns the time that this thread has been runnable but not running, in nanoseconds; `None` if the kernel
/// does not report it.
#[must_use]
pub fn waited_ns() -> Option<u64> {
    // Fields: time run, time waited, number of timeslices.
    fs::read_to_string("/proc/thread-self/schedstat").ok()?.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waited_time_only_grows() {
        let before = waited_ns();
        std::thread::yield_now();
        assert!(waited_ns() >= before);
    }
}
