//! Declarations of interfaces and their messages, as seen by clients and servers. Stubs implement them
//! through [`interface!`](crate::interface) and related macros.

use core::marker::PhantomData;

use crate::client::Needs;
use crate::encode::{Body, Encode, Out, Place, round_up};
use crate::error::{Malformed, OverLimit};
use crate::fits::Fits;
use crate::server::{Incoming, Outcome};
use crate::source::Sink;
use crate::view::{Never, Record, View};

/// Interface, as a type.
pub trait Interface {
    /// Package and name of the interface.
    const NAME: &'static str;
    /// Version, which increases when older peers can no longer be served.
    const VERSION: u32;
    /// Hash of package, name and version, which must match on both sides of a channel.
    const HASH: u64;
    /// Hash of everything that peers can observe.
    const FINGERPRINT: u64;
    /// Requirements for the link.
    const NEEDS: Needs;
}

/// Call of an interface, as a type.
pub trait Method {
    /// Interface that the call belongs to.
    type Interface: Interface;
    /// Ordinal of the call in its interface.
    const ORDINAL: u16;
    /// Whether the call may be repeated if it is unknown whether it was served.
    const IDEMPOTENT: bool;
    /// Parameters, as decoded.
    type RequestView<'m>: From<Record<'m>>;
    /// Results, as encoded.
    type Reply<'a>: Body;
    /// Results, as decoded.
    type ReplyView<'m>: From<Record<'m>>;
    /// Declared error, as encoded; [`Never`] if there is none.
    type Error<'a>: Encode;
    /// Declared error, as decoded; [`Never`] if there is none.
    type ErrorView<'m>: View<'m> + core::fmt::Debug + for<'a> Fits<Self::Error<'a>>;
}

/// Parameters of a call. The type identifies the call.
pub trait Request: Body {
    /// Call that the parameters belong to.
    type Method: Method;
}

/// One-way message to the server.
pub trait OneWay: Body {
    /// Interface that the message belongs to.
    type Interface: Interface;
    /// Ordinal of the message in its interface.
    const ORDINAL: u16;
}

/// One-way message to the client.
pub trait Event: Body {
    /// Interface that the message belongs to.
    type Interface: Interface;
    /// Ordinal of the message in its interface.
    const ORDINAL: u16;
}

/// Delivery of an interface's events to `E`.
pub trait Hears<E: ?Sized>: Interface {
    /// Delivers an event. Returns false if its ordinal is unknown.
    ///
    /// # Errors
    /// The event could not be decoded.
    fn hear(events: &mut E, ordinal: u16, body: Record<'_>) -> Result<bool, Malformed>;
}

/// Dispatch of an interface's calls and messages to `H`.
pub trait Serves<H: ?Sized>: Interface {
    /// Body of an answer: results and declared errors alike.
    type Answers<'s>: Body
    where
        H: 's;

    /// Dispatches one request to the handler.
    fn dispatch<'s>(handler: &'s mut H, request: &Incoming<'_>) -> Outcome<Self::Answers<'s>>;
}

/// Body of an answer that declines a call: the declared error.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Declined<M, E> {
    error: E,
    of: PhantomData<fn() -> M>,
}

impl<M, E> Declined<M, E> {
    /// Creates the body for a call `M`.
    #[inline]
    pub(crate) fn new(error: E) -> Self {
        Declined { error, of: PhantomData }
    }
}

impl<M> Declined<M, Never> {
    /// Converts a body that cannot exist.
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

/// Body of an answer that cannot exist: for interfaces without calls, and calls without declared errors.
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
