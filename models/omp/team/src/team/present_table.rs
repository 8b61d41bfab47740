//! Present table of a device with memory of its own: the host ranges that are mapped, each with its address
//! on the device and its reference count; and the attached pointers, which point to mapped data.
//!
//! Everything is in the store, as any thread of the job may look it up. The table is accessed only with the
//! device's lock held.

use std::cell::Cell;
use std::{mem, ptr, slice};

use crate::primitives::store::Store;

/// Reference count of an entry that only the program itself removes.
pub const PERMANENT: u64 = u64::MAX;
/// Size of a pointer in bytes.
const POINTER: usize = size_of::<usize>();

/// Growable array in the store.
#[repr(C)]
struct List<T> {
    memory: Cell<*mut T>,
    length: Cell<usize>,
    capacity: Cell<usize>,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { memory: Cell::new(ptr::null_mut()), length: Cell::new(0), capacity: Cell::new(0) }
    }
}

impl<T: Copy> List<T> {
    fn all(&self) -> &[T] {
        if self.length.get() == 0 {
            return &[];
        }
        // SAFETY: there are `length` entries; the list cannot change while it is borrowed, as that takes
        // `&mut`.
        unsafe { slice::from_raw_parts(self.memory.get(), self.length.get()) }
    }

    fn all_mut(&mut self) -> &mut [T] {
        if self.length.get() == 0 {
            return &mut [];
        }
        // SAFETY: the list has `length` entries, and this borrow of it is exclusive.
        unsafe { slice::from_raw_parts_mut(self.memory.get(), self.length.get()) }
    }

    fn insert(&mut self, store: &Store, index: usize, value: T) {
        let length = self.length.get();
        if length == self.capacity.get() {
            self.grow(store);
        }
        // SAFETY: there is room for one more, and `index` is at most the length.
        unsafe {
            let place = self.memory.get().add(index);
            ptr::copy(place, place.add(1), length - index);
            place.write(value);
        }
        self.length.set(length + 1);
    }

    fn grow(&self, store: &Store) {
        let capacity = (self.capacity.get() * 2).max(16);
        let Some(memory) = store.allocate(capacity * size_of::<T>(), mem::align_of::<T>().max(16)) else {
            store.exhausted()
        };
        let old = self.memory.replace(memory.cast());
        self.capacity.set(capacity);
        if !old.is_null() {
            // SAFETY: both are at least that long; the old memory came from the store and has no other
            // references.
            unsafe {
                ptr::copy_nonoverlapping(old, self.memory.get(), self.length.get());
                store.release(old.cast());
            }
        }
    }

    fn remove(&mut self, index: usize) -> T {
        let length = self.length.get() - 1;
        // SAFETY: `index` is within the list.
        let value = unsafe {
            let place = self.memory.get().add(index);
            let value = place.read();
            ptr::copy(place.add(1), place, length - index);
            value
        };
        self.length.set(length);
        value
    }
}

/// Host range that is mapped on the device.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// First address on the host.
    pub begin: usize,
    /// End of the range on the host, exclusive.
    pub end: usize,
    /// Address on the device.
    pub device: usize,
    /// Reference count; [`PERMANENT`] if the program associated the memory itself.
    pub count: u64,
    /// Construct that created the entry.
    pub created_by: u64,
    /// Construct that last changed the count: each does so once, however often it names the range.
    pub last_construct: u64,
}

impl Entry {
    /// Translates a host address within the range to the device's.
    #[must_use]
    pub fn translate(&self, host: usize) -> usize {
        self.device.wrapping_add(host.wrapping_sub(self.begin))
    }
}

/// Attached pointer on the device.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Address of the pointer on the device.
    pub place: usize,
    /// Value of the pointer on the host.
    pub host: usize,
    /// Number of constructs that attached it.
    pub count: u64,
}

/// Result of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The whole range is present, in the entry with this index.
    Whole(usize),
    /// Part of the range is present, in this entry.
    Part(Entry),
    /// Nothing of the range is present.
    Nothing,
}

/// Present table of a device.
#[repr(C)]
#[derive(Default)]
pub struct Table {
    entries: List<Entry>,
    pins: List<Pin>,
    constructs: Cell<u64>,
}

impl Table {
    /// Whether the table has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.length.get() == 0
    }

    /// Allocates a number for a construct.
    pub fn begin_construct(&self) -> u64 {
        self.constructs.set(self.constructs.get() + 1);
        self.constructs.get()
    }

    /// Returns the entry at this index.
    pub fn entry(&mut self, index: usize) -> &mut Entry {
        &mut self.entries.all_mut()[index]
    }

    /// Returns all entries, sorted by address.
    pub fn entries(&self) -> &[Entry] {
        self.entries.all()
    }

    /// Looks up a range. An empty range matches the entry that its address is in or at the end of.
    pub fn find(&self, begin: usize, bytes: usize) -> Lookup {
        let all = self.entries.all();
        let after = all.partition_point(|entry| entry.end <= begin);
        let end = begin.saturating_add(bytes);
        match all.get(after) {
            Some(entry) if bytes == 0 && entry.begin <= begin => Lookup::Whole(after),
            Some(entry) if bytes > 0 && entry.begin <= begin && end <= entry.end => Lookup::Whole(after),
            Some(entry) if bytes > 0 && entry.begin < end => Lookup::Part(*entry),
            _ if bytes == 0 && after > 0 && all[after - 1].end == begin => Lookup::Whole(after - 1),
            _ => Lookup::Nothing,
        }
    }

    /// Inserts a range of which nothing is present, and returns its index.
    pub fn insert(&mut self, store: &Store, entry: Entry) -> usize {
        let index = self.entries.all().partition_point(|other| other.end <= entry.begin);
        self.entries.insert(store, index, entry);
        index
    }

    /// Removes a range and the attached pointers in it.
    pub fn remove(&mut self, index: usize) -> Entry {
        let entry = self.entries.remove(index);
        let places = entry.device..entry.device + (entry.end - entry.begin);
        while let Some(index) = self.pins.all().iter().position(|pin| places.contains(&pin.place)) {
            self.pins.remove(index);
        }
        entry
    }

    /// Takes a reference for the construct, unless it has one. Returns whether it was taken.
    pub fn add_reference(&mut self, index: usize, construct: u64) -> bool {
        let entry = self.entry(index);
        if entry.last_construct == construct {
            return false;
        }
        entry.last_construct = construct;
        if entry.count != PERMANENT {
            entry.count += 1;
        }
        true
    }

    /// Drops the construct's reference, unless it already did. With `all_references`, sets the count to zero.
    pub fn release_reference(&mut self, index: usize, construct: u64, all_references: bool) {
        let entry = self.entry(index);
        if entry.count == PERMANENT || (entry.last_construct == construct && !all_references) {
            return;
        }
        entry.last_construct = construct;
        entry.count = if all_references { 0 } else { entry.count.saturating_sub(1) };
    }

    /// Iterates over the attached pointers in a range of device memory.
    pub fn pins_in(&self, device: usize, bytes: usize) -> impl Iterator<Item = Pin> + '_ {
        let inside =
            move |pin: &&Pin| pin.place >= device && pin.place + POINTER <= device.saturating_add(bytes);
        self.pins.all().iter().filter(inside).copied()
    }

    /// Attaches a pointer for one more construct. Returns whether the device's pointer must be written.
    pub fn pin(&mut self, store: &Store, place: usize, host: usize) -> bool {
        let pins = self.pins.all_mut();
        if let Some(pin) = pins.iter_mut().find(|pin| pin.place == place) {
            pin.count += 1;
            let same = pin.host == host;
            pin.host = host;
            return !same;
        }
        let index = self.pins.length.get();
        self.pins.insert(store, index, Pin { place, host, count: 1 });
        true
    }

    /// Detaches a pointer for one construct, or for all with `all_references`. Returns the host's value to
    /// restore if that was the last.
    pub fn unpin(&mut self, place: usize, all_references: bool) -> Option<usize> {
        let index = self.pins.all().iter().position(|pin| pin.place == place)?;
        let pin = &mut self.pins.all_mut()[index];
        pin.count = if all_references { 0 } else { pin.count - 1 };
        (pin.count == 0).then(|| self.pins.remove(index).host)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::primitives::store::SPAN;
    use crate::primitives::sys;
    use proptest::prelude::*;

    fn store() -> &'static Store {
        let memory = sys::reserve((16 << 20) + SPAN).unwrap();
        let base = (memory as usize).next_multiple_of(SPAN) as *mut u8;
        // SAFETY: fresh memory that is never freed.
        unsafe { Store::format(base, 16 << 20) }
    }

    fn entry(begin: usize, end: usize) -> Entry {
        Entry { begin, end, device: begin + 1_000_000, count: 1, created_by: 1, last_construct: 1 }
    }

    #[test]
    fn empty_range_is_found_at_entry_bounds() {
        let (store, mut table) = (store(), Table::default());
        table.insert(store, entry(100, 200));
        table.insert(store, entry(200, 300));
        assert_eq!(table.find(100, 0), Lookup::Whole(0));
        assert_eq!(table.find(200, 0), Lookup::Whole(1));
        assert_eq!(table.find(300, 0), Lookup::Whole(1));
        assert_eq!(table.find(301, 0), Lookup::Nothing);
        assert_eq!(table.find(150, 51), Lookup::Part(entry(100, 200)));
    }

    #[test]
    fn detached_pointers_are_restored() {
        let (store, mut table) = (store(), Table::default());
        table.insert(store, entry(100, 200));
        assert!(table.pin(store, 1_000_108, 5));
        assert!(!table.pin(store, 1_000_108, 5));
        assert_eq!(table.unpin(1_000_108, false), None);
        assert_eq!(table.unpin(1_000_108, false), Some(5));
        assert_eq!(table.unpin(1_000_108, false), None);
        table.pin(store, 1_000_116, 6);
        table.pin(store, 1_000_116, 6);
        assert_eq!(table.unpin(1_000_116, true), Some(6));
        table.pin(store, 1_000_192, 7);
        table.remove(0);
        assert_eq!(table.pins_in(0, usize::MAX).count(), 0);
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Hold(usize, usize),
        GiveUp(usize, usize),
        Delete(usize, usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let range = || (0_usize..64, 1_usize..12);
        prop_oneof![
            3 => range().prop_map(|(begin, bytes)| Step::Hold(begin, bytes)),
            3 => range().prop_map(|(begin, bytes)| Step::GiveUp(begin, bytes)),
            1 => range().prop_map(|(begin, bytes)| Step::Delete(begin, bytes)),
        ]
    }

    proptest! {
        // The model: the ranges, each with its reference count.
        #[test]
        fn counts_and_overlaps_match_a_model(steps in prop::collection::vec(step(), 1..120)) {
            let (store, mut table) = (store(), Table::default());
            let mut ranges: Vec<(usize, usize, u64)> = Vec::new();
            for step in steps {
                let construct = table.begin_construct();
                let (Step::Hold(begin, bytes) | Step::GiveUp(begin, bytes) | Step::Delete(begin, bytes)) = step;
                let end = begin + bytes;
                let whole = ranges.iter().position(|range| range.0 <= begin && end <= range.1);
                let part = ranges.iter().any(|range| range.0 < end && begin < range.1);
                match table.find(begin, bytes) {
                    Lookup::Whole(index) => {
                        let range = ranges[whole.unwrap()];
                        prop_assert_eq!((table.entry(index).begin, table.entry(index).end), (range.0, range.1));
                        prop_assert_eq!(table.entry(index).translate(begin), 1_000_000 + begin);
                    }
                    Lookup::Part(entry) => {
                        prop_assert!(whole.is_none() && part);
                        prop_assert!(entry.begin < end && begin < entry.end);
                    }
                    Lookup::Nothing => prop_assert!(!part),
                }
                let found = table.find(begin, bytes);
                match (step, found) {
                    (Step::Hold(..), Lookup::Nothing) => {
                        table.insert(store, Entry { created_by: construct, last_construct: construct, ..entry(begin, end) });
                        ranges.push((begin, end, 1));
                    }
                    (Step::Hold(..), Lookup::Whole(index)) => {
                        prop_assert!(table.add_reference(index, construct));
                        prop_assert!(!table.add_reference(index, construct));
                        ranges[whole.unwrap()].2 += 1;
                    }
                    (Step::GiveUp(..) | Step::Delete(..), Lookup::Whole(index)) => {
                        let all_references = matches!(step, Step::Delete(..));
                        table.release_reference(index, construct, all_references);
                        table.release_reference(index, construct, all_references);
                        let range = &mut ranges[whole.unwrap()];
                        range.2 = if all_references { 0 } else { range.2 - 1 };
                        prop_assert_eq!(table.entry(index).count, range.2);
                        if table.entry(index).count == 0 {
                            table.remove(index);
                            ranges.remove(whole.unwrap());
                        }
                    }
                    _ => {}
                }
                ranges.sort_unstable();
                let all: Vec<_> = table.entries().iter().map(|entry| (entry.begin, entry.end, entry.count)).collect();
                prop_assert_eq!(&all, &ranges);
            }
        }
    }
}
