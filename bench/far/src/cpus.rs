//! Which processor a side of a measurement runs on.

use std::fs;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors that this thread may run on, in order.
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

/// How long this thread has been ready to run while something else ran, in nanoseconds; `None` where the
/// kernel does not say.
#[must_use]
pub fn waited_ns() -> Option<u64> {
    // Time run, time waited, slices.
    fs::read_to_string("/proc/thread-self/schedstat").ok()?.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_only_grows() {
        let before = waited_ns();
        std::thread::yield_now();
        assert!(waited_ns() >= before);
    }
}
