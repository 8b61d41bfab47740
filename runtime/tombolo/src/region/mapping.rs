//! Memory of regions as a program works in it.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use tombolo_base::coherence::{Caches, Flushed};
use tombolo_base::{OutOfRange, SharedMemory};
use tombolo_capability::{Backing, CapabilityFault, Extent, RegionId, Rights};
use tombolo_control::{Fault, RegionMap};
use tombolo_platform::error::Context;
use tombolo_platform::memory::{Revocable, check_sealed};
use tombolo_platform::{Errno, OsError};

use super::capability::Held;
use crate::error::Error;
use crate::reactor::Registration;
use tombolo_engine::Location;

/// How a region is mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MapOptions {
    /// Here and nowhere else, where nothing is mapped; anywhere if none. A multiple of the page size.
    pub address: Option<usize>,
    /// At a multiple of this, a power of two, as a device or huge pages may want it; 0 for any page. Not with
    /// an address.
    pub alignment_bytes: usize,
    /// All pages are there from the start, rather than when they are first used.
    pub populate: bool,
}

/// A part of a region that is mapped. Others may write to it at any time, so bytes are copied out and in;
/// what an access returned was the region's.
///
/// When the right to it is taken back, a thread of this crate replaces the pages by zeros of this program
/// alone, whatever the program is doing; from then on every access here ends in [`Error::Revoked`].
#[derive(Debug)]
pub struct Mapping {
    region: RegionId,
    extent: Extent,
    mapped: Arc<Revocable>,
    /// What bytes are read from and written to, where the memory could become shorter.
    file: Option<(File, u64)>,
    /// How its lines reach others, where the memory is not coherent.
    caches: Option<Caches>,
    held: Arc<Held>,
}

/// A part of a region as a file, for code that maps it by itself: at addresses where memory of its own was,
/// so that others reach what the program has there.
///
/// Who revokes it waits until this is dropped, and what was mapped with it by hand is to be gone before. So
/// it is for the holder of the first capability to a region, which no other domain can revoke.
#[derive(Debug)]
pub struct RegionFile {
    file: OwnedFd,
    offset_bytes: u64,
    length_bytes: u64,
    // In this order: the monitor hears by the lifeline that the memory is not in use any more.
    _lifeline: OwnedFd,
    _held: Arc<Held>,
}

impl RegionFile {
    pub(super) fn new(held: Arc<Held>, map: &RegionMap, fds: Vec<OwnedFd>) -> Result<RegionFile, Error> {
        let Ok([file, lifeline]) = <[OwnedFd; 2]>::try_from(fds) else {
            return Err(
                OsError::new("have a region as a file: its memory did not come along", Errno::BADF).into()
            );
        };
        if map.backing == Backing::Memory {
            check_sealed(&file, map.file_offset_bytes.saturating_add(map.extent.length_bytes))?;
        }
        let (offset_bytes, length_bytes) = (map.file_offset_bytes, map.extent.length_bytes);
        Ok(RegionFile { file, offset_bytes, length_bytes, _lifeline: lifeline, _held: held })
    }

    /// From where on it lies in the file, in bytes: a multiple of the page size.
    #[must_use]
    pub fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    /// How many bytes belong to it.
    #[must_use]
    pub fn length_bytes(&self) -> u64 {
        self.length_bytes
    }
}

impl AsFd for RegionFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Lets memory go when its lifeline is hung up.
struct LetGo(Weak<Revocable>);

impl Wake for LetGo {
    fn wake(self: Arc<Self>) {
        if let Some(mapped) = self.0.upgrade() {
            // If that fails the lifeline stays, and revoking finds that this program has not let go.
            let _ = mapped.let_go_if_told();
        }
    }
}

impl Mapping {
    pub(super) fn new(
        held: Arc<Held>,
        map: &RegionMap,
        fds: Vec<OwnedFd>,
        options: MapOptions,
    ) -> Result<Mapping, Error> {
        let Ok([file, lifeline]) = <[OwnedFd; 2]>::try_from(fds) else {
            return Err(OsError::new("map a region: its memory did not come along", Errno::BADF).into());
        };
        let RegionMap { region, extent, rights, file_offset_bytes, backing, caches, .. } = *map;
        let writable = rights.contains(Rights::WRITE);
        let MapOptions { address, alignment_bytes, populate } = options;
        let length_bytes = usize::try_from(extent.length_bytes)
            .map_err(|_| OsError::new("map a region that is longer than this program can", Errno::NOMEM))?;
        if backing == Backing::Memory {
            let end = file_offset_bytes.saturating_add(extent.length_bytes);
            check_sealed(&file, end)?;
        }
        let options = tombolo_platform::memory::MapOptions { writable, address, alignment_bytes, populate };
        let mapped = Revocable::map(&file, file_offset_bytes, length_bytes, options, lifeline)?;
        let mut registration = Registration::new()?;
        let waker = Waker::from(Arc::new(LetGo(Arc::downgrade(&mapped))));
        mapped.with_lifeline(|lifeline| registration.watch(lifeline, waker)).transpose()?;
        // Also what keeps only the memory keeps the right to it.
        mapped.keep(Box::new((registration, held.clone())));
        let file = (backing == Backing::File).then(|| (File::from(file), file_offset_bytes));
        Ok(Mapping { region, extent, mapped, file, caches, held })
    }

    /// The region that is mapped here.
    #[must_use]
    pub fn region(&self) -> RegionId {
        self.region
    }

    /// Which part of the region.
    #[must_use]
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Where in the region a byte lies that is mapped here at that address: what is said of it to others, in
    /// whose address spaces it is elsewhere. `None` for an address outside.
    #[must_use]
    pub fn offset_of(&self, address: *const u8) -> Option<u64> {
        let within = address.addr().checked_sub(self.as_ptr().addr())?;
        (within < self.length_bytes()).then(|| self.extent.offset_bytes + within as u64)
    }

    /// Where here that byte of the region is mapped, which others say the offset of. `None` for one outside.
    #[must_use]
    pub fn address_of(&self, offset_bytes: u64) -> Option<*mut u8> {
        let within = usize::try_from(offset_bytes.checked_sub(self.extent.offset_bytes)?).ok()?;
        (within < self.length_bytes()).then(|| self.as_ptr().wrapping_add(within))
    }

    /// How many bytes are mapped.
    #[must_use]
    pub fn length_bytes(&self) -> usize {
        self.mapped.length_bytes()
    }

    /// Whether it can be written to.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.mapped.is_writable()
    }

    /// Whether the right to it has been taken back.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.mapped.is_let_go()
    }

    /// That it has not been taken back: what was read before is the region's, what was written before has
    /// arrived.
    ///
    /// # Errors
    /// [`Error::Revoked`].
    pub fn check(&self) -> Result<(), Error> {
        if self.is_revoked() { Err(Error::Revoked { region: self.region }) } else { Ok(()) }
    }

    fn out_of_range(&self, offset_bytes: usize, length_bytes: usize) -> OutOfRange {
        OutOfRange { offset_bytes, length_bytes, available_bytes: self.length_bytes() }
    }

    /// Copies bytes out, from `offset_bytes` of what is mapped on.
    ///
    /// # Errors
    /// [`Error::Revoked`], [`Error::OutOfRange`]. What `target` holds then means nothing.
    pub fn read(&self, offset_bytes: usize, target: &mut [u8]) -> Result<(), Error> {
        match &self.file {
            None => self.mapped.read(offset_bytes, target)?,
            Some((file, start_bytes)) => {
                self.is_inside(offset_bytes, target.len())?;
                file.read_exact_at(target, start_bytes + offset_bytes as u64)
                    .context("read the file of a region (it may have become shorter)")?;
            }
        }
        self.check()
    }

    fn is_inside(&self, offset_bytes: usize, length_bytes: usize) -> Result<(), OutOfRange> {
        match offset_bytes.checked_add(length_bytes) {
            Some(end) if end <= self.length_bytes() => Ok(()),
            _ => Err(self.out_of_range(offset_bytes, length_bytes)),
        }
    }

    /// Copies bytes in, and touches no other: two may write next to each other at once.
    ///
    /// # Errors
    /// [`Error::Revoked`]: what was written reaches no other domain. [`Error::OutOfRange`].
    /// [`Error::Monitor`] where it is not mapped for writing.
    pub fn write(&self, offset_bytes: usize, source: &[u8]) -> Result<(), Error> {
        if !self.is_writable() {
            let capability = self.held.id();
            let (needed, given) = (Rights::WRITE, Rights::READ);
            return Err(
                Fault::Capability { fault: CapabilityFault::Lacks { capability, needed, given } }.into()
            );
        }
        match &self.file {
            None => self.mapped.write(offset_bytes, source)?,
            Some((file, start_bytes)) => {
                self.is_inside(offset_bytes, source.len())?;
                // Not after it was taken back: it would reach the file.
                self.check()?;
                file.write_all_at(source, start_bytes + offset_bytes as u64)
                    .context("write the file of a region")?;
            }
        }
        self.check()
    }

    /// The memory in words, of what is mapped for writing and is no file. It keeps the mapping, and the right
    /// to it. After the right has been taken back it is zeros of this program alone: [`check`](Self::check)
    /// says whether that is so.
    #[must_use]
    pub fn memory(&self) -> Option<SharedMemory> {
        if self.file.is_some() { None } else { self.mapped.memory() }
    }

    /// A byte of it, for an engine of `tombolo-copies`: what was mapped for reading alone can be copied from.
    /// Requests keep the mapping, and the right to it. `None` of a file, and where memory is not coherent.
    #[must_use]
    pub fn location(&self, offset_bytes: usize) -> Option<Location> {
        if self.file.is_some() || self.caches.is_some() {
            return None;
        }
        Some(match self.mapped.memory() {
            Some(memory) => Location::Mapped { memory, offset_bytes },
            None => Location::ReadOnly { memory: self.mapped.clone(), offset_bytes },
        })
    }

    /// This program's view of memory that is not coherent, whose loads and stores take write-backs and
    /// invalidations; `None` where the memory is coherent, and where [`memory`](Self::memory) has none. The
    /// view is made by each call, and lives as `memory` does. Who has one works in nothing else.
    ///
    /// # Errors
    /// [`Error::Monitor`] where this processor has no instructions for it.
    pub fn flushed_memory(&self) -> Result<Option<SharedMemory<Flushed>>, Error> {
        let (Some(caches), Some(memory)) = (self.caches, self.memory()) else { return Ok(None) };
        let view = caches.view(memory);
        view.map(Some).map_err(|error| Fault::Refused { why: error.to_string() }.into())
    }

    /// Where it is, for code that takes addresses. Others may write there at any time; of a file that became
    /// shorter the pages at its end are not there, and who reads them is ended by a signal. It stays mapped
    /// until this is dropped.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.mapped.address().as_ptr()
    }
}
