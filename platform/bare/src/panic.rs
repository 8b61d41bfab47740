//! The panic handler.

use core::panic::PanicInfo;
use core::sync::atomic::{AtomicPtr, Ordering};

/// Function called after a panic to end the monitor or the program.
static HANDLER: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Sets the function that ends the program after a panic.
pub(crate) fn set_handler(handle_panic: fn(&PanicInfo<'_>) -> !) {
    HANDLER.store(handle_panic as *mut (), Ordering::Relaxed);
}

#[panic_handler]
fn panicked(info: &PanicInfo<'_>) -> ! {
    let handle_panic = HANDLER.load(Ordering::Relaxed);
    if !handle_panic.is_null() {
        // SAFETY: a value that is not null was stored by `set_handler` from a function of this type.
        let handle_panic: fn(&PanicInfo<'_>) -> ! = unsafe { core::mem::transmute(handle_panic) };
        handle_panic(info);
    }
    loop {
        core::hint::spin_loop();
    }
}
