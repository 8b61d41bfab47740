//! Capabilities and bulk memory, for tests of links that cannot carry them.
//!
//! Written by `tombolo idl compile` from interfaces/rights.tbl.

use tombolo_interface as rt;

rt::record! {
    /// What is sent: rights pass request.
    pub struct RightsPassRequest<'a> => RightsPassRequestView<'m>, apart 64 / 8;
    /// `endpoint`.
    endpoint @ 0: rt::Endpoint<false> => rt::Endpoint<false>,
    /// `region`.
    region @ 16: rt::Region<true> => rt::Region<true>,
    /// `any`.
    any @ 32: Option<rt::Capability<false>> => Option<rt::Capability<false>>,
    /// `buffers`, up to 2.
    buffers @ 56: &'a [rt::Buffer<true>] => rt::List<'m, rt::Buffer<true>, 2>,
}

rt::record! {
    /// What answers: rights pass reply.
    pub struct RightsPassReply => RightsPassReplyView<'m>, apart 0 / 8;
}

rt::interface! {
    /// Passes rights on.
    pub struct Rights = "tombolo.testing.Rights" version 1;
    hash 0x7e6393de63d8dffb, fingerprint 0x96999c2c98922066;
    capabilities true, buffers true, message_bytes 72;
    client RightsClient<RightsEvents>, server RightsServer;
}

rt::method! {
    /// Of all kinds.
    pub struct RightsPass of Rights @ 1, idempotent false;
    RightsPassRequest<'_>;
    RightsPassReply => RightsPassReplyView;
    error rt::Never => rt::Never;
}

impl<P: rt::Port, E: RightsEvents> RightsClient<P, E> {
    /// Of all kinds.
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
        self.0.call(request, timeout, read)
    }
}

/// Takes the events of [`Rights`]; `()` takes none.
pub trait RightsEvents {
}

impl RightsEvents for () {}

impl<E: RightsEvents + ?Sized> rt::Hears<E> for Rights {
    #[inline]
    fn hear(_: &mut E, _: u16, _: rt::Record<'_>) -> Result<bool, rt::Malformed> {
        Ok(false)
    }
}

/// Serves [`Rights`].
pub trait RightsHandler {
    /// Of all kinds.
    ///
    /// # Errors
    /// What declines it, or that it is answered later.
    fn pass(
        &mut self,
        call: rt::Later<RightsPass>,
        request: RightsPassRequestView<'_>,
    ) -> Result<RightsPassReply, rt::Decline<rt::Never>>;
}

rt::answers! {
    /// What a server of [`Rights`] sends back.
    pub enum RightsAnswer;
    PassReply(RightsPassReply),
}

impl<H: RightsHandler + ?Sized> rt::Serves<H> for Rights {
    type Answers<'s>
        = RightsAnswer
    where
        H: 's;

    #[inline]
    fn dispatch<'s>(handler: &'s mut H, request: rt::Incoming<'_>) -> rt::Answer<Self::Answers<'s>> {
        match request.what() {
            (rt::Kind::Call, 1) => {
                let result = handler.pass(request.later(), request.view());
                rt::Answer::of_sure(result, RightsAnswer::PassReply)
            }
            _ => request.unknown(),
        }
    }
}
