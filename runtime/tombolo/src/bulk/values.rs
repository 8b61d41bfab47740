//! Access to the numbers in a buffer, in place.

use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use tombolo_base::SharedMemory;

use crate::error::Error;

use super::buffer::{Buffer, Handle, Shared};
use crate::error::BulkError;

mod sealed {
    /// Number that fits in a word.
    pub trait Scalar: Copy {
        /// Size in bytes, equal to its alignment.
        const BYTES: usize;

        /// Converts from the low bits of a word.
        fn from_word(word: u64) -> Self;

        /// Converts to the low bits of a word; the others are 0.
        fn to_word(self) -> u64;
    }
}

/// Number type that a buffer can hold: an integer of 8 to 64 bits, `f32` or `f64`. Numbers in buffers are
/// little-endian, so all nodes see the same value for any byte order of their processors.
pub trait Scalar: sealed::Scalar {}

macro_rules! integers {
    ($($type:ty as $bits:ty),*) => {$(
        impl sealed::Scalar for $type {
            const BYTES: usize = size_of::<$type>();

            #[inline]
            fn from_word(word: u64) -> Self {
                word as $type
            }

            #[inline]
            fn to_word(self) -> u64 {
                u64::from(self as $bits)
            }
        }

        impl Scalar for $type {}
    )*};
}

integers!(u8 as u8, u16 as u16, u32 as u32, u64 as u64, i8 as u8, i16 as u16, i32 as u32, i64 as u64);

macro_rules! floats {
    ($($type:ty as $bits:ty),*) => {$(
        impl sealed::Scalar for $type {
            const BYTES: usize = size_of::<$type>();

            #[inline]
            fn from_word(word: u64) -> Self {
                <$type>::from_bits(word as $bits)
            }

            #[inline]
            fn to_word(self) -> u64 {
                u64::from(self.to_bits())
            }
        }

        impl Scalar for $type {}
    )*};
}

floats!(f32 as u32, f64 as u64);

/// Reads the number of `length` bytes at offset `at` of `bytes`, which no other process writes.
#[inline]
fn word_of(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let mut word = [0; 8];
    word[..length].copy_from_slice(bytes.get(at..at.checked_add(length)?)?);
    Some(u64::from_le_bytes(word))
}

/// Read access to the numbers in a buffer. With trust, each number is loaded when it is requested: two loads
/// of the same one can differ if a peer breaks the trust and writes to it, but that is not undefined
/// behaviour.
///
/// ```no_run
/// # fn main() -> Result<(), tombolo::Error> {
/// # let frame: tombolo::Buffer = unimplemented!();
/// let readings = frame.values::<f32>()?;
/// let highest = readings.iter().fold(f32::MIN, f32::max);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Values<'b, T> {
    source: Source<'b>,
    count: usize,
    of: PhantomData<T>,
}

#[derive(Clone, Copy, Debug)]
enum Source<'b> {
    /// Memory that others map, and the byte offset of the values in it.
    Words(&'b SharedMemory, usize),
    /// Memory that no other process writes.
    Bytes(&'b [u8]),
}

impl<T: Scalar> Values<'_, T> {
    /// Number of values in the selected part.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the value at `index`; `None` beyond the last.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<T> {
        if index >= self.count {
            return None;
        }
        let at = index * T::BYTES;
        match self.source {
            Source::Words(memory, start) => {
                let word = u64::from_le(memory.words().get((start + at) / 8)?.load(Ordering::Relaxed));
                Some(T::from_word(word >> ((start + at) % 8 * 8)))
            }
            Source::Bytes(bytes) => word_of(bytes, at, T::BYTES).map(T::from_word),
        }
    }

    /// Iterates over all values, in order.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        (0..self.count).map_while(|index| self.get(index))
    }
}

/// Read and write access to the numbers in a buffer, in place like [`Values`].
///
/// ```no_run
/// # fn main() -> Result<(), tombolo::Error> {
/// # let mut frame: tombolo::Buffer = unimplemented!();
/// let mut readings = frame.values_mut::<f32>()?;
/// readings.set(0, 21.5);
/// readings.fill(1, &[22.0, 22.5]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ValuesMut<'b, T> {
    target: Target<'b>,
    count: usize,
    of: PhantomData<T>,
}

#[derive(Debug)]
enum Target<'b> {
    Words(&'b SharedMemory, usize),
    Bytes(&'b mut [u8]),
}

impl<T: Scalar> ValuesMut<'_, T> {
    /// Returns read access to the same numbers.
    #[must_use]
    pub fn values(&self) -> Values<'_, T> {
        let source = match &self.target {
            Target::Words(memory, start) => Source::Words(memory, *start),
            Target::Bytes(bytes) => Source::Bytes(bytes),
        };
        Values { source, count: self.count, of: PhantomData }
    }

    /// Stores the value at `index`.
    ///
    /// # Panics
    /// If `index` is out of range.
    #[inline]
    pub fn set(&mut self, index: usize, value: T) {
        assert!(index < self.count, "value {index} of {} in the buffer", self.count);
        let at = index * T::BYTES;
        match &mut self.target {
            Target::Words(memory, start) => {
                let at = *start + at;
                let word = &memory.words()[at / 8];
                let shift = at % 8 * 8;
                // The rest of the word belongs to this program as well, like the whole buffer.
                let mask = (u64::MAX >> (64 - 8 * T::BYTES)) << shift;
                let kept = u64::from_le(word.load(Ordering::Relaxed)) & !mask;
                word.store((kept | value.to_word() << shift).to_le(), Ordering::Relaxed);
            }
            Target::Bytes(bytes) => {
                bytes[at..at + T::BYTES].copy_from_slice(&value.to_word().to_le_bytes()[..T::BYTES]);
            }
        }
    }

    /// Stores `values` from index `first` on.
    ///
    /// # Panics
    /// If `first` plus the number of `values` exceeds [`Values::len`].
    pub fn fill(&mut self, first: usize, values: &[T]) {
        for (index, value) in values.iter().enumerate() {
            self.set(first + index, *value);
        }
    }
}

/// Memory that others map, and a byte offset in it.
type Mapped<'b> = Option<(&'b SharedMemory, usize)>;

impl Handle {
    /// Returns the location of numbers of `each` bytes if the memory is mapped by others, and their count.
    fn numbers(&self, each: usize) -> Result<(Mapped<'_>, usize), Error> {
        let (offset_bytes, align_bytes) = (self.offset_bytes, each as u64);
        if !offset_bytes.is_multiple_of(align_bytes) {
            return Err(BulkError::Unaligned { offset_bytes, align_bytes }.into());
        }
        let count = (self.length_bytes / align_bytes) as usize;
        let mapped = match self.mapped() {
            Some((memory, start)) => {
                self.check()?;
                Some((memory, start + offset_bytes as usize))
            }
            None => None,
        };
        Ok((mapped, count))
    }

    pub(super) fn values<T: Scalar>(&self) -> Result<Values<'_, T>, Error> {
        let (mapped, count) = self.numbers(T::BYTES)?;
        let source = match mapped {
            Some((memory, start)) => Source::Words(memory, start),
            None => Source::Bytes(self.bytes()?),
        };
        Ok(Values { source, count, of: PhantomData })
    }
}

impl Shared {
    /// Returns the numbers in the selected part, without an incomplete one at its end.
    ///
    /// # Errors
    /// [`BulkError::Unaligned`]; [`Error::Revoked`] if the pool was revoked.
    pub fn values<T: Scalar>(&self) -> Result<Values<'_, T>, Error> {
        self.handle.values()
    }
}

impl Buffer {
    /// Returns the numbers in the selected part, without an incomplete one at its end.
    ///
    /// # Errors
    /// [`BulkError::Unaligned`]; [`Error::Revoked`] if the pool was revoked.
    pub fn values<T: Scalar>(&self) -> Result<Values<'_, T>, Error> {
        self.handle.values()
    }

    /// Like [`values`](Self::values), with write access.
    ///
    /// # Errors
    /// Same as [`values`](Self::values); without trust also errors of the kernel.
    pub fn values_mut<T: Scalar>(&mut self) -> Result<ValuesMut<'_, T>, Error> {
        // Called twice: a borrow returned from one arm would extend over the other.
        let (mapped, count) = self.handle.numbers(T::BYTES)?;
        let target = if mapped.is_some() {
            let (mapped, _) = self.handle.numbers(T::BYTES)?;
            mapped.map(|(memory, start)| Target::Words(memory, start))
        } else {
            Some(Target::Bytes(self.handle.bytes_mut()?))
        };
        let target = target.ok_or(BulkError::Mapped)?;
        Ok(ValuesMut { target, count, of: PhantomData })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::pool;
    use super::*;

    #[test]
    fn numbers_in_memory_that_peers_map() {
        let memory = SharedMemory::zeroed(32);
        memory.copy_in(0, &[0xff; 32]).unwrap();
        // Begins at byte 4, in the middle of a word.
        let target = Target::Words(&memory, 4);
        let mut shorts = ValuesMut::<i16> { target, count: 14, of: PhantomData };
        shorts.fill(1, &[-2, 3]);
        assert_eq!(shorts.values().iter().take(4).collect::<Vec<_>>(), [-1, -2, 3, -1]);
        assert_eq!((shorts.values().get(13), shorts.values().get(14)), (Some(-1), None));
        let mut bytes = [0; 12];
        memory.copy_out(0, &mut bytes).unwrap();
        let little_endian = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 0xff, 3, 0, 0xff, 0xff];
        assert_eq!(bytes, little_endian, "and nothing beside them has changed");
    }

    #[test]
    fn numbers_in_memory_of_this_process() {
        let pool = pool(1);
        let mut buffer = pool.take().unwrap();
        let mut halves = buffer.values_mut::<f64>().unwrap();
        halves.fill(0, &[0.5, -0.5]);
        assert_eq!(halves.values().get(1), Some(-0.5));
        let bits = buffer.values::<u64>().unwrap();
        assert_eq!(bits.iter().nth(1), Some((-0.5_f64).to_bits()));

        buffer.write(0, &[0xff, 0xff, 0xff, 0xff, 3, 0, 0xff, 0x7f]).unwrap();
        buffer.set_part(4, 7).unwrap();
        let words = buffer.values::<u32>().unwrap();
        assert_eq!((words.len(), words.get(0), words.get(1)), (1, Some(0x7fff_0003), None));
        let unaligned = buffer.values::<u64>();
        assert!(matches!(unaligned, Err(Error::Bulk(BulkError::Unaligned { align_bytes: 8, .. }))));
        assert_eq!(buffer.values::<u8>().unwrap().iter().count(), 7);
    }

    #[test]
    #[should_panic(expected = "in the buffer")]
    fn a_number_beyond_the_last_is_not_set() {
        let pool = pool(1);
        let mut buffer = pool.take().unwrap();
        buffer.set_part(0, 16).unwrap();
        buffer.values_mut::<u64>().unwrap().set(2, 0);
    }
}
