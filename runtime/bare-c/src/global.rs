//! Variables of the whole program.

use core::cell::{RefCell, RefMut};

/// A variable of the whole program, which has one thread.
#[derive(Debug)]
pub struct Global<T>(RefCell<T>);

// SAFETY: a program on a board has one thread, and no code of it runs in an interrupt.
unsafe impl<T> Sync for Global<T> {}

impl<T> Global<T> {
    /// One with this value.
    pub const fn new(value: T) -> Self {
        Global(RefCell::new(value))
    }

    /// The variable, for one user at a time.
    pub fn lock(&self) -> RefMut<'_, T> {
        self.0.borrow_mut()
    }
}
