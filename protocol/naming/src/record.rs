//! A record: a name with attributes.

use alloc::string::{String, ToString};
use core::fmt;

use tombolo_interface::{Holds, List, View};

use crate::records::{AttributeView, MAX_GIVEN_ATTRIBUTES, Record, RecordView, Value};
use crate::value::Attributes;

/// An attribute that is not as asked for.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AttributeError {
    /// There is none of that name.
    #[error("record '{record}' has no attribute '{attribute}'")]
    Missing {
        /// The record.
        record: String,
        /// What was asked for.
        attribute: String,
    },
    /// It is of another kind.
    #[error("attribute '{attribute}' of record '{record}' is {found}, not {asked}")]
    Kind {
        /// The record.
        record: String,
        /// What was asked for.
        attribute: String,
        /// What it is.
        found: &'static str,
        /// What it was taken for.
        asked: &'static str,
    },
}

impl Record {
    /// The value of an attribute.
    ///
    /// # Errors
    /// [`AttributeError::Missing`].
    pub fn get(&self, attribute: &str) -> Result<&Value, AttributeError> {
        self.attributes.get(attribute).ok_or_else(|| AttributeError::Missing {
            record: self.name.clone(),
            attribute: attribute.to_string(),
        })
    }

    fn typed<'a, T>(
        &'a self,
        attribute: &str,
        asked: &'static str,
        take: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<T, AttributeError> {
        let value = self.get(attribute)?;
        take(value).ok_or_else(|| AttributeError::Kind {
            record: self.name.clone(),
            attribute: attribute.to_string(),
            found: value.kind(),
            asked,
        })
    }

    /// An attribute that is an integer.
    ///
    /// # Errors
    /// [`AttributeError`].
    pub fn integer(&self, attribute: &str) -> Result<i64, AttributeError> {
        self.typed(attribute, "an integer", |value| match value {
            Value::Integer(number) => Some(*number),
            _ => None,
        })
    }

    /// An attribute that is a float.
    ///
    /// # Errors
    /// [`AttributeError`].
    pub fn float(&self, attribute: &str) -> Result<f64, AttributeError> {
        self.typed(attribute, "a float", |value| match value {
            Value::Float(number) => Some(number.0),
            _ => None,
        })
    }

    /// An attribute that is text.
    ///
    /// # Errors
    /// [`AttributeError`].
    pub fn text(&self, attribute: &str) -> Result<&str, AttributeError> {
        self.typed(attribute, "text", |value| match value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// An attribute that is a bool.
    ///
    /// # Errors
    /// [`AttributeError`].
    pub fn bool(&self, attribute: &str) -> Result<bool, AttributeError> {
        self.typed(attribute, "a bool", |value| match value {
            Value::Bool(value) => Some(*value),
            _ => None,
        })
    }

    /// An attribute that is bytes.
    ///
    /// # Errors
    /// [`AttributeError`].
    pub fn bytes(&self, attribute: &str) -> Result<&[u8], AttributeError> {
        self.typed(attribute, "bytes", |value| match value {
            Value::Bytes(bytes) => Some(bytes.as_slice()),
            _ => None,
        })
    }
}

/// As it is written: `name { attribute: value, … }`.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.attributes.is_empty() {
            return f.write_str(" {}");
        }
        for (index, (name, value)) in self.attributes.iter().enumerate() {
            write!(f, "{} {name}: {value}", if index == 0 { " {" } else { "," })?;
        }
        f.write_str(" }")
    }
}

/// Room that attributes take, in bytes, their names included.
pub(crate) fn size_bytes(attributes: &Attributes) -> usize {
    attributes.iter().map(|(name, value)| name.len() + value.size_bytes()).sum()
}

/// Room that a record takes in a message, in bytes.
pub(crate) fn encoded_bytes(name: &str, attributes: &Attributes) -> usize {
    type Listed<'m> = List<'m, AttributeView<'m>, { MAX_GIVEN_ATTRIBUTES as u32 }>;
    // What is longer than may be said fills a page alone, and whoever asked for it hears why it is not sent.
    let outside =
        <Listed<'_> as Holds<Attributes>>::outside(attributes, "attributes").unwrap_or(usize::MAX / 2);
    RecordView::BYTES as usize + name.len().next_multiple_of(8) + outside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_that_a_record_takes_is_what_its_encoding_has() {
        let values =
            [Value::from(7), Value::from(1.5), Value::from("text of nine"), Value::from(&[1_u8; 17][..])];
        for count in 0..=values.len() {
            let numbered = values.iter().take(count).enumerate();
            let attributes: Attributes =
                numbered.map(|(index, value)| (alloc::format!("a{index}"), value.clone())).collect();
            let name = "a-name".to_string();
            let record = Record { name, attributes, version: 1, owner: None, endpoint: false };
            let outside = <RecordView<'_> as Holds<Record>>::outside(&record, "record").unwrap();
            assert_eq!(encoded_bytes(&record.name, &record.attributes), RecordView::BYTES as usize + outside);
        }
    }
}
