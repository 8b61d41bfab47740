//! What the made-up machine is like.

use std::path::Path;

use tombolo_base::Isa;
use tombolo_control::{Seat, SpawnRequest};
use tombolo_machine::image::ImageBuilder;
use tombolo_machine::{Image, Machine};
use tombolod::core::Nanos;

/// What the machine is like and what happens on it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The machine's name.
    pub machine: String,
    /// Nodes, without the host.
    pub nodes: u16,
    /// Domains that live.
    pub domains: usize,
    /// Domains that end in a second, and that start in their place.
    pub ends_per_second: usize,
    /// Time from one loss of a node to the next, in ns.
    pub down_every_ns: Nanos,
    /// How long it is down, in ns.
    pub down_for_ns: Nanos,
    /// Watchers that are made up, beside those that there are.
    pub watchers: u32,
    /// What decides everything that is not said.
    pub seed: u64,
}

/// Times a second that domains end and start.
const CHURNS: u64 = 10;

/// Nodes on the host's kernel: each is linked with all others, so there are not many.
pub(crate) const USER_NODES: u16 = 6;

impl Plan {
    /// The name of a node.
    pub(crate) fn name(&self, number: u16) -> String {
        format!("n{number:04}")
    }

    pub(crate) fn churn_ns(&self) -> Nanos {
        1_000_000_000 / CHURNS
    }

    pub(crate) fn ends_per_churn(&self) -> usize {
        self.ends_per_second.div_ceil(CHURNS as usize)
    }

    /// Enough that all are there after five seconds.
    pub(crate) fn starts_per_churn(&self) -> usize {
        (self.domains / 50).max(self.ends_per_churn()) + 1
    }

    /// Clients that start domains, with room for those that come in place of others.
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
        Machine::parse(&text, Path::new("crowd.toml"), Isa::current()).map_err(|error| error.to_string())
    }
}

/// What every domain of the crowd is said to run. It never does.
pub(crate) fn image() -> Result<Image, String> {
    let isas = [Isa::Aarch64, Isa::Riscv64, Isa::S390x];
    let built = isas.into_iter().try_fold(ImageBuilder::new("crowd").restartable(true), |image, isa| {
        image.with_program(tombolo_machine::image::elf::smallest(isa))
    });
    built.map_err(|error| error.to_string())?.finish().map_err(|error| error.to_string())
}

/// The request that starts one.
pub(crate) fn spawn(node: String, number: usize) -> SpawnRequest {
    const PROGRAMS: [&str; 6] = ["solver", "sort", "relay", "render", "index", "communities"];
    let program = PROGRAMS[number % PROGRAMS.len()];
    SpawnRequest {
        node,
        own_image: false,
        image_name: format!("{program}.tbi"),
        arguments: vec!["--part".into(), number.to_string()],
        environment: Vec::new(),
        directory: "/".into(),
        stdin: false,
        seat: Seat::any(),
        side: None,
    }
}
