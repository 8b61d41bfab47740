//! Records: names with attributes.

use alloc::string::{String, ToString};
use core::fmt;

use tombolo_interface::{Holds, List, View};

use crate::records::{AttributeView, MAX_GIVEN_ATTRIBUTES, Record, RecordView, Value};
use crate::value::Attributes;

/// Error of reading an attribute that is missing or has another type.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum AttributeError {
    /// The record has no such attribute.
    #[error("record '{record}' has no attribute '{attribute}'")]
    Missing { record: String, attribute: String },
    /// The attribute has another type.
    #[error("attribute '{attribute}' of record '{record}' is {found}, not {asked}")]
    Kind { record: String, attribute: String, found: &'static str, asked: &'static str },
}

impl Record {
    /// Returns the value of an attribute.
    ///
    /// # Errors
    /// [`AttributeError::Missing`] when the attribute does not exist.
    pub fn get(&self, attribute: &str) -> Result<&Value, AttributeError> {
        self.attributes.get(attribute).ok_or_else(|| AttributeError::Missing {
            record: self.name.clone(),
            attribute: attribute.to_string(),
        })
    }

    fn get_as<'a, T>(
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

    /// Returns the value of an integer attribute.
    ///
    /// # Errors
    /// [`AttributeError`] when it is missing or of another type.
    pub fn integer(&self, attribute: &str) -> Result<i64, AttributeError> {
        self.get_as(attribute, "an integer", |value| match value {
            Value::Integer(number) => Some(*number),
            _ => None,
        })
    }

    /// Returns the value of a float attribute.
    ///
    /// # Errors
    /// [`AttributeError`] when it is missing or of another type.
    pub fn float(&self, attribute: &str) -> Result<f64, AttributeError> {
        self.get_as(attribute, "a float", |value| match value {
            Value::Float(number) => Some(number.0),
            _ => None,
        })
    }

    /// Returns the value of a text attribute.
    ///
    /// # Errors
    /// [`AttributeError`] when it is missing or of another type.
    pub fn text(&self, attribute: &str) -> Result<&str, AttributeError> {
        self.get_as(attribute, "text", |value| match value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// Returns the value of a bool attribute.
    ///
    /// # Errors
    /// [`AttributeError`] when it is missing or of another type.
    pub fn bool(&self, attribute: &str) -> Result<bool, AttributeError> {
        self.get_as(attribute, "a bool", |value| match value {
            Value::Bool(value) => Some(*value),
            _ => None,
        })
    }

    /// Returns the value of a bytes attribute.
    ///
    /// # Errors
    /// [`AttributeError`] when it is missing or of another type.
    pub fn bytes(&self, attribute: &str) -> Result<&[u8], AttributeError> {
        self.get_as(attribute, "bytes", |value| match value {
            Value::Bytes(bytes) => Some(bytes.as_slice()),
            _ => None,
        })
    }
}

/// Prints the text form: `name { attribute: value, … }`.
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

/// Returns the size of attributes with their names, in bytes.
pub(crate) fn size_bytes(attributes: &Attributes) -> usize {
    attributes.iter().map(|(name, value)| name.len() + value.size_bytes()).sum()
}

/// Returns the encoded size of a record, in bytes.
pub(crate) fn encoded_bytes(name: &str, attributes: &Attributes) -> usize {
    type Listed<'m> = List<'m, AttributeView<'m>, { MAX_GIVEN_ATTRIBUTES as u32 }>;
    // An oversized record fills a page alone, and the client receives the reason why it is not sent.
    let outside =
        <Listed<'_> as Holds<Attributes>>::outside(attributes, "attributes").unwrap_or(usize::MAX / 2);
    RecordView::BYTES as usize + name.len().next_multiple_of(8) + outside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computed_record_size_matches_its_encoding() {
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
