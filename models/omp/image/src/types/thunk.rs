//! Functions that migrate: generates the thunk of each in C, from the debug information of its type.
//!
//! Calling conventions differ between processors. So a thunk stores the arguments in a frame in memory, as
//! GCC does for OpenMP's outlined functions, and on the other node code of that node's compiler loads them
//! and calls the function. Each build's compiler compiles both halves. The types of the frame are compared,
//! which ensures that it is the same in all builds.

use std::collections::HashMap;
use std::fmt::Write as _;

use gimli::constants as dw;
use tombolo_base::Isa;

use super::compare::Comparison;
use super::dwarf::{Entry, Program, Unit};
use super::{Refusal, TypesError};

/// Prefix of the alias of a marked function, by which thunks call the function itself.
pub const MARK_PREFIX: &str = "__tombolo_migrates_";

/// Thunks of marked functions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Thunks {
    /// C source for each build.
    pub sources: Vec<String>,
    /// Functions that cannot migrate, with reasons.
    pub refused: Vec<Refusal>,
}

/// Generates the thunks of marked functions, for one build or two.
///
/// # Errors
/// [`TypesError`] if debug information cannot be read.
pub fn thunks(builds: &[(Isa, &[u8])], names: &[String]) -> Result<Thunks, TypesError> {
    let programs: Vec<Program> =
        builds.iter().map(|(_, bytes)| Program::read(bytes)).collect::<Result<_, _>>()?;
    let mut thunks = Thunks { sources: vec![PREAMBLE.to_owned(); builds.len()], refused: Vec::new() };
    for name in names {
        let found: Vec<Function<'_>> =
            programs.iter().filter_map(|program| Function::find(program, name)).collect();
        let refuse = |function: Option<&Function<'_>>, reason: String| Refusal {
            name: name.clone(),
            symbol: None,
            file: function.map_or_else(|| "?".to_owned(), |function| function.unit.name.clone()),
            line: function
                .and_then(|function| function.unit.attribute(function.entry, |entry| entry.line))
                .unwrap_or(0),
            reason,
        };
        if found.len() < builds.len() {
            let reason = "cannot migrate: nothing says what it is given; compile it with -g".to_owned();
            thunks.refused.push(refuse(found.first(), reason));
            continue;
        }
        let written: Result<Vec<String>, String> =
            found.iter().enumerate().map(|(build, function)| function.thunk(name, build)).collect();
        let compared = match (&found[..], builds) {
            ([one, other], [(first, _), (second, _)]) => one.compare(other, [*first, *second]),
            _ => None,
        };
        match (compared, written) {
            (Some(reason), _) => thunks.refused.push(refuse(found.first(), reason)),
            (None, Err(reason)) => {
                thunks.refused.push(refuse(found.first(), format!("cannot migrate: {reason}")));
            }
            (None, Ok(written)) => {
                thunks.sources.iter_mut().zip(written).for_each(|(source, text)| source.push_str(&text));
            }
        }
    }
    Ok(thunks)
}

/// First lines of each source.
const PREAMBLE: &str = "void *__tombolo_migrate_call(void (*function)(void *), void *frame);\n\
    __attribute__((weak, noreturn)) void __tombolo_throw_again(void *exception);\n";

/// Marked function in a build.
struct Function<'a> {
    unit: &'a Unit,
    entry: &'a Entry,
}

impl<'a> Function<'a> {
    fn find(program: &'a Program, name: &str) -> Option<Function<'a>> {
        let mark = format!("{MARK_PREFIX}{name}");
        let is_marked = |entry: &Entry| {
            let mut begins = entry.low_pc.iter().chain(&entry.part_addresses);
            let has_name =
                |begin: &u64| program.symbols.get(begin).is_some_and(|names| names.contains(&mark));
            entry.tag == dw::DW_TAG_subprogram && begins.any(has_name)
        };
        program.units.iter().find_map(|unit| {
            let entry = unit.entries.values().find(|entry| is_marked(entry))?;
            Some(Function { unit, entry })
        })
    }

    fn children(&self) -> impl Iterator<Item = &'a Entry> {
        let unit = self.unit;
        self.entry.children.iter().filter_map(|child| unit.entries.get(child))
    }

    fn result(&self) -> Option<usize> {
        self.unit.attribute(self.entry, |entry| entry.type_ref)
    }

    /// Returns the types and names of its parameters.
    fn parameters(&self) -> Vec<(Option<usize>, String)> {
        let parameters = self.children().filter(|child| child.tag == dw::DW_TAG_formal_parameter);
        let describe = |(number, entry): (usize, &Entry)| {
            let name = self.unit.attribute(entry, |entry| entry.name.clone());
            (
                self.unit.attribute(entry, |entry| entry.type_ref),
                name.unwrap_or_else(|| format!("parameter {}", number + 1)),
            )
        };
        parameters.enumerate().map(describe).collect()
    }

    /// Compares the function with that of another build. Returns why they are incompatible, or `None`.
    fn compare(&self, other: &Function<'_>, isas: [Isa; 2]) -> Option<String> {
        let (one, two) = (self.parameters(), other.parameters());
        if one.len() != two.len() {
            return Some(format!(
                "cannot migrate: it has {} parameters on {} and {} on {}",
                one.len(),
                isas[0],
                two.len(),
                isas[1]
            ));
        }
        let compare = |name: &str, types| {
            Comparison::new(isas, [self.unit, other.unit]).migration_obstacle(name, types)
        };
        let parameters = one.iter().zip(&two);
        parameters
            .map(|((one, name), (other, _))| compare(name, [*one, *other]))
            .chain([compare("result", [self.result(), other.result()])])
            .flatten()
            .next()
    }

    /// Generates the thunk, or returns the reason that there is none.
    fn thunk(&self, name: &str, build: usize) -> Result<String, String> {
        let parameters = self.parameters();
        if self.children().any(|child| child.tag == dw::DW_TAG_unspecified_parameters) {
            return Err("it takes a variable number of arguments; give it a va_list's contents in an array"
                .to_owned());
        }
        let prototyped = !self.unit.is_c
            || self.unit.attribute(self.entry, |entry| entry.prototyped.then_some(())).is_some();
        if !prototyped && !parameters.is_empty() {
            return Err("its parameters are not declared in parentheses, so callers pass them as they think"
                .to_owned());
        }
        let mut types = Types {
            unit: self.unit,
            prefix: format!("t_{name}_{build}_"),
            text: String::new(),
            known: HashMap::new(),
        };
        let (mut list, mut fields) = (Vec::new(), String::new());
        for (number, (type_ref, called)) in parameters.iter().enumerate() {
            let declared = types
                .declare(*type_ref, &format!("p{number}"))
                .map_err(|reason| format!("`{called}`: {reason}"))?;
            let _ = write!(fields, " {};", declared.text);
            list.push(declared.text);
        }
        let list = if list.is_empty() { "void".to_owned() } else { list.join(", ") };
        let (function, body) = (format!("{name}({list})"), format!("{MARK_PREFIX}{name}({list})"));
        let returns = self.result().is_some();
        let (declared, of_body) = if returns {
            let mut declare = |text: &str| {
                types.declare(self.result(), text).map_err(|reason| format!("its result: {reason}"))
            };
            let _ = write!(fields, " {};", declare("result")?.text);
            (declare(&function)?.text, declare(&body)?.text)
        } else {
            (format!("void {function}"), format!("void {body}"))
        };
        if fields.is_empty() {
            fields.push_str(" char none;");
        }
        let names = |before: &str| {
            (0..parameters.len()).map(|number| format!("{before}p{number}")).collect::<Vec<_>>().join(", ")
        };
        let values: String =
            (0..parameters.len()).map(|number| format!(" .p{number} = p{number},")).collect();
        let (store, give, load) =
            if returns { ("frame->result = ", "return ", "return frame.result;") } else { ("", "", "") };
        let (there, here) = (names("frame->"), names(""));
        let leave = if returns { String::new() } else { " return;".to_owned() };
        Ok(format!(
            "{types}{of_body};\nstruct frame_{name} {{{fields} }};\n\
             void __tombolo_there_{name}(void *memory)\n{{ struct frame_{name} *frame = memory; {store}{MARK_PREFIX}{name}({there}); }}\n\
             {declared}\n{{ struct frame_{name} frame = {{{values} }};\n\
             void *left = __tombolo_migrate_call(__tombolo_there_{name}, &frame);\n\
             if (!left) {{ {give}{MARK_PREFIX}{name}({here});{leave} }}\n\
             if (left != &frame) __tombolo_throw_again(left);\n{load} }}\n",
            types = types.text,
        ))
    }
}

/// C declaration with the size and alignment of its type, in bytes.
struct Declared {
    text: String,
    size: u64,
    align: u64,
}

/// Writes a unit's types as C, sufficient for passing values: all pointers are `void *`.
struct Types<'a> {
    unit: &'a Unit,
    prefix: String,
    /// Definitions of structures.
    text: String,
    known: HashMap<usize, (String, u64, u64)>,
}

impl Types<'_> {
    /// Declares a name with a type.
    fn declare(&mut self, type_ref: Option<usize>, name: &str) -> Result<Declared, String> {
        self.is_not_aligned(type_ref)?;
        let plain = self.unit.strip_qualifiers(type_ref, &mut |_| {});
        let unit = self.unit;
        let Some((at, entry)) = plain.and_then(|at| Some((at, unit.entries.get(&at)?))) else {
            return Err("nothing says what it is".to_owned());
        };
        let simple =
            |kind: &str, size: u64| Ok(Declared { text: format!("{kind} {name}"), size, align: size });
        match entry.tag {
            dw::DW_TAG_base_type => {
                let bytes = entry.bytes.unwrap_or(0);
                let kind = base_type(entry, bytes)?;
                let declared = simple(kind, bytes)?;
                let align = if kind.starts_with("_Complex") { bytes / 2 } else { bytes };
                Ok(Declared { align, ..declared })
            }
            dw::DW_TAG_pointer_type => simple("void *", 8),
            dw::DW_TAG_enumeration_type => {
                let bytes = entry.bytes.unwrap_or(0);
                simple(
                    integer_type(bytes, false)
                        .ok_or("it is an enumeration of another size than numbers have")?,
                    bytes,
                )
            }
            dw::DW_TAG_structure_type | dw::DW_TAG_union_type => {
                let (kind, size, align) = self.define(at, entry)?;
                Ok(Declared { text: format!("{kind} {name}"), size, align })
            }
            dw::DW_TAG_array_type if !entry.vector => {
                let count = unit.count(entry);
                if count == 0 {
                    return Err("it has an array without a length".to_owned());
                }
                let element = self.declare(entry.type_ref, &format!("{name}[{count}]"))?;
                let size = element.size.checked_mul(count).ok_or("it is too large")?;
                Ok(Declared { size, ..element })
            }
            dw::DW_TAG_array_type => {
                Err("it is a vector of the processor's; pass a pointer to it".to_owned())
            }
            _ => Err("it is not of a type of C".to_owned()),
        }
    }

    /// Refuses types whose alignment is set in the source, because that changes how processors pass them.
    fn is_not_aligned(&self, type_ref: Option<usize>) -> Result<(), String> {
        let mut at = type_ref;
        for _ in 0..256 {
            let Some(entry) = at.and_then(|at| self.unit.entries.get(&at)) else { return Ok(()) };
            if entry.alignment.is_some() {
                return Err("its alignment is set in the source; pass a pointer to it".to_owned());
            }
            let named =
                [dw::DW_TAG_typedef, dw::DW_TAG_const_type, dw::DW_TAG_volatile_type, dw::DW_TAG_atomic_type];
            if !named.contains(&entry.tag) {
                return Ok(());
            }
            at = entry.type_ref;
        }
        Ok(())
    }

    /// Defines a structure or a union on first use. Returns its name, size and alignment.
    fn define(&mut self, at: usize, entry: &Entry) -> Result<(String, u64, u64), String> {
        if let Some(known) = self.known.get(&at) {
            return Ok(known.clone());
        }
        let is_union = entry.tag == dw::DW_TAG_union_type;
        let (mut fields, mut end, mut most) = (String::new(), 0_u64, 1_u64);
        for (number, child) in
            entry.children.iter().filter_map(|child| self.unit.entries.get(child)).enumerate()
        {
            if child.tag != dw::DW_TAG_member {
                if [dw::DW_TAG_subprogram, dw::DW_TAG_inheritance].contains(&child.tag) {
                    return Err("it is a class; pass a pointer to it".to_owned());
                }
                continue;
            }
            if child.bits.0.is_some() {
                return Err("it has bit-fields; pass a pointer to it".to_owned());
            }
            if child.alignment.is_some() {
                return Err("the alignment of a member is set in the source; pass a pointer to it".to_owned());
            }
            let member = self.declare(child.type_ref, &format!("m{number}"))?;
            let place = if is_union { 0 } else { end.next_multiple_of(member.align) };
            if child.offset.unwrap_or(0) != place {
                return Err("it is packed; pass a pointer to it".to_owned());
            }
            end = end.max(place.saturating_add(member.size));
            most = most.max(member.align);
            let _ = write!(fields, " {};", member.text);
        }
        let size = end.next_multiple_of(most);
        if entry.incomplete || size == 0 {
            return Err("it is a structure without members".to_owned());
        }
        if entry.bytes != Some(size) {
            return Err("it is packed or aligned otherwise than its members; pass a pointer to it".to_owned());
        }
        let word = if is_union { "union" } else { "struct" };
        let kind = format!("{word} {}{}", self.prefix, self.known.len());
        let _ = writeln!(
            self.text,
            "{kind} {{{fields} }};\n_Static_assert(sizeof({kind}) == {size}, \"layout\");"
        );
        self.known.insert(at, (kind.clone(), size, most));
        Ok((kind, size, most))
    }
}

/// Returns the integer type of `bytes` bytes.
fn integer_type(bytes: u64, signed: bool) -> Option<&'static str> {
    Some(match (bytes, signed) {
        (1, true) => "signed char",
        (1, false) => "unsigned char",
        (2, true) => "short",
        (2, false) => "unsigned short",
        (4, true) => "int",
        (4, false) => "unsigned int",
        (8, true) => "long",
        (8, false) => "unsigned long",
        (16, true) => "__int128",
        (16, false) => "unsigned __int128",
        _ => return None,
    })
}

fn base_type(entry: &Entry, bytes: u64) -> Result<&'static str, String> {
    let name = entry.name.as_deref().unwrap_or_default();
    let unknown = || format!("{name} is of another kind of number");
    Ok(match (entry.encoding, bytes) {
        (Some(dw::DW_ATE_boolean), 1) => "_Bool",
        (Some(dw::DW_ATE_float), 4) => "float",
        (Some(dw::DW_ATE_float), 8) => "double",
        (Some(dw::DW_ATE_complex_float), 8) => "_Complex float",
        (Some(dw::DW_ATE_complex_float), 16) => "_Complex double",
        (Some(dw::DW_ATE_signed | dw::DW_ATE_signed_char), _) => {
            integer_type(bytes, true).ok_or_else(unknown)?
        }
        (Some(dw::DW_ATE_unsigned | dw::DW_ATE_unsigned_char | dw::DW_ATE_UTF), _) => {
            integer_type(bytes, false).ok_or_else(unknown)?
        }
        _ if name == "long double" => {
            return Err(
                "long double has 80 bits on x86_64 and 128 on aarch64, and neither reads the other's"
                    .to_owned(),
            );
        }
        _ => return Err(unknown()),
    })
}
