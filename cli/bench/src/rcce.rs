//! `tombolo bench rcce`

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::process::{Command, Output};

use clap::Args;
use serde::Serialize;
use tombolo::Isa;
use tombolo::nodes::NodeInfo;
use tombolo_bench::xipx::Rcce;
use tombolo_cli_common::programs::main_program_path;
use tombolo_machine::build::Scratch;

use crate::context::{Context, print, print_json};
use crate::failure::Failure;
use crate::text::Table;

/// Source of the program that both ranks run.
const SOURCE: &str = include_str!("../../../bench/rcce/measure.c");

/// Interface of its typed calls.
const INTERFACE: &str = include_str!("../../../interfaces/echo.tbl");

/// Measures RCCE between two ranks, beside a channel and typed calls
///
/// Two ranks of one program, on the host and a node, send messages back and forth in turn: by RCCE_send, by
/// RCCE_put with a flag (up to 4 KiB), over a channel between the same two processes, and by calls through
/// the stubs of an interface (up to 64 KiB). Figures are half of a round trip, medians over the rounds;
/// payload is written and read. Absolute times differ between machines; the ratio is the figure of
/// interest. MPI between the same nodes is measured by `tombolo bench mpi`.
///
/// The JSON has, for each of `rows`: on, bytes, send_ns, put_ns, channel_ns, stubs_ns, and exchange_ns of
/// both sending at once by iRCCE_isend.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench rcce                       two ranks on the host
  tombolo bench rcce --on host,arm0        the host itself, and across the window of arm0
  tombolo bench rcce --sizes 64,4096 --json | jq '.rows[] | .send_ns / .channel_ns'")]
pub(super) struct Options {
    /// The nodes of the second rank
    #[arg(long, value_name = "NODE,…", value_delimiter = ',', default_value = "host")]
    on: Vec<String>,

    /// The lengths of messages, in bytes
    #[arg(
        long,
        value_name = "BYTES,…",
        value_delimiter = ',',
        default_value = "8,64,512,4096,32768,262144,1048576"
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=16 << 20))]
    sizes: Vec<u32>,

    /// How often each has its turn
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// Time per turn, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    slice_ms: u32,

    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

#[derive(Serialize, Debug)]
struct Report {
    rounds: u32,
    slice_ms: u32,
    rows: Vec<Row>,
}

/// Half of a round trip of one length, in ns.
#[derive(Serialize, PartialEq, Debug)]
struct Row {
    on: String,
    bytes: u32,
    send_ns: Option<f64>,
    put_ns: Option<f64>,
    channel_ns: Option<f64>,
    /// Half of a call through the stubs of an interface.
    stubs_ns: Option<f64>,
    /// Exchange: both ranks send by iRCCE_isend and receive.
    exchange_ns: Option<f64>,
}

pub(super) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let Options { on, sizes, rounds, slice_ms, json } = options;
    let rows = measure(context, on, sizes, *rounds, *slice_ms, |all| all[all.len() / 2])?;
    let report = Report { rounds: *rounds, slice_ms: *slice_ms, rows };
    if *json { print_json(&report) } else { print(render(&report, context.colour)) }
}

/// Measures RCCE between two ranks of the host, for the report of another command: the fastest of all slices.
pub(super) fn measure_for_report(
    context: &Context,
    sizes: &[u32],
    rounds: u32,
    slice_ms: u32,
) -> Result<Vec<Rcce>, Failure> {
    let rows = measure(context, &["host".to_owned()], sizes, rounds, slice_ms, |all| all[0])?;
    let rcce = |row: Row| Rcce {
        bytes: row.bytes as usize,
        ping_pong_ns: row.send_ns,
        ping_ping_ns: row.exchange_ns,
    };
    Ok(rows.into_iter().map(rcce).collect())
}

fn measure(
    context: &Context,
    on: &[String],
    sizes: &[u32],
    rounds: u32,
    slice_ms: u32,
    choose: fn(&[f64]) -> f64,
) -> Result<Vec<Row>, Failure> {
    let scratch = Scratch::new()?;
    let image = scratch.path().join("measure.tbi");
    let mut words: Vec<OsString> = vec!["build".into(), "--isa".into(), targets(context, on)?.into()];
    for (name, text) in [("measure.c", SOURCE), ("echo.tbl", INTERFACE)] {
        let file = scratch.path().join(name);
        fs::write(&file, text).map_err(Failure::system(format!("write {}", file.display())))?;
        words.push(file.into());
    }
    tombolo(context, words.into_iter().chain(["-o".into(), image.clone().into()]))?;
    let mut rows = Vec::new();
    for on in on {
        context.info(format!("measuring RCCE between host and {on}"));
        let nodes = format!("host,{on}");
        let mut words: Vec<OsString> =
            ["run", "--no-label", "--no-input", "--on", &nodes].map(Into::into).into();
        words.push(image.clone().into());
        words.extend([slice_ms, rounds].iter().chain(sizes).map(|n| n.to_string().into()));
        let output = tombolo(context, words)?;
        rows.extend(rows_of(on, &String::from_utf8_lossy(&output.stdout), choose));
    }
    Ok(rows)
}

/// Returns the build targets for the host and these nodes.
fn targets(context: &Context, on: &[String]) -> Result<String, Failure> {
    let nodes = if on == ["host"] { Vec::new() } else { context.attach()?.nodes()? };
    let of_nodes = nodes.iter().filter(|node| on.contains(&node.name)).map(NodeInfo::target);
    let names: BTreeSet<_> = of_nodes.chain([Isa::current().into()]).map(|target| target.name()).collect();
    Ok(names.into_iter().collect::<Vec<_>>().join(","))
}

/// Runs the command `tombolo` on the same machine. Its error output becomes this command's failure.
fn tombolo(context: &Context, words: impl IntoIterator<Item = OsString>) -> Result<Output, Failure> {
    let mut command = Command::new(main_program_path()?);
    if let Some(machine) = &context.machine {
        command.args([OsStr::new("--machine"), OsStr::new(machine)]);
    }
    let output = command.args(words).output().map_err(Failure::system("run `tombolo`"))?;
    if output.status.success() {
        return Ok(output);
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let why = std::io::Error::other(message);
    Err(Failure::system("measure RCCE")(why))
}

/// Parses the rows of a run's output, in the order of lengths; `choose` selects a value from the sorted
/// slices of each figure.
fn rows_of(on: &str, output: &str, choose: fn(&[f64]) -> f64) -> Vec<Row> {
    let mut figures: BTreeMap<(u32, String), Vec<f64>> = BTreeMap::new();
    for line in output.lines() {
        let mut words = line.strip_prefix("figure ").into_iter().flat_map(|line| line.split(' '));
        if let (Some(name), Some(bytes), Some(ns)) = (words.next(), words.next(), words.next())
            && let (Ok(bytes), Ok(ns)) = (bytes.parse(), ns.parse())
        {
            figures.entry((bytes, name.to_owned())).or_default().push(ns);
        }
    }
    let mut figure = |bytes: u32, name: &str| {
        let mut all = figures.remove(&(bytes, name.to_owned()))?;
        all.sort_by(f64::total_cmp);
        Some(choose(&all))
    };
    let mut lengths: Vec<u32> =
        output.lines().filter_map(|line| line.split(' ').nth(2)?.parse().ok()).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let row = |bytes: u32| Row {
        on: on.to_owned(),
        bytes,
        send_ns: figure(bytes, "send"),
        put_ns: figure(bytes, "put"),
        channel_ns: figure(bytes, "channel"),
        stubs_ns: figure(bytes, "stubs"),
        exchange_ns: figure(bytes, "exchange"),
    };
    lengths.into_iter().map(row).collect()
}

fn render(report: &Report, colour: bool) -> String {
    let mut table = Table::new(&["NODES", "BYTES>", "SEND>", "PUT>", "CHANNEL>", "STUBS>", "SEND/CHANNEL>"]);
    let show = |ns: Option<f64>| ns.map_or(String::new(), |ns| format!("{:.2} us", ns / 1e3));
    for Row { on, bytes, send_ns, put_ns, channel_ns, stubs_ns, .. } in &report.rows {
        let ratio = send_ns
            .zip(*channel_ns)
            .map_or(String::new(), |(send, channel)| format!("{:.2}", send / channel));
        let nodes = format!("host-{on}");
        let [send, put, channel, stubs] = [send_ns, put_ns, channel_ns, stubs_ns].map(|ns| show(*ns));
        table.row([nodes, bytes.to_string(), send, put, channel, stubs, ratio]);
    }
    table.render(colour)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_become_medians() {
        let output = "figure send 64 30\nfigure send 64 10\nfigure send 64 20\nfigure channel 8 5\nnoise 3\nfigure put 64 x\n";
        let rows = rows_of("arm0", output, |all| all[all.len() / 2]);
        let row = |bytes, send_ns, channel_ns| Row {
            on: "arm0".to_owned(),
            bytes,
            send_ns,
            put_ns: None,
            channel_ns,
            stubs_ns: None,
            exchange_ns: None,
        };
        assert_eq!(rows, [row(8, None, Some(5.0)), row(64, Some(20.0), None)]);
        let text = render(&Report { rounds: 1, slice_ms: 1, rows }, false);
        assert!(text.contains("host-arm0") && text.contains("0.02 us"), "{text}");
    }
}
