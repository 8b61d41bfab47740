//! Errors of message devices.

use std::time::Duration;

use tombolo_notification::Broken;
use tombolo_placement::NoCommonWindow;

use crate::layout::{CHANNELS, MAX_NODES};

/// Error of an operation on a device. On error no message was sent.
#[derive(Debug, thiserror::Error)]
pub enum XipxError {
    /// The timeout expired.
    #[error("{what} within {timeout:?}")]
    TimedOut {
        /// The operation that failed.
        what: String,
        /// Timeout of the operation.
        timeout: Duration,
    },
    /// The job has no such node.
    #[error("there is no node {node}; the job has nodes 0 to {}", nodes - 1)]
    NoSuchNode {
        /// The number.
        node: u16,
        /// How many nodes there are.
        nodes: u16,
    },
    /// A node has no such channel.
    #[error("there is no channel {channel}; channels are 0 to {}", CHANNELS - 1)]
    NoSuchChannel {
        /// The number.
        channel: u16,
    },
    /// Another device is open there.
    #[error("channel {channel} of node {node} ({name}) is in use; open another one")]
    ChannelInUse {
        /// The channel.
        channel: u16,
        /// The number of the node.
        node: u16,
        /// Its name.
        name: String,
    },
    /// No device is open there.
    #[error("no device is open on channel {channel} of node {node} ({name})")]
    NotOpen {
        /// The channel.
        channel: u16,
        /// The number of the node.
        node: u16,
        /// Its name.
        name: String,
    },
    /// The message fits into no buffer.
    #[error(
        "a message of {length_bytes} bytes is too long for the buffers, which take {max_bytes}; start the \
         devices with longer ones (--fifo)"
    )]
    TooLong {
        /// Length of the message.
        length_bytes: usize,
        /// Maximum length.
        max_bytes: usize,
    },
    /// The device of a node has ended.
    #[error("the message device of node {node} ({name}) has ended{}", memory_loss_note(*node))]
    NodeEnded {
        /// The number of the node.
        node: u16,
        /// Its name.
        name: String,
    },
    /// A node violated the protocol; nothing more is taken from it.
    #[error("node {node} ({name}) breaks the protocol of message devices: {broken}")]
    Broken {
        /// The number of the node.
        node: u16,
        /// Its name.
        name: String,
        /// Description of the value.
        broken: Broken,
    },
    /// The devices of a job cannot start.
    #[error("the message devices cannot start: {why}")]
    Refused {
        /// Explanation of the problem.
        why: String,
    },
    /// The device that a program opened through a socket returned an error.
    #[error("{why}")]
    Answered {
        /// Text of the device's error.
        why: String,
    },
    /// The nodes have no memory in common.
    #[error(transparent)]
    NoWindow(#[from] NoCommonWindow),
    /// A name, a channel, a region or the monitor failed.
    #[error(transparent)]
    Domain(#[from] tombolo::Error),
    /// The socket of a node's device failed.
    #[error("cannot {operation}: {source}")]
    Socket {
        /// The operation that failed.
        operation: String,
        /// Error of the kernel.
        source: std::io::Error,
    },
}

fn memory_loss_note(node: u16) -> &'static str {
    if node == 0 { ", and with it the memory of all" } else { "" }
}

impl XipxError {
    pub(crate) fn refused(why: impl ToString) -> XipxError {
        XipxError::Refused { why: why.to_string() }
    }

    pub(crate) fn answered(text: &[u8]) -> XipxError {
        XipxError::Answered { why: String::from_utf8_lossy(text).into_owned() }
    }

    pub(crate) fn too_many(nodes: u32) -> XipxError {
        XipxError::refused(format!("the job has {nodes} nodes; {MAX_NODES} can take part"))
    }

    pub(crate) fn socket(operation: impl Into<String>) -> impl FnOnce(std::io::Error) -> XipxError {
        let operation = operation.into();
        move |source| XipxError::Socket { operation, source }
    }
}
