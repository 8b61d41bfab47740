//! The far side of a measurement: executes the commands of the near side.

use std::time::{Duration, Instant};

use tombolo::channel::Either;
use tombolo::{Channel, Domain, TransportKind};

use super::PeerArguments;
use super::command::{self, COMMAND_BYTES, Command, LONG_BYTES, USUAL_BYTES};
use super::end::{End, Ends, recv_polling, send_polling};
use crate::content::Aligned;
use crate::lines::Lines;
use crate::{Error, Side, cpus, placement};

/// Timeout between two commands of the near side, which may be stopped or measure something else.
const IDLE: Duration = Duration::from_secs(60);

/// Timeout of opening a channel, for both sides: an emulated processor on a busy host is slow.
pub const OPEN: Duration = Duration::from_secs(30);

/// Number of streamed messages between two reads of the clock.
pub const MESSAGES_PER_CLOCK_READ: u64 = 64;

/// Returns the name of the channel whose two ends sleep.
#[must_use]
pub fn sleeper_name(name: &str) -> String {
    format!("{name}/sleeper")
}

/// Returns the name of the channel that the near side opens.
#[must_use]
pub fn back_name(name: &str) -> String {
    format!("{name}/back")
}

/// Returns whether the side that opens a channel creates its memory.
#[must_use]
pub fn opener_makes_memory(ring: &Channel) -> bool {
    ring.transport() == TransportKind::Shm
}

/// Opens the channels of a link to the program that started this one, and serves them until it closes.
///
/// # Errors
/// A channel cannot be opened or fails, or received data differs from what was sent.
pub fn run(arguments: &PeerArguments) -> Result<(), Error> {
    if let Some(cpu) = arguments.cpu {
        cpus::pin(cpu).map_err(|error| Error::Cpus { what: format!("stay on processor {cpu}"), error })?;
    }
    let domain = Domain::attach()?;
    let options = arguments.shape.options()?;
    let roomy = arguments.shape.roomy().options()?;
    let ring = options.connect(&domain.within(OPEN), &arguments.name)?;
    let raw =
        roomy.connect(&domain.within(OPEN), &arguments.name)?.into_raw_memory().and_then(Either::coherent);
    let wake = options.clone().spin_ns(0).connect(&domain.within(OPEN), sleeper_name(&arguments.name))?;
    let own = if opener_makes_memory(&ring) {
        options
            .export(&domain, &back_name(&arguments.name))?
            .within(OPEN)
            .accept()?
            .into_raw_memory()
            .and_then(Either::coherent)
    } else {
        None
    };
    serve(&mut Ends { ring, raw, own, wake })
}

/// Serves one side of a link until it is told to end.
///
/// # Errors
/// A channel fails, or received data differs from what was sent.
pub fn serve<E: End>(ends: &mut Ends<E>) -> Result<(), Error> {
    let mut buffer = Vec::with_capacity(64);
    let waited_before_ns = cpus::waited_ns();
    ends.ring.recv_into(&mut buffer, IDLE)?;
    loop {
        match Command::from_bytes(&buffer)? {
            // These return with the next command in the buffer.
            Command::Echo => {
                echo(&mut ends.ring, &mut buffer)?;
                continue;
            }
            Command::Take { bytes } => {
                let count = take(&mut ends.ring, &mut buffer, bytes as usize)?;
                if Command::from_bytes(&buffer)? != Command::Count {
                    return Err(Error::Unexpected { length_bytes: buffer.len() });
                }
                send_polling(&mut ends.ring, &command::answer(count))?;
            }
            Command::Count => return Err(Error::Unexpected { length_bytes: buffer.len() }),
            Command::Give { length_ns, bytes } => {
                let length = Duration::from_nanos(length_ns);
                match bytes as usize {
                    USUAL_BYTES => give::<USUAL_BYTES>(&mut ends.ring, length)?,
                    LONG_BYTES => give::<LONG_BYTES>(&mut ends.ring, length)?,
                    _ => return Err(Error::Unexpected { length_bytes: buffer.len() }),
                }
            }
            Command::Raw => {
                let raw = ends.raw.as_ref().ok_or(Error::Unexpected { length_bytes: buffer.len() })?;
                Lines::new(raw.memory.words())?.serve()?;
            }
            Command::Wake { rounds } => wake(&mut ends.wake, rounds)?,
            Command::Place { rings, rounds } => return_placed(ends, rings, rounds)?,
            Command::Bye => {
                let waited_ns =
                    cpus::waited_ns().zip(waited_before_ns).map_or(0, |(now, before)| now - before);
                ends.ring.send(&command::answer(waited_ns), IDLE)?;
                return Ok(());
            }
        }
        ends.ring.recv_into(&mut buffer, IDLE)?;
    }
}

/// Returns every message up to a command, which is left in `buffer`.
fn echo(ring: &mut impl End, buffer: &mut Vec<u8>) -> Result<(), Error> {
    while recv_polling(ring, buffer)? != COMMAND_BYTES {
        send_polling(ring, buffer)?;
    }
    Ok(())
}

/// Checks and counts messages of `bytes` bytes up to a command, which is left in `buffer`.
///
/// # Errors
/// The channel fails, or received data differs from what was sent.
pub fn take(ring: &mut impl End, buffer: &mut Vec<u8>, bytes: usize) -> Result<u64, Error> {
    let mut count = 0;
    while recv_polling(ring, buffer)? != COMMAND_BYTES {
        if !command::is_filled(buffer, bytes, count) {
            return Err(Error::Corrupt { message: count });
        }
        count += 1;
    }
    Ok(count)
}

/// Sends a stream for `length`, then its number of messages.
fn give<const N: usize>(ring: &mut impl End, length: Duration) -> Result<(), Error> {
    let count = stream::<N>(ring, length)?;
    send_polling(ring, &command::answer(count))
}

/// Sends messages of `N` bytes one by one for `length` and returns their number.
///
/// # Errors
/// The channel fails.
pub fn stream<const N: usize>(ring: &mut impl End, length: Duration) -> Result<u64, Error> {
    let mut message = Aligned([0; N]);
    let mut count = 0_u64;
    let start = Instant::now();
    // Sends at least some: on a busy host, a short time may be over before this program runs.
    while count == 0 || !count.is_multiple_of(MESSAGES_PER_CLOCK_READ) || start.elapsed() < length {
        command::fill(&mut message.0, count);
        send_polling(ring, &message.0)?;
        count += 1;
    }
    Ok(count)
}

/// Returns messages over rings with the placement chosen by the near side.
fn return_placed<E: End>(ends: &mut Ends<E>, rings: u64, rounds: u64) -> Result<(), Error> {
    let mut end = placement::end(ends, Side::Far, rings)?;
    send_polling(&mut ends.ring, &command::answer(0))?;
    placement::serve(&mut end, rounds)
}

/// Returns `rounds` messages, sleeping for each.
fn wake(end: &mut impl End, rounds: u64) -> Result<(), Error> {
    let mut buffer = Vec::with_capacity(64);
    for _ in 0..rounds {
        end.recv_into(&mut buffer, IDLE)?;
        end.send(&buffer, IDLE)?;
    }
    Ok(())
}
