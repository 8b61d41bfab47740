//! Cost of sending bytes across a link: a latency and a rate for each direction.

/// Cost of a message in one direction: a fixed part plus a part proportional to its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CostCurve {
    /// Cost of an empty message, in nanoseconds.
    pub latency_ns: u64,
    /// Rate of a long message, in bytes per second; at least 1.
    pub bytes_per_s: u64,
}

const NS_PER_S: u128 = 1_000_000_000;

/// Converts to `u64`, saturating at its maximum.
fn narrow(wide: u128) -> u64 {
    u64::try_from(wide).unwrap_or(u64::MAX)
}

impl CostCurve {
    /// Fits a curve through the times of a short and a longer message. If the longer one took no longer, the
    /// difference is taken to be one nanosecond.
    #[must_use]
    pub fn from_points((short_bytes, short_ns): (u64, u64), (long_bytes, long_ns): (u64, u64)) -> Self {
        let more_bytes = long_bytes.saturating_sub(short_bytes).max(1);
        let more_ns = long_ns.saturating_sub(short_ns).max(1);
        let bytes_per_s = narrow(u128::from(more_bytes) * NS_PER_S / u128::from(more_ns)).max(1);
        let of_short_ns = narrow(u128::from(short_bytes) * NS_PER_S / u128::from(bytes_per_s));
        CostCurve { latency_ns: short_ns.saturating_sub(of_short_ns), bytes_per_s }
    }

    /// Returns the time for a message of `length_bytes`, in nanoseconds.
    #[must_use]
    pub fn time_ns(self, length_bytes: u64) -> u64 {
        let bytes_ns = u128::from(length_bytes) * NS_PER_S / u128::from(self.bytes_per_s.max(1));
        narrow(u128::from(self.latency_ns) + bytes_ns)
    }

    /// Returns the length at which the transfer takes as long as the latency, in bytes. The cost of shorter
    /// messages is dominated by the latency.
    #[must_use]
    pub fn half_rate_bytes(self) -> u64 {
        narrow(u128::from(self.latency_ns) * u128::from(self.bytes_per_s) / NS_PER_S)
    }

    /// Returns the length from which `other` is cheaper, in bytes, or `None` if it never is.
    #[must_use]
    pub fn crossover_bytes(self, other: CostCurve) -> Option<u64> {
        if other.latency_ns < self.latency_ns {
            return Some(0);
        }
        let (ours, theirs) = (u128::from(self.bytes_per_s.max(1)), u128::from(other.bytes_per_s.max(1)));
        if theirs <= ours {
            return None;
        }
        // latency + n / ours > other.latency + n / theirs
        let more_ns = u128::from(other.latency_ns - self.latency_ns);
        // On overflow no message is long enough.
        let bytes = more_ns.checked_mul(ours.checked_mul(theirs)?)? / ((theirs - ours) * NS_PER_S);
        u64::try_from(bytes).ok()?.checked_add(1)
    }
}

/// Origin of a cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CostOrigin {
    /// An order of magnitude for links of this kind, good enough for choosing until the link is measured.
    Declared,
    /// Measured on this link with round trips.
    Measured,
}

/// Cost of a link in both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkCost {
    /// Cost of messages to the peer.
    pub to_peer: CostCurve,
    /// Cost of messages from the peer.
    pub from_peer: CostCurve,
    /// Whether the cost was declared or measured.
    pub origin: CostOrigin,
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn curve(latency_ns: u64, bytes_per_s: u64) -> CostCurve {
        CostCurve { latency_ns, bytes_per_s }
    }

    #[test]
    fn curve_passes_through_both_measurements() {
        let through = CostCurve::from_points((8, 108), (1_008, 1_108));
        assert_eq!(through, curve(100, 1_000_000_000));
        assert_eq!((through.time_ns(0), through.time_ns(8), through.time_ns(1_008)), (100, 108, 1_108));
        assert_eq!(through.half_rate_bytes(), 100);
        // Noise: the longer message was faster, or as fast.
        for long_ns in [0, 50, 100] {
            let through = CostCurve::from_points((8, 100), (1_008, long_ns));
            assert_eq!(through, curve(100, 1_000_000_000_000));
        }
        assert_eq!(CostCurve::from_points((0, 5), (0, u64::MAX)).bytes_per_s, 1);
    }

    #[test]
    fn the_largest_values_saturate() {
        assert_eq!(curve(u64::MAX, 1).time_ns(u64::MAX), u64::MAX);
        assert_eq!(curve(3, 0).time_ns(1), 1_000_000_003);
        assert_eq!(curve(u64::MAX, u64::MAX).half_rate_bytes(), u64::MAX);
        assert_eq!(CostCurve::from_points((0, 0), (u64::MAX, 1)).bytes_per_s, u64::MAX);
    }

    #[test]
    fn crossover_is_the_length_where_the_cheaper_one_changes() {
        let (near, far) = (curve(100, 1_000_000_000), curve(1_000, 10_000_000_000));
        let from = near.crossover_bytes(far).unwrap();
        assert_eq!(from, 1_001);
        assert!(near.time_ns(from - 2) <= far.time_ns(from - 2));
        assert!(near.time_ns(from + 10) > far.time_ns(from + 10));
        assert_eq!(far.crossover_bytes(near), Some(0));
        assert_eq!(near.crossover_bytes(curve(200, 1_000_000_000)), None);
        assert_eq!(near.crossover_bytes(near), None);
        assert_eq!(curve(0, u64::MAX - 1).crossover_bytes(curve(u64::MAX, u64::MAX)), None);
    }
}
