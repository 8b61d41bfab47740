//! Machines: what they are made of, and how the programs that run on them are built and packed.
//!
//! - [`mod@file`]: machine files, read with errors that point at the line.
//! - [`Machine`]: the validated nodes and links that the monitor works from.
//! - [`Limits`]: what domains may use of a machine.
//! - [`image`]: one file with a build of a program for each instruction set.
//! - [`build`]: from a Rust package or C sources to an image.
//! - [`kit`]: where the parts that nodes are made of lie.
//! - [`paths`]: where caches lie.
//! - [`suggest`]: the word that a misspelt one was meant to be.
//! - [`vm`]: virtual machines as nodes.

pub mod build;
pub mod file;
pub mod image;
pub mod kit;
mod limits;
mod model;
pub mod paths;
pub mod suggest;
pub mod vm;

pub use image::{Image, ImageId, NoBuildForIsa};
pub use kit::Kit;
pub use limits::{Limit, Limits};
pub use model::{BareNode, Folder, Link, Machine, Node, NodeKind, UserNode, VmNode};
pub use tombolo_link::TransportKind;
