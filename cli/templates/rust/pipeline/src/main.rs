//! Buffers go through three domains, and none of them is copied: `tombolo run --on host,arm0,host @name@.tbi`

use std::error::Error;
use std::time::Duration;

use tombolo::{BulkChannel, BulkOptions, Domain, Isa, Pool, PoolOptions};

const BUFFER_BYTES: usize = 64 << 10;
const BUFFERS: u64 = 4;
const ROUNDS: u64 = 200;
const PATIENCE: Duration = Duration::from_secs(30);

type Outcome = Result<(), Box<dyn Error>>;

fn main() {
    // What `tombolo run` tells each domain: its number, how many there are, a prefix for names of its own job.
    let [rank, size, job] = ["RANK", "SIZE", "JOB"].map(|it| std::env::var(format!("TOMBOLO_{it}")));
    let job = job.unwrap_or_default();
    let result = match (rank.as_deref(), size.as_deref()) {
        (Ok("0"), Ok("3")) => source(&job),
        (Ok("1"), Ok("3")) => stage(&job),
        (Ok("2"), Ok("3")) => sink(&job),
        _ => Err("start three of me: tombolo run --on host,arm0,host @name@.tbi".into()),
    };
    if let Err(error) = result {
        eprintln!("@name@: {error}");
        std::process::exit(1);
    }
}

/// Rank 0 has the buffers: it fills what is free and moves it on.
fn source(job: &str) -> Outcome {
    let domain = Domain::attach()?;
    let mut next = domain.connect_bulk(&format!("{job}/stage"), &BulkOptions::default(), PATIENCE)?;
    let pool = domain.create_pool(&pool_for(&domain, next.channel().peer_node())?)?;
    next.assign(&pool, PATIENCE)?;
    for round in 0..ROUNDS {
        let mut buffer = next.take(&pool, PATIENCE)?;
        buffer.write(0, &[round as u8; BUFFER_BYTES])?;
        next.move_to(buffer, &round.to_le_bytes(), PATIENCE).map_err(tombolo::Error::from)?;
    }
    // When all buffers are back, all have been seen.
    let all = (0..BUFFERS).map(|_| next.take(&pool, PATIENCE)).collect::<Result<Vec<_>, _>>()?;
    println!("{} buffers of {BUFFER_BYTES} bytes went round {ROUNDS} times", all.len());
    Ok(())
}

/// A pool in memory that both nodes reach: where one of them is a virtual machine, in the window to it.
fn pool_for(domain: &Domain, peer_node: &str) -> Result<PoolOptions, tombolo::Error> {
    let options = PoolOptions::new(BUFFER_BYTES as u64, BUFFERS as u32);
    let nodes = domain.nodes()?;
    let is_vm = |name: &&str| nodes.iter().any(|node| node.name == **name && node.kind == "vm");
    Ok(match [domain.node_name(), peer_node].iter().find(|name| is_vm(name)) {
        Some(node) => options.reachable_from(node),
        None => options,
    })
}

/// Rank 1 changes each buffer, moves it on, and passes back what the sink is done with.
fn stage(job: &str) -> Outcome {
    let domain = Domain::attach()?;
    let listener = domain.export_bulk(&format!("{job}/stage"), &BulkOptions::default())?;
    let mut previous = listener.accept_bulk(&BulkOptions::default(), PATIENCE)?;
    let pool = previous.recv_pool(PATIENCE)?;
    let mut next = domain.connect_bulk(&format!("{job}/sink"), &BulkOptions::default(), PATIENCE)?;
    next.assign(&pool, PATIENCE)?;
    let (mut round, mut bytes, mut ahead) = (Vec::new(), vec![0; BUFFER_BYTES], 0);
    for number in 1..=ROUNDS {
        let mut buffer = previous.recv_moved(&mut round, PATIENCE)?;
        // Others map the memory too, so that it is read and written, and no reference to it is given out.
        buffer.read(0, &mut bytes)?;
        bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_mul(2));
        buffer.write(0, &bytes)?;
        next.move_to(buffer, &round, PATIENCE).map_err(tombolo::Error::from)?;
        ahead += 1;
        // Half of the buffers may be ahead, so that the source has some to fill; in the end all come back.
        while ahead > if number == ROUNDS { 0 } else { BUFFERS / 2 } {
            pass_back(&mut previous, &mut next, &pool)?;
            ahead -= 1;
        }
    }
    println!("{} on {} doubled {ROUNDS} buffers", Isa::current(), domain.node_name());
    Ok(())
}

fn pass_back(previous: &mut BulkChannel, next: &mut BulkChannel, pool: &Pool) -> Outcome {
    let free = next.take(pool, PATIENCE)?;
    Ok(previous.pass(free, &[], PATIENCE).map_err(tombolo::Error::from)?)
}

/// Rank 2 looks at every buffer and passes it back.
fn sink(job: &str) -> Outcome {
    let domain = Domain::attach()?;
    let listener = domain.export_bulk(&format!("{job}/sink"), &BulkOptions::default())?;
    let mut previous = listener.accept_bulk(&BulkOptions::default(), PATIENCE)?;
    let (mut round, mut bytes) = (Vec::new(), vec![0; BUFFER_BYTES]);
    for number in 0..ROUNDS {
        let buffer = previous.recv_moved(&mut round, PATIENCE)?;
        buffer.read(0, &mut bytes)?;
        let expected = (number as u8).wrapping_mul(2);
        if round != number.to_le_bytes() || bytes.iter().any(|byte| *byte != expected) {
            return Err(format!("buffer {number} is not as it should be").into());
        }
        previous.pass(buffer, &[], PATIENCE).map_err(tombolo::Error::from)?;
    }
    println!("{ROUNDS} buffers came by {} as they should be", previous.channel().peer_node());
    Ok(())
}
