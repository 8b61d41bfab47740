//! Values of attributes.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

use crate::records::Value;

/// Attributes of a record or event, by name.
pub type Attributes = BTreeMap<String, Value>;

/// Floating-point number with a total order, so that records can be compared: `-0.0` is below `0.0`.
#[derive(Clone, Copy, Debug)]
pub struct Float(pub f64);

impl PartialEq for Float {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Float {}

impl Value {
    /// Returns the name of the value's type, as used in errors.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Integer(_) => "an integer",
            Value::Float(_) => "a float",
            Value::Text(_) => "text",
            Value::Bool(_) => "a bool",
            Value::Bytes(_) => "bytes",
        }
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        match self {
            Value::Integer(_) | Value::Float(_) => 8,
            Value::Bool(_) => 1,
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
        }
    }

    /// Compares values of the same type, and numbers of both types by their exact values. Returns `None` for
    /// all others.
    #[must_use]
    pub fn compare(&self, other: &Value) -> Option<Ordering> {
        match (self, other) {
            (Value::Integer(a), Value::Integer(b)) => Some(a.cmp(b)),
            (Value::Float(a), Value::Float(b)) => a.0.partial_cmp(&b.0),
            (Value::Integer(a), Value::Float(b)) => compare_exactly(*a, b.0),
            (Value::Float(a), Value::Integer(b)) => compare_exactly(*b, a.0).map(Ordering::reverse),
            (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
            (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }
}

/// Compares without rounding the integer to a float, which would make distinct integers above 2^53 equal.
fn compare_exactly(integer: i64, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    if float >= 9_223_372_036_854_775_808.0 {
        return Some(Ordering::Less);
    }
    if float < -9_223_372_036_854_775_808.0 {
        return Some(Ordering::Greater);
    }
    let whole = float as i64;
    let fraction = float - whole as f64;
    Some(integer.cmp(&whole).then_with(|| 0.0_f64.partial_cmp(&fraction).unwrap_or(Ordering::Equal)))
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Integer(value) => write!(f, "{value}"),
            Value::Float(Float(value)) => write!(f, "{value:?}"),
            Value::Text(text) => {
                f.write_str("'")?;
                for character in text.chars() {
                    match character {
                        '\'' | '\\' => write!(f, "\\{character}")?,
                        '\n' => f.write_str("\\n")?,
                        _ => write!(f, "{character}")?,
                    }
                }
                f.write_str("'")
            }
            Value::Bool(value) => write!(f, "{value}"),
            Value::Bytes(bytes) => {
                f.write_str("x'")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str("'")
            }
        }
    }
}

macro_rules! from {
    ($($from:ty => |$value:ident| $to:expr;)*) => {$(
        impl From<$from> for Value {
            fn from($value: $from) -> Value {
                $to
            }
        }
    )*};
}
from! {
    i64 => |value| Value::Integer(value);
    i32 => |value| Value::Integer(value.into());
    u32 => |value| Value::Integer(value.into());
    f64 => |value| Value::Float(Float(value));
    bool => |value| Value::Bool(value);
    String => |value| Value::Text(value);
    &str => |value| Value::Text(value.into());
    Vec<u8> => |value| Value::Bytes(value);
    &[u8] => |value| Value::Bytes(value.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_compare_by_their_exact_values() {
        let big = 1_i64 << 53;
        let cases = [
            (Value::from(9), Value::from(9.5), Ordering::Less),
            (Value::from(-9), Value::from(-9.5), Ordering::Greater),
            (Value::from(12), Value::from(12.0), Ordering::Equal),
            (Value::from(big + 1), Value::from(big as f64), Ordering::Greater),
            (Value::from(i64::MAX), Value::from(9.3e18), Ordering::Less),
            (Value::from(i64::MIN), Value::from(-9.3e18), Ordering::Greater),
            (Value::from(i64::MIN), Value::from(i64::MIN as f64), Ordering::Equal),
        ];
        for (left, right, expected) in cases {
            assert_eq!(left.compare(&right), Some(expected), "{left} {right}");
            assert_eq!(right.compare(&left), Some(expected.reverse()), "{right} {left}");
        }
        assert_eq!(Value::from("9").compare(&Value::from(9)), None);
        assert_eq!(Value::from(f64::NAN).compare(&Value::from(1)), None);
    }

    #[test]
    fn values_print_in_source_form() {
        let shown = [
            (Value::from(-3), "-3"),
            (Value::from(12.0), "12.0"),
            (Value::from("it's \\"), r"'it\'s \\'"),
            (Value::from(true), "true"),
            (Value::from(&[0_u8, 0xff][..]), "x'00ff'"),
        ];
        for (value, text) in shown {
            assert_eq!(alloc::format!("{value}"), text);
        }
    }
}
