//! Values that hubs carry.

/// Type of values that ports and fifos carry. The encoding does not depend on the processor.
///
/// Programs implement it for their own types. Application files name the type `TYPE` as `value`, and the hub
/// refuses a program that opens it with another type.
pub trait Value: Sized {
    /// Name of the type; empty for one that matches every hub.
    const TYPE: &'static str;

    /// Name of a type that has no constant name, for example that of a tuple, `(u64, text)`.
    #[must_use]
    fn type_name() -> String {
        Self::TYPE.to_owned()
    }

    /// Appends the encoded value to `bytes`.
    fn encode(&self, bytes: &mut Vec<u8>);

    /// Decodes a value; `None` if the bytes are not a valid one.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($type:ident),*) => {
        $(impl Value for $type {
            const TYPE: &'static str = stringify!($type);

            fn encode(&self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_le_bytes());
            }

            fn decode(bytes: &[u8]) -> Option<Self> {
                Some($type::from_le_bytes(bytes.try_into().ok()?))
            }
        })*
    };
}

numbers!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);

impl Value for bool {
    const TYPE: &'static str = "bool";

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.push((*self).into());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }
}

impl Value for () {
    const TYPE: &'static str = "unit";

    fn encode(&self, _: &mut Vec<u8>) {}

    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.is_empty().then_some(())
    }
}

impl Value for String {
    const TYPE: &'static str = "text";

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.as_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        String::from_utf8(bytes.to_vec()).ok()
    }
}

/// Bytes match hubs of every type.
impl Value for Vec<u8> {
    const TYPE: &'static str = "";

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(bytes.to_vec())
    }
}

/// Tuples: each value is preceded by its length in 4 bytes.
macro_rules! tuples {
    ($($type:ident $field:tt),*) => {
        impl<$($type: Value),*> Value for ($($type,)*) {
            const TYPE: &'static str = "";

            fn type_name() -> String {
                format!("({})", [$($type::type_name()),*].join(", "))
            }

            fn encode(&self, bytes: &mut Vec<u8>) {
                $(with_length(&self.$field, bytes);)*
            }

            fn decode(mut bytes: &[u8]) -> Option<Self> {
                let values = ($(decode_prefixed::<$type>(&mut bytes)?,)*);
                bytes.is_empty().then_some(values)
            }
        }
    };
}

tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);

fn with_length<T: Value>(value: &T, bytes: &mut Vec<u8>) {
    let at = bytes.len();
    bytes.extend([0; 4]);
    value.encode(bytes);
    // Values are far shorter: a hub takes at most 16 KiB.
    let length = u32::try_from(bytes.len() - at - 4).unwrap_or(u32::MAX);
    bytes[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

fn decode_prefixed<T: Value>(bytes: &mut &[u8]) -> Option<T> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (value, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    T::decode(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_round_trip<T: Value + PartialEq + std::fmt::Debug>(value: T, expected: &[u8]) {
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        assert_eq!(bytes, expected, "{}", T::TYPE);
        assert_eq!(T::decode(&bytes), Some(value));
    }

    #[test]
    fn values_have_the_same_bytes_everywhere() {
        assert_round_trip(0x0102_u16, &[2, 1]);
        assert_round_trip(-2_i64, &[0xfe, 255, 255, 255, 255, 255, 255, 255]);
        assert_round_trip(1.0_f32, &[0, 0, 0x80, 0x3f]);
        assert_round_trip(true, &[1]);
        assert_round_trip((), &[]);
        assert_round_trip("ü".to_owned(), &[0xc3, 0xbc]);
        assert_round_trip(vec![1_u8, 2], &[1, 2]);
    }

    #[test]
    fn tuples_are_values() {
        assert_round_trip((7_u8, "ab".to_owned()), &[1, 0, 0, 0, 7, 2, 0, 0, 0, b'a', b'b']);
        assert_round_trip(
            (1_u8, (), (true, 2_u8)),
            &[1, 0, 0, 0, 1, 0, 0, 0, 0, 10, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 2],
        );
        assert_eq!(<(u64, String, bool)>::type_name(), "(u64, text, bool)");
        for wrong in [&[][..], &[1, 0, 0, 0, 7], &[2, 0, 0, 0, 7], &[1, 0, 0, 0, 7, 1, 0, 0, 0, 7, 0]] {
            assert_eq!(<(u8, u8)>::decode(wrong), None);
        }
    }

    #[test]
    fn malformed_values_are_refused() {
        assert_eq!(u32::decode(&[1, 2, 3]), None);
        assert_eq!(bool::decode(&[2]), None);
        assert_eq!(<()>::decode(&[0]), None);
        assert_eq!(String::decode(&[0xff]), None);
    }
}
