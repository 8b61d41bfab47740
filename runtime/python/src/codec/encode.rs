//! Encodes Python values to bytes in one pass: each object gets its place when it is encountered.

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyList, PyString, PyTuple};
use tombolo::interface::Header;

use super::{Form, Number, Record, Type, Union, round_up};
use crate::channel::bytes_of;
use crate::failure::Failure;
use crate::passing::Right;

/// Encoder of messages, which reuses its memory for consecutive messages.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Returns the last message that was encoded.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Begins a message; returns the offset of its body.
    fn begin(&mut self, header: Header, body_bytes: u32) -> usize {
        self.bytes.clear();
        self.bytes.extend(header.word(body_bytes).to_le_bytes());
        self.object(body_bytes)
    }

    /// Encodes a message with parameters.
    pub(crate) fn parameters(
        &mut self,
        header: Header,
        record: &Record,
        values: &Bound<'_, PyTuple>,
    ) -> Result<(), Failure> {
        let at = self.begin(header, record.bytes);
        if values.len() != record.fields.len() {
            let text = format!("{} takes {} values, not {}", record.name, record.fields.len(), values.len());
            return Err(PyTypeError::new_err(text).into());
        }
        for (field, value) in record.fields.iter().zip(values.iter_borrowed()) {
            self.put(&field.of, at + field.offset as usize, &value, &field.label)?;
        }
        Ok(())
    }

    /// Encodes a message with an object that holds the fields of a record.
    pub(crate) fn value(
        &mut self,
        header: Header,
        record: &Record,
        value: &Bound<'_, PyAny>,
    ) -> Result<(), Failure> {
        let at = self.begin(header, record.bytes);
        self.fields(record, at, value, &record.name)
    }

    /// Encodes a message with a single value.
    pub(crate) fn single_value(
        &mut self,
        header: Header,
        of: &Type,
        value: &Bound<'_, PyAny>,
        label: &str,
    ) -> Result<(), Failure> {
        let at = self.begin(header, round_up(of.bytes));
        self.put(of, at, value, label)
    }

    /// Encodes a message with a number as its body, or without a body.
    pub(crate) fn header_only(&mut self, header: Header, number: Option<u32>) {
        let at = self.begin(header, if number.is_some() { 8 } else { 0 });
        if let Some(number) = number {
            self.bits(at, u64::from(number), 4);
        }
    }

    /// Appends a zeroed object; returns its offset.
    fn object(&mut self, bytes: u32) -> usize {
        let at = self.bytes.len();
        self.bytes.resize(at + round_up(bytes) as usize, 0);
        at
    }

    #[inline]
    fn bits(&mut self, at: usize, value: u64, bytes: usize) {
        if let Some(place) = self.bytes.get_mut(at..at + bytes) {
            place.copy_from_slice(&value.to_le_bytes()[..bytes]);
        }
    }

    fn reference(&mut self, at: usize, start: usize, count: usize) {
        let start = if count == 0 { 0 } else { start };
        self.bits(at, start as u64 | (count as u64) << 32, 8);
    }

    fn fields(
        &mut self,
        record: &Record,
        at: usize,
        value: &Bound<'_, PyAny>,
        label: &str,
    ) -> Result<(), Failure> {
        if let Some(class) = &record.class
            && !value.is_instance(class.bind(value.py()))?
        {
            return Err(type_error(label, &record.name, value));
        }
        for field in &record.fields {
            let item = value.getattr(&field.name)?;
            self.put(&field.of, at + field.offset as usize, &item, &field.label)?;
        }
        Ok(())
    }

    fn put(&mut self, of: &Type, at: usize, value: &Bound<'_, PyAny>, label: &str) -> Result<(), Failure> {
        match &of.form {
            Form::Bool => {
                let truth = value.cast::<PyBool>().map_err(|_| type_error(label, "bool", value))?;
                self.bits(at, u64::from(truth.is_true()), 1);
            }
            Form::Int { signed, bits } => {
                let number = integer(value, *signed, *bits, label)?;
                self.bits(at, number, of.bytes as usize);
            }
            Form::Float { bits } => {
                let bits = float(value, *bits, label)?;
                self.bits(at, bits, of.bytes as usize);
            }
            Form::Text { max } => {
                let text = value.cast::<PyString>().map_err(|_| type_error(label, "str", value))?;
                let text = text.to_cow().map_err(|_| unsupported_form(label, "text with lone surrogates"))?;
                self.blob(at, text.as_bytes(), *max, label)?;
            }
            Form::Blob { max } => {
                let bytes = bytes_of(value).map_err(|_| type_error(label, "a bytes-like object", value))?;
                self.blob(at, &bytes, *max, label)?;
            }
            Form::Number(number) => {
                let bits = number_bits(number, value, label)?;
                self.bits(at, bits, of.bytes as usize);
            }
            Form::Right { mark } => {
                let right: Right =
                    value.extract().map_err(|_| type_error(label, "a tombolo.Right", value))?;
                if right.mark() != *mark {
                    return Err(unsupported_form(
                        label,
                        "a right of another kind, or one copied that is to be moved",
                    ));
                }
                self.bits(at, right.object, 8);
                self.bits(at + 8, *mark, 8);
            }
            Form::Optional(inner) => {
                if !value.is_none() {
                    self.bits(at, 1, 1);
                    self.put(inner, at + inner.align as usize, value, label)?;
                }
            }
            Form::Record(record) if record.frozen => self.fields(record, at, value, label)?,
            Form::Record(record) => {
                let start = self.object(record.bytes);
                self.reference(at, start, record.bytes as usize);
                self.fields(record, start, value, label)?;
            }
            Form::Union(union) => self.case(union, at, value, label)?,
            Form::Array { of, count } => {
                let count = *count as usize;
                let items = items(of, value, label)?;
                let length = items.len()?;
                if length != count {
                    return Err(over_limit(label, length, count, "is"));
                }
                self.elements(of, at, &items, label)?;
            }
            Form::List { of, max } => {
                let items = items(of, value, label)?;
                let (length, max) = (items.len()?, *max as usize);
                if length > max {
                    return Err(over_limit(label, length, max, "allows"));
                }
                let start = self.object(of.bytes.saturating_mul(length as u32));
                self.reference(at, start, length);
                self.elements(of, start, &items, label)?;
            }
        }
        Ok(())
    }

    fn blob(&mut self, at: usize, bytes: &[u8], max: u32, label: &str) -> Result<(), Failure> {
        if bytes.len() > max as usize {
            return Err(over_limit(label, bytes.len(), max as usize, "allows"));
        }
        let start = self.object(bytes.len() as u32);
        self.reference(at, start, bytes.len());
        if let Some(place) = self.bytes.get_mut(start..start + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        Ok(())
    }

    fn case(
        &mut self,
        union: &Union,
        at: usize,
        value: &Bound<'_, PyAny>,
        label: &str,
    ) -> Result<(), Failure> {
        let class = value.get_type();
        let case = union.cases.iter().find(|case| case.class.is(&class));
        let case = case.ok_or_else(|| {
            if class.is(&union.unknown) {
                return unsupported_form(label, "a case that this side does not know");
            }
            type_error(label, &format!("a case of {}", union.name), value)
        })?;
        let Some(of) = &case.of else {
            self.bits(at, u64::from(case.ordinal), 8);
            return Ok(());
        };
        let bytes = round_up(of.bytes);
        let start = self.object(bytes);
        self.bits(at, u64::from(case.ordinal) | u64::from(bytes) << 32, 8);
        self.bits(at + 8, start as u64, 8);
        let inner = value.getattr(pyo3::intern!(value.py(), "value"))?;
        self.put(of, start, &inner, label)
    }

    fn elements(
        &mut self,
        of: &Type,
        start: usize,
        items: &Bound<'_, PyAny>,
        label: &str,
    ) -> Result<(), Failure> {
        let mut at = start;
        let mut one = |item: &Bound<'_, PyAny>| {
            self.put(of, at, item, label)?;
            at += of.bytes as usize;
            Ok::<(), Failure>(())
        };
        if let Ok(list) = items.cast::<PyList>() {
            list.iter().try_for_each(|item| one(&item))
        } else if let Ok(bytes) = items.cast::<PyBytes>() {
            // A list of bytes is copied as a whole.
            let end = start + bytes.as_bytes().len();
            self.bytes[start..end].copy_from_slice(bytes.as_bytes());
            Ok(())
        } else {
            items.try_iter()?.try_for_each(|item| one(&item?))
        }
    }
}

/// Returns the elements as a sequence of fixed length; bytes are accepted only as a list of `u8`.
fn items<'py>(of: &Type, value: &Bound<'py, PyAny>, label: &str) -> Result<Bound<'py, PyAny>, Failure> {
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return Ok(value.clone());
    }
    let of_bytes = matches!(of.form, Form::Int { signed: false, bits: 8 });
    if value.is_instance_of::<PyBytes>() && of_bytes {
        return Ok(value.clone());
    }
    if value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>() {
        return Err(type_error(label, "a sequence", value));
    }
    let items = value.try_iter().map_err(|_| type_error(label, "a sequence", value))?;
    Ok(items.collect::<PyResult<Vec<_>>>()?.into_pyobject(value.py())?.into_any())
}

fn integer(value: &Bound<'_, PyAny>, signed: bool, bits: u32, label: &str) -> Result<u64, Failure> {
    let failed = |error: PyErr| {
        if error.is_instance_of::<PyOverflowError>(value.py()) {
            out_of_range(label, value, signed, bits)
        } else {
            type_error(label, "int", value)
        }
    };
    let shift = 64 - bits;
    if signed {
        let number = value.extract::<i64>().map_err(failed)?;
        if number << shift >> shift == number {
            return Ok(number as u64);
        }
    } else {
        let number = value.extract::<u64>().map_err(failed)?;
        if number << shift >> shift == number {
            return Ok(number);
        }
    }
    Err(out_of_range(label, value, signed, bits))
}

fn float(value: &Bound<'_, PyAny>, bits: u32, label: &str) -> Result<u64, Failure> {
    let number = match value.cast::<PyFloat>() {
        Ok(float) => float.value(),
        Err(_) => value.extract::<f64>().map_err(|_| type_error(label, "float", value))?,
    };
    if bits == 64 {
        return Ok(number.to_bits());
    }
    let narrow = number as f32;
    if narrow.is_infinite() && number.is_finite() {
        return Err(unsupported_form(label, &format!("{number}, which is out of the range of 32 bits")));
    }
    Ok(u64::from(narrow.to_bits()))
}

fn number_bits(number: &Number, value: &Bound<'_, PyAny>, label: &str) -> Result<u64, Failure> {
    let bits = integer(value, number.signed, number.bits, label)?;
    let plain = if number.signed { i128::from(bits as i64) } else { i128::from(bits) };
    if number.has(plain) {
        return Ok(bits);
    }
    Err(unsupported_form(label, &format!("{plain}, which {} does not have", number.name)))
}

fn type_error(label: &str, wanted: &str, value: &Bound<'_, PyAny>) -> Failure {
    let given = value.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("`{label}` is {wanted}, not {given}")).into()
}

fn over_limit(label: &str, count: usize, max: usize, verb: &str) -> Failure {
    let text = format!("`{label}` has {count} elements or bytes; the interface {verb} {max}");
    Failure::new(
        "OverLimit",
        if verb == "is" { text.replace("the interface is", "it has to have") } else { text },
    )
}

fn unsupported_form(label: &str, what: &str) -> Failure {
    Failure::new("OverLimit", format!("`{label}` is {what}: it cannot be sent"))
}

fn out_of_range(label: &str, value: &Bound<'_, PyAny>, signed: bool, bits: u32) -> Failure {
    let sign = if signed { 'i' } else { 'u' };
    let shown = value.str().map_or_else(|_| "a number".to_owned(), |text| text.to_string());
    unsupported_form(label, &format!("{shown}, which is out of the range of {sign}{bits}"))
}
