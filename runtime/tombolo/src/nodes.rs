//! Nodes and windows of a machine and their properties, for programs that choose between them.
//!
//! The crate `tombolo-admin` contains what tools need to operate and observe a machine.

use tombolo_control::{Reply, Request, all_pages};
use tombolo_naming::parse_query;

pub use tombolo_base::Target;
pub use tombolo_control::{NodeInfo, NodeKind, WindowInfo};

use crate::domain::Domain;
use crate::error::Error;
use crate::monitor::{ANSWER_TIMEOUT, unexpected};
use crate::names::Record;

impl Domain {
    /// Returns the nodes of the machine, by id.
    ///
    /// # Errors
    /// [`Error::MonitorLost`].
    pub fn nodes(&self) -> Result<Vec<NodeInfo>, Error> {
        all_pages(|last: Option<&NodeInfo>| {
            let from = last.map_or(0, |last| u32::from(last.id.0) + 1);
            match self.link.ask(Request::Nodes { from }, ANSWER_TIMEOUT)?.0 {
                Reply::Nodes { nodes, more } => Ok((nodes, more)),
                other => Err(unexpected(&other)),
            }
        })
    }

    /// Returns the windows of the machine, by number: first those between a node and the host, then those
    /// that several nodes share.
    ///
    /// # Errors
    /// [`Error::MonitorLost`].
    pub fn windows(&self) -> Result<Vec<WindowInfo>, Error> {
        all_pages(|last: Option<&WindowInfo>| {
            let from = last.map_or(0, |last| u32::from(last.id) + 1);
            match self.link.ask(Request::Windows { from }, ANSWER_TIMEOUT)?.0 {
                Reply::Windows { windows, more } => Ok((windows, more)),
                other => Err(unexpected(&other)),
            }
        })
    }

    /// Returns the root's facts about nodes and the links between them, as the records that a query matches:
    /// `node/NAME` and `link/NAME/NAME`, with the lower-numbered node first. An attribute whose value is
    /// unknown is absent. `docs/specs/facts.md` lists the attributes.
    ///
    /// # Errors
    /// [`Error::Text`] for a malformed query; [`Error::Monitor`] for an invalid or too costly pattern.
    pub fn facts(&self, query: &str) -> Result<Vec<Record>, Error> {
        let query = parse_query(query)?;
        let (mut all, mut from) = (Vec::new(), 0);
        loop {
            let request = Request::Facts { query: query.clone(), from };
            match self.link.ask(request, ANSWER_TIMEOUT)?.0 {
                Reply::Facts { records, next, more } => {
                    all.extend(records);
                    if !more || next <= from {
                        return Ok(all);
                    }
                    from = next;
                }
                other => return Err(unexpected(&other)),
            }
        }
    }
}
