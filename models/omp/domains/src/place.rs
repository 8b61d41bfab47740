//! Selection of a job's nodes and of the memory that its workers share.

use std::fmt;

use tombolo::nodes::{NodeInfo, NodeKind, WindowInfo};
use tombolo::{Isa, NodeId};
use tombolo_omp_team::job::env::Memory;
use tombolo_omp_team::primitives::nodes::Named;

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
pub enum Where {
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
pub enum PlaceError {
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
    Foreign {
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
        "OMP_TOMBOLO_NODES: node {name} shares no memory with {other}: {why}; without OMP_TOMBOLO_MEMORY=shared the job \
         sends its memory in pages"
    )]
    Apart {
        /// Name of the node.
        name: String,
        /// Name of the other node.
        other: String,
        /// Reason that they share no memory.
        why: Reason,
    },
}

/// Reasons that nodes share no memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The node has no window.
    NoWindow,
    /// No window connects all of the nodes.
    TwoWindows,
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NoWindow => "it has no window (`window` in the machine file)",
            Self::TwoWindows => "no window (`[[window]]` in the machine file) has all nodes of the job",
        })
    }
}

/// Name that stands for all usable nodes.
const ALL: &str = "all";

/// Returns whether the nodes of a job are to be chosen by placement rather than named.
#[must_use]
pub fn is_choice(wanted: &[Named]) -> bool {
    matches!(wanted, [Named { name, .. }] if name == ALL)
}

/// Selects the nodes of a job, the program's own first, and its memory.
///
/// If no nodes are requested, the job has the program's own node alone. If nodes are to be chosen, the usable
/// ones of `chosen` take part, in that order. If not all nodes share memory, memory is sent in pages, unless
/// `kind` excludes that; nodes that were chosen rather than named are left out instead if they do not share
/// memory with the first.
///
/// # Errors
/// [`PlaceError`] if a named node cannot take part.
pub fn decide(
    nodes: &[NodeInfo],
    windows: &[WindowInfo],
    own: &str,
    wanted: &[Named],
    chosen: &[String],
    kind: Memory,
) -> Result<(Vec<JobNode>, Where), PlaceError> {
    let find = |name: &str| nodes.iter().find(|node| node.name == name);
    let unknown = |name: &str| {
        let known: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        PlaceError::Unknown { name: name.to_owned(), known: known.join(", ") }
    };
    let limit = wanted.iter().find(|named| named.name == own).map_or(0, |named| named.threads);
    let mut places = vec![place(find(own).ok_or_else(|| unknown(own))?, limit)?];
    let machine = Surroundings { nodes, windows };
    let (mut window, mut apart) = (None, kind == Memory::Pages);
    if let [Named { threads, .. }] = wanted
        && is_choice(wanted)
    {
        for node in chosen.iter().filter_map(|name| find(name)).filter(|node| node.name != own && node.up) {
            // A node that cannot take part is left out: it was not named.
            let Ok(more) = place(node, *threads) else { continue };
            if apart {
                if !machine.is_emulated(&more) {
                    places.push(more);
                }
            } else if let Ok(common) = machine.share(&places, &more) {
                window = common;
                places.push(more);
            }
        }
    } else {
        for Named { name, threads } in wanted.iter().filter(|named| named.name != own) {
            let node = find(name).ok_or_else(|| unknown(name))?;
            if !node.up {
                return Err(PlaceError::Down { name: name.clone() });
            }
            if places.iter().any(|place| place.name == *name) {
                continue;
            }
            let more = place(node, *threads)?;
            if !apart {
                match machine.share(&places, &more) {
                    Ok(common) => window = common,
                    Err(_) if kind == Memory::Any => apart = true,
                    Err(error) => return Err(error),
                }
            }
            places.push(more);
        }
    }
    let memory = match window {
        _ if apart => match places.iter().find(|place| machine.is_emulated(place)) {
            Some(place) => return Err(PlaceError::Emulated { name: place.name.clone() }),
            None => Where::Pages,
        },
        Some(window) => {
            let left_bytes = window.bytes.1.saturating_sub(window.bytes.0);
            Where::Window { node: window.name.clone(), left_bytes }
        }
        None => Where::Memory { emulated: places.iter().any(|place| machine.is_emulated(place)) },
    };
    Ok((places, memory))
}

fn place(node: &NodeInfo, threads: u32) -> Result<JobNode, PlaceError> {
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
        _ => Err(PlaceError::Foreign { name: node.name.clone(), isa: node.isa }),
    }
}

/// Nodes and windows of the machine.
struct Surroundings<'a> {
    nodes: &'a [NodeInfo],
    windows: &'a [WindowInfo],
}

impl<'a> Surroundings<'a> {
    /// Returns whether the host runs the node's programs in an emulator.
    fn is_emulated(&self, place: &JobNode) -> bool {
        let host = self.nodes.iter().find(|node| node.kind == NodeKind::Host);
        place.kernel == Kernel::Host && host.is_some_and(|host| host.isa != place.isa)
    }

    /// Finds a window through which another node and those of the job share memory; `None` if all are on one
    /// kernel.
    fn share(&self, places: &[JobNode], more: &JobNode) -> Result<Option<&'a WindowInfo>, PlaceError> {
        let mut kernels: Vec<NodeId> = Vec::new();
        for kernel in places.iter().chain([more]).filter_map(|place| self.kernel(&place.kernel)) {
            if !kernels.contains(&kernel) {
                kernels.push(kernel);
            }
        }
        if kernels.len() < 2 {
            return Ok(None);
        }
        let has_all = |window: &&WindowInfo| kernels.iter().all(|kernel| window.nodes.contains(kernel));
        let found = self.windows.iter().filter(has_all).find(|window| window.bytes.1 > 0);
        match (found, places.iter().find(|other| other.kernel != more.kernel)) {
            (None, Some(other)) => Err(PlaceError::Apart {
                name: more.name.clone(),
                other: other.name.clone(),
                why: if kernels.len() == 2 && kernels.contains(&NodeId::HOST) {
                    Reason::NoWindow
                } else {
                    Reason::TwoWindows
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

    fn wanted(names: &[&str]) -> Vec<Named> {
        names.iter().map(|name| Named { name: (*name).to_owned(), threads: 0 }).collect()
    }

    fn decided(own: &str, names: &[&str]) -> Result<(Vec<String>, Where), PlaceError> {
        decided_as(own, names, Memory::Shared)
    }

    fn decided_as(own: &str, names: &[&str], kind: Memory) -> Result<(Vec<String>, Where), PlaceError> {
        let chosen: Vec<String> = machine().into_iter().map(|node| node.name).collect();
        let (places, memory) = decide(&machine(), &windows(), own, &wanted(names), &chosen, kind)?;
        Ok((places.into_iter().map(|place| place.name).collect(), memory))
    }

    #[test]
    fn without_a_wish_the_programs_node_has_all_workers() {
        assert_eq!(decided("host", &[]), Ok((vec!["host".to_owned()], Where::Memory { emulated: false })));
    }

    #[test]
    fn one_kernel_needs_no_window() {
        let memory = Where::Memory { emulated: true };
        let (places, found) = decided("host", &["arm-user"]).unwrap();
        assert_eq!((places.join(" "), found), ("host arm-user".to_owned(), memory.clone()));
        assert_eq!(decided("arm-user", &[]), Ok((vec!["arm-user".to_owned()], memory)));
    }

    #[test]
    fn memory_is_in_the_window_that_all_reach() {
        let window = Where::Window { node: "arm0".to_owned(), left_bytes: 63 << 20 };
        for (own, names) in
            [("host", &["arm-user", "arm0"][..]), ("arm0", &["host"]), ("arm0", &["arm-user"])]
        {
            assert_eq!(decided(own, names).unwrap().1, window, "{own} {names:?}");
        }
        assert_eq!(decided("arm0", &[]).unwrap().1, Where::Memory { emulated: false });
    }

    #[test]
    fn all_are_those_that_can_be() {
        let (places, _) = decided("host", &["all"]).unwrap();
        assert_eq!(places, ["host", "arm-user", "arm0"]);
        let chosen = ["arm1", "big", "arm0", "arm-user", "host"].map(str::to_owned);
        let (places, memory) =
            decide(&machine(), &windows(), "host", &wanted(&["all"]), &chosen, Memory::Any).unwrap();
        let names: Vec<&str> = places.iter().map(|place| place.name.as_str()).collect();
        assert_eq!(names, ["host", "arm1", "arm-user"], "in the order of the choice");
        assert!(matches!(memory, Where::Window { node, .. } if node == "arm1"));
    }

    #[test]
    fn who_shares_no_memory_is_refused() {
        let why = |own, names| match decided(own, names) {
            Err(PlaceError::Apart { why, .. }) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(why("host", &["arm0", "arm1"]), Reason::TwoWindows);
        assert_eq!(why("arm0", &["arm1"]), Reason::TwoWindows);
        assert_eq!(why("host", &["alone"]), Reason::NoWindow);
    }

    #[test]
    fn where_not_all_share_memory_it_is_sent_in_pages() {
        for (own, names) in [("host", &["arm0", "arm1"][..]), ("arm0", &["arm1"]), ("host", &["alone"])] {
            assert_eq!(decided_as(own, names, Memory::Any).map(|(_, memory)| memory), Ok(Where::Pages));
        }
        assert_eq!(decided_as("host", &["arm0"], Memory::Pages).map(|(_, memory)| memory), Ok(Where::Pages));
        assert_eq!(decided_as("host", &[], Memory::Pages).map(|(_, memory)| memory), Ok(Where::Pages));
        let of_all = decided_as("host", &["all"], Memory::Pages).unwrap();
        assert_eq!(of_all.0, ["host", "arm0", "arm1", "alone"], "without the one that is emulated");
        for names in [&["arm-user", "arm0", "arm1"][..], &["alone", "arm-user"]] {
            let refused = decided_as("host", names, Memory::Any);
            assert_eq!(refused, Err(PlaceError::Emulated { name: "arm-user".to_owned() }));
        }
    }

    #[test]
    fn virtual_machines_share_the_memory_of_a_window_that_has_all() {
        let decided = |windows: &[WindowInfo], own: &str, names: &[&str]| {
            let chosen: Vec<String> = machine().into_iter().map(|node| node.name).collect();
            let (places, memory) = decide(&machine(), windows, own, &wanted(names), &chosen, Memory::Shared)?;
            Ok::<_, PlaceError>((places.len(), memory))
        };
        let mut all = windows();
        all.push(window("arms", &[2, 3], 8 << 20));
        let arms = Where::Window { node: "arms".to_owned(), left_bytes: 7 << 20 };
        assert_eq!(decided(&all, "arm0", &["arm1"]), Ok((2, arms)));
        assert!(decided(&all, "arm0", &["arm1", "host"]).is_err(), "the host is not in it");
        all.push(window("three", &[0, 2, 3], 8 << 20));
        let three = Where::Window { node: "three".to_owned(), left_bytes: 7 << 20 };
        assert_eq!(decided(&all, "arm0", &["arm1", "arm-user"]), Ok((3, three.clone())));
        assert_eq!(decided(&all, "host", &["all"]), Ok((4, three)));
    }

    #[test]
    fn who_is_none_is_refused() {
        assert!(matches!(decided("host", &["arm7"]), Err(PlaceError::Unknown { .. })));
        assert!(matches!(decided("host", &["big"]), Err(PlaceError::Foreign { .. })));
        let mut nodes = machine();
        nodes[1].up = false;
        assert!(matches!(
            decide(&nodes, &windows(), "host", &wanted(&["arm-user"]), &[], Memory::Any),
            Err(PlaceError::Down { .. })
        ));
    }
}
