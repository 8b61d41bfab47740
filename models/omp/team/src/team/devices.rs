//! The nodes as devices of `target` constructs: what each has of the host's memory, and how much went there
//! and back.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::present::{Entry, FOREVER, Found, Table};
use crate::primitives::lock::Lock;
use crate::primitives::nodes::NODES;
use crate::primitives::store::Store;

/// What is known of a node as a device.
#[repr(C, align(64))]
pub struct Device {
    lock: Lock,
    table: UnsafeCell<Table>,
    /// How many entries the table has, to be read without the lock.
    entries: AtomicUsize,
    moved_to: AtomicU64,
    moved_from: AtomicU64,
}

// SAFETY: the table is touched only while the lock is held.
unsafe impl Sync for Device {}

/// All devices, by node. All zero is devices that have nothing.
pub struct Devices([Device; NODES]);

impl Devices {
    /// That which a node is.
    pub fn at(&self, node: u32) -> &Device {
        &self.0[node as usize % NODES]
    }
}

impl Device {
    /// Does something with what the device has.
    pub(crate) fn with<T>(&self, run: impl FnOnce(&mut Table) -> T) -> T {
        self.lock.acquire();
        // SAFETY: the lock is held.
        let table = unsafe { &mut *self.table.get() };
        let result = run(table);
        self.entries.store(table.entries().len(), Ordering::Release);
        self.lock.release();
        result
    }

    /// Whether it has nothing of the host's.
    pub fn is_empty(&self) -> bool {
        self.entries.load(Ordering::Acquire) == 0
    }

    /// Where it has an address of the host.
    pub fn translate(&self, host: usize) -> Option<usize> {
        self.with(|table| match table.find(host, 0) {
            Found::Whole(index) if host < table.entry(index).end => Some(table.entry(index).translate(host)),
            _ => None,
        })
    }

    /// Has it use memory that the program says for a range of the host's. Whether it can: nothing of the
    /// range is there, or all of it just so.
    pub fn associate(&self, store: &'static Store, host: usize, bytes: usize, device: usize) -> bool {
        self.with(|table| match table.find(host, bytes.max(1)) {
            Found::Nothing if bytes > 0 => {
                let end = host.saturating_add(bytes);
                table.insert(store, Entry { begin: host, end, device, count: FOREVER, born: 0, last: 0 });
                true
            }
            Found::Whole(index) => {
                let entry = *table.entry(index);
                entry.count == FOREVER && entry.translate(host) == device
            }
            _ => false,
        })
    }

    /// The reverse. Whether there was something to undo.
    pub fn dissociate(&self, host: usize) -> bool {
        self.with(|table| match table.find(host, 1) {
            Found::Whole(index) if table.entry(index).count == FOREVER => {
                table.remove(index);
                true
            }
            _ => false,
        })
    }

    /// Bytes that went there, and that came back.
    pub fn moved(&self) -> (u64, u64) {
        (self.moved_to.load(Ordering::Relaxed), self.moved_from.load(Ordering::Relaxed))
    }

    pub(crate) fn count_moved(&self, (to, from): (u64, u64)) {
        self.moved_to.fetch_add(to, Ordering::Relaxed);
        self.moved_from.fetch_add(from, Ordering::Relaxed);
    }
}
