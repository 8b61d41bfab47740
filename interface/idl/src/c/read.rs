//! Generated C decoders.

use super::Text;
use super::names::{Names, field};
use crate::model::{Record, Type, Union, round_up};

/// Writes the decoder of a record's fields. The decoder expects a zeroed value.
pub(super) fn record(text: &mut Text, names: &Names<'_>, record: &Record) {
    let name = names.lower(&record.name);
    text.blank();
    text.line(
        0,
        &format!("static inline void {name}_get(tombolo_reader *r, tombolo_record in, uint32_t at, {name} *value)\n{{"),
    );
    for of in &record.fields {
        let at = if of.offset == 0 { "at".to_owned() } else { format!("at + {}", of.offset) };
        DecodeWriter { text, names }.get(1, &of.of, ("in", &at), &format!("value->{}", field(&of.name)), 0);
    }
    text.line(0, "}");
}

/// Writes the decoder of a union.
pub(super) fn union(text: &mut Text, names: &Names<'_>, union: &Union) {
    let name = names.lower(&union.name);
    text.blank();
    text.line(
        0,
        &format!("static inline void {name}_get(tombolo_reader *r, tombolo_record in, uint32_t at, {name} *value)\n{{"),
    );
    text.line(1, "tombolo_record inside;");
    text.line(1, "value->which = tombolo_get_case(r, in, at, &inside);");
    text.line(1, "switch (value->which) {");
    for case in &union.cases {
        text.line(1, &format!("case {}:", names.value(&union.name, &case.name)));
        match &case.of {
            None => text.line(2, "(void)tombolo_get_exactly(r, inside, 0);"),
            Some(of) => {
                let bytes = round_up(names.model.layout(of).bytes, 8);
                text.line(2, &format!("if (tombolo_get_exactly(r, inside, {bytes})) {{"));
                let value = format!("value->as.{}", field(&case.name));
                DecodeWriter { text, names }.get(3, of, ("inside", "inside.start"), &value, 0);
                text.line(2, "}");
            }
        }
        text.line(2, "break;");
    }
    text.line(1, "default:");
    text.line(2, "break;");
    text.line(1, "}");
    text.line(0, "}");
}

struct DecodeWriter<'a, 'm> {
    text: &'a mut Text,
    names: &'a Names<'m>,
}

impl DecodeWriter<'_, '_> {
    /// Writes statements that decode a value of type `of`. `place` names the record and the offset.
    fn get(&mut self, depth: usize, of: &Type, place: (&str, &str), value: &str, level: usize) {
        let names = self.names;
        let (inside, at) = place;
        let line = match of {
            Type::Bool => format!("{value} = tombolo_get_bool(r, {inside}, {at});"),
            Type::Int(_) => format!("{value} = ({})tombolo_get(r, {inside}, {at});", names.type_name(of)),
            Type::Float { bits } => format!("{value} = tombolo_get_f{bits}(r, {inside}, {at});"),
            Type::Text { max } => format!("{value} = tombolo_get_text(r, {inside}, {at}, {max});"),
            Type::Bytes { max } => format!("{value} = tombolo_get_bytes(r, {inside}, {at}, {max});"),
            Type::Domain => format!("{value} = tombolo_get(r, {inside}, {at});"),
            Type::Handle { kind, moved } => {
                let mark = u64::from(kind.number()) | u64::from(*moved) << 8;
                format!("{value} = tombolo_get_right(r, {inside}, {at}, {mark:#x});")
            }
            Type::Enum(index) => {
                let of = &names.model.enums[*index];
                let name = names.lower(&of.name);
                self.text.line(depth, &format!("{value} = ({name})tombolo_get(r, {inside}, {at});"));
                if of.open {
                    return;
                }
                format!("tombolo_get_known(r, {at}, {name}_is_known({value}));")
            }
            Type::Record(index) => {
                let record = &names.model.records[*index];
                let name = names.lower(&record.name);
                if record.frozen {
                    format!("{name}_get(r, {inside}, {at}, &{value});")
                } else {
                    self.text.line(depth, "{");
                    let read = format!("tombolo_get_record(r, {inside}, {at})");
                    self.text.line(depth + 1, &format!("const tombolo_record record{level} = {read};"));
                    let get = format!("{name}_get(r, record{level}, record{level}.start, &{value});");
                    self.text.line(depth + 1, &get);
                    "}".to_owned()
                }
            }
            Type::Union(index) => {
                let name = names.lower(&names.model.unions[*index].name);
                format!("{name}_get(r, {inside}, {at}, &{value});")
            }
            Type::Array { of, count } => return self.array(depth, of, *count, place, value, level),
            Type::List { of, max } => return self.list(depth, of, *max, place, value, level),
            Type::Optional(of) => {
                let align = names.model.layout(of).align;
                self.text.line(depth, &format!("{value}.there = tombolo_get_bool(r, {inside}, {at});"));
                self.text.line(depth, &format!("if ({value}.there) {{"));
                let at = format!("{at} + {align}");
                self.get(depth + 1, of, (inside, &at), &format!("{value}.value"), level);
                "}".to_owned()
            }
        };
        self.text.line(depth, &line);
    }

    fn array(&mut self, depth: usize, of: &Type, count: u32, place: (&str, &str), value: &str, level: usize) {
        let each = self.names.model.layout(of).bytes;
        self.text.line(depth, &format!("for (uint32_t i{level} = 0; i{level} < {count}; i{level}++) {{"));
        let at = format!("{} + i{level} * {each}", place.1);
        self.get(depth + 1, of, (place.0, &at), &format!("{value}[i{level}]"), level + 1);
        self.text.line(depth, "}");
    }

    fn list(&mut self, depth: usize, of: &Type, max: u32, place: (&str, &str), value: &str, level: usize) {
        let (inside, at) = place;
        let each = self.names.model.layout(of).bytes;
        let element = self.names.type_name(of);
        self.text.line(depth, "{");
        self.text.line(depth + 1, &format!("tombolo_record list{level};"));
        let sizes = format!("{each}, {max}, sizeof({element})");
        self.text.line(
            depth + 1,
            &format!("{element} *items{level} = ({element} *)tombolo_get_list(r, {inside}, {at}, {sizes}, &list{level}, &{value}.count);"),
        );
        self.text.line(
            depth + 1,
            &format!("for (uint32_t i{level} = 0; i{level} < {value}.count && tombolo_is_reading(r); i{level}++) {{"),
        );
        let at = format!("list{level}.start + i{level} * {each}");
        let item = format!("items{level}[i{level}]{}", Names::value_access(of));
        self.get(depth + 2, of, (&format!("list{level}"), &at), &item, level + 1);
        self.text.line(depth + 1, "}");
        self.text.line(depth + 1, &format!("{value}.items = items{level};"));
        self.text.line(depth, "}");
    }
}
