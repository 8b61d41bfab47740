//! C++ exceptions of threads that migrate: those being handled or propagated follow the thread to other
//! nodes, and leave calls made there.
//!
//! An exception object is in the heap and refers to functions and constants of the program, which have the
//! same addresses on all nodes. Only two words are per-thread state of the C++ run-time.

use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;

use crate::team::task::Function;

/// Per-thread exception state of the C++ run-time (`__cxa_eh_globals` of the Itanium C++ ABI).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EhGlobals {
    /// Most recent of the list of exceptions being handled.
    caught: *const c_void,
    /// Number of exceptions not yet caught.
    uncaught: u32,
}

/// State of a thread without exceptions.
pub(super) const NONE: EhGlobals = EhGlobals { caught: ptr::null(), uncaught: 0 };

/// Returns the address of the calling thread's exception state.
pub type GetGlobals = unsafe extern "C" fn() -> *mut EhGlobals;
/// Calls a function with its argument. Returns the exception that it throws, or null.
pub type CatchCall = unsafe extern "C" fn(Function, *mut c_void) -> *mut c_void;

/// Exception support of the program.
#[derive(Clone, Copy, Debug)]
pub struct Exceptions {
    /// Locates the calling thread's exception state (`__cxa_get_globals`).
    pub globals: GetGlobals,
    /// Calls a function with its argument and returns the exception that it throws, for the caller to
    /// rethrow, or null.
    pub catch: Option<CatchCall>,
}

static PROGRAM: OnceLock<Exceptions> = OnceLock::new();

/// Registers the program's exception support, before any of its threads migrates.
pub fn register(exceptions: Exceptions) {
    let _ = PROGRAM.set(exceptions);
}

/// Returns the calling thread's exception state.
pub(super) fn globals() -> EhGlobals {
    // SAFETY: the function has no arguments and returns the address of the calling thread's state.
    PROGRAM.get().map_or(NONE, |program| unsafe { *(program.globals)() })
}

/// Replaces the calling thread's exception state. Returns the previous one.
pub(super) fn replace_globals(globals: EhGlobals) -> EhGlobals {
    // SAFETY: as above.
    PROGRAM.get().map_or(NONE, |program| unsafe { (program.globals)().replace(globals) })
}

/// Calls a function with its argument. Returns the exception that it throws, or null.
///
/// # Safety
/// The function must be callable with the argument.
pub(super) unsafe fn call(function: Function, argument: *mut c_void) -> *mut c_void {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if let Some(catch) = PROGRAM.get().and_then(|program| program.catch) {
            return catch(function, argument);
        }
        function(argument);
    }
    ptr::null_mut()
}
