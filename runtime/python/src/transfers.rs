//! Buffers as parameters of interfaces.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use tombolo::bulk::BulkError;
use tombolo::interface::Handle;
use tombolo::{BulkOptions, Error, NotSent};

use crate::boundary::made;
use crate::bulk::Load;
use crate::failure::Failure;
use crate::passing::Right;
use crate::pool::{Buffer, Hand, Held, Pool, Shared, trust_of};
use crate::wait::Seconds;

/// The kind of a buffer.
const BUFFER: u8 = 4;

/// The bulk channel beside a channel of typed messages: from :meth:`Channel.open_bulk`.
///
/// What :meth:`move_to` and :meth:`share` return are parameters of an interface, and the other end claims
/// them::
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

/// A buffer that is not there is the peer's fault; what else went wrong is not.
fn refused(error: Error) -> Failure {
    match error {
        Error::Bulk(BulkError::NoTransfer { .. } | BulkError::OtherVerb) => {
            Failure::new("RightRefused", error.to_string())
        }
        error => error.into(),
    }
}

/// See [`Channel::open_bulk`](crate::channel::Channel).
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
    /// Moves a buffer, or several as one transfer, to the other end: a :class:`Right` for a ``move buffer``,
    /// or a list of them.
    #[pyo3(signature = (buffers, timeout = Seconds(Duration::from_secs(30))),
           text_signature = "($self, buffers, timeout=30.0)")]
    fn move_to<'py>(
        &self,
        buffers: &Bound<'py, PyAny>,
        timeout: Seconds,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let (py, transfers) = (buffers.py(), self.get()?);
        let is_one = buffers.is_instance_of::<Held>();
        let mut load = Load::take(buffers)?;
        let all = load.mine()?;
        match py.detach(|| transfers.within(timeout.0).move_all(all)) {
            Ok(moved) => {
                load.gone("was moved");
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
                load.keep(kept);
                Err(error.into())
            }
        }
    }

    /// Lends a buffer to the other end to read: a :class:`Right` for a ``copy buffer``, and the
    /// :class:`Shared` that stays here.
    #[pyo3(signature = (buffer, timeout = Seconds(Duration::from_secs(30))),
           text_signature = "($self, buffer, timeout=30.0)")]
    fn share<'py>(
        &self,
        buffer: &Bound<'py, Buffer>,
        timeout: Seconds,
    ) -> Result<Bound<'py, PyTuple>, Failure> {
        let (py, transfers) = (buffer.py(), self.get()?);
        let mut load = Load::take(buffer.as_any())?;
        let Some(one) = load.mine()?.pop() else { return Err(Failure::invalid("there is no buffer")) };
        match py.detach(|| transfers.within(timeout.0).share(one)) {
            Ok((handle, shared)) => {
                load.gone("was shared");
                let right = Right { object: handle.object, kind: BUFFER, moved: false }.into_python(py)?;
                let shared = made::<Shared>(py, Shared::parts(Hand::Lent(shared)))?;
                Ok(PyTuple::new(py, [right, shared.into_any()])?)
            }
            Err(not_sent) => {
                let NotSent { error, kept } = *not_sent;
                load.keep(vec![kept]);
                Err(error.into())
            }
        }
    }

    /// Claims the buffer that a message names, once: a :class:`Buffer` of one that was moved, a
    /// :class:`Shared` of one that was lent. ``RightRefused`` when there is none; a handler that lets that
    /// pass refuses the call.
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
            Ok(made::<Buffer>(py, Buffer::parts(Hand::Mine { buffer, stays }))?.into_any())
        } else {
            let claim = || transfers.within(timeout.0).claim(Handle::<4, false> { object });
            let shared = py.detach(claim).map_err(refused)?;
            Ok(made::<Shared>(py, Shared::parts(Hand::Lent(shared)))?.into_any())
        }
    }

    /// Takes what has come, without waiting, and gives back what was dropped: for who waits for buffers to
    /// come back.
    fn settle(&self, py: Python<'_>) -> Result<(), Failure> {
        let transfers = self.get()?;
        Ok(py.detach(|| transfers.settle())?)
    }

    /// Closes it. Doing it again does nothing.
    fn close(&self, py: Python<'_>) {
        let transfers = self.transfers.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(transfers));
    }
}
