//! Serving side of an interface.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::ops::Deref;

use core::time::Duration;

use tombolo_base::OperationTimeout;
use tombolo_base::sync::{AtomicBool, Ordering};

use crate::client::{BindError, CallError, Counts, send};
use crate::declare::{Declined, Event, Interface, Method, Serves};
use crate::encode::Body;
use crate::error::{Malformed, OverLimit};
use crate::message::{Fault, FaultBody, Header, Kind};
use crate::port::{Port, Waited};
use crate::view::{Never, Record};

/// Maximum number of outstanding answers per client.
pub const MAX_OUTSTANDING: usize = 256;

/// Time that an answer waits for room before the server gives up.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Call `M` to be served. Dereferences to its parameters.
#[derive(Debug)]
pub struct Call<'m, M: Method> {
    request: M::RequestView<'m>,
    number: u32,
}

impl<'m, M: Method> Deref for Call<'m, M> {
    type Target = M::RequestView<'m>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.request
    }
}

impl<M: Method> Call<'_, M> {
    /// Defers the answer. The responder is for [`Server::reply`]; the handler must return the response.
    #[must_use = "a responder that is dropped answers the call as dropped"]
    pub fn defer<R>(self) -> (Responder<M>, Response<R>) {
        let deferred = Arc::new(DeferredState::default());
        let response = Response(Results::Deferred(Arc::clone(&deferred)));
        (Responder { number: self.number, deferred, of: PhantomData }, response)
    }
}

/// State of a deferred answer.
#[derive(Debug, Default)]
struct DeferredState {
    /// Whether the client no longer wants the answer.
    cancelled: AtomicBool,
    /// Whether the responder was dropped.
    dropped: AtomicBool,
}

/// Responder of a call `M` whose answer was deferred. If it is dropped, the call is answered with
/// [`Fault::Dropped`] when the server serves the next message.
#[derive(Debug)]
pub struct Responder<M> {
    number: u32,
    deferred: Arc<DeferredState>,
    of: PhantomData<fn() -> M>,
}

impl<M> Responder<M> {
    /// Whether the client is still waiting; it may have cancelled the call.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        !self.deferred.cancelled.load(Ordering::Acquire)
    }
}

impl<M> Drop for Responder<M> {
    fn drop(&mut self) {
        self.deferred.dropped.store(true, Ordering::Release);
    }
}

/// Value that a handler returns for a call: its results, or the promise of them.
#[derive(Debug)]
pub struct Response<R>(Results<R>);

#[derive(Debug)]
enum Results<R> {
    Ready(R),
    Deferred(Arc<DeferredState>),
}

impl<R> From<R> for Response<R> {
    #[inline]
    fn from(results: R) -> Self {
        Response(Results::Ready(results))
    }
}

/// Call or one-way message to be served.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'m> {
    header: Header,
    body: Record<'m>,
}

impl<'m> Incoming<'m> {
    /// Returns whether it is a call, and its ordinal.
    #[inline]
    #[must_use]
    pub fn what(&self) -> (Kind, u16) {
        (self.header.kind(), self.header.ordinal())
    }

    /// Returns a view of its parameters.
    #[inline]
    #[must_use]
    pub fn view<V: From<Record<'m>>>(&self) -> V {
        V::from(self.body)
    }

    /// Returns the message as a call `M`.
    #[inline]
    #[must_use]
    pub fn call<M: Method>(&self) -> Call<'m, M> {
        Call { request: self.body.into(), number: self.header.call() }
    }

    /// Returns the outcome for an unknown ordinal.
    #[must_use]
    pub fn unknown<B>(&self) -> Outcome<B> {
        let is_call = self.header.kind() == Kind::Call;
        Outcome(if is_call { Handled::Fault(Fault::Unknown) } else { Handled::Unknown })
    }
}

/// Reason why a handler has no results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decline<E> {
    /// The error that the interface declares.
    Error(E),
    /// The server does not implement the call.
    Unserved,
    /// The request could not be decoded.
    Malformed(Malformed),
    /// The request contains a right that this side does not have.
    Refused,
}

impl<E> From<Malformed> for Decline<E> {
    fn from(malformed: Malformed) -> Self {
        if malformed == Malformed::Right { Decline::Refused } else { Decline::Malformed(malformed) }
    }
}

/// Outcome of a message that was passed to a handler.
#[derive(Debug)]
pub struct Outcome<B>(Handled<B>);

#[derive(Debug)]
enum Handled<B> {
    /// Results of a call.
    Reply(B),
    /// Declared error of a call.
    Error(B),
    /// Fault of a call.
    Fault(Fault),
    /// Promise of a later answer.
    Deferred(Arc<DeferredState>),
    /// One-way message that was handled.
    Accepted,
    /// One-way message with an unknown ordinal.
    Unknown,
    /// One-way message that could not be decoded.
    Malformed,
    /// One-way message with a right that this side does not have.
    Refused,
}

impl<B> Outcome<B> {
    /// Converts the result of a handler.
    #[inline]
    pub fn of<M, R, E>(
        result: Result<Response<R>, Decline<E>>,
        reply: impl FnOnce(R) -> B,
        declined: impl FnOnce(Declined<M, E>) -> B,
    ) -> Self {
        Outcome(match result {
            Ok(Response(Results::Ready(results))) => Handled::Reply(reply(results)),
            Ok(Response(Results::Deferred(deferred))) => Handled::Deferred(deferred),
            Err(Decline::Error(error)) => Handled::Error(declined(Declined::new(error))),
            Err(Decline::Unserved) => Handled::Fault(Fault::Unserved),
            Err(Decline::Malformed(_)) => Handled::Fault(Fault::Malformed),
            Err(Decline::Refused) => Handled::Fault(Fault::Refused),
        })
    }

    /// Converts the result of a handler that declares no error.
    #[inline]
    pub fn of_sure<R>(result: Result<Response<R>, Decline<Never>>, reply: impl FnOnce(R) -> B) -> Self {
        Outcome::of(result, reply, |declined: Declined<(), Never>| declined.never())
    }

    /// Converts the result of a handler of one-way messages.
    #[must_use]
    pub fn of_message(result: Result<(), Malformed>) -> Self {
        Outcome(match result {
            Ok(()) => Handled::Accepted,
            Err(Malformed::Right) => Handled::Refused,
            Err(_) => Handled::Malformed,
        })
    }
}

/// Error of a deferred answer or an event that was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyError<E> {
    /// The client is not waiting for it: it was answered or cancelled.
    #[error("the client no longer waits for the answer")]
    NotOutstanding,
    /// Sending failed.
    #[error(transparent)]
    NotSent(#[from] CallError<E>),
}

/// Reason why a server stopped serving a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError<E> {
    /// The channel ended, mostly because the client did.
    #[error("{0}")]
    Ended(E),
    /// The client does not receive its answers.
    #[error("the client has made no room for an answer in {ANSWER_TIMEOUT:?}")]
    ClientStuck,
}

/// Serving end of a channel: serves `I` over `P`.
///
/// Operations wait up to the server's timeout. The default is the timeout of the channel;
/// [`within`](Self::within) overrides it for the next operation.
#[derive(Debug)]
pub struct Server<I, P> {
    port: P,
    timeout: OperationTimeout,
    served: Served<I>,
}

/// In a waitset it is reported with each message of its client. [`serve_one`](Self::serve_one) with a timeout
/// of zero then handles that message.
impl<I, P> Waited for Server<I, P> {
    type End = P;

    fn end(&self) -> &P {
        &self.port
    }

    fn end_mut(&mut self) -> &mut P {
        &mut self.port
    }
}

impl<I: Interface, P: Port> Server<I, P> {
    /// Creates a server over a channel that was opened with [`Interface::HASH`].
    ///
    /// # Errors
    /// The link does not satisfy the interface's requirements.
    pub fn bind(mut port: P) -> Result<Self, BindError> {
        let served = Served::bind(&mut port)?;
        let timeout = OperationTimeout::new(port.timeout());
        Ok(Server { port, timeout, served })
    }

    /// Sets the timeout of the next operation.
    #[inline]
    #[must_use = "it is the next operation that waits so long"]
    pub fn within(&mut self, timeout: Duration) -> &mut Self {
        self.timeout.set_once(timeout);
        self
    }

    /// Returns the counters of this server.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.served.counts
    }

    /// Returns the channel that the server serves.
    #[must_use]
    pub fn port(&self) -> &P {
        &self.port
    }

    /// Returns the channel that the server serves, mutably.
    pub fn port_mut(&mut self) -> &mut P {
        &mut self.port
    }

    /// Returns the channel and drops the server. Outstanding calls get no answer.
    pub fn into_port(self) -> P {
        self.port
    }

    /// Waits for one message, handles it, and answers it if it is a call. Returns whether a message arrived.
    ///
    /// # Errors
    /// [`ServeError`]; the channel is unusable.
    #[inline]
    pub fn serve_one<H: ?Sized>(&mut self, handler: &mut H) -> Result<bool, ServeError<P::Error>>
    where
        I: Serves<H>,
    {
        let timeout = self.timeout.take();
        self.served.serve_one(&mut self.port, handler, timeout)
    }

    /// Answers a call whose answer was deferred. If the answer cannot be sent, the call is answered as
    /// dropped.
    ///
    /// # Errors
    /// [`ReplyError`].
    pub fn reply<M: Method<Interface = I>>(
        &mut self,
        responder: Responder<M>,
        result: Result<M::Reply<'_>, M::Error<'_>>,
    ) -> Result<(), ReplyError<P::Error>> {
        let timeout = self.timeout.take();
        self.served.reply(&mut self.port, &responder, result, timeout)
    }

    /// Sends a one-way message to the client.
    ///
    /// # Errors
    /// [`CallError`]; the message was not sent.
    pub fn tell<B: Event<Interface = I>>(&mut self, event: &B) -> Result<(), CallError<P::Error>> {
        let timeout = self.timeout.take();
        self.served.tell(&mut self.port, event, timeout)
    }
}

/// Call whose answer was deferred.
#[derive(Debug)]
struct Outstanding {
    ordinal: u16,
    number: u32,
    deferred: Arc<DeferredState>,
}

/// Server-side state of `I` for one client, for a channel that is stored elsewhere.
#[derive(Debug)]
pub struct Served<I> {
    outstanding: Vec<Outstanding>,
    counts: Counts,
    of: PhantomData<fn() -> I>,
}

impl<I: Interface> Served<I> {
    /// Creates the state for a channel that was opened with [`Interface::HASH`].
    ///
    /// # Errors
    /// The link does not satisfy the interface's requirements.
    pub fn bind(port: &mut impl Port) -> Result<Self, BindError> {
        I::NEEDS.bind(port)?;
        Ok(Served { outstanding: Vec::new(), counts: Counts::default(), of: PhantomData })
    }

    /// Like [`Server::serve_one`], over `port`.
    ///
    /// # Errors
    /// Same as [`Server::serve_one`].
    #[inline]
    pub fn serve_one<H: ?Sized, P: Port>(
        &mut self,
        port: &mut P,
        handler: &mut H,
        timeout: Duration,
    ) -> Result<bool, ServeError<P::Error>>
    where
        I: Serves<H>,
    {
        if !self.outstanding.is_empty() {
            self.fail_dropped_calls(port)?;
        }
        let full = self.outstanding.len() >= MAX_OUTSTANDING;
        // Taken by the only message: its answer may borrow from it.
        let mut handler = Some(handler);
        // Separate variables: a pair would be moved in other pieces than it was stored in.
        let (mut answered, mut malformed) = (None, false);
        let received = port.recv(timeout, |source| {
            let Some(handler) = handler.take() else { return };
            let Ok((header, body)) = Header::read(source) else {
                malformed = true;
                return;
            };
            let outcome = match header.kind() {
                Kind::Call if full => Outcome(Handled::Fault(Fault::Busy)),
                Kind::Call | Kind::Message => I::dispatch(handler, &Incoming { header, body }),
                Kind::Cancel => Outcome(Handled::Accepted),
                Kind::Reply | Kind::Error | Kind::Fault => Outcome(Handled::Malformed),
            };
            answered = Some((header, outcome));
        });
        // Used in place, for the same reason.
        match &answered {
            Some((header, outcome)) => self.handle_outcome(port, *header, outcome)?,
            None if malformed => self.counts.malformed += 1,
            None => return received.map_err(ServeError::Ended),
        }
        Ok(true)
    }

    #[inline]
    fn handle_outcome<B: Body, P: Port>(
        &mut self,
        port: &mut P,
        header: Header,
        Outcome(handled): &Outcome<B>,
    ) -> Result<(), ServeError<P::Error>> {
        match header.kind() {
            Kind::Cancel => {
                self.cancel(header);
                return Ok(());
            }
            Kind::Call => self.counts.calls += 1,
            _ => {}
        }
        match handled {
            Handled::Reply(body) => return self.answer(port, header.with_kind(Kind::Reply), body),
            Handled::Error(body) => return self.answer(port, header.with_kind(Kind::Error), body),
            Handled::Fault(fault) => {
                match fault {
                    Fault::Malformed => self.counts.malformed += 1,
                    Fault::Unknown => self.counts.unknown += 1,
                    Fault::Refused => self.counts.refused += 1,
                    _ => {}
                }
                return self.answer(port, header.with_kind(Kind::Fault), &FaultBody(*fault));
            }
            Handled::Deferred(deferred) => {
                let (ordinal, number) = (header.ordinal(), header.call());
                self.outstanding.push(Outstanding { ordinal, number, deferred: Arc::clone(deferred) });
            }
            Handled::Accepted => self.counts.messages += 1,
            Handled::Unknown => self.counts.unknown += 1,
            Handled::Malformed => self.counts.malformed += 1,
            Handled::Refused => self.counts.refused += 1,
        }
        Ok(())
    }

    #[inline]
    fn answer<P: Port>(
        &mut self,
        port: &mut P,
        header: Header,
        body: &impl Body,
    ) -> Result<(), ServeError<P::Error>> {
        self.counts.answers += 1;
        match send(port, header, body, ANSWER_TIMEOUT) {
            Ok(()) => Ok(()),
            Err(error) => replace_unsendable_answer(port, header, error),
        }
    }

    /// Answers the calls whose responders were dropped.
    #[cold]
    fn fail_dropped_calls<P: Port>(&mut self, port: &mut P) -> Result<(), ServeError<P::Error>> {
        let is_dropped = |call: &Outstanding| call.deferred.dropped.load(Ordering::Acquire);
        while let Some(index) = self.outstanding.iter().position(is_dropped) {
            let Outstanding { ordinal, number, .. } = self.outstanding.swap_remove(index);
            self.answer(port, Header::new(ordinal, Kind::Fault, number), &FaultBody(Fault::Dropped))?;
        }
        Ok(())
    }

    fn cancel(&mut self, header: Header) {
        let matches = |call: &Outstanding| call.ordinal == header.ordinal() && call.number == header.call();
        if let Some(index) = self.outstanding.iter().position(matches) {
            self.outstanding.swap_remove(index).deferred.cancelled.store(true, Ordering::Release);
        }
    }

    /// Like [`Server::tell`], over `port`.
    ///
    /// # Errors
    /// Same as [`Server::tell`].
    pub fn tell<B: Event<Interface = I>, P: Port>(
        &mut self,
        port: &mut P,
        event: &B,
        timeout: Duration,
    ) -> Result<(), CallError<P::Error>> {
        send(port, Header::new(B::ORDINAL, Kind::Message, 0), event, timeout)
    }

    /// Like [`Server::reply`], over `port`.
    ///
    /// # Errors
    /// Same as [`Server::reply`].
    pub fn reply<M: Method<Interface = I>, P: Port>(
        &mut self,
        port: &mut P,
        responder: &Responder<M>,
        result: Result<M::Reply<'_>, M::Error<'_>>,
        timeout: Duration,
    ) -> Result<(), ReplyError<P::Error>> {
        let matches = |call: &Outstanding| Arc::ptr_eq(&call.deferred, &responder.deferred);
        let index = self.outstanding.iter().position(matches).ok_or(ReplyError::NotOutstanding)?;
        let header = |kind| Header::new(M::ORDINAL, kind, responder.number);
        match result {
            Ok(body) => send(port, header(Kind::Reply), &body, timeout)?,
            Err(error) => send(port, header(Kind::Error), &Declined::<M, _>::new(error), timeout)?,
        }
        self.counts.answers += 1;
        self.outstanding.swap_remove(index);
        Ok(())
    }
}

/// Replaces an answer that cannot be sent, because of its contents, with a fault.
#[cold]
fn replace_unsendable_answer<P: Port>(
    port: &mut P,
    header: Header,
    error: CallError<P::Error>,
) -> Result<(), ServeError<P::Error>> {
    let sent = match error {
        CallError::OverLimit(OverLimit { .. }) | CallError::TooLong { .. } => {
            let fault = FaultBody(Fault::TooLong);
            send(port, header.with_kind(Kind::Fault), &fault, ANSWER_TIMEOUT)
        }
        error => Err(error),
    };
    match sent {
        Err(CallError::Ended { error, .. }) => Err(ServeError::Ended(error)),
        Err(CallError::NoRoom) => Err(ServeError::ClientStuck),
        _ => Ok(()),
    }
}
