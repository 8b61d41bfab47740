//! Operations of the leading side with a peer that [serves](super::peer::serve).

use std::time::{Duration, Instant};

use super::command::{self, Command};
use super::end::{End, STALL, recv_polling, send_polling};
use super::peer::{stream, take};
use crate::Error;

/// Streams messages of `N` bytes to the peer; returns when the peer has received and checked all of them.
///
/// # Errors
/// The channel fails, the peer stalls, or a message is lost.
pub fn stream_out<const N: usize>(ring: &mut impl End, slice: Duration) -> Result<(u64, Duration), Error> {
    let mut answer = Vec::with_capacity(64);
    ring.send(&Command::Take { bytes: N as u32 }.to_bytes(), STALL)?;
    let start = Instant::now();
    let sent = stream::<N>(ring, slice)?;
    send_polling(ring, &Command::Count.to_bytes())?;
    recv_polling(ring, &mut answer)?;
    let elapsed = start.elapsed();
    let received = command::parse_answer(&answer)?;
    if received == sent { Ok((sent, elapsed)) } else { Err(Error::Lost { sent, received }) }
}

/// Receives a stream from the peer, timed from its first message.
///
/// # Errors
/// As [`stream_out`].
pub fn stream_back<const N: usize>(ring: &mut impl End, slice: Duration) -> Result<(u64, Duration), Error> {
    let length_ns = u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX);
    let mut buffer = Vec::with_capacity(64);
    ring.send(&Command::Give { length_ns, bytes: N as u32 }.to_bytes(), STALL)?;
    let start = Instant::now();
    let received = take(ring, &mut buffer, N)?;
    let elapsed = start.elapsed();
    let sent = command::parse_answer(&buffer)?;
    if received == sent { Ok((sent, elapsed)) } else { Err(Error::Lost { sent, received }) }
}

/// Ends the peer and returns the time that it waited for a processor, in nanoseconds.
///
/// # Errors
/// The channel fails, or the peer stalls.
pub fn end_peer(ring: &mut impl End) -> Result<u64, Error> {
    let mut answer = Vec::with_capacity(64);
    ring.send(&Command::Bye.to_bytes(), STALL)?;
    ring.recv_into(&mut answer, STALL)?;
    command::parse_answer(&answer)
}
