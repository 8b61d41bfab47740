//! Capabilities and buffers passed in messages, for tests.
//!
//! Written by `tombolo idl compile` from interfaces/rights.tbl.

use tombolo_interface as rt;

rt::record! {
    /// The parameters of a message: rights pass request.
    pub struct RightsPassRequest<'a> => RightsPassRequestView<'m>, apart 64 / 8;
    /// The endpoint to which the server sends the sum, as a message of 8 bytes, little-endian.
    endpoint @ 0: rt::Endpoint<false> => rt::Endpoint<false>,
    /// Memory that the server owns from then on.
    region @ 16: rt::Region<true> => rt::Region<true>,
    /// An optional capability.
    any @ 32: Option<rt::Capability<false>> => Option<rt::Capability<false>>,
    /// Several capabilities.
    parts @ 56: &'a [rt::Capability<false>] => rt::List<'m, rt::Capability<false>, 4>,
}

rt::record! {
    /// The results of a call: rights pass reply.
    pub struct RightsPassReply => RightsPassReplyView<'m>, apart 32 / 8;
    /// The sum of all bytes.
    sum @ 0: u64 => u64,
    /// A capability to read the moved region.
    back @ 8: Option<rt::Capability<false>> => Option<rt::Capability<false>>,
}

rt::record! {
    /// The parameters of a message: buffers pass request.
    pub struct BuffersPassRequest<'a> => BuffersPassRequestView<'m>, apart 32 / 8;
    /// Buffers that the server owns from then on.
    given @ 0: &'a [rt::Buffer<true>] => rt::List<'m, rt::Buffer<true>, 4>,
    /// A buffer that the caller keeps and the server reads.
    lent @ 8: Option<rt::Buffer<false>> => Option<rt::Buffer<false>>,
}

rt::record! {
    /// The results of a call: buffers pass reply.
    pub struct BuffersPassReply => BuffersPassReplyView<'m>, apart 32 / 8;
    /// The sum of all bytes.
    sum @ 0: u64 => u64,
    /// The first of the given buffers.
    back @ 8: Option<rt::Buffer<true>> => Option<rt::Buffer<true>>,
}

rt::interface! {
    /// Passes capabilities to memory and to endpoints.
    pub struct Rights = "tombolo.testing.Rights" version 1;
    hash 0x7e6393de63d8dffb, fingerprint 0x90770588f71af1f6;
    capabilities true, buffers false, message_bytes 72;
    client RightsClient<RightsEvents>, server RightsServer;
}

rt::method! {
    /// Passes capabilities of all kinds. The server adds up the bytes of all memory that it gets access to.
    pub struct RightsPass of Rights @ 1, idempotent false;
    RightsPassRequest<'_> => RightsPassRequestView;
    RightsPassReply => RightsPassReplyView;
    error rt::Never => rt::Never;
}

impl<P: rt::Port, E: RightsEvents> RightsClient<P, E> {
    /// Passes capabilities of all kinds. The server adds up the bytes of all memory that it gets access to.
    ///
    /// # Errors
    /// [`rt::CallError`]. An error that the interface declares is in [`Declined`](rt::CallError::Declined).
    #[inline]
    pub fn pass(&mut self, request: &RightsPassRequest<'_>) -> rt::Called<'_, RightsPass, P::Error> {
        self.0.call(request)
    }
}

/// Handles the events of [`Rights`]; `()` ignores them.
pub trait RightsEvents {
}

impl RightsEvents for () {}

impl<E: RightsEvents + ?Sized> rt::Hears<E> for Rights {
    #[inline]
    fn hear(_: &mut E, _: u16, _: rt::Record<'_>) -> Result<bool, rt::Malformed> {
        Ok(false)
    }
}

/// Handles the calls and messages of [`Rights`].
pub trait RightsHandler {
    /// Passes capabilities of all kinds. The server adds up the bytes of all memory that it gets access to.
    ///
    /// # Errors
    /// The call is declined with the error.
    fn pass(&mut self, call: rt::Call<'_, RightsPass>) -> Result<rt::Response<RightsPassReply>, rt::Decline<rt::Never>>;
}

rt::answers! {
    /// Answers of a server of [`Rights`].
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
    /// Passes buffers of bulk channels.
    pub struct Buffers = "tombolo.testing.Buffers" version 1;
    hash 0x59fe21477ee3a955, fingerprint 0x23572504c922e154;
    capabilities false, buffers true, message_bytes 40;
    client BuffersClient<BuffersEvents>, server BuffersServer;
}

rt::method! {
    /// Passes buffers. The server adds up the bytes of the selected part of each.
    pub struct BuffersPass of Buffers @ 1, idempotent false;
    BuffersPassRequest<'_> => BuffersPassRequestView;
    BuffersPassReply => BuffersPassReplyView;
    error rt::Never => rt::Never;
}

impl<P: rt::Port, E: BuffersEvents> BuffersClient<P, E> {
    /// Passes buffers. The server adds up the bytes of the selected part of each.
    ///
    /// # Errors
    /// [`rt::CallError`]. An error that the interface declares is in [`Declined`](rt::CallError::Declined).
    #[inline]
    pub fn pass(&mut self, request: &BuffersPassRequest<'_>) -> rt::Called<'_, BuffersPass, P::Error> {
        self.0.call(request)
    }
}

/// Handles the events of [`Buffers`]; `()` ignores them.
pub trait BuffersEvents {
}

impl BuffersEvents for () {}

impl<E: BuffersEvents + ?Sized> rt::Hears<E> for Buffers {
    #[inline]
    fn hear(_: &mut E, _: u16, _: rt::Record<'_>) -> Result<bool, rt::Malformed> {
        Ok(false)
    }
}

/// Handles the calls and messages of [`Buffers`].
pub trait BuffersHandler {
    /// Passes buffers. The server adds up the bytes of the selected part of each.
    ///
    /// # Errors
    /// The call is declined with the error.
    fn pass(&mut self, call: rt::Call<'_, BuffersPass>) -> Result<rt::Response<BuffersPassReply>, rt::Decline<rt::Never>>;
}

rt::answers! {
    /// Answers of a server of [`Buffers`].
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
