//! Two domains send a message back and forth: `tombolo run --on host,arm0 @name@.tbi`

use std::error::Error;
use std::time::{Duration, Instant};

use tombolo::{ChannelOptions, Domain, Isa};

const ROUNDS: u64 = 10_000;
const PATIENCE: Duration = Duration::from_secs(30);

fn main() {
    // What `tombolo run` tells each domain: its number, how many there are, a prefix for names of its own job.
    let [rank, size, job] = ["RANK", "SIZE", "JOB"].map(|it| std::env::var(format!("TOMBOLO_{it}")));
    let name = format!("{}/ping", job.unwrap_or_default());
    let result = match (rank.as_deref(), size.as_deref()) {
        (Ok("0"), Ok("2")) => measure(&name),
        (Ok("1"), Ok("2")) => return_all(&name),
        _ => Err("start two of me: tombolo run --on host,arm0 @name@.tbi".into()),
    };
    if let Err(error) = result {
        eprintln!("@name@: {error}");
        std::process::exit(1);
    }
}

/// Rank 0 takes up the name, waits for the other to connect, and measures.
fn measure(name: &str) -> Result<(), Box<dyn Error>> {
    let domain = Domain::attach()?;
    let mut channel = domain.export(name, &ChannelOptions::default())?.accept(PATIENCE)?;
    let (mut message, mut times_us) = (Vec::new(), Vec::new());
    channel.recv_into(&mut message, PATIENCE)?;
    let peer_isa = String::from_utf8(message.clone())?;
    for round in 0..ROUNDS {
        let start = Instant::now();
        channel.send(&round.to_le_bytes(), PATIENCE)?;
        channel.recv_into(&mut message, PATIENCE)?;
        times_us.push(start.elapsed().as_secs_f64() * 1e6);
        assert_eq!(message, round.to_le_bytes());
    }
    times_us.sort_by(f64::total_cmp);
    let (isa, node, peer_node) = (Isa::current(), domain.node_name(), channel.peer_node());
    let median_us = times_us[times_us.len() / 2];
    println!("{isa} on {node} -> {peer_isa} on {peer_node}: {ROUNDS} round trips, median {median_us:.2} us");
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
