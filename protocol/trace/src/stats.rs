//! Statistics of a timeline: messages and latencies in each direction of a channel.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::event::EventKind;
use crate::merge::Timeline;

/// Statistics of one direction of a channel.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Direction {
    /// Index of the sender in the recording, if it was recorded.
    pub sender: Option<u32>,
    /// Index of the receiver in the recording, if it was recorded.
    pub receiver: Option<u32>,
    /// Messages sent during the recording.
    pub sent: u64,
    /// Bytes of the messages sent.
    pub sent_bytes: u64,
    /// Messages received during the recording.
    pub received: u64,
    /// Number of times that the sender woke a sleeping receiver.
    pub rings: u64,
    /// Number of times that the receiver slept.
    pub sleeps: u64,
    /// Total time that it slept, in nanoseconds.
    pub asleep_ns: u64,
    /// Maximum number of messages in transit, according to the timeline.
    pub max_in_flight: u64,
    /// Time of each message from send to receive, in nanoseconds, sorted.
    pub latencies_ns: Vec<u64>,
}

impl Direction {
    /// Returns the latency that `thousandths` of the messages do not exceed, in nanoseconds, or `None`
    /// without messages.
    #[must_use]
    pub fn latency_ns(&self, thousandths: usize) -> Option<u64> {
        let rank = (self.latencies_ns.len() * thousandths.min(1000)).div_ceil(1000).max(1);
        self.latencies_ns.get(rank - 1).copied()
    }
}

/// Returns the statistics by channel, and by whether the accepting end sends.
#[must_use]
pub fn directions(timeline: &Timeline) -> BTreeMap<(u64, bool), Direction> {
    let mut directions: BTreeMap<(u64, bool), Direction> = BTreeMap::new();
    let mut in_flight: BTreeMap<(u64, bool), u64> = BTreeMap::new();
    let mut asleep: BTreeMap<(u64, bool), u64> = BTreeMap::new();
    for placed in &timeline.events {
        let event = &placed.event;
        let outgoing = (event.subject, event.accepting);
        let incoming = (event.subject, !event.accepting);
        match event.kind {
            EventKind::Send => {
                let direction = directions.entry(outgoing).or_default();
                direction.sender = Some(placed.domain);
                direction.sent += 1;
                direction.sent_bytes += u64::from(event.size);
                let count = in_flight.entry(outgoing).or_default();
                *count += 1;
                direction.max_in_flight = direction.max_in_flight.max(*count);
            }
            EventKind::Receive => {
                let direction = directions.entry(incoming).or_default();
                direction.receiver = Some(placed.domain);
                direction.received += 1;
                if let Some(send) = placed.cause.and_then(|cause| timeline.events.get(cause as usize)) {
                    direction.latencies_ns.push(placed.time_ns - send.time_ns);
                    if let Some(count) = in_flight.get_mut(&incoming) {
                        *count = count.saturating_sub(1);
                    }
                }
            }
            EventKind::Ring => directions.entry(outgoing).or_default().rings += 1,
            EventKind::Sleep => {
                directions.entry(incoming).or_default().sleeps += 1;
                asleep.insert(incoming, placed.time_ns);
            }
            EventKind::Wake => {
                if let Some(since_ns) = asleep.remove(&incoming) {
                    directions.entry(incoming).or_default().asleep_ns += placed.time_ns - since_ns;
                }
            }
            _ => {}
        }
    }
    directions.values_mut().for_each(|direction| direction.latencies_ns.sort_unstable());
    directions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_percentile_is_a_measured_value() {
        let of =
            |latencies_ns: &[u64]| Direction { latencies_ns: latencies_ns.to_vec(), ..Direction::default() };
        assert_eq!(of(&[]).latency_ns(500), None);
        for thousandths in [0, 500, 1000, 2000] {
            assert_eq!(of(&[7]).latency_ns(thousandths), Some(7));
        }
        let ten = of(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        for (thousandths, latency_ns) in
            [(0, 1), (100, 1), (101, 2), (500, 5), (900, 9), (901, 10), (1000, 10), (1001, 10)]
        {
            assert_eq!(ten.latency_ns(thousandths), Some(latency_ns), "{thousandths}");
        }
    }
}
