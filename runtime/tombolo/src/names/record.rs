//! Creation and modification of records.

use std::fmt;
use std::str::FromStr;

use tombolo_naming::{
    Answer, Attributes, Condition, Lifetime, Operation, Record, SetMode, Value, parse_record, split_scope,
};

use super::request::{ConvertAnswer, NamesRequest};
use super::{Names, offset_error, unexpected};
use crate::error::Error;

/// Record to be set. The record exists as long as this program, unless it is
/// [`persistent`](Self::persistent).
///
/// ```
/// use tombolo::names::NewRecord;
/// let built = NewRecord::new("obj").with("weight", 20).with("attr", "text");
/// assert_eq!(built, "obj { attr: 'text', weight: 20 }".parse()?);
/// # Ok::<(), tombolo::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewRecord {
    name: String,
    attributes: Attributes,
    remove: Vec<String>,
    mode: SetMode,
    lifetime: Lifetime,
    condition: Condition,
}

impl NewRecord {
    /// Creates a record without attributes.
    #[must_use]
    pub fn new(name: &str) -> NewRecord {
        NewRecord {
            name: name.to_owned(),
            attributes: Attributes::new(),
            remove: Vec::new(),
            mode: SetMode::Replace,
            lifetime: Lifetime::Transient,
            condition: Condition::Always,
        }
    }

    /// Adds an attribute, or replaces its value.
    #[must_use]
    pub fn with(mut self, attribute: &str, value: impl Into<Value>) -> NewRecord {
        self.attributes.insert(attribute.to_owned(), value.into());
        self
    }

    /// Removes an attribute of the existing record; implies [`merged`](Self::merged).
    #[must_use]
    pub fn without(mut self, attribute: &str) -> NewRecord {
        self.remove.push(attribute.to_owned());
        self.merged()
    }

    /// Merges the attributes into those of the existing record instead of replacing them all.
    #[must_use]
    pub fn merged(mut self) -> NewRecord {
        self.mode = SetMode::Merge;
        self
    }

    /// Sets the record under a new name: this one with a number appended. Numbers increase and are never
    /// reused.
    #[must_use]
    pub fn sequential(mut self) -> NewRecord {
        self.mode = SetMode::Sequential;
        self
    }

    /// Lets the record outlive this program: it stays until a program deletes it, or its machine or node
    /// ends.
    #[must_use]
    pub fn persistent(mut self) -> NewRecord {
        self.lifetime = Lifetime::Persistent;
        self
    }

    /// Sets the record only if this condition holds at that moment.
    #[must_use]
    pub fn only_if(mut self, condition: Condition) -> NewRecord {
        self.condition = condition;
        self
    }
}

impl FromStr for NewRecord {
    type Err = Error;

    /// Parses the text form `name { attribute: value, … }`, with an optional scope in front.
    fn from_str(text: &str) -> Result<NewRecord, Error> {
        let (_, rest) = split_scope(text);
        let (name, attributes) = parse_record(rest).map_err(|error| offset_error(text, rest, error))?;
        let name = format!("{}{name}", &text[..text.len() - rest.len()]);
        Ok(NewRecord { attributes, ..NewRecord::new(&name) })
    }
}

/// Result of setting a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Changed {
    /// Name of the record in its scope.
    pub name: String,
    /// New version of the record, which no other state of it ever has.
    pub version: u64,
}

impl Names {
    /// Sets a record if its condition holds.
    ///
    /// # Errors
    /// [`Error::Monitor`] if the condition does not hold, a limit is exceeded, or another domain exports the
    /// name.
    pub fn set(&self, record: &NewRecord) -> Result<Changed, Error> {
        self.change(record, false)?.wait().map(|(changed, _)| changed)
    }

    /// Async [`set`](Self::set). If the future is dropped, the record may have been set.
    ///
    /// # Errors
    /// Same as [`set`](Self::set).
    pub async fn set_async(&self, record: &NewRecord) -> Result<Changed, Error> {
        self.change(record, false)?.answer().await.map(|(changed, _)| changed)
    }

    /// Sets a record and returns its previous state, atomically.
    ///
    /// # Errors
    /// Same as [`set`](Self::set).
    pub fn get_and_set(&self, record: &NewRecord) -> Result<Option<Record>, Error> {
        self.change(record, true)?.wait().map(|(_, previous)| previous)
    }

    /// Async [`get_and_set`](Self::get_and_set). If the future is dropped, the record may have been set.
    ///
    /// # Errors
    /// Same as [`set`](Self::set).
    pub async fn get_and_set_async(&self, record: &NewRecord) -> Result<Option<Record>, Error> {
        self.change(record, true)?.answer().await.map(|(_, previous)| previous)
    }

    fn change(
        &self,
        record: &NewRecord,
        want_previous: bool,
    ) -> Result<NamesRequest<impl ConvertAnswer<(Changed, Option<Record>)> + use<>>, Error> {
        let (scope, name) = self.name(&record.name)?;
        let NewRecord { attributes, remove, mode, lifetime, condition, .. } = record.clone();
        let set = Operation::Set { name, attributes, remove, mode, lifetime, condition, want_previous };
        Ok(self.new_request(&scope, set, |_, answer| match answer {
            Answer::Changed { name, version, previous } => Ok((Changed { name, version }, previous)),
            other => Err(unexpected(&other)),
        }))
    }
}

impl NewRecord {
    /// Creates a record from existing attributes.
    #[must_use]
    pub fn from_parts(name: &str, attributes: Attributes) -> NewRecord {
        NewRecord { attributes, ..NewRecord::new(name) }
    }

    pub(super) fn into_parts(self) -> (String, Attributes) {
        (self.name, self.attributes)
    }
}

/// Formats the record in its text form.
impl fmt::Display for NewRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NewRecord { name, attributes, .. } = self.clone();
        Record { name, attributes, version: 0, owner: None, endpoint: false }.fmt(f)
    }
}
