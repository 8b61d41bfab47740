//! The calling side: several calls in flight on one channel, each with a deadline.

use core::marker::PhantomData;
use core::time::Duration;

use crate::declare::{Answered, Hears, Method, OneWay, Request};
use crate::encode::Body;
use crate::error::{Malformed, OverLimit};
pub use crate::flight::MAX_IN_FLIGHT;
use crate::flight::{Flight, Known};
use crate::message::{Empty, Fault, Header, Kind, Outgoing};
use crate::port::{Carries, Port, Sent};
use crate::source::Source;
use crate::view::{Record, View};

/// How often [`Client::call`] looks for the answer before it looks at the clock: for less than a microsecond.
const GLANCES: u32 = 64;

/// The deadline of a call whose answer is looked for before anything else happens.
const AT_ONCE: u64 = u64::MAX;

/// The most messages that are taken at once, whatever the peer sends.
const MAX_POLLED: usize = 1024;

/// Why a call has no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError<E> {
    /// A parameter is longer than the interface allows; nothing was sent.
    #[error(transparent)]
    OverLimit(#[from] OverLimit),
    /// The message is longer than the channel carries; nothing was sent.
    #[error(
        "a message of {length_bytes} bytes is too long for this channel, which carries up to {max_bytes}"
    )]
    TooLong {
        /// Its length.
        length_bytes: usize,
        /// The longest that the channel carries.
        max_bytes: usize,
    },
    /// There was no room on the channel in time; nothing was sent.
    #[error("the channel had no room for the message in time: nothing was sent")]
    NoRoom,
    /// All places for calls in flight are taken; nothing was sent.
    #[error("{in_flight} calls are in flight: wait for one, or cancel it")]
    InFlight {
        /// How many.
        in_flight: usize,
    },
    /// No answer came in time. The call was cancelled; it may have been served.
    #[error("no answer came in time; the call was cancelled and may have been served")]
    TimedOut,
    /// The server did not serve it.
    #[error(transparent)]
    Fault(Fault),
    /// The answer was refused.
    #[error("the answer was refused: {0}")]
    Malformed(#[from] Malformed),
    /// The call is not in flight: it was cancelled, or belongs to another client.
    #[error("the call is not in flight any more")]
    NotInFlight,
    /// The channel ended, mostly because the peer did.
    #[error("{error} (the call {})", if *.may_repeat { "can be repeated" } else { "may have been served" })]
    Ended {
        /// Why.
        error: E,
        /// Whether it can be repeated on another channel: it was not sent, or is idempotent.
        may_repeat: bool,
    },
}

/// Why a client or server was not made over a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The interface passes capabilities and this link cannot carry them.
    #[error("the interface passes capabilities, which this link cannot carry")]
    NoCapabilities,
    /// The interface passes bulk buffers and this link cannot carry them.
    #[error("the interface passes bulk buffers, which this link cannot carry")]
    NoBuffers,
    /// The largest message without variable parts does not fit.
    #[error(
        "the interface needs messages of {needed_bytes} bytes at least; the channel carries up to {max_bytes}"
    )]
    TooShort {
        /// What it needs.
        needed_bytes: usize,
        /// What there is.
        max_bytes: usize,
    },
}

/// What an interface needs of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Needs {
    /// Besides bytes.
    pub carries: Carries,
    /// The longest message when everything of variable length is empty, in bytes.
    pub message_bytes: usize,
}

impl Needs {
    /// As [`check`](Self::check); the link is told what it is used for.
    pub(crate) fn bind(&self, port: &mut impl Port) -> Result<(), BindError> {
        self.check(port)?;
        port.bound(self.carries);
        Ok(())
    }

    /// Whether a link has what is needed.
    ///
    /// # Errors
    /// What it lacks.
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

/// What has passed through a client or a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Calls made or received.
    pub calls: u64,
    /// Answers received or given.
    pub answers: u64,
    /// One-way messages received.
    pub messages: u64,
    /// Answers that came after their call was given up.
    pub late: u64,
    /// Messages with an ordinal that this side does not know.
    pub unknown: u64,
    /// Messages that were refused as malformed.
    pub malformed: u64,
    /// Messages that brought a right which this side was not given.
    pub refused: u64,
}

/// A call in flight.
#[derive(Debug)]
#[must_use = "an answer is only received by waiting for it"]
pub struct Pending<M> {
    number: u32,
    of: PhantomData<fn() -> M>,
}

impl<M> Pending<M> {
    /// Its number on the wire: no two calls in flight have the same.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }
}

/// The calling end of a channel: calls of `I` over `P`; `E` takes the events.
#[derive(Debug)]
pub struct Client<I, P, E = ()> {
    port: P,
    events: E,
    flight: Flight,
    counts: Counts,
    of: PhantomData<fn() -> I>,
}

impl<I: Hears<E>, P: Port, E> Client<I, P, E> {
    /// A client over a channel that was opened with [`Interface::HASH`](crate::Interface::HASH). It has room for [`MAX_IN_FLIGHT`] calls.
    ///
    /// # Errors
    /// The link lacks what the interface needs.
    pub fn bind(mut port: P, events: E) -> Result<Self, BindError> {
        I::NEEDS.bind(&mut port)?;
        Ok(Client { port, events, flight: Flight::new(), counts: Counts::default(), of: PhantomData })
    }

    /// What has passed.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The channel.
    pub fn port(&mut self) -> &mut P {
        &mut self.port
    }

    /// The channel, without the client: calls in flight are given up.
    pub fn into_port(self) -> P {
        self.port
    }

    /// What takes the events.
    pub fn events(&mut self) -> &mut E {
        &mut self.events
    }

    /// Makes a call and reads the answer where it lies, waiting for it up to `timeout`.
    ///
    /// # Errors
    /// [`CallError`]; an error that the interface declares is given to `read`.
    #[inline]
    pub fn call<Q, R>(
        &mut self,
        request: &Q,
        timeout: Duration,
        read: impl FnOnce(Answered<'_, Q::Method>) -> Result<R, Malformed>,
    ) -> Result<R, CallError<P::Error>>
    where
        Q: Request<Method: Method<Interface = I>>,
    {
        // The clock costs as much as a good part of a call: it is looked at when the answer does not come at once.
        let call = self.send_call(request, timeout, AT_ONCE, None)?;
        let mut read = Some(read);
        let glances = if self.port.is_polled() { GLANCES } else { 0 };
        for _ in 0..glances {
            // Not together, as a result: it would be moved in other pieces than it was made of.
            let (mut value, mut unread) = (None, None);
            let received = self.receive(Duration::ZERO, call.number, |header, body| {
                match answer::<Q::Method, R>(header, body, read.take()) {
                    Ok(answered) => value = Some(answered),
                    Err(error) => unread = Some(error),
                }
            });
            if let Some(value) = value {
                self.flight.end(call.number);
                return Ok(value);
            }
            if unread.is_some() || received.is_err() {
                return Err(self.fail::<Q::Method>(call.number, unread, received.err()));
            }
        }
        let deadline_ns = self.port.now_ns().saturating_add(nanoseconds(timeout));
        self.flight.begin(call.number, Q::Method::ORDINAL, deadline_ns);
        self.finish::<Q::Method, R>(call.number, |header, body| answer(header, body, read.take()))
    }

    /// Why a call has no results.
    #[cold]
    fn fail<M: Method>(
        &mut self,
        number: u32,
        unread: Option<Unread>,
        ended: Option<P::Error>,
    ) -> CallError<P::Error> {
        self.flight.end(number);
        match (unread, ended) {
            (Some(Unread::Fault(fault)), _) => CallError::Fault(fault),
            (Some(Unread::Malformed(malformed)), _) => CallError::Malformed(malformed),
            (None, Some(error)) => CallError::Ended { error, may_repeat: M::IDEMPOTENT },
            (None, None) => CallError::NotInFlight,
        }
    }

    /// Makes a call, which waits for its answer up to `timeout`; so does sending it, for room.
    ///
    /// # Errors
    /// [`CallError`]: nothing was sent.
    #[inline]
    pub fn start<Q>(
        &mut self,
        request: &Q,
        timeout: Duration,
    ) -> Result<Pending<Q::Method>, CallError<P::Error>>
    where
        Q: Request<Method: Method<Interface = I>>,
    {
        let now_ns = self.port.now_ns();
        self.send_call(request, timeout, now_ns.saturating_add(nanoseconds(timeout)), Some(now_ns))
    }

    /// Makes a call if there is room for it now; its answer is waited for up to `timeout`.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    #[inline]
    pub fn try_start<Q>(
        &mut self,
        request: &Q,
        timeout: Duration,
    ) -> Result<Pending<Q::Method>, CallError<P::Error>>
    where
        Q: Request<Method: Method<Interface = I>>,
    {
        let now_ns = self.port.now_ns();
        let deadline_ns = now_ns.saturating_add(nanoseconds(timeout));
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
        let (number, given_up) = place.ok_or(CallError::InFlight { in_flight: MAX_IN_FLIGHT })?;
        self.tell_given_up(given_up);
        let ordinal = Q::Method::ORDINAL;
        send(&mut self.port, Header::new(ordinal, Kind::Call, number), request, room_timeout)?;
        self.flight.begin(number, ordinal, deadline_ns);
        self.counts.calls += 1;
        Ok(Pending { number, of: PhantomData })
    }

    /// Sends a one-way message, waiting for room up to `timeout`.
    ///
    /// # Errors
    /// [`CallError`]: nothing was sent.
    pub fn tell<B: OneWay<Interface = I>>(
        &mut self,
        message: &B,
        timeout: Duration,
    ) -> Result<(), CallError<P::Error>> {
        send(&mut self.port, Header::new(B::ORDINAL, Kind::Message, 0), message, timeout)
    }

    /// Takes what has arrived, up to 1024 messages, without waiting. Answers are kept until they are waited for. Says
    /// how many messages there were.
    ///
    /// # Errors
    /// The channel has ended; answers that arrived before can still be waited for.
    pub fn poll(&mut self) -> Result<usize, P::Error> {
        for taken in 0..MAX_POLLED {
            if !self.receive(Duration::ZERO, 0, |_, _| ())? {
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

    /// Whether the call of that number waits for its answer.
    #[must_use]
    pub fn is_waiting(&self, number: u32) -> bool {
        matches!(self.flight.known(number), Known::Waiting { .. })
    }

    /// Waits for the answer to a call until the call's deadline, and reads it where it lies. Answers to other calls
    /// are kept for them.
    ///
    /// # Errors
    /// [`CallError`]; an error that the interface declares is given to `read`.
    #[inline]
    pub fn wait<M, R>(
        &mut self,
        call: Pending<M>,
        read: impl FnOnce(Answered<'_, M>) -> Result<R, Malformed>,
    ) -> Result<R, CallError<P::Error>>
    where
        M: Method<Interface = I>,
    {
        let mut read = Some(read);
        self.finish::<M, R>(call.number, |header, body| answer::<M, R>(header, body, read.take()))
    }

    /// Waits for an answer until the call's deadline.
    #[inline]
    fn finish<M, R>(
        &mut self,
        number: u32,
        mut answer: impl FnMut(Header, Record<'_>) -> Result<R, Unread>,
    ) -> Result<R, CallError<P::Error>>
    where
        M: Method<Interface = I>,
    {
        loop {
            let deadline_ns = match self.flight.known(number) {
                Known::Nothing => return Err(CallError::NotInFlight),
                Known::Arrived => {
                    let bytes = self.flight.take(number);
                    let (header, body) = Header::read(&bytes)?;
                    return match answer(header, body) {
                        Ok(value) => Ok(value),
                        Err(unread) => Err(self.fail::<M>(number, Some(unread), None)),
                    };
                }
                Known::Waiting { deadline_ns } => deadline_ns,
            };
            let left_ns = deadline_ns.saturating_sub(self.port.now_ns());
            let (mut value, mut unread) = (None, None);
            let received = self.receive(Duration::from_nanos(left_ns), number, |header, body| {
                match answer(header, body) {
                    Ok(answered) => value = Some(answered),
                    Err(error) => unread = Some(error),
                }
            });
            if let Some(value) = value {
                self.flight.end(number);
                return Ok(value);
            }
            if unread.is_some() {
                return Err(self.fail::<M>(number, unread, None));
            }
            match received {
                // A peer that floods this end does not keep it past its deadline.
                Ok(true) if left_ns > 0 => {}
                Ok(_) => {
                    self.give_up(number);
                    return Err(CallError::TimedOut);
                }
                Err(error) => return Err(self.fail::<M>(number, None, Some(error))),
            }
        }
    }

    /// Gives a call up: its answer is dropped when it comes, and the server is told.
    pub fn cancel<M>(&mut self, call: Pending<M>) {
        self.give_up(call.number);
    }

    /// Gives up the call of that number; see [`cancel`](Self::cancel).
    pub fn give_up(&mut self, number: u32) {
        let told = self.flight.give_up(number);
        self.tell_given_up(told);
    }

    #[inline]
    fn tell_given_up(&mut self, given_up: Option<(u16, u32)>) {
        if let Some((ordinal, call)) = given_up {
            let header = Header::new(ordinal, Kind::Cancel, call);
            // It spares the server work. Without room, or a server, there is nothing to spare.
            let _told = send(&mut self.port, header, &Empty, Duration::ZERO);
        }
    }

    /// Receives one message, and says whether there was one in time. `read` gets it if it answers the awaited call, which is
    /// 0 for none. It returns nothing, as that of [`Port::recv`].
    #[inline]
    fn receive(
        &mut self,
        timeout: Duration,
        awaited: u32,
        mut read: impl FnMut(Header, Record<'_>),
    ) -> Result<bool, P::Error> {
        let Client { port, events, flight, counts, .. } = self;
        port.recv(timeout, |source| match Header::read(source) {
            Ok((header, body)) if header.answers(awaited) => {
                counts.answers += 1;
                read(header, body);
            }
            other => take_other::<I, E>(source, other, events, flight, counts),
        })
    }
}

/// Takes what is not the awaited answer: by itself, so that whoever waits for that has little to do.
#[inline(never)]
fn take_other<I: Hears<E>, E>(
    source: &dyn Source,
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

/// Why an answer has no results: small, unlike the errors that callers get.
enum Unread {
    Fault(Fault),
    Malformed(Malformed),
}

impl From<Malformed> for Unread {
    fn from(malformed: Malformed) -> Self {
        Unread::Malformed(malformed)
    }
}

/// What an answer says, to be read once.
#[inline]
fn answer<M: Method, R>(
    header: Header,
    body: Record<'_>,
    read: Option<impl FnOnce(Answered<'_, M>) -> Result<R, Malformed>>,
) -> Result<R, Unread> {
    let Some(read) = read.filter(|_| header.ordinal() == M::ORDINAL) else {
        return Err(Malformed::Answer.into());
    };
    Ok(match header.kind() {
        Kind::Reply => read(Ok(M::ReplyView::from(body)))?,
        Kind::Error => read(Err(M::ErrorView::view(body, 0)?))?,
        _ => return Err(Unread::Fault(Fault::from_number(u32::view(body, 0)?))),
    })
}

/// Sends a message if it may be sent at all.
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

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
