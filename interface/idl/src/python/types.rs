//! Generated Python enums, structs and unions.

use std::collections::BTreeSet;

use super::Text;
use super::names::{self, class, constant, hint, layout, lower, private, python_bool};
use crate::model::{Enum, Model, Origin, Record, Type, Union};

/// Writes all types, each after the types that it contains.
pub(super) fn all(text: &mut Text, model: &Model) {
    let mut types = TypeWriter { text, model, done: BTreeSet::new() };
    for of in &model.enums {
        types.write_enumeration(of);
    }
    for index in 0..model.records.len() {
        types.write_with_dependencies(&Type::Record(index));
    }
    for index in 0..model.unions.len() {
        types.write_with_dependencies(&Type::Union(index));
    }
}

/// Writes the list that describes a record's fields to the runtime.
pub(super) fn fields(text: &mut Text, model: &Model, record: &Record, ending: &str) {
    if record.fields.is_empty() {
        return text.lines(0, &format!("    [],\n{ending}"));
    }
    text.line(1, "[");
    for field in &record.fields {
        let of = layout(model, &field.of);
        text.line(2, &format!("(\"{}\", {}, {of}),", lower(&field.name), field.offset));
    }
    text.line(1, "],");
    text.line(0, ending);
}

struct TypeWriter<'a> {
    text: &'a mut Text,
    model: &'a Model,
    done: BTreeSet<String>,
}

impl TypeWriter<'_> {
    /// Writes a type after the types that it contains, unless it is written already. Types are not recursive,
    /// so this terminates.
    fn write_with_dependencies(&mut self, of: &Type) {
        match of {
            Type::Array { of, .. } | Type::List { of, .. } | Type::Optional(of) => {
                self.write_with_dependencies(of);
            }
            Type::Record(index) => {
                let record = &self.model.records[*index];
                if self.done.contains(&record.name) {
                    return;
                }
                record.fields.iter().for_each(|field| self.write_with_dependencies(&field.of));
                self.done.insert(record.name.clone());
                // Parameters are passed one by one, and declared errors are exceptions.
                match record.origin {
                    Origin::Struct => self.write_record(record),
                    Origin::Output if !record.fields.is_empty() => self.write_record(record),
                    _ => {}
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

    fn write_enumeration(&mut self, of: &Enum) {
        let (text, name) = (&mut *self.text, class(&of.name));
        let base = if of.flags { "IntFlag" } else { "IntEnum" };
        text.gap();
        text.line(0, &format!("class {name}(_enum.{base}):"));
        text.docstring(1, &of.docs);
        for value in &of.values {
            if !value.docs.is_empty() || !of.docs.is_empty() {
                text.blank();
            }
            text.notes(1, &value.docs);
            text.line(1, &format!("{} = {}", constant(&value.name), value.value));
        }
        text.gap();
        let repr = of.repr.name().to_ascii_uppercase();
        let (open, flags) = (python_bool(of.open), python_bool(of.flags));
        text.line(
            0,
            &format!("{} = _stubs.number({name}, _stubs.{repr}, {open}, {flags})", private(&of.name)),
        );
    }

    fn write_record(&mut self, record: &Record) {
        let (model, text, name) = (self.model, &mut *self.text, class(&record.name));
        text.gap();
        text.line(0, &format!("@_dataclasses.dataclass\nclass {name}:"));
        let plain = [match record.origin {
            Origin::Output => "The results of a call.".to_owned(),
            _ => "A struct.".to_owned(),
        }];
        text.docstring(1, if record.docs.is_empty() { &plain } else { &record.docs });
        text.blank();
        // A field can have a default only if all fields after it have one.
        let optional = record.fields.iter().rev().take_while(|field| matches!(field.of, Type::Optional(_)));
        let required = record.fields.len() - optional.count();
        for (index, field) in record.fields.iter().enumerate() {
            text.notes(1, &field.docs);
            let default = if index < required { "" } else { " = None" };
            let note = names::limit(&field.of).map_or_else(String::new, |limit| format!("  # {limit}"));
            text.line(1, &format!("{}: {}{default}{note}", lower(&field.name), hint(model, &field.of)));
        }
        text.gap();
        let (bytes, align, frozen) = (record.bytes, record.align, python_bool(record.frozen));
        text.line(0, &format!("{} = _stubs.record(", private(&record.name)));
        for word in [&*name, &bytes.to_string(), &align.to_string(), frozen] {
            text.line(1, &format!("{word},"));
        }
        fields(text, model, record, ")");
    }

    fn write_union(&mut self, union: &Union) {
        let (model, text) = (self.model, &mut *self.text);
        let mut classes = Vec::new();
        for case in &union.cases {
            let name = names::case(union, case);
            text.gap();
            text.line(0, &format!("@_dataclasses.dataclass\nclass {name}:"));
            let plain = [format!("Case `{}` of {}.", case.name, union.name)];
            text.docstring(1, if case.docs.is_empty() { &plain } else { &case.docs });
            if let Some(of) = &case.of {
                text.blank();
                let note = names::limit(of).map_or_else(String::new, |limit| format!("  # {limit}"));
                text.line(1, &format!("value: {}{note}", hint(model, of)));
            }
            classes.push(name);
        }
        text.gap();
        let docs =
            [&union.docs[..], &["One of these; the last stands for a case of a newer peer.".to_owned()]]
                .concat();
        text.notes(0, &docs);
        let cases = classes.join(", ");
        text.line(0, &format!("{} = _typing.Union[{cases}, _stubs.UnknownCase]", class(&union.name)));
        text.line(0, &format!("{} = _stubs.union(", private(&union.name)));
        text.line(1, &format!("\"{}\",", union.name));
        text.line(1, "[");
        for (case, name) in union.cases.iter().zip(&classes) {
            let of = case.of.as_ref().map_or_else(|| "None".to_owned(), |of| layout(model, of));
            text.line(2, &format!("({}, {name}, {of}),", case.ordinal));
        }
        text.lines(0, "    ],\n    _stubs.UnknownCase,\n)");
    }
}
