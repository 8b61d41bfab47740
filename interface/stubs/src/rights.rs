//! Capabilities and bulk memory, for tests of links that cannot carry them.
//!
//! Written by `tombolo idl compile` from interfaces/rights.tbl.

use tombolo_interface as rt;
#[allow(unused_imports, reason = "messages without fields put none")]
use rt::Encode as _;

/// What is sent: rights pass request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RightsPassRequest<'a> {
    /// `endpoint`.
    pub endpoint: rt::Endpoint<false>,
    /// `region`.
    pub region: rt::Region<true>,
    /// `any`.
    pub any: Option<rt::Capability<false>>,
    /// `buffers`, up to 2.
    pub buffers: &'a [rt::Buffer<true>],
}

impl rt::Body for RightsPassRequest<'_> {
    #[inline(always)]
    fn record_bytes(&self) -> u32 {
        64
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        let mut bytes = 0;
        bytes += rt::encode::measure::list(self.buffers, 2, 16, "RightsPassRequest.buffers", |_| Ok(0))?;
        Ok(bytes)
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {
        self.endpoint.put(place, at, out);
        self.region.put(place, at + 16, out);
        self.any.put(place, at + 32, out);
        self.buffers.put(place, at + 56, out);
    }
}

/// [`RightsPassRequest`] where it lies in a message.
#[derive(Clone, Copy, Debug)]
pub struct RightsPassRequestView<'m> {
    record: rt::Record<'m>,
}

impl<'m> From<rt::Record<'m>> for RightsPassRequestView<'m> {
    #[inline]
    fn from(record: rt::Record<'m>) -> Self {
        RightsPassRequestView { record }
    }
}

impl<'m> RightsPassRequestView<'m> {
    /// `endpoint`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn endpoint(&self) -> Result<rt::Endpoint<false>, rt::Malformed> {
        rt::View::view(self.record, 0)
    }

    /// `region`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn region(&self) -> Result<rt::Region<true>, rt::Malformed> {
        rt::View::view(self.record, 16)
    }

    /// `any`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn any(&self) -> Result<Option<rt::Capability<false>>, rt::Malformed> {
        rt::View::view(self.record, 32)
    }

    /// `buffers`, up to 2.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn buffers(&self) -> Result<rt::List<'m, rt::Buffer<true>, 2>, rt::Malformed> {
        rt::View::view(self.record, 56)
    }
}

impl<'m> rt::View<'m> for RightsPassRequestView<'m> {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: rt::Record<'m>, at: u32) -> Result<Self, rt::Malformed> {
        record.record(at).map(Self::from)
    }

    fn check(&self, budget: &mut rt::Budget) -> Result<(), rt::Malformed> {
        self.record.spend(budget)?;
        self.endpoint()?;
        self.region()?;
        self.any()?.check(budget)?;
        self.buffers()?.check(budget)?;
        Ok(())
    }
}

/// What answers: rights pass reply.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RightsPassReply;

impl rt::Body for RightsPassReply {
    #[inline(always)]
    fn record_bytes(&self) -> u32 {
        0
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        Ok(0)
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        _: &mut rt::encode::Place,
        _: u32,
        _: &mut rt::encode::Out<'_, K>,
    ) {
    }
}

/// [`RightsPassReply`] where it lies in a message.
#[derive(Clone, Copy, Debug)]
pub struct RightsPassReplyView<'m> {
    record: rt::Record<'m>,
}

impl<'m> From<rt::Record<'m>> for RightsPassReplyView<'m> {
    #[inline]
    fn from(record: rt::Record<'m>) -> Self {
        RightsPassReplyView { record }
    }
}

impl<'m> rt::View<'m> for RightsPassReplyView<'m> {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: rt::Record<'m>, at: u32) -> Result<Self, rt::Malformed> {
        record.record(at).map(Self::from)
    }

    fn check(&self, budget: &mut rt::Budget) -> Result<(), rt::Malformed> {
        self.record.spend(budget)?;
        Ok(())
    }
}

/// Passes rights on.
#[derive(Clone, Copy, Debug)]
pub struct Rights;

impl Rights {
    /// Package and name.
    pub const NAME: &'static str = "tombolo.testing.Rights";
    /// Grows when peers of before cannot be served.
    pub const VERSION: u32 = 1;
    /// What both sides of a channel must have in common, of package, name and version.
    pub const HASH: u64 = 0x7e6393de63d8dffb;
    /// Of everything that peers can notice.
    pub const FINGERPRINT: u64 = 0x96999c2c98922066;
    /// What the link must be able to carry.
    pub const NEEDS: rt::client::Needs = rt::client::Needs {
        carries: rt::Carries { capabilities: true, buffers: true },
        message_bytes: 72,
    };
}

/// The call `pass`, as a type.
#[derive(Clone, Copy, Debug)]
pub struct RightsPass;

impl rt::Method for RightsPass {
    const ORDINAL: u16 = 1;
    const IDEMPOTENT: bool = false;
    type Reply<'m> = RightsPassReplyView<'m>;
    type Error<'m> = rt::Never;
}

/// The calling side of [`Rights`]. `E` takes its events.
#[derive(Debug)]
pub struct RightsClient<P, E = ()> {
    client: rt::Client<P>,
    events: E,
}

impl<P: rt::Port, E: RightsEvents> RightsClient<P, E> {
    /// A client over a channel that was opened with [`Rights::HASH`].
    ///
    /// # Errors
    /// The link lacks what the interface needs.
    pub fn bind(port: P, events: E) -> Result<Self, rt::BindError> {
        let client = rt::Client::bind(port, Rights::NEEDS, rt::client::MAX_IN_FLIGHT)?;
        Ok(RightsClient { client, events })
    }

    /// What has passed.
    #[must_use]
    pub fn counts(&self) -> rt::client::Counts {
        self.client.counts()
    }

    /// The channel.
    pub fn port(&mut self) -> &mut P {
        self.client.port()
    }

    /// What takes the events.
    pub fn events(&mut self) -> &mut E {
        &mut self.events
    }

    /// Takes what has arrived, without waiting.
    ///
    /// # Errors
    /// The channel has ended; answers that arrived before can still be waited for.
    pub fn poll(&mut self) -> Result<(), P::Error> {
        let Self { client, events } = self;
        client.poll(&mut |ordinal, body| events.dispatch(ordinal, body))
    }

    /// Whether waiting for a call would return at once.
    #[must_use]
    pub fn is_ready<M>(&self, call: &rt::Pending<M>) -> bool {
        self.client.is_ready(call)
    }

    /// Gives a call up; the server is told.
    pub fn cancel<M>(&mut self, call: rt::Pending<M>) {
        self.client.cancel(call);
    }

    /// Of all kinds.
    ///
    /// The answer is read where it lies.
    ///
    /// # Errors
    /// [`rt::CallError`]; an error that the interface declares is given to `read`.
    #[inline]
    pub fn pass<R>(
        &mut self,
        request: &RightsPassRequest<'_>,
        timeout: core::time::Duration,
        read: impl FnOnce(Result<RightsPassReplyView<'_>, rt::Never>) -> Result<R, rt::Malformed>,
    ) -> Result<R, rt::CallError<P::Error>> {
        let call = self.start_pass(request, timeout)?;
        self.wait_pass(call, read)
    }

    /// Calls `pass` without waiting for its answer.
    ///
    /// # Errors
    /// [`rt::CallError`]: nothing was sent.
    #[inline]
    pub fn start_pass(
        &mut self,
        request: &RightsPassRequest<'_>,
        timeout: core::time::Duration,
    ) -> Result<rt::Pending<RightsPass>, rt::CallError<P::Error>> {
        self.client.start::<RightsPass>(request, timeout)
    }

    /// Waits for the answer to `pass`.
    ///
    /// # Errors
    /// [`rt::CallError`]; an error that the interface declares is given to `read`.
    #[inline]
    pub fn wait_pass<R>(
        &mut self,
        call: rt::Pending<RightsPass>,
        read: impl FnOnce(Result<RightsPassReplyView<'_>, rt::Never>) -> Result<R, rt::Malformed>,
    ) -> Result<R, rt::CallError<P::Error>> {
        let Self { client, events } = self;
        client.wait::<RightsPass, R>(call, &mut |ordinal, body| events.dispatch(ordinal, body), read)
    }
}

/// Takes the events of [`Rights`]; `()` takes none.
pub trait RightsEvents {
    /// Passes an event on; false if its ordinal is unknown.
    ///
    /// # Errors
    /// It could not be read.
    fn dispatch(&mut self, ordinal: u16, body: rt::Record<'_>) -> Result<bool, rt::Malformed> {
        let _ = (ordinal, body);
        Ok(false)
    }
}

impl RightsEvents for () {}

/// Serves [`Rights`].
pub trait RightsHandler {
    /// Of all kinds.
    ///
    /// # Errors
    /// What declines it, or that it is answered later.
    fn pass(
        &mut self,
        call: rt::Later,
        request: RightsPassRequestView<'_>,
    ) -> Result<RightsPassReply, rt::Decline<rt::Never>>;
}

enum RightsReply {
    Pass(RightsPassReply),
}

impl rt::Body for RightsReply {
    #[inline]
    fn record_bytes(&self) -> u32 {
        match self {
            RightsReply::Pass(body) => body.record_bytes(),
        }
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        match self {
            RightsReply::Pass(body) => body.measure(),
        }
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {
        match self {
            RightsReply::Pass(body) => body.fields(place, at, out),
        }
    }
}

/// The serving side of [`Rights`].
#[derive(Debug)]
pub struct RightsServer<P> {
    server: rt::Server<P>,
}

impl<P: rt::Port> RightsServer<P> {
    /// A server over a channel that was opened with [`Rights::HASH`].
    ///
    /// # Errors
    /// The link lacks what the interface needs.
    pub fn bind(port: P) -> Result<Self, rt::BindError> {
        rt::Server::bind(port, Rights::NEEDS).map(|server| RightsServer { server })
    }

    /// What has passed.
    #[must_use]
    pub fn counts(&self) -> rt::client::Counts {
        self.server.counts()
    }

    /// The channel.
    pub fn port(&mut self) -> &mut P {
        self.server.port()
    }

    /// Whether somebody still waits for the answer to a call.
    #[must_use]
    pub fn is_outstanding(&self, call: rt::Later) -> bool {
        self.server.is_outstanding(call)
    }

    /// Takes one message, waiting for it up to `timeout`, and answers it if it is a call. Says whether one came.
    ///
    /// # Errors
    /// [`rt::ServeError`]: the channel is of no use any more.
    #[inline]
    pub fn serve_one(
        &mut self,
        handler: &mut impl RightsHandler,
        timeout: core::time::Duration,
    ) -> Result<bool, rt::ServeError<P::Error>> {
        self.server.serve::<RightsReply, rt::Never>(timeout, |header, call, body| match (header.kind, header.ordinal) {
            (rt::Kind::Call, 1) => rt::server::Answer::of(
                handler.pass(call, body.into()),
                RightsReply::Pass,
                |never| match never {},
            ),
            (rt::Kind::Call, _) => rt::server::Answer::Fault(rt::Fault::Unknown),
            _ => rt::server::Answer::Unknown,
        })
    }

    /// Answers a call of `pass` later.
    ///
    /// # Errors
    /// [`rt::ReplyError`]: it was not sent.
    pub fn reply_pass(
        &mut self,
        call: rt::Later,
        result: Result<RightsPassReply, rt::Never>,
        timeout: core::time::Duration,
    ) -> Result<(), rt::ReplyError<P::Error>> {
        self.server.reply(call, 1, result, timeout)
    }
}
