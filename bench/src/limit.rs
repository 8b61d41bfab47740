//! Lower bounds for messages on this host, measured between two threads of this program.

use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use tombolo_bench_far::lines::Lines;

use crate::cpus::{self, Pinned};
use crate::sample::{median, sorted};

/// Duration of the ping-pong of the two lines.
const LENGTH: Duration = Duration::from_millis(10);

/// Size of one copy: that of a long message of the comparison.
const COPIED_BYTES: usize = 4 << 20;

/// Physical limits of a host, at one moment or as medians.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Limit {
    /// One-way latency of a bare cache line, half a round trip, in nanoseconds.
    pub line_ns: f64,
    /// Bandwidth of a 4 MiB `memcpy` by one processor, in GB/s (10^9 bytes).
    pub copy_gb_s: f64,
}

impl Limit {
    /// Measures the limits for about ten milliseconds.
    ///
    /// # Errors
    /// Fewer than two processors are available, or pinning to them fails.
    pub fn measure() -> std::io::Result<Limit> {
        let allowed = cpus::allowed()?;
        let (near, far) = cpus::pair(&allowed).ok_or_else(|| {
            std::io::Error::other("measuring takes two processors, and this program may use one")
        })?;
        Ok(Limit { line_ns: line_ns(near, far)?, copy_gb_s: copy_gb_s() })
    }

    /// Returns the medians of the limits.
    pub(crate) fn median(limits: &[Limit]) -> Limit {
        let of = |value: fn(&Limit) -> f64| median_of(limits.iter().map(value));
        Limit { line_ns: of(|limit| limit.line_ns), copy_gb_s: of(|limit| limit.copy_gb_s) }
    }
}

fn median_of(values: impl Iterator<Item = f64>) -> f64 {
    median(&sorted(values.collect())).unwrap_or(f64::NAN)
}

fn line_ns(near: usize, far: usize) -> std::io::Result<f64> {
    let words: Vec<AtomicU64> = (0..512).map(|_| AtomicU64::new(0)).collect();
    let lines = Lines::new(&words).map_err(std::io::Error::other)?;
    std::thread::scope(|scope| {
        let peer = scope.spawn(move || {
            let _pinned = Pinned::to(far)?;
            lines.serve().map_err(std::io::Error::other)
        });
        let pinned = Pinned::to(near)?;
        let start = Instant::now();
        let mut batches = Vec::new();
        let mut number = 0;
        while start.elapsed() < LENGTH {
            let before = Instant::now();
            for _ in 0..64 {
                number += 1;
                lines.round_trip(number).map_err(std::io::Error::other)?;
            }
            batches.push(before.elapsed().as_nanos() as f64 / 128.0);
        }
        lines.stop().map_err(std::io::Error::other)?;
        drop(pinned);
        match peer.join() {
            Ok(served) => served?,
            Err(_) => return Err(std::io::Error::other("the other thread of the measurement failed")),
        }
        Ok(median_of(batches.into_iter()))
    })
}

fn copy_gb_s() -> f64 {
    let source = vec![1u8; COPIED_BYTES];
    let mut target = vec![0u8; COPIED_BYTES];
    let times = (0..5).map(|_| {
        let before = Instant::now();
        target.copy_from_slice(std::hint::black_box(&source));
        std::hint::black_box(&mut target);
        COPIED_BYTES as f64 / before.elapsed().as_nanos().max(1) as f64
    });
    median_of(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_limits() {
        if cpus::allowed().expect("processors").len() < 2 {
            return;
        }
        let limit = Limit::measure().expect("measured");
        assert!(limit.line_ns > 0.0 && limit.copy_gb_s > 0.0, "{limit:?}");
        let other = Limit { line_ns: 1.0, copy_gb_s: 2.0 };
        assert_eq!(Limit::median(&[other, other, Limit { line_ns: 9.0, copy_gb_s: 9.0 }]), other);
    }
}
