//! `longjmp` in an image: a jump out of a call that another node made ends the program with what happened.
//! The stack that it leads to is in use there, by a thread of another process or instruction set.

use std::ffi::c_int;

use tombolo_omp_team::device::migrate;
use tombolo_omp_team::primitives::sys;
use tombolo_omp_team::team::thread::{self, Thread, WayOut};

/// Where musl's `setjmp` keeps the stack pointer, in words: on x86-64 and on aarch64. A place that was set
/// on another node can be of the other instruction set.
const POINTERS: [usize; 2] = [6, 13];

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
    // SAFETY: what `setjmp` filled in, as the caller says; it has more words on both.
    let [x86_64, aarch64] = POINTERS.map(|at| unsafe { *place.add(at) });
    let targets = if cfg!(target_arch = "x86_64") { [x86_64, aarch64] } else { [aarch64, x86_64] };
    if thread::known().is_some_and(|me| leaves_a_visit(me, targets)) {
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

/// Whether a jump leads out of the call that this thread makes for another node, by where the stack would be:
/// read as its own instruction set keeps that, and as the other does. It does not if the first is a frame of
/// the call; nor, as far as can be told, if that is on a stack in the arena which the program made.
fn leaves_a_visit(me: &'static Thread, [own, other]: [usize; 2]) -> bool {
    let WayOut::Visit(base) = me.way_out.get() else { return false };
    let here = 0_u8;
    if (&raw const here as usize..base).contains(&own) {
        return false;
    }
    let origin = migrate::origin(me);
    let on_stack = |target: usize, thread: &Thread| {
        thread.stack.get().is_some_and(|stack| (stack.lowest..=stack.lowest + stack.bytes).contains(&target))
    };
    !me.store().holds(own)
        || [own, other].iter().any(|target| on_stack(*target, me) || on_stack(*target, origin))
}
