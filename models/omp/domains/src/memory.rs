//! The memory of a team: one region that all workers share, or pages that are sent between nodes without one.

use std::os::fd::{AsFd, AsRawFd};

use tombolo::region::{Capability, RegionFile, RegionOptions, Rights};
use tombolo::{Domain, Error};
use tombolo_omp_team::primitives::exclusive;
use tombolo_omp_team::primitives::store::{SPAN, Store};
use tombolo_pages::Unavailable;

use crate::message::Layout;
use crate::place::Where;
use crate::sent::{self, Ranges};

/// Where the arena lies in every worker: far from where programs, their heaps and what systems map are on
/// either processor, and within the 39 bits that the smallest of address spaces have.
const ARENA: u64 = 0x20_0000_0000;
/// What an arena has at most where nothing is said.
const LARGEST: u64 = 64 << 30;
/// The same where a worker is emulated: qemu-user keeps 24 bytes for each page of what is mapped, so that 64
/// GiB take each worker 384 MiB and half a second at its start.
const LARGEST_EMULATED: u64 = 4 << 30;
/// What an arena has at least.
const LEAST: u64 = 16 << 20;
/// What an arena of pages has where nothing is said: each process keeps some 130 bytes for each page.
const LARGEST_SENT: u64 = 256 << 20;
/// Pages may be that large.
const PAGE: u64 = 64 << 10;

/// Where an image has its variables.
#[derive(Clone, Copy, Debug)]
pub struct Variables {
    /// The first byte.
    pub start: usize,
    /// The first byte behind them.
    pub end: usize,
}

impl Variables {
    /// What they take of the memory that workers share.
    fn length_bytes(self) -> u64 {
        ((self.end - self.start) as u64).next_multiple_of(PAGE)
    }
}

/// What is wrong with the memory that workers are to share.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The machine does not give as much.
    #[error(
        "the arena cannot be had, {bytes} bytes of memory that all workers reach: {source}; OMP_TOMBOLO_ARENA={smaller_mib}M makes it smaller"
    )]
    NoRoom {
        /// How much.
        bytes: u64,
        /// What may be had instead.
        smaller_mib: u64,
        /// The reason.
        source: Error,
    },
    /// The window is too small.
    #[error(
        "the window to {node} has {left_bytes} bytes left, and an arena takes {least_bytes} at least; `window_mib` in the machine file makes it larger, and OMP_TOMBOLO_MEMORY=pages needs none"
    )]
    SmallWindow {
        /// To which node.
        node: String,
        /// How much is left.
        left_bytes: u64,
        /// How much it takes.
        least_bytes: u64,
    },
    /// Something else is at the arena's address.
    #[error("the arena cannot lie at {address:#x}, as something else does")]
    Taken {
        /// That address.
        address: u64,
    },
    /// A node cannot have pages that are sent.
    #[error("memory cannot be sent in pages here: {0}")]
    Sent(#[from] tombolo_pages::Error),
    /// A system call that finds a page absent would fail.
    #[error("memory cannot be sent in pages here: {}", Unavailable::Forbidden)]
    UserModeOnly,
    /// The system does not map it.
    #[error("what is shared cannot be mapped: {0}")]
    Map(#[from] std::io::Error),
    /// The machine does not let this program have it.
    #[error(transparent)]
    Machine(#[from] Error),
}

/// What a process reaches the memory of its job by.
pub enum Access {
    /// A region that all share.
    Region(Capability),
    /// Pages, in the process that begins the job, to which all are sent when they are asked for.
    Center,
    /// Pages, in any other process of the job.
    Around(sent::Center),
}

/// Makes the region of a new job, unless its memory is sent in pages.
///
/// # Errors
/// [`MemoryError`].
pub fn create(
    domain: &Domain,
    place: &Where,
    variables: Variables,
    asked: usize,
) -> Result<(Access, Layout), MemoryError> {
    let variables_bytes = variables.length_bytes();
    let layout = |arena_bytes| Layout {
        variables: variables.start as u64,
        variables_bytes,
        arena: ARENA,
        arena_bytes,
    };
    let make = |arena_bytes: u64| {
        let options = RegionOptions::new(variables_bytes + arena_bytes);
        domain.create_region(&match place {
            Where::Memory { .. } | Where::Pages => options,
            Where::Window { node, .. } => options.in_window_of(node),
        })
    };
    let mut bytes = size(place, variables_bytes, asked as u64)?;
    if *place == Where::Pages {
        return Ok((Access::Center, layout(bytes)));
    }
    loop {
        match make(bytes) {
            Ok(region) => return Ok((Access::Region(region.into_capability()), layout(bytes))),
            Err(_) if asked == 0 && bytes / 2 >= LEAST => bytes = (bytes / 2).next_multiple_of(SPAN as u64),
            Err(source) => {
                let smaller = match place {
                    Where::Memory { .. } | Where::Pages => bytes / 2,
                    Where::Window { left_bytes, .. } => most(*left_bytes, variables_bytes).min(bytes / 2),
                };
                return Err(MemoryError::NoRoom { bytes, smaller_mib: smaller.max(LEAST) >> 20, source });
            }
        }
    }
}

/// How large an arena can be in what is left of a window, as channels need some of it.
fn most(left_bytes: u64, variables_bytes: u64) -> u64 {
    (left_bytes / 8 * 7).saturating_sub(variables_bytes)
}

/// How large an arena is to be.
fn size(place: &Where, variables_bytes: u64, asked: u64) -> Result<u64, MemoryError> {
    let span = SPAN as u64;
    if asked > 0 {
        return Ok(asked.next_multiple_of(span).max(LEAST));
    }
    let (node, left_bytes) = match place {
        Where::Memory { emulated: false } => return Ok(LARGEST),
        Where::Memory { emulated: true } => return Ok(LARGEST_EMULATED),
        Where::Pages => return Ok(LARGEST_SENT),
        Where::Window { node, left_bytes } => (node, *left_bytes),
    };
    // Channels need room too, and other jobs, which may have left less.
    let room = (left_bytes / 2).saturating_sub(variables_bytes) / span * span;
    if most(left_bytes, variables_bytes) >= LEAST {
        return Ok(room.max(LEAST));
    }
    let (node, least_bytes) = (node.clone(), (LEAST + variables_bytes).div_ceil(7) * 8);
    Err(MemoryError::SmallWindow { node, left_bytes, least_bytes })
}

/// What is mapped of a job. It stays for as long as the process does.
#[derive(Debug)]
pub struct Mapped {
    memory: Memory,
    layout: Layout,
}

#[derive(Debug)]
enum Memory {
    Region(RegionFile),
    Sent(Ranges),
}

impl Mapped {
    /// Where each part of the job's memory lies.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The pages, where memory is sent.
    #[must_use]
    pub fn sent(&self) -> Option<&Ranges> {
        match &self.memory {
            Memory::Region(_) => None,
            Memory::Sent(ranges) => Some(ranges),
        }
    }

    /// Maps what all share, in place of whatever is in a range of it.
    ///
    /// # Errors
    /// The system's; memory that is sent in pages cannot be mapped otherwise.
    ///
    /// # Safety
    /// The range is of pages of the job, and what is there now is the same.
    pub unsafe fn map_again(&self, begin: usize, length: usize) -> std::io::Result<()> {
        let (Some(offset), Memory::Region(file)) = (self.layout.offset_of(begin as u64), &self.memory) else {
            return Err(std::io::ErrorKind::InvalidInput.into());
        };
        // SAFETY: the caller says so.
        unsafe { exclusive::map_over(file.as_fd().as_raw_fd(), file.offset_bytes() + offset, begin, length) }
    }
}

/// Maps the arena, and the program's variables in place of the process's own; `bring` is for the first
/// process, which brings the values that they have.
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
    bring: bool,
) -> Result<Mapped, MemoryError> {
    let memory = match access {
        // SAFETY: the caller says so.
        Access::Region(capability) => Memory::Region(unsafe { map_region(capability, layout, bring)? }),
        // SAFETY: the caller says so.
        Access::Center => Memory::Sent(unsafe { Ranges::begin(domain, layout)? }),
        // SAFETY: the caller says so.
        Access::Around(center) => Memory::Sent(unsafe { Ranges::join(domain, center, layout)? }),
    };
    Ok(Mapped { memory, layout })
}

/// # Safety
/// As [`map`].
unsafe fn map_region(
    capability: &Capability,
    layout: Layout,
    bring: bool,
) -> Result<RegionFile, MemoryError> {
    let file = capability.file(Rights::READ_WRITE)?;
    let Layout { variables, variables_bytes, arena, arena_bytes } = layout;
    let needed = variables_bytes.checked_add(arena_bytes);
    if needed.is_none_or(|needed| needed > file.length_bytes()) {
        return Err(MemoryError::Map(std::io::Error::other(
            "the region is shorter than what it has to hold",
        )));
    }
    let (arena_length, variables_length) = (length(arena_bytes)?, length(variables_bytes)?);
    let (arena_address, variables_address) = (length(arena)?, length(variables)?);
    if !exclusive::reserve_at(arena_address, arena_length) {
        return Err(MemoryError::Taken { address: arena });
    }
    let descriptor = file.as_fd().as_raw_fd();
    let offset = file.offset_bytes();
    // SAFETY: the addresses were just reserved.
    unsafe { exclusive::map_over(descriptor, offset + variables_bytes, arena_address, arena_length)? };
    if variables_length > 0 {
        if bring {
            // SAFETY: they are there, and are not in use.
            unsafe { exclusive::copy_to(descriptor, offset, variables_address, variables_length)? };
        }
        // SAFETY: the caller says that they are not in use, and the file has what they are.
        unsafe { exclusive::map_over(descriptor, offset, variables_address, variables_length)? };
    }
    Ok(file)
}

pub(crate) fn length(bytes: u64) -> Result<usize, MemoryError> {
    usize::try_from(bytes)
        .map_err(|_| MemoryError::Map(std::io::Error::other("it is longer than this processor can")))
}

/// Makes the store of a new job in its arena.
#[must_use]
pub fn format(layout: Layout, place: &Where) -> &'static Store {
    let length = |bytes| usize::try_from(bytes).unwrap_or(0);
    // SAFETY: the arena was mapped by this process, which made the region: it is zero, aligned, and not in
    // use yet.
    let store = unsafe { Store::format(layout.arena as *mut u8, length(layout.arena_bytes)) };
    if let Where::Window { left_bytes, .. } = place {
        store.set_most(length(most(*left_bytes, layout.variables_bytes).max(LEAST)));
    }
    store
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arena_leaves_half_of_a_window_if_that_is_enough() {
        let of = |left_mib: u64| {
            size(&Where::Window { node: "arm0".to_owned(), left_bytes: left_mib << 20 }, 1 << 20, 0)
                .map(|bytes| bytes >> 20)
                .map_err(|error| error.to_string())
        };
        assert_eq!((of(64), of(36)), (Ok(31), Ok(17)));
        // A second job beside one that has half.
        assert_eq!((of(32), of(20)), (Ok(16), Ok(16)));
        assert!(of(16).is_err_and(|text| text.contains("`window_mib` in the machine file")));
    }
}
