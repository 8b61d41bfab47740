//! Calling side: several calls in flight on one channel, each with a deadline.

use alloc::vec::Vec;
use core::marker::PhantomData;
use core::time::Duration;

use tombolo_base::OperationTimeout;

use crate::declare::{Hears, Method, OneWay, Request};
use crate::encode::Body;
use crate::error::{Malformed, OverLimit};
pub use crate::flight::MAX_IN_FLIGHT;
use crate::flight::{Flight, Known};
use crate::message::{Empty, Fault, Header, Kind, Outgoing};
use crate::port::{Carries, Port, Sent, Waited};
use crate::source::Source;
use crate::view::{Never, Record, View};

/// Number of polls for the answer in [`Client::call`] before it reads the clock: less than a microsecond.
const ANSWER_POLLS: u32 = 64;

/// Placeholder deadline of a call whose answer is polled for before the clock is read.
const NO_DEADLINE: u64 = u64::MAX;

/// Maximum number of messages processed at once, regardless of the peer.
const MAX_POLLED: usize = 1024;

/// Reason why a call has no results. `D` is the error that the interface declares for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError<E, D = Never> {
    /// The server declined the call with the error that the interface declares.
    #[error("the server declined the call: {0:?}")]
    Declined(D),
    /// A parameter exceeds its limit in the interface. Nothing was sent.
    #[error(transparent)]
    OverLimit(#[from] OverLimit),
    /// The message is longer than the channel carries. Nothing was sent.
    #[error(
        "a message of {length_bytes} bytes is too long for this channel, which carries up to {max_bytes}"
    )]
    TooLong {
        /// Length of the message, in bytes.
        length_bytes: usize,
        /// Length limit of the channel, in bytes.
        max_bytes: usize,
    },
    /// There was no room on the channel in time. Nothing was sent.
    #[error("the channel had no room for the message in time: nothing was sent")]
    NoRoom,
    /// The maximum number of calls is in flight. Nothing was sent.
    #[error("{in_flight} calls are in flight: wait for one, or cancel it")]
    InFlight {
        /// Number of calls in flight.
        in_flight: usize,
    },
    /// No answer arrived in time. The call was cancelled, but it may have been served.
    #[error("no answer came in time; the call was cancelled and may have been served")]
    TimedOut,
    /// The server did not serve it.
    #[error(transparent)]
    Fault(Fault),
    /// The answer was malformed.
    #[error("the answer was refused: {0}")]
    Malformed(#[from] Malformed),
    /// The call is not in flight: it was cancelled, or belongs to another client.
    #[error("the call is not in flight any more")]
    NotInFlight,
    /// The channel ended, mostly because the peer did.
    #[error("{error} (the call {})", if *.may_repeat { "can be repeated" } else { "may have been served" })]
    Ended {
        /// Error of the channel.
        error: E,
        /// Whether the call may be repeated on another channel: it was not sent, or is idempotent.
        may_repeat: bool,
    },
}

impl<E> CallError<E> {
    /// Converts the error to that of a call that may be declined.
    #[cold]
    fn into_call_error<D>(self) -> CallError<E, D> {
        match self {
            CallError::Declined(never) => match never {},
            CallError::OverLimit(limit) => CallError::OverLimit(limit),
            CallError::TooLong { length_bytes, max_bytes } => CallError::TooLong { length_bytes, max_bytes },
            CallError::NoRoom => CallError::NoRoom,
            CallError::InFlight { in_flight } => CallError::InFlight { in_flight },
            CallError::TimedOut => CallError::TimedOut,
            CallError::Fault(fault) => CallError::Fault(fault),
            CallError::Malformed(malformed) => CallError::Malformed(malformed),
            CallError::NotInFlight => CallError::NotInFlight,
            CallError::Ended { error, may_repeat } => CallError::Ended { error, may_repeat },
        }
    }
}

impl<E, D> CallError<E, D> {
    /// Returns the error of the channel, if the call failed because the channel ended.
    #[must_use]
    pub fn end(&self) -> Option<&E> {
        match self {
            CallError::Ended { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Result of a call `M` over a port with errors `E`: the results, which borrow from the client until it is
/// used again, or the reason why there are none.
pub type Called<'m, M, E> = Result<<M as Method>::ReplyView<'m>, CallError<E, <M as Method>::ErrorView<'m>>>;

/// Reason why a client or server could not be created over a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The interface passes capabilities and this link cannot carry them.
    #[error("the interface passes capabilities, which this link cannot carry")]
    NoCapabilities,
    /// The interface passes bulk buffers and this link cannot carry them.
    #[error("the interface passes bulk buffers, which this link cannot carry")]
    NoBuffers,
    /// The largest message without variable parts does not fit into the channel's messages.
    #[error(
        "the interface needs messages of {needed_bytes} bytes at least; the channel carries up to {max_bytes}"
    )]
    TooShort {
        /// Length that the interface needs, in bytes.
        needed_bytes: usize,
        /// Length limit of the channel, in bytes.
        max_bytes: usize,
    },
}

/// Requirements of an interface for a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Needs {
    /// Kinds of contents besides bytes.
    pub carries: Carries,
    /// Length of the longest message when everything of variable length is empty, in bytes.
    pub message_bytes: usize,
}

impl Needs {
    /// Like [`check`](Self::check), but also notifies the link of its use.
    pub(crate) fn bind(&self, port: &mut impl Port) -> Result<(), BindError> {
        self.check(port)?;
        port.bound(self.carries);
        Ok(())
    }

    /// Checks whether a link satisfies the requirements.
    ///
    /// # Errors
    /// The first requirement that the link lacks.
    pub fn check(&self, port: &impl Port) -> Result<(), BindError> {
        let (carries, max_bytes) = (port.carries(), port.max_message_bytes());
        if self.carries.capabilities && !carries.capabilities {
            return Err(BindError::NoCapabilities);
        }
        if self.carries.buffers && !carries.buffers {
            return Err(BindError::NoBuffers);
        }
        if self.message_bytes > max_bytes {
            return Err(BindError::TooShort { needed_bytes: self.message_bytes, max_bytes });
        }
        Ok(())
    }
}

/// Counters of a client or a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Calls made or received.
    pub calls: u64,
    /// Answers received or sent.
    pub answers: u64,
    /// One-way messages received.
    pub messages: u64,
    /// Answers that arrived after their call was abandoned.
    pub late: u64,
    /// Messages with an ordinal unknown to this side.
    pub unknown: u64,
    /// Messages that were rejected as malformed.
    pub malformed: u64,
    /// Messages with a right that this side does not have.
    pub refused: u64,
}

/// Handle of a call in flight.
#[derive(Debug)]
#[must_use = "an answer is only received by waiting for it"]
pub struct Pending<M> {
    number: u32,
    of: PhantomData<fn() -> M>,
}

impl<M> Pending<M> {
    /// Returns the call's number on the wire. No two calls in flight have the same number.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }
}

/// Answer to a call `M` over a port with errors `E`, copied out of the channel.
#[derive(Clone, Debug)]
pub struct Answer<M, E> {
    message: Vec<u8>,
    of: PhantomData<fn() -> (M, E)>,
}

impl<M: Method, E> Answer<M, E> {
    /// Decodes the results of the call, or the error that the peer answered with.
    ///
    /// # Errors
    /// [`CallError::Declined`], [`CallError::Fault`], [`CallError::Malformed`].
    pub fn read(&self) -> Called<'_, M, E> {
        read::<M, E>(&self.message)
    }
}

/// Calling end of a channel: calls of `I` over `P`, with events delivered to `E`.
///
/// A call waits for room and for its answer up to the client's timeout. The default is the timeout of the
/// channel; [`within`](Self::within) overrides it for the next call.
#[derive(Debug)]
pub struct Client<I, P, E = ()> {
    port: P,
    events: E,
    flight: Flight,
    counts: Counts,
    timeout: OperationTimeout,
    /// Last received answer, from which results are decoded.
    answer: Vec<u8>,
    of: PhantomData<fn() -> I>,
}

/// In a waitset it is reported with each answer and event of its server.
impl<I, P, E> Waited for Client<I, P, E> {
    type End = P;

    fn end(&self) -> &P {
        &self.port
    }

    fn end_mut(&mut self) -> &mut P {
        &mut self.port
    }
}

impl<I: Hears<E>, P: Port, E> Client<I, P, E> {
    /// Creates a client over a channel that was opened with [`Interface::HASH`](crate::Interface::HASH). It
    /// has room for [`MAX_IN_FLIGHT`] calls.
    ///
    /// # Errors
    /// The link does not satisfy the interface's requirements.
    pub fn bind(mut port: P, events: E) -> Result<Self, BindError> {
        I::NEEDS.bind(&mut port)?;
        let timeout = OperationTimeout::new(port.timeout());
        let (flight, counts, answer) = (Flight::new(), Counts::default(), Vec::new());
        Ok(Client { port, events, flight, counts, timeout, answer, of: PhantomData })
    }

    /// Sets the timeout of the next call.
    #[inline]
    #[must_use = "it is the next call that waits so long"]
    pub fn within(&mut self, timeout: Duration) -> &mut Self {
        self.timeout.set_once(timeout);
        self
    }

    /// Returns the counters of this client.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the channel that the client calls over.
    #[must_use]
    pub fn port(&self) -> &P {
        &self.port
    }

    /// Returns the channel that the client calls over, mutably.
    pub fn port_mut(&mut self) -> &mut P {
        &mut self.port
    }

    /// Returns the channel and drops the client. Calls in flight are abandoned.
    pub fn into_port(self) -> P {
        self.port
    }

    /// Returns the receiver of events.
    pub fn events(&mut self) -> &mut E {
        &mut self.events
    }

    /// Makes a call, waits for its answer and returns the results.
    ///
    /// # Errors
    /// [`CallError`]. [`CallError::Declined`] holds the error that the interface declares.
    #[inline]
    pub fn call<Q>(&mut self, request: &Q) -> Called<'_, Q::Method, P::Error>
    where
        Q: Request<Method: Method<Interface = I>>,
    {
        let timeout = self.timeout.take();
        // Reading the clock costs a large part of a call, so it is read only if the answer does not arrive at
        // once.
        let call = match self.send_call(request, timeout, NO_DEADLINE, None) {
            Ok(call) => call,
            Err(error) => return Err(error.into_call_error()),
        };
        let polls = if self.port.is_polled() { ANSWER_POLLS } else { 0 };
        let mut answered = false;
        for _ in 0..polls {
            match self.receive(Duration::ZERO, call.number) {
                Ok(received) => answered = received == Some(Received::Awaited),
                Err(error) => {
                    self.flight.end(call.number);
                    return Err(CallError::Ended { error, may_repeat: Q::Method::IDEMPOTENT });
                }
            }
            if answered {
                break;
            }
        }
        if answered {
            self.flight.end(call.number);
        } else {
            let deadline_ns = self.port.now_ns().saturating_add(duration_ns(timeout));
            self.flight.begin(call.number, Q::Method::ORDINAL, deadline_ns);
            if let Err(error) = self.finish(call.number, Q::Method::IDEMPOTENT) {
                return Err(error.into_call_error());
            }
        }
        read::<Q::Method, _>(&self.answer)
    }

    /// Starts a call without waiting for its answer. Waits for room. The deadline of the answer is fixed
    /// here.
    ///
    /// # Errors
    /// [`CallError`]; nothing was sent.
    #[inline]
    pub fn start<Q>(&mut self, request: &Q) -> Result<Pending<Q::Method>, CallError<P::Error>>
    where
        Q: Request<Method: Method<Interface = I>>,
    {
        let timeout = self.timeout.take();
        let now_ns = self.port.now_ns();
        self.send_call(request, timeout, now_ns.saturating_add(duration_ns(timeout)), Some(now_ns))
    }

    /// Like [`start`](Self::start), but fails if there is no room now.
    ///
    /// # Errors
    /// Same as [`start`](Self::start).
    #[inline]
    pub fn try_start<Q>(&mut self, request: &Q) -> Result<Pending<Q::Method>, CallError<P::Error>>
    where
        Q: Request<Method: Method<Interface = I>>,
    {
        let timeout = self.timeout.take();
        let now_ns = self.port.now_ns();
        let deadline_ns = now_ns.saturating_add(duration_ns(timeout));
        self.send_call(request, Duration::ZERO, deadline_ns, Some(now_ns))
    }

    #[inline]
    fn send_call<Q>(
        &mut self,
        request: &Q,
        room_timeout: Duration,
        deadline_ns: u64,
        now_ns: Option<u64>,
    ) -> Result<Pending<Q::Method>, CallError<P::Error>>
    where
        Q: Request<Method: Method<Interface = I>>,
    {
        let Client { flight, port, .. } = self;
        let place = flight.place(|| now_ns.unwrap_or_else(|| port.now_ns()));
        let (number, abandoned) = place.ok_or(CallError::InFlight { in_flight: MAX_IN_FLIGHT })?;
        self.send_cancel(abandoned);
        let ordinal = Q::Method::ORDINAL;
        send(&mut self.port, Header::new(ordinal, Kind::Call, number), request, room_timeout)?;
        self.flight.begin(number, ordinal, deadline_ns);
        self.counts.calls += 1;
        Ok(Pending { number, of: PhantomData })
    }

    /// Sends a one-way message. Waits for room.
    ///
    /// # Errors
    /// [`CallError`]; nothing was sent.
    pub fn tell<B: OneWay<Interface = I>>(&mut self, message: &B) -> Result<(), CallError<P::Error>> {
        let timeout = self.timeout.take();
        send(&mut self.port, Header::new(B::ORDINAL, Kind::Message, 0), message, timeout)
    }

    /// Processes messages that have arrived, up to 1024, without waiting, and returns their number. Answers
    /// are kept until they are waited for.
    ///
    /// # Errors
    /// The channel has ended. Answers that arrived before can still be waited for.
    pub fn poll(&mut self) -> Result<usize, P::Error> {
        for taken in 0..MAX_POLLED {
            if self.receive(Duration::ZERO, 0)?.is_none() {
                return Ok(taken);
            }
        }
        Ok(MAX_POLLED)
    }

    /// Whether [`wait`](Self::wait) would return at once.
    #[must_use]
    pub fn is_ready<M>(&self, call: &Pending<M>) -> bool {
        !self.is_waiting(call.number)
    }

    /// Whether the call with this number is waiting for its answer.
    #[must_use]
    pub fn is_waiting(&self, number: u32) -> bool {
        matches!(self.flight.known(number), Known::Waiting { .. })
    }

    /// Waits for the answer to a call until the call's deadline, and returns its results. Keeps answers to
    /// other calls for later.
    ///
    /// # Errors
    /// [`CallError`]. [`CallError::Declined`] holds the error that the interface declares.
    #[inline]
    pub fn wait<M>(&mut self, call: Pending<M>) -> Called<'_, M, P::Error>
    where
        M: Method<Interface = I>,
    {
        match self.finish(call.number, M::IDEMPOTENT) {
            Ok(()) => read::<M, _>(&self.answer),
            Err(error) => Err(error.into_call_error()),
        }
    }

    /// Like [`wait`](Self::wait), but returns an answer that does not borrow from the client.
    ///
    /// # Errors
    /// [`CallError`], except for a declined call, whose error is in the [`Answer`].
    pub fn wait_for_answer<M>(&mut self, call: Pending<M>) -> Result<Answer<M, P::Error>, CallError<P::Error>>
    where
        M: Method<Interface = I>,
    {
        self.finish(call.number, M::IDEMPOTENT)?;
        Ok(Answer { message: core::mem::take(&mut self.answer), of: PhantomData })
    }

    /// Waits until the call's answer has arrived or its deadline has passed.
    #[inline]
    fn finish(&mut self, number: u32, idempotent: bool) -> Result<(), CallError<P::Error>> {
        loop {
            let deadline_ns = match self.flight.known(number) {
                Known::Nothing => return Err(CallError::NotInFlight),
                Known::Arrived => {
                    self.flight.take(number, &mut self.answer);
                    return Ok(());
                }
                Known::Waiting { deadline_ns } => deadline_ns,
            };
            let left_ns = deadline_ns.saturating_sub(self.port.now_ns());
            match self.receive(Duration::from_nanos(left_ns), number) {
                Ok(Some(Received::Awaited)) => {
                    self.flight.end(number);
                    return Ok(());
                }
                // A peer that floods this end cannot hold it past its deadline.
                Ok(Some(Received::Other)) if left_ns > 0 => {}
                Ok(_) => {
                    self.give_up(number);
                    return Err(CallError::TimedOut);
                }
                Err(error) => {
                    self.flight.end(number);
                    return Err(CallError::Ended { error, may_repeat: idempotent });
                }
            }
        }
    }

    /// Cancels a call: drops its answer when it arrives, and notifies the server.
    pub fn cancel<M>(&mut self, call: Pending<M>) {
        self.give_up(call.number);
    }

    /// Cancels the call with this number; see [`cancel`](Self::cancel).
    pub fn give_up(&mut self, number: u32) {
        let abandoned = self.flight.give_up(number);
        self.send_cancel(abandoned);
    }

    #[inline]
    fn send_cancel(&mut self, abandoned: Option<(u16, u32)>) {
        if let Some((ordinal, call)) = abandoned {
            let header = Header::new(ordinal, Kind::Cancel, call);
            // Only saves the server work, so it may fail for lack of room or of a server.
            let _sent = send(&mut self.port, header, &Empty, Duration::ZERO);
        }
    }

    /// Receives one message, if one arrives in time. The answer to call `awaited`, or to none if that is 0,
    /// goes to `answer`.
    #[inline]
    fn receive(&mut self, timeout: Duration, awaited: u32) -> Result<Option<Received>, P::Error> {
        let Client { port, events, flight, counts, answer, .. } = self;
        let mut taken = Received::Other;
        let received = port.recv(timeout, |source| match Header::read(source) {
            Ok((header, _)) if header.answers(awaited) => {
                counts.answers += 1;
                source.copy_whole(answer);
                taken = Received::Awaited;
            }
            other => handle_other::<I, E>(source, other, events, flight, counts),
        });
        Ok(received?.then_some(taken))
    }
}

/// Kind of message that was received.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Received {
    /// The awaited answer.
    Awaited,
    /// Another message, which has been handled.
    Other,
}

/// Handles a message other than the awaited answer. Out of line, so that the wait for the answer stays small.
#[inline(never)]
fn handle_other<I: Hears<E>, E>(
    source: Source<'_>,
    message: Result<(Header, Record<'_>), Malformed>,
    events: &mut E,
    flight: &mut Flight,
    counts: &mut Counts,
) {
    let Ok((header, body)) = message else {
        counts.malformed += 1;
        return;
    };
    match header.kind() {
        Kind::Reply | Kind::Error | Kind::Fault if flight.keep(header.call(), source) => {
            counts.answers += 1;
        }
        Kind::Reply | Kind::Error | Kind::Fault => counts.late += 1,
        Kind::Message => match I::hear(events, header.ordinal(), body) {
            Ok(true) => counts.messages += 1,
            Ok(false) => counts.unknown += 1,
            Err(Malformed::Right) => counts.refused += 1,
            Err(_) => counts.malformed += 1,
        },
        Kind::Call | Kind::Cancel => counts.malformed += 1,
    }
}

/// Decodes an answer.
#[inline]
fn read<M: Method, E>(message: &[u8]) -> Called<'_, M, E> {
    let (header, body) = Header::read(Source::Bytes(message))?;
    if header.ordinal() != M::ORDINAL {
        return Err(Malformed::Answer.into());
    }
    match header.kind() {
        Kind::Reply => Ok(M::ReplyView::from(body)),
        Kind::Error => Err(CallError::Declined(M::ErrorView::view(body, 0)?)),
        _ => Err(CallError::Fault(Fault::from_number(u32::view(body, 0)?))),
    }
}

/// Sends a message if it fits into the channel.
#[inline]
pub(crate) fn send<P: Port>(
    port: &mut P,
    header: Header,
    body: &impl Body,
    timeout: Duration,
) -> Result<(), CallError<P::Error>> {
    let message = Outgoing::new(header, body)?;
    let (length_bytes, max_bytes) = (message.length_bytes(), port.max_message_bytes());
    if length_bytes > max_bytes {
        return Err(CallError::TooLong { length_bytes, max_bytes });
    }
    match port.send(&message, timeout) {
        Ok(Sent::Accepted) => Ok(()),
        Ok(Sent::NoRoom) => Err(CallError::NoRoom),
        Err(error) => Err(CallError::Ended { error, may_repeat: true }),
    }
}

fn duration_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
