//! What an interface and its messages are to clients and servers: stubs declare it, with
//! [`interface!`](crate::interface) and its like.

use core::marker::PhantomData;

use crate::client::Needs;
use crate::encode::{Body, Encode, Out, Place, round_up};
use crate::error::{Malformed, OverLimit};
use crate::fits::Fits;
use crate::server::{Incoming, Outcome};
use crate::source::Sink;
use crate::view::{Never, Record, View};

/// An interface, as a type.
pub trait Interface {
    /// Package and name.
    const NAME: &'static str;
    /// Grows when peers of before cannot be served.
    const VERSION: u32;
    /// What both sides of a channel must have in common, of package, name and version.
    const HASH: u64;
    /// Of everything that peers can notice.
    const FINGERPRINT: u64;
    /// What the link must be able to carry.
    const NEEDS: Needs;
}

/// A call of an interface, as a type.
pub trait Method {
    /// Where it belongs.
    type Interface: Interface;
    /// Its ordinal.
    const ORDINAL: u16;
    /// Whether it may be repeated when it is unknown whether it was served.
    const IDEMPOTENT: bool;
    /// What it carries, read.
    type RequestView<'m>: From<Record<'m>>;
    /// Its results, sent.
    type Reply<'a>: Body;
    /// Its results, read.
    type ReplyView<'m>: From<Record<'m>>;
    /// Its error, sent; [`Never`] if it declares none.
    type Error<'a>: Encode;
    /// Its error, read; [`Never`] if it declares none.
    type ErrorView<'m>: View<'m> + core::fmt::Debug + for<'a> Fits<Self::Error<'a>>;
}

/// What a call carries: its type says which call it is.
pub trait Request: Body {
    /// The call.
    type Method: Method;
}

/// What a one-way message carries, to the server.
pub trait OneWay: Body {
    /// Where it belongs.
    type Interface: Interface;
    /// Its ordinal.
    const ORDINAL: u16;
}

/// What a one-way message carries, to the client.
pub trait Event: Body {
    /// Where it belongs.
    type Interface: Interface;
    /// Its ordinal.
    const ORDINAL: u16;
}

/// How `E` takes the events of an interface.
pub trait Hears<E: ?Sized>: Interface {
    /// Passes one on; false if its ordinal is unknown.
    ///
    /// # Errors
    /// It could not be read.
    fn hear(events: &mut E, ordinal: u16, body: Record<'_>) -> Result<bool, Malformed>;
}

/// How `H` serves the calls and messages of an interface.
pub trait Serves<H: ?Sized>: Interface {
    /// What answers them, results and declared errors alike.
    type Answers<'s>: Body
    where
        H: 's;

    /// Has one served.
    fn dispatch<'s>(handler: &'s mut H, request: &Incoming<'_>) -> Outcome<Self::Answers<'s>>;
}

/// The body of an answer that declines a call: the declared error.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Declined<M, E> {
    error: E,
    of: PhantomData<fn() -> M>,
}

impl<M, E> Declined<M, E> {
    /// Of a call `M`.
    #[inline]
    pub(crate) fn new(error: E) -> Self {
        Declined { error, of: PhantomData }
    }
}

impl<M> Declined<M, Never> {
    /// What becomes of one that cannot be.
    #[inline]
    pub(crate) fn never<B>(self) -> B {
        match self.error {}
    }
}

impl<M: Method, E: Encode> Body for Declined<M, E>
where
    M::ErrorView<'static>: Fits<E>,
{
    #[inline]
    fn record_bytes(&self) -> u32 {
        round_up(E::BYTES)
    }

    #[inline]
    fn measure(&self) -> Result<usize, OverLimit> {
        <M::ErrorView<'static> as Fits<E>>::outside(&self.error, "error")
    }

    #[inline]
    fn fields<K: Sink + ?Sized>(&self, place: &mut Place, at: u32, out: &mut Out<'_, K>) {
        self.error.put(place, at, out);
    }
}

/// The body of an answer that cannot be: for interfaces without calls, and calls that declare no errors.
impl Body for Never {
    fn record_bytes(&self) -> u32 {
        match *self {}
    }

    fn measure(&self) -> Result<usize, OverLimit> {
        match *self {}
    }

    fn fields<K: Sink + ?Sized>(&self, _: &mut Place, _: u32, _: &mut Out<'_, K>) {
        match *self {}
    }
}
