//! The message device of Xipx (Ziwisky, Persohn and Brylow, *BareMichael: A Minimalistic Bare-metal
//! Framework for the Intel SCC*, MARC 2012): messages between programs on the nodes of a machine, over
//! memory that all nodes map, coherent or not.
//!
//! The buffer of a node is a FIFO. A message is written there with its source, the channel that it is for
//! and its length, and an interrupt tells the node. A handler copies it into the buffer of the device that
//! is open on the channel, and signals the device's owner. Unlike RCCE nothing is collective: any program
//! sends to any other, and several programs at a time use the devices of one node.
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
//! - [`Server`] offers the devices of a node to other programs, by a socket; [`Client`] is one of these.
//! - [`engine`]: what is done with the memory, without I/O. [`layout`]: where everything lies in it.
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
