//! The far side of `tombolo bench ring`, `bench bulk` and `bench devices`: started by them on the node that
//! they measure.
#![forbid(unsafe_code)]

use std::fmt::Display;
use std::process::ExitCode;
use std::time::Duration;

use tombolo_bench_far::ring::{PeerArguments, peer};
use tombolo_bench_far::{Side, bulk, devices, figures, network, placing};
use tombolo_platform::guest::init::is_init;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if is_init() && arguments.is_empty() {
        // Process 1 of a virtual machine that `tombolo bench bulk` started for its network only.
        return ended(network::run_as_init());
    }
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["figures", words @ ..] => return ended(figures::run(words)),
        ["disk", path, ms] => return ended(devices::disk(path, time(ms))),
        ["network", address, ms] => return ended(devices::network(address, time(ms))),
        ["bulk", name] => return ended(bulk::peer::run(name)),
        ["bulk-pair", name, pair] => return ended(bulk::peer::run_of_pair(name, pair, None)),
        ["placement", "near", name, pair, windows @ ..] => {
            return ended(placing::run(Side::Near, name, pair, windows));
        }
        ["placement", "far", name, pair, windows @ ..] => {
            return ended(placing::run(Side::Far, name, pair, windows));
        }
        ["bulk-pair", name, pair, makes] => return ended(bulk::peer::run_of_pair(name, pair, Some(makes))),
        _ => {}
    }
    let arguments = match PeerArguments::parse(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("bench-peer: {error}");
            return ExitCode::from(2);
        }
    };
    ended(peer::run(&arguments))
}

/// Parses the duration of a measurement, in milliseconds.
fn time(ms: &str) -> Duration {
    Duration::from_millis(ms.parse().unwrap_or(1000))
}

fn ended(result: Result<(), impl Display>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-peer: {error}");
            ExitCode::FAILURE
        }
    }
}
