//! Programs for a board: static ELF executables with fixed addresses and a note that identifies them.
//!
//! The note distinguishes a program for a board from a Linux program of the same instruction set, which no
//! header field does: owner [`NOTE_OWNER`], type [`NOTE_TYPE`], and the [version of the
//! calls](crate::call::VERSION).

/// Owner name of the note.
pub const NOTE_OWNER: &[u8; 8] = b"Tombolo\0";
/// Type number of the note.
pub const NOTE_TYPE: u32 = 1;

/// Length of an ELF header, in bytes.
pub const HEADER_BYTES: usize = 64;
/// Length of a program header, in bytes.
pub const SEGMENT_BYTES: usize = 56;
/// Maximum number of program headers.
pub const MAX_SEGMENTS: usize = 16;

const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;

/// Reason why a program cannot run on the board.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum LoadError {
    /// The headers are malformed or point outside the file.
    #[error("the program is not a complete ELF executable")]
    Malformed,
    /// The program is for another processor.
    #[error("the program is for ELF machine {found}; this board is {expected}")]
    Machine { found: u16, expected: u16 },
    /// The note is missing, or has another version.
    #[error(
        "the program is not built for boards, or for another version than {}; rebuild it",
        crate::call::VERSION
    )]
    NotForBoards,
    /// A segment lies outside the memory for programs.
    #[error(
        "the program needs the addresses {address:#x}..+{length_bytes:#x}, but programs have {from:#x}..{to:#x}; \
         give the node more memory (`memory_mib`)"
    )]
    OutsideProgramMemory { address: u64, length_bytes: u64, from: u64, to: u64 },
}

/// Loadable segment of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Offset in the file, in bytes.
    pub offset: usize,
    /// Length in the file, in bytes.
    pub file_bytes: usize,
    /// Address in memory.
    pub address: u64,
    /// Length in memory, in bytes; bytes beyond the file's are zero.
    pub memory_bytes: u64,
}

/// Program whose addresses have been checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Executable {
    /// Address of the first instruction.
    pub entry: u64,
    /// First address after the program.
    pub end: u64,
    segments: [Option<Segment>; MAX_SEGMENTS],
}

impl Executable {
    /// Parses the headers of `file`, a program for ELF machine `machine` that may use the addresses
    /// `from..to`.
    ///
    /// # Errors
    /// [`LoadError`]; nothing outside `file` was read.
    pub fn read(file: &[u8], machine: u16, from: u64, to: u64) -> Result<Executable, LoadError> {
        let header = file.first_chunk::<HEADER_BYTES>().ok_or(LoadError::Malformed)?;
        // 64 bits, little-endian, version 1, and of type EXEC.
        if !header.starts_with(b"\x7fELF\x02\x01\x01") || read_u16(header, 16)? != 2 {
            return Err(LoadError::Malformed);
        }
        let found = read_u16(header, 18)?;
        if found != machine {
            return Err(LoadError::Machine { found, expected: machine });
        }
        let (table, count) = (read_usize(header, 32)?, usize::from(read_u16(header, 56)?));
        if usize::from(read_u16(header, 54)?) != SEGMENT_BYTES || count > MAX_SEGMENTS {
            return Err(LoadError::Malformed);
        }
        let mut program =
            Executable { entry: read_u64(header, 24)?, end: from, segments: [None; MAX_SEGMENTS] };
        let mut version = None;
        for index in 0..count {
            let start = table.checked_add(index * SEGMENT_BYTES).ok_or(LoadError::Malformed)?;
            let head = slice_at(file, start, SEGMENT_BYTES)?;
            let (offset, file_bytes) = (read_usize(head, 8)?, read_usize(head, 32)?);
            let contents = slice_at(file, offset, file_bytes)?;
            match read_u32(head, 0)? {
                PT_LOAD => {
                    let segment = Segment {
                        offset,
                        file_bytes,
                        address: read_u64(head, 24)?,
                        memory_bytes: read_u64(head, 40)?,
                    };
                    program.check_segment(segment, from, to)?;
                    program.segments[index] = Some(segment);
                }
                PT_NOTE => version = version.or(version_in_notes(contents)),
                _ => {}
            }
        }
        if version != Some(crate::call::VERSION) {
            return Err(LoadError::NotForBoards);
        }
        let contains_entry = |segment: &Segment| {
            (segment.address..segment.address + segment.memory_bytes).contains(&program.entry)
        };
        if program.segments().any(|segment| contains_entry(&segment)) {
            Ok(program)
        } else {
            Err(LoadError::Malformed)
        }
    }

    /// Returns the segments to load.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        self.segments.iter().flatten().copied()
    }

    fn check_segment(&mut self, segment: Segment, from: u64, to: u64) -> Result<(), LoadError> {
        let Segment { address, memory_bytes, file_bytes, .. } = segment;
        let outside = LoadError::OutsideProgramMemory { address, length_bytes: memory_bytes, from, to };
        let end = address.checked_add(memory_bytes).ok_or(outside)?;
        if address < from || end > to {
            return Err(outside);
        }
        if file_bytes as u64 > memory_bytes {
            return Err(LoadError::Malformed);
        }
        self.end = self.end.max(end);
        Ok(())
    }
}

/// Returns the version in the Tombolo note among `notes`.
#[must_use]
pub fn version_in_notes(notes: &[u8]) -> Option<u32> {
    let mut rest = notes;
    loop {
        let (owner_bytes, value_bytes) = (read_u32(rest, 0).ok()? as usize, read_u32(rest, 4).ok()? as usize);
        let kind = read_u32(rest, 8).ok()?;
        let value = 12_usize.checked_add(owner_bytes.checked_next_multiple_of(4)?)?;
        let owner = rest.get(12..12_usize.checked_add(owner_bytes)?)?;
        if owner == NOTE_OWNER && kind == NOTE_TYPE && value_bytes == 4 {
            return read_u32(rest, value).ok();
        }
        rest = rest.get(value.checked_add(value_bytes.checked_next_multiple_of(4)?)?..)?;
    }
}

fn slice_at(bytes: &[u8], at: usize, length: usize) -> Result<&[u8], LoadError> {
    at.checked_add(length).and_then(|end| bytes.get(at..end)).ok_or(LoadError::Malformed)
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], LoadError> {
    slice_at(bytes, at, N)?.try_into().map_err(|_| LoadError::Malformed)
}

fn read_u16(bytes: &[u8], at: usize) -> Result<u16, LoadError> {
    Ok(u16::from_le_bytes(array_at(bytes, at)?))
}

fn read_u32(bytes: &[u8], at: usize) -> Result<u32, LoadError> {
    Ok(u32::from_le_bytes(array_at(bytes, at)?))
}

fn read_u64(bytes: &[u8], at: usize) -> Result<u64, LoadError> {
    Ok(u64::from_le_bytes(array_at(bytes, at)?))
}

fn read_usize(bytes: &[u8], at: usize) -> Result<usize, LoadError> {
    usize::try_from(read_u64(bytes, at)?).map_err(|_| LoadError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: u16 = 183;
    const FROM: u64 = 0x4050_0000;
    const TO: u64 = 0x4060_0000;
    /// Offset of the note's value in the smallest program.
    const VERSION_AT: usize = HEADER_BYTES + 2 * SEGMENT_BYTES + 20;

    /// Returns a program of one segment, which is its own note, loaded at `FROM` with 64 bytes of zeros after
    /// it.
    fn smallest() -> Vec<u8> {
        let note_at = (HEADER_BYTES + 2 * SEGMENT_BYTES) as u64;
        let mut bytes = vec![0; HEADER_BYTES + 2 * SEGMENT_BYTES];
        bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        let mut put = |at: usize, value: u64, width: usize| {
            bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
        };
        put(16, 2, 2);
        put(18, MACHINE.into(), 2);
        put(24, FROM, 8);
        put(32, HEADER_BYTES as u64, 8);
        put(54, SEGMENT_BYTES as u64, 2);
        put(56, 2, 2);
        for (index, kind) in [(0, PT_LOAD), (1, PT_NOTE)] {
            let head = HEADER_BYTES + index * SEGMENT_BYTES;
            put(head, kind.into(), 4);
            put(head + 8, note_at, 8);
            put(head + 24, FROM, 8);
            put(head + 32, 24, 8);
            put(head + 40, 88, 8);
        }
        for read_u32 in [8, 4, NOTE_TYPE] {
            bytes.extend(read_u32.to_le_bytes());
        }
        bytes.extend(NOTE_OWNER);
        bytes.extend(crate::call::VERSION.to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Executable, LoadError> {
        Executable::read(bytes, MACHINE, FROM, TO)
    }

    #[test]
    fn segments_are_read_from_the_headers() {
        let program = read(&smallest()).unwrap();
        assert_eq!((program.entry, program.end), (FROM, FROM + 88));
        let segment = Segment { offset: VERSION_AT - 20, file_bytes: 24, address: FROM, memory_bytes: 88 };
        assert!(program.segments().eq([segment]));
    }

    #[test]
    fn unloadable_programs_are_refused_with_the_reason() {
        let with = |at: usize, value: u8| {
            let mut bytes = smallest();
            bytes[at] = value;
            read(&bytes).unwrap_err()
        };
        assert_eq!(with(18, 243), LoadError::Machine { found: 243, expected: MACHINE });
        assert_eq!(with(VERSION_AT, 9), LoadError::NotForBoards);
        assert_eq!(with(HEADER_BYTES + SEGMENT_BYTES, 7), LoadError::NotForBoards);
        assert_eq!(with(16, 3), LoadError::Malformed);
        assert_eq!(with(5, 2), LoadError::Malformed);
        assert_eq!(with(56, 17), LoadError::Malformed);
        assert_eq!(with(26, 0), LoadError::Malformed, "an entry outside");
        assert!(matches!(with(HEADER_BYTES + 27, 0), LoadError::OutsideProgramMemory { .. }));
        assert!(matches!(with(HEADER_BYTES + 42, 0x10), LoadError::OutsideProgramMemory { .. }));
        assert_eq!(with(HEADER_BYTES + 40, 23), LoadError::Malformed, "more in the file than in memory");
        assert_eq!(read(&smallest()[..100]), Err(LoadError::Malformed));
    }

    #[test]
    fn the_last_address_is_a_limit() {
        for (bytes, fits) in [(TO - FROM - 1, true), (TO - FROM, true), (TO - FROM + 1, false)] {
            let mut program = smallest();
            program[HEADER_BYTES + 40..HEADER_BYTES + 48].copy_from_slice(&bytes.to_le_bytes());
            assert_eq!(read(&program).is_ok(), fits, "{bytes}");
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(
            changes in proptest::collection::vec((0_usize..200, 0_u8..=255), 0..8), length in 0_usize..=200,
        ) {
            let mut bytes = smallest();
            for (at, value) in changes {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            let _ = read(&bytes[..length.min(bytes.len())]);
        }
    }
}
