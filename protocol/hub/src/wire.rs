//! Messages between a client and a node's hubs: one or two cache lines for short values.
//!
//! All numbers are little-endian. A request has a header of 24 bytes, an answer one of 16; the bytes of a
//! value or of a name follow. A slot of a ring carries 56 bytes, two slots 112: requests with values of up to
//! 32 and 88 bytes. `docs/specs/hub.md` specifies the layout.

use alloc::string::String;
use alloc::vec::Vec;

use crate::hub::{Outcome, Taken};
use crate::status::{Status, Waiting};
use crate::{Batch, BatchBuf, Description, Fault, Kind, MAX_BATCH, Violation};

/// Size of a request's header, in bytes.
pub const REQUEST_BYTES: usize = 24;

/// Size of an answer's header, in bytes.
pub const ANSWER_BYTES: usize = 16;

/// Interface hash, compared by the two sides when a channel opens. Changes with the format.
pub const INTERFACE_HASH: u64 = 0x6875_6273_0000_0002;

/// Operation of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation<'m> {
    /// Opens a hub by its name.
    Open {
        /// Name of the hub.
        name: &'m str,
        /// Expected kind; `None` accepts all.
        kind: Option<Kind>,
        /// [`type_number`](crate::type_number) of its values; 0 accepts all.
        value_type: u64,
    },
    /// Puts an item in: send, raise, signal.
    Put {
        /// Value; empty for items without one.
        value: &'m [u8],
    },
    /// Takes an item: receive, await, wait, lock, allocate.
    Get,
    /// Gives an item back: unlock, free.
    GiveBack {
        /// Fencing token of the item.
        token: u64,
    },
    /// Claims an offer.
    Claim {
        /// Number of the offer.
        offer: u32,
    },
    /// Takes a claim back.
    Unclaim {
        /// Number of the offer.
        offer: u32,
    },
    /// Ends a waiting request.
    Withdraw,
    /// Closes a hub.
    Close,
    /// Reports that the client inherits the header's priority through resources on other nodes.
    Raise,
    /// Asks for the status of a hub.
    Status,
    /// Puts several values into a fifo, in order, each as soon as there is room.
    PutMany {
        /// Values to put.
        values: Batch<'m>,
    },
    /// Takes the values of a fifo, as soon as there is at least one.
    GetMany {
        /// Maximum number of values, 1 to [`MAX_BATCH`].
        max_values: u32,
    },
}

/// Request of a client.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Request<'m> {
    /// Number chosen by the client. Claims and withdrawals have the number of the request that they refer to.
    pub number: u32,
    /// Number of the hub; 0 if there is none.
    pub hub: u32,
    /// Priority, 0 to 255; larger is more urgent.
    pub priority: u8,
    /// Whether it waits for an offer.
    pub tentative: bool,
    /// Maximum time to wait, in microseconds; 0 only tries.
    pub timeout_us: u32,
    /// Operation to perform.
    pub operation: Operation<'m>,
}

/// Message to a client.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Answer {
    /// Outcome of the request with this number.
    Outcome(u32, Outcome),
    /// Priority that the client inherits through the resources that it owns on this node.
    Inherits(u8),
}

const TENTATIVE: u8 = 1;

impl<'m> Request<'m> {
    /// Appends the encoded request to `message`.
    pub fn encode(&self, message: &mut Vec<u8>) {
        let (code, detail, argument, tail): (u8, u8, u64, &[u8]) = match self.operation {
            Operation::Open { name, kind, value_type } => {
                (1, kind.map_or(0, |kind| kind as u8), value_type, name.as_bytes())
            }
            Operation::Put { value } => (2, 0, 0, value),
            Operation::Get => (3, 0, 0, &[]),
            Operation::GiveBack { token } => (4, 0, token, &[]),
            Operation::Claim { offer } => (5, 0, offer.into(), &[]),
            Operation::Unclaim { offer } => (6, 0, offer.into(), &[]),
            Operation::Withdraw => (7, 0, 0, &[]),
            Operation::Close => (8, 0, 0, &[]),
            Operation::Raise => (9, 0, 0, &[]),
            Operation::Status => (10, 0, 0, &[]),
            Operation::PutMany { values } => (11, 0, 0, values.bytes()),
            Operation::GetMany { max_values } => (12, 0, max_values.into(), &[]),
        };
        let mut header = [0; REQUEST_BYTES];
        header[..4].copy_from_slice(&[code, self.priority, u8::from(self.tentative) * TENTATIVE, detail]);
        header[4..8].copy_from_slice(&self.number.to_le_bytes());
        header[8..12].copy_from_slice(&self.hub.to_le_bytes());
        header[12..16].copy_from_slice(&self.timeout_us.to_le_bytes());
        header[16..].copy_from_slice(&argument.to_le_bytes());
        message.extend_from_slice(&header);
        message.extend_from_slice(tail);
    }

    /// Decodes a request from a message.
    ///
    /// # Errors
    /// [`Violation::Malformed`].
    pub fn decode(message: &'m [u8]) -> Result<Request<'m>, Violation> {
        Self::read(message).ok_or(Violation::Malformed(message.len()))
    }

    fn read(message: &'m [u8]) -> Option<Request<'m>> {
        let (header, tail) = message.split_at_checked(REQUEST_BYTES)?;
        let (code, priority, flags, detail) = (header[0], header[1], header[2], header[3]);
        let (number, hub, timeout_us) = (read_u32(header, 4)?, read_u32(header, 8)?, read_u32(header, 12)?);
        let argument = u64::from_le_bytes(header.get(16..24)?.try_into().ok()?);
        let offer = u32::try_from(argument);
        let operation = match code {
            1 => {
                let kind = if detail == 0 { None } else { Some(Kind::from_number(detail)?) };
                Operation::Open { name: core::str::from_utf8(tail).ok()?, kind, value_type: argument }
            }
            2 => Operation::Put { value: tail },
            3 => Operation::Get,
            4 => Operation::GiveBack { token: argument },
            5 => Operation::Claim { offer: offer.ok()? },
            6 => Operation::Unclaim { offer: offer.ok()? },
            7 => Operation::Withdraw,
            8 => Operation::Close,
            9 => Operation::Raise,
            10 => Operation::Status,
            11 => Operation::PutMany { values: Batch::read(tail)? },
            12 => Operation::GetMany {
                max_values: offer.ok().filter(|max_values| (1..=MAX_BATCH).contains(max_values))?,
            },
            _ => return None,
        };
        let has_tail = matches!(code, 1 | 2 | 11);
        let has_argument = matches!(code, 1 | 4 | 5 | 6 | 12);
        let is_plain = (has_tail || tail.is_empty()) && (has_argument || argument == 0);
        // A select takes one value, so batches are never tentative.
        let allowed = if matches!(code, 11 | 12) { 0 } else { TENTATIVE };
        if !is_plain || flags & !allowed != 0 || (code != 1 && detail != 0) {
            return None;
        }
        let tentative = flags & TENTATIVE != 0;
        Some(Request { number, hub, priority, tentative, timeout_us, operation })
    }
}

impl Answer {
    /// Appends the encoded answer to `message`.
    pub fn encode(&self, message: &mut Vec<u8>) {
        let (number, outcome) = match self {
            Answer::Outcome(number, outcome) => (*number, outcome),
            Answer::Inherits(priority) => return push_header(message, [1, *priority], 0, 0),
        };
        match outcome {
            Outcome::Done(Taken::Put) => push_header(message, [2, 0], number, 0),
            Outcome::Done(Taken::Unit) => push_header(message, [3, 0], number, 0),
            Outcome::Done(Taken::Value(value)) => {
                push_header(message, [4, 0], number, 0);
                message.extend(value);
            }
            Outcome::Done(Taken::Block { number: block, token, abandoned }) => {
                push_header(message, [5, u8::from(*abandoned)], number, *token);
                message.extend(block.to_le_bytes());
            }
            Outcome::Offered(offer) => push_header(message, [6, 0], number, (*offer).into()),
            Outcome::Revoked => push_header(message, [7, 0], number, 0),
            Outcome::Unclaimed => push_header(message, [8, 0], number, 0),
            Outcome::Withdrawn => push_header(message, [9, 0], number, 0),
            Outcome::Failed(fault) => {
                let (code, argument) = fault.to_wire();
                push_header(message, [10, code], number, argument);
            }
            Outcome::Opened { hub, kind, capacity, value_bytes, memory } => {
                push_header(message, [11, *kind as u8], number, (*hub).into());
                message.extend(capacity.to_le_bytes());
                message.extend(value_bytes.to_le_bytes());
                message.extend(memory.to_le_bytes());
            }
            Outcome::Status(status) => {
                push_header(message, [12, 0], number, 0);
                status.encode(message);
            }
            Outcome::Done(Taken::Values(values)) => {
                push_header(message, [13, 0], number, 0);
                message.extend(values.batch().map_or(&[][..], |batch| batch.bytes()));
            }
            Outcome::Partial { put, fault } => {
                let (code, argument) = fault.map_or((0, 0), Fault::to_wire);
                push_header(message, [14, code], number, argument);
                message.extend(put.to_le_bytes());
            }
        }
    }

    /// Decodes an answer from a message.
    ///
    /// # Errors
    /// [`Violation::Malformed`].
    pub fn decode(message: &[u8]) -> Result<Answer, Violation> {
        Self::read(message).ok_or(Violation::Malformed(message.len()))
    }

    fn read(message: &[u8]) -> Option<Answer> {
        let (header, tail) = message.split_at_checked(ANSWER_BYTES)?;
        let (code, detail, number) = (header[0], header[1], read_u32(header, 4)?);
        let argument = u64::from_le_bytes(header.get(8..16)?.try_into().ok()?);
        let outcome = match code {
            1 => {
                return (number == 0 && argument == 0 && tail.is_empty()).then_some(Answer::Inherits(detail));
            }
            2 => Outcome::Done(Taken::Put),
            3 => Outcome::Done(Taken::Unit),
            4 => Outcome::Done(Taken::Value(tail.into())),
            5 => {
                let block = read_u32(tail, 0)?;
                Outcome::Done(Taken::Block { number: block, token: argument, abandoned: detail == 1 })
            }
            6 => Outcome::Offered(u32::try_from(argument).ok()?),
            7 => Outcome::Revoked,
            8 => Outcome::Unclaimed,
            9 => Outcome::Withdrawn,
            10 => Outcome::Failed(Fault::from_wire(detail, argument)?),
            11 => {
                let (hub, kind) = (u32::try_from(argument).ok()?, Kind::from_number(detail)?);
                let (capacity, value_bytes, memory) =
                    (read_u32(tail, 0)?, read_u32(tail, 4)?, read_u64(tail, 8)?);
                Outcome::Opened { hub, kind, capacity, value_bytes, memory }
            }
            12 => Outcome::Status(Status::read(tail)?.into()),
            13 => Outcome::Done(Taken::Values(BatchBuf::from(Batch::read(tail)?))),
            14 => {
                let fault = if detail == 0 { None } else { Some(Fault::from_wire(detail, argument)?) };
                Outcome::Partial { put: read_u32(tail, 0).filter(|put| (1..MAX_BATCH).contains(put))?, fault }
            }
            _ => return None,
        };
        let answer = Answer::Outcome(number, outcome);
        // Each answer has a unique encoding. The common ones are validated without re-encoding.
        match code {
            2 | 3 if !tail.is_empty() => return None,
            2..=4 | 13 => return (header[1..4] == [0; 3] && argument == 0).then_some(answer),
            _ => {}
        }
        let mut again = Vec::with_capacity(message.len());
        answer.encode(&mut again);
        (again == message).then_some(answer)
    }
}

fn push_header(message: &mut Vec<u8>, [code, detail]: [u8; 2], number: u32, argument: u64) {
    let mut header = [0; ANSWER_BYTES];
    header[..2].copy_from_slice(&[code, detail]);
    header[4..8].copy_from_slice(&number.to_le_bytes());
    header[8..].copy_from_slice(&argument.to_le_bytes());
    message.extend_from_slice(&header);
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Size of a status before the waiters and the name, in bytes.
const STATUS_BYTES: usize = 56;

impl Status {
    fn encode(&self, message: &mut Vec<u8>) {
        let Description { name, kind, capacity, initial, value_bytes, value_type, inheritance } =
            &self.description;
        let flags = u8::from(*inheritance) | u8::from(self.closed) << 1 | u8::from(self.owner.is_some()) << 2;
        message.extend([*kind as u8, flags, self.putters.len() as u8, self.getters.len() as u8]);
        for number in [capacity, initial, value_bytes, &self.depth, &self.held] {
            message.extend(number.to_le_bytes());
        }
        let (owner, token) = self.owner.unwrap_or_default();
        for number in [*value_type, owner, token, 0] {
            message.extend(number.to_le_bytes());
        }
        for Waiting { priority, count } in self.putters.iter().chain(&self.getters) {
            message.extend([*priority, 0, 0, 0]);
            message.extend(count.to_le_bytes());
        }
        message.extend(name.as_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Status> {
        let (head, mut rest) = bytes.split_at_checked(STATUS_BYTES)?;
        let (kind, flags) = (Kind::from_number(head[0])?, head[1]);
        let mut waiting = |count: u8| {
            let (all, after) = rest.split_at_checked(usize::from(count) * 8)?;
            rest = after;
            let one = |entry: &[u8]| Some(Waiting { priority: *entry.first()?, count: read_u32(entry, 4)? });
            all.chunks_exact(8).map(one).collect::<Option<Vec<_>>>()
        };
        let (putters, getters) = (waiting(head[2])?, waiting(head[3])?);
        let description = Description {
            name: String::from(core::str::from_utf8(rest).ok()?),
            kind,
            capacity: read_u32(head, 4)?,
            initial: read_u32(head, 8)?,
            value_bytes: read_u32(head, 12)?,
            value_type: read_u64(head, 24)?,
            inheritance: flags & 1 != 0,
        };
        let owner = (flags & 4 != 0).then_some((read_u64(head, 32)?, read_u64(head, 40)?));
        let (depth, held) = (read_u32(head, 16)?, read_u32(head, 20)?);
        Some(Status { description, depth, held, owner, closed: flags & 2 != 0, putters, getters })
    }
}
