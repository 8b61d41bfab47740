//! Mappings of regions into the address space of a program.

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
use tombolo_platform::memory::{RevocableMapping, check_sealed};
use tombolo_platform::{Errno, OsError};

use super::capability::Held;
use crate::error::Error;
use crate::reactor::Registration;
use tombolo_engine::Location;

/// Options for mapping a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MapOptions {
    /// Address to map at, where nothing may be mapped yet; any if `None`. A multiple of the page size.
    pub address: Option<usize>,
    /// Alignment of the address, a power of two, for example for a device or huge pages; 0 for a page. Cannot
    /// be combined with an address.
    pub alignment_bytes: usize,
    /// Whether to populate all pages now, rather than at their first use.
    pub populate: bool,
}

/// Mapped part of a region. Other domains may write to it at any time, so bytes are copied in and out; a
/// successful access has accessed the region.
///
/// When the right is revoked, a thread of this crate replaces the pages by private zero pages, regardless of
/// what the program is doing. From then on, every access returns [`Error::Revoked`].
#[derive(Debug)]
pub struct Mapping {
    region: RegionId,
    extent: Extent,
    mapped: Arc<RevocableMapping>,
    /// File to read and write, for memory that could become shorter, and the offset in it.
    file: Option<(File, u64)>,
    /// Cache maintenance operations, for memory that is not coherent.
    caches: Option<Caches>,
    held: Arc<Held>,
}

/// Part of a region as a file, for code that maps it itself: for example over existing memory of the program,
/// so that other domains reach what the program stores there.
///
/// A revocation waits until this is dropped; memory mapped with it by hand must be unmapped before. So it is
/// meant for the holder of the first capability to a region, which no other domain can revoke.
#[derive(Debug)]
pub struct RegionFile {
    file: OwnedFd,
    offset_bytes: u64,
    length_bytes: u64,
    // In this order: closing the lifeline tells the monitor that the memory is no longer in use.
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

    /// Offset of the part in the file, in bytes: a multiple of the page size.
    #[must_use]
    pub fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    /// Length of the part, in bytes.
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

/// Waker that unmaps memory when its lifeline is hung up.
struct UnmapWaker(Weak<RevocableMapping>);

impl Wake for UnmapWaker {
    fn wake(self: Arc<Self>) {
        if let Some(mapped) = self.0.upgrade() {
            // If this fails, the lifeline stays open, and the revocation reports that this program still has
            // the memory.
            let _ = mapped.release_if_revoked();
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
        let mapped = RevocableMapping::map(&file, file_offset_bytes, length_bytes, options, lifeline)?;
        let mut registration = Registration::new()?;
        let waker = Waker::from(Arc::new(UnmapWaker(Arc::downgrade(&mapped))));
        mapped.with_lifeline(|lifeline| registration.watch(lifeline, waker)).transpose()?;
        // A clone that keeps only the memory also keeps the capability.
        mapped.keep(Box::new((registration, held.clone())));
        let file = (backing == Backing::File).then(|| (File::from(file), file_offset_bytes));
        Ok(Mapping { region, extent, mapped, file, caches, held })
    }

    /// Region that is mapped.
    #[must_use]
    pub fn region(&self) -> RegionId {
        self.region
    }

    /// Part of the region that is mapped.
    #[must_use]
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Converts an address in this mapping to an offset in the region, which is meaningful to other domains,
    /// where the region has other addresses. `None` for an address outside of the mapping.
    #[must_use]
    pub fn offset_of(&self, address: *const u8) -> Option<u64> {
        let within = address.addr().checked_sub(self.as_ptr().addr())?;
        (within < self.length_bytes()).then(|| self.extent.offset_bytes + within as u64)
    }

    /// Converts an offset in the region, as other domains know it, to an address in this mapping. `None` for
    /// an offset outside of the mapping.
    #[must_use]
    pub fn address_of(&self, offset_bytes: u64) -> Option<*mut u8> {
        let within = usize::try_from(offset_bytes.checked_sub(self.extent.offset_bytes)?).ok()?;
        (within < self.length_bytes()).then(|| self.as_ptr().wrapping_add(within))
    }

    /// Length of the mapping, in bytes.
    #[must_use]
    pub fn length_bytes(&self) -> usize {
        self.mapped.length_bytes()
    }

    /// Whether the mapping is writable.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.mapped.is_writable()
    }

    /// Whether the right to it was revoked.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.mapped.is_released()
    }

    /// Fails if the right was revoked. If it returns `Ok`, earlier reads returned bytes of the region, and
    /// earlier writes have reached it.
    ///
    /// # Errors
    /// [`Error::Revoked`].
    pub fn check(&self) -> Result<(), Error> {
        if self.is_revoked() { Err(Error::Revoked { region: self.region }) } else { Ok(()) }
    }

    fn out_of_range(&self, offset_bytes: usize, length_bytes: usize) -> OutOfRange {
        OutOfRange { offset_bytes, length_bytes, available_bytes: self.length_bytes() }
    }

    /// Copies bytes from `offset_bytes` within the mapping into `target`.
    ///
    /// # Errors
    /// [`Error::Revoked`], [`Error::OutOfRange`]. The contents of `target` are then undefined.
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

    /// Copies `source` to `offset_bytes` within the mapping. No other bytes are touched: two writers may
    /// write adjacent bytes concurrently.
    ///
    /// # Errors
    /// [`Error::Revoked`]: the bytes reach no other domain. [`Error::OutOfRange`]. [`Error::Monitor`] if it
    /// is not mapped for writing.
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
                // Not after a revocation: the write would still reach the file.
                self.check()?;
                file.write_all_at(source, start_bytes + offset_bytes as u64)
                    .context("write the file of a region")?;
            }
        }
        self.check()
    }

    /// Returns the memory as words, if it is mapped for writing and not a file. It keeps the mapping and the
    /// right to it. After a revocation it consists of private zeros; [`check`](Self::check) detects that.
    #[must_use]
    pub fn memory(&self) -> Option<SharedMemory> {
        if self.file.is_some() { None } else { self.mapped.memory() }
    }

    /// Location of a byte in the mapping, for an engine of `tombolo-copies`; a read-only mapping can only be
    /// copied from. Copy requests keep the mapping and the right to it. `None` for a file, and for memory
    /// that is not coherent.
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

    /// Returns this program's view of memory that is not coherent, whose loads and stores need write-backs
    /// and invalidations; `None` if the memory is coherent, or [`memory`](Self::memory) returns `None`. Each
    /// call creates a view; it keeps the mapping like `memory`. A program that uses a view must access the
    /// memory only through it.
    ///
    /// # Errors
    /// [`Error::Monitor`] if this processor lacks the instructions for it.
    pub fn flushed_memory(&self) -> Result<Option<SharedMemory<Flushed>>, Error> {
        let (Some(caches), Some(memory)) = (self.caches, self.memory()) else { return Ok(None) };
        let view = caches.view(memory);
        view.map(Some).map_err(|error| Fault::Refused { why: error.to_string() }.into())
    }

    /// Address of the mapping, for code that takes addresses. Other domains may write to it at any time. If
    /// it is a file that became shorter, accessing the missing pages at its end raises a signal. It stays
    /// mapped until this is dropped.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.mapped.address().as_ptr()
    }
}
