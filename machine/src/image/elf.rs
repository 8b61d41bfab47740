//! The little of an ELF file that an image must know: which processor it is for, and whether it stands alone.

mod dynamic;

use tombolo_base::{Isa, Target};
use tombolo_platform_bare::elf::note as board_note;

pub use dynamic::{Linked, linked};

/// Why bytes are no program that a node can run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ElfError {
    /// The first four bytes are not those of ELF.
    #[error("it is not an ELF file")]
    NotElf,
    /// A field points outside the file, or the file ends early.
    #[error("its ELF header is cut short or points outside the file")]
    Malformed,
    /// Class or version that no supported instruction set uses.
    #[error("it is not a 64-bit ELF file of version 1")]
    NotElf64,
    /// An object file, a core dump, or a file that loads nothing.
    #[error("it is an ELF file, but not an executable (object file, library without segments or core dump)")]
    NotExecutable,
    /// Made for a board of an instruction set that no board has.
    #[error("it is for a board, and there is no board of {isa}")]
    NoSuchBoard {
        /// The instruction set.
        isa: Isa,
    },
    /// An instruction set that no node has.
    #[error("it is for ELF machine {machine}, {order}-endian, which no node has")]
    UnknownMachine {
        /// The field `e_machine`.
        machine: u16,
        /// `little` or `big`.
        order: &'static str,
    },
}

/// What the header of an executable says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Executable {
    /// What it is for: a board, if it has the note that programs for boards have.
    pub target: Target,
    /// The dynamic linker that the node must have, or `None` for a static program.
    pub interpreter: Option<String>,
}

const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
const PROGRAM_HEADER_BYTES: u64 = 56;
const INTERPRETER_MAX_BYTES: u64 = 4096;

/// Whether `bytes` begin like an ELF file.
#[must_use]
pub fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
}

/// Reads the headers of an executable.
///
/// # Errors
/// [`ElfError`] says what is wrong; nothing outside `bytes` is ever looked at.
pub fn inspect(bytes: &[u8]) -> Result<Executable, ElfError> {
    let file = fields(bytes)?;
    let big_endian = file.big_endian;
    let machine = file.u16(18)?;
    let isa = Isa::ALL
        .into_iter()
        .find(|isa| isa.elf_machine() == machine && isa.big_endian() == big_endian)
        .ok_or(ElfError::UnknownMachine { machine, order: if big_endian { "big" } else { "little" } })?;
    // ET_EXEC or ET_DYN: a position-independent executable is of the same type as a library.
    if !matches!(file.u16(16)?, 2 | 3) {
        return Err(ElfError::NotExecutable);
    }
    let Segments { interpreter, bare } = segments(&file)?;
    let target = Target { bare, isa };
    if Target::from_code(target.code()).is_none() {
        return Err(ElfError::NoSuchBoard { isa });
    }
    Ok(Executable { target, interpreter })
}

/// What the program headers say.
#[derive(Default)]
struct Segments {
    interpreter: Option<String>,
    bare: bool,
}

/// Walks the program headers: at least one must be loaded; one may name the dynamic linker.
fn segments(file: &Fields<'_>) -> Result<Segments, ElfError> {
    let (table, count) = (file.u64(32)?, file.u16(56)?);
    if count == 0 {
        return Err(ElfError::NotExecutable);
    }
    if u64::from(file.u16(54)?) != PROGRAM_HEADER_BYTES {
        return Err(ElfError::Malformed);
    }
    let (mut loads, mut found) = (false, Segments::default());
    for index in 0..u64::from(count) {
        let header = table.checked_add(index * PROGRAM_HEADER_BYTES).ok_or(ElfError::Malformed)?;
        let field = |at: u64| header.checked_add(at).ok_or(ElfError::Malformed);
        let (offset, length) = (file.u64(field(8)?)?, file.u64(field(32)?)?);
        let contents = file.range(offset, length)?;
        match file.u32(header)? {
            PT_LOAD => loads = true,
            PT_INTERP if length <= INTERPRETER_MAX_BYTES => {
                let path = contents.split(|byte| *byte == 0).next().unwrap_or_default();
                found.interpreter = Some(String::from_utf8_lossy(path).into_owned());
            }
            PT_INTERP => return Err(ElfError::Malformed),
            PT_NOTE => found.bare |= !file.big_endian && board_note(contents).is_some(),
            _ => {}
        }
    }
    if loads { Ok(found) } else { Err(ElfError::NotExecutable) }
}

/// A note of an executable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Note<'a> {
    /// Who says it, with the zero at its end.
    pub owner: &'a [u8],
    /// What the owner calls such notes.
    pub kind: u32,
    /// What it says.
    pub value: &'a [u8],
}

/// The notes of an executable, as far as they are whole.
pub fn notes(bytes: &[u8]) -> impl Iterator<Item = Note<'_>> {
    let file = Fields { bytes, big_endian: bytes.get(5) == Some(&2) };
    let headers = if is_elf(bytes) { file.u16(56).unwrap_or(0) } else { 0 };
    let table = file.u64(32).unwrap_or(0);
    let segment = move |index: u64| -> Option<(Fields<'_>, u64)> {
        let header = table.checked_add(index * PROGRAM_HEADER_BYTES)?;
        if file.u32(header).ok()? != PT_NOTE {
            return None;
        }
        let (offset, length) =
            (file.u64(header.checked_add(8)?).ok()?, file.u64(header.checked_add(32)?).ok()?);
        let bytes = file.range(offset, length).ok()?;
        // How its parts are aligned: to 8 bytes if it says so, else to 4.
        let align = if file.u64(header.checked_add(48)?).ok()? == 8 { 8 } else { 4 };
        Some((Fields { bytes, ..file }, align))
    };
    (0..u64::from(headers)).filter_map(segment).flat_map(|(notes, align)| {
        let mut at = 0;
        std::iter::from_fn(move || {
            let (note, next) = note_at(&notes, at, align)?;
            at = next;
            Some(note)
        })
    })
}

/// The note at an offset, and the offset of the next one.
fn note_at<'a>(notes: &Fields<'a>, at: u64, align: u64) -> Option<(Note<'a>, u64)> {
    let length = |at| notes.u32(at).ok().map(u64::from);
    let (owner_bytes, value_bytes) = (length(at)?, length(at.checked_add(4)?)?);
    let kind = notes.u32(at.checked_add(8)?).ok()?;
    let owner = notes.range(at.checked_add(12)?, owner_bytes).ok()?;
    let value_at = at.checked_add(12)?.checked_add(owner_bytes)?.checked_next_multiple_of(align)?;
    let value = notes.range(value_at, value_bytes).ok()?;
    let next = value_at.checked_add(value_bytes)?.checked_next_multiple_of(align)?;
    Some((Note { owner, kind, value }, next))
}

/// The fields of a 64-bit ELF file.
fn fields(bytes: &[u8]) -> Result<Fields<'_>, ElfError> {
    if !is_elf(bytes) {
        return Err(ElfError::NotElf);
    }
    let ident: &[u8; 16] = bytes.first_chunk().ok_or(ElfError::Malformed)?;
    let big_endian = match ident[5] {
        1 => false,
        2 => true,
        _ => return Err(ElfError::Malformed),
    };
    if ident[4] != 2 || ident[6] != 1 {
        return Err(ElfError::NotElf64);
    }
    Ok(Fields { bytes, big_endian })
}

/// Numbers in the file's own byte order, each read inside its bounds.
#[derive(Clone, Copy)]
struct Fields<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl<'a> Fields<'a> {
    fn range(&self, offset: u64, length: u64) -> Result<&'a [u8], ElfError> {
        let start = usize::try_from(offset).map_err(|_| ElfError::Malformed)?;
        let length = usize::try_from(length).map_err(|_| ElfError::Malformed)?;
        let end = start.checked_add(length).ok_or(ElfError::Malformed)?;
        self.bytes.get(start..end).ok_or(ElfError::Malformed)
    }

    fn array<const N: usize>(&self, offset: u64) -> Result<[u8; N], ElfError> {
        let mut field = [0; N];
        field.copy_from_slice(self.range(offset, N as u64)?);
        Ok(field)
    }

    fn u16(&self, offset: u64) -> Result<u16, ElfError> {
        let field = self.array(offset)?;
        Ok(if self.big_endian { u16::from_be_bytes(field) } else { u16::from_le_bytes(field) })
    }

    fn u32(&self, offset: u64) -> Result<u32, ElfError> {
        let field = self.array(offset)?;
        Ok(if self.big_endian { u32::from_be_bytes(field) } else { u32::from_le_bytes(field) })
    }

    fn u64(&self, offset: u64) -> Result<u64, ElfError> {
        let field = self.array(offset)?;
        Ok(if self.big_endian { u64::from_be_bytes(field) } else { u64::from_le_bytes(field) })
    }
}

/// The smallest file that counts as an executable for `isa`: a header and one loaded, empty segment. It can be packed and read, for
/// tests, and not run.
#[must_use]
pub fn smallest(isa: Isa) -> Vec<u8> {
    let mut bytes = vec![0_u8; 120];
    bytes[..8].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, if isa.big_endian() { 2 } else { 1 }, 1, 0]);
    let mut put = |at: usize, value: u64, width: usize| {
        let be = value.to_be_bytes();
        let le = value.to_le_bytes();
        let field = if isa.big_endian() { &be[8 - width..] } else { &le[..width] };
        bytes[at..at + width].copy_from_slice(field);
    };
    put(16, 2, 2); // e_type: ET_EXEC
    put(18, isa.elf_machine().into(), 2);
    put(20, 1, 4); // e_version
    put(32, 64, 8); // e_phoff
    put(52, 64, 2); // e_ehsize
    put(54, PROGRAM_HEADER_BYTES, 2);
    put(56, 1, 2); // e_phnum
    put(64, PT_LOAD.into(), 4);
    bytes
}

#[cfg(test)]
mod tests {
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
    fn every_isa_is_told_by_machine_and_byte_order() {
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
        // Whoever links programs puts an id into them, or says which systems they are for.
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let of_gnu: Vec<Note<'_>> = notes(&bytes).filter(|note| note.owner == b"GNU\0").collect();
        assert!(of_gnu.iter().any(|note| note.kind == 1 || note.kind == 3), "{of_gnu:?}");
    }

    #[test]
    fn what_is_no_executable_says_why() {
        let good = smallest(Isa::Aarch64);
        let with = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            inspect(&bytes).unwrap_err()
        };
        assert_eq!(inspect(b"#!/bin/sh\n"), Err(ElfError::NotElf));
        assert_eq!(inspect(b"\x7fELF"), Err(ElfError::Malformed));
        assert_eq!(with(4, 1), ElfError::NotElf64);
        assert_eq!(with(6, 9), ElfError::NotElf64);
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
    }
}
