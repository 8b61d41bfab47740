//! A store of values by name: the service that the guide builds.
//!
//! Written by `tombolo idl compile` from interfaces/kv.tbl.

use tombolo_interface as rt;
#[allow(unused_imports, reason = "messages without fields put none")]
use rt::Encode as _;

/// The longest key, in bytes.
pub const MAX_KEY: u64 = 64;

/// The longest value, in bytes.
pub const MAX_VALUE: u64 = 2048;

/// Why a call was declined.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct KvError(
    /// Its number; it may be one without a name.
    pub u8,
);

impl KvError {
    /// There is no such key.
    pub const NOT_FOUND: KvError = KvError(1);
    /// The value has another version than was expected.
    pub const CONFLICT: KvError = KvError(2);
    /// There is no room for more.
    pub const FULL: KvError = KvError(3);

    /// Its number on the wire.
    #[inline]
    #[must_use]
    pub fn number(self) -> u8 {
        self.0
    }

    /// The value of that number.
    #[inline]
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Some(KvError(number))
    }
}

impl rt::Encode for KvError {
    const BYTES: u32 = 1;
    const ALIGN: u32 = 1;

    #[inline(always)]
    fn put<K: rt::Sink + ?Sized>(&self, place: &mut rt::encode::Place, at: u32, out: &mut rt::encode::Out<'_, K>) {
        self.number().put(place, at, out);
    }
}

impl rt::View<'_> for KvError {
    const BYTES: u32 = 1;
    const ALIGN: u32 = 1;

    #[inline]
    fn view(record: rt::Record<'_>, at: u32) -> Result<Self, rt::Malformed> {
        let number = u8::view(record, at)?;
        KvError::from_number(number).ok_or_else(|| record.unnamed(at, number))
    }
}

/// What is sent: kv get request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct KvGetRequest<'a> {
    /// `key`, up to 64 bytes.
    pub key: &'a str,
}

impl rt::Body for KvGetRequest<'_> {
    #[inline(always)]
    fn record_bytes(&self) -> u32 {
        8
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        let mut bytes = 0;
        bytes += rt::encode::measure::bytes(self.key.as_bytes(), 64, "KvGetRequest.key")?;
        Ok(bytes)
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {
        self.key.put(place, at, out);
    }
}

/// [`KvGetRequest`] where it lies in a message.
#[derive(Clone, Copy, Debug)]
pub struct KvGetRequestView<'m> {
    record: rt::Record<'m>,
}

impl<'m> From<rt::Record<'m>> for KvGetRequestView<'m> {
    #[inline]
    fn from(record: rt::Record<'m>) -> Self {
        KvGetRequestView { record }
    }
}

impl<'m> KvGetRequestView<'m> {
    /// `key`, up to 64 bytes.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn key(&self) -> Result<rt::Text<'m, 64>, rt::Malformed> {
        rt::View::view(self.record, 0)
    }
}

impl<'m> rt::View<'m> for KvGetRequestView<'m> {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: rt::Record<'m>, at: u32) -> Result<Self, rt::Malformed> {
        record.record(at).map(Self::from)
    }

    fn check(&self, budget: &mut rt::Budget) -> Result<(), rt::Malformed> {
        self.record.spend(budget)?;
        self.key()?.check(budget)?;
        Ok(())
    }
}

/// What answers: kv get reply.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct KvGetReply<'a> {
    /// `value`, up to 2048 bytes.
    pub value: &'a [u8],
    /// `version`.
    pub version: u64,
}

impl rt::Body for KvGetReply<'_> {
    #[inline(always)]
    fn record_bytes(&self) -> u32 {
        16
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        let mut bytes = 0;
        bytes += rt::encode::measure::bytes(self.value, 2048, "KvGetReply.value")?;
        Ok(bytes)
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {
        self.value.put(place, at, out);
        self.version.put(place, at + 8, out);
    }
}

/// [`KvGetReply`] where it lies in a message.
#[derive(Clone, Copy, Debug)]
pub struct KvGetReplyView<'m> {
    record: rt::Record<'m>,
}

impl<'m> From<rt::Record<'m>> for KvGetReplyView<'m> {
    #[inline]
    fn from(record: rt::Record<'m>) -> Self {
        KvGetReplyView { record }
    }
}

impl<'m> KvGetReplyView<'m> {
    /// `value`, up to 2048 bytes.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn value(&self) -> Result<rt::Blob<'m, 2048>, rt::Malformed> {
        rt::View::view(self.record, 0)
    }

    /// `version`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn version(&self) -> Result<u64, rt::Malformed> {
        rt::View::view(self.record, 8)
    }
}

impl<'m> rt::View<'m> for KvGetReplyView<'m> {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: rt::Record<'m>, at: u32) -> Result<Self, rt::Malformed> {
        record.record(at).map(Self::from)
    }

    fn check(&self, budget: &mut rt::Budget) -> Result<(), rt::Malformed> {
        self.record.spend(budget)?;
        self.value()?.check(budget)?;
        Ok(())
    }
}

/// What declines: kv get error.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct KvGetError {
    /// `error`.
    pub error: KvError,
}

impl rt::Body for KvGetError {
    #[inline(always)]
    fn record_bytes(&self) -> u32 {
        8
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        Ok(0)
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {
        self.error.put(place, at, out);
    }
}

/// What is sent: kv put request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct KvPutRequest<'a> {
    /// `key`, up to 64 bytes.
    pub key: &'a str,
    /// `value`, up to 2048 bytes.
    pub value: &'a [u8],
    /// `expected`.
    pub expected: Option<u64>,
}

impl rt::Body for KvPutRequest<'_> {
    #[inline(always)]
    fn record_bytes(&self) -> u32 {
        32
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        let mut bytes = 0;
        bytes += rt::encode::measure::bytes(self.key.as_bytes(), 64, "KvPutRequest.key")?;
        bytes += rt::encode::measure::bytes(self.value, 2048, "KvPutRequest.value")?;
        Ok(bytes)
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {
        self.key.put(place, at, out);
        self.value.put(place, at + 8, out);
        self.expected.put(place, at + 16, out);
    }
}

/// [`KvPutRequest`] where it lies in a message.
#[derive(Clone, Copy, Debug)]
pub struct KvPutRequestView<'m> {
    record: rt::Record<'m>,
}

impl<'m> From<rt::Record<'m>> for KvPutRequestView<'m> {
    #[inline]
    fn from(record: rt::Record<'m>) -> Self {
        KvPutRequestView { record }
    }
}

impl<'m> KvPutRequestView<'m> {
    /// `key`, up to 64 bytes.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn key(&self) -> Result<rt::Text<'m, 64>, rt::Malformed> {
        rt::View::view(self.record, 0)
    }

    /// `value`, up to 2048 bytes.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn value(&self) -> Result<rt::Blob<'m, 2048>, rt::Malformed> {
        rt::View::view(self.record, 8)
    }

    /// `expected`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn expected(&self) -> Result<Option<u64>, rt::Malformed> {
        rt::View::view(self.record, 16)
    }
}

impl<'m> rt::View<'m> for KvPutRequestView<'m> {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: rt::Record<'m>, at: u32) -> Result<Self, rt::Malformed> {
        record.record(at).map(Self::from)
    }

    fn check(&self, budget: &mut rt::Budget) -> Result<(), rt::Malformed> {
        self.record.spend(budget)?;
        self.key()?.check(budget)?;
        self.value()?.check(budget)?;
        self.expected()?.check(budget)?;
        Ok(())
    }
}

/// What answers: kv put reply.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct KvPutReply {
    /// `version`.
    pub version: u64,
}

impl rt::Body for KvPutReply {
    #[inline(always)]
    fn record_bytes(&self) -> u32 {
        8
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        Ok(0)
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {
        self.version.put(place, at, out);
    }
}

/// [`KvPutReply`] where it lies in a message.
#[derive(Clone, Copy, Debug)]
pub struct KvPutReplyView<'m> {
    record: rt::Record<'m>,
}

impl<'m> From<rt::Record<'m>> for KvPutReplyView<'m> {
    #[inline]
    fn from(record: rt::Record<'m>) -> Self {
        KvPutReplyView { record }
    }
}

impl<'m> KvPutReplyView<'m> {
    /// `version`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn version(&self) -> Result<u64, rt::Malformed> {
        rt::View::view(self.record, 0)
    }
}

impl<'m> rt::View<'m> for KvPutReplyView<'m> {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: rt::Record<'m>, at: u32) -> Result<Self, rt::Malformed> {
        record.record(at).map(Self::from)
    }

    fn check(&self, budget: &mut rt::Budget) -> Result<(), rt::Malformed> {
        self.record.spend(budget)?;
        Ok(())
    }
}

/// What declines: kv put error.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct KvPutError {
    /// `error`.
    pub error: KvError,
}

impl rt::Body for KvPutError {
    #[inline(always)]
    fn record_bytes(&self) -> u32 {
        8
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        Ok(0)
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {
        self.error.put(place, at, out);
    }
}

/// What is sent: kv list request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct KvListRequest<'a> {
    /// `prefix`, up to 64 bytes.
    pub prefix: &'a str,
}

impl rt::Body for KvListRequest<'_> {
    #[inline(always)]
    fn record_bytes(&self) -> u32 {
        8
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        let mut bytes = 0;
        bytes += rt::encode::measure::bytes(self.prefix.as_bytes(), 64, "KvListRequest.prefix")?;
        Ok(bytes)
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {
        self.prefix.put(place, at, out);
    }
}

/// [`KvListRequest`] where it lies in a message.
#[derive(Clone, Copy, Debug)]
pub struct KvListRequestView<'m> {
    record: rt::Record<'m>,
}

impl<'m> From<rt::Record<'m>> for KvListRequestView<'m> {
    #[inline]
    fn from(record: rt::Record<'m>) -> Self {
        KvListRequestView { record }
    }
}

impl<'m> KvListRequestView<'m> {
    /// `prefix`, up to 64 bytes.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn prefix(&self) -> Result<rt::Text<'m, 64>, rt::Malformed> {
        rt::View::view(self.record, 0)
    }
}

impl<'m> rt::View<'m> for KvListRequestView<'m> {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: rt::Record<'m>, at: u32) -> Result<Self, rt::Malformed> {
        record.record(at).map(Self::from)
    }

    fn check(&self, budget: &mut rt::Budget) -> Result<(), rt::Malformed> {
        self.record.spend(budget)?;
        self.prefix()?.check(budget)?;
        Ok(())
    }
}

/// What answers: kv list reply.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct KvListReply<'a> {
    /// `keys`, up to 64.
    pub keys: &'a [&'a str],
}

impl rt::Body for KvListReply<'_> {
    #[inline(always)]
    fn record_bytes(&self) -> u32 {
        8
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        let mut bytes = 0;
        bytes += rt::encode::measure::list(self.keys, 64, 8, "KvListReply.keys", |item| rt::encode::measure::bytes(item.as_bytes(), 64, "KvListReply.keys"))?;
        Ok(bytes)
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {
        self.keys.put(place, at, out);
    }
}

/// [`KvListReply`] where it lies in a message.
#[derive(Clone, Copy, Debug)]
pub struct KvListReplyView<'m> {
    record: rt::Record<'m>,
}

impl<'m> From<rt::Record<'m>> for KvListReplyView<'m> {
    #[inline]
    fn from(record: rt::Record<'m>) -> Self {
        KvListReplyView { record }
    }
}

impl<'m> KvListReplyView<'m> {
    /// `keys`, up to 64.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn keys(&self) -> Result<rt::List<'m, rt::Text<'m, 64>, 64>, rt::Malformed> {
        rt::View::view(self.record, 0)
    }
}

impl<'m> rt::View<'m> for KvListReplyView<'m> {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: rt::Record<'m>, at: u32) -> Result<Self, rt::Malformed> {
        record.record(at).map(Self::from)
    }

    fn check(&self, budget: &mut rt::Budget) -> Result<(), rt::Malformed> {
        self.record.spend(budget)?;
        self.keys()?.check(budget)?;
        Ok(())
    }
}

/// What is sent: kv await change request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct KvAwaitChangeRequest<'a> {
    /// `key`, up to 64 bytes.
    pub key: &'a str,
}

impl rt::Body for KvAwaitChangeRequest<'_> {
    #[inline(always)]
    fn record_bytes(&self) -> u32 {
        8
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        let mut bytes = 0;
        bytes += rt::encode::measure::bytes(self.key.as_bytes(), 64, "KvAwaitChangeRequest.key")?;
        Ok(bytes)
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {
        self.key.put(place, at, out);
    }
}

/// [`KvAwaitChangeRequest`] where it lies in a message.
#[derive(Clone, Copy, Debug)]
pub struct KvAwaitChangeRequestView<'m> {
    record: rt::Record<'m>,
}

impl<'m> From<rt::Record<'m>> for KvAwaitChangeRequestView<'m> {
    #[inline]
    fn from(record: rt::Record<'m>) -> Self {
        KvAwaitChangeRequestView { record }
    }
}

impl<'m> KvAwaitChangeRequestView<'m> {
    /// `key`, up to 64 bytes.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn key(&self) -> Result<rt::Text<'m, 64>, rt::Malformed> {
        rt::View::view(self.record, 0)
    }
}

impl<'m> rt::View<'m> for KvAwaitChangeRequestView<'m> {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: rt::Record<'m>, at: u32) -> Result<Self, rt::Malformed> {
        record.record(at).map(Self::from)
    }

    fn check(&self, budget: &mut rt::Budget) -> Result<(), rt::Malformed> {
        self.record.spend(budget)?;
        self.key()?.check(budget)?;
        Ok(())
    }
}

/// What answers: kv await change reply.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct KvAwaitChangeReply {
    /// `version`.
    pub version: u64,
}

impl rt::Body for KvAwaitChangeReply {
    #[inline(always)]
    fn record_bytes(&self) -> u32 {
        8
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        Ok(0)
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {
        self.version.put(place, at, out);
    }
}

/// [`KvAwaitChangeReply`] where it lies in a message.
#[derive(Clone, Copy, Debug)]
pub struct KvAwaitChangeReplyView<'m> {
    record: rt::Record<'m>,
}

impl<'m> From<rt::Record<'m>> for KvAwaitChangeReplyView<'m> {
    #[inline]
    fn from(record: rt::Record<'m>) -> Self {
        KvAwaitChangeReplyView { record }
    }
}

impl<'m> KvAwaitChangeReplyView<'m> {
    /// `version`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn version(&self) -> Result<u64, rt::Malformed> {
        rt::View::view(self.record, 0)
    }
}

impl<'m> rt::View<'m> for KvAwaitChangeReplyView<'m> {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: rt::Record<'m>, at: u32) -> Result<Self, rt::Malformed> {
        record.record(at).map(Self::from)
    }

    fn check(&self, budget: &mut rt::Budget) -> Result<(), rt::Malformed> {
        self.record.spend(budget)?;
        Ok(())
    }
}

/// What declines: kv await change error.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct KvAwaitChangeError {
    /// `error`.
    pub error: KvError,
}

impl rt::Body for KvAwaitChangeError {
    #[inline(always)]
    fn record_bytes(&self) -> u32 {
        8
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        Ok(0)
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {
        self.error.put(place, at, out);
    }
}

/// What is sent: kv forget.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct KvForget<'a> {
    /// `key`, up to 64 bytes.
    pub key: &'a str,
}

impl rt::Body for KvForget<'_> {
    #[inline(always)]
    fn record_bytes(&self) -> u32 {
        8
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        let mut bytes = 0;
        bytes += rt::encode::measure::bytes(self.key.as_bytes(), 64, "KvForget.key")?;
        Ok(bytes)
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {
        self.key.put(place, at, out);
    }
}

/// [`KvForget`] where it lies in a message.
#[derive(Clone, Copy, Debug)]
pub struct KvForgetView<'m> {
    record: rt::Record<'m>,
}

impl<'m> From<rt::Record<'m>> for KvForgetView<'m> {
    #[inline]
    fn from(record: rt::Record<'m>) -> Self {
        KvForgetView { record }
    }
}

impl<'m> KvForgetView<'m> {
    /// `key`, up to 64 bytes.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn key(&self) -> Result<rt::Text<'m, 64>, rt::Malformed> {
        rt::View::view(self.record, 0)
    }
}

impl<'m> rt::View<'m> for KvForgetView<'m> {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: rt::Record<'m>, at: u32) -> Result<Self, rt::Malformed> {
        record.record(at).map(Self::from)
    }

    fn check(&self, budget: &mut rt::Budget) -> Result<(), rt::Malformed> {
        self.record.spend(budget)?;
        self.key()?.check(budget)?;
        Ok(())
    }
}

/// What is sent: kv changed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct KvChanged<'a> {
    /// `key`, up to 64 bytes.
    pub key: &'a str,
    /// `version`.
    pub version: u64,
}

impl rt::Body for KvChanged<'_> {
    #[inline(always)]
    fn record_bytes(&self) -> u32 {
        16
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        let mut bytes = 0;
        bytes += rt::encode::measure::bytes(self.key.as_bytes(), 64, "KvChanged.key")?;
        Ok(bytes)
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {
        self.key.put(place, at, out);
        self.version.put(place, at + 8, out);
    }
}

/// [`KvChanged`] where it lies in a message.
#[derive(Clone, Copy, Debug)]
pub struct KvChangedView<'m> {
    record: rt::Record<'m>,
}

impl<'m> From<rt::Record<'m>> for KvChangedView<'m> {
    #[inline]
    fn from(record: rt::Record<'m>) -> Self {
        KvChangedView { record }
    }
}

impl<'m> KvChangedView<'m> {
    /// `key`, up to 64 bytes.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn key(&self) -> Result<rt::Text<'m, 64>, rt::Malformed> {
        rt::View::view(self.record, 0)
    }

    /// `version`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn version(&self) -> Result<u64, rt::Malformed> {
        rt::View::view(self.record, 8)
    }
}

impl<'m> rt::View<'m> for KvChangedView<'m> {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: rt::Record<'m>, at: u32) -> Result<Self, rt::Malformed> {
        record.record(at).map(Self::from)
    }

    fn check(&self, budget: &mut rt::Budget) -> Result<(), rt::Malformed> {
        self.record.spend(budget)?;
        self.key()?.check(budget)?;
        Ok(())
    }
}

/// A store of values by name.
#[derive(Clone, Copy, Debug)]
pub struct Kv;

impl Kv {
    /// Package and name.
    pub const NAME: &'static str = "tombolo.example.Kv";
    /// Grows when peers of before cannot be served.
    pub const VERSION: u32 = 1;
    /// What both sides of a channel must have in common, of package, name and version.
    pub const HASH: u64 = 0x07b5d475eb0914df;
    /// Of everything that peers can notice.
    pub const FINGERPRINT: u64 = 0xe720e3936141ea35;
    /// What the link must be able to carry.
    pub const NEEDS: rt::client::Needs = rt::client::Needs {
        carries: rt::Carries { capabilities: false, buffers: false },
        message_bytes: 40,
    };
}

/// The call `get`, as a type.
#[derive(Clone, Copy, Debug)]
pub struct KvGet;

impl rt::Method for KvGet {
    const ORDINAL: u16 = 1;
    const IDEMPOTENT: bool = true;
    type Reply<'m> = KvGetReplyView<'m>;
    type Error<'m> = KvError;
}

/// The call `put`, as a type.
#[derive(Clone, Copy, Debug)]
pub struct KvPut;

impl rt::Method for KvPut {
    const ORDINAL: u16 = 2;
    const IDEMPOTENT: bool = false;
    type Reply<'m> = KvPutReplyView<'m>;
    type Error<'m> = KvError;
}

/// The call `list`, as a type.
#[derive(Clone, Copy, Debug)]
pub struct KvList;

impl rt::Method for KvList {
    const ORDINAL: u16 = 3;
    const IDEMPOTENT: bool = true;
    type Reply<'m> = KvListReplyView<'m>;
    type Error<'m> = rt::Never;
}

/// The call `await_change`, as a type.
#[derive(Clone, Copy, Debug)]
pub struct KvAwaitChange;

impl rt::Method for KvAwaitChange {
    const ORDINAL: u16 = 4;
    const IDEMPOTENT: bool = true;
    type Reply<'m> = KvAwaitChangeReplyView<'m>;
    type Error<'m> = KvError;
}

/// The calling side of [`Kv`]. `E` takes its events.
#[derive(Debug)]
pub struct KvClient<P, E = ()> {
    client: rt::Client<P>,
    events: E,
}

impl<P: rt::Port, E: KvEvents> KvClient<P, E> {
    /// A client over a channel that was opened with [`Kv::HASH`].
    ///
    /// # Errors
    /// The link lacks what the interface needs.
    pub fn bind(port: P, events: E) -> Result<Self, rt::BindError> {
        let client = rt::Client::bind(port, Kv::NEEDS, rt::client::MAX_IN_FLIGHT)?;
        Ok(KvClient { client, events })
    }

    /// What has passed.
    #[must_use]
    pub fn counts(&self) -> rt::client::Counts {
        self.client.counts()
    }

    /// The channel.
    pub fn port(&mut self) -> &mut P {
        self.client.port()
    }

    /// What takes the events.
    pub fn events(&mut self) -> &mut E {
        &mut self.events
    }

    /// Takes what has arrived, without waiting.
    ///
    /// # Errors
    /// The channel has ended; answers that arrived before can still be waited for.
    pub fn poll(&mut self) -> Result<(), P::Error> {
        let Self { client, events } = self;
        client.poll(&mut |ordinal, body| events.dispatch(ordinal, body))
    }

    /// Whether waiting for a call would return at once.
    #[must_use]
    pub fn is_ready<M>(&self, call: &rt::Pending<M>) -> bool {
        self.client.is_ready(call)
    }

    /// Gives a call up; the server is told.
    pub fn cancel<M>(&mut self, call: rt::Pending<M>) {
        self.client.cancel(call);
    }

    /// The value of a key, and how often it was set.
    ///
    /// The answer is read where it lies.
    ///
    /// # Errors
    /// [`rt::CallError`]; an error that the interface declares is given to `read`.
    #[inline]
    pub fn get<R>(
        &mut self,
        request: &KvGetRequest<'_>,
        timeout: core::time::Duration,
        read: impl FnOnce(Result<KvGetReplyView<'_>, KvError>) -> Result<R, rt::Malformed>,
    ) -> Result<R, rt::CallError<P::Error>> {
        let call = self.start_get(request, timeout)?;
        self.wait_get(call, read)
    }

    /// Calls `get` without waiting for its answer.
    ///
    /// # Errors
    /// [`rt::CallError`]: nothing was sent.
    #[inline]
    pub fn start_get(
        &mut self,
        request: &KvGetRequest<'_>,
        timeout: core::time::Duration,
    ) -> Result<rt::Pending<KvGet>, rt::CallError<P::Error>> {
        self.client.start::<KvGet>(request, timeout)
    }

    /// Waits for the answer to `get`.
    ///
    /// # Errors
    /// [`rt::CallError`]; an error that the interface declares is given to `read`.
    #[inline]
    pub fn wait_get<R>(
        &mut self,
        call: rt::Pending<KvGet>,
        read: impl FnOnce(Result<KvGetReplyView<'_>, KvError>) -> Result<R, rt::Malformed>,
    ) -> Result<R, rt::CallError<P::Error>> {
        let Self { client, events } = self;
        client.wait::<KvGet, R>(call, &mut |ordinal, body| events.dispatch(ordinal, body), read)
    }

    /// Sets a key, if its version is the expected one or none is expected.
    ///
    /// The answer is read where it lies.
    ///
    /// # Errors
    /// [`rt::CallError`]; an error that the interface declares is given to `read`.
    #[inline]
    pub fn put<R>(
        &mut self,
        request: &KvPutRequest<'_>,
        timeout: core::time::Duration,
        read: impl FnOnce(Result<KvPutReplyView<'_>, KvError>) -> Result<R, rt::Malformed>,
    ) -> Result<R, rt::CallError<P::Error>> {
        let call = self.start_put(request, timeout)?;
        self.wait_put(call, read)
    }

    /// Calls `put` without waiting for its answer.
    ///
    /// # Errors
    /// [`rt::CallError`]: nothing was sent.
    #[inline]
    pub fn start_put(
        &mut self,
        request: &KvPutRequest<'_>,
        timeout: core::time::Duration,
    ) -> Result<rt::Pending<KvPut>, rt::CallError<P::Error>> {
        self.client.start::<KvPut>(request, timeout)
    }

    /// Waits for the answer to `put`.
    ///
    /// # Errors
    /// [`rt::CallError`]; an error that the interface declares is given to `read`.
    #[inline]
    pub fn wait_put<R>(
        &mut self,
        call: rt::Pending<KvPut>,
        read: impl FnOnce(Result<KvPutReplyView<'_>, KvError>) -> Result<R, rt::Malformed>,
    ) -> Result<R, rt::CallError<P::Error>> {
        let Self { client, events } = self;
        client.wait::<KvPut, R>(call, &mut |ordinal, body| events.dispatch(ordinal, body), read)
    }

    /// Up to 64 keys that begin with a prefix.
    ///
    /// The answer is read where it lies.
    ///
    /// # Errors
    /// [`rt::CallError`]; an error that the interface declares is given to `read`.
    #[inline]
    pub fn list<R>(
        &mut self,
        request: &KvListRequest<'_>,
        timeout: core::time::Duration,
        read: impl FnOnce(Result<KvListReplyView<'_>, rt::Never>) -> Result<R, rt::Malformed>,
    ) -> Result<R, rt::CallError<P::Error>> {
        let call = self.start_list(request, timeout)?;
        self.wait_list(call, read)
    }

    /// Calls `list` without waiting for its answer.
    ///
    /// # Errors
    /// [`rt::CallError`]: nothing was sent.
    #[inline]
    pub fn start_list(
        &mut self,
        request: &KvListRequest<'_>,
        timeout: core::time::Duration,
    ) -> Result<rt::Pending<KvList>, rt::CallError<P::Error>> {
        self.client.start::<KvList>(request, timeout)
    }

    /// Waits for the answer to `list`.
    ///
    /// # Errors
    /// [`rt::CallError`]; an error that the interface declares is given to `read`.
    #[inline]
    pub fn wait_list<R>(
        &mut self,
        call: rt::Pending<KvList>,
        read: impl FnOnce(Result<KvListReplyView<'_>, rt::Never>) -> Result<R, rt::Malformed>,
    ) -> Result<R, rt::CallError<P::Error>> {
        let Self { client, events } = self;
        client.wait::<KvList, R>(call, &mut |ordinal, body| events.dispatch(ordinal, body), read)
    }

    /// Waits until a key is set, and answers then.
    ///
    /// The answer is read where it lies.
    ///
    /// # Errors
    /// [`rt::CallError`]; an error that the interface declares is given to `read`.
    #[inline]
    pub fn await_change<R>(
        &mut self,
        request: &KvAwaitChangeRequest<'_>,
        timeout: core::time::Duration,
        read: impl FnOnce(Result<KvAwaitChangeReplyView<'_>, KvError>) -> Result<R, rt::Malformed>,
    ) -> Result<R, rt::CallError<P::Error>> {
        let call = self.start_await_change(request, timeout)?;
        self.wait_await_change(call, read)
    }

    /// Calls `await_change` without waiting for its answer.
    ///
    /// # Errors
    /// [`rt::CallError`]: nothing was sent.
    #[inline]
    pub fn start_await_change(
        &mut self,
        request: &KvAwaitChangeRequest<'_>,
        timeout: core::time::Duration,
    ) -> Result<rt::Pending<KvAwaitChange>, rt::CallError<P::Error>> {
        self.client.start::<KvAwaitChange>(request, timeout)
    }

    /// Waits for the answer to `await_change`.
    ///
    /// # Errors
    /// [`rt::CallError`]; an error that the interface declares is given to `read`.
    #[inline]
    pub fn wait_await_change<R>(
        &mut self,
        call: rt::Pending<KvAwaitChange>,
        read: impl FnOnce(Result<KvAwaitChangeReplyView<'_>, KvError>) -> Result<R, rt::Malformed>,
    ) -> Result<R, rt::CallError<P::Error>> {
        let Self { client, events } = self;
        client.wait::<KvAwaitChange, R>(call, &mut |ordinal, body| events.dispatch(ordinal, body), read)
    }

    /// Forgets a key, if it is there. Nobody answers.
    ///
    /// # Errors
    /// [`rt::CallError`]: it was not sent.
    pub fn forget(
        &mut self,
        message: &KvForget<'_>,
        timeout: core::time::Duration,
    ) -> Result<(), rt::CallError<P::Error>> {
        self.client.tell(5, message, timeout)
    }
}

/// Takes the events of [`Kv`]; `()` takes none.
pub trait KvEvents {
    /// A key was set, by whomever.
    ///
    /// # Errors
    /// It could not be read; it is counted.
    fn changed(&mut self, event: KvChangedView<'_>) -> Result<(), rt::Malformed> {
        let _ = event;
        Ok(())
    }
    /// Passes an event on; false if its ordinal is unknown.
    ///
    /// # Errors
    /// It could not be read.
    fn dispatch(&mut self, ordinal: u16, body: rt::Record<'_>) -> Result<bool, rt::Malformed> {
        match ordinal {
            6 => self.changed(body.into()).map(|()| true),
            _ => Ok(false),
        }
    }
}

impl KvEvents for () {}

/// Serves [`Kv`].
pub trait KvHandler {
    /// The value of a key, and how often it was set.
    ///
    /// # Errors
    /// What declines it, or that it is answered later.
    fn get<'s>(
        &'s mut self,
        call: rt::Later,
        request: KvGetRequestView<'_>,
    ) -> Result<KvGetReply<'s>, rt::Decline<KvError>>;

    /// Sets a key, if its version is the expected one or none is expected.
    ///
    /// # Errors
    /// What declines it, or that it is answered later.
    fn put(
        &mut self,
        call: rt::Later,
        request: KvPutRequestView<'_>,
    ) -> Result<KvPutReply, rt::Decline<KvError>>;

    /// Up to 64 keys that begin with a prefix.
    ///
    /// # Errors
    /// What declines it, or that it is answered later.
    fn list<'s>(
        &'s mut self,
        call: rt::Later,
        request: KvListRequestView<'_>,
    ) -> Result<KvListReply<'s>, rt::Decline<rt::Never>>;

    /// Waits until a key is set, and answers then.
    ///
    /// # Errors
    /// What declines it, or that it is answered later.
    fn await_change(
        &mut self,
        call: rt::Later,
        request: KvAwaitChangeRequestView<'_>,
    ) -> Result<KvAwaitChangeReply, rt::Decline<KvError>>;

    /// Forgets a key, if it is there. Nobody answers.
    ///
    /// # Errors
    /// It could not be read; it is counted.
    fn forget(&mut self, message: KvForgetView<'_>) -> Result<(), rt::Malformed>;
}

enum KvReply<'s> {
    Get(KvGetReply<'s>),
    Put(KvPutReply),
    List(KvListReply<'s>),
    AwaitChange(KvAwaitChangeReply),
}

impl rt::Body for KvReply<'_> {
    #[inline]
    fn record_bytes(&self) -> u32 {
        match self {
            KvReply::Get(body) => body.record_bytes(),
            KvReply::Put(body) => body.record_bytes(),
            KvReply::List(body) => body.record_bytes(),
            KvReply::AwaitChange(body) => body.record_bytes(),
        }
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        match self {
            KvReply::Get(body) => body.measure(),
            KvReply::Put(body) => body.measure(),
            KvReply::List(body) => body.measure(),
            KvReply::AwaitChange(body) => body.measure(),
        }
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {
        match self {
            KvReply::Get(body) => body.fields(place, at, out),
            KvReply::Put(body) => body.fields(place, at, out),
            KvReply::List(body) => body.fields(place, at, out),
            KvReply::AwaitChange(body) => body.fields(place, at, out),
        }
    }
}

enum KvFailure {
    Get(KvGetError),
    Put(KvPutError),
    AwaitChange(KvAwaitChangeError),
}

impl rt::Body for KvFailure {
    #[inline]
    fn record_bytes(&self) -> u32 {
        match self {
            KvFailure::Get(body) => body.record_bytes(),
            KvFailure::Put(body) => body.record_bytes(),
            KvFailure::AwaitChange(body) => body.record_bytes(),
        }
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        match self {
            KvFailure::Get(body) => body.measure(),
            KvFailure::Put(body) => body.measure(),
            KvFailure::AwaitChange(body) => body.measure(),
        }
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {
        match self {
            KvFailure::Get(body) => body.fields(place, at, out),
            KvFailure::Put(body) => body.fields(place, at, out),
            KvFailure::AwaitChange(body) => body.fields(place, at, out),
        }
    }
}

/// The serving side of [`Kv`].
#[derive(Debug)]
pub struct KvServer<P> {
    server: rt::Server<P>,
}

impl<P: rt::Port> KvServer<P> {
    /// A server over a channel that was opened with [`Kv::HASH`].
    ///
    /// # Errors
    /// The link lacks what the interface needs.
    pub fn bind(port: P) -> Result<Self, rt::BindError> {
        rt::Server::bind(port, Kv::NEEDS).map(|server| KvServer { server })
    }

    /// What has passed.
    #[must_use]
    pub fn counts(&self) -> rt::client::Counts {
        self.server.counts()
    }

    /// The channel.
    pub fn port(&mut self) -> &mut P {
        self.server.port()
    }

    /// Whether somebody still waits for the answer to a call.
    #[must_use]
    pub fn is_outstanding(&self, call: rt::Later) -> bool {
        self.server.is_outstanding(call)
    }

    /// Takes one message, waiting for it up to `timeout`, and answers it if it is a call. Says whether one came.
    ///
    /// # Errors
    /// [`rt::ServeError`]: the channel is of no use any more.
    #[inline]
    pub fn serve_one(
        &mut self,
        handler: &mut impl KvHandler,
        timeout: core::time::Duration,
    ) -> Result<bool, rt::ServeError<P::Error>> {
        self.server.serve::<KvReply<'_>, KvFailure>(timeout, |header, call, body| match (header.kind, header.ordinal) {
            (rt::Kind::Call, 1) => rt::server::Answer::of(
                handler.get(call, body.into()),
                KvReply::Get,
                |error| KvFailure::Get(KvGetError { error }),
            ),
            (rt::Kind::Call, 2) => rt::server::Answer::of(
                handler.put(call, body.into()),
                KvReply::Put,
                |error| KvFailure::Put(KvPutError { error }),
            ),
            (rt::Kind::Call, 3) => rt::server::Answer::of(
                handler.list(call, body.into()),
                KvReply::List,
                |never| match never {},
            ),
            (rt::Kind::Call, 4) => rt::server::Answer::of(
                handler.await_change(call, body.into()),
                KvReply::AwaitChange,
                |error| KvFailure::AwaitChange(KvAwaitChangeError { error }),
            ),
            (rt::Kind::Message, 5) => rt::server::Answer::of_message(handler.forget(body.into())),
            (rt::Kind::Call, _) => rt::server::Answer::Fault(rt::Fault::Unknown),
            _ => rt::server::Answer::Unknown,
        })
    }

    /// Answers a call of `get` later.
    ///
    /// # Errors
    /// [`rt::ReplyError`]: it was not sent.
    pub fn reply_get(
        &mut self,
        call: rt::Later,
        result: Result<KvGetReply<'_>, KvError>,
        timeout: core::time::Duration,
    ) -> Result<(), rt::ReplyError<P::Error>> {
        self.server.reply(call, 1, result.map_err(|error| KvGetError { error }), timeout)
    }

    /// Answers a call of `put` later.
    ///
    /// # Errors
    /// [`rt::ReplyError`]: it was not sent.
    pub fn reply_put(
        &mut self,
        call: rt::Later,
        result: Result<KvPutReply, KvError>,
        timeout: core::time::Duration,
    ) -> Result<(), rt::ReplyError<P::Error>> {
        self.server.reply(call, 2, result.map_err(|error| KvPutError { error }), timeout)
    }

    /// Answers a call of `list` later.
    ///
    /// # Errors
    /// [`rt::ReplyError`]: it was not sent.
    pub fn reply_list(
        &mut self,
        call: rt::Later,
        result: Result<KvListReply<'_>, rt::Never>,
        timeout: core::time::Duration,
    ) -> Result<(), rt::ReplyError<P::Error>> {
        self.server.reply(call, 3, result, timeout)
    }

    /// Answers a call of `await_change` later.
    ///
    /// # Errors
    /// [`rt::ReplyError`]: it was not sent.
    pub fn reply_await_change(
        &mut self,
        call: rt::Later,
        result: Result<KvAwaitChangeReply, KvError>,
        timeout: core::time::Duration,
    ) -> Result<(), rt::ReplyError<P::Error>> {
        self.server.reply(call, 4, result.map_err(|error| KvAwaitChangeError { error }), timeout)
    }

    /// A key was set, by whomever.
    ///
    /// # Errors
    /// [`rt::CallError`]: it was not sent.
    pub fn changed(
        &mut self,
        message: &KvChanged<'_>,
        timeout: core::time::Duration,
    ) -> Result<(), rt::CallError<P::Error>> {
        self.server.tell(6, message, timeout)
    }
}
