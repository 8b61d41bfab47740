//! Hashes of interfaces.

use std::fmt::Write;

use tombolo_base::hash::fnv1a;

use crate::model::{Interface, MessageKind, Model, Type};

/// Returns the hash that both sides of a channel must share: of package, name and version. Additions within a
/// version keep older peers working, so they are not part of it.
pub(crate) fn identity(package: &str, interface: &Interface) -> u64 {
    let identity = format!("tombolo interface 1\n{package}.{}@{}", interface.name, interface.version);
    // 0 means "no interface" in a handshake.
    fnv1a(identity.as_bytes()).max(1)
}

/// Returns the hash of an interface's canonical text.
pub(crate) fn of(model: &Model, interface: &Interface) -> u64 {
    fnv1a(canonical(model, interface).as_bytes()).max(1)
}

/// Returns the canonical text of an interface: everything that affects the wire format or its meaning, with
/// the names of messages, fields, cases and values. Omits documentation and type names; each type is spelled
/// out at its first use and then referred to by number.
fn canonical(model: &Model, interface: &Interface) -> String {
    let mut text = format!("{}.{}@{}", model.package, interface.name, interface.version);
    let mut seen = Vec::new();
    for message in &interface.messages {
        let _ = write!(text, "\n@{} {} ", message.ordinal, message.name);
        text.push_str(match &message.kind {
            MessageKind::Call { idempotent: true, .. } => "idempotent call",
            MessageKind::Call { .. } => "call",
            MessageKind::Message => "message",
            MessageKind::Event => "event",
        });
        for record in model.records_of(message) {
            text.push(' ');
            append_type(model, &Type::Record(record), &mut text, &mut seen);
        }
    }
    text
}

fn append_type(model: &Model, of: &Type, text: &mut String, seen: &mut Vec<Type>) {
    let named = matches!(of, Type::Record(_) | Type::Union(_) | Type::Enum(_));
    if named && let Some(place) = seen.iter().position(|earlier| earlier == of) {
        let _ = write!(text, "#{place}");
        return;
    }
    if named {
        seen.push(of.clone());
    }
    match of {
        Type::Bool => text.push_str("bool"),
        Type::Int(int) => text.push_str(&int.name()),
        Type::Float { bits } => text.push_str(&format!("f{bits}")),
        Type::Text { max } => text.push_str(&format!("string<{max}>")),
        Type::Bytes { max } => text.push_str(&format!("bytes<{max}>")),
        Type::Domain => text.push_str("domain"),
        Type::Handle { kind, moved } => {
            let _ = write!(text, "{} {}", if *moved { "move" } else { "copy" }, kind.word());
        }
        Type::Array { of, count } => append_nested_type(model, of, text, seen, &format!(";{count}")),
        Type::List { of, max } => append_nested_type(model, of, text, seen, &format!(";..{max}")),
        Type::Optional(of) => append_nested_type(model, of, text, seen, "?"),
        Type::Enum(index) => {
            let of = &model.enums[*index];
            let _ =
                write!(text, "{}{}:{}{{", flag(of.open, "open "), flag(of.flags, "flags"), of.repr.name());
            for value in &of.values {
                let _ = write!(text, "{}={},", value.name, value.value);
            }
            text.push('}');
        }
        Type::Record(index) => {
            let record = &model.records[*index];
            text.push_str(flag(record.frozen, "frozen"));
            text.push('{');
            for field in &record.fields {
                let _ = write!(text, "{}:", field.name);
                append_type(model, &field.of, text, seen);
                text.push(',');
            }
            text.push('}');
        }
        Type::Union(index) => {
            text.push_str("union{");
            for case in &model.unions[*index].cases {
                let _ = write!(text, "{}:", case.name);
                if let Some(of) = &case.of {
                    append_type(model, of, text, seen);
                }
                text.push(',');
            }
            text.push('}');
        }
    }
}

fn append_nested_type(model: &Model, of: &Type, text: &mut String, seen: &mut Vec<Type>, ending: &str) {
    text.push('[');
    append_type(model, of, text, seen);
    text.push_str(ending);
    text.push(']');
}

fn flag(set: bool, word: &'static str) -> &'static str {
    if set { word } else { "" }
}
