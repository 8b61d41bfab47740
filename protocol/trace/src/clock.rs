//! Converts the ticks of a domain's clock to nanoseconds of its kernel's monotonic clock.
//!
//! A domain records readings of both clocks (anchors). Time is interpolated between two anchors. Before the
//! first and after the last it is extrapolated at the average rate, or at the clock's known rate.

use alloc::vec::Vec;

/// Simultaneous reading of both clocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Anchor {
    /// Ticks of the domain's clock.
    pub ticks: u64,
    /// Monotonic clock, in nanoseconds.
    pub ns: u64,
}

/// Conversion from ticks to nanoseconds.
#[derive(Clone, Debug)]
pub struct Clock {
    anchors: Vec<Anchor>,
    /// Nanoseconds per `ticks`, for extrapolation.
    ns: u64,
    /// Never zero.
    ticks: u64,
}

impl Clock {
    /// Builds the conversion from anchors in any order. Anchors that contradict an earlier one are ignored.
    /// `ticks_per_s` is 0 if unknown.
    #[must_use]
    pub fn new(mut anchors: Vec<Anchor>, ticks_per_s: u64) -> Clock {
        anchors.sort_unstable();
        let mut last: Option<Anchor> = None;
        anchors.retain(|anchor| {
            let follows = last.is_none_or(|last| anchor.ticks > last.ticks && anchor.ns >= last.ns);
            if follows {
                last = Some(*anchor);
            }
            follows
        });
        let (ns, ticks) = match (ticks_per_s, anchors.first(), anchors.last()) {
            (0, Some(first), Some(last)) if last.ticks > first.ticks => {
                (last.ns - first.ns, last.ticks - first.ticks)
            }
            (0, ..) => (1, 1),
            (ticks_per_s, ..) => (1_000_000_000, ticks_per_s),
        };
        Clock { anchors, ns, ticks }
    }

    /// Converts ticks to the monotonic clock, in nanoseconds.
    #[must_use]
    pub fn to_ns(&self, ticks: u64) -> u64 {
        let next = self.anchors.partition_point(|anchor| anchor.ticks <= ticks);
        let before = next.checked_sub(1).and_then(|index| self.anchors.get(index));
        match (before, self.anchors.get(next)) {
            (Some(before), Some(after)) => {
                let (ns, span) = (after.ns - before.ns, after.ticks - before.ticks);
                before.ns.saturating_add(scale(ticks - before.ticks, ns, span))
            }
            (Some(before), None) => {
                before.ns.saturating_add(scale(ticks - before.ticks, self.ns, self.ticks))
            }
            (None, Some(after)) => after.ns.saturating_sub(scale(after.ticks - ticks, self.ns, self.ticks)),
            (None, None) => scale(ticks, self.ns, self.ticks),
        }
    }
}

fn scale(ticks: u64, ns: u64, span: u64) -> u64 {
    let scaled = u128::from(ticks) * u128::from(ns) / u128::from(span.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn time_is_interpolated_linearly_between_anchors() {
        let anchors = [(100, 1_000), (200, 2_000), (300, 4_000)].map(|(ticks, ns)| Anchor { ticks, ns });
        let clock = Clock::new(anchors.to_vec(), 0);
        // 15 ns per tick on average.
        let expected =
            [(0, 0), (90, 850), (100, 1_000), (150, 1_500), (250, 3_000), (300, 4_000), (400, 5_500)];
        for (ticks, ns) in expected {
            assert_eq!(clock.to_ns(ticks), ns, "{ticks}");
        }
    }

    #[test]
    fn without_anchors_the_known_rate_applies() {
        assert_eq!(Clock::new(Vec::new(), 0).to_ns(5), 5);
        assert_eq!(Clock::new(Vec::new(), 500_000_000).to_ns(5), 10);
        let clock = Clock::new(std::vec![Anchor { ticks: 1_000, ns: 50 }], 1_000_000);
        assert_eq!(clock.to_ns(1_002), 2_050);
        assert_eq!(clock.to_ns(u64::MAX), u64::MAX);
        assert_eq!(clock.to_ns(0), 0);
    }

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "it computes, and takes long to interpret")]
        fn time_never_runs_backwards(
            anchors in prop::collection::vec((any::<u32>(), any::<u32>()), 0..8),
            rate: u32,
            mut ticks in prop::collection::vec(any::<u32>(), 2..50),
        ) {
            let anchors = anchors.into_iter().map(|(ticks, ns)| Anchor { ticks: ticks.into(), ns: ns.into() });
            let clock = Clock::new(anchors.collect(), rate.into());
            ticks.sort_unstable();
            let times: std::vec::Vec<u64> = ticks.into_iter().map(|ticks| clock.to_ns(ticks.into())).collect();
            prop_assert!(times.is_sorted());
        }

        #[test]
        fn arbitrary_anchors_and_rates_never_panic(anchors in prop::collection::vec(any::<(u64, u64)>(), 0..5), rate: u64, ticks: u64) {
            let anchors = anchors.into_iter().map(|(ticks, ns)| Anchor { ticks, ns }).collect();
            let _ = Clock::new(anchors, rate).to_ns(ticks);
        }
    }
}
