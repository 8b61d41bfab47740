//! Values declared in an interface file: structs, unions and enums of owned stubs.

use tombolo::interface::encode::{Out, Place, round_up};
use tombolo::interface::message::Outgoing;
use tombolo::interface::{Body, Budget, Header, Holds, Kind, OverLimit, Sink, Source, View};

/// Implements [`Value`](crate::Value) for a type of owned stubs ([`tombolo idl compile --lang
/// rust-owned`](tombolo::interface)). The name is the one that application files use as `value`: the declared
/// name with its package.
///
/// ```ignore
/// tombolo_hubs::declared_value!(Job => JobView, "example.Job");
/// ```
///
/// The encoding is that of a message with one field of the type (`docs/specs/interface.md`), so every
/// language with stubs can read it. A value that exceeds the limits of its declaration is encoded as no
/// bytes, which the receiver refuses.
#[macro_export]
macro_rules! declared_value {
    ($type:ty => $view:ident, $name:literal) => {
        impl $crate::Value for $type {
            const TYPE: &'static str = $name;

            fn encode(&self, bytes: &mut Vec<u8>) {
                $crate::declared::write::<Self, $view<'_>>(self, bytes);
            }

            fn decode(bytes: &[u8]) -> Option<Self> {
                $crate::declared::read::<Self, $view<'_>>(bytes)
            }
        }
    };
}

/// Message with a single field.
struct One<'v, T, V> {
    value: &'v T,
    view: std::marker::PhantomData<fn() -> V>,
}

impl<'m, T, V: View<'m> + Holds<T>> Body for One<'_, T, V> {
    fn record_bytes(&self) -> u32 {
        round_up(V::BYTES)
    }

    fn measure(&self) -> Result<usize, OverLimit> {
        V::outside(self.value, "value")
    }

    fn fields<K: Sink + ?Sized>(&self, place: &mut Place, at: u32, out: &mut Out<'_, K>) {
        V::put(self.value, place, at, out);
    }
}

/// Ordinal of the message.
const ORDINAL: u16 = 1;

#[doc(hidden)]
pub fn write<'m, T, V: View<'m> + Holds<T>>(value: &T, bytes: &mut Vec<u8>) {
    let one = One::<T, V> { value, view: std::marker::PhantomData };
    let Ok(message) = Outgoing::new(Header::new(ORDINAL, Kind::Message, 0), &one) else { return };
    let at = bytes.len();
    bytes.resize(at + message.length_bytes(), 0);
    message.write(&mut bytes[at..]);
}

#[doc(hidden)]
#[must_use]
pub fn read<'m, T, V: View<'m> + Holds<T>>(bytes: &'m [u8]) -> Option<T> {
    let source = Source::Bytes(bytes);
    let (header, record) = Header::read(source).ok()?;
    if header.kind() != Kind::Message || header.ordinal() != ORDINAL {
        return None;
    }
    let value = V::view(record, 0).ok()?;
    value.check(&mut Budget::of(source)).ok()?;
    value.own().ok()
}

#[cfg(test)]
mod tests {
    use tombolo::interface::Text;

    use crate::Value;

    tombolo::interface::owned_record! {
        /// Struct of an interface file.
        #[derive(Clone, PartialEq, Debug)]
        pub struct Job => JobView<'m>, inline 16 / 8;
        /// Number of the job.
        number @ 0: u64 => u64,
        /// Name of the job.
        name @ 8: String => Text<'m, 8>,
    }

    crate::declared_value!(Job => JobView, "example.Job");

    fn encoded(name: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        Job { number: 0x0102, name: name.into() }.encode(&mut bytes);
        bytes
    }

    #[test]
    fn declared_struct_is_a_value() {
        let bytes = encoded("isle");
        assert_eq!(
            bytes[8..],
            [2, 1, 0, 0, 0, 0, 0, 0, 24, 0, 0, 0, 4, 0, 0, 0, b'i', b's', b'l', b'e', 0, 0, 0, 0]
        );
        assert_eq!(Job::decode(&bytes), Some(Job { number: 0x0102, name: "isle".into() }));
        assert_eq!((Job::TYPE, Job::type_name()), ("example.Job", "example.Job".to_owned()));
        type Pair = (Job, u8);
        let pair = (Job { number: 1, name: String::new() }, 2);
        let mut bytes = Vec::new();
        pair.encode(&mut bytes);
        assert_eq!(Pair::decode(&bytes), Some(pair));
    }

    #[test]
    fn malformed_and_too_long_values_are_refused() {
        assert!(encoded("nine long").is_empty(), "it is longer than declared");
        assert_eq!(Job::decode(&[]), None);
        let whole = encoded("isle");
        for end in 0..whole.len() {
            let short = Job::decode(&whole[..end]);
            assert_ne!(short, Job::decode(&whole), "{end} bytes");
        }
        let mut other = whole;
        other[16] = 0xff;
        assert_eq!(Job::decode(&other), None, "its name lies outside");
    }
}
