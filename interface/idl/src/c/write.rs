//! Generated C encoders.

use super::Text;
use super::names::{Names, field};
use crate::model::{Record, Type, Union, round_up};

/// Writes the encoder of a record's fields.
pub(super) fn record(text: &mut Text, names: &Names<'_>, record: &Record) {
    let name = names.lower(&record.name);
    text.blank();
    text.line(
        0,
        &format!("static inline void {name}_put(tombolo_writer *w, uint32_t at, const {name} *value)\n{{"),
    );
    for of in &record.fields {
        let label = format!("{}.{}", record.name, of.name);
        let at = if of.offset == 0 { "at".to_owned() } else { format!("at + {}", of.offset) };
        EncodeWriter { text, names, label: &label }.put(
            1,
            &of.of,
            &at,
            &format!("value->{}", field(&of.name)),
            0,
        );
    }
    text.line(0, "}");
}

/// Writes the encoder of a union.
pub(super) fn union(text: &mut Text, names: &Names<'_>, union: &Union) {
    let name = names.lower(&union.name);
    text.blank();
    text.line(
        0,
        &format!("static inline void {name}_put(tombolo_writer *w, uint32_t at, const {name} *value)\n{{"),
    );
    text.line(1, "switch (value->which) {");
    for case in &union.cases {
        let which = names.value(&union.name, &case.name);
        text.line(1, &format!("case {which}:"));
        match &case.of {
            None => text.line(2, &format!("(void)tombolo_put_case(w, at, {which}, 0);")),
            Some(of) => {
                let bytes = round_up(names.model.layout(of).bytes, 8);
                text.line(2, &format!("at = tombolo_put_case(w, at, {which}, {bytes});"));
                let label = format!("{}.{}", union.name, case.name);
                let value = format!("value->as.{}", field(&case.name));
                EncodeWriter { text, names, label: &label }.put(2, of, "at", &value, 0);
            }
        }
        text.line(2, "break;");
    }
    text.line(1, "default:");
    text.line(2, &format!("tombolo_put_fail(w, TOMBOLO_OVER_LIMIT, \"{}\");", union.name));
    text.line(2, "break;");
    text.line(1, "}");
    text.line(0, "}");
}

struct EncodeWriter<'a, 'm> {
    text: &'a mut Text,
    names: &'a Names<'m>,
    /// Name of the field in error messages.
    label: &'a str,
}

impl EncodeWriter<'_, '_> {
    fn put(&mut self, depth: usize, of: &Type, at: &str, value: &str, level: usize) {
        let (names, label) = (self.names, self.label);
        let line = match of {
            Type::Bool => format!("tombolo_put(w, {at}, {value} ? 1 : 0, 1);"),
            Type::Int(int) if int.signed => {
                format!("tombolo_put(w, {at}, (uint64_t){value}, {});", int.bits / 8)
            }
            Type::Int(int) => format!("tombolo_put(w, {at}, {value}, {});", int.bits / 8),
            Type::Float { bits } => format!("tombolo_put_f{bits}(w, {at}, {value});"),
            Type::Text { max } => format!("tombolo_put_text(w, {at}, {value}, {max}, \"{label}\");"),
            Type::Bytes { max } => format!("tombolo_put_bytes(w, {at}, {value}, {max}, \"{label}\");"),
            Type::Domain => format!("tombolo_put(w, {at}, {value}, 8);"),
            Type::Handle { kind, moved } => {
                let mark = u64::from(kind.number()) | u64::from(*moved) << 8;
                format!("tombolo_put_right(w, {at}, {value}, {mark:#x});")
            }
            Type::Enum(index) => {
                let of = &names.model.enums[*index];
                if !of.open {
                    let known = format!("{}_is_known({value})", names.lower(&of.name));
                    self.text.line(depth, &format!("tombolo_put_known(w, {known}, \"{label}\");"));
                }
                return self.put(depth, &Type::Int(of.repr), at, value, level);
            }
            Type::Record(index) => {
                let record = &names.model.records[*index];
                let name = names.lower(&record.name);
                if record.frozen {
                    format!("{name}_put(w, {at}, &{value});")
                } else {
                    format!(
                        "{name}_put(w, tombolo_put_record(w, {at}, {}), &{value});",
                        names.value(&record.name, "BYTES")
                    )
                }
            }
            Type::Union(index) => {
                format!("{}_put(w, {at}, &{value});", names.lower(&names.model.unions[*index].name))
            }
            Type::Array { of, count } => return self.array(depth, of, *count, at, value, level),
            Type::List { of, max } => return self.list(depth, of, *max, at, value, level),
            Type::Optional(of) => {
                let align = names.model.layout(of).align;
                self.text.line(depth, &format!("if ({value}.there) {{"));
                self.text.line(depth + 1, &format!("tombolo_put(w, {at}, 1, 1);"));
                self.put(depth + 1, of, &format!("{at} + {align}"), &format!("{value}.value"), level);
                "}".to_owned()
            }
        };
        self.text.line(depth, &line);
    }

    fn array(&mut self, depth: usize, of: &Type, count: u32, at: &str, value: &str, level: usize) {
        let each = self.names.model.layout(of).bytes;
        self.text.line(depth, &format!("for (uint32_t i{level} = 0; i{level} < {count}; i{level}++) {{"));
        let at = format!("{at} + i{level} * {each}");
        self.put(depth + 1, of, &at, &format!("{value}[i{level}]"), level + 1);
        self.text.line(depth, "}");
    }

    fn list(&mut self, depth: usize, of: &Type, max: u32, at: &str, value: &str, level: usize) {
        let each = self.names.model.layout(of).bytes;
        let label = self.label;
        self.text.line(depth, "{");
        self.text.line(
            depth + 1,
            &format!("const uint32_t list{level} = tombolo_put_list(w, {at}, {value}.items, {value}.count, {each}, {max}, \"{label}\");"),
        );
        self.text.line(
            depth + 1,
            &format!("for (uint32_t i{level} = 0; i{level} < {value}.count && tombolo_is_writing(w); i{level}++) {{"),
        );
        let at = format!("list{level} + i{level} * {each}");
        let item = format!("{value}.items[i{level}]{}", Names::value_access(of));
        self.put(depth + 2, of, &at, &item, level + 1);
        self.text.line(depth + 1, "}");
        self.text.line(depth, "}");
    }
}
