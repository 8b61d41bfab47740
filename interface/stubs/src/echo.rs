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
    EchoNullRequest;
    EchoNullReply => EchoNullReplyView;
    error rt::Never => rt::Never;
}

rt::method! {
    /// Data comes back as it is.
    pub struct EchoEcho of Echo @ 2, idempotent true;
    EchoEchoRequest<'_>;
    EchoEchoReply<'a> => EchoEchoReplyView;
    error rt::Never => rt::Never;
}

impl<P: rt::Port, E: EchoEvents> EchoClient<P, E> {
    /// Nothing, there and back.
    ///
    /// # Errors
    /// [`rt::CallError`]; an error that the interface declares is given to `read`.
    #[inline]
    pub fn null<R>(
        &mut self,
        request: &EchoNullRequest,
        timeout: core::time::Duration,
        read: impl FnOnce(Result<EchoNullReplyView<'_>, rt::Never>) -> Result<R, rt::Malformed>,
    ) -> Result<R, rt::CallError<P::Error>> {
        self.0.call(request, timeout, read)
    }

    /// Data comes back as it is.
    ///
    /// # Errors
    /// [`rt::CallError`]; an error that the interface declares is given to `read`.
    #[inline]
    pub fn echo<R>(
        &mut self,
        request: &EchoEchoRequest<'_>,
        timeout: core::time::Duration,
        read: impl FnOnce(Result<EchoEchoReplyView<'_>, rt::Never>) -> Result<R, rt::Malformed>,
    ) -> Result<R, rt::CallError<P::Error>> {
        self.0.call(request, timeout, read)
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
    /// What declines it, or that it is answered later.
    fn null(
        &mut self,
        call: rt::Later<EchoNull>,
        request: EchoNullRequestView<'_>,
    ) -> Result<EchoNullReply, rt::Decline<rt::Never>>;

    /// Data comes back as it is.
    ///
    /// # Errors
    /// What declines it, or that it is answered later.
    fn echo<'s>(
        &'s mut self,
        call: rt::Later<EchoEcho>,
        request: EchoEchoRequestView<'_>,
    ) -> Result<EchoEchoReply<'s>, rt::Decline<rt::Never>>;
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
    fn dispatch<'s>(handler: &'s mut H, request: rt::Incoming<'_>) -> rt::Answer<Self::Answers<'s>> {
        match request.what() {
            (rt::Kind::Call, 1) => {
                let result = handler.null(request.later(), request.view());
                rt::Answer::of_sure(result, EchoAnswer::NullReply)
            }
            (rt::Kind::Call, 2) => {
                let result = handler.echo(request.later(), request.view());
                rt::Answer::of_sure(result, EchoAnswer::EchoReply)
            }
            _ => request.unknown(),
        }
    }
}
