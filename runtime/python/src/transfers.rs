//! Buffers as parameters of interfaces.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use tombolo::bulk::BulkError;
use tombolo::interface::Handle;
use tombolo::{BulkOptions, Error, NotSent};

use crate::boundary::new_object;
use crate::bulk::OutgoingBuffers;
use crate::failure::Failure;
use crate::passing::Right;
use crate::pool::{Buffer, BufferRight, Held, Pool, Shared, trust_of};
use crate::wait::Seconds;

/// Kind of rights to buffers.
const BUFFER: u8 = 4;

/// The bulk channel beside a channel for typed messages: from :meth:`Channel.open_bulk`.
///
/// :meth:`move_to` and :meth:`share` return values for parameters of an interface, which the other end
/// claims::
///
///    transfers = channel.open_bulk(domain, [pool])
///    with stubs.BuffersClient(channel) as client:
///        buffer = pool.take()
///        buffer.write(b"not copied")
///        client.pass_([transfers.move_to(buffer)], None)
#[pyclass(module = "tombolo", frozen)]
#[derive(Debug)]
pub(crate) struct Transfers {
    transfers: Mutex<Option<tombolo::bulk::Transfers>>,
}

/// Converts an error: a buffer that does not exist is the peer's fault, other errors are not.
fn refused(error: Error) -> Failure {
    match error {
        Error::Bulk(BulkError::NoTransfer { .. } | BulkError::OtherVerb) => {
            Failure::new("RightRefused", error.to_string())
        }
        error => error.into(),
    }
}

/// Implements [`Channel::open_bulk`](crate::channel::Channel).
pub(crate) fn open(
    py: Python<'_>,
    channel: &mut tombolo::Channel,
    domain: &tombolo::Domain,
    pools: Vec<PyRef<'_, Pool>>,
    trust: &str,
    timeout: Duration,
) -> Result<Transfers, Failure> {
    let options = BulkOptions::default().trust(trust_of(trust)?);
    let pools: Vec<tombolo::Pool> = pools.iter().map(|pool| pool.pool.clone()).collect();
    let opened = py.detach(|| channel.within(timeout).open_bulk(domain, &options, &pools))?;
    Ok(Transfers { transfers: Mutex::new(Some(opened)) })
}

impl Transfers {
    fn get(&self) -> Result<tombolo::bulk::Transfers, Failure> {
        let transfers = self.transfers.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = || Failure::new("Closed", "the bulk channel was closed here");
        transfers.clone().ok_or_else(closed)
    }
}

#[pymethods]
impl Transfers {
    /// Moves a buffer, or several in one transfer, to the other end: returns a :class:`Right` for a ``move
    /// buffer``, or a list of them.
    #[pyo3(signature = (buffers, timeout = Seconds(Duration::from_secs(30))),
           text_signature = "($self, buffers, timeout=30.0)")]
    fn move_to<'py>(
        &self,
        buffers: &Bound<'py, PyAny>,
        timeout: Seconds,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let (py, transfers) = (buffers.py(), self.get()?);
        let is_one = buffers.is_instance_of::<Held>();
        let mut load = OutgoingBuffers::take(buffers)?;
        let all = load.owned_buffers()?;
        match py.detach(|| transfers.within(timeout.0).move_all(all)) {
            Ok(moved) => {
                load.mark_gone("was moved");
                let right = |handle: Handle<4, true>| {
                    Right { object: handle.object, kind: BUFFER, moved: true }.into_python(py)
                };
                let mut rights = moved.into_iter().map(right).collect::<PyResult<Vec<_>>>()?;
                match rights.pop() {
                    Some(one) if is_one => Ok(one),
                    last => {
                        rights.extend(last);
                        Ok(PyList::new(py, rights)?.into_any())
                    }
                }
            }
            Err(not_sent) => {
                let NotSent { error, kept } = *not_sent;
                load.restore_buffers(kept);
                Err(error.into())
            }
        }
    }

    /// Shares a buffer with the other end: returns a :class:`Right` for a ``copy buffer``, and the
    /// :class:`Shared` that this side keeps.
    #[pyo3(signature = (buffer, timeout = Seconds(Duration::from_secs(30))),
           text_signature = "($self, buffer, timeout=30.0)")]
    fn share<'py>(
        &self,
        buffer: &Bound<'py, Buffer>,
        timeout: Seconds,
    ) -> Result<Bound<'py, PyTuple>, Failure> {
        let (py, transfers) = (buffer.py(), self.get()?);
        let mut load = OutgoingBuffers::take(buffer.as_any())?;
        let Some(one) = load.owned_buffers()?.pop() else {
            return Err(Failure::invalid("there is no buffer"));
        };
        match py.detach(|| transfers.within(timeout.0).share(one)) {
            Ok((handle, shared)) => {
                load.mark_gone("was shared");
                let right = Right { object: handle.object, kind: BUFFER, moved: false }.into_python(py)?;
                let shared = new_object::<Shared>(py, Shared::parts(BufferRight::Lent(shared)))?;
                Ok(PyTuple::new(py, [right, shared.into_any()])?)
            }
            Err(not_sent) => {
                let NotSent { error, kept } = *not_sent;
                load.restore_buffers(vec![kept]);
                Err(error.into())
            }
        }
    }

    /// Claims the buffer that a message refers to, once: a :class:`Buffer` if it was moved, a :class:`Shared`
    /// if it was shared. Raises ``RightRefused`` if there is none; a handler that does not catch this refuses
    /// the call.
    #[pyo3(signature = (right, timeout = Seconds(Duration::from_secs(30))),
           text_signature = "($self, right, timeout=30.0)")]
    fn claim<'py>(
        &self,
        py: Python<'py>,
        right: Right,
        timeout: Seconds,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let (transfers, object) = (self.get()?, right.object);
        if right.kind != BUFFER {
            return Err(Failure::invalid("it is no buffer"));
        }
        if right.moved {
            let claim = || transfers.within(timeout.0).claim(Handle::<4, true> { object });
            let buffer = py.detach(claim).map_err(refused)?;
            let stays = buffer.pool().trust() != tombolo::Trust::None;
            Ok(new_object::<Buffer>(py, Buffer::parts(BufferRight::Owned { buffer, stays }))?.into_any())
        } else {
            let claim = || transfers.within(timeout.0).claim(Handle::<4, false> { object });
            let shared = py.detach(claim).map_err(refused)?;
            Ok(new_object::<Shared>(py, Shared::parts(BufferRight::Lent(shared)))?.into_any())
        }
    }

    /// Handles what has arrived, without waiting, and returns dropped buffers. For programs that wait for
    /// buffers to come back.
    fn settle(&self, py: Python<'_>) -> Result<(), Failure> {
        let transfers = self.get()?;
        Ok(py.detach(|| transfers.settle())?)
    }

    /// Closes the bulk channel. Closing again has no effect.
    fn close(&self, py: Python<'_>) {
        let transfers = self.transfers.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(transfers));
    }
}
