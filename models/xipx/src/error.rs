//! What can go wrong with a device.

use std::time::Duration;

use tombolo_notification::Broken;
use tombolo_placement::NoCommonWindow;

use crate::layout::{CHANNELS, MAX_NODES};

/// Why an operation on a device failed. What was to be sent is still the caller's.
#[derive(Debug, thiserror::Error)]
pub enum XipxError {
    /// The time is over.
    #[error("{what} within {timeout:?}")]
    TimedOut {
        /// What did not happen.
        what: String,
        /// For how long it was waited for.
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
        "a message of {length_bytes} bytes is too long for the buffers, which take {most_bytes}; start the \
         devices with longer ones (--fifo)"
    )]
    TooLong {
        /// Its length.
        length_bytes: usize,
        /// The longest that fits.
        most_bytes: usize,
    },
    /// The device of a node has ended.
    #[error("the message device of node {node} ({name}) has ended{}", why(*node))]
    NodeEnded {
        /// The number of the node.
        node: u16,
        /// Its name.
        name: String,
    },
    /// A node has written what no message device writes; nothing more is taken from it.
    #[error("node {node} ({name}) breaks the protocol of message devices: {broken}")]
    Broken {
        /// The number of the node.
        node: u16,
        /// Its name.
        name: String,
        /// What it wrote.
        broken: Broken,
    },
    /// The devices of a job cannot start.
    #[error("the message devices cannot start: {why}")]
    Refused {
        /// What is wrong, in words.
        why: String,
    },
    /// The device that a program has opened by a socket refused something.
    #[error("{why}")]
    Answered {
        /// The error of the device, in its words.
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
        /// What was done.
        operation: String,
        /// What the kernel said.
        source: std::io::Error,
    },
}

fn why(node: u16) -> &'static str {
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
