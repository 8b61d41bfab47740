//! Signal handlers that the calling thread is executing, innermost first.
//!
//! A handler can be left by a jump, which calls [`jump_to`] with the future stack pointer. This determines
//! which handlers are left: each ran on a stack range from its own call down to where the next one
//! interrupted it, on any stack.

use std::cell::Cell;
use std::ptr;

/// Handler that has not returned. The record is on the stack that the handler runs on.
struct Handler {
    before: *const Handler,
    /// Stack pointer of the interrupted code.
    interrupted: usize,
}

thread_local!(static LAST: Cell<*const Handler> = const { Cell::new(ptr::null()) });

/// Runs a handler that interrupted code with this stack pointer.
pub fn run(interrupted: usize, handler: impl FnOnce()) {
    let running = Handler { before: LAST.get(), interrupted };
    LAST.set(&raw const running);
    handler();
    LAST.set(running.before);
}

/// Whether the calling thread is executing a handler.
#[must_use]
pub fn is_running() -> bool {
    !LAST.get().is_null()
}

/// Unwinds the list for a jump of the calling thread to this stack pointer. Returns the stack pointer
/// interrupted by the outermost handler that is left, if any.
pub fn jump_to(stack: usize) -> Option<usize> {
    let here = 0_u8;
    let mut lowest = &raw const here as usize;
    let mut left = None;
    loop {
        let last = LAST.get();
        // SAFETY: the handler has neither returned nor been left, so its record is on a stack of this thread.
        let Some(Handler { before, interrupted }) = (unsafe { last.as_ref() }) else { return left };
        if (lowest..=last as usize).contains(&stack) {
            return left;
        }
        lowest = *interrupted;
        left = Some(lowest);
        LAST.set(*before);
    }
}

/// Runs `call`, which may leave handlers that begin in it other than by a jump of this thread. It must leave
/// no others.
pub fn within<T>(call: impl FnOnce() -> T) -> T {
    let before = LAST.get();
    let result = call();
    LAST.set(before);
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
    fn handlers_are_executed_until_they_return() {
        assert!(!is_running());
        nested(|_| assert!(is_running()));
        assert!(!is_running());
    }

    #[test]
    fn a_jump_leaves_the_handlers_whose_stack_it_leaves() {
        nested(|[_, _, inner]| {
            let last = LAST.get();
            assert_eq!(jump_to(inner), None);
            assert_eq!(LAST.get(), last, "within the second");
        });
        nested(|[_, first, _]| {
            // SAFETY: the second handler has not returned.
            let before = unsafe { (*LAST.get()).before };
            assert_eq!(jump_to(first), Some(first));
            assert_eq!(LAST.get(), before, "to the first");
        });
        nested(|[outside, ..]| {
            assert_eq!(jump_to(outside), Some(outside));
            assert!(!is_running(), "out of both");
        });
        LAST.set(ptr::null());
    }

    #[test]
    fn a_jump_leaves_a_handler_with_a_stack_of_its_own() {
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
    fn what_was_left_within_a_call_is_over_after_it() {
        run(stack(), || {
            let before = LAST.get();
            within(|| LAST.set(ptr::null()));
            assert_eq!(LAST.get(), before);
        });
    }
}
