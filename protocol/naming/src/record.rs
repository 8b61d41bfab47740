//! A record: a name with attributes.

use alloc::string::{String, ToString};
use core::fmt;

use tombolo_base::DomainId;

use crate::value::{Attributes, Value};

/// What is known under a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Its name, unique in its scope.
    pub name: String,
    /// What is known.
    pub attributes: Attributes,
    /// Grows with every change of anything in the scope, so no two states of a record share it.
    pub version: u64,
    /// The domain that it goes with; nobody for one that lives as long as its scope.
    pub owner: Option<DomainId>,
    /// Domains can connect to it: it is an export of its owner.
    pub endpoint: bool,
}

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
