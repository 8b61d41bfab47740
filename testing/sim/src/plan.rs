//! Parameters drawn from a seed before a run: the machine, the load, and the kinds and rates of faults.
//!
//! The probabilities are drawn too (swarm testing), so that some seeds inject many faults of one kind, some
//! many kinds, and some none.

use std::fmt::Write;

use tombolo_base::{Isa, Random};
use tombolo_machine::Machine;

/// Maximum number of nodes of a simulated machine.
pub const MAX_NODES: usize = 64;

/// The emphasis of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum Scenario {
    /// Everything, in a mixture that the seed draws
    #[default]
    Mixed,
    /// Few names and many who want them
    Names,
    /// Channels and messages
    Channels,
    /// Starting, feeding and killing
    Spawning,
    /// Nodes that die and start again
    Restarts,
    /// Regions of memory and rights to them
    Memory,
    /// Bulk channels, pools and buffers
    Bulk,
    /// As mixed, without any fault
    Calm,
}

impl Scenario {
    /// Returns its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Scenario::Mixed => "mixed",
            Scenario::Names => "names",
            Scenario::Channels => "channels",
            Scenario::Spawning => "spawning",
            Scenario::Restarts => "restarts",
            Scenario::Memory => "memory",
            Scenario::Bulk => "bulk",
            Scenario::Calm => "calm",
        }
    }
}

/// Options of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The number of nodes; drawn if not given.
    pub nodes: Option<usize>,
    /// Emphasis of the run.
    pub scenario: Scenario,
}

/// Parameters of one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodePlan {
    /// Whether it is a virtual machine behind a window; otherwise it runs on the host's kernel.
    pub vm: bool,
    /// Instruction set of its programs.
    pub isa: Isa,
    /// Whether its channels to the host use a stream.
    pub socket: bool,
    /// Whether both sides of its window map the same memory.
    pub coherent: bool,
    /// Number of doorbells of its window.
    pub doorbells: u16,
}

/// The weight of each operation among the choices of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ActionWeights {
    /// Export a name.
    pub export: u64,
    /// Withdraw a name.
    pub withdraw: u64,
    /// Open a channel.
    pub connect: u64,
    /// Start a child.
    pub spawn: u64,
    /// Kill a child.
    pub kill: u64,
    /// Feed a child.
    pub feed: u64,
    /// Write to standard output.
    pub write: u64,
    /// Send on a channel.
    pub send: u64,
    /// Close a channel.
    pub close: u64,
    /// List names, domains or nodes.
    pub list: u64,
    /// Acquire or release a lock.
    pub lock: u64,
    /// Look at a console.
    pub console: u64,
    /// Ask for a node's restart.
    pub restart: u64,
    /// Perform an operation on memory, chosen by [`MemoryActionWeights`].
    pub memory: u64,
    /// Assign pools, transfer buffers, use them.
    pub bulk: u64,
    /// Send a malformed message.
    pub nonsense: u64,
    /// Exit.
    pub exit: u64,
}

/// The weight of each operation on memory among the choices of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryActionWeights {
    /// Create a region.
    pub create: u64,
    /// Derive a capability for itself.
    pub derive: u64,
    /// Grant or give a capability, mostly over a channel.
    pub grant: u64,
    /// Split memory into parts.
    pub split: u64,
    /// Accept the capabilities that it was started with.
    pub take_up: u64,
    /// Number of starts in 1000 at which the program is given capabilities.
    pub give_at_start: u64,
    /// Map.
    pub map: u64,
    /// Unmap.
    pub unmap: u64,
    /// Delete.
    pub delete: u64,
    /// Revoke.
    pub revoke: u64,
    /// Freeze, or allow no more writers.
    pub seal: u64,
    /// Take up, take back.
    pub settle: u64,
    /// List.
    pub list: u64,
    /// Send requests for what belongs to others, is gone, or is invalid.
    pub abuse: u64,
}

/// How soon programs unmap memory when told to, per thousand programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UnmapDelays {
    /// Late.
    pub late: u64,
    /// Never.
    pub never: u64,
}

/// The frequency of faults, per thousand opportunities.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Faults {
    /// A process is killed, at each of its actions.
    pub kill_process: u64,
    /// A node dies, at each beat.
    pub kill_node: u64,
    /// A link is cut for a while in one or both directions, at each beat.
    pub cut: u64,
    /// A node becomes slow for a while, at each beat.
    pub slow: u64,
    /// The root's clock jumps, at each beat.
    pub clock: u64,
    /// A program does not start.
    pub start: u64,
    /// A node does not start, or never reports.
    pub boot: u64,
    /// A doorbell rings twice.
    pub ring_twice: u64,
    /// A doorbell coalesces with the previous one, which arrives late.
    pub ring_late: u64,
    /// The stores of a step arrive in many batches.
    pub torn: u64,
}

/// Everything that a seed draws.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// All nodes except the host.
    pub nodes: Vec<NodePlan>,
    /// Total number of process actions.
    pub actions: u64,
    /// Maximum number of processes at a time.
    pub processes: usize,
    /// Number of names that processes choose from.
    pub names: u64,
    /// Number of image files.
    pub images: usize,
    /// Maximum time between two actions of a process, in nanoseconds.
    pub pause_ns: u64,
    /// Maximum time from a wake-up to the actor's turn, in nanoseconds.
    pub turn_ns: u64,
    /// Maximum latency of a store on a link, in nanoseconds.
    pub link_ns: u64,
    /// Time between two beats, in nanoseconds; the larger faults are injected at beats.
    pub beat_ns: u64,
    /// Maximum backlog of a listener.
    pub backlog: u64,
    /// The habits of processes.
    pub weights: ActionWeights,
    /// Weights of the operations on memory.
    pub memory: MemoryActionWeights,
    /// How soon programs unmap memory when told to.
    pub unmap_delays: UnmapDelays,
    /// Time that a domain has to unmap revoked memory, in milliseconds.
    pub revoke_ms: u32,
    /// Limits per domain: regions, capabilities and mappings.
    pub may_have: [u64; 3],
    /// The fault.
    pub faults: Faults,
}

const ISAS: [Isa; 4] = [Isa::X86_64, Isa::Aarch64, Isa::Riscv64, Isa::S390x];

impl Plan {
    /// Draws the plan of a run.
    #[must_use]
    pub fn draw(random: &mut Random, options: Options) -> Plan {
        let count = options.nodes.unwrap_or_else(|| match random.below(200) {
            0 => MAX_NODES,
            1..10 => random.between(9, 24) as usize,
            _ => random.between(1, 8) as usize,
        });
        let nodes = (1..count).map(|_| NodePlan::draw(random)).collect();
        Plan {
            nodes,
            actions: random.magnitude(60, 900)
                * if matches!(options.scenario, Scenario::Memory | Scenario::Bulk) { 4 } else { 1 },
            processes: random.magnitude(2, 40) as usize,
            names: random.between(1, 12),
            images: random.magnitude(1, 24) as usize,
            pause_ns: random.magnitude(200_000, 200_000_000),
            turn_ns: random.magnitude(1_000, 2_000_000),
            link_ns: random.magnitude(500, 5_000_000),
            beat_ns: random.magnitude(1_000_000, 100_000_000),
            backlog: if random.chance(500) { random.magnitude(1, 8) } else { 1024 },
            weights: ActionWeights::draw(random, options.scenario),
            memory: MemoryActionWeights::draw(random),
            unmap_delays: UnmapDelays { late: random.below(400), never: random.below(300) },
            revoke_ms: random.magnitude(1, 2000) as u32,
            may_have: [(); 3].map(|()| if random.chance(300) { random.magnitude(1, 12) } else { 1024 }),
            faults: Faults::draw(random, options.scenario),
        }
    }

    /// Returns the machine that a machine file would describe.
    ///
    /// # Panics
    /// If the file is rejected, which is a bug of this program.
    #[must_use]
    pub fn machine(&self) -> Machine {
        let [regions, rights, mappings] = self.may_have;
        let limits = format!(
            "[limits]\nbacklog = {}\nrevoke_ms = {}\nregions_per_domain = {regions}\ncapabilities_per_domain = {rights}\n\
             mappings_per_domain = {mappings}\n",
            self.backlog, self.revoke_ms
        );
        let mut text = "name = \"sim\"\n[[node]]\nname = \"host\"\nkind = \"host\"\n".to_owned();
        for (index, node) in self.nodes.iter().enumerate() {
            let (name, isa) = (index + 1, node.isa);
            let _ = match node.vm {
                true => write!(
                    text,
                    "[[node]]\nname = \"n{name}\"\nkind = \"vm\"\nisa = \"{isa}\"\nwindow_mib = 1\ndoorbells = {}\n",
                    node.doorbells
                ),
                false => write!(text, "[[node]]\nname = \"n{name}\"\nkind = \"user\"\nisa = \"{isa}\"\n"),
            };
        }
        for (index, _) in self.nodes.iter().enumerate().filter(|(_, node)| node.socket) {
            let name = index + 1;
            let _ = write!(text, "[[link]]\nbetween = [\"host\", \"n{name}\"]\ntransport = \"socket\"\n");
        }
        text.push_str(&limits);
        Machine::parse(&text, std::path::Path::new("sim.toml"), Isa::X86_64)
            .unwrap_or_else(|error| panic!("a simulated machine is refused: {error}\n{text}"))
    }
}

impl NodePlan {
    fn draw(random: &mut Random) -> NodePlan {
        let vm = random.chance(600);
        let foreign = [Isa::Aarch64, Isa::Riscv64, Isa::S390x];
        NodePlan {
            vm,
            isa: if vm { Isa::Aarch64 } else { random.pick(&foreign).copied().unwrap_or(Isa::Aarch64) },
            socket: !vm && random.chance(400),
            // Two copies need the tap on stores.
            coherent: cfg!(not(sim)) || random.chance(350),
            doorbells: random.magnitude(2, 24) as u16,
        }
    }
}

impl ActionWeights {
    fn draw(random: &mut Random, scenario: Scenario) -> ActionWeights {
        let mut some = |low: u64, high: u64| if random.chance(150) { 0 } else { random.between(low, high) };
        let mut weights = ActionWeights {
            export: some(2, 30),
            withdraw: some(1, 10),
            connect: some(5, 40),
            spawn: some(2, 30),
            kill: some(1, 8),
            feed: some(1, 10),
            write: some(1, 20),
            send: some(5, 80),
            close: some(1, 12),
            list: some(1, 8),
            lock: some(1, 12),
            console: some(0, 4),
            restart: some(1, 6),
            memory: some(10, 200),
            bulk: some(10, 200),
            nonsense: some(0, 1),
            exit: some(1, 6),
        };
        match scenario {
            Scenario::Names => {
                (weights.export, weights.withdraw, weights.connect, weights.lock) = (40, 20, 40, 40);
            }
            Scenario::Channels => (weights.export, weights.connect, weights.send) = (15, 30, 90),
            Scenario::Spawning => {
                (weights.spawn, weights.kill, weights.feed, weights.write) = (40, 8, 20, 20);
            }
            Scenario::Restarts => (weights.restart, weights.connect) = (20, 30),
            Scenario::Memory => (weights.memory, weights.connect, weights.send) = (400, 30, 40),
            Scenario::Bulk => (weights.bulk, weights.export, weights.connect) = (400, 20, 40),
            Scenario::Mixed | Scenario::Calm => {}
        }
        weights
    }
}

impl MemoryActionWeights {
    fn draw(random: &mut Random) -> MemoryActionWeights {
        let mut some = |low: u64, high: u64| if random.chance(100) { 0 } else { random.between(low, high) };
        MemoryActionWeights {
            // A process that does nothing else needs memory to work with.
            create: 1 + some(5, 30),
            derive: some(5, 40),
            grant: some(5, 60),
            split: some(0, 40),
            take_up: some(5, 40),
            give_at_start: some(200, 900),
            map: some(10, 80),
            unmap: some(1, 20),
            delete: some(1, 15),
            revoke: some(2, 30),
            seal: some(1, 8),
            settle: some(1, 10),
            list: some(1, 10),
            abuse: some(1, 10),
        }
    }
}

impl Faults {
    fn draw(random: &mut Random, scenario: Scenario) -> Faults {
        // Half of the kinds are absent from a run, so that the others are seen by themselves too.
        let mut some = |most: u64| if random.chance(500) { 0 } else { random.magnitude(1, most) };
        let mut faults = Faults {
            kill_process: some(60),
            kill_node: some(150),
            cut: some(200),
            slow: some(200),
            clock: some(60),
            start: some(200),
            boot: some(200),
            ring_twice: some(500),
            ring_late: some(500),
            torn: some(1000),
        };
        match scenario {
            Scenario::Restarts => faults.kill_node = 150,
            Scenario::Calm => faults = Faults::default(),
            _ => {}
        }
        faults
    }
}

/// Returns the targets of an image.
#[must_use]
pub fn isas() -> [Isa; 4] {
    ISAS
}
