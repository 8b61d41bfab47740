//! The later version of an interface: tests connect it with the earlier one.
//!
//! Written by `tombolo idl compile` from interfaces/growth.tbl.

use tombolo_interface as rt;
#[allow(unused_imports, reason = "not every item of the file is used")]
use super::common::*;

rt::number! {
    /// An enumeration that may get further values.
    pub open Mood: u8;
    /// `calm`.
    CALM = 0,
    /// `merry`.
    MERRY = 1,
}

rt::record! {
    /// A structure that has got further fields.
    pub struct Note<'a> => NoteView<'m>, apart 40 / 8;
    /// `text`, up to 32 bytes.
    text @ 0: &'a str => rt::Text<'m, 32>,
    /// `mood`.
    mood @ 8: Mood => Mood,
    /// `tags`, up to 4.
    tags @ 16: &'a [&'a str] => rt::List<'m, rt::Text<'m, 16>, 4>,
    /// `due`.
    due @ 24: Option<u64> => Option<u64>,
}

rt::record! {
    /// The parameters of a message: growth look request.
    pub struct GrowthLookRequest<'a> => GrowthLookRequestView<'m>, apart 16 / 8;
    /// `note`.
    note @ 0: Note<'a> => NoteView<'m>,
    /// `detail`.
    detail @ 8: bool => bool,
}

rt::record! {
    /// The results of a call: growth look reply.
    pub struct GrowthLookReply<'a> => GrowthLookReplyView<'m>, apart 48 / 8;
    /// `note`.
    note @ 0: Note<'a> => NoteView<'m>,
    /// `thing`.
    thing @ 8: Thing<'a> => ThingView<'m>,
    /// `stamp`.
    stamp @ 24: Stamp => StampView<'m>,
    /// `count`.
    count @ 40: Option<u32> => Option<u32>,
}

rt::record! {
    /// The parameters of a message: growth forget.
    pub struct GrowthForget<'a> => GrowthForgetView<'m>, apart 16 / 8;
    /// `id`.
    id @ 0: u32 => u32,
    /// `why`, up to 16 bytes.
    why @ 8: &'a str => rt::Text<'m, 16>,
}

rt::record! {
    /// The parameters of a message: growth seen.
    pub struct GrowthSeen<'a> => GrowthSeenView<'m>, apart 16 / 8;
    /// `id`.
    id @ 0: u32 => u32,
    /// `by`, up to 16 bytes.
    by @ 8: &'a str => rt::Text<'m, 16>,
}

rt::record! {
    /// The parameters of a message: growth number request.
    pub struct GrowthNumberRequest => GrowthNumberRequestView<'m>, apart 0 / 8;
}

rt::record! {
    /// The results of a call: growth number reply.
    pub struct GrowthNumberReply => GrowthNumberReplyView<'m>, apart 8 / 8;
    /// `id`.
    id @ 0: u64 => u64,
}

rt::record! {
    /// The parameters of a message: growth poke.
    pub struct GrowthPoke => GrowthPokeView<'m>, apart 0 / 8;
}

rt::record! {
    /// The parameters of a message: growth news.
    pub struct GrowthNews => GrowthNewsView<'m>, apart 0 / 8;
}

rt::union! {
    /// A union that has got another case.
    pub enum Thing<'a> => 'm ThingView<'m>;
    /// `number`.
    1 => Number(item: u32 => u32),
    /// `name`.
    2 => Name(item: &'a str => rt::Text<'m, 16>),
}

rt::interface! {
    /// The interface with its additions.
    pub struct Growth = "tombolo.testing.Growth" version 1;
    hash 0xc8fdb15f720b47d3, fingerprint 0x89c2a7c0adc72a8d;
    capabilities false, buffers false, message_bytes 56;
    client GrowthClient<GrowthEvents>, server GrowthServer;
}

rt::method! {
    /// Returns the note, with details.
    pub struct GrowthLook of Growth @ 1, idempotent true;
    GrowthLookRequest<'_> => GrowthLookRequestView;
    GrowthLookReply<'a> => GrowthLookReplyView;
    error rt::Never => rt::Never;
}

rt::method! {
    /// A call that the earlier version does not have.
    pub struct GrowthNumber of Growth @ 4, idempotent false;
    GrowthNumberRequest => GrowthNumberRequestView;
    GrowthNumberReply => GrowthNumberReplyView;
    error rt::Never => rt::Never;
}

rt::one_way! { OneWay GrowthForget<'_>, of Growth @ 2 }

rt::one_way! { OneWay GrowthPoke, of Growth @ 5 }

rt::one_way! { Event GrowthSeen<'_>, of Growth @ 3 }

rt::one_way! { Event GrowthNews, of Growth @ 6 }

impl<P: rt::Port, E: GrowthEvents> GrowthClient<P, E> {
    /// Returns the note, with details.
    ///
    /// # Errors
    /// [`rt::CallError`]. An error that the interface declares is in [`Declined`](rt::CallError::Declined).
    #[inline]
    pub fn look(&mut self, request: &GrowthLookRequest<'_>) -> rt::Called<'_, GrowthLook, P::Error> {
        self.0.call(request)
    }

    /// A call that the earlier version does not have.
    ///
    /// # Errors
    /// [`rt::CallError`]. An error that the interface declares is in [`Declined`](rt::CallError::Declined).
    #[inline]
    pub fn number(&mut self, request: &GrowthNumberRequest) -> rt::Called<'_, GrowthNumber, P::Error> {
        self.0.call(request)
    }

    /// Deletes a note.
    ///
    /// # Errors
    /// [`rt::CallError`] if the message was not sent.
    pub fn forget(&mut self, message: &GrowthForget<'_>) -> Result<(), rt::CallError<P::Error>> {
        self.0.tell(message)
    }

    /// A message that the earlier version does not have.
    ///
    /// # Errors
    /// [`rt::CallError`] if the message was not sent.
    pub fn poke(&mut self, message: &GrowthPoke) -> Result<(), rt::CallError<P::Error>> {
        self.0.tell(message)
    }
}

/// Handles the events of [`Growth`]; `()` ignores them.
pub trait GrowthEvents {
    /// A note was seen.
    ///
    /// # Errors
    /// [`rt::Malformed`] if the event cannot be decoded. Such events are counted.
    fn seen(&mut self, event: GrowthSeenView<'_>) -> Result<(), rt::Malformed> {
        let _ = event;
        Ok(())
    }

    /// An event that the earlier version does not have.
    ///
    /// # Errors
    /// [`rt::Malformed`] if the event cannot be decoded. Such events are counted.
    fn news(&mut self, event: GrowthNewsView<'_>) -> Result<(), rt::Malformed> {
        let _ = event;
        Ok(())
    }
}

impl GrowthEvents for () {}

impl<E: GrowthEvents + ?Sized> rt::Hears<E> for Growth {
    #[inline]
    fn hear(events: &mut E, ordinal: u16, body: rt::Record<'_>) -> Result<bool, rt::Malformed> {
        match ordinal {
            3 => events.seen(body.into()).map(|()| true),
            6 => events.news(body.into()).map(|()| true),
            _ => Ok(false),
        }
    }
}

/// Handles the calls and messages of [`Growth`].
pub trait GrowthHandler {
    /// Returns the note, with details.
    ///
    /// # Errors
    /// The call is declined with the error.
    fn look<'s>(&'s mut self, call: rt::Call<'_, GrowthLook>) -> Result<rt::Response<GrowthLookReply<'s>>, rt::Decline<rt::Never>>;

    /// A call that the earlier version does not have.
    ///
    /// # Errors
    /// The call is declined with the error.
    fn number(&mut self, call: rt::Call<'_, GrowthNumber>) -> Result<rt::Response<GrowthNumberReply>, rt::Decline<rt::Never>>;

    /// Deletes a note.
    ///
    /// # Errors
    /// [`rt::Malformed`] if the message cannot be decoded. Such messages are counted.
    fn forget(&mut self, message: GrowthForgetView<'_>) -> Result<(), rt::Malformed>;

    /// A message that the earlier version does not have.
    ///
    /// # Errors
    /// [`rt::Malformed`] if the message cannot be decoded. Such messages are counted.
    fn poke(&mut self, message: GrowthPokeView<'_>) -> Result<(), rt::Malformed>;
}

rt::answers! {
    /// Answers of a server of [`Growth`].
    pub enum GrowthAnswer<'s>;
    LookReply(GrowthLookReply<'s>),
    NumberReply(GrowthNumberReply),
}

impl<H: GrowthHandler + ?Sized> rt::Serves<H> for Growth {
    type Answers<'s>
        = GrowthAnswer<'s>
    where
        H: 's;

    #[inline]
    fn dispatch<'s>(handler: &'s mut H, request: &rt::Incoming<'_>) -> rt::Outcome<Self::Answers<'s>> {
        match request.what() {
            (rt::Kind::Call, 1) => {
                let result = handler.look(request.call());
                rt::Outcome::of_sure(result, GrowthAnswer::LookReply)
            }
            (rt::Kind::Call, 4) => {
                let result = handler.number(request.call());
                rt::Outcome::of_sure(result, GrowthAnswer::NumberReply)
            }
            (rt::Kind::Message, 2) => rt::Outcome::of_message(handler.forget(request.view())),
            (rt::Kind::Message, 5) => rt::Outcome::of_message(handler.poke(request.view())),
            _ => request.unknown(),
        }
    }
}

impl<P: rt::Port> GrowthServer<P> {
    /// A note was seen.
    ///
    /// # Errors
    /// [`rt::CallError`] if the message was not sent.
    pub fn seen(&mut self, message: &GrowthSeen<'_>) -> Result<(), rt::CallError<P::Error>> {
        self.0.tell(message)
    }

    /// An event that the earlier version does not have.
    ///
    /// # Errors
    /// [`rt::CallError`] if the message was not sent.
    pub fn news(&mut self, message: &GrowthNews) -> Result<(), rt::CallError<P::Error>> {
        self.0.tell(message)
    }
}
