//! What `tombolo bench rpc` measures calls with.
//!
//! Written by `tombolo idl compile` from interfaces/echo.tbl.

use tombolo_interface as rt;

/// The longest data, in bytes.
pub const MAX_DATA: u64 = 65536;

rt::record! {
    /// What is sent: echo null request.
    pub struct EchoNullRequest => EchoNullRequestView<'m>, apart 0 / 8;
}

rt::record! {
    /// What answers: echo null reply.
    pub struct EchoNullReply => EchoNullReplyView<'m>, apart 0 / 8;
}

rt::record! {
    /// What is sent: echo echo request.
    pub struct EchoEchoRequest<'a> => EchoEchoRequestView<'m>, apart 8 / 8;
    /// `data`, up to 65536 bytes.
    data @ 0: &'a [u8] => rt::Blob<'m, 65536>,
}

rt::record! {
    /// What answers: echo echo reply.
    pub struct EchoEchoReply<'a> => EchoEchoReplyView<'m>, apart 8 / 8;
    /// `data`, up to 65536 bytes.
    data @ 0: &'a [u8] => rt::Blob<'m, 65536>,
}

rt::interface! {
    /// Answers at once.
    pub struct Echo = "tombolo.bench.Echo" version 1;
    hash 0xcc62e016a1a74357, fingerprint 0xf273bb2bcba33c44;
    capabilities false, buffers false, message_bytes 16;
    client EchoClient<EchoEvents>, server EchoServer;
}

rt::method! {
    /// Nothing, there and back.
    pub struct EchoNull of Echo @ 1, idempotent true;
    EchoNullRequest => EchoNullRequestView;
    EchoNullReply => EchoNullReplyView;
    error rt::Never => rt::Never;
}

rt::method! {
    /// Data comes back as it is.
    pub struct EchoEcho of Echo @ 2, idempotent true;
    EchoEchoRequest<'_> => EchoEchoRequestView;
    EchoEchoReply<'a> => EchoEchoReplyView;
    error rt::Never => rt::Never;
}

impl<P: rt::Port, E: EchoEvents> EchoClient<P, E> {
    /// Nothing, there and back.
    ///
    /// # Errors
    /// [`rt::CallError`]; what the interface declares is in [`Declined`](rt::CallError::Declined).
    #[inline]
    pub fn null(&mut self, request: &EchoNullRequest) -> rt::Called<'_, EchoNull, P::Error> {
        self.0.call(request)
    }

    /// Data comes back as it is.
    ///
    /// # Errors
    /// [`rt::CallError`]; what the interface declares is in [`Declined`](rt::CallError::Declined).
    #[inline]
    pub fn echo(&mut self, request: &EchoEchoRequest<'_>) -> rt::Called<'_, EchoEcho, P::Error> {
        self.0.call(request)
    }
}

/// Takes the events of [`Echo`]; `()` takes none.
pub trait EchoEvents {
}

impl EchoEvents for () {}

impl<E: EchoEvents + ?Sized> rt::Hears<E> for Echo {
    #[inline]
    fn hear(_: &mut E, _: u16, _: rt::Record<'_>) -> Result<bool, rt::Malformed> {
        Ok(false)
    }
}

/// Serves [`Echo`].
pub trait EchoHandler {
    /// Nothing, there and back.
    ///
    /// # Errors
    /// What declines it.
    fn null(&mut self, call: rt::Call<'_, EchoNull>) -> Result<rt::Response<EchoNullReply>, rt::Decline<rt::Never>>;

    /// Data comes back as it is.
    ///
    /// # Errors
    /// What declines it.
    fn echo<'s>(&'s mut self, call: rt::Call<'_, EchoEcho>) -> Result<rt::Response<EchoEchoReply<'s>>, rt::Decline<rt::Never>>;
}

rt::answers! {
    /// What a server of [`Echo`] sends back.
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
