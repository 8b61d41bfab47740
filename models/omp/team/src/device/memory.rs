//! Where a device's memory comes from.

use std::ptr;
use std::sync::OnceLock;

use super::mapping::Memory;
use crate::primitives::store;
use crate::team::root::Root;

/// How this process allocates memory of its own, which is a device's.
static OWN: OnceLock<Memory> = OnceLock::new();

/// Says how this process allocates memory of its own.
pub fn set_memory(memory: Memory) {
    let _ = OWN.set(memory);
}

/// Memory of the device that the calling thread is on: of its process, where all threads of a node are in
/// one; of the arena where they are not.
pub(super) fn of(root: &Root) -> Memory {
    let own = Memory { allocate: own_allocate, release: own_release };
    let shared = Memory { allocate: shared_allocate, release: shared_release };
    if root.settings.own_memory && OWN.get().is_some() { own } else { shared }
}

fn own_allocate(bytes: usize) -> *mut u8 {
    OWN.get().map_or(ptr::null_mut(), |own| (own.allocate)(bytes))
}

/// # Safety
/// It came from [`own_allocate`].
unsafe fn own_release(memory: *mut u8) {
    if let Some(own) = OWN.get() {
        // SAFETY: the caller says so.
        unsafe { (own.release)(memory) };
    }
}

fn shared_allocate(bytes: usize) -> *mut u8 {
    if bytes > isize::MAX as usize {
        return ptr::null_mut();
    }
    store::current().and_then(|store| store.allocate(bytes.max(1), 64)).unwrap_or(ptr::null_mut())
}

/// # Safety
/// It came from [`shared_allocate`].
unsafe fn shared_release(memory: *mut u8) {
    if let Some(store) = store::current() {
        // SAFETY: the caller says so.
        unsafe { store.release(memory) };
    }
}
