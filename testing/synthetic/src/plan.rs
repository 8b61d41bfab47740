//! The size of a synthetic machine and the events on it.

use std::path::Path;

use tombolo_base::Isa;
use tombolo_control::{ProgramSpec, SpawnRequest};
use tombolo_machine::image::ImageBuilder;
use tombolo_machine::{Image, Machine};
use tombolo_monitor_core::root::Nanos;

/// The size of a synthetic machine and the rates of events on it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The machine's name.
    pub machine: String,
    /// Number of nodes, without the host.
    pub nodes: u16,
    /// Number of domains alive at the same time.
    pub domains: usize,
    /// Number of domains that end per second and are replaced.
    pub ends_per_second: usize,
    /// Time from one node failure to the next, in ns.
    pub down_every_ns: Nanos,
    /// How long a failed node stays down, in ns.
    pub down_for_ns: Nanos,
    /// Number of simulated watchers.
    pub watchers: u32,
    /// Seed of all random choices.
    pub seed: u64,
}

/// Number of times per second that domains are ended and started.
const CHURNS: u64 = 10;

/// Number of `user` nodes. Each of them is linked with every other node, so there are few.
pub(crate) const USER_NODES: u16 = 6;

impl Plan {
    /// The name of the node with this number.
    pub(crate) fn name(&self, number: u16) -> String {
        format!("n{number:04}")
    }

    pub(crate) fn churn_ns(&self) -> Nanos {
        1_000_000_000 / CHURNS
    }

    pub(crate) fn ends_per_churn(&self) -> usize {
        self.ends_per_second.div_ceil(CHURNS as usize)
    }

    /// Returns the number of starts per churn: enough for all domains to be alive after five seconds.
    pub(crate) fn starts_per_churn(&self) -> usize {
        (self.domains / 50).max(self.ends_per_churn()) + 1
    }

    /// Number of clients that start domains, with room for replacements.
    pub(crate) fn starters(&self) -> usize {
        self.domains / super::CHILDREN + 2
    }

    pub(crate) fn machine(&self) -> Result<Machine, String> {
        let mut text = format!(
            "name = {:?}\n[limits]\nchildren_per_domain = 65536\n[[node]]\nname = \"host\"\nkind = \"host\"\n",
            self.machine
        );
        for number in 1..=self.nodes {
            let (kind, isa) = match number {
                ..=USER_NODES => ("user", if number % 2 == 0 { "riscv64" } else { "s390x" }),
                _ => ("vm", "aarch64"),
            };
            let name = self.name(number);
            text += &format!("[[node]]\nname = \"{name}\"\nkind = \"{kind}\"\nisa = \"{isa}\"\n");
        }
        Machine::parse(&text, Path::new("synthetic.toml"), Isa::current()).map_err(|error| error.to_string())
    }
}

/// The image of every simulated domain. It never runs.
pub(crate) fn image() -> Result<Image, String> {
    let isas = [Isa::Aarch64, Isa::Riscv64, Isa::S390x];
    let built = isas.into_iter().try_fold(ImageBuilder::new("synthetic").restartable(true), |image, isa| {
        image.with_program(tombolo_machine::image::elf::smallest(isa))
    });
    built.map_err(|error| error.to_string())?.finish().map_err(|error| error.to_string())
}

/// The request that starts domain `number` on a node.
pub(crate) fn spawn(node: String, number: usize) -> SpawnRequest {
    const PROGRAMS: [&str; 6] = ["solver", "sort", "relay", "render", "index", "communities"];
    let program = PROGRAMS[number % PROGRAMS.len()];
    let arguments = vec!["--part".into(), number.to_string()];
    let program =
        ProgramSpec { arguments, directory: "/".into(), ..ProgramSpec::new(format!("{program}.tbi")) };
    SpawnRequest { node, own_image: false, program, given: Vec::new() }
}
