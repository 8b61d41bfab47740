//! Decodes bytes to Python values. The message is this program's own copy by then, but its contents are still
//! validated.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyList, PyString, PyTuple};
use tombolo::interface::{Budget, Malformed, Record as View, Source};

use super::{Form, Number, Record, Type, Union, round_up};
use crate::failure::Failure;
use crate::passing::Right;

/// Reason why a value could not be decoded.
#[derive(Debug)]
pub(crate) enum DecodeError {
    /// The message is malformed.
    Malformed(Malformed),
    /// Python raised an exception, or a class of the program did.
    Raised(PyErr),
}

impl From<Malformed> for DecodeError {
    fn from(malformed: Malformed) -> DecodeError {
        DecodeError::Malformed(malformed)
    }
}

impl From<PyErr> for DecodeError {
    fn from(error: PyErr) -> DecodeError {
        DecodeError::Raised(error)
    }
}

impl From<DecodeError> for Failure {
    fn from(bad: DecodeError) -> Failure {
        match bad {
            DecodeError::Malformed(malformed) => {
                Failure::new("Malformed", format!("the message was refused: {malformed}"))
            }
            DecodeError::Raised(error) => Failure::Raised(error),
        }
    }
}

/// Decoder of a message.
pub(crate) struct Decoder<'m, 'py> {
    py: Python<'py>,
    bytes: &'m [u8],
    budget: Budget,
}

impl<'m, 'py> Decoder<'m, 'py> {
    pub(crate) fn new(py: Python<'py>, bytes: &'m [u8]) -> Self {
        Decoder { py, bytes, budget: Budget::of(Source::Bytes(bytes)) }
    }

    /// Decodes the parameters of a message.
    pub(crate) fn parameters(
        &mut self,
        record: &Record,
        body: View<'_>,
    ) -> Result<Bound<'py, PyTuple>, DecodeError> {
        body.spend(&mut self.budget)?;
        self.values(record, body)
    }

    /// Decodes the contents of a message to a Python object.
    pub(crate) fn message(
        &mut self,
        record: &Record,
        body: View<'_>,
    ) -> Result<Bound<'py, PyAny>, DecodeError> {
        body.spend(&mut self.budget)?;
        self.record(record, body)
    }

    /// Decodes the values of a record, one by one.
    fn values(&mut self, record: &Record, view: View<'_>) -> Result<Bound<'py, PyTuple>, DecodeError> {
        if record.fields.is_empty() {
            return Ok(PyTuple::empty(self.py));
        }
        let mut values = Vec::with_capacity(record.fields.len());
        for field in &record.fields {
            values.push(self.get(&field.of, view, field.offset)?);
        }
        Ok(PyTuple::new(self.py, values)?)
    }

    /// Decodes a record to a Python object.
    fn record(&mut self, record: &Record, view: View<'_>) -> Result<Bound<'py, PyAny>, DecodeError> {
        let values = self.values(record, view)?;
        Ok(match &record.class {
            Some(class) => class.bind(self.py).call1(values)?,
            None => values.into_any(),
        })
    }

    /// Decodes a value at an offset of a record.
    pub(crate) fn get(
        &mut self,
        of: &Type,
        view: View<'_>,
        at: u32,
    ) -> Result<Bound<'py, PyAny>, DecodeError> {
        let py = self.py;
        Ok(match &of.form {
            Form::Bool => PyBool::new(py, read_bool(view, at)?).to_owned().into_any(),
            Form::Int { signed, bits } => {
                let number = view.bits(at)? << (64 - bits);
                if *signed {
                    (number as i64 >> (64 - bits)).into_pyobject(py).map_err(PyErr::from)?.into_any()
                } else {
                    (number >> (64 - bits)).into_pyobject(py).map_err(PyErr::from)?.into_any()
                }
            }
            Form::Float { bits: 32 } => {
                let number = f64::from(f32::from_bits(view.bits(at)? as u32));
                number.into_pyobject(py).map_err(PyErr::from)?.into_any()
            }
            Form::Float { .. } => {
                f64::from_bits(view.bits(at)?).into_pyobject(py).map_err(PyErr::from)?.into_any()
            }
            Form::Text { max } => {
                let text = self.blob(view, at, *max)?;
                let text = std::str::from_utf8(text).map_err(|_| Malformed::Utf8 { at: view.place(at) })?;
                PyString::new(py, text).into_any()
            }
            Form::Blob { max } => PyBytes::new(py, self.blob(view, at, *max)?).into_any(),
            Form::Number(number) => self.number(number, view, at)?,
            Form::Right { mark } => {
                let (object, found) = (view.bits(at)?, view.bits(at.saturating_add(8))?);
                if found != *mark {
                    return Err(Malformed::Handle { at: view.place(at) }.into());
                }
                Right::of_mark(object, found).into_python(py)?
            }
            Form::Optional(inner) => {
                if read_bool(view, at)? {
                    self.get(inner, view, at.saturating_add(inner.align))?
                } else {
                    py.None().into_bound(py)
                }
            }
            Form::Record(record) if record.frozen => {
                let inside = view.inline(at, record.bytes);
                self.record(record, inside)?
            }
            Form::Record(record) => {
                let inside = view.record(at)?;
                inside.spend(&mut self.budget)?;
                self.record(record, inside)?
            }
            Form::Union(union) => self.case(union, view, at)?,
            Form::Array { of, count } => {
                let inside = view.inline(at, of.bytes.saturating_mul(*count));
                self.elements(of, inside, *count)?
            }
            Form::List { of, max } => {
                let (inside, count) = view.object(at, of.bytes, *max)?;
                inside.spend(&mut self.budget)?;
                self.elements(of, inside, count)?
            }
        })
    }

    fn blob(&mut self, view: View<'_>, at: u32, max: u32) -> Result<&'m [u8], Malformed> {
        let (object, count) = view.object(at, 1, max)?;
        object.spend(&mut self.budget)?;
        let start = object.start() as usize;
        self.bytes.get(start..start + count as usize).ok_or(Malformed::Short)
    }

    fn elements(&mut self, of: &Type, view: View<'_>, count: u32) -> Result<Bound<'py, PyAny>, DecodeError> {
        let list = PyList::empty(self.py);
        for index in 0..count {
            list.append(self.get(of, view, index.saturating_mul(of.bytes))?)?;
        }
        Ok(list.into_any())
    }

    fn number(&mut self, number: &Number, view: View<'_>, at: u32) -> Result<Bound<'py, PyAny>, DecodeError> {
        let shift = 64 - number.bits;
        let bits = view.bits(at)? << shift;
        let value = if number.signed { i128::from(bits as i64 >> shift) } else { i128::from(bits >> shift) };
        if let Some(member) = number.members.get(&value) {
            return Ok(member.bind(self.py).clone());
        }
        if !number.has(value) {
            return Err(view.unnamed(at, value).into());
        }
        if number.flags {
            return Ok(number.class.bind(self.py).call1((value as u64,))?);
        }
        // A value without a name, from a newer peer: a number, as members are as well.
        let object = if number.signed {
            (value as i64).into_pyobject(self.py).map_err(PyErr::from)?
        } else {
            (value as u64).into_pyobject(self.py).map_err(PyErr::from)?
        };
        Ok(object.into_any())
    }

    fn case(&mut self, union: &Union, view: View<'_>, at: u32) -> Result<Bound<'py, PyAny>, DecodeError> {
        let (ordinal, inside) = view.case(at)?;
        let Some(case) = union.cases.iter().find(|case| case.ordinal == ordinal) else {
            return Ok(union.unknown.bind(self.py).call1((ordinal,))?);
        };
        let class = case.class.bind(self.py);
        let Some(of) = &case.of else {
            inside.exactly(0)?;
            return Ok(class.call0()?);
        };
        let bytes = round_up(of.bytes);
        let inside = inside.exactly(bytes)?;
        self.budget.spend(bytes)?;
        let value = self.get(of, inside, 0)?;
        Ok(class.call1((value,))?)
    }
}

fn read_bool(view: View<'_>, at: u32) -> Result<bool, Malformed> {
    match view.bits(at)? as u8 {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(Malformed::Bool { at: view.place(at), value }),
    }
}
