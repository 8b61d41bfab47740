//! Command line of the chaos program.

use std::time::Duration;

use clap::{Parser, ValueEnum};

/// Kills random parts of a busy machine: domains, monitors, virtual machines, commands half-way through. In
/// between it stops processes for up to 300 ms. Asserts that every peer learns of each death in time, that
/// nothing hangs, that the memory of the monitor does not grow, and that nothing is left.
///
/// A death on this kernel must be known within 100 ms of its own end and of scheduling delays: a thread per
/// killed process records when the kernel reports its end, and the scheduler counts how long a survivor
/// waited for a processor. Deaths across a window, and during a stop, are reported without a limit.
///
/// With `--nodes arm0,arm1` channels between the two virtual machines are relayed, and relays are killed,
/// too. With `--nodes bare0` a board, its program or the other end of its channel is killed; no member of
/// the population is on a board.
///
/// For example `cargo xtask chaos --kills 5000`, or `cargo xtask chaos --minutes 120 --only processes`. A run
/// that fails prints how to repeat it.
#[derive(Parser, Clone, Debug)]
#[command(name = "cargo xtask chaos", max_term_width = 100)]
pub struct Arguments {
    /// Seed of all random choices [default: from the clock]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Number of kills
    #[arg(long, value_name = "N", default_value_t = 1000, conflicts_with = "minutes")]
    pub kills: u64,

    /// Run for this number of minutes instead of a number of kills
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub minutes: Option<u64>,

    /// Kill only these
    #[arg(long, value_enum, value_name = "WHAT")]
    pub only: Option<Only>,

    /// Nodes of the machine besides the host
    #[arg(long, value_delimiter = ',', value_name = "KIND", value_enum,
          default_values_t = [Beside::Arm0, Beside::RiscvUser, Beside::S390xUser])]
    pub nodes: Vec<Beside>,

    /// Use the host alone: quick to start, and without emulation
    #[arg(long, conflicts_with = "nodes")]
    pub host_only: bool,

    /// Give the virtual machines windows that are not coherent, with emulated caches that evict a line at
    /// one in N operations, 0 for never; several rates are of one machine each, in turn
    #[arg(long, value_delimiter = ',', value_name = "N", conflicts_with = "host_only")]
    pub evict_one_in: Vec<u32>,

    /// Domains on the host; every other node has two
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(3..=200))]
    pub members: u16,

    /// Time until a death on this kernel must be known, in milliseconds; 0 only reports it
    #[arg(long, value_name = "MS", default_value_t = 100)]
    pub latency_ms: u64,

    /// Time between two messages of a channel, in microseconds: less means more load
    #[arg(long, value_name = "US", default_value_t = 2000)]
    pub pause_us: u64,

    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Targets that may be killed.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Only {
    /// Domains, and commands half-way through
    Processes,
    /// The root's process, its keeper, and the monitors of nodes of foreign programs
    Monitors,
    /// The emulators of virtual machines
    Vms,
    /// Boards, their programs, and the domains at the other ends of their channels
    Boards,
    /// The domain that relays between virtual machines, the domains at the ends, and those nodes
    Relays,
    /// No processes: channels are closed by one side at any moment
    Channels,
    /// No processes: they are only stopped for a moment
    Pauses,
}

/// A node besides the host.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beside {
    /// An Arm virtual machine
    Arm0,
    /// Another, which has no window with the first: the host relays between the two
    Arm1,
    /// An Arm board without an operating system
    Bare0,
    /// A RISC-V board
    Bare1,
    /// RISC-V programs on this kernel
    RiscvUser,
    /// Big-endian programs on this kernel
    S390xUser,
}

impl Beside {
    /// Returns the name of the node.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Beside::Arm0 => "arm0",
            Beside::Arm1 => "arm1",
            Beside::Bare0 => "bare0",
            Beside::Bare1 => "bare1",
            Beside::RiscvUser => "riscv-user",
            Beside::S390xUser => "s390x-user",
        }
    }
}

impl Arguments {
    /// Returns the nodes of the machine besides the host.
    #[must_use]
    pub fn beside(&self) -> Vec<Beside> {
        if self.host_only { Vec::new() } else { self.nodes.clone() }
    }

    /// Returns the duration of the run, if it is limited by time.
    #[must_use]
    pub fn duration(&self) -> Option<Duration> {
        self.minutes.map(|minutes| Duration::from_secs(60 * minutes))
    }

    /// Returns the command line that repeats the run with this seed.
    #[must_use]
    pub fn replay(&self, seed: u64) -> String {
        let mut words = format!("cargo xtask chaos --seed {seed}");
        match self.minutes {
            Some(minutes) => words += &format!(" --minutes {minutes}"),
            None => words += &format!(" --kills {}", self.kills),
        }
        if let Some(only) = self.only.and_then(|only| only.to_possible_value()) {
            words += &format!(" --only {}", only.get_name());
        }
        if self.host_only {
            words += " --host-only";
        } else {
            let names: Vec<_> = self.nodes.iter().map(|node| node.name()).collect();
            words += &format!(" --nodes {}", names.join(","));
        }
        if !self.evict_one_in.is_empty() {
            let rates: Vec<_> = self.evict_one_in.iter().map(u32::to_string).collect();
            words += &format!(" --evict-one-in {}", rates.join(","));
        }
        words + &format!(" --members {} --pause-us {}", self.members, self.pause_us)
    }
}
