//! Memory of a team: one region that all workers share, or pages that are sent between nodes without common
//! memory.

use std::os::fd::{AsFd, AsRawFd};

use tombolo::region::{Capability, RegionFile, RegionOptions, Rights};
use tombolo::{Domain, Error};
use tombolo_omp_team::primitives::separate_processes;
use tombolo_omp_team::primitives::store::{SPAN, Store};
use tombolo_pages::Unavailable;

use crate::message::Layout;
use crate::node_selection::MemoryKind;
use crate::paged_memory::{self, PagedRanges};

/// Address of the arena in every worker: far from where programs, heaps and the system's own mappings lie on
/// either processor, and within the 39 bits of the smallest address spaces.
const ARENA_ADDRESS: u64 = 0x20_0000_0000;
/// Default size limit of an arena, in bytes.
const ARENA_BYTES_MAX: u64 = 64 << 30;
/// Default size limit where a worker is emulated: qemu-user keeps 24 bytes for each mapped page, so that 64
/// GiB cost each worker 384 MiB and half a second at its start.
const ARENA_BYTES_MAX_EMULATED: u64 = 4 << 30;
/// Minimum size of an arena, in bytes.
const ARENA_BYTES_MIN: u64 = 16 << 20;
/// Default size of an arena that is sent in pages: each process keeps some 130 bytes for each page.
const ARENA_BYTES_PAGED: u64 = 256 << 20;
/// Largest page size that a node may have.
const PAGE_BYTES_MAX: u64 = 64 << 10;

/// Address range of an image's variables.
#[derive(Clone, Copy, Debug)]
pub struct Variables {
    /// Address of the first byte.
    pub start: usize,
    /// Address behind the last byte.
    pub end: usize,
}

impl Variables {
    /// Size of the variables in the shared memory, rounded up to whole pages.
    fn length_bytes(self) -> u64 {
        ((self.end - self.start) as u64).next_multiple_of(PAGE_BYTES_MAX)
    }
}

/// Error of setting up the memory that workers share.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The machine cannot provide that much memory.
    #[error(
        "the arena cannot be had, {bytes} bytes of memory that all workers reach: {source}; OMP_TOMBOLO_ARENA={smaller_mib}M makes it smaller"
    )]
    NoRoom {
        /// Size that was requested.
        bytes: u64,
        /// Smaller size to suggest.
        smaller_mib: u64,
        /// Cause reported by the machine.
        source: Error,
    },
    /// The window is too small.
    #[error(
        "the window to {node} has {left_bytes} bytes left, and an arena takes {least_bytes} at least; `window_mib` in the machine file makes it larger, and OMP_TOMBOLO_MEMORY=pages needs none"
    )]
    SmallWindow {
        /// Node that the window leads to.
        node: String,
        /// Free bytes in the window.
        left_bytes: u64,
        /// Fewest bytes needed.
        least_bytes: u64,
    },
    /// The arena's address range is already occupied.
    #[error("the arena cannot lie at {address:#x}, as something else does")]
    Taken {
        /// Address of the arena.
        address: u64,
    },
    /// A node does not support pages that are sent.
    #[error("memory cannot be sent in pages here: {0}")]
    Paged(#[from] tombolo_pages::Error),
    /// A system call that finds a page absent would fail.
    #[error("memory cannot be sent in pages here: {}", Unavailable::Forbidden)]
    UserModeOnly,
    /// The system cannot map the memory.
    #[error("what is shared cannot be mapped: {0}")]
    Map(#[from] std::io::Error),
    /// The machine denied the request.
    #[error(transparent)]
    Machine(#[from] Error),
}

/// How a process accesses the memory of its job.
pub enum Access {
    /// Region that all processes share.
    Region(Capability),
    /// Pages, in the process that begins the job and serves them to the others.
    HomePages,
    /// Pages, in any other process of the job.
    RemotePages(paged_memory::PagesHome),
}

/// Creates the region of a new job, unless its memory is sent in pages. `requested` is the arena's size in
/// bytes, 0 for the default.
///
/// # Errors
/// [`MemoryError`].
pub fn create(
    domain: &Domain,
    memory_kind: &MemoryKind,
    variables: Variables,
    requested: usize,
) -> Result<(Access, Layout), MemoryError> {
    let variables_bytes = variables.length_bytes();
    let layout = |arena_bytes| Layout {
        variables: variables.start as u64,
        variables_bytes,
        arena: ARENA_ADDRESS,
        arena_bytes,
    };
    let make = |arena_bytes: u64| {
        let options = RegionOptions::new(variables_bytes + arena_bytes);
        domain.create_region(&match memory_kind {
            MemoryKind::Memory { .. } | MemoryKind::Pages => options,
            MemoryKind::Window { node, .. } => options.in_window_of(node),
        })
    };
    let mut bytes = arena_size(memory_kind, variables_bytes, requested as u64)?;
    if *memory_kind == MemoryKind::Pages {
        return Ok((Access::HomePages, layout(bytes)));
    }
    loop {
        match make(bytes) {
            Ok(region) => return Ok((Access::Region(region.into_capability()), layout(bytes))),
            Err(_) if requested == 0 && bytes / 2 >= ARENA_BYTES_MIN => {
                bytes = (bytes / 2).next_multiple_of(SPAN as u64);
            }
            Err(source) => {
                let smaller = match memory_kind {
                    MemoryKind::Memory { .. } | MemoryKind::Pages => bytes / 2,
                    MemoryKind::Window { left_bytes, .. } => {
                        arena_bytes_that_fit(*left_bytes, variables_bytes).min(bytes / 2)
                    }
                };
                return Err(MemoryError::NoRoom {
                    bytes,
                    smaller_mib: smaller.max(ARENA_BYTES_MIN) >> 20,
                    source,
                });
            }
        }
    }
}

/// Returns the largest arena that fits into the free bytes of a window; channels need an eighth of it.
fn arena_bytes_that_fit(left_bytes: u64, variables_bytes: u64) -> u64 {
    (left_bytes / 8 * 7).saturating_sub(variables_bytes)
}

/// Chooses the size of the arena, in bytes.
fn arena_size(memory_kind: &MemoryKind, variables_bytes: u64, requested: u64) -> Result<u64, MemoryError> {
    let span = SPAN as u64;
    if requested > 0 {
        return Ok(requested.next_multiple_of(span).max(ARENA_BYTES_MIN));
    }
    let (node, left_bytes) = match memory_kind {
        MemoryKind::Memory { emulated: false } => return Ok(ARENA_BYTES_MAX),
        MemoryKind::Memory { emulated: true } => return Ok(ARENA_BYTES_MAX_EMULATED),
        MemoryKind::Pages => return Ok(ARENA_BYTES_PAGED),
        MemoryKind::Window { node, left_bytes } => (node, *left_bytes),
    };
    // Leave room for channels and for other jobs. An earlier job may have left less than half.
    let room = (left_bytes / 2).saturating_sub(variables_bytes) / span * span;
    if arena_bytes_that_fit(left_bytes, variables_bytes) >= ARENA_BYTES_MIN {
        return Ok(room.max(ARENA_BYTES_MIN));
    }
    let (node, least_bytes) = (node.clone(), (ARENA_BYTES_MIN + variables_bytes).div_ceil(7) * 8);
    Err(MemoryError::SmallWindow { node, left_bytes, least_bytes })
}

/// Mapped memory of a job. It stays mapped until the process ends.
#[derive(Debug)]
pub struct Mapped {
    memory: Memory,
    layout: Layout,
}

#[derive(Debug)]
enum Memory {
    Region(RegionFile),
    Paged(PagedRanges),
}

impl Mapped {
    /// Addresses and sizes of the parts of the job's memory.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Page ranges, if the memory is sent in pages.
    #[must_use]
    pub fn paged_ranges(&self) -> Option<&PagedRanges> {
        match &self.memory {
            Memory::Region(_) => None,
            Memory::Paged(ranges) => Some(ranges),
        }
    }

    /// Maps the shared memory at a range again, replacing the current mapping.
    ///
    /// # Errors
    /// The system's error, or `InvalidInput` for memory that is sent in pages and for a range outside the
    /// job's memory.
    ///
    /// # Safety
    /// The range consists of whole pages of the job, and the current mapping has the same contents.
    pub unsafe fn restore_mapping(&self, begin: usize, length: usize) -> std::io::Result<()> {
        let (Some(offset), Memory::Region(file)) = (self.layout.offset_of(begin as u64), &self.memory) else {
            return Err(std::io::ErrorKind::InvalidInput.into());
        };
        // SAFETY: guaranteed by the caller.
        unsafe {
            separate_processes::map_over(
                file.as_fd().as_raw_fd(),
                file.offset_bytes() + offset,
                begin,
                length,
            )
        }
    }
}

/// Maps the arena, and the program's variables in place of the process's own. `copy_in` is set in the first
/// process, whose values of the variables become the shared ones.
///
/// # Errors
/// [`MemoryError`].
///
/// # Safety
/// The program's variables are not used meanwhile, and the layout is that of the program.
pub unsafe fn map(
    domain: &Domain,
    access: &Access,
    layout: Layout,
    copy_in: bool,
) -> Result<Mapped, MemoryError> {
    let memory = match access {
        // SAFETY: guaranteed by the caller.
        Access::Region(capability) => Memory::Region(unsafe { map_region(capability, layout, copy_in)? }),
        // SAFETY: guaranteed by the caller.
        Access::HomePages => Memory::Paged(unsafe { PagedRanges::begin(domain, layout)? }),
        // SAFETY: guaranteed by the caller.
        Access::RemotePages(home) => Memory::Paged(unsafe { PagedRanges::join(domain, home, layout)? }),
    };
    Ok(Mapped { memory, layout })
}

/// # Safety
/// As [`map`].
unsafe fn map_region(
    capability: &Capability,
    layout: Layout,
    copy_in: bool,
) -> Result<RegionFile, MemoryError> {
    let file = capability.file(Rights::READ_WRITE)?;
    let Layout { variables, variables_bytes, arena, arena_bytes } = layout;
    let needed = variables_bytes.checked_add(arena_bytes);
    if needed.is_none_or(|needed| needed > file.length_bytes()) {
        return Err(MemoryError::Map(std::io::Error::other(
            "the region is shorter than what it has to hold",
        )));
    }
    let (arena_length, variables_length) = (to_usize(arena_bytes)?, to_usize(variables_bytes)?);
    let (arena_address, variables_address) = (to_usize(arena)?, to_usize(variables)?);
    if !separate_processes::reserve_at(arena_address, arena_length) {
        return Err(MemoryError::Taken { address: arena });
    }
    let descriptor = file.as_fd().as_raw_fd();
    let offset = file.offset_bytes();
    // SAFETY: the addresses were just reserved.
    unsafe {
        separate_processes::map_over(descriptor, offset + variables_bytes, arena_address, arena_length)?
    };
    if variables_length > 0 {
        if copy_in {
            // SAFETY: the variables are mapped and not in use.
            unsafe { separate_processes::copy_to(descriptor, offset, variables_address, variables_length)? };
        }
        // SAFETY: the caller guarantees that they are not in use, and the file has the same contents.
        unsafe { separate_processes::map_over(descriptor, offset, variables_address, variables_length)? };
    }
    Ok(file)
}

pub(crate) fn to_usize(bytes: u64) -> Result<usize, MemoryError> {
    usize::try_from(bytes)
        .map_err(|_| MemoryError::Map(std::io::Error::other("it is longer than this processor can")))
}

/// Formats the arena of a new job as its store.
#[must_use]
pub fn format(layout: Layout, memory_kind: &MemoryKind) -> &'static Store {
    let length = |bytes| usize::try_from(bytes).unwrap_or(0);
    // SAFETY: this process created the region and mapped the arena: it is zeroed, aligned, and not in use
    // yet.
    let store = unsafe { Store::format(layout.arena as *mut u8, length(layout.arena_bytes)) };
    if let MemoryKind::Window { left_bytes, .. } = memory_kind {
        store.set_length_limit(length(
            arena_bytes_that_fit(*left_bytes, layout.variables_bytes).max(ARENA_BYTES_MIN),
        ));
    }
    store
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arena_leaves_half_of_the_window_if_possible() {
        let of = |left_mib: u64| {
            arena_size(
                &MemoryKind::Window { node: "arm0".to_owned(), left_bytes: left_mib << 20 },
                1 << 20,
                0,
            )
            .map(|bytes| bytes >> 20)
            .map_err(|error| error.to_string())
        };
        assert_eq!((of(64), of(36)), (Ok(31), Ok(17)));
        // A second job next to one that took half.
        assert_eq!((of(32), of(20)), (Ok(16), Ok(16)));
        assert!(of(16).is_err_and(|text| text.contains("`window_mib` in the machine file")));
    }
}
