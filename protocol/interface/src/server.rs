//! The serving side.

use alloc::vec::Vec;
use core::marker::PhantomData;
use core::time::Duration;

use crate::client::{BindError, CallError, Counts, send};
use crate::declare::{Declined, Event, Interface, Method, Serves};
use crate::encode::Body;
use crate::error::{Malformed, OverLimit};
use crate::message::{Fault, FaultBody, Header, Kind};
use crate::port::Port;
use crate::view::{Never, Record};

/// The most calls of a client whose answers may be outstanding.
pub const MAX_OUTSTANDING: usize = 256;

/// How long an answer waits for room before the server gives it up.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A call that is answered later: its ordinal and number.
type Outstanding = (u16, u32);

/// A call `M` that can be answered later.
#[derive(Debug)]
pub struct Later<M> {
    call: u32,
    of: PhantomData<fn() -> M>,
}

impl<M> Clone for Later<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Later<M> {}

impl<M: Method> Later<M> {
    fn outstanding(self) -> Outstanding {
        (M::ORDINAL, self.call)
    }
}

/// A call or a one-way message that is to be served.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'m> {
    header: Header,
    body: Record<'m>,
}

impl<'m> Incoming<'m> {
    /// Whether it is a call, and its ordinal.
    #[inline]
    #[must_use]
    pub fn what(&self) -> (Kind, u16) {
        (self.header.kind(), self.header.ordinal())
    }

    /// What it carries.
    #[inline]
    #[must_use]
    pub fn view<V: From<Record<'m>>>(&self) -> V {
        V::from(self.body)
    }

    /// By which it can be answered later.
    #[inline]
    #[must_use]
    pub fn later<M: Method>(&self) -> Later<M> {
        Later { call: self.header.call(), of: PhantomData }
    }

    /// What becomes of one with an ordinal that is unknown.
    #[must_use]
    pub fn unknown<B>(&self) -> Answer<B> {
        if self.header.kind() == Kind::Call { Answer::Fault(Fault::Unknown) } else { Answer::Unknown }
    }
}

/// Why a handler has no results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decline<E> {
    /// The error that the interface declares.
    Error(E),
    /// It is answered later.
    Later,
    /// This server does not serve it.
    Unserved,
    /// The request could not be read.
    Malformed(Malformed),
    /// The request brought a right that this side was not given.
    Refused,
}

impl<E> From<Malformed> for Decline<E> {
    fn from(malformed: Malformed) -> Self {
        if malformed == Malformed::Right { Decline::Refused } else { Decline::Malformed(malformed) }
    }
}

/// What is sent for a call.
#[derive(Debug)]
pub enum Answer<B> {
    /// Its results.
    Reply(B),
    /// Its declared error.
    Error(B),
    /// Neither.
    Fault(Fault),
    /// Nothing, now.
    Later,
    /// Nothing: it was a one-way message.
    Taken,
    /// Nothing: it was a one-way message with an ordinal that is unknown.
    Unknown,
    /// Nothing: it was a one-way message that could not be read.
    Malformed,
    /// Nothing: it was a one-way message with a right that this side was not given.
    Refused,
}

impl<B> Answer<B> {
    /// What a handler's result comes to.
    #[inline]
    pub fn of<M, R, E>(
        result: Result<R, Decline<E>>,
        reply: impl FnOnce(R) -> B,
        declined: impl FnOnce(Declined<M, E>) -> B,
    ) -> Self {
        match result {
            Ok(results) => Answer::Reply(reply(results)),
            Err(Decline::Error(error)) => Answer::Error(declined(Declined::new(error))),
            Err(Decline::Later) => Answer::Later,
            Err(Decline::Unserved) => Answer::Fault(Fault::Unserved),
            Err(Decline::Malformed(_)) => Answer::Fault(Fault::Malformed),
            Err(Decline::Refused) => Answer::Fault(Fault::Refused),
        }
    }

    /// What the result of a handler that declares no error comes to.
    #[inline]
    pub fn of_sure<R>(result: Result<R, Decline<Never>>, reply: impl FnOnce(R) -> B) -> Self {
        Answer::of(result, reply, |declined: Declined<(), Never>| declined.never())
    }

    /// What a handler of one-way messages comes to.
    #[must_use]
    pub fn of_message(result: Result<(), Malformed>) -> Self {
        match result {
            Ok(()) => Answer::Taken,
            Err(Malformed::Right) => Answer::Refused,
            Err(_) => Answer::Malformed,
        }
    }
}

/// Why an answer that was given later, or an event, was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyError<E> {
    /// Nobody waits for it: it was answered or cancelled.
    #[error("nobody waits for the answer any more")]
    NotOutstanding,
    /// It was not sent.
    #[error(transparent)]
    NotSent(#[from] CallError<E>),
}

/// Why a server stopped serving a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError<E> {
    /// The channel ended, mostly because the client did.
    #[error("{0}")]
    Ended(E),
    /// The client takes no answers.
    #[error("the client has made no room for an answer in {ANSWER_TIMEOUT:?}")]
    ClientStuck,
}

/// The serving end of a channel: serves `I` over `P`.
#[derive(Debug)]
pub struct Server<I, P> {
    port: P,
    outstanding: Vec<Outstanding>,
    counts: Counts,
    of: PhantomData<fn() -> I>,
}

impl<I: Interface, P: Port> Server<I, P> {
    /// A server over a channel that was opened with [`Interface::HASH`].
    ///
    /// # Errors
    /// The link lacks what the interface needs.
    pub fn bind(mut port: P) -> Result<Self, BindError> {
        I::NEEDS.bind(&mut port)?;
        let outstanding = Vec::with_capacity(MAX_OUTSTANDING);
        Ok(Server { port, outstanding, counts: Counts::default(), of: PhantomData })
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

    /// The channel, without the server: calls that wait for their answers get none.
    pub fn into_port(self) -> P {
        self.port
    }

    /// Takes one message, waiting for it up to `timeout`, and answers it if it is a call. Says whether one came.
    ///
    /// # Errors
    /// [`ServeError`]: the channel is of no use any more.
    #[inline]
    pub fn serve_one<H: ?Sized>(
        &mut self,
        handler: &mut H,
        timeout: Duration,
    ) -> Result<bool, ServeError<P::Error>>
    where
        I: Serves<H>,
    {
        let full = self.outstanding.len() >= MAX_OUTSTANDING;
        // Taken by the one message that there is: its answer may borrow from it.
        let mut handler = Some(handler);
        // Not together: it would be moved in other pieces than it was made of.
        let (mut answered, mut malformed) = (None, false);
        let received = self.port.recv(timeout, |source| {
            let Some(handler) = handler.take() else { return };
            let Ok((header, body)) = Header::read(source) else {
                malformed = true;
                return;
            };
            let answer = match header.kind() {
                Kind::Call if full => Answer::Fault(Fault::Busy),
                Kind::Call | Kind::Message => I::dispatch(handler, Incoming { header, body }),
                Kind::Cancel => Answer::Taken,
                Kind::Reply | Kind::Error | Kind::Fault => Answer::Malformed,
            };
            answered = Some((header, answer));
        });
        match answered {
            Some((header, answer)) => self.settle(header, answer)?,
            None if malformed => self.counts.malformed += 1,
            None => return received.map_err(ServeError::Ended),
        }
        Ok(true)
    }

    #[inline]
    fn settle<B: Body>(&mut self, header: Header, answer: Answer<B>) -> Result<(), ServeError<P::Error>> {
        match header.kind() {
            Kind::Cancel => {
                self.forget((header.ordinal(), header.call()));
                return Ok(());
            }
            Kind::Call => self.counts.calls += 1,
            _ => {}
        }
        match answer {
            Answer::Reply(body) => return self.answer(header.with_kind(Kind::Reply), &body),
            Answer::Error(body) => return self.answer(header.with_kind(Kind::Error), &body),
            Answer::Fault(fault) => {
                match fault {
                    Fault::Malformed => self.counts.malformed += 1,
                    Fault::Unknown => self.counts.unknown += 1,
                    Fault::Refused => self.counts.refused += 1,
                    _ => {}
                }
                return self.answer(header.with_kind(Kind::Fault), &FaultBody(fault));
            }
            Answer::Later => self.outstanding.push((header.ordinal(), header.call())),
            Answer::Taken => self.counts.messages += 1,
            Answer::Unknown => self.counts.unknown += 1,
            Answer::Malformed => self.counts.malformed += 1,
            Answer::Refused => self.counts.refused += 1,
        }
        Ok(())
    }

    #[inline]
    fn answer(&mut self, header: Header, body: &impl Body) -> Result<(), ServeError<P::Error>> {
        self.counts.answers += 1;
        match send(&mut self.port, header, body, ANSWER_TIMEOUT) {
            Ok(()) => Ok(()),
            Err(error) => self.not_answered(header, error),
        }
    }

    /// An answer that could not be sent because of what it is is replaced by a fault.
    #[cold]
    fn not_answered(
        &mut self,
        header: Header,
        error: CallError<P::Error>,
    ) -> Result<(), ServeError<P::Error>> {
        let sent = match error {
            CallError::OverLimit(OverLimit { .. }) | CallError::TooLong { .. } => {
                let fault = FaultBody(Fault::TooLong);
                send(&mut self.port, header.with_kind(Kind::Fault), &fault, ANSWER_TIMEOUT)
            }
            error => Err(error),
        };
        match sent {
            Err(CallError::Ended { error, .. }) => Err(ServeError::Ended(error)),
            Err(CallError::NoRoom) => Err(ServeError::ClientStuck),
            _ => Ok(()),
        }
    }

    fn forget(&mut self, call: Outstanding) {
        self.outstanding.retain(|other| *other != call);
    }

    /// Whether somebody still waits for the answer to a call.
    #[must_use]
    pub fn is_outstanding<M: Method<Interface = I>>(&self, call: Later<M>) -> bool {
        self.outstanding.contains(&call.outstanding())
    }

    /// Answers a call later. If that was not sent the call stays outstanding.
    ///
    /// # Errors
    /// [`ReplyError`].
    pub fn reply<M: Method<Interface = I>>(
        &mut self,
        call: Later<M>,
        result: Result<M::Reply<'_>, M::Error<'_>>,
        timeout: Duration,
    ) -> Result<(), ReplyError<P::Error>> {
        if !self.is_outstanding(call) {
            return Err(ReplyError::NotOutstanding);
        }
        let header = |kind| Header::new(M::ORDINAL, kind, call.call);
        match result {
            Ok(body) => send(&mut self.port, header(Kind::Reply), &body, timeout)?,
            Err(error) => {
                send(&mut self.port, header(Kind::Error), &Declined::<M, _>::new(error), timeout)?;
            }
        }
        self.counts.answers += 1;
        self.forget(call.outstanding());
        Ok(())
    }

    /// Sends a one-way message to the client.
    ///
    /// # Errors
    /// [`CallError`]: it was not sent.
    pub fn tell<B: Event<Interface = I>>(
        &mut self,
        event: &B,
        timeout: Duration,
    ) -> Result<(), CallError<P::Error>> {
        send(&mut self.port, Header::new(B::ORDINAL, Kind::Message, 0), event, timeout)
    }
}
