//! Generated Go enums, structs and unions.

use super::Text;
use super::names::{case, go_type, is_written, limit, upper, value};
use super::values::ValueWriter;
use crate::model::{Case, Enum, Field, Model, Origin, Record, Union, round_up};

/// Writes the types whose names `own` accepts.
pub(super) fn all(text: &mut Text, model: &Model, own: impl Fn(&str) -> bool) {
    for of in model.enums.iter().filter(|of| own(&of.name)) {
        enumeration(text, of);
    }
    for of in model.records.iter().filter(|of| own(&of.name) && is_written(of)) {
        record(text, model, of);
    }
    for of in model.unions.iter().filter(|of| own(&of.name)) {
        union(text, model, of);
    }
}

/// Writes documentation that begins with the name, as is the convention in Go.
fn documented(text: &mut Text, depth: usize, name: &str, docs: &[String], plain: &str) {
    match docs {
        [] => text.line(depth, &format!("// {name} {plain}")),
        docs => {
            text.line(depth, format!("// {name}: {}", docs[0]).trim_end());
            text.go_comment(depth, &docs[1..]);
        }
    }
}

fn enumeration(text: &mut Text, of: &Enum) {
    let (name, repr) = (&of.name, if of.repr.signed { "int" } else { "uint" });
    text.blank();
    documented(
        text,
        0,
        name,
        &of.docs,
        if of.flags { "is a set of bits." } else { "is one of the values below." },
    );
    text.line(0, &format!("type {name} {repr}{}", of.repr.bits));
    for one in &of.values {
        text.blank();
        documented(text, 0, &value(name, &one.name), &one.docs, &format!("is the value `{}`.", one.name));
        text.line(0, &format!("const {} {name} = {}", value(name, &one.name), one.value));
    }
    text.blank();
    text.line(0, "// Known reports whether the interface file has the value.");
    text.line(0, &format!("func (m {name}) Known() bool {{"));
    if of.flags {
        let mask = of.values.iter().fold(0, |mask, one| mask | one.value);
        text.line(1, &format!("return uint64(m)&^{mask:#x} == 0"));
        return text.line(0, "}");
    }
    if !of.values.is_empty() {
        text.line(1, "switch m {");
        let all: Vec<String> = of.values.iter().map(|one| value(name, &one.name)).collect();
        text.line(1, &format!("case {}:", all.join(", ")));
        text.lines(1, "    return true\n}");
    }
    text.lines(0, "    return false\n}");
    text.blank();
    text.line(0, "// String returns the name of the value in the interface file, or its number.");
    text.line(0, &format!("func (m {name}) String() string {{"));
    text.line(1, "switch m {");
    for one in &of.values {
        text.line(1, &format!("case {}:", value(name, &one.name)));
        text.line(2, &format!("return \"{}\"", one.name));
    }
    text.lines(0, "    }\n    return stubs.Unnamed(int64(m))\n}");
}

fn field(text: &mut Text, model: &Model, field: &Field) {
    text.blank();
    text.go_comment(1, &field.docs);
    if let Some(limit) = limit(&field.of) {
        text.line(1, &format!("// {limit}"));
    }
    text.line(1, &format!("{} {}", upper(&field.name), go_type(model, &field.of)));
}

fn record(text: &mut Text, model: &Model, record: &Record) {
    let name = &record.name;
    let plain = match record.origin {
        Origin::Struct => "is a struct.",
        Origin::Input => "has the parameters of a message.",
        Origin::Output => "has the results of a call.",
        Origin::Error => "has the declared error of a call.",
    };
    text.blank();
    documented(text, 0, name, &record.docs, plain);
    if record.fields.is_empty() {
        text.line(0, &format!("type {name} struct{{}}"));
    } else {
        text.line(0, &format!("type {name} struct {{"));
        for (index, of) in record.fields.iter().enumerate() {
            if index == 0 {
                text.go_comment(1, &of.docs);
                if let Some(limit) = limit(&of.of) {
                    text.line(1, &format!("// {limit}"));
                }
                text.line(1, &format!("{} {}", upper(&of.name), go_type(model, &of.of)));
            } else {
                field(text, model, of);
            }
        }
        text.line(0, "}");
    }
    text.blank();
    text.line(0, "// WireBytes returns the length of the fields on the wire, in bytes.");
    text.line(0, &format!("func (m *{name}) WireBytes() int {{ return {} }}", record.bytes));
    text.blank();
    text.line(0, "// EncodeWire encodes the fields at an offset of a message.");
    text.line(0, &format!("func (m *{name}) EncodeWire(w *stubs.Writer, at int) {{"));
    let mut values = ValueWriter::new(text, model);
    for of in &record.fields {
        let label = format!("{name}.{}", of.name);
        values.with_label(label).put(1, &of.of, &format!("m.{}", upper(&of.name)), "at", of.offset);
    }
    text.line(0, "}");
    text.blank();
    text.line(0, "// DecodeWire decodes the fields; the view records errors.");
    text.line(0, &format!("func (m *{name}) DecodeWire(v stubs.View) {{"));
    let mut values = ValueWriter::new(text, model);
    for of in &record.fields {
        values.get(1, &of.of, &format!("m.{}", upper(&of.name)), "v", of.offset);
    }
    text.line(0, "}");
}

fn union(text: &mut Text, model: &Model, union: &Union) {
    let name = &union.name;
    text.blank();
    text.line(
        0,
        &format!("// {name}Case is the number of a case of {name}; unknown ones come from newer peers."),
    );
    text.line(0, &format!("type {name}Case uint32"));
    for one in &union.cases {
        text.blank();
        documented(text, 0, &case(union, one), &one.docs, &format!("is the case `{}`.", one.name));
        text.line(0, &format!("const {} {name}Case = {}", case(union, one), one.ordinal));
    }
    text.blank();
    text.line(0, "// String returns the name of the case in the interface file, or its number.");
    text.line(0, &format!("func (m {name}Case) String() string {{"));
    text.line(1, "switch m {");
    for one in &union.cases {
        text.line(1, &format!("case {}:", case(union, one)));
        text.line(2, &format!("return \"{}\"", one.name));
    }
    text.lines(0, "    }\n    return stubs.Unnamed(int64(m))\n}");
    text.blank();
    documented(text, 0, name, &union.docs, "is one of several cases.");
    text.line(0, &format!("type {name} struct {{"));
    text.line(1, "// Case selects the field below that is valid.");
    text.line(1, &format!("Case {name}Case"));
    let valued = || union.cases.iter().filter_map(|one| Some((one, one.of.as_ref()?)));
    for (one, of) in valued() {
        let Case { docs, name, .. } = one;
        field(text, model, &Field { docs: docs.clone(), name: name.clone(), of: of.clone(), offset: 0 });
    }
    text.line(0, "}");
    text.blank();
    text.line(0, "// EncodeWire encodes the union at an offset of a message.");
    text.line(0, &format!("func (m *{name}) EncodeWire(w *stubs.Writer, at int) {{"));
    text.line(1, "switch m.Case {");
    let mut values = ValueWriter::new(text, model);
    for one in &union.cases {
        values.case_to_bytes(name, union, one);
    }
    text.line(1, "default:");
    text.line(2, &format!("w.Known(false, \"{name}\")"));
    text.lines(0, "    }\n}");
    text.blank();
    text.line(0, "// DecodeWire decodes the union; the view records errors.");
    text.line(0, &format!("func (m *{name}) DecodeWire(v stubs.View) {{"));
    if valued().next().is_none() {
        text.lines(1, "ordinal, _ := v.Case(0)");
        text.line(1, &format!("m.Case = {name}Case(ordinal)"));
        return text.line(0, "}");
    }
    text.lines(1, "ordinal, o := v.Case(0)");
    text.line(1, &format!("m.Case = {name}Case(ordinal)"));
    text.line(1, "switch m.Case {");
    for (one, of) in valued() {
        text.line(1, &format!("case {}:", case(union, one)));
        text.line(2, &format!("o.Exactly({})", round_up(model.layout(of).bytes, 8)));
        let field = format!("m.{}", upper(&one.name));
        ValueWriter::new(text, model).get(2, of, &field, "o", 0);
    }
    text.lines(0, "    }\n}");
}

impl ValueWriter<'_> {
    fn case_to_bytes(&mut self, name: &str, union: &Union, one: &Case) {
        self.line(1, &format!("case {}:", case(union, one)));
        match &one.of {
            None => self.line(2, &format!("w.Case(at, {}, 0)", one.ordinal)),
            Some(of) => {
                let bytes = round_up(self.layout(of).bytes, 8);
                self.line(2, &format!("o := w.Case(at, {}, {bytes})", one.ordinal));
                let field = format!("m.{}", upper(&one.name));
                self.with_label(format!("{name}.{}", one.name)).put(2, of, &field, "o", 0);
            }
        }
    }
}
