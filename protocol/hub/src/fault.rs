//! Errors of operations on hubs.

use crate::Kind;

/// Error of an operation on a hub. The operation had no effect: the sender still owns a value that was to be
/// sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum Fault {
    /// The request was tentative and would have had to wait.
    #[error("it would have to wait")]
    WouldBlock,
    /// The deadline passed.
    #[error("its deadline passed")]
    TimedOut,
    /// The hub is closed and, for a receiver, also empty.
    #[error("the hub is closed")]
    Closed,
    /// The hub was already closed.
    #[error("the hub was closed before")]
    AlreadyClosed,
    /// The node has no such hub.
    #[error("there is no such hub")]
    NoSuchHub,
    /// The hub has another kind than the one given in the request to open it.
    #[error("the hub is a {0}")]
    OtherKind(Kind),
    /// The hub has values of another type.
    #[error("the values of the hub are of another type")]
    OtherType,
    /// The value is longer than the hub accepts, in bytes.
    #[error("the value is longer than the {0} bytes that the hub takes")]
    TooLong(u32),
    /// The client does not hold the item: its fencing token is outdated or belongs to another client.
    #[error("the client does not hold it")]
    NotHeld,
    /// The owner locked the resource a second time and would wait for itself.
    #[error("the client holds it already")]
    AlreadyHeld,
    /// More requests of a client wait than the node allows.
    #[error("more than {0} requests of the client wait")]
    TooManyRequests(u32),
    /// The operation does not apply to hubs of this kind.
    #[error("a {0} has no such operation")]
    WrongOperation(Kind),
}

impl Fault {
    /// Encodes the fault as a number and its argument.
    pub(crate) fn to_wire(self) -> (u8, u64) {
        match self {
            Fault::WouldBlock => (1, 0),
            Fault::TimedOut => (2, 0),
            Fault::Closed => (3, 0),
            Fault::AlreadyClosed => (4, 0),
            Fault::NoSuchHub => (5, 0),
            Fault::OtherKind(kind) => (6, kind as u64),
            Fault::OtherType => (7, 0),
            Fault::TooLong(max) => (8, max.into()),
            Fault::NotHeld => (9, 0),
            Fault::AlreadyHeld => (10, 0),
            Fault::TooManyRequests(max) => (11, max.into()),
            Fault::WrongOperation(kind) => (12, kind as u64),
        }
    }

    /// Decodes a fault. Returns `None` for an invalid number or argument.
    pub(crate) fn from_wire(number: u8, argument: u64) -> Option<Fault> {
        let kind = || Kind::from_number(u8::try_from(argument).ok()?);
        let count = || u32::try_from(argument).ok();
        let fault = match number {
            1 => Fault::WouldBlock,
            2 => Fault::TimedOut,
            3 => Fault::Closed,
            4 => Fault::AlreadyClosed,
            5 => Fault::NoSuchHub,
            6 => Fault::OtherKind(kind()?),
            7 => Fault::OtherType,
            8 => Fault::TooLong(count()?),
            9 => Fault::NotHeld,
            10 => Fault::AlreadyHeld,
            11 => Fault::TooManyRequests(count()?),
            12 => Fault::WrongOperation(kind()?),
            _ => return None,
        };
        (fault.to_wire() == (number, argument)).then_some(fault)
    }

    /// Whether the fault only means that nothing was available in time.
    #[must_use]
    pub fn is_not_ready(self) -> bool {
        matches!(self, Fault::WouldBlock | Fault::TimedOut)
    }
}

/// Protocol violation by a peer. Its channel must be closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum Violation {
    #[error("{0} bytes that are not a message of hubs")]
    Malformed(usize),
    #[error("a second request {0} while the first one waits")]
    DuplicateRequest(u32),
    #[error("a request of a client that has not joined")]
    NotJoined,
}
