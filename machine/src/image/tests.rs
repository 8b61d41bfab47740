use proptest::prelude::*;
use sha2::{Digest, Sha256};
use tombolo_base::Isa;

use super::container::{self, ENTRY_BYTES, HEADER_BYTES};
use super::elf::smallest;
use super::*;

fn packed(name: &str, isas: &[Isa]) -> Image {
    let mut builder = ImageBuilder::new(name);
    for isa in isas {
        builder = builder.with_program(smallest(*isa)).unwrap();
    }
    builder.finish().unwrap()
}

fn refusal(bytes: Vec<u8>) -> FormatError {
    match Image::from_bytes("test", bytes) {
        Err(ImageError::Format { source, .. }) => source,
        other => panic!("{other:?}"),
    }
}

/// Returns the image with `change` applied and its header hash recomputed, as a forger would.
fn forged(image: &Image, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = image.as_bytes().to_vec();
    change(&mut bytes);
    let count = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let length = bytes.len() as u64;
    bytes[16..24].copy_from_slice(&length.to_le_bytes());
    let table_end = (HEADER_BYTES + count.min(8) * ENTRY_BYTES).min(bytes.len());
    bytes[24..56].fill(0);
    let id = Sha256::digest(&bytes[..table_end]);
    bytes[24..56].copy_from_slice(&id);
    bytes
}

fn entry(index: usize, field: usize) -> usize {
    HEADER_BYTES + index * ENTRY_BYTES + field
}

#[test]
fn packed_programs_are_read_back() {
    let image = packed("pingpong", &[Isa::S390x, Isa::X86_64, Isa::Aarch64]);
    let read = Image::from_bytes("pingpong.tbi", image.as_bytes().to_vec()).unwrap();
    assert_eq!((read.name(), read.id()), ("pingpong", image.id()));
    assert_eq!(read.targets(), [Isa::X86_64, Isa::Aarch64, Isa::S390x].map(Target::from));
    for program in read.programs() {
        assert_eq!(program.bytes, smallest(program.target.isa));
        assert_eq!(program.sha256, <[u8; 32]>::from(Sha256::digest(program.bytes)));
        assert_eq!(program.interpreter, None);
    }
    assert_eq!(read.program(Isa::S390x).unwrap().target, Isa::S390x.into());
}

#[test]
fn restartable_flag_is_stored() {
    let plain = packed("x", &[Isa::Aarch64]);
    let builder = ImageBuilder::new("x").with_program(smallest(Isa::Aarch64)).unwrap();
    let image = builder.restartable(true).finish().unwrap();
    assert!(!plain.is_restartable() && image.is_restartable());
    assert_ne!(plain.id(), image.id());
    assert_eq!(image.as_bytes()[60..64], [1, 0, 0, 0]);
    assert!(Image::from_bytes("x.tbi", image.as_bytes().to_vec()).unwrap().is_restartable());
    // An image from before there were flags has a different id, and is read as before.
    assert_eq!(plain.as_bytes()[60..64], [0; 4]);
    assert!(!Image::from_bytes("x", smallest(Isa::Aarch64)).unwrap().is_restartable());
    let unknown = refusal(forged(&image, |bytes| bytes[60] = 3));
    assert_eq!(unknown, FormatError::Damaged("it has a flag that this version does not know"));
}

/// Returns the smallest executable with the note of a program for boards.
fn smallest_bare(isa: Isa) -> Vec<u8> {
    let mut bytes = smallest(isa);
    let note =
        [&8_u32.to_le_bytes()[..], &4_u32.to_le_bytes(), &1_u32.to_le_bytes(), b"Tombolo\0", &[1, 0, 0, 0]];
    let (note, at) = (note.concat(), 176_u64);
    bytes[56] = 2;
    bytes.resize(at as usize, 0);
    bytes[120] = 4; // PT_NOTE
    bytes[128..136].copy_from_slice(&at.to_le_bytes());
    bytes[152..160].copy_from_slice(&(note.len() as u64).to_le_bytes());
    bytes.extend(note);
    bytes
}

#[test]
fn board_program_is_detected_by_its_note() {
    let both = ImageBuilder::new("x").with_program(smallest_bare(Isa::Aarch64)).unwrap();
    let image = both.with_program(smallest(Isa::Aarch64)).unwrap().finish().unwrap();
    let (linux, bare) = (Target::linux(Isa::Aarch64), Target::bare(Isa::Aarch64));
    assert_eq!(image.targets(), [linux, bare]);
    assert_eq!(image.program(bare).unwrap().bytes, smallest_bare(Isa::Aarch64));
    assert_eq!(image.program(Isa::Aarch64).unwrap().bytes, smallest(Isa::Aarch64));
    let error = elf::inspect(&smallest_bare(Isa::X86_64)).unwrap_err();
    assert_eq!(error, ElfError::NoSuchBoard { isa: Isa::X86_64 });
}

#[test]
fn missing_build_lists_the_available_ones() {
    let error = packed("pingpong", &[Isa::X86_64, Isa::Aarch64]).program(Isa::S390x).unwrap_err();
    assert_eq!(
        error.to_string(),
        "image `pingpong` has no build for s390x, only for x86_64, aarch64; \
         build it with `tombolo build --isa s390x`"
    );
}

#[test]
fn image_id_depends_on_the_content() {
    let one = packed("a", &[Isa::X86_64]);
    assert_eq!(one.id(), packed("a", &[Isa::X86_64]).id());
    assert_ne!(one.id(), packed("b", &[Isa::X86_64]).id());
    assert_ne!(one.id(), packed("a", &[Isa::Aarch64]).id());
    assert_ne!(one.id(), packed("a", &[Isa::X86_64, Isa::Aarch64]).id());
}

/// Returns the bytes shown in the specification: its dump, with the omitted lines of zeros restored.
fn golden_bytes() -> Vec<u8> {
    let specification = include_str!("../../../docs/specs/image.md");
    let dump = specification.split("```").nth(1).unwrap();
    let mut bytes = vec![0; 512];
    for line in dump.lines().filter(|line| !line.is_empty()) {
        let (offset, rest) = line.split_at(3);
        let offset = usize::from_str_radix(offset, 16).unwrap();
        let hex = rest.split_whitespace().map_while(|word| u8::from_str_radix(word, 16).ok());
        for (at, byte) in hex.take(16).enumerate() {
            bytes[offset + at] = byte;
        }
    }
    bytes
}

#[test]
fn image_bytes_match_the_golden_ones() {
    let image = packed("golden", &[Isa::Aarch64, Isa::S390x]);
    assert_eq!(image.as_bytes(), golden_bytes());
    assert_eq!(image.id().to_string(), "22af0e1296833fa8641e394a089e2fbf15fc0dfe4397121fb3281808a04c0dc9");
}

#[test]
fn every_damaged_byte_is_detected() {
    let image = packed("x", &[Isa::X86_64, Isa::Riscv64]);
    for at in 0..image.as_bytes().len() {
        let mut bytes = image.as_bytes().to_vec();
        bytes[at] ^= 0x10;
        assert!(Image::from_bytes("x", bytes).is_err(), "byte {at}");
    }
    for length in 0..image.as_bytes().len() {
        assert!(Image::from_bytes("x", image.as_bytes()[..length].to_vec()).is_err(), "length {length}");
    }
}

#[test]
fn length_and_version_errors_are_specific() {
    let image = packed("x", &[Isa::X86_64]);
    let mut longer = image.as_bytes().to_vec();
    longer.push(0);
    assert_eq!(refusal(longer), FormatError::Length { stated_bytes: 320, actual_bytes: 321 });
    assert_eq!(refusal(forged(&image, |bytes| bytes[8] = 2)), FormatError::Version { found: 2 });
    assert_eq!(refusal(b"#!/bin/sh".to_vec()), FormatError::NotAnImage);
    assert_eq!(refusal(Vec::new()), FormatError::NotAnImage);
}

#[test]
fn forged_sections_are_refused() {
    let image = packed("x", &[Isa::X86_64, Isa::Aarch64]);
    let section = |index, field, value: u64, width: usize| {
        refusal(forged(&image, |bytes| {
            let at = entry(index, field);
            bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
        }))
    };
    let gap = FormatError::Damaged("a section does not begin where the one before it ends");
    // Overlapping, in the header, out of the file, at the end of the numbers.
    for offset in [256, 0, 384 + 64, u64::MAX] {
        assert_eq!(section(1, 8, offset, 8), gap, "{offset}");
    }
    let over = FormatError::Damaged("a section reaches over the end of the file");
    for length in [129, u64::MAX, u64::MAX - 383] {
        assert_eq!(section(1, 16, length, 8), over, "{length}");
    }
    assert_eq!(section(0, 0, 9, 4), FormatError::UnknownIsa { section: 0, code: 9 });
    assert_eq!(section(0, 0, 0x101, 4), FormatError::UnknownIsa { section: 0, code: 0x101 });
    assert_eq!(
        section(1, 0, 1, 4),
        FormatError::WrongIsa { declared: Isa::X86_64.into(), actual: Isa::Aarch64.into() }
    );
    assert_eq!(section(1, 4, 1, 4), FormatError::Damaged("a reserved field of a section is not zero"));
    assert_eq!(section(1, 24, 1, 8), FormatError::Damaged("a reserved field of a section is not zero"));
    assert_eq!(section(1, 32, 1, 8), FormatError::Hash { part: "the build for aarch64".to_owned() });
}

#[test]
fn sections_are_sorted_and_each_isa_comes_once() {
    let (x86, arm) = (smallest(Isa::X86_64), smallest(Isa::Aarch64));
    let twice = container::encode("x", false, &[(Isa::X86_64.into(), &x86), (Isa::X86_64.into(), &x86)]);
    assert_eq!(refusal(twice), FormatError::DuplicateIsa(Isa::X86_64.into()));
    let backwards = container::encode("x", false, &[(Isa::Aarch64.into(), &arm), (Isa::X86_64.into(), &x86)]);
    assert_eq!(refusal(backwards), FormatError::Damaged("the sections are not in order"));
    let mislabelled = container::encode("x", false, &[(Isa::S390x.into(), &arm)]);
    assert_eq!(
        refusal(mislabelled),
        FormatError::WrongIsa { declared: Isa::S390x.into(), actual: Isa::Aarch64.into() }
    );
    let no_elf = container::encode("x", false, &[(Isa::S390x.into(), b"#!/bin/sh")]);
    assert_eq!(refusal(no_elf), FormatError::Program { target: Isa::S390x.into(), source: ElfError::NotElf });
}

#[test]
fn forged_headers_are_refused() {
    let image = packed("x", &[Isa::X86_64]);
    let damaged =
        |change: fn(&mut Vec<u8>)| matches!(refusal(forged(&image, change)), FormatError::Damaged(_));
    assert!(damaged(|bytes| bytes[12] = 0), "no section");
    assert!(damaged(|bytes| bytes[12] = 5), "more sections than instruction sets");
    assert!(damaged(|bytes| bytes[60] = 2), "a flag to come");
    assert!(damaged(|bytes| bytes[56] = 0), "empty name");
    assert!(damaged(|bytes| bytes[56] = 65), "name longer than its field");
    assert!(damaged(|bytes| bytes[70] = b'y'), "text after the name");
    assert!(damaged(|bytes| bytes[64] = 0xff), "name that is no UTF-8");
    assert!(damaged(|bytes| bytes[64] = b'/'), "name with a slash");
    assert!(damaged(|bytes| bytes[64] = 0x1b), "name that a terminal obeys");
    assert!(damaged(|bytes| bytes[319] = 1), "padding");
    assert!(damaged(|bytes| bytes.extend([0; 64])), "more than the sections");
}

#[test]
fn bare_executable_equals_its_packed_image() {
    let bare = Image::from_bytes("/opt/bin/hello.elf", smallest(Isa::Riscv64)).unwrap();
    let built = packed("hello", &[Isa::Riscv64]);
    assert_eq!((bare.name(), bare.id(), bare.as_bytes()), ("hello", built.id(), built.as_bytes()));
}

#[test]
fn errors_name_the_file() {
    let missing = Image::open(Path::new("/nonexistent/x.tbi")).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read image /nonexistent/x.tbi: "), "{missing}");
    let device = Image::open(Path::new("/dev/null")).unwrap_err().to_string();
    assert_eq!(device, "cannot read image /dev/null: it is not a regular file");
    let not_one =
        Image::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap_err().to_string();
    assert!(
        not_one.ends_with("it is neither an image made by `tombolo build` nor an ELF executable"),
        "{not_one}"
    );
    let object = Image::from_bytes("x.o", b"\x7fELF".to_vec()).unwrap_err().to_string();
    assert_eq!(
        object,
        "`x.o` cannot run on any node: its ELF header is cut short or points outside the file"
    );
    let empty = ImageBuilder::new("x").finish().unwrap_err().to_string();
    assert!(empty.contains("it has no section"), "{empty}");
}

#[test]
fn names_are_sanitized_to_fit() {
    let name = |text: &str| ImageBuilder::new(text).name;
    assert_eq!(name(""), "_");
    assert_eq!(name("a/b\n"), "a_b_");
    assert_eq!(name(&"ä".repeat(40)), "ä".repeat(32));
    assert_eq!(name(&format!("a{}", "ä".repeat(32))).len(), 63);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn any_programs_survive_packing(name in "[^/\\pC]{1,16}", tails in prop::collection::vec(0_usize..200, 4)) {
        let mut builder = ImageBuilder::new(&name);
        for (isa, tail) in Isa::ALL.into_iter().zip(&tails) {
            let mut elf = smallest(isa);
            elf.resize(elf.len() + tail, 0xa5);
            builder = builder.with_program(elf).unwrap();
        }
        let image = builder.finish().unwrap();
        let read = Image::from_bytes("copy", image.as_bytes().to_vec()).unwrap();
        prop_assert_eq!(read.name(), name);
        for (program, tail) in read.programs().zip(tails) {
            prop_assert_eq!(program.bytes.len(), 120 + tail);
        }
    }

    #[test]
    fn forged_image_never_panics_or_misreads(
        changes in prop::collection::vec((0_usize..512, any::<u8>()), 1..6),
        words in prop::collection::vec((0_usize..32, any::<u64>()), 0..3),
        length in 128_usize..600,
    ) {
        let image = packed("x", &[Isa::X86_64, Isa::Aarch64]);
        let bytes = forged(&image, |bytes| {
            for (word, value) in words {
                bytes[word * 8..word * 8 + 8].copy_from_slice(&value.to_le_bytes());
            }
            for (at, value) in changes {
                bytes[at] = value;
            }
            bytes.resize(length, 0);
        });
        if let Ok(image) = Image::from_bytes("x", bytes) {
            for program in image.programs() {
                prop_assert_eq!(elf::inspect(program.bytes).unwrap().target, program.target);
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), image: bool) {
        let mut bytes = bytes;
        if image && bytes.len() >= 16 {
            bytes[..12].copy_from_slice(b"\x89TOMBO\n\x1a\x01\0\0\0");
        }
        let _ = Image::from_bytes("x", bytes);
    }
}
