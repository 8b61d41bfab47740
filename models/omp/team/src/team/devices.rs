//! Nodes as devices of `target` constructs: the host ranges present on each, and the bytes copied in each
//! direction.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::present_table::{Entry, Lookup, PERMANENT, Table};
use crate::primitives::lock::Lock;
use crate::primitives::nodes::NODES_MAX;
use crate::primitives::store::Store;

/// Present table and transfer counters of a device.
#[repr(C, align(64))]
pub struct Device {
    lock: Lock,
    table: UnsafeCell<Table>,
    /// Number of entries in the table, readable without the lock.
    entries: AtomicUsize,
    bytes_to_device: AtomicU64,
    bytes_from_device: AtomicU64,
}

// SAFETY: the table is touched only while the lock is held.
unsafe impl Sync for Device {}

/// All devices, indexed by node. All-zero memory is a valid array of empty devices.
pub struct Devices([Device; NODES_MAX]);

impl Devices {
    /// Returns the device of a node.
    pub fn at(&self, node: u32) -> &Device {
        &self.0[node as usize % NODES_MAX]
    }
}

impl Device {
    /// Calls `run` on the device's table, with the lock held.
    pub(crate) fn with_table<T>(&self, run: impl FnOnce(&mut Table) -> T) -> T {
        self.lock.acquire();
        // SAFETY: the lock is held.
        let table = unsafe { &mut *self.table.get() };
        let result = run(table);
        self.entries.store(table.entries().len(), Ordering::Release);
        self.lock.release();
        result
    }

    /// Whether no host memory is present on the device.
    pub fn is_empty(&self) -> bool {
        self.entries.load(Ordering::Acquire) == 0
    }

    /// Translates a host address to the device's, if it is present there.
    pub fn translate(&self, host: usize) -> Option<usize> {
        self.with_table(|table| match table.find(host, 0) {
            Lookup::Whole(index) if host < table.entry(index).end => Some(table.entry(index).translate(host)),
            _ => None,
        })
    }

    /// Maps a host range to device memory that the program provides (`omp_target_associate_ptr`). Returns
    /// whether that succeeded: the range must be absent, or already be associated with the same memory.
    pub fn associate(&self, store: &'static Store, host: usize, bytes: usize, device: usize) -> bool {
        self.with_table(|table| match table.find(host, bytes.max(1)) {
            Lookup::Nothing if bytes > 0 => {
                let end = host.saturating_add(bytes);
                table.insert(
                    store,
                    Entry { begin: host, end, device, count: PERMANENT, created_by: 0, last_construct: 0 },
                );
                true
            }
            Lookup::Whole(index) => {
                let entry = *table.entry(index);
                entry.count == PERMANENT && entry.translate(host) == device
            }
            _ => false,
        })
    }

    /// Undoes [`associate`](Self::associate). Returns whether there was an association.
    pub fn dissociate(&self, host: usize) -> bool {
        self.with_table(|table| match table.find(host, 1) {
            Lookup::Whole(index) if table.entry(index).count == PERMANENT => {
                table.remove(index);
                true
            }
            _ => false,
        })
    }

    /// Returns the bytes copied to the device and from it.
    pub fn transferred_bytes(&self) -> (u64, u64) {
        (self.bytes_to_device.load(Ordering::Relaxed), self.bytes_from_device.load(Ordering::Relaxed))
    }

    pub(crate) fn count_transferred_bytes(&self, (to, from): (u64, u64)) {
        self.bytes_to_device.fetch_add(to, Ordering::Relaxed);
        self.bytes_from_device.fetch_add(from, Ordering::Relaxed);
    }
}
