//! Messages of random sizes and contents in both directions, with every byte checked.

use std::time::{Duration, Instant};

use tombolo::{Channel, ChannelOptions, Error};
use tombolo_base::Random;

use crate::{Outcome, PATIENCE};

/// Fills `buffer` with message `number` of rank `from`.
pub(crate) fn message(from: u64, number: u64, max_bytes: usize, buffer: &mut Vec<u8>) {
    let mut random = Random::new(from << 32 | number);
    // Mostly short; one in a hundred up to the maximum length.
    let limit = match random.word() % 100 {
        0 => max_bytes as u64,
        1..10 => 2000,
        _ => 130,
    };
    let length = if number == 7 { max_bytes } else { (random.word() % (limit + 1)) as usize };
    buffer.clear();
    while buffer.len() < length {
        buffer.extend_from_slice(&random.word().to_le_bytes());
    }
    buffer.truncate(length);
}

/// Opens two channels between ranks 0 and 1, one in each direction, and exchanges messages over both.
pub(crate) fn run(count: &str) -> Outcome {
    let count: u64 = count.parse()?;
    let rank: u64 = std::env::var("TOMBOLO_RANK")?.parse()?;
    let job = std::env::var("TOMBOLO_JOB")?;
    let domain = crate::attach()?;
    let options = ChannelOptions::default();
    for exporter in [0, 1] {
        let name = format!("{job}/exchange-{exporter}");
        let mut channel = if rank == exporter {
            options.export(&domain, &name)?.accept()?
        } else {
            options.connect(&domain, &name)?
        };
        exchange(&mut channel, rank, count)?;
        finish(channel, rank)?;
    }
    println!("rank {rank} exchanged {count} messages twice, each way");
    Ok(())
}

fn exchange(channel: &mut Channel, rank: u64, count: u64) -> Outcome {
    let until = Instant::now() + PATIENCE;
    let max_bytes = channel.max_message_bytes();
    let (mut sent, mut received) = (0, 0);
    let (mut outgoing, mut incoming, mut expected) = (Vec::new(), Vec::new(), Vec::new());
    message(rank, sent, max_bytes, &mut outgoing);
    while sent < count || received < count {
        if Instant::now() > until {
            return Err(format!("after {sent} sent and {received} received: too late").into());
        }
        let mut idle = true;
        while sent < count {
            match channel.try_send(&outgoing) {
                Ok(()) => {}
                Err(Error::WouldBlock) => break,
                Err(error) => return Err(error.into()),
            }
            (idle, sent) = (false, sent + 1);
            message(rank, sent, max_bytes, &mut outgoing);
        }
        let pause = if idle { Duration::from_millis(50) } else { Duration::ZERO };
        while received < count {
            let got = if idle {
                idle = false;
                channel.within(pause).recv_into(&mut incoming)
            } else {
                channel.try_recv_into(&mut incoming).and_then(|got| got.ok_or(Error::WouldBlock))
            };
            match got {
                Ok(_) => {}
                Err(Error::WouldBlock | Error::TimedOut { .. }) => break,
                Err(error) => return Err(error.into()),
            }
            message(1 - rank, received, max_bytes, &mut expected);
            if incoming != expected {
                return Err(format!("message {received} is not what was sent").into());
            }
            received += 1;
        }
        if received == count && sent < count {
            channel.send(&outgoing)?;
            sent += 1;
            message(rank, sent, max_bytes, &mut outgoing);
        }
    }
    Ok(())
}

/// Checks that all messages arrive before the end of the channel: one side sends a last message and closes.
fn finish(mut channel: Channel, rank: u64) -> Outcome {
    if rank == 0 {
        channel.send(b"the last word")?;
        return Ok(());
    }
    let mut last = Vec::new();
    channel.recv_into(&mut last)?;
    if last != b"the last word" {
        return Err(format!("another last word: {last:?}").into());
    }
    match channel.recv_into(&mut last) {
        Err(Error::Closed { .. }) => Ok(()),
        other => Err(format!("in place of the end: {other:?}").into()),
    }
}
