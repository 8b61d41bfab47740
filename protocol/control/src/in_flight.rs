//! Number of messages in transit on a channel.

use crate::observation::EndSample;

/// Messages that one end has sent and the other has not received yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InFlight {
    /// Number of messages.
    pub messages: u64,
    /// Whether the number is exact rather than an estimate.
    pub exact: bool,
}

impl InFlight {
    /// Computes the number from the last samples of the sending and the receiving end of a channel, and
    /// whether anything `is_moving` on it. Returns `None` if it cannot be determined.
    ///
    /// The ends are not sampled at the same moment. While nothing moves, their counts can be subtracted.
    /// Otherwise the difference is mostly the traffic between the two samples, so the sender's own figure is
    /// used: the number of slots of its ring that it knew to be in use.
    #[must_use]
    pub fn between(from: Option<&EndSample>, to: Option<&EndSample>, is_moving: bool) -> Option<InFlight> {
        let ring = from.filter(|from| from.slots != 0);
        // At most the capacity of the ring, regardless of what the ends report.
        let capacity = ring.map_or(u64::MAX, |from| from.slots.into());
        match (from, to) {
            (Some(from), Some(to)) if !is_moving => {
                Some(InFlight { messages: from.sent.saturating_sub(to.received).min(capacity), exact: true })
            }
            _ => ring.map(|from| {
                let used = from.slots.saturating_sub(from.credit_slots);
                InFlight { messages: used.into(), exact: false }
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU16;

    use tombolo_base::{ChannelId, DomainId, NodeId};
    use tombolo_link::TransportKind;

    use super::*;

    fn end(sent: u64, received: u64, slots: u32, credit_slots: u32) -> EndSample {
        EndSample {
            domain: DomainId::new(NodeId(0), NonZeroU16::MIN, 2),
            channel: ChannelId(7),
            accepting: false,
            transport: TransportKind::Shm,
            peer: None,
            open: true,
            sent,
            sent_bytes: 0,
            received,
            received_bytes: 0,
            rings: 0,
            sleeps: 0,
            stalls: 0,
            slots,
            credit_slots,
            max_message_bytes: 0,
        }
    }

    fn between(from: Option<&EndSample>, to: Option<&EndSample>, is_moving: bool) -> Option<(u64, bool)> {
        InFlight::between(from, to, is_moving).map(|found| (found.messages, found.exact))
    }

    #[test]
    fn a_ping_pong_sampled_at_different_times_uses_the_senders_figures() {
        let (near, far) = (end(61_000, 60_999, 64, 63), end(50_000, 50_000, 64, 63));
        assert_eq!(between(Some(&near), Some(&far), true), Some((1, false)));
        assert_eq!(between(Some(&far), Some(&near), true), Some((1, false)));
    }

    #[test]
    fn idle_channel_has_an_exact_count() {
        let (near, far) = (end(10, 0, 64, 60), end(0, 7, 64, 64));
        assert_eq!(between(Some(&near), Some(&far), false), Some((3, true)));
        assert_eq!(between(Some(&far), Some(&near), false), Some((0, true)));
        // An end may report any value.
        assert_eq!(between(Some(&end(u64::MAX, 0, 64, 99)), Some(&far), false), Some((64, true)));
        assert_eq!(between(Some(&end(1, 0, 64, 99)), Some(&far), true), Some((0, false)));
    }

    #[test]
    fn moving_stream_without_slots_has_no_count() {
        let (near, far) = (end(10, 0, 0, 0), end(0, 7, 0, 0));
        assert_eq!(between(Some(&near), Some(&far), true), None);
        assert_eq!(between(Some(&near), Some(&far), false), Some((3, true)));
        assert_eq!(between(None, Some(&far), true), None);
        assert_eq!(between(Some(&end(10, 0, 64, 60)), None, false), Some((4, false)));
    }
}
