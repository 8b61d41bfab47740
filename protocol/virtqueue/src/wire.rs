//! Encoding of the messages. Specified in `docs/specs/virtqueue.md`.
//!
//! A message is the metadata of a transfer of one buffer. Numbers are little-endian and reserved fields are
//! zero. The decoder accepts exactly what the encoder produces.

use crate::Violation;

/// Version of the protocol, sent in each configuration.
pub const VERSION: u16 = 1;

/// Length of each message, in bytes.
pub const MESSAGE_BYTES: usize = 32;

const REQUEST: u8 = 1;
const COMPLETION: u8 = 2;
const CONFIGURED: u8 = 3;

/// Operation of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Operation {
    /// Reports the configuration. Must be the first request, and only that.
    Configure = 0,
    /// Fills the buffer from the device.
    Read = 1,
    /// Writes the contents of the buffer to the device.
    Write = 2,
    /// Makes everything durable that was answered before.
    Flush = 3,
    /// Discards a range; reading it afterwards returns unspecified data.
    Discard = 4,
    /// Fills a range with zeros.
    Zero = 5,
    /// Transmits a network frame.
    Frame = 6,
}

impl Operation {
    const ALL: [Operation; 7] = [
        Operation::Configure,
        Operation::Read,
        Operation::Write,
        Operation::Flush,
        Operation::Discard,
        Operation::Zero,
        Operation::Frame,
    ];

    /// Whether its buffer comes with content.
    #[must_use]
    pub fn carries_content(self) -> bool {
        matches!(self, Operation::Write | Operation::Frame)
    }

    /// Whether it changes the contents of the device.
    #[must_use]
    pub fn changes(self) -> bool {
        matches!(self, Operation::Write | Operation::Discard | Operation::Zero)
    }
}

/// Result of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Status {
    /// The request succeeded.
    Done = 0,
    /// The device failed.
    Failed = 1,
    /// The range does not lie in the device, or is not aligned to its blocks.
    Range = 2,
    /// The device is read-only.
    ReadOnly = 3,
    /// The device does not have this operation.
    Unsupported = 4,
    /// There is no room left.
    Full = 5,
}

impl Status {
    const ALL: [Status; 6] =
        [Status::Done, Status::Failed, Status::Range, Status::ReadOnly, Status::Unsupported, Status::Full];
}

/// Kind of a device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Device {
    /// A network.
    Network = 1,
    /// A disk.
    Block = 2,
}

/// Features of a device, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Features(pub u32);

impl Features {
    /// The device cannot be written.
    pub const READ_ONLY: Features = Features(1);
    /// The device supports [`Operation::Flush`], and `durable` has a meaning.
    pub const FLUSH: Features = Features(2);
    /// The device supports [`Operation::Discard`].
    pub const DISCARD: Features = Features(4);
    /// The device supports [`Operation::Zero`].
    pub const ZERO: Features = Features(8);
    /// Frames begin with a header of ten bytes about pending checksums and segmentation, like VirtIO's
    /// `virtio_net_hdr`, little-endian.
    pub const OFFLOAD: Features = Features(16);

    const KNOWN: u32 = 31;

    /// Returns the union of both sets.
    #[must_use]
    pub fn and(self, other: Features) -> Features {
        Features(self.0 | other.0)
    }

    /// Whether the set contains all of `other`.
    #[must_use]
    pub fn has(self, other: Features) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Configuration of a device, in place of VirtIO's registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Configuration {
    /// Kind of the device.
    pub device: Device,
    /// Features of the device.
    pub features: Features,
    /// Maximum number of requests in flight, from 1 to [`MAX_DEPTH`](crate::MAX_DEPTH).
    pub depth: u16,
    /// Block size of a disk in bytes, a power of two, to which ranges are aligned. 1 for a network.
    pub block_bytes: u32,
    /// Size of a disk, or the maximum frame of a network, in bytes.
    pub capacity_bytes: u64,
}

impl Configuration {
    /// Checks whether a request is valid for this device.
    ///
    /// # Errors
    /// Status to answer it with.
    pub fn check(&self, request: &Request) -> Result<(), Status> {
        let needed = match (self.device, request.operation) {
            (_, Operation::Configure) | (Device::Block, Operation::Read | Operation::Write) => Features(0),
            (Device::Network, Operation::Frame) if request.length_bytes <= self.capacity_bytes => {
                return Ok(());
            }
            (Device::Network, Operation::Frame) => return Err(Status::Range),
            (Device::Block, Operation::Flush) => Features::FLUSH,
            (Device::Block, Operation::Discard) => Features::DISCARD,
            (Device::Block, Operation::Zero) => Features::ZERO,
            _ => return Err(Status::Unsupported),
        };
        let end = request.offset_bytes.checked_add(request.length_bytes).ok_or(Status::Range)?;
        let aligned = |bytes: u64| bytes & u64::from(self.block_bytes.wrapping_sub(1)) == 0;
        if end > self.capacity_bytes || !aligned(request.offset_bytes) || !aligned(end) {
            return Err(Status::Range);
        }
        if request.operation.changes() && self.features.has(Features::READ_ONLY) {
            return Err(Status::ReadOnly);
        }
        if self.features.has(needed) { Ok(()) } else { Err(Status::Unsupported) }
    }
}

/// Request, in place of VirtIO's descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Identifier chosen by the requester, unique among its requests in flight.
    pub tag: u32,
    /// Requested operation.
    pub operation: Operation,
    /// Whether written data must be durable when the request is answered.
    pub durable: bool,
    /// Offset in the device, in bytes.
    pub offset_bytes: u64,
    /// Length, in bytes.
    pub length_bytes: u64,
}

/// Answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Tag of the request.
    pub tag: u32,
    /// Result of the request.
    pub status: Status,
}

/// Way in which the buffer of a message arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BufferArrival {
    /// Moved, with this many bytes of content.
    Content(u64),
    /// Passed, without meaningful content.
    Empty,
}

/// Message of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// Request to the device.
    Request(Request),
    /// Answer of the device.
    Completion(Completion),
    /// Answer of the device to the first request, which has this tag.
    Configured(u32, Configuration),
}

impl Message {
    /// Encodes the message as bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; MESSAGE_BYTES] {
        let (kind, code, short, tag, a, b, c) = match *self {
            Message::Request(Request { tag, operation, durable, offset_bytes, length_bytes }) => {
                (REQUEST, operation as u8, u16::from(durable), tag, offset_bytes, length_bytes, (0, 0, 0))
            }
            Message::Completion(Completion { tag, status }) => {
                (COMPLETION, status as u8, 0, tag, 0, 0, (0, 0, 0))
            }
            Message::Configured(tag, config) => {
                let second = u64::from(config.features.0) | u64::from(config.block_bytes) << 32;
                let last = (config.depth, 0, 0);
                (CONFIGURED, config.device as u8, VERSION, tag, config.capacity_bytes, second, last)
            }
        };
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[0] = kind;
        bytes[1] = code;
        bytes[2..4].copy_from_slice(&short.to_le_bytes());
        bytes[4..8].copy_from_slice(&tag.to_le_bytes());
        bytes[8..16].copy_from_slice(&a.to_le_bytes());
        bytes[16..24].copy_from_slice(&b.to_le_bytes());
        bytes[24..26].copy_from_slice(&c.0.to_le_bytes());
        bytes
    }

    /// Decodes a message from `bytes`.
    ///
    /// # Errors
    /// [`Violation::Malformed`].
    pub fn decode(bytes: &[u8]) -> Result<Message, Violation> {
        let malformed = Violation::Malformed(bytes.len());
        let bytes: &[u8; MESSAGE_BYTES] = bytes.try_into().map_err(|_| malformed)?;
        let message = Self::read(bytes).ok_or(malformed)?;
        if message.encode() == *bytes { Ok(message) } else { Err(malformed) }
    }

    /// Decodes the meaningful fields.
    fn read(bytes: &[u8; MESSAGE_BYTES]) -> Option<Message> {
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let (code, tag) = (bytes[1], word(4));
        match bytes[0] {
            REQUEST => Some(Message::Request(Request {
                tag,
                operation: Operation::ALL.into_iter().find(|operation| *operation as u8 == code)?,
                durable: short(2) & 1 != 0,
                offset_bytes: long(8),
                length_bytes: long(16),
            })),
            COMPLETION => {
                let status = Status::ALL.into_iter().find(|status| *status as u8 == code)?;
                Some(Message::Completion(Completion { tag, status }))
            }
            CONFIGURED => {
                let device = [Device::Network, Device::Block].into_iter().find(|kind| *kind as u8 == code)?;
                let (features, block_bytes, depth) = (Features(word(16)), word(20), short(24));
                let valid = features.0 & !Features::KNOWN == 0
                    && block_bytes.is_power_of_two()
                    && (1..=crate::MAX_DEPTH).contains(&depth);
                let config = Configuration { device, features, depth, block_bytes, capacity_bytes: long(8) };
                valid.then_some(Message::Configured(tag, config))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn disk() -> Configuration {
        Configuration {
            device: Device::Block,
            features: Features::FLUSH.and(Features::ZERO),
            depth: 64,
            block_bytes: 512,
            capacity_bytes: 1 << 20,
        }
    }

    #[test]
    fn encoded_bytes_are_golden() {
        let request = Request {
            tag: 0x0102_0304,
            operation: Operation::Write,
            durable: true,
            offset_bytes: 0x1000,
            length_bytes: 0x200,
        };
        let mut expected = [0; MESSAGE_BYTES];
        expected[..24]
            .copy_from_slice(&[1, 2, 1, 0, 4, 3, 2, 1, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Message::Request(request).encode(), expected);
        let configured = Message::Configured(7, disk()).encode();
        assert_eq!(configured[..8], [3, 2, 1, 0, 7, 0, 0, 0]);
        assert_eq!(
            configured[8..],
            [0, 0, 16, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 2, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0]
        );
        let done = Message::Completion(Completion { tag: 9, status: Status::Full }).encode();
        assert_eq!(
            (done[..8].to_vec(), done[8..].iter().all(|byte| *byte == 0)),
            (vec![2, 5, 0, 0, 9, 0, 0, 0], true)
        );
    }

    #[test]
    fn invalid_disk_requests_are_refused() {
        let request = |operation, offset_bytes, length_bytes| Request {
            tag: 0,
            operation,
            durable: false,
            offset_bytes,
            length_bytes,
        };
        let (disk, end) = (disk(), 1 << 20);
        for (operation, offset, length, expected) in [
            (Operation::Read, 0, end, Ok(())),
            (Operation::Write, end - 512, 512, Ok(())),
            (Operation::Write, end - 512, 1024, Err(Status::Range)),
            (Operation::Read, end, 512, Err(Status::Range)),
            (Operation::Read, u64::MAX, 512, Err(Status::Range)),
            (Operation::Read, 1, 512, Err(Status::Range)),
            (Operation::Read, 0, 511, Err(Status::Range)),
            (Operation::Flush, 0, 0, Ok(())),
            (Operation::Zero, 0, 512, Ok(())),
            (Operation::Discard, 0, 512, Err(Status::Unsupported)),
            (Operation::Frame, 0, 512, Err(Status::Unsupported)),
        ] {
            assert_eq!(disk.check(&request(operation, offset, length)), expected, "{operation:?} {offset}");
        }
        let read_only = Configuration { features: Features::READ_ONLY, ..disk };
        assert_eq!(read_only.check(&request(Operation::Read, 0, 512)), Ok(()));
        for operation in [Operation::Write, Operation::Zero, Operation::Discard] {
            assert_eq!(read_only.check(&request(operation, 0, 512)), Err(Status::ReadOnly));
        }
        let network = Configuration { device: Device::Network, block_bytes: 1, capacity_bytes: 1514, ..disk };
        assert_eq!(network.check(&request(Operation::Frame, 0, 1514)), Ok(()));
        assert_eq!(network.check(&request(Operation::Frame, 0, 1515)), Err(Status::Range));
        assert_eq!(network.check(&request(Operation::Read, 0, 512)), Err(Status::Unsupported));
    }

    proptest! {
        #[test]
        fn what_decodes_encodes_to_the_same_bytes(
            kind in 0_u8..5, code in 0_u8..8, short in 0_u16..3, tail in proptest::array::uniform28(0_u8..4),
        ) {
            let mut bytes = [0; MESSAGE_BYTES];
            (bytes[0], bytes[1]) = (kind, code);
            bytes[2..4].copy_from_slice(&short.to_le_bytes());
            bytes[4..].copy_from_slice(&tail);
            if let Ok(message) = Message::decode(&bytes) {
                prop_assert_eq!(message.encode(), bytes);
            }
        }

        #[test]
        fn any_bytes_decode_or_fail(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(message) = Message::decode(&bytes) {
                prop_assert_eq!(&message.encode()[..], &bytes[..]);
            }
        }
    }
}
