//! Copy bandwidth of one processor in its own memory: the minimum cost of every copy on the way.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::sample::Flow;
use crate::suite::results::Row;
use crate::suite::{Distance, Metric, Schedule};

/// Name in tables and plots.
pub const NAME: &str = "memcpy";

/// Returns the copy bandwidth for the bulk metrics among `metrics`, or for the usual lengths if there are
/// none.
pub(crate) fn rows(metrics: impl Iterator<Item = Metric>, schedule: Schedule) -> Vec<Row> {
    let mut bulk: Vec<Metric> = metrics.filter(|metric| matches!(metric, Metric::Bandwidth { .. })).collect();
    bulk.sort_unstable();
    bulk.dedup();
    let bulk = if bulk.is_empty() { Metric::BANDWIDTHS.to_vec() } else { bulk };
    bulk.into_iter().filter_map(|metric| row(metric, schedule)).collect()
}

fn row(metric: Metric, schedule: Schedule) -> Option<Row> {
    let Metric::Bandwidth { bytes } = metric else { return None };
    let source = vec![1_u8; bytes];
    let mut target = vec![2_u8; bytes];
    let mut flow = Flow::default();
    copy_for(schedule.slice / 4, &source, &mut target);
    for _ in 0..schedule.slices {
        let (copies, elapsed) = copy_for(schedule.slice, &source, &mut target);
        flow.add(copies * bytes as u64, elapsed);
    }
    Some(Row {
        peer: NAME.into(),
        metric,
        route: None,
        distance: Distance::Any,
        slices: schedule.slices,
        doubtful: 0,
        moved: 0,
        disturbed: 0,
        probe_ns: 0.0,
        latency_ns: None,
        probe_ratio: None,
        rate_per_s: flow.summary(),
        value: None,
        ring_share: 0.0,
    })
}

fn copy_for(length: Duration, source: &[u8], target: &mut [u8]) -> (u64, Duration) {
    let start = Instant::now();
    let mut copies = 0;
    while start.elapsed() < length {
        black_box(&mut *target).copy_from_slice(black_box(source));
        copies += 1;
    }
    (copies, start.elapsed())
}
