//! Bounds of a thread's stack, for recognising its overflow.

use std::ptr;

use super::sys;

/// Gap that the kernel keeps below the stack of a process's first thread: 256 pages (`stack_guard_gap`).
const STACK_GUARD_GAP: usize = 1 << 20;

/// Distance below the stack pointer that a thread may access: the red zone, and the stores of calls and
/// probes.
const ACCESSED_BELOW_POINTER: usize = 4096;

/// Divisor of the arena that limits the size of `main`'s stack.
pub const MAIN_STACK_DIVISOR: usize = 8;

/// Stack that a thread runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StackBounds {
    /// Address of its guard area.
    pub guard: usize,
    /// Lowest usable address.
    pub lowest: usize,
    /// Size in bytes, excluding room for thread-local storage.
    pub bytes: usize,
    /// Whether it is the stack of `main`.
    pub is_main: bool,
    /// Whether it is in the arena rather than allocated by the system.
    pub in_arena: bool,
}

impl StackBounds {
    /// Whether a thread with this stack pointer that accessed this address has overflowed the stack.
    ///
    /// A large frame may skip the guard: then the pointer is below the stack. For a stack in the arena that
    /// is sufficient, as what the frame overwrote there may cause a fault at any address. Otherwise the
    /// thread may also run on a stack that the program allocated, so the address must be between the pointer
    /// and the stack.
    pub fn is_overflowed(&self, pointer: usize, address: usize) -> bool {
        let in_frame =
            self.in_arena || (pointer.saturating_sub(ACCESSED_BELOW_POINTER)..self.lowest).contains(&address);
        (self.guard..self.lowest).contains(&address) || (pointer < self.lowest && in_frame)
    }

    /// Returns the stack of this process's first thread, with the size limit of stacks (`ulimit -s`); `None`
    /// if there is no limit, or on another thread.
    pub fn of_first_thread() -> Option<Self> {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the record is local.
        let known = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) } == 0;
        if !sys::is_first_thread() || !known || limit.rlim_cur == libc::RLIM_INFINITY {
            return None;
        }
        // The kernel stores the program's name last on a new stack, followed by one empty word.
        // SAFETY: the call has no pointers. The kernel provides the address of a string, or null.
        let name = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const libc::c_char;
        // SAFETY: the string is null-terminated and stays.
        let end = if name.is_null() { return None } else { unsafe { name as usize + libc::strlen(name) } };
        let top = (end + 1 + size_of::<usize>()).next_multiple_of(4096);
        Self::below_top(top, usize::try_from(limit.rlim_cur).ok()?)
    }

    /// Computes the first thread's stack from its top and its maximum size.
    fn below_top(top: usize, bytes: usize) -> Option<Self> {
        let lowest = top.checked_sub(bytes)?;
        let guard = lowest.saturating_sub(STACK_GUARD_GAP);
        Some(Self { guard, lowest, bytes, is_main: true, in_arena: false })
    }

    /// Returns the calling thread's stack, allocated by the C library; `None` if that cannot provide its
    /// bounds.
    pub fn of_thread() -> Option<Self> {
        let (mut lowest, mut bytes, mut guard) = (ptr::null_mut(), 0, 0);
        // SAFETY: the attributes are initialised by the first call, if it succeeds, and destroyed by the
        // last; everything else is written by the calls.
        unsafe {
            let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
            if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
                return None;
            }
            libc::pthread_attr_getstack(&raw const attributes, &raw mut lowest, &raw mut bytes);
            libc::pthread_attr_getguardsize(&raw const attributes, &raw mut guard);
            libc::pthread_attr_destroy(&raw mut attributes);
        }
        let lowest = lowest as usize;
        let guard = lowest.checked_sub(guard).filter(|_| bytes > 0)?;
        Some(Self { guard, lowest, bytes, is_main: false, in_arena: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guard_access_or_low_stack_pointer_is_an_overflow() {
        let stack =
            StackBounds { guard: 0x1000, lowest: 0x5000, bytes: 0x20000, is_main: true, in_arena: true };
        assert!(stack.is_overflowed(0x5000, 0x4fff) && stack.is_overflowed(0x5000, 0x1000));
        assert!(stack.is_overflowed(0x0800, 0x0800), "a frame larger than the guard");
        assert!(stack.is_overflowed(0x0800, 0x9000), "it overwrote an address");
        assert!(!stack.is_overflowed(0x5000, 0x0fff) && !stack.is_overflowed(0x5000, 0x5000));
        assert!(!stack.is_overflowed(0x6000, 0));
    }

    #[test]
    fn program_allocated_stack_is_not_an_overflow() {
        let (guard, lowest) = (0x90_0000, 0xa0_0000);
        let stack = StackBounds { guard, lowest, bytes: 0x20000, is_main: true, in_arena: false };
        assert!(stack.is_overflowed(lowest + 0x100, lowest - 1) && stack.is_overflowed(lowest, guard));
        assert!(stack.is_overflowed(0x50_0000, 0x50_0000) && stack.is_overflowed(0x50_0000, 0x70_0000));
        assert!(stack.is_overflowed(0x50_0000, 0x50_0000 - 128), "the red zone");
        assert!(!stack.is_overflowed(0x50_0000, 8), "a null pointer");
        assert!(!stack.is_overflowed(0x50_0000, lowest) && !stack.is_overflowed(lowest, guard - 1));
    }

    #[test]
    fn only_first_thread_has_a_main_stack() {
        assert_eq!(std::thread::spawn(StackBounds::of_first_thread).join().unwrap(), None);
        let stack = StackBounds::below_top(0x7fff_0000_0000, 8 << 20).unwrap();
        assert_eq!((stack.lowest, stack.bytes), (0x7ffe_ff80_0000, 8 << 20));
        assert_eq!(stack.lowest - stack.guard, 1 << 20);
        assert_eq!(StackBounds::below_top(4096, 8192), None);
    }

    #[test]
    fn thread_stack_contains_its_variables() {
        let measure = || {
            let variable = 0_u8;
            (StackBounds::of_thread().unwrap(), ptr::from_ref(&variable) as usize)
        };
        let (stack, address) =
            std::thread::Builder::new().stack_size(512 << 10).spawn(measure).unwrap().join().unwrap();
        assert!((stack.lowest..stack.lowest + stack.bytes).contains(&address), "{stack:x?}, {address:x}");
        assert!(stack.guard < stack.lowest && !stack.is_main && !stack.in_arena);
        // The C library may reuse the longer stack of an ended thread.
        assert!(stack.bytes > 500 << 10, "{stack:x?}");
        assert!(!stack.is_overflowed(address, address) && stack.is_overflowed(address, stack.guard));
    }
}
