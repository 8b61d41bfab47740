//! The encoding of control messages: little-endian fixed-width numbers, length-prefixed bytes, a tag byte per
//! choice. Decoding trusts nothing: every length is bounded by what is left of the message.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use tombolo_base::{ChannelId, DomainId, Isa, NodeId, Target};
use tombolo_link::{ChannelConfig, Side, TransportKind};
use tombolo_ring::{SlotSize, Variant};

use crate::shape::{text, with};

/// The longest encoded control message. What may be long (output, arguments) is cut or refused before.
pub const MAX_MESSAGE_BYTES: usize = 60 * 1024;

/// Bytes that are no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// It ends too early.
    #[error("a control message is cut short")]
    Short,
    /// It goes on after its end.
    #[error("a control message has {0} bytes after its end")]
    Trailing(usize),
    /// A choice has a tag nobody defined.
    #[error("a control message holds {tag}, which is no {what}")]
    Tag {
        /// What was being read.
        what: &'static str,
        /// What was found.
        tag: u64,
    },
    /// Text is not UTF-8.
    #[error("a control message holds text that is not UTF-8")]
    Text,
}

/// Something with an encoding.
pub trait Wire: Sized {
    /// What the encoding is: another one has another number. See [`crate::FINGERPRINT`].
    const SHAPE: u64;

    /// Appends the encoding.
    fn encode(&self, out: &mut Vec<u8>);

    /// Takes one off the front of `input`.
    ///
    /// # Errors
    /// [`DecodeError`]; `input` is then of no use.
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError>;

    /// The encoding alone.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    /// Decodes a whole message.
    ///
    /// # Errors
    /// [`DecodeError`], also for bytes after the end.
    fn from_bytes(mut input: &[u8]) -> Result<Self, DecodeError> {
        let value = Self::decode(&mut input)?;
        if input.is_empty() { Ok(value) } else { Err(DecodeError::Trailing(input.len())) }
    }
}

fn take<'a>(input: &mut &'a [u8], length: usize) -> Result<&'a [u8], DecodeError> {
    let (head, tail) = input.split_at_checked(length).ok_or(DecodeError::Short)?;
    *input = tail;
    Ok(head)
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Wire for $type {
            const SHAPE: u64 = text(stringify!($type));

            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
                let bytes = take(input, size_of::<$type>())?;
                Ok(<$type>::from_le_bytes(bytes.try_into().map_err(|_| DecodeError::Short)?))
            }
        }
    )*};
}
numbers!(u16, u32, u64, i32, i64);

impl Wire for u8 {
    const SHAPE: u64 = text("u8");

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(take(input, 1)?[0])
    }
}

impl Wire for bool {
    const SHAPE: u64 = text("bool");

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        match u8::decode(input)? {
            0 => Ok(false),
            1 => Ok(true),
            tag => Err(DecodeError::Tag { what: "bool", tag: tag.into() }),
        }
    }
}

impl Wire for String {
    const SHAPE: u64 = text("String");

    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u32).encode(out);
        out.extend_from_slice(self.as_bytes());
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let length = u32::decode(input)? as usize;
        let text = core::str::from_utf8(take(input, length)?).map_err(|_| DecodeError::Text)?;
        Ok(text.into())
    }
}

/// Bytes that are passed on unread.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bytes(pub Vec<u8>);

impl Wire for Bytes {
    const SHAPE: u64 = text("Bytes");

    fn encode(&self, out: &mut Vec<u8>) {
        (self.0.len() as u32).encode(out);
        out.extend_from_slice(&self.0);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let length = u32::decode(input)? as usize;
        Ok(Bytes(take(input, length)?.into()))
    }
}

impl Wire for [u8; 32] {
    const SHAPE: u64 = text("[u8; 32]");

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        take(input, 32)?.try_into().map_err(|_| DecodeError::Short)
    }
}

impl<T: Wire> Wire for Vec<T> {
    const SHAPE: u64 = with(text("Vec"), T::SHAPE);

    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u32).encode(out);
        self.iter().for_each(|item| item.encode(out));
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let length = u32::decode(input)? as usize;
        // Every item takes at least a byte, so a lying length cannot make us allocate more than we received.
        if length > input.len() {
            return Err(DecodeError::Short);
        }
        (0..length).map(|_| T::decode(input)).collect()
    }
}

impl<T: Wire> Wire for Option<T> {
    const SHAPE: u64 = with(text("Option"), T::SHAPE);

    fn encode(&self, out: &mut Vec<u8>) {
        self.is_some().encode(out);
        if let Some(value) = self {
            value.encode(out);
        }
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(if bool::decode(input)? { Some(T::decode(input)?) } else { None })
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    const SHAPE: u64 = with(with(text("pair"), A::SHAPE), B::SHAPE);

    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        self.1.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok((A::decode(input)?, B::decode(input)?))
    }
}

impl Wire for NodeId {
    const SHAPE: u64 = text("NodeId");

    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(NodeId(u16::decode(input)?))
    }
}

impl Wire for ChannelId {
    const SHAPE: u64 = text("ChannelId");

    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(ChannelId(u64::decode(input)?))
    }
}

impl Wire for DomainId {
    const SHAPE: u64 = text("DomainId");

    fn encode(&self, out: &mut Vec<u8>) {
        self.to_bits().encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let bits = u64::decode(input)?;
        DomainId::from_bits(bits).ok_or(DecodeError::Tag { what: "domain id", tag: bits })
    }
}

impl Wire for Duration {
    const SHAPE: u64 = text("Duration");

    fn encode(&self, out: &mut Vec<u8>) {
        u64::try_from(self.as_nanos()).unwrap_or(u64::MAX).encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(Duration::from_nanos(u64::decode(input)?))
    }
}

impl Wire for Isa {
    const SHAPE: u64 = text("Isa");

    fn encode(&self, out: &mut Vec<u8>) {
        self.code().encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let code = u8::decode(input)?;
        Isa::from_code(code).ok_or(DecodeError::Tag { what: "instruction set", tag: code.into() })
    }
}

impl Wire for Target {
    const SHAPE: u64 = text("Target");

    fn encode(&self, out: &mut Vec<u8>) {
        self.code().encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let code = u8::decode(input)?;
        Target::from_code(code).ok_or(DecodeError::Tag { what: "target of builds", tag: code.into() })
    }
}

impl Wire for TransportKind {
    const SHAPE: u64 = text("TransportKind");

    fn encode(&self, out: &mut Vec<u8>) {
        let code = TransportKind::ALL.iter().position(|kind| kind == self).unwrap_or(0);
        (code as u8).encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let code = u8::decode(input)?;
        let kind = TransportKind::ALL.get(usize::from(code)).copied();
        kind.ok_or(DecodeError::Tag { what: "transport", tag: code.into() })
    }
}

impl Wire for Side {
    const SHAPE: u64 = text("Side");

    fn encode(&self, out: &mut Vec<u8>) {
        (*self == Side::B).encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(if bool::decode(input)? { Side::B } else { Side::A })
    }
}

impl Wire for ChannelConfig {
    const SHAPE: u64 = text("ChannelConfig: slot u16, slots u32, used flag bool");

    fn encode(&self, out: &mut Vec<u8>) {
        (self.slot.bytes() as u16).encode(out);
        self.slots.encode(out);
        (self.variant == Variant::UsedFlag).encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let slot_bytes = u16::decode(input)?;
        let slot = SlotSize::from_bytes(slot_bytes.into())
            .ok_or(DecodeError::Tag { what: "slot size", tag: slot_bytes.into() })?;
        let slots = u32::decode(input)?;
        let variant = if bool::decode(input)? { Variant::UsedFlag } else { Variant::EpochCredit };
        ChannelConfig::new(slot, slots, variant)
            .map_err(|_| DecodeError::Tag { what: "number of slots", tag: slots.into() })
    }
}

/// Declares a struct whose encoding is that of its fields in order.
macro_rules! wire_struct {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct $name { $($(#[$field_meta])* pub $field: $type,)* }

        $crate::wire::wire_of_struct!($name { $($field),* });
    };
}

/// Declares a choice: one tag byte, then the fields of the variant in order.
macro_rules! wire_enum {
    ($(#[$meta:meta])* $name:ident {
        $($(#[$variant_meta:meta])* $tag:literal => $variant:ident {
            $($(#[$field_meta:meta])* $field:ident: $type:ty,)*
        })*
    }) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum $name {
            $($(#[$variant_meta])* $variant { $($(#[$field_meta])* $field: $type,)* },)*
        }

        $crate::wire::wire_of_enum!($name { $($tag => $variant { $($field),* })* });
    };
}

/// As `wire_struct`, for a struct that is declared elsewhere.
macro_rules! wire_of_struct {
    ($name:ident { $($field:ident),* }) => {
        impl $crate::wire::Wire for $name {
            const SHAPE: u64 = {
                let shape = $crate::shape::text(stringify!($name));
                $(
                    let part = $crate::shape::part(stringify!($field), |of: &$name| &of.$field);
                    let shape = $crate::shape::with(shape, part);
                )*
                shape
            };

            fn encode(&self, out: &mut alloc::vec::Vec<u8>) {
                $(self.$field.encode(out);)*
            }

            fn decode(input: &mut &[u8]) -> Result<Self, $crate::wire::DecodeError> {
                Ok($name { $($field: $crate::wire::Wire::decode(input)?,)* })
            }
        }
    };
}

/// As `wire_enum`, for a choice that is declared elsewhere.
macro_rules! wire_of_enum {
    ($name:ident { $($tag:literal => $variant:ident { $($field:ident),* })* }) => {
        impl $crate::wire::Wire for $name {
            // A choice may have one alternative only.
            #[allow(unreachable_patterns)]
            const SHAPE: u64 = {
                let shape = $crate::shape::text(stringify!($name));
                $(
                    let shape = $crate::shape::with(shape, $tag);
                    let shape = $crate::shape::with(shape, $crate::shape::text(stringify!($variant)));
                    $(
                        let part = $crate::shape::part(stringify!($field), |of: &$name| match of {
                            $name::$variant { $field, .. } => $field,
                            _ => unreachable!(),
                        });
                        let shape = $crate::shape::with(shape, part);
                    )*
                )*
                shape
            };

            fn encode(&self, out: &mut alloc::vec::Vec<u8>) {
                match self {
                    $($name::$variant { $($field,)* } => {
                        out.push($tag);
                        $($field.encode(out);)*
                    })*
                }
            }

            fn decode(input: &mut &[u8]) -> Result<Self, $crate::wire::DecodeError> {
                match <u8 as $crate::wire::Wire>::decode(input)? {
                    $($tag => Ok($name::$variant { $($field: $crate::wire::Wire::decode(input)?,)* }),)*
                    tag => Err($crate::wire::DecodeError::Tag { what: stringify!($name), tag: tag.into() }),
                }
            }
        }
    };
}

pub(crate) use {wire_enum, wire_of_enum, wire_of_struct, wire_struct};
