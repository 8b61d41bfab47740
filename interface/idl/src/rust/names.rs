//! Spelling of names and types in Rust.

use crate::model::{Model, Type};

pub(super) use crate::check::names::camel;

const KEYWORDS: [&str; 35] = [
    "as", "async", "await", "break", "const", "continue", "dyn", "else", "enum", "extern", "false", "fn",
    "for", "gen", "if", "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub", "ref", "return",
    "static", "struct", "trait", "true", "type", "unsafe", "use", "where", "while",
];

/// Returns the name of a field or function: raw if it is a keyword.
pub(super) fn lower(name: &str) -> String {
    let reserved =
        ["abstract", "become", "box", "do", "final", "macro", "override", "priv", "try", "typeof", "unsized"];
    if ["self", "super", "crate"].contains(&name) {
        return format!("{name}_");
    }
    let raw = KEYWORDS.contains(&name) || reserved.contains(&name) || ["virtual", "yield"].contains(&name);
    if raw { format!("r#{name}") } else { name.to_owned() }
}

/// Returns the name of a variant.
pub(super) fn variant(name: &str) -> String {
    let variant = camel(name);
    // `r#Self` is not allowed, and `Unknown` is the variant of unions for unknown cases.
    if ["Self", "Unknown"].contains(&&*variant) { format!("{variant}_") } else { variant }
}

/// Returns whether the type as sent has a lifetime parameter.
pub(super) fn borrows(model: &Model, of: &Type) -> bool {
    match of {
        Type::Text { .. } | Type::Bytes { .. } | Type::List { .. } => true,
        Type::Array { of, .. } | Type::Optional(of) => borrows(model, of),
        Type::Record(index) => model.records[*index].fields.iter().any(|field| borrows(model, &field.of)),
        Type::Union(index) => {
            let of = model.unions[*index].cases.iter().filter_map(|case| case.of.as_ref());
            of.into_iter().any(|of| borrows(model, of))
        }
        _ => false,
    }
}

/// Returns whether the type as received has a lifetime parameter.
pub(super) fn view_borrows(model: &Model, of: &Type) -> bool {
    match of {
        Type::Text { .. } | Type::Bytes { .. } | Type::List { .. } | Type::Array { .. } | Type::Record(_) => {
            true
        }
        Type::Optional(of) => view_borrows(model, of),
        Type::Union(index) => {
            let of = model.unions[*index].cases.iter().filter_map(|case| case.of.as_ref());
            of.into_iter().any(|of| view_borrows(model, of))
        }
        _ => false,
    }
}

/// Returns the type of a value that is sent, with the lifetime `life`.
pub(super) fn value(model: &Model, of: &Type, life: &str) -> String {
    let generic = |name: &str| if borrows(model, of) { format!("{name}<{life}>") } else { name.to_owned() };
    match of {
        Type::Text { .. } => format!("&{life} str"),
        Type::Bytes { .. } => format!("&{life} [u8]"),
        Type::List { of, .. } => format!("&{life} [{}]", value(model, of, life)),
        Type::Array { of, count } => format!("[{}; {count}]", value(model, of, life)),
        Type::Optional(of) => format!("Option<{}>", value(model, of, life)),
        Type::Record(index) => generic(&model.records[*index].name),
        Type::Union(index) => generic(&model.unions[*index].name),
        plain => scalar(model, plain),
    }
}

/// Returns the type of a value that is received, with the lifetime `life`.
pub(super) fn view(model: &Model, of: &Type, life: &str) -> String {
    match of {
        Type::Text { max } => format!("rt::Text<{life}, {max}>"),
        Type::Bytes { max } => format!("rt::Blob<{life}, {max}>"),
        Type::List { of, max } => format!("rt::List<{life}, {}, {max}>", view(model, of, life)),
        Type::Array { of, count } => format!("rt::Array<{life}, {}, {count}>", view(model, of, life)),
        Type::Optional(of) => format!("Option<{}>", view(model, of, life)),
        Type::Record(index) => format!("{}View<{life}>", model.records[*index].name),
        Type::Union(index) => {
            let life = if view_borrows(model, of) { format!("<{life}>") } else { String::new() };
            format!("{}View{life}", model.unions[*index].name)
        }
        plain => scalar(model, plain),
    }
}

fn scalar(model: &Model, of: &Type) -> String {
    match of {
        Type::Bool => "bool".to_owned(),
        Type::Int(int) => int.name(),
        Type::Float { bits } => format!("f{bits}"),
        Type::Enum(index) => model.enums[*index].name.clone(),
        Type::Handle { kind, moved } => format!("rt::{}<{moved}>", camel(kind.word())),
        _ => "rt::Domain".to_owned(),
    }
}
