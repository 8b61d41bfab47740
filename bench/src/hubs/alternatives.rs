//! Alternatives that `tombolo bench hub` compares with hubs.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::mpsc;

use rustix::event::EventfdFlags;
use serde::Deserialize;

use super::{Bench, FIFO_BYTES, Role, Row, Times, finish};
use crate::suite::{Absent, Error, peers_program};

/// Peers measured by the program with the other peers.
const FOREIGN: [&str; 5] = ["POSIX semaphores", "POSIX message queue", "ZeroMQ", "NNG", "Go channels"];

/// Output of the program with the other peers.
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

/// Measures the mechanisms of this host without Tombolo.
pub(super) fn of_host(bench: &Bench<'_>) -> Result<Vec<Row>, Error> {
    let count = bench.options.count;
    let row = |what, place, bytes, times| Row::new(what, place, bytes, count, times).of_host();
    Ok(vec![
        row("semaphore loop", "kernel's semaphores", 0, semaphores(bench, count)?),
        row("there and back", "pipes", FIFO_BYTES, pipes(bench, count)?),
        row("port", "threads, std's channel", FIFO_BYTES, threads(0, count)?),
        row("fifo of 64", "threads, std's channel", FIFO_BYTES, threads(64, count)?),
    ])
}

/// Runs the program with the other peers, if it is installed beside this one; returns its rows and the peers
/// that were not measured.
pub(super) fn of_peers(count: u64) -> Result<(Vec<Row>, Vec<Absent>), Error> {
    let own = std::env::current_exe().map_err(Error::system("find this program"))?;
    let Some(program) = peers_program::beside(&own) else {
        return Ok((Vec::new(), FOREIGN.into_iter().map(peers_program::absent).collect()));
    };
    let mut command = Command::new(&program);
    let run =
        command.args(["hub", &count.to_string()]).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = run.map_err(Error::system(format!("run {}", program.display())))?;
    let measured: OfPeers = serde_json::from_slice(&output.stdout)
        .map_err(|error| Error::failed(format!("{}: no figures: {error}", program.display())))?;
    let row = |OfPeer { what, place, bytes, ns_each: mean_ns, p50_ns }| {
        Row::new(&what, &place, bytes, count, Times { mean_ns, p50_ns }).of_host()
    };
    Ok((measured.rows.into_iter().map(row).collect(), measured.absent))
}

/// Exchanges messages with another process of this program, with two descriptors as its input and output.
fn exchange_with_process(
    bench: &Bench<'_>,
    (input, output): (OwnedFd, OwnedFd),
    to: &mut impl Write,
    from: &mut impl Read,
    message: &mut [u8],
    count: u64,
) -> Result<Times, Error> {
    let role = Role::EchoStream { bytes: message.len(), count };
    let peer = bench.start(&role, input.into(), output.into())?;
    let time = exchange(to, from, message, count)?;
    finish(peer, &role)?;
    Ok(time)
}

fn semaphores(bench: &Bench<'_>, count: u64) -> Result<Times, Error> {
    let both = || -> std::io::Result<_> {
        let flags = EventfdFlags::SEMAPHORE | EventfdFlags::CLOEXEC;
        let (a, b) = (rustix::event::eventfd(0, flags)?, rustix::event::eventfd(0, flags)?);
        let theirs = (a.try_clone()?, b.try_clone()?);
        Ok((std::fs::File::from(a), std::fs::File::from(b), theirs))
    };
    let (mut a, mut b, theirs) = both().map_err(Error::system("use semaphores of the kernel"))?;
    exchange_with_process(bench, theirs, &mut a, &mut b, &mut 1_u64.to_ne_bytes(), count)
}

fn pipes(bench: &Bench<'_>, count: u64) -> Result<Times, Error> {
    let pair = || std::io::pipe().map_err(Error::system("create a pipe"));
    let ((their_input, mut to), (mut from, their_output)) = (pair()?, pair()?);
    let theirs = (their_input.into(), their_output.into());
    exchange_with_process(bench, theirs, &mut to, &mut from, &mut [7; FIFO_BYTES], count)
}

/// Writes and reads in alternation; the first round is not timed.
fn exchange(
    to: &mut impl Write,
    from: &mut impl Read,
    message: &mut [u8],
    count: u64,
) -> Result<Times, Error> {
    let mut once = || -> std::io::Result<()> {
        to.write_all(message)?;
        from.read_exact(message)
    };
    once().map_err(Error::system("exchange messages with the other process"))?;
    Times::of(count, once).map_err(Error::system("exchange messages with the other process"))
}

/// Echoes messages of this length from standard input to standard output.
pub(super) fn echo(bytes: usize, count: u64) -> Result<(), Error> {
    let mut message = vec![0; bytes];
    // Bypasses the buffers of the standard streams.
    let own = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().map(std::fs::File::from);
    let streams = || -> std::io::Result<_> {
        Ok((
            own(std::os::fd::AsFd::as_fd(&std::io::stdin()))?,
            own(std::os::fd::AsFd::as_fd(&std::io::stdout()))?,
        ))
    };
    let (mut input, mut output) = streams().map_err(Error::system("use the standard streams"))?;
    let mut all = || -> std::io::Result<()> {
        for _ in 0..=count {
            input.read_exact(&mut message)?;
            output.write_all(&message)?;
        }
        Ok(())
    };
    all().map_err(Error::system("exchange messages with the other process"))
}

/// Sends values from one thread to another.
fn threads(capacity: usize, count: u64) -> Result<Times, Error> {
    let (sender, receiver) = mpsc::sync_channel::<[u8; FIFO_BYTES]>(capacity);
    let failed = || Error::failed("the other thread of the measurement failed");
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
