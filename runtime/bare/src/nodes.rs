//! Nodes and windows of a machine, for programs that choose between them.

use alloc::vec::Vec;

pub use tombolo_control::{NodeInfo, NodeKind, WindowInfo};
use tombolo_control::{Reply, Request, all_pages};

use crate::domain::Domain;
use crate::error::Error;
use crate::link::{REPLY_TIMEOUT, unexpected};

impl Domain {
    /// Returns the nodes of the machine, by id.
    ///
    /// # Errors
    /// [`Error::Monitor`], [`Error::TimedOut`].
    pub fn nodes(&self) -> Result<Vec<NodeInfo>, Error> {
        all_pages(|last: Option<&NodeInfo>| {
            let from = last.map_or(0, |last| u32::from(last.id.0) + 1);
            match self.link.request(Request::Nodes { from }, REPLY_TIMEOUT)? {
                Reply::Nodes { nodes, more } => Ok((nodes, more)),
                other => Err(unexpected(&other)),
            }
        })
    }

    /// Returns the windows of the machine, by number: first those between a node and the host, then those
    /// that several nodes share.
    ///
    /// # Errors
    /// [`Error::Monitor`], [`Error::TimedOut`].
    pub fn windows(&self) -> Result<Vec<WindowInfo>, Error> {
        all_pages(|last: Option<&WindowInfo>| {
            let from = last.map_or(0, |last| u32::from(last.id) + 1);
            match self.link.request(Request::Windows { from }, REPLY_TIMEOUT)? {
                Reply::Windows { windows, more } => Ok((windows, more)),
                other => Err(unexpected(&other)),
            }
        })
    }
}
