//! The serving side.

use alloc::vec::Vec;
use core::time::Duration;

use crate::client::{BindError, CallError, Counts, Needs, send};
use crate::encode::Body;
use crate::error::{Malformed, OverLimit};
use crate::message::{Fault, FaultBody, Header, Kind};
use crate::port::Port;
use crate::view::Record;

/// The most calls of a client whose answers may be outstanding.
pub const MAX_OUTSTANDING: usize = 256;

/// How long an answer waits for room before the server gives it up.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A call that is answered later.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Later {
    ordinal: u16,
    call: u32,
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
}

impl<E> From<Malformed> for Decline<E> {
    fn from(malformed: Malformed) -> Self {
        Decline::Malformed(malformed)
    }
}

/// What is sent for a call.
pub enum Answer<R, E> {
    /// Its results.
    Reply(R),
    /// Its declared error.
    Error(E),
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
}

impl<R, E> Answer<R, E> {
    /// What a handler's result comes to.
    pub fn of<A, B>(
        result: Result<A, Decline<B>>,
        reply: impl FnOnce(A) -> R,
        error: impl FnOnce(B) -> E,
    ) -> Self {
        match result {
            Ok(results) => Answer::Reply(reply(results)),
            Err(Decline::Error(declared)) => Answer::Error(error(declared)),
            Err(Decline::Later) => Answer::Later,
            Err(Decline::Unserved) => Answer::Fault(Fault::Unserved),
            Err(Decline::Malformed(_)) => Answer::Fault(Fault::Malformed),
        }
    }

    /// What a handler of one-way messages comes to.
    #[must_use]
    pub fn of_message(result: Result<(), Malformed>) -> Self {
        if result.is_ok() { Answer::Taken } else { Answer::Malformed }
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

/// The serving end of a channel.
#[derive(Debug)]
pub struct Server<P> {
    port: P,
    outstanding: Vec<Later>,
    counts: Counts,
}

impl<P: Port> Server<P> {
    /// A server.
    ///
    /// # Errors
    /// The link lacks what the interface needs.
    pub fn bind(port: P, needs: Needs) -> Result<Self, BindError> {
        needs.check(&port)?;
        Ok(Server { port, outstanding: Vec::with_capacity(MAX_OUTSTANDING), counts: Counts::default() })
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

    /// Takes one message, waiting for it up to `timeout`, and answers it if it is a call. Says whether one came.
    ///
    /// # Errors
    /// [`ServeError`]: the channel is of no use any more.
    #[inline]
    pub fn serve<R: Body, E: Body>(
        &mut self,
        timeout: Duration,
        dispatch: impl FnOnce(Header, Later, Record<'_>) -> Answer<R, E>,
    ) -> Result<bool, ServeError<P::Error>> {
        let full = self.outstanding.len() >= MAX_OUTSTANDING;
        let received = self.port.recv(timeout, |source| {
            let (header, body) = Header::read(source)?;
            let later = Later { ordinal: header.ordinal, call: header.call };
            let answer = match header.kind {
                Kind::Call if full => Answer::Fault(Fault::Busy),
                Kind::Call | Kind::Message => dispatch(header, later, body),
                Kind::Cancel => Answer::Taken,
                Kind::Reply | Kind::Error | Kind::Fault => Answer::Malformed,
            };
            Ok::<_, Malformed>((header, answer))
        });
        match received.map_err(ServeError::Ended)? {
            None => return Ok(false),
            Some(Err(_)) => self.counts.malformed += 1,
            Some(Ok((header, answer))) => self.settle(header, answer)?,
        }
        Ok(true)
    }

    #[inline]
    fn settle<R: Body, E: Body>(
        &mut self,
        header: Header,
        answer: Answer<R, E>,
    ) -> Result<(), ServeError<P::Error>> {
        let later = Later { ordinal: header.ordinal, call: header.call };
        match header.kind {
            Kind::Cancel => {
                self.outstanding.retain(|other| *other != later);
                return Ok(());
            }
            Kind::Call => self.counts.calls += 1,
            _ => {}
        }
        match answer {
            Answer::Reply(body) => self.answer(later, Kind::Reply, &body),
            Answer::Error(body) => self.answer(later, Kind::Error, &body),
            Answer::Fault(fault) => {
                match fault {
                    Fault::Malformed => self.counts.malformed += 1,
                    Fault::Unknown => self.counts.unknown += 1,
                    _ => {}
                }
                self.answer(later, Kind::Fault, &FaultBody(fault))
            }
            Answer::Later => {
                self.outstanding.push(later);
                Ok(())
            }
            Answer::Taken => {
                self.counts.messages += 1;
                Ok(())
            }
            Answer::Unknown => {
                self.counts.unknown += 1;
                Ok(())
            }
            Answer::Malformed => {
                self.counts.malformed += 1;
                Ok(())
            }
        }
    }

    #[inline]
    fn answer(&mut self, call: Later, kind: Kind, body: &impl Body) -> Result<(), ServeError<P::Error>> {
        let header = Header { ordinal: call.ordinal, kind, call: call.call };
        let sent = match send(&mut self.port, header, body, ANSWER_TIMEOUT) {
            Err(CallError::OverLimit(OverLimit { .. }) | CallError::TooLong { .. }) => {
                let header = Header { kind: Kind::Fault, ..header };
                send(&mut self.port, header, &FaultBody(Fault::TooLong), ANSWER_TIMEOUT)
            }
            sent => sent,
        };
        self.counts.answers += 1;
        match sent {
            Err(CallError::Ended { error, .. }) => Err(ServeError::Ended(error)),
            Err(CallError::NoRoom) => Err(ServeError::ClientStuck),
            _ => Ok(()),
        }
    }

    /// Whether somebody still waits for the answer to a call.
    #[must_use]
    pub fn is_outstanding(&self, call: Later) -> bool {
        self.outstanding.contains(&call)
    }

    /// Answers a call later. If it was not sent the call stays outstanding.
    ///
    /// # Errors
    /// [`ReplyError`].
    pub fn reply<R: Body, E: Body>(
        &mut self,
        call: Later,
        ordinal: u16,
        result: Result<R, E>,
        timeout: Duration,
    ) -> Result<(), ReplyError<P::Error>> {
        if call.ordinal != ordinal || !self.is_outstanding(call) {
            return Err(ReplyError::NotOutstanding);
        }
        let header = |kind| Header { ordinal, kind, call: call.call };
        match result {
            Ok(body) => send(&mut self.port, header(Kind::Reply), &body, timeout)?,
            Err(body) => send(&mut self.port, header(Kind::Error), &body, timeout)?,
        }
        self.counts.answers += 1;
        self.outstanding.retain(|other| *other != call);
        Ok(())
    }

    /// Sends a one-way message to the client.
    ///
    /// # Errors
    /// [`CallError`]: it was not sent.
    pub fn tell(
        &mut self,
        ordinal: u16,
        event: &impl Body,
        timeout: Duration,
    ) -> Result<(), CallError<P::Error>> {
        send(&mut self.port, Header { ordinal, kind: Kind::Message, call: 0 }, event, timeout)
    }
}

/// The body of an answer that cannot be: for interfaces whose calls declare no errors.
impl Body for crate::view::Never {
    fn record_bytes(&self) -> u32 {
        match *self {}
    }

    fn measure(&self) -> Result<usize, OverLimit> {
        match *self {}
    }

    fn fields<K: crate::source::Sink + ?Sized>(
        &self,
        _: &mut crate::encode::Place,
        _: u32,
        _: &mut crate::encode::Out<'_, K>,
    ) {
        match *self {}
    }
}
