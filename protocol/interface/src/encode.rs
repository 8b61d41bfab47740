//! Encodes values word by word, directly into the memory that they are sent from.

use crate::error::OverLimit;
use crate::source::Sink;

/// Size of a message's header, in bytes.
pub const HEADER_BYTES: u32 = 8;

/// Rounds up to a multiple of eight.
#[inline(always)]
#[must_use]
pub const fn round_up(bytes: u32) -> u32 {
    bytes.saturating_add(7) & !7
}

/// Message being written, and the position of the next out-of-line object.
pub struct Out<'a, K: Sink + ?Sized> {
    sink: &'a mut K,
    next: u32,
}

impl<'a, K: Sink + ?Sized> Out<'a, K> {
    #[inline(always)]
    pub(crate) fn new(sink: &'a mut K) -> Self {
        Out { sink, next: 0 }
    }

    /// Allocates an object of `bytes` bytes.
    #[inline(always)]
    pub(crate) fn object(&mut self, bytes: u32) -> Place {
        let start = self.next;
        self.next = start.saturating_add(round_up(bytes));
        Place { word_at: start, word: 0, start, end: self.next }
    }

    /// Writes elements one after the other, as an object. Returns the object's position.
    pub(crate) fn elements<I: IntoIterator>(
        &mut self,
        count: u32,
        each_bytes: u32,
        items: I,
        mut put: impl FnMut(I::Item, &mut Place, u32, &mut Self),
    ) -> (u32, u32) {
        if count == 0 {
            return (0, 0);
        }
        let mut place = self.object(count.saturating_mul(each_bytes));
        let start = place.start;
        let mut at = start;
        for item in items {
            put(item, &mut place, at, self);
            at = at.saturating_add(each_bytes);
        }
        place.finish(self);
        (start, count)
    }

    fn text(&mut self, bytes: &[u8]) -> (u32, u32) {
        let count = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        if count == 0 {
            return (0, 0);
        }
        let place = self.object(count);
        self.sink.bytes(place.start, bytes);
        (place.start, count)
    }
}

/// Object that is being written from start to end. Words that are not written are zero.
pub struct Place {
    word_at: u32,
    word: u64,
    start: u32,
    end: u32,
}

impl Place {
    /// Returns the object's offset in the message.
    #[inline(always)]
    #[must_use]
    pub fn start(&self) -> u32 {
        self.start
    }

    /// Writes a number at an offset of the message. Offsets must not decrease.
    #[inline(always)]
    pub fn bits<K: Sink + ?Sized>(&mut self, out: &mut Out<'_, K>, at: u32, value: u64) {
        self.flush(out, at & !7);
        self.word |= value << ((at & 7) * 8);
    }

    /// Writes a reference to an out-of-line object.
    #[inline(always)]
    pub(crate) fn reference<K: Sink + ?Sized>(
        &mut self,
        out: &mut Out<'_, K>,
        at: u32,
        (start, count): (u32, u32),
    ) {
        self.bits(out, at, u64::from(start) | u64::from(count) << 32);
    }

    #[inline(always)]
    fn flush<K: Sink + ?Sized>(&mut self, out: &mut Out<'_, K>, until: u32) {
        while self.word_at < until {
            out.sink.word(self.word_at, self.word);
            self.word = 0;
            self.word_at += 8;
        }
    }

    /// Writes the remaining bytes.
    #[inline(always)]
    pub fn finish<K: Sink + ?Sized>(mut self, out: &mut Out<'_, K>) {
        self.flush(out, self.end);
    }
}

/// Type of a field that can be encoded.
pub trait Encode: Sized {
    /// Size of the inline form, in bytes.
    const BYTES: u32;

    /// Alignment of the inline form, in bytes.
    const ALIGN: u32;

    /// Writes the inline form at an offset of the message, and the parts that belong to it out of line.
    fn put<K: Sink + ?Sized>(&self, place: &mut Place, at: u32, out: &mut Out<'_, K>);

    /// Writes many values one after the other, as an object. Returns the object's position.
    fn put_all<K: Sink + ?Sized>(items: &[Self], out: &mut Out<'_, K>) -> (u32, u32) {
        let count = u32::try_from(items.len()).unwrap_or(u32::MAX);
        out.elements(count, Self::BYTES, items, |item, place, at, out| item.put(place, at, out))
    }
}

/// Fields of a struct, or contents of a message.
pub trait Body {
    /// Returns the size of the fields' inline forms, in bytes: a multiple of eight unless the struct is
    /// frozen.
    fn record_bytes(&self) -> u32;

    /// Returns the size of the out-of-line parts, in bytes.
    ///
    /// # Errors
    /// A field exceeds its limit in the interface.
    fn measure(&self) -> Result<usize, OverLimit>;

    /// Writes the fields of a record that begins at an offset of the message.
    fn fields<K: Sink + ?Sized>(&self, place: &mut Place, at: u32, out: &mut Out<'_, K>);
}

/// Writes a struct out of line.
#[inline]
pub fn put_record<K: Sink + ?Sized>(body: &impl Body, place: &mut Place, at: u32, out: &mut Out<'_, K>) {
    let bytes = body.record_bytes();
    let mut record = out.object(bytes);
    let start = record.start;
    body.fields(&mut record, start, out);
    record.finish(out);
    place.reference(out, at, (start, bytes));
}

/// Writes a case of a union: its number, and its contents out of line.
#[inline]
pub fn put_case<K: Sink + ?Sized, T: Encode>(
    ordinal: u32,
    value: &T,
    place: &mut Place,
    at: u32,
    out: &mut Out<'_, K>,
) {
    let bytes = round_up(T::BYTES);
    let mut object = out.object(bytes);
    let start = object.start;
    value.put(&mut object, start, out);
    object.finish(out);
    place.reference(out, at, (ordinal, bytes));
    place.bits(out, at.saturating_add(8), u64::from(start));
}

macro_rules! numbers {
    ($($number:ty as $bits:ty),*) => {
        $(impl Encode for $number {
            const BYTES: u32 = size_of::<$number>() as u32;
            const ALIGN: u32 = size_of::<$number>() as u32;

            #[inline(always)]
            fn put<K: Sink + ?Sized>(&self, place: &mut Place, at: u32, out: &mut Out<'_, K>) {
                place.bits(out, at, u64::from(*self as $bits));
            }
        })*
    };
}

numbers!(u16 as u16, u32 as u32, u64 as u64, i8 as u8, i16 as u16, i32 as u32, i64 as u64, bool as u8);

impl Encode for u8 {
    const BYTES: u32 = 1;
    const ALIGN: u32 = 1;

    #[inline(always)]
    fn put<K: Sink + ?Sized>(&self, place: &mut Place, at: u32, out: &mut Out<'_, K>) {
        place.bits(out, at, u64::from(*self));
    }

    fn put_all<K: Sink + ?Sized>(items: &[Self], out: &mut Out<'_, K>) -> (u32, u32) {
        out.text(items)
    }
}

macro_rules! floats {
    ($($float:ty),*) => {
        $(impl Encode for $float {
            const BYTES: u32 = size_of::<$float>() as u32;
            const ALIGN: u32 = size_of::<$float>() as u32;

            #[inline(always)]
            fn put<K: Sink + ?Sized>(&self, place: &mut Place, at: u32, out: &mut Out<'_, K>) {
                place.bits(out, at, u64::from(self.to_bits()));
            }
        })*
    };
}

floats!(f32, f64);

impl Encode for &str {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn put<K: Sink + ?Sized>(&self, place: &mut Place, at: u32, out: &mut Out<'_, K>) {
        let reference = out.text(self.as_bytes());
        place.reference(out, at, reference);
    }
}

impl<T: Encode> Encode for &[T] {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn put<K: Sink + ?Sized>(&self, place: &mut Place, at: u32, out: &mut Out<'_, K>) {
        let reference = T::put_all(self, out);
        place.reference(out, at, reference);
    }
}

impl<T: Encode, const N: usize> Encode for [T; N] {
    const BYTES: u32 = T::BYTES * N as u32;
    const ALIGN: u32 = T::ALIGN;

    #[inline]
    fn put<K: Sink + ?Sized>(&self, place: &mut Place, at: u32, out: &mut Out<'_, K>) {
        let mut at = at;
        for item in self {
            item.put(place, at, out);
            at = at.saturating_add(T::BYTES);
        }
    }
}

impl<T: Encode> Encode for Option<T> {
    const BYTES: u32 = T::ALIGN + T::BYTES;
    const ALIGN: u32 = T::ALIGN;

    #[inline]
    fn put<K: Sink + ?Sized>(&self, place: &mut Place, at: u32, out: &mut Out<'_, K>) {
        if let Some(value) = self {
            place.bits(out, at, 1);
            value.put(place, at.saturating_add(T::ALIGN), out);
        }
    }
}

/// Returns the size of a union case's contents, without their own out-of-line parts, in bytes.
#[inline(always)]
#[must_use]
pub const fn case_bytes<T: Encode>() -> usize {
    round_up(T::BYTES) as usize
}
