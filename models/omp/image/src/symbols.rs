//! Verification of linked builds: compares their symbols.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind, SymbolSection};
use serde::Serialize;
use tombolo_base::Isa;

use crate::types::{Refusal, outlined_name};

/// Linked build that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the linked build for {isa} cannot be read: {message}")]
pub struct SymbolsError {
    isa: Isa,
    message: String,
}

/// Symbols that linkers define: boundaries of arrays, and tables of which each build has its own.
const LINKER_SYMBOLS: [&str; 8] = [
    "_GLOBAL_OFFSET_TABLE_",
    "_TLS_MODULE_BASE_",
    "__preinit_array_start",
    "__preinit_array_end",
    "__init_array_start",
    "__init_array_end",
    "__fini_array_start",
    "__fini_array_end",
];

/// Identity of a symbol across builds: its name, the source if it is local, and the number of earlier ones.
type SymbolKey = (String, Option<String>, usize);

/// Symbols of a linked build, with their addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symbols {
    isa: Isa,
    addresses: BTreeMap<SymbolKey, u64>,
}

/// Symbol whose address differs between builds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Different {
    /// Name of the symbol.
    pub name: String,
    /// Source, if the symbol is local.
    pub file: Option<String>,
    /// Addresses, in the order of builds.
    pub addresses: Vec<u64>,
}

/// Symbols that not all builds have.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Only {
    /// Instruction set of the build.
    pub isa: &'static str,
    /// Names of the symbols.
    pub names: Vec<String>,
}

/// Agreement of builds on symbols and addresses.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Agreement {
    /// Number of symbols that all builds have.
    pub common: usize,
    /// Number of those with equal addresses.
    pub equal: usize,
    /// Those whose addresses differ.
    pub different: Vec<Different>,
    /// Symbols that not all builds have: processor-specific functions, and parts and copies that compilers
    /// create.
    pub only: Vec<Only>,
    /// Number of outlined functions that all builds have.
    pub outlined: usize,
}

impl Symbols {
    /// Reads the symbols of a linked build. `places` maps local symbols, by name and address, to their
    /// objects; it takes precedence over the source in the symbol table, which library objects often lack.
    ///
    /// # Errors
    /// [`SymbolsError`] if the file is malformed.
    pub fn read(
        isa: Isa,
        bytes: &[u8],
        places: &HashMap<(String, u64), String>,
    ) -> Result<Symbols, SymbolsError> {
        let unreadable = |error: object::Error| SymbolsError { isa, message: error.to_string() };
        let file = ElfFile64::<Endianness>::parse(bytes).map_err(unreadable)?;
        let mut addresses = BTreeMap::new();
        let mut seen: HashMap<(String, Option<String>), usize> = HashMap::new();
        let mut source = None;
        for symbol in file.symbols() {
            let name = symbol.name().map_err(unreadable)?;
            if symbol.kind() == SymbolKind::File {
                source = Some(name.to_owned()).filter(|name| !name.is_empty());
                continue;
            }
            let placed = matches!(symbol.section(), SymbolSection::Section(_));
            if !placed
                || LINKER_SYMBOLS.contains(&name)
                || symbol.kind() == SymbolKind::Section
                || name.is_empty()
                || name.starts_with('$')
            {
                continue;
            }
            let place = || places.get(&(name.to_owned(), symbol.address())).or(source.as_ref()).cloned();
            let key = (name.to_owned(), if symbol.is_local() { place() } else { None });
            let count = seen.entry(key.clone()).or_default();
            *count += 1;
            addresses.insert((key.0, key.1, *count - 1), symbol.address());
        }
        Ok(Symbols { isa, addresses })
    }

    /// Returns the outlined functions as source and name without compiler suffixes.
    fn outlined(&self) -> BTreeSet<(String, String)> {
        let of = |(name, file, _): &SymbolKey| {
            Some((file.clone().unwrap_or_default(), outlined_name(name)?.to_owned()))
        };
        self.addresses.keys().filter_map(of).collect()
    }

    /// Returns the address of a global symbol.
    #[must_use]
    pub fn address(&self, name: &str) -> Option<u64> {
        self.addresses.get(&(name.to_owned(), None, 0)).copied()
    }
}

/// Compares builds. Outlined functions that some builds lack are refused.
#[must_use]
pub fn compare_symbols(builds: &[Symbols]) -> (Agreement, Vec<Refusal>) {
    let mut agreement = Agreement::default();
    let Some((first, others)) = builds.split_first() else { return (agreement, Vec::new()) };
    for (key, address) in &first.addresses {
        let other_addresses: Option<Vec<u64>> =
            others.iter().map(|other| other.addresses.get(key).copied()).collect();
        let Some(other_addresses) = other_addresses else { continue };
        agreement.common += 1;
        if other_addresses.iter().all(|other| other == address) {
            agreement.equal += 1;
        } else {
            let addresses = [*address].into_iter().chain(other_addresses).collect();
            agreement.different.push(Different { name: key.0.clone(), file: key.1.clone(), addresses });
        }
    }
    for build in builds {
        let in_all_builds = |key: &SymbolKey| builds.iter().all(|other| other.addresses.contains_key(key));
        let names: Vec<String> =
            build.addresses.keys().filter(|key| !in_all_builds(key)).map(|key| key.0.clone()).collect();
        if !names.is_empty() {
            agreement.only.push(Only { isa: build.isa.name(), names });
        }
    }
    let outlined: Vec<BTreeSet<(String, String)>> = builds.iter().map(Symbols::outlined).collect();
    let all: BTreeSet<&(String, String)> = outlined.iter().flatten().collect();
    let mut refused = Vec::new();
    for function in all {
        let (has, lacks): (Vec<usize>, Vec<usize>) =
            (0..builds.len()).partition(|build| outlined[*build].contains(function));
        if lacks.is_empty() {
            agreement.outlined += 1;
            continue;
        }
        let names = |which: &[usize]| {
            which.iter().map(|build| builds[*build].isa.name()).collect::<Vec<_>>().join(", ")
        };
        refused.push(Refusal {
            name: function.1.clone(),
            symbol: None,
            file: function.0.clone(),
            line: 0,
            reason: format!(
                "is outlined in the build for {} and not in that for {}: is the region under an #if of one processor?",
                names(&has),
                names(&lacks)
            ),
        });
    }
    (agreement, refused)
}

/// Returns the names of all symbols that a linked build defines.
///
/// # Errors
/// [`SymbolsError`] if the file is malformed.
pub fn defined_symbols(isa: Isa, bytes: &[u8]) -> Result<HashSet<String>, SymbolsError> {
    let unreadable = |error: object::Error| SymbolsError { isa, message: error.to_string() };
    let file = ElfFile64::<Endianness>::parse(bytes).map_err(unreadable)?;
    let defined = file.symbols().filter(|symbol| symbol.is_definition());
    Ok(defined.filter_map(|symbol| symbol.name().ok().map(str::to_owned)).collect())
}

/// Returns the byte range of a section in the file of a linked build; `None` if the section is absent or
/// takes no bytes there.
#[must_use]
pub fn section_file_range(bytes: &[u8], name: &str) -> Option<std::ops::Range<usize>> {
    let file = ElfFile64::<Endianness>::parse(bytes).ok()?;
    let (start, length) = file.section_by_name(name)?.file_range()?;
    let (start, end) = (usize::try_from(start).ok()?, usize::try_from(start.checked_add(length)?).ok()?);
    (end <= bytes.len()).then_some(start..end)
}

/// Returns the byte range in the file for `length` bytes at an address.
#[must_use]
pub fn address_file_range(bytes: &[u8], address: u64, length: usize) -> Option<std::ops::Range<usize>> {
    let file = ElfFile64::<Endianness>::parse(bytes).ok()?;
    let section = file.sections().find(|section| {
        section.address() != 0 && address.checked_sub(section.address()).is_some_and(|at| at < section.size())
    })?;
    let (start, bytes_there) = section.file_range()?;
    let inside = address - section.address();
    if inside.checked_add(length as u64)? > bytes_there {
        return None;
    }
    let start = usize::try_from(start.checked_add(inside)?).ok()?;
    (start.checked_add(length)? <= bytes.len()).then_some(start..start + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(isa: Isa, symbols: &[(&str, Option<&str>, u64)]) -> Symbols {
        let addresses = symbols
            .iter()
            .map(|(name, file, address)| (((*name).to_owned(), file.map(str::to_owned), 0), *address));
        Symbols { isa, addresses: addresses.collect() }
    }

    #[test]
    fn differing_and_missing_symbols_are_listed() {
        let x86 = build(
            Isa::X86_64,
            &[
                ("main", None, 1),
                ("f", Some("a.c"), 2),
                ("f", Some("b.c"), 3),
                ("main._omp_fn.0", Some("a.c"), 4),
                ("main._omp_fn.0.cold", Some("a.c"), 5),
                ("main._omp_fn.1", Some("a.c"), 6),
            ],
        );
        let arm = build(
            Isa::Aarch64,
            &[
                ("main", None, 1),
                ("f", Some("a.c"), 2),
                ("f", Some("b.c"), 9),
                ("main._omp_fn.0.constprop.0", Some("a.c"), 4),
                ("main._omp_fn.0", Some("b.c"), 7),
            ],
        );
        let (agreement, refused) = compare_symbols(&[x86, arm]);
        assert_eq!((agreement.common, agreement.equal, agreement.outlined), (3, 2, 1));
        assert_eq!(agreement.different[0].file.as_deref(), Some("b.c"));
        assert_eq!(agreement.different[0].addresses, [3, 9]);
        assert_eq!(agreement.only[0].names.len(), 3);
        let refused: Vec<String> = refused.iter().map(ToString::to_string).collect();
        assert_eq!(refused.len(), 2, "{refused:?}");
        assert!(refused[0].starts_with(
            "a.c:0: `main._omp_fn.1` is outlined in the build for x86_64 and not in that for aarch64"
        ));
        assert!(
            refused[1].starts_with("b.c:0: `main._omp_fn.0` is outlined in the build for aarch64 and not")
        );
    }

    #[test]
    fn non_programs_contain_nothing() {
        assert!(Symbols::read(Isa::X86_64, b"nothing", &HashMap::new()).is_err());
        assert_eq!(section_file_range(b"nothing", ".text"), None);
        assert_eq!(address_file_range(b"nothing", 1, 1), None);
    }
}
