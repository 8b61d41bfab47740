//! Spelling of names and types in Python.

use crate::model::{Case, Model, Type, Union};

use crate::check::names::camel;

/// Keywords of Python.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def",
    "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// Methods of every client and server, and parameters of every method.
const GENERATED_NAMES: [&str; 14] = [
    "self",
    "timeout",
    "poll",
    "close",
    "fileno",
    "arm",
    "counts",
    "peer",
    "peer_node",
    "connect",
    "accept",
    "default_timeout",
    "handler",
    "run",
];

/// Returns the name of a field, parameter or method.
pub(super) fn lower(name: &str) -> String {
    if KEYWORDS.contains(&name) || GENERATED_NAMES.contains(&name) {
        format!("{name}_")
    } else {
        name.to_owned()
    }
}

/// Returns the name of a constant or of an enum's value.
pub(super) fn constant(name: &str) -> String {
    name.to_ascii_uppercase()
}

/// Returns the name of a class.
pub(super) fn class(name: &str) -> String {
    if KEYWORDS.contains(&name) { format!("{name}_") } else { name.to_owned() }
}

/// Returns the class name of a union's case.
pub(super) fn case(union: &Union, case: &Case) -> String {
    format!("{}{}", union.name, camel(&case.name))
}

/// Escapes a line of documentation for a docstring.
pub(super) fn documentation(line: &str) -> String {
    let line = line.replace('\\', "\\\\").replace("\"\"\"", "\\\"\\\"\\\"");
    match line.strip_suffix('"') {
        Some(rest) => format!("{rest}\\\""),
        None => line,
    }
}

/// Returns the type hint of a value that is received or stored in a struct.
pub(super) fn hint(model: &Model, of: &Type) -> String {
    python_type(model, of, false)
}

/// Returns the type hint of a parameter.
pub(super) fn parameter(model: &Model, of: &Type) -> String {
    python_type(model, of, true)
}

fn python_type(model: &Model, of: &Type, sent: bool) -> String {
    match of {
        Type::Bool => "bool".to_owned(),
        Type::Int(_) | Type::Domain => "int".to_owned(),
        Type::Handle { .. } => "_stubs.Right".to_owned(),
        Type::Float { .. } => "float".to_owned(),
        Type::Text { .. } => "str".to_owned(),
        Type::Bytes { .. } if sent => "_stubs.Buffer".to_owned(),
        Type::Bytes { .. } => "bytes".to_owned(),
        Type::Array { of, .. } | Type::List { of, .. } if sent => {
            format!("_typing.Sequence[{}]", python_type(model, of, sent))
        }
        Type::Array { of, .. } | Type::List { of, .. } => {
            format!("_typing.List[{}]", python_type(model, of, sent))
        }
        Type::Optional(of) => format!("_typing.Optional[{}]", python_type(model, of, sent)),
        Type::Enum(index) => {
            let of = &model.enums[*index];
            let name = class(&of.name);
            if of.open && !of.flags { format!("_typing.Union[{name}, int]") } else { name }
        }
        Type::Record(index) => class(&model.records[*index].name),
        Type::Union(index) => class(&model.unions[*index].name),
    }
}

/// Returns the expression that describes a type's layout to the runtime.
pub(super) fn layout(model: &Model, of: &Type) -> String {
    match of {
        Type::Bool => "_stubs.BOOL".to_owned(),
        Type::Int(int) => format!("_stubs.{}", int.name().to_ascii_uppercase()),
        Type::Float { bits } => format!("_stubs.F{bits}"),
        Type::Domain => "_stubs.DOMAIN".to_owned(),
        Type::Text { max } => format!("_stubs.text({max})"),
        Type::Bytes { max } => format!("_stubs.blob({max})"),
        Type::Array { of, count } => format!("_stubs.array({}, {count})", layout(model, of)),
        Type::List { of, max } => format!("_stubs.sequence({}, {max})", layout(model, of)),
        Type::Optional(of) => format!("_stubs.optional({})", layout(model, of)),
        Type::Enum(index) => private(&model.enums[*index].name),
        Type::Record(index) => private(&model.records[*index].name),
        Type::Union(index) => private(&model.unions[*index].name),
        Type::Handle { kind, moved } => format!("_stubs.right({}, {})", kind.number(), python_bool(*moved)),
    }
}

/// Returns the name of the variable that holds a type's layout.
pub(super) fn private(name: &str) -> String {
    format!("_{name}")
}

pub(super) fn python_bool(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

/// Returns the size limit of a type for a comment; `None` if it has none.
pub(super) fn limit(of: &Type) -> Option<String> {
    Some(match of {
        Type::Text { max } | Type::Bytes { max } => format!("up to {max} bytes"),
        Type::List { of, max } => match limit(of) {
            Some(inner) => format!("up to {max}, each of {inner}"),
            None => format!("up to {max}"),
        },
        Type::Array { count, .. } => format!("exactly {count}"),
        Type::Int(int) => int.name(),
        Type::Optional(of) => limit(of)?,
        Type::Handle { kind, moved } => {
            format!("{} {}", if *moved { "moves:" } else { "copies:" }, kind.word())
        }
        _ => return None,
    })
}
