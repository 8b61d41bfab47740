//! A message back and forth, also with a board: `tombolo run --on host,bare0 bare-pingpong.tbi`
//!
//! One source for all: on a board, `tombolo_bare` takes the place of `tombolo` and of what `std` has of a
//! system.
#![cfg_attr(target_os = "none", no_std, no_main)]

use core::error::Error;
#[cfg(not(target_os = "none"))]
use std::{process::ExitCode, time::Instant};

#[cfg(target_os = "none")]
use tombolo_bare::{self as tombolo, prelude::*, time::Instant};

use tombolo::{Channel, Domain, Isa};

const ROUNDS: u64 = 10_000;

#[cfg(target_os = "none")]
tombolo_bare::main!(play);

#[cfg(not(target_os = "none"))]
fn main() -> ExitCode {
    play().into()
}

/// Plays this domain's part; returns the exit status.
fn play() -> u8 {
    match play_rank() {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("bare-pingpong: {error}");
            1
        }
    }
}

fn play_rank() -> Result<(), Box<dyn Error>> {
    let domain = Domain::attach()?;
    let job = domain.job()?;
    match (job.rank(), job.size()) {
        (0, 2) => measure(&domain, job.channel_to(1)?),
        (1, 2) => return_all(job.channel_to(0)?),
        _ => Err("start two of me: tombolo run --on host,bare0 bare-pingpong.tbi".into()),
    }
}

/// Rank 0 sends each message when the one before has come back, and measures.
fn measure(domain: &Domain, mut channel: Channel) -> Result<(), Box<dyn Error>> {
    let (mut message, mut times_ns) = (Vec::new(), Vec::new());
    channel.recv_into(&mut message)?;
    let peer_isa = String::from_utf8(message.clone())?;
    for round in 0..ROUNDS {
        let start = Instant::now();
        channel.send(&round.to_le_bytes())?;
        channel.recv_into(&mut message)?;
        times_ns.push(start.elapsed().as_nanos());
        if message != round.to_le_bytes() {
            return Err(format!("round {round} came back as {message:?}").into());
        }
    }
    times_ns.sort_unstable();
    let (isa, node, peer_node) = (Isa::current(), domain.node_name(), channel.peer_node());
    let median_ns = times_ns[times_ns.len() / 2];
    println!("{isa} on {node} -> {peer_isa} on {peer_node}: {ROUNDS} round trips, median {median_ns} ns");
    Ok(())
}

/// Rank 1 says what it runs on, and returns every message until rank 0 closes the channel.
fn return_all(mut channel: Channel) -> Result<(), Box<dyn Error>> {
    let mut message = Isa::current().name().as_bytes().to_vec();
    loop {
        channel.send(&message)?;
        match channel.recv_into(&mut message) {
            Err(tombolo::Error::Closed { .. }) => return Ok(()),
            received => received?,
        };
    }
}
