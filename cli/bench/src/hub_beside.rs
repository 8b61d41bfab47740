//! What `tombolo bench hub` measures beside hubs.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::mpsc;

use rustix::event::EventfdFlags;
use serde::Deserialize;
use tombolo_bench::suite::Absent;

use crate::failure::Failure;
use crate::hub::{FIFO_BYTES, Row, Times, finish, row};
use crate::peers_program;

/// What the program with the other peers measures.
const FOREIGN: [&str; 5] = ["POSIX semaphores", "POSIX message queue", "ZeroMQ", "NNG", "Go channels"];

/// What the program with the other peers measured.
#[derive(Deserialize)]
struct OfPeers {
    rows: Vec<OfPeer>,
    absent: Vec<Absent>,
}

#[derive(Deserialize)]
struct OfPeer {
    what: String,
    #[serde(rename = "where")]
    place: String,
    bytes: usize,
    ns_each: f64,
    p50_ns: f64,
}

/// What this host has without Tombolo.
pub(super) fn beside(count: u64, rows: &mut Vec<Row>) -> Result<(), Failure> {
    rows.push(row("semaphore loop", "kernel's semaphores", 0, count, semaphores(count)?).of_host());
    rows.push(row("there and back", "pipes", FIFO_BYTES, count, pipes(count)?).of_host());
    let unbuffered = threads(0, count)?;
    rows.push(row("port", "threads, std's channel", FIFO_BYTES, count, unbuffered).of_host());
    let buffered = threads(64, count)?;
    rows.push(row("fifo of 64", "threads, std's channel", FIFO_BYTES, count, buffered).of_host());
    Ok(())
}

/// Measures by the program with the other peers, if it is beside this one; what was not measured.
pub(super) fn peers(count: u64, rows: &mut Vec<Row>) -> Result<Vec<Absent>, Failure> {
    let own = std::env::current_exe().map_err(Failure::system("find this program"))?;
    let Some(program) = peers_program::beside(&own) else {
        return Ok(FOREIGN.into_iter().map(peers_program::absent).collect());
    };
    let mut command = Command::new(&program);
    let run =
        command.args(["hub", &count.to_string()]).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = run.map_err(Failure::system(format!("run {}", program.display())))?;
    let measured: OfPeers = serde_json::from_slice(&output.stdout)
        .map_err(|error| Failure::Other(format!("{}: no figures: {error}", program.display()).into()))?;
    for OfPeer { what, place, bytes, ns_each: mean_ns, p50_ns } in measured.rows {
        rows.push(row(&what, &place, bytes, count, Times { mean_ns, p50_ns }).of_host());
    }
    Ok(measured.absent)
}

/// Starts this program again with two descriptors as its input and output.
fn start_beside(
    role: &str,
    count: u64,
    input: OwnedFd,
    output: OwnedFd,
) -> Result<std::process::Child, Failure> {
    let program = std::env::current_exe().map_err(Failure::system("find this program"))?;
    let mut command = Command::new(program);
    command.args(["bench", "hub", "--peer", role, "--count", &count.to_string()]);
    command.stdin(Stdio::from(input)).stdout(Stdio::from(output));
    command.spawn().map_err(Failure::system("start the other process"))
}

fn semaphores(count: u64) -> Result<Times, Failure> {
    let failed = Failure::system("use semaphores of the kernel");
    let both = || -> std::io::Result<_> {
        let flags = EventfdFlags::SEMAPHORE | EventfdFlags::CLOEXEC;
        let (a, b) = (rustix::event::eventfd(0, flags)?, rustix::event::eventfd(0, flags)?);
        let theirs = (a.try_clone()?, b.try_clone()?);
        Ok((std::fs::File::from(a), std::fs::File::from(b), theirs))
    };
    let (mut a, mut b, (input, output)) = both().map_err(failed)?;
    let peer = start_beside("eventfd", count, input, output)?;
    let time = exchange(&mut a, &mut b, &mut 1_u64.to_ne_bytes(), count)?;
    finish(peer, "semaphores of the kernel")?;
    Ok(time)
}

fn pipes(count: u64) -> Result<Times, Failure> {
    let pair = || std::io::pipe().map_err(Failure::system("create a pipe"));
    let ((their_input, mut to), (mut from, their_output)) = (pair()?, pair()?);
    let peer = start_beside("pipe", count, their_input.into(), their_output.into())?;
    let time = exchange(&mut to, &mut from, &mut [7; FIFO_BYTES], count)?;
    finish(peer, "pipes")?;
    Ok(time)
}

/// Writes and reads in turn, from the second time on.
fn exchange(
    to: &mut impl Write,
    from: &mut impl Read,
    message: &mut [u8],
    count: u64,
) -> Result<Times, Failure> {
    let mut once = || -> std::io::Result<()> {
        to.write_all(message)?;
        from.read_exact(message)
    };
    once().map_err(Failure::system("exchange messages with the other process"))?;
    Times::of(count, once).map_err(Failure::system("exchange messages with the other process"))
}

pub(super) fn echo_semaphores(count: u64) -> Result<(), Failure> {
    echo(&mut [0; 8], count)
}

pub(super) fn echo_pipe(count: u64) -> Result<(), Failure> {
    echo(&mut [0; FIFO_BYTES], count)
}

fn echo(message: &mut [u8], count: u64) -> Result<(), Failure> {
    // Without the buffers of the standard streams.
    let own = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().map(std::fs::File::from);
    let streams = || -> std::io::Result<_> {
        Ok((
            own(std::os::fd::AsFd::as_fd(&std::io::stdin()))?,
            own(std::os::fd::AsFd::as_fd(&std::io::stdout()))?,
        ))
    };
    let (mut input, mut output) = streams().map_err(Failure::system("use the standard streams"))?;
    let mut all = || -> std::io::Result<()> {
        for _ in 0..=count {
            input.read_exact(message)?;
            output.write_all(message)?;
        }
        Ok(())
    };
    all().map_err(Failure::system("exchange messages with the other process"))
}

/// Values from one thread to another.
fn threads(capacity: usize, count: u64) -> Result<Times, Failure> {
    let (sender, receiver) = mpsc::sync_channel::<[u8; FIFO_BYTES]>(capacity);
    let failed = || Failure::Other("the other thread of the measurement failed".into());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..=count {
                if sender.send([7; FIFO_BYTES]).is_err() {
                    return;
                }
            }
        });
        receiver.recv().map_err(|_| failed())?;
        Times::of(count, || receiver.recv().map(drop).map_err(|_| failed()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_between_threads_are_measured() {
        for capacity in [0, 64] {
            assert!(threads(capacity, 100).unwrap().mean_ns > 0.0);
        }
    }
}
