//! Global variables of a single-threaded program.

use core::cell::{RefCell, RefMut};

/// Global variable of a program, which has one thread on a board.
#[derive(Debug)]
pub struct Global<T>(RefCell<T>);

// SAFETY: a program on a board has one thread, and no code of it runs in an interrupt.
unsafe impl<T> Sync for Global<T> {}

impl<T> Global<T> {
    /// Creates the variable with an initial value.
    pub const fn new(value: T) -> Self {
        Global(RefCell::new(value))
    }

    /// Borrows the variable exclusively.
    ///
    /// # Panics
    /// If it is already borrowed.
    pub fn lock(&self) -> RefMut<'_, T> {
        self.0.borrow_mut()
    }
}
