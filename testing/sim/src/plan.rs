//! What a seed draws before anything happens: the machine, how much goes on, which faults and how often.
//!
//! Even the probabilities are drawn, so that some seeds see one kind of fault in plenty, some many kinds and some
//! none.

use std::fmt::Write;

use tombolo_base::Isa;
use tombolo_machine::Machine;

use crate::random::Random;

/// Most nodes of a simulated machine.
pub const MAX_NODES: usize = 64;

/// What a run is about.
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
    /// As mixed, without any fault
    Calm,
}

impl Scenario {
    /// Its name as the command line has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Scenario::Mixed => "mixed",
            Scenario::Names => "names",
            Scenario::Channels => "channels",
            Scenario::Spawning => "spawning",
            Scenario::Restarts => "restarts",
            Scenario::Calm => "calm",
        }
    }
}

/// What to simulate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// How many nodes; drawn if not given.
    pub nodes: Option<usize>,
    /// What about.
    pub scenario: Scenario,
}

/// A node to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodePlan {
    /// A virtual machine behind a window; otherwise on the host's kernel.
    pub vm: bool,
    /// What it runs.
    pub isa: Isa,
    /// Its domains are joined to the host's by a stream.
    pub socket: bool,
    /// Both sides of its window map the same memory.
    pub coherent: bool,
    /// Doorbells of its window.
    pub doorbells: u16,
}

/// How often what a process can do is what it does next; of the sum of all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Habits {
    /// Take up a name.
    pub export: u64,
    /// Give one back.
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
    /// Take a lock, or give one back.
    pub lock: u64,
    /// Look at a console.
    pub console: u64,
    /// Ask for a node's restart.
    pub restart: u64,
    /// Say nonsense.
    pub nonsense: u64,
    /// Return.
    pub exit: u64,
}

/// How often faults happen, in a thousand opportunities.
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
    /// A doorbell falls together with the one before, which comes late.
    pub ring_late: u64,
    /// Stores of a step arrive in many pieces.
    pub torn: u64,
}

/// Everything that a seed draws.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Beside the host.
    pub nodes: Vec<NodePlan>,
    /// Things that processes do in all.
    pub actions: u64,
    /// Most processes at a time.
    pub processes: usize,
    /// Names that they choose from.
    pub names: u64,
    /// Image files.
    pub images: usize,
    /// Time between what a process does, at most, in nanoseconds.
    pub pause_ns: u64,
    /// Time until an actor that is woken acts, at most, in nanoseconds.
    pub turn_ns: u64,
    /// Time until stores arrive, at most, in nanoseconds.
    pub link_ns: u64,
    /// Time between two beats, at each of which the larger faults may happen, in nanoseconds.
    pub beat_ns: u64,
    /// Channels of one listener that may wait to be accepted.
    pub backlog: u64,
    /// What processes do.
    pub habits: Habits,
    /// What goes wrong.
    pub faults: Faults,
}

const ISAS: [Isa; 4] = [Isa::X86_64, Isa::Aarch64, Isa::Riscv64, Isa::S390x];

impl Plan {
    /// What a seed draws.
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
            actions: random.magnitude(60, 900),
            processes: random.magnitude(2, 40) as usize,
            names: random.between(1, 12),
            images: random.magnitude(1, 24) as usize,
            pause_ns: random.magnitude(200_000, 200_000_000),
            turn_ns: random.magnitude(1_000, 2_000_000),
            link_ns: random.magnitude(500, 5_000_000),
            beat_ns: random.magnitude(1_000_000, 100_000_000),
            backlog: if random.chance(500) { random.magnitude(1, 8) } else { 1024 },
            habits: Habits::draw(random, options.scenario),
            faults: Faults::draw(random, options.scenario),
        }
    }

    /// The machine, as a machine file would describe it.
    ///
    /// # Panics
    /// When the file is refused, which is a mistake of this program.
    #[must_use]
    pub fn machine(&self) -> Machine {
        let limits = format!("[limits]\nbacklog = {}\n", self.backlog);
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

impl Habits {
    fn draw(random: &mut Random, scenario: Scenario) -> Habits {
        let mut some = |low: u64, high: u64| if random.chance(150) { 0 } else { random.between(low, high) };
        let mut habits = Habits {
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
            nonsense: some(0, 1),
            exit: some(1, 6),
        };
        match scenario {
            Scenario::Names => {
                (habits.export, habits.withdraw, habits.connect, habits.lock) = (40, 20, 40, 40);
            }
            Scenario::Channels => (habits.export, habits.connect, habits.send) = (15, 30, 90),
            Scenario::Spawning => (habits.spawn, habits.kill, habits.feed, habits.write) = (40, 8, 20, 20),
            Scenario::Restarts => (habits.restart, habits.connect) = (20, 30),
            Scenario::Mixed | Scenario::Calm => {}
        }
        habits
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

/// What an image can be built for.
#[must_use]
pub fn isas() -> [Isa; 4] {
    ISAS
}
