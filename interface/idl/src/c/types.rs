//! Generated C types, each after the types that it contains.

use std::collections::BTreeSet;

use super::names::{Names, comment, field, is_runtime_type, literal};
use super::{Text, read, write};
use crate::model::{Enum, Field, Model, Origin, Record, Type, Union};

/// Writes all types. Returns the composite types, as pairs of name and description.
pub(super) fn all(text: &mut Text, model: &Model, names: &Names<'_>) -> Vec<(String, String)> {
    let mut types = TypeWriter { text, model, names, done: BTreeSet::new(), composites: Vec::new() };
    // Types of included files are defined in their own headers.
    types.done.extend(model.included.keys().cloned());
    model
        .enums
        .iter()
        .filter(|of| names.is_declared_here(&of.name))
        .for_each(|of| types.write_enumeration(of));
    for index in 0..model.records.len() {
        types.write_with_dependencies(&Type::Record(index));
    }
    for index in 0..model.unions.len() {
        types.write_with_dependencies(&Type::Union(index));
    }
    types.composites
}

struct TypeWriter<'a, 'm> {
    text: &'a mut Text,
    model: &'m Model,
    names: &'a Names<'m>,
    done: BTreeSet<String>,
    composites: Vec<(String, String)>,
}

impl TypeWriter<'_, '_> {
    /// Writes a type after the types that it contains, unless it is written already. Types are not recursive,
    /// so this terminates.
    fn write_with_dependencies(&mut self, of: &Type) {
        match of {
            Type::Array { of, .. } => self.write_with_dependencies(of),
            Type::List { of: inner, .. } => {
                self.write_with_dependencies(inner);
                if let Type::Array { of: each, count } = &**inner {
                    let name = self.names.type_name(inner);
                    let items = self.names.declare(each, &format!("items[{count}]"));
                    let what = format!("{count} of `{}`", self.names.name_part(each));
                    self.write_composite(
                        inner,
                        &what,
                        &format!("typedef struct {name} {{\n    {items};\n}} {name};"),
                    );
                }
                let what = format!("a list of `{}`", self.names.name_part(inner));
                let (name, item) = (self.names.type_name(of), self.names.type_name(inner));
                self.write_composite(of, &what, &format!("TOMBOLO_LIST({name}, {item});"));
            }
            Type::Optional(inner) => {
                self.write_with_dependencies(inner);
                let what = format!("an optional `{}`", self.names.name_part(inner));
                let (name, value) = (self.names.type_name(of), self.names.declare(inner, "value"));
                self.write_composite(of, &what, &format!("TOMBOLO_OPTIONAL({name}, {value});"));
            }
            Type::Record(index) => {
                let record = &self.model.records[*index];
                if self.names.has_fields(*index) && !self.done.contains(&record.name) {
                    record.fields.iter().for_each(|field| self.write_with_dependencies(&field.of));
                    self.done.insert(record.name.clone());
                    self.write_record(record);
                }
            }
            Type::Union(index) => {
                let union = &self.model.unions[*index];
                if !self.done.contains(&union.name) {
                    union
                        .cases
                        .iter()
                        .filter_map(|case| case.of.as_ref())
                        .for_each(|of| self.write_with_dependencies(of));
                    self.done.insert(union.name.clone());
                    self.write_union(union);
                }
            }
            _ => {}
        }
    }

    /// Writes a composite type: a list, an optional value or a wrapped array, which the interface file does
    /// not name.
    fn write_composite(&mut self, of: &Type, what: &str, declaration: &str) {
        let name = self.names.type_name(of);
        if is_runtime_type(of) || !self.done.insert(name.clone()) {
            return;
        }
        self.composites.push((name.clone(), what.to_owned()));
        self.text.blank();
        if self.names.is_shared(of) {
            // A program may include another header with the same prefix that defines the type too.
            let guard = format!("{name}_TYPE").to_uppercase();
            self.text.lines(0, &format!("#ifndef {guard}\n#define {guard}\n{declaration}\n#endif"));
        } else {
            self.text.lines(0, declaration);
        }
    }

    fn write_enumeration(&mut self, of: &Enum) {
        let (name, repr) = (self.names.lower(&of.name), self.names.type_name(&Type::Int(of.repr)));
        let text = &mut *self.text;
        text.blank();
        text.comment(0, &of.docs);
        text.line(0, &format!("typedef {repr} {name};"));
        for value in &of.values {
            text.comment(0, &value.docs);
            let number = literal(value.value);
            text.line(0, &format!("#define {} (({name}){number})", self.names.value(&of.name, &value.name)));
        }
        let known: Vec<String> =
            of.values.iter().map(|value| self.names.value(&of.name, &value.name)).collect();
        if !of.open {
            text.blank();
            text.line(
                0,
                if of.flags {
                    "/* Returns whether all bits are among those above. */"
                } else {
                    "/* Returns whether it is one of the values above. */"
                },
            );
            text.line(0, &format!("static inline bool {name}_is_known({name} value)\n{{"));
            if of.flags {
                let mask = of.values.iter().fold(0_u64, |mask, value| mask | value.value as u64);
                text.line(1, &format!("return (value & ~UINT64_C({mask:#x})) == 0;"));
            } else {
                let tests: Vec<String> = known.iter().map(|known| format!("value == {known}")).collect();
                text.line(1, &format!("return {};", tests.join(" || ")));
            }
            text.line(0, "}");
        }
        if !of.flags {
            text.blank();
            text.line(0, "/* Returns the name in the interface file, or \"unknown\". */");
            text.line(0, &format!("static inline const char *{name}_name({name} value)\n{{"));
            for (value, known) in of.values.iter().zip(&known) {
                text.line(1, &format!("TOMBOLO_NAME({known}, \"{}\");", value.name));
            }
            text.lines(0, "    return \"unknown\";\n}");
        }
    }

    fn write_record(&mut self, record: &Record) {
        let name = self.names.lower(&record.name);
        self.text.blank();
        if record.docs.is_empty() {
            let what = match record.origin {
                Origin::Struct => "A struct.",
                Origin::Input => "The parameters of a message.",
                Origin::Output => "The results of a call.",
                Origin::Error => "The declared error of a call.",
            };
            self.text.line(0, &format!("/* {what} */"));
        }
        self.text.comment(0, &record.docs);
        self.text.line(0, &format!("typedef struct {name} {{"));
        for of in &record.fields {
            self.text.comment(1, &of.docs);
            let note = limit(&of.of).map_or_else(String::new, |note| format!(" /* {note} */"));
            self.text.line(1, &format!("{};{note}", self.names.declare(&of.of, &field(&of.name))));
        }
        self.text.line(0, &format!("}} {name};"));
        self.text.line(0, "/* Length of its fields on the wire, in bytes. */");
        self.text.line(0, &format!("#define {} {}", self.names.value(&record.name, "BYTES"), record.bytes));
        write::record(self.text, self.names, record);
        read::record(self.text, self.names, record);
    }

    fn write_union(&mut self, union: &Union) {
        let name = self.names.lower(&union.name);
        let text = &mut *self.text;
        text.blank();
        for case in &union.cases {
            text.comment(0, &case.docs);
            text.line(
                0,
                &format!("#define {} UINT32_C({})", self.names.value(&union.name, &case.name), case.ordinal),
            );
        }
        text.blank();
        text.comment(0, &union.docs);
        text.line(0, &format!("typedef struct {name} {{"));
        text.line(1, "uint32_t which; /* one of the numbers above; others come from newer peers */");
        let valued: Vec<Field> = union
            .cases
            .iter()
            .filter_map(|case| {
                let of = case.of.clone()?;
                Some(Field { docs: Vec::new(), name: case.name.clone(), of, offset: 0 })
            })
            .collect();
        if !valued.is_empty() {
            text.line(1, "union {");
            for of in &valued {
                let note = limit(&of.of).map_or_else(String::new, |note| format!(" /* {note} */"));
                text.line(2, &format!("{};{note}", self.names.declare(&of.of, &field(&of.name))));
            }
            text.line(1, "} as;");
        }
        text.line(0, &format!("}} {name};"));
        write::union(text, self.names, union);
        read::union(text, self.names, union);
    }
}

/// Returns the size limit of a type for a comment; `None` if it has none.
fn limit(of: &Type) -> Option<String> {
    Some(match of {
        Type::Text { max } | Type::Bytes { max } => format!("up to {max} bytes"),
        Type::List { of, max } => match limit(of) {
            Some(inner) => comment(&format!("up to {max}, each of {inner}")),
            None => format!("up to {max}"),
        },
        Type::Optional(of) => limit(of)?,
        Type::Handle { kind, moved } => {
            format!("{} {}", if *moved { "moves: " } else { "copies: " }, kind.word()).replace(":  ", ": ")
        }
        _ => return None,
    })
}
