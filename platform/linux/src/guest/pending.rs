//! Interrupts of the window without a driver: polls the pending bits of the device.
//!
//! Every message interrupt (MSI-X) of a PCI device can be masked. A masked one is not sent but marked as
//! pending, in an array that software may poll, and unmasking clears its bit (PCI Local Bus Specification
//! 3.0, section 6.8.3.5). Programs can map that array through sysfs, without a driver, an IOMMU or an
//! interrupt. A thread of the monitor polls it and signals event counters.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use super::GuestError;
use super::pci::{self, WindowDevice};
use crate::error::{Context, OsError};
use crate::event::signal;

/// Polling period of the bits while interrupts arrive; the next constant is the period while idle.
const BUSY_PERIOD: Duration = Duration::from_micros(100);
const QUIET_PERIOD: Duration = Duration::from_millis(1);

/// Time after an interrupt during which the device counts as busy.
const BUSY: Duration = Duration::from_millis(5);

// Offsets in the configuration space and in an MSI-X capability, and bits of its control word.
const STATUS: usize = 0x06;
const HAS_CAPABILITIES: u8 = 1 << 4;
const FIRST_CAPABILITY: usize = 0x34;
const MSIX: u8 = 0x11;
const ENABLE: u16 = 1 << 15;
const MASK_ALL: u16 = 1 << 14;

/// Maximum number of capabilities in a configuration space of 256 bytes.
const MAX_CAPABILITIES: usize = 48;

// Entries of the vector table: four words, the last of which has the mask bit.
const ENTRY_BYTES: usize = 16;
const ENTRY_CONTROL: usize = 12;
const MASKED: u32 = 1;

/// Location of a device's interrupt vectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Capability {
    /// Offset of the capability in the configuration space.
    at: usize,
    control: u16,
    /// BAR that contains both the vector table and the pending bits.
    bar: usize,
    table: usize,
    pending: usize,
}

impl Capability {
    /// Parses the capability from a configuration space; `None` if there is none, or its parts are in two
    /// BARs.
    fn find(config: &[u8; 256]) -> Option<Capability> {
        let half = |at: usize| Some(u16::from_le_bytes([*config.get(at)?, *config.get(at + 1)?]));
        let word = |at: usize| Some(u32::from(half(at)?) | u32::from(half(at + 2)?) << 16);
        if config[STATUS] & HAS_CAPABILITIES == 0 {
            return None;
        }
        let mut at = usize::from(config[FIRST_CAPABILITY] & !3);
        for _ in 0..MAX_CAPABILITIES {
            if at == 0 {
                return None;
            }
            if config[at] == MSIX {
                let (table, pending) = (word(at + 4)?, word(at + 8)?);
                let (bar, offset) = (|place: u32| (place & 7) as usize, |place: u32| (place & !7) as usize);
                let found = Capability {
                    at,
                    control: half(at + 2)?,
                    bar: bar(table),
                    table: offset(table),
                    pending: offset(pending),
                };
                return (bar(pending) == found.bar).then_some(found);
            }
            at = usize::from(*config.get(at + 1)? & !3);
        }
        None
    }

    /// Returns the number of vectors of the device, 1 to 2048.
    fn vectors(&self) -> usize {
        usize::from(self.control & 0x7ff) + 1
    }

    /// Returns the number of bytes of the BAR that table and bits occupy.
    fn end(&self) -> usize {
        let bits = self.pending + self.vectors().div_ceil(64) * 8;
        bits.max(self.table + self.vectors() * ENTRY_BYTES)
    }
}

/// Mapped vector table and pending bits of a device.
#[derive(Debug)]
struct Vectors {
    start: NonNull<u8>,
    length: usize,
    capability: Capability,
}

// SAFETY: the mapping belongs to the process, and registers of a device may be accessed from any thread.
unsafe impl Send for Vectors {}

impl Vectors {
    /// Enables the vectors of the window, each of them masked, and maps them.
    fn open(window: &WindowDevice) -> Result<Vectors, GuestError> {
        window.enable()?;
        let config = pci::open(&window.sysfs().join("config"))?;
        let mut bytes = [0; 256];
        config.read_exact_at(&mut bytes, 0).context("read the window's configuration")?;
        let none = || GuestError::NoInterrupts { address: window.address().to_owned() };
        let capability = Capability::find(&bytes).ok_or_else(none)?;
        let control = (capability.control | ENABLE) & !MASK_ALL;
        let vectors = Vectors::map(window, capability)?;
        (0..capability.vectors()).for_each(|vector| vectors.mask(vector, true));
        let at = capability.at as u64 + 2;
        config.write_all_at(&control.to_le_bytes(), at).context("write the window's configuration")?;
        Ok(vectors)
    }

    fn map(window: &WindowDevice, capability: Capability) -> Result<Vectors, OsError> {
        const OPERATION: &str = "map the window's interrupt vectors";
        let bar = window.bar(capability.bar)?;
        let length =
            usize::try_from(bar.end - bar.start).map_err(|_| OsError::new(OPERATION, Errno::NOMEM))?;
        if capability.end() > length || !bar.start.is_multiple_of(rustix::param::page_size() as u64) {
            return Err(OsError::new(OPERATION, Errno::NODEV));
        }
        let file: File = pci::open(&window.sysfs().join(format!("resource{}", capability.bar)))?;
        // SAFETY: a null hint lets the kernel choose a fresh range, so no existing mapping is touched.
        let address = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            rustix::mm::mmap(core::ptr::null_mut(), length, access, MapFlags::SHARED, &file, 0)
        }
        .context(OPERATION)?;
        let start = NonNull::new(address.cast()).ok_or(OsError::new(OPERATION, Errno::FAULT))?;
        Ok(Vectors { start, length, capability })
    }

    fn mask(&self, vector: usize, masked: bool) {
        let at = self.capability.table + vector * ENTRY_BYTES + ENTRY_CONTROL;
        let value = if masked { MASKED } else { 0 };
        // SAFETY: `map` has checked that every entry is in the mapping, which lives as long as `self`; it is
        // an aligned word.
        unsafe { self.start.add(at).cast::<u32>().write_volatile(value.to_le()) };
    }

    /// Clears the pending bits and calls `on_vector` for each vector that was set.
    fn take(&self, mut on_vector: impl FnMut(usize)) -> bool {
        let count = self.capability.vectors();
        let mut any = false;
        for word in 0..count.div_ceil(32) {
            let at = self.capability.pending + 4 * word;
            // SAFETY: as above: the bits are in the mapping too.
            let bits = u32::from_le(unsafe { self.start.add(at).cast::<u32>().read_volatile() });
            for vector in (0..32).filter(|bit| bits & 1 << bit != 0).map(|bit| 32 * word + bit) {
                if vector < count {
                    // While briefly unmasked, the device sends the message and clears the bit. Bus mastering
                    // is off, so the message is dropped; so is that of another interrupt in this moment, and
                    // the signal that follows stands for both.
                    self.mask(vector, false);
                    self.mask(vector, true);
                    on_vector(vector);
                    any = true;
                }
            }
        }
        any
    }
}

impl Drop for Vectors {
    fn drop(&mut self) {
        // SAFETY: `map` created exactly this range, and no pointer into it leaves `self`.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// Event counters that a polling thread signals, one per vector, for the lifetime of this value.
#[derive(Debug)]
pub(super) struct PendingBits {
    pub(super) eventfds: Vec<OwnedFd>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl PendingBits {
    /// Starts polling the bits of a window.
    ///
    /// # Errors
    /// [`GuestError::NoInterrupts`], or an error of the kernel.
    pub(super) fn open(window: &WindowDevice) -> Result<PendingBits, GuestError> {
        let vectors = Vectors::open(window)?;
        let counters = || (0..vectors.capability.vectors()).map(|_| crate::event::eventfd());
        let eventfds = counters().collect::<Result<Vec<OwnedFd>, OsError>>()?;
        let copies = eventfds.iter().map(|fd| fd.try_clone().context("copy a descriptor"));
        let copies = copies.collect::<Result<Vec<OwnedFd>, OsError>>()?;
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("pending-bits".to_owned())
            .spawn(move || poll(&vectors, &copies, &until))
            .context("start a thread for the window's interrupts")?;
        Ok(PendingBits { eventfds, stop, thread: Some(thread) })
    }
}

impl Drop for PendingBits {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread sleeps for a millisecond at most.
            let _ = thread.join();
        }
    }
}

fn poll(vectors: &Vectors, counters: &[OwnedFd], stop: &AtomicBool) {
    let mut busy_until = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let rung = vectors.take(|vector| {
            // The process's own counter: the write cannot fail.
            let _ = counters.get(vector).map(signal);
        });
        let now = Instant::now();
        if rung {
            busy_until = now + BUSY;
        }
        std::thread::sleep(if now < busy_until { BUSY_PERIOD } else { QUIET_PERIOD });
    }
}

/// Returns whether [`PendingBits`] must replace the driver: the device is not behind an IOMMU, or the kernel
/// lacks the driver.
pub(super) fn must_poll(window: &WindowDevice) -> bool {
    !window.sysfs().join("iommu_group").exists() || !Path::new("/sys/bus/pci/drivers/vfio-pci").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the configuration of QEMU's device with 32 vectors: another capability, then this one.
    fn config() -> [u8; 256] {
        let mut config = [0; 256];
        config[STATUS] = HAS_CAPABILITIES;
        config[FIRST_CAPABILITY] = 0x50;
        config[0x50..0x52].copy_from_slice(&[0x05, 0x40]);
        config[0x40..0x44].copy_from_slice(&[MSIX, 0, 31, 0]);
        config[0x44..0x48].copy_from_slice(&1_u32.to_le_bytes());
        config[0x48..0x4c].copy_from_slice(&0x801_u32.to_le_bytes());
        config
    }

    #[test]
    fn the_capability_is_found_in_the_configuration() {
        let found = Capability::find(&config()).unwrap();
        assert_eq!(found, Capability { at: 0x40, control: 31, bar: 1, table: 0, pending: 0x800 });
        assert_eq!((found.vectors(), found.end()), (32, 0x808));
    }

    #[test]
    fn a_configuration_without_it_is_refused() {
        let with = |at: usize, value: u8| {
            let mut config = config();
            config[at] = value;
            Capability::find(&config)
        };
        assert_eq!(with(STATUS, 0), None, "no capabilities");
        assert_eq!(with(0x40, 0x10), None, "none of this kind");
        assert_eq!(with(0x48, 2), None, "bits in another BAR");
        let mut circle = config();
        circle[0x40] = 0x10;
        circle[0x41] = 0x50;
        assert_eq!(Capability::find(&circle), None, "a list that has no end");
        let mut late = config();
        late[FIRST_CAPABILITY] = 0xfc;
        late[0xfc] = MSIX;
        assert_eq!(Capability::find(&late), None, "a capability that is cut off");
    }

    /// Uses memory, which keeps written values, as the device's BAR.
    #[test]
    fn pending_bits_are_taken_by_vector() {
        let capability = Capability { at: 0, control: 39, bar: 1, table: 0, pending: 0x800 };
        let mut memory = vec![0_u64; 0x1000 / 8];
        memory[0x800 / 8] = 1 | 1 << 31 | 1 << 32 | 1 << 39 | 1 << 40;
        let vectors = std::mem::ManuallyDrop::new(Vectors {
            start: NonNull::new(memory.as_mut_ptr().cast()).unwrap(),
            length: 0x1000,
            capability,
        });
        let mut on_vector = Vec::new();
        assert!(vectors.take(|vector| on_vector.push(vector)));
        assert_eq!(on_vector, [0, 31, 32, 39], "the device has 40");
        assert_eq!(memory[31 * 2 + 1] >> 32, u64::from(MASKED), "masked again");
        memory[0x800 / 8] = 0;
        assert!(!vectors.take(|_| panic!("nothing is pending")));
    }
}
