//! A message back and forth, also with a board: `tombolo run --on host,bare0 bare-pingpong.tbi`
//!
//! One source for all: on a board, `tombolo_bare` takes the place of `tombolo` and of what `std` has of a system.
#![cfg_attr(target_os = "none", no_std, no_main)]

use core::error::Error;
use core::time::Duration;
#[cfg(not(target_os = "none"))]
use std::{env, process::ExitCode, time::Instant};

#[cfg(target_os = "none")]
use tombolo_bare::{self as tombolo, env, prelude::*, time::Instant};

use tombolo::{ChannelOptions, Domain, Isa};

const ROUNDS: u64 = 10_000;
const PATIENCE: Duration = Duration::from_secs(30);

#[cfg(target_os = "none")]
tombolo_bare::main!(play);

#[cfg(not(target_os = "none"))]
fn main() -> ExitCode {
    play().into()
}

/// Plays this domain's part; returns the exit status.
fn play() -> u8 {
    // What `tombolo run` tells each domain: its number, how many there are, a prefix for names of its own job.
    let [rank, size, job] = ["RANK", "SIZE", "JOB"].map(|it| env::var(format!("TOMBOLO_{it}")));
    let name = format!("{}/ping", job.unwrap_or_default());
    let result = match (rank.as_deref(), size.as_deref()) {
        (Ok("0"), Ok("2")) => measure(&name),
        (Ok("1"), Ok("2")) => return_all(&name),
        _ => Err("start two of me: tombolo run --on host,bare0 bare-pingpong.tbi".into()),
    };
    match result {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("bare-pingpong: {error}");
            1
        }
    }
}

/// Rank 0 takes up the name, waits for the other to connect, and measures.
fn measure(name: &str) -> Result<(), Box<dyn Error>> {
    let domain = Domain::attach()?;
    let mut channel = domain.export(name, &ChannelOptions::default())?.accept(PATIENCE)?;
    let (mut message, mut times_ns) = (Vec::new(), Vec::new());
    channel.recv_into(&mut message, PATIENCE)?;
    let peer_isa = String::from_utf8(message.clone())?;
    for round in 0..ROUNDS {
        let start = Instant::now();
        channel.send(&round.to_le_bytes(), PATIENCE)?;
        channel.recv_into(&mut message, PATIENCE)?;
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

/// Rank 1 connects, says what it runs on, and returns every message until rank 0 closes the channel.
fn return_all(name: &str) -> Result<(), Box<dyn Error>> {
    let mut channel = Domain::attach()?.connect(name, &ChannelOptions::default(), PATIENCE)?;
    let mut message = Isa::current().name().as_bytes().to_vec();
    loop {
        channel.send(&message, PATIENCE)?;
        match channel.recv_into(&mut message, PATIENCE) {
            Err(tombolo::Error::Closed { .. }) => return Ok(()),
            received => received?,
        };
    }
}
