//! Latencies of death notifications.

use serde_json::{Value, json};

/// Times from a kill until a survivor received the error, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies(Vec<i64>);

impl Latencies {
    pub(crate) fn add(&mut self, latency_ns: i64) {
        self.0.push(latency_ns);
    }

    pub(crate) fn extend(&mut self, latencies_ns: impl IntoIterator<Item = i64>) {
        self.0.extend(latencies_ns);
    }

    /// Returns the percentile for a share from 0 to 1, in milliseconds.
    fn percentile_ms(sorted: &[i64], share: f64) -> f64 {
        let index = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len()) - 1;
        sorted[index] as f64 / 1e6
    }

    pub(crate) fn max_ms(&self) -> f64 {
        self.0.iter().max().map_or(0.0, |max| *max as f64 / 1e6)
    }

    /// Returns the count, and the median, 99th percentile and maximum in milliseconds; `None` if no survivor
    /// reported a death.
    pub(crate) fn row(&self) -> Option<(usize, f64, f64, f64)> {
        if self.0.is_empty() {
            return None;
        }
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = |share| Self::percentile_ms(&sorted, share);
        Some((sorted.len(), at(0.5), at(0.99), self.max_ms()))
    }

    pub(crate) fn to_json(&self) -> Value {
        self.row().map_or(
            Value::Null,
            |(count, p50, p99, max)| json!({ "count": count, "p50_ms": p50, "p99_ms": p99, "max_ms": max }),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_recorded_latencies() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.row(), None);
        (1..=100).rev().for_each(|ms| latencies.add(ms * 1_000_000));
        assert_eq!(latencies.row(), Some((100, 50.0, 99.0, 100.0)));
    }
}
