//! `tombolo bench tracing`

use clap::Args;
use tombolo_bench::tracing::{Costs, measure};

use crate::context::{Context, print, print_json};
use crate::failure::Failure;
use crate::text::Table;

/// Measures what tracing costs on this host
///
/// A channel with counters and traces is measured in turn with the same channel without, with both ends in
/// one thread: the difference is instructions. OFF is the cost of every send and every receive at all times,
/// ON the cost during a recording. Needs no machine.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench tracing
  tombolo bench tracing --json | jq .off_per_operation_ns")]
pub(super) struct Options {
    /// Number of times that each part is measured, up to 1,000,000
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    slices: u32,

    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

pub(super) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let costs = measure(options.slices)?;
    if options.json { print_json(&costs) } else { print(render(&costs, context.colour)) }
}

fn render(costs: &Costs, colour: bool) -> String {
    let mut table = Table::new(&["WHAT", "NS>"]);
    let rows = [
        ("a message without counters and tracing", costs.plain_message_ns),
        ("OFF: counters, and a look at the switch, each operation", costs.off_per_operation_ns),
        ("ON: an event more, each operation", costs.on_per_operation_ns),
        ("an event alone", costs.event_ns),
        ("of which its stamp", costs.stamp_ns),
    ];
    for (what, ns) in rows {
        table.row([what.to_owned(), format!("{ns:.2}")]);
    }
    table.render(colour)
}
