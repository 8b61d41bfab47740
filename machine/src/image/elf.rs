//! Inspects ELF files: the nodes that can run them, and the libraries that they are linked with.

use object::Endianness;
use object::elf::{
    DT_NEEDED, DT_NULL, DT_RPATH, DT_RUNPATH, DT_STRSZ, DT_STRTAB, ET_DYN, ET_EXEC, PT_LOAD, PT_NOTE,
};
use object::elf::{FileHeader32, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use tombolo_base::{Isa, Target};
use tombolo_platform_bare::elf::version_in_notes;

/// Reason why no node can run a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ElfError {
    /// The first four bytes are not those of ELF.
    #[error("it is not an ELF file")]
    NotElf,
    /// A field points outside the file, or the file ends early.
    #[error("its ELF header is cut short or points outside the file")]
    Malformed,
    /// Class or version that no supported instruction set uses.
    #[error("it is not an ELF file of version 1, with 32 or 64 bits")]
    UnknownClass,
    /// An object file, a core dump, or a file without loadable segments.
    #[error("it is an ELF file, but not an executable (object file, library without segments or core dump)")]
    NotExecutable,
    /// A program for boards, of an instruction set without boards.
    #[error("it is for a board, and there are no {isa} boards")]
    NoSuchBoard {
        /// The instruction set.
        isa: Isa,
    },
    /// An instruction set that no node can have.
    #[error("it is for ELF machine {machine}, {order}-endian, which Tombolo does not support")]
    UnknownMachine {
        /// The field `e_machine`.
        machine: u16,
        /// `little` or `big`.
        order: &'static str,
    },
}

/// Relevant headers of an executable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Executable {
    /// Nodes that can run it: boards if it has the note of programs for boards, otherwise those with Linux.
    pub target: Target,
    /// Dynamic linker that the node must have, or `None` for a static program.
    pub interpreter: Option<String>,
}

/// Maximum length of a dynamic linker's path, in bytes.
const MAX_INTERPRETER_BYTES: usize = 4096;

/// Maximum number of dynamic section entries examined; programs have a few dozen.
const MAX_ENTRIES: usize = 4096;

/// Maximum length of a library's name or of a list of folders, in bytes.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// Returns whether `bytes` begin like an ELF file.
#[must_use]
pub fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
}

/// Reads the headers of an executable.
///
/// # Errors
/// [`ElfError`]; reads nothing outside `bytes`.
pub fn inspect(bytes: &[u8]) -> Result<Executable, ElfError> {
    match has_32_bits(bytes) {
        true => inspect_file(File::<FileHeader32<Endianness>>::parse(bytes)?),
        false => inspect_file(File::<FileHeader64<Endianness>>::parse(bytes)?),
    }
}

/// Returns whether the file has 32-bit addresses.
fn has_32_bits(bytes: &[u8]) -> bool {
    bytes.get(4) == Some(&1)
}

fn inspect_file<H: FileHeader<Endian = Endianness>>(file: File<'_, H>) -> Result<Executable, ElfError> {
    let bytes = file.bytes;
    let (machine, big_endian) = (file.header.e_machine(file.endian), file.endian == Endianness::Big);
    let isa = Isa::ALL
        .into_iter()
        .filter(|isa| (isa.address_bits() == 64) == file.header.is_type_64())
        .find(|isa| isa.elf_machine() == machine && isa.big_endian() == big_endian)
        .ok_or(ElfError::UnknownMachine { machine, order: if big_endian { "big" } else { "little" } })?;
    // A position-independent executable has the type of a library.
    if !matches!(file.header.e_type(file.endian), ET_EXEC | ET_DYN) {
        return Err(ElfError::NotExecutable);
    }
    let (mut interpreter, mut bare, mut loads) = (None, false, false);
    for segment in file.segments()? {
        let contents = segment.data(file.endian, bytes).map_err(|()| ElfError::Malformed)?;
        loads |= segment.p_type(file.endian) == PT_LOAD;
        bare |= segment.p_type(file.endian) == PT_NOTE && !big_endian && version_in_notes(contents).is_some();
        if let Some(path) = segment.interpreter(file.endian, bytes)? {
            if path.len() > MAX_INTERPRETER_BYTES {
                return Err(ElfError::Malformed);
            }
            interpreter = Some(String::from_utf8_lossy(path).into_owned());
        }
    }
    if !loads {
        return Err(ElfError::NotExecutable);
    }
    let target = Target { bare, isa };
    if Target::from_code(target.code()).is_none() {
        return Err(ElfError::NoSuchBoard { isa });
    }
    Ok(Executable { target, interpreter })
}

/// A note of an executable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Note<'a> {
    /// Name of the owner, including the terminating zero byte.
    pub owner: &'a [u8],
    /// Type, defined by the owner.
    pub kind: u32,
    /// Contents of the note.
    pub value: &'a [u8],
}

/// Returns the notes of an executable, up to the first malformed one of each segment.
pub fn notes(bytes: &[u8]) -> impl Iterator<Item = Note<'_>> {
    let found = match has_32_bits(bytes) {
        true => File::<FileHeader32<Endianness>>::parse(bytes).map(notes_of),
        false => File::<FileHeader64<Endianness>>::parse(bytes).map(notes_of),
    };
    found.unwrap_or_default().into_iter()
}

fn notes_of<H: FileHeader<Endian = Endianness>>(file: File<'_, H>) -> Vec<Note<'_>> {
    let (endian, bytes) = (file.endian, file.bytes);
    let segments = file.segments().unwrap_or_default().iter();
    let of_segments = segments.filter_map(|segment| segment.notes(endian, bytes).ok()?);
    let whole = of_segments.flat_map(|notes| notes.map_while(Result::ok));
    whole
        .map(|note| Note { owner: note.name_bytes(), kind: note.n_type(endian), value: note.desc() })
        .collect()
}

/// Libraries that an executable is linked with.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DynamicLinks {
    /// Names of the libraries, such as `libc.so.6`.
    pub needed: Vec<String>,
    /// Folders that are searched first, verbatim: `$ORIGIN` stands for the folder of the executable.
    pub run_path: Vec<String>,
}

/// Reads the libraries that an executable is linked with; none if it is static.
///
/// # Errors
/// [`ElfError`]; reads nothing outside `bytes`.
pub fn read_dynamic_links(bytes: &[u8]) -> Result<DynamicLinks, ElfError> {
    match has_32_bits(bytes) {
        true => read_file_links(File::<FileHeader32<Endianness>>::parse(bytes)?),
        false => read_file_links(File::<FileHeader64<Endianness>>::parse(bytes)?),
    }
}

fn read_file_links<H: FileHeader<Endian = Endianness>>(file: File<'_, H>) -> Result<DynamicLinks, ElfError> {
    let bytes = file.bytes;
    let mut entries = Default::default();
    for segment in file.segments()? {
        entries = segment.dynamic(file.endian, bytes)?.unwrap_or(entries);
    }
    let (mut needed, mut run_path) = (Vec::new(), None);
    let (mut text_address, mut text_bytes) = (None, 0);
    for entry in entries.iter().take(MAX_ENTRIES) {
        let value: u64 = entry.d_val(file.endian).into();
        match entry.d_tag(file.endian).into() {
            DT_NULL => break,
            DT_NEEDED => needed.push(value),
            DT_STRTAB => text_address = Some(value),
            DT_STRSZ => text_bytes = value,
            // `DT_RUNPATH` overrides the older `DT_RPATH`.
            DT_RUNPATH => run_path = Some(value),
            DT_RPATH => run_path = run_path.or(Some(value)),
            _ => {}
        }
    }
    let Some(address) = text_address else {
        return if needed.is_empty() { Ok(DynamicLinks::default()) } else { Err(ElfError::Malformed) };
    };
    let text = file.loaded(address, text_bytes)?;
    let run_path = run_path.map(|at| string(text, at)).transpose()?.unwrap_or_default();
    Ok(DynamicLinks {
        needed: needed.into_iter().map(|at| string(text, at)).collect::<Result<_, _>>()?,
        run_path: run_path.split(':').filter(|folder| !folder.is_empty()).map(str::to_owned).collect(),
    })
}

/// Returns the zero-terminated string at an offset of a string table.
fn string(text: &[u8], at: u64) -> Result<String, ElfError> {
    let start = usize::try_from(at).map_err(|_| ElfError::Malformed)?;
    let rest = text.get(start..).ok_or(ElfError::Malformed)?;
    let end = rest.iter().take(MAX_TEXT_BYTES).position(|byte| *byte == 0).ok_or(ElfError::Malformed)?;
    Ok(String::from_utf8_lossy(&rest[..end]).into_owned())
}

impl From<object::read::Error> for ElfError {
    fn from(_: object::read::Error) -> ElfError {
        ElfError::Malformed
    }
}

/// An ELF file in either byte order.
#[derive(Clone, Copy)]
struct File<'a, H> {
    bytes: &'a [u8],
    header: &'a H,
    endian: Endianness,
}

impl<'a, H: FileHeader<Endian = Endianness>> File<'a, H> {
    fn parse(bytes: &'a [u8]) -> Result<File<'a, H>, ElfError> {
        if !is_elf(bytes) {
            return Err(ElfError::NotElf);
        }
        let header = H::parse(bytes).map_err(|_| match bytes {
            [_, _, _, _, class, 1 | 2, version, ..] if !matches!((class, version), (1 | 2, 1)) => {
                ElfError::UnknownClass
            }
            _ => ElfError::Malformed,
        })?;
        Ok(File { bytes, header, endian: header.endian()? })
    }

    fn segments(&self) -> Result<&'a [H::ProgramHeader], ElfError> {
        Ok(self.header.program_headers(self.endian, self.bytes)?)
    }

    /// Returns the part of the file that is loaded at an address.
    fn loaded(&self, address: u64, length_bytes: u64) -> Result<&'a [u8], ElfError> {
        for segment in self.segments()?.iter().filter(|segment| segment.p_type(self.endian) == PT_LOAD) {
            let found = segment.data_range(self.endian, self.bytes, address, length_bytes);
            if let Some(bytes) = found.map_err(|()| ElfError::Malformed)? {
                return Ok(bytes);
            }
        }
        Err(ElfError::Malformed)
    }
}

/// Returns the smallest file that is accepted as an executable for `isa`, for tests: a header and one empty
/// segment. It cannot run.
#[must_use]
pub fn smallest(isa: Isa) -> Vec<u8> {
    let mut bytes = vec![0_u8; 120];
    let (is_wide, order) = (isa.address_bits() == 64, if isa.big_endian() { 2 } else { 1 });
    bytes[..8].copy_from_slice(&[0x7f, b'E', b'L', b'F', if is_wide { 2 } else { 1 }, order, 1, 0]);
    let mut put = |at: usize, value: u64, width: usize| {
        let be = value.to_be_bytes();
        let le = value.to_le_bytes();
        let field = if isa.big_endian() { &be[8 - width..] } else { &le[..width] };
        bytes[at..at + width].copy_from_slice(field);
    };
    put(16, 2, 2); // e_type: ET_EXEC
    put(18, isa.elf_machine().into(), 2);
    put(20, 1, 4); // e_version
    // e_phoff, then from e_ehsize on: the sizes of the header and of a program header, and how many.
    let ((offset_at, offset_bytes), sizes_at, header_bytes, segment_bytes) =
        if is_wide { ((32, 8), 52, 64, 56) } else { ((28, 4), 40, 52, 32) };
    put(offset_at, header_bytes, offset_bytes);
    put(sizes_at, header_bytes, 2);
    put(sizes_at + 2, segment_bytes, 2);
    put(sizes_at + 4, 1, 2);
    put(header_bytes as usize, PT_LOAD.into(), 4);
    bytes
}

#[cfg(test)]
mod tests;
