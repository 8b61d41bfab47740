//! Cost of tracing: a channel with counters and tracing compared with the same channel without.
//!
//! Both ends run on one thread, so only instructions are measured: no cache line moves between processors and
//! no thread waits. The variants alternate slice by slice, and each slice is compared with the plain one next
//! to it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::Serialize;
use tombolo_base::SharedMemory;
use tombolo_link::{ChannelConfig, Hello};
use tombolo_platform::clock::TimestampClock;
use tombolo_platform::{Deadline, OsError, socket};
use tombolo_trace::Shape;
use tombolo_trace::layout::control_on;
use tombolo_trace::page::{init_page, set_control};
use tombolo_transport::trace::{EventKind, NewEvent, Recorder};
use tombolo_transport::wrap::traced::{Traced, TracedEnd};
use tombolo_transport::{ChannelError, EndError, MemoryChannel, Transport, TransportExt, shm};

/// Messages per slice: enough for the clock resolution, few enough that most slices see no interrupt.
const MESSAGES: u32 = 2_000;

/// Timeout of the handshake between the two ends.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Error that prevented the measurement.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The channel under test failed.
    #[error("the channel that is measured: {0}")]
    Channel(#[from] ChannelError),
    /// A channel is full or closed.
    #[error(transparent)]
    End(#[from] EndError),
}

/// Costs in nanoseconds, as medians over all slices. A message counts as two operations, a send and a
/// receive.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Costs {
    /// Cost of a message on a channel without counters and tracing.
    pub plain_message_ns: f64,
    /// Overhead per operation of counters with tracing disabled.
    pub off_per_operation_ns: f64,
    /// Overhead per operation of enabled tracing.
    pub on_per_operation_ns: f64,
    /// Cost of recording one event, including its timestamp.
    pub event_ns: f64,
    /// Cost of taking a timestamp alone.
    pub stamp_ns: f64,
    /// Number of slices measured.
    pub slices: u32,
}

/// Creates both ends of a channel in this process.
fn pair() -> Result<(MemoryChannel, MemoryChannel), Error> {
    let (near, far) = socket::pair(socket::SocketKind::Stream)?;
    let hello = Hello::new(ChannelConfig::default(), 0, None);
    let deadline = Deadline::after(TIMEOUT);
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

/// Times one slice of calls and returns nanoseconds per call.
fn slice(mut call: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let start = Instant::now();
    for _ in 0..MESSAGES {
        call()?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e9 / f64::from(MESSAGES))
}

/// Sends one message from `near` and receives it at `far`.
#[inline(always)]
fn send_and_receive(
    near: &mut impl Transport,
    far: &mut impl Transport,
    buffer: &mut Vec<u8>,
) -> Result<(), Error> {
    near.try_send(black_box(&[7; 56]))?;
    black_box(far.try_recv_into(buffer)?);
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Measures `slices` slices of each variant.
///
/// # Errors
/// [`Error`].
pub fn measure(slices: u32) -> Result<Costs, Error> {
    let shape = Shape::default();
    let memory = SharedMemory::zeroed(shape.length_bytes());
    init_page(&memory, &shape);
    let recorder = Recorder::new(memory.clone(), 1, 0).unwrap_or_else(|_| Recorder::disabled());
    let (mut plain_near, mut plain_far) = pair()?;
    let [mut near, mut far] = traced(&recorder)?;
    let clock = TimestampClock::detect();
    let mut buffer = Vec::new();
    let (mut plain, mut off, mut on, mut event, mut stamp) = (vec![], vec![], vec![], vec![], vec![]);
    // Runs twice as many rounds as are counted: the first half is the warm-up.
    for round in 0..2 * slices {
        let plain_ns = slice(|| send_and_receive(&mut plain_near, &mut plain_far, &mut buffer))?;
        let off_ns = slice(|| send_and_receive(&mut near, &mut far, &mut buffer))?;
        set_control(&memory, control_on(round, false));
        let on_ns = slice(|| send_and_receive(&mut near, &mut far, &mut buffer))?;
        let event_ns = slice(|| {
            recorder.record(black_box(NewEvent::of(EventKind::Marker, 1, 1)));
            Ok(())
        })?;
        set_control(&memory, 0);
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
