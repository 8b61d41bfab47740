//! Spelling of names and types in Go.

use crate::check::names::camel;
use crate::model::{Case, Model, Origin, Record, Type, Union};

/// Keywords and predeclared identifiers of Go, and identifiers that generated code uses. None of them can be
/// the name of a parameter or package.
const RESERVED: [&str; 34] = [
    "break",
    "case",
    "chan",
    "const",
    "context",
    "continue",
    "ctx",
    "default",
    "defer",
    "else",
    "error",
    "fallthrough",
    "false",
    "for",
    "func",
    "go",
    "goto",
    "handler",
    "if",
    "import",
    "interface",
    "iota",
    "map",
    "nil",
    "package",
    "range",
    "return",
    "select",
    "stubs",
    "string",
    "struct",
    "switch",
    "true",
    "type",
];

/// Further names that parameters cannot have. Unlike those in [`RESERVED`], all but `var` can be package
/// names.
const GENERATED_NAMES: [&str; 12] =
    ["c", "in", "m", "ok", "out", "r", "reply", "request", "s", "server", "var", "err"];

pub(super) fn is_package(name: &str) -> bool {
    let letters = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let begins = name.starts_with(|letter: char| letter.is_ascii_lowercase());
    begins && name.chars().all(letters) && !RESERVED.contains(&name) && name != "var"
}

/// Returns the exported name of a field or method.
pub(super) fn upper(name: &str) -> String {
    let name = camel(name);
    // Methods and fields of the generated types.
    let own = ["EncodeWire", "DecodeWire", "WireBytes", "Case", "Stub", "Serve"];
    if own.contains(&name.as_str()) { format!("{name}_") } else { name }
}

/// Returns the name of a parameter.
pub(super) fn lower(name: &str) -> String {
    let name = uncapitalised(&camel(name));
    // A parameter must not shadow a predeclared type that later parameters or the body may use.
    let is_type = name.starts_with(['u', 'i', 'f']) && name.ends_with(|last: char| last.is_ascii_digit());
    let taken = RESERVED.contains(&name.as_str()) || GENERATED_NAMES.contains(&name.as_str()) || is_type;
    if taken || ["bool", "byte", "make", "new", "len"].contains(&name.as_str()) {
        format!("{name}_")
    } else {
        name
    }
}

pub(super) fn uncapitalised(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| first.to_ascii_lowercase().to_string() + letters.as_str())
}

pub(super) fn constant(name: &str) -> String {
    camel(&name.to_ascii_lowercase())
}

/// Returns the name of a value of an enum or of flags.
pub(super) fn value(of: &str, value: &str) -> String {
    format!("{of}{}", camel(value))
}

pub(super) fn case(union: &Union, case: &Case) -> String {
    format!("{}Case{}", union.name, camel(&case.name))
}

/// Returns whether a record gets a Go type. Results without fields need none.
pub(super) fn is_written(record: &Record) -> bool {
    record.origin != Origin::Output || !record.fields.is_empty()
}

/// Returns the Go type for a type of the model.
pub(super) fn go_type(model: &Model, of: &Type) -> String {
    match of {
        Type::Bool => "bool".to_owned(),
        Type::Int(int) if int.signed => format!("int{}", int.bits),
        Type::Int(int) => format!("uint{}", int.bits),
        Type::Float { bits } => format!("float{bits}"),
        Type::Text { .. } => "string".to_owned(),
        Type::Bytes { .. } => "[]byte".to_owned(),
        Type::Array { of, count } => format!("[{count}]{}", go_type(model, of)),
        Type::List { of, .. } => format!("[]{}", go_type(model, of)),
        Type::Optional(of) => format!("*{}", go_type(model, of)),
        Type::Domain => "stubs.DomainID".to_owned(),
        Type::Handle { .. } => "stubs.Right".to_owned(),
        Type::Enum(index) => model.enums[*index].name.clone(),
        Type::Record(index) => model.records[*index].name.clone(),
        Type::Union(index) => model.unions[*index].name.clone(),
    }
}

/// Returns the size limit of a type for a comment; `None` if it has none.
pub(super) fn limit(of: &Type) -> Option<String> {
    Some(match of {
        Type::Text { max } | Type::Bytes { max } => format!("Up to {max} bytes."),
        Type::List { of, max } => match limit(of) {
            Some(inner) => {
                format!("Up to {max}; of each: {}{}", inner[..1].to_ascii_lowercase(), &inner[1..])
            }
            None => format!("Up to {max}."),
        },
        Type::Optional(of) => match limit(of) {
            Some(inner) => format!("{inner} nil if absent."),
            None => "nil if absent.".to_owned(),
        },
        Type::Handle { kind, moved } => {
            format!("{} {}.", if *moved { "Gives away:" } else { "Copies:" }, kind.word())
        }
        _ => return None,
    })
}
