//! Sets up the devices of windows on a PCI bus without firmware: assigns addresses to their memory regions
//! and a target to their interrupts.

use crate::call::MAX_WINDOWS;

/// Vendor and device id of the shared-memory device, as in its first configuration word.
const IVSHMEM: u32 = 0x1110_1af4;

/// Number of slots on a bus.
const SLOTS: u8 = 32;

const COMMAND: u16 = 0x04;
const BAR0: u16 = 0x10;
const CAPABILITIES: u16 = 0x34;
const COMMAND_MEMORY_AND_MASTER: u32 = 0b110;
const CAPABILITY_MSIX: u8 = 0x11;
const MSIX_ENABLE: u32 = 1 << 31;

/// Length of an entry in the interrupt table, in bytes.
const MSIX_ENTRY_BYTES: u64 = 16;

/// Configuration space of bus 0, in words. Offsets are multiples of 4.
pub trait ConfigSpace {
    /// Reads a word of the device in `slot`; all ones if the slot is empty.
    fn read(&self, slot: u8, offset: u16) -> u32;
    /// Writes a word of the device in `slot`.
    fn write(&mut self, slot: u8, offset: u16, value: u32);
}

/// Word access to device memory.
pub trait DeviceMemory {
    /// Writes a word at a bus address.
    fn write(&mut self, address: u64, value: u32);
}

/// Addresses assigned to the regions of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BarAddresses {
    /// Address of the registers: one page.
    pub registers: u64,
    /// Address of the interrupt table: a few pages.
    pub interrupts: u64,
    /// Address of the window, aligned to its length.
    pub window: u64,
}

impl BarAddresses {
    /// Distance between the registers of two successive devices.
    pub const REGISTERS_STEP_BYTES: u64 = 4 << 10;
    /// Distance between the interrupt tables of two successive devices.
    pub const INTERRUPTS_STEP_BYTES: u64 = 64 << 10;
    /// Alignment of windows, because boards map each with separate tables.
    pub const WINDOW_UNIT_BYTES: u64 = 1 << 30;

    /// Returns the addresses for the device after the one with these.
    fn next(self, window_bytes: u64) -> BarAddresses {
        BarAddresses {
            registers: self.registers + Self::REGISTERS_STEP_BYTES,
            interrupts: self.interrupts + Self::INTERRUPTS_STEP_BYTES,
            window: self.window + window_bytes.next_multiple_of(Self::WINDOW_UNIT_BYTES),
        }
    }

    /// Returns these addresses with the window aligned to its length, as PCI requires.
    fn aligned(self, window_bytes: u64) -> BarAddresses {
        BarAddresses { window: self.window.next_multiple_of(window_bytes), ..self }
    }
}

/// Message parameters with which a device raises interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MsiConfig {
    /// Address that the message is written to.
    pub address: u64,
    /// Value for vector 0; it increases by one for each further vector.
    pub first: u32,
}

/// Reason why there is no usable window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PciError {
    /// There is no device on the bus.
    #[error("there is no shared-memory device on the PCI bus")]
    NoDevice,
    /// There are more devices than a board supports windows.
    #[error("there are more than {MAX_WINDOWS} shared-memory devices on the PCI bus")]
    TooManyDevices,
    /// The windows need more addresses than the board has for devices.
    #[error("the windows need more than the {0} GiB of addresses that the board has for them")]
    NoAddressSpace(u64),
    /// A memory region is missing or of another type.
    #[error("the shared-memory device has no usable region {0}")]
    NoRegion(u8),
    /// The device has no message-signalled interrupts.
    #[error("the shared-memory device has no message-signalled interrupts")]
    NoInterrupts,
}

/// Device of a window after setup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowDevice {
    /// Addresses of the device's regions.
    pub places: BarAddresses,
    /// Length of the window, in bytes.
    pub window_bytes: u64,
    /// Number of doorbells of the window.
    pub vectors: u16,
}

/// Devices of a board's windows after setup, in slot order.
pub type WindowDevices = [Option<WindowDevice>; MAX_WINDOWS];

/// Finds the devices, assigns addresses to their regions, and programs them to interrupt with `messages`,
/// each device with the values after those of the one before. `places` are the addresses for the first;
/// `space_bytes` is the size of the address range for windows from there on.
///
/// # Errors
/// [`PciError`] names what is missing.
pub fn set_up(
    bus: &mut impl ConfigSpace,
    memory: &mut impl DeviceMemory,
    places: BarAddresses,
    space_bytes: u64,
    messages: MsiConfig,
) -> Result<WindowDevices, PciError> {
    let mut devices = WindowDevices::default();
    let (end, mut places, mut messages) = (places.window + space_bytes, places, messages);
    let mut found = 0;
    for slot in 0..SLOTS {
        if bus.read(slot, 0) != IVSHMEM {
            continue;
        }
        let device = devices.get_mut(found).ok_or(PciError::TooManyDevices)?;
        let window_bytes = region_bytes(bus, slot, 2)?;
        places = places.aligned(window_bytes);
        if end.saturating_sub(places.window) < window_bytes {
            return Err(PciError::NoAddressSpace(space_bytes >> 30));
        }
        let made = set_up_slot(bus, memory, slot, (places, window_bytes), messages)?;
        places = places.next(window_bytes);
        messages.first += u32::from(made.vectors);
        *device = Some(made);
        found += 1;
    }
    if found == 0 { Err(PciError::NoDevice) } else { Ok(devices) }
}

/// Sets up the device in a slot.
fn set_up_slot(
    bus: &mut impl ConfigSpace,
    memory: &mut impl DeviceMemory,
    slot: u8,
    (places, window_bytes): (BarAddresses, u64),
    messages: MsiConfig,
) -> Result<WindowDevice, PciError> {
    let small = [
        (0, places.registers, BarAddresses::REGISTERS_STEP_BYTES),
        (1, places.interrupts, BarAddresses::INTERRUPTS_STEP_BYTES),
    ];
    for (number, address, most_bytes) in small {
        if region_bytes(bus, slot, number)? > most_bytes {
            return Err(PciError::NoRegion(number));
        }
        bus.write(slot, BAR0 + 4 * u16::from(number), address as u32);
    }
    bus.write(slot, BAR0 + 8, places.window as u32);
    bus.write(slot, BAR0 + 12, (places.window >> 32) as u32);
    let command = bus.read(slot, COMMAND) & 0xffff;
    bus.write(slot, COMMAND, command | COMMAND_MEMORY_AND_MASTER);
    let capability = find_capability(bus, slot, CAPABILITY_MSIX).ok_or(PciError::NoInterrupts)?;
    let control = bus.read(slot, capability);
    let table = bus.read(slot, capability + 4);
    let vectors = (control >> 16 & 0x7ff) as u16 + 1;
    if table & 7 != 1 {
        return Err(PciError::NoInterrupts);
    }
    for vector in 0..vectors {
        let entry = places.interrupts + u64::from(table & !7) + MSIX_ENTRY_BYTES * u64::from(vector);
        memory.write(entry, messages.address as u32);
        memory.write(entry + 4, (messages.address >> 32) as u32);
        memory.write(entry + 8, messages.first + u32::from(vector));
        memory.write(entry + 12, 0);
    }
    bus.write(slot, capability, control | MSIX_ENABLE);
    Ok(WindowDevice { places, window_bytes, vectors })
}

/// Returns the length of a memory region, from the address bits that can be written.
fn region_bytes(bus: &mut impl ConfigSpace, slot: u8, number: u8) -> Result<u64, PciError> {
    let offset = BAR0 + 4 * u16::from(number);
    let kind = bus.read(slot, offset);
    let wide = kind & 0b110 == 0b100;
    bus.write(slot, offset, u32::MAX);
    let low = bus.read(slot, offset);
    let mut mask = u64::from(low & !0xf) | u64::from(u32::MAX) << 32;
    if wide {
        bus.write(slot, offset + 4, u32::MAX);
        mask = u64::from(low & !0xf) | u64::from(bus.read(slot, offset + 4)) << 32;
    }
    let length = (!mask).wrapping_add(1);
    // An I/O region, or a missing one, whose address cannot be written.
    if kind & 1 == 1 || low & !0xf == 0 && !wide || length == 0 {
        return Err(PciError::NoRegion(number));
    }
    Ok(length)
}

fn find_capability(bus: &impl ConfigSpace, slot: u8, wanted: u8) -> Option<u16> {
    let mut at = (bus.read(slot, CAPABILITIES) & 0xfc) as u16;
    // Bounded, so that the loop also ends on a circular list of capabilities.
    for _ in 0..48 {
        if at == 0 {
            return None;
        }
        let head = bus.read(slot, at);
        if head as u8 == wanted {
            return Some(at);
        }
        at = (head >> 8 & 0xfc) as u16;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::*;

    const PLACES: BarAddresses =
        BarAddresses { registers: 0x1020_0000, interrupts: 0x1000_0000, window: 0x80_0000_0000 };
    const MESSAGES: MsiConfig = MsiConfig { address: 0x802_0040, first: 80 };

    /// The space that a board has for windows.
    const SPACE_BYTES: u64 = 16 << 30;

    /// A bus with devices by their slots.
    struct Bus(BTreeMap<u8, Device>);

    /// A fake device with these region lengths.
    struct Device {
        words: HashMap<u16, u32>,
        masks: HashMap<u16, u32>,
    }

    impl Device {
        fn new(window_bytes: u64, vectors: u16) -> Device {
            let words = HashMap::from([
                (0, IVSHMEM),
                (COMMAND, 0x0010_0000),
                (0x18, 0b1100),
                (CAPABILITIES, 0x40),
                (0x40, 0x0005_5005),
                (0x50, u32::from(vectors - 1) << 16 | u32::from(CAPABILITY_MSIX)),
                (0x54, 1),
            ]);
            let mask = !(window_bytes - 1);
            let masks = HashMap::from([
                (0x10, !0xff),
                (0x14, !0xfff),
                (0x18, mask as u32 | 0b1100),
                (0x1c, (mask >> 32) as u32),
            ]);
            Device { words, masks }
        }
    }

    impl ConfigSpace for Bus {
        fn read(&self, slot: u8, offset: u16) -> u32 {
            let Some(device) = self.0.get(&slot) else { return u32::MAX };
            device.words.get(&offset).copied().unwrap_or(0)
        }

        fn write(&mut self, slot: u8, offset: u16, value: u32) {
            let device = self.0.get_mut(&slot).expect("a device");
            let mask = device.masks.get(&offset).copied().unwrap_or(u32::MAX);
            let kind = if offset == 0x18 { 0b1100 } else { 0 };
            device.words.insert(offset, value & mask | kind);
        }
    }

    #[derive(Default)]
    struct Memory(HashMap<u64, u32>);

    impl DeviceMemory for Memory {
        fn write(&mut self, address: u64, value: u32) {
            self.0.insert(address, value);
        }
    }

    fn bus(devices: impl IntoIterator<Item = (u8, Device)>) -> Bus {
        Bus(devices.into_iter().collect())
    }

    fn set_up_all(bus: &mut Bus, memory: &mut Memory) -> Result<Vec<WindowDevice>, PciError> {
        let devices = set_up(bus, memory, PLACES, SPACE_BYTES, MESSAGES)?;
        Ok(devices.into_iter().flatten().collect())
    }

    #[test]
    fn a_device_in_any_slot_is_set_up() {
        for (slot, bytes) in [(1, 1 << 20), (31, 16_u64 << 30)] {
            let (mut bus, mut memory) = (bus([(slot, Device::new(bytes, 4))]), Memory::default());
            let devices = set_up_all(&mut bus, &mut memory).unwrap();
            assert_eq!(devices, [WindowDevice { places: PLACES, window_bytes: bytes, vectors: 4 }]);
            let word = |offset| bus.read(slot, offset);
            assert_eq!((word(0x10), word(0x14)), (0x1020_0000, 0x1000_0000));
            assert_eq!((word(0x18) & !0xf, word(0x1c)), (0, 0x80));
            assert_eq!(word(COMMAND) & 0xffff, COMMAND_MEMORY_AND_MASTER);
            assert_eq!(word(0x50) >> 31, 1);
            for vector in 0..4_u64 {
                let entry = |field: u64| memory.0[&(0x1000_0000 + 16 * vector + 4 * field)];
                assert_eq!([entry(0), entry(1), entry(2), entry(3)], [0x802_0040, 0, 80 + vector as u32, 0]);
            }
            assert_eq!(memory.0.len(), 16);
        }
    }

    #[test]
    fn each_device_has_its_own_bars_and_vectors() {
        let sizes = [4_u64 << 20, 2 << 30, 2 << 20];
        let devices = (2..).zip(sizes).map(|(slot, bytes)| (slot, Device::new(bytes, 16)));
        let (mut bus, mut memory) = (bus(devices), Memory::default());
        let devices = set_up_all(&mut bus, &mut memory).unwrap();
        let windows: Vec<u64> = devices.iter().map(|device| device.places.window - PLACES.window).collect();
        assert_eq!(windows, [0, 2 << 30, 4 << 30], "each begins at a multiple of its length and of a GiB");
        for (number, device) in (0..).zip(&devices) {
            assert_eq!(device.places.registers, PLACES.registers + 0x1000 * number);
            assert_eq!(device.places.interrupts, PLACES.interrupts + 0x1_0000 * number);
            let first = memory.0[&(device.places.interrupts + 8)];
            assert_eq!(u64::from(first), 80 + 16 * number, "vector 0 of the device");
        }
    }

    #[test]
    fn errors_name_what_is_missing() {
        let set_up = |device: Device| set_up_all(&mut bus([(1, device)]), &mut Memory::default());
        let device = || Device::new(1 << 20, 1);
        let mut empty = device();
        empty.words.insert(0, 0x1234_1af4);
        assert_eq!(set_up(empty), Err(PciError::NoDevice));
        let mut without = device();
        without.masks.insert(0x10, 0);
        assert_eq!(set_up(without), Err(PciError::NoRegion(0)));
        let mut ports = device();
        ports.words.insert(0x14, 1);
        assert_eq!(set_up(ports), Err(PciError::NoRegion(1)));
        let mut silent = device();
        silent.words.insert(0x50, 0x4005);
        silent.words.insert(0x40, 0x5005);
        assert_eq!(set_up(silent), Err(PciError::NoInterrupts), "a list that goes round in circles");
        let several = |count: u8, bytes| {
            let devices = (0..count).map(|slot| (slot, Device::new(bytes, 1)));
            set_up_all(&mut bus(devices), &mut Memory::default())
        };
        assert_eq!(several(8, 2 << 30).unwrap().len(), 8);
        assert_eq!(several(9, 1 << 20), Err(PciError::TooManyDevices));
        assert_eq!(several(2, 16 << 30), Err(PciError::NoAddressSpace(16)));
    }
}
