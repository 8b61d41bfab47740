//! Data types that can be stored in shared memory.

/// Plain data: a type with values of a fixed length for which all byte patterns are valid. So no bytes that
/// another rank writes are an invalid value.
///
/// In memory numbers are little-endian, and the parts of a value are packed without padding, so the format is
/// the same on all processors. Numbers, `bool` (any byte but 0 is true), arrays and tuples of plain data are
/// plain; [`plain!`](crate::plain!) declares plain structures. Pointers and references are not plain;
/// TACO-MESH supports them with a method of the object that flushes the data they point to.
pub trait Plain: Clone + 'static {
    /// Length of a value, in bytes.
    const BYTES: usize;

    /// Hash of the type. Ranks can share objects only of types with equal hashes.
    const SHAPE: u64;

    /// Encodes the value into `bytes`, which has [`BYTES`](Self::BYTES) bytes.
    fn encode(&self, bytes: &mut [u8]);

    /// Decodes a value from `bytes`, which has [`BYTES`](Self::BYTES) bytes.
    fn decode(bytes: &[u8]) -> Self;

    /// Returns the encoded bytes of the value.
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; Self::BYTES];
        self.encode(&mut bytes);
        bytes
    }
}

/// Combines the hash `first` of a type's first part with that of the rest.
#[doc(hidden)]
#[must_use]
pub const fn shape(first: u64, rest: u64) -> u64 {
    (first ^ rest).rotate_left(23).wrapping_mul(0x0000_0100_0000_01b3).wrapping_add(rest)
}

#[doc(hidden)]
pub use tombolo_base::hash::fnv1a as shape_of_name;

macro_rules! numbers {
    ($($type:ident)*) => {$(
        impl Plain for $type {
            const BYTES: usize = size_of::<$type>();
            const SHAPE: u64 = shape_of_name(stringify!($type).as_bytes());

            #[inline]
            fn encode(&self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Self {
                let mut array = [0; size_of::<$type>()];
                array.copy_from_slice(bytes);
                $type::from_le_bytes(array)
            }
        }
    )*};
}

numbers!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64);

impl Plain for bool {
    const BYTES: usize = 1;
    const SHAPE: u64 = shape_of_name(b"bool");

    fn encode(&self, bytes: &mut [u8]) {
        bytes[0] = u8::from(*self);
    }

    fn decode(bytes: &[u8]) -> Self {
        bytes[0] != 0
    }
}

impl<T: Plain, const N: usize> Plain for [T; N] {
    const BYTES: usize = T::BYTES * N;
    const SHAPE: u64 = shape(T::SHAPE, N as u64);

    fn encode(&self, bytes: &mut [u8]) {
        for (index, value) in self.iter().enumerate() {
            value.encode(&mut bytes[index * T::BYTES..(index + 1) * T::BYTES]);
        }
    }

    fn decode(bytes: &[u8]) -> Self {
        core::array::from_fn(|index| T::decode(&bytes[index * T::BYTES..(index + 1) * T::BYTES]))
    }
}

macro_rules! tuples {
    ($($($name:ident $index:tt)*;)*) => {$(
        impl<$($name: Plain),*> Plain for ($($name,)*) {
            const BYTES: usize = 0 $(+ $name::BYTES)*;
            const SHAPE: u64 = {
                let hash = shape_of_name(b"tuple");
                $(let hash = shape(hash, $name::SHAPE);)*
                hash
            };

            fn encode(&self, bytes: &mut [u8]) {
                let at = 0;
                $(
                    self.$index.encode(&mut bytes[at..at + $name::BYTES]);
                    let at = at + $name::BYTES;
                )*
                let _ = (at, bytes);
            }

            fn decode(bytes: &[u8]) -> Self {
                let at = 0;
                $(
                    #[allow(non_snake_case, reason = "the value of a type parameter")]
                    let $name = $name::decode(&bytes[at..at + $name::BYTES]);
                    let at = at + $name::BYTES;
                )*
                let _ = (at, bytes);
                ($($name,)*)
            }
        }
    )*};
}

impl Plain for () {
    const BYTES: usize = 0;
    const SHAPE: u64 = shape_of_name(b"unit");

    fn encode(&self, _bytes: &mut [u8]) {}

    fn decode(_bytes: &[u8]) -> Self {}
}

tuples! {
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
}

/// Declares a structure of [`Plain`] fields, which is plain itself.
///
/// ```
/// tombolo_objects::plain! {
///     /// A place on a map.
///     #[derive(Debug)]
///     pub struct Place {
///         pub north: f64,
///         pub east: f64,
///         pub visits: u32,
///     }
/// }
/// assert_eq!(<Place as tombolo_objects::Plain>::BYTES, 20);
/// ```
#[macro_export]
macro_rules! plain {
    (
        $(#[$meta:meta])* $vis:vis struct $name:ident {
            $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $type:ty),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone)]
        $vis struct $name { $($(#[$field_meta])* $field_vis $field: $type),* }

        impl $crate::Plain for $name {
            const BYTES: usize = 0 $(+ <$type as $crate::Plain>::BYTES)*;
            const SHAPE: u64 = {
                let hash = $crate::shape_of_name(stringify!($name).as_bytes());
                $(
                    let hash = $crate::shape(hash, $crate::shape_of_name(stringify!($field).as_bytes()));
                    let hash = $crate::shape(hash, <$type as $crate::Plain>::SHAPE);
                )*
                hash
            };

            fn encode(&self, bytes: &mut [u8]) {
                let at = 0;
                $(
                    let end = at + <$type as $crate::Plain>::BYTES;
                    $crate::Plain::encode(&self.$field, &mut bytes[at..end]);
                    let at = end;
                )*
                let _ = (at, bytes);
            }

            fn decode(bytes: &[u8]) -> Self {
                let at = 0;
                $(
                    let end = at + <$type as $crate::Plain>::BYTES;
                    let $field = <$type as $crate::Plain>::decode(&bytes[at..end]);
                    let at = end;
                )*
                let _ = (at, bytes);
                $name { $($field),* }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    plain! {
        #[derive(PartialEq, Debug)]
        struct Mixed {
            small: i16,
            flag: bool,
            numbers: [(u32, f64); 2],
        }
    }

    #[test]
    fn values_round_trip_independent_of_processor() {
        let value = Mixed { small: -2, flag: true, numbers: [(1, 0.5), (0x0102_0304, -1.0)] };
        let bytes = value.to_bytes();
        assert_eq!(bytes.len(), 27);
        assert_eq!(bytes[..7], [0xfe, 0xff, 1, 1, 0, 0, 0]);
        assert_eq!(bytes[15..19], [4, 3, 2, 1]);
        assert_eq!(Mixed::decode(&bytes), value);
        assert!(Mixed::decode(&[0xff; 27]).flag);
    }

    #[test]
    fn types_of_one_length_have_different_hashes() {
        let shapes = [u32::SHAPE, i32::SHAPE, f32::SHAPE, <[u8; 4]>::SHAPE, <(u16, u16)>::SHAPE];
        let mut different = shapes.to_vec();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), shapes.len());
        assert_ne!(<(u8, u16)>::SHAPE, <(u16, u8)>::SHAPE);
    }
}
