//! Description of types and messages by stubs: each function creates one part, which is validated once and
//! then used for every message.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMapping, PyString, PyTuple, PyType};
use tombolo::interface::{Carries, Header, Kind, Source};

use crate::channel::Channel;
use crate::codec::{self, Case, Field, Form, Number, Record, Union};
use crate::failure::Failure;

/// A type of the interface language.
#[pyclass(module = "tombolo._native", frozen, skip_from_py_object)]
#[derive(Clone, Debug)]
pub(crate) struct Type(pub(crate) Arc<codec::Type>);

#[pymethods]
impl Type {
    /// Decodes a message whose body is of this record: its ordinal, its kind, the number of its call, and a
    /// value, or a tuple of parameters.
    fn decode<'py>(
        &self,
        py: Python<'py>,
        message: &[u8],
    ) -> Result<(u16, u8, u32, Bound<'py, PyAny>), Failure> {
        let (header, body) = Header::read(Source::Bytes(message)).map_err(codec::DecodeError::Malformed)?;
        let value = codec::Decoder::new(py, message).message(&*as_record(self)?, body)?;
        Ok((header.ordinal(), header.kind() as u8, header.call(), value))
    }

    /// Encodes a call with a body of this record.
    fn encode<'py>(
        &self,
        py: Python<'py>,
        ordinal: u16,
        call: u32,
        value: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyBytes>, Failure> {
        let (record, mut writer) = (as_record(self)?, codec::Writer::default());
        let header = Header::new(ordinal, Kind::Call, call);
        match value.cast::<PyTuple>() {
            Ok(values) if record.class.is_none() => writer.parameters(header, &record, values)?,
            _ => writer.value(header, &record, value)?,
        }
        Ok(PyBytes::new(py, writer.bytes()))
    }
}

fn new_type(of: codec::Type) -> Type {
    Type(Arc::new(of))
}

/// Types without parameters, by name.
pub(crate) fn plain() -> Vec<(&'static str, Type)> {
    let int = |signed, bits| new_type(codec::Type::plain(Form::Int { signed, bits }, bits));
    let float = |bits| new_type(codec::Type::plain(Form::Float { bits }, bits));
    vec![
        ("BOOL", new_type(codec::Type::plain(Form::Bool, 8))),
        ("U8", int(false, 8)),
        ("U16", int(false, 16)),
        ("U32", int(false, 32)),
        ("U64", int(false, 64)),
        ("I8", int(true, 8)),
        ("I16", int(true, 16)),
        ("I32", int(true, 32)),
        ("I64", int(true, 64)),
        ("F32", float(32)),
        ("F64", float(64)),
        ("DOMAIN", int(false, 64)),
    ]
}

/// Text of up to `max` bytes of UTF-8.
#[pyfunction]
pub(crate) fn text(max: u32) -> Type {
    new_type(codec::Type::out_of_line(Form::Text { max }))
}

/// A blob of up to `max` bytes.
#[pyfunction]
pub(crate) fn blob(max: u32) -> Type {
    new_type(codec::Type::out_of_line(Form::Blob { max }))
}

/// An array of `count` elements of a type.
#[pyfunction]
pub(crate) fn array(of: &Type, count: u32) -> Type {
    let bytes = of.0.bytes.saturating_mul(count);
    new_type(codec::Type { form: Form::Array { of: Arc::clone(&of.0), count }, bytes, align: of.0.align })
}

/// A sequence of up to `max` elements of a type.
#[pyfunction]
pub(crate) fn sequence(of: &Type, max: u32) -> Type {
    new_type(codec::Type::out_of_line(Form::List { of: Arc::clone(&of.0), max }))
}

/// An optional value of a type, or None.
#[pyfunction]
pub(crate) fn optional(of: &Type) -> Type {
    let bytes = of.0.bytes.saturating_add(of.0.align);
    new_type(codec::Type { form: Form::Optional(Arc::clone(&of.0)), bytes, align: of.0.align })
}

/// A right: 1 to an endpoint, 2 to a region, 3 to anything, 4 to a buffer; copied or moved.
#[pyfunction]
pub(crate) fn right(kind: u8, moved: bool) -> Type {
    let form = Form::Right { mark: u64::from(kind) | u64::from(moved) << 8 };
    new_type(codec::Type { form, bytes: 16, align: 8 })
}

/// An enum or flags: an `IntEnum` or `IntFlag`, and the integer type that stores it.
#[pyfunction]
pub(crate) fn number(
    class: Bound<'_, PyType>,
    repr: &Type,
    open: bool,
    flags: bool,
) -> Result<Type, Failure> {
    let Form::Int { signed, bits } = repr.0.form else {
        return Err(Failure::invalid("an enum is stored as an integer"));
    };
    let mut members = HashMap::new();
    let mut mask = 0;
    for member in class.getattr("__members__")?.cast::<PyMapping>()?.values()?.iter() {
        let value: i128 = member.call_method0("__int__")?.extract()?;
        mask |= value as u64;
        members.insert(value, member.unbind());
    }
    let name = class.name()?.to_string();
    let class = class.unbind();
    let number = Number { class, name, signed, bits, open, flags, members, mask };
    Ok(new_type(codec::Type::plain(Form::Number(number), bits)))
}

type Fields = Vec<(Py<PyString>, u32, Py<Type>)>;

fn fields(record: &str, list: Fields) -> Vec<Field> {
    let field = |(name, offset, of): (Py<PyString>, u32, Py<Type>)| Field {
        label: format!("{record}.{name}"),
        name,
        offset,
        of: Arc::clone(&of.get().0),
    };
    list.into_iter().map(field).collect()
}

/// A struct: its class, and its fields with their names, offsets and types.
#[pyfunction]
pub(crate) fn record(
    class: Bound<'_, PyType>,
    bytes: u32,
    align: u32,
    frozen: bool,
    list: Fields,
) -> Result<Type, Failure> {
    let name = class.name()?.to_string();
    let fields = fields(&name, list);
    let form = Form::Record(Arc::new(Record { class: Some(class.unbind()), name, bytes, frozen, fields }));
    Ok(new_type(if frozen { codec::Type { form, bytes, align } } else { codec::Type::out_of_line(form) }))
}

/// The parameters of a message, which are passed separately.
#[pyfunction]
pub(crate) fn parameters(name: String, bytes: u32, list: Fields) -> Type {
    let fields = fields(&name, list);
    new_type(codec::Type::out_of_line(Form::Record(Arc::new(Record {
        class: None,
        name,
        bytes,
        frozen: false,
        fields,
    }))))
}

/// A union: its cases with their ordinals, classes and types, and the class for unknown cases.
#[pyfunction]
pub(crate) fn union(
    name: String,
    cases: Vec<(u32, Py<PyType>, Option<Py<Type>>)>,
    unknown: Py<PyType>,
) -> Type {
    let case = |(ordinal, class, of): (u32, Py<PyType>, Option<Py<Type>>)| Case {
        ordinal,
        class,
        of: of.map(|of| Arc::clone(&of.get().0)),
    };
    let cases = cases.into_iter().map(case).collect();
    new_type(codec::Type { form: Form::Union(Union { name, cases, unknown }), bytes: 16, align: 8 })
}

fn as_record(of: &Type) -> Result<Arc<Record>, Failure> {
    match &of.0.form {
        Form::Record(record) => Ok(Arc::clone(record)),
        _ => Err(Failure::invalid("what a message carries is a record")),
    }
}

/// A call or a message of an interface.
#[pyclass(module = "tombolo._native", frozen)]
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) ordinal: u16,
    /// Method that serves or handles it.
    pub(crate) name: Py<PyString>,
    pub(crate) input: Arc<Record>,
    /// Present for calls.
    pub(crate) answer: Option<Answer>,
}

/// Answer to a call.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) output: Arc<Record>,
    /// Declared error, and the exception for it.
    pub(crate) error: Option<(Arc<codec::Type>, Py<PyType>)>,
    pub(crate) idempotent: bool,
}

#[pymethods]
impl Message {
    /// The ordinal of the message.
    #[getter]
    fn ordinal(&self) -> u16 {
        self.ordinal
    }

    /// The method that serves or handles it.
    #[getter]
    fn name(&self, py: Python<'_>) -> Py<PyString> {
        self.name.clone_ref(py)
    }

    /// Whether it is a call, which has an answer.
    #[getter]
    fn is_call(&self) -> bool {
        self.answer.is_some()
    }

    /// Whether the call may be repeated if it is unknown whether it was served.
    #[getter]
    fn idempotent(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.idempotent)
    }
}

/// A message that has no answer.
#[pyfunction]
pub(crate) fn message(ordinal: u16, name: Py<PyString>, input: &Type) -> Result<Message, Failure> {
    Ok(Message { ordinal, name, input: as_record(input)?, answer: None })
}

/// A call: its parameters, its results, and its declared error with the exception for it.
#[pyfunction]
#[pyo3(signature = (ordinal, name, input, output, error = None, *, idempotent = false))]
pub(crate) fn call(
    ordinal: u16,
    name: Py<PyString>,
    input: &Type,
    output: &Type,
    error: Option<(Py<Type>, Py<PyType>)>,
    idempotent: bool,
) -> Result<Message, Failure> {
    let error = error.map(|(of, class)| (Arc::clone(&of.get().0), class));
    let answer = Answer { output: as_record(output)?, error, idempotent };
    Ok(Message { ordinal, name, input: as_record(input)?, answer: Some(answer) })
}

/// An interface, which clients and servers are bound to.
#[pyclass(module = "tombolo", frozen)]
#[derive(Debug)]
pub(crate) struct Interface {
    name: String,
    version: u32,
    hash: u64,
    fingerprint: u64,
    needs: Carries,
    message_bytes: usize,
    served: HashMap<u16, Py<Message>>,
    heard: HashMap<u16, Py<Message>>,
}

#[pymethods]
impl Interface {
    #[new]
    #[pyo3(signature = (name, version, *, hash, fingerprint, capabilities, buffers, message_bytes, served, heard))]
    #[expect(clippy::too_many_arguments, reason = "they have names where stubs say them")]
    fn new(
        name: String,
        version: u32,
        hash: u64,
        fingerprint: u64,
        capabilities: bool,
        buffers: bool,
        message_bytes: usize,
        served: Vec<Py<Message>>,
        heard: Vec<Py<Message>>,
    ) -> Interface {
        let by_ordinal = |list: Vec<Py<Message>>| -> HashMap<u16, Py<Message>> {
            list.into_iter().map(|message| (message.get().ordinal, message)).collect()
        };
        let (served, heard) = (by_ordinal(served), by_ordinal(heard));
        Interface {
            name,
            version,
            hash,
            fingerprint,
            needs: Carries { capabilities, buffers },
            message_bytes,
            served,
            heard,
        }
    }

    /// The package and name of the interface.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The version, which is increased when older peers cannot be served.
    #[getter]
    fn version(&self) -> u32 {
        self.version
    }

    /// The hash that both sides of a channel must have in common: of the package, name and version.
    #[getter]
    fn hash(&self) -> u64 {
        self.hash
    }

    /// The hash of everything that peers can notice, which distinguishes builds.
    #[getter]
    fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    fn __repr__(&self) -> String {
        format!("<tombolo.Interface {} version {}>", self.name, self.version)
    }
}

impl Interface {
    /// Checks that a channel supports the interface, and declares its use.
    pub(crate) fn bind(&self, channel: &Channel) -> Result<(), Failure> {
        let (carries, max_message_bytes) = (channel.carries()?, channel.about().max_message_bytes);
        let why = if self.needs.capabilities && !carries.capabilities {
            "passes capabilities, which this link cannot carry".to_owned()
        } else if self.needs.buffers && !carries.buffers {
            "passes buffers: open a bulk channel beside this one first".to_owned()
        } else if self.message_bytes > max_message_bytes {
            format!(
                "needs messages of {} bytes at least; the channel carries up to {max_message_bytes}",
                self.message_bytes
            )
        } else {
            return channel.bound(self.needs);
        };
        Err(Failure::new("CannotCarry", format!("{} {why}", self.name)))
    }

    /// Returns a message to the server, by its ordinal.
    pub(crate) fn server_message(&self, ordinal: u16) -> Option<&Py<Message>> {
        self.served.get(&ordinal)
    }

    /// Returns a message to the client, by its ordinal.
    pub(crate) fn client_message(&self, ordinal: u16) -> Option<&Py<Message>> {
        self.heard.get(&ordinal)
    }
}
