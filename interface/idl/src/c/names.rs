//! Spelling of names and types in C.

use crate::check::names::snake;
use crate::model::{Model, Type};

/// Keywords of C and C++, and macros that the included headers define.
const KEYWORDS: &[&str] = &[
    "alignas",
    "alignof",
    "and",
    "and_eq",
    "asm",
    "auto",
    "bitand",
    "bitor",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "char8_t",
    "char16_t",
    "char32_t",
    "class",
    "co_await",
    "co_return",
    "co_yield",
    "compl",
    "concept",
    "const",
    "const_cast",
    "consteval",
    "constexpr",
    "constinit",
    "continue",
    "decltype",
    "default",
    "delete",
    "do",
    "double",
    "dynamic_cast",
    "else",
    "enum",
    "errno",
    "explicit",
    "export",
    "extern",
    "false",
    "float",
    "for",
    "friend",
    "goto",
    "if",
    "inline",
    "int",
    "linux",
    "long",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "not_eq",
    "nullptr",
    "operator",
    "or",
    "or_eq",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "requires",
    "restrict",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "static_assert",
    "static_cast",
    "struct",
    "switch",
    "template",
    "this",
    "thread_local",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "typeof",
    "union",
    "unix",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "wchar_t",
    "while",
    "xor",
    "xor_eq",
];

/// Naming context: the model and the prefix of its names.
pub(super) struct Names<'a> {
    pub(super) model: &'a Model,
    prefix: String,
}

impl<'a> Names<'a> {
    pub(super) fn new(model: &'a Model, prefix: String) -> Self {
        Names { model, prefix }
    }

    /// Returns whether the file itself declares `name`, rather than an included file.
    pub(super) fn is_declared_here(&self, name: &str) -> bool {
        !self.model.included.contains_key(name)
    }

    /// Returns the prefix of a name. Names from included files have the prefix of their own headers.
    fn prefix_of(&self, name: &str) -> String {
        let module = self.model.included.get(name);
        let package = module.and_then(|module| self.model.packages.get(module));
        package.map_or_else(|| self.prefix.clone(), |package| default_prefix(package))
    }

    /// Returns the name of a type or function.
    pub(super) fn lower(&self, name: &str) -> String {
        format!("{}{}", self.prefix_of(name), snake(name))
    }

    /// Returns the name of a macro.
    pub(super) fn upper(&self, name: &str) -> String {
        format!("{}{name}", self.prefix_of(name)).to_uppercase()
    }

    /// Returns the name of an enum's value, or of the number of a union's case.
    pub(super) fn value(&self, of: &str, value: &str) -> String {
        format!("{}_{value}", self.lower(of)).to_uppercase()
    }

    /// Returns the part that a type contributes to the name of a composite type.
    pub(super) fn name_part(&self, of: &Type) -> String {
        match of {
            Type::Bool => "bool".to_owned(),
            Type::Int(int) => int.name(),
            Type::Float { bits } => format!("f{bits}"),
            Type::Text { .. } => "text".to_owned(),
            Type::Bytes { .. } => "bytes".to_owned(),
            Type::Array { of, count } => format!("array_{count}_{}", self.name_part(of)),
            Type::List { of, .. } => format!("list_{}", self.name_part(of)),
            Type::Optional(of) => format!("optional_{}", self.name_part(of)),
            Type::Enum(index) => snake(&self.model.enums[*index].name),
            Type::Record(index) => snake(&self.model.records[*index].name),
            Type::Union(index) => snake(&self.model.unions[*index].name),
            Type::Domain => "domain".to_owned(),
            Type::Handle { .. } => "right".to_owned(),
        }
    }

    /// Returns the C type of a value. For an array, this is the struct that wraps it as an element of a list.
    pub(super) fn type_name(&self, of: &Type) -> String {
        match of {
            Type::Bool => "bool".to_owned(),
            Type::Int(int) => format!("{}int{}_t", if int.signed { "" } else { "u" }, int.bits),
            Type::Float { bits: 32 } => "float".to_owned(),
            Type::Float { .. } => "double".to_owned(),
            Type::Text { .. } => "tombolo_text".to_owned(),
            Type::Bytes { .. } => "tombolo_bytes".to_owned(),
            Type::Domain => "uint64_t".to_owned(),
            Type::Handle { .. } => "tombolo_right".to_owned(),
            Type::Enum(index) => self.lower(&self.model.enums[*index].name),
            Type::Record(index) => self.lower(&self.model.records[*index].name),
            Type::Union(index) => self.lower(&self.model.unions[*index].name),
            other if is_runtime_type(other) => format!("tombolo_{}", self.name_part(other)),
            other => format!("{}{}", self.prefix, self.name_part(other)),
        }
    }

    /// Returns whether other headers may define the same composite type under the same name.
    pub(super) fn is_shared(&self, of: &Type) -> bool {
        match of {
            Type::Array { of, .. } | Type::List { of, .. } | Type::Optional(of) => self.is_shared(of),
            Type::Enum(index) => !self.is_declared_here(&self.model.enums[*index].name),
            Type::Record(index) => !self.is_declared_here(&self.model.records[*index].name),
            Type::Union(index) => !self.is_declared_here(&self.model.unions[*index].name),
            _ => true,
        }
    }

    /// Returns the member access that leads from a list element to its value.
    pub(super) fn value_access(of: &Type) -> &'static str {
        if matches!(of, Type::Array { .. }) { ".items" } else { "" }
    }

    /// Returns a C declaration of `name` with the type `of`.
    pub(super) fn declare(&self, of: &Type, name: &str) -> String {
        match of {
            Type::Array { of, count } => self.declare(of, &format!("{name}[{count}]")),
            other => format!("{} {name}", self.type_name(other)),
        }
    }

    /// Returns whether a record has fields. A record without fields has no C type.
    pub(super) fn has_fields(&self, record: usize) -> bool {
        !self.model.records[record].fields.is_empty()
    }
}

/// Returns the default prefix of names in `package`.
pub(super) fn default_prefix(package: &str) -> String {
    format!("{}_", package.rsplit('.').next().unwrap_or_default())
}

/// Returns whether `tombolo/wire.h` defines the type: a list or an optional value of a built-in type.
pub(super) fn is_runtime_type(of: &Type) -> bool {
    let (Type::List { of, .. } | Type::Optional(of)) = of else { return false };
    !matches!(
        &**of,
        Type::Array { .. }
            | Type::List { .. }
            | Type::Optional(_)
            | Type::Enum(_)
            | Type::Record(_)
            | Type::Union(_)
    )
}

/// Returns the name of a field.
pub(super) fn field(name: &str) -> String {
    if KEYWORDS.contains(&name) { format!("{name}_") } else { name.to_owned() }
}

/// Returns a number as a C literal of sufficient width.
pub(super) fn literal(value: i128) -> String {
    match value {
        value if value == i128::from(i64::MIN) => "INT64_MIN".to_owned(),
        value if value < 0 => format!("(-INT64_C({}))", -value),
        value if value > i128::from(i64::MAX) => format!("UINT64_C({value})"),
        value if value > i128::from(i32::MAX) => format!("INT64_C({value})"),
        value => value.to_string(),
    }
}

/// Escapes comment delimiters in `text`.
pub(super) fn comment(text: &str) -> String {
    text.replace("*/", "* /").replace("/*", "/ *")
}
