//! The message device of Xipx (Ziwisky, Persohn and Brylow, *BareMichael: A Minimalistic Bare-metal
//! Framework for the Intel SCC*, MARC 2012): messages between programs on the nodes of a machine, over
//! memory that all nodes map, coherent or not.
//!
//! The buffer of a node is a FIFO. A message is written there with its source, target channel and length, and
//! an interrupt notifies the node. A handler copies it into the buffer of the device that is open on the
//! channel, and signals the device's owner. Unlike in RCCE nothing is collective: any program can send to any
//! other, and several programs at a time can use the devices of one node.
//!
//! ```no_run
//! use std::time::Duration;
//! use tombolo::Domain;
//! use tombolo_xipx::{Address, JoinOptions, Node, XipxError};
//!
//! fn main() -> Result<(), XipxError> {
//!     let node = Node::join(&Domain::attach()?, &JoinOptions::default())?;
//!     let device = node.open(Some(5))?;
//!     let next = (node.number() + 1) % node.names().len() as u16;
//!     device.send(Address { node: next, channel: 5 }, b"good morning", Duration::from_secs(10))?;
//!     let message = device.receive(Duration::from_secs(10))?;
//!     println!("{:?}: {}", message.source, String::from_utf8_lossy(&message.bytes));
//!     Ok(())
//! }
//! ```
//!
//! - [`Node`] is the device of a node, in one program; [`Device`] is one of its channels.
//! - [`Server`] offers the devices of a node to other programs through a socket; [`Client`] uses it.
//! - [`engine`]: operations on the memory, without I/O. [`layout`]: layout of the memory.
#![forbid(unsafe_code)]

pub mod engine;
mod error;
mod job;
pub mod layout;
mod node;
mod socket;

pub use error::XipxError;
pub use job::JoinOptions;
pub use node::{Address, Counters, Device, Message, Node};
pub use socket::{Client, Server, address_of};
