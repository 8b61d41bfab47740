//! Thread-specific keys (`pthread_key_create`) and their values, which follow a thread to all nodes.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Maximum number of keys, the minimum that POSIX requires.
pub const KEYS_MAX: usize = 128;
/// Maximum number of rounds of destructors at the end of a thread, as destructors can set values again.
const DESTRUCTOR_ITERATIONS: usize = 4;

/// Destructor of a thread-specific value, called at the end of the thread.
pub type Destructor = unsafe extern "C" fn(*mut c_void);

/// All keys of the job.
pub struct Keys([Key; KEYS_MAX]);

struct Key {
    /// Odd while the key is in use. A value belongs to the key if it was set under the same number.
    sequence: AtomicU32,
    destructor: AtomicUsize,
}

impl Default for Keys {
    fn default() -> Self {
        Self([const { Key { sequence: AtomicU32::new(0), destructor: AtomicUsize::new(0) } }; KEYS_MAX])
    }
}

/// All values of a thread.
pub struct Values([Value; KEYS_MAX]);

struct Value {
    sequence: Cell<u32>,
    value: Cell<*mut c_void>,
}

impl Default for Values {
    fn default() -> Self {
        Self([const { Value { sequence: Cell::new(0), value: Cell::new(std::ptr::null_mut()) } }; KEYS_MAX])
    }
}

impl Keys {
    /// Allocates a key; `None` if all are in use.
    pub fn create(&self, destructor: Option<Destructor>) -> Option<usize> {
        for (index, key) in self.0.iter().enumerate() {
            let sequence = key.sequence.load(Ordering::Relaxed);
            let (now, order) = (sequence.wrapping_add(1), Ordering::Acquire);
            if sequence.is_multiple_of(2)
                && key.sequence.compare_exchange(sequence, now, order, Ordering::Relaxed).is_ok()
            {
                let address = destructor.map_or(0, |destructor| destructor as usize);
                key.destructor.store(address, Ordering::Release);
                return Some(index);
            }
        }
        None
    }

    /// Frees a key, which invalidates its values. Returns whether it was in use.
    pub fn delete(&self, index: usize) -> bool {
        let Some((key, sequence)) = self.live_key(index) else { return false };
        let (now, order) = (sequence.wrapping_add(1), Ordering::Release);
        key.sequence.compare_exchange(sequence, now, order, Ordering::Relaxed).is_ok()
    }

    fn live_key(&self, index: usize) -> Option<(&Key, u32)> {
        let key = self.0.get(index)?;
        let sequence = key.sequence.load(Ordering::Acquire);
        (!sequence.is_multiple_of(2)).then_some((key, sequence))
    }

    /// Returns the value of a key, or null if none was set.
    pub fn get(&self, values: &Values, index: usize) -> *mut c_void {
        match self.live_key(index) {
            Some((_, sequence)) if values.0[index].sequence.get() == sequence => values.0[index].value.get(),
            _ => std::ptr::null_mut(),
        }
    }

    /// Sets the value of a key. Returns whether the key is in use.
    pub fn set(&self, values: &Values, index: usize, value: *mut c_void) -> bool {
        let Some((_, sequence)) = self.live_key(index) else { return false };
        values.0[index].sequence.set(sequence);
        values.0[index].value.set(value);
        true
    }

    /// Calls the destructors of an ending thread's values until none are left, or for at most the number of
    /// rounds that POSIX requires.
    pub fn destroy(&self, values: &Values) {
        let mut iterations = DESTRUCTOR_ITERATIONS;
        while iterations > 0 && self.destroy_once(values) {
            iterations -= 1;
        }
        values.0.iter().for_each(|value| value.value.set(std::ptr::null_mut()));
    }

    /// Runs one round of destructors. Returns whether any was called.
    fn destroy_once(&self, values: &Values) -> bool {
        let mut any = false;
        for index in 0..KEYS_MAX {
            let value = self.get(values, index);
            values.0[index].value.set(std::ptr::null_mut());
            let address = self.0[index].destructor.load(Ordering::Acquire);
            if !value.is_null() && address != 0 {
                any = true;
                // SAFETY: the address is that of the destructor that the program gave for the key of this
                // value.
                unsafe { std::mem::transmute::<usize, Destructor>(address)(value) };
            }
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    #[test]
    fn deleted_key_has_no_values() {
        let (keys, one, other) = (Keys::default(), Values::default(), Values::default());
        let key = keys.create(None).unwrap();
        let value = ptr::without_provenance_mut(7);
        assert!(keys.set(&one, key, value));
        assert_eq!((keys.get(&one, key), keys.get(&other, key)), (value, ptr::null_mut()));
        assert!(keys.delete(key) && !keys.delete(key) && !keys.set(&one, key, value));
        assert_eq!(keys.create(None), Some(key));
        assert!(keys.get(&one, key).is_null());
        let all = (1..KEYS_MAX).map(|_| keys.create(None)).collect::<Option<Vec<_>>>();
        assert!(all.is_some() && keys.create(None).is_none());
        assert!(!keys.set(&one, KEYS_MAX, value) && keys.get(&one, KEYS_MAX).is_null());
    }

    #[test]
    fn destructor_iterations_are_limited() {
        static CALLS: AtomicU32 = AtomicU32::new(0);
        static KEPT: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
        /// # Safety
        /// `KEPT` must point to live keys and values.
        unsafe extern "C" fn again(value: *mut c_void) {
            CALLS.fetch_add(1, Ordering::Relaxed);
            let [keys, values] = [&KEPT[0], &KEPT[1]].map(|kept| kept.load(Ordering::Relaxed));
            // SAFETY: the test keeps both alive while this is called.
            unsafe { (*(keys as *const Keys)).set(&*(values as *const Values), 0, value) };
        }
        let (keys, values) = (Keys::default(), Values::default());
        KEPT[0].store((&raw const keys) as usize, Ordering::Relaxed);
        KEPT[1].store((&raw const values) as usize, Ordering::Relaxed);
        let key = keys.create(Some(again)).unwrap();
        keys.set(&values, key, ptr::without_provenance_mut(7));
        keys.destroy(&values);
        assert_eq!(CALLS.load(Ordering::Relaxed), 4);
        assert!(keys.get(&values, key).is_null());
    }
}
