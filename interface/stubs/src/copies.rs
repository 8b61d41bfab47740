//! A service that copies between memories of several clients.
//!
//! Written by `tombolo idl compile` from interfaces/copies.tbl.

use tombolo_interface as rt;

/// The most descriptors of a client that have not ended.
pub const MAX_DESCRIPTORS: u64 = 256;

/// The most memories that a client can register.
pub const MAX_MEMORIES: u64 = 64;

rt::number! {
    /// Why an operation failed. After a failed copy, the contents of its target are unspecified.
    pub open CopyFault: u8;
    /// The memory is not registered, or was withdrawn.
    UNKNOWN_MEMORY = 1,
    /// The bytes do not lie inside the memory.
    OUT_OF_RANGE = 2,
    /// The memory was registered for reading only.
    READ_ONLY = 3,
    /// The source and the target of a copy overlap.
    OVERLAP = 4,
    /// The descriptor conflicts with one that has not ended: both use the same bytes, and at least one writes
    /// them. With a fence, only descriptors of other clients conflict. For `withdraw`: such a descriptor uses
    /// the memory.
    IN_USE = 5,
    /// The descriptor is fenced, and an earlier one that it waited for failed. Nothing was written.
    EARLIER = 6,
    /// The descriptor was cancelled.
    CANCELLED = 7,
    /// The right to the memory was revoked.
    REVOKED = 8,
    /// The client has as many descriptors or memories as it may have.
    TOO_MANY = 9,
    /// A descriptor with that number has not ended.
    NUMBER_IN_USE = 10,
    /// The memory cannot be copied: it is not coherent, is a file or a service, is private to its program, or
    /// cannot be reached from this node.
    NOT_COPIED = 11,
    /// An engine failed.
    FAILED = 12,
}

rt::record! {
    /// A position in a registered memory.
    pub struct CopyPlace => CopyPlaceView<'m>, inline 16 / 8;
    /// The number from `register`.
    memory @ 0: u32 => u32,
    /// The offset in the memory, in bytes.
    offset_bytes @ 8: u64 => u64,
}

rt::record! {
    /// The parameters of a message: copies register request.
    pub struct CopiesRegisterRequest => CopiesRegisterRequestView<'m>, apart 16 / 8;
    /// `memory`.
    memory @ 0: rt::Capability<false> => rt::Capability<false>,
}

rt::record! {
    /// The results of a call: copies register reply.
    pub struct CopiesRegisterReply => CopiesRegisterReplyView<'m>, apart 24 / 8;
    /// `memory`.
    memory @ 0: u32 => u32,
    /// `length_bytes`.
    length_bytes @ 8: u64 => u64,
    /// `writable`.
    writable @ 16: bool => bool,
}

rt::record! {
    /// The parameters of a message: copies withdraw request.
    pub struct CopiesWithdrawRequest => CopiesWithdrawRequestView<'m>, apart 8 / 8;
    /// `memory`.
    memory @ 0: u32 => u32,
}

rt::record! {
    /// The results of a call: copies withdraw reply.
    pub struct CopiesWithdrawReply => CopiesWithdrawReplyView<'m>, apart 0 / 8;
}

rt::record! {
    /// The parameters of a message: copies copy.
    pub struct CopiesCopy => CopiesCopyView<'m>, apart 48 / 8;
    /// `descriptor`.
    descriptor @ 0: u32 => u32,
    /// `fence`.
    fence @ 4: bool => bool,
    /// `length_bytes`.
    length_bytes @ 8: u64 => u64,
    /// `source`.
    source @ 16: CopyPlace => CopyPlaceView<'m>,
    /// `target`.
    target @ 32: CopyPlace => CopyPlaceView<'m>,
}

rt::record! {
    /// The parameters of a message: copies fill.
    pub struct CopiesFill => CopiesFillView<'m>, apart 32 / 8;
    /// `descriptor`.
    descriptor @ 0: u32 => u32,
    /// `fence`.
    fence @ 4: bool => bool,
    /// `byte`.
    byte @ 5: u8 => u8,
    /// `length_bytes`.
    length_bytes @ 8: u64 => u64,
    /// `target`.
    target @ 16: CopyPlace => CopyPlaceView<'m>,
}

rt::record! {
    /// The parameters of a message: copies cancel.
    pub struct CopiesCancel => CopiesCancelView<'m>, apart 8 / 8;
    /// `descriptor`.
    descriptor @ 0: u32 => u32,
}

rt::record! {
    /// The parameters of a message: copies ended.
    pub struct CopiesEnded => CopiesEndedView<'m>, apart 8 / 8;
    /// `descriptor`.
    descriptor @ 0: u32 => u32,
    /// `fault`.
    fault @ 4: Option<CopyFault> => Option<CopyFault>,
}

rt::interface! {
    /// Copies and fills registered memories, and reports the end of each operation by its descriptor.
    pub struct Copies = "tombolo.copies.Copies" version 1;
    hash 0x1601b3c7d8d08854, fingerprint 0xfa31f8452274bc7c;
    capabilities true, buffers false, message_bytes 56;
    client CopiesClient<CopiesEvents>, server CopiesServer;
}

rt::method! {
    /// Registers memory: all bytes of the capability, for reading, and also for writing if it has that right.
    pub struct CopiesRegister of Copies @ 1, idempotent false;
    CopiesRegisterRequest => CopiesRegisterRequestView;
    CopiesRegisterReply => CopiesRegisterReplyView;
    error CopyFault => CopyFault;
}

rt::method! {
    /// Withdraws memory, which is then unmapped. Refused while a descriptor that has not ended uses it.
    pub struct CopiesWithdraw of Copies @ 2, idempotent false;
    CopiesWithdrawRequest => CopiesWithdrawRequestView;
    CopiesWithdrawReply => CopiesWithdrawReplyView;
    error CopyFault => CopyFault;
}

rt::one_way! { OneWay CopiesCopy, of Copies @ 3 }

rt::one_way! { OneWay CopiesFill, of Copies @ 4 }

rt::one_way! { OneWay CopiesCancel, of Copies @ 5 }

rt::one_way! { Event CopiesEnded, of Copies @ 6 }

impl<P: rt::Port, E: CopiesEvents> CopiesClient<P, E> {
    /// Registers memory: all bytes of the capability, for reading, and also for writing if it has that right.
    ///
    /// # Errors
    /// [`rt::CallError`]. An error that the interface declares is in [`Declined`](rt::CallError::Declined).
    #[inline]
    pub fn register(&mut self, request: &CopiesRegisterRequest) -> rt::Called<'_, CopiesRegister, P::Error> {
        self.0.call(request)
    }

    /// Withdraws memory, which is then unmapped. Refused while a descriptor that has not ended uses it.
    ///
    /// # Errors
    /// [`rt::CallError`]. An error that the interface declares is in [`Declined`](rt::CallError::Declined).
    #[inline]
    pub fn withdraw(&mut self, request: &CopiesWithdrawRequest) -> rt::Called<'_, CopiesWithdraw, P::Error> {
        self.0.call(request)
    }

    /// Copies bytes. The client chooses the number of the descriptor. With `fence`, the copy starts after the
    /// client's earlier descriptors have ended.
    ///
    /// # Errors
    /// [`rt::CallError`] if the message was not sent.
    pub fn copy(&mut self, message: &CopiesCopy) -> Result<(), rt::CallError<P::Error>> {
        self.0.tell(message)
    }

    /// Fills memory with copies of one byte.
    ///
    /// # Errors
    /// [`rt::CallError`] if the message was not sent.
    pub fn fill(&mut self, message: &CopiesFill) -> Result<(), rt::CallError<P::Error>> {
        self.0.tell(message)
    }

    /// Cancels a descriptor. It still ends, either as cancelled or with its result.
    ///
    /// # Errors
    /// [`rt::CallError`] if the message was not sent.
    pub fn cancel(&mut self, message: &CopiesCancel) -> Result<(), rt::CallError<P::Error>> {
        self.0.tell(message)
    }
}

/// Handles the events of [`Copies`]; `()` ignores them.
pub trait CopiesEvents {
    /// A descriptor has ended. Events are in the order in which descriptors end.
    ///
    /// # Errors
    /// [`rt::Malformed`] if the event cannot be decoded. Such events are counted.
    fn ended(&mut self, event: CopiesEndedView<'_>) -> Result<(), rt::Malformed> {
        let _ = event;
        Ok(())
    }
}

impl CopiesEvents for () {}

impl<E: CopiesEvents + ?Sized> rt::Hears<E> for Copies {
    #[inline]
    fn hear(events: &mut E, ordinal: u16, body: rt::Record<'_>) -> Result<bool, rt::Malformed> {
        match ordinal {
            6 => events.ended(body.into()).map(|()| true),
            _ => Ok(false),
        }
    }
}

/// Handles the calls and messages of [`Copies`].
pub trait CopiesHandler {
    /// Registers memory: all bytes of the capability, for reading, and also for writing if it has that right.
    ///
    /// # Errors
    /// The call is declined with the error.
    fn register(&mut self, call: rt::Call<'_, CopiesRegister>) -> Result<rt::Response<CopiesRegisterReply>, rt::Decline<CopyFault>>;

    /// Withdraws memory, which is then unmapped. Refused while a descriptor that has not ended uses it.
    ///
    /// # Errors
    /// The call is declined with the error.
    fn withdraw(&mut self, call: rt::Call<'_, CopiesWithdraw>) -> Result<rt::Response<CopiesWithdrawReply>, rt::Decline<CopyFault>>;

    /// Copies bytes. The client chooses the number of the descriptor. With `fence`, the copy starts after the
    /// client's earlier descriptors have ended.
    ///
    /// # Errors
    /// [`rt::Malformed`] if the message cannot be decoded. Such messages are counted.
    fn copy(&mut self, message: CopiesCopyView<'_>) -> Result<(), rt::Malformed>;

    /// Fills memory with copies of one byte.
    ///
    /// # Errors
    /// [`rt::Malformed`] if the message cannot be decoded. Such messages are counted.
    fn fill(&mut self, message: CopiesFillView<'_>) -> Result<(), rt::Malformed>;

    /// Cancels a descriptor. It still ends, either as cancelled or with its result.
    ///
    /// # Errors
    /// [`rt::Malformed`] if the message cannot be decoded. Such messages are counted.
    fn cancel(&mut self, message: CopiesCancelView<'_>) -> Result<(), rt::Malformed>;
}

rt::answers! {
    /// Answers of a server of [`Copies`].
    pub enum CopiesAnswer;
    RegisterReply(CopiesRegisterReply),
    RegisterDeclined(rt::Declined<CopiesRegister, CopyFault>),
    WithdrawReply(CopiesWithdrawReply),
    WithdrawDeclined(rt::Declined<CopiesWithdraw, CopyFault>),
}

impl<H: CopiesHandler + ?Sized> rt::Serves<H> for Copies {
    type Answers<'s>
        = CopiesAnswer
    where
        H: 's;

    #[inline]
    fn dispatch<'s>(handler: &'s mut H, request: &rt::Incoming<'_>) -> rt::Outcome<Self::Answers<'s>> {
        match request.what() {
            (rt::Kind::Call, 1) => {
                let result = handler.register(request.call());
                rt::Outcome::of(result, CopiesAnswer::RegisterReply, CopiesAnswer::RegisterDeclined)
            }
            (rt::Kind::Call, 2) => {
                let result = handler.withdraw(request.call());
                rt::Outcome::of(result, CopiesAnswer::WithdrawReply, CopiesAnswer::WithdrawDeclined)
            }
            (rt::Kind::Message, 3) => rt::Outcome::of_message(handler.copy(request.view())),
            (rt::Kind::Message, 4) => rt::Outcome::of_message(handler.fill(request.view())),
            (rt::Kind::Message, 5) => rt::Outcome::of_message(handler.cancel(request.view())),
            _ => request.unknown(),
        }
    }
}

impl<P: rt::Port> CopiesServer<P> {
    /// A descriptor has ended. Events are in the order in which descriptors end.
    ///
    /// # Errors
    /// [`rt::CallError`] if the message was not sent.
    pub fn ended(&mut self, message: &CopiesEnded) -> Result<(), rt::CallError<P::Error>> {
        self.0.tell(message)
    }
}
