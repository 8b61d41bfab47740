//! Messages between a starter and a worker: a cache line for short arguments and results.
//!
//! All numbers are little-endian. A header of 16 bytes: code (1), detail (1), node (2), number of the task
//! (4), function (8); then the bytes of an argument or a result. `docs/specs/task.md` specifies the layout.

use alloc::string::String;
use alloc::vec::Vec;

use crate::{End, Failure, FailureKind, Violation};

/// Size of the header before an argument or a result, in bytes.
pub const HEADER_BYTES: usize = 16;

/// Maximum size of an argument or a result, in bytes.
pub const MAX_VALUE_BYTES: usize = 16 * 1024;

/// Maximum size of the text of a failure, in bytes; longer texts are truncated.
pub const MAX_TEXT_BYTES: usize = 1024;

/// Interface hash, compared by the two sides when a channel opens. Changes with the format.
pub const INTERFACE_HASH: u64 = 0x7461_736b_0000_0001;

/// Node number that stands for any node.
const ANY_NODE: u16 = u16::MAX;

/// Message in either direction. A task has the number chosen by the side that started it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Message<'m> {
    /// Report of a worker to the starter.
    Want {
        /// Number of further tasks that the worker can take.
        more: u32,
        /// Number of its tasks that have ended, or wait for something for the first time.
        released: u32,
    },
    /// Starts a task.
    Start {
        /// Number of the task.
        task: u32,
        /// Number of a node; `None` for any. From a starter to a worker always `None`.
        node: Option<u16>,
        /// Number of the function, derived from its name and types.
        function: u64,
        /// Encoded argument.
        argument: &'m [u8],
    },
    /// Cancels a task at the next point where it waits.
    Cancel(u32),
    /// Reports the end of a task.
    Ended(u32, End),
}

impl<'m> Message<'m> {
    /// Appends the encoded message to `bytes`.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Message::Want { more, released } => {
                put_header(bytes, [1, 0], ANY_NODE, *more, (*released).into());
            }
            Message::Start { task, node, function, argument } => {
                put_header(bytes, [2, 0], node.unwrap_or(ANY_NODE), *task, *function);
                bytes.extend(*argument);
            }
            Message::Cancel(task) => put_header(bytes, [3, 0], ANY_NODE, *task, 0),
            Message::Ended(task, End::Done(result)) => {
                put_header(bytes, [4, 0], ANY_NODE, *task, 0);
                bytes.extend(result);
            }
            Message::Ended(task, End::Failed(failure)) => {
                let (node, text) = (truncate(&failure.node, 255), truncate(&failure.text, MAX_TEXT_BYTES));
                put_header(bytes, [4, failure.kind as u8], ANY_NODE, *task, node.len() as u64);
                bytes.extend(node.as_bytes());
                bytes.extend(text.as_bytes());
            }
        }
    }

    /// Decodes a message from `bytes`.
    ///
    /// # Errors
    /// [`Violation::Malformed`].
    pub fn decode(bytes: &'m [u8]) -> Result<Message<'m>, Violation> {
        Self::try_decode(bytes).ok_or(Violation::Malformed(bytes.len()))
    }

    fn try_decode(bytes: &'m [u8]) -> Option<Message<'m>> {
        let (header, tail) = bytes.split_at_checked(HEADER_BYTES)?;
        let (code, detail) = (header[0], header[1]);
        let node = u16::from_le_bytes(header.get(2..4)?.try_into().ok()?);
        let task = u32::from_le_bytes(header.get(4..8)?.try_into().ok()?);
        let argument = u64::from_le_bytes(header.get(8..16)?.try_into().ok()?);
        let message = match code {
            1 if tail.is_empty() => Message::Want { more: task, released: u32::try_from(argument).ok()? },
            2 if tail.len() <= MAX_VALUE_BYTES => {
                let node = (node != ANY_NODE).then_some(node);
                Message::Start { task, node, function: argument, argument: tail }
            }
            3 if tail.is_empty() => Message::Cancel(task),
            4 if detail == 0 && tail.len() <= MAX_VALUE_BYTES => Message::Ended(task, End::Done(tail.into())),
            4 => {
                let kind = FailureKind::from_number(detail)?;
                let (node, text) = tail.split_at_checked(usize::try_from(argument).ok()?)?;
                let (node, text) = (core::str::from_utf8(node).ok()?, core::str::from_utf8(text).ok()?);
                if text.len() > MAX_TEXT_BYTES {
                    return None;
                }
                let failure = Failure { kind, node: String::from(node), text: String::from(text) };
                Message::Ended(task, End::Failed(failure))
            }
            _ => return None,
        };
        // Each message has a unique encoding.
        let mut again = Vec::with_capacity(bytes.len());
        message.encode(&mut again);
        (again == bytes).then_some(message)
    }
}

/// Returns the number of a function: FNV-1a (64 bits) of `name(argument) -> result`, with the names of its
/// types.
#[must_use]
pub fn function_number(name: &str, argument: &str, result: &str) -> u64 {
    let text = [name, "(", argument, ") -> ", result];
    let bytes = text.iter().flat_map(|part| part.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn put_header(bytes: &mut Vec<u8>, start: [u8; 2], node: u16, task: u32, argument: u64) {
    bytes.extend(start);
    bytes.extend(node.to_le_bytes());
    bytes.extend(task.to_le_bytes());
    bytes.extend(argument.to_le_bytes());
}

/// Returns the longest prefix of a text that is not longer than `max_bytes` bytes.
fn truncate(text: &str, max_bytes: usize) -> &str {
    let end = (0..=text.len().min(max_bytes)).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}
