//! Measures the cost of a link from one end of a channel over it, while the other end reflects the messages.

use std::time::Duration;

use tombolo_link::cost::{CostCurve, CostOrigin, LinkCost};
use tombolo_platform::time::now_ns;

use crate::contract::Transport;
use crate::error::ChannelError;
use crate::wait::{self, Spin};

/// Minimum length of a request: the length of the reply, 32 bits little-endian, followed by padding.
const REQUEST_BYTES: usize = 4;

/// Reply length that requests no reply and ends the measurement.
const END_OF_MEASUREMENT: u32 = u32::MAX;

/// Longest message used. Longer ones give no further information.
const MAX_PROBE_BYTES: usize = 64 * 1024;

/// Effort of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Round trips for each of three points, of which the median is used. At least 1.
    pub rounds: u32,
    /// Time limit for one round trip.
    pub timeout: Duration,
}

impl Default for Effort {
    /// Returns three times 200 round trips of at most one second each.
    fn default() -> Self {
        Effort { rounds: 200, timeout: Duration::from_secs(1) }
    }
}

/// Measures the link below `channel` while the peer [reflects](reflect).
///
/// A single clock cannot tell the two directions of a short round trip apart, so each is given half. Rates
/// are measured per direction.
///
/// # Errors
/// The end of the peer, or a round trip that exceeded the timeout.
pub fn measure<T: Transport>(channel: &mut T, effort: Effort) -> Result<LinkCost, ChannelError> {
    let long = channel.describe().max_message_bytes.clamp(REQUEST_BYTES, MAX_PROBE_BYTES);
    let short_ns = median_round_trip_ns(channel, effort, REQUEST_BYTES, REQUEST_BYTES)?;
    let long_out_ns = median_round_trip_ns(channel, effort, long, REQUEST_BYTES)?;
    let long_back_ns = median_round_trip_ns(channel, effort, REQUEST_BYTES, long)?;
    wait::send(channel, &mut Spin::default(), &END_OF_MEASUREMENT.to_le_bytes(), effort.timeout)?;
    let half_ns = short_ns / 2;
    let curve = |long_ns: u64| {
        let long_way_ns = half_ns + long_ns.saturating_sub(short_ns);
        CostCurve::from_points((REQUEST_BYTES as u64, half_ns), (long as u64, long_way_ns))
    };
    Ok(LinkCost { to_peer: curve(long_out_ns), from_peer: curve(long_back_ns), origin: CostOrigin::Measured })
}

/// Returns the median time of round trips with this many bytes in each direction, in nanoseconds.
fn median_round_trip_ns<T: Transport>(
    channel: &mut T,
    effort: Effort,
    out_bytes: usize,
    back_bytes: usize,
) -> Result<u64, ChannelError> {
    let mut request = vec![0; out_bytes];
    request[..REQUEST_BYTES].copy_from_slice(&(back_bytes as u32).to_le_bytes());
    let (mut spin, mut reply) = (Spin::default(), Vec::new());
    let mut times_ns = Vec::new();
    for _ in 0..effort.rounds.max(1) {
        let began_ns = now_ns();
        wait::send(channel, &mut spin, &request, effort.timeout)?;
        let length_bytes = wait::recv_into(channel, &mut spin, &mut reply, effort.timeout)?;
        times_ns.push(now_ns() - began_ns);
        if length_bytes != back_bytes {
            let what = format!("a measurement reply of {length_bytes} bytes instead of {back_bytes}");
            return Err(ChannelError::Violation(what));
        }
    }
    times_ns.sort_unstable();
    Ok(times_ns[times_ns.len() / 2])
}

/// Answers a peer that [measures](measure) until it has finished. Returns the number of replies.
///
/// # Errors
/// The end of the peer, no request within `timeout`, or a malformed request.
pub fn reflect<T: Transport>(channel: &mut T, timeout: Duration) -> Result<u64, ChannelError> {
    let (mut spin, mut request, mut replies) = (Spin::default(), Vec::new(), 0);
    let max_bytes = channel.describe().max_message_bytes;
    let reply = vec![0; max_bytes.min(MAX_PROBE_BYTES)];
    loop {
        wait::recv_into(channel, &mut spin, &mut request, timeout)?;
        let requested_bytes = request.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        let Some(requested_bytes) = requested_bytes else {
            return Err(ChannelError::Violation("a measurement request without a length".into()));
        };
        if requested_bytes == END_OF_MEASUREMENT {
            return Ok(replies);
        }
        let Some(reply) = reply.get(..requested_bytes as usize) else {
            return Err(ChannelError::Violation(format!(
                "a measurement request for {requested_bytes} bytes"
            )));
        };
        wait::send(channel, &mut spin, reply, timeout)?;
        replies += 1;
    }
}
