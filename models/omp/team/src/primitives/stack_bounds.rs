//! Where a stack in the arena is, to recognize its overflow.

/// The stack of the arena that a thread runs on.
#[derive(Clone, Copy, Debug)]
pub struct StackBounds {
    /// The address of its guard.
    pub guard: usize,
    /// The lowest address that may be used.
    pub lowest: usize,
    /// How long it is, without what the C library may need for thread-local storage.
    pub bytes: usize,
    /// Whether it is the stack of `main`.
    pub is_main: bool,
}

impl StackBounds {
    /// Whether it has been overflowed by a thread with this stack pointer that touched this address. A large
    /// frame may skip the guard, so that the address is anywhere; the pointer is below the stack then.
    pub fn is_overflowed(&self, pointer: usize, address: usize) -> bool {
        pointer < self.lowest || (self.guard..self.lowest).contains(&address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overflow_is_told_by_the_guard_or_by_a_stack_pointer_below_the_stack() {
        let stack = StackBounds { guard: 0x1000, lowest: 0x5000, bytes: 0x20000, is_main: true };
        assert!(stack.is_overflowed(0x5000, 0x4fff) && stack.is_overflowed(0x5000, 0x1000));
        assert!(stack.is_overflowed(0x0800, 0x0800), "a frame larger than the guard");
        assert!(!stack.is_overflowed(0x5000, 0x0fff) && !stack.is_overflowed(0x5000, 0x5000));
        assert!(!stack.is_overflowed(0x6000, 0));
    }
}
