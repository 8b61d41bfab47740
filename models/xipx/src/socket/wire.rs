//! Encoding of the frames of a connection.

use std::io::{self, Read, Write};

use crate::engine::Address;
use crate::error::XipxError;

/// Node number of a frame that is not a message, but a request to open a device or a reply.
pub(super) const NO_NODE: u16 = 0xffff;

/// Channel number of a request to open any free channel.
pub(super) const ANY_CHANNEL: u16 = 0xffff;

/// Maximum payload that either side accepts, in bytes; FIFOs do not allow longer ones.
const MAX_BYTES: usize = 32 << 20;

/// Kind of a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Code {
    Opened,
    Sent,
    TimedOut,
    NoSuchNode,
    NoSuchChannel,
    ChannelInUse,
    NotOpen,
    TooLong,
    NodeEnded,
    Broken,
    Other,
}

impl Code {
    const ALL: [Code; 11] = [
        Code::Opened,
        Code::Sent,
        Code::TimedOut,
        Code::NoSuchNode,
        Code::NoSuchChannel,
        Code::ChannelInUse,
        Code::NotOpen,
        Code::TooLong,
        Code::NodeEnded,
        Code::Broken,
        Code::Other,
    ];

    pub(super) fn from_number(number: u16) -> Code {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Code::Other)
    }

    pub(super) fn of(error: &XipxError) -> Code {
        match error {
            XipxError::TimedOut { .. } => Code::TimedOut,
            XipxError::NoSuchNode { .. } => Code::NoSuchNode,
            XipxError::NoSuchChannel { .. } => Code::NoSuchChannel,
            XipxError::ChannelInUse { .. } => Code::ChannelInUse,
            XipxError::NotOpen { .. } => Code::NotOpen,
            XipxError::TooLong { .. } => Code::TooLong,
            XipxError::NodeEnded { .. } => Code::NodeEnded,
            XipxError::Broken { .. } => Code::Broken,
            _ => Code::Other,
        }
    }
}

/// Parameters of a device, sent when it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Opened {
    pub(super) node: u16,
    pub(super) nodes: u16,
    pub(super) channel: u16,
    pub(super) max_bytes: u32,
}

impl Opened {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let words = [self.node, self.nodes, self.channel, 0];
        words.into_iter().flat_map(u16::to_le_bytes).chain(self.max_bytes.to_le_bytes()).collect()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Opened> {
        let bytes: &[u8; 12] = bytes.try_into().ok()?;
        let word = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let max_bytes = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        Some(Opened { node: word(0), nodes: word(2), channel: word(4), max_bytes })
    }
}

/// Writes a frame in one call, so that two threads can share a connection under a lock.
pub(super) fn write(mut to: impl Write, address: Address, payload: &[u8]) -> io::Result<()> {
    let mut frame = Vec::with_capacity(8 + payload.len());
    frame.extend_from_slice(&address.node.to_le_bytes());
    frame.extend_from_slice(&address.channel.to_le_bytes());
    frame.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    frame.extend_from_slice(payload);
    to.write_all(&frame)
}

/// Reads a frame; its payload is then in `payload`. `None` at the end of the connection.
///
/// If reads have a timeout, the error has the kind `WouldBlock` only if no byte of the frame has arrived.
pub(super) fn read(mut from: impl Read, payload: &mut Vec<u8>) -> io::Result<Option<Address>> {
    let mut header = [0; 8];
    if from.read(&mut header[..1])? == 0 {
        return Ok(None);
    }
    let mut rest = |bytes: &mut [u8]| from.read_exact(bytes).map_err(partial_frame_error);
    rest(&mut header[1..])?;
    let word = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let length = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
    if length > MAX_BYTES {
        let why = format!("a frame of {length} bytes, where at most {MAX_BYTES} are allowed");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    payload.clear();
    payload.resize(length, 0);
    rest(payload)?;
    Ok(Some(Address { node: word(0), channel: word(2) }))
}

fn partial_frame_error(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => {
            io::Error::new(io::ErrorKind::TimedOut, "the rest of a frame did not come")
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_round_trip_and_long_ones_are_refused() {
        let mut bytes = Vec::new();
        let address = Address { node: 0x102, channel: 3 };
        write(&mut bytes, address, b"abc").unwrap();
        assert_eq!(bytes, *b"\x02\x01\x03\x00\x03\x00\x00\x00abc");
        let mut payload = vec![9; 9];
        assert_eq!(read(bytes.as_slice(), &mut payload).unwrap(), Some(address));
        assert_eq!(payload, b"abc");
        assert_eq!(read(&bytes[..0], &mut payload).unwrap(), None);
        for cut in 1..bytes.len() {
            assert!(read(&bytes[..cut], &mut payload).is_err(), "{cut}");
        }
        bytes[7] = 9;
        assert_eq!(read(bytes.as_slice(), &mut payload).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn replies_round_trip() {
        for code in Code::ALL {
            assert_eq!(Code::from_number(code as u16), code);
        }
        assert_eq!(Code::from_number(99), Code::Other);
        let opened = Opened { node: 1, nodes: 3, channel: 255, max_bytes: 8176 };
        assert_eq!(Opened::from_bytes(&opened.to_bytes()), Some(opened));
        assert_eq!(Opened::from_bytes(&[0; 11]), None);
    }
}
