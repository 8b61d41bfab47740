//! Access to device registers and PCI configuration space.

use core::ptr::NonNull;
use core::sync::atomic::Ordering;

use tombolo_base::SharedMemory;
use tombolo_base::sync::fence;

use super::Window;
use crate::call::{DOORBELL_OFFSET_BYTES, OWN_PEER_OFFSET_BYTES};
use crate::pci;

extern crate alloc;

/// PCI configuration space, memory-mapped at this address.
pub(super) struct Ecam(pub(super) u64);

impl Ecam {
    fn address(&self, slot: u8, offset: u16) -> u64 {
        self.0 + (u64::from(slot) << 15) + u64::from(offset)
    }
}

impl pci::ConfigSpace for Ecam {
    fn read(&self, slot: u8, offset: u16) -> u32 {
        read_device(self.address(slot, offset))
    }

    fn write(&mut self, slot: u8, offset: u16, value: u32) {
        write_device(self.address(slot, offset), value);
    }
}

/// Access to device memory, in words.
pub(super) struct Devices;

impl pci::DeviceMemory for Devices {
    fn write(&mut self, address: u64, value: u32) {
        write_device(address, value);
    }
}

/// Returns the windows of the devices. `address` returns the address at which a device's memory is mapped.
///
/// # Safety
/// The whole window of each device is mapped there, aligned, for as long as the board runs, and accessed by
/// no other code of the monitor. Programs, when they run, are peers.
pub(super) unsafe fn windows(
    devices: &pci::WindowDevices,
    address: impl Fn(&pci::WindowDevice) -> u64,
) -> alloc::vec::Vec<Window> {
    let mut first_bell = 0;
    let window = |device: &pci::WindowDevice| {
        let address = address(device);
        let pointer = NonNull::new(address as *mut u8).unwrap_or(NonNull::dangling());
        let (length_bytes, owner) = (device.window_bytes as usize, alloc::sync::Arc::new(()));
        // SAFETY: by this function's contract.
        let memory = unsafe { SharedMemory::from_raw(pointer, length_bytes, owner) };
        let vectors = u32::from(device.vectors);
        let bells = u64::MAX.checked_shr(64 - vectors.min(64)).unwrap_or(0);
        let bells = bells.checked_shl(first_bell).unwrap_or(0);
        first_bell += vectors;
        Window { memory, address, registers_address: device.places.registers, bells }
    };
    devices.iter().flatten().map(window).collect()
}

/// Rings a doorbell of a peer on a window.
pub(super) fn ring(window: &Window, peer: u16, vector: u16) {
    // Stores to the window must be visible to the peer that is woken.
    fence(Ordering::SeqCst);
    let target = u32::from(peer) << 16 | u32::from(vector);
    write_device(window.registers_address + DOORBELL_OFFSET_BYTES, target);
}

/// Returns the board's own number among the peers of a window.
pub(super) fn own_peer(window: &Window) -> u16 {
    read_device(window.registers_address + OWN_PEER_OFFSET_BYTES) as u16
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
