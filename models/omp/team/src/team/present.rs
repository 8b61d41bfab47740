//! What a device with memory of its own has of the host's: ranges of addresses, each with its place on the
//! device and how many constructs hold it; and pointers on the device that were made to point to what the
//! device has.
//!
//! Everything lies in the store, as any thread of the job may ask. The table is used only while the device's
//! lock is held.

use std::cell::Cell;
use std::{mem, ptr, slice};

use crate::primitives::store::Store;

/// How often something is held that only the program itself takes away.
pub const FOREVER: u64 = u64::MAX;
/// Bytes of a pointer.
const POINTER: usize = size_of::<usize>();

/// A list that lies in the store.
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
        // SAFETY: there are that many; the list does not change while it is borrowed, as that takes `&mut`.
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
        // SAFETY: there is room for one more, and `index` is not behind the end.
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
            // SAFETY: both are at least that long; the old memory came from the store, and nothing else
            // refers to it.
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

/// A range of the host's memory that the device has.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its first address on the host.
    pub begin: usize,
    /// The first behind it.
    pub end: usize,
    /// Where the device has it.
    pub device: usize,
    /// How many constructs hold it; [`FOREVER`] if the program itself said where it is.
    pub count: u64,
    /// The construct that created it.
    pub born: u64,
    /// The construct that held or gave it up last: one does so once, however often it names it.
    pub last: u64,
}

impl Entry {
    /// Where the device has an address of the host.
    #[must_use]
    pub fn translate(&self, host: usize) -> usize {
        self.device.wrapping_add(host.wrapping_sub(self.begin))
    }
}

/// A pointer on the device.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Where it lies on the device.
    pub place: usize,
    /// What it is on the host.
    pub host: usize,
    /// How many constructs made it point to what the device has.
    pub count: u64,
}

/// What is there of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// All of it, in the entry with this number.
    Whole(usize),
    /// Some of it; what there is.
    Part(Entry),
    /// Nothing.
    Nothing,
}

/// What a device has.
#[repr(C)]
#[derive(Default)]
pub struct Table {
    entries: List<Entry>,
    pins: List<Pin>,
    constructs: Cell<u64>,
}

impl Table {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.entries.length.get() == 0
    }

    /// A number for a construct.
    pub fn begin_construct(&self) -> u64 {
        self.constructs.set(self.constructs.get() + 1);
        self.constructs.get()
    }

    /// The entry with this number.
    pub fn entry(&mut self, index: usize) -> &mut Entry {
        &mut self.entries.all_mut()[index]
    }

    /// All entries, by address.
    pub fn entries(&self) -> &[Entry] {
        self.entries.all()
    }

    /// What is there of a range; of an empty one the entry that its address is in, or ends at.
    pub fn find(&self, begin: usize, bytes: usize) -> Found {
        let all = self.entries.all();
        let after = all.partition_point(|entry| entry.end <= begin);
        let end = begin.saturating_add(bytes);
        match all.get(after) {
            Some(entry) if bytes == 0 && entry.begin <= begin => Found::Whole(after),
            Some(entry) if bytes > 0 && entry.begin <= begin && end <= entry.end => Found::Whole(after),
            Some(entry) if bytes > 0 && entry.begin < end => Found::Part(*entry),
            _ if bytes == 0 && after > 0 && all[after - 1].end == begin => Found::Whole(after - 1),
            _ => Found::Nothing,
        }
    }

    /// Adds a range of which nothing is there. Its number.
    pub fn insert(&mut self, store: &Store, entry: Entry) -> usize {
        let index = self.entries.all().partition_point(|other| other.end <= entry.begin);
        self.entries.insert(store, index, entry);
        index
    }

    /// Takes a range out, and the pointers that lie in it.
    pub fn remove(&mut self, index: usize) -> Entry {
        let entry = self.entries.remove(index);
        let places = entry.device..entry.device + (entry.end - entry.begin);
        while let Some(index) = self.pins.all().iter().position(|pin| places.contains(&pin.place)) {
            self.pins.remove(index);
        }
        entry
    }

    /// The construct holds an entry, unless it does already; whether it did not.
    pub fn hold(&mut self, index: usize, construct: u64) -> bool {
        let entry = self.entry(index);
        if entry.last == construct {
            return false;
        }
        entry.last = construct;
        if entry.count != FOREVER {
            entry.count += 1;
        }
        true
    }

    /// The construct gives an entry up, unless it has already; `wholly` if no construct is to hold it any
    /// more.
    pub fn give_up(&mut self, index: usize, construct: u64, wholly: bool) {
        let entry = self.entry(index);
        if entry.count == FOREVER || (entry.last == construct && !wholly) {
            return;
        }
        entry.last = construct;
        entry.count = if wholly { 0 } else { entry.count.saturating_sub(1) };
    }

    /// The pointers that lie in a range of the device's memory.
    pub fn pins_in(&self, device: usize, bytes: usize) -> impl Iterator<Item = Pin> + '_ {
        let inside =
            move |pin: &&Pin| pin.place >= device && pin.place + POINTER <= device.saturating_add(bytes);
        self.pins.all().iter().filter(inside).copied()
    }

    /// One construct more has a pointer point to what the device has. Whether it is the first.
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

    /// One construct fewer has a pointer point there, or none any more: what it is to be again, if that was
    /// the last.
    pub fn unpin(&mut self, place: usize, wholly: bool) -> Option<usize> {
        let index = self.pins.all().iter().position(|pin| pin.place == place)?;
        let pin = &mut self.pins.all_mut()[index];
        pin.count = if wholly { 0 } else { pin.count - 1 };
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
        // SAFETY: fresh memory that stays.
        unsafe { Store::format(base, 16 << 20) }
    }

    fn entry(begin: usize, end: usize) -> Entry {
        Entry { begin, end, device: begin + 1_000_000, count: 1, born: 1, last: 1 }
    }

    #[test]
    fn what_is_empty_is_found_where_it_begins_or_ends() {
        let (store, mut table) = (store(), Table::default());
        table.insert(store, entry(100, 200));
        table.insert(store, entry(200, 300));
        assert_eq!(table.find(100, 0), Found::Whole(0));
        assert_eq!(table.find(200, 0), Found::Whole(1));
        assert_eq!(table.find(300, 0), Found::Whole(1));
        assert_eq!(table.find(301, 0), Found::Nothing);
        assert_eq!(table.find(150, 51), Found::Part(entry(100, 200)));
    }

    #[test]
    fn pointers_are_what_they_were_once_nobody_holds_them() {
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
        // The model: for each byte the range that it is part of, and for each range how many hold it.
        #[test]
        fn counts_and_overlaps_are_those_of_a_simple_model(steps in prop::collection::vec(step(), 1..120)) {
            let (store, mut table) = (store(), Table::default());
            let mut ranges: Vec<(usize, usize, u64)> = Vec::new();
            for step in steps {
                let construct = table.begin_construct();
                let (Step::Hold(begin, bytes) | Step::GiveUp(begin, bytes) | Step::Delete(begin, bytes)) = step;
                let end = begin + bytes;
                let whole = ranges.iter().position(|range| range.0 <= begin && end <= range.1);
                let part = ranges.iter().any(|range| range.0 < end && begin < range.1);
                match table.find(begin, bytes) {
                    Found::Whole(index) => {
                        let range = ranges[whole.unwrap()];
                        prop_assert_eq!((table.entry(index).begin, table.entry(index).end), (range.0, range.1));
                        prop_assert_eq!(table.entry(index).translate(begin), 1_000_000 + begin);
                    }
                    Found::Part(entry) => {
                        prop_assert!(whole.is_none() && part);
                        prop_assert!(entry.begin < end && begin < entry.end);
                    }
                    Found::Nothing => prop_assert!(!part),
                }
                let found = table.find(begin, bytes);
                match (step, found) {
                    (Step::Hold(..), Found::Nothing) => {
                        table.insert(store, Entry { born: construct, last: construct, ..entry(begin, end) });
                        ranges.push((begin, end, 1));
                    }
                    (Step::Hold(..), Found::Whole(index)) => {
                        prop_assert!(table.hold(index, construct));
                        prop_assert!(!table.hold(index, construct));
                        ranges[whole.unwrap()].2 += 1;
                    }
                    (Step::GiveUp(..) | Step::Delete(..), Found::Whole(index)) => {
                        let wholly = matches!(step, Step::Delete(..));
                        table.give_up(index, construct, wholly);
                        table.give_up(index, construct, wholly);
                        let range = &mut ranges[whole.unwrap()];
                        range.2 = if wholly { 0 } else { range.2 - 1 };
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
