//! Encodes Python values to messages and decodes them, driven by a layout that stubs describe: no Python code
//! runs for that.

mod decode;
mod encode;

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyType;

pub(crate) use decode::{DecodeError, Decoder};
pub(crate) use encode::Writer;

/// Type with its layout on the wire.
#[derive(Debug)]
pub(crate) struct Type {
    pub(crate) form: Form,
    /// Size of its inline form, in bytes.
    pub(crate) bytes: u32,
    /// Alignment of its inline form, in bytes.
    pub(crate) align: u32,
}

/// Form of a type.
#[derive(Debug)]
pub(crate) enum Form {
    Bool,
    Int {
        signed: bool,
        bits: u32,
    },
    Float {
        bits: u32,
    },
    Text {
        max: u32,
    },
    Blob {
        max: u32,
    },
    Array {
        of: Arc<Type>,
        count: u32,
    },
    List {
        of: Arc<Type>,
        max: u32,
    },
    Optional(Arc<Type>),
    Number(Number),
    Record(Arc<Record>),
    Union(Union),
    /// Right: its kind, and whether it is moved.
    Right {
        mark: u64,
    },
}

impl Type {
    /// Creates the type of a number of `bits` bits.
    pub(crate) fn plain(form: Form, bits: u32) -> Type {
        Type { form, bytes: bits / 8, align: bits / 8 }
    }

    /// Creates a type that is stored out of line.
    pub(crate) fn out_of_line(form: Form) -> Type {
        Type { form, bytes: 8, align: 8 }
    }
}

/// Enum, or flags.
#[derive(Debug)]
pub(crate) struct Number {
    pub(crate) class: Py<PyType>,
    pub(crate) name: String,
    pub(crate) signed: bool,
    pub(crate) bits: u32,
    pub(crate) open: bool,
    pub(crate) flags: bool,
    /// Members by value, so that Python's slow lookup happens only once.
    pub(crate) members: HashMap<i128, Py<PyAny>>,
    /// For flags, all bits that have names.
    pub(crate) mask: u64,
}

impl Number {
    /// Whether `value` is a valid value of the type.
    pub(crate) fn has(&self, value: i128) -> bool {
        if self.flags {
            return self.open || u64::try_from(value).is_ok_and(|bits| bits & !self.mask == 0);
        }
        self.open || self.members.contains_key(&value)
    }
}

/// Record: fields in sequence.
#[derive(Debug)]
pub(crate) struct Record {
    /// Python class that holds the fields; none for the parameters of a message, which are passed separately.
    pub(crate) class: Option<Py<PyType>>,
    pub(crate) name: String,
    pub(crate) bytes: u32,
    pub(crate) frozen: bool,
    pub(crate) fields: Vec<Field>,
}

/// Field of a record.
#[derive(Debug)]
pub(crate) struct Field {
    /// Name of the field in Python.
    pub(crate) name: Py<pyo3::types::PyString>,
    /// Name of the field in error messages.
    pub(crate) label: String,
    pub(crate) offset: u32,
    pub(crate) of: Arc<Type>,
}

/// Union of several cases.
#[derive(Debug)]
pub(crate) struct Union {
    pub(crate) name: String,
    pub(crate) cases: Vec<Case>,
    /// Class for cases that this side does not know.
    pub(crate) unknown: Py<PyType>,
}

/// Case of a union.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) ordinal: u32,
    pub(crate) class: Py<PyType>,
    pub(crate) of: Option<Arc<Type>>,
}

/// Rounds up to the next multiple of eight.
pub(crate) fn round_up(bytes: u32) -> u32 {
    bytes.saturating_add(7) & !7
}
