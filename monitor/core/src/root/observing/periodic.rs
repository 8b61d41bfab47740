//! Periodic work, once per second while nodes take samples.

use tombolo_base::{ChannelId, DomainId, NodeId};
use tombolo_control::observation::Measure;

use super::History;
use super::history::{Point, Retention};
use crate::root::{Core, Nanos};

/// Time between two ticks.
pub(super) const TICK_NS: Nanos = 1_000_000_000;

/// Number of ticks between two probes of a node.
const PROBE_TICKS: u64 = 5;

/// Ticks of a machine whose nodes take samples.
#[derive(Debug, Default)]
pub(super) struct Ticker {
    next: Option<Nanos>,
    /// Number of ticks so far, including missed ones.
    ticks: u64,
    /// Time of the last tick.
    last: Nanos,
}

impl Ticker {
    pub(super) fn due(&self) -> Option<Nanos> {
        self.next
    }

    pub(super) fn last(&self) -> Nanos {
        self.last
    }

    pub(super) fn ticks(&self) -> u64 {
        self.ticks
    }
}

impl Core {
    /// Starts the ticks when a node begins to take samples.
    pub(super) fn start_ticker(&mut self, now: Nanos) {
        let ticker = &mut self.observing.ticker;
        // Do not wait if the clock went back, which only a simulator's does.
        if ticker.next.is_none_or(|next| next > now.saturating_add(2 * TICK_NS)) {
            ticker.next = Some(now.saturating_add(TICK_NS));
            // Histories have gaps for ticks without samples.
            let silent = now.saturating_sub(ticker.last) / TICK_NS;
            if ticker.last > 0 && silent > 1 {
                self.skip_ticks(silent - 1);
            }
        }
    }

    /// Returns the time when work for observers is due.
    pub(in crate::root) fn observing_due(&self) -> Option<Nanos> {
        let due = [self.observing.ticker.due(), self.regions_due(), self.observers_due()];
        due.into_iter().flatten().min()
    }

    /// Runs due work for observers.
    pub(in crate::root) fn observing_tick(&mut self, now: Nanos) {
        if let Some(next) = self.observing.ticker.next
            && next <= now
        {
            let missed = (now - next) / TICK_NS;
            if missed > 0 {
                self.skip_ticks(missed);
            }
            self.run_tick(now, next + missed * TICK_NS);
        }
        self.update_regions(now);
        self.answer_observers(now);
    }

    fn run_tick(&mut self, now: Nanos, at: Nanos) {
        self.observing.ticker.ticks += 1;
        self.observing.ticker.last = at;
        let ticks = self.observing.ticker.ticks;
        let ids: Vec<NodeId> = self.machine.nodes().iter().map(|node| node.id).collect();
        let mut sampling = false;
        for id in ids {
            let Some(observed) = self.observing.nodes.get(usize::from(id.0)) else { continue };
            let fresh = observed.fresh_sample(now).is_some();
            sampling |= fresh;
            if !fresh && !observed.active_ends.is_empty() {
                self.clear_node_rates(id);
            }
            if (ticks + u64::from(id.0)).is_multiple_of(PROBE_TICKS) && self.is_up(id) {
                if id != NodeId::HOST {
                    self.probe(now, id);
                }
                self.update_engines(id);
            }
        }
        self.remove_closed_channels(now);
        self.record_history(now);
        let is_active = sampling || self.observing.channels.has_closing();
        self.observing.ticker.next = is_active.then_some(at.saturating_add(TICK_NS));
    }

    /// Records `count` ticks without samples.
    fn skip_ticks(&mut self, count: u64) {
        let first = self.observing.ticker.ticks + 1;
        self.observing.ticker.ticks += count;
        let ticks = first..=self.observing.ticker.ticks;
        let (nodes, channels) = (&mut self.observing.nodes, &mut self.observing.channels);
        let of_nodes = nodes.iter_mut().filter_map(|node| node.history.as_mut());
        let of_links = channels.links.values_mut().filter_map(|link| link.history.as_mut());
        let of_channels = channels.channels.values_mut().filter_map(|channel| channel.history.as_mut());
        let of_domains = self.domains.iter_mut().filter_map(|(_, record)| record.observed.history.as_mut());
        for history in of_nodes.chain(of_links).chain(of_channels).chain(of_domains) {
            history.skip(ticks.clone());
        }
    }

    /// Adds a point to every history.
    fn record_history(&mut self, now: Nanos) {
        let (tick, observing) = (self.observing.ticker.ticks, &mut self.observing);
        let budget = &mut observing.budget;
        for observed in &mut observing.nodes {
            let mut points = [Point::unknown(Measure::Load); 3];
            let mut count = 0;
            if let Some(sample) = observed.fresh_sample(now) {
                points[0] = Point::new(Measure::Load, Core::node_load(sample));
                points[1] = Point::new(Measure::Memory, sample.memory_used_bytes);
                count = 2;
                if !sample.power.is_empty() {
                    let power_mw = sample.power.iter().map(|meter| u64::from(meter.power_mw)).sum();
                    points[2] = Point::new(Measure::Power, power_mw);
                    count = 3;
                }
            }
            History::add(&mut observed.history, budget, Retention::All, tick, &points[..count]);
        }
        let of_node: Vec<bool> =
            observing.nodes.iter().map(|observed| observed.fresh_sample(now).is_some()).collect();
        for (id, record) in self.domains.iter_mut() {
            let known = of_node.get(usize::from(id.node().0)).is_some_and(|fresh| *fresh);
            let points = record.observed.sample.filter(|_| known).map(|sample| {
                [
                    Point::new(Measure::Load, sample.load_permille.into()),
                    Point::new(Measure::Memory, sample.resident_bytes),
                ]
            });
            let points = points.as_ref().map_or(&[][..], |points| points);
            History::add(&mut record.observed.history, budget, Retention::Finest, tick, points);
        }
        for link in observing.channels.links.values_mut() {
            let (rate, bytes) = link.rates();
            let points = [Point::new(Measure::Rate, rate), Point::new(Measure::Bytes, bytes)];
            History::add(&mut link.history, budget, Retention::All, tick, &points);
        }
        for channel in observing.channels.channels.values_mut() {
            let (rate, bytes) = channel.rates();
            let depth = channel
                .depth()
                .map_or(Point::unknown(Measure::Depth), |depth| Point::new(Measure::Depth, depth));
            let points = [Point::new(Measure::Rate, rate), Point::new(Measure::Bytes, bytes), depth];
            History::add(&mut channel.history, budget, Retention::Finest, tick, &points);
        }
    }

    /// Returns the history of a domain, if there is one, and the time of its last point.
    pub(super) fn history_of_domain(&self, domain: DomainId) -> Option<Option<(&History, Nanos)>> {
        let last = self.observing.ticker.last();
        match self.domains.get(&domain) {
            Some(record) => Some(record.observed.history.as_ref().map(|history| (history, last))),
            None => {
                let ended = self.observing.ended.get(domain)?;
                let last = last.min(ended.seen.ended_ns);
                Some(ended.history.as_ref().map(|history| (history, last)))
            }
        }
    }

    pub(super) fn history_of_channel(&self, channel: ChannelId) -> Option<Option<(&History, Nanos)>> {
        let channel = self.observing.channels.channels.get(&channel)?;
        Some(channel.history.as_ref().map(|history| (history, self.observing.ticker.last())))
    }
}
