//! Checks values against the limits of the types that they are decoded as, and computes their out-of-line
//! size.

use crate::encode::Encode;
use crate::error::OverLimit;
use crate::view::{Array, Blob, Domain, Handle, List, Never, Text, View};

/// Decoded type that values `V` are sent for.
pub trait Fits<V> {
    /// Returns the out-of-line size of a value, in bytes.
    ///
    /// # Errors
    /// The value exceeds the limit of `field`.
    #[inline(always)]
    fn outside(value: &V, field: &'static str) -> Result<usize, OverLimit> {
        let _ = (value, field);
        Ok(0)
    }
}

macro_rules! inline {
    ($($of:ty),*) => {
        $(impl Fits<$of> for $of {})*
    };
}

inline!(bool, u8, u16, u32, u64, i8, i16, i32, i64, f32, f64, Domain, Never);

impl<const KIND: u8, const MOVED: bool> Fits<Self> for Handle<KIND, MOVED> {}

impl<const MAX: u32> Fits<&str> for Text<'_, MAX> {
    #[inline]
    fn outside(value: &&str, field: &'static str) -> Result<usize, OverLimit> {
        within(value.len(), MAX, field)?;
        Ok(value.len().next_multiple_of(8))
    }
}

impl<const MAX: u32> Fits<&[u8]> for Blob<'_, MAX> {
    #[inline]
    fn outside(value: &&[u8], field: &'static str) -> Result<usize, OverLimit> {
        within(value.len(), MAX, field)?;
        Ok(value.len().next_multiple_of(8))
    }
}

impl<'m, T: View<'m> + Fits<V>, V: Encode, const MAX: u32> Fits<&[V]> for List<'m, T, MAX> {
    #[inline]
    fn outside(value: &&[V], field: &'static str) -> Result<usize, OverLimit> {
        within(value.len(), MAX, field)?;
        let inline = (value.len() * V::BYTES as usize).next_multiple_of(8);
        Ok(inline + sum::<T, V>(value, field)?)
    }
}

impl<'m, T: View<'m> + Fits<V>, V, const COUNT: u32, const N: usize> Fits<[V; N]> for Array<'m, T, COUNT> {
    #[inline]
    fn outside(value: &[V; N], field: &'static str) -> Result<usize, OverLimit> {
        sum::<T, V>(value, field)
    }
}

impl<T: Fits<V>, V> Fits<Option<V>> for Option<T> {
    #[inline]
    fn outside(value: &Option<V>, field: &'static str) -> Result<usize, OverLimit> {
        value.as_ref().map_or(Ok(0), |value| T::outside(value, field))
    }
}

#[inline]
fn sum<T: Fits<V>, V>(values: &[V], field: &'static str) -> Result<usize, OverLimit> {
    values.iter().try_fold(0, |sum, value| Ok(sum + T::outside(value, field)?))
}

#[inline]
pub(crate) fn within(count: usize, max: u32, field: &'static str) -> Result<(), OverLimit> {
    let max = max as usize;
    if count <= max { Ok(()) } else { Err(OverLimit { field, count, max }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlong_values_are_refused_with_their_field() {
        assert_eq!(<Blob<'_, 9> as Fits<&[u8]>>::outside(&&[0; 9][..], "blob"), Ok(16));
        assert_eq!(<Blob<'_, 9> as Fits<&[u8]>>::outside(&&[][..], "blob"), Ok(0));
        let refused = OverLimit { field: "blob", count: 10, max: 9 };
        assert_eq!(<Blob<'_, 9> as Fits<&[u8]>>::outside(&&[0; 10][..], "blob"), Err(refused));
        assert_eq!(<Option<Blob<'_, 9>> as Fits<Option<&[u8]>>>::outside(&None, "blob"), Ok(0));
        let refused = OverLimit { field: "list", count: 3, max: 2 };
        assert_eq!(<List<'_, u16, 2> as Fits<&[u16]>>::outside(&&[1, 2, 3][..], "list"), Err(refused));
        assert_eq!(<List<'_, u16, 5> as Fits<&[u16]>>::outside(&&[1, 2, 3, 4, 5][..], "list"), Ok(16));
        let two = [&[0; 9][..], &[0; 1][..]];
        assert_eq!(<Array<'_, Blob<'_, 9>, 2> as Fits<[&[u8]; 2]>>::outside(&two, "array"), Ok(24));
    }
}
