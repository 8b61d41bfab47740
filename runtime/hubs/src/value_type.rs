//! Types of values by name, for languages whose programs specify types as text.

use std::fmt;

/// Maximum nesting depth of tuples.
const MAX_DEPTH: usize = 8;

/// Type of a value, as named in text: `u64`, `text`, `(u64, (text, bool))`, or a type that a program has
/// declared, for example `example.Job`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ValueType {
    /// No bytes: `unit`.
    Unit,
    /// Number, with its name and its size in bytes.
    Number(&'static str, usize),
    /// One byte, 0 or 1: `bool`.
    Bool,
    /// UTF-8 text: `text`.
    Text,
    /// Tuple of two to four values, each preceded by its length.
    Tuple(Vec<ValueType>),
    /// Type declared by a program, whose bytes are not checked; with an empty name, any bytes.
    Declared(String),
}

/// Names of the number types, with their sizes in bytes.
const NUMBERS: [(&str, usize); 10] = [
    ("u8", 1),
    ("u16", 2),
    ("u32", 4),
    ("u64", 8),
    ("i8", 1),
    ("i16", 2),
    ("i32", 4),
    ("i64", 8),
    ("f32", 4),
    ("f64", 8),
];

impl ValueType {
    /// Parses a name; `None` if it is invalid.
    #[must_use]
    pub fn parse(text: &str) -> Option<ValueType> {
        let mut rest = text.trim();
        let parsed = parse(&mut rest, MAX_DEPTH)?;
        rest.is_empty().then_some(parsed)
    }

    /// Whether `bytes` are a valid value of this type.
    #[must_use]
    pub fn fits(&self, bytes: &[u8]) -> bool {
        match self {
            ValueType::Unit => bytes.is_empty(),
            ValueType::Number(_, length) => bytes.len() == *length,
            ValueType::Bool => matches!(bytes, [0 | 1]),
            ValueType::Text => std::str::from_utf8(bytes).is_ok(),
            ValueType::Tuple(types) => {
                let mut rest = bytes;
                types.iter().all(|item| field(&mut rest).is_some_and(|field| item.fits(field)))
                    && rest.is_empty()
            }
            ValueType::Declared(_) => true,
        }
    }
}

/// Returns the next value of a tuple.
fn field<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (field, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    *bytes = rest;
    Some(field)
}

fn parse(rest: &mut &str, depth: usize) -> Option<ValueType> {
    let Some(mut inside) = rest.strip_prefix('(') else {
        let end = rest.find(|c: char| !(c.is_alphanumeric() || "._".contains(c))).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        *rest = after.trim_start();
        return Some(named(name));
    };
    let mut types = Vec::new();
    loop {
        inside = inside.trim_start();
        types.push(parse(&mut inside, depth.checked_sub(1)?)?);
        if let Some(after) = inside.strip_prefix(')') {
            *rest = after.trim_start();
            return (2..=4).contains(&types.len()).then_some(ValueType::Tuple(types));
        }
        inside = inside.strip_prefix(',')?;
    }
}

fn named(name: &str) -> ValueType {
    match name {
        "unit" => ValueType::Unit,
        "bool" => ValueType::Bool,
        "text" => ValueType::Text,
        _ => match NUMBERS.iter().find(|(number, _)| *number == name) {
            Some((number, length)) => ValueType::Number(number, *length),
            None => ValueType::Declared(name.to_owned()),
        },
    }
}

impl fmt::Display for ValueType {
    /// Formats the type like [`Value::type_name`](crate::Value::type_name).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueType::Unit => f.write_str("unit"),
            ValueType::Bool => f.write_str("bool"),
            ValueType::Text => f.write_str("text"),
            ValueType::Number(name, _) => f.write_str(name),
            ValueType::Declared(name) => f.write_str(name),
            ValueType::Tuple(types) => {
                for (index, item) in types.iter().enumerate() {
                    write!(f, "{}{item}", if index == 0 { "(" } else { ", " })?;
                }
                f.write_str(")")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    fn assert_type_of<T: Value>(value: &T) {
        let parsed = ValueType::parse(&T::type_name()).expect("a type");
        assert_eq!(parsed.to_string(), T::type_name());
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        assert!(parsed.fits(&bytes), "{parsed}");
        if !matches!(parsed, ValueType::Declared(_)) {
            bytes.push(0xff);
            assert!(!parsed.fits(&bytes), "{parsed}");
        }
    }

    #[test]
    fn types_match_those_of_rust_values() {
        assert_type_of(&7_u8);
        assert_type_of(&-7_i64);
        assert_type_of(&1.5_f32);
        assert_type_of(&true);
        assert_type_of(&());
        assert_type_of(&"ü".to_owned());
        assert_type_of(&vec![1_u8, 2]);
        assert_type_of(&(7_u16, "ab".to_owned()));
        assert_type_of(&(1_u8, (), ((2_u64, true), "x".to_owned()), vec![1_u8]));
    }

    #[test]
    fn parse_ignores_blanks_and_refuses_invalid() {
        assert_eq!(ValueType::parse(" ( u64,text ) ").unwrap().to_string(), "(u64, text)");
        let declared = ValueType::Declared("example.Job".to_owned());
        assert_eq!(ValueType::parse("example.Job"), Some(declared));
        let deep = format!("{}u8{}", "(u8, ".repeat(9), ")".repeat(9));
        for wrong in ["(", "()", "(u8)", "(u8, u8", "u8 u8", "(u8, u8, u8, u8, u8)", "u8)", "a-b", &deep] {
            assert_eq!(ValueType::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn malformed_bytes_do_not_fit() {
        let pair = ValueType::parse("(bool, text)").unwrap();
        assert!(pair.fits(&[1, 0, 0, 0, 1, 0, 0, 0, 0]));
        for wrong in
            [&[][..], &[1, 0, 0, 0, 2, 0, 0, 0, 0], &[1, 0, 0, 0, 1, 1, 0, 0, 0, 0xff], &[9, 0, 0, 0]]
        {
            assert!(!pair.fits(wrong), "{wrong:?}");
        }
        assert!(!ValueType::Bool.fits(&[2]));
        assert!(!ValueType::Text.fits(&[0xff]));
    }
}
