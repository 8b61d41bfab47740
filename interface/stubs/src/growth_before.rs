//! The earlier version of an interface: tests connect it with the later one.
//!
//! Written by `tombolo idl compile` from interfaces/growth_before.tbl.

use tombolo_interface as rt;
#[allow(unused_imports, reason = "not every item of the file is used")]
use super::common::*;

rt::record! {
    /// A structure that will get further fields.
    pub struct Note<'a> => NoteView<'m>, apart 8 / 8;
    /// `text`, up to 32 bytes.
    text @ 0: &'a str => rt::Text<'m, 32>,
}

rt::record! {
    /// The parameters of a message: growth look request.
    pub struct GrowthLookRequest<'a> => GrowthLookRequestView<'m>, apart 8 / 8;
    /// `note`.
    note @ 0: Note<'a> => NoteView<'m>,
}

rt::record! {
    /// The results of a call: growth look reply.
    pub struct GrowthLookReply<'a> => GrowthLookReplyView<'m>, apart 40 / 8;
    /// `note`.
    note @ 0: Note<'a> => NoteView<'m>,
    /// `thing`.
    thing @ 8: Thing => ThingView,
    /// `stamp`.
    stamp @ 24: Stamp => StampView<'m>,
}

rt::record! {
    /// The parameters of a message: growth forget.
    pub struct GrowthForget => GrowthForgetView<'m>, apart 8 / 8;
    /// `id`.
    id @ 0: u32 => u32,
}

rt::record! {
    /// The parameters of a message: growth seen.
    pub struct GrowthSeen => GrowthSeenView<'m>, apart 8 / 8;
    /// `id`.
    id @ 0: u32 => u32,
}

rt::union! {
    /// A union that will get another case.
    pub enum Thing => 'm ThingView;
    /// `number`.
    1 => Number(item: u32 => u32),
}

rt::interface! {
    /// The interface before its additions.
    pub struct Growth = "tombolo.testing.Growth" version 1;
    hash 0xc8fdb15f720b47d3, fingerprint 0x8d1b8bc1f63a2486;
    capabilities false, buffers false, message_bytes 48;
    client GrowthClient<GrowthEvents>, server GrowthServer;
}

rt::method! {
    /// Returns the note, with details.
    pub struct GrowthLook of Growth @ 1, idempotent true;
    GrowthLookRequest<'_> => GrowthLookRequestView;
    GrowthLookReply<'a> => GrowthLookReplyView;
    error rt::Never => rt::Never;
}

rt::one_way! { OneWay GrowthForget, of Growth @ 2 }

rt::one_way! { Event GrowthSeen, of Growth @ 3 }

impl<P: rt::Port, E: GrowthEvents> GrowthClient<P, E> {
    /// Returns the note, with details.
    ///
    /// # Errors
    /// [`rt::CallError`]. An error that the interface declares is in [`Declined`](rt::CallError::Declined).
    #[inline]
    pub fn look(&mut self, request: &GrowthLookRequest<'_>) -> rt::Called<'_, GrowthLook, P::Error> {
        self.0.call(request)
    }

    /// Deletes a note.
    ///
    /// # Errors
    /// [`rt::CallError`] if the message was not sent.
    pub fn forget(&mut self, message: &GrowthForget) -> Result<(), rt::CallError<P::Error>> {
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
}

impl GrowthEvents for () {}

impl<E: GrowthEvents + ?Sized> rt::Hears<E> for Growth {
    #[inline]
    fn hear(events: &mut E, ordinal: u16, body: rt::Record<'_>) -> Result<bool, rt::Malformed> {
        match ordinal {
            3 => events.seen(body.into()).map(|()| true),
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

    /// Deletes a note.
    ///
    /// # Errors
    /// [`rt::Malformed`] if the message cannot be decoded. Such messages are counted.
    fn forget(&mut self, message: GrowthForgetView<'_>) -> Result<(), rt::Malformed>;
}

rt::answers! {
    /// Answers of a server of [`Growth`].
    pub enum GrowthAnswer<'s>;
    LookReply(GrowthLookReply<'s>),
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
            (rt::Kind::Message, 2) => rt::Outcome::of_message(handler.forget(request.view())),
            _ => request.unknown(),
        }
    }
}

impl<P: rt::Port> GrowthServer<P> {
    /// A note was seen.
    ///
    /// # Errors
    /// [`rt::CallError`] if the message was not sent.
    pub fn seen(&mut self, message: &GrowthSeen) -> Result<(), rt::CallError<P::Error>> {
        self.0.tell(message)
    }
}
