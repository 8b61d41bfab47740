//! Pools and their buffers.

use std::cell::Cell;
use std::ffi::CStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::LocalKey;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tombolo::{Error, PoolOptions, Trust};

use crate::boundary::{Exporter, Lease, ViewCount, new_object};
use crate::failure::{Failure, region_class};
use crate::memory::{self, View, source, take_initial_value};

/// Parses "full", "half" or "none".
pub(crate) fn trust_of(trust: &str) -> Result<Trust, Failure> {
    match trust {
        "full" => Ok(Trust::Full),
        "half" => Ok(Trust::Half),
        "none" => Ok(Trust::None),
        other => Err(Failure::invalid(format!("trust is 'full', 'half' or 'none', not '{other}'"))),
    }
}

pub(crate) fn trust_text(trust: Trust) -> &'static str {
    match trust {
        Trust::Full => "full",
        Trust::Half => "half",
        Trust::None => "none",
    }
}

/// A set of buffers of equal size. From :meth:`Domain.create_pool`, and from a bulk channel whose other side
/// assigned it::
///
///    pool = domain.create_pool(16 << 20, 4)
///    bulk.assign(pool)
///    buffer = pool.take()
///    buffer.array("float32", (1024, 1024))[:] = image
///    bulk.move_to(buffer, b"number 1")
///
/// Threads may share it.
#[pyclass(module = "tombolo", frozen, eq, skip_from_py_object)]
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pool {
    pub(crate) pool: tombolo::Pool,
}

#[pymethods]
impl Pool {
    /// Takes a free buffer for filling: the one freed most recently. Raises ``NoBuffer`` if all are in use.
    fn take<'py>(slf: &Bound<'py, Self>) -> Result<Bound<'py, Buffer>, Failure> {
        let buffer = slf.get().pool.take()?;
        Ok(new_object(slf.py(), Buffer::parts(BufferRight::Owned { buffer, stays: true }))?)
    }

    /// Takes a buffer and fills it with the bytes of any bytes-like object, for example a numpy array, a
    /// tensor or a memoryview; the selected part has their length.
    fn copy<'py>(slf: &Bound<'py, Self>, data: &Bound<'py, PyAny>) -> Result<Bound<'py, Buffer>, Failure> {
        let data = source(data, false)?;
        let length = data.len() as u64;
        if length > slf.get().pool.buffer_bytes() {
            let available_bytes = slf.get().pool.buffer_bytes();
            let error =
                tombolo::bulk::BulkError::Range { offset_bytes: 0, length_bytes: length, available_bytes };
            return Err(Error::from(error).into());
        }
        let mut buffer = slf.get().pool.take()?;
        buffer.set_part(0, length)?;
        buffer.write(0, data.bytes(slf.py()))?;
        Ok(new_object(slf.py(), Buffer::parts(BufferRight::Owned { buffer, stays: true }))?)
    }

    /// The size of each buffer, in bytes.
    #[getter]
    fn buffer_bytes(&self) -> u64 {
        self.pool.buffer_bytes()
    }

    /// The number of buffers.
    #[getter]
    fn count(&self) -> u32 {
        self.pool.count()
    }

    /// How far the programs that have the pool trust each other: "full", "half" or "none".
    #[getter]
    fn trust(&self) -> &'static str {
        trust_text(self.pool.trust())
    }

    /// The number of buffers in each state, as known to this program: :class:`Counts
    /// <tombolo.regions.Counts>`, which add up to the number of buffers.
    #[getter]
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let counts = self.pool.counts();
        let fields = (counts.free, counts.held, counts.lent, counts.borrowed, counts.away);
        region_class(py, "Counts")?.call1(fields)
    }

    /// Whether the domain that created the pool revoked it: its buffers cannot be used any more.
    #[getter]
    fn revoked(&self) -> bool {
        self.pool.is_revoked()
    }

    fn __len__(&self) -> usize {
        self.pool.count() as usize
    }

    fn __repr__(&self) -> String {
        let (count, bytes) = (self.pool.count(), self.pool.buffer_bytes());
        let gone = if self.pool.is_revoked() { ", revoked" } else { "" };
        format!("<tombolo.Pool of {count} buffers of {bytes} bytes, trust {}{gone}>", self.trust())
    }
}

/// Implements [`Domain::create_pool`](crate::domain::Domain).
pub(crate) fn create(
    py: Python<'_>,
    domain: &tombolo::Domain,
    (buffer_bytes, count): (u64, u32),
    trust: &str,
    (node, memory): (Option<&str>, Option<tombolo::region::Capability>),
) -> Result<Pool, Failure> {
    let mut options = PoolOptions::new(buffer_bytes, count).trust(trust_of(trust)?);
    if let Some(node) = node {
        options = options.reachable_from(node);
    }
    let make = || match memory {
        None => domain.create_pool(&options),
        Some(_) if node.is_some() => {
            let why = "the memory of the pool is given, and with that who reaches it";
            Err(tombolo::Error::Monitor(tombolo::error::Fault::Refused { why: why.into() }))
        }
        Some(memory) => domain.create_pool_in(&memory, &options),
    };
    Ok(Pool { pool: py.detach(make)? })
}

/// Right of a program to a buffer.
#[derive(Debug)]
pub(crate) enum BufferRight {
    /// Right to read and write.
    Owned {
        buffer: tombolo::Buffer,
        /// Whether its memory stays in place even when it is written to.
        stays: bool,
    },
    /// Right to read only.
    Lent(tombolo::Shared),
    /// None any more, and the reason.
    Gone(&'static str),
}

/// Common base of buffers and shared buffers.
#[pyclass(module = "tombolo._native", frozen, subclass)]
#[derive(Debug)]
pub(crate) struct Held {
    hand: Mutex<BufferRight>,
    view_count: ViewCount,
}

/// Reads from a buffer with either right.
macro_rules! of_either {
    ($hand:expr, $name:ident => $value:expr) => {
        match $hand {
            BufferRight::Owned { buffer: $name, .. } => Ok($value),
            BufferRight::Lent($name) => Ok($value),
            BufferRight::Gone(why) => Err(Failure::new("BufferState", format!("the buffer {why}"))),
        }
    };
}

impl Held {
    fn hand(&self) -> MutexGuard<'_, BufferRight> {
        self.hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the right out, to send it elsewhere.
    ///
    /// # Errors
    /// An error if the buffer has views.
    pub(crate) fn take(&self, why: &'static str) -> Result<BufferRight, Failure> {
        let mut hand = self.hand();
        match self.view_count.count() {
            0 => Ok(std::mem::replace(&mut hand, BufferRight::Gone(why))),
            count => Err(Failure::has_views_failure("the buffer", count)),
        }
    }

    /// Like [`take`](Self::take), but allows views: the right is put back, and its memory stays in place
    /// meanwhile.
    pub(crate) fn take_seen(&self, why: &'static str) -> BufferRight {
        std::mem::replace(&mut self.hand(), BufferRight::Gone(why))
    }

    /// Puts back a right that was not sent, or records where it went.
    pub(crate) fn put(&self, hand: BufferRight) {
        *self.hand() = hand;
    }

    fn lease(slf: &Bound<'_, Self>, owner: Py<PyAny>, writable: bool) -> Result<Lease, Failure> {
        let held = slf.get();
        let mut hand = held.hand();
        let has_views = held.view_count.count() > 0;
        let (address, length_bytes, readonly) = match &mut *hand {
            BufferRight::Owned { buffer, stays } if writable => {
                if !*stays && has_views {
                    // Writing would move the memory.
                    return Err(Failure::has_views_failure(
                        "the buffer, whose memory moves with the first write,",
                        held.view_count.count(),
                    ));
                }
                let address = buffer.as_mut_ptr()?.cast_const();
                *stays = true;
                (address, buffer.len_bytes(), false)
            }
            BufferRight::Owned { buffer, .. } => (buffer.as_ptr()?, buffer.len_bytes(), true),
            BufferRight::Lent(_) if writable => {
                return Err(
                    pyo3::exceptions::PyBufferError::new_err("a shared buffer is only to be read").into()
                );
            }
            BufferRight::Lent(shared) => (shared.as_ptr()?, shared.len_bytes(), true),
            BufferRight::Gone(why) => return Err(Failure::new("BufferState", format!("the buffer {why}"))),
        };
        let length_bytes = usize::try_from(length_bytes).unwrap_or(usize::MAX);
        Ok(Lease::of_bytes(&held.view_count, owner, (address, length_bytes), readonly))
    }

    /// Returns a lease for the buffer protocol, writable if the right permits.
    fn lease_all(slf: &Bound<'_, Self>) -> Result<Lease, Failure> {
        let is_mine = matches!(&*slf.get().hand(), BufferRight::Owned { .. });
        Self::lease(slf, slf.clone().into_any().unbind(), is_mine)
    }
}

fn create_view<'py>(
    slf: &Bound<'py, Held>,
    (dtype, shape, offset): (&Bound<'py, PyAny>, Option<&Bound<'py, PyAny>>, usize),
    writable: Option<bool>,
) -> Result<Bound<'py, View>, Failure> {
    let lease = match writable {
        None => Held::lease_all(slf)?,
        Some(writable) => Held::lease(slf, slf.clone().into_any().unbind(), writable)?,
    };
    memory::view(slf.py(), lease, dtype, shape, offset)
}

#[pymethods]
impl Held {
    /// The length of the selected part, in bytes: the whole buffer after a take, the part that was sent for a
    /// buffer that arrived.
    fn __len__(&self) -> Result<usize, Failure> {
        let length = of_either!(&*self.hand(), held => held.len_bytes());
        Ok(usize::try_from(length?).unwrap_or(usize::MAX))
    }

    /// The index of the buffer in its pool, from 0.
    #[getter]
    fn number(&self) -> Result<u32, Failure> {
        of_either!(&*self.hand(), held => held.number())
    }

    /// The pool that the buffer belongs to.
    #[getter]
    fn pool(&self) -> Result<Pool, Failure> {
        Ok(Pool { pool: of_either!(&*self.hand(), held => held.pool())? })
    }

    /// The number of views, which prevent it from being sent: memoryviews, arrays, tensors.
    #[getter]
    fn views(&self) -> usize {
        self.view_count.count()
    }

    /// Copies `length` bytes out, from `offset` on; by default up to the end.
    #[pyo3(signature = (offset = 0, length = None))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        offset: usize,
        length: Option<usize>,
    ) -> Result<Bound<'py, PyBytes>, Failure> {
        let available = self.__len__()?;
        let length = length.unwrap_or(available.saturating_sub(offset));
        if offset.checked_add(length).is_none_or(|end| end > available) {
            // Checked before memory is allocated.
            let (offset_bytes, length_bytes) = (offset as u64, length as u64);
            let error = tombolo::bulk::BulkError::Range {
                offset_bytes,
                length_bytes,
                available_bytes: available as u64,
            };
            return Err(Error::from(error).into());
        }
        let copy = |target: &mut [u8]| {
            of_either!(&*self.hand(), held => held.read(offset as u64, target).map_err(Failure::from)?)?;
            Ok(())
        };
        Ok(PyBytes::new_with(py, length, copy)?)
    }

    /// Fills a writable buffer, for example a numpy array, with bytes from `offset` on.
    fn read_into(&self, py: Python<'_>, offset: u64, target: &Bound<'_, PyAny>) -> Result<(), Failure> {
        let mut target = source(target, true)?;
        Ok(of_either!(&*self.hand(), held => held.read(offset, target.bytes_mut(py)))??)
    }

    /// The memory as items of one type, in place: see :class:`View`. `shape` is a number or a tuple; `offset`
    /// is in bytes; `writable` defaults to what the right permits.
    #[pyo3(signature = (dtype, shape = None, offset = 0, *, writable = None))]
    fn view<'py>(
        slf: &Bound<'py, Self>,
        dtype: &Bound<'py, PyAny>,
        shape: Option<&Bound<'py, PyAny>>,
        offset: usize,
        writable: Option<bool>,
    ) -> Result<Bound<'py, View>, Failure> {
        create_view(slf, (dtype, shape, offset), writable)
    }

    /// The memory as a numpy array, in place. `shape` is a number or a tuple; `offset` is in bytes;
    /// `writable` defaults to what the right permits.
    #[pyo3(signature = (dtype, shape = None, offset = 0, *, writable = None))]
    fn array<'py>(
        slf: &Bound<'py, Self>,
        dtype: &Bound<'py, PyAny>,
        shape: Option<&Bound<'py, PyAny>>,
        offset: usize,
        writable: Option<bool>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        Ok(memory::array(&create_view(slf, (dtype, shape, offset), writable)?)?)
    }

    /// Releases the buffer: one that was taken becomes free, one that arrived is returned to its sender.
    /// Closing again, or closing one that was sent, has no effect.
    fn close(&self) -> Result<(), Failure> {
        if matches!(&*self.hand(), BufferRight::Gone(_)) {
            return Ok(());
        }
        drop(self.take("was closed")?);
        Ok(())
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

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let class = slf.get_type().name()?;
        let of = |number: u32, length: u64| format!("<tombolo.{class} {number} of {length} bytes>");
        let hand = slf.get().hand();
        Ok(match &*hand {
            BufferRight::Owned { buffer, .. } => of(buffer.number(), buffer.len_bytes()),
            BufferRight::Lent(shared) => of(shared.number(), shared.len_bytes()),
            BufferRight::Gone(why) => format!("<tombolo.{class} that {why}>"),
        })
    }
}

/// A buffer that only this program may read and write. From :meth:`Pool.take`, and from a bulk channel when
/// it is moved here.
///
/// It supports the buffer protocol, in place: ``memoryview(buffer)``, ``numpy.frombuffer(buffer, dtype)``;
/// :meth:`view` and :meth:`array` give it a type and a shape.
///
/// After it was moved, shared or passed, this object can no longer be used. While it has views, these
/// operations raise ``Exported``, a ``BufferError``, like a ``bytearray`` that refuses to grow: no array ever
/// shows data of other programs::
///
///    array = buffer.array("float32")
///    array[:] = 1
///    bulk.move_to(buffer)       # raises Exported
///    del array
///    bulk.move_to(buffer)       # nothing was copied
///
/// A buffer that is closed, or whose last reference is dropped, becomes free: immediately if it was taken
/// here, and with the next operation on the channel if it arrived over one.
#[pyclass(module = "tombolo", frozen, subclass, extends = Held)]
#[derive(Debug)]
pub(crate) struct Buffer;

/// A read-only buffer. Other programs may read it as well, and none writes to it. From
/// :meth:`BulkChannel.share`, and from a bulk channel when it is shared with this program.
///
/// It supports the buffer protocol, read-only. One that arrived over a channel is released when it is closed,
/// or when its last reference is dropped, with the next operation on that channel. A program that shared its
/// own buffer can :meth:`reclaim` it.
#[pyclass(module = "tombolo", frozen, subclass, extends = Held)]
#[derive(Debug)]
pub(crate) struct Shared;

thread_local! {
    static BUFFERS: Cell<Option<PyClassInitializer<Buffer>>> = const { Cell::new(None) };
    static SHARED: Cell<Option<PyClassInitializer<Shared>>> = const { Cell::new(None) };
}

impl Exporter for Buffer {
    type Parts = PyClassInitializer<Buffer>;
    const PYTHON_NAME: &'static CStr = c"tombolo.Buffer";

    fn lease(slf: &Bound<'_, Self>) -> Result<Lease, Failure> {
        Held::lease_all(slf.as_super())
    }

    fn initial_value_slot() -> &'static LocalKey<Cell<Option<Self::Parts>>> {
        &BUFFERS
    }
}

impl Exporter for Shared {
    type Parts = PyClassInitializer<Shared>;
    const PYTHON_NAME: &'static CStr = c"tombolo.Shared";

    fn lease(slf: &Bound<'_, Self>) -> Result<Lease, Failure> {
        Held::lease_all(slf.as_super())
    }

    fn initial_value_slot() -> &'static LocalKey<Cell<Option<Self::Parts>>> {
        &SHARED
    }
}

fn held(hand: BufferRight) -> PyClassInitializer<Held> {
    PyClassInitializer::from(Held { hand: Mutex::new(hand), view_count: ViewCount::default() })
}

impl Buffer {
    pub(crate) fn parts(hand: BufferRight) -> PyClassInitializer<Buffer> {
        held(hand).add_subclass(Buffer)
    }
}

impl Shared {
    pub(crate) fn parts(hand: BufferRight) -> PyClassInitializer<Shared> {
        held(hand).add_subclass(Shared)
    }
}

#[pymethods]
impl Buffer {
    #[new]
    fn new() -> PyResult<PyClassInitializer<Buffer>> {
        take_initial_value::<Buffer>()
    }

    /// Copies the bytes of a bytes-like object in, from `offset` on.
    #[pyo3(signature = (data, offset = 0))]
    fn write(slf: &Bound<'_, Self>, data: &Bound<'_, PyAny>, offset: u64) -> Result<(), Failure> {
        let data = source(data, false)?;
        let held = slf.as_super().get();
        let mut hand = held.hand();
        match &mut *hand {
            BufferRight::Owned { buffer, stays } => {
                if !*stays && held.view_count.count() > 0 {
                    return Err(Failure::has_views_failure(
                        "the buffer, whose memory moves with the first write,",
                        held.view_count.count(),
                    ));
                }
                buffer.write(offset, data.bytes(slf.py()))?;
                *stays = true;
                Ok(())
            }
            BufferRight::Lent(_) => Err(Failure::new("BufferState", "the buffer is shared")),
            BufferRight::Gone(why) => Err(Failure::new("BufferState", format!("the buffer {why}"))),
        }
    }

    /// Selects a part of the buffer, in bytes from its beginning. Subsequent reads, writes and sends apply to
    /// this part.
    fn set_part(slf: &Bound<'_, Self>, offset: u64, length: u64) -> Result<(), Failure> {
        match &mut *slf.as_super().get().hand() {
            BufferRight::Owned { buffer, .. } => Ok(buffer.set_part(offset, length)?),
            BufferRight::Lent(_) => Err(Failure::new("BufferState", "the buffer is shared")),
            BufferRight::Gone(why) => Err(Failure::new("BufferState", format!("the buffer {why}"))),
        }
    }
}

#[pymethods]
impl Shared {
    #[new]
    fn new() -> PyResult<PyClassInitializer<Shared>> {
        take_initial_value::<Shared>()
    }

    /// Whether this program shared the buffer, rather than another program with this one.
    #[getter]
    fn is_own(slf: &Bound<'_, Self>) -> bool {
        matches!(&*slf.as_super().get().hand(), BufferRight::Lent(shared) if shared.is_own())
    }

    /// The number of programs that have not released it yet.
    #[getter]
    fn shares(slf: &Bound<'_, Self>) -> u32 {
        match &*slf.as_super().get().hand() {
            BufferRight::Lent(shared) => shared.shares(),
            _ => 0,
        }
    }

    /// Turns the buffer back into a writable one, once all others have released it; raises ``BufferState``
    /// while some have not, and for another program's buffer.
    fn reclaim<'py>(slf: &Bound<'py, Self>) -> Result<Bound<'py, Buffer>, Failure> {
        let held = slf.as_super().get();
        match held.take("was reclaimed")? {
            BufferRight::Lent(shared) => match shared.reclaim() {
                Ok(buffer) => {
                    // Without trust, sealed memory is copied at the next write.
                    let stays = buffer.pool().trust() != Trust::None;
                    Ok(new_object(slf.py(), Buffer::parts(BufferRight::Owned { buffer, stays }))?)
                }
                Err(not_sent) => {
                    held.put(BufferRight::Lent(not_sent.kept));
                    Err(not_sent.error.into())
                }
            },
            hand => {
                held.put(hand);
                Err(Failure::new("BufferState", "the buffer is not here any more"))
            }
        }
    }
}
