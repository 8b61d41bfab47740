//! Device service of a node: network cards and disks across the machine. `tombolo net` and `tombolo block`
//! start it:
//!
//! ```text
//! tombolo-devices switch NAME DEVICE ADDRESS/PREFIX|- MTU    a card of this node, and the network's switch
//! tombolo-devices port NAME DEVICE ADDRESS/PREFIX|- MTU      a card of this node, on that network
//! tombolo-devices serve NAME FILE rw|ro BYTES|-              serves a file or disk of this node
//! tombolo-devices attach NAME TIMEOUT_S device PATH|-        provides it as a disk of this node
//! tombolo-devices attach NAME TIMEOUT_S socket PATH          serves it by the NBD protocol on a socket
//! ```
//!
//! Each prints a line `ready: …` when it is ready, and a line for each later change.

mod block;
mod failure;
mod net;
mod queue;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use failure::Failure;
use tombolo::Domain;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<(), Failure> {
    let domain = Domain::attach()?;
    match words {
        [role @ ("switch" | "port"), name, device, address, mtu] => {
            let card = net::Card::create(device, address, parse("MTU", mtu)?, domain.node_name())?;
            if *role == "switch" { net::switch(&domain, name, card) } else { net::port(&domain, name, card) }
        }
        ["serve", name, file, mode, bytes] => {
            let create_bytes = if *bytes == "-" { None } else { Some(parse("size", bytes)?) };
            let disk = block::Disk::open(file.as_ref(), *mode == "ro", create_bytes)?;
            block::serve(&domain, name, &disk.into())
        }
        ["attach", name, timeout_s, front @ ("device" | "socket"), place] => {
            let timeout = Duration::from_secs(parse("timeout", timeout_s)?);
            let front = match (*front, *place) {
                ("device", "-") => block::AttachTarget::FreeDevice,
                ("device", path) => block::AttachTarget::Device(path.into()),
                (_, path) => block::AttachTarget::Socket(path.to_owned()),
            };
            block::attach(&domain, name, timeout, &front)
        }
        _ => {
            Err(Failure::Usage(format!("invalid arguments {words:?}; use `tombolo net` or `tombolo block`")))
        }
    }
}

fn parse<T: std::str::FromStr>(what: &str, word: &str) -> Result<T, Failure> {
    word.parse().map_err(|_| Failure::Usage(format!("invalid {what} '{word}'; give a number")))
}

/// Prints a status line for the command that started this process.
fn print_status(line: &str) {
    // The devices keep running if the output has no reader.
    let _ = writeln!(std::io::stdout(), "{line}");
}
