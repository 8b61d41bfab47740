//! Two domains send a message back and forth: `tombolo run --on host,arm0 pingpong.tbi`

use std::error::Error;
use std::time::Instant;

use tombolo::{Channel, Domain, Isa};

const ROUNDS: u64 = 10_000;

fn main() {
    if let Err(error) = play() {
        eprintln!("pingpong: {error}");
        std::process::exit(1);
    }
}

/// Runs this domain's rank.
fn play() -> Result<(), Box<dyn Error>> {
    let domain = Domain::attach()?;
    let job = domain.job()?;
    match (job.rank(), job.size()) {
        (0, 2) => measure(&domain, job.channel_to(1)?),
        (1, 2) => return_all(job.channel_to(0)?),
        _ => Err("start two of me: tombolo run --on host,arm0 pingpong.tbi".into()),
    }
}

/// Rank 0 sends each message after the previous one has returned, and measures the time.
fn measure(domain: &Domain, mut channel: Channel) -> Result<(), Box<dyn Error>> {
    let (mut message, mut times_us) = (Vec::new(), Vec::new());
    channel.recv_into(&mut message)?;
    let peer_isa = String::from_utf8(message.clone())?;
    for round in 0..ROUNDS {
        let start = Instant::now();
        channel.send(&round.to_le_bytes())?;
        channel.recv_into(&mut message)?;
        times_us.push(start.elapsed().as_secs_f64() * 1e6);
        assert_eq!(message, round.to_le_bytes());
    }
    times_us.sort_by(f64::total_cmp);
    let (isa, node, peer_node) = (Isa::current(), domain.node_name(), channel.peer_node());
    let median_us = times_us[times_us.len() / 2];
    println!("{isa} on {node} -> {peer_isa} on {peer_node}: {ROUNDS} round trips, median {median_us:.2} us");
    Ok(())
}

/// Rank 1 reports its platform, and returns every message until rank 0 closes the channel.
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
