//! Memory as seen by Python and its libraries, according to their C interfaces. All `unsafe` code of this
//! crate is here.
//!
//! A [`Lease`] gives access to memory: while one exists, the memory stays in place and is not used otherwise.
//! A view through the buffer protocol, DLPack or Arrow holds one.
#![allow(unsafe_code, reason = "the fence around what C passes in and out")]

mod arrow;
mod buffer;
mod dlpack;

use std::ffi::CStr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::prelude::*;

use crate::failure::Failure;

pub(crate) use arrow::{arrow_array, arrow_schema};
pub(crate) use buffer::{Exporter, Source, buffer_type, new_object};
pub(crate) use dlpack::dlpack;

/// Duplicates a descriptor, or that of an object that has one.
///
/// # Errors
/// An error if it is not a descriptor.
pub(crate) fn descriptor(file: &Bound<'_, PyAny>) -> Result<OwnedFd, Failure> {
    let number: i32 = match file.extract() {
        Ok(number) => number,
        Err(_) => file.call_method0("fileno")?.extract()?,
    };
    if number < 0 {
        return Err(Failure::invalid(format!("{number} is no descriptor")));
    }
    // SAFETY: not negative. The program owns it and is using it now; if it is not open any more, the kernel
    // refuses it.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    let own = borrowed.try_clone_to_owned();
    own.map_err(|error| Failure::new("System", format!("cannot use descriptor {number}: {error}")))
}

/// Number of views of some memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct ViewCount(Arc<AtomicUsize>);

impl ViewCount {
    /// Returns the current number of views.
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

/// One counted view.
#[derive(Debug)]
struct ViewGuard(ViewCount);

impl ViewGuard {
    fn new(view_count: &ViewCount) -> ViewGuard {
        view_count.0.fetch_add(1, Ordering::AcqRel);
        ViewGuard(view_count.clone())
    }
}

impl Clone for ViewGuard {
    fn clone(&self) -> ViewGuard {
        ViewGuard::new(&self.0)
    }
}

impl Drop for ViewGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Type of the items in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Item {
    /// Name in numpy.
    pub(crate) name: &'static str,
    /// Format in `struct` and the buffer protocol, in native byte order.
    pub(crate) format: &'static CStr,
    /// Size in bytes.
    pub(crate) bytes: usize,
    /// Type code in DLPack.
    pub(crate) dlpack: u8,
    /// Format in Arrow, if it has the type.
    pub(crate) arrow: Option<&'static CStr>,
}

/// Plain bytes.
pub(crate) const BYTES: Item = Item::new("uint8", c"B", 1, 1, Some(c"C"));

impl Item {
    const fn new(
        name: &'static str,
        format: &'static CStr,
        bytes: usize,
        dlpack: u8,
        arrow: Option<&'static CStr>,
    ) -> Item {
        Item { name, format, bytes, dlpack, arrow }
    }

    /// All supported types.
    pub(crate) const ALL: [Item; 14] = [
        BYTES,
        Item::new("int8", c"b", 1, 0, Some(c"c")),
        Item::new("uint16", c"H", 2, 1, Some(c"S")),
        Item::new("int16", c"h", 2, 0, Some(c"s")),
        Item::new("uint32", c"I", 4, 1, Some(c"I")),
        Item::new("int32", c"i", 4, 0, Some(c"i")),
        Item::new("uint64", c"Q", 8, 1, Some(c"L")),
        Item::new("int64", c"q", 8, 0, Some(c"l")),
        Item::new("float16", c"e", 2, 2, Some(c"e")),
        Item::new("float32", c"f", 4, 2, Some(c"f")),
        Item::new("float64", c"d", 8, 2, Some(c"g")),
        // Arrow packs booleans into bits.
        Item::new("bool", c"?", 1, 6, None),
        Item::new("complex64", c"Zf", 8, 5, None),
        Item::new("complex128", c"Zd", 16, 5, None),
    ];
}

/// Memory that a view refers to.
#[derive(Debug)]
pub(crate) struct Lease {
    _view_guard: ViewGuard,
    owner: Py<PyAny>,
    address: usize,
    readonly: bool,
    item: Item,
    shape: Vec<isize>,
    /// Strides in bytes.
    strides: Vec<isize>,
}

impl Lease {
    /// Creates a lease of bytes from `address` on. They stay in place while `view_count` is not zero and
    /// `owner` is referenced.
    pub(crate) fn of_bytes(
        view_count: &ViewCount,
        owner: Py<PyAny>,
        (address, length_bytes): (*const u8, usize),
        readonly: bool,
    ) -> Lease {
        // No object is longer than `isize::MAX`.
        let length = isize::try_from(length_bytes).unwrap_or(isize::MAX);
        Lease {
            _view_guard: ViewGuard::new(view_count),
            owner,
            address: address.expose_provenance(),
            readonly,
            item: BYTES,
            shape: vec![length],
            strides: vec![1],
        }
    }

    /// Returns a second lease of the same memory.
    pub(crate) fn duplicate(&self, py: Python<'_>) -> Lease {
        Lease {
            _view_guard: self._view_guard.clone(),
            owner: self.owner.clone_ref(py),
            address: self.address,
            readonly: self.readonly,
            item: self.item,
            shape: self.shape.clone(),
            strides: self.strides.clone(),
        }
    }

    /// Restricts the lease to an array of this shape, with items from `offset_bytes` on; `None` if it is not
    /// inside.
    pub(crate) fn shaped(mut self, item: Item, offset_bytes: usize, shape: &[usize]) -> Option<Lease> {
        let mut bytes = item.bytes;
        let mut strides = vec![0; shape.len()];
        for (stride, length) in strides.iter_mut().zip(shape).rev() {
            *stride = isize::try_from(bytes).ok()?;
            bytes = bytes.checked_mul(*length)?;
        }
        if offset_bytes.checked_add(bytes)? > self.length_bytes() {
            return None;
        }
        self.address += offset_bytes;
        self.item = item;
        self.shape = shape.iter().map(|length| isize::try_from(*length).ok()).collect::<Option<_>>()?;
        self.strides = strides;
        Some(self)
    }

    /// Whether the memory is aligned for its items.
    pub(crate) fn is_aligned(&self) -> bool {
        // A complex number consists of two numbers of half the size.
        let bytes = if self.item.dlpack == 5 { self.item.bytes / 2 } else { self.item.bytes };
        self.address.is_multiple_of(bytes)
    }

    pub(crate) fn readonly(&self) -> bool {
        self.readonly
    }

    pub(crate) fn item(&self) -> Item {
        self.item
    }

    pub(crate) fn shape(&self) -> &[isize] {
        &self.shape
    }

    pub(crate) fn items(&self) -> usize {
        self.shape.iter().map(|length| length.unsigned_abs()).product()
    }

    pub(crate) fn length_bytes(&self) -> usize {
        self.items() * self.item.bytes
    }

    fn address(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.address)
    }
}
