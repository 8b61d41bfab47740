//! Objects in the range: those that the program has named, and variables of its symbol table.

use std::ops::Range;

use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSymbol as _, SymbolKind};

/// Maximum length of a name, in bytes.
const MAX_NAME_BYTES: usize = 48;

/// Objects, sorted by start address.
#[derive(Debug, Default)]
pub(crate) struct Objects(Vec<(Range<u64>, String)>);

impl Objects {
    /// Returns the variables of the running program in `range`, unless its symbols were stripped.
    pub(crate) fn of_program(range: &Range<u64>) -> Objects {
        let bytes = std::fs::read("/proc/self/exe").unwrap_or_default();
        Objects::of_elf(&bytes, range)
    }

    /// Returns the variables of a 64-bit ELF file in `range`; none for any other file.
    fn of_elf(bytes: &[u8], range: &Range<u64>) -> Objects {
        let mut objects = Objects::default();
        let Ok(file) = ElfFile64::<Endianness>::parse(bytes) else { return objects };
        for symbol in file.symbols() {
            let at = symbol.address()..symbol.address().saturating_add(symbol.size().max(1));
            let is_variable = symbol.kind() == SymbolKind::Data && !symbol.is_undefined();
            if is_variable && at.start < range.end && range.start < at.end {
                objects.add(at, symbol.name().unwrap_or_default());
            }
        }
        objects
    }

    /// Names an object. Replaces an object with the same start address.
    pub(crate) fn add(&mut self, at: Range<u64>, name: &str) {
        let name = sanitize(name);
        match self.0.binary_search_by_key(&at.start, |(at, _)| at.start) {
            Ok(index) => self.0[index] = (at, name),
            Err(index) => self.0.insert(index, (at, name)),
        }
    }

    /// Returns the name of the object at an address, with the offset if it is not 0.
    pub(crate) fn at(&self, address: u64) -> Option<String> {
        let after = self.0.partition_point(|(at, _)| at.start <= address);
        let (at, name) = self.0.get(after.checked_sub(1)?)?;
        // An access of a whole word can begin before the object does.
        match address - at.start {
            _ if !at.contains(&address) => None,
            0 => Some(name.clone()),
            offset_bytes => Some(format!("{name}+{offset_bytes}")),
        }
    }
}

/// Replaces characters that are separators in records, and truncates the name.
fn sanitize(name: &str) -> String {
    let mut name: String =
        name.chars().map(|c| if c.is_whitespace() || c.is_control() || c == ',' { '_' } else { c }).collect();
    let mut end = name.len().min(MAX_NAME_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.truncate(end);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    static HITS: [u64; 3] = [1, 2, 3];

    #[test]
    fn variables_of_this_program_are_found() {
        // In the file of a position-independent program addresses start at 0.
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let file = ElfFile64::<Endianness>::parse(bytes.as_slice()).unwrap();
        std::hint::black_box(&HITS);
        let hits = file.symbols().find(|symbol| {
            symbol.kind() == SymbolKind::Data && symbol.name().is_ok_and(|name| name.contains("HITS"))
        });
        let hits = hits.expect("a variable of this test");
        let objects = Objects::of_elf(&bytes, &(hits.address()..hits.address() + 1));
        let name = objects.at(hits.address() + 16).unwrap();
        assert!(name.ends_with("+16") && name.contains("objects"), "{name}");
        assert_eq!(objects.at(hits.address() + hits.size()), None);
        assert_eq!(Objects::of_elf(b"\x7fELF nothing", &(0..u64::MAX)).0, []);
    }

    #[test]
    fn last_name_of_an_address_wins() {
        let mut objects = Objects::default();
        objects.add(16..32, "b");
        objects.add(0..16, "with space, and comma");
        objects.add(16..24, &"ä".repeat(100));
        assert_eq!(objects.at(0).as_deref(), Some("with_space__and_comma"));
        assert_eq!(objects.at(16).map(|name| name.len()), Some(48));
        assert_eq!((objects.at(24), objects.at(32)), (None, None));
    }
}
