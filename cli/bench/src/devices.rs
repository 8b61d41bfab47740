//! `tombolo bench devices`

use clap::Args;
use tombolo_bench::devices::{self, TestFiles};
use tombolo_cli_common::child_output::ChildOutput;
use tombolo_machine::Kit;
use tombolo_machine::vm::Architecture;

use super::report::show;
use super::temporary_machine::with_machine;
use crate::context::Context;
use crate::failure::Failure;

/// Measures a network and a disk across nodes, beside the emulator's own
///
/// Brings a machine up whose Arm node has, besides what Tombolo gives it, a network card and a disk of the
/// emulator (virtio-net on a TAP, virtio-blk), and measures both kinds from a program on it: 4 KiB anywhere
/// on the disk, one after another, and 128 KiB in sequence, past the node's cache; datagrams of 64 bytes to
/// the host and back, and a TCP stream each way. Files of disks are in the host's memory. Takes the
/// capability CAP_NET_ADMIN.
///
/// The JSON has, for each of `rows`: name, unit, tombolo and virtio.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench devices
  tombolo bench devices --seconds 10
  tombolo bench devices --json | jq '.rows[] | select(.name == \"round_trip_p50\")'")]
pub(super) struct Options {
    /// Time per figure, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,

    /// The longest IP packet of both networks, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(576..=65_521))]
    mtu: u32,

    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

/// Measures on a dedicated machine, which is taken down afterwards.
pub(super) fn run(context: &Context, options: &Options) -> Result<u8, Failure> {
    let bench = devices::Options {
        seconds: options.seconds,
        mtu: options.mtu,
        emulator: Architecture::AARCH64.program.to_owned(),
        kit: Kit::locate()?.root().to_owned(),
    };
    let test_files = TestFiles::create(&bench)?;
    let mut status = 1;
    with_machine(context, Some(&test_files.machine_file()), |domain| {
        let output = ChildOutput::capture(domain);
        let report = devices::run(domain, &bench, &test_files, &|child| output.text(child), &mut |what| {
            context.info(what);
        })?;
        status = show(&report, options.json)?;
        Ok(())
    })?;
    Ok(status)
}
