//! Converts ticks of a timer to nanoseconds, and back.

const NS_PER_S: u64 = 1_000_000_000;

/// Converts ticks to nanoseconds, rounded down.
///
/// If a tick is a whole number of nanoseconds, which is usual, this takes the same few instructions for any
/// number; other frequencies need a 128-bit division, which is a loop.
#[must_use]
pub fn ticks_to_ns(ticks: u64, frequency_hz: u64) -> u64 {
    match exact_ns_per_tick(frequency_hz) {
        Some(ns) => ticks.wrapping_mul(ns),
        None => (u128::from(ticks) * u128::from(NS_PER_S) / u128::from(frequency_hz.max(1))) as u64,
    }
}

/// Returns the first tick at or after a time.
#[must_use]
pub fn ns_to_tick(ns: u64, frequency_hz: u64) -> u64 {
    match exact_ns_per_tick(frequency_hz) {
        Some(ns_per_tick) => ns.div_ceil(ns_per_tick),
        None => {
            let ticks = (u128::from(ns) * u128::from(frequency_hz)).div_ceil(u128::from(NS_PER_S));
            u64::try_from(ticks).unwrap_or(u64::MAX)
        }
    }
}

fn exact_ns_per_tick(frequency_hz: u64) -> Option<u64> {
    let ns = NS_PER_S / frequency_hz.max(1);
    (ns * frequency_hz == NS_PER_S).then_some(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_work_for_any_frequency() {
        for (hz, ticks, ns) in [
            (62_500_000, 7, 112),
            (10_000_000, 3, 300),
            (1_000_000_000, 5, 5),
            (24_000_000, 3, 125),
            (54_000_000, 54, 1000),
        ] {
            assert_eq!((ticks_to_ns(ticks, hz), ns_to_tick(ns, hz)), (ns, ticks), "{hz} Hz");
        }
        assert_eq!((ticks_to_ns(1, 24_000_000), ns_to_tick(41, 24_000_000)), (41, 1));
        assert_eq!((ticks_to_ns(2, 3_000_000_000), ns_to_tick(1, 3_000_000_000)), (0, 3));
        assert_eq!(ns_to_tick(u64::MAX, 3_000_000_000), u64::MAX);
        assert_eq!(
            [ns_to_tick(0, 62_500_000), ns_to_tick(1, 62_500_000), ns_to_tick(17, 62_500_000)],
            [0, 1, 2]
        );
        // No timer has this frequency.
        assert_eq!((ticks_to_ns(1, 0), ns_to_tick(1, 0)), (NS_PER_S, 0));
    }
}
