//! Handlers of signals that the calling thread executes, the last first.
//!
//! A handler can be left by a jump, which comes back here with where the stack will be. That tells which
//! handlers it leaves: each ran on a stack that reaches from its own call down to where the next interrupted
//! it, whichever stack that was.

use std::cell::Cell;
use std::ptr;

/// A handler that has not returned. It lies on the stack that the handler runs on.
struct Handler {
    before: *const Handler,
    /// Where the stack was of what it interrupted.
    interrupted: usize,
}

thread_local!(static LAST: Cell<*const Handler> = const { Cell::new(ptr::null()) });

/// Runs a handler, which interrupted code that had its stack there.
pub fn run(interrupted: usize, handler: impl FnOnce()) {
    let running = Handler { before: LAST.get(), interrupted };
    LAST.set(&raw const running);
    handler();
    LAST.set(running.before);
}

/// Whether the calling thread executes a handler.
#[must_use]
pub fn is_running() -> bool {
    !LAST.get().is_null()
}

/// The calling thread is about to have its stack there, by a jump: handlers that it leaves are no longer
/// executed. Where the stack was of what the first of these interrupted, if it leaves any.
pub fn jump_to(stack: usize) -> Option<usize> {
    let here = 0_u8;
    let mut lowest = &raw const here as usize;
    let mut left = None;
    loop {
        let last = LAST.get();
        // SAFETY: it has not returned and was not left, so it lies on a stack of this thread.
        let Some(Handler { before, interrupted }) = (unsafe { last.as_ref() }) else { return left };
        if (lowest..=last as usize).contains(&stack) {
            return left;
        }
        lowest = *interrupted;
        left = Some(lowest);
        LAST.set(*before);
    }
}

/// Executes what may leave handlers that begin in it without a jump of this thread. It leaves no others.
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

    /// Two handlers, of which the second interrupts the first; `then` is told where the stack was outside, in
    /// the first and in the second.
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
            // SAFETY: the second has not returned.
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
