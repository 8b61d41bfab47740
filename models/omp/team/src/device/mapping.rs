//! Data mapping of constructs for a device: at their start, at their end, and for constructs that only map
//! data.
//!
//! All of it is done by a thread of the device, which can access the device's memory and what all workers
//! share. Other host memory that a construct names is passed in a copy that both can access,
//! [`Item::device_view`].

use std::fmt;
use std::ptr;

use crate::primitives::store::Store;
use crate::team::present_table::{Entry, Lookup, Table};

/// Action on an item.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemAction {
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
pub const DELETE: u32 = 8;
/// The data must already be present.
pub const PRESENT: u32 = 16;
/// The data was mapped implicitly: a part that is present is sufficient.
pub const IMPLICIT: u32 = 128;
/// The device needs its own copy even of accessible memory, because a pointer in it will point to device-only
/// data.
const NEEDS_COPY: u32 = 256;
/// [`Item::device_view`] is a copy in the store that is freed with the command.
pub const STAGED: u32 = 32;
/// [`Item::result`] is a copy in the store that is freed with the command.
pub const COPIED: u32 = 64;

/// Data item of a construct.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// Address on the host.
    pub host: usize,
    /// Size in bytes, unless [`ItemAction`] gives it another meaning.
    pub bytes: usize,
    /// Address at which a thread of the device accesses the host's data: the same, or that of a copy.
    pub device_view: usize,
    /// Value of a pointer on the host.
    pub value: usize,
    /// Value passed to the region.
    pub result: usize,
    /// Action on the item.
    pub action: ItemAction,
    /// Flags such as [`TO`].
    pub flags: u32,
    /// Whether the construct holds a reference to the present entry.
    pub holds_reference: u32,
    /// Whether data was copied back.
    pub copied_back: u32,
}

impl Item {
    /// Creates an item for memory shared by all workers, or for a word that is not an address.
    #[must_use]
    pub fn new(action: ItemAction, host: usize, bytes: usize, flags: u32) -> Self {
        Self {
            host,
            bytes,
            device_view: host,
            value: 0,
            result: host,
            action,
            flags,
            holds_reference: 0,
            copied_back: 0,
        }
    }

    /// Whether the device can use the host's memory in place.
    fn is_usable_in_place(&self) -> bool {
        self.device_view == self.host && self.flags & NEEDS_COPY == 0
    }

    /// Whether it maps data that contains this address.
    fn covers(&self, address: usize) -> bool {
        self.action == ItemAction::Map && address.wrapping_sub(self.host) < self.bytes
    }
}

/// Reason why a device cannot execute a construct's mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingError {
    /// The device's memory is exhausted.
    NoMemory {
        /// Number of bytes requested.
        bytes: usize,
    },
    /// The data is only partly present.
    Part {
        /// Requested range, as start and end.
        wanted: (usize, usize),
        /// Range that is present_table, as start and end.
        there: (usize, usize),
    },
    /// The data must be present but is not.
    Absent {
        /// Start of the data on the host.
        address: usize,
    },
}

impl fmt::Display for MappingError {
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
pub struct DeviceAllocator {
    /// Allocates this number of bytes, aligned to 64; returns null if memory is exhausted.
    pub allocate: fn(usize) -> *mut u8,
    /// Frees memory.
    ///
    /// # Safety
    /// The memory must come from `allocate`.
    pub release: unsafe fn(*mut u8),
}

/// Context of a device that executes a construct's mapping.
pub struct MappingContext<'a> {
    /// Present table of the device.
    pub table: &'a mut Table,
    /// Store in which the table grows.
    pub store: &'static Store,
    /// Allocator of the device's memory.
    pub memory: DeviceAllocator,
    /// Whether it has copies of everything, even of accessible memory.
    pub copies: bool,
    /// Bytes copied to the device and back.
    pub moved: (u64, u64),
}

impl MappingContext<'_> {
    /// Maps the items at the start of a construct and sets the `result` of each, which the region receives.
    ///
    /// # Errors
    /// [`MappingError`]; previous items stay mapped.
    ///
    /// # Safety
    /// All items must describe valid memory that does not change meanwhile.
    pub unsafe fn begin(&mut self, items: &mut [Item]) -> Result<(), MappingError> {
        let construct = self.table.begin_construct();
        self.mark_needed_copies(items);
        for index in 0..items.len() {
            let item = items[index];
            // SAFETY: guaranteed by the caller.
            unsafe {
                match item.action {
                    ItemAction::Map => self.map(&mut items[index], construct)?,
                    ItemAction::Struct => {
                        let (one, members) = items[index..].split_at_mut(1);
                        let count = item.bytes.min(members.len());
                        self.map_struct(&mut one[0], &members[..count], construct)?;
                    }
                    ItemAction::Use => items[index].result = self.translate(item.host, 0),
                    ItemAction::Pointer => self.map_pointer(&mut items[index], construct)?,
                    ItemAction::Point => {
                        let target = items[index.saturating_sub(1)].result.wrapping_sub(item.bytes);
                        self.write_pointer(&item, target);
                    }
                    ItemAction::Literal | ItemAction::Find | ItemAction::Attach | ItemAction::Detach => {}
                }
            }
        }
        // A pointer to a structure precedes the structure.
        for index in 0..items.len() {
            let item = items[index];
            let same = |other: &&Item| other.action == ItemAction::Struct && other.host == item.host;
            match items.iter().find(same).map(|found| found.result) {
                Some(result) if item.action == ItemAction::Find => items[index].result = result,
                _ if item.action == ItemAction::Find => self.find(&mut items[index], construct),
                _ => {}
            }
        }
        // Targets of attached pointers may follow them.
        for item in items.iter().filter(|item| item.action == ItemAction::Attach) {
            // SAFETY: guaranteed by the caller.
            unsafe { self.attach(item) };
        }
        Ok(())
    }

    /// Marks the items that must be copied because a pointer in them will differ from the host's.
    fn mark_needed_copies(&self, items: &mut [Item]) {
        for index in 0..items.len() {
            let pointer = items[index];
            let target = pointer.value.wrapping_add(pointer.bytes);
            let moves = matches!(pointer.action, ItemAction::Attach | ItemAction::Point)
                && (self.translate(pointer.value, pointer.bytes) != pointer.value
                    || items.iter().any(|item| item.covers(target) && !item.is_usable_in_place()));
            if moves {
                items
                    .iter_mut()
                    .filter(|item| item.covers(pointer.host))
                    .for_each(|item| item.flags |= NEEDS_COPY);
            }
        }
    }

    /// Unmaps the items that [`Self::begin`] mapped and copies data back.
    ///
    /// # Safety
    /// As for [`Self::begin`].
    pub unsafe fn end(&mut self, items: &mut [Item]) {
        let construct = self.table.begin_construct();
        for item in items.iter().rev().filter(|item| item.action == ItemAction::Attach) {
            // SAFETY: guaranteed by the caller.
            unsafe { self.detach(item) };
        }
        // SAFETY: guaranteed by the caller.
        unsafe { self.release_items(items, construct, |item| item.holds_reference != 0) };
    }

    /// Unmaps the items of `target exit data`.
    ///
    /// # Safety
    /// As for [`Self::begin`].
    pub unsafe fn exit(&mut self, items: &mut [Item]) {
        let construct = self.table.begin_construct();
        for item in items.iter().filter(|item| item.action == ItemAction::Detach) {
            // SAFETY: guaranteed by the caller.
            unsafe { self.detach(item) };
        }
        // SAFETY: guaranteed by the caller.
        unsafe { self.release_items(items, construct, |item| item.action != ItemAction::Struct) };
    }

    /// Copies present data to the device or back, for `target update`.
    ///
    /// # Errors
    /// [`MappingError`], if an item is only partly present, or absent with [`PRESENT`].
    ///
    /// # Safety
    /// As for [`Self::begin`].
    pub unsafe fn update(&mut self, items: &mut [Item]) -> Result<(), MappingError> {
        for item in items.iter_mut().filter(|item| item.action == ItemAction::Map && item.bytes > 0) {
            match self.find_whole(item.host, item.bytes)? {
                // SAFETY: guaranteed by the caller.
                Some(index) => unsafe {
                    let device = self.table.entry(index).translate(item.host);
                    if item.flags & TO != 0 {
                        self.copy_to_device(device, item.device_view, item.bytes);
                    }
                    if item.flags & FROM != 0 {
                        self.copy_from_device(item, device);
                    }
                },
                None if item.flags & PRESENT != 0 => return Err(MappingError::Absent { address: item.host }),
                None => {}
            }
        }
        Ok(())
    }

    /// Returns the index of the entry that contains a range, if it is present.
    fn find_whole(&self, host: usize, bytes: usize) -> Result<Option<usize>, MappingError> {
        match self.table.find(host, bytes) {
            Lookup::Whole(index) => Ok(Some(index)),
            Lookup::Nothing => Ok(None),
            Lookup::Part(entry) => Err(MappingError::Part {
                wanted: (host, host.saturating_add(bytes)),
                there: (entry.begin, entry.end),
            }),
        }
    }

    /// Allocates device memory for a range and inserts its entry.
    fn create(&mut self, host: usize, bytes: usize, construct: u64) -> Result<usize, MappingError> {
        let device = (self.memory.allocate)(bytes);
        if device.is_null() {
            return Err(MappingError::NoMemory { bytes });
        }
        let entry = Entry {
            begin: host,
            end: host + bytes,
            device: device as usize,
            count: 1,
            created_by: construct,
            last_construct: construct,
        };
        Ok(self.table.insert(self.store, entry))
    }

    /// # Safety
    /// As for [`Self::begin`].
    unsafe fn map(&mut self, item: &mut Item, construct: u64) -> Result<(), MappingError> {
        if item.bytes == 0 {
            self.find(item, construct);
            return Ok(());
        }
        if item.flags & IMPLICIT != 0 && self.map_present_part(item, construct) {
            return Ok(());
        }
        let index = match self.find_whole(item.host, item.bytes)? {
            Some(index) => {
                item.holds_reference = u32::from(self.table.add_reference(index, construct));
                index
            }
            None if item.flags & PRESENT != 0 => return Err(MappingError::Absent { address: item.host }),
            None if !self.copies && item.is_usable_in_place() => {
                item.result = item.host;
                return Ok(());
            }
            None => {
                item.holds_reference = 1;
                self.create(item.host, item.bytes, construct)?
            }
        };
        let entry = *self.table.entry(index);
        item.result = entry.translate(item.host);
        if item.flags & TO != 0 && (entry.created_by == construct || item.flags & ALWAYS != 0) {
            // SAFETY: the caller guarantees the host's data; the device's is of the same size.
            unsafe { self.copy_to_device(item.result, item.device_view, item.bytes) };
        }
        Ok(())
    }

    /// Uses the present part of implicitly mapped data. Returns whether there is one.
    fn map_present_part(&mut self, item: &mut Item, construct: u64) -> bool {
        let Lookup::Part(part) = self.table.find(item.host, item.bytes) else { return false };
        if part.begin < item.host || part.end > item.host + item.bytes {
            return false;
        }
        let Lookup::Whole(index) = self.table.find(part.begin, part.end - part.begin) else { return false };
        item.holds_reference = u32::from(self.table.add_reference(index, construct));
        item.result = part.translate(item.host);
        // The unmapping looks up this part.
        if item.is_usable_in_place() {
            item.device_view = part.begin;
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
    ) -> Result<(), MappingError> {
        let data =
            members.iter().filter(|member| matches!(member.action, ItemAction::Map | ItemAction::Pointer));
        let extent = |member: &Item| {
            if member.action == ItemAction::Pointer { size_of::<usize>() } else { member.bytes }
        };
        let begin = data.clone().map(|member| member.host).min();
        let end = data.clone().map(|member| member.host + extent(member)).max();
        let (Some(begin), Some(end)) = (begin, end) else {
            self.find(item, construct);
            return Ok(());
        };
        let index = match self.find_whole(begin, end - begin)? {
            Some(index) => {
                item.holds_reference = u32::from(self.table.add_reference(index, construct));
                index
            }
            None if !self.copies && data.clone().all(Item::is_usable_in_place) => {
                item.result = item.host;
                return Ok(());
            }
            None => {
                item.holds_reference = 1;
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
        if let Lookup::Whole(index) = self.table.find(item.host, 0) {
            item.holds_reference = u32::from(self.table.add_reference(index, construct));
            item.result = self.table.entry(index).translate(item.host);
        }
    }

    /// Translates a pointer of the host to the device; returns it unchanged if its target is not present.
    fn translate(&self, value: usize, bias: usize) -> usize {
        match self.table.find(value.wrapping_add(bias), 0) {
            Lookup::Whole(index) if value != 0 => self.table.entries()[index].translate(value),
            _ => value,
        }
    }

    /// # Safety
    /// As for [`Self::begin`].
    unsafe fn map_pointer(&mut self, item: &mut Item, construct: u64) -> Result<(), MappingError> {
        let target = self.translate(item.value, item.bytes);
        let index = match self.find_whole(item.host, size_of::<usize>())? {
            Some(index) => {
                item.holds_reference = u32::from(self.table.add_reference(index, construct));
                index
            }
            None if !self.copies && item.is_usable_in_place() && target == item.value => {
                item.result = item.host;
                return Ok(());
            }
            None => {
                item.holds_reference = 1;
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
    fn pointer_address(&self, item: &Item) -> Option<usize> {
        match self.table.find(item.host, size_of::<usize>()) {
            Lookup::Whole(index) => Some(self.table.entries()[index].translate(item.host)),
            _ => None,
        }
    }

    /// # Safety
    /// As for [`Self::begin`].
    unsafe fn write_pointer(&mut self, item: &Item, target: usize) {
        if let Some(place) = self.pointer_address(item) {
            // SAFETY: the device has a pointer there.
            unsafe { (place as *mut usize).write_unaligned(target) };
        }
    }

    /// # Safety
    /// As for [`Self::begin`].
    unsafe fn attach(&mut self, item: &Item) {
        let target = self.translate(item.value, item.bytes);
        let Some(place) = self.pointer_address(item) else { return };
        if self.table.pin(self.store, place, item.value) {
            // SAFETY: the device has a pointer there.
            unsafe { (place as *mut usize).write_unaligned(target) };
        }
    }

    /// # Safety
    /// As for [`Self::begin`].
    unsafe fn detach(&mut self, item: &Item) {
        let Some(place) = self.pointer_address(item) else { return };
        if let Some(host) = self.table.unpin(place, item.flags & DELETE != 0) {
            // SAFETY: the device has a pointer there.
            unsafe { (place as *mut usize).write_unaligned(host) };
        }
    }

    /// Drops references, copies data back as required, and frees entries that no construct holds any more.
    ///
    /// # Safety
    /// As for [`Self::begin`].
    unsafe fn release_items(&mut self, items: &mut [Item], construct: u64, releases: impl Fn(&Item) -> bool) {
        let has_entry = |item: &Item| {
            matches!(
                item.action,
                ItemAction::Map | ItemAction::Struct | ItemAction::Find | ItemAction::Pointer
            )
        };
        let extent = |item: &Item| match item.action {
            ItemAction::Map => (item.host, item.bytes),
            ItemAction::Pointer => (item.host, size_of::<usize>()),
            // One byte of a member identifies the entry.
            ItemAction::Struct => (item.value, 1),
            _ => (item.host, 0),
        };
        let find = |table: &Table, item: &Item| {
            let (host, bytes) = extent(item);
            match table.find(host, bytes) {
                Lookup::Whole(index) => Some(index),
                _ => None,
            }
        };
        for item in items.iter().filter(|item| has_entry(item) && releases(item)) {
            if let Some(index) = find(self.table, item) {
                self.table.release_reference(index, construct, item.flags & DELETE != 0);
            }
        }
        for item in items.iter_mut().filter(|item| item.action == ItemAction::Map && item.flags & FROM != 0) {
            let Some(index) = find(self.table, item) else { continue };
            let entry = *self.table.entry(index);
            if entry.count == 0 || item.flags & ALWAYS != 0 {
                // SAFETY: the caller guarantees the host's data; the device's is of the same size.
                unsafe { self.copy_from_device(item, entry.translate(item.host)) };
            }
        }
        for item in items.iter().filter(|item| has_entry(item)) {
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
    unsafe fn copy_to_device(&mut self, device: usize, device_view: usize, bytes: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            copy_between_pins(self.table, device, bytes, |from, length| {
                ptr::copy((device_view + from) as *const u8, (device + from) as *mut u8, length);
            });
        };
        self.moved.0 += bytes as u64;
    }

    /// Copies bytes back from the device, except for attached pointers.
    ///
    /// # Safety
    /// Both ranges must be valid.
    unsafe fn copy_from_device(&mut self, item: &mut Item, device: usize) {
        let device_view = item.device_view;
        // SAFETY: guaranteed by the caller.
        unsafe {
            copy_between_pins(self.table, device, item.bytes, |from, length| {
                ptr::copy((device + from) as *const u8, (device_view + from) as *mut u8, length);
            });
        };
        item.copied_back = 1;
        self.moved.1 += item.bytes as u64;
    }
}

/// Calls `copy` with the offset and length of each piece of a device range between attached pointers.
///
/// # Safety
/// The requirements of `copy` must be met for the whole range.
unsafe fn copy_between_pins(table: &Table, device: usize, bytes: usize, copy: impl Fn(usize, usize)) {
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
