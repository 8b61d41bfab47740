//! A service that greets: the smallest typed call.
//!
//! Written by `tombolo idl compile` from interfaces/greeter.tbl.

use tombolo_interface as rt;

rt::record! {
    /// The parameters of a message: greeter greet request.
    pub struct GreeterGreetRequest<'a> => GreeterGreetRequestView<'m>, apart 8 / 8;
    /// `name`, up to 64 bytes.
    name @ 0: &'a str => rt::Text<'m, 64>,
}

rt::record! {
    /// The results of a call: greeter greet reply.
    pub struct GreeterGreetReply<'a> => GreeterGreetReplyView<'m>, apart 8 / 8;
    /// `greeting`, up to 128 bytes.
    greeting @ 0: &'a str => rt::Text<'m, 128>,
}

rt::interface! {
    /// Greets by name.
    pub struct Greeter = "example.greeter.Greeter" version 1;
    hash 0x7c8380208b766fea, fingerprint 0x6ede78eccb49fdbd;
    capabilities false, buffers false, message_bytes 16;
    client GreeterClient<GreeterEvents>, server GreeterServer;
}

rt::method! {
    /// Returns a greeting for a name.
    pub struct GreeterGreet of Greeter @ 1, idempotent false;
    GreeterGreetRequest<'_> => GreeterGreetRequestView;
    GreeterGreetReply<'a> => GreeterGreetReplyView;
    error rt::Never => rt::Never;
}

impl<P: rt::Port, E: GreeterEvents> GreeterClient<P, E> {
    /// Returns a greeting for a name.
    ///
    /// # Errors
    /// [`rt::CallError`]. An error that the interface declares is in [`Declined`](rt::CallError::Declined).
    #[inline]
    pub fn greet(&mut self, request: &GreeterGreetRequest<'_>) -> rt::Called<'_, GreeterGreet, P::Error> {
        self.0.call(request)
    }
}

/// Handles the events of [`Greeter`]; `()` ignores them.
pub trait GreeterEvents {
}

impl GreeterEvents for () {}

impl<E: GreeterEvents + ?Sized> rt::Hears<E> for Greeter {
    #[inline]
    fn hear(_: &mut E, _: u16, _: rt::Record<'_>) -> Result<bool, rt::Malformed> {
        Ok(false)
    }
}

/// Handles the calls and messages of [`Greeter`].
pub trait GreeterHandler {
    /// Returns a greeting for a name.
    ///
    /// # Errors
    /// The call is declined with the error.
    fn greet<'s>(&'s mut self, call: rt::Call<'_, GreeterGreet>) -> Result<rt::Response<GreeterGreetReply<'s>>, rt::Decline<rt::Never>>;
}

rt::answers! {
    /// Answers of a server of [`Greeter`].
    pub enum GreeterAnswer<'s>;
    GreetReply(GreeterGreetReply<'s>),
}

impl<H: GreeterHandler + ?Sized> rt::Serves<H> for Greeter {
    type Answers<'s>
        = GreeterAnswer<'s>
    where
        H: 's;

    #[inline]
    fn dispatch<'s>(handler: &'s mut H, request: &rt::Incoming<'_>) -> rt::Outcome<Self::Answers<'s>> {
        match request.what() {
            (rt::Kind::Call, 1) => {
                let result = handler.greet(request.call());
                rt::Outcome::of_sure(result, GreeterAnswer::GreetReply)
            }
            _ => request.unknown(),
        }
    }
}
