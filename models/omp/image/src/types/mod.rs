//! Compares the types of shared data in two builds, from debug information, and explains what cannot be
//! shared.
//!
//! Shared data are the program's variables, what they point to, and the frames through which outlined
//! functions receive their arguments. Processors agree on nearly all of C: sizes, alignment, bit-fields.
//! Differences are found by comparing layouts, except for `long double`, whose size is the same but whose
//! representation differs.

mod compare;
mod dwarf;
mod thunk;

use std::collections::{BTreeMap, HashMap};

use gimli::constants as dw;
use tombolo_base::Isa;

use compare::Comparison;
use dwarf::{Entry, Program, Unit, VariableLocation};

pub use thunk::{MARK_PREFIX, Thunks, thunks};

/// Debug information that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("what the compiler says of types cannot be read: {message}")]
pub struct TypesError {
    message: String,
}

/// Variable or function that builds cannot share, or that differs between them.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Refusal {
    /// Name of the variable or outlined function in the source; the argument of `--allow`.
    pub name: String,
    /// Symbol, if it differs from the name.
    pub symbol: Option<String>,
    /// Path of the source.
    pub file: String,
    /// Line in the source, from 1; 0 if unknown.
    pub line: u64,
    /// Reason, phrased as the end of a sentence that begins with the name.
    pub reason: String,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: `{}` {}", self.file, self.line, self.name, self.reason)
    }
}

/// Result of comparing two builds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Compared {
    /// Items that cannot be shared.
    pub refused: Vec<Refusal>,
    /// Number of variables that were compared.
    pub variables: usize,
    /// Number of frames of outlined functions that were compared.
    pub frames: usize,
}

/// Compares the types of shared data in two linked builds.
///
/// # Errors
/// [`TypesError`] if debug information cannot be read.
pub fn compare(builds: [(Isa, &[u8]); 2]) -> Result<Compared, TypesError> {
    let isas = [builds[0].0, builds[1].0];
    let programs = [Program::read(builds[0].1)?, Program::read(builds[1].1)?];
    let mut compared = Compared::default();
    let units = [units(&programs[0]), units(&programs[1])];
    for (key, one) in &units[0] {
        let Some(other) = units[1].get(key) else { continue };
        let pair = Pair { isas, programs: [&programs[0], &programs[1]], units: [one, other] };
        pair.compare_variables(&mut compared);
        pair.compare_frames(&mut compared);
    }
    compared
        .refused
        .sort_by(|one, other| (&one.file, one.line, &one.name).cmp(&(&other.file, other.line, &other.name)));
    Ok(compared)
}

/// Maps units by name and occurrence of that name.
fn units(program: &Program) -> BTreeMap<(&str, usize), &Unit> {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let numbered = program.units.iter().map(|unit| {
        let count = seen.entry(&unit.name).or_default();
        *count += 1;
        ((unit.name.as_str(), *count), unit)
    });
    numbered.collect()
}

/// Units of one source in two builds.
struct Pair<'a> {
    isas: [Isa; 2],
    programs: [&'a Program; 2],
    units: [&'a Unit; 2],
}

/// Identity of a variable in two builds.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Variable {
    /// Variable outside functions, by its name.
    Outer(String),
    /// Static variable of a function, by its symbol, which compilers number.
    Inner(String),
}

/// Variable of a build, with its declaration.
struct Declared<'a> {
    entry: &'a Entry,
    name: String,
    line: u64,
    column: u64,
}

impl<'a> Pair<'a> {
    fn compare_variables(&self, compared: &mut Compared) {
        let variables =
            [variables(self.programs[0], self.units[0]), variables(self.programs[1], self.units[1])];
        for (key, one) in &variables[0] {
            let Some(other) = variables[1].get(key) else { continue };
            if one.entry.location.is_none() && other.entry.location.is_none() {
                continue;
            }
            compared.variables += 1;
            let symbol = match key {
                Variable::Outer(_) => None,
                Variable::Inner(symbol) => Some(symbol.clone()),
            };
            let mut refuse = |reason: String| {
                let (name, symbol, file) = (one.name.clone(), symbol.clone(), self.units[0].name.clone());
                compared.refused.push(Refusal { name, symbol, file, line: one.line, reason });
            };
            if matches!(key, Variable::Inner(_))
                && (&one.name, one.line, one.column) != (&other.name, other.line, other.column)
            {
                refuse(format!(
                    "has a symbol in the build for {} that `{}` of line {} has in that for {}: the compilers number \
                     them differently; give it a name of its own",
                    self.isas[0], other.name, other.line, self.isas[1]
                ));
                continue;
            }
            let types = [(0, one), (1, other)].map(|(build, variable)| {
                let unit: &Unit = self.units[build];
                unit.attribute(variable.entry, |entry| entry.type_ref)
            });
            if let Some(reason) = Comparison::new(self.isas, self.units).sharing_obstacle(&one.name, types) {
                refuse(reason);
            }
        }
    }

    fn compare_frames(&self, compared: &mut Compared) {
        let functions =
            [outlined(self.programs[0], self.units[0]), outlined(self.programs[1], self.units[1])];
        for (symbol, one) in &functions[0] {
            let Some(other) = functions[1].get(symbol) else { continue };
            compared.frames += 1;
            let refuse = |reason: String| Refusal {
                name: symbol.clone(),
                symbol: None,
                file: self.units[0].name.clone(),
                line: one.line,
                reason,
            };
            if one.line != other.line {
                compared.refused.push(refuse(format!(
                    "is the region of line {} in the build for {}, and that of line {} in that for {}: the compilers \
                     number the regions of this source differently",
                    one.line, self.isas[0], other.line, self.isas[1]
                )));
                continue;
            }
            if let Some(reason) =
                Comparison::new(self.isas, self.units).frame_obstacle(one.frame, other.frame)
            {
                compared.refused.push(refuse(reason));
            }
        }
    }
}

/// Returns the variables of a unit with static storage: those outside functions, and those of functions that
/// have an address.
fn variables<'a>(program: &Program, unit: &'a Unit) -> BTreeMap<Variable, Declared<'a>> {
    let mut found = BTreeMap::new();
    for entry in unit.entries.values() {
        if entry.tag != dw::DW_TAG_variable || entry.incomplete {
            continue;
        }
        let Some(name) = unit.attribute(entry, |entry| entry.name.clone()) else { continue };
        let key = match entry.location {
            _ if !entry.local => Variable::Outer(name.clone()),
            Some(VariableLocation::Address(address)) => {
                match program.symbols.get(&address).and_then(|names| names.first()) {
                    Some(symbol) => Variable::Inner(symbol.clone()),
                    None => continue,
                }
            }
            _ => continue,
        };
        let line = unit.attribute(entry, |entry| entry.line).unwrap_or(0);
        let column = unit.attribute(entry, |entry| entry.column).unwrap_or(0);
        found.insert(key, Declared { entry, name, line, column });
    }
    found
}

/// Outlined function of a build.
struct Outlined {
    /// First line, from 1.
    line: u64,
    /// Type of its argument: a pointer to the frame.
    frame: Option<usize>,
}

/// Returns the outlined functions of a unit, by their symbols without the suffixes of parts and copies.
fn outlined(program: &Program, unit: &Unit) -> BTreeMap<String, Outlined> {
    let mut found = BTreeMap::new();
    for entry in unit.entries.values().filter(|entry| entry.tag == dw::DW_TAG_subprogram) {
        let Some(low_pc) = entry.low_pc else { continue };
        let names = program.symbols.get(&low_pc).map_or(&[][..], Vec::as_slice);
        let Some(symbol) = names.iter().find_map(|name| outlined_name(name)) else { continue };
        let parameter = entry
            .children
            .iter()
            .filter_map(|child| unit.entries.get(child))
            .find(|child| child.tag == dw::DW_TAG_formal_parameter);
        let frame = parameter.and_then(|parameter| unit.attribute(parameter, |entry| entry.type_ref));
        let line = unit.lines.get(&low_pc).copied().unwrap_or(0);
        found.insert(symbol.to_owned(), Outlined { line, frame });
    }
    found
}

/// Returns the name of an outlined function without the suffix of a copy; `None` for other functions and for
/// parts of one.
#[must_use]
pub fn outlined_name(symbol: &str) -> Option<&str> {
    let at = symbol.find("._omp_fn.").or_else(|| symbol.find("._omp_cpyfn."))?;
    let number = symbol[at + 1..].find('.')? + at + 2;
    let digits = symbol[number..].bytes().take_while(u8::is_ascii_digit).count();
    let rest = &symbol[number + digits..];
    // A part does not start a region.
    let part = rest.split('.').any(|word| word == "cold" || word == "part");
    (digits > 0 && !part).then(|| &symbol[..number + digits])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outlined_functions_are_recognised_by_name() {
        let name = outlined_name;
        assert_eq!(name("main._omp_fn.0"), Some("main._omp_fn.0"));
        assert_eq!(name("main._omp_fn.12.constprop.0"), Some("main._omp_fn.12"));
        assert_eq!(name("work.part.0._omp_fn.3.isra.0"), Some("work.part.0._omp_fn.3"));
        assert_eq!(name("main._omp_cpyfn.3"), Some("main._omp_cpyfn.3"));
        for other in
            ["main._omp_fn.0.cold", "main._omp_fn.0.part.0", "main", "main._omp_fn.", "x._omp_fnord.1"]
        {
            assert_eq!(name(other), None, "{other}");
        }
    }

    #[test]
    fn non_programs_have_no_types() {
        for bytes in [&b""[..], b"\x7fELF", &[0; 256]] {
            assert!(compare([(Isa::X86_64, bytes), (Isa::Aarch64, bytes)]).is_err());
            assert!(thunks(&[(Isa::X86_64, bytes)], &["work".to_owned()]).is_err());
        }
    }
}
