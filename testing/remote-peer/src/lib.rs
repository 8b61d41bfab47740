//! Protocol between the suite on the host and a remote peer: orders and their answers, on a control channel
//! separate from the one under test.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod bytes;

use alloc::string::String;
use alloc::vec::Vec;

use tombolo_link::ChannelConfig;
use tombolo_ring::{SlotSize, Variant};

use bytes::{Reader, Writer};

/// Number of slots of a control channel, per direction.
pub const CONTROL_SLOTS: u32 = 512;

/// Size of such a slot, in bytes.
pub const CONTROL_SLOT_BYTES: usize = 128;

/// Maximum length of a message under test that fits an order or an answer, in bytes.
pub const MAX_CARRIED_BYTES: usize = CONTROL_SLOTS as usize * (CONTROL_SLOT_BYTES - 8) - 256;

/// Returns the configuration of a control channel.
///
/// # Panics
/// Never: the configuration is valid.
#[must_use]
pub fn control_config() -> ChannelConfig {
    ChannelConfig::new(SlotSize::B128, CONTROL_SLOTS, Variant::EpochCredit).expect("a possible shape")
}

/// Error of bytes that do not decode to an order or an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("what was said to a remote peer, or by it, is nothing that can be said")
    }
}

impl core::error::Error for Malformed {}

/// The event that ends a sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Awaited {
    /// A message, or the end of the channel.
    Message,
    /// Room for the last message that did not fit.
    Room,
    /// Either.
    Both,
}

const AWAITED: [Awaited; 3] = [Awaited::Message, Awaited::Room, Awaited::Both];

/// Parameters with which a remote peer opens its side of the channel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opening {
    /// Whether it exports the name and accepts; otherwise it connects.
    pub accepts: bool,
    /// Name to export or to connect to.
    pub name: String,
    /// Configuration of the rings.
    pub config: ChannelConfig,
    /// Hash of the channel's interface.
    pub interface_hash: u64,
    /// Timeout in nanoseconds.
    pub timeout_ns: u64,
}

/// An order to a remote peer about its channel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order<'a> {
    /// Open a channel under test.
    Open(Opening),
    /// Try to send these bytes.
    Send(&'a [u8]),
    /// Try to send the given number of zeros: a message too long to be carried in an order.
    SendZeros(u64),
    /// Try to receive.
    Recv,
    /// Report whether there is something to receive.
    Readable,
    /// Announce a sleep.
    Announce(Awaited),
    /// Poll once more before a sleep. If one was announced and nothing is pending, sleep, and report the
    /// wake-up.
    MaySleep(Awaited),
    /// Cancel the announcement; true if the doorbell rang.
    Awake(bool),
    /// Close the channel.
    Close,
    /// Drop the channel.
    Drop,
}

/// The traffic of the remote peer so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Messages and bytes sent, messages and bytes received, rings, sleeps.
    pub numbers: [u64; 6],
}

/// Reason why a remote peer could not execute an order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The channel has no room.
    WouldBlock,
    /// The timeout expired.
    TimedOut,
    /// The peer closed.
    Closed,
    /// The peer died.
    PeerDied,
    /// Message too long: its length and the maximum length.
    TooLong(u64, u64),
    /// The peer broke the protocol.
    Violation(String),
    /// Incompatible sides, or an unexpected error.
    Other(String),
}

/// Answer of a remote peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer<'a> {
    /// Success. The number is the maximum message length after `Open`, otherwise 1 or 0 as the result.
    Done(u64),
    /// Bytes of a received message.
    Message(&'a [u8]),
    /// The order failed.
    Failed(Failure),
    /// Unsolicited: the announced sleep was ended by a doorbell or a hang-up.
    Rung,
}

impl<'a> Order<'a> {
    /// Encodes the order as a message.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let at = |awaited: &Awaited| AWAITED.iter().position(|one| one == awaited).unwrap_or(0) as u64;
        match self {
            Order::Open(opening) => Writer::new(0)
                .number(u64::from(opening.accepts))
                .number(opening.config.slot.bytes() as u64)
                .number(opening.config.slots.into())
                .number(u64::from(opening.config.variant == Variant::UsedFlag))
                .number(opening.interface_hash)
                .number(opening.timeout_ns)
                .rest(opening.name.as_bytes()),
            Order::Send(bytes) => Writer::new(1).rest(bytes),
            Order::SendZeros(length) => Writer::new(2).number(*length).rest(&[]),
            Order::Recv => Writer::new(3).rest(&[]),
            Order::Readable => Writer::new(4).rest(&[]),
            Order::Announce(awaited) => Writer::new(5).number(at(awaited)).rest(&[]),
            Order::MaySleep(awaited) => Writer::new(6).number(at(awaited)).rest(&[]),
            Order::Awake(rung) => Writer::new(7).number(u64::from(*rung)).rest(&[]),
            Order::Close => Writer::new(8).rest(&[]),
            Order::Drop => Writer::new(9).rest(&[]),
        }
    }

    /// Decodes an order from a message.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are no order.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (kind, mut reader) = Reader::new(bytes)?;
        let awaited = |number: u64| AWAITED.get(number as usize).copied().ok_or(Malformed);
        Ok(match kind {
            0 => {
                let accepts = reader.number()? == 1;
                let slot = SlotSize::from_bytes(reader.number()? as usize).ok_or(Malformed)?;
                let slots = u32::try_from(reader.number()?).map_err(|_| Malformed)?;
                let variant = if reader.number()? == 1 { Variant::UsedFlag } else { Variant::EpochCredit };
                let config = ChannelConfig::new(slot, slots, variant).map_err(|_| Malformed)?;
                let (interface_hash, timeout_ns) = (reader.number()?, reader.number()?);
                let name = reader.text()?;
                Order::Open(Opening { accepts, name, config, interface_hash, timeout_ns })
            }
            1 => Order::Send(reader.rest()),
            2 => Order::SendZeros(reader.number()?),
            3 => Order::Recv,
            4 => Order::Readable,
            5 => Order::Announce(awaited(reader.number()?)?),
            6 => Order::MaySleep(awaited(reader.number()?)?),
            7 => Order::Awake(reader.number()? == 1),
            8 => Order::Close,
            9 => Order::Drop,
            _ => return Err(Malformed),
        })
    }
}

impl<'a> Answer<'a> {
    /// Encodes the answer as a message, with the traffic of the remote peer so far.
    #[must_use]
    pub fn to_bytes(&self, counts: Counts) -> Vec<u8> {
        let writer = |kind| counts.numbers.into_iter().fold(Writer::new(kind), Writer::number);
        let failed = |kind: u64| writer(2).number(kind);
        match self {
            Answer::Done(number) => writer(0).number(*number).rest(&[]),
            Answer::Message(bytes) => writer(1).rest(bytes),
            Answer::Failed(Failure::WouldBlock) => failed(0).rest(&[]),
            Answer::Failed(Failure::TimedOut) => failed(1).rest(&[]),
            Answer::Failed(Failure::Closed) => failed(2).rest(&[]),
            Answer::Failed(Failure::PeerDied) => failed(3).rest(&[]),
            Answer::Failed(Failure::TooLong(length, max)) => failed(4).number(*length).number(*max).rest(&[]),
            Answer::Failed(Failure::Violation(what)) => failed(5).rest(what.as_bytes()),
            Answer::Failed(Failure::Other(what)) => failed(6).rest(what.as_bytes()),
            Answer::Rung => writer(3).rest(&[]),
        }
    }

    /// Decodes an answer and its counts from a message.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are no answer.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<(Self, Counts), Malformed> {
        let (kind, mut reader) = Reader::new(bytes)?;
        let mut counts = Counts::default();
        for number in &mut counts.numbers {
            *number = reader.number()?;
        }
        let answer = match kind {
            0 => Answer::Done(reader.number()?),
            1 => Answer::Message(reader.rest()),
            2 => Answer::Failed(match reader.number()? {
                0 => Failure::WouldBlock,
                1 => Failure::TimedOut,
                2 => Failure::Closed,
                3 => Failure::PeerDied,
                4 => Failure::TooLong(reader.number()?, reader.number()?),
                5 => Failure::Violation(reader.text()?),
                6 => Failure::Other(reader.text()?),
                _ => return Err(Malformed),
            }),
            3 => Answer::Rung,
            _ => return Err(Malformed),
        };
        Ok((answer, counts))
    }
}

/// Generates message `number`, as sent by the suite, and by a remote peer that sends until it is killed.
#[must_use]
pub fn message(number: u64, length_bytes: usize) -> Vec<u8> {
    let mix = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..length_bytes).map(|index| (mix >> (8 * (index % 8))) as u8 ^ index as u8).collect()
}

/// Returns the length of message `number`, in bytes.
#[must_use]
pub fn message_length(number: u64, max_bytes: usize) -> usize {
    (8 + (number % 61) as usize).min(max_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn orders_and_answers_round_trip() {
        let config = control_config();
        let opening = Opening { accepts: true, name: "a/b".into(), config, interface_hash: 7, timeout_ns: 9 };
        let orders = [
            Order::Open(opening),
            Order::Send(b"bytes"),
            Order::SendZeros(1 << 24),
            Order::Recv,
            Order::Readable,
            Order::Announce(Awaited::Room),
            Order::MaySleep(Awaited::Both),
            Order::Awake(true),
            Order::Close,
            Order::Drop,
        ];
        for order in orders {
            let bytes = order.to_bytes();
            assert_eq!(Order::from_bytes(&bytes), Ok(order));
            assert!((0..8).all(|cut| Order::from_bytes(&bytes[..cut]) == Err(Malformed)));
        }
        let failures = [
            Failure::WouldBlock,
            Failure::TimedOut,
            Failure::Closed,
            Failure::PeerDied,
            Failure::TooLong(3, 2),
            Failure::Violation("how".into()),
            Failure::Other("what".into()),
        ];
        let counts = Counts { numbers: [1, 2, 3, 4, 5, 6] };
        let answers = vec![Answer::Done(1), Answer::Message(b"x"), Answer::Rung];
        for answer in answers.into_iter().chain(failures.into_iter().map(Answer::Failed)) {
            let bytes = answer.to_bytes(counts);
            assert_eq!(Answer::from_bytes(&bytes), Ok((answer, counts)));
            assert!((0..56).all(|cut| Answer::from_bytes(&bytes[..cut]) == Err(Malformed)));
        }
    }
}
