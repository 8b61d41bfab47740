//! Selection of a job's nodes and of the memory that its workers share.

use std::fmt;

use tombolo::nodes::{NodeInfo, NodeKind, WindowInfo};
use tombolo::{Isa, NodeId};
use tombolo_omp_team::job::env::Memory;
use tombolo_omp_team::primitives::nodes::NamedNode;

/// Kernel that programs of a node run on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kernel {
    /// The host's kernel.
    Host,
    /// A virtual machine's own kernel, named after its node.
    Virtual(String),
}

/// Node that takes part in the job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobNode {
    /// Name of the node.
    pub name: String,
    /// Instruction set of the node.
    pub isa: Isa,
    /// Kernel of the node.
    pub kernel: Kernel,
    /// Number of its processors.
    pub processors: u32,
    /// Maximum number of threads on the node; 0 for no limit.
    pub threads: u32,
}

/// Kind of memory that a job's workers share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MemoryKind {
    /// Memory of the one kernel that all nodes run on.
    Memory {
        /// Whether some of the nodes are emulated.
        emulated: bool,
    },
    /// Memory in a window.
    Window {
        /// Name of the window; for a window to one node, the node's name.
        node: String,
        /// Free space in the window, in bytes.
        left_bytes: u64,
    },
    /// Pages in each node's own memory, sent in messages.
    Pages,
}

/// Errors of the selection of nodes.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NodeSelectionError {
    /// The machine has no node with that name.
    #[error("OMP_TOMBOLO_NODES: unknown node {name}; the machine has {known}")]
    Unknown {
        /// Name of the node.
        name: String,
        /// Names of the machine's nodes.
        known: String,
    },
    /// The node is down.
    #[error("OMP_TOMBOLO_NODES: node {name} is down")]
    Down {
        /// Name of the node.
        name: String,
    },
    /// OpenMP programs cannot be built for the node.
    #[error(
        "OMP_TOMBOLO_NODES: node {name} runs {isa}, and OpenMP programs are made for x86_64 and aarch64 with Linux"
    )]
    UnsupportedIsa {
        /// Name of the node.
        name: String,
        /// Instruction set of the node.
        isa: Isa,
    },
    /// The node's emulator does not support pages that are sent.
    #[error(
        "OMP_TOMBOLO_NODES: node {name} cannot be in a job whose memory is sent in pages: the emulator that runs its programs \
         (qemu-user) has no userfaultfd; use a virtual machine, or nodes that all share memory"
    )]
    Emulated {
        /// Name of the node.
        name: String,
    },
    /// The node has no memory in common with the others.
    #[error(
        "OMP_TOMBOLO_NODES: node {name} shares no memory with {other}: {reason}; without OMP_TOMBOLO_MEMORY=shared the job \
         sends its memory in pages"
    )]
    NoSharedMemory {
        /// Name of the node.
        name: String,
        /// Name of the other node.
        other: String,
        /// Reason that they share no memory.
        reason: Reason,
    },
}

/// Reasons that nodes share no memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The node has no window.
    NoWindow,
    /// No window connects all of the nodes.
    NoCommonWindow,
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NoWindow => "it has no window (`window` in the machine file)",
            Self::NoCommonWindow => "no window (`[[window]]` in the machine file) has all nodes of the job",
        })
    }
}

/// Name that stands for all usable nodes.
const ALL: &str = "all";

/// Returns whether the nodes of a job are to be chosen by placement rather than named.
#[must_use]
pub fn is_automatic(requested: &[NamedNode]) -> bool {
    matches!(requested, [NamedNode { name, .. }] if name == ALL)
}

/// Selects the nodes of a job, the program's own first, and its memory.
///
/// If no nodes are requested, the job has the program's own node alone. If nodes are to be chosen, the usable
/// ones of `chosen` take part, in that order. If not all nodes share memory, memory is sent in pages, unless
/// `kind` excludes that; nodes that were chosen rather than named are left out instead if they do not share
/// memory with the first.
///
/// # Errors
/// [`NodeSelectionError`] if a named node cannot take part.
pub fn select_nodes(
    nodes: &[NodeInfo],
    windows: &[WindowInfo],
    own: &str,
    requested: &[NamedNode],
    chosen: &[String],
    kind: Memory,
) -> Result<(Vec<JobNode>, MemoryKind), NodeSelectionError> {
    let find = |name: &str| nodes.iter().find(|node| node.name == name);
    let unknown = |name: &str| {
        let known: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        NodeSelectionError::Unknown { name: name.to_owned(), known: known.join(", ") }
    };
    let limit = requested.iter().find(|named| named.name == own).map_or(0, |named| named.threads);
    let mut job_nodes = vec![job_node(find(own).ok_or_else(|| unknown(own))?, limit)?];
    let machine = Machine { nodes, windows };
    let (mut window, mut uses_pages) = (None, kind == Memory::Pages);
    if let [NamedNode { threads, .. }] = requested
        && is_automatic(requested)
    {
        for node in chosen.iter().filter_map(|name| find(name)).filter(|node| node.name != own && node.up) {
            // A node that cannot take part is left out: it was not named.
            let Ok(candidate) = job_node(node, *threads) else { continue };
            if uses_pages {
                if !machine.is_emulated(&candidate) {
                    job_nodes.push(candidate);
                }
            } else if let Ok(common) = machine.find_common_window(&job_nodes, &candidate) {
                window = common;
                job_nodes.push(candidate);
            }
        }
    } else {
        for NamedNode { name, threads } in requested.iter().filter(|named| named.name != own) {
            let node = find(name).ok_or_else(|| unknown(name))?;
            if !node.up {
                return Err(NodeSelectionError::Down { name: name.clone() });
            }
            if job_nodes.iter().any(|job_node| job_node.name == *name) {
                continue;
            }
            let candidate = job_node(node, *threads)?;
            if !uses_pages {
                match machine.find_common_window(&job_nodes, &candidate) {
                    Ok(common) => window = common,
                    Err(_) if kind == Memory::Any => uses_pages = true,
                    Err(error) => return Err(error),
                }
            }
            job_nodes.push(candidate);
        }
    }
    let memory = match window {
        _ if uses_pages => match job_nodes.iter().find(|job_node| machine.is_emulated(job_node)) {
            Some(job_node) => return Err(NodeSelectionError::Emulated { name: job_node.name.clone() }),
            None => MemoryKind::Pages,
        },
        Some(window) => {
            let left_bytes = window.bytes.1.saturating_sub(window.bytes.0);
            MemoryKind::Window { node: window.name.clone(), left_bytes }
        }
        None => {
            MemoryKind::Memory { emulated: job_nodes.iter().any(|job_node| machine.is_emulated(job_node)) }
        }
    };
    Ok((job_nodes, memory))
}

fn job_node(node: &NodeInfo, threads: u32) -> Result<JobNode, NodeSelectionError> {
    let kernel = match node.kind {
        NodeKind::Host | NodeKind::User => Some(Kernel::Host),
        NodeKind::Vm => Some(Kernel::Virtual(node.name.clone())),
        NodeKind::Bare | NodeKind::Attached => None,
    };
    match kernel {
        Some(kernel) if matches!(node.isa, Isa::X86_64 | Isa::Aarch64) => Ok(JobNode {
            name: node.name.clone(),
            isa: node.isa,
            kernel,
            processors: u32::from(node.cores).max(1),
            threads,
        }),
        _ => Err(NodeSelectionError::UnsupportedIsa { name: node.name.clone(), isa: node.isa }),
    }
}

/// Nodes and windows of the machine.
struct Machine<'a> {
    nodes: &'a [NodeInfo],
    windows: &'a [WindowInfo],
}

impl<'a> Machine<'a> {
    /// Returns whether the host runs the node's programs in an emulator.
    fn is_emulated(&self, job_node: &JobNode) -> bool {
        let host = self.nodes.iter().find(|node| node.kind == NodeKind::Host);
        job_node.kernel == Kernel::Host && host.is_some_and(|host| host.isa != job_node.isa)
    }

    /// Finds a window through which another node and those of the job share memory; `None` if all are on one
    /// kernel.
    fn find_common_window(
        &self,
        job_nodes: &[JobNode],
        candidate: &JobNode,
    ) -> Result<Option<&'a WindowInfo>, NodeSelectionError> {
        let mut kernels: Vec<NodeId> = Vec::new();
        for kernel in job_nodes.iter().chain([candidate]).filter_map(|job_node| self.kernel(&job_node.kernel))
        {
            if !kernels.contains(&kernel) {
                kernels.push(kernel);
            }
        }
        if kernels.len() < 2 {
            return Ok(None);
        }
        let connects_all = |window: &&WindowInfo| kernels.iter().all(|kernel| window.nodes.contains(kernel));
        let found = self.windows.iter().filter(connects_all).find(|window| window.bytes.1 > 0);
        match (found, job_nodes.iter().find(|other| other.kernel != candidate.kernel)) {
            (None, Some(other)) => Err(NodeSelectionError::NoSharedMemory {
                name: candidate.name.clone(),
                other: other.name.clone(),
                reason: if kernels.len() == 2 && kernels.contains(&NodeId::HOST) {
                    Reason::NoWindow
                } else {
                    Reason::NoCommonWindow
                },
            }),
            (found, _) => Ok(found),
        }
    }

    /// Returns the node that the kernel belongs to.
    fn kernel(&self, kernel: &Kernel) -> Option<NodeId> {
        match kernel {
            Kernel::Host => Some(NodeId::HOST),
            Kernel::Virtual(name) => self.nodes.iter().find(|node| node.name == *name).map(|node| node.id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tombolo::NodeId;

    fn node(number: u16, name: &str, kind: NodeKind, isa: Isa, window: u64) -> NodeInfo {
        NodeInfo {
            up: true,
            cause: String::new(),
            cores: 2,
            window_bytes: (1 << 20, window),
            ..NodeInfo::new(NodeId(number), name, kind, isa)
        }
    }

    fn machine() -> Vec<NodeInfo> {
        vec![
            node(0, "host", NodeKind::Host, Isa::X86_64, 0),
            node(1, "arm-user", NodeKind::User, Isa::Aarch64, 0),
            node(2, "arm0", NodeKind::Vm, Isa::Aarch64, 64 << 20),
            node(3, "arm1", NodeKind::Vm, Isa::Aarch64, 64 << 20),
            node(4, "big", NodeKind::User, Isa::S390x, 0),
            node(5, "alone", NodeKind::Vm, Isa::Aarch64, 0),
        ]
    }

    fn window(name: &str, nodes: &[u16], bytes: u64) -> WindowInfo {
        let nodes = nodes.iter().copied().map(NodeId).collect();
        WindowInfo { name: name.into(), nodes, bytes: (1 << 20, bytes), ..WindowInfo::default() }
    }

    fn windows() -> Vec<WindowInfo> {
        vec![
            window("arm0", &[0, 2], 64 << 20),
            window("arm1", &[0, 3], 64 << 20),
            window("alone", &[0, 5], 0),
        ]
    }

    fn requested(names: &[&str]) -> Vec<NamedNode> {
        names.iter().map(|name| NamedNode { name: (*name).to_owned(), threads: 0 }).collect()
    }

    fn select(own: &str, names: &[&str]) -> Result<(Vec<String>, MemoryKind), NodeSelectionError> {
        select_with(own, names, Memory::Shared)
    }

    fn select_with(
        own: &str,
        names: &[&str],
        kind: Memory,
    ) -> Result<(Vec<String>, MemoryKind), NodeSelectionError> {
        let chosen: Vec<String> = machine().into_iter().map(|node| node.name).collect();
        let (job_nodes, memory) =
            select_nodes(&machine(), &windows(), own, &requested(names), &chosen, kind)?;
        Ok((job_nodes.into_iter().map(|job_node| job_node.name).collect(), memory))
    }

    #[test]
    fn without_named_nodes_workers_run_on_the_own_node() {
        assert_eq!(
            select("host", &[]),
            Ok((vec!["host".to_owned()], MemoryKind::Memory { emulated: false }))
        );
    }

    #[test]
    fn one_kernel_needs_no_window() {
        let memory = MemoryKind::Memory { emulated: true };
        let (job_nodes, found) = select("host", &["arm-user"]).unwrap();
        assert_eq!((job_nodes.join(" "), found), ("host arm-user".to_owned(), memory.clone()));
        assert_eq!(select("arm-user", &[]), Ok((vec!["arm-user".to_owned()], memory)));
    }

    #[test]
    fn memory_is_in_the_common_window() {
        let window = MemoryKind::Window { node: "arm0".to_owned(), left_bytes: 63 << 20 };
        for (own, names) in
            [("host", &["arm-user", "arm0"][..]), ("arm0", &["host"]), ("arm0", &["arm-user"])]
        {
            assert_eq!(select(own, names).unwrap().1, window, "{own} {names:?}");
        }
        assert_eq!(select("arm0", &[]).unwrap().1, MemoryKind::Memory { emulated: false });
    }

    #[test]
    fn all_means_the_usable_nodes() {
        let (job_nodes, _) = select("host", &["all"]).unwrap();
        assert_eq!(job_nodes, ["host", "arm-user", "arm0"]);
        let chosen = ["arm1", "big", "arm0", "arm-user", "host"].map(str::to_owned);
        let (job_nodes, memory) =
            select_nodes(&machine(), &windows(), "host", &requested(&["all"]), &chosen, Memory::Any).unwrap();
        let names: Vec<&str> = job_nodes.iter().map(|job_node| job_node.name.as_str()).collect();
        assert_eq!(names, ["host", "arm1", "arm-user"], "in the order of the choice");
        assert!(matches!(memory, MemoryKind::Window { node, .. } if node == "arm1"));
    }

    #[test]
    fn nodes_without_shared_memory_are_refused() {
        let why = |own, names| match select(own, names) {
            Err(NodeSelectionError::NoSharedMemory { reason, .. }) => reason,
            other => panic!("{other:?}"),
        };
        assert_eq!(why("host", &["arm0", "arm1"]), Reason::NoCommonWindow);
        assert_eq!(why("arm0", &["arm1"]), Reason::NoCommonWindow);
        assert_eq!(why("host", &["alone"]), Reason::NoWindow);
    }

    #[test]
    fn pages_are_used_if_not_all_nodes_share_memory() {
        for (own, names) in [("host", &["arm0", "arm1"][..]), ("arm0", &["arm1"]), ("host", &["alone"])] {
            assert_eq!(select_with(own, names, Memory::Any).map(|(_, memory)| memory), Ok(MemoryKind::Pages));
        }
        assert_eq!(
            select_with("host", &["arm0"], Memory::Pages).map(|(_, memory)| memory),
            Ok(MemoryKind::Pages)
        );
        assert_eq!(select_with("host", &[], Memory::Pages).map(|(_, memory)| memory), Ok(MemoryKind::Pages));
        let of_all = select_with("host", &["all"], Memory::Pages).unwrap();
        assert_eq!(of_all.0, ["host", "arm0", "arm1", "alone"], "without the one that is emulated");
        for names in [&["arm-user", "arm0", "arm1"][..], &["alone", "arm-user"]] {
            let refused = select_with("host", names, Memory::Any);
            assert_eq!(refused, Err(NodeSelectionError::Emulated { name: "arm-user".to_owned() }));
        }
    }

    #[test]
    fn virtual_machines_share_a_common_window() {
        let select = |windows: &[WindowInfo], own: &str, names: &[&str]| {
            let chosen: Vec<String> = machine().into_iter().map(|node| node.name).collect();
            let (job_nodes, memory) =
                select_nodes(&machine(), windows, own, &requested(names), &chosen, Memory::Shared)?;
            Ok::<_, NodeSelectionError>((job_nodes.len(), memory))
        };
        let mut all = windows();
        all.push(window("arms", &[2, 3], 8 << 20));
        let arms = MemoryKind::Window { node: "arms".to_owned(), left_bytes: 7 << 20 };
        assert_eq!(select(&all, "arm0", &["arm1"]), Ok((2, arms)));
        assert!(select(&all, "arm0", &["arm1", "host"]).is_err(), "the host is not in it");
        all.push(window("three", &[0, 2, 3], 8 << 20));
        let three = MemoryKind::Window { node: "three".to_owned(), left_bytes: 7 << 20 };
        assert_eq!(select(&all, "arm0", &["arm1", "arm-user"]), Ok((3, three.clone())));
        assert_eq!(select(&all, "host", &["all"]), Ok((4, three)));
    }

    #[test]
    fn unusable_nodes_are_refused() {
        assert!(matches!(select("host", &["arm7"]), Err(NodeSelectionError::Unknown { .. })));
        assert!(matches!(select("host", &["big"]), Err(NodeSelectionError::UnsupportedIsa { .. })));
        let mut nodes = machine();
        nodes[1].up = false;
        assert!(matches!(
            select_nodes(&nodes, &windows(), "host", &requested(&["arm-user"]), &[], Memory::Any),
            Err(NodeSelectionError::Down { .. })
        ));
    }
}
