//! The windows of a machine: memory that several nodes map, with doorbells between every two of them.
//!
//! Every virtual machine and board has a window with the host, called like the node; the monitors talk
//! through it. The `[[window]]` tables of a machine file add windows of any other set of nodes.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use tombolo_base::coherence::Caches;
use tombolo_base::{NodeId, WindowId};

use crate::model::Node;
use crate::vm::ivshmem;

/// Memory that several nodes map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Window {
    /// Its position in the machine.
    pub id: WindowId,
    /// What people call it: for the window between a node and the host the name of the node. No other window
    /// or node is called the same.
    pub name: String,
    /// The nodes that map it, each with a kernel of its own, in the order of their ids. The position of a
    /// node is its peer number.
    pub members: Vec<NodeId>,
    /// Its size, a power of two.
    pub size_mib: u32,
    /// Interrupt vectors of each member: the first is the monitors', the second is shared by channels that
    /// have none of their own.
    pub doorbells: u16,
    /// The node whose window with the host this is; `None` for one that the machine file adds.
    pub own_of: Option<NodeId>,
    /// The trust domain of its members: each can read and write all of it.
    pub trust: String,
    /// How each member keeps its view of the memory; `None` where it is coherent.
    pub caches: Option<Caches>,
    /// The member whose memory it is meant to be. Every emulated window is memory of the host; this is what
    /// measurements of placement model.
    pub home: NodeId,
    /// Modelled: nanoseconds that another member waits to read a line; 0 when nothing is modelled.
    pub read_ns: u32,
    /// Modelled: nanoseconds that another member takes to write a line.
    pub line_ns: u32,
}

impl Window {
    /// How many nodes a window of a `[[window]]` table has.
    pub const MEMBERS: RangeInclusive<usize> = 2..=8;
    /// The most doorbells that all members of one window have together: the announcements of all of them
    /// wait in a socket until an emulator takes them.
    pub const MAX_DOORBELLS: u16 = ivshmem::MAX_ANNOUNCED;
    /// The most doorbells that all windows of one node have together, which is how many interrupts the
    /// emulated interrupt controller has for messages.
    pub const MAX_DOORBELLS_OF_NODE: u16 = ivshmem::MAX_VECTORS;
    /// The most addresses that the windows of a board take, in MiB: what a RISC-V board has for devices.
    pub const MAX_ADDRESSES_OF_BOARD_MIB: u64 = 16 << 10;
    /// The trust domain of a window that says none.
    pub const DEFAULT_TRUST: &'static str = "machine";
    /// Allowed values of `read_ns` and `line_ns`.
    pub const MODELLED_NS: RangeInclusive<u32> = 0..=1_000_000;

    /// Returns the peer number of a member.
    #[must_use]
    pub fn peer(&self, node: NodeId) -> Option<u16> {
        self.members.iter().position(|member| *member == node).map(|position| position as u16)
    }

    /// Its size in bytes.
    #[must_use]
    pub fn length_bytes(&self) -> u64 {
        u64::from(self.size_mib) << 20
    }
}

/// What a node says of its window with the host.
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
        own_of: Some(node.id),
        trust: Window::DEFAULT_TRUST.to_owned(),
        caches,
        home: NodeId::HOST,
        read_ns: 0,
        line_ns: 0,
    })
    .collect()
}

/// For each two nodes that map a window in common the first such window: the node's own for the host and a
/// node. A machine has up to a thousand nodes with a window each, so nothing searches all windows for each
/// pair.
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
