//! What hubs carry.

/// A type of values that ports and fifos carry. Its bytes do not depend on the processor.
///
/// Programs implement it for their own types; `TYPE` is what application files name as `value`, and the hub
/// refuses a program that opens it with another.
pub trait Value: Sized {
    /// The name of the type; empty fits every hub.
    const TYPE: &'static str;

    /// Writes the value at the end of `bytes`.
    fn encode(&self, bytes: &mut Vec<u8>);

    /// Reads a value; `None` when the bytes are not one.
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

/// Bytes fit hubs of every type.
impl Value for Vec<u8> {
    const TYPE: &'static str = "";

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(bytes.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back<T: Value + PartialEq + std::fmt::Debug>(value: T, expected: &[u8]) {
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        assert_eq!(bytes, expected, "{}", T::TYPE);
        assert_eq!(T::decode(&bytes), Some(value));
    }

    #[test]
    fn values_have_the_same_bytes_everywhere() {
        there_and_back(0x0102_u16, &[2, 1]);
        there_and_back(-2_i64, &[0xfe, 255, 255, 255, 255, 255, 255, 255]);
        there_and_back(1.0_f32, &[0, 0, 0x80, 0x3f]);
        there_and_back(true, &[1]);
        there_and_back((), &[]);
        there_and_back("ü".to_owned(), &[0xc3, 0xbc]);
        there_and_back(vec![1_u8, 2], &[1, 2]);
    }

    #[test]
    fn other_bytes_are_not_values() {
        assert_eq!(u32::decode(&[1, 2, 3]), None);
        assert_eq!(bool::decode(&[2]), None);
        assert_eq!(<()>::decode(&[0]), None);
        assert_eq!(String::decode(&[0xff]), None);
    }
}
