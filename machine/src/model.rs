//! The validated machine: the meaning of a machine file, and the monitor's input.

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
    /// Nodes, indexed by node id; the host is first.
    pub(crate) nodes: Vec<Node>,
    /// Links between different nodes, `a < b`, sorted.
    pub(crate) links: Vec<Link>,
    /// Windows, indexed by window id; those of nodes with the host are first.
    pub(crate) windows: Vec<Window>,
    /// Measured properties of links, `a < b`, sorted.
    pub(crate) found: Vec<Found>,
    pub(crate) limits: Limits,
}

/// A node: one instruction set, one address space, one operating system instance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Index in the machine; the host has 0.
    pub id: NodeId,
    /// Name of the node: 1 to 32 of `a-z`, `0-9` and `-`, unique in the machine.
    pub name: String,
    /// Instruction set of its programs.
    pub isa: Isa,
    /// Settings specific to its kind.
    pub settings: NodeSettings,
}

/// Kind of a node, with its specific settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeSettings {
    /// The Linux that the machine runs on.
    Host,
    /// Foreign programs under an emulator on the host's kernel.
    User(UserNode),
    /// A virtual machine joined by a shared window, or by a byte stream.
    Vm(VmNode),
    /// A board without an operating system, joined by a shared window.
    Bare(BareNode),
    /// A Linux system that the machine does not start, joined by a shared window.
    Attached(AttachedNode),
}

impl NodeSettings {
    /// Names of all kinds, in the order in which tables list them.
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
    /// Processor model of the emulator; its default if `None`.
    pub cpu: Option<String>,
    /// Folder that its programs search for files before the host's.
    pub files: Option<Folder>,
    /// Path of the emulator; looked up on `PATH` by instruction set if `None`.
    pub emulator: Option<PathBuf>,
}

/// Folder whose contents a node receives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Folder {
    /// A folder of the host.
    At(PathBuf),
    /// A folder of the kit, by its path there, so that the machine file works wherever Tombolo is installed.
    InKit(PathBuf),
}

impl UserNode {
    /// Maximum number of folders in `files`: an emulator supports only one.
    pub const FOLDERS: usize = 1;
}

/// Settings of a `vm` node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VmNode {
    /// Memory in MiB, see [`VmNode::MEMORY_MIB`].
    pub memory_mib: u32,
    /// Number of processors, see [`VmNode::PROCESSORS`].
    pub processors: u8,
    /// Connection to the host.
    pub join: VmJoin,
    /// Size of its window with the host in MiB, a power of two, see [`VmNode::WINDOW_MIB`].
    pub window_mib: u32,
    /// Number of interrupt vectors of the window, see [`VmNode::DOORBELLS`]; the first belongs to the node's
    /// monitor.
    pub doorbells: u16,
    /// Caches between each side and the window; `None` if it is coherent.
    pub caches: Option<Caches>,
    /// Execution engine of its instructions.
    pub accelerator: Accelerator,
    /// Processor model of the emulator; that of its [`Architecture`](crate::vm::Architecture) if `None`.
    pub cpu: Option<String>,
    /// Folders whose contents it has from its start; later ones override earlier ones. See
    /// [`vm::Files`](crate::vm::Files).
    pub files: Vec<Folder>,
    /// Path of the emulator; looked up on `PATH` by instruction set if `None`.
    pub emulator: Option<PathBuf>,
    /// Boot files that replace those of the kit.
    pub boot: Boot,
}

/// Connection of a virtual machine to the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum VmJoin {
    /// A shared window.
    #[default]
    Window,
    /// Byte streams only: it shares no memory with any other node.
    Streams,
}

/// Execution engine of a virtual machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Accelerator {
    /// The emulator translates them: any instruction set on any host.
    #[default]
    Tcg,
    /// The host's processor executes them through KVM: requires the host's instruction set and `/dev/kvm`.
    Kvm,
}

impl Accelerator {
    /// Names used in machine files.
    pub const NAMES: [&str; 2] = ["tcg", "kvm"];
}

/// Boot files of a virtual machine that replace those of the kit, and its disks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Boot {
    /// Path of the kernel; the kit's if `None`.
    pub kernel: Option<PathBuf>,
    /// Folder with modules of that kernel and their order; none are loaded if `None`.
    pub modules: Option<PathBuf>,
    /// Image of the root file system; the boot image if `None`.
    pub root: Option<PathBuf>,
    /// Images of further disks, see [`VmNode::DISKS`].
    pub disks: Vec<PathBuf>,
}

impl Boot {
    /// Returns all images in device order, the root's first.
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
    /// Maximum number of folders in `files`.
    pub const FOLDERS: usize = 16;
    /// Maximum number of disks, not counting the root's.
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
    /// Memory in MiB, see [`BareNode::MEMORY_MIB`].
    pub memory_mib: u32,
    /// Size of its window with the host in MiB, a power of two, see [`VmNode::WINDOW_MIB`].
    pub window_mib: u32,
    /// Number of interrupt vectors of the window, see [`VmNode::DOORBELLS`]; the first belongs to the node's
    /// monitor.
    pub doorbells: u16,
    /// Processor model of the emulator; the board's default if `None`.
    pub cpu: Option<String>,
    /// Makes the board's clock count instructions, 2ⁿ nanoseconds each, see [`BareNode::INSTRUCTION_CLOCK`];
    /// real time if `None`.
    pub instruction_clock: Option<u8>,
    /// Caches between each side and the window; `None` if it is coherent.
    pub caches: Option<Caches>,
    /// Path of the emulator; looked up on `PATH` by instruction set if `None`.
    pub emulator: Option<PathBuf>,
}

impl BareNode {
    /// Allowed values of `instruction_clock`, limited by the emulator.
    pub const INSTRUCTION_CLOCK: RangeInclusive<u8> = 0..=10;
    /// Allowed values of `memory_mib`: the board's monitor takes four, and a quarter of the total for stored
    /// programs.
    pub const MEMORY_MIB: RangeInclusive<u32> = board::MIN_MEMORY_MIB..=board::MAX_MEMORY_MIB;

    /// Instruction sets of supported boards.
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

/// Connection between two nodes of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// End with the smaller id.
    pub a: NodeId,
    /// End with the greater id.
    pub b: NodeId,
    /// Transport of the messages between them.
    pub transport: TransportKind,
    /// Window that carries them, if any.
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

    /// Returns the name of the machine: 1 to 32 of `a-z`, `0-9` and `-`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns all nodes, indexed by id; the host is first.
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

    /// Returns the build targets of its nodes, each once, in table order: the content of an image for it.
    #[must_use]
    pub fn targets(&self) -> Vec<Target> {
        Target::ALL
            .into_iter()
            .filter(|target| self.nodes.iter().any(|node| node.target() == *target))
            .collect()
    }

    /// Returns the links between different nodes, ordered by their ends.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Returns all windows, indexed by id.
    #[must_use]
    pub fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// Returns the window with this id.
    #[must_use]
    pub fn window(&self, id: WindowId) -> Option<&Window> {
        self.windows.get(usize::from(id.0))
    }

    /// Returns the window with this name; the window between a node and the host has the node's name.
    #[must_use]
    pub fn window_named(&self, name: &str) -> Option<&Window> {
        self.windows.iter().find(|window| window.name == name)
    }

    /// Returns the window between a node and the host, through which their monitors talk.
    #[must_use]
    pub fn own_window(&self, node: NodeId) -> Option<&Window> {
        self.windows.iter().find(|window| window.private_to == Some(node))
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

    /// Returns the resource limits of its domains.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the transport between domains on `a` and on `b`; shared memory if they are the same node.
    /// `None` if the two are not joined, or there is no such node.
    #[must_use]
    pub fn link_between(&self, a: NodeId, b: NodeId) -> Option<TransportKind> {
        if a == b {
            // A board runs one program at a time, so it has no channels of its own.
            return self.node(a).filter(|node| node.as_bare().is_none()).map(|_| TransportKind::Shm);
        }
        self.link(a, b).map(|link| link.transport)
    }

    /// Returns the link between two different nodes; `None` if they are not joined.
    #[must_use]
    pub fn link(&self, a: NodeId, b: NodeId) -> Option<&Link> {
        let (a, b) = (a.min(b), a.max(b));
        // Sorted by these keys.
        let found = self.links.binary_search_by_key(&(a, b), |link| (link.a, link.b)).ok()?;
        self.links.get(found)
    }

    /// Returns the measured properties of links, ordered by their ends.
    #[must_use]
    pub fn found(&self) -> &[Found] {
        &self.found
    }

    /// Returns the measured properties of the link between two nodes, in either order.
    #[must_use]
    pub fn found_between(&self, a: NodeId, b: NodeId) -> Option<&Found> {
        let pair = (a.min(b), a.max(b));
        // Sorted by these keys.
        let found = self.found.binary_search_by_key(&pair, |found| (found.a, found.b)).ok()?;
        self.found.get(found)
    }

    /// Returns the window that carries messages between domains on `a` and on `b`, if there is one.
    #[must_use]
    pub fn window_between(&self, a: NodeId, b: NodeId) -> Option<&Window> {
        self.window(self.link(a, b)?.window?)
    }
}

impl Node {
    pub(crate) fn host(name: &str, isa: Isa) -> Node {
        Node { id: NodeId::HOST, name: name.to_owned(), isa, settings: NodeSettings::Host }
    }

    /// Returns its settings if it is a virtual machine.
    #[must_use]
    pub fn as_vm(&self) -> Option<&VmNode> {
        match &self.settings {
            NodeSettings::Vm(vm) => Some(vm),
            _ => None,
        }
    }

    /// Returns its settings if it is a `user` node.
    #[must_use]
    pub fn as_user(&self) -> Option<&UserNode> {
        match &self.settings {
            NodeSettings::User(user) => Some(user),
            _ => None,
        }
    }

    /// Returns its settings if it is a board.
    #[must_use]
    pub fn as_bare(&self) -> Option<&BareNode> {
        match &self.settings {
            NodeSettings::Bare(bare) => Some(bare),
            _ => None,
        }
    }

    /// Returns its settings if it is attached, not started by the machine.
    #[must_use]
    pub fn as_attached(&self) -> Option<&AttachedNode> {
        match &self.settings {
            NodeSettings::Attached(attached) => Some(attached),
            _ => None,
        }
    }

    /// Returns the build target of its programs.
    #[must_use]
    pub fn target(&self) -> Target {
        Target { bare: self.as_bare().is_some(), isa: self.isa }
    }

    /// Returns whether it has its own memory and reaches others only through a window.
    #[must_use]
    pub fn is_behind_window(&self) -> bool {
        self.own_window().is_some()
    }

    /// Returns its window with the host, if it has one.
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

/// Returns the possible transports between two nodes, best first; none if they cannot be joined.
pub(crate) fn possible_transports(
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

/// Returns links for all pairs of nodes that can reach each other, each with its best transport.
pub(crate) fn default_links(nodes: &[Node], windows: &CommonWindows<'_>) -> Vec<Link> {
    let mut links = Vec::new();
    for (index, a) in nodes.iter().enumerate() {
        for b in &nodes[index + 1..] {
            if let Some(&(transport, window)) = possible_transports(windows, a, b).first() {
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
