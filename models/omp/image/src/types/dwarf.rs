//! Reader of the subset of DWARF that comparing types needs: entries with their names, types, sizes and
//! locations.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU64;

use gimli::{AttributeValue, DwAte, DwTag, EndianSlice, LittleEndian, Operation, constants as dw};
use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind};

use super::TypesError;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Static location of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum VariableLocation {
    /// At a fixed address.
    Address(u64),
    /// In the thread-local block.
    Thread,
}

/// DWARF entry: a variable, function, type or member.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) tag: DwTag,
    pub(super) name: Option<String>,
    /// Type, an entry of the same unit.
    pub(super) type_ref: Option<usize>,
    /// Declaration that it completes, an entry of the same unit.
    pub(super) origin: Option<usize>,
    pub(super) bytes: Option<u64>,
    pub(super) encoding: Option<DwAte>,
    pub(super) line: Option<u64>,
    pub(super) column: Option<u64>,
    pub(super) low_pc: Option<u64>,
    /// Start addresses of the parts of a function that the compiler split; it has no `low_pc` then.
    pub(super) part_addresses: Vec<u64>,
    pub(super) location: Option<VariableLocation>,
    /// Number of elements of an array, or the index of the last one.
    pub(super) count: Option<u64>,
    pub(super) upper_bound: Option<u64>,
    /// Offset of a member, in bytes.
    pub(super) offset: Option<u64>,
    pub(super) bits: (Option<u64>, Option<u64>),
    /// Alignment set in the source, in bytes.
    pub(super) alignment: Option<u64>,
    /// Whether an array is a vector of the processor.
    pub(super) vector: bool,
    /// Whether a function's parameters are declared.
    pub(super) prototyped: bool,
    /// Whether the entry is only a declaration.
    pub(super) incomplete: bool,
    /// Whether the entry is within a function.
    pub(super) local: bool,
    pub(super) children: Vec<usize>,
}

/// Compilation unit of one source.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) name: String,
    /// Whether the source is C, where a function's parameters need not be declared.
    pub(super) is_c: bool,
    pub(super) entries: BTreeMap<usize, Entry>,
    /// Source lines by code address.
    pub(super) lines: HashMap<u64, u64>,
}

/// Debug information of a linked program.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) units: Vec<Unit>,
    /// Symbols of variables and functions, by address.
    pub(super) symbols: HashMap<u64, Vec<String>>,
}

impl Program {
    pub(super) fn read(bytes: &[u8]) -> Result<Program, TypesError> {
        let unreadable = |error: object::Error| TypesError { message: error.to_string() };
        let file = ElfFile64::<Endianness>::parse(bytes).map_err(unreadable)?;
        let mut symbols: HashMap<u64, Vec<String>> = HashMap::new();
        for symbol in file.symbols() {
            // Symbols of linkers and mapping symbols of the assembler have neither kind.
            if matches!(symbol.kind(), SymbolKind::Data | SymbolKind::Text)
                && let Ok(name) = symbol.name()
            {
                symbols.entry(symbol.address()).or_default().push(name.to_owned());
            }
        }
        let section = |id: gimli::SectionId| -> Result<Slice<'_>, gimli::Error> {
            let data = file.section_by_name(id.name()).and_then(|section| section.data().ok());
            Ok(EndianSlice::new(data.unwrap_or_default(), LittleEndian))
        };
        let dwarf = gimli::Dwarf::load(section)?;
        let mut units = Vec::new();
        let mut headers = dwarf.units();
        while let Some(header) = headers.next()? {
            let unit = dwarf.unit(header)?;
            if let Some(unit) = Unit::read(&dwarf, &unit)? {
                units.push(unit);
            }
        }
        Ok(Program { units, symbols })
    }
}

impl Unit {
    /// Reads a unit; `None` for languages other than C and C++.
    fn read<'a>(
        dwarf: &gimli::Dwarf<Slice<'a>>,
        unit: &gimli::Unit<Slice<'a>>,
    ) -> Result<Option<Unit>, TypesError> {
        let mut read =
            Unit { name: String::new(), is_c: true, entries: BTreeMap::new(), lines: HashMap::new() };
        let mut cursor = unit.entries();
        // Stack of open entries, with their depths.
        let mut open: Vec<(isize, usize)> = Vec::new();
        while let Some(found) = cursor.next_dfs()? {
            if found.tag() == dw::DW_TAG_compile_unit {
                match found.attr_value(dw::DW_AT_language) {
                    Some(AttributeValue::Language(
                        dw::DW_LANG_C
                        | dw::DW_LANG_C89
                        | dw::DW_LANG_C99
                        | dw::DW_LANG_C11
                        | dw::DW_LANG_C17
                        | dw::DW_LANG_C_plus_plus
                        | dw::DW_LANG_C_plus_plus_03
                        | dw::DW_LANG_C_plus_plus_11
                        | dw::DW_LANG_C_plus_plus_14,
                    )) => {}
                    _ => return Ok(None),
                }
                read.is_c = found.attr_value(dw::DW_AT_language).is_some_and(|language| {
                    let of_c =
                        [dw::DW_LANG_C, dw::DW_LANG_C89, dw::DW_LANG_C99, dw::DW_LANG_C11, dw::DW_LANG_C17];
                    of_c.map(AttributeValue::Language).contains(&language)
                });
                if let Some(name) = found.attr_value(dw::DW_AT_name) {
                    read.name = dwarf.attr_string(unit, name)?.to_string_lossy().into_owned();
                }
            }
            let offset = found.offset().0;
            let mut entry = Entry::read(dwarf, unit, found)?;
            open.retain(|(depth, _)| *depth < found.depth());
            if let Some((_, parent)) = open.last()
                && let Some(parent) = read.entries.get_mut(parent)
            {
                parent.children.push(offset);
                entry.local = parent.local || parent.tag == dw::DW_TAG_subprogram;
            }
            open.push((found.depth(), offset));
            read.entries.insert(offset, entry);
        }
        if let Some(program) = unit.line_program.clone() {
            read.lines = lines(program)?;
        }
        Ok(Some(read))
    }

    /// Strips qualifiers and typedefs from a type; passes the names of the typedefs to `name`.
    pub(super) fn strip_qualifiers(
        &self,
        type_ref: Option<usize>,
        name: &mut dyn FnMut(&str),
    ) -> Option<usize> {
        let mut at = type_ref?;
        // Limits the depth, so that a type that refers to itself terminates.
        for _ in 0..256 {
            let entry = self.entries.get(&at)?;
            match entry.tag {
                dw::DW_TAG_typedef => name(entry.name.as_deref().unwrap_or_default()),
                dw::DW_TAG_const_type
                | dw::DW_TAG_volatile_type
                | dw::DW_TAG_restrict_type
                | dw::DW_TAG_atomic_type => {}
                _ => return Some(at),
            }
            at = entry.type_ref?;
        }
        None
    }

    /// Returns the total number of elements of an array, 0 if it is known only at run time.
    pub(super) fn count(&self, array: &Entry) -> u64 {
        let ranges = array.children.iter().filter_map(|child| self.entries.get(child));
        let ranges = ranges.filter(|child| child.tag == dw::DW_TAG_subrange_type);
        ranges
            .map(|range| range.count.or(range.upper_bound.map(|last| last.wrapping_add(1))).unwrap_or(0))
            .fold(1, u64::wrapping_mul)
    }

    /// Returns a property of an entry, or of the declaration that it completes.
    pub(super) fn attribute<T>(&self, entry: &Entry, what: impl Fn(&Entry) -> Option<T>) -> Option<T> {
        let mut entry = entry;
        // Limits the depth, so that an entry that completes itself terminates.
        for _ in 0..8 {
            if let Some(said) = what(entry) {
                return Some(said);
            }
            entry = self.entries.get(&entry.origin?)?;
        }
        None
    }
}

impl Entry {
    fn read<'a>(
        dwarf: &gimli::Dwarf<Slice<'a>>,
        unit: &gimli::Unit<Slice<'a>>,
        found: &gimli::DebuggingInformationEntry<Slice<'a>>,
    ) -> Result<Entry, TypesError> {
        let number = |name| found.attr(name).and_then(gimli::Attribute::udata_value);
        let reference = |name| match found.attr_value(name) {
            Some(AttributeValue::UnitRef(offset)) => Some(offset.0),
            _ => None,
        };
        let name = match found.attr_value(dw::DW_AT_name) {
            Some(name) => Some(dwarf.attr_string(unit, name)?.to_string_lossy().into_owned()),
            None => None,
        };
        let encoding = match found.attr_value(dw::DW_AT_encoding) {
            Some(AttributeValue::Encoding(encoding)) => Some(encoding),
            _ => None,
        };
        let low_pc = match found.attr_value(dw::DW_AT_low_pc) {
            Some(address) => dwarf.attr_address(unit, address)?,
            None => None,
        };
        let mut part_addresses = Vec::new();
        if found.tag() == dw::DW_TAG_subprogram && low_pc.is_none() {
            let mut ranges = dwarf.die_ranges(unit, found)?;
            while let Some(range) = ranges.next()? {
                part_addresses.push(range.begin);
            }
        }
        let location = match found.attr_value(dw::DW_AT_location) {
            Some(AttributeValue::Exprloc(expression)) => location(expression, unit.encoding())?,
            _ => None,
        };
        let flag = |name| matches!(found.attr_value(name), Some(AttributeValue::Flag(true)));
        Ok(Entry {
            tag: found.tag(),
            name,
            type_ref: reference(dw::DW_AT_type),
            origin: reference(dw::DW_AT_specification).or(reference(dw::DW_AT_abstract_origin)),
            bytes: number(dw::DW_AT_byte_size),
            encoding,
            line: number(dw::DW_AT_decl_line),
            column: number(dw::DW_AT_decl_column),
            low_pc,
            part_addresses,
            location,
            count: number(dw::DW_AT_count),
            upper_bound: number(dw::DW_AT_upper_bound),
            offset: number(dw::DW_AT_data_member_location),
            bits: (number(dw::DW_AT_bit_size), number(dw::DW_AT_data_bit_offset)),
            alignment: number(dw::DW_AT_alignment),
            vector: flag(dw::DW_AT_GNU_vector),
            prototyped: flag(dw::DW_AT_prototyped),
            incomplete: flag(dw::DW_AT_declaration),
            local: false,
            children: Vec::new(),
        })
    }
}

/// Returns the first line at each address.
fn lines<'a>(program: gimli::IncompleteLineProgram<Slice<'a>>) -> Result<HashMap<u64, u64>, gimli::Error> {
    let mut lines = HashMap::new();
    let mut sequence: Vec<(u64, u64)> = Vec::new();
    let mut rows = program.rows();
    while let Some((_, row)) = rows.next_row()? {
        if !row.end_sequence() {
            sequence.push((row.address(), row.line().map_or(0, NonZeroU64::get)));
            continue;
        }
        // After a tail call GCC emits a row without code at the end of a function, where the next function
        // begins.
        for (address, line) in sequence.drain(..).filter(|(address, _)| *address != row.address()) {
            lines.entry(address).or_insert(line);
        }
    }
    Ok(lines)
}

/// Returns the static location that an expression describes, if it does.
fn location(
    expression: gimli::Expression<Slice<'_>>,
    encoding: gimli::Encoding,
) -> Result<Option<VariableLocation>, TypesError> {
    let mut operations = expression.operations(encoding);
    let first = operations.next()?;
    let second = operations.next()?;
    Ok(match (first, second) {
        (_, Some(Operation::TLS)) => Some(VariableLocation::Thread),
        (Some(Operation::Address { address }), None) => Some(VariableLocation::Address(address)),
        _ => None,
    })
}

impl From<gimli::Error> for TypesError {
    fn from(error: gimli::Error) -> TypesError {
        TypesError { message: error.to_string() }
    }
}
