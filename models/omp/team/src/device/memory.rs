//! Allocators for device memory.

use std::ptr;
use std::sync::OnceLock;

use super::mapping::DeviceAllocator;
use crate::primitives::store;
use crate::team::root::Root;

/// Allocator of this process's own memory, which is that of its device.
static PRIVATE_ALLOCATOR: OnceLock<DeviceAllocator> = OnceLock::new();

/// Sets the allocator of this process's own memory.
pub fn set_allocator(allocator: DeviceAllocator) {
    let _ = PRIVATE_ALLOCATOR.set(allocator);
}

/// Returns the allocator of the calling thread's device: that of its process if all threads of a node are in
/// one process, otherwise that of the arena.
pub(super) fn allocator_of(root: &Root) -> DeviceAllocator {
    let own = DeviceAllocator { allocate: private_allocate, release: private_release };
    let shared = DeviceAllocator { allocate: shared_allocate, release: shared_release };
    if root.settings.own_memory && PRIVATE_ALLOCATOR.get().is_some() { own } else { shared }
}

fn private_allocate(bytes: usize) -> *mut u8 {
    PRIVATE_ALLOCATOR.get().map_or(ptr::null_mut(), |own| (own.allocate)(bytes))
}

/// # Safety
/// The memory must come from [`private_allocate`].
unsafe fn private_release(memory: *mut u8) {
    if let Some(own) = PRIVATE_ALLOCATOR.get() {
        // SAFETY: guaranteed by the caller.
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
/// The memory must come from [`shared_allocate`].
unsafe fn shared_release(memory: *mut u8) {
    if let Some(store) = store::current() {
        // SAFETY: guaranteed by the caller.
        unsafe { store.release(memory) };
    }
}
