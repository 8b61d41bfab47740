//! Enums, structs and unions. The generated code invokes macros of the runtime, which implement them.

use super::Text;
use super::names::{borrows, lower, value, variant as variant_name, view, view_borrows};
use crate::check::names::snake;
use crate::model::{Enum, Field, Model, Origin, Record, Type, Union};

pub(super) fn enumeration(text: &mut Text, of: &Enum) {
    let (name, repr) = (&of.name, of.repr.name());
    let head = match (of.flags, of.open) {
        (true, true) => format!("pub flags {name}: {repr} in {:#x};", u64::MAX >> (64 - of.repr.bits)),
        (true, false) => {
            let all = of.values.iter().fold(0, |all, known| all | known.value);
            format!("pub flags {name}: {repr} in {all:#x};")
        }
        (false, true) => format!("pub open {name}: {repr};"),
        (false, false) => format!("pub enum {name}: {repr};"),
    };
    text.line(0, "");
    text.line(0, "rt::number! {");
    text.docs(1, &of.docs, &format!("`{name}`."));
    text.line(1, &head);
    for known in &of.values {
        let constant =
            if of.flags || of.open { known.name.to_uppercase() } else { variant_name(&known.name) };
        text.docs(1, &known.docs, &format!("`{}`.", known.name));
        text.line(1, &format!("{constant} = {},", known.value));
    }
    text.line(0, "}");
}

pub(super) fn record(text: &mut Text, model: &Model, record: &Record) {
    let words = snake(&record.name).replace('_', " ");
    let what = match record.origin {
        Origin::Struct => format!("`{}`.", record.name),
        Origin::Input => format!("The parameters of a message: {words}."),
        // The declared enum or union serves as the error; the record gets no type.
        Origin::Error => return,
        Origin::Output => format!("The results of a call: {words}."),
    };
    let life = if record.fields.iter().any(|field| borrows(model, &field.of)) { "<'a>" } else { "" };
    let (name, bytes, align) = (&record.name, record.bytes, record.align);
    let form = if record.frozen { "inline" } else { "apart" };
    text.line(0, "");
    text.line(0, "rt::record! {");
    text.docs(1, &record.docs, &what);
    text.line(1, &format!("pub struct {name}{life} => {name}View<'m>, {form} {bytes} / {align};"));
    for field in &record.fields {
        text.docs(1, &field.docs, &field_docs(field));
        let (sent, read) = (value(model, &field.of, "'a"), view(model, &field.of, "'m"));
        text.line(1, &format!("{} @ {}: {sent} => {read},", lower(&field.name), field.offset));
    }
    text.line(0, "}");
}

pub(super) fn field_docs(field: &Field) -> String {
    let limit = match &field.of {
        Type::Text { max } | Type::Bytes { max } => format!(", up to {max} bytes"),
        Type::List { max, .. } => format!(", up to {max}"),
        _ => String::new(),
    };
    format!("`{}`{limit}.", field.name)
}

pub(super) fn union(text: &mut Text, model: &Model, union: &Union) {
    let name = &union.name;
    let of = || union.cases.iter().filter_map(|case| case.of.as_ref());
    let life = if of().any(|of| borrows(model, of)) { "<'a>" } else { "" };
    let view_life = if of().any(|of| view_borrows(model, of)) { "<'m>" } else { "" };
    text.line(0, "");
    text.line(0, "rt::union! {");
    text.docs(1, &union.docs, &format!("`{name}`."));
    text.line(1, &format!("pub enum {name}{life} => 'm {name}View{view_life};"));
    for case in &union.cases {
        text.docs(1, &case.docs, &format!("`{}`.", case.name));
        let carries = case.of.as_ref().map_or(String::new(), |of| {
            format!("(item: {} => {})", value(model, of, "'a"), view(model, of, "'m"))
        });
        text.line(1, &format!("{} => {}{carries},", case.ordinal, variant_name(&case.name)));
    }
    text.line(0, "}");
}
