//! Memory in Python: bytes of other objects, and views of our own memory.

use std::cell::Cell;
use std::ffi::CStr;
use std::sync::{Mutex, PoisonError};
use std::thread::LocalKey;

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::boundary::{
    Exporter, Item, Lease, Source, arrow_array, arrow_schema, buffer_type, dlpack, new_object,
};
use crate::failure::Failure;

/// Returns the bytes of any object that has some: by the buffer protocol, or by DLPack through numpy.
pub(crate) fn source(object: &Bound<'_, PyAny>, writable: bool) -> Result<Source, Failure> {
    match Source::of(object, writable) {
        Ok(source) => Ok(source),
        Err(error) if error.is_instance_of::<PyTypeError>(object.py()) && object.hasattr("__dlpack__")? => {
            let numpy = object.py().import("numpy")?;
            Ok(Source::of(&numpy.call_method1("from_dlpack", (object,))?, writable)?)
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the item type for `numpy.float32`, `numpy.dtype("float32")`, `"float32"` or `"f"`.
pub(crate) fn item_of(dtype: &Bound<'_, PyAny>) -> Result<Item, Failure> {
    let name = if dtype.is_instance_of::<PyString>() {
        dtype.extract::<String>()?
    } else {
        let name = dtype.getattr_opt("name")?.map_or_else(|| dtype.getattr("__name__"), Ok);
        let name = name.and_then(|name| name.extract::<String>());
        name.map_err(|_| PyTypeError::new_err("a dtype is text such as 'float32', or numpy's"))?
    };
    let known = |item: &Item| item.name == name || item.format.to_bytes() == name.as_bytes();
    let found = Item::ALL.into_iter().find(known);
    let names = || Item::ALL.map(|item| item.name).join(", ");
    found.ok_or_else(|| Failure::invalid(format!("there is no dtype '{name}': it is one of {}", names())))
}

/// Returns the number of items in each dimension: from a number or a tuple; by default all available items.
pub(crate) fn shape_of(
    shape: Option<&Bound<'_, PyAny>>,
    (available_bytes, offset_bytes): (usize, usize),
    item: Item,
) -> Result<Vec<usize>, Failure> {
    match shape {
        None => Ok(vec![available_bytes.saturating_sub(offset_bytes) / item.bytes]),
        Some(shape) => match shape.extract::<usize>() {
            Ok(length) => Ok(vec![length]),
            Err(_) => Ok(shape.extract::<Vec<usize>>()?),
        },
    }
}

/// Creates a view of memory as items of one type.
pub(crate) fn view<'py>(
    py: Python<'py>,
    lease: Lease,
    dtype: &Bound<'py, PyAny>,
    shape: Option<&Bound<'py, PyAny>>,
    offset: usize,
) -> Result<Bound<'py, View>, Failure> {
    let (item, available) = (item_of(dtype)?, lease.length_bytes());
    let shape = shape_of(shape, (available, offset), item)?;
    let lease = lease.shaped(item, offset, &shape).ok_or_else(|| {
        let text =
            format!("{} of shape {shape:?} from byte {offset} on do not lie in {available} bytes", item.name);
        Failure::new("OutOfRange", text)
    })?;
    if !lease.is_aligned() {
        let text = format!("{} are not to be had at byte {offset}: they would not be aligned", item.name);
        return Err(Failure::invalid(text));
    }
    Ok(new_object(py, View { lease: Mutex::new(Some(lease)) })?)
}

/// Converts a view to a numpy array.
pub(crate) fn array<'py>(view: &Bound<'py, View>) -> PyResult<Bound<'py, PyAny>> {
    view.py().import("numpy")?.call_method1("asarray", (view,))
}

/// Memory as items of one type, in place: for ``memoryview``, ``numpy.asarray``, any consumer of DLPack
/// (``numpy.from_dlpack``, ``torch.from_dlpack``), and pyarrow (``pyarrow.array``), without a copy.
///
/// From ``view`` of a mapping or buffer::
///
///    view = buffer.view("float32", (480, 640))
///    frame = numpy.asarray(view)
///
/// While the view or anything created from it exists, the underlying buffer or mapping cannot be sent or
/// closed (``Exported``). The view itself counts until :meth:`close`, the end of a ``with``, or until the
/// last reference is dropped.
#[pyclass(module = "tombolo", frozen, subclass)]
#[derive(Debug)]
pub(crate) struct View {
    lease: Mutex<Option<Lease>>,
}

thread_local! {
    static INITIAL_VALUE: Cell<Option<View>> = const { Cell::new(None) };
}

impl Exporter for View {
    type Parts = View;
    const PYTHON_NAME: &'static CStr = c"tombolo.View";

    fn lease(slf: &Bound<'_, Self>) -> Result<Lease, Failure> {
        slf.get().duplicate(slf.py())
    }

    fn initial_value_slot() -> &'static LocalKey<Cell<Option<Self>>> {
        &INITIAL_VALUE
    }
}

impl View {
    fn duplicate(&self, py: Python<'_>) -> Result<Lease, Failure> {
        let lease = self.lease.lock().unwrap_or_else(PoisonError::into_inner);
        lease
            .as_ref()
            .map(|lease| lease.duplicate(py))
            .ok_or_else(|| Failure::new("Closed", "the view was closed"))
    }
}

/// Returns the initial value of an object created by its own type; any other caller is refused.
pub(crate) fn take_initial_value<T: Exporter>() -> PyResult<T::Parts> {
    let refused = || {
        let name = T::PYTHON_NAME.to_string_lossy();
        PyTypeError::new_err(format!("cannot create '{name}' instances"))
    };
    T::initial_value_slot().take().ok_or_else(refused)
}

#[pymethods]
impl View {
    #[new]
    fn new() -> PyResult<View> {
        take_initial_value::<View>()
    }

    /// The type of the items, as named by numpy.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> Result<&'static str, Failure> {
        Ok(self.duplicate(py)?.item().name)
    }

    /// The number of items in each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyTuple>, Failure> {
        Ok(PyTuple::new(py, self.duplicate(py)?.shape())?)
    }

    /// The number of bytes.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> Result<usize, Failure> {
        Ok(self.duplicate(py)?.length_bytes())
    }

    /// Whether the memory is read-only.
    #[getter]
    fn readonly(&self, py: Python<'_>) -> Result<bool, Failure> {
        Ok(self.duplicate(py)?.readonly())
    }

    /// Returns a tensor in a capsule, without a copy, for any ``from_dlpack``. DLPack supports read-only
    /// memory since version 1.0.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        if stream.is_some() || dl_device.is_some_and(|device| device != (1, 0)) {
            return Err(PyBufferError::new_err("it is memory of the processor, without streams").into());
        }
        if copy == Some(true) {
            return Err(
                PyBufferError::new_err("it is not copied here: copy what from_dlpack makes of it").into()
            );
        }
        Ok(dlpack(py, self.duplicate(py)?, max_version.is_some_and(|version| version >= (1, 0)))?)
    }

    /// The device of CPU memory.
    fn __dlpack_device__(&self) -> (i32, i32) {
        (1, 0)
    }

    /// Returns the Arrow format of the items, in a capsule of the Arrow C data interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Failure> {
        Ok(arrow_schema(py, arrow_format(&self.duplicate(py)?)?)?)
    }

    /// Returns a schema and an array in capsules of the Arrow C data interface, without a copy, for
    /// ``pyarrow.array`` and similar functions. The array has one dimension and no nulls. The bytes may
    /// change while they are in use.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> Result<(Bound<'py, PyAny>, Bound<'py, PyAny>), Failure> {
        // According to the protocol, a producer that cannot convert returns its own schema, and the consumer
        // compares.
        let _ = requested_schema;
        let lease = self.duplicate(py)?;
        let format = arrow_format(&lease)?;
        Ok((arrow_schema(py, format)?, arrow_array(py, lease)?))
    }

    /// Releases the view. Objects created from it still count. Closing again has no effect.
    fn close(&self) {
        drop(self.lease.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(&self, _kind: &Bound<'_, PyAny>, _error: &Bound<'_, PyAny>, _trace: &Bound<'_, PyAny>) {
        self.close();
    }

    fn __repr__(&self) -> String {
        match &*self.lease.lock().unwrap_or_else(PoisonError::into_inner) {
            None => "<tombolo.View, closed>".to_owned(),
            Some(lease) => {
                let how = if lease.readonly() { "read-only" } else { "writable" };
                format!("<tombolo.View of {} {:?}, {how}>", lease.item().name, lease.shape())
            }
        }
    }
}

fn arrow_format(lease: &Lease) -> Result<&'static CStr, Failure> {
    if lease.shape().len() != 1 {
        return Err(
            PyBufferError::new_err("Arrow has arrays of one dimension: view the memory as that").into()
        );
    }
    let none = || PyBufferError::new_err(format!("Arrow has no {} of whole bytes", lease.item().name));
    Ok(lease.item().arrow.ok_or_else(none)?)
}

/// Returns the types that support the buffer protocol, by name.
pub(crate) fn buffer_types(py: Python<'_>) -> PyResult<Vec<(&'static str, Bound<'_, pyo3::types::PyType>)>> {
    Ok(vec![
        buffer_type::<View>(py)?,
        buffer_type::<crate::mapping::Mapping>(py)?,
        buffer_type::<crate::pool::Buffer>(py)?,
        buffer_type::<crate::pool::Shared>(py)?,
    ])
}
