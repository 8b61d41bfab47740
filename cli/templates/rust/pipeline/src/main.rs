//! Three domains pass buffers on without copying them: `tombolo run --on host,arm0,host @name@.tbi`

use std::error::Error;

use tombolo::{BulkChannel, Domain, Isa, Pool, PoolOptions};

const BUFFER_BYTES: usize = 64 << 10;
const BUFFERS: u64 = 4;
const ROUNDS: u64 = 200;

type Outcome = Result<(), Box<dyn Error>>;

fn main() {
    if let Err(error) = play() {
        eprintln!("@name@: {error}");
        std::process::exit(1);
    }
}

/// Runs this domain's rank.
fn play() -> Outcome {
    let domain = Domain::attach()?;
    let job = domain.job()?;
    match (job.rank(), job.size()) {
        (0, 3) => source(job.bulk_channel_to(1)?),
        (1, 3) => stage(&domain, job.bulk_channel_to(0)?, job.bulk_channel_to(2)?),
        (2, 3) => sink(job.bulk_channel_to(1)?),
        _ => Err("start three of me: tombolo run --on host,arm0,host @name@.tbi".into()),
    }
}

/// Rank 0 owns the pool: it fills free buffers and moves them on.
fn source(mut next: BulkChannel) -> Outcome {
    let pool = next.create_pool(&PoolOptions::new(BUFFER_BYTES as u64, BUFFERS as u32))?;
    for round in 0..ROUNDS {
        let mut buffer = next.take(&pool)?;
        buffer.write(0, &[round as u8; BUFFER_BYTES])?;
        next.move_to(buffer, &round.to_le_bytes())?;
    }
    // All buffers have returned, so all have been seen.
    let all = (0..BUFFERS).map(|_| next.take(&pool)).collect::<Result<Vec<_>, _>>()?;
    println!("{} buffers of {BUFFER_BYTES} bytes went round {ROUNDS} times", all.len());
    Ok(())
}

/// Rank 1 changes each buffer, moves it on, and passes back buffers that the sink has released.
fn stage(domain: &Domain, mut previous: BulkChannel, mut next: BulkChannel) -> Outcome {
    let pool = previous.recv_pool()?;
    next.assign(&pool)?;
    let (mut round, mut bytes, mut ahead) = (Vec::new(), vec![0; BUFFER_BYTES], 0);
    for number in 1..=ROUNDS {
        let mut buffer = previous.recv_moved(&mut round)?;
        // Others map the memory too, so it is accessed by read and write, without references.
        buffer.read(0, &mut bytes)?;
        bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_mul(2));
        buffer.write(0, &bytes)?;
        next.move_to(buffer, &round)?;
        ahead += 1;
        // At most half of the buffers may be ahead, so that the source has some to fill; in the end all
        // return.
        while ahead > if number == ROUNDS { 0 } else { BUFFERS / 2 } {
            pass_back(&mut previous, &mut next, &pool)?;
            ahead -= 1;
        }
    }
    println!("{} on {} doubled {ROUNDS} buffers", Isa::current(), domain.node_name());
    Ok(())
}

fn pass_back(previous: &mut BulkChannel, next: &mut BulkChannel, pool: &Pool) -> Outcome {
    let free = next.take(pool)?;
    previous.pass(free, &[])?;
    Ok(())
}

/// Rank 2 checks every buffer and passes it back.
fn sink(mut previous: BulkChannel) -> Outcome {
    let (mut round, mut bytes) = (Vec::new(), vec![0; BUFFER_BYTES]);
    for number in 0..ROUNDS {
        let buffer = previous.recv_moved(&mut round)?;
        buffer.read(0, &mut bytes)?;
        let expected = (number as u8).wrapping_mul(2);
        if round != number.to_le_bytes() || bytes.iter().any(|byte| *byte != expected) {
            return Err(format!("buffer {number} is not as it should be").into());
        }
        previous.pass(buffer, &[])?;
    }
    println!("{ROUNDS} buffers came by {} as they should be", previous.channel().peer_node());
    Ok(())
}
