//! The interface by which `tombolo bench rpc` measures calls.
//!
//! Written by `tombolo idl compile` from interfaces/echo.tbl.

use tombolo_interface as rt;

/// The longest data, in bytes.
pub const MAX_DATA: u64 = 65536;

rt::record! {
    /// The parameters of a message: echo null request.
    pub struct EchoNullRequest => EchoNullRequestView<'m>, apart 0 / 8;
}

rt::record! {
    /// The results of a call: echo null reply.
    pub struct EchoNullReply => EchoNullReplyView<'m>, apart 0 / 8;
}

rt::record! {
    /// The parameters of a message: echo echo request.
    pub struct EchoEchoRequest<'a> => EchoEchoRequestView<'m>, apart 8 / 8;
    /// `data`, up to 65536 bytes.
    data @ 0: &'a [u8] => rt::Blob<'m, 65536>,
}

rt::record! {
    /// The results of a call: echo echo reply.
    pub struct EchoEchoReply<'a> => EchoEchoReplyView<'m>, apart 8 / 8;
    /// `data`, up to 65536 bytes.
    data @ 0: &'a [u8] => rt::Blob<'m, 65536>,
}

rt::interface! {
    /// Answers calls immediately.
    pub struct Echo = "tombolo.bench.Echo" version 1;
    hash 0xcc62e016a1a74357, fingerprint 0xf273bb2bcba33c44;
    capabilities false, buffers false, message_bytes 16;
    client EchoClient<EchoEvents>, server EchoServer;
}

rt::method! {
    /// Sends nothing and returns nothing.
    pub struct EchoNull of Echo @ 1, idempotent true;
    EchoNullRequest => EchoNullRequestView;
    EchoNullReply => EchoNullReplyView;
    error rt::Never => rt::Never;
}

rt::method! {
    /// Returns the data unchanged.
    pub struct EchoEcho of Echo @ 2, idempotent true;
    EchoEchoRequest<'_> => EchoEchoRequestView;
    EchoEchoReply<'a> => EchoEchoReplyView;
    error rt::Never => rt::Never;
}

impl<P: rt::Port, E: EchoEvents> EchoClient<P, E> {
    /// Sends nothing and returns nothing.
    ///
    /// # Errors
    /// [`rt::CallError`]. An error that the interface declares is in [`Declined`](rt::CallError::Declined).
    #[inline]
    pub fn null(&mut self, request: &EchoNullRequest) -> rt::Called<'_, EchoNull, P::Error> {
        self.0.call(request)
    }

    /// Returns the data unchanged.
    ///
    /// # Errors
    /// [`rt::CallError`]. An error that the interface declares is in [`Declined`](rt::CallError::Declined).
    #[inline]
    pub fn echo(&mut self, request: &EchoEchoRequest<'_>) -> rt::Called<'_, EchoEcho, P::Error> {
        self.0.call(request)
    }
}

/// Handles the events of [`Echo`]; `()` ignores them.
pub trait EchoEvents {
}

impl EchoEvents for () {}

impl<E: EchoEvents + ?Sized> rt::Hears<E> for Echo {
    #[inline]
    fn hear(_: &mut E, _: u16, _: rt::Record<'_>) -> Result<bool, rt::Malformed> {
        Ok(false)
    }
}

/// Handles the calls and messages of [`Echo`].
pub trait EchoHandler {
    /// Sends nothing and returns nothing.
    ///
    /// # Errors
    /// The call is declined with the error.
    fn null(&mut self, call: rt::Call<'_, EchoNull>) -> Result<rt::Response<EchoNullReply>, rt::Decline<rt::Never>>;

    /// Returns the data unchanged.
    ///
    /// # Errors
    /// The call is declined with the error.
    fn echo<'s>(&'s mut self, call: rt::Call<'_, EchoEcho>) -> Result<rt::Response<EchoEchoReply<'s>>, rt::Decline<rt::Never>>;
}

rt::answers! {
    /// Answers of a server of [`Echo`].
    pub enum EchoAnswer<'s>;
    NullReply(EchoNullReply),
    EchoReply(EchoEchoReply<'s>),
}

impl<H: EchoHandler + ?Sized> rt::Serves<H> for Echo {
    type Answers<'s>
        = EchoAnswer<'s>
    where
        H: 's;

    #[inline]
    fn dispatch<'s>(handler: &'s mut H, request: &rt::Incoming<'_>) -> rt::Outcome<Self::Answers<'s>> {
        match request.what() {
            (rt::Kind::Call, 1) => {
                let result = handler.null(request.call());
                rt::Outcome::of_sure(result, EchoAnswer::NullReply)
            }
            (rt::Kind::Call, 2) => {
                let result = handler.echo(request.call());
                rt::Outcome::of_sure(result, EchoAnswer::EchoReply)
            }
            _ => request.unknown(),
        }
    }
}
