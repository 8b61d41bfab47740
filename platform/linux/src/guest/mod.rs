//! Guest side of a virtual machine: acts as process 1, finds the window, receives interrupts.
//!
//! The window is QEMU's `ivshmem-doorbell` device. Its memory and registers are mapped through sysfs, which
//! needs no driver; its interrupts come through the stock `vfio-pci` driver as event counters, or, on
//! machines without an IOMMU, from a thread that polls the device. All of these are file descriptors, so the
//! monitor can pass them to domains over a socket.

pub mod init;
pub mod interrupts;
pub mod pci;
mod pending;
pub mod ports;
mod vfio;

use std::path::Path;

use crate::error::{Context, OsError};

/// Error of setting up the guest side of a virtual machine.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum GuestError {
    /// The kernel refused an operation.
    #[error(transparent)]
    Os(#[from] OsError),
    /// There is no window device.
    #[error("this machine has no window: no PCI device {vendor:04x}:{device:04x} (QEMU's ivshmem-doorbell)",
        vendor = pci::VENDOR, device = pci::DEVICE)]
    NoWindow,
    /// The window device is not behind an IOMMU, which vfio requires.
    #[error("the window {address} is in no IOMMU group; start QEMU with -M virt,iommu=smmuv3")]
    NoIommu { address: String },
    /// A kernel driver uses another device of the window's IOMMU group.
    #[error("the IOMMU group {group} of the window {address} also holds devices that other drivers use")]
    GroupNotViable { address: String, group: String },
    /// A port of the serial device is missing, or its other end is not open in the emulator.
    #[error(
        "this machine has no port {name} that is open at the host: its kernel needs virtio_console, and QEMU virtserialport,name={name}"
    )]
    NoPort { name: String },
    /// The device has no MSI-X interrupts.
    #[error("the window {address} has no MSI-X vectors; start QEMU with ivshmem-doorbell,vectors=N")]
    NoInterrupts { address: String },
}

/// Writes `value` to a file of sysfs in one call.
pub(crate) fn write_attribute(path: &Path, value: &str) -> Result<(), OsError> {
    std::fs::write(path, value).context(&format!("write {value:?} to {}", path.display()))
}

/// Reads a file of sysfs without its newline.
pub(crate) fn read_attribute(path: &Path) -> Result<String, OsError> {
    let text = std::fs::read_to_string(path).context(&format!("read {}", path.display()))?;
    Ok(text.trim_end().to_owned())
}
