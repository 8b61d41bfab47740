//! Mutex locking that ignores poisoning.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even after a holder panicked.
///
/// For data that is consistent at every point where a holder can panic; the panic itself is reported
/// elsewhere.
pub fn lock_unpoisoned<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_of_lock_holder_keeps_data_accessible() {
        let mutex = Mutex::new(1);
        let holder = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            *lock_unpoisoned(&mutex) = 2;
            let _held = lock_unpoisoned(&mutex);
            panic!("with the lock held");
        }));
        assert!(holder.is_err() && mutex.is_poisoned());
        assert_eq!(*lock_unpoisoned(&mutex), 2);
    }
}
