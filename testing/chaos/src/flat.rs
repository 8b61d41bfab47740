//! Trend test: whether a noisy quantity grows.

/// Share of the points skipped at the start, while caches fill and allocators reach their steady size.
const WARM_UP: f64 = 0.25;

/// Minimum number of points for a trend.
const MIN_POINTS: usize = 12;

/// Samples of a quantity by number of kills so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series(Vec<(f64, f64)>);

/// Trend of a least-squares line through the points.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Trend {
    /// The mean.
    pub(crate) mean: f64,
    /// Its growth from the first point to the last.
    pub(crate) growth: f64,
    /// Three times the standard error of the growth.
    pub(crate) doubt: f64,
}

impl Trend {
    /// Returns whether it grew significantly by more than `allowance`.
    pub(crate) fn grows(self, allowance: f64) -> bool {
        self.growth - self.doubt > 0.0 && self.growth > allowance
    }
}

impl Series {
    pub(crate) fn add(&mut self, kills: u64, value: f64) {
        self.0.push((kills as f64, value));
    }

    /// Returns at most `most` of the points, evenly spaced.
    pub(crate) fn thinned(&self, most: usize) -> Vec<(f64, f64)> {
        self.0.iter().copied().step_by(self.0.len().div_ceil(most).max(1)).collect()
    }

    /// Returns the trend after the warm-up; `None` with fewer than [`MIN_POINTS`].
    pub(crate) fn trend(&self) -> Option<Trend> {
        let points = &self.0[(self.0.len() as f64 * WARM_UP) as usize..];
        if points.len() < MIN_POINTS {
            return None;
        }
        let count = points.len() as f64;
        let mean_of = |part: fn(&(f64, f64)) -> f64| points.iter().map(part).sum::<f64>() / count;
        let (mean_x, mean_y) = (mean_of(|point| point.0), mean_of(|point| point.1));
        let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
        if spread == 0.0 {
            return None;
        }
        let slope = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>() / spread;
        let residual = |(x, y): &(f64, f64)| (y - mean_y - slope * (x - mean_x)).powi(2);
        let variance = points.iter().map(residual).sum::<f64>() / (count - 2.0);
        let length = points[points.len() - 1].0 - points[0].0;
        let doubt = 3.0 * (variance / spread).sqrt() * length;
        Some(Trend { mean: mean_y, growth: slope * length, doubt })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(value: impl Fn(u64) -> f64) -> Series {
        let mut series = Series::default();
        (0..100).for_each(|kills| series.add(kills, value(kills)));
        series
    }

    #[test]
    fn a_leak_shows_and_noise_does_not() {
        let noise = |kills: u64| (kills * 7919 % 13) as f64;
        let flat = series(|kills| 1000.0 + noise(kills)).trend().unwrap();
        assert!(!flat.grows(3.0), "{flat:?}");
        let leak = series(|kills| 1000.0 + noise(kills) + kills as f64).trend().unwrap();
        assert!(leak.grows(30.0) && !leak.grows(100.0), "{leak:?}");
        let shrinks = series(|kills| 1000.0 - kills as f64).trend().unwrap();
        assert!(!shrinks.grows(0.0), "{shrinks:?}");
    }

    #[test]
    fn the_warm_up_is_not_counted() {
        let grown = series(|kills| 1000.0 * (kills.min(20) as f64)).trend().unwrap();
        assert!(!grown.grows(1.0), "{grown:?}");
    }

    #[test]
    fn a_long_series_is_thinned_evenly() {
        let long = series(|kills| kills as f64);
        assert_eq!(long.thinned(1000).len(), 100);
        assert_eq!(long.thinned(4), [(0.0, 0.0), (25.0, 25.0), (50.0, 50.0), (75.0, 75.0)]);
        assert!(Series::default().thinned(4).is_empty());
    }

    #[test]
    fn too_few_points_give_no_trend() {
        let mut few = Series::default();
        (0..MIN_POINTS as u64).for_each(|kills| few.add(kills, 1.0));
        assert_eq!(few.trend(), None);
    }
}
