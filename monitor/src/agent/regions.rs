//! Memory of the regions of this kernel. The agent creates and keeps it, so that only the root decides which
//! domain gets it, and with which rights.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, OFlags};
use tombolo_control::{MemoryOptions, RegionId, Seal};
use tombolo_platform::error::Context;
use tombolo_platform::memory::{self, RegionOptions};
use tombolo_platform::{Errno, OsError};

use super::Agent;
use tombolo_monitor_core::agent::RegionSource;

/// Memory of a region.
#[derive(Debug)]
pub(super) struct RegionMemory {
    file: OwnedFd,
    /// Read-only descriptor of the file, once requested.
    read_only_file: Option<OwnedFd>,
}

impl Agent {
    pub(super) fn make_region(&mut self, region: RegionId, length_bytes: u64, source: RegionSource<OwnedFd>) {
        let kept = match source {
            RegionSource::Made(MemoryOptions { huge_page_bytes, numa_node }) => {
                let options = RegionOptions { huge_page_bytes, numa_node };
                memory::create_region(&format!("tombolo-region-{region}"), length_bytes, options)
                    .map(|file| (file, false))
            }
            RegionSource::File(file) => {
                let missing = || OsError::new("keep a file that did not arrive", Errno::BADF);
                file.ok_or_else(missing).and_then(|file| check_file(file, length_bytes))
            }
        };
        let made = kept.map(|(file, read_only)| {
            self.regions.insert(region, RegionMemory { file, read_only_file: None });
            read_only
        });
        self.core.region_made(region, made.map_err(|error| error.to_string()));
    }

    pub(super) fn seal_region(&mut self, region: RegionId, seal: Seal) {
        let missing = || OsError::new("seal a region that is not here", Errno::NOENT);
        let sealed = self.regions.get(&region).ok_or_else(missing).and_then(|memory| match seal {
            Seal::Open => Ok(()),
            Seal::SoleWriter => memory::seal_future_writes(&memory.file),
            Seal::Frozen => memory::seal_writes(&memory.file),
        });
        self.core.region_sealed(region, sealed.map_err(|error| error.to_string()));
    }

    /// Returns the memory of a region, for a domain.
    pub(crate) fn region_memory(&mut self, region: RegionId, writable: bool) -> Result<OwnedFd, OsError> {
        let missing = || OsError::new("map a region that is not here", Errno::NOENT);
        let copy = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().context("copy a descriptor");
        let kept = self.regions.get_mut(&region).ok_or_else(missing)?;
        if writable {
            return copy(kept.file.as_fd());
        }
        if kept.read_only_file.is_none() {
            kept.read_only_file = Some(memory::open_read_only(&kept.file)?);
        }
        copy(kept.read_only_file.as_ref().ok_or_else(missing)?.as_fd())
    }
}

/// Checks a file that a domain passed. Returns it and whether it is read-only.
fn check_file(file: OwnedFd, length_bytes: u64) -> Result<(OwnedFd, bool), OsError> {
    let unfit = |what: &str| OsError::new(what.to_owned(), Errno::INVAL);
    let found = rustix::fs::fstat(&file).context("look at a file")?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(unfit("make a region of something that is not a regular file"));
    }
    let long = u64::try_from(found.st_size).unwrap_or(0);
    if long < length_bytes {
        return Err(unfit(&format!("make a region of {length_bytes} bytes of a file of {long}")));
    }
    let mode = rustix::fs::fcntl_getfl(&file).context("look at a file")? & OFlags::ACCMODE;
    match mode {
        OFlags::WRONLY => Err(unfit("make a region of a file that cannot be read")),
        mode => Ok((file, mode == OFlags::RDONLY)),
    }
}
