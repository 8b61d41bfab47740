//! A key-value store: the example service of the book.
//!
//! Written by `tombolo idl compile` from interfaces/kv.tbl.

use tombolo_interface as rt;

/// The longest key, in bytes.
pub const MAX_KEY: u64 = 64;

/// The longest value, in bytes.
pub const MAX_VALUE: u64 = 2048;

rt::number! {
    /// Why a call was declined.
    pub open KvError: u8;
    /// The key does not exist.
    NOT_FOUND = 1,
    /// The key does not have the expected version.
    CONFLICT = 2,
    /// The store is full.
    FULL = 3,
}

rt::record! {
    /// The parameters of a message: kv get request.
    pub struct KvGetRequest<'a> => KvGetRequestView<'m>, apart 8 / 8;
    /// `key`, up to 64 bytes.
    key @ 0: &'a str => rt::Text<'m, 64>,
}

rt::record! {
    /// The results of a call: kv get reply.
    pub struct KvGetReply<'a> => KvGetReplyView<'m>, apart 16 / 8;
    /// `value`, up to 2048 bytes.
    value @ 0: &'a [u8] => rt::Blob<'m, 2048>,
    /// `version`.
    version @ 8: u64 => u64,
}

rt::record! {
    /// The parameters of a message: kv put request.
    pub struct KvPutRequest<'a> => KvPutRequestView<'m>, apart 32 / 8;
    /// `key`, up to 64 bytes.
    key @ 0: &'a str => rt::Text<'m, 64>,
    /// `value`, up to 2048 bytes.
    value @ 8: &'a [u8] => rt::Blob<'m, 2048>,
    /// `expected`.
    expected @ 16: Option<u64> => Option<u64>,
}

rt::record! {
    /// The results of a call: kv put reply.
    pub struct KvPutReply => KvPutReplyView<'m>, apart 8 / 8;
    /// `version`.
    version @ 0: u64 => u64,
}

rt::record! {
    /// The parameters of a message: kv list request.
    pub struct KvListRequest<'a> => KvListRequestView<'m>, apart 8 / 8;
    /// `prefix`, up to 64 bytes.
    prefix @ 0: &'a str => rt::Text<'m, 64>,
}

rt::record! {
    /// The results of a call: kv list reply.
    pub struct KvListReply<'a> => KvListReplyView<'m>, apart 8 / 8;
    /// `keys`, up to 64.
    keys @ 0: &'a [&'a str] => rt::List<'m, rt::Text<'m, 64>, 64>,
}

rt::record! {
    /// The parameters of a message: kv await change request.
    pub struct KvAwaitChangeRequest<'a> => KvAwaitChangeRequestView<'m>, apart 8 / 8;
    /// `key`, up to 64 bytes.
    key @ 0: &'a str => rt::Text<'m, 64>,
}

rt::record! {
    /// The results of a call: kv await change reply.
    pub struct KvAwaitChangeReply => KvAwaitChangeReplyView<'m>, apart 8 / 8;
    /// `version`.
    version @ 0: u64 => u64,
}

rt::record! {
    /// The parameters of a message: kv forget.
    pub struct KvForget<'a> => KvForgetView<'m>, apart 8 / 8;
    /// `key`, up to 64 bytes.
    key @ 0: &'a str => rt::Text<'m, 64>,
}

rt::record! {
    /// The parameters of a message: kv changed.
    pub struct KvChanged<'a> => KvChangedView<'m>, apart 16 / 8;
    /// `key`, up to 64 bytes.
    key @ 0: &'a str => rt::Text<'m, 64>,
    /// `version`.
    version @ 8: u64 => u64,
}

rt::interface! {
    /// A key-value store.
    pub struct Kv = "tombolo.example.Kv" version 1;
    hash 0x07b5d475eb0914df, fingerprint 0xe720e3936141ea35;
    capabilities false, buffers false, message_bytes 40;
    client KvClient<KvEvents>, server KvServer;
}

rt::method! {
    /// Returns the value of a key and its version: the number of times it was set.
    pub struct KvGet of Kv @ 1, idempotent true;
    KvGetRequest<'_> => KvGetRequestView;
    KvGetReply<'a> => KvGetReplyView;
    error KvError => KvError;
}

rt::method! {
    /// Sets a key and returns its new version. Fails if another version was expected.
    pub struct KvPut of Kv @ 2, idempotent false;
    KvPutRequest<'_> => KvPutRequestView;
    KvPutReply => KvPutReplyView;
    error KvError => KvError;
}

rt::method! {
    /// Returns up to 64 keys that begin with a prefix.
    pub struct KvList of Kv @ 3, idempotent true;
    KvListRequest<'_> => KvListRequestView;
    KvListReply<'a> => KvListReplyView;
    error rt::Never => rt::Never;
}

rt::method! {
    /// Waits until a key is set, and returns its new version.
    pub struct KvAwaitChange of Kv @ 4, idempotent true;
    KvAwaitChangeRequest<'_> => KvAwaitChangeRequestView;
    KvAwaitChangeReply => KvAwaitChangeReplyView;
    error KvError => KvError;
}

rt::one_way! { OneWay KvForget<'_>, of Kv @ 5 }

rt::one_way! { Event KvChanged<'_>, of Kv @ 6 }

impl<P: rt::Port, E: KvEvents> KvClient<P, E> {
    /// Returns the value of a key and its version: the number of times it was set.
    ///
    /// # Errors
    /// [`rt::CallError`]. An error that the interface declares is in [`Declined`](rt::CallError::Declined).
    #[inline]
    pub fn get(&mut self, request: &KvGetRequest<'_>) -> rt::Called<'_, KvGet, P::Error> {
        self.0.call(request)
    }

    /// Sets a key and returns its new version. Fails if another version was expected.
    ///
    /// # Errors
    /// [`rt::CallError`]. An error that the interface declares is in [`Declined`](rt::CallError::Declined).
    #[inline]
    pub fn put(&mut self, request: &KvPutRequest<'_>) -> rt::Called<'_, KvPut, P::Error> {
        self.0.call(request)
    }

    /// Returns up to 64 keys that begin with a prefix.
    ///
    /// # Errors
    /// [`rt::CallError`]. An error that the interface declares is in [`Declined`](rt::CallError::Declined).
    #[inline]
    pub fn list(&mut self, request: &KvListRequest<'_>) -> rt::Called<'_, KvList, P::Error> {
        self.0.call(request)
    }

    /// Waits until a key is set, and returns its new version.
    ///
    /// # Errors
    /// [`rt::CallError`]. An error that the interface declares is in [`Declined`](rt::CallError::Declined).
    #[inline]
    pub fn await_change(&mut self, request: &KvAwaitChangeRequest<'_>) -> rt::Called<'_, KvAwaitChange, P::Error> {
        self.0.call(request)
    }

    /// Deletes a key if it exists. There is no answer.
    ///
    /// # Errors
    /// [`rt::CallError`] if the message was not sent.
    pub fn forget(&mut self, message: &KvForget<'_>) -> Result<(), rt::CallError<P::Error>> {
        self.0.tell(message)
    }
}

/// Handles the events of [`Kv`]; `()` ignores them.
pub trait KvEvents {
    /// A key was set by any client.
    ///
    /// # Errors
    /// [`rt::Malformed`] if the event cannot be decoded. Such events are counted.
    fn changed(&mut self, event: KvChangedView<'_>) -> Result<(), rt::Malformed> {
        let _ = event;
        Ok(())
    }
}

impl KvEvents for () {}

impl<E: KvEvents + ?Sized> rt::Hears<E> for Kv {
    #[inline]
    fn hear(events: &mut E, ordinal: u16, body: rt::Record<'_>) -> Result<bool, rt::Malformed> {
        match ordinal {
            6 => events.changed(body.into()).map(|()| true),
            _ => Ok(false),
        }
    }
}

/// Handles the calls and messages of [`Kv`].
pub trait KvHandler {
    /// Returns the value of a key and its version: the number of times it was set.
    ///
    /// # Errors
    /// The call is declined with the error.
    fn get<'s>(&'s mut self, call: rt::Call<'_, KvGet>) -> Result<rt::Response<KvGetReply<'s>>, rt::Decline<KvError>>;

    /// Sets a key and returns its new version. Fails if another version was expected.
    ///
    /// # Errors
    /// The call is declined with the error.
    fn put(&mut self, call: rt::Call<'_, KvPut>) -> Result<rt::Response<KvPutReply>, rt::Decline<KvError>>;

    /// Returns up to 64 keys that begin with a prefix.
    ///
    /// # Errors
    /// The call is declined with the error.
    fn list<'s>(&'s mut self, call: rt::Call<'_, KvList>) -> Result<rt::Response<KvListReply<'s>>, rt::Decline<rt::Never>>;

    /// Waits until a key is set, and returns its new version.
    ///
    /// # Errors
    /// The call is declined with the error.
    fn await_change(&mut self, call: rt::Call<'_, KvAwaitChange>) -> Result<rt::Response<KvAwaitChangeReply>, rt::Decline<KvError>>;

    /// Deletes a key if it exists. There is no answer.
    ///
    /// # Errors
    /// [`rt::Malformed`] if the message cannot be decoded. Such messages are counted.
    fn forget(&mut self, message: KvForgetView<'_>) -> Result<(), rt::Malformed>;
}

rt::answers! {
    /// Answers of a server of [`Kv`].
    pub enum KvAnswer<'s>;
    GetReply(KvGetReply<'s>),
    GetDeclined(rt::Declined<KvGet, KvError>),
    PutReply(KvPutReply),
    PutDeclined(rt::Declined<KvPut, KvError>),
    ListReply(KvListReply<'s>),
    AwaitChangeReply(KvAwaitChangeReply),
    AwaitChangeDeclined(rt::Declined<KvAwaitChange, KvError>),
}

impl<H: KvHandler + ?Sized> rt::Serves<H> for Kv {
    type Answers<'s>
        = KvAnswer<'s>
    where
        H: 's;

    #[inline]
    fn dispatch<'s>(handler: &'s mut H, request: &rt::Incoming<'_>) -> rt::Outcome<Self::Answers<'s>> {
        match request.what() {
            (rt::Kind::Call, 1) => {
                let result = handler.get(request.call());
                rt::Outcome::of(result, KvAnswer::GetReply, KvAnswer::GetDeclined)
            }
            (rt::Kind::Call, 2) => {
                let result = handler.put(request.call());
                rt::Outcome::of(result, KvAnswer::PutReply, KvAnswer::PutDeclined)
            }
            (rt::Kind::Call, 3) => {
                let result = handler.list(request.call());
                rt::Outcome::of_sure(result, KvAnswer::ListReply)
            }
            (rt::Kind::Call, 4) => {
                let result = handler.await_change(request.call());
                rt::Outcome::of(result, KvAnswer::AwaitChangeReply, KvAnswer::AwaitChangeDeclined)
            }
            (rt::Kind::Message, 5) => rt::Outcome::of_message(handler.forget(request.view())),
            _ => request.unknown(),
        }
    }
}

impl<P: rt::Port> KvServer<P> {
    /// A key was set by any client.
    ///
    /// # Errors
    /// [`rt::CallError`] if the message was not sent.
    pub fn changed(&mut self, message: &KvChanged<'_>) -> Result<(), rt::CallError<P::Error>> {
        self.0.tell(message)
    }
}
