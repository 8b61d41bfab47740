//! Bulk channels.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use tombolo::{
    BulkChannel as Channel, BulkOptions, Error, Interest, NotSent, Token, TransportKind, Trust, WaitSet,
};

use crate::boundary::{Exporter, new_object};
use crate::failure::{Failure, exclusive};
use crate::memory::source;
use crate::pool::{Buffer, BufferRight, Held, Pool, Shared, trust_of, trust_text};
use crate::wait::{Deadline, Seconds, wait};

/// Number of polls before other Python threads may run: about as long as releasing the interpreter and
/// acquiring it again takes.
const SPIN_POLLS: u32 = 400;

/// Options of a bulk channel, as given by Python.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options<'a> {
    pub(crate) trust: &'a str,
    pub(crate) max_pools: Option<u8>,
    pub(crate) max_metadata_bytes: Option<u16>,
    pub(crate) max_pool_bytes: Option<u64>,
    pub(crate) ask: bool,
    pub(crate) spin: Option<Seconds>,
    pub(crate) slots: Option<u32>,
}

impl Options<'_> {
    pub(crate) fn read(self) -> Result<BulkOptions, Failure> {
        let mut channel = tombolo::ChannelOptions::default();
        if let Some(slots) = self.slots {
            channel = channel.slots(slots)?;
        }
        if let Some(Seconds(spin)) = self.spin {
            channel = channel.spin_ns(u64::try_from(spin.as_nanos()).unwrap_or(u64::MAX));
        }
        let mut options = BulkOptions::default().trust(trust_of(self.trust)?).channel(channel);
        if let Some(pools) = self.max_pools {
            options = options.max_pools(pools)?;
        }
        if let Some(bytes) = self.max_metadata_bytes {
            options = options.max_metadata_bytes(bytes)?;
        }
        if let Some(bytes) = self.max_pool_bytes {
            options = options.max_pool_bytes(bytes);
        }
        Ok(if self.ask { options.ask_before_taking_pools() } else { options })
    }
}

/// One end of a bulk channel, which transfers buffers of pools without copying them.
///
/// From :meth:`Domain.connect_bulk` and :meth:`Listener.accept_bulk`. :meth:`recv` returns what the peer
/// did::
///
///    with domain.connect_bulk("frames") as bulk:
///        pool = domain.create_pool(1 << 20, 8)
///        bulk.assign(pool)
///        frame = pool.take()
///        frame.write(b"a frame of up to a megabyte")
///        bulk.move_to(frame, b"number 1")
///
/// A failed transfer raises an exception, and the buffers still belong to this program. Buffers with views
/// raise ``Exported``. One thread at a time may use a channel; others get ``Busy``.
#[pyclass(module = "tombolo", frozen)]
#[derive(Debug)]
pub(crate) struct BulkChannel {
    end: Mutex<End>,
    about: About,
}

/// Properties that are fixed when a channel is opened.
#[derive(Debug)]
struct About {
    id: u64,
    peer: u64,
    peer_node: String,
    transport: &'static str,
    trust: Trust,
}

#[derive(Debug)]
enum End {
    /// Alone, as it was opened.
    Alone(Box<Channel>),
    /// In a waitset of its own, which provides a descriptor.
    InSet(Box<WaitSet<Channel>>, Token),
    Closed,
}

fn closed() -> Failure {
    Failure::new("Closed", "this end of the bulk channel was closed here")
}

impl End {
    fn channel(&mut self) -> Result<&mut Channel, Failure> {
        let channel = match self {
            End::Alone(channel) => Some(&mut **channel),
            End::InSet(set, token) => set.get_mut(*token),
            End::Closed => None,
        };
        channel.ok_or_else(closed)
    }

    fn set(&mut self) -> Result<(&mut WaitSet<Channel>, Token), Failure> {
        if matches!(self, End::Alone(_)) {
            let mut set = Box::new(WaitSet::new()?);
            let End::Alone(channel) = std::mem::replace(self, End::Closed) else { return Err(closed()) };
            match set.add(*channel) {
                Ok(token) => *self = End::InSet(set, token),
                Err(refused) => {
                    *self = End::Alone(Box::new(refused.kept));
                    return Err(refused.error.into());
                }
            }
        }
        match self {
            End::InSet(set, token) => Ok((set, *token)),
            _ => Err(closed()),
        }
    }
}

/// Event on a bulk channel, from :meth:`BulkChannel.recv`.
#[pyclass(module = "tombolo", frozen)]
#[derive(Debug)]
pub(crate) struct Arrival {
    kind: &'static str,
    buffers: Py<PyList>,
    metadata: Py<PyBytes>,
    count: usize,
    pool: Option<Pool>,
    offer: Mutex<Option<tombolo::bulk::PoolOffer>>,
    offered: Option<(u64, u32)>,
}

impl Arrival {
    fn new(py: Python<'_>, kind: &'static str, metadata: &[u8]) -> Arrival {
        Arrival {
            kind,
            buffers: PyList::empty(py).unbind(),
            metadata: PyBytes::new(py, metadata).unbind(),
            count: 0,
            pool: None,
            offer: Mutex::new(None),
            offered: None,
        }
    }

    fn of(py: Python<'_>, arrival: tombolo::Arrival, metadata: &[u8]) -> PyResult<Arrival> {
        fn pieces<'py, T, E: Exporter>(
            py: Python<'py>,
            received: tombolo::bulk::Received<T>,
            parts: impl Fn(T) -> E::Parts,
        ) -> PyResult<Py<PyList>> {
            let all = received.into_vec().into_iter().map(|piece| new_object::<E>(py, parts(piece)));
            Ok(PyList::new(py, all.collect::<PyResult<Vec<_>>>()?)?.unbind())
        }
        let new = |kind| Arrival::new(py, kind, metadata);
        let with_buffers = |kind, buffers: Py<PyList>| {
            let count = buffers.bind(py).len();
            Arrival { buffers, count, ..new(kind) }
        };
        let with_pool = |kind, pool| Arrival { pool: Some(Pool { pool }), ..new(kind) };
        Ok(match arrival {
            tombolo::Arrival::Moved(received) => {
                let mine = |buffer: tombolo::Buffer| {
                    let stays = buffer.pool().trust() != Trust::None;
                    Buffer::parts(BufferRight::Owned { buffer, stays })
                };
                with_buffers("moved", pieces::<_, Buffer>(py, received, mine)?)
            }
            tombolo::Arrival::Shared(received) => {
                let lent = |shared| Shared::parts(BufferRight::Lent(shared));
                with_buffers("shared", pieces::<_, Shared>(py, received, lent)?)
            }
            tombolo::Arrival::Passed(count) => Arrival { count, ..new("passed") },
            tombolo::Arrival::Released(count) => Arrival { count, ..new("released") },
            tombolo::Arrival::Pool(pool) => with_pool("pool", pool),
            tombolo::Arrival::PoolGone(pool) => with_pool("pool_gone", pool),
            tombolo::Arrival::Offered(offer) => {
                let offered = Some((offer.buffer_bytes(), offer.count()));
                Arrival { offered, offer: Mutex::new(Some(offer)), ..new("offered") }
            }
        })
    }
}

#[pymethods]
impl Arrival {
    /// Kind of the event: "moved" or "shared" buffers; "passed" or "released" some with metadata; assigned a
    /// "pool", "offered" one, or removed one from the channel, "pool_gone".
    #[getter]
    fn kind(&self) -> &'static str {
        self.kind
    }

    /// The buffers that were moved here or shared, in the order in which they were sent.
    #[getter]
    fn buffers(&self, py: Python<'_>) -> Py<PyList> {
        self.buffers.clone_ref(py)
    }

    /// The first of the buffers; `LookupError` if there is none.
    #[getter]
    fn buffer<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.buffers.bind(py).get_item(0)
    }

    /// The metadata of the transfer.
    #[getter]
    fn metadata(&self, py: Python<'_>) -> Py<PyBytes> {
        self.metadata.clone_ref(py)
    }

    /// The number of buffers that it is about.
    #[getter]
    fn count(&self) -> usize {
        self.count
    }

    /// The pool that was assigned or removed.
    #[getter]
    fn pool(&self) -> Option<Pool> {
        self.pool.clone()
    }

    /// The size of each buffer in bytes and the number of buffers, for a pool that is offered.
    #[getter]
    fn offered(&self) -> Option<(u64, u32)> {
        self.offered
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let metadata = self.metadata.bind(py).repr()?;
        Ok(format!("<tombolo.Arrival: {} {} with {metadata}>", self.kind, self.count))
    }
}

/// Buffers to send, taken out of their Python objects.
pub(crate) struct OutgoingBuffers<'py> {
    from: Vec<Bound<'py, Held>>,
    hands: Vec<BufferRight>,
}

impl<'py> OutgoingBuffers<'py> {
    /// Takes one buffer or several, which must have no views.
    pub(crate) fn take(buffers: &Bound<'py, PyAny>) -> Result<OutgoingBuffers<'py>, Failure> {
        let from: Vec<Bound<'py, Held>> = match buffers.cast::<Held>() {
            Ok(one) => vec![one.clone()],
            Err(_) => {
                let each = buffers.try_iter()?.map(|buffer| Ok(buffer?.cast_into::<Held>()?));
                each.collect::<PyResult<_>>()?
            }
        };
        let mut load = OutgoingBuffers { from, hands: Vec::new() };
        for index in 0..load.from.len() {
            match load.from[index].get().take("is being sent") {
                Ok(hand) => load.hands.push(hand),
                Err(error) => {
                    load.restore_rights();
                    return Err(error);
                }
            }
        }
        Ok(load)
    }

    fn restore_rights(&mut self) {
        // From the last on: if a buffer was given twice, its first entry holds the original.
        for (held, hand) in self.from.iter().zip(self.hands.drain(..)).rev() {
            held.get().put(hand);
        }
    }

    /// Returns the buffers themselves.
    pub(crate) fn owned_buffers(&mut self) -> Result<Vec<tombolo::Buffer>, Failure> {
        if let Some(wrong) = self.hands.iter().find(|hand| !matches!(hand, BufferRight::Owned { .. })) {
            let failure = match wrong {
                BufferRight::Gone(why) => Failure::new("BufferState", format!("the buffer {why}")),
                _ => Failure::new("BufferState", "the buffer is shared: it is only to be read"),
            };
            self.restore_rights();
            return Err(failure);
        }
        let of = |hand| if let BufferRight::Owned { buffer, .. } = hand { Some(buffer) } else { None };
        Ok(self.hands.drain(..).filter_map(of).collect())
    }

    /// Returns buffers that were not sent to their objects.
    pub(crate) fn restore_buffers(&mut self, buffers: Vec<tombolo::Buffer>) {
        for (held, buffer) in self.from.iter().zip(buffers) {
            // Without trust it may be sealed by now, and is copied at the next write.
            let stays = buffer.pool().trust() != Trust::None;
            held.get().put(BufferRight::Owned { buffer, stays });
        }
    }

    pub(crate) fn mark_gone(&self, why: &'static str) {
        for held in &self.from {
            held.get().put(BufferRight::Gone(why));
        }
    }
}

/// Attempts to send immediately, and then waits while other Python threads run.
fn send_with_wait<K: Send, T: Send>(
    py: Python<'_>,
    timeout: Duration,
    first: K,
    mut send: impl FnMut(K, Duration) -> Result<T, Box<NotSent<K>>> + Send,
) -> Result<T, (Failure, Option<K>)> {
    let mut kept = match send(first, Duration::ZERO) {
        Ok(sent) => return Ok(sent),
        Err(not_sent) if timeout.is_zero() || not_sent.error != Error::WouldBlock => {
            return Err((not_sent.error.into(), Some(not_sent.kept)));
        }
        Err(not_sent) => Some(not_sent.kept),
    };
    let again = |slice: Duration| match kept.take().map(|what| send(what, slice)) {
        Some(Ok(sent)) => Ok(sent),
        Some(Err(not_sent)) => {
            kept = Some(not_sent.kept);
            Err(not_sent.error)
        }
        None => Err(Error::WouldBlock),
    };
    wait(py, Deadline::new(timeout), again).map_err(|failure| (failure, kept))
}

impl BulkChannel {
    pub(crate) fn new(channel: Channel) -> BulkChannel {
        let under = channel.channel();
        let about = About {
            id: under.id().0,
            peer: under.peer().to_bits(),
            peer_node: under.peer_node().to_owned(),
            transport: match under.transport() {
                TransportKind::Shm => "shm",
                TransportKind::Window => "window",
                TransportKind::Socket => "socket",
            },
            trust: channel.terms().map_or(Trust::Full, |terms| terms.trust),
        };
        BulkChannel { end: Mutex::new(End::Alone(Box::new(channel))), about }
    }

    fn end(&self) -> Result<MutexGuard<'_, End>, Failure> {
        exclusive(&self.end, "the bulk channel")
    }

    /// Moves or passes buffers.
    fn send_buffers(
        &self,
        buffers: &Bound<'_, PyAny>,
        (metadata, timeout): (&Bound<'_, PyAny>, Duration),
        is_pass: bool,
    ) -> Result<(), Failure> {
        let py = buffers.py();
        let metadata = source(metadata, false)?.bytes(py).to_vec();
        let mut end = self.end()?;
        let channel = end.channel()?;
        let mut load = OutgoingBuffers::take(buffers)?;
        let all = load.owned_buffers()?;
        let sent = if is_pass {
            let [one] = match <[tombolo::Buffer; 1]>::try_from(all) {
                Ok(one) => one,
                Err(all) => {
                    load.restore_buffers(all);
                    return Err(Failure::invalid("buffers are passed one by one"));
                }
            };
            let pass = |one, slice| channel.within(slice).pass(one, &metadata);
            send_with_wait(py, timeout, one, pass)
                .map_err(|(failure, kept)| (failure, kept.map(|one| vec![one])))
        } else {
            send_with_wait(py, timeout, all, |all, slice| channel.within(slice).move_all(all, &metadata))
        };
        match sent {
            Ok(()) => {
                load.mark_gone("was sent");
                Ok(())
            }
            Err((failure, kept)) => {
                load.restore_buffers(kept.unwrap_or_default());
                Err(failure)
            }
        }
    }
}

#[pymethods]
impl BulkChannel {
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

    /// How far the ends trust each other: "full", "half" or "none".
    #[getter]
    fn trust(&self) -> &'static str {
        trust_text(self.about.trust)
    }

    /// The pools on the channel, assigned by either end.
    #[getter]
    fn pools(&self) -> Result<Vec<Pool>, Failure> {
        Ok(self.end()?.channel()?.pools().map(|pool| Pool { pool }).collect())
    }

    /// Creates a pool of `count` buffers in memory that both ends can reach, with the trust of the channel,
    /// and assigns it.
    #[pyo3(signature = (buffer_bytes, count, timeout = Seconds(Duration::from_secs(30))),
           text_signature = "($self, buffer_bytes, count, timeout=30.0)")]
    fn create_pool(
        &self,
        py: Python<'_>,
        buffer_bytes: u64,
        count: u32,
        timeout: Seconds,
    ) -> Result<Pool, Failure> {
        let mut end = self.end()?;
        let (channel, options) = (end.channel()?, tombolo::PoolOptions::new(buffer_bytes, count));
        let pool = py.detach(|| channel.within(timeout.0).create_pool(&options))?;
        Ok(Pool { pool })
    }

    /// Assigns a pool to the channel: the peer can receive its buffers from then on and, unless ``here_only``
    /// is set, assign it further. ``PoolRefused`` has the reason if the peer refuses it. After ``TimedOut``,
    /// calling again resumes the wait for the answer.
    #[pyo3(signature = (pool, timeout = Seconds(Duration::from_secs(30)), *, here_only = false),
           text_signature = "($self, pool, timeout=30.0, *, here_only=False)")]
    fn assign(&self, py: Python<'_>, pool: &Pool, timeout: Seconds, here_only: bool) -> Result<(), Failure> {
        let mut end = self.end()?;
        let (channel, pool) = (end.channel()?, &pool.pool);
        wait(py, Deadline::new(timeout.0), |slice| match here_only {
            true => channel.within(slice).assign_here_only(pool),
            false => channel.within(slice).assign(pool),
        })
    }

    /// Removes a pool from the channel. Raises ``BufferState`` while buffers are lent over the channel, or
    /// held here from it; ``PoolRefused`` if the peer still needs the pool. After ``TimedOut``, calling again
    /// resumes the wait for the answer.
    #[pyo3(signature = (pool, timeout = Seconds(Duration::from_secs(30))), text_signature = "($self, pool, timeout=30.0)")]
    fn unassign(&self, py: Python<'_>, pool: &Pool, timeout: Seconds) -> Result<(), Failure> {
        let mut end = self.end()?;
        let (channel, pool) = (end.channel()?, &pool.pool);
        wait(py, Deadline::new(timeout.0), |slice| channel.within(slice).unassign(pool))
    }

    /// Waits until the peer has assigned a pool.
    #[pyo3(signature = (timeout = Seconds(Duration::from_secs(30))), text_signature = "($self, timeout=30.0)")]
    fn recv_pool(&self, py: Python<'_>, timeout: Seconds) -> Result<Pool, Failure> {
        let mut end = self.end()?;
        let channel = end.channel()?;
        Ok(Pool { pool: wait(py, Deadline::new(timeout.0), |slice| channel.within(slice).recv_pool())? })
    }

    /// Accepts a pool that is offered: an arrival from :meth:`recv` of the kind "offered".
    #[pyo3(signature = (arrival, timeout = Seconds(Duration::from_secs(30))), text_signature = "($self, arrival, timeout=30.0)")]
    fn take_pool(&self, py: Python<'_>, arrival: &Arrival, timeout: Seconds) -> Result<Pool, Failure> {
        let (mut end, offer) = (self.end()?, take_offer(arrival)?);
        let channel = end.channel()?;
        Ok(Pool { pool: py.detach(|| channel.within(timeout.0).take_pool(offer))? })
    }

    /// Declines a pool that is offered.
    #[pyo3(signature = (arrival, timeout = Seconds(Duration::from_secs(30))), text_signature = "($self, arrival, timeout=30.0)")]
    fn decline_pool(&self, py: Python<'_>, arrival: &Arrival, timeout: Seconds) -> Result<(), Failure> {
        let (mut end, offer) = (self.end()?, take_offer(arrival)?);
        let channel = end.channel()?;
        Ok(py.detach(|| channel.within(timeout.0).decline_pool(offer))?)
    }

    /// Moves a buffer, or several in one transfer, to the peer: the right to read and write, with the
    /// contents. Nothing is copied, so it takes the same time for any size.
    #[pyo3(signature = (buffers, metadata = None, timeout = Seconds(Duration::from_secs(30))),
           text_signature = "($self, buffers, metadata=b'', timeout=30.0)")]
    fn move_to(
        &self,
        buffers: &Bound<'_, PyAny>,
        metadata: Option<Bound<'_, PyAny>>,
        timeout: Seconds,
    ) -> Result<(), Failure> {
        let metadata = metadata.unwrap_or_else(|| PyBytes::new(buffers.py(), b"").into_any());
        self.send_buffers(buffers, (&metadata, timeout.0), false)
    }

    /// Passes a buffer to the peer for filling: its contents are undefined from then on.
    #[pyo3(signature = (buffer, metadata = None, timeout = Seconds(Duration::from_secs(30))),
           text_signature = "($self, buffer, metadata=b'', timeout=30.0)")]
    fn pass_to(
        &self,
        buffer: &Bound<'_, PyAny>,
        metadata: Option<Bound<'_, PyAny>>,
        timeout: Seconds,
    ) -> Result<(), Failure> {
        let metadata = metadata.unwrap_or_else(|| PyBytes::new(buffer.py(), b"").into_any());
        self.send_buffers(buffer, (&metadata, timeout.0), true)
    }

    /// Shares a buffer, or several in one transfer: the peer may read it until it releases it, and it is
    /// read-only here meanwhile. Returns a :class:`Shared` in its place, or a list of them. A buffer that is
    /// already shared is shared with this peer as well, and returned as it is.
    #[pyo3(signature = (buffers, metadata = None, timeout = Seconds(Duration::from_secs(30))),
           text_signature = "($self, buffers, metadata=b'', timeout=30.0)")]
    fn share<'py>(
        &self,
        buffers: &Bound<'py, PyAny>,
        metadata: Option<Bound<'py, PyAny>>,
        timeout: Seconds,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let py = buffers.py();
        let metadata = metadata.unwrap_or_else(|| PyBytes::new(py, b"").into_any());
        let metadata = source(&metadata, false)?.bytes(py).to_vec();
        let mut end = self.end()?;
        let channel = end.channel()?;
        if let Ok(shared) = buffers.cast::<Shared>() {
            share_again(py, channel, shared, (&metadata, timeout.0))?;
            return Ok(buffers.clone());
        }
        let is_one = buffers.is_instance_of::<Held>();
        let mut load = OutgoingBuffers::take(buffers)?;
        let all = load.owned_buffers()?;
        match send_with_wait(py, timeout.0, all, |all, slice| channel.within(slice).share_all(all, &metadata))
        {
            Ok(shared) => {
                load.mark_gone("was shared");
                let each = shared
                    .into_iter()
                    .map(|shared| new_object::<Shared>(py, Shared::parts(BufferRight::Lent(shared))));
                let mut each = each.collect::<PyResult<Vec<_>>>()?;
                match each.pop() {
                    Some(one) if is_one => Ok(one.into_any()),
                    last => {
                        each.extend(last);
                        Ok(PyList::new(py, each)?.into_any())
                    }
                }
            }
            Err((failure, kept)) => {
                load.restore_buffers(kept.unwrap_or_default());
                Err(failure)
            }
        }
    }

    /// Releases a buffer that the peer shared, with metadata. Without metadata it is enough to :meth:`close
    /// <Shared.close>` it.
    #[pyo3(signature = (shared, metadata = None, timeout = Seconds(Duration::from_secs(30))),
           text_signature = "($self, shared, metadata=b'', timeout=30.0)")]
    fn release(
        &self,
        shared: &Bound<'_, Shared>,
        metadata: Option<Bound<'_, PyAny>>,
        timeout: Seconds,
    ) -> Result<(), Failure> {
        let py = shared.py();
        let metadata = metadata.unwrap_or_else(|| PyBytes::new(py, b"").into_any());
        let metadata = source(&metadata, false)?.bytes(py).to_vec();
        let mut end = self.end()?;
        let channel = end.channel()?;
        let held = shared.as_super().get();
        let lent = take_shared(held)?;
        match send_with_wait(py, timeout.0, lent, |lent, slice| {
            channel.within(slice).release(lent, &metadata)
        }) {
            Ok(()) => {
                held.put(BufferRight::Gone("was released"));
                Ok(())
            }
            Err((failure, kept)) => {
                held.put(kept.map_or(BufferRight::Gone("was lost"), BufferRight::Lent));
                Err(failure)
            }
        }
    }

    /// Receives the next event from the peer, waiting up to `timeout` seconds: an :class:`Arrival`. Buffers
    /// that the peer returns without metadata become free silently. The end of the peer is raised after
    /// everything that it sent; the buffers of this side's pools that it held have then been reclaimed.
    #[pyo3(signature = (timeout = Seconds(Duration::from_secs(30))), text_signature = "($self, timeout=30.0)")]
    fn recv(&self, py: Python<'_>, timeout: Seconds) -> Result<Arrival, Failure> {
        let mut end = self.end()?;
        let channel = end.channel()?;
        let mut metadata = Vec::new();
        let mut look = |channel: &mut Channel| match channel.within(Duration::ZERO).recv(&mut metadata) {
            Err(Error::WouldBlock) => Ok(None),
            arrival => arrival.map(Some),
        };
        let spin_polls = if timeout.0.is_zero() { 1 } else { SPIN_POLLS };
        for _ in 0..spin_polls {
            if let Some(arrival) = look(channel)? {
                return Ok(Arrival::of(py, arrival, &metadata)?);
            }
            std::hint::spin_loop();
        }
        if timeout.0.is_zero() {
            return Err(Error::WouldBlock.into());
        }
        let arrival = wait(py, Deadline::new(timeout.0), |slice| channel.within(slice).recv(&mut metadata))?;
        Ok(Arrival::of(py, arrival, &metadata)?)
    }

    /// Returns dropped buffers, and handles incoming messages without waiting. Arrivals are queued for
    /// :meth:`recv`.
    fn settle(&self) -> Result<(), Failure> {
        Ok(self.end()?.channel()?.settle()?)
    }

    /// The descriptor for event loops, which belongs to the channel; see `arm`.
    fn fileno(&self) -> Result<i32, Failure> {
        Ok(self.end()?.set()?.0.as_fd().as_raw_fd())
    }

    /// Prepares to wait in an event loop. False: nothing has arrived, and the descriptor becomes readable
    /// when something does. True: call :meth:`recv` with ``timeout=0`` until it raises ``WouldBlock`` (or,
    /// with `for_room`, send in the same way, and :meth:`settle` once that raises it). Call it before each
    /// wait.
    #[pyo3(signature = (for_room = false))]
    fn arm(&self, for_room: bool) -> Result<bool, Failure> {
        let mut end = self.end()?;
        if end.channel()?.has_arrived() && !for_room {
            return Ok(true);
        }
        let (set, token) = end.set()?;
        set.set_interest(token, if for_room { Interest::ReadWrite } else { Interest::Read });
        match set.wait(Duration::ZERO) {
            Ok(_) => Ok(true),
            Err(Error::TimedOut { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Closes this end. The buffers of this side's pools that the peer holds are reclaimed. Closing again has
    /// no effect.
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        let end = std::mem::replace(&mut *self.end()?, End::Closed);
        // Revoking what was lent may need the monitor.
        py.detach(|| drop(end));
        Ok(())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> Result<(), Failure> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        let About { id, peer_node, transport, trust, .. } = &self.about;
        format!("<tombolo.BulkChannel {id} to {peer_node} over {transport}, trust {}>", trust_text(*trust))
    }
}

fn take_offer(arrival: &Arrival) -> Result<tombolo::bulk::PoolOffer, Failure> {
    let offer = exclusive(&arrival.offer, "the arrival")?.take();
    offer.ok_or_else(|| Failure::invalid("no pool is offered with this, or it was answered already"))
}

/// Takes a read right out of a handle, which must have no views.
fn take_shared(held: &Held) -> Result<tombolo::Shared, Failure> {
    match held.take("is being released")? {
        BufferRight::Lent(shared) => Ok(shared),
        hand => {
            held.put(hand);
            Err(Failure::new("BufferState", "the buffer is not here any more"))
        }
    }
}

/// Shares again. Views of a shared buffer may remain: it is read-only before and after.
fn share_again(
    py: Python<'_>,
    channel: &mut Channel,
    shared: &Bound<'_, Shared>,
    (metadata, timeout): (&[u8], Duration),
) -> Result<(), Failure> {
    let held = shared.as_super().get();
    let mut lent = match held.take_seen("is being sent") {
        BufferRight::Lent(lent) => lent,
        hand => {
            held.put(hand);
            return Err(Failure::new("BufferState", "the buffer is not here any more"));
        }
    };
    let result = match channel.within(Duration::ZERO).share_again(&mut lent, metadata) {
        Err(Error::WouldBlock) if !timeout.is_zero() => {
            wait(py, Deadline::new(timeout), |slice| channel.within(slice).share_again(&mut lent, metadata))
        }
        result => result.map_err(Failure::from),
    };
    held.put(BufferRight::Lent(lent));
    result
}

/// Implements [`Domain::connect_bulk`](crate::domain::Domain). The handshake cannot be divided into slices.
pub(crate) fn connect(
    py: Python<'_>,
    domain: &tombolo::Domain,
    name: &str,
    options: BulkOptions,
    timeout: Duration,
) -> Result<BulkChannel, Failure> {
    let (domain, name) = (domain.clone(), name.to_owned());
    let connect = move || options.connect(&domain.within(timeout), &name);
    Ok(BulkChannel::new(crate::wait::wait_on_thread(py, connect)?))
}
