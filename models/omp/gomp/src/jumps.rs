//! `longjmp` in an image: a jump out of a call that another node made ends the program with what happened. The
//! stack that it leads to is in use there, by a thread of another process or instruction set.

use std::ffi::c_int;

use tombolo_omp_team::device::migrate;
use tombolo_omp_team::primitives::sys;
use tombolo_omp_team::team::thread::{self, Thread, WayOut};

/// Where musl's `setjmp` keeps the stack pointer, in words.
const POINTER: usize = if cfg!(target_arch = "x86_64") { 6 } else { 13 };

// SAFETY: the C library's functions of these names; the linker has named them so.
unsafe extern "C" {
    fn __real_longjmp(place: *const usize, value: c_int) -> !;
}

/// Goes back to where `setjmp` was called. The C library's `siglongjmp` calls this as well.
///
/// # Safety
/// As `longjmp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_longjmp(place: *const usize, value: c_int) -> ! {
    // SAFETY: what `setjmp` filled in, as the caller says.
    let target = unsafe { *place.add(POINTER) };
    if thread::known().is_some_and(|me| leaves_a_visit(me, target)) {
        sys::fatal(
            "longjmp: it leads out of a call that another node made; setjmp and longjmp have to be on the same node, within one call of a marked function",
        );
    }
    // SAFETY: the caller says so.
    unsafe { __real_longjmp(place, value) }
}

/// The same by its other name.
///
/// # Safety
/// As `longjmp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap__longjmp(place: *const usize, value: c_int) -> ! {
    // SAFETY: the caller says so.
    unsafe { __wrap_longjmp(place, value) }
}

/// Whether a frame with this stack pointer is above the call of another node that this thread makes, or on
/// the stack of the program's thread for which it makes that. Stacks that the program itself made are neither.
fn leaves_a_visit(me: &'static Thread, target: usize) -> bool {
    let WayOut::Visit(base) = me.way_out.get() else { return false };
    let on_stack_of = |thread: &Thread| {
        thread.stack.get().is_some_and(|stack| (stack.lowest..=stack.lowest + stack.bytes).contains(&target))
    };
    let origin = migrate::origin(me);
    on_stack_of(me) && target >= base || !std::ptr::eq(origin, me) && on_stack_of(origin)
}
