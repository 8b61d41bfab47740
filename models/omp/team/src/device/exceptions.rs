//! C++ exceptions: those that a thread handles, or that are on their way through it, go with it to other
//! nodes, and lead out of calls there.
//!
//! An exception lies in the heap, and refers to functions and constants of the program, all of which have the
//! same addresses on all nodes. What belongs to a thread of the C library are two words only.

use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;

use crate::team::task::Function;

/// What the C++ run-time keeps of a thread (`__cxa_eh_globals` of the Itanium C++ ABI).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Those that are being handled: the last of a list.
    caught: *const c_void,
    /// How many are on their way to a handler.
    uncaught: u32,
}

/// Of a thread that has none.
pub(super) const NONE: Held = Held { caught: ptr::null(), uncaught: 0 };

/// What finds what the calling thread holds.
pub type Find = unsafe extern "C" fn() -> *mut Held;
/// What calls a function with its argument, and returns what that throws, or null.
pub type Catch = unsafe extern "C" fn(Function, *mut c_void) -> *mut c_void;

/// How a program has exceptions.
#[derive(Clone, Copy, Debug)]
pub struct Exceptions {
    /// Where what the calling thread holds is (`__cxa_get_globals`).
    pub held: Find,
    /// Calls a function with its argument. What it throws, for its caller to throw again, or null.
    pub catch: Option<Catch>,
}

static PROGRAM: OnceLock<Exceptions> = OnceLock::new();

/// Says that the program has exceptions, before any of its threads migrates.
pub fn are_in_program(exceptions: Exceptions) {
    let _ = PROGRAM.set(exceptions);
}

/// What the calling thread holds.
pub(super) fn held() -> Held {
    // SAFETY: the function has no arguments, and what it returns is the calling thread's.
    PROGRAM.get().map_or(NONE, |program| unsafe { *(program.held)() })
}

/// Has the calling thread hold this. What it held before.
pub(super) fn hold(held: Held) -> Held {
    // SAFETY: as above.
    PROGRAM.get().map_or(NONE, |program| unsafe { (program.held)().replace(held) })
}

/// Calls a function with its argument. What it throws, or null.
///
/// # Safety
/// The function may be called with the argument.
pub(super) unsafe fn call(function: Function, argument: *mut c_void) -> *mut c_void {
    // SAFETY: the caller says so.
    unsafe {
        if let Some(catch) = PROGRAM.get().and_then(|program| program.catch) {
            return catch(function, argument);
        }
        function(argument);
    }
    ptr::null_mut()
}
