//! The panic handler.

use core::panic::PanicInfo;
use core::sync::atomic::{AtomicPtr, Ordering};

/// Function called after a panic to end the monitor or the program.
static LAST_WORDS: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Sets the function that ends the program after a panic.
pub(crate) fn set(last_words: fn(&PanicInfo<'_>) -> !) {
    LAST_WORDS.store(last_words as *mut (), Ordering::Relaxed);
}

#[panic_handler]
fn panicked(info: &PanicInfo<'_>) -> ! {
    let last_words = LAST_WORDS.load(Ordering::Relaxed);
    if !last_words.is_null() {
        // SAFETY: a value that is not null was stored by `set` from a function of this type.
        let last_words: fn(&PanicInfo<'_>) -> ! = unsafe { core::mem::transmute(last_words) };
        last_words(info);
    }
    loop {
        core::hint::spin_loop();
    }
}
