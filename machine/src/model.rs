//! The validated machine: what a machine file means, and what the monitor works from.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use tombolo_base::{Isa, NodeId};
use tombolo_link::TransportKind;

use crate::limits::Limits;
use crate::vm::{ivshmem, qemu};

/// A set of nodes and the links between them. Every value in it has been checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    pub(crate) name: String,
    /// Indexed by node id; the host is first.
    pub(crate) nodes: Vec<Node>,
    /// Links between unlike nodes, `a < b`, sorted.
    pub(crate) links: Vec<Link>,
    pub(crate) limits: Limits,
}

/// One instruction set, one address space, one operating system instance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its position in the machine, the host's being 0.
    pub id: NodeId,
    /// What people call it: 1 to 32 of `a-z`, `0-9` and `-`, unique in the machine.
    pub name: String,
    /// What programs for it are compiled for.
    pub isa: Isa,
    /// What it is made of.
    pub kind: NodeKind,
}

/// What a node is made of, with the settings that only such nodes have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeKind {
    /// The Linux that the machine runs on.
    Host,
    /// Foreign programs under an emulator on the host's kernel.
    User(UserNode),
    /// A virtual machine joined by a shared window.
    Vm(VmNode),
}

impl NodeKind {
    /// The names of all kinds, in the order in which tables list them.
    pub const NAMES: [&'static str; 3] = ["host", "user", "vm"];

    /// The name used in machine files and output.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            NodeKind::Host => "host",
            NodeKind::User(_) => "user",
            NodeKind::Vm(_) => "vm",
        }
    }
}

/// Settings of a `user` node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UserNode {
    /// The emulator's processor model; the emulator's own default when `None`.
    pub cpu: Option<String>,
    /// The emulator; looked up on `PATH` by instruction set when `None`.
    pub emulator: Option<PathBuf>,
}

/// Settings of a `vm` node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VmNode {
    /// Its own memory, see [`VmNode::MEMORY_MIB`].
    pub memory_mib: u32,
    /// How many processors it has, see [`VmNode::PROCESSORS`].
    pub processors: u8,
    /// The window it shares with the host, a power of two, see [`VmNode::WINDOW_MIB`].
    pub window_mib: u32,
    /// Interrupt vectors of the window, see [`VmNode::DOORBELLS`]; the first belongs to the node's monitor.
    pub doorbells: u16,
    /// The emulator's processor model.
    pub cpu: String,
    /// The emulator; looked up on `PATH` by instruction set when `None`.
    pub emulator: Option<PathBuf>,
}

impl VmNode {
    /// Allowed values of `memory_mib`. Debian's kernel with a small initramfs needs a little over 48 MiB.
    pub const MEMORY_MIB: RangeInclusive<u32> = qemu::MIN_MEMORY_MIB..=qemu::MAX_MEMORY_MIB;
    /// Allowed values of `window_mib`, of which only powers of two (a PCI BAR has no other size).
    pub const WINDOW_MIB: RangeInclusive<u32> = 1..=(ivshmem::MAX_WINDOW_BYTES >> 20) as u32;
    /// Allowed values of `doorbells`: the monitor's and one more at least.
    pub const DOORBELLS: RangeInclusive<u16> = 2..=ivshmem::MAX_VECTORS;
    /// Allowed values of `processors`.
    pub const PROCESSORS: RangeInclusive<u8> = 1..=qemu::MAX_PROCESSORS;
}

impl Default for VmNode {
    fn default() -> Self {
        VmNode {
            memory_mib: qemu::DEFAULT_MEMORY_MIB,
            processors: 1,
            window_mib: 64,
            doorbells: qemu::DEFAULT_VECTORS,
            cpu: qemu::DEFAULT_CPU.to_owned(),
            emulator: None,
        }
    }
}

/// How two nodes of a machine reach each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// The end with the smaller id.
    pub a: NodeId,
    /// The end with the greater id.
    pub b: NodeId,
    /// What carries messages between them.
    pub transport: TransportKind,
}

impl Machine {
    /// The machine `local`: this host alone, for programs that need no machine file.
    #[must_use]
    pub fn local() -> Machine {
        Machine {
            name: "local".to_owned(),
            nodes: vec![Node::host("host", Isa::current())],
            links: Vec::new(),
            limits: Limits::default(),
        }
    }

    /// What the machine is called: 1 to 32 of `a-z`, `0-9` and `-`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All nodes, each at the index that is its id; the host is first.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The host that the machine runs on, node 0.
    ///
    /// # Panics
    /// Never: every machine has a host.
    #[must_use]
    pub fn host(&self) -> &Node {
        &self.nodes[0]
    }

    /// The node of that id.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(usize::from(id.0))
    }

    /// The node of that name.
    #[must_use]
    pub fn node_named(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// The instruction sets of its nodes, each once, in table order: what an image for it holds.
    #[must_use]
    pub fn isas(&self) -> Vec<Isa> {
        Isa::ALL.into_iter().filter(|isa| self.nodes.iter().any(|node| node.isa == *isa)).collect()
    }

    /// Links between different nodes, ordered by their ends.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// What its domains may use.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What carries messages between domains on `a` and on `b`; shared memory when they are the same node.
    /// `None` when nothing joins the two, or there is no such node.
    #[must_use]
    pub fn link_between(&self, a: NodeId, b: NodeId) -> Option<TransportKind> {
        if a == b {
            return self.node(a).map(|_| TransportKind::Shm);
        }
        let (a, b) = (a.min(b), a.max(b));
        self.links.iter().find(|link| (link.a, link.b) == (a, b)).map(|link| link.transport)
    }
}

impl Node {
    pub(crate) fn host(name: &str, isa: Isa) -> Node {
        Node { id: NodeId::HOST, name: name.to_owned(), isa, kind: NodeKind::Host }
    }

    /// Its settings, when it is a virtual machine.
    #[must_use]
    pub fn as_vm(&self) -> Option<&VmNode> {
        match &self.kind {
            NodeKind::Vm(vm) => Some(vm),
            _ => None,
        }
    }

    /// Its settings, when it is a `user` node.
    #[must_use]
    pub fn as_user(&self) -> Option<&UserNode> {
        match &self.kind {
            NodeKind::User(user) => Some(user),
            _ => None,
        }
    }

    /// The transports that can join it to `other`, best first; none when nothing can.
    #[must_use]
    pub fn transports_to(&self, other: &Node) -> &'static [TransportKind] {
        match (&self.kind, &other.kind) {
            // A window joins a VM to the kernel that made it, not to another VM.
            (NodeKind::Vm(_), NodeKind::Vm(_)) => &[],
            (NodeKind::Vm(_), _) | (_, NodeKind::Vm(_)) => &[TransportKind::Window],
            _ => &[TransportKind::Shm, TransportKind::Socket],
        }
    }
}

/// Links of all pairs of nodes that can reach each other, each by its best transport.
pub(crate) fn default_links(nodes: &[Node]) -> Vec<Link> {
    let mut links = Vec::new();
    for (index, a) in nodes.iter().enumerate() {
        for b in &nodes[index + 1..] {
            if let Some(&transport) = a.transports_to(b).first() {
                links.push(Link { a: a.id, b: b.id, transport });
            }
        }
    }
    links
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_local_machine_is_one_host_joined_to_itself() {
        let machine = Machine::local();
        assert_eq!(machine.name(), "local");
        assert_eq!(machine.host().id, NodeId::HOST);
        assert_eq!(machine.isas(), [Isa::current()]);
        assert_eq!(machine.link_between(NodeId(0), NodeId(0)), Some(TransportKind::Shm));
        assert_eq!(machine.link_between(NodeId(0), NodeId(1)), None);
        assert_eq!(machine.link_between(NodeId(1), NodeId(1)), None);
    }

    #[test]
    fn vms_reach_everything_but_vms() {
        let vm = |id, name: &str| Node {
            id: NodeId(id),
            name: name.to_owned(),
            isa: Isa::Aarch64,
            kind: NodeKind::Vm(VmNode::default()),
        };
        let user = Node {
            id: NodeId(3),
            name: "rv".to_owned(),
            isa: Isa::Riscv64,
            kind: NodeKind::User(UserNode::default()),
        };
        let nodes = vec![Node::host("host", Isa::X86_64), vm(1, "arm0"), vm(2, "arm1"), user];
        let links = default_links(&nodes);
        let machine = Machine { name: "m".to_owned(), nodes, links, limits: Limits::default() };
        let between = |a, b| machine.link_between(NodeId(a), NodeId(b));
        assert_eq!(between(1, 0), Some(TransportKind::Window));
        assert_eq!(between(1, 2), None);
        assert_eq!(between(3, 2), Some(TransportKind::Window));
        assert_eq!(between(0, 3), Some(TransportKind::Shm));
        assert_eq!(between(2, 2), Some(TransportKind::Shm));
        assert_eq!(machine.isas(), [Isa::X86_64, Isa::Aarch64, Isa::Riscv64]);
        assert_eq!(machine.links().len(), 5);
    }
}
