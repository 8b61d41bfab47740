//! What a program is linked of: objects and their sections, as far as laying them out takes.

use std::collections::HashMap;

use object::elf::{
    SHF_ALLOC, SHF_EXECINSTR, SHF_MERGE, SHF_TLS, SHF_WRITE, SHT_INIT_ARRAY, SHT_NOTE, SHT_PREINIT_ARRAY,
};
use object::elf::{SHT_FINI_ARRAY, SHT_NOBITS, SHT_PROGBITS};
use object::read::archive::ArchiveFile;
use object::read::elf::{ElfFile64, SectionHeader};
use object::{Architecture, Endianness, Object as _, ObjectSection, ObjectSymbol, SectionFlags, SymbolKind};

use crate::plan::Wanted;

/// Whether an object belongs to the program or to a library.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Owner {
    /// The program's: its data are shared by all workers.
    Program,
    /// The C library's or the run-time's: each process has state of its own.
    #[default]
    Library,
}

/// Where in memory a section belongs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Area {
    /// Functions.
    Code,
    /// Constants that have a name.
    Constants,
    /// Initial values of thread-locals.
    ThreadData,
    /// Thread-locals that start as zeros.
    ThreadZeros,
    /// Variables of libraries.
    PrivateData,
    /// Those that start as zeros.
    PrivateZeros,
    /// Variables of the program.
    SharedData,
    /// Those that start as zeros.
    SharedZeros,
}

impl Area {
    /// All, in the order of their addresses.
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

    /// What reports call it.
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

/// What is the same thing in every build.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Key {
    /// The section of a symbol that all objects see.
    Global(String),
    /// The section of a symbol of one object, by object, symbol, and how many of that name came before.
    Local(String, String, u32),
    /// A section without a symbol at its beginning, by object, section, and how many of that name came
    /// before.
    Section(String, String, u32),
}

impl Key {
    /// The symbol, or else the section.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Key::Global(name) | Key::Local(_, name, _) | Key::Section(_, name, _) => name,
        }
    }
}

/// A section that has a place of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section {
    /// What it is in every build.
    pub key: Key,
    /// Where it belongs.
    pub area: Area,
    /// As the linker knows it.
    pub name: String,
    /// In bytes.
    pub size: u64,
    /// In bytes, a power of two.
    pub align: u64,
    /// Offsets of instructions that must not be one of the last two of a page of 4 KiB, where early
    /// Cortex-A53 may compute a wrong address (erratum 843419). Linkers build detours around them, which need
    /// room in the middle of code; here they are not put there.
    pub not_at_ends: Vec<u64>,
}

impl Section {
    /// What a plan has to know of it.
    #[must_use]
    pub fn wanted(&self) -> Wanted {
        Wanted {
            key: self.key.clone(),
            area: self.area,
            size: self.size,
            align: self.align,
            not_at_ends: self.not_at_ends.clone(),
        }
    }
}

/// A variable that was declared without a value in one or more objects, which the linker is to make one of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Common {
    /// The symbol.
    pub name: String,
    /// In bytes.
    pub size: u64,
    /// In bytes, a power of two.
    pub align: u64,
}

/// What planning needs of an object file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Object {
    /// What has a place of its own.
    pub sections: Vec<Section>,
    /// Nameless constants, strings above all, whose place differs between builds: their names.
    pub loose_constants: Vec<String>,
    /// Most bytes that these take.
    pub loose_bytes: u64,
    /// Most bytes that tables for unwinding take.
    pub unwinding_bytes: u64,
    /// Most bytes of what linkers make and of arrays of initialisers.
    pub linker_bytes: u64,
    /// Variables that linkers give a place.
    pub commons: Vec<Common>,
    /// Symbols that all objects see, with a place in this one.
    pub defines: Vec<String>,
    /// Symbols of this object alone, each with the section that it is in, as an index of `sections`, and its
    /// place there.
    pub locals: Vec<(String, usize, u64)>,
    /// Whose it is.
    pub owner: Owner,
    /// What builds for all instruction sets know it as.
    pub id: String,
}

/// An object cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ObjectError {
    /// It is no ELF object, or damaged.
    #[error("{name} is not an ELF object file: {message}")]
    Malformed {
        /// The file.
        name: String,
        /// What is wrong with it.
        message: String,
    },
    /// An object of link-time optimisation.
    #[error("{name} was compiled with -flto, and has no code yet: compile it without")]
    Unfinished {
        /// The file.
        name: String,
    },
}

impl Object {
    /// Reads an object that builds for all instruction sets know as `id`.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn read(bytes: &[u8], id: &str, owner: Owner) -> Result<Object, ObjectError> {
        let malformed =
            |error: object::Error| ObjectError::Malformed { name: id.to_owned(), message: error.to_string() };
        let file = ElfFile64::<Endianness>::parse(bytes).map_err(malformed)?;
        let mut object = Object { owner, id: id.to_owned(), ..Object::default() };
        let names = names_of_sections(&file, &mut object);
        let is_aarch64 = file.architecture() == Architecture::Aarch64;
        let mut seen: HashMap<(bool, String), u32> = HashMap::new();
        let mut indices: HashMap<usize, usize> = HashMap::new();
        for section in file.sections() {
            let name = section.name().map_err(malformed)?;
            if name.starts_with(".gnu.lto_") {
                return Err(ObjectError::Unfinished { name: id.to_owned() });
            }
            let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
            let kind = section.elf_section_header().sh_type(file.endian());
            let has = |flag: u32| sh_flags & u64::from(flag) != 0;
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
                object.loose_bytes = object.loose_bytes.saturating_add(room);
                object.loose_constants.push(name.to_owned());
                continue;
            }
            let zeros = kind == SHT_NOBITS;
            let area = match (owner, zeros) {
                _ if has(SHF_EXECINSTR) => Area::Code,
                _ if constant => Area::Constants,
                (_, false) if has(SHF_TLS) => Area::ThreadData,
                (_, true) if has(SHF_TLS) => Area::ThreadZeros,
                // Constants that hold addresses: they do not change, and each process has them from its own
                // file.
                _ if name.starts_with(".data.rel.ro") => Area::PrivateData,
                // Words for tables of exceptions, which not every compiler makes for the same things.
                _ if first.is_some_and(|first| first.symbol.starts_with("DW.ref.")) => Area::PrivateData,
                (Owner::Library, false) if is_of_one_process(id) => Area::SharedData,
                (Owner::Library, true) if is_of_one_process(id) => Area::SharedZeros,
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
                Some(First { symbol, global: true }) => Key::Global(symbol.clone()),
                Some(First { symbol, .. }) => Key::Local(id.to_owned(), symbol.clone(), nth(true, symbol)),
                None => Key::Section(id.to_owned(), name.to_owned(), nth(false, name)),
            };
            indices.insert(section.index().0, object.sections.len());
            object.sections.push(Section {
                key,
                area,
                name: name.to_owned(),
                size: section.size(),
                align: section.align().max(1),
                not_at_ends: if area == Area::Code && is_aarch64 {
                    meeting_erratum(section.data().map_err(malformed)?)
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

/// Objects of the C library whose variables a program has once, wherever its threads run: the standard
/// streams, where the environment is, and what `rand` counts.
const OF_ONE_PROCESS: [&str; 5] = ["stdin.lo", "stdout.lo", "stderr.lo", "__environ.lo", "rand.lo"];

/// Whether an object is such a one, by what all builds know it as.
fn is_of_one_process(id: &str) -> bool {
    let member = id.strip_prefix("libc.a(").and_then(|rest| rest.split(')').next());
    member.is_some_and(|member| OF_ONE_PROCESS.contains(&member))
}

/// The symbol that a section is known by.
struct First {
    symbol: String,
    global: bool,
}

/// Where code for aarch64 computes the address of a page (`adrp`), then loads or stores, and within two
/// instructions loads or stores with an offset: what erratum 843419 is about, whichever registers are used.
fn meeting_erratum(code: &[u8]) -> Vec<u64> {
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

/// What each section is known by: a symbol at its beginning, one that all objects see before others.
fn names_of_sections(file: &ElfFile64<'_, Endianness>, object: &mut Object) -> HashMap<usize, First> {
    let mut names: HashMap<usize, First> = HashMap::new();
    for symbol in file.symbols() {
        let Ok(name) = symbol.name() else { continue };
        if symbol.is_common() {
            let align = symbol.address().max(1);
            object.commons.push(Common { name: name.to_owned(), size: symbol.size(), align });
            continue;
        }
        if symbol.is_undefined() {
            // A word of the table that linkers make of addresses, at most.
            object.linker_bytes = object.linker_bytes.saturating_add(8);
            continue;
        }
        let global = symbol.is_global() && !symbol.is_weak();
        if symbol.is_global() {
            object.defines.push(name.to_owned());
        }
        let kinds = [SymbolKind::Text, SymbolKind::Data, SymbolKind::Tls, SymbolKind::Unknown];
        // Marks of the assembler, `$x` and the like, are none.
        if symbol.address() != 0
            || !kinds.contains(&symbol.kind())
            || name.is_empty()
            || name.starts_with('$')
        {
            continue;
        }
        let Some(index) = symbol.section_index() else { continue };
        let fresh = || First { symbol: name.to_owned(), global };
        let known = names.entry(index.0).or_insert_with(fresh);
        // The first by name, for the order of symbols is each assembler's own; what is reserved for the
        // library comes last, for it is often of one processor alone.
        let rank = |global: bool, name: &str| (!global, name.starts_with('_'), name.to_owned());
        if rank(known.global, &known.symbol) > rank(global, name) {
            *known = fresh();
        }
    }
    names
}

/// The objects of a name in an archive, of which there may be several.
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

/// What parts of a program ask of OpenMP and of C++.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Calls {
    /// Whether any calls a function of the run-time's, creates a thread, or has thread-local variables, which
    /// the run-time has a part in.
    pub some: bool,
    /// Whether any calls a function of C++'s library, by a name as C++ makes them.
    pub cxx: bool,
    /// Whether any defines what starts a region: it brings a run-time of its own.
    pub own: bool,
}

impl Calls {
    /// Looks at an object, or at all members of an archive.
    ///
    /// # Errors
    /// [`ObjectError::Malformed`] if it is neither.
    pub fn look(&mut self, bytes: &[u8], path: &str) -> Result<(), ObjectError> {
        each_object(bytes, path, |object| self.look_at_object(object))
    }

    fn look_at_object(&mut self, bytes: &[u8]) -> Result<(), object::Error> {
        for symbol in ElfFile64::<Endianness>::parse(bytes)?.symbols() {
            let name = symbol.name_bytes().unwrap_or_default();
            if symbol.is_undefined() {
                let own =
                    [&b"GOMP_"[..], b"omp_", b"tombolo_", b"__tombolo_migrate_", b"__tombolo_omp_thread"];
                self.some |= own.iter().any(|begin| name.starts_with(begin)) || name == b"pthread_create";
                self.cxx |= [&b"_Z"[..], b"__cxa_", b"__gxx_"].iter().any(|begin| name.starts_with(begin));
            } else {
                self.own |= name == b"GOMP_parallel";
            }
        }
        Ok(())
    }
}

/// Looks at an object, or at all members of an archive.
pub(crate) fn each_object(
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

/// What a linker was told to name: each file that it took, an archive's members by the archive and their
/// names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Taken {
    /// An object.
    Object(String),
    /// A member of an archive.
    Member(String, String),
}

/// Reads what GNU ld says with `-t -t`. What is neither an object nor a member is left out: archives as such,
/// scripts.
#[must_use]
pub fn taken(trace: &str) -> Vec<Taken> {
    let line = |line: &str| {
        if let Some((archive, member)) = line.strip_prefix('(').and_then(|rest| rest.rsplit_once(')')) {
            return Some(Taken::Member(archive.to_owned(), member.to_owned()));
        }
        line.ends_with(".o").then(|| Taken::Object(line.to_owned()))
    };
    trace.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_linker_took_is_read() {
        let trace = "a/crt1.o\nlibc.a\n(/x/lib (1)/libc.a)printf.lo\nlinker.ld\nb.o\n";
        let member = |archive: &str, name: &str| Taken::Member(archive.to_owned(), name.to_owned());
        assert_eq!(
            taken(trace),
            [
                Taken::Object("a/crt1.o".to_owned()),
                member("/x/lib (1)/libc.a", "printf.lo"),
                Taken::Object("b.o".to_owned())
            ]
        );
    }

    #[test]
    fn streams_of_the_c_library_are_of_one_process_and_others_are_not() {
        for (id, is_one) in [
            ("libc.a(stdout.lo)#1", true),
            ("libc.a(__environ.lo)#1", true),
            ("libc.a(strtok.lo)#1", false),
            ("libx.a(stdout.lo)#1", false),
            ("stdout.lo", false),
        ] {
            assert_eq!(is_of_one_process(id), is_one, "{id}");
        }
    }

    #[test]
    fn what_is_no_object_is_refused_by_name() {
        for bytes in [&b""[..], b"\x7fELF", b"!<arch>\n", &[0; 4096]] {
            let error = Object::read(bytes, "x.o", Owner::Program).unwrap_err();
            assert!(error.to_string().starts_with("x.o is not an ELF object file: "), "{error}");
        }
        let error = members(b"nothing", "libx.a", "x.o").unwrap_err();
        assert!(error.to_string().starts_with("libx.a is not an ELF object file"), "{error}");
        assert!(members(b"!<arch>\n", "libx.a", "x.o").unwrap_err().to_string().contains("no member x.o"));
    }

    #[test]
    fn what_meets_the_erratum_is_found() {
        // adrp x0; ldr x1, [x2]; ldr x3, [x0, #8]. Then the same with something between, and with too much.
        let (adrp, ldr, offset, nop) = (0x9000_0000_u32, 0xf940_0041, 0xf940_0403, 0xd503_201f);
        let code =
            [adrp, ldr, offset, nop, adrp, ldr, nop, offset, adrp, nop, ldr, adrp, ldr, nop, nop, offset];
        let bytes: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(meeting_erratum(&bytes), [0, 16]);
        assert_eq!(meeting_erratum(&bytes[..7]), [0_u64; 0]);
    }
}
