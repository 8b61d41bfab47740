//! Mappings of regions, as used by Python.

use std::cell::Cell;
use std::ffi::CStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::LocalKey;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::boundary::{Exporter, Lease, ViewCount};
use crate::failure::Failure;
use crate::memory::{self, View, source, take_initial_value};

/// Mapped part of a region. From :meth:`Capability.map`.
///
/// It supports the buffer protocol: ``memoryview(mapping)`` and ``numpy.frombuffer(mapping, dtype)`` access
/// the memory itself, for writing if it is mapped for writing. Other programs may write to it at any time.
///
/// When the right is revoked, a thread of this package replaces the pages by private zero pages, even under
/// existing views: from then on, a ``memoryview`` or an array reads zeros, writes reach no other program, and
/// memory of others is never visible. :meth:`read`, :meth:`write` and :meth:`check` then raise ``Revoked``::
///
///    with capability.map() as memory:
///        numbers = numpy.frombuffer(memory, "uint64")
///        total = numbers.sum()
///        memory.check()            # what was added up was the region's
///        del numbers
///
/// It is unmapped by :meth:`close`, at the end of a ``with``, and when the last reference is dropped. While
/// it has views, closing raises ``Exported``, as for ``mmap``.
#[pyclass(module = "tombolo", frozen, subclass)]
#[derive(Debug)]
pub(crate) struct Mapping {
    mapped: Mutex<Option<Arc<tombolo::region::Mapping>>>,
    view_count: ViewCount,
}

thread_local! {
    static INITIAL_VALUE: Cell<Option<Mapping>> = const { Cell::new(None) };
}

impl Exporter for Mapping {
    type Parts = Mapping;
    const PYTHON_NAME: &'static CStr = c"tombolo.Mapping";

    fn lease(slf: &Bound<'_, Self>) -> Result<Lease, Failure> {
        let mapped = slf.get().mapped()?;
        let at = (mapped.as_ptr().cast_const(), mapped.length_bytes());
        let owner = slf.clone().into_any().unbind();
        Ok(Lease::of_bytes(&slf.get().view_count, owner, at, !mapped.is_writable()))
    }

    fn initial_value_slot() -> &'static LocalKey<Cell<Option<Self>>> {
        &INITIAL_VALUE
    }
}

impl Mapping {
    pub(crate) fn new(mapping: tombolo::region::Mapping) -> Mapping {
        Mapping { mapped: Mutex::new(Some(Arc::new(mapping))), view_count: ViewCount::default() }
    }

    fn mapped(&self) -> Result<Arc<tombolo::region::Mapping>, Failure> {
        let mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        mapped.clone().ok_or_else(|| Failure::new("Closed", "the mapping was closed"))
    }
}

#[pymethods]
impl Mapping {
    #[new]
    fn new_of_type() -> PyResult<Mapping> {
        take_initial_value::<Mapping>()
    }

    /// The id of the region.
    #[getter]
    fn region(&self) -> Result<u64, Failure> {
        Ok(self.mapped()?.region().to_bits())
    }

    /// Whether the mapping is writable.
    #[getter]
    fn writable(&self) -> Result<bool, Failure> {
        Ok(self.mapped()?.is_writable())
    }

    /// Whether the right to it was revoked.
    #[getter]
    fn revoked(&self) -> Result<bool, Failure> {
        Ok(self.mapped()?.is_revoked())
    }

    /// The address of the mapping as a number, for code that takes addresses.
    #[getter]
    fn address(&self) -> Result<usize, Failure> {
        Ok(self.mapped()?.as_ptr().addr())
    }

    /// Raises ``Revoked`` if the right was revoked. Otherwise earlier reads returned bytes of the region, and
    /// earlier writes have reached it.
    fn check(&self) -> Result<(), Failure> {
        Ok(self.mapped()?.check()?)
    }

    /// Copies `length` bytes out, from `offset` on; by default up to the end.
    #[pyo3(signature = (offset = 0, length = None))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        offset: usize,
        length: Option<usize>,
    ) -> Result<Bound<'py, PyBytes>, Failure> {
        let mapped = self.mapped()?;
        let available_bytes = mapped.length_bytes();
        let length_bytes = length.unwrap_or(available_bytes.saturating_sub(offset));
        if offset.checked_add(length_bytes).is_none_or(|end| end > available_bytes) {
            // Checked before memory is allocated.
            let error = tombolo::region::OutOfRange { offset_bytes: offset, length_bytes, available_bytes };
            return Err(tombolo::Error::OutOfRange(error).into());
        }
        let copy = |target: &mut [u8]| Ok(mapped.read(offset, target).map_err(Failure::from)?);
        Ok(PyBytes::new_with(py, length_bytes, copy)?)
    }

    /// Fills a writable buffer with bytes from `offset` on.
    fn read_into(&self, py: Python<'_>, offset: usize, target: &Bound<'_, PyAny>) -> Result<(), Failure> {
        let mut target = source(target, true)?;
        Ok(self.mapped()?.read(offset, target.bytes_mut(py))?)
    }

    /// Copies the bytes of a bytes-like object in, from `offset` on. Concurrent writers to the same 8 bytes
    /// have to synchronize.
    fn write(&self, py: Python<'_>, offset: usize, data: &Bound<'_, PyAny>) -> Result<(), Failure> {
        let data = source(data, false)?;
        Ok(self.mapped()?.write(offset, data.bytes(py))?)
    }

    /// The memory as items of one type, in place: see :class:`View`. `shape` is a number or a tuple; `offset`
    /// is in bytes.
    #[pyo3(signature = (dtype, shape = None, offset = 0))]
    fn view<'py>(
        slf: &Bound<'py, Self>,
        dtype: &Bound<'py, PyAny>,
        shape: Option<&Bound<'py, PyAny>>,
        offset: usize,
    ) -> Result<Bound<'py, View>, Failure> {
        memory::view(slf.py(), Self::lease(slf)?, dtype, shape, offset)
    }

    /// The memory as a numpy array, in place. `shape` is a number or a tuple; `offset` is in bytes.
    #[pyo3(signature = (dtype, shape = None, offset = 0))]
    fn array<'py>(
        slf: &Bound<'py, Self>,
        dtype: &Bound<'py, PyAny>,
        shape: Option<&Bound<'py, PyAny>>,
        offset: usize,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        Ok(memory::array(&Self::view(slf, dtype, shape, offset)?)?)
    }

    /// Unmaps the memory. Closing again has no effect.
    fn close(&self) -> Result<(), Failure> {
        let mut mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        match self.view_count.count() {
            0 => {
                mapped.take();
                Ok(())
            }
            count => Err(Failure::has_views_failure("the mapping", count)),
        }
    }

    fn __len__(&self) -> Result<usize, Failure> {
        Ok(self.mapped()?.length_bytes())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        _kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> Result<(), Failure> {
        self.close()
    }

    fn __repr__(&self) -> String {
        match &*self.mapped.lock().unwrap_or_else(PoisonError::into_inner) {
            None => "<tombolo.Mapping, closed>".to_owned(),
            Some(mapped) => {
                let how = if mapped.is_writable() { "writable" } else { "read-only" };
                let gone = if mapped.is_revoked() { ", revoked" } else { "" };
                let (length, region) = (mapped.length_bytes(), mapped.region());
                format!("<tombolo.Mapping of {length} bytes of region {region}, {how}{gone}>")
            }
        }
    }
}
