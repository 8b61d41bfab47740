//! The window device: detection, memory (BAR 2) and registers (BAR 0).

use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use super::{GuestError, read_attribute, write_attribute};
use crate::error::{Context, OsError};

/// PCI vendor of the window device (Red Hat).
pub const VENDOR: u16 = 0x1af4;
/// PCI device number of the window device (inter-VM shared memory).
pub const DEVICE: u16 = 0x1110;

const PCI_DEVICES: &str = "/sys/bus/pci/devices";
const REGISTERS_BAR: usize = 0;
const MEMORY_BAR: usize = 2;

/// Number of bytes of the register BAR to map: one page, of which the first 16 bytes are registers.
const REGISTERS_BYTES: usize = 4096;
const IV_POSITION: usize = 8;
const DOORBELL: usize = 12;

/// The window device of this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WindowDevice {
    sysfs: PathBuf,
    address: String,
}

/// Memory of the window: a file to map, or to pass to a domain that maps it.
#[derive(Debug)]
pub struct WindowMemory {
    /// File to map as shared memory from offset 0 on.
    pub file: OwnedFd,
    /// Size of the window in bytes, a power of two.
    pub length_bytes: u64,
    /// Whether mappings are write-combining (normal memory). Otherwise they are device memory, where some
    /// processors fault on unaligned accesses.
    pub write_combining: bool,
}

impl WindowDevice {
    /// Finds the first window by PCI address.
    ///
    /// # Errors
    /// As [`find_all`](Self::find_all).
    pub fn find() -> Result<Self, GuestError> {
        Self::find_all()?.into_iter().next().ok_or(GuestError::NoWindow)
    }

    /// Finds all windows, ordered by PCI address; at least one.
    ///
    /// # Errors
    /// [`GuestError::NoWindow`], or an error from reading sysfs.
    pub fn find_all() -> Result<Vec<Self>, GuestError> {
        Self::find_in(Path::new(PCI_DEVICES))
    }

    fn find_in(devices: &Path) -> Result<Vec<Self>, GuestError> {
        let list = || -> std::io::Result<Vec<PathBuf>> {
            let mut paths = std::fs::read_dir(devices)?
                .map(|entry| Ok(entry?.path()))
                .collect::<std::io::Result<Vec<_>>>()?;
            paths.sort();
            Ok(paths)
        };
        let paths = list().context(&format!("list {}", devices.display()))?;
        let is_window = |path: &PathBuf| {
            let number = |name| read_attribute(&path.join(name)).ok().as_deref().and_then(parse_hex);
            number("vendor") == Some(VENDOR.into()) && number("device") == Some(DEVICE.into())
        };
        let windows: Vec<WindowDevice> = paths
            .into_iter()
            .filter(is_window)
            .map(|sysfs| {
                let address = sysfs.file_name().unwrap_or_default().to_string_lossy().into_owned();
                WindowDevice { sysfs, address }
            })
            .collect();
        if windows.is_empty() { Err(GuestError::NoWindow) } else { Ok(windows) }
    }

    /// Returns the PCI address, such as `0000:00:01.0`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the device's directory in sysfs.
    #[must_use]
    pub fn sysfs(&self) -> &Path {
        &self.sysfs
    }

    /// Enables the device's BARs. Not needed, and refused by the kernel, once a driver is bound:
    /// [`Interrupts::open`](super::interrupts::Interrupts::open) enables them as well.
    ///
    /// # Errors
    /// `EBUSY` when a driver is bound to it.
    pub fn enable(&self) -> Result<(), OsError> {
        write_attribute(&self.sysfs.join("enable"), "1")
    }

    /// Opens the registers, for [`Registers::map`] here or in a domain that receives the descriptor.
    ///
    /// # Errors
    /// An error of the kernel, or `ENODEV` when the registers do not start on a page.
    pub fn open_registers(&self) -> Result<OwnedFd, OsError> {
        // Whole pages are mapped, and the registers must be at the start of the first.
        if !self.bar(REGISTERS_BAR)?.start.is_multiple_of(REGISTERS_BYTES as u64) {
            let operation = format!("map registers of {} that do not start on a page", self.address);
            return Err(OsError::new(operation, Errno::NODEV));
        }
        open(&self.sysfs.join(format!("resource{REGISTERS_BAR}"))).map(OwnedFd::from)
    }

    /// Opens the window's memory.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn open_memory(&self) -> Result<WindowMemory, OsError> {
        let bar = self.bar(MEMORY_BAR)?;
        let combining = self.sysfs.join(format!("resource{MEMORY_BAR}_wc"));
        let plain = self.sysfs.join(format!("resource{MEMORY_BAR}"));
        let write_combining = combining.exists();
        let file = open(if write_combining { &combining } else { &plain })?;
        Ok(WindowMemory { file: file.into(), length_bytes: bar.end - bar.start, write_combining })
    }

    /// Returns the address range of a BAR.
    pub(super) fn bar(&self, bar: usize) -> Result<Range<u64>, OsError> {
        let table = read_attribute(&self.sysfs.join("resource"))?;
        parse_bar(&table, bar).ok_or_else(|| {
            OsError::new(format!("find BAR {bar} of the window {}", self.address), Errno::NODEV)
        })
    }
}

pub(crate) fn open(path: &Path) -> Result<File, OsError> {
    OpenOptions::new().read(true).write(true).open(path).context(&format!("open {}", path.display()))
}

fn parse_hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Returns the address range of a BAR from sysfs's `resource`: a line per BAR with first address, last
/// address and flags.
pub(crate) fn parse_bar(table: &str, bar: usize) -> Option<Range<u64>> {
    let mut fields = table.lines().nth(bar)?.split_ascii_whitespace().map(parse_hex);
    let (first, last) = (fields.next()??, fields.next()??);
    if last == 0 || last < first { None } else { Some(first..last.checked_add(1)?) }
}

/// Mapped registers of the window.
#[derive(Debug)]
pub struct Registers {
    page: NonNull<u8>,
}

// SAFETY: the mapping belongs to the process, and device registers may be accessed from any thread.
unsafe impl Send for Registers {}
// SAFETY: as above; each access is one volatile load or store of an aligned word.
unsafe impl Sync for Registers {}

impl Registers {
    /// Maps the registers from [`WindowDevice::open_registers`], opened here or in another process.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn map(file: impl AsFd) -> Result<Self, OsError> {
        // SAFETY: a null hint lets the kernel choose a fresh range, so no existing mapping is touched.
        let address = unsafe {
            rustix::mm::mmap(
                core::ptr::null_mut(),
                REGISTERS_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )
        }
        .context("map the window's registers")?;
        let page =
            NonNull::new(address.cast()).ok_or(OsError::new("map the window's registers", Errno::FAULT))?;
        Ok(Registers { page })
    }

    /// Returns this machine's peer number among those that share the window.
    #[must_use]
    pub fn iv_position(&self) -> u32 {
        // SAFETY: the page is mapped for as long as `self` lives; the register is an aligned word inside it.
        u32::from_le(unsafe { self.page.add(IV_POSITION).cast::<u32>().read_volatile() })
    }

    /// Interrupts `peer` on its `vector`. The device ignores peers and vectors that do not exist.
    ///
    /// Everything stored to the window before is visible to the peer when it handles the interrupt.
    pub fn ring(&self, peer: u16, vector: u16) {
        let value = u32::from(peer) << 16 | u32::from(vector);
        // The store to the device is not ordered after earlier stores to normal memory by itself.
        device_write_barrier();
        // SAFETY: as in `iv_position`; the device accepts any value.
        unsafe { self.page.add(DOORBELL).cast::<u32>().write_volatile(value.to_le()) };
    }
}

/// Makes earlier stores to memory visible before later stores to a device.
#[inline]
fn device_write_barrier() {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier instruction; it touches neither memory nor registers.
    unsafe {
        core::arch::asm!("dsb st", options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "riscv64")]
    // SAFETY: as above; `o` is output to devices.
    unsafe {
        core::arch::asm!("fence w, o", options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "aarch64", target_arch = "riscv64")))]
    core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
}

impl Drop for Registers {
    fn drop(&mut self) {
        // SAFETY: `map` created exactly this range, and no pointer into it leaves `self`.
        let _ = unsafe { rustix::mm::munmap(self.page.as_ptr().cast(), REGISTERS_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESOURCE: &str = "\
0x0000000010000000 0x00000000100000ff 0x0000000000040200
0x0000000010001000 0x0000000010001fff 0x0000000000040200
0x0000008000000000 0x0000008000ffffff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
";

    #[test]
    fn bars_come_from_the_resource_table() {
        assert_eq!(parse_bar(RESOURCE, 0), Some(0x1000_0000..0x1000_0100));
        assert_eq!(parse_bar(RESOURCE, 2), Some(0x80_0000_0000..0x80_0100_0000));
        assert_eq!(parse_bar(RESOURCE, 3), None);
        assert_eq!(parse_bar(RESOURCE, 9), None);
        assert_eq!(parse_bar("0x20 0x0f 0x0", 0), None);
        assert_eq!(parse_bar("0x20 0xffffffffffffffff 0x0", 0), None);
        assert_eq!(parse_bar("rubbish", 0), None);
    }

    fn device(root: &Path, address: &str, vendor: &str, device: &str) {
        let directory = root.join(address);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("vendor"), format!("{vendor}\n")).unwrap();
        std::fs::write(directory.join("device"), format!("{device}\n")).unwrap();
        std::fs::write(directory.join("resource"), RESOURCE).unwrap();
        std::fs::write(directory.join("resource2"), "").unwrap();
    }

    #[test]
    fn the_window_is_found_by_its_numbers() {
        let root = std::env::temp_dir().join(format!("tombolo-pci-{}", std::process::id()));
        device(&root, "0000:00:00.0", "0x1b36", "0x0008");
        assert_eq!(WindowDevice::find_in(&root), Err(GuestError::NoWindow));
        device(&root, "0000:00:02.0", "0x1af4", "0x1110");
        device(&root, "0000:00:01.0", "0x1af4", "0x1110");
        let windows = WindowDevice::find_in(&root).unwrap();
        let addresses: Vec<&str> = windows.iter().map(WindowDevice::address).collect();
        assert_eq!(addresses, ["0000:00:01.0", "0000:00:02.0"]);
        let window = &windows[0];
        let memory = window.open_memory().unwrap();
        assert_eq!((memory.length_bytes, memory.write_combining), (16 << 20, false));
        std::fs::write(root.join("0000:00:01.0/resource2_wc"), "").unwrap();
        assert!(window.open_memory().unwrap().write_combining);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
