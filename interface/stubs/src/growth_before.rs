//! An interface as it was: tests let it talk to what it has become.
//!
//! Written by `tombolo idl compile` from interfaces/growth_before.tbl.

use tombolo_interface as rt;
#[allow(unused_imports, reason = "not all of a file is used")]
use super::common::*;

rt::record! {
    /// Can grow.
    pub struct Note<'a> => NoteView<'m>, apart 8 / 8;
    /// `text`, up to 32 bytes.
    text @ 0: &'a str => rt::Text<'m, 32>,
}

rt::record! {
    /// What is sent: growth look request.
    pub struct GrowthLookRequest<'a> => GrowthLookRequestView<'m>, apart 8 / 8;
    /// `note`.
    note @ 0: Note<'a> => NoteView<'m>,
}

rt::record! {
    /// What answers: growth look reply.
    pub struct GrowthLookReply<'a> => GrowthLookReplyView<'m>, apart 40 / 8;
    /// `note`.
    note @ 0: Note<'a> => NoteView<'m>,
    /// `thing`.
    thing @ 8: Thing => ThingView,
    /// `stamp`.
    stamp @ 24: Stamp => StampView<'m>,
}

rt::record! {
    /// What is sent: growth forget.
    pub struct GrowthForget => GrowthForgetView<'m>, apart 8 / 8;
    /// `id`.
    id @ 0: u32 => u32,
}

rt::record! {
    /// What is sent: growth seen.
    pub struct GrowthSeen => GrowthSeenView<'m>, apart 8 / 8;
    /// `id`.
    id @ 0: u32 => u32,
}

rt::union! {
    /// One of several.
    pub enum Thing => 'm ThingView;
    /// `number`.
    1 => Number(item: u32 => u32),
}

rt::interface! {
    /// As it was.
    pub struct Growth = "tombolo.testing.Growth" version 1;
    hash 0xc8fdb15f720b47d3, fingerprint 0x8d1b8bc1f63a2486;
    capabilities false, buffers false, message_bytes 48;
    client GrowthClient<GrowthEvents>, server GrowthServer;
}

rt::method! {
    /// A note comes back, with something.
    pub struct GrowthLook of Growth @ 1, idempotent true;
    GrowthLookRequest<'_> => GrowthLookRequestView;
    GrowthLookReply<'a> => GrowthLookReplyView;
    error rt::Never => rt::Never;
}

rt::one_way! { OneWay GrowthForget, of Growth @ 2 }

rt::one_way! { Event GrowthSeen, of Growth @ 3 }

impl<P: rt::Port, E: GrowthEvents> GrowthClient<P, E> {
    /// A note comes back, with something.
    ///
    /// # Errors
    /// [`rt::CallError`]; what the interface declares is in [`Declined`](rt::CallError::Declined).
    #[inline]
    pub fn look(&mut self, request: &GrowthLookRequest<'_>) -> rt::Called<'_, GrowthLook, P::Error> {
        self.0.call(request)
    }

    /// Forgets a note.
    ///
    /// # Errors
    /// [`rt::CallError`]: it was not sent.
    pub fn forget(&mut self, message: &GrowthForget) -> Result<(), rt::CallError<P::Error>> {
        self.0.tell(message)
    }
}

/// Takes the events of [`Growth`]; `()` takes none.
pub trait GrowthEvents {
    /// A note was seen.
    ///
    /// # Errors
    /// It could not be read; it is counted.
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

/// Serves [`Growth`].
pub trait GrowthHandler {
    /// A note comes back, with something.
    ///
    /// # Errors
    /// What declines it.
    fn look<'s>(&'s mut self, call: rt::Call<'_, GrowthLook>) -> Result<rt::Response<GrowthLookReply<'s>>, rt::Decline<rt::Never>>;

    /// Forgets a note.
    ///
    /// # Errors
    /// It could not be read; it is counted.
    fn forget(&mut self, message: GrowthForgetView<'_>) -> Result<(), rt::Malformed>;
}

rt::answers! {
    /// What a server of [`Growth`] sends back.
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
    /// [`rt::CallError`]: it was not sent.
    pub fn seen(&mut self, message: &GrowthSeen) -> Result<(), rt::CallError<P::Error>> {
        self.0.tell(message)
    }
}
