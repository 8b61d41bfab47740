//! Data mapping of constructs for a device: at their start, at their end, and for constructs that only map
//! data.
//!
//! All of it is done by a thread of the device, which can access the device's memory and what all workers
//! share. Other host memory that a construct names is passed in a copy that both can access, [`Item::seen`].

use std::fmt;
use std::ptr;

use crate::primitives::store::Store;
use crate::team::present::{Entry, Found, Table};

/// Action on an item.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Pass [`Item::result`] to the region unchanged.
    Literal = 0,
    /// Map the data to the device.
    Map = 1,
    /// Map the following [`Item::bytes`] members as parts of one structure.
    Struct = 2,
    /// Look up the device address, if the data is present.
    Find = 3,
    /// Create a copy of a pointer on the device that points to the device's data; bias [`Item::bytes`].
    Pointer = 4,
    /// Set a pointer on the device to the result of the previous item, less [`Item::bytes`].
    Point = 5,
    /// Attach a pointer on the device to the device's data for the duration of the construct.
    Attach = 6,
    /// Detach an attached pointer.
    Detach = 7,
    /// Report the device address to the program, if the data is present.
    Use = 8,
}

/// Copy to the device when its memory is allocated.
pub const TO: u32 = 1;
/// Copy back when the device's memory is freed.
pub const FROM: u32 = 2;
/// Copy even if the memory is neither allocated nor freed by this construct.
pub const ALWAYS: u32 = 4;
/// Drop all references, so that no construct holds the data any more.
pub const WHOLLY: u32 = 8;
/// The data must already be present.
pub const PRESENT: u32 = 16;
/// The data was mapped implicitly: a part that is present is sufficient.
pub const IMPLICIT: u32 = 128;
/// The device needs its own copy even of accessible memory, because a pointer in it will point to device-only
/// data.
const APART: u32 = 256;
/// [`Item::seen`] is a copy in the store that is freed with the order.
pub const STAGED: u32 = 32;
/// [`Item::result`] is a copy in the store that is freed with the order.
pub const COPIED: u32 = 64;

/// Data item of a construct.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// Address on the host.
    pub host: usize,
    /// Size in bytes, unless [`What`] gives it another meaning.
    pub bytes: usize,
    /// Address at which a thread of the device accesses the host's data: the same, or that of a copy.
    pub seen: usize,
    /// Value of a pointer on the host.
    pub value: usize,
    /// Value passed to the region.
    pub result: usize,
    /// Action on the item.
    pub what: What,
    /// Flags such as [`TO`].
    pub flags: u32,
    /// Whether the construct holds a reference to the present entry.
    pub holds: u32,
    /// Whether data was copied back.
    pub came_back: u32,
}

impl Item {
    /// Creates an item for memory shared by all workers, or for a word that is not an address.
    #[must_use]
    pub fn new(what: What, host: usize, bytes: usize, flags: u32) -> Self {
        Self { host, bytes, seen: host, value: 0, result: host, what, flags, holds: 0, came_back: 0 }
    }

    /// Whether the device can use the host's memory in place.
    fn is_reached(&self) -> bool {
        self.seen == self.host && self.flags & APART == 0
    }

    /// Whether it maps data that contains this address.
    fn covers(&self, address: usize) -> bool {
        self.what == What::Map && address.wrapping_sub(self.host) < self.bytes
    }
}

/// Reason why a device cannot execute a construct's mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The device's memory is exhausted.
    NoMemory {
        /// Number of bytes requested.
        bytes: usize,
    },
    /// The data is only partly present.
    Part {
        /// Requested range, as start and end.
        wanted: (usize, usize),
        /// Range that is present, as start and end.
        there: (usize, usize),
    },
    /// The data must be present but is not.
    Absent {
        /// Start of the data on the host.
        address: usize,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMemory { bytes } => {
                write!(formatter, "out of memory: the device cannot allocate {bytes} bytes")
            }
            Self::Part { wanted: (begin, end), there: (from, to) } => write!(
                formatter,
                "{begin:#x}..{end:#x} is to be on the device, which has {from:#x}..{to:#x} of it: a part of an array can neither grow nor be mapped twice"
            ),
            Self::Absent { address } => write!(formatter, "what is at {address:#x} is not on the device"),
        }
    }
}

/// Allocator of a device's memory, called on the device.
#[derive(Clone, Copy)]
pub struct Memory {
    /// Allocates this number of bytes, aligned to 64; returns null if memory is exhausted.
    pub allocate: fn(usize) -> *mut u8,
    /// Frees memory.
    ///
    /// # Safety
    /// The memory must come from `allocate`.
    pub release: unsafe fn(*mut u8),
}

/// Context of a device that executes a construct's mapping.
pub struct Work<'a> {
    /// Present table of the device.
    pub table: &'a mut Table,
    /// Store in which the table grows.
    pub store: &'static Store,
    /// Allocator of the device's memory.
    pub memory: Memory,
    /// Whether it has copies of everything, even of accessible memory.
    pub copies: bool,
    /// Bytes copied to the device and back.
    pub moved: (u64, u64),
}

impl Work<'_> {
    /// Maps the items at the start of a construct and sets the `result` of each, which the region receives.
    ///
    /// # Errors
    /// [`Failure`]; previous items stay mapped.
    ///
    /// # Safety
    /// All items must describe valid memory that does not change meanwhile.
    pub unsafe fn begin(&mut self, items: &mut [Item]) -> Result<(), Failure> {
        let construct = self.table.begin_construct();
        self.set_apart(items);
        for index in 0..items.len() {
            let item = items[index];
            // SAFETY: guaranteed by the caller.
            unsafe {
                match item.what {
                    What::Map => self.map(&mut items[index], construct)?,
                    What::Struct => {
                        let (one, members) = items[index..].split_at_mut(1);
                        let count = item.bytes.min(members.len());
                        self.map_struct(&mut one[0], &members[..count], construct)?;
                    }
                    What::Use => items[index].result = self.translate(item.host, 0),
                    What::Pointer => self.map_pointer(&mut items[index], construct)?,
                    What::Point => {
                        let target = items[index.saturating_sub(1)].result.wrapping_sub(item.bytes);
                        self.point(&item, target);
                    }
                    What::Literal | What::Find | What::Attach | What::Detach => {}
                }
            }
        }
        // A pointer to a structure precedes the structure.
        for index in 0..items.len() {
            let item = items[index];
            let same = |other: &&Item| other.what == What::Struct && other.host == item.host;
            match items.iter().find(same).map(|found| found.result) {
                Some(result) if item.what == What::Find => items[index].result = result,
                _ if item.what == What::Find => self.find(&mut items[index], construct),
                _ => {}
            }
        }
        // Targets of attached pointers may follow them.
        for item in items.iter().filter(|item| item.what == What::Attach) {
            // SAFETY: guaranteed by the caller.
            unsafe { self.attach(item) };
        }
        Ok(())
    }

    /// Marks the items that must be copied because a pointer in them will differ from the host's.
    fn set_apart(&self, items: &mut [Item]) {
        for index in 0..items.len() {
            let pointer = items[index];
            let target = pointer.value.wrapping_add(pointer.bytes);
            let moves = matches!(pointer.what, What::Attach | What::Point)
                && (self.translate(pointer.value, pointer.bytes) != pointer.value
                    || items.iter().any(|item| item.covers(target) && !item.is_reached()));
            if moves {
                items
                    .iter_mut()
                    .filter(|item| item.covers(pointer.host))
                    .for_each(|item| item.flags |= APART);
            }
        }
    }

    /// Unmaps the items that [`Self::begin`] mapped and copies data back.
    ///
    /// # Safety
    /// As for [`Self::begin`].
    pub unsafe fn end(&mut self, items: &mut [Item]) {
        let construct = self.table.begin_construct();
        for item in items.iter().rev().filter(|item| item.what == What::Attach) {
            // SAFETY: guaranteed by the caller.
            unsafe { self.detach(item) };
        }
        // SAFETY: guaranteed by the caller.
        unsafe { self.leave(items, construct, |item| item.holds != 0) };
    }

    /// Unmaps the items of `target exit data`.
    ///
    /// # Safety
    /// As for [`Self::begin`].
    pub unsafe fn exit(&mut self, items: &mut [Item]) {
        let construct = self.table.begin_construct();
        for item in items.iter().filter(|item| item.what == What::Detach) {
            // SAFETY: guaranteed by the caller.
            unsafe { self.detach(item) };
        }
        // SAFETY: guaranteed by the caller.
        unsafe { self.leave(items, construct, |item| item.what != What::Struct) };
    }

    /// Copies present data to the device or back, for `target update`.
    ///
    /// # Errors
    /// [`Failure`], if an item is only partly present, or absent with [`PRESENT`].
    ///
    /// # Safety
    /// As for [`Self::begin`].
    pub unsafe fn update(&mut self, items: &mut [Item]) -> Result<(), Failure> {
        for item in items.iter_mut().filter(|item| item.what == What::Map && item.bytes > 0) {
            match self.whole(item.host, item.bytes)? {
                // SAFETY: guaranteed by the caller.
                Some(index) => unsafe {
                    let device = self.table.entry(index).translate(item.host);
                    if item.flags & TO != 0 {
                        self.bring(device, item.seen, item.bytes);
                    }
                    if item.flags & FROM != 0 {
                        self.fetch(item, device);
                    }
                },
                None if item.flags & PRESENT != 0 => return Err(Failure::Absent { address: item.host }),
                None => {}
            }
        }
        Ok(())
    }

    /// Returns the index of the entry that contains a range, if it is present.
    fn whole(&self, host: usize, bytes: usize) -> Result<Option<usize>, Failure> {
        match self.table.find(host, bytes) {
            Found::Whole(index) => Ok(Some(index)),
            Found::Nothing => Ok(None),
            Found::Part(entry) => Err(Failure::Part {
                wanted: (host, host.saturating_add(bytes)),
                there: (entry.begin, entry.end),
            }),
        }
    }

    /// Allocates device memory for a range and inserts its entry.
    fn create(&mut self, host: usize, bytes: usize, construct: u64) -> Result<usize, Failure> {
        let device = (self.memory.allocate)(bytes);
        if device.is_null() {
            return Err(Failure::NoMemory { bytes });
        }
        let entry = Entry {
            begin: host,
            end: host + bytes,
            device: device as usize,
            count: 1,
            born: construct,
            last: construct,
        };
        Ok(self.table.insert(self.store, entry))
    }

    /// # Safety
    /// As for [`Self::begin`].
    unsafe fn map(&mut self, item: &mut Item, construct: u64) -> Result<(), Failure> {
        if item.bytes == 0 {
            self.find(item, construct);
            return Ok(());
        }
        if item.flags & IMPLICIT != 0 && self.map_what_is_there(item, construct) {
            return Ok(());
        }
        let index = match self.whole(item.host, item.bytes)? {
            Some(index) => {
                item.holds = u32::from(self.table.hold(index, construct));
                index
            }
            None if item.flags & PRESENT != 0 => return Err(Failure::Absent { address: item.host }),
            None if !self.copies && item.is_reached() => {
                item.result = item.host;
                return Ok(());
            }
            None => {
                item.holds = 1;
                self.create(item.host, item.bytes, construct)?
            }
        };
        let entry = *self.table.entry(index);
        item.result = entry.translate(item.host);
        if item.flags & TO != 0 && (entry.born == construct || item.flags & ALWAYS != 0) {
            // SAFETY: the caller guarantees the host's data; the device's is of the same size.
            unsafe { self.bring(item.result, item.seen, item.bytes) };
        }
        Ok(())
    }

    /// Uses the present part of implicitly mapped data. Returns whether there is one.
    fn map_what_is_there(&mut self, item: &mut Item, construct: u64) -> bool {
        let Found::Part(part) = self.table.find(item.host, item.bytes) else { return false };
        if part.begin < item.host || part.end > item.host + item.bytes {
            return false;
        }
        let Found::Whole(index) = self.table.find(part.begin, part.end - part.begin) else { return false };
        item.holds = u32::from(self.table.hold(index, construct));
        item.result = part.translate(item.host);
        // The unmapping looks up this part.
        if item.is_reached() {
            item.seen = part.begin;
        } else {
            // The copy that was passed begins at another address.
            item.flags &= !(TO | FROM);
        }
        (item.host, item.bytes) = (part.begin, part.end - part.begin);
        true
    }

    /// # Safety
    /// As for [`Self::begin`].
    unsafe fn map_struct(
        &mut self,
        item: &mut Item,
        members: &[Item],
        construct: u64,
    ) -> Result<(), Failure> {
        let data = members.iter().filter(|member| matches!(member.what, What::Map | What::Pointer));
        let extent =
            |member: &Item| if member.what == What::Pointer { size_of::<usize>() } else { member.bytes };
        let begin = data.clone().map(|member| member.host).min();
        let end = data.clone().map(|member| member.host + extent(member)).max();
        let (Some(begin), Some(end)) = (begin, end) else {
            self.find(item, construct);
            return Ok(());
        };
        let index = match self.whole(begin, end - begin)? {
            Some(index) => {
                item.holds = u32::from(self.table.hold(index, construct));
                index
            }
            None if !self.copies && data.clone().all(Item::is_reached) => {
                item.result = item.host;
                return Ok(());
            }
            None => {
                item.holds = 1;
                self.create(begin, end - begin, construct)?
            }
        };
        item.result = self.table.entry(index).translate(item.host);
        // The unmapping looks up the entry by this address.
        item.value = begin;
        Ok(())
    }

    fn find(&mut self, item: &mut Item, construct: u64) {
        item.result = item.host;
        if let Found::Whole(index) = self.table.find(item.host, 0) {
            item.holds = u32::from(self.table.hold(index, construct));
            item.result = self.table.entry(index).translate(item.host);
        }
    }

    /// Translates a pointer of the host to the device; returns it unchanged if its target is not present.
    fn translate(&self, value: usize, bias: usize) -> usize {
        match self.table.find(value.wrapping_add(bias), 0) {
            Found::Whole(index) if value != 0 => self.table.entries()[index].translate(value),
            _ => value,
        }
    }

    /// # Safety
    /// As for [`Self::begin`].
    unsafe fn map_pointer(&mut self, item: &mut Item, construct: u64) -> Result<(), Failure> {
        let target = self.translate(item.value, item.bytes);
        let index = match self.whole(item.host, size_of::<usize>())? {
            Some(index) => {
                item.holds = u32::from(self.table.hold(index, construct));
                index
            }
            None if !self.copies && item.is_reached() && target == item.value => {
                item.result = item.host;
                return Ok(());
            }
            None => {
                item.holds = 1;
                self.create(item.host, size_of::<usize>(), construct)?
            }
        };
        item.result = self.table.entry(index).translate(item.host);
        // SAFETY: the device has a pointer there.
        unsafe { (item.result as *mut usize).write_unaligned(target) };
        Ok(())
    }

    /// Returns the address of a pointer on the device. A pointer without a copy is the host's and must not
    /// change.
    fn place_of(&self, item: &Item) -> Option<usize> {
        match self.table.find(item.host, size_of::<usize>()) {
            Found::Whole(index) => Some(self.table.entries()[index].translate(item.host)),
            _ => None,
        }
    }

    /// # Safety
    /// As for [`Self::begin`].
    unsafe fn point(&mut self, item: &Item, target: usize) {
        if let Some(place) = self.place_of(item) {
            // SAFETY: the device has a pointer there.
            unsafe { (place as *mut usize).write_unaligned(target) };
        }
    }

    /// # Safety
    /// As for [`Self::begin`].
    unsafe fn attach(&mut self, item: &Item) {
        let target = self.translate(item.value, item.bytes);
        let Some(place) = self.place_of(item) else { return };
        if self.table.pin(self.store, place, item.value) {
            // SAFETY: the device has a pointer there.
            unsafe { (place as *mut usize).write_unaligned(target) };
        }
    }

    /// # Safety
    /// As for [`Self::begin`].
    unsafe fn detach(&mut self, item: &Item) {
        let Some(place) = self.place_of(item) else { return };
        if let Some(host) = self.table.unpin(place, item.flags & WHOLLY != 0) {
            // SAFETY: the device has a pointer there.
            unsafe { (place as *mut usize).write_unaligned(host) };
        }
    }

    /// Drops references, copies data back as required, and frees entries that no construct holds any more.
    ///
    /// # Safety
    /// As for [`Self::begin`].
    unsafe fn leave(&mut self, items: &mut [Item], construct: u64, gives_up: impl Fn(&Item) -> bool) {
        let concerned =
            |item: &Item| matches!(item.what, What::Map | What::Struct | What::Find | What::Pointer);
        let extent = |item: &Item| match item.what {
            What::Map => (item.host, item.bytes),
            What::Pointer => (item.host, size_of::<usize>()),
            // One byte of a member identifies the entry.
            What::Struct => (item.value, 1),
            _ => (item.host, 0),
        };
        let find = |table: &Table, item: &Item| {
            let (host, bytes) = extent(item);
            match table.find(host, bytes) {
                Found::Whole(index) => Some(index),
                _ => None,
            }
        };
        for item in items.iter().filter(|item| concerned(item) && gives_up(item)) {
            if let Some(index) = find(self.table, item) {
                self.table.give_up(index, construct, item.flags & WHOLLY != 0);
            }
        }
        for item in items.iter_mut().filter(|item| item.what == What::Map && item.flags & FROM != 0) {
            let Some(index) = find(self.table, item) else { continue };
            let entry = *self.table.entry(index);
            if entry.count == 0 || item.flags & ALWAYS != 0 {
                // SAFETY: the caller guarantees the host's data; the device's is of the same size.
                unsafe { self.fetch(item, entry.translate(item.host)) };
            }
        }
        for item in items.iter().filter(|item| concerned(item)) {
            let Some(index) = find(self.table, item) else { continue };
            if self.table.entry(index).count == 0 {
                let entry = self.table.remove(index);
                // SAFETY: it came from the device's allocator, and no construct holds it any more.
                unsafe { (self.memory.release)(entry.device as *mut u8) };
            }
        }
    }

    /// Copies bytes to the device, except for attached pointers there.
    ///
    /// # Safety
    /// Both ranges must be valid.
    unsafe fn bring(&mut self, device: usize, seen: usize, bytes: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            copy_around(self.table, device, bytes, |from, length| {
                ptr::copy((seen + from) as *const u8, (device + from) as *mut u8, length);
            })
        };
        self.moved.0 += bytes as u64;
    }

    /// Copies bytes back from the device, except for attached pointers.
    ///
    /// # Safety
    /// Both ranges must be valid.
    unsafe fn fetch(&mut self, item: &mut Item, device: usize) {
        let seen = item.seen;
        // SAFETY: guaranteed by the caller.
        unsafe {
            copy_around(self.table, device, item.bytes, |from, length| {
                ptr::copy((device + from) as *const u8, (seen + from) as *mut u8, length);
            })
        };
        item.came_back = 1;
        self.moved.1 += item.bytes as u64;
    }
}

/// Calls `copy` with the offset and length of each piece of a device range between attached pointers.
///
/// # Safety
/// The requirements of `copy` must be met for the whole range.
unsafe fn copy_around(table: &Table, device: usize, bytes: usize, copy: impl Fn(usize, usize)) {
    let mut pins: Vec<usize> = table.pins_in(device, bytes).map(|pin| pin.place - device).collect();
    pins.sort_unstable();
    let mut from = 0;
    for pin in pins {
        copy(from, pin - from);
        from = pin + size_of::<usize>();
    }
    copy(from, bytes - from);
}

#[cfg(all(test, not(loom)))]
mod tests;
