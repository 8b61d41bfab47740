//! What tracing costs: a channel with counters and tracing beside the same channel without.
//!
//! Both ends are in one thread, so that only instructions are measured: no cache line travels and no thread
//! waits. The variants take turns, slice by slice, and each slice is compared with the plain one beside it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::Serialize;
use tombolo_base::SharedMemory;
use tombolo_link::{ChannelConfig, Hello};
use tombolo_platform::clock::StampClock;
use tombolo_platform::{Deadline, OsError, socket};
use tombolo_trace::Shape;
use tombolo_trace::layout::control_on;
use tombolo_trace::page::{control, format};
use tombolo_transport::trace::{EventKind, NewEvent, Recorder};
use tombolo_transport::wrap::traced::{Traced, TracedEnd};
use tombolo_transport::{ChannelError, EndError, MemoryChannel, Transport, TransportExt, shm};

/// Messages of a slice: long enough for the clock, short enough for most slices to run without an interrupt.
const MESSAGES: u32 = 2_000;

/// How long the two ends may take to shake hands.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused something.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The channel does not work.
    #[error("the channel that is measured: {0}")]
    Channel(#[from] ChannelError),
    /// A channel has no room, or has ended.
    #[error(transparent)]
    End(#[from] EndError),
}

/// What things cost, in nanoseconds: medians over all slices. A message is sent and received, which is two
/// operations.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Costs {
    /// A message over a channel without counters and tracing.
    pub plain_message_ns: f64,
    /// What counters and tracing that is off add to each operation.
    pub off_per_operation_ns: f64,
    /// What tracing that is on adds to each operation.
    pub on_per_operation_ns: f64,
    /// An event alone, with its stamp.
    pub event_ns: f64,
    /// A stamp alone.
    pub stamp_ns: f64,
    /// How many slices there were.
    pub slices: u32,
}

/// Two ends in one process.
fn pair() -> Result<(MemoryChannel, MemoryChannel), Error> {
    let (near, far) = socket::pair(socket::SocketKind::Stream)?;
    let hello = Hello::new(ChannelConfig::default(), 0, None);
    let deadline = Deadline::after(PATIENCE);
    let (connected, accepted) = std::thread::scope(|scope| {
        let connecting = scope.spawn(|| shm::connect(near, hello, deadline));
        let accepted = shm::accept(far, hello, deadline);
        (connecting.join(), accepted)
    });
    let connected = connected.unwrap_or(Err(ChannelError::PeerDied))?;
    Ok((connected, accepted?))
}

fn traced(recorder: &std::sync::Arc<Recorder>) -> Result<[Traced<MemoryChannel>; 2], Error> {
    let (near, far) = pair()?;
    let end = |accepting| TracedEnd { channel: 1, accepting, peer: 1 };
    Ok([Traced::new(near, recorder, end(false)), Traced::new(far, recorder, end(true))])
}

/// Nanoseconds for each of as many calls as a slice has messages.
fn slice(mut call: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let start = Instant::now();
    for _ in 0..MESSAGES {
        call()?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e9 / f64::from(MESSAGES))
}

/// One message from `near` to `far`.
#[inline(always)]
fn carry(near: &mut impl Transport, far: &mut impl Transport, buffer: &mut Vec<u8>) -> Result<(), Error> {
    near.try_send(black_box(&[7; 56]))?;
    black_box(far.try_recv_into(buffer)?);
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Measures, `slices` times each.
///
/// # Errors
/// [`Error`].
pub fn measure(slices: u32) -> Result<Costs, Error> {
    let shape = Shape::default();
    let memory = SharedMemory::zeroed(shape.length_bytes());
    format(&memory, &shape);
    let recorder = Recorder::new(memory.clone(), 1, 0).unwrap_or_else(|_| Recorder::none());
    let (mut plain_near, mut plain_far) = pair()?;
    let [mut near, mut far] = traced(&recorder)?;
    let clock = StampClock::detect();
    let mut buffer = Vec::new();
    let (mut plain, mut off, mut on, mut event, mut stamp) = (vec![], vec![], vec![], vec![], vec![]);
    // Twice as often as counted: the first half warms up what has to be.
    for round in 0..2 * slices {
        let plain_ns = slice(|| carry(&mut plain_near, &mut plain_far, &mut buffer))?;
        let off_ns = slice(|| carry(&mut near, &mut far, &mut buffer))?;
        control(&memory, control_on(round, false));
        let on_ns = slice(|| carry(&mut near, &mut far, &mut buffer))?;
        let event_ns = slice(|| {
            recorder.record(black_box(NewEvent::of(EventKind::Marker, 1, 1)));
            Ok(())
        })?;
        control(&memory, 0);
        let stamp_ns = slice(|| {
            black_box(clock.ticks());
            Ok(())
        })?;
        if round >= slices {
            plain.push(plain_ns);
            off.push((off_ns - plain_ns) / 2.0);
            on.push((on_ns - plain_ns) / 2.0);
            event.push(event_ns);
            stamp.push(stamp_ns);
        }
    }
    Ok(Costs {
        plain_message_ns: median(plain),
        off_per_operation_ns: median(off),
        on_per_operation_ns: median(on),
        event_ns: median(event),
        stamp_ns: median(stamp),
        slices,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_measured() {
        let costs = measure(3).unwrap();
        assert!(costs.plain_message_ns > 0.0 && costs.event_ns > 0.0 && costs.stamp_ns > 0.0, "{costs:?}");
        assert_eq!(costs.slices, 3);
    }
}
