//! Windows of a machine: memory that several nodes map, with doorbells between every two of them.
//!
//! Every virtual machine and board has a window with the host, named after the node, through which the
//! monitors communicate. The `[[window]]` tables of a machine file add windows of any other set of nodes.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use tombolo_base::coherence::Caches;
use tombolo_base::{NodeId, WindowId};

use crate::model::Node;
use crate::vm::ivshmem;

/// Memory that several nodes map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Window {
    /// Index of the window in the machine.
    pub id: WindowId,
    /// Name of the window, unique among windows and nodes; a window between a node and the host has the
    /// node's name.
    pub name: String,
    /// Nodes that map it, each with a separate kernel, in the order of their ids. The index of a node is its
    /// peer number.
    pub members: Vec<NodeId>,
    /// Size in MiB, a power of two.
    pub size_mib: u32,
    /// Number of interrupt vectors of each member: the first is the monitors', the second is shared by
    /// channels without their own.
    pub doorbells: u16,
    /// Node whose window with the host this is; `None` for one that the machine file adds.
    pub private_to: Option<NodeId>,
    /// Trust domain of its members: each can read and write all of it.
    pub trust: String,
    /// Caches between each member and the memory; `None` if it is coherent.
    pub caches: Option<Caches>,
    /// Member that the memory nominally belongs to. Every emulated window is memory of the host; `home` is a
    /// parameter of placement measurements.
    pub home: NodeId,
    /// Modelled latency of reading a line by another member, in nanoseconds; 0 for none.
    pub read_ns: u32,
    /// Modelled cost of writing a line by another member, in nanoseconds.
    pub line_ns: u32,
}

impl Window {
    /// Allowed number of nodes in a `[[window]]` table.
    pub const MEMBERS: RangeInclusive<usize> = 2..=8;
    /// Maximum number of doorbells of all members of one window together: the announcements of all of them
    /// stay in a socket buffer until an emulator reads them.
    pub const MAX_DOORBELLS: u16 = ivshmem::MAX_ANNOUNCED;
    /// Maximum number of doorbells of all windows of one node together, limited by the message interrupts of
    /// the emulated interrupt controller.
    pub const MAX_DOORBELLS_OF_NODE: u16 = ivshmem::MAX_VECTORS;
    /// Maximum size of a board's address range for windows, in MiB, as on a RISC-V board.
    pub const MAX_ADDRESSES_OF_BOARD_MIB: u64 = 16 << 10;
    /// Default trust domain of a window.
    pub const DEFAULT_TRUST: &'static str = "machine";
    /// Allowed values of `read_ns` and `line_ns`.
    pub const MODELLED_NS: RangeInclusive<u32> = 0..=1_000_000;

    /// Returns the peer number of a member.
    #[must_use]
    pub fn peer(&self, node: NodeId) -> Option<u16> {
        self.members.iter().position(|member| *member == node).map(|position| position as u16)
    }

    /// Returns the size of the window, in bytes.
    #[must_use]
    pub fn length_bytes(&self) -> u64 {
        u64::from(self.size_mib) << 20
    }
}

/// Settings of a node for its window with the host.
pub(crate) struct OwnWindow {
    pub(crate) size_mib: u32,
    pub(crate) doorbells: u16,
    pub(crate) caches: Option<Caches>,
}

/// Returns the windows between nodes and the host, in the order of the nodes.
pub(crate) fn own_windows(nodes: &[Node]) -> Vec<Window> {
    let own = nodes.iter().filter_map(|node| Some((node, node.own_window()?))).zip(0..);
    own.map(|((node, OwnWindow { size_mib, doorbells, caches }), id)| Window {
        id: WindowId(id),
        name: node.name.clone(),
        members: vec![NodeId::HOST, node.id],
        size_mib,
        doorbells,
        private_to: Some(node.id),
        trust: Window::DEFAULT_TRUST.to_owned(),
        caches,
        home: NodeId::HOST,
        read_ns: 0,
        line_ns: 0,
    })
    .collect()
}

/// First common window of every two nodes that share one: the node's own for the host and a node. A machine
/// has up to a thousand nodes with a window each, so searching all windows for each pair would be too slow.
pub(crate) struct CommonWindows<'a>(BTreeMap<(NodeId, NodeId), &'a Window>);

impl<'a> CommonWindows<'a> {
    pub(crate) fn of(windows: &'a [Window]) -> Self {
        let mut first = BTreeMap::new();
        for window in windows {
            for (index, a) in window.members.iter().enumerate() {
                for b in &window.members[index + 1..] {
                    first.entry((*a.min(b), *a.max(b))).or_insert(window);
                }
            }
        }
        CommonWindows(first)
    }

    pub(crate) fn between(&self, a: NodeId, b: NodeId) -> Option<&'a Window> {
        self.0.get(&(a.min(b), a.max(b))).copied()
    }
}
