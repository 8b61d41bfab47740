//! `tombolo bench hub`

use std::path::PathBuf;

use clap::Args;
use tombolo_bench::hubs;
use tombolo_cli_common::child_output::ChildOutput;
use tombolo_cli_common::images::chosen_image;
use tombolo_cli_common::nodes::node_named;
use tombolo_machine::Kit;

use super::progress::Output;
use super::report::show;
use crate::context::Context;
use crate::failure::Failure;

/// Measures hubs on nodes, beside the figures of OpenComRTOS and what this host has
///
/// Two processes of this host are the tasks; the hubs are on each node of --on in turn. The semaphore loop
/// is that of OpenComRTOS: two tasks and two semaphores, each task signals one and waits for the other; also
/// over 2, 3 and 8 hops, which are channels joined by processes of this host that forward messages. A pair
/// is signal and wait by one task, without contention, one after the other or both under way. Packets go
/// through a port, so that a sender waits for its receiver each time, and values of 64 bytes through a fifo
/// of 64, one by one and with 64 and 512 under way, and through one of 4096 with 512 under way, from one
/// task to one and from four to four. A board of --on has no hubs: there a program sleeps until interrupts
/// of the timer, and is measured for how late it runs.
///
/// Beside them, in the same run: a message there and back on a channel; two semaphores of the kernel
/// (eventfd), a pipe, and the standard library's channels (crossbeam's) between two threads; and, if `make
/// bench-peers` has built them, semaphores and message queues of POSIX, ZeroMQ and NNG between two
/// processes and channels of Go between two goroutines.
///
/// The JSON has, for each of `rows`: what, where, hops, bytes, count, ns_each, p50_ns and paper_ns (null
/// where the paper has none); and for each of `absent`, which was not measured: peer and why.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench hub                      hubs on this host
  tombolo bench hub --on host,arm0       and on the Arm machine
  tombolo bench hub --on bare0           interrupts on a board
  tombolo bench hub --json | jq '.rows[] | select(.what == \"semaphore loop\")'")]
pub(super) struct Options {
    /// The nodes that have the hubs, one after another
    #[arg(long, value_name = "NODE,…", value_delimiter = ',', default_value = "host")]
    on: Vec<String>,

    /// Operations for each figure
    #[arg(long, value_name = "COUNT", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(10..=10_000_000))]
    count: u64,

    /// The image of the program that serves hubs [default: that of the kit]
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,

    #[command(flatten)]
    output: Output,
}

pub(super) fn run(context: &Context, options: &Options) -> Result<u8, Failure> {
    if let Some(status) = options.output.run_if_member(context, hubs::run_member)? {
        return Ok(status);
    }
    let domain = context.attach_running()?;
    let nodes = domain.nodes()?;
    let on = options.on.iter().map(|node| node_named(&nodes, node).cloned()).collect::<Result<_, _>>()?;
    let kit = Kit::locate()?;
    let bench = hubs::Options {
        on,
        count: options.count,
        image: chosen_image(options.image.as_deref(), "hubs")?,
        board_image: kit.image("bounded"),
        member_arguments: ["bench", "hub", "--member"].map(str::to_owned).into(),
    };
    let output = ChildOutput::capture(&domain);
    show(&hubs::run(&domain, &bench, &|child| output.take(child))?, options.output.json)
}
