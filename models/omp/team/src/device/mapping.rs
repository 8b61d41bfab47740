//! What constructs for a device do with data: at their beginning, at their end, and where they do nothing
//! else.
//!
//! All of it is done by a thread of the device, which reaches the device's memory and what all workers share.
//! What a construct names of other memory of the host is handed over in a copy that lies where both reach it,
//! [`Item::seen`].

use std::fmt;
use std::ptr;

use crate::primitives::store::Store;
use crate::team::present::{Entry, Found, Table};

/// What is to be done with an item.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Nothing: the region gets [`Item::result`] as it is.
    Literal = 0,
    /// The device is to have it.
    Map = 1,
    /// The device is to have the members that follow, as many as [`Item::bytes`] says, as parts of one thing.
    Struct = 2,
    /// Where the device has it, if it does.
    Find = 3,
    /// A pointer that the device gets a copy of, which points to what the device has; [`Item::bytes`] less.
    Pointer = 4,
    /// A pointer that the device has is to point to what the item before is; [`Item::bytes`] less.
    Point = 5,
    /// A pointer that the device has is to point to what the device has, for as long as the construct lasts.
    Attach = 6,
    /// The end of that.
    Detach = 7,
    /// The program is to know where the device has it, if it does.
    Use = 8,
}

/// Bytes go to the device as it gets the memory.
pub const TO: u32 = 1;
/// Bytes come back as it gives the memory up.
pub const FROM: u32 = 2;
/// Bytes go or come whether it gets or gives up the memory or not.
pub const ALWAYS: u32 = 4;
/// No construct is to hold it any more.
pub const WHOLLY: u32 = 8;
/// It has to be there already.
pub const PRESENT: u32 = 16;
/// It was not named: the part that the device has is enough.
pub const IMPLICIT: u32 = 128;
/// The device is to have a copy even of what it could reach: a pointer in it is to point to what only the
/// device has.
const APART: u32 = 256;
/// [`Item::seen`] is a copy in the store, which goes with the order.
pub const STAGED: u32 = 32;
/// So is [`Item::result`].
pub const COPIED: u32 = 64;

/// What a construct says of a piece of data.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// Its address on the host.
    pub host: usize,
    /// How many bytes there are, unless [`What`] says otherwise.
    pub bytes: usize,
    /// Where a thread of the device finds what the host has: at the same address, or in a copy.
    pub seen: usize,
    /// What a pointer is on the host.
    pub value: usize,
    /// What the region is given for it.
    pub result: usize,
    /// What is to be done.
    pub what: What,
    /// [`TO`] and its like.
    pub flags: u32,
    /// Whether the construct holds what the device has.
    pub holds: u32,
    /// Whether bytes came back.
    pub came_back: u32,
}

impl Item {
    /// Memory that all workers share, or a word that is not memory.
    #[must_use]
    pub fn new(what: What, host: usize, bytes: usize, flags: u32) -> Self {
        Self { host, bytes, seen: host, value: 0, result: host, what, flags, holds: 0, came_back: 0 }
    }

    /// Whether the device can use the host's own memory.
    fn is_reached(&self) -> bool {
        self.seen == self.host && self.flags & APART == 0
    }

    /// Whether it is data that an address is of.
    fn covers(&self, address: usize) -> bool {
        self.what == What::Map && address.wrapping_sub(self.host) < self.bytes
    }
}

/// Why a device cannot do what a construct says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There is no memory for it.
    NoMemory {
        /// How many bytes were wanted.
        bytes: usize,
    },
    /// Some of it is there, and some is not.
    Part {
        /// What is wanted.
        wanted: (usize, usize),
        /// What is there.
        there: (usize, usize),
    },
    /// It has to be there, and is not.
    Absent {
        /// Where it begins on the host.
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

/// Memory of a device, as its own threads have it.
#[derive(Clone, Copy)]
pub struct Memory {
    /// Allocates this number of bytes, aligned to 64; null if the device has not enough memory.
    pub allocate: fn(usize) -> *mut u8,
    /// Takes them back.
    ///
    /// # Safety
    /// They came from `allocate`.
    pub release: unsafe fn(*mut u8),
}

/// A device at work on a construct.
pub struct Work<'a> {
    /// What it has.
    pub table: &'a mut Table,
    /// Where the table grows.
    pub store: &'static Store,
    /// Its memory.
    pub memory: Memory,
    /// Whether it has a copy of everything, of what it could reach too.
    pub copies: bool,
    /// Bytes that went to the device, and that came back.
    pub moved: (u64, u64),
}

impl Work<'_> {
    /// The device gets what the construct names; what the region is given for each item is in its `result`
    /// afterwards.
    ///
    /// # Errors
    /// [`Failure`]; what was done until then is not undone.
    ///
    /// # Safety
    /// All items describe memory that is there and does not change meanwhile.
    pub unsafe fn begin(&mut self, items: &mut [Item]) -> Result<(), Failure> {
        let construct = self.table.begin_construct();
        self.set_apart(items);
        for index in 0..items.len() {
            let item = items[index];
            // SAFETY: the caller says so.
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
        // A pointer to a structure comes before the structure.
        for index in 0..items.len() {
            let item = items[index];
            let same = |other: &&Item| other.what == What::Struct && other.host == item.host;
            match items.iter().find(same).map(|found| found.result) {
                Some(result) if item.what == What::Find => items[index].result = result,
                _ if item.what == What::Find => self.find(&mut items[index], construct),
                _ => {}
            }
        }
        // What they point to may come after them.
        for item in items.iter().filter(|item| item.what == What::Attach) {
            // SAFETY: the caller says so.
            unsafe { self.attach(item) };
        }
        Ok(())
    }

    /// Finds what has to be copied because a pointer in it is to point to something else than on the host.
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

    /// The device gives up what [`Self::begin`] got, and bytes come back.
    ///
    /// # Safety
    /// As [`Self::begin`].
    pub unsafe fn end(&mut self, items: &mut [Item]) {
        let construct = self.table.begin_construct();
        for item in items.iter().rev().filter(|item| item.what == What::Attach) {
            // SAFETY: the caller says so.
            unsafe { self.detach(item) };
        }
        // SAFETY: the caller says so.
        unsafe { self.leave(items, construct, |item| item.holds != 0) };
    }

    /// `target exit data`: gives up what the construct names.
    ///
    /// # Safety
    /// As [`Self::begin`].
    pub unsafe fn exit(&mut self, items: &mut [Item]) {
        let construct = self.table.begin_construct();
        for item in items.iter().filter(|item| item.what == What::Detach) {
            // SAFETY: the caller says so.
            unsafe { self.detach(item) };
        }
        // SAFETY: the caller says so.
        unsafe { self.leave(items, construct, |item| item.what != What::Struct) };
    }

    /// `target update`: bytes go and come, of what the device has.
    ///
    /// # Errors
    /// [`Failure`].
    ///
    /// # Safety
    /// As [`Self::begin`].
    pub unsafe fn update(&mut self, items: &mut [Item]) -> Result<(), Failure> {
        for item in items.iter_mut().filter(|item| item.what == What::Map && item.bytes > 0) {
            match self.whole(item.host, item.bytes)? {
                // SAFETY: the caller says so.
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

    /// The entry that has a range.
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

    /// A new entry.
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
    /// As [`Self::begin`].
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
            // SAFETY: the caller says so; the device has as much.
            unsafe { self.bring(item.result, item.seen, item.bytes) };
        }
        Ok(())
    }

    /// Uses the part that the device has of data that was not named. Returns whether there is one.
    fn map_what_is_there(&mut self, item: &mut Item, construct: u64) -> bool {
        let Found::Part(part) = self.table.find(item.host, item.bytes) else { return false };
        if part.begin < item.host || part.end > item.host + item.bytes {
            return false;
        }
        let Found::Whole(index) = self.table.find(part.begin, part.end - part.begin) else { return false };
        item.holds = u32::from(self.table.hold(index, construct));
        item.result = part.translate(item.host);
        // Its end looks for the part.
        if item.is_reached() {
            item.seen = part.begin;
        } else {
            // The copy that was handed over begins elsewhere.
            item.flags &= !(TO | FROM);
        }
        (item.host, item.bytes) = (part.begin, part.end - part.begin);
        true
    }

    /// # Safety
    /// As [`Self::begin`].
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
        // Its end looks for what it holds by this.
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

    /// Where the device has what a pointer of the host points to; the pointer as it is if the device does not
    /// have that.
    fn translate(&self, value: usize, bias: usize) -> usize {
        match self.table.find(value.wrapping_add(bias), 0) {
            Found::Whole(index) if value != 0 => self.table.entries()[index].translate(value),
            _ => value,
        }
    }

    /// # Safety
    /// As [`Self::begin`].
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

    /// Where the device has a pointer. One that it has no copy of is the host's, and stays as it is.
    fn place_of(&self, item: &Item) -> Option<usize> {
        match self.table.find(item.host, size_of::<usize>()) {
            Found::Whole(index) => Some(self.table.entries()[index].translate(item.host)),
            _ => None,
        }
    }

    /// # Safety
    /// As [`Self::begin`].
    unsafe fn point(&mut self, item: &Item, target: usize) {
        if let Some(place) = self.place_of(item) {
            // SAFETY: the device has a pointer there.
            unsafe { (place as *mut usize).write_unaligned(target) };
        }
    }

    /// # Safety
    /// As [`Self::begin`].
    unsafe fn attach(&mut self, item: &Item) {
        let target = self.translate(item.value, item.bytes);
        let Some(place) = self.place_of(item) else { return };
        if self.table.pin(self.store, place, item.value) {
            // SAFETY: the device has a pointer there.
            unsafe { (place as *mut usize).write_unaligned(target) };
        }
    }

    /// # Safety
    /// As [`Self::begin`].
    unsafe fn detach(&mut self, item: &Item) {
        let Some(place) = self.place_of(item) else { return };
        if let Some(host) = self.table.unpin(place, item.flags & WHOLLY != 0) {
            // SAFETY: the device has a pointer there.
            unsafe { (place as *mut usize).write_unaligned(host) };
        }
    }

    /// Gives up what is held, fetches what is to come back, and releases what no construct holds any more.
    ///
    /// # Safety
    /// As [`Self::begin`].
    unsafe fn leave(&mut self, items: &mut [Item], construct: u64, gives_up: impl Fn(&Item) -> bool) {
        let concerned =
            |item: &Item| matches!(item.what, What::Map | What::Struct | What::Find | What::Pointer);
        let extent = |item: &Item| match item.what {
            What::Map => (item.host, item.bytes),
            What::Pointer => (item.host, size_of::<usize>()),
            // A member is where it begins.
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
                // SAFETY: the caller says so; the device has as much.
                unsafe { self.fetch(item, entry.translate(item.host)) };
            }
        }
        for item in items.iter().filter(|item| concerned(item)) {
            let Some(index) = find(self.table, item) else { continue };
            if self.table.entry(index).count == 0 {
                let entry = self.table.remove(index);
                // SAFETY: it came from there, and no construct holds it any more.
                unsafe { (self.memory.release)(entry.device as *mut u8) };
            }
        }
    }

    /// Brings bytes to the device, but for pointers there that were made to point to what it has.
    ///
    /// # Safety
    /// Both are there, so long.
    unsafe fn bring(&mut self, device: usize, seen: usize, bytes: usize) {
        // SAFETY: the caller says so.
        unsafe {
            copy_around(self.table, device, bytes, |from, length| {
                ptr::copy((seen + from) as *const u8, (device + from) as *mut u8, length);
            })
        };
        self.moved.0 += bytes as u64;
    }

    /// Fetches bytes from the device, but for such pointers.
    ///
    /// # Safety
    /// Both are there, so long.
    unsafe fn fetch(&mut self, item: &mut Item, device: usize) {
        let seen = item.seen;
        // SAFETY: the caller says so.
        unsafe {
            copy_around(self.table, device, item.bytes, |from, length| {
                ptr::copy((device + from) as *const u8, (seen + from) as *mut u8, length);
            })
        };
        item.came_back = 1;
        self.moved.1 += item.bytes as u64;
    }
}

/// Calls `copy` with each piece of a range of the device that has no such pointer in it: where it begins, and
/// how long it is.
///
/// # Safety
/// What `copy` needs.
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
