//! Cost of copies, as stored among a machine's names: a curve for each engine and route.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// Measured times for several lengths, interpolated linearly.
///
/// A straight line, as used for the cost of messages, does not describe copies: one that fits in a cache is
/// several times as fast as one that does not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Curve {
    /// Lengths in bytes, strictly increasing, and times in nanoseconds, non-decreasing. At least one point.
    points: Vec<(u64, u64)>,
}

/// Maximum number of points of a curve.
pub const MAX_POINTS: usize = 32;

/// Reason why a curve is invalid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum CurveError {
    /// Too few or too many points.
    #[error("invalid curve with {count} points; use 1 to {MAX_POINTS}")]
    Points { count: usize },
    /// A part of the text is not a point.
    #[error("invalid point {text:?} of a curve; use the form BYTES:NANOSECONDS")]
    Text { text: String },
}

impl Curve {
    /// Builds the curve through points (length in bytes, time in nanoseconds) in any order. Of several times
    /// for one length the shortest counts. A time below that of a shorter length is noise and is raised to
    /// it.
    ///
    /// # Errors
    /// There are no points, or more than 32.
    pub fn from_points(points: impl IntoIterator<Item = (u64, u64)>) -> Result<Curve, CurveError> {
        let mut points: Vec<_> = points.into_iter().collect();
        points.sort_unstable();
        points.dedup_by_key(|(bytes, _)| *bytes);
        let mut longest_ns = 0;
        for (_, time_ns) in &mut points {
            longest_ns = longest_ns.max(*time_ns);
            *time_ns = longest_ns;
        }
        match points.len() {
            1..=MAX_POINTS => Ok(Curve { points }),
            count => Err(CurveError::Points { count }),
        }
    }

    /// Returns the time for `length_bytes`, in nanoseconds. Beyond the longest length it is extrapolated from
    /// the last two points.
    #[must_use]
    pub fn time_ns(&self, length_bytes: u64) -> u64 {
        let after = self.points.partition_point(|(bytes, _)| *bytes < length_bytes);
        if after == 0 {
            return self.points[0].1;
        }
        let above = after.min(self.points.len() - 1);
        // A single point determines only a rate.
        let (from_bytes, from_ns) = above.checked_sub(1).map_or((0, 0), |below| self.points[below]);
        let (to_bytes, to_ns) = self.points[above];
        let more = u128::from(length_bytes - from_bytes) * u128::from(to_ns - from_ns);
        let more_ns = more / u128::from((to_bytes - from_bytes).max(1));
        u64::try_from(u128::from(from_ns) + more_ns).unwrap_or(u64::MAX)
    }

    /// Returns the points: lengths in bytes, times in nanoseconds.
    #[must_use]
    pub fn points(&self) -> &[(u64, u64)] {
        &self.points
    }
}

impl fmt::Display for Curve {
    /// Formats the curve in its stored form: `BYTES:NANOSECONDS …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (bytes, time_ns)) in self.points.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            write!(f, "{space}{bytes}:{time_ns}")?;
        }
        Ok(())
    }
}

impl FromStr for Curve {
    type Err = CurveError;

    fn from_str(text: &str) -> Result<Curve, CurveError> {
        let point = |part: &str| {
            let (bytes, time_ns) = part.split_once(':')?;
            Some((bytes.parse().ok()?, time_ns.parse().ok()?))
        };
        // One point beyond the limit suffices to detect too many.
        let parts = text.split_whitespace().take(MAX_POINTS + 1);
        let points: Result<Vec<_>, _> =
            parts.map(|part| point(part).ok_or_else(|| CurveError::Text { text: part.into() })).collect();
        Curve::from_points(points?)
    }
}

/// Way in which a location can be reached.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reach {
    /// By instructions of this process.
    Mapped,
    /// Through the kernel, in another process.
    Process,
    /// Through the far side of a channel.
    Far,
    /// Through a GPU and its driver.
    Device,
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reach::Mapped => "mapped",
            Reach::Process => "process",
            Reach::Far => "far",
            Reach::Device => "device",
        })
    }
}

/// Kind of operation of an engine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum OperationKind {
    /// Copy from one location to another.
    Copy,
    /// Fill a location with one byte.
    Fill,
}

/// How the source and the target of an operation are reached. Together with the length it determines the
/// cost. The source of a fill is its target.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Route {
    /// Copy or fill.
    pub kind: OperationKind,
    /// How the source is reached.
    pub source: Reach,
    /// How the target is reached.
    pub target: Reach,
}

impl Route {
    /// Returns the route of a copy.
    #[must_use]
    pub const fn copy(source: Reach, target: Reach) -> Route {
        Route { kind: OperationKind::Copy, source, target }
    }

    /// Returns the route of a fill.
    #[must_use]
    pub const fn fill(target: Reach) -> Route {
        Route { kind: OperationKind::Fill, source: target, target }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            OperationKind::Copy => write!(f, "{}-{}", self.source, self.target),
            OperationKind::Fill => write!(f, "fill-{}", self.target),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve() -> Curve {
        Curve::from_points([(4096, 300), (64, 100), (65536, 2_300)]).unwrap()
    }

    #[test]
    fn points_are_kept_and_interpolated_linearly() {
        for (bytes, time_ns) in [(0, 100), (64, 100), (4096, 300), (65536, 2_300), (34816, 1_300)] {
            let actual_ns = curve().time_ns(bytes);
            assert!(actual_ns.abs_diff(time_ns) <= 1, "{bytes} bytes: {actual_ns}, not {time_ns}");
        }
        assert!(curve().time_ns(65536 + 30720).abs_diff(3_300) <= 1, "beyond the last as before it");
        assert!(curve().time_ns(u64::MAX) > 1 << 50);
    }

    #[test]
    fn single_point_defines_a_rate() {
        let one = Curve::from_points([(1000, 500)]).unwrap();
        assert_eq!((one.time_ns(10), one.time_ns(1000), one.time_ns(4000)), (500, 500, 2000));
    }

    #[test]
    fn noise_never_makes_a_longer_copy_cheaper() {
        let noisy = Curve::from_points([(64, 200), (4096, 150), (8192, 400), (64, 180)]).unwrap();
        assert_eq!(noisy.points(), [(64, 180), (4096, 180), (8192, 400)]);
    }

    #[test]
    fn text_round_trips_and_malformed_text_is_refused() {
        assert_eq!(curve().to_string(), "64:100 4096:300 65536:2300");
        assert_eq!(curve().to_string().parse(), Ok(curve()));
        for text in ["", "64", "64:x", "-1:5", "64:1 :", "99999999999999999999:1"] {
            assert!(text.parse::<Curve>().is_err(), "{text:?}");
        }
        let points = |count: u64| (0..count).map(|bytes| format!("{bytes}:1 ")).collect::<String>();
        assert!(points(32).parse::<Curve>().is_ok());
        assert!(points(33).parse::<Curve>().is_err());
    }

    proptest::proptest! {
        #[test]
        fn times_never_decrease_with_length(points in proptest::collection::vec((0..1_u64 << 40, 0..1_u64 << 40), 1..32),
                          lengths in proptest::collection::vec(0..1_u64 << 41, 2..20)) {
            let curve = Curve::from_points(points).unwrap();
            let mut lengths = lengths;
            lengths.sort_unstable();
            let times: Vec<u64> = lengths.iter().map(|length| curve.time_ns(*length)).collect();
            proptest::prop_assert!(times.is_sorted(), "{:?}", times);
            proptest::prop_assert_eq!(curve.to_string().parse::<Curve>(), Ok(curve));
        }
    }
}
