//! The encoding of what is asked of names, and of what they say; see [`tombolo_naming`] for what it means.

use alloc::string::String;
use alloc::vec::Vec;

use tombolo_naming::{
    Answer, Attributes, Comparison, Condition, Constraint, DeleteCause, EndCause, Event, EventMask, Float,
    Lifetime, NameFault, NamePattern, Notice, ObjectInfo, Operation, Query, Record, Scope, SetMode, Test,
    Value,
};

use crate::shape::{part, text, with};
use crate::wire::{Bytes, DecodeError, Wire, wire_of_enum, wire_of_struct};

impl Wire for Value {
    const SHAPE: u64 = text("Value: 1 i64, 2 f64, 3 String, 4 bool, 5 Bytes");

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Value::Integer(value) => {
                out.push(1);
                value.encode(out);
            }
            Value::Float(Float(value)) => {
                out.push(2);
                value.to_bits().encode(out);
            }
            Value::Text(value) => {
                out.push(3);
                value.encode(out);
            }
            Value::Bool(value) => {
                out.push(4);
                value.encode(out);
            }
            Value::Bytes(value) => {
                out.push(5);
                (value.len() as u32).encode(out);
                out.extend_from_slice(value);
            }
        }
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(match u8::decode(input)? {
            1 => Value::Integer(i64::decode(input)?),
            2 => Value::Float(Float(f64::from_bits(u64::decode(input)?))),
            3 => Value::Text(String::decode(input)?),
            4 => Value::Bool(bool::decode(input)?),
            5 => Value::Bytes(Bytes::decode(input)?.0),
            tag => return Err(DecodeError::Tag { what: "value", tag: tag.into() }),
        })
    }
}

/// In the order of their names, each once: there is one encoding.
impl Wire for Attributes {
    const SHAPE: u64 = with(with(text("Attributes"), String::SHAPE), Value::SHAPE);

    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u32).encode(out);
        for (name, value) in self {
            name.encode(out);
            value.encode(out);
        }
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let count = u32::decode(input)?;
        let mut attributes = Attributes::new();
        for index in 0..count {
            let name = String::decode(input)?;
            if attributes.last_key_value().is_some_and(|(last, _)| *last >= name) {
                return Err(DecodeError::Tag { what: "attribute in order", tag: index.into() });
            }
            attributes.insert(name, Value::decode(input)?);
        }
        Ok(attributes)
    }
}

impl Wire for EventMask {
    const SHAPE: u64 = text("EventMask u8");

    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(EventMask(u8::decode(input)?))
    }
}

/// A choice without fields: its place among all of them.
macro_rules! wire_of_list {
    ($($type:ty: $what:literal of $all:expr;)*) => {$(
        impl Wire for $type {
            const SHAPE: u64 = text(stringify!($type: $all));

            fn encode(&self, out: &mut Vec<u8>) {
                let code = $all.iter().position(|other| other == self).unwrap_or(0);
                (code as u8).encode(out);
            }

            fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
                let code = u8::decode(input)?;
                let found = $all.get(usize::from(code)).copied();
                found.ok_or(DecodeError::Tag { what: $what, tag: code.into() })
            }
        }
    )*};
}
wire_of_list! {
    Comparison: "comparison" of Comparison::ALL;
    SetMode: "mode" of [SetMode::Replace, SetMode::Merge, SetMode::Sequential];
    Lifetime: "lifetime" of [Lifetime::Transient, Lifetime::Persistent];
    DeleteCause: "cause" of [DeleteCause::Deleted, DeleteCause::OwnerGone, DeleteCause::NoMatch];
    EndCause: "cause" of [EndCause::Unwatched, EndCause::TooCostly, EndCause::NodeLost];
}

/// A choice whose alternatives hold one thing or two, or nothing.
macro_rules! wire_of_choice {
    ($name:ident { $($tag:literal => $variant:ident $(($first:ident $(, $second:ident)?))?,)* }) => {
        impl Wire for $name {
            const SHAPE: u64 = {
                let shape = text(stringify!($name));
                $(
                    let shape = with(shape, $tag);
                    let shape = with(shape, text(stringify!($variant)));
                    $(
                        let first = part(stringify!($first), |of: &$name| match of {
                            $name::$variant($first, ..) => $first,
                            _ => unreachable!(),
                        });
                        let shape = with(shape, first);
                        $(
                            let second = part(stringify!($second), |of: &$name| match of {
                                $name::$variant(_, $second) => $second,
                                _ => unreachable!(),
                            });
                            let shape = with(shape, second);
                        )?
                    )?
                )*
                shape
            };

            fn encode(&self, out: &mut Vec<u8>) {
                match self {
                    $($name::$variant $(($first $(, $second)?))? => {
                        out.push($tag);
                        $($first.encode(out); $($second.encode(out);)?)?
                    })*
                }
            }

            fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
                match u8::decode(input)? {
                    $($tag => {
                        $(let $first = Wire::decode(input)?; $(let $second = Wire::decode(input)?;)?)?
                        Ok($name::$variant $(($first $(, $second)?))?)
                    })*
                    tag => Err(DecodeError::Tag { what: stringify!($name), tag: tag.into() }),
                }
            }
        }
    };
}
wire_of_choice!(Scope {
    1 => Machine,
    2 => Own,
    3 => Node(name),
});
wire_of_choice!(NamePattern {
    1 => Exact(name),
    2 => Any,
    3 => Glob(glob),
    4 => Regex(regex),
});
wire_of_choice!(Test {
    1 => Present,
    2 => Compare(comparison, value),
    3 => Regex(regex),
});

wire_of_struct!(Constraint { attribute, test });
wire_of_struct!(Query { name, constraints });
wire_of_struct!(Record { name, attributes, version, owner, endpoint });
wire_of_struct!(ObjectInfo { kind, name, holders, count, waiting });
wire_of_struct!(Notice { watch, lost, last, event });

impl Wire for Condition {
    const SHAPE: u64 = text("Condition: 1 Always, 2 Absent, 3 Version u64, 4 Fenced lock String token u64");

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Condition::Always => out.push(1),
            Condition::Absent => out.push(2),
            Condition::Version(version) => {
                out.push(3);
                version.encode(out);
            }
            Condition::Fenced { lock, token } => {
                out.push(4);
                lock.encode(out);
                token.encode(out);
            }
        }
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(match u8::decode(input)? {
            1 => Condition::Always,
            2 => Condition::Absent,
            3 => Condition::Version(u64::decode(input)?),
            4 => Condition::Fenced { lock: String::decode(input)?, token: u64::decode(input)? },
            tag => return Err(DecodeError::Tag { what: "condition", tag: tag.into() }),
        })
    }
}

wire_of_enum!(Operation {
    1 => Find { query, after, limit }
    2 => Await { query, timeout }
    3 => Set { name, attributes, remove, mode, lifetime, condition, want_previous }
    4 => Delete { name, condition, want_previous }
    5 => Watch { query, events, once, capacity }
    6 => Taken { watch, count }
    7 => Unwatch { watch }
    8 => Publish { name, attributes }
    9 => Lock { name, timeout }
    10 => Unlock { name, token }
    11 => Semaphore { name, permits }
    12 => Acquire { name, permits, timeout }
    13 => Release { permit, forget }
    14 => Post { name, permits }
    15 => RemoveSemaphore { name }
    16 => Join { name, parties }
    17 => Meet { place, timeout }
    18 => Leave { place }
    19 => Cancel { request }
    20 => Objects { after }
});

wire_of_enum!(Answer {
    1 => Done {}
    2 => Found { records, next }
    3 => There { record }
    4 => Changed { name, version, previous }
    5 => Watching { watch, records, next }
    6 => Published { told, refused }
    7 => Locked { token }
    8 => Acquired { permit }
    9 => Joined { place }
    10 => Met { generation, leader }
    11 => Objects { objects, more }
});

wire_of_enum!(Event {
    1 => Set { record }
    2 => Deleted { record, cause }
    3 => Published { name, attributes, publisher }
    4 => Lost {}
    5 => Ended { cause }
});

wire_of_enum!(NameFault {
    1 => BadName { name }
    2 => BadAttribute { attribute }
    3 => BadValue { attribute }
    4 => BadPattern { pattern, offset, why }
    5 => NoSuchName { name }
    6 => Exists { name, owner }
    7 => WrongVersion { name, expected, found }
    8 => NotYours { name, owner }
    9 => TooCostly { query }
    10 => Limit { what, limit }
    11 => Locked { name, holder }
    12 => NotHeld { name }
    13 => NoPermits { name }
    14 => NoSuchSemaphore { name }
    15 => BarrierFull { name, parties }
    16 => BarrierDiffers { name, parties }
    17 => BarrierBroken { name, by, died }
    18 => BarrierTimeout { name, arrived, parties }
    19 => NoSuchWatch { watch }
    20 => Cancelled {}
    21 => Refused { why }
});
