//! Thread-local objects with destructors that run at the end of the thread (`thread_local` of C++).

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

use super::keys::Destructor;
use crate::primitives::store::Store;

/// Objects of a thread, the newest first. Only the thread itself uses them.
#[derive(Debug, Default)]
pub struct Objects(Cell<Option<&'static Object>>);

/// List entry of an object, in the store.
#[derive(Debug)]
struct Object {
    destroy: Destructor,
    object: *mut c_void,
    previous: Option<&'static Object>,
}

// SAFETY: it is written once and used by one thread only, which can run on several nodes in turn.
unsafe impl Sync for Object {}

impl Objects {
    /// Registers an object to be destroyed at the end of the thread, before those registered earlier.
    pub fn register(&self, store: &Store, destroy: Destructor, object: *mut c_void) {
        self.0.set(Some(store.place(Object { destroy, object, previous: self.0.get() })));
    }

    /// Destroys all objects, including those registered by destructors.
    ///
    /// # Safety
    /// The registered objects must be valid to destroy.
    pub unsafe fn destroy(&self, store: &Store) {
        while let Some(last) = self.0.get() {
            let Object { destroy, object, previous } = *last;
            self.0.set(previous);
            // SAFETY: `enter` placed it, and nothing refers to it any more; the caller vouches for the
            // object.
            unsafe {
                store.release(ptr::from_ref(last).cast_mut().cast());
                destroy(object);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::primitives::store::SPAN;
    use crate::primitives::sys;

    static ORDER: AtomicU64 = AtomicU64::new(0);

    /// Object identified by a number, with the list and the store that it is registered in.
    struct Made(u64, *const Objects, *const Store);

    /// # Safety
    /// `made` must point to a live [`Made`].
    unsafe extern "C" fn destroy(made: *mut c_void) {
        // SAFETY: the test registered it.
        let made = unsafe { &*made.cast::<Made>() };
        ORDER.store(ORDER.load(Ordering::Relaxed) * 10 + made.0, Ordering::Relaxed);
        if made.0 == 2 {
            let last = Box::into_raw(Box::new(Made(9, made.1, made.2)));
            // SAFETY: the test keeps the list and the store alive.
            unsafe { (*made.1).register(&*made.2, destroy, last.cast()) };
        }
    }

    #[test]
    fn objects_are_destroyed_in_reverse_order() {
        let size = 16 << 20;
        let memory = sys::reserve(size + SPAN).expect("address space");
        // SAFETY: the mapping is fresh and never unmapped.
        let store = unsafe { Store::format((memory as usize).next_multiple_of(SPAN) as *mut u8, size) };
        let objects = Objects::default();
        let made = [1, 2, 3].map(|number| Made(number, &raw const objects, ptr::from_ref(store)));
        for made in &made {
            objects.register(store, destroy, ptr::from_ref(made).cast_mut().cast());
        }
        // SAFETY: they have the type that the destructor expects.
        unsafe { objects.destroy(store) };
        assert_eq!(ORDER.load(Ordering::Relaxed), 3291);
        // SAFETY: as above; there are none left.
        unsafe { objects.destroy(store) };
        assert_eq!(ORDER.load(Ordering::Relaxed), 3291);
    }
}
