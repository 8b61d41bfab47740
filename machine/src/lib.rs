//! Machines: their description, their nodes, and how programs for them are built and packed.
//!
//! - [`mod@file`]: machine files, read with errors that point at the line.
//! - [`Machine`]: the validated nodes and links, which the monitor works from.
//! - [`Limits`]: how much of a machine's resources domains may use.
//! - [`image`]: one file with a build of a program for each instruction set.
//! - [`build`]: makes an image from a Rust package or C sources.
//! - [`kit`]: finds the prebuilt parts of nodes.
//! - [`paths`]: where caches are.
//! - [`suggest`]: finds the word that was probably meant by a misspelt one.
//! - [`vm`]: virtual machines as nodes.

mod attached;
pub mod build;
pub mod file;
mod found;
pub mod image;
pub mod kit;
mod limits;
mod model;
pub mod paths;
mod replace;
pub mod suggest;
pub mod vm;
mod windows;

pub use attached::{AttachedNode, KeyError, WindowKey};
pub use found::{Found, FoundCost, FoundMemory, Order};
pub use image::{Image, ImageId, NoBuildForIsa};
pub use kit::Kit;
pub use limits::{Limit, Limits};
pub use model::{
    Accelerator, BareNode, Boot, Folder, Link, Machine, Node, NodeSettings, UserNode, VmJoin, VmNode,
};
pub use replace::replace_file;
pub use tombolo_link::TransportKind;
pub use windows::Window;
