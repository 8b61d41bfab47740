//! The validated machine: what a machine file means, and what the monitor works from.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use tombolo_base::coherence::Caches;
use tombolo_base::{Isa, NodeId, Target, WindowId};
use tombolo_link::TransportKind;

use crate::attached::AttachedNode;
use crate::found::Found;
use crate::limits::Limits;
use crate::vm::{board, ivshmem, qemu};
use crate::windows::{CommonWindows, OwnWindow, Window};

/// A set of nodes and the links between them. Every value in it has been checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    pub(crate) name: String,
    /// Indexed by node id; the host is first.
    pub(crate) nodes: Vec<Node>,
    /// Links between unlike nodes, `a < b`, sorted.
    pub(crate) links: Vec<Link>,
    /// Indexed by window id; those of nodes with the host are first.
    pub(crate) windows: Vec<Window>,
    /// What was found of links, `a < b`, sorted.
    pub(crate) found: Vec<Found>,
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
    pub settings: NodeSettings,
}

/// What a node is made of, with the settings that only such nodes have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeSettings {
    /// The Linux that the machine runs on.
    Host,
    /// Foreign programs under an emulator on the host's kernel.
    User(UserNode),
    /// A virtual machine joined by a shared window, or by a stream of bytes.
    Vm(VmNode),
    /// A board without an operating system, joined by a shared window.
    Bare(BareNode),
    /// A Linux that was there before the machine, joined by a shared window.
    Attached(AttachedNode),
}

impl NodeSettings {
    /// The names of all kinds, in the order in which tables list them.
    pub const NAMES: [&'static str; 5] = ["host", "user", "vm", "bare", "attached"];

    /// Returns the name used in machine files and output.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            NodeSettings::Host => "host",
            NodeSettings::User(_) => "user",
            NodeSettings::Vm(_) => "vm",
            NodeSettings::Bare(_) => "bare",
            NodeSettings::Attached(_) => "attached",
        }
    }
}

/// Settings of a `user` node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UserNode {
    /// The emulator's processor model; the emulator's own default when `None`.
    pub cpu: Option<String>,
    /// The folder that its programs find files in before they find the host's.
    pub files: Option<Folder>,
    /// The emulator; looked up on `PATH` by instruction set when `None`.
    pub emulator: Option<PathBuf>,
}

/// A folder whose contents a node has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Folder {
    /// It lies here.
    At(PathBuf),
    /// It is a part of the kit, by its path there: wherever Tombolo is, the same machine file finds it.
    InKit(PathBuf),
}

impl UserNode {
    /// Most folders of `files`: an emulator looks in one place before it looks on the host.
    pub const FOLDERS: usize = 1;
}

/// Settings of a `vm` node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VmNode {
    /// Its own memory, see [`VmNode::MEMORY_MIB`].
    pub memory_mib: u32,
    /// How many processors it has, see [`VmNode::PROCESSORS`].
    pub processors: u8,
    /// What joins it to the host.
    pub join: VmJoin,
    /// The window it shares with the host, a power of two, see [`VmNode::WINDOW_MIB`].
    pub window_mib: u32,
    /// Interrupt vectors of the window, see [`VmNode::DOORBELLS`]; the first belongs to the node's monitor.
    pub doorbells: u16,
    /// How each side keeps its view of the window; `None` where it is coherent.
    pub caches: Option<Caches>,
    /// What executes its instructions.
    pub accelerator: Accelerator,
    /// The emulator's processor model; that of its [`Architecture`](crate::vm::Architecture) when `None`.
    pub cpu: Option<String>,
    /// Folders whose contents it has from its start, the later over the earlier; see
    /// [`vm::Files`](crate::vm::Files).
    pub files: Vec<Folder>,
    /// The emulator; looked up on `PATH` by instruction set when `None`.
    pub emulator: Option<PathBuf>,
    /// What it boots, where that is not what the kit has.
    pub boot: Boot,
}

/// What joins a virtual machine to the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum VmJoin {
    /// A window.
    #[default]
    Window,
    /// Streams of bytes alone: it shares no memory with any other node.
    Streams,
}

/// What executes the instructions of a virtual machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Accelerator {
    /// The emulator translates them: any instruction set on any host.
    #[default]
    Tcg,
    /// The host's processor executes them, by its kernel: the host's instruction set, where there is
    /// `/dev/kvm`.
    Kvm,
}

impl Accelerator {
    /// The names, as machine files have them.
    pub const NAMES: [&str; 2] = ["tcg", "kvm"];
}

/// What a virtual machine boots, where it is not what the kit has, and its disks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Boot {
    /// The kernel; the kit's when `None`.
    pub kernel: Option<PathBuf>,
    /// The folder with modules of that kernel and their order; none are loaded when `None`.
    pub modules: Option<PathBuf>,
    /// The image of the file system that becomes the node's root; its boot image when `None`.
    pub root: Option<PathBuf>,
    /// Images of further disks, see [`VmNode::DISKS`].
    pub disks: Vec<PathBuf>,
}

impl Boot {
    /// All images, in the order of the node's devices: that of the root is the first.
    #[must_use]
    pub fn images(&self) -> Vec<PathBuf> {
        self.root.iter().chain(&self.disks).cloned().collect()
    }
}

impl VmNode {
    /// Allowed values of `memory_mib`. Debian's kernel with a small initramfs needs a little over 48 MiB.
    pub const MEMORY_MIB: RangeInclusive<u32> = qemu::MIN_MEMORY_MIB..=qemu::MAX_MEMORY_MIB;
    /// Allowed values of `window_mib`, of which only powers of two (a PCI BAR has no other size).
    pub const WINDOW_MIB: RangeInclusive<u32> = 1..=(ivshmem::MAX_WINDOW_BYTES >> 20) as u32;
    /// Allowed values of `doorbells`: the monitor's and one more at least.
    pub const DOORBELLS: RangeInclusive<u16> = 2..=ivshmem::MAX_VECTORS;
    /// Most folders of `files`.
    pub const FOLDERS: usize = 16;
    /// Most disks, beside that of the root.
    pub const DISKS: usize = 8;
    /// Allowed values of `processors`.
    pub const PROCESSORS: RangeInclusive<u8> = 1..=qemu::MAX_PROCESSORS;
}

impl Default for VmNode {
    fn default() -> Self {
        VmNode {
            memory_mib: qemu::DEFAULT_MEMORY_MIB,
            processors: 1,
            join: VmJoin::Window,
            window_mib: 64,
            doorbells: qemu::DEFAULT_VECTORS,
            caches: None,
            accelerator: Accelerator::Tcg,
            cpu: None,
            files: Vec::new(),
            emulator: None,
            boot: Boot::default(),
        }
    }
}

/// Settings of a `bare` node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BareNode {
    /// Its own memory, see [`BareNode::MEMORY_MIB`].
    pub memory_mib: u32,
    /// The window it shares with the host, a power of two, see [`VmNode::WINDOW_MIB`].
    pub window_mib: u32,
    /// Interrupt vectors of the window, see [`VmNode::DOORBELLS`]; the first belongs to the node's monitor.
    pub doorbells: u16,
    /// The emulator's processor model; the board's usual one when `None`.
    pub cpu: Option<String>,
    /// Makes the board's clock count instructions, 2ⁿ nanoseconds for each, see
    /// [`BareNode::INSTRUCTION_CLOCK`]; it shows time when `None`.
    pub instruction_clock: Option<u8>,
    /// How the two sides of the window keep their views of it; `None` where it is coherent.
    pub caches: Option<Caches>,
    /// The emulator; looked up on `PATH` by instruction set when `None`.
    pub emulator: Option<PathBuf>,
}

impl BareNode {
    /// Allowed values of `instruction_clock`, the emulator's own.
    pub const INSTRUCTION_CLOCK: RangeInclusive<u8> = 0..=10;
    /// Allowed values of `memory_mib`: the board's monitor takes four, and a quarter of the whole for
    /// programs that it keeps.
    pub const MEMORY_MIB: RangeInclusive<u32> = board::MIN_MEMORY_MIB..=board::MAX_MEMORY_MIB;

    /// Instruction sets that there are boards of.
    pub const ISAS: [Isa; 2] = [Isa::Aarch64, Isa::Riscv64];
}

impl Default for BareNode {
    fn default() -> Self {
        BareNode {
            memory_mib: board::DEFAULT_MEMORY_MIB,
            window_mib: 4,
            doorbells: 16,
            cpu: None,
            instruction_clock: None,
            caches: None,
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
    /// The window that carries them, if one does.
    pub window: Option<WindowId>,
}

impl Machine {
    /// Returns the machine `local`: this host alone, for programs that need no machine file.
    #[must_use]
    pub fn local() -> Machine {
        Machine {
            name: "local".to_owned(),
            nodes: vec![Node::host("host", Isa::current())],
            links: Vec::new(),
            windows: Vec::new(),
            found: Vec::new(),
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

    /// Returns the host that the machine runs on, node 0.
    ///
    /// # Panics
    /// Never: every machine has a host.
    #[must_use]
    pub fn host(&self) -> &Node {
        &self.nodes[0]
    }

    /// Returns the node with this id.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(usize::from(id.0))
    }

    /// Returns the node with this name.
    #[must_use]
    pub fn node_named(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// What programs for its nodes are built for, each once, in table order: what an image for it holds.
    #[must_use]
    pub fn targets(&self) -> Vec<Target> {
        Target::ALL
            .into_iter()
            .filter(|target| self.nodes.iter().any(|node| node.target() == *target))
            .collect()
    }

    /// Links between different nodes, ordered by their ends.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// All windows, each at the index that is its id.
    #[must_use]
    pub fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// Returns the window with this id.
    #[must_use]
    pub fn window(&self, id: WindowId) -> Option<&Window> {
        self.windows.get(usize::from(id.0))
    }

    /// Returns the window with this name: that between a node and the host is called like the node.
    #[must_use]
    pub fn window_named(&self, name: &str) -> Option<&Window> {
        self.windows.iter().find(|window| window.name == name)
    }

    /// Returns the window between a node and the host, through which their monitors talk.
    #[must_use]
    pub fn own_window(&self, node: NodeId) -> Option<&Window> {
        self.windows.iter().find(|window| window.own_of == Some(node))
    }

    /// Returns the windows that a node maps, its own first.
    pub fn windows_of(&self, node: NodeId) -> impl Iterator<Item = &Window> {
        self.windows.iter().filter(move |window| window.members.contains(&node))
    }

    /// Returns the node whose kernel a node's programs run under: the host's for foreign programs on it.
    #[must_use]
    pub fn kernel_of(&self, node: NodeId) -> NodeId {
        self.node(node).map_or(NodeId::HOST, Node::kernel)
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
            // A board runs one program at a time, so it has no channels of its own.
            return self.node(a).filter(|node| node.as_bare().is_none()).map(|_| TransportKind::Shm);
        }
        self.link(a, b).map(|link| link.transport)
    }

    /// Returns the link between two different nodes; `None` when nothing joins the two.
    #[must_use]
    pub fn link(&self, a: NodeId, b: NodeId) -> Option<&Link> {
        let (a, b) = (a.min(b), a.max(b));
        // They are in this order.
        let found = self.links.binary_search_by_key(&(a, b), |link| (link.a, link.b)).ok()?;
        self.links.get(found)
    }

    /// What was found of links, ordered by their ends.
    #[must_use]
    pub fn found(&self) -> &[Found] {
        &self.found
    }

    /// What was found of the link between two nodes, in either order.
    #[must_use]
    pub fn found_between(&self, a: NodeId, b: NodeId) -> Option<&Found> {
        let pair = (a.min(b), a.max(b));
        // They are in this order.
        let found = self.found.binary_search_by_key(&pair, |found| (found.a, found.b)).ok()?;
        self.found.get(found)
    }

    /// Returns the window that carries what domains on `a` and on `b` send each other, if one does.
    #[must_use]
    pub fn window_between(&self, a: NodeId, b: NodeId) -> Option<&Window> {
        self.window(self.link(a, b)?.window?)
    }
}

impl Node {
    pub(crate) fn host(name: &str, isa: Isa) -> Node {
        Node { id: NodeId::HOST, name: name.to_owned(), isa, settings: NodeSettings::Host }
    }

    /// Its settings, when it is a virtual machine.
    #[must_use]
    pub fn as_vm(&self) -> Option<&VmNode> {
        match &self.settings {
            NodeSettings::Vm(vm) => Some(vm),
            _ => None,
        }
    }

    /// Its settings, when it is a `user` node.
    #[must_use]
    pub fn as_user(&self) -> Option<&UserNode> {
        match &self.settings {
            NodeSettings::User(user) => Some(user),
            _ => None,
        }
    }

    /// Its settings, when it is a board.
    #[must_use]
    pub fn as_bare(&self) -> Option<&BareNode> {
        match &self.settings {
            NodeSettings::Bare(bare) => Some(bare),
            _ => None,
        }
    }

    /// Its settings, when it was there before the machine.
    #[must_use]
    pub fn as_attached(&self) -> Option<&AttachedNode> {
        match &self.settings {
            NodeSettings::Attached(attached) => Some(attached),
            _ => None,
        }
    }

    /// What programs for it are built for.
    #[must_use]
    pub fn target(&self) -> Target {
        Target { bare: self.as_bare().is_some(), isa: self.isa }
    }

    /// Returns whether it has a memory of its own and reaches others through a window only.
    #[must_use]
    pub fn behind_window(&self) -> bool {
        self.own_window().is_some()
    }

    /// Its window with the host, if it has one.
    pub(crate) fn own_window(&self) -> Option<OwnWindow> {
        let (size_mib, doorbells, caches) = match &self.settings {
            NodeSettings::Vm(vm) if vm.join == VmJoin::Window => (vm.window_mib, vm.doorbells, vm.caches),
            NodeSettings::Bare(bare) => (bare.window_mib, bare.doorbells, bare.caches),
            NodeSettings::Attached(attached) => (attached.window_mib, attached.doorbells, attached.caches),
            NodeSettings::Host | NodeSettings::User(_) | NodeSettings::Vm(_) => return None,
        };
        Some(OwnWindow { size_mib, doorbells, caches })
    }

    /// Returns the node whose kernel its programs run under.
    pub(crate) fn kernel(&self) -> NodeId {
        match self.settings {
            NodeSettings::Vm(_) | NodeSettings::Bare(_) | NodeSettings::Attached(_) => self.id,
            NodeSettings::Host | NodeSettings::User(_) => NodeId::HOST,
        }
    }
}

/// Returns the ways in which two nodes can be joined, best first; none when nothing can.
pub(crate) fn ways(
    windows: &CommonWindows<'_>,
    a: &Node,
    b: &Node,
) -> Vec<(TransportKind, Option<WindowId>)> {
    if a.kernel() == b.kernel() {
        return [TransportKind::Shm, TransportKind::Socket].map(|kind| (kind, None)).to_vec();
    }
    let by_stream = |node: &Node| node.as_vm().is_some_and(|vm| vm.join == VmJoin::Streams);
    let joined = [(a, b), (b, a)].iter().any(|(one, other)| by_stream(one) && other.kernel() == NodeId::HOST);
    if joined {
        return vec![(TransportKind::Socket, None)];
    }
    let common = windows.between(a.kernel(), b.kernel());
    common.map(|window| (TransportKind::Window, Some(window.id))).into_iter().collect()
}

/// Links of all pairs of nodes that can reach each other, each by its best transport.
pub(crate) fn default_links(nodes: &[Node], windows: &CommonWindows<'_>) -> Vec<Link> {
    let mut links = Vec::new();
    for (index, a) in nodes.iter().enumerate() {
        for b in &nodes[index + 1..] {
            if let Some(&(transport, window)) = ways(windows, a, b).first() {
                links.push(Link { a: a.id, b: b.id, transport, window });
            }
        }
    }
    links
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::windows::own_windows;

    fn machine(nodes: Vec<Node>) -> Machine {
        let windows = own_windows(&nodes);
        let links = default_links(&nodes, &CommonWindows::of(&windows));
        Machine { name: "m".to_owned(), nodes, links, windows, found: Vec::new(), limits: Limits::default() }
    }

    #[test]
    fn the_local_machine_is_one_host_joined_to_itself() {
        let machine = Machine::local();
        assert_eq!(machine.name(), "local");
        assert_eq!(machine.host().id, NodeId::HOST);
        assert_eq!(machine.targets(), [Isa::current().into()]);
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
            settings: NodeSettings::Vm(VmNode::default()),
        };
        let user = Node {
            id: NodeId(3),
            name: "rv".to_owned(),
            isa: Isa::Riscv64,
            settings: NodeSettings::User(UserNode::default()),
        };
        let nodes = vec![Node::host("host", Isa::X86_64), vm(1, "arm0"), vm(2, "arm1"), user];
        let machine = machine(nodes);
        let between = |a, b| machine.link_between(NodeId(a), NodeId(b));
        assert_eq!(between(1, 0), Some(TransportKind::Window));
        assert_eq!(between(1, 2), None);
        assert_eq!(between(3, 2), Some(TransportKind::Window));
        assert_eq!(between(0, 3), Some(TransportKind::Shm));
        assert_eq!(between(2, 2), Some(TransportKind::Shm));
        assert_eq!(machine.targets(), [Isa::X86_64, Isa::Aarch64, Isa::Riscv64].map(Target::from));
        assert_eq!(machine.links().len(), 5);
        let window = machine.window_between(NodeId(3), NodeId(2)).unwrap();
        assert_eq!((window.name.as_str(), &window.members[..]), ("arm1", &[NodeId(0), NodeId(2)][..]));
        assert_eq!((window.peer(NodeId(2)), window.peer(NodeId(1))), (Some(1), None));
        assert_eq!(machine.own_window(NodeId(1)), machine.window_named("arm0"));
    }

    #[test]
    fn a_board_reaches_the_host_and_runs_programs_of_its_own() {
        let board = Node {
            id: NodeId(1),
            name: "bare0".to_owned(),
            isa: Isa::Aarch64,
            settings: NodeSettings::Bare(BareNode::default()),
        };
        let nodes = vec![Node::host("host", Isa::X86_64), board];
        let machine = machine(nodes);
        assert_eq!(machine.link_between(NodeId(0), NodeId(1)), Some(TransportKind::Window));
        assert_eq!(machine.link_between(NodeId(1), NodeId(1)), None);
        assert_eq!(machine.targets(), [Target::linux(Isa::X86_64), Target::bare(Isa::Aarch64)]);
    }
}
