//! The window's interrupts as event counters, through the kernel's stock `vfio-pci` driver.
//!
//! vfio requires an IOMMU although the window does no DMA; the emulated SMMUv3 satisfies it. The interrupt
//! controller that wakes fastest (GICv2m) cannot isolate message interrupts, which vfio calls unsafe: here
//! the only device is the window, whose messages the emulator composes, so it is allowed.

use std::ffi::{CString, c_void};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, opcode};

use super::pci::WindowDevice;
use super::{GuestError, write_attribute};
use crate::error::{Context, OsError};

const PCI_BUS: &str = "/sys/bus/pci";
const UNSAFE_INTERRUPTS: &str = "/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts";
const DRIVER: &str = "vfio-pci";

// The codes of <linux/vfio.h>.
const GET_API_VERSION: Opcode = opcode::none(b';', 100);
const SET_IOMMU: Opcode = opcode::none(b';', 102);
const GROUP_GET_STATUS: Opcode = opcode::none(b';', 103);
const GROUP_SET_CONTAINER: Opcode = opcode::none(b';', 104);
const GROUP_GET_DEVICE_FD: Opcode = opcode::none(b';', 106);
const DEVICE_GET_REGION_INFO: Opcode = opcode::none(b';', 108);
const DEVICE_GET_IRQ_INFO: Opcode = opcode::none(b';', 109);
const DEVICE_SET_IRQS: Opcode = opcode::none(b';', 110);
const API_VERSION: i32 = 0;
const TYPE1V2_IOMMU: usize = 3;
const GROUP_VIABLE: u32 = 1 << 0;
const CONFIG_REGION: u32 = 7;
const MSIX_INDEX: u32 = 2;
const IRQ_DATA_EVENTFD_ACTION_TRIGGER: u32 = 1 << 2 | 1 << 5;

const PCI_COMMAND_OFFSET: u64 = 4;
const PCI_COMMAND_MEMORY: u16 = 1 << 1;
const PCI_COMMAND_MASTER: u16 = 1 << 2;

/// The window's interrupts: one event counter per vector, for the lifetime of this value.
#[derive(Debug)]
pub(super) struct Interrupts {
    eventfds: Vec<OwnedFd>,
    // Closing the device stops its interrupts, and it must close before its group and container.
    _device: OwnedFd,
    _group: OwnedFd,
    _container: OwnedFd,
}

impl Interrupts {
    /// Binds the window to `vfio-pci` (its modules must be loaded) and connects every interrupt vector of
    /// the device to an event counter, non-blocking.
    ///
    /// The memory and registers of [`WindowDevice`] can be opened and mapped before and after.
    ///
    /// # Errors
    /// [`GuestError`]: no IOMMU, not alone in its group, no vectors, or an error of the kernel.
    pub(super) fn open(window: &WindowDevice) -> Result<Self, GuestError> {
        bind(window)?;
        let group_number = group_number(window)?;
        let container = open_container()?;
        let group = open_group(window, &group_number, &container)?;
        let device = open_device(window, &group)?;
        enable_bus_master(&device)?;
        let vectors = vector_count(&device)?;
        if vectors == 0 {
            return Err(GuestError::NoInterrupts { address: window.address().to_owned() });
        }
        let eventfds =
            (0..vectors).map(|_| crate::event::eventfd()).collect::<Result<Vec<OwnedFd>, OsError>>()?;
        let mut request = irq_set(&eventfds);
        // SAFETY: `request` is a vfio_irq_set of the length it states; the kernel only reads it.
        unsafe { call(&device, DEVICE_SET_IRQS, request.as_mut_ptr().cast()) }
            .context("receive interrupts of the window")?;
        Ok(Interrupts { eventfds, _device: device, _group: group, _container: container })
    }

    /// Returns the event counters by vector.
    pub(super) fn eventfds(&self) -> &[OwnedFd] {
        &self.eventfds
    }
}

/// Binds the window to `vfio-pci`, if it is not already.
fn bind(window: &WindowDevice) -> Result<(), OsError> {
    write_attribute(Path::new(UNSAFE_INTERRUPTS), "1")?;
    write_attribute(&window.sysfs().join("driver_override"), DRIVER)?;
    let driver = std::fs::read_link(window.sysfs().join("driver")).ok();
    let current = driver.as_deref().and_then(Path::file_name);
    if current.is_some_and(|name| name == DRIVER) {
        return Ok(());
    }
    if current.is_some() {
        write_attribute(&window.sysfs().join("driver/unbind"), window.address())?;
    }
    write_attribute(&Path::new(PCI_BUS).join("drivers_probe"), window.address())
}

fn group_number(window: &WindowDevice) -> Result<String, GuestError> {
    let link = std::fs::read_link(window.sysfs().join("iommu_group"))
        .map_err(|_| GuestError::NoIommu { address: window.address().to_owned() })?;
    Ok(link.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

fn open(path: &str) -> Result<OwnedFd, OsError> {
    let file = File::options().read(true).write(true).open(path).context(&format!("open {path}"))?;
    Ok(file.into())
}

fn open_container() -> Result<OwnedFd, OsError> {
    let container = open("/dev/vfio/vfio")?;
    // SAFETY: the request takes no argument.
    let version = unsafe { call(&container, GET_API_VERSION, core::ptr::null_mut()) }
        .context("read the version of vfio")?;
    if version != API_VERSION {
        return Err(OsError::new(format!("use version {version} of vfio"), Errno::NOSYS));
    }
    Ok(container)
}

fn open_group(window: &WindowDevice, number: &str, container: &OwnedFd) -> Result<OwnedFd, GuestError> {
    let group = open(&format!("/dev/vfio/{number}"))?;
    // struct vfio_group_status: argsz, flags.
    let mut status = [8_u32, 0];
    // SAFETY: the structure has the 8 bytes that it states, and may be written.
    unsafe { call(&group, GROUP_GET_STATUS, status.as_mut_ptr().cast()) }
        .context("read the state of an IOMMU group")?;
    if status[1] & GROUP_VIABLE == 0 {
        let address = window.address().to_owned();
        return Err(GuestError::GroupNotViable { address, group: number.to_owned() });
    }
    let mut container_fd: RawFd = container.as_raw_fd();
    // SAFETY: the argument points to a descriptor, which the kernel reads.
    unsafe { call(&group, GROUP_SET_CONTAINER, (&raw mut container_fd).cast()) }
        .context("use an IOMMU group")?;
    let kind = core::ptr::without_provenance_mut(TYPE1V2_IOMMU);
    // SAFETY: the argument is the number itself, not a pointer.
    unsafe { call(container, SET_IOMMU, kind) }.context("use the IOMMU")?;
    Ok(group)
}

fn open_device(window: &WindowDevice, group: &OwnedFd) -> Result<OwnedFd, OsError> {
    let operation = format!("open the window {} through vfio", window.address());
    let name = CString::new(window.address()).map_err(|_| OsError::new(operation.clone(), Errno::INVAL))?;
    // SAFETY: the argument is a string that ends in zero, which the kernel reads.
    let device =
        unsafe { call(group, GROUP_GET_DEVICE_FD, name.as_ptr().cast_mut().cast()) }.context(&operation)?;
    // SAFETY: the kernel has just created this descriptor, and no other code knows it.
    let device = unsafe { OwnedFd::from_raw_fd(device) };
    rustix::io::fcntl_setfd(&device, rustix::io::FdFlags::CLOEXEC).context(&operation)?;
    Ok(device)
}

/// Enables bus mastering, so that the device can send message interrupts. vfio starts every device with it
/// off, and then interrupts are lost silently.
fn enable_bus_master(device: &OwnedFd) -> Result<(), OsError> {
    // struct vfio_region_info: argsz, flags, index, cap_offset, then size and offset of 64 bits.
    let mut info = [0_u64; 4];
    info[0] = pack_u32_pair(32, 0);
    info[1] = pack_u32_pair(CONFIG_REGION, 0);
    // SAFETY: the structure has the 32 bytes that it states, and may be written.
    unsafe { call(device, DEVICE_GET_REGION_INFO, info.as_mut_ptr().cast()) }
        .context("find the window's configuration")?;
    let config = File::from(device.try_clone().context("use the window's configuration")?);
    let at = info[3] + PCI_COMMAND_OFFSET;
    let mut command = [0; 2];
    config.read_exact_at(&mut command, at).context("read the window's configuration")?;
    let command = u16::from_le_bytes(command) | PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER;
    config.write_all_at(&command.to_le_bytes(), at).context("write the window's configuration")
}

/// Packs two consecutive 32-bit fields into one word.
const fn pack_u32_pair(first: u32, second: u32) -> u64 {
    let (a, b) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]])
}

fn vector_count(device: &OwnedFd) -> Result<u32, OsError> {
    // struct vfio_irq_info: argsz, flags, index, count.
    let mut info = [16_u32, 0, MSIX_INDEX, 0];
    // SAFETY: the structure has the 16 bytes that it states, and may be written.
    unsafe { call(device, DEVICE_GET_IRQ_INFO, info.as_mut_ptr().cast()) }
        .context("count the window's interrupts")?;
    Ok(info[3])
}

/// Builds a `struct vfio_irq_set` (argsz, flags, index, start, count) followed by one descriptor per vector.
fn irq_set(eventfds: &[OwnedFd]) -> Vec<u32> {
    let words = 5 + eventfds.len();
    let mut request = Vec::with_capacity(words);
    request.extend([4 * words as u32, IRQ_DATA_EVENTFD_ACTION_TRIGGER, MSIX_INDEX, 0, eventfds.len() as u32]);
    request.extend(eventfds.iter().map(|fd| fd.as_raw_fd() as u32));
    request
}

/// A vfio request with one argument; the result is the number that the call returns.
struct Request {
    opcode: Opcode,
    argument: *mut c_void,
}

// SAFETY: `opcode` and `as_ptr` return the two fields, `output_from_ptr` touches no memory, and the argument
// may be written (`IS_MUTATING`). That it is what the opcode expects is the contract of `call`.
unsafe impl Ioctl for Request {
    type Output = i32;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.opcode
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.argument
    }

    unsafe fn output_from_ptr(answer: IoctlOutput, _: *mut c_void) -> rustix::io::Result<i32> {
        Ok(answer)
    }
}

/// Makes one request and returns the kernel's number.
///
/// # Safety
/// `argument` must be what <linux/vfio.h> specifies for `opcode`: the value, or a pointer to the
/// structure, valid for the `argsz` bytes stated at its start, and writable where the kernel writes
/// results.
unsafe fn call(fd: impl AsFd, opcode: Opcode, argument: *mut c_void) -> rustix::io::Result<i32> {
    // SAFETY: `Request` forwards both unchanged; that they match is the contract of this function.
    unsafe { rustix::ioctl::ioctl(fd, Request { opcode, argument }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_kernels_layout() {
        let counters = [crate::event::eventfd().unwrap(), crate::event::eventfd().unwrap()];
        let numbers: Vec<u32> = counters.iter().map(|fd| fd.as_raw_fd() as u32).collect();
        assert_eq!(irq_set(&counters), [28, 0x24, 2, 0, 2, numbers[0], numbers[1]]);
        assert_eq!(DEVICE_SET_IRQS, 0x3b6e);
        let bytes = pack_u32_pair(32, 7).to_ne_bytes();
        assert_eq!((&bytes[..4], &bytes[4..]), (&32_u32.to_ne_bytes()[..], &7_u32.to_ne_bytes()[..]));
    }
}
