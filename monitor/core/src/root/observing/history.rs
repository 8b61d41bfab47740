//! History of the parts of the machine, second by second for a while, and coarser for longer.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use tombolo_control::observation::{Measure, Part};
use tombolo_control::{Fault, Reply};
use tombolo_machine::Limit;

use super::periodic::TICK_NS;
use crate::root::{Core, Nanos};

/// Resolutions: ticks per point and number of points retained, the finest first.
const RESOLUTIONS: [(u64, usize); 3] = [(1, 120), (10, 180), (60, 240)];

/// Amount of history retained for a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Retention {
    /// Only the finest resolution.
    Finest,
    /// All resolutions.
    All,
}

impl Retention {
    fn steps(self) -> usize {
        match self {
            Retention::Finest => 1,
            Retention::All => RESOLUTIONS.len(),
        }
    }

    /// Returns the memory of one series, in bytes.
    fn bytes(self) -> usize {
        RESOLUTIONS[..self.steps()].iter().map(|(_, points)| points * size_of::<f32>()).sum()
    }
}

/// Value of a measure of a part, if it is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    measure: Measure,
    value: f32,
}

impl Point {
    pub(super) fn new(measure: Measure, value: u64) -> Self {
        // Seven digits suffice for display.
        Point { measure, value: value as f32 }
    }

    pub(super) fn unknown(measure: Measure) -> Self {
        Point { measure, value: f32::NAN }
    }
}

/// History of one measure of a part.
#[derive(Debug)]
struct Series {
    measure: Measure,
    rings: [VecDeque<f32>; 3],
}

impl Series {
    fn push(&mut self, retention: Retention, tick: u64, value: f32) {
        let mut point = value;
        for step in 0..retention.steps() {
            let (ticks, limit) = RESOLUTIONS[step];
            if !tick.is_multiple_of(ticks) {
                return;
            }
            if step > 0 {
                let count = (ticks / RESOLUTIONS[step - 1].0) as usize;
                let finer = &self.rings[step - 1];
                point = mean(finer.iter().skip(finer.len().saturating_sub(count)));
            }
            let ring = &mut self.rings[step];
            if ring.len() == limit {
                ring.pop_front();
            }
            ring.push_back(point);
        }
    }
}

/// Returns the mean of the known values.
fn mean<'a>(values: impl Iterator<Item = &'a f32>) -> f32 {
    let known = values.filter(|value| !value.is_nan());
    let (count, sum) = known.fold((0, 0.0), |(count, sum), value| (count + 1, sum + f64::from(*value)));
    if count == 0 { f32::NAN } else { (sum / f64::from(count)) as f32 }
}

/// History of a part.
#[derive(Debug)]
pub(in crate::root) struct History {
    retention: Retention,
    series: Vec<Series>,
}

impl History {
    /// Adds a point of each measure; other measures get an unknown value. The first call allocates the
    /// history, if there is room.
    pub(super) fn add(
        history: &mut Option<History>,
        budget: &mut HistoryBudget,
        retention: Retention,
        tick: u64,
        points: &[Point],
    ) {
        if history.is_none() && points.is_empty() {
            return;
        }
        let kept = history.get_or_insert_with(|| History { retention, series: Vec::new() });
        for point in points {
            let is_new = !kept.series.iter().any(|series| series.measure == point.measure);
            if is_new && budget.try_reserve(retention.bytes()) {
                kept.series.push(Series { measure: point.measure, rings: Default::default() });
            }
        }
        kept.push(tick, points);
    }

    /// Records unknown values for these ticks.
    pub(super) fn skip(&mut self, ticks: RangeInclusive<u64>) {
        let count = ticks.end().saturating_sub(*ticks.start());
        if count <= RESOLUTIONS[1].1 as u64 {
            return ticks.into_iter().for_each(|tick| self.push(tick, &[]));
        }
        for series in &mut self.series {
            for (ring, (step, limit)) in series.rings.iter_mut().zip(RESOLUTIONS).take(self.retention.steps())
            {
                let missed = ticks.end() / step - (ticks.start() - 1) / step;
                let missed = usize::try_from(missed).unwrap_or(limit).min(limit);
                let excess = (ring.len() + missed).saturating_sub(limit);
                ring.drain(..excess);
                ring.extend(std::iter::repeat_n(f32::NAN, missed));
            }
        }
    }

    pub(super) fn push(&mut self, tick: u64, points: &[Point]) {
        let retention = self.retention;
        for series in &mut self.series {
            let point = points.iter().find(|point| point.measure == series.measure);
            series.push(retention, tick, point.map_or(f32::NAN, |point| point.value));
        }
    }

    fn bytes(&self) -> usize {
        self.series.len() * self.retention.bytes()
    }

    /// Returns the points of a measure with a step of at least `step_ms`, if available: the step in ticks,
    /// and the points.
    fn points(&self, measure: Measure, step_ms: u32) -> Option<(u64, Vec<u64>)> {
        let series = self.series.iter().find(|series| series.measure == measure)?;
        let steps = self.retention.steps();
        let wanted = RESOLUTIONS[..steps].iter().position(|(ticks, _)| ticks * 1000 >= u64::from(step_ms));
        let step = wanted.unwrap_or(steps - 1);
        let known = |value: &f32| if value.is_nan() { u64::MAX } else { value.round() as u64 };
        Some((RESOLUTIONS[step].0, series.rings[step].iter().map(known).collect()))
    }
}

/// Memory used by all histories, and its limit.
#[derive(Debug)]
pub(in crate::root) struct HistoryBudget {
    used_bytes: usize,
    limit_bytes: usize,
}

impl HistoryBudget {
    pub(super) fn new(mib: u32) -> Self {
        HistoryBudget { used_bytes: 0, limit_bytes: (mib as usize) << 20 }
    }

    fn try_reserve(&mut self, bytes: usize) -> bool {
        let has_room = self.used_bytes + bytes <= self.limit_bytes;
        if has_room {
            self.used_bytes += bytes;
        }
        has_room
    }

    pub(super) fn release(&mut self, history: &History) {
        self.used_bytes -= history.bytes();
    }

    #[cfg(test)]
    pub(in crate::root) fn used_bytes(&self) -> usize {
        self.used_bytes
    }
}

impl Core {
    /// Returns the history of a part.
    pub(in crate::root) fn history(
        &self,
        part: &Part,
        measure: Measure,
        step_ms: u32,
    ) -> Result<Reply, Fault> {
        let refused = |why: String| Err(Fault::Refused { why });
        let last = self.observing.ticker.last();
        let (what, found) = match part {
            Part::Node(id) => {
                let node = self.observing.nodes.get(usize::from(id.0));
                (id.to_string(), node.map(|node| node.history.as_ref().map(|history| (history, last))))
            }
            Part::Domain { domain } => {
                let found = self.history_of_domain(*domain);
                (format!("domain {domain}"), Some(found.ok_or(Fault::NoSuchDomain { domain: *domain })?))
            }
            Part::Channel(id) => (id.to_string(), self.history_of_channel(*id)),
            Part::Link { a, b } => {
                let link = self.observing.channels.links.get(&(*a.min(b), *a.max(b)));
                let found = link.map(|link| link.history.as_ref().map(|history| (history, last)));
                (format!("link between {a} and {b}"), found)
            }
            Part::Region(_) | Part::Event { .. } => {
                return refused("there is no history of regions and events".into());
            }
        };
        let Some(found) = found else {
            return refused(format!("the machine does not know {what}; it is gone or never existed"));
        };
        if !has_measure(part, measure) {
            return refused(format!("{what} does not have this measure"));
        }
        match found {
            Some((history, last_ns)) => Ok(match history.points(measure, step_ms) {
                Some((ticks, points)) => {
                    let step_ns = ticks * TICK_NS;
                    let ago = (self.observing.ticker.ticks() % ticks) * TICK_NS;
                    let last_ns = last_ns.saturating_sub(ago);
                    Reply::History { step_ms: (step_ns / 1_000_000) as u32, last_ns, points }
                }
                None => empty_history(last),
            }),
            None if self.observing.budget.used_bytes + Retention::All.bytes() * 3
                > self.observing.budget.limit_bytes =>
            {
                Err(self.limit_fault(Limit::HistoryMib, "what is remembered of the past"))
            }
            None => Ok(empty_history(last)),
        }
    }
}

/// Returns an empty answer.
fn empty_history(last_ns: Nanos) -> Reply {
    Reply::History { step_ms: 1000, last_ns, points: Vec::new() }
}

/// Returns whether a part has a measure.
fn has_measure(part: &Part, measure: Measure) -> bool {
    match part {
        Part::Node(_) => matches!(measure, Measure::Load | Measure::Memory | Measure::Power),
        Part::Domain { .. } => matches!(measure, Measure::Load | Measure::Memory),
        Part::Channel(_) => matches!(measure, Measure::Rate | Measure::Bytes | Measure::Depth),
        Part::Link { .. } => matches!(measure, Measure::Rate | Measure::Bytes),
        Part::Region(_) | Part::Event { .. } => false,
    }
}
