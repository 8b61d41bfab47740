//! Encoding of the network block device protocol, as used by the kernel, `nbd-client` and QEMU. After
//! <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>; numbers are big-endian.

use tombolo_virtqueue::{Configuration, Features, Operation, Status};

const OPTION_MAGIC: &[u8; 8] = b"IHAVEOPT";
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;

/// Length of a request header, in bytes.
const REQUEST_BYTES: usize = 28;

/// Maximum length of a read or write that the protocol guarantees to clients.
pub(super) const MAX_LENGTH_BYTES: u32 = 32 << 20;

/// Maximum length of an option's data.
const MAX_OPTION_BYTES: usize = 4096;

/// Returns the flags of a disk: `HAS_FLAGS`, and its features.
pub(super) fn flags(configuration: &Configuration) -> u16 {
    let features = configuration.features;
    let flag = |feature, bits| if features.has(feature) { bits } else { 0 };
    let read_only = flag(Features::READ_ONLY, 1 << 1);
    let flush = flag(Features::FLUSH, 1 << 2 | 1 << 3);
    1 | read_only | flush | flag(Features::DISCARD, 1 << 5) | flag(Features::ZERO, 1 << 6)
}

/// Request of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NbdRequest {
    /// Client's identifier of the request.
    pub(super) cookie: u64,
    pub(super) what: NbdCommand,
    pub(super) durable: bool,
    pub(super) offset_bytes: u64,
    pub(super) length_bytes: u32,
    /// Data to write.
    pub(super) data: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NbdCommand {
    Operation(Operation),
    /// The client disconnects.
    Disconnect,
    /// The operation is unknown.
    Unknown,
}

/// The client violated the protocol; it is disconnected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Malformed;

fn read_u64(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn read_u32(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |value, byte| value << 8 | u32::from(*byte))
}

/// Parses the first request in `input`, and returns it with its length; `None` if it is incomplete.
pub(super) fn parse_request(input: &[u8]) -> Result<Option<(NbdRequest, usize)>, Malformed> {
    if input.len() < REQUEST_BYTES {
        return Ok(None);
    }
    let (flags, code, length_bytes) =
        (read_u32(input, 4) >> 16, read_u32(input, 4) & 0xffff, read_u32(input, 24));
    let what = match code {
        0 => NbdCommand::Operation(Operation::Read),
        1 => NbdCommand::Operation(Operation::Write),
        2 => NbdCommand::Disconnect,
        3 => NbdCommand::Operation(Operation::Flush),
        4 => NbdCommand::Operation(Operation::Discard),
        6 => NbdCommand::Operation(Operation::Zero),
        _ => NbdCommand::Unknown,
    };
    let moves_data = matches!(what, NbdCommand::Operation(Operation::Read | Operation::Write));
    if read_u32(input, 0) != REQUEST_MAGIC || moves_data && length_bytes > MAX_LENGTH_BYTES {
        return Err(Malformed);
    }
    let data_bytes = if what == NbdCommand::Operation(Operation::Write) { length_bytes as usize } else { 0 };
    let end = REQUEST_BYTES + data_bytes;
    if input.len() < end {
        return Ok(None);
    }
    let request = NbdRequest {
        cookie: read_u64(input, 8),
        what,
        durable: flags & 1 != 0 && what != NbdCommand::Operation(Operation::Read),
        offset_bytes: read_u64(input, 16),
        length_bytes,
        data: input[REQUEST_BYTES..end].to_vec(),
    };
    Ok(Some((request, end)))
}

/// Returns the length of the request at the beginning of `input`, as far as it is known: the number of bytes
/// to read.
pub(super) fn needed_bytes(input: &[u8]) -> usize {
    let is_write = input.len() >= REQUEST_BYTES && read_u32(input, 4) & 0xffff == 1;
    REQUEST_BYTES + if is_write { read_u32(input, 24).min(MAX_LENGTH_BYTES) as usize } else { 0 }
}

/// Appends the reply to a request: an error, or the data read.
pub(super) fn put_reply(output: &mut Vec<u8>, cookie: u64, status: Status, data: &[u8]) {
    // Linux error numbers as used by the protocol.
    let error: u32 = match status {
        Status::Done => 0,
        Status::Failed => 5,
        Status::Range => 22,
        Status::ReadOnly => 1,
        Status::Unsupported => 95,
        Status::Full => 28,
    };
    output.extend(SIMPLE_REPLY_MAGIC.to_be_bytes());
    output.extend(error.to_be_bytes());
    output.extend(cookie.to_be_bytes());
    if error == 0 {
        output.extend(data);
    }
}

/// Appends the server's greeting: the fixed newstyle handshake.
pub(super) fn greet(output: &mut Vec<u8>) {
    output.extend(b"NBDMAGIC");
    output.extend(OPTION_MAGIC);
    output.extend(3_u16.to_be_bytes());
}

/// State of a handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Handshake {
    /// Waiting for the client's flags.
    Flags,
    /// Waiting for its next option; `zeros` tells whether 124 zeros follow the reply to the oldest one.
    Options { zeros: bool },
    /// Completed: requests follow.
    Complete,
    /// Aborted by the client.
    Aborted,
}

impl Handshake {
    /// Handles a complete message at the beginning of `input` and returns its length; 0 if it is incomplete.
    pub(super) fn step(
        &mut self,
        input: &[u8],
        (name, disk): (&str, &Configuration),
        output: &mut Vec<u8>,
    ) -> Result<usize, Malformed> {
        match *self {
            Handshake::Complete | Handshake::Aborted => Ok(0),
            Handshake::Flags if input.len() < 4 => Ok(0),
            Handshake::Flags => {
                let flags = read_u32(input, 0);
                if flags & !3 != 0 {
                    return Err(Malformed);
                }
                *self = Handshake::Options { zeros: flags & 2 == 0 };
                Ok(4)
            }
            Handshake::Options { .. } if input.len() < 16 => Ok(0),
            Handshake::Options { zeros } => {
                let (option, length) = (read_u32(input, 8), read_u32(input, 12) as usize);
                if input[..8] != *OPTION_MAGIC || length > MAX_OPTION_BYTES {
                    return Err(Malformed);
                }
                let Some(data) = input[16..].get(..length) else { return Ok(0) };
                *self = self.handle_option(option, (data, zeros), (name, disk), output);
                Ok(16 + length)
            }
        }
    }

    fn handle_option(
        self,
        option: u32,
        (data, zeros): (&[u8], bool),
        (name, disk): (&str, &Configuration),
        output: &mut Vec<u8>,
    ) -> Handshake {
        const ACK: u32 = 1;
        const SERVER: u32 = 2;
        const INFO: u32 = 3;
        const UNSUPPORTED: u32 = 0x8000_0001;
        const INVALID: u32 = 0x8000_0003;
        const UNKNOWN: u32 = 0x8000_0006;
        let mut reply = |kind: u32, data: &[u8]| {
            output.extend(OPTION_REPLY_MAGIC.to_be_bytes());
            output.extend(option.to_be_bytes());
            output.extend(kind.to_be_bytes());
            output.extend((data.len() as u32).to_be_bytes());
            output.extend(data);
        };
        let (size, flags) = (disk.capacity_bytes.to_be_bytes(), flags(disk).to_be_bytes());
        let names_this_disk = |wanted: &[u8]| wanted.is_empty() || wanted == name.as_bytes();
        match option {
            // NBD_OPT_EXPORT_NAME, which has no option reply.
            1 if names_this_disk(data) => {
                output.extend(size.into_iter().chain(flags));
                output.extend(&[0; 124][..if zeros { 124 } else { 0 }]);
                return Handshake::Complete;
            }
            1 => return Handshake::Aborted,
            // NBD_OPT_ABORT
            2 => {
                reply(ACK, &[]);
                return Handshake::Aborted;
            }
            // NBD_OPT_LIST
            3 => {
                let length = (name.len() as u32).to_be_bytes();
                reply(SERVER, &[&length[..], name.as_bytes()].concat());
                reply(ACK, &[]);
            }
            // NBD_OPT_INFO and NBD_OPT_GO: a name, and the requested information.
            6 | 7 => {
                let wanted = (data.len() >= 4).then(|| data[4..].get(..read_u32(data, 0) as usize)).flatten();
                match wanted {
                    None => reply(INVALID, &[]),
                    Some(wanted) if !names_this_disk(wanted) => reply(UNKNOWN, &[]),
                    Some(_) => {
                        reply(INFO, &[&[0; 2][..], &size, &flags].concat());
                        let blocks = [disk.block_bytes, 4096, MAX_LENGTH_BYTES].map(u32::to_be_bytes);
                        reply(INFO, &[&[0, 3][..], blocks.as_flattened()].concat());
                        reply(ACK, &[]);
                        if option == 7 {
                            return Handshake::Complete;
                        }
                    }
                }
            }
            _ => reply(UNSUPPORTED, &[]),
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tombolo_virtqueue::Device;

    use super::*;

    fn disk() -> Configuration {
        let features = Features::FLUSH.and(Features::DISCARD);
        Configuration {
            device: Device::Block,
            features,
            depth: 64,
            block_bytes: 512,
            capacity_bytes: 1 << 20,
        }
    }

    fn bytes(flags: u16, code: u16, length_bytes: u32) -> Vec<u8> {
        let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes().into_iter().chain(code.to_be_bytes()));
        bytes.extend(0x0102_0304_0506_0708_u64.to_be_bytes());
        bytes.extend(4096_u64.to_be_bytes());
        bytes.extend(length_bytes.to_be_bytes());
        bytes
    }

    #[test]
    fn only_complete_requests_are_parsed() {
        let mut write = bytes(1, 1, 3);
        assert_eq!(parse_request(&write), Ok(None));
        assert_eq!((needed_bytes(&write[..20]), needed_bytes(&write)), (28, 31));
        write.extend(b"abcd");
        let (request, end) = parse_request(&write).unwrap().unwrap();
        assert_eq!((end, request.durable, &request.data[..]), (31, true, &b"abc"[..]));
        assert_eq!((request.cookie, request.offset_bytes), (0x0102_0304_0506_0708, 4096));
        let (request, _) = parse_request(&bytes(1, 0, 512)).unwrap().unwrap();
        assert_eq!((request.what, request.durable), (NbdCommand::Operation(Operation::Read), false));
        assert_eq!(parse_request(&bytes(0, 9, 0)).unwrap().unwrap().0.what, NbdCommand::Unknown);
        assert_eq!(parse_request(&bytes(0, 2, 0)).unwrap().unwrap().0.what, NbdCommand::Disconnect);
        for code in [0, 1] {
            assert!(parse_request(&bytes(0, code, MAX_LENGTH_BYTES)).is_ok());
            assert_eq!(parse_request(&bytes(0, code, MAX_LENGTH_BYTES + 1)), Err(Malformed));
        }
        assert!(parse_request(&bytes(0, 4, u32::MAX)).is_ok(), "a discard moves nothing");
        assert_eq!(parse_request(&[0; 28]), Err(Malformed));
    }

    /// Encodes an option as sent by a client.
    fn option(number: u32, data: &[u8]) -> Vec<u8> {
        [&OPTION_MAGIC[..], &number.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data].concat()
    }

    #[test]
    fn handshake_as_done_by_qemu() {
        let (disk, mut output) = (disk(), Vec::new());
        let mut handshake = Handshake::Flags;
        let mut step = |input: &[u8]| {
            output.clear();
            let used = handshake.step(input, ("d0", &disk), &mut output);
            (used, handshake, output.clone())
        };
        assert_eq!(step(&[0, 0, 0]).0, Ok(0));
        assert_eq!(step(&[0, 0, 0, 3]).0, Ok(4));
        // Structured replies, which this server does not support.
        let (used, _, reply) = step(&option(8, &[]));
        assert_eq!((used, read_u32(&reply, 12)), (Ok(16), 0x8000_0001));
        let wrong = option(7, &[0, 0, 0, 2, b'd', b'9', 0, 0]);
        assert_eq!(read_u32(&step(&wrong).2, 12), 0x8000_0006);
        assert_eq!(read_u32(&step(&option(7, &[0, 0, 0, 9])).2, 12), 0x8000_0003);
        let go = option(7, &[0, 0, 0, 2, b'd', b'0', 0, 0]);
        assert_eq!(step(&go[..20]).0, Ok(0));
        let (used, state, reply) = step(&go);
        assert_eq!((used, state), (Ok(24), Handshake::Complete));
        assert_eq!((read_u32(&reply, 12), read_u32(&reply, 16), read_u64(&reply, 22)), (3, 12, 1 << 20));
        assert_eq!(reply[30..32], [0, 0b10_1101]);
        assert_eq!(step(&go).0, Ok(0));
    }

    #[test]
    fn older_and_broken_handshakes() {
        let (disk, mut output) = (disk(), Vec::new());
        let mut run = |flags: u8, input: &[u8]| {
            output.clear();
            let mut handshake = Handshake::Flags;
            let flags = handshake.step(&[0, 0, 0, flags], ("d0", &disk), &mut output);
            let used = flags.and_then(|_| handshake.step(input, ("d0", &disk), &mut output));
            (used, handshake, output.len())
        };
        assert_eq!(run(1, &option(1, b"")), (Ok(16), Handshake::Complete, 134));
        assert_eq!(run(3, &option(1, b"d0")), (Ok(18), Handshake::Complete, 10));
        assert_eq!(run(3, &option(1, b"other")).1, Handshake::Aborted);
        assert_eq!(run(3, &option(2, b"")).1, Handshake::Aborted);
        assert_eq!(run(3, &option(3, b"")).2, 20 + 6 + 20);
        assert_eq!(run(7, b"").0, Err(Malformed));
        assert_eq!(run(3, &[0; 16]).0, Err(Malformed));
        assert_eq!(run(3, &option(1, &[0; MAX_OPTION_BYTES + 1])).0, Err(Malformed));
    }

    proptest! {
        #[test]
        fn arbitrary_client_input_never_panics(input in proptest::collection::vec(any::<u8>(), 0..200), good in any::<bool>()) {
            let mut input = input;
            if good && input.len() > 16 {
                input[..8].copy_from_slice(OPTION_MAGIC);
                input[12..15].fill(0);
            }
            let mut output = Vec::new();
            for mut handshake in [Handshake::Flags, Handshake::Options { zeros: true }] {
                if let Ok(used) = handshake.step(&input, ("d0", &disk()), &mut output) {
                    prop_assert!(used <= input.len());
                }
            }
            if good && input.len() >= 4 {
                input[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
            }
            if let Ok(Some((_, used))) = parse_request(&input) {
                prop_assert!(used <= input.len());
            }
        }
    }
}
