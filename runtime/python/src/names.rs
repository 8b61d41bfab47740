//! Names: records that programs find, wait for and watch.

use std::collections::BTreeMap;
use std::sync::Mutex;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString};
use tombolo::names::{Attributes, Change, NewRecord, Notice as Told, Value, WatchOptions};

use crate::failure::{Failure, exclusive};
use crate::wait::{Deadline, Seconds, wait, wait_on};

/// The names that a program can reach: :attr:`Domain.names`.
///
/// A plain name belongs to the machine; ``@/NAME`` is a name on the node that this program runs on,
/// ``@NODE/NAME`` one on the given node. A query is a name with ``*`` and ``?`` and conditions, for example
/// ``"sensor/* { celsius > 20 }"``.
#[pyclass(module = "tombolo", frozen)]
#[derive(Debug)]
pub(crate) struct Names {
    names: tombolo::names::Names,
}

impl Names {
    pub(crate) fn new(names: tombolo::names::Names) -> Names {
        Names { names }
    }
}

/// A record: a name with its attributes.
#[pyclass(module = "tombolo", frozen)]
#[derive(Debug)]
pub(crate) struct Record {
    record: tombolo::names::Record,
}

#[pymethods]
impl Record {
    /// The name of the record, unique in its scope.
    #[getter]
    fn name(&self) -> &str {
        &self.record.name
    }

    /// The attributes: numbers, texts, bools and bytes by name.
    #[getter]
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<BTreeMap<&str, Bound<'py, PyAny>>> {
        let objects =
            self.record.attributes.iter().map(|(name, value)| Ok((name.as_str(), to_object(py, value)?)));
        objects.collect()
    }

    /// The version of the record; no two states have the same.
    #[getter]
    fn version(&self) -> u64 {
        self.record.version
    }

    /// The id of the domain whose end deletes the record; None for a record that lives as long as its scope.
    #[getter]
    fn owner(&self) -> Option<u64> {
        self.record.owner.map(|owner| owner.to_bits())
    }

    /// Whether programs can connect to it.
    #[getter]
    fn endpoint(&self) -> bool {
        self.record.endpoint
    }

    fn __str__(&self) -> String {
        self.record.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<tombolo.Record {}>", self.record)
    }
}

fn to_object<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Integer(number) => number.into_pyobject(py)?.into_any(),
        Value::Float(number) => number.0.into_pyobject(py)?.into_any(),
        Value::Text(text) => text.into_pyobject(py)?.into_any(),
        Value::Bool(truth) => PyBool::new(py, *truth).to_owned().into_any(),
        Value::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
    })
}

fn to_value(name: &str, object: &Bound<'_, PyAny>) -> Result<Value, Failure> {
    // A bool is an int as well.
    if let Ok(truth) = object.cast::<PyBool>() {
        return Ok(Value::from(truth.is_true()));
    }
    if object.is_instance_of::<PyInt>() {
        return Ok(Value::from(object.extract::<i64>()?));
    }
    if object.is_instance_of::<PyFloat>() {
        return Ok(Value::from(object.extract::<f64>()?));
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Value::from(&*text.to_cow()?));
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Value::Bytes(bytes.as_bytes().to_vec()));
    }
    let text = format!("attribute '{name}' is no int, float, bool, str or bytes");
    Err(PyErr::new::<pyo3::exceptions::PyTypeError, _>(text).into())
}

#[pymethods]
impl Names {
    /// Returns the first record that a query matches, in natural order of names; raises `NoSuchName` if there
    /// is none.
    fn get(&self, py: Python<'_>, query: &str) -> Result<Record, Failure> {
        Ok(Record { record: py.detach(|| self.names.get(query))? })
    }

    /// Returns all records that a query matches, in natural order of names.
    fn find(&self, py: Python<'_>, query: &str) -> Result<Vec<Record>, Failure> {
        let records = py.detach(|| self.names.find(query))?;
        Ok(records.into_iter().map(|record| Record { record }).collect())
    }

    /// Whether a query matches any record.
    fn exists(&self, py: Python<'_>, query: &str) -> Result<bool, Failure> {
        Ok(py.detach(|| self.names.exists(query))?)
    }

    /// Waits up to `timeout` seconds until a query matches a record, and returns the first match; raises
    /// `NoSuchName` if nothing matched.
    #[pyo3(signature = (query, timeout = Seconds(std::time::Duration::from_secs(30))),
           text_signature = "($self, query, timeout=30.0)")]
    fn wait_for(&self, py: Python<'_>, query: &str, timeout: Seconds) -> Result<Record, Failure> {
        Ok(Record { record: wait_on(py, self.names.wait_for_async(query, timeout.0))? })
    }

    /// Sets a record, and returns its version. It is given by its name and attributes, or as one text:
    /// ``set("sensor", {"unit": "K"})`` is ``set("sensor { unit: 'K' }")``.
    ///
    /// The record exists as long as this program, unless it is `persistent`. With `merge`, existing
    /// attributes are kept unless they are given.
    #[pyo3(signature = (record, attributes = None, *, persistent = false, merge = false))]
    fn set(
        &self,
        py: Python<'_>,
        record: &str,
        attributes: Option<BTreeMap<String, Bound<'_, PyAny>>>,
        persistent: bool,
        merge: bool,
    ) -> Result<u64, Failure> {
        let mut record = match attributes {
            None => record.parse::<NewRecord>()?,
            Some(given) => {
                let values = given.iter().map(|(name, value)| Ok((name.clone(), to_value(name, value)?)));
                NewRecord::from_parts(record, values.collect::<Result<Attributes, Failure>>()?)
            }
        };
        if persistent {
            record = record.persistent();
        }
        if merge {
            record = record.merged();
        }
        Ok(py.detach(|| self.names.set(&record))?.version)
    }

    /// Deletes a record, and returns its last state.
    fn delete(&self, py: Python<'_>, name: &str) -> Result<Record, Failure> {
        Ok(Record { record: py.detach(|| self.names.delete(name))? })
    }

    /// Watches the records that a query matches. Up to `capacity` notices, 1 to 4096, are queued for this
    /// program; further ones are lost and counted.
    #[pyo3(signature = (query, *, once = false, capacity = 256))]
    fn watch(&self, py: Python<'_>, query: &str, once: bool, capacity: u32) -> Result<Watch, Failure> {
        let options = WatchOptions { once, capacity, ..WatchOptions::default() };
        Ok(Watch { watch: Mutex::new(py.detach(|| self.names.watch(query, options))?) })
    }
}

/// A watch, from :meth:`Names.watch`, until the last reference is dropped.
#[pyclass(module = "tombolo", frozen)]
#[derive(Debug)]
pub(crate) struct Watch {
    watch: Mutex<tombolo::names::Watch>,
}

#[pymethods]
impl Watch {
    /// The records that matched when the watch began.
    #[getter]
    fn current(&self) -> Result<Vec<Record>, Failure> {
        let watch = exclusive(&self.watch, "the watch")?;
        Ok(watch.current().iter().map(|record| Record { record: record.clone() }).collect())
    }

    /// Waits up to `timeout` seconds for the next notice.
    #[pyo3(signature = (timeout = Seconds(std::time::Duration::from_secs(30))), text_signature = "($self, timeout=30.0)")]
    fn next(&self, py: Python<'_>, timeout: Seconds) -> Result<Notice, Failure> {
        let mut guard = exclusive(&self.watch, "the watch")?;
        let watch = &mut *guard;
        Ok(Notice { told: wait(py, Deadline::new(timeout.0), |slice| watch.next(slice))? })
    }

    /// Ends the watch. Notices already queued can still be taken; the last one reports the end.
    fn stop(&self, py: Python<'_>) -> Result<(), Failure> {
        let mut guard = exclusive(&self.watch, "the watch")?;
        let watch = &mut *guard;
        Ok(py.detach(|| watch.stop())?)
    }
}

/// A notification from a watch.
#[pyclass(module = "tombolo", frozen)]
#[derive(Debug)]
pub(crate) struct Notice {
    told: Told,
}

#[pymethods]
impl Notice {
    /// Kind of the change: "set", "deleted", "lost" or "ended".
    #[getter]
    fn change(&self) -> &'static str {
        match self.told.change {
            Change::Set(_) => "set",
            Change::Deleted(..) => "deleted",
            Change::Lost => "lost",
            Change::Ended(_) => "ended",
            _ => "other",
        }
    }

    /// The record that was set or deleted.
    #[getter]
    fn record(&self) -> Option<Record> {
        match &self.told.change {
            Change::Set(record) | Change::Deleted(record, _) => Some(Record { record: record.clone() }),
            _ => None,
        }
    }

    /// The number of notices lost before this one, because the queue was full.
    #[getter]
    fn lost(&self) -> u64 {
        self.told.lost
    }

    /// Whether this is the last notice.
    #[getter]
    fn last(&self) -> bool {
        self.told.last
    }

    fn __repr__(&self) -> String {
        format!("<tombolo.Notice {:?}>", self.told.change)
    }
}
