use object::elf::PT_DYNAMIC;
use proptest::prelude::*;

use super::*;

#[test]
fn this_test_is_an_executable_for_this_processor() {
    let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let executable = inspect(&bytes).unwrap();
    assert_eq!(executable.target, Isa::current().into());
    let interpreter = executable.interpreter.expect("tests are linked dynamically");
    assert!(interpreter.contains("/ld"), "{interpreter}");
}

#[test]
fn every_isa_is_detected_by_machine_and_byte_order() {
    for isa in Isa::ALL {
        let bytes = smallest(isa);
        assert_eq!(inspect(&bytes), Ok(Executable { target: isa.into(), interpreter: None }));
        let mut swapped = bytes;
        swapped[5] = 3 - swapped[5];
        assert!(matches!(inspect(&swapped), Err(ElfError::UnknownMachine { .. })), "{isa}");
    }
}

#[test]
fn the_notes_of_a_program_are_read() {
    // Linkers add a build id, or the systems that a program is for.
    let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let of_gnu: Vec<Note<'_>> = notes(&bytes).filter(|note| note.owner == b"GNU\0").collect();
    assert!(of_gnu.iter().any(|note| note.kind == 1 || note.kind == 3), "{of_gnu:?}");
}

#[test]
fn non_executable_is_refused_with_the_reason() {
    let good = smallest(Isa::Aarch64);
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        inspect(&bytes).unwrap_err()
    };
    assert_eq!(inspect(b"#!/bin/sh\n"), Err(ElfError::NotElf));
    assert_eq!(inspect(b"\x7fELF"), Err(ElfError::Malformed));
    assert!(matches!(with(4, 1), ElfError::UnknownMachine { .. }), "no such processor has 32 bits");
    assert_eq!(with(4, 3), ElfError::UnknownClass);
    assert_eq!(with(6, 9), ElfError::UnknownClass);
    assert_eq!(with(5, 0), ElfError::Malformed);
    assert_eq!(with(16, 1), ElfError::NotExecutable);
    assert_eq!(with(16, 4), ElfError::NotExecutable);
    assert_eq!(with(56, 0), ElfError::NotExecutable);
    assert_eq!(with(56, 2), ElfError::Malformed);
    assert_eq!(with(54, 1), ElfError::Malformed);
    assert_eq!(with(64, 2), ElfError::NotExecutable);
    assert_eq!(with(64 + 32, 121), ElfError::Malformed);
    assert_eq!(with(39, 0xff), ElfError::Malformed);
    assert_eq!(with(18, 40), ElfError::UnknownMachine { machine: 40, order: "little" });
}

/// Returns an executable with a dynamic section: two libraries and a run path.
fn linked_program(isa: Isa) -> Vec<u8> {
    let mut bytes = smallest(isa);
    bytes.extend([0; 56]);
    let text = b"\0libmpi.so.12\0libc.so.6\0$ORIGIN/lib:/opt\0";
    let dynamic_at = bytes.len() as u64;
    let entries = [
        (DT_NEEDED, 1),
        (DT_NEEDED, 14),
        (DT_RPATH, 14),
        (DT_RUNPATH, 24),
        (DT_STRTAB, 0x40_0000 + dynamic_at + 7 * 16),
        (DT_STRSZ, text.len() as u64),
        (DT_NULL, 0),
    ];
    let length = entries.len() as u64 * 16;
    let number = |value: u64| if isa.big_endian() { value.to_be_bytes() } else { value.to_le_bytes() };
    let put = |bytes: &mut Vec<u8>, at: usize, value: &[u8]| {
        bytes[at..at + value.len()].copy_from_slice(value);
    };
    for (tag, value) in entries {
        bytes.extend(number(tag as u64));
        bytes.extend(number(value));
    }
    bytes.extend(text);
    let all = number(bytes.len() as u64);
    put(&mut bytes, 64 + 16, &number(0x40_0000));
    put(&mut bytes, 64 + 32, &all);
    let kind = if isa.big_endian() { PT_DYNAMIC.to_be_bytes() } else { PT_DYNAMIC.to_le_bytes() };
    put(&mut bytes, 120, &kind);
    put(&mut bytes, 120 + 8, &number(dynamic_at));
    put(&mut bytes, 120 + 32, &number(length));
    let headers = if isa.big_endian() { [0, 2] } else { [2, 0] };
    put(&mut bytes, 56, &headers);
    bytes
}

#[test]
fn libraries_and_folders_are_read_on_every_isa() {
    for isa in Isa::ALL_64_BIT {
        let linked = read_dynamic_links(&linked_program(isa)).unwrap();
        assert_eq!(linked.needed, ["libmpi.so.12", "libc.so.6"], "{isa}");
        assert_eq!(linked.run_path, ["$ORIGIN/lib", "/opt"], "{isa}");
    }
    assert_eq!(read_dynamic_links(&smallest(Isa::Aarch64)), Ok(DynamicLinks::default()));
    let this = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    assert!(read_dynamic_links(&this).unwrap().needed.iter().any(|library| library.starts_with("libc.so")));
}

#[test]
fn dangling_offsets_are_refused() {
    let good = linked_program(Isa::X86_64);
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        read_dynamic_links(&bytes)
    };
    let first_entry = 64 + 2 * 56;
    assert_eq!(with(first_entry + 8, 0xf0), Err(ElfError::Malformed), "a name outside the text");
    assert_eq!(with(first_entry + 4 * 16 + 14, 1), Err(ElfError::Malformed), "a text in no segment");
    assert_eq!(with(first_entry + 5 * 16 + 8, 0xff), Err(ElfError::Malformed), "a text past the end");
    assert_eq!(read_dynamic_links(b"#!/bin/sh\n"), Err(ElfError::NotElf));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        isa in prop::sample::select(Isa::ALL.to_vec()),
        changes in prop::collection::vec((0_usize..120, any::<u8>()), 0..8),
        length in 0_usize..=120,
    ) {
        let mut bytes = smallest(isa);
        for (at, value) in changes {
            bytes[at] = value;
        }
        let _ = inspect(&bytes[..length]);
        assert!(notes(&bytes[..length]).count() <= 120);
    }

    #[test]
    fn no_dynamic_section_makes_it_panic(
        isa in prop::sample::select(Isa::ALL_64_BIT.to_vec()),
        changes in prop::collection::vec((0_usize..330, any::<u8>()), 0..12),
        length in 0_usize..=330,
    ) {
        let mut bytes = linked_program(isa);
        for (at, value) in changes {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        let _ = read_dynamic_links(&bytes[..length.min(bytes.len())]);
    }
}
