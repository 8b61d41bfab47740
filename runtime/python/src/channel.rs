//! Channels for plain messages.

use std::borrow::Cow;
use std::sync::{Mutex, MutexGuard};

use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyMemoryView};
use tombolo::TransportKind;
use tombolo::interface::{Carries, Port};

use crate::attached::Domain;
use crate::end::End;
use crate::failure::{Failure, exclusive};
use crate::passing::FarEnd;
use crate::pool::Pool;
use crate::transfers::{self, Transfers};
use crate::wait::Seconds;

/// One end of a channel, which carries whole messages, in order, in both directions.
///
/// From :meth:`Domain.connect` and :meth:`Listener.accept`. One thread at a time may use it; others get
/// :class:`Busy <tombolo.errors.Busy>`. It is closed by :meth:`close`, at the end of a ``with``, and when the
/// last reference is dropped: the peer receives everything sent before, and then ``Closed``.
#[pyclass(module = "tombolo", frozen)]
#[derive(Debug)]
pub(crate) struct Channel {
    state: Mutex<State>,
    about: About,
}

#[derive(Debug)]
struct State {
    end: End,
    /// Message that was longer than the caller's buffer: the next receive returns it.
    pending: Option<Py<PyBytes>>,
}

/// Properties that are fixed when a channel is opened.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) id: u64,
    pub(crate) peer: u64,
    pub(crate) peer_node: String,
    pub(crate) transport: &'static str,
    pub(crate) max_message_bytes: usize,
}

impl Channel {
    pub(crate) fn new(channel: tombolo::Channel) -> Channel {
        let about = About {
            id: channel.id().0,
            peer: channel.peer().to_bits(),
            peer_node: channel.peer_node().to_owned(),
            transport: match channel.transport() {
                TransportKind::Shm => "shm",
                TransportKind::Window => "window",
                TransportKind::Socket => "socket",
            },
            max_message_bytes: channel.max_message_bytes(),
        };
        Channel { state: Mutex::new(State { end: End::new(channel), pending: None }), about }
    }

    fn state(&self) -> Result<MutexGuard<'_, State>, Failure> {
        exclusive(&self.state, "the channel")
    }

    pub(crate) fn about(&self) -> &About {
        &self.about
    }

    /// Runs `body` with the channel.
    pub(crate) fn with<R>(
        &self,
        body: impl FnOnce(&mut tombolo::Channel) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        body(self.state()?.end.channel()?)
    }

    /// Attachments that the channel can carry besides bytes.
    pub(crate) fn carries(&self) -> Result<Carries, Failure> {
        Ok(self.state()?.end.channel()?.carries())
    }

    /// Declares that an interface with these needs uses the channel from now on.
    pub(crate) fn bound(&self, needs: Carries) -> Result<(), Failure> {
        self.state()?.end.channel()?.bound(needs);
        Ok(())
    }

    /// Takes this end for a client or server.
    pub(crate) fn take(&self) -> Result<(End, About), Failure> {
        Ok((self.state()?.end.take()?, self.about.clone()))
    }
}

/// Returns the bytes of any bytes-like object; copies them if they may change.
pub(crate) fn bytes_of<'a>(object: &'a Bound<'_, PyAny>) -> Result<Cow<'a, [u8]>, Failure> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Cow::Borrowed(bytes.as_bytes()));
    }
    if object.is_instance_of::<pyo3::types::PyInt>() || object.is_instance_of::<pyo3::types::PyString>() {
        let kind = object.get_type().name()?;
        let text = format!("a bytes-like object is needed, not {kind}");
        return Err(PyErr::new::<pyo3::exceptions::PyTypeError, _>(text).into());
    }
    Ok(Cow::Owned(PyByteArray::from(object)?.to_vec()))
}

#[pymethods]
impl Channel {
    /// The id of the channel, the same on both sides.
    #[getter]
    fn id(&self) -> u64 {
        self.about.id
    }

    /// The id of the domain at the other end.
    #[getter]
    fn peer(&self) -> u64 {
        self.about.peer
    }

    /// The other end of the channel, as the recipient or source of rights. It remains usable when a client or
    /// server has taken the channel.
    #[getter]
    pub(crate) fn far_end(&self) -> Result<FarEnd, Failure> {
        match self.state()?.end.channel() {
            Ok(channel) => Ok(FarEnd { end: tombolo::region::FarEnd::from(channel) }),
            Err(_) => FarEnd::of(&self.about),
        }
    }

    /// The name of the peer's node.
    #[getter]
    fn peer_node(&self) -> &str {
        &self.about.peer_node
    }

    /// The transport of the channel: "shm", "window" or "socket".
    #[getter]
    fn transport(&self) -> &'static str {
        self.about.transport
    }

    /// The maximum length of a message, in bytes.
    #[getter]
    fn max_message_bytes(&self) -> usize {
        self.about.max_message_bytes
    }

    /// Opens a bulk channel beside this one, so that clients and servers that pass buffers can use the
    /// channel. Both ends must call this before they send anything. `pools` are assigned to it; when this
    /// returns, the pools of both ends are available.
    #[pyo3(signature = (domain, pools = Vec::new(), *, trust = "full", timeout = Seconds(std::time::Duration::from_secs(30))),
           text_signature = "($self, domain, pools=[], *, trust='full', timeout=30.0)")]
    fn open_bulk(
        &self,
        py: Python<'_>,
        domain: &Domain,
        pools: Vec<PyRef<'_, Pool>>,
        trust: &str,
        timeout: Seconds,
    ) -> Result<Transfers, Failure> {
        self.with(|channel| transfers::open(py, channel, &domain.domain, pools, trust, timeout.0))
    }

    /// Sends a message, whole or not at all, waiting for room up to `timeout` seconds.
    ///
    /// `message` is any bytes-like object: `bytes`, `bytearray`, `memoryview`, a numpy array. With
    /// `timeout=0`, a channel without room raises `WouldBlock`.
    #[pyo3(signature = (message, timeout = Seconds(std::time::Duration::from_secs(30))),
           text_signature = "($self, message, timeout=30.0)")]
    fn send(&self, py: Python<'_>, message: &Bound<'_, PyAny>, timeout: Seconds) -> Result<(), Failure> {
        let message = bytes_of(message)?;
        self.state()?.end.send(py, &message, timeout.0)
    }

    /// Receives the next message, waiting for it up to `timeout` seconds.
    ///
    /// The message is copied once, out of the memory that the peer can write. `memoryview(message)` and
    /// `numpy.frombuffer(message, …)` use that copy.
    #[pyo3(signature = (timeout = Seconds(std::time::Duration::from_secs(30))),
           text_signature = "($self, timeout=30.0)")]
    fn receive<'py>(&self, py: Python<'py>, timeout: Seconds) -> Result<Bound<'py, PyBytes>, Failure> {
        let mut state = self.state()?;
        if let Some(pending) = state.pending.take() {
            return Ok(pending.into_bound(py));
        }
        state.end.receive(py, timeout.0)
    }

    /// Receives the next message into a writable buffer, and returns its length in bytes.
    ///
    /// A message that is longer than the buffer raises `BufferTooShort`, and is kept for the next receive.
    #[pyo3(signature = (buffer, timeout = Seconds(std::time::Duration::from_secs(30))),
           text_signature = "($self, buffer, timeout=30.0)")]
    fn receive_into(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        timeout: Seconds,
    ) -> Result<usize, Failure> {
        let target = PyMemoryView::from(buffer)?.call_method1("cast", ("B",))?;
        if target.getattr("readonly")?.is_truthy()? {
            return Err(PyErr::new::<pyo3::exceptions::PyTypeError, _>("the buffer cannot be written").into());
        }
        let mut state = self.state()?;
        let message = match state.pending.take() {
            Some(pending) => pending.into_bound(py),
            None => state.end.receive(py, timeout.0)?,
        };
        let (length, room) = (message.as_bytes().len(), target.len()?);
        if length > room {
            state.pending = Some(message.unbind());
            let text =
                format!("a message of {length} bytes does not fit {room}: it waits for a longer buffer");
            return Err(Failure::new("BufferTooShort", text));
        }
        target
            .set_item(pyo3::types::PySlice::new(py, 0, isize::try_from(length).unwrap_or(0), 1), message)?;
        Ok(length)
    }

    /// The descriptor for event loops, which belongs to the channel; see `arm`.
    fn fileno(&self) -> Result<i32, Failure> {
        self.state()?.end.descriptor()
    }

    /// Prepares to wait in an event loop. False: nothing has arrived, and the descriptor becomes readable
    /// when something does. True: there is something to receive now (or room, with `for_room`). Call it
    /// before each wait.
    #[pyo3(signature = (for_room = false))]
    fn arm(&self, for_room: bool) -> Result<bool, Failure> {
        let mut state = self.state()?;
        Ok(state.pending.is_some() || state.end.arm(for_room)?)
    }

    /// The counters of this end: messages and bytes in each direction, how often it rang a sleeping peer, and
    /// how often it went to sleep.
    fn stats<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>, Failure> {
        let stats = self.state()?.end.channel()?.stats();
        let dict = PyDict::new(py);
        dict.set_item("messages_sent", stats.messages_sent)?;
        dict.set_item("bytes_sent", stats.bytes_sent)?;
        dict.set_item("messages_received", stats.messages_received)?;
        dict.set_item("bytes_received", stats.bytes_received)?;
        dict.set_item("rings", stats.rings)?;
        dict.set_item("sleeps", stats.sleeps)?;
        Ok(dict)
    }

    /// Closes this end. Closing again has no effect.
    fn close(&self) -> Result<(), Failure> {
        self.state()?.end.close();
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

    fn __repr__(&self) -> String {
        let About { id, peer_node, transport, .. } = &self.about;
        format!("<tombolo.Channel {id} to {peer_node} over {transport}>")
    }
}
