//! Messages of both sides: commands of 48 bytes and answers of 16, little-endian, followed by the bytes that
//! they carry.

use std::fmt;

/// Id of a memory that the far side offers. The generation distinguishes it from earlier memories with the
/// same index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MemoryId {
    /// Index of the slot, from 0.
    pub index: u32,
    /// Number of times that the slot was used, from 1.
    pub generation: u32,
}

impl fmt::Display for MemoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.generation)
    }
}

/// Reason why the far side refused a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FarRefusal {
    /// The memory is not offered, or no longer.
    #[error("the memory is not offered")]
    NoMemory,
    /// The memory was offered without the necessary right.
    #[error("the memory is not offered for this access")]
    NotAllowed,
    /// The range does not lie inside the memory.
    #[error("the range does not lie inside the memory")]
    OutOfRange,
    /// The ranges overlap.
    #[error("the source and the target overlap")]
    Overlap,
}

impl FarRefusal {
    const ALL: [FarRefusal; 4] =
        [FarRefusal::NoMemory, FarRefusal::NotAllowed, FarRefusal::OutOfRange, FarRefusal::Overlap];

    const fn code(self) -> u32 {
        match self {
            FarRefusal::NoMemory => 1,
            FarRefusal::NotAllowed => 2,
            FarRefusal::OutOfRange => 3,
            FarRefusal::Overlap => 4,
        }
    }
}

/// Range of a memory that the far side offers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FarRange {
    pub(super) memory: MemoryId,
    pub(super) offset_bytes: u64,
}

/// Order to the far side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CommandKind {
    /// Store the bytes that follow.
    Write { target: FarRange },
    /// Answer with the bytes of the range.
    Read { source: FarRange },
    /// Fill the range with a byte.
    Fill { target: FarRange, byte: u8 },
    /// Copy with the far side's own processor.
    Copy { source: FarRange, target: FarRange },
}

/// An order for a number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Command {
    pub(super) kind: CommandKind,
    /// Whether to check only if the order would be refused. Sent for the whole of a request longer than one
    /// command, before its first piece.
    pub(super) check_only: bool,
    pub(super) length_bytes: u64,
}

/// Flag for a check-only command, beside the byte of a fill.
const CHECK_ONLY: u32 = 1 << 8;

pub(super) const COMMAND_BYTES: usize = 48;
pub(super) const ANSWER_BYTES: usize = 16;

/// Maximum range of one command: the far side handles no other command meanwhile.
pub(super) const MAX_PIECE_BYTES: u64 = 1 << 20;

const NOTHING: FarRange = FarRange { memory: MemoryId { index: 0, generation: 0 }, offset_bytes: 0 };

impl Command {
    pub(super) fn to_bytes(self) -> [u8; COMMAND_BYTES] {
        let (kind, byte, source, target) = match self.kind {
            CommandKind::Write { target } => (1, 0, NOTHING, target),
            CommandKind::Read { source } => (2, 0, source, NOTHING),
            CommandKind::Fill { target, byte } => (3, byte, NOTHING, target),
            CommandKind::Copy { source, target } => (4, 0, source, target),
        };
        let mut bytes = [0; COMMAND_BYTES];
        put_u32(&mut bytes, 0, kind);
        put_u32(&mut bytes, 4, u32::from(byte) | if self.check_only { CHECK_ONLY } else { 0 });
        put_u64(&mut bytes, 8, self.length_bytes);
        for (at, range) in [(16, source), (32, target)] {
            put_u32(&mut bytes, at, range.memory.index);
            put_u32(&mut bytes, at + 4, range.memory.generation);
            put_u64(&mut bytes, at + 8, range.offset_bytes);
        }
        bytes
    }

    /// Decodes a command, and returns the bytes that follow it. Returns `None` if it is malformed; unused
    /// fields must be zero.
    pub(super) fn from_bytes(message: &[u8]) -> Option<(Command, &[u8])> {
        let (bytes, behind) = message.split_first_chunk::<COMMAND_BYTES>()?;
        let range = |at: usize| FarRange {
            memory: MemoryId { index: get_u32(bytes, at), generation: get_u32(bytes, at + 4) },
            offset_bytes: get_u64(bytes, at + 8),
        };
        let (source, target) = (range(16), range(32));
        let options = get_u32(bytes, 4);
        let check_only = options & CHECK_ONLY != 0;
        let byte = u8::try_from(options & !CHECK_ONLY).ok()?;
        let kind = match get_u32(bytes, 0) {
            1 => CommandKind::Write { target },
            2 => CommandKind::Read { source },
            3 => CommandKind::Fill { target, byte },
            4 => CommandKind::Copy { source, target },
            _ => return None,
        };
        let command = Command { kind, check_only, length_bytes: get_u64(bytes, 8) };
        let has_payload = matches!(kind, CommandKind::Write { .. }) && !check_only;
        let payload = if has_payload { command.length_bytes } else { 0 };
        let short = check_only || command.length_bytes <= MAX_PIECE_BYTES;
        let whole = short && behind.len() as u64 == payload;
        (whole && command.to_bytes() == *bytes).then_some((command, behind))
    }
}

/// Answer to a command: success or a refusal. Bytes that were read follow it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Answer {
    pub(super) result: Result<(), FarRefusal>,
    pub(super) length_bytes: u64,
}

impl Answer {
    pub(super) fn to_bytes(self) -> [u8; ANSWER_BYTES] {
        let mut bytes = [0; ANSWER_BYTES];
        put_u32(&mut bytes, 0, self.result.map_or_else(FarRefusal::code, |()| 0));
        put_u64(&mut bytes, 8, self.length_bytes);
        bytes
    }

    /// Decodes an answer, and returns the bytes that follow it. Returns `None` if it is malformed.
    pub(super) fn from_bytes(message: &[u8]) -> Option<(Answer, &[u8])> {
        let (bytes, behind) = message.split_first_chunk::<ANSWER_BYTES>()?;
        let result = match get_u32(bytes, 0) {
            0 => Ok(()),
            code => Err(*FarRefusal::ALL.iter().find(|refusal| refusal.code() == code)?),
        };
        let answer = Answer { result, length_bytes: get_u64(bytes, 8) };
        (answer.length_bytes == behind.len() as u64 && answer.to_bytes() == *bytes)
            .then_some((answer, behind))
    }
}

fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn get_u32<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(value)
}

fn get_u64<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(index: u32, offset_bytes: u64) -> FarRange {
        FarRange { memory: MemoryId { index, generation: 7 }, offset_bytes }
    }

    fn commands() -> [Command; 4] {
        let (source, target) = (range(1, 0x0102), range(2, 0x0304_0506_0708));
        let command = |kind, length_bytes| Command { kind, check_only: false, length_bytes };
        [
            command(CommandKind::Write { target }, 3),
            command(CommandKind::Read { source }, MAX_PIECE_BYTES),
            command(CommandKind::Fill { target, byte: 0xEE }, 0),
            command(CommandKind::Copy { source, target }, 4096),
        ]
    }

    #[test]
    fn command_bytes_are_golden() {
        let golden = [
            4, 0, 0, 0, 0, 0, 0, 0, // copy
            0, 16, 0, 0, 0, 0, 0, 0, // 4096 bytes
            1, 0, 0, 0, 7, 0, 0, 0, // of memory 1.7
            2, 1, 0, 0, 0, 0, 0, 0, // from 0x0102
            2, 0, 0, 0, 7, 0, 0, 0, // to memory 2.7
            8, 7, 6, 5, 4, 3, 0, 0, // from 0x030405060708
        ];
        assert_eq!(commands()[3].to_bytes(), golden);
        let refused = Answer { result: Err(FarRefusal::OutOfRange), length_bytes: 0 };
        assert_eq!(refused.to_bytes(), [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn commands_round_trip_and_others_are_refused() {
        for command in commands() {
            let mut message = command.to_bytes().to_vec();
            if matches!(command.kind, CommandKind::Write { .. }) {
                message.extend(b"abc");
            }
            let (read, behind) = Command::from_bytes(&message).unwrap();
            assert_eq!((read, behind.len()), (command, message.len() - COMMAND_BYTES));
            message.push(0);
            assert_eq!(Command::from_bytes(&message), None, "bytes behind it that it does not speak of");
            assert_eq!(Command::from_bytes(&message[..COMMAND_BYTES - 1]), None, "cut");
        }
        let too_long = Command { length_bytes: MAX_PIECE_BYTES + 1, ..commands()[1] };
        assert_eq!(Command::from_bytes(&too_long.to_bytes()), None);
        let check = Command { check_only: true, length_bytes: u64::MAX, ..commands()[0] };
        assert_eq!(Command::from_bytes(&check.to_bytes()), Some((check, &b""[..])));
        for result in
            [Ok(()), Err(FarRefusal::NoMemory), Err(FarRefusal::NotAllowed), Err(FarRefusal::Overlap)]
        {
            let answer = Answer { result, length_bytes: 2 };
            let message = [&answer.to_bytes()[..], b"xy"].concat();
            assert_eq!(Answer::from_bytes(&message), Some((answer, &b"xy"[..])));
            assert_eq!(Answer::from_bytes(&message[..17]), None);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_command_or_none(bytes: Vec<u8>, at in 0..48_usize, value: u8) {
            let _ = Command::from_bytes(&bytes);
            let _ = Answer::from_bytes(&bytes);
            let mut message = commands()[3].to_bytes();
            message[at] = value;
            if let Some((command, _)) = Command::from_bytes(&message) {
                proptest::prop_assert_eq!(command.to_bytes(), message);
            }
        }
    }
}
