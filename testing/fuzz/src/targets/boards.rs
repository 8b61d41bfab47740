//! Inputs of a board: programs, its device tree, and its PCI bus.

use std::collections::HashMap;

use tombolo_platform_bare::pci::{self, BarAddresses, ConfigSpace, DeviceMemory, MsiConfig};
use tombolo_platform_bare::{elf, fdt};

use crate::read::Choices;

/// Start of the address range of programs on the board.
const FROM: u64 = 0x4050_0000;
/// End of that range.
const TO: u64 = 0x4060_0000;

/// ELF machine number of the board's processor.
const AARCH64: u16 = 183;

pub(super) fn program(input: &[u8]) {
    match elf::Executable::read(input, AARCH64, FROM, TO) {
        Ok(program) => {
            for segment in program.segments() {
                // The monitor copies the file bytes and clears the rest of the memory without further checks.
                assert!(input.get(segment.offset..segment.offset + segment.file_bytes).is_some());
                assert!(segment.address >= FROM && segment.address + segment.memory_bytes <= TO);
                assert!(segment.file_bytes as u64 <= segment.memory_bytes);
            }
            assert!((FROM..TO).contains(&program.entry) && program.end <= TO);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let _ = elf::version_in_notes(input);
}

pub(super) fn program_seeds() -> Vec<Vec<u8>> {
    let note_at = elf::HEADER_BYTES + 2 * elf::SEGMENT_BYTES;
    let mut bytes = vec![0; note_at];
    bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    let mut put = |at: usize, value: u64, width: usize| {
        bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
    };
    put(16, 2, 2);
    put(18, AARCH64.into(), 2);
    put(24, FROM, 8);
    put(32, elf::HEADER_BYTES as u64, 8);
    put(54, elf::SEGMENT_BYTES as u64, 2);
    put(56, 2, 2);
    // A load segment and a note segment over the same bytes.
    for (index, kind) in [(0, 1), (1, 4)] {
        let head = elf::HEADER_BYTES + index * elf::SEGMENT_BYTES;
        for (offset, value) in [(0, kind), (8, note_at as u64), (24, FROM), (32, 24), (40, 88)] {
            put(head + offset, value, if offset == 0 { 4 } else { 8 });
        }
    }
    [8, 4, elf::NOTE_TYPE].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    bytes.extend(elf::NOTE_OWNER);
    bytes.extend(tombolo_platform_bare::call::VERSION.to_le_bytes());
    assert!(elf::Executable::read(&bytes, AARCH64, FROM, TO).is_ok(), "a seed that is a program");
    vec![bytes]
}

pub(super) fn device_tree(input: &[u8]) {
    if fdt::memory(input).is_some() {
        assert!(fdt::length_bytes(input).is_some());
    }
}

pub(super) fn device_tree_seeds() -> Vec<Vec<u8>> {
    let name = |text: &[u8; 4]| u32::from_be_bytes(*text);
    let (begin, property, nothing, end, done) = (1, 3, 4, 2, 9);
    let mut body = vec![begin, 0, nothing, begin, name(b"intc"), 0, property, 16, 0, 0, 7, 0, 8, end];
    body.extend([begin, name(b"memo"), name(b"ry@4"), 0]);
    body.extend([property, 16, 0, 0, 0x4000_0000, 0, 32 << 20, end, end, done]);
    let (first, strings) = (fdt::HEADER_BYTES as u32, (fdt::HEADER_BYTES + 4 * body.len()) as u32);
    let mut words = vec![0xd00d_feed, strings + 4, first, strings];
    words.resize(fdt::HEADER_BYTES / 4, 0);
    words.extend(body);
    words.push(name(b"reg\0"));
    let tree: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
    assert_eq!(fdt::memory(&tree), Some((0x4000_0000, 32 << 20)), "a seed that is a tree");
    vec![tree]
}

/// Bus with one device. `masks` are the writable bits of its configuration words.
struct Bus {
    words: HashMap<u16, u32>,
    masks: HashMap<u16, u32>,
}

impl ConfigSpace for Bus {
    fn read(&self, slot: u8, offset: u16) -> u32 {
        if slot == 1 { self.words.get(&offset).copied().unwrap_or(0) } else { u32::MAX }
    }

    fn write(&mut self, slot: u8, offset: u16, value: u32) {
        assert_eq!(slot, 1, "a device that is not there was written to");
        let mask = self.masks.get(&offset).copied().unwrap_or(u32::MAX);
        let word = self.words.entry(offset).or_default();
        *word = value & mask | *word & !mask;
    }
}

struct Entries(u64);

impl DeviceMemory for Entries {
    fn write(&mut self, address: u64, _value: u32) {
        assert!(address >= PLACES.interrupts, "{address:#x} is no entry of the table");
        self.0 += 1;
    }
}

const PLACES: BarAddresses =
    BarAddresses { registers: 0x1020_0000, interrupts: 0x1000_0000, window: 0x80_0000_0000 };

/// Size of the address space for windows, in bytes.
const SPACE_BYTES: u64 = 256 << 30;

pub(super) fn pci_bus(input: &[u8]) {
    let mut bus = Bus { words: HashMap::from([(0, 0x1110_1af4)]), masks: HashMap::new() };
    let mut choices = Choices::new(input);
    while !choices.is_empty() {
        let (offset, both) = (u16::from(choices.byte()) & !3, choices.word());
        bus.words.insert(offset, both as u32);
        bus.masks.insert(offset, (both >> 32) as u32);
    }
    let mut entries = Entries(0);
    let messages = MsiConfig { address: 0x802_0040, first: 80 };
    match pci::set_up(&mut bus, &mut entries, PLACES, SPACE_BYTES, messages) {
        Ok(devices) => {
            let mut vectors = 0;
            for device in devices.iter().flatten() {
                assert!(device.window_bytes > 0 && (1..=2048).contains(&device.vectors));
                assert!(device.places.window + device.window_bytes <= PLACES.window + SPACE_BYTES);
                vectors += u64::from(device.vectors);
            }
            assert!(vectors > 0, "a window with doorbells was found");
            assert_eq!(entries.0, 4 * vectors);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

pub(super) fn pci_bus_seeds() -> Vec<Vec<u8>> {
    // Word, then mask: the device, its three regions, and a list of two capabilities.
    let words: [(u8, u32, u32); 9] = [
        (0x00, 0x1110_1af4, 0),
        (0x04, 0x0010_0000, u32::MAX),
        (0x10, 0, !0xff),
        (0x14, 0, !0xfff),
        (0x18, 0b1100, !0xf_ffff),
        (0x34, 0x40, 0),
        (0x40, 0x0005_5005, 0),
        (0x50, 3 << 16 | 0x11, u32::MAX),
        (0x54, 1, 0),
    ];
    let mut seed = Vec::new();
    for (offset, word, mask) in words {
        seed.push(offset);
        seed.extend(word.to_le_bytes());
        seed.extend(mask.to_le_bytes());
    }
    vec![seed]
}
