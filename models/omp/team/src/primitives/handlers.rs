//! Signal handlers that the calling thread is executing, innermost first.
//!
//! A handler can be left by a jump, which calls [`jump_to`] with the future stack pointer. This determines
//! which handlers are left: each ran on a stack range from its own call down to where the next one
//! interrupted it, on any stack.

use std::cell::Cell;
use std::ptr;

/// Handler that has not returned. The record is on the stack that the handler runs on.
struct Handler {
    previous: *const Handler,
    /// Stack pointer of the interrupted code.
    interrupted_sp: usize,
}

thread_local!(static INNERMOST: Cell<*const Handler> = const { Cell::new(ptr::null()) });

/// Runs a handler that interrupted code with this stack pointer.
pub fn run(interrupted_sp: usize, handler: impl FnOnce()) {
    let running = Handler { previous: INNERMOST.get(), interrupted_sp };
    INNERMOST.set(&raw const running);
    handler();
    INNERMOST.set(running.previous);
}

/// Whether the calling thread is executing a handler.
#[must_use]
pub fn is_running() -> bool {
    !INNERMOST.get().is_null()
}

/// Unwinds the list for a jump of the calling thread to this stack pointer. Returns the stack pointer
/// interrupted by the outermost handler that is left, if any.
pub fn jump_to(stack: usize) -> Option<usize> {
    let here = 0_u8;
    let mut lowest = &raw const here as usize;
    let mut left = None;
    loop {
        let last = INNERMOST.get();
        // SAFETY: the handler has neither returned nor been left, so its record is on a stack of this thread.
        let Some(Handler { previous, interrupted_sp }) = (unsafe { last.as_ref() }) else { return left };
        if (lowest..=last as usize).contains(&stack) {
            return left;
        }
        lowest = *interrupted_sp;
        left = Some(lowest);
        INNERMOST.set(*previous);
    }
}

/// Runs `call`, which may leave handlers that begin in it other than by a jump of this thread. It must leave
/// no others.
pub fn preserve_across<T>(call: impl FnOnce() -> T) -> T {
    let previous = INNERMOST.get();
    let result = call();
    INNERMOST.set(previous);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack() -> usize {
        let here = 0_u8;
        &raw const here as usize
    }

    /// Runs two nested handlers. Passes `then` the stack pointers outside, in the first and in the second.
    fn nested(then: impl FnOnce([usize; 3])) {
        let outside = stack();
        run(outside, || {
            let first = stack();
            run(first, || {
                let room = [0_u8; 4096];
                then([outside, first, std::hint::black_box(&room).as_ptr() as usize + 4095]);
            });
        });
    }

    #[test]
    fn handler_runs_until_it_returns() {
        assert!(!is_running());
        nested(|_| assert!(is_running()));
        assert!(!is_running());
    }

    #[test]
    fn jump_leaves_handlers_above_its_target() {
        nested(|[_, _, inner]| {
            let last = INNERMOST.get();
            assert_eq!(jump_to(inner), None);
            assert_eq!(INNERMOST.get(), last, "within the second");
        });
        nested(|[_, first, _]| {
            // SAFETY: the second handler has not returned.
            let previous = unsafe { (*INNERMOST.get()).previous };
            assert_eq!(jump_to(first), Some(first));
            assert_eq!(INNERMOST.get(), previous, "to the first");
        });
        nested(|[outside, ..]| {
            assert_eq!(jump_to(outside), Some(outside));
            assert!(!is_running(), "out of both");
        });
        INNERMOST.set(ptr::null());
    }

    #[test]
    fn jump_leaves_a_handler_on_another_stack() {
        let outside = stack();
        let other = std::thread::spawn(move || {
            run(outside, || {
                assert_eq!(jump_to(stack()), None);
                assert!(is_running());
                assert_eq!(jump_to(outside), Some(outside));
                assert!(!is_running());
            });
        });
        other.join().expect("no panic");
    }

    #[test]
    fn handlers_left_within_a_call_are_dropped() {
        run(stack(), || {
            let previous = INNERMOST.get();
            preserve_across(|| INNERMOST.set(ptr::null()));
            assert_eq!(INNERMOST.get(), previous);
        });
    }
}
