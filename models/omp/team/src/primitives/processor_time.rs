//! Processor time and kernel state of threads of this process.

/// Returns the processor time of the calling thread, in nanoseconds.
pub fn current_thread_time_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0)
}

/// Returns the processor time of a thread of this process, by its tid; `None` if there is no such thread.
pub fn thread_time_ns(thread: u64) -> Option<u64> {
    // Clock id as the kernel encodes it: CPUCLOCK_PERTHREAD_MASK and CPUCLOCK_SCHED.
    let number = i32::try_from(thread).ok().filter(|number| *number > 0)?;
    clock_ns((!number << 3) | 6)
}

fn clock_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is local.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut now) } != 0;
    (!failed).then(|| now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned())
}

/// Returns the state letter of a thread of this process, from `/proc/self/task/TID/stat`.
pub fn state_letter(thread: u64) -> Option<u8> {
    let text = std::fs::read(format!("/proc/self/task/{thread}/stat")).ok()?;
    // The state follows the name in parentheses, which can contain any characters.
    let end = text.iter().rposition(|byte| *byte == b')')?;
    text.get(end + 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::sys;

    #[test]
    fn only_own_threads_have_a_processor_time() {
        let number = sys::thread_id();
        let (before, of_number, after) =
            (current_thread_time_ns(), thread_time_ns(number), current_thread_time_ns());
        assert!((before..=after).contains(&of_number.expect("the calling thread")));
        assert_eq!(state_letter(number), Some(b'R'));
        // Thread 1 belongs to another process.
        for other in [0, 1, u64::MAX] {
            assert_eq!((thread_time_ns(other), state_letter(other)), (None, None), "{other}");
        }
    }
}
