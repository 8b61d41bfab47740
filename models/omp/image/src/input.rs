//! Inputs of the linker: objects and their sections, as far as the layout depends on them.

use std::collections::HashMap;

use object::elf::{
    SHF_ALLOC, SHF_EXECINSTR, SHF_MERGE, SHF_TLS, SHF_WRITE, SHT_INIT_ARRAY, SHT_NOTE, SHT_PREINIT_ARRAY,
};
use object::elf::{SHT_FINI_ARRAY, SHT_NOBITS, SHT_PROGBITS};
use object::read::archive::ArchiveFile;
use object::read::elf::{ElfFile64, SectionHeader};
use object::{Architecture, Endianness, Object as _, ObjectSection, ObjectSymbol, SectionFlags, SymbolKind};

use crate::plan::SlotRequest;

/// Whether an object belongs to the program or to a library.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Owner {
    /// Part of the program: all workers share its data.
    Program,
    /// Part of the C library or the run-time: each process has its own data.
    #[default]
    Library,
}

/// Memory area that a section belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Area {
    /// Functions.
    Code,
    /// Constants with a symbol.
    Constants,
    /// Initial values of thread-locals.
    ThreadData,
    /// Zero-initialized thread-locals.
    ThreadZeros,
    /// Variables of libraries.
    PrivateData,
    /// Zero-initialized variables of libraries.
    PrivateZeros,
    /// Variables of the program.
    SharedData,
    /// Zero-initialized variables of the program.
    SharedZeros,
}

impl Area {
    /// All areas, in the order of their addresses.
    pub const ALL: [Area; 8] = [
        Area::Code,
        Area::Constants,
        Area::ThreadData,
        Area::ThreadZeros,
        Area::PrivateData,
        Area::PrivateZeros,
        Area::SharedData,
        Area::SharedZeros,
    ];

    /// Name of the area in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Area::Code => "code",
            Area::Constants => "constants",
            Area::ThreadData => "thread-local data",
            Area::ThreadZeros => "thread-local zeros",
            Area::PrivateData => "private data",
            Area::PrivateZeros => "private zeros",
            Area::SharedData => "shared data",
            Area::SharedZeros => "shared zeros",
        }
    }
}

/// Identity of a section across builds.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Key {
    /// Section of a global symbol.
    Global(String),
    /// Section of a local symbol: object, symbol, and the number of earlier ones of that name.
    Local(String, String, u32),
    /// Section without a symbol at its start: object, section, and the number of earlier ones of that name.
    Section(String, String, u32),
}

impl Key {
    /// Returns the symbol, or the section's name without one.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Key::Global(name) | Key::Local(_, name, _) | Key::Section(_, name, _) => name,
        }
    }
}

/// Section that gets a slot of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section {
    /// Identity of the section in every build.
    pub key: Key,
    /// Area that it belongs to.
    pub area: Area,
    /// Name of the section in its object.
    pub name: String,
    /// Size, in bytes.
    pub size: u64,
    /// Alignment in bytes, a power of two.
    pub align: u64,
    /// Offsets of instructions that must not be among the last two of a 4 KiB page, where early Cortex-A53
    /// may compute a wrong address (erratum 843419). Linkers insert veneers around them, which need space in
    /// the middle of code; the plan avoids such addresses instead.
    pub erratum_offsets: Vec<u64>,
}

impl Section {
    /// Returns the section's request to the planner.
    #[must_use]
    pub fn slot_request(&self) -> SlotRequest {
        SlotRequest {
            key: self.key.clone(),
            area: self.area,
            size: self.size,
            align: self.align,
            erratum_offsets: self.erratum_offsets.clone(),
        }
    }
}

/// Common symbol: a variable declared without a value in one or more objects, which the linker merges into
/// one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Common {
    /// Name of the symbol.
    pub name: String,
    /// Size, in bytes.
    pub size: u64,
    /// Alignment in bytes, a power of two.
    pub align: u64,
}

/// Properties of an object file that planning needs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Object {
    /// Sections that get slots.
    pub sections: Vec<Section>,
    /// Names of sections with unnamed constants, mainly strings, whose addresses differ between builds.
    pub unnamed_constants: Vec<String>,
    /// Upper bound of their size, in bytes.
    pub unnamed_bytes: u64,
    /// Upper bound of the size of unwind tables, in bytes.
    pub unwinding_bytes: u64,
    /// Upper bound of the size of linker-generated sections and initializer arrays, in bytes.
    pub linker_bytes: u64,
    /// Common symbols, which linkers place.
    pub commons: Vec<Common>,
    /// Global symbols that this object defines.
    pub defines: Vec<String>,
    /// Local symbols, each with its section, as an index of `sections`, and its offset there.
    pub locals: Vec<(String, usize, u64)>,
    /// Owner of the object.
    pub owner: Owner,
    /// Name of the object in the builds for all instruction sets.
    pub id: String,
}

/// Errors of reading an object.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ObjectError {
    /// It is not an ELF object, or is damaged.
    #[error("{name} is not an ELF object file: {message}")]
    Malformed {
        /// Path of the file.
        name: String,
        /// Reason that it cannot be read.
        message: String,
    },
    /// It executes code on the stack, which is not executable in images.
    #[error(
        "the program needs an executable stack, in {name}: it takes the address of a nested function, or passes an internal \
         procedure; make that a function of its own"
    )]
    ExecutableStack {
        /// Path of the file.
        name: String,
    },
    /// It contains only the intermediate code of link-time optimisation.
    #[error("{name} was compiled with -flto, and has no code yet: compile it without")]
    LtoOnly {
        /// Path of the file.
        name: String,
    },
}

impl ObjectError {
    /// Replaces the name of the file by one that the user knows.
    #[must_use]
    pub fn with_name(mut self, shown: String) -> Self {
        let (Self::Malformed { name, .. } | Self::ExecutableStack { name } | Self::LtoOnly { name }) =
            &mut self;
        *name = shown;
        self
    }
}

impl Object {
    /// Reads an object. `id` is its name in the builds for all instruction sets.
    ///
    /// # Errors
    /// [`ObjectError`] if the object is malformed or has no code.
    pub fn read(bytes: &[u8], id: &str, owner: Owner) -> Result<Object, ObjectError> {
        let malformed =
            |error: object::Error| ObjectError::Malformed { name: id.to_owned(), message: error.to_string() };
        let file = ElfFile64::<Endianness>::parse(bytes).map_err(malformed)?;
        let mut object = Object { owner, id: id.to_owned(), ..Object::default() };
        let names = section_symbols(&file, &mut object);
        let is_aarch64 = file.architecture() == Architecture::Aarch64;
        let mut seen: HashMap<(bool, String), u32> = HashMap::new();
        let mut indices: HashMap<usize, usize> = HashMap::new();
        for section in file.sections() {
            let name = section.name().map_err(malformed)?;
            if name.starts_with(".gnu.lto_") {
                return Err(ObjectError::LtoOnly { name: id.to_owned() });
            }
            let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
            let kind = section.elf_section_header().sh_type(file.endian());
            let has = |flag: u32| sh_flags & u64::from(flag) != 0;
            if name == ".note.GNU-stack" && has(SHF_EXECINSTR) {
                return Err(ObjectError::ExecutableStack { name: id.to_owned() });
            }
            let first = names.get(&section.index().0);
            if !has(SHF_ALLOC) || (section.size() == 0 && first.is_none()) || kind == SHT_NOTE {
                continue;
            }
            let room = section.size().saturating_add(section.align().max(16));
            let is_array = [SHT_INIT_ARRAY, SHT_FINI_ARRAY, SHT_PREINIT_ARRAY].contains(&kind);
            if name == ".init" || name == ".fini" {
                continue;
            }
            if name.starts_with(".eh_frame") || name.starts_with(".gcc_except_table") {
                object.unwinding_bytes = object.unwinding_bytes.saturating_add(room);
                continue;
            }
            if is_array || !(kind == SHT_PROGBITS || kind == SHT_NOBITS) {
                object.linker_bytes = object.linker_bytes.saturating_add(room);
                continue;
            }
            let constant = !has(SHF_WRITE) && !has(SHF_EXECINSTR);
            if constant && (has(SHF_MERGE) || first.is_none()) {
                object.unnamed_bytes = object.unnamed_bytes.saturating_add(room);
                object.unnamed_constants.push(name.to_owned());
                continue;
            }
            let zeros = kind == SHT_NOBITS;
            let area = match (owner, zeros) {
                _ if has(SHF_EXECINSTR) => Area::Code,
                _ if constant => Area::Constants,
                (_, false) if has(SHF_TLS) => Area::ThreadData,
                (_, true) if has(SHF_TLS) => Area::ThreadZeros,
                // Relocated constants: they do not change, and each process loads them from its own file.
                _ if name.starts_with(".data.rel.ro") => Area::PrivateData,
                // Indirect references of exception tables, which compilers do not emit consistently.
                _ if first.is_some_and(|first| first.symbol.starts_with("DW.ref.")) => Area::PrivateData,
                (Owner::Library, false) if is_process_wide(id) => Area::SharedData,
                (Owner::Library, true) if is_process_wide(id) => Area::SharedZeros,
                (Owner::Library, false) => Area::PrivateData,
                (Owner::Library, true) => Area::PrivateZeros,
                (Owner::Program, false) => Area::SharedData,
                (Owner::Program, true) => Area::SharedZeros,
            };
            let mut nth = |of_symbol, name: &str| {
                let count = seen.entry((of_symbol, name.to_owned())).or_default();
                *count += 1;
                *count - 1
            };
            let key = match first {
                Some(SectionSymbol { symbol, global: true }) => Key::Global(symbol.clone()),
                Some(SectionSymbol { symbol, .. }) => {
                    Key::Local(id.to_owned(), symbol.clone(), nth(true, symbol))
                }
                None => Key::Section(id.to_owned(), name.to_owned(), nth(false, name)),
            };
            indices.insert(section.index().0, object.sections.len());
            object.sections.push(Section {
                key,
                area,
                name: name.to_owned(),
                size: section.size(),
                align: section.align().max(1),
                erratum_offsets: if area == Area::Code && is_aarch64 {
                    find_erratum_offsets(section.data().map_err(malformed)?)
                } else {
                    Vec::new()
                },
            });
        }
        for symbol in
            file.symbols().filter(|symbol| symbol.is_local() && symbol.kind() != SymbolKind::Section)
        {
            let section = symbol.section_index().and_then(|index| indices.get(&index.0));
            if let (Some(section), Ok(name)) = (section, symbol.name()) {
                object.locals.push((name.to_owned(), *section, symbol.address()));
            }
        }
        Ok(object)
    }
}

/// Objects of the C library whose variables a program has only once, on all nodes that its threads run on:
/// the standard streams, the environment pointer, and the state of `rand`.
const SHARED_LIBC_OBJECTS: [&str; 5] = ["stdin.lo", "stdout.lo", "stderr.lo", "__environ.lo", "rand.lo"];

/// Returns whether an object with this id is one of them.
fn is_process_wide(id: &str) -> bool {
    let member = id.strip_prefix("libc.a(").and_then(|rest| rest.split(')').next());
    member.is_some_and(|member| SHARED_LIBC_OBJECTS.contains(&member))
}

/// Symbol that identifies a section.
struct SectionSymbol {
    symbol: String,
    global: bool,
}

/// Offsets at which aarch64 code computes the address of a page (`adrp`), then loads or stores, and within
/// two instructions loads or stores with an offset: the pattern of erratum 843419, irrespective of registers.
fn find_erratum_offsets(code: &[u8]) -> Vec<u64> {
    let words: Vec<u32> =
        code.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect();
    let is_adrp = |word: u32| word & 0x9f00_0000 == 0x9000_0000;
    let is_access = |word: u32| word & 0x0a00_0000 == 0x0800_0000;
    let has_offset = |word: u32| word & 0x3b00_0000 == 0x3900_0000;
    let met = words.windows(3).enumerate().filter(|(at, three)| {
        let fourth = words.get(at + 3).copied().unwrap_or(0);
        is_adrp(three[0]) && is_access(three[1]) && (has_offset(three[2]) || has_offset(fourth))
    });
    met.map(|(at, _)| at as u64 * 4).collect()
}

/// Finds the symbol that identifies each section: one at its start, preferably global.
fn section_symbols(file: &ElfFile64<'_, Endianness>, object: &mut Object) -> HashMap<usize, SectionSymbol> {
    let mut names: HashMap<usize, SectionSymbol> = HashMap::new();
    for symbol in file.symbols() {
        let Ok(name) = symbol.name() else { continue };
        if symbol.is_common() {
            let align = symbol.address().max(1);
            object.commons.push(Common { name: name.to_owned(), size: symbol.size(), align });
            continue;
        }
        if symbol.is_undefined() {
            // At most one entry of the global offset table.
            object.linker_bytes = object.linker_bytes.saturating_add(8);
            continue;
        }
        let global = symbol.is_global() && !symbol.is_weak();
        if symbol.is_global() {
            object.defines.push(name.to_owned());
        }
        let kinds = [SymbolKind::Text, SymbolKind::Data, SymbolKind::Tls, SymbolKind::Unknown];
        // Mapping symbols of the assembler, such as `$x`, do not count.
        if symbol.address() != 0
            || !kinds.contains(&symbol.kind())
            || name.is_empty()
            || name.starts_with('$')
        {
            continue;
        }
        let Some(index) = symbol.section_index() else { continue };
        let fresh = || SectionSymbol { symbol: name.to_owned(), global };
        let known = names.entry(index.0).or_insert_with(fresh);
        // The first by name, because the order of symbols depends on the assembler. Reserved names come last,
        // because they often exist on one processor only.
        let rank = |global: bool, name: &str| (!global, name.starts_with('_'), name.to_owned());
        if rank(known.global, &known.symbol) > rank(global, name) {
            *known = fresh();
        }
    }
    names
}

/// Returns the members of an archive with this name, of which there may be several.
///
/// # Errors
/// [`ObjectError::Malformed`] if it is not an archive or has no such member.
pub fn members<'a>(archive: &'a [u8], path: &str, name: &str) -> Result<Vec<&'a [u8]>, ObjectError> {
    let malformed = |message: String| ObjectError::Malformed { name: path.to_owned(), message };
    let file = ArchiveFile::parse(archive).map_err(|error| malformed(error.to_string()))?;
    let members = file.members().filter_map(Result::ok).filter(|member| member.name() == name.as_bytes());
    let found: Vec<&[u8]> = members
        .map(|member| member.data(archive))
        .collect::<Result<_, _>>()
        .map_err(|error| malformed(error.to_string()))?;
    if found.is_empty() { Err(malformed(format!("it has no member {name}"))) } else { Ok(found) }
}

/// OpenMP and C++ features that parts of a program use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UsedFeatures {
    /// Whether any part calls a function of the run-time, creates a thread, or has thread-local variables,
    /// which involve the run-time.
    pub run_time: bool,
    /// Whether any part calls a function of the C++ library, recognized by its mangled name.
    pub cxx: bool,
    /// Whether any part defines the function that starts a region, and so brings its own run-time.
    pub has_own_run_time: bool,
}

impl UsedFeatures {
    /// Scans an object, or all members of an archive.
    ///
    /// # Errors
    /// [`ObjectError::Malformed`] if it is neither.
    pub fn scan(&mut self, bytes: &[u8], path: &str) -> Result<(), ObjectError> {
        for_each_object(bytes, path, |object| self.scan_object(object))
    }

    fn scan_object(&mut self, bytes: &[u8]) -> Result<(), object::Error> {
        for symbol in ElfFile64::<Endianness>::parse(bytes)?.symbols() {
            let name = symbol.name_bytes().unwrap_or_default();
            if symbol.is_undefined() {
                let own =
                    [&b"GOMP_"[..], b"omp_", b"tombolo_", b"__tombolo_migrate_", b"__tombolo_omp_thread"];
                self.run_time |= own.iter().any(|begin| name.starts_with(begin)) || name == b"pthread_create";
                self.cxx |= [&b"_Z"[..], b"__cxa_", b"__gxx_"].iter().any(|begin| name.starts_with(begin));
            } else {
                self.has_own_run_time |= name == b"GOMP_parallel";
            }
        }
        Ok(())
    }
}

/// Scans an object, or all members of an archive.
pub(crate) fn for_each_object(
    bytes: &[u8],
    path: &str,
    mut look: impl FnMut(&[u8]) -> Result<(), object::Error>,
) -> Result<(), ObjectError> {
    let malformed =
        |error: object::Error| ObjectError::Malformed { name: path.to_owned(), message: error.to_string() };
    if !bytes.starts_with(b"!<arch>") {
        return look(bytes).map_err(malformed);
    }
    for member in ArchiveFile::parse(bytes).map_err(malformed)?.members() {
        let member = member.and_then(|member| member.data(bytes)).map_err(malformed)?;
        look(member).map_err(malformed)?;
    }
    Ok(())
}

/// File that a linker used, as listed in its trace: an object, or an archive member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkedFile {
    /// Object file, by its path.
    Object(String),
    /// Member of an archive: path of the archive and name of the member.
    Member(String, String),
}

/// Parses the output of GNU ld's `-t -t`. Omits lines that are neither objects nor members: archives as such,
/// linker scripts.
#[must_use]
pub fn parse_trace(trace: &str) -> Vec<LinkedFile> {
    let line = |line: &str| {
        if let Some((archive, member)) = line.strip_prefix('(').and_then(|rest| rest.rsplit_once(')')) {
            return Some(LinkedFile::Member(archive.to_owned(), member.to_owned()));
        }
        line.ends_with(".o").then(|| LinkedFile::Object(line.to_owned()))
    };
    trace.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linker_trace_is_parsed() {
        let trace = "a/crt1.o\nlibc.a\n(/x/lib (1)/libc.a)printf.lo\nlinker.ld\nb.o\n";
        let member = |archive: &str, name: &str| LinkedFile::Member(archive.to_owned(), name.to_owned());
        assert_eq!(
            parse_trace(trace),
            [
                LinkedFile::Object("a/crt1.o".to_owned()),
                member("/x/lib (1)/libc.a", "printf.lo"),
                LinkedFile::Object("b.o".to_owned())
            ]
        );
    }

    #[test]
    fn c_library_streams_are_process_wide() {
        for (id, is_one) in [
            ("libc.a(stdout.lo)#1", true),
            ("libc.a(__environ.lo)#1", true),
            ("libc.a(strtok.lo)#1", false),
            ("libx.a(stdout.lo)#1", false),
            ("stdout.lo", false),
        ] {
            assert_eq!(is_process_wide(id), is_one, "{id}");
        }
    }

    #[test]
    fn non_objects_are_refused_by_name() {
        for bytes in [&b""[..], b"\x7fELF", b"!<arch>\n", &[0; 4096]] {
            let error = Object::read(bytes, "x.o", Owner::Program).unwrap_err();
            assert!(error.to_string().starts_with("x.o is not an ELF object file: "), "{error}");
        }
        let error = members(b"nothing", "libx.a", "x.o").unwrap_err();
        assert!(error.to_string().starts_with("libx.a is not an ELF object file"), "{error}");
        assert!(members(b"!<arch>\n", "libx.a", "x.o").unwrap_err().to_string().contains("no member x.o"));
    }

    #[test]
    fn erratum_sequences_are_found() {
        // adrp x0; ldr x1, [x2]; ldr x3, [x0, #8]. Then the same with one instruction in between, and with
        // two.
        let (adrp, ldr, offset, nop) = (0x9000_0000_u32, 0xf940_0041, 0xf940_0403, 0xd503_201f);
        let code =
            [adrp, ldr, offset, nop, adrp, ldr, nop, offset, adrp, nop, ldr, adrp, ldr, nop, nop, offset];
        let bytes: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(find_erratum_offsets(&bytes), [0, 16]);
        assert_eq!(find_erratum_offsets(&bytes[..7]), [0_u64; 0]);
    }
}
