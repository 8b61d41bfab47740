//! Values of Python to messages and back, as a layout says that stubs describe: nothing of it is Python at
//! run time.

mod decode;
mod encode;

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyType;

pub(crate) use decode::{Bad, Decoder};
pub(crate) use encode::Writer;

/// A type with its place on the wire.
#[derive(Debug)]
pub(crate) struct Type {
    pub(crate) form: Form,
    /// Of its inline form.
    pub(crate) bytes: u32,
    /// Of its inline form.
    pub(crate) align: u32,
}

/// What a type is.
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
    /// A right: its kind, and whether it is given away.
    Right {
        mark: u64,
    },
}

impl Type {
    /// A number of `bits` bits.
    pub(crate) fn plain(form: Form, bits: u32) -> Type {
        Type { form, bytes: bits / 8, align: bits / 8 }
    }

    /// Something that lies out of line.
    pub(crate) fn apart(form: Form) -> Type {
        Type { form, bytes: 8, align: 8 }
    }
}

/// An enum, or flags.
#[derive(Debug)]
pub(crate) struct Number {
    pub(crate) class: Py<PyType>,
    pub(crate) name: String,
    pub(crate) signed: bool,
    pub(crate) bits: u32,
    pub(crate) open: bool,
    pub(crate) flags: bool,
    /// Members by value, so that Python's slow look-up is made once.
    pub(crate) members: HashMap<i128, Py<PyAny>>,
    /// Of flags, all that have names.
    pub(crate) mask: u64,
}

impl Number {
    /// Whether it can have that value.
    pub(crate) fn has(&self, value: i128) -> bool {
        if self.flags {
            return self.open || u64::try_from(value).is_ok_and(|bits| bits & !self.mask == 0);
        }
        self.open || self.members.contains_key(&value)
    }
}

/// Fields, one after the other.
#[derive(Debug)]
pub(crate) struct Record {
    /// What holds them in Python; nothing for the parameters of a message, which are passed one by one.
    pub(crate) class: Option<Py<PyType>>,
    pub(crate) name: String,
    pub(crate) bytes: u32,
    pub(crate) frozen: bool,
    pub(crate) fields: Vec<Field>,
}

/// A part of a record.
#[derive(Debug)]
pub(crate) struct Field {
    /// Its name in Python.
    pub(crate) name: Py<pyo3::types::PyString>,
    /// How errors call it.
    pub(crate) label: String,
    pub(crate) offset: u32,
    pub(crate) of: Arc<Type>,
}

/// One of several.
#[derive(Debug)]
pub(crate) struct Union {
    pub(crate) name: String,
    pub(crate) cases: Vec<Case>,
    /// The class of a case that this side does not know.
    pub(crate) unknown: Py<PyType>,
}

/// What a union can be.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) ordinal: u32,
    pub(crate) class: Py<PyType>,
    pub(crate) of: Option<Arc<Type>>,
}

/// Up to the next multiple of eight.
pub(crate) fn round_up(bytes: u32) -> u32 {
    bytes.saturating_add(7) & !7
}
