//! Image container: encoding and decoding of sections. The format is specified in `docs/specs/image.md`.

use sha2::{Digest, Sha256};
use tombolo_base::Target;

use super::elf::{self, ElfError};
use super::{ImageId, MAX_IMAGE_BYTES, MAX_NAME_BYTES};

/// Magic number. The last byte stops a terminal from printing the rest; the first is invalid in text, so an
/// image is never run as a shell script.
pub(super) const MAGIC: [u8; 8] = *b"\x89TOMBO\n\x1a";
pub(super) const VERSION: u32 = 1;
pub(super) const HEADER_BYTES: usize = 128;
pub(super) const ENTRY_BYTES: usize = 64;
pub(super) const ALIGN_BYTES: usize = 64;

const ID: std::ops::Range<usize> = 24..56;
const FLAGS: std::ops::Range<usize> = 60..64;

/// Flag of a program that can be ended and restarted elsewhere. Older images do not have it.
const RESTARTABLE: u32 = 1;
const NAME: std::ops::Range<usize> = 64..64 + MAX_NAME_BYTES;

/// Reason why bytes are not a valid image.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FormatError {
    /// Neither the magic number of an image nor that of an executable.
    #[error("it is neither an image made by `tombolo build` nor an ELF executable")]
    NotAnImage,
    /// Made by another version of the format.
    #[error("it is of image format version {found}; this program reads version {VERSION}")]
    Version {
        /// The version in the file.
        found: u32,
    },
    /// The length of the file differs from its header.
    #[error("it is {actual_bytes} bytes long but says {stated_bytes}: cut short, or something was appended")]
    Length {
        /// Length stated in the header.
        stated_bytes: u64,
        /// Length of the file.
        actual_bytes: u64,
    },
    /// A field has a value that no encoder produces.
    #[error("its header is damaged: {0}")]
    Damaged(&'static str),
    /// An instruction set that this version does not know.
    #[error("section {section} is for an instruction set of unknown code {code}")]
    UnknownIsa {
        /// Index of the section, from 0.
        section: usize,
        /// Code in the file.
        code: u32,
    },
    /// Two builds for one instruction set.
    #[error("it has two builds for {0}")]
    DuplicateIsa(Target),
    /// A hash does not fit the bytes it covers.
    #[error("{part} does not have the SHA-256 that the image gives for it: the file is damaged")]
    Hash {
        /// The part that was hashed.
        part: String,
    },
    /// A build is not an executable.
    #[error("its build for {target} cannot run there: {source}")]
    Program {
        /// Target in the section table.
        target: Target,
        /// The defect of the executable.
        source: ElfError,
    },
    /// A build is for another instruction set than the section table states.
    #[error("its build for {declared} is for {actual}")]
    WrongIsa {
        /// Target in the section table.
        declared: Target,
        /// Target according to the ELF header.
        actual: Target,
    },
}

/// Location of a build within the bytes of an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Section {
    pub(super) target: Target,
    pub(super) range: std::ops::Range<usize>,
    pub(super) sha256: [u8; 32],
    pub(super) interpreter: Option<String>,
}

/// Decoded and fully checked contents of an image.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) name: String,
    pub(super) id: ImageId,
    pub(super) restartable: bool,
    pub(super) sections: Vec<Section>,
}

/// Encodes an image of `programs`, which the caller has sorted by instruction set and checked.
pub(super) fn encode(name: &str, restartable: bool, programs: &[(Target, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES + programs.len() * ENTRY_BYTES];
    bytes[0..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&(programs.len() as u32).to_le_bytes());
    bytes[56..60].copy_from_slice(&(name.len() as u32).to_le_bytes());
    let flags = if restartable { RESTARTABLE } else { 0 };
    bytes[FLAGS].copy_from_slice(&flags.to_le_bytes());
    bytes[NAME][..name.len()].copy_from_slice(name.as_bytes());
    for (index, (target, program)) in programs.iter().enumerate() {
        let offset = bytes.len();
        let entry = &mut bytes[HEADER_BYTES + index * ENTRY_BYTES..][..ENTRY_BYTES];
        entry[0..4].copy_from_slice(&u32::from(target.code()).to_le_bytes());
        entry[8..16].copy_from_slice(&(offset as u64).to_le_bytes());
        entry[16..24].copy_from_slice(&(program.len() as u64).to_le_bytes());
        entry[32..64].copy_from_slice(&Sha256::digest(program));
        bytes.extend_from_slice(program);
        bytes.resize(bytes.len().next_multiple_of(ALIGN_BYTES), 0);
    }
    let length = bytes.len() as u64;
    bytes[16..24].copy_from_slice(&length.to_le_bytes());
    let id = hash_of_header(&bytes[..HEADER_BYTES + programs.len() * ENTRY_BYTES]);
    bytes[ID].copy_from_slice(&id);
    bytes
}

/// Returns the image id: SHA-256 of header and section table with the id itself as zeros. The table has the
/// hash of every program, so the id covers the whole content.
fn hash_of_header(header: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(&header[..ID.start]);
    hash.update([0; ID.end - ID.start]);
    hash.update(&header[ID.end..]);
    hash.finalize().into()
}

/// Decodes an image and checks every byte of it.
pub(super) fn decode(bytes: &[u8]) -> Result<Contents, FormatError> {
    let (sections_count, name, restartable) = decode_header(bytes)?;
    let table_end = HEADER_BYTES + sections_count * ENTRY_BYTES;
    let header = bytes.get(..table_end).ok_or(FormatError::Damaged("the section table is cut short"))?;
    let id = hash_of_header(header);
    if header[ID] != id {
        return Err(FormatError::Hash { part: "the header".to_owned() });
    }
    let mut sections: Vec<Section> = Vec::with_capacity(sections_count);
    let mut expected_offset = table_end;
    for (index, entry) in header[HEADER_BYTES..].chunks_exact(ENTRY_BYTES).enumerate() {
        let section = decode_section(bytes, index, entry, expected_offset)?;
        match sections.last() {
            Some(last) if last.target == section.target => {
                return Err(FormatError::DuplicateIsa(section.target));
            }
            Some(last) if last.target > section.target => {
                return Err(FormatError::Damaged("the sections are not in order"));
            }
            _ => {}
        }
        expected_offset = section.range.end.next_multiple_of(ALIGN_BYTES);
        let padding = bytes.get(section.range.end..expected_offset);
        if padding.is_none_or(|padding| padding.iter().any(|byte| *byte != 0)) {
            return Err(FormatError::Damaged("the padding after a section is not zero"));
        }
        sections.push(section);
    }
    if expected_offset != bytes.len() {
        return Err(FormatError::Damaged("there are bytes after the last section"));
    }
    Ok(Contents { name, id: ImageId(id), restartable, sections })
}

/// Decodes the fixed part. Returns the number of sections that follow, the name, and whether the program can
/// be restarted.
fn decode_header(bytes: &[u8]) -> Result<(usize, String, bool), FormatError> {
    if !bytes.starts_with(&MAGIC) {
        return Err(FormatError::NotAnImage);
    }
    let header: &[u8; HEADER_BYTES] =
        bytes.first_chunk().ok_or(FormatError::Damaged("the header is cut short"))?;
    let version = u32_at(header, 8);
    if version != VERSION {
        return Err(FormatError::Version { found: version });
    }
    let (stated_bytes, actual_bytes) = (u64_at(header, 16), bytes.len() as u64);
    if stated_bytes != actual_bytes || actual_bytes > MAX_IMAGE_BYTES {
        return Err(FormatError::Length { stated_bytes, actual_bytes });
    }
    let count = u32_at(header, 12) as usize;
    if !(1..=Target::ALL.len()).contains(&count) {
        return Err(FormatError::Damaged("it has no section, or more than there are targets"));
    }
    let flags = u32_at(header, FLAGS.start);
    if flags & !RESTARTABLE != 0 {
        return Err(FormatError::Damaged("it has a flag that this version does not know"));
    }
    let name_bytes = u32_at(header, 56) as usize;
    let field = &header[NAME];
    if name_bytes > field.len() || field[name_bytes..].iter().any(|byte| *byte != 0) {
        return Err(FormatError::Damaged("the name does not fit its field"));
    }
    match std::str::from_utf8(&field[..name_bytes]) {
        Ok(name) if super::name_is_valid(name) => Ok((count, name.to_owned(), flags & RESTARTABLE != 0)),
        _ => Err(FormatError::Damaged("the name is empty or has characters that no name may have")),
    }
}

fn decode_section(
    bytes: &[u8],
    index: usize,
    entry: &[u8],
    expected_offset: usize,
) -> Result<Section, FormatError> {
    let code = u32_at(entry, 0);
    let target = u8::try_from(code)
        .ok()
        .and_then(Target::from_code)
        .ok_or(FormatError::UnknownIsa { section: index, code })?;
    if entry[4..8] != [0; 4] || entry[24..32] != [0; 8] {
        return Err(FormatError::Damaged("a reserved field of a section is not zero"));
    }
    // Sections are contiguous, so that they cannot overlap or leave gaps with hidden data.
    if u64_at(entry, 8) != expected_offset as u64 {
        return Err(FormatError::Damaged("a section does not begin where the one before it ends"));
    }
    let range = usize::try_from(u64_at(entry, 16))
        .ok()
        .and_then(|length| expected_offset.checked_add(length))
        .map(|end| expected_offset..end)
        .filter(|range| range.end <= bytes.len())
        .ok_or(FormatError::Damaged("a section reaches over the end of the file"))?;
    let program = &bytes[range.clone()];
    let sha256: [u8; 32] = Sha256::digest(program).into();
    if entry[32..64] != sha256 {
        return Err(FormatError::Hash { part: format!("the build for {target}") });
    }
    let executable = elf::inspect(program).map_err(|source| FormatError::Program { target, source })?;
    if executable.target != target {
        return Err(FormatError::WrongIsa { declared: target, actual: executable.target });
    }
    Ok(Section { target, range, sha256, interpreter: executable.interpreter })
}

/// Reads a field of a slice whose length the caller has fixed.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(field)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(field)
}
