//! Messages as values of their own, to be kept, queued and passed on, as monitors do.
//!
//! The bytes are those that [`View`]s read and [`Encode`] writes. What a field is held in follows from what
//! it is read as: [`Holds`] pairs the two, and [`stands_for!`](crate::stands_for) adds types of others.

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

/// What is read as this can be held as a `V`.
pub trait Holds<V>: Sized {
    /// Bytes that a value takes out of line.
    ///
    /// # Errors
    /// It is longer than `field` may be.
    fn outside(value: &V, field: &'static str) -> Result<usize, OverLimit>;

    /// Writes a value's inline form at an offset of the message, and what belongs to it out of line.
    fn put<K: Sink + ?Sized>(value: &V, place: &mut Place, at: u32, out: &mut Out<'_, K>);

    /// The value. Allocates as much as the message justifies, if it was checked before.
    ///
    /// # Errors
    /// [`Malformed`].
    fn own(self) -> Result<V, Malformed>;
}

/// A struct of two fields, held as a key and what is found under it.
pub trait HoldsPair<A, B>: Sized {
    /// As [`Holds::outside`].
    ///
    /// # Errors
    /// One of them is longer than it may be.
    fn outside_pair(first: &A, second: &B) -> Result<usize, OverLimit>;

    /// As [`Holds::put`].
    fn put_pair<K: Sink + ?Sized>(first: &A, second: &B, place: &mut Place, at: u32, out: &mut Out<'_, K>);

    /// As [`Holds::own`].
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

/// Numbers and the like, which are read as what they are held in.
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

/// Says that a type from elsewhere is held in place of the one that an interface declares. The first closure
/// makes the declared one of it, the second takes it back, if it can be.
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

/// Of structs with two fields, each a key and what is found under it. They lie in the order of their keys,
/// each key once, so that there is one encoding.
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

/// What one side of an interface sends, as one type.
pub trait Messages: Body + Sized {
    /// Its kind, and its ordinal, as a message that belongs to the call with ordinal `asked`; 0 for one that
    /// belongs to none. Nothing if it cannot belong to that.
    fn what(&self, asked: u16) -> Option<(Kind, u16)>;

    /// Checks and takes what a message carries.
    ///
    /// # Errors
    /// [`Malformed`], also for a message that the interface does not have.
    fn take(kind: Kind, ordinal: u16, body: Record<'_>, budget: &mut Budget) -> Result<Self, Malformed>;
}

/// Why there are no bytes of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unsendable {
    /// A field is longer than the interface allows.
    #[error(transparent)]
    OverLimit(#[from] OverLimit),
    /// All of it is longer than may be sent.
    #[error("the message takes {length_bytes} bytes; at most {max_bytes} can be sent")]
    TooLong {
        /// How long it is.
        length_bytes: usize,
        /// How long it may be.
        max_bytes: usize,
    },
    /// It answers a call that is not answered so.
    #[error("call {ordinal} is not answered like that")]
    Answer {
        /// Of the call.
        ordinal: u16,
    },
}

/// A message, and the call that it belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Envelope<B> {
    /// 24 bits of the number of the call, and above them the ordinal of the call. Who makes a call may leave
    /// the ordinal away. 0 for a message that belongs to no call; a call with number 0 is not answered.
    pub request: u32,
    /// What it says.
    pub body: B,
}

/// The bits of a request that are the number of the call.
pub const NUMBER_MASK: u32 = 0x00ff_ffff;

/// The request of a call: its ordinal, up to 255, and its number.
#[must_use]
pub const fn request(ordinal: u16, number: u32) -> u32 {
    if number & NUMBER_MASK == 0 { 0 } else { number & NUMBER_MASK | (ordinal as u32) << 24 }
}

impl<B: Messages> Envelope<B> {
    /// The number that the caller chose.
    #[must_use]
    pub fn number(&self) -> u32 {
        Self::number_of(self.request)
    }

    /// The number of a request.
    #[must_use]
    pub fn number_of(request: u32) -> u32 {
        request & NUMBER_MASK
    }

    /// The message, of up to `max_bytes` bytes.
    ///
    /// # Errors
    /// [`Unsendable`].
    pub fn encode(&self, max_bytes: usize) -> Result<Vec<u8>, Unsendable> {
        encode(self.request, &self.body, max_bytes)
    }

    /// What a message says.
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
        // One-way messages have no number; if one says that it has, that means nothing.
        let request =
            if header.kind() == Kind::Message { 0 } else { request(header.ordinal(), header.call()) };
        Ok(Envelope { request, body })
    }
}

/// The bytes of a message that belongs to a call, as [`Envelope::encode`].
///
/// # Errors
/// [`Unsendable`].
pub fn encode<B: Messages>(request: u32, body: &B, max_bytes: usize) -> Result<Vec<u8>, Unsendable> {
    let asked = (request >> 24) as u16;
    let (kind, ordinal) = body.what(asked).ok_or(Unsendable::Answer { ordinal: asked })?;
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

/// The kind and ordinal of a message that can have those ordinals and belongs to call `asked`.
#[must_use]
pub fn what(kind: Kind, ordinals: &[u16], asked: u16) -> Option<(Kind, u16)> {
    match ordinals {
        [only] if asked == 0 || asked == *only => Some((kind, *only)),
        several => several.contains(&asked).then_some((kind, asked)),
    }
}

/// Bytes of what a case of a union carries, without what lies out of line of it.
#[must_use]
pub fn case_bytes<'m, T: View<'m>>() -> usize {
    round_up(T::BYTES) as usize
}

/// Writes a case of a union: its number, and what it carries out of line.
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

/// Writes the fields of a struct that lies out of line.
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

/// Writes an object and returns where it lies.
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
