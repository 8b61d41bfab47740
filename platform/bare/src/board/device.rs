//! Access to device registers and PCI configuration space.

use crate::pci;

/// PCI configuration space, memory-mapped at this address.
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

/// Memory of devices.
pub(super) struct Devices;

impl pci::DeviceMemory for Devices {
    fn write(&mut self, address: u64, value: u32) {
        write_device(address, value);
    }
}

/// Reads a device register.
pub(super) fn read_device(address: u64) -> u32 {
    // SAFETY: every caller passes the fixed, aligned address of a device register; reading it does not
    // affect memory.
    unsafe { (address as *const u32).read_volatile() }
}

/// Writes a device register.
pub(super) fn write_device(address: u64, value: u32) {
    // SAFETY: as above. Devices write only message interrupts and the window's memory, which is shared.
    unsafe { (address as *mut u32).write_volatile(value) }
}
