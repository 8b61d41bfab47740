//! `tombolo bench placement`

use std::path::PathBuf;

use clap::Args;

/// Measures where rings should lie between two nodes
///
/// Between every two nodes that share windows: round trips of messages of one slot, with slots and credit in
/// the sender's memory or in the receiver's, by each way in which slots come back.
///
/// Every emulated window is memory of the host. The machine file says whose memory a window is meant to be
/// (`home`), and what the other nodes pay for a read and for writing a line (`read_ns`, `line_ns`). The two
/// programs then wait that long at each access, and the figures are marked as modelled. Without that, only
/// the two ways in which slots come back are compared, in each window.
///
/// The JSON has `rows`: nodes, windows, variant, slots, credit, modelled (null or read_ns and line_ns),
/// round_trip_ns with p50 and p99, and over_best.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench placement --up machines/placement.toml
  tombolo bench placement --rounds 10000
  tombolo bench placement --json | jq '.rows[] | {nodes, slots, p50: .round_trip_ns.p50}'")]
pub(crate) struct PlacementOptions {
    /// Print JSON, for programs
    #[arg(long)]
    pub(super) json: bool,

    /// Bring up the machine of this file for the measurement, and take it down afterwards
    #[arg(long, value_name = "FILE")]
    pub(super) up: Option<PathBuf>,

    /// Round trips for each placement
    #[arg(long, value_name = "COUNT", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(super) rounds: u64,
}
