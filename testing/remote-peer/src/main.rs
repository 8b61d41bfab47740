//! The remote peer of a channel under test. `remote-peer serve PREFIX COUNT` connects to `PREFIX/0` and so
//! on, and executes the orders of each control channel on a channel of its own; `remote-peer play NAME ROLE
//! SLOT_BYTES SLOTS USED_FLAG HASH` accepts one channel and sends, receives or idles until it is killed;
//! `remote-peer regions NAME` accepts one channel and maps regions by order.
#![cfg_attr(target_os = "none", no_std, no_main)]

mod place;
mod play;
mod regions;
mod station;

use core::error::Error;
use core::time::Duration;
#[cfg(not(target_os = "none"))]
use std::{env, process::ExitCode, time::Instant};

#[cfg(target_os = "none")]
use tombolo_bare::{self as tombolo, env, prelude::*, time::Instant};

use tombolo::Domain;
use tombolo_remote_peer::control_config;

use station::PeerStation;

/// Timeout of operations that are expected to succeed.
const TIMEOUT: Duration = Duration::from_secs(100);

/// Time to poll for orders before sleeping.
const SPIN: Duration = Duration::from_micros(50);

/// Error message for wrong arguments.
const USAGE: &str =
    "remote-peer serve PREFIX COUNT, play NAME ROLE SLOT_BYTES SLOTS USED_FLAG HASH, or regions NAME";

type Outcome<T> = Result<T, Box<dyn Error>>;

#[cfg(target_os = "none")]
tombolo_bare::main!(begin);

#[cfg(not(target_os = "none"))]
fn main() -> ExitCode {
    begin().into()
}

fn begin() -> u8 {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["serve", prefix, count] => serve(prefix, count),
        ["play", name, role, shape @ ..] => play::play(name, role, shape),
        ["regions", name] => regions::follow(name),
        _ => Err(USAGE.into()),
    };
    match outcome {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("remote-peer: {error}");
            1
        }
    }
}

/// Executes orders until the suite closes the control channels.
fn serve(prefix: &str, count: &str) -> Outcome<()> {
    let domain = Domain::attach()?.with_timeout(TIMEOUT);
    let mut stations = Vec::new();
    for number in 0..count.parse::<u32>()? {
        let name = format!("{prefix}/{number}");
        let control = place::options(control_config(), 0)?.connect(&domain, &name)?;
        stations.push(PeerStation::new(control));
    }
    let mut last_order = Instant::now();
    loop {
        let mut ordered = false;
        for station in &mut stations {
            match station.serve(&domain)? {
                station::PollResult::Orders => ordered = true,
                station::PollResult::Nothing => {}
                station::PollResult::End => return Ok(()),
            }
        }
        if ordered {
            last_order = Instant::now();
        } else if last_order.elapsed() > SPIN {
            place::sleep(&domain, &mut stations)?;
            stations.iter_mut().try_for_each(PeerStation::report_rung)?;
        }
    }
}
