//! Where the memory of a job is made, so that all of its ranks reach it.

use tombolo::admin::{NodeInfo, NodeKind, WindowInfo};
use tombolo_base::NodeId;

use crate::failure::Failure;

/// On which nodes the ranks run, and on which kernels.
#[derive(Debug)]
pub(super) struct Places {
    /// The node of each rank, with the node whose kernel it runs on.
    ranks: Vec<(String, NodeId)>,
}

impl Places {
    /// Of ranks on nodes with these names. Foreign programs run on the host's kernel.
    pub(super) fn new(nodes: &[NodeInfo], names: Vec<String>) -> Places {
        let host = nodes.iter().find(|node| node.kind == NodeKind::Host).map(|node| node.id);
        let kernel = |name: &String| {
            let node = nodes.iter().find(|node| node.name == *name);
            node.and_then(|node| if node.kind == NodeKind::User { host } else { Some(node.id) })
        };
        // A name that is not in the list is of a node that went down meanwhile: its ranks are lost anyway.
        let place = |name: String| kernel(&name).map(|kernel| (name, kernel));
        Places { ranks: names.into_iter().filter_map(place).collect() }
    }

    /// How many ranks run on the kernel of that node.
    pub(super) fn neighbours(&self, node: &str) -> usize {
        let Some((_, own)) = self.ranks.iter().find(|(name, _)| name == node) else { return 1 };
        self.ranks.iter().filter(|(_, kernel)| kernel == own).count()
    }

    /// The window that all ranks reach; `None` if they run on one kernel and need none.
    pub(super) fn window(&self, windows: &[WindowInfo]) -> Result<Option<String>, Failure> {
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
        Err(Failure::end(format!(
            "no window is reached by all nodes with ranks ({}); add a [[window]] with these nodes to the machine \
             file, or run on fewer nodes",
            names.join(", ")
        )))
    }
}
