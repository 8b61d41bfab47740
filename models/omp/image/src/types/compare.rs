//! Comparison of one type in two builds.

use std::collections::HashSet;

use gimli::constants as dw;
use tombolo_base::Isa;

use super::dwarf::{Entry, Unit};

/// Types that differ by design between processors, with the reason.
const ISA_SPECIFIC_TYPES: [(&str, &str); 8] = [
    ("va_list", "says where a processor passes arguments"),
    ("__builtin_va_list", "says where a processor passes arguments"),
    ("__gnuc_va_list", "says where a processor passes arguments"),
    ("fenv_t", "keeps the registers of a processor"),
    ("ucontext_t", "keeps the registers of a processor"),
    ("mcontext_t", "keeps the registers of a processor"),
    ("stat", "is laid out by the kernel of each processor"),
    ("epoll_event", "is laid out by the kernel of each processor"),
];

/// Types that are equal everywhere but work within one process only.
const SINGLE_PROCESS_TYPES: [&str; 2] = ["mtx_t", "cnd_t"];

/// Type of a build: an entry, or `None` for `void`.
type TypeRef = Option<usize>;

/// State of a comparison.
pub(super) struct Comparison<'a> {
    isas: [Isa; 2],
    units: [&'a Unit; 2],
    /// Pairs that are or were compared, because types can be recursive.
    seen: HashSet<(usize, usize)>,
}

/// Difference between two builds.
struct Difference {
    /// Expression for the differing part, in C syntax.
    path: String,
    reason: String,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(isas: [Isa; 2], units: [&'a Unit; 2]) -> Comparison<'a> {
        Comparison { isas, units, seen: HashSet::new() }
    }

    /// Returns why a variable cannot be shared, if so.
    pub(super) fn sharing_obstacle(mut self, name: &str, types: [TypeRef; 2]) -> Option<String> {
        let found = self.find_difference(name, types)?;
        Some(if found.path == name {
            format!("cannot be shared: {}", found.reason)
        } else {
            format!("cannot be shared: {}: {}", found.path, found.reason)
        })
    }

    /// Returns why a function that migrates cannot have a parameter or a result, if so.
    pub(super) fn migration_obstacle(mut self, name: &str, types: [TypeRef; 2]) -> Option<String> {
        let found = self.find_difference(name, types)?;
        Some(format!("cannot migrate: `{}`: {}", found.path, found.reason))
    }

    /// Returns why an outlined function cannot receive its frame, if so; the types are those of its argument.
    pub(super) fn frame_obstacle(mut self, one: TypeRef, other: TypeRef) -> Option<String> {
        let types = [self.pointee(0, one), self.pointee(1, other)];
        let found = self.find_difference("", types)?;
        Some(match found.path.trim_start_matches(['*', '.']) {
            "" => format!("is given what builds do not agree on: {}", found.reason),
            path => format!("is given `{path}`: {}", found.reason),
        })
    }

    /// Returns the target type of a pointer or reference, ignoring qualifiers.
    fn pointee(&self, build: usize, type_ref: TypeRef) -> TypeRef {
        let at = self.strip_qualifiers(build, type_ref, &mut |_| {})?;
        let entry = self.units[build].entries.get(&at)?;
        let is_pointer = matches!(entry.tag, dw::DW_TAG_pointer_type | dw::DW_TAG_reference_type);
        if is_pointer { entry.type_ref } else { None }
    }

    /// Strips qualifiers and typedefs, as [`Unit::strip_qualifiers`].
    fn strip_qualifiers(&self, build: usize, type_ref: TypeRef, name: &mut dyn FnMut(&str)) -> TypeRef {
        self.units[build].strip_qualifiers(type_ref, name)
    }

    /// Compares one type; `path` is the expression that has it.
    fn find_difference(&mut self, path: &str, types: [TypeRef; 2]) -> Option<Difference> {
        let mut names: Vec<String> = Vec::new();
        let plain = [
            self.strip_qualifiers(0, types[0], &mut |name| names.push(name.to_owned())),
            self.strip_qualifiers(1, types[1], &mut |_| {}),
        ];
        if let Some(name) = names.iter().find(|name| SINGLE_PROCESS_TYPES.contains(&name.as_str())) {
            let reason = format!(
                "{name} works in one process alone, and workers are several: use pthread_mutex_t, omp_lock_t or critical"
            );
            return Some(Difference { path: path.to_owned(), reason });
        }
        let (one, other) = match plain {
            [Some(one), Some(other)] => (one, other),
            // A pointer to `void` has no known target.
            _ => return None,
        };
        if !self.seen.insert((one, other)) {
            return None;
        }
        let units = self.units;
        let (Some(one), Some(other)) = (units[0].entries.get(&one), units[1].entries.get(&other)) else {
            return None;
        };
        names.extend(one.name.clone());
        let found = self.find_plain_difference(path, [one, other])?;
        // The type's name is more helpful than its differing part.
        let Some((name, why)) =
            ISA_SPECIFIC_TYPES.iter().find(|(known, _)| names.iter().any(|name| name == known))
        else {
            return Some(found);
        };
        let sizes = [self.bytes(0, types[0]), self.bytes(1, types[1])];
        let sizes = match sizes {
            [Some(one), Some(other)] if one != other => {
                format!(" ({one} bytes on {}, {other} on {})", self.isas[0], self.isas[1])
            }
            _ => String::new(),
        };
        Some(Difference { path: path.to_owned(), reason: format!("{name} {why}{sizes}") })
    }

    fn find_plain_difference(&mut self, path: &str, entries: [&Entry; 2]) -> Option<Difference> {
        let [one, other] = entries;
        if one.incomplete || other.incomplete {
            return None;
        }
        let differ = |reason: String| Some(Difference { path: path.to_owned(), reason });
        if one.tag != other.tag {
            return differ(format!("it is of another kind on {} than on {}", self.isas[0], self.isas[1]));
        }
        match one.tag {
            dw::DW_TAG_base_type => {
                if one.name.as_deref().is_some_and(|name| name.contains("long double")) {
                    return differ(
                        "long double has 80 bits on x86_64 and 128 on aarch64, and neither reads the other's"
                            .to_owned(),
                    );
                }
                // The signedness of `wchar_t` depends on the processor; its bits do not.
                let number = |entry: &Entry| {
                    let encoding = entry.encoding?;
                    let alike = [dw::DW_ATE_unsigned, dw::DW_ATE_unsigned_char, dw::DW_ATE_signed_char];
                    Some(if alike.contains(&encoding) { dw::DW_ATE_signed } else { encoding })
                };
                if number(one) != number(other) {
                    return differ("it is another kind of number".to_owned());
                }
                self.compare_sizes(path, entries)
            }
            dw::DW_TAG_pointer_type | dw::DW_TAG_reference_type | dw::DW_TAG_rvalue_reference_type => {
                // References in frames are the way to share variables, so they add nothing to the path.
                let path = if one.tag == dw::DW_TAG_pointer_type && !path.is_empty() {
                    format!("*{path}")
                } else {
                    path.to_owned()
                };
                self.find_difference(&path, [one.type_ref, other.type_ref])
            }
            dw::DW_TAG_array_type => {
                let counts = [self.count(0, one), self.count(1, other)];
                if counts[0] != counts[1] {
                    return differ(format!(
                        "it has {} elements on {} and {} on {}",
                        counts[0], self.isas[0], counts[1], self.isas[1]
                    ));
                }
                self.find_difference(&format!("{path}[]"), [one.type_ref, other.type_ref])
            }
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => {
                self.compare_members(path, entries)
            }
            dw::DW_TAG_enumeration_type => self.compare_sizes(path, entries),
            _ => None,
        }
    }

    fn compare_sizes(&self, path: &str, [one, other]: [&Entry; 2]) -> Option<Difference> {
        let (one, other) = (one.bytes.unwrap_or(0), other.bytes.unwrap_or(0));
        (one != other).then(|| Difference {
            path: path.to_owned(),
            reason: format!("it has {one} bytes on {} and {other} on {}", self.isas[0], self.isas[1]),
        })
    }

    fn compare_members(&mut self, path: &str, entries: [&Entry; 2]) -> Option<Difference> {
        let members = [self.members(0, entries[0]), self.members(1, entries[1])];
        for (one, other) in members[0].iter().zip(&members[1]) {
            let name = one.name.as_deref().unwrap_or("(nameless)");
            // Access through a pointer is written with an arrow.
            let inner = match path.strip_prefix('*') {
                Some(pointer) => format!("{pointer}->{name}"),
                None => format!("{path}.{name}"),
            };
            if one.name != other.name {
                let reason = format!("it is another member on {} than on {}", self.isas[0], self.isas[1]);
                return Some(Difference { path: inner, reason });
            }
            if let Some(found) = self.find_difference(&inner, [one.type_ref, other.type_ref]) {
                return Some(found);
            }
            let at = |entry: &Entry| (entry.offset.unwrap_or(0), entry.bits);
            if at(one) != at(other) {
                let (one, other) = (one.offset.unwrap_or(0), other.offset.unwrap_or(0));
                let reason = format!(
                    "it is at byte {one} on {} and at byte {other} on {}",
                    self.isas[0], self.isas[1]
                );
                return Some(Difference { path: inner, reason });
            }
        }
        if members[0].len() != members[1].len() {
            let reason = format!(
                "it has {} members on {} and {} on {}",
                members[0].len(),
                self.isas[0],
                members[1].len(),
                self.isas[1]
            );
            return Some(Difference { path: path.to_owned(), reason });
        }
        self.compare_sizes(path, entries)
    }

    /// Returns the members, and the base classes of a class.
    fn members(&self, build: usize, entry: &Entry) -> Vec<&'a Entry> {
        let unit: &'a Unit = self.units[build];
        let children = entry.children.iter().filter_map(|child| unit.entries.get(child));
        children.filter(|child| matches!(child.tag, dw::DW_TAG_member | dw::DW_TAG_inheritance)).collect()
    }

    fn count(&self, build: usize, entry: &Entry) -> u64 {
        self.units[build].count(entry)
    }

    /// Returns the size of a type in bytes, if it is known.
    fn bytes(&self, build: usize, type_ref: TypeRef) -> Option<u64> {
        let mut at = type_ref;
        let mut times: u64 = 1;
        for _ in 0..16 {
            let entry = self.units[build].entries.get(&self.strip_qualifiers(build, at, &mut |_| {})?)?;
            if entry.tag != dw::DW_TAG_array_type {
                return entry.bytes?.checked_mul(times);
            }
            times = times.checked_mul(self.count(build, entry))?;
            at = entry.type_ref;
        }
        None
    }
}
