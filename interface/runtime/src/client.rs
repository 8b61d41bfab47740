//! The calling side: several calls in flight on one channel, each with a deadline.

use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::time::Duration;

use crate::encode::Body;
use crate::error::{Malformed, OverLimit};
use crate::message::{Empty, Fault, Header, Kind, Outgoing};
use crate::port::{Carries, Port, Sent};
use crate::source::Source;
use crate::view::{Record, View};

/// The most calls in flight on a channel.
pub const MAX_IN_FLIGHT: usize = 256;

/// The most messages that are taken at once, whatever the peer sends.
const MAX_POLLED: usize = 1024;

/// A call of an interface.
pub trait Method {
    /// Its ordinal.
    const ORDINAL: u16;
    /// Whether it may be repeated when nobody knows whether it was served.
    const IDEMPOTENT: bool;
    /// Its results, read.
    type Reply<'m>: From<Record<'m>>;
    /// Its error, read; [`Never`](crate::Never) if it declares none.
    type Error<'m>: View<'m>;
}

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
}

/// A call in flight.
#[derive(Debug)]
#[must_use = "an answer is only received by waiting for it"]
pub struct Pending<M> {
    token: u32,
    of: PhantomData<fn() -> M>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    Waiting {
        ordinal: u16,
        deadline_ns: u64,
    },
    /// The answer is in the slot.
    Arrived {
        deadline_ns: u64,
    },
}

#[derive(Debug)]
struct Slot {
    generation: u16,
    state: State,
    /// An answer that came before it was waited for. Kept when the slot is free, so that it is not allocated anew.
    answer: Vec<u8>,
}

/// Takes the one-way messages of a server: ordinal and body. False for an ordinal that it does not know.
pub type OnEvent<'a> = &'a mut dyn FnMut(u16, Record<'_>) -> Result<bool, Malformed>;

/// The calling end of a channel.
#[derive(Debug)]
pub struct Client<P> {
    port: P,
    slots: Vec<Slot>,
    counts: Counts,
}

impl<P: Port> Client<P> {
    /// A client with room for `in_flight` calls, from 1 to [`MAX_IN_FLIGHT`].
    ///
    /// # Errors
    /// The link lacks what the interface needs.
    pub fn bind(port: P, needs: Needs, in_flight: usize) -> Result<Self, BindError> {
        needs.check(&port)?;
        let slot = |_| Slot { generation: 0, state: State::Free, answer: Vec::new() };
        let slots = (0..in_flight.clamp(1, MAX_IN_FLIGHT)).map(slot).collect();
        Ok(Client { port, slots, counts: Counts::default() })
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

    /// Makes a call, which waits for its answer up to `timeout`; so does sending it, for room.
    ///
    /// # Errors
    /// [`CallError`]: nothing was sent.
    #[inline]
    pub fn start<M: Method>(
        &mut self,
        request: &impl Body,
        timeout: Duration,
    ) -> Result<Pending<M>, CallError<P::Error>> {
        let deadline_ns = self.port.now_ns().saturating_add(nanoseconds(timeout));
        let index = self.free_slot()?;
        let slot = &mut self.slots[index];
        // Never 0: that is the call of messages which belong to none.
        slot.generation = slot.generation.checked_add(1).unwrap_or(1);
        let token = index as u32 | u32::from(slot.generation) << 8;
        let header = Header { ordinal: M::ORDINAL, kind: Kind::Call, call: token };
        send(&mut self.port, header, request, timeout)?;
        self.slots[index].state = State::Waiting { ordinal: M::ORDINAL, deadline_ns };
        self.counts.calls += 1;
        Ok(Pending { token, of: PhantomData })
    }

    /// A place for a call. One whose deadline passed without anybody waiting for it is given up.
    fn free_slot(&mut self) -> Result<usize, CallError<P::Error>> {
        if let Some(index) = self.slots.iter().position(|slot| slot.state == State::Free) {
            return Ok(index);
        }
        let now_ns = self.port.now_ns();
        let passed = |state| match state {
            State::Free => true,
            State::Waiting { deadline_ns, .. } | State::Arrived { deadline_ns } => deadline_ns < now_ns,
        };
        let in_flight = self.slots.len();
        let index = self.slots.iter().position(|slot| passed(slot.state));
        let index = index.ok_or(CallError::InFlight { in_flight })?;
        self.give_up(index);
        Ok(index)
    }

    /// Sends a one-way message, waiting for room up to `timeout`.
    ///
    /// # Errors
    /// [`CallError`]: nothing was sent.
    pub fn tell(
        &mut self,
        ordinal: u16,
        message: &impl Body,
        timeout: Duration,
    ) -> Result<(), CallError<P::Error>> {
        let header = Header { ordinal, kind: Kind::Message, call: 0 };
        send(&mut self.port, header, message, timeout)
    }

    /// Takes what has arrived, up to 1024 messages, without waiting. Answers are kept until they are waited for.
    ///
    /// # Errors
    /// The channel has ended; answers that arrived before can still be waited for.
    pub fn poll(&mut self, on_event: OnEvent<'_>) -> Result<(), P::Error> {
        for _ in 0..MAX_POLLED {
            if self.receive(Duration::ZERO, None, on_event, |_, _| ())?.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Whether [`wait`](Self::wait) would return at once.
    #[must_use]
    pub fn is_ready<M>(&self, call: &Pending<M>) -> bool {
        self.slot(call.token).is_none_or(|index| matches!(self.slots[index].state, State::Arrived { .. }))
    }

    /// Waits for the answer to a call until the call's deadline, and reads it where it lies. Answers to other calls
    /// are kept for them.
    ///
    /// # Errors
    /// [`CallError`].
    #[inline]
    pub fn wait<M: Method, R>(
        &mut self,
        call: Pending<M>,
        on_event: OnEvent<'_>,
        read: impl FnOnce(Result<M::Reply<'_>, M::Error<'_>>) -> Result<R, Malformed>,
    ) -> Result<R, CallError<P::Error>> {
        let index = self.slot(call.token).ok_or(CallError::NotInFlight)?;
        let mut read = Some(read);
        let mut answer = |header: Header, body: Record<'_>| match read.take() {
            Some(read) => answer::<M, R, P::Error>(header, body, read),
            None => Err(CallError::NotInFlight),
        };
        loop {
            let deadline_ns = match self.slots[index].state {
                State::Free => return Err(CallError::NotInFlight),
                State::Arrived { .. } => {
                    self.slots[index].state = State::Free;
                    let bytes: &[u8] = &self.slots[index].answer;
                    let (header, body) = Header::read(&bytes)?;
                    return answer(header, body);
                }
                State::Waiting { deadline_ns, .. } => deadline_ns,
            };
            let left_ns = deadline_ns.saturating_sub(self.port.now_ns());
            let received =
                self.receive(Duration::from_nanos(left_ns), Some(call.token), on_event, &mut answer);
            match received {
                Ok(Some(Some(result))) => {
                    self.slots[index].state = State::Free;
                    return result;
                }
                // A peer that floods this end does not keep it past its deadline.
                Ok(Some(None)) if left_ns > 0 => {}
                Ok(_) => {
                    self.give_up(index);
                    return Err(CallError::TimedOut);
                }
                Err(error) => {
                    self.slots[index].state = State::Free;
                    return Err(CallError::Ended { error, may_repeat: M::IDEMPOTENT });
                }
            }
        }
    }

    /// Gives a call up: its answer is dropped when it comes, and the server is told.
    pub fn cancel<M>(&mut self, call: Pending<M>) {
        if let Some(index) = self.slot(call.token) {
            self.give_up(index);
        }
    }

    fn give_up(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if let State::Waiting { ordinal, .. } = slot.state {
            let call = index as u32 | u32::from(slot.generation) << 8;
            let header = Header { ordinal, kind: Kind::Cancel, call };
            // It spares the server work. Without room, or a server, there is nothing to spare.
            let _told = send(&mut self.port, header, &Empty, Duration::ZERO);
        }
        slot.state = State::Free;
    }

    /// The place of a call in flight.
    fn slot(&self, token: u32) -> Option<usize> {
        let index = (token & 0xff) as usize;
        let slot = self.slots.get(index)?;
        let valid = slot.state != State::Free && u32::from(slot.generation) == token >> 8;
        valid.then_some(index)
    }

    /// Receives one message. `None` if there was none in time; what `read` made of it if it answers the call that is
    /// waited for.
    #[inline]
    fn receive<R>(
        &mut self,
        timeout: Duration,
        awaited: Option<u32>,
        on_event: OnEvent<'_>,
        read: impl FnOnce(Header, Record<'_>) -> R,
    ) -> Result<Option<Option<R>>, P::Error> {
        let Client { port, slots, counts } = self;
        port.recv(timeout, |source| {
            let Ok((header, body)) = Header::read(source) else {
                counts.malformed += 1;
                return None;
            };
            match header.kind {
                Kind::Reply | Kind::Error | Kind::Fault if awaited == Some(header.call) => {
                    counts.answers += 1;
                    return Some(read(header, body));
                }
                Kind::Reply | Kind::Error | Kind::Fault => keep(slots, counts, header, source),
                Kind::Message => match on_event(header.ordinal, body) {
                    Ok(true) => counts.messages += 1,
                    Ok(false) => counts.unknown += 1,
                    Err(_) => counts.malformed += 1,
                },
                Kind::Call | Kind::Cancel => counts.malformed += 1,
            }
            None
        })
    }
}

/// Keeps an answer for whoever will wait for it.
fn keep(slots: &mut [Slot], counts: &mut Counts, header: Header, source: &dyn Source) {
    let slot = slots.get_mut((header.call & 0xff) as usize);
    let slot = slot.filter(|slot| u32::from(slot.generation) == header.call >> 8);
    let Some((slot, State::Waiting { deadline_ns, .. })) = slot.map(|slot| {
        let state = slot.state;
        (slot, state)
    }) else {
        counts.late += 1;
        return;
    };
    slot.answer.clear();
    slot.answer.extend(vec![0; source.len_bytes()]);
    if source.copy(0, &mut slot.answer) {
        slot.state = State::Arrived { deadline_ns };
        counts.answers += 1;
    }
}

/// What an answer says.
fn answer<M: Method, R, E>(
    header: Header,
    body: Record<'_>,
    read: impl FnOnce(Result<M::Reply<'_>, M::Error<'_>>) -> Result<R, Malformed>,
) -> Result<R, CallError<E>> {
    if header.ordinal != M::ORDINAL {
        return Err(CallError::Malformed(Malformed::Answer));
    }
    Ok(match header.kind {
        Kind::Reply => read(Ok(M::Reply::from(body)))?,
        Kind::Error => read(Err(M::Error::view(body, 0)?))?,
        _ => return Err(CallError::Fault(Fault::from_number(u32::view(body, 0)?))),
    })
}

/// Sends a message if it may be sent at all.
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
