//! Messages read in place, field by field. Each value is loaded once and checked, and only the copy is used.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use crate::encode::{Encode, Out, Place, round_up};
use crate::error::Malformed;
use crate::source::{Sink, Source};

/// Number of bytes of a message that may still be examined: initially its length, so that overlapping parts
/// cannot make a short message expensive.
#[derive(Debug)]
pub struct Budget {
    bytes: u64,
}

impl Budget {
    /// Creates a budget of the length of the message.
    #[must_use]
    pub fn of(source: Source<'_>) -> Self {
        Budget { bytes: source.len_bytes() as u64 }
    }

    /// Charges an object to the budget.
    ///
    /// # Errors
    /// [`Malformed::Overlap`].
    pub fn spend(&mut self, bytes: u32) -> Result<(), Malformed> {
        self.bytes = self.bytes.checked_sub(u64::from(bytes)).ok_or(Malformed::Overlap)?;
        Ok(())
    }
}

/// Type of a field that can be decoded.
pub trait View<'m>: Sized {
    /// Size of the inline form, in bytes.
    const BYTES: u32;

    /// Alignment of the inline form, in bytes.
    const ALIGN: u32;

    /// Decodes the inline form at an offset of the record.
    ///
    /// # Errors
    /// [`Malformed`].
    fn view(record: Record<'m>, at: u32) -> Result<Self, Malformed>;

    /// Checks everything that the value contains.
    ///
    /// # Errors
    /// [`Malformed`].
    fn check(&self, budget: &mut Budget) -> Result<(), Malformed> {
        let _ = budget;
        Ok(())
    }
}

/// Object of a message: the fields of a struct, or the elements of a list. It lies completely in the message.
///
/// An object that is shorter than this side expects comes from an older peer; missing fields read as zero.
#[derive(Clone, Copy)]
pub struct Record<'m> {
    source: Source<'m>,
    start: u32,
    bytes: u32,
}

impl<'m> Record<'m> {
    /// Returns the object at an offset, if it lies in the message.
    #[inline]
    pub(crate) fn new(source: Source<'m>, start: u32, bytes: u32) -> Option<Self> {
        let end = u64::from(start) + u64::from(bytes);
        (end <= source.len_bytes() as u64).then_some(Record { source, start, bytes })
    }

    /// Returns its length, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Returns its offset in the message, in bytes.
    #[must_use]
    pub fn start(&self) -> u32 {
        self.start
    }

    /// Reads a number of up to eight bytes, naturally aligned. Its upper bits hold the bytes that follow it.
    /// Missing bytes are zero.
    ///
    /// # Errors
    /// [`Malformed::Short`].
    #[inline]
    pub fn bits(&self, at: u32) -> Result<u64, Malformed> {
        if at >= self.bytes {
            return Ok(0);
        }
        let at = self.start.saturating_add(at);
        let word = self.source.word(at & !7).ok_or(Malformed::Short)?;
        Ok(word >> ((at & 7) * 8))
    }

    /// Converts an offset in the record to an offset in the message.
    #[must_use]
    pub fn place(&self, at: u32) -> u32 {
        self.start.saturating_add(at)
    }

    /// Returns the object that the word at an offset refers to, whose elements take `each` bytes, and their
    /// number.
    ///
    /// # Errors
    /// [`Malformed::TooMany`], [`Malformed::Reference`].
    #[inline]
    pub fn object(&self, at: u32, each: u32, max: u32) -> Result<(Record<'m>, u32), Malformed> {
        let word = self.bits(at)?;
        let (start, count) = (word as u32, (word >> 32) as u32);
        let place = self.place(at);
        if count > max {
            return Err(Malformed::TooMany { at: place, count, max });
        }
        let bytes = count.checked_mul(each).filter(|bytes| *bytes <= u32::MAX - 7).map(round_up);
        let bytes = bytes.ok_or(Malformed::Reference { at: place })?;
        self.object_at(start, bytes, place).map(|record| (record, count))
    }

    fn object_at(&self, start: u32, bytes: u32, place: u32) -> Result<Record<'m>, Malformed> {
        let canonical = if bytes == 0 { start == 0 } else { start >= 8 && start.is_multiple_of(8) };
        let object = Record::new(self.source, start, bytes).filter(|_| canonical);
        object.ok_or(Malformed::Reference { at: place })
    }

    /// Returns the fields of a struct that lies out of line.
    ///
    /// # Errors
    /// [`Malformed::Reference`].
    #[inline]
    pub fn record(&self, at: u32) -> Result<Record<'m>, Malformed> {
        let (record, bytes) = self.object(at, 1, u32::MAX)?;
        if bytes.is_multiple_of(8) { Ok(record) } else { Err(Malformed::Reference { at: self.place(at) }) }
    }

    /// Returns the fields of a struct that lies inline.
    #[inline]
    #[must_use]
    pub fn inline(&self, at: u32, bytes: u32) -> Record<'m> {
        let rest = self.bytes.saturating_sub(at);
        Record { source: self.source, start: self.place(at), bytes: bytes.min(rest) }
    }

    /// Returns the contents of a union case, which must take `bytes` bytes.
    ///
    /// # Errors
    /// [`Malformed::Reference`].
    #[inline]
    pub fn exactly(self, bytes: u32) -> Result<Record<'m>, Malformed> {
        if self.bytes == bytes { Ok(self) } else { Err(Malformed::Reference { at: self.start }) }
    }

    /// Returns the value of a union case without contents.
    #[inline]
    #[must_use]
    pub fn stands_for<T>(self, value: T) -> T {
        value
    }

    /// Returns the case of a union, and its contents.
    ///
    /// # Errors
    /// [`Malformed::Reference`].
    #[inline]
    pub fn case(&self, at: u32) -> Result<(u32, Record<'m>), Malformed> {
        let (word, start) = (self.bits(at)?, self.bits(at.saturating_add(8))?);
        let (ordinal, bytes) = (word as u32, (word >> 32) as u32);
        let place = self.place(at);
        let start = u32::try_from(start).ok().filter(|_| bytes.is_multiple_of(8));
        let record = self.object_at(start.ok_or(Malformed::Reference { at: place })?, bytes, place)?;
        if ordinal == 0 { Err(Malformed::Value { at: place, value: 0 }) } else { Ok((ordinal, record)) }
    }

    /// Returns the error for an undefined value at `at`.
    #[must_use]
    pub fn unnamed(&self, at: u32, value: impl Into<i128>) -> Malformed {
        Malformed::Value { at: self.place(at), value: value.into() as u64 }
    }

    /// Charges this object to the budget.
    ///
    /// # Errors
    /// [`Malformed::Overlap`].
    pub fn spend(&self, budget: &mut Budget) -> Result<(), Malformed> {
        budget.spend(self.bytes)
    }
}

impl fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Record({} bytes at {})", self.bytes, self.start)
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl View<'_> for $number {
            const BYTES: u32 = size_of::<$number>() as u32;
            const ALIGN: u32 = size_of::<$number>() as u32;

            #[inline]
            fn view(record: Record<'_>, at: u32) -> Result<Self, Malformed> {
                Ok(record.bits(at)? as $number)
            }
        })*
    };
}

numbers!(u8, u16, u32, u64, i8, i16, i32, i64);

impl View<'_> for f32 {
    const BYTES: u32 = 4;
    const ALIGN: u32 = 4;

    fn view(record: Record<'_>, at: u32) -> Result<Self, Malformed> {
        Ok(f32::from_bits(record.bits(at)? as u32))
    }
}

impl View<'_> for f64 {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    fn view(record: Record<'_>, at: u32) -> Result<Self, Malformed> {
        Ok(f64::from_bits(record.bits(at)?))
    }
}

impl View<'_> for bool {
    const BYTES: u32 = 1;
    const ALIGN: u32 = 1;

    #[inline]
    fn view(record: Record<'_>, at: u32) -> Result<Self, Malformed> {
        match record.bits(at)? as u8 {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(Malformed::Bool { at: record.place(at), value }),
        }
    }
}

impl<'m, T: View<'m>> View<'m> for Option<T> {
    const BYTES: u32 = T::ALIGN + T::BYTES;
    const ALIGN: u32 = T::ALIGN;

    #[inline]
    fn view(record: Record<'m>, at: u32) -> Result<Self, Malformed> {
        let there = bool::view(record, at)?;
        if there { T::view(record, at.saturating_add(T::ALIGN)).map(Some) } else { Ok(None) }
    }

    fn check(&self, budget: &mut Budget) -> Result<(), Malformed> {
        self.as_ref().map_or(Ok(()), |value| value.check(budget))
    }
}

/// Byte string of up to `MAX` bytes.
#[derive(Clone, Copy, Debug)]
pub struct Blob<'m, const MAX: u32> {
    record: Record<'m>,
    count: u32,
}

impl<const MAX: u32> Blob<'_, MAX> {
    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Copies the bytes to the start of `target`, and returns that part; `None` if `target` is too short.
    #[must_use]
    pub fn copy_to<'t>(&self, target: &'t mut [u8]) -> Option<&'t mut [u8]> {
        let target = target.get_mut(..self.len())?;
        self.record.source.copy(self.record.start, target).then_some(target)
    }

    /// Copies bytes from `from` on. Returns false and copies nothing if there are not enough.
    #[must_use]
    pub fn copy_part(&self, from: usize, target: &mut [u8]) -> bool {
        let inside = from.checked_add(target.len()).is_some_and(|end| end <= self.len());
        inside && self.record.source.copy(self.record.place(from as u32), target)
    }

    /// Copies the bytes into a new vector.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len()];
        let _ = self.copy_to(&mut bytes);
        bytes
    }
}

impl<'m, const MAX: u32> View<'m> for Blob<'m, MAX> {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: Record<'m>, at: u32) -> Result<Self, Malformed> {
        record.object(at, 1, MAX).map(|(record, count)| Blob { record, count })
    }

    fn check(&self, budget: &mut Budget) -> Result<(), Malformed> {
        self.record.spend(budget)
    }
}

/// Text of up to `MAX` bytes. It is validated as UTF-8 when it is copied.
#[derive(Clone, Copy, Debug)]
pub struct Text<'m, const MAX: u32> {
    bytes: Blob<'m, MAX>,
    at: u32,
}

impl<const MAX: u32> Text<'_, MAX> {
    /// Returns the length, in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the text is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Copies the text to the start of `target`, which must have at least [`len`](Self::len) bytes; `MAX`
    /// always suffices.
    ///
    /// # Errors
    /// [`Malformed::Utf8`]; [`Malformed::TooMany`] if the target is shorter.
    pub fn copy_to<'t>(&self, target: &'t mut [u8]) -> Result<&'t str, Malformed> {
        let max = u32::try_from(target.len()).unwrap_or(u32::MAX);
        let copied = self.bytes.copy_to(target);
        let copied = copied.ok_or(Malformed::TooMany { at: self.at, count: self.bytes.count, max })?;
        core::str::from_utf8(copied).map_err(|_| Malformed::Utf8 { at: self.at })
    }

    /// Copies the text into a new string.
    ///
    /// # Errors
    /// [`Malformed::Utf8`].
    pub fn to_string(&self) -> Result<String, Malformed> {
        String::from_utf8(self.bytes.to_vec()).map_err(|_| Malformed::Utf8 { at: self.at })
    }

    /// Whether it equals `text`.
    #[must_use]
    pub fn is(&self, text: &str) -> bool {
        let mut piece = [0; 64];
        let mut from = 0;
        self.len() == text.len()
            && text.as_bytes().chunks(piece.len()).all(|expected| {
                let piece = &mut piece[..expected.len()];
                let equal = self.bytes.copy_part(from, piece) && *piece == *expected;
                from += expected.len();
                equal
            })
    }
}

impl<'m, const MAX: u32> View<'m> for Text<'m, MAX> {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: Record<'m>, at: u32) -> Result<Self, Malformed> {
        Ok(Text { bytes: Blob::view(record, at)?, at: record.place(at) })
    }

    fn check(&self, budget: &mut Budget) -> Result<(), Malformed> {
        self.bytes.check(budget)?;
        let wrong = Malformed::Utf8 { at: self.at };
        let (mut piece, mut from, mut kept) = ([0; 64], 0, 0);
        while from < self.len() {
            let taken = (self.len() - from).min(piece.len() - kept);
            if !self.bytes.copy_part(from, &mut piece[kept..kept + taken]) {
                return Err(Malformed::Short);
            }
            from += taken;
            let filled = kept + taken;
            kept = match core::str::from_utf8(&piece[..filled]) {
                Ok(_) => 0,
                // A character that is split by the end of the piece.
                Err(error) if error.error_len().is_none() && from < self.len() => {
                    piece.copy_within(error.valid_up_to()..filled, 0);
                    filled - error.valid_up_to()
                }
                Err(_) => return Err(wrong),
            };
        }
        Ok(())
    }
}

/// Consecutive elements: the common part of lists and arrays.
#[derive(Clone, Copy, Debug)]
struct Elements<'m, T> {
    record: Record<'m>,
    count: u32,
    of: PhantomData<T>,
}

impl<'m, T: View<'m>> Elements<'m, T> {
    fn get(&self, index: usize) -> Option<Result<T, Malformed>> {
        let index = u32::try_from(index).ok().filter(|index| *index < self.count)?;
        Some(T::view(self.record, index.saturating_mul(T::BYTES)))
    }

    fn iter(self) -> impl Iterator<Item = Result<T, Malformed>> {
        (0..self.count).map(move |index| T::view(self.record, index.saturating_mul(T::BYTES)))
    }

    /// Checks the elements that have bytes in the message. The others are zero and cost nothing.
    fn check(&self, budget: &mut Budget) -> Result<(), Malformed> {
        let present = self.record.bytes.div_ceil(T::BYTES.max(1)).min(self.count);
        let item = |index: u32| T::view(self.record, index.saturating_mul(T::BYTES));
        (0..present).try_for_each(|index| item(index)?.check(budget))
    }
}

/// List of up to `MAX` elements.
#[derive(Clone, Copy, Debug)]
pub struct List<'m, T, const MAX: u32> {
    elements: Elements<'m, T>,
}

impl<'m, T: View<'m>, const MAX: u32> List<'m, T, MAX> {
    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.elements.count as usize
    }

    /// Whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.elements.count == 0
    }

    /// Returns the element at `index`; `None` if the list is shorter.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Result<T, Malformed>> {
        self.elements.get(index)
    }

    /// Returns an iterator over the elements.
    pub fn iter(self) -> impl Iterator<Item = Result<T, Malformed>> {
        self.elements.iter()
    }
}

impl<'m, T: View<'m>, const MAX: u32> View<'m> for List<'m, T, MAX> {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: Record<'m>, at: u32) -> Result<Self, Malformed> {
        let (record, count) = record.object(at, T::BYTES, MAX)?;
        Ok(List { elements: Elements { record, count, of: PhantomData } })
    }

    fn check(&self, budget: &mut Budget) -> Result<(), Malformed> {
        self.elements.record.spend(budget)?;
        self.elements.check(budget)
    }
}

/// Array of `N` elements.
#[derive(Clone, Copy, Debug)]
pub struct Array<'m, T, const N: u32> {
    elements: Elements<'m, T>,
}

impl<'m, T: View<'m>, const N: u32> Array<'m, T, N> {
    /// Returns the element at `index`; `None` if it is not less than `N`.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Result<T, Malformed>> {
        self.elements.get(index)
    }

    /// Returns an iterator over the elements.
    pub fn iter(self) -> impl Iterator<Item = Result<T, Malformed>> {
        self.elements.iter()
    }
}

impl<'m, T: View<'m>, const N: u32> View<'m> for Array<'m, T, N> {
    const BYTES: u32 = T::BYTES * N;
    const ALIGN: u32 = T::ALIGN;

    #[inline]
    fn view(record: Record<'m>, at: u32) -> Result<Self, Malformed> {
        let record = record.inline(at, Self::BYTES);
        Ok(Array { elements: Elements { record, count: N, of: PhantomData } })
    }

    fn check(&self, budget: &mut Budget) -> Result<(), Malformed> {
        self.elements.check(budget)
    }
}

/// Id of a domain. It identifies the domain and gives no right.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Domain(pub u64);

impl Encode for Domain {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    fn put<K: Sink + ?Sized>(&self, place: &mut Place, at: u32, out: &mut Out<'_, K>) {
        self.0.put(place, at, out);
    }
}

impl View<'_> for Domain {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    fn view(record: Record<'_>, at: u32) -> Result<Self, Malformed> {
        u64::view(record, at).map(Domain)
    }
}

/// Right that travels with a message: moved if `MOVED`, otherwise copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handle<const KIND: u8, const MOVED: bool> {
    /// Object of the right: an id with a generation, as known to the sender's monitor.
    pub object: u64,
}

impl<const KIND: u8, const MOVED: bool> Handle<KIND, MOVED> {
    const MARK: u64 = KIND as u64 | (MOVED as u64) << 8;
}

impl<const KIND: u8, const MOVED: bool> Encode for Handle<KIND, MOVED> {
    const BYTES: u32 = 16;
    const ALIGN: u32 = 8;

    fn put<K: Sink + ?Sized>(&self, place: &mut Place, at: u32, out: &mut Out<'_, K>) {
        place.bits(out, at, self.object);
        place.bits(out, at.saturating_add(8), Self::MARK);
    }
}

impl<const KIND: u8, const MOVED: bool> View<'_> for Handle<KIND, MOVED> {
    const BYTES: u32 = 16;
    const ALIGN: u32 = 8;

    fn view(record: Record<'_>, at: u32) -> Result<Self, Malformed> {
        let (object, mark) = (record.bits(at)?, record.bits(at.saturating_add(8))?);
        if mark == Self::MARK {
            Ok(Handle { object })
        } else {
            Err(Malformed::Handle { at: record.place(at) })
        }
    }
}

/// Error type of a call that declares none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Never {}

impl Encode for Never {
    const BYTES: u32 = 0;
    const ALIGN: u32 = 1;

    fn put<K: Sink + ?Sized>(&self, _: &mut Place, _: u32, _: &mut Out<'_, K>) {
        match *self {}
    }
}

impl View<'_> for Never {
    const BYTES: u32 = 0;
    const ALIGN: u32 = 1;

    fn view(_: Record<'_>, _: u32) -> Result<Self, Malformed> {
        Err(Malformed::Answer)
    }
}
