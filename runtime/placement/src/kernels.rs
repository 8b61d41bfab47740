//! Selects where the memory of a job is allocated, so that all of its ranks can reach it.

#[cfg(target_os = "none")]
use tombolo_bare::{self as tombolo, prelude::*};

use tombolo::NodeId;
use tombolo::nodes::{NodeInfo, NodeKind, WindowInfo};

/// Error: the ranks of a job have no memory in common.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "no window is reached by all nodes with ranks ({nodes}); add a [[window]] with these nodes to the machine \
     file, or run on fewer nodes"
)]
pub struct NoCommonWindow {
    /// Names of the nodes.
    pub nodes: String,
}

/// Nodes and kernels that the ranks run on.
#[derive(Debug)]
pub struct Kernels {
    /// Node of each rank, with the node whose kernel it runs on.
    ranks: Vec<(String, NodeId)>,
}

impl Kernels {
    /// Collects the kernels of ranks on the nodes with these names. Foreign programs run on the host's
    /// kernel.
    #[must_use]
    pub fn new(nodes: &[NodeInfo], names: Vec<String>) -> Kernels {
        let host = nodes.iter().find(|node| node.kind == NodeKind::Host).map(|node| node.id);
        let kernel = |name: &String| {
            let node = nodes.iter().find(|node| node.name == *name);
            node.and_then(|node| if node.kind == NodeKind::User { host } else { Some(node.id) })
        };
        // A name that is not in the list belongs to a node that went down meanwhile; its ranks are lost
        // anyway.
        let place = |name: String| kernel(&name).map(|kernel| (name, kernel));
        Kernels { ranks: names.into_iter().filter_map(place).collect() }
    }

    /// Number of ranks on the kernel of that node.
    #[must_use]
    pub fn ranks_on_kernel(&self, node: &str) -> usize {
        let Some((_, own)) = self.ranks.iter().find(|(name, _)| name == node) else { return 1 };
        self.ranks.iter().filter(|(_, kernel)| kernel == own).count()
    }

    /// Returns the window that all ranks can reach; `None` if they run on one kernel and need no window.
    ///
    /// # Errors
    /// [`NoCommonWindow`].
    pub fn window(&self, windows: &[WindowInfo]) -> Result<Option<String>, NoCommonWindow> {
        let mut kernels: Vec<NodeId> = self.ranks.iter().map(|(_, kernel)| *kernel).collect();
        kernels.sort_unstable();
        kernels.dedup();
        if kernels.len() < 2 {
            return Ok(None);
        }
        let reaches = |window: &&WindowInfo| kernels.iter().all(|kernel| window.nodes.contains(kernel));
        if let Some(window) = windows.iter().find(reaches) {
            return Ok(Some(window.name.clone()));
        }
        let mut names: Vec<&str> = self.ranks.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        Err(NoCommonWindow { nodes: names.join(", ") })
    }
}
