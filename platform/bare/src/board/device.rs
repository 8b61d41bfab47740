//! Registers of a board's devices, and configuration space among them.

use crate::pci;

/// Configuration space, memory-mapped from this address on.
pub(super) struct Ecam(pub(super) u64);

impl Ecam {
    fn address(&self, slot: u8, offset: u16) -> u64 {
        self.0 + (u64::from(slot) << 15) + u64::from(offset)
    }
}

impl pci::Configuration for Ecam {
    fn read(&self, slot: u8, offset: u16) -> u32 {
        read_device(self.address(slot, offset))
    }

    fn write(&mut self, slot: u8, offset: u16, value: u32) {
        write_device(self.address(slot, offset), value);
    }
}

/// Regions of devices.
pub(super) struct Devices;

impl pci::DeviceMemory for Devices {
    fn write(&mut self, address: u64, value: u32) {
        write_device(address, value);
    }
}

/// Reads a register of a device of this board.
pub(super) fn read_device(address: u64) -> u32 {
    // SAFETY: every caller names a register of the board's devices by its fixed place, aligned; reading one has no
    // effect on memory.
    unsafe { (address as *const u32).read_volatile() }
}

/// Writes a register of a device of this board.
pub(super) fn write_device(address: u64, value: u32) {
    // SAFETY: as above. What devices write by themselves is messages, and the window's memory, which is shared.
    unsafe { (address as *mut u32).write_volatile(value) }
}
