//! Rights that go along with messages, for tests.
//!
//! Written by `tombolo idl compile` from interfaces/rights.tbl.

use tombolo_interface as rt;

rt::record! {
    /// What is sent: rights pass request.
    pub struct RightsPassRequest<'a> => RightsPassRequestView<'m>, apart 64 / 8;
    /// Told the sum, as a message of 8 bytes, little-endian.
    endpoint @ 0: rt::Endpoint<false> => rt::Endpoint<false>,
    /// It is the server's from then on.
    region @ 16: rt::Region<true> => rt::Region<true>,
    /// Perhaps.
    any @ 32: Option<rt::Capability<false>> => Option<rt::Capability<false>>,
    /// Several.
    parts @ 56: &'a [rt::Capability<false>] => rt::List<'m, rt::Capability<false>, 4>,
}

rt::record! {
    /// What answers: rights pass reply.
    pub struct RightsPassReply => RightsPassReplyView<'m>, apart 32 / 8;
    /// The sum.
    sum @ 0: u64 => u64,
    /// A right to read what was the caller's.
    back @ 8: Option<rt::Capability<false>> => Option<rt::Capability<false>>,
}

rt::record! {
    /// What is sent: buffers pass request.
    pub struct BuffersPassRequest<'a> => BuffersPassRequestView<'m>, apart 32 / 8;
    /// They are the server's from then on.
    given @ 0: &'a [rt::Buffer<true>] => rt::List<'m, rt::Buffer<true>, 4>,
    /// The caller keeps it, and the server reads it.
    lent @ 8: Option<rt::Buffer<false>> => Option<rt::Buffer<false>>,
}

rt::record! {
    /// What answers: buffers pass reply.
    pub struct BuffersPassReply => BuffersPassReplyView<'m>, apart 32 / 8;
    /// The sum.
    sum @ 0: u64 => u64,
    /// The first of those that were given.
    back @ 8: Option<rt::Buffer<true>> => Option<rt::Buffer<true>>,
}

rt::interface! {
    /// Passes rights to memory and to endpoints on.
    pub struct Rights = "tombolo.testing.Rights" version 1;
    hash 0x7e6393de63d8dffb, fingerprint 0x90770588f71af1f6;
    capabilities true, buffers false, message_bytes 72;
    client RightsClient<RightsEvents>, server RightsServer;
}

rt::method! {
    /// Of all kinds. The server adds up the bytes of all memory that it is given a right to.
    pub struct RightsPass of Rights @ 1, idempotent false;
    RightsPassRequest<'_> => RightsPassRequestView;
    RightsPassReply => RightsPassReplyView;
    error rt::Never => rt::Never;
}

impl<P: rt::Port, E: RightsEvents> RightsClient<P, E> {
    /// Of all kinds. The server adds up the bytes of all memory that it is given a right to.
    ///
    /// # Errors
    /// [`rt::CallError`]; what the interface declares is in [`Declined`](rt::CallError::Declined).
    #[inline]
    pub fn pass(&mut self, request: &RightsPassRequest<'_>) -> rt::Called<'_, RightsPass, P::Error> {
        self.0.call(request)
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
    /// Of all kinds. The server adds up the bytes of all memory that it is given a right to.
    ///
    /// # Errors
    /// What declines it.
    fn pass(&mut self, call: rt::Call<'_, RightsPass>) -> Result<rt::Response<RightsPassReply>, rt::Decline<rt::Never>>;
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
    fn dispatch<'s>(handler: &'s mut H, request: &rt::Incoming<'_>) -> rt::Outcome<Self::Answers<'s>> {
        match request.what() {
            (rt::Kind::Call, 1) => {
                let result = handler.pass(request.call());
                rt::Outcome::of_sure(result, RightsAnswer::PassReply)
            }
            _ => request.unknown(),
        }
    }
}

rt::interface! {
    /// Passes bulk memory on.
    pub struct Buffers = "tombolo.testing.Buffers" version 1;
    hash 0x59fe21477ee3a955, fingerprint 0x23572504c922e154;
    capabilities false, buffers true, message_bytes 40;
    client BuffersClient<BuffersEvents>, server BuffersServer;
}

rt::method! {
    /// The server adds up the bytes of all buffers, each from its start for as long as it says.
    pub struct BuffersPass of Buffers @ 1, idempotent false;
    BuffersPassRequest<'_> => BuffersPassRequestView;
    BuffersPassReply => BuffersPassReplyView;
    error rt::Never => rt::Never;
}

impl<P: rt::Port, E: BuffersEvents> BuffersClient<P, E> {
    /// The server adds up the bytes of all buffers, each from its start for as long as it says.
    ///
    /// # Errors
    /// [`rt::CallError`]; what the interface declares is in [`Declined`](rt::CallError::Declined).
    #[inline]
    pub fn pass(&mut self, request: &BuffersPassRequest<'_>) -> rt::Called<'_, BuffersPass, P::Error> {
        self.0.call(request)
    }
}

/// Takes the events of [`Buffers`]; `()` takes none.
pub trait BuffersEvents {
}

impl BuffersEvents for () {}

impl<E: BuffersEvents + ?Sized> rt::Hears<E> for Buffers {
    #[inline]
    fn hear(_: &mut E, _: u16, _: rt::Record<'_>) -> Result<bool, rt::Malformed> {
        Ok(false)
    }
}

/// Serves [`Buffers`].
pub trait BuffersHandler {
    /// The server adds up the bytes of all buffers, each from its start for as long as it says.
    ///
    /// # Errors
    /// What declines it.
    fn pass(&mut self, call: rt::Call<'_, BuffersPass>) -> Result<rt::Response<BuffersPassReply>, rt::Decline<rt::Never>>;
}

rt::answers! {
    /// What a server of [`Buffers`] sends back.
    pub enum BuffersAnswer;
    PassReply(BuffersPassReply),
}

impl<H: BuffersHandler + ?Sized> rt::Serves<H> for Buffers {
    type Answers<'s>
        = BuffersAnswer
    where
        H: 's;

    #[inline]
    fn dispatch<'s>(handler: &'s mut H, request: &rt::Incoming<'_>) -> rt::Outcome<Self::Answers<'s>> {
        match request.what() {
            (rt::Kind::Call, 1) => {
                let result = handler.pass(request.call());
                rt::Outcome::of_sure(result, BuffersAnswer::PassReply)
            }
            _ => request.unknown(),
        }
    }
}
