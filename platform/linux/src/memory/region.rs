//! The memory files of regions, and the seals on them.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::error::{Context, OsError};

/// Properties of a region's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RegionOptions {
    /// Page size in bytes, a power of two; 0 for the default.
    pub huge_page_bytes: u64,
    /// NUMA node to allocate on.
    pub numa_node: Option<u16>,
}

/// Position of log2 of the huge page size in the flags of `memfd_create`.
const HUGE_SHIFT: u32 = 26;

/// `MPOL_BIND`: allocate on those nodes only.
const BIND: libc::c_long = 2;

/// Creates a zeroed memory file of `length_bytes` whose size is sealed. Further seals can be added.
///
/// # Errors
/// An error of the kernel: too many open files; no huge pages of that size, or too few reserved
/// (`/sys/kernel/mm/hugepages`); no such NUMA node.
pub fn create_region(name: &str, length_bytes: u64, options: RegionOptions) -> Result<OwnedFd, OsError> {
    let mut flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    if options.huge_page_bytes != 0 {
        let length = MemfdFlags::from_bits_retain(options.huge_page_bytes.ilog2() << HUGE_SHIFT);
        flags |= MemfdFlags::HUGETLB | length;
    }
    let what = match options.huge_page_bytes {
        0 => "create memory for a region".to_owned(),
        bytes => format!(
            "create memory for a region in pages of {bytes} bytes (reserve them in /sys/kernel/mm/hugepages)"
        ),
    };
    let file = rustix::fs::memfd_create(name, flags).context(&what)?;
    rustix::fs::ftruncate(&file, length_bytes).context(&what)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)
        .context("seal memory of a region")?;
    if options.huge_page_bytes != 0 || options.numa_node.is_some() {
        reserve_pages(&file, length_bytes, options.numa_node).map_err(|errno| OsError::new(what, errno))?;
    }
    Ok(file)
}

/// Reserves huge pages and sets the NUMA node: both stay with the file for all its mappings.
fn reserve_pages(file: &OwnedFd, length_bytes: u64, numa_node: Option<u16>) -> Result<(), Errno> {
    let length = usize::try_from(length_bytes).map_err(|_| Errno::NOMEM)?;
    // SAFETY: a null hint lets the kernel choose a fresh range, so no existing mapping is touched.
    let address = unsafe {
        rustix::mm::mmap(
            core::ptr::null_mut(),
            length,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            file,
            0,
        )
    }?;
    let bound = numa_node.map_or(Ok(()), |node| {
        let bits = libc::c_ulong::BITS as usize;
        let mut nodes: [libc::c_ulong; 1024 / libc::c_ulong::BITS as usize] = [0; _];
        let word = nodes.get_mut(usize::from(node) / bits).ok_or(Errno::INVAL)?;
        *word = 1 << (usize::from(node) % bits);
        // SAFETY: the range was just mapped; the kernel reads as many bits of `nodes` as it has, one less
        // than it is told, and writes nothing.
        let answer = unsafe {
            libc::syscall(libc::SYS_mbind, address, length, BIND, nodes.as_ptr(), nodes.len() * bits, 0)
        };
        if answer == 0 { Ok(()) } else { Err(last_errno()) }
    });
    // SAFETY: exactly what was mapped above; no reference to it exists.
    let _ = unsafe { rustix::mm::munmap(address, length) };
    bound
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Opens the same file read-only. The holder can map it for reading, and cannot make it writable again
/// through the descriptor.
///
/// # Errors
/// An error of the kernel.
pub fn open_read_only(file: impl AsFd) -> Result<OwnedFd, OsError> {
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).context("open memory read-only")
}

/// Seals a memory file against all writes permanently. The kernel ensures that no process has it mapped for
/// writing, now or later.
///
/// # Errors
/// `EBUSY` while any process has it mapped for writing.
pub fn seal_writes(file: impl AsFd) -> Result<(), OsError> {
    rustix::fs::fcntl_add_seals(file, SealFlags::WRITE | SealFlags::SEAL)
        .context("freeze memory (it may be mapped for writing somewhere)")
}

/// Seals a memory file against new mappings for writing; existing ones remain.
///
/// # Errors
/// An error of the kernel.
pub fn seal_future_writes(file: impl AsFd) -> Result<(), OsError> {
    rustix::fs::fcntl_add_seals(file, SealFlags::FUTURE_WRITE).context("seal memory against further writers")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{check_sealed, map};

    fn made(length_bytes: u64) -> OwnedFd {
        create_region("tombolo-test", length_bytes, RegionOptions::default()).unwrap()
    }

    #[test]
    fn frozen_memory_cannot_be_mapped_for_writing() {
        let file = made(8192);
        check_sealed(&file, 8192).unwrap();
        let mapped = map(&file, 0, 8192).unwrap();
        assert_eq!(seal_writes(&file).unwrap_err().errno, Errno::BUSY);
        drop(mapped);
        seal_writes(&file).unwrap();
        assert_eq!(map(&file, 0, 8192).unwrap_err().errno, Errno::PERM);
        assert_eq!(rustix::io::write(&file, b"no").unwrap_err(), Errno::PERM);
    }

    #[test]
    fn a_sole_writer_keeps_its_mapping_and_others_get_none() {
        let file = made(4096);
        let mapped = map(&file, 0, 4096).unwrap();
        seal_future_writes(&file).unwrap();
        mapped.store_le(0, 5, tombolo_base::sync::Ordering::Relaxed);
        assert_eq!(map(&file, 0, 4096).unwrap_err().errno, Errno::PERM);
    }

    #[test]
    fn unavailable_memory_is_refused() {
        let odd = RegionOptions { huge_page_bytes: 8192, numa_node: None };
        assert!(create_region("tombolo-test", 8192, odd).unwrap_err().to_string().contains("hugepages"));
        let far = RegionOptions { huge_page_bytes: 0, numa_node: Some(1023) };
        assert!(create_region("tombolo-test", 8192, far).is_err());
        let beyond = RegionOptions { huge_page_bytes: 0, numa_node: Some(u16::MAX) };
        assert_eq!(create_region("tombolo-test", 8192, beyond).unwrap_err().errno, Errno::INVAL);
    }

    /// Returns the kernel's line about the mapping of the memory file with this name.
    fn smaps_of(name: &str, table: &str) -> Option<String> {
        let text = std::fs::read_to_string(table).ok()?;
        let mut lines = text.lines().skip_while(|line| !line.contains(name));
        let first = lines.next()?.to_owned();
        Some(lines.take(24).fold(first, |all, line| all + "\n" + line))
    }

    #[test]
    fn memory_is_bound_to_the_requested_numa_node() {
        if !std::path::Path::new("/sys/devices/system/node/node0").exists() {
            crate::report_unsupported("NUMA nodes");
            return;
        }
        let options = RegionOptions { huge_page_bytes: 0, numa_node: Some(0) };
        let file = match create_region("tombolo-test-numa", 1 << 20, options) {
            // Containers forbid it, and emulators do not support it.
            Err(error) if matches!(error.errno, Errno::PERM | Errno::NOSYS) => {
                crate::report_unsupported(&format!("memory bound to a NUMA node: {error}"));
                return;
            }
            made => made.unwrap(),
        };
        let mapped = map(&file, 0, 1 << 20).unwrap();
        mapped.words().iter().for_each(|word| word.store(1, tombolo_base::sync::Ordering::Relaxed));
        let smaps = smaps_of("tombolo-test-numa", "/proc/self/numa_maps").unwrap();
        let line = smaps.lines().next().unwrap();
        assert!(line.contains("bind") && line.contains("N0=256"), "{line}");
    }

    #[test]
    fn huge_pages_have_their_size_and_are_limited() {
        const PAGE_BYTES: u64 = 2 << 20;
        let free = std::fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
        let free: u64 = free.ok().and_then(|free| free.trim().parse().ok()).unwrap_or(0);
        if !(1..=64).contains(&free) {
            crate::report_unsupported(&format!(
                "huge pages: {free} of 2 MiB are reserved (/sys/kernel/mm/hugepages), where this takes 1 to 64"
            ));
            return;
        }
        let options = RegionOptions { huge_page_bytes: PAGE_BYTES, numa_node: None };
        let too_much = create_region("tombolo-test", (free + 1) * PAGE_BYTES, options).unwrap_err();
        assert!(too_much.to_string().contains("hugepages"), "{too_much}");
        let file = create_region("tombolo-test-huge", free * PAGE_BYTES, options).unwrap();
        let mapped = map(&file, 0, (free * PAGE_BYTES) as usize).unwrap();
        mapped.words().iter().for_each(|word| word.store(1, tombolo_base::sync::Ordering::Relaxed));
        let smaps = smaps_of("tombolo-test-huge", "/proc/self/smaps").unwrap();
        assert!(smaps.contains("KernelPageSize:     2048 kB"), "{smaps}");
    }

    #[test]
    fn a_descriptor_for_reading_maps_for_reading_alone() {
        let file = open_read_only(made(4096)).unwrap();
        assert_eq!(map(&file, 0, 4096).unwrap_err().errno, Errno::ACCESS);
    }
}
