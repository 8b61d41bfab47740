//! Messages as owned values, to be kept, queued and passed on, as monitors do.
//!
//! The bytes are those that [`View`]s decode and [`Encode`] writes. The decoded type of a field determines
//! how it can be owned: [`Holds`] pairs the two, and [`stands_for!`](crate::stands_for) adds types of other
//! crates.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use tombolo_base::DomainId;

use crate::encode::{Body, Encode, Out, Place, round_up};
use crate::error::{Malformed, OverLimit};
use crate::message::{Header, Kind, Outgoing};
use crate::source::{Sink, Source};
use crate::view::{Array, Blob, Budget, Domain, List, Record, Text, View};

/// Decoded type that can be owned as a `V`.
pub trait Holds<V>: Sized {
    /// Returns the out-of-line size of a value, in bytes.
    ///
    /// # Errors
    /// The value exceeds the limit of `field`.
    fn outside(value: &V, field: &'static str) -> Result<usize, OverLimit>;

    /// Writes a value's inline form at an offset of the message, and its out-of-line parts.
    fn put<K: Sink + ?Sized>(value: &V, place: &mut Place, at: u32, out: &mut Out<'_, K>);

    /// Returns the owned value. If the message was checked before, allocates in proportion to its length.
    ///
    /// # Errors
    /// [`Malformed`].
    fn own(self) -> Result<V, Malformed>;
}

/// Struct of two fields, owned as a key and a value.
pub trait HoldsPair<A, B>: Sized {
    /// Like [`Holds::outside`], for a pair.
    ///
    /// # Errors
    /// Either of them exceeds its limit.
    fn outside_pair(first: &A, second: &B) -> Result<usize, OverLimit>;

    /// Like [`Holds::put`], for a pair.
    fn put_pair<K: Sink + ?Sized>(first: &A, second: &B, place: &mut Place, at: u32, out: &mut Out<'_, K>);

    /// Like [`Holds::own`], for a pair.
    ///
    /// # Errors
    /// [`Malformed`].
    fn own_pair(self) -> Result<(A, B), Malformed>;
}

impl<T: HoldsPair<A, B>, A, B> Holds<(A, B)> for T {
    fn outside((first, second): &(A, B), _: &'static str) -> Result<usize, OverLimit> {
        T::outside_pair(first, second)
    }

    fn put<K: Sink + ?Sized>((first, second): &(A, B), place: &mut Place, at: u32, out: &mut Out<'_, K>) {
        T::put_pair(first, second, place, at, out);
    }

    fn own(self) -> Result<(A, B), Malformed> {
        self.own_pair()
    }
}

/// Implements [`Holds`] for numbers and similar types, which are decoded as the type that owns them.
#[macro_export]
macro_rules! holds_itself {
    ($($of:ty),*) => {
        $(impl $crate::Holds<$of> for $of {
            #[inline]
            fn outside(_: &$of, _: &'static str) -> Result<usize, $crate::OverLimit> {
                Ok(0)
            }

            #[inline]
            fn put<K: $crate::Sink + ?Sized>(
                value: &$of,
                place: &mut $crate::encode::Place,
                at: u32,
                out: &mut $crate::encode::Out<'_, K>,
            ) {
                $crate::Encode::put(value, place, at, out);
            }

            #[inline]
            fn own(self) -> Result<$of, $crate::Malformed> {
                Ok(self)
            }
        })*
    };
}

holds_itself!(bool, u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);

/// Declares that a type from elsewhere is owned in place of the one that an interface declares. The first
/// closure converts it to the declared type, the second converts it back, if possible.
#[macro_export]
macro_rules! stands_for {
    ($view:ident $(<$m:lifetime>)?: $declared:ty as $held:ty; $to:expr, $from:expr $(,)?) => {
        impl $(<$m>)? $crate::Holds<$held> for $view $(<$m>)? {
            fn outside(value: &$held, field: &'static str) -> Result<usize, $crate::OverLimit> {
                let declared: fn(&$held) -> $declared = $to;
                <Self as $crate::Holds<$declared>>::outside(&declared(value), field)
            }

            fn put<K: $crate::Sink + ?Sized>(
                value: &$held,
                place: &mut $crate::encode::Place,
                at: u32,
                out: &mut $crate::encode::Out<'_, K>,
            ) {
                let declared: fn(&$held) -> $declared = $to;
                <Self as $crate::Holds<$declared>>::put(&declared(value), place, at, out);
            }

            fn own(self) -> Result<$held, $crate::Malformed> {
                let held: fn($declared) -> Option<$held> = $from;
                let declared = <Self as $crate::Holds<$declared>>::own(self)?;
                held(declared).ok_or($crate::Malformed::Meaning { what: stringify!($held) })
            }
        }
    };
}

impl<const MAX: u32> Holds<String> for Text<'_, MAX> {
    fn outside(value: &String, field: &'static str) -> Result<usize, OverLimit> {
        <Self as crate::Fits<&str>>::outside(&value.as_str(), field)
    }

    fn put<K: Sink + ?Sized>(value: &String, place: &mut Place, at: u32, out: &mut Out<'_, K>) {
        value.as_str().put(place, at, out);
    }

    fn own(self) -> Result<String, Malformed> {
        self.to_string()
    }
}

impl<const MAX: u32> Holds<Vec<u8>> for Blob<'_, MAX> {
    fn outside(value: &Vec<u8>, field: &'static str) -> Result<usize, OverLimit> {
        <Self as crate::Fits<&[u8]>>::outside(&value.as_slice(), field)
    }

    fn put<K: Sink + ?Sized>(value: &Vec<u8>, place: &mut Place, at: u32, out: &mut Out<'_, K>) {
        value.as_slice().put(place, at, out);
    }

    fn own(self) -> Result<Vec<u8>, Malformed> {
        Ok(self.to_vec())
    }
}

impl<'m, T: View<'m> + Holds<V>, V> Holds<Option<V>> for Option<T> {
    fn outside(value: &Option<V>, field: &'static str) -> Result<usize, OverLimit> {
        value.as_ref().map_or(Ok(0), |value| T::outside(value, field))
    }

    fn put<K: Sink + ?Sized>(value: &Option<V>, place: &mut Place, at: u32, out: &mut Out<'_, K>) {
        if let Some(value) = value {
            place.bits(out, at, 1);
            T::put(value, place, at.saturating_add(T::ALIGN), out);
        }
    }

    fn own(self) -> Result<Option<V>, Malformed> {
        self.map(T::own).transpose()
    }
}

impl<'m, T: View<'m> + Holds<V>, V, const MAX: u32> Holds<Vec<V>> for List<'m, T, MAX> {
    fn outside(value: &Vec<V>, field: &'static str) -> Result<usize, OverLimit> {
        crate::fits::within(value.len(), MAX, field)?;
        let inline = (value.len() * T::BYTES as usize).next_multiple_of(8);
        value.iter().try_fold(inline, |sum, item| Ok(sum + T::outside(item, field)?))
    }

    fn put<K: Sink + ?Sized>(value: &Vec<V>, place: &mut Place, at: u32, out: &mut Out<'_, K>) {
        let count = u32::try_from(value.len()).unwrap_or(u32::MAX);
        let reference =
            out.elements(count, T::BYTES, value, |item, place, at, out| T::put(item, place, at, out));
        place.reference(out, at, reference);
    }

    fn own(self) -> Result<Vec<V>, Malformed> {
        self.iter().map(|item| item?.own()).collect()
    }
}

/// Maps are encoded as lists of structs with two fields, each a key and a value. They are sorted by key and
/// each key occurs once, so that the encoding is unique.
impl<'m, T, Key, V, const MAX: u32> Holds<BTreeMap<Key, V>> for List<'m, T, MAX>
where
    T: View<'m> + HoldsPair<Key, V>,
    Key: Ord,
{
    fn outside(value: &BTreeMap<Key, V>, field: &'static str) -> Result<usize, OverLimit> {
        crate::fits::within(value.len(), MAX, field)?;
        let inline = (value.len() * T::BYTES as usize).next_multiple_of(8);
        value.iter().try_fold(inline, |sum, (key, value)| Ok(sum + T::outside_pair(key, value)?))
    }

    fn put<K: Sink + ?Sized>(value: &BTreeMap<Key, V>, place: &mut Place, at: u32, out: &mut Out<'_, K>) {
        let count = u32::try_from(value.len()).unwrap_or(u32::MAX);
        let reference = out.elements(count, T::BYTES, value, |(key, value), place, at, out| {
            T::put_pair(key, value, place, at, out);
        });
        place.reference(out, at, reference);
    }

    fn own(self) -> Result<BTreeMap<Key, V>, Malformed> {
        let mut map = BTreeMap::new();
        for item in self.iter() {
            let (key, value) = item?.own_pair()?;
            if map.last_key_value().is_some_and(|(last, _)| *last >= key) {
                return Err(Malformed::Meaning { what: "map in the order of its keys" });
            }
            map.insert(key, value);
        }
        Ok(map)
    }
}

impl<'m, T: View<'m> + Holds<V>, V, const COUNT: u32, const N: usize> Holds<[V; N]> for Array<'m, T, COUNT> {
    fn outside(value: &[V; N], field: &'static str) -> Result<usize, OverLimit> {
        value.iter().try_fold(0, |sum, item| Ok(sum + T::outside(item, field)?))
    }

    fn put<K: Sink + ?Sized>(value: &[V; N], place: &mut Place, at: u32, out: &mut Out<'_, K>) {
        let mut at = at;
        for item in value {
            T::put(item, place, at, out);
            at = at.saturating_add(T::BYTES);
        }
    }

    fn own(self) -> Result<[V; N], Malformed> {
        let items: Vec<V> = self.iter().map(|item| item?.own()).collect::<Result<_, _>>()?;
        items.try_into().map_err(|_| Malformed::Short)
    }
}

impl Holds<DomainId> for Domain {
    fn outside(_: &DomainId, _: &'static str) -> Result<usize, OverLimit> {
        Ok(0)
    }

    fn put<K: Sink + ?Sized>(value: &DomainId, place: &mut Place, at: u32, out: &mut Out<'_, K>) {
        Domain(value.to_bits()).put(place, at, out);
    }

    fn own(self) -> Result<DomainId, Malformed> {
        DomainId::from_bits(self.0).ok_or(Malformed::Meaning { what: "domain id" })
    }
}

/// Messages that one side of an interface sends, as one type.
pub trait Messages: Body + Sized {
    /// Returns the kind and ordinal, for a message that belongs to the call with ordinal `call_ordinal`; 0 if
    /// it belongs to none. Returns `None` if it cannot belong to that call.
    fn what(&self, call_ordinal: u16) -> Option<(Kind, u16)>;

    /// Checks and decodes the contents of a message.
    ///
    /// # Errors
    /// [`Malformed`], also for a message that the interface does not define.
    fn take(kind: Kind, ordinal: u16, body: Record<'_>, budget: &mut Budget) -> Result<Self, Malformed>;
}

/// Reason why a message could not be encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unsendable {
    /// A field exceeds its limit in the interface.
    #[error(transparent)]
    OverLimit(#[from] OverLimit),
    /// The message exceeds the length limit.
    #[error("the message takes {length_bytes} bytes; at most {max_bytes} can be sent")]
    TooLong {
        /// Length of the message, in bytes.
        length_bytes: usize,
        /// Length limit, in bytes.
        max_bytes: usize,
    },
    /// The message is not a valid answer to its call.
    #[error("call {ordinal} is not answered like that")]
    Answer {
        /// Ordinal of the call.
        ordinal: u16,
    },
}

/// Message, and the call that it belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Envelope<B> {
    /// Number of the call in the lower 24 bits, and the ordinal of the call above. The caller may omit the
    /// ordinal. 0 for a message that belongs to no call; a call with number 0 is not answered.
    pub request: u32,
    /// Contents of the message.
    pub body: B,
}

/// Bits of a request that hold the number of the call.
pub const NUMBER_MASK: u32 = 0x00ff_ffff;

/// Returns the request of a call: its ordinal, up to 255, and its number.
#[must_use]
pub const fn request(ordinal: u16, number: u32) -> u32 {
    if number & NUMBER_MASK == 0 { 0 } else { number & NUMBER_MASK | (ordinal as u32) << 24 }
}

impl<B: Messages> Envelope<B> {
    /// Returns the number that the caller chose.
    #[must_use]
    pub fn number(&self) -> u32 {
        Self::number_of(self.request)
    }

    /// Returns the number in a request.
    #[must_use]
    pub fn number_of(request: u32) -> u32 {
        request & NUMBER_MASK
    }

    /// Encodes the message, in up to `max_bytes` bytes.
    ///
    /// # Errors
    /// [`Unsendable`].
    pub fn encode(&self, max_bytes: usize) -> Result<Vec<u8>, Unsendable> {
        encode(self.request, &self.body, max_bytes)
    }

    /// Decodes a message and its request.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let source = Source::Bytes(bytes);
        let (header, record) = Header::read(source)?;
        let mut budget = Budget::of(source);
        let body = B::take(header.kind(), header.ordinal(), record, &mut budget)?;
        if matches!(header.kind(), Kind::Reply | Kind::Error) && header.call() == 0 {
            return Err(Malformed::Answer);
        }
        // One-way messages have no number. If one has a number anyway, it is ignored.
        let request =
            if header.kind() == Kind::Message { 0 } else { request(header.ordinal(), header.call()) };
        Ok(Envelope { request, body })
    }
}

/// Encodes a message that belongs to a call, as [`Envelope::encode`].
///
/// # Errors
/// [`Unsendable`].
pub fn encode<B: Messages>(request: u32, body: &B, max_bytes: usize) -> Result<Vec<u8>, Unsendable> {
    let call_ordinal = (request >> 24) as u16;
    let (kind, ordinal) = body.what(call_ordinal).ok_or(Unsendable::Answer { ordinal: call_ordinal })?;
    let call = if kind == Kind::Message { 0 } else { request & NUMBER_MASK };
    let message = Outgoing::new(Header::new(ordinal, kind, call), body)?;
    let length_bytes = message.length_bytes();
    if length_bytes > max_bytes {
        return Err(Unsendable::TooLong { length_bytes, max_bytes });
    }
    let mut bytes = vec![0; length_bytes];
    message.write(&mut *bytes);
    Ok(bytes)
}

/// Returns the kind and ordinal of a message that may have any of `ordinals` and belongs to call
/// `call_ordinal`.
#[must_use]
pub fn what(kind: Kind, ordinals: &[u16], call_ordinal: u16) -> Option<(Kind, u16)> {
    match ordinals {
        [only] if call_ordinal == 0 || call_ordinal == *only => Some((kind, *only)),
        several => several.contains(&call_ordinal).then_some((kind, call_ordinal)),
    }
}

/// Returns the size of a union case's contents, without their own out-of-line parts, in bytes.
#[must_use]
pub fn case_bytes<'m, T: View<'m>>() -> usize {
    round_up(T::BYTES) as usize
}

/// Writes a case of a union: its number, and its contents out of line.
pub fn put_case<'m, T: View<'m>, K: Sink + ?Sized>(
    ordinal: u32,
    place: &mut Place,
    at: u32,
    out: &mut Out<'_, K>,
    put: impl FnOnce(&mut Place, u32, &mut Out<'_, K>),
) {
    let bytes = round_up(T::BYTES);
    let start = object(bytes, out, put);
    place.reference(out, at, (ordinal, bytes));
    place.bits(out, at.saturating_add(8), u64::from(start));
}

/// Writes the fields of a struct out of line.
pub fn put_apart<K: Sink + ?Sized>(
    bytes: u32,
    place: &mut Place,
    at: u32,
    out: &mut Out<'_, K>,
    put: impl FnOnce(&mut Place, u32, &mut Out<'_, K>),
) {
    let start = object(bytes, out, put);
    place.reference(out, at, (start, bytes));
}

/// Writes an object and returns its position.
fn object<K: Sink + ?Sized>(
    bytes: u32,
    out: &mut Out<'_, K>,
    put: impl FnOnce(&mut Place, u32, &mut Out<'_, K>),
) -> u32 {
    let mut object = out.object(bytes);
    let start = object.start();
    put(&mut object, start, out);
    object.finish(out);
    start
}
