//! Periodic work, once per second while nodes take samples.

use tombolo_base::{ChannelId, DomainId, NodeId};
use tombolo_control::observation::Measure;

use super::History;
use super::history::{Depth, Point};
use crate::root::{Core, Nanos};

/// Time between two beats.
pub(super) const BEAT_NS: Nanos = 1_000_000_000;

/// Number of beats between two probes of a node.
const PROBE_BEATS: u64 = 5;

/// Beats of a machine whose nodes take samples.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    next: Option<Nanos>,
    /// Number of beats so far, including missed ones.
    beats: u64,
    /// Time of the last beat.
    last: Nanos,
}

impl Pulse {
    pub(super) fn due(&self) -> Option<Nanos> {
        self.next
    }

    pub(super) fn last(&self) -> Nanos {
        self.last
    }

    pub(super) fn beats(&self) -> u64 {
        self.beats
    }
}

impl Core {
    /// Starts the beats when a node begins to take samples.
    pub(super) fn start_pulse(&mut self, now: Nanos) {
        let pulse = &mut self.observing.pulse;
        // Do not wait if the clock went back, which only a simulator's does.
        if pulse.next.is_none_or(|next| next > now.saturating_add(2 * BEAT_NS)) {
            pulse.next = Some(now.saturating_add(BEAT_NS));
            // Histories have gaps for beats without samples.
            let silent = now.saturating_sub(pulse.last) / BEAT_NS;
            if pulse.last > 0 && silent > 1 {
                self.miss_beats(silent - 1);
            }
        }
    }

    /// Returns the time when work for observers is due.
    pub(in crate::root) fn observing_due(&self) -> Option<Nanos> {
        let due = [self.observing.pulse.due(), self.regions_due(), self.observers_due()];
        due.into_iter().flatten().min()
    }

    /// Runs due work for observers.
    pub(in crate::root) fn observing_tick(&mut self, now: Nanos) {
        if let Some(next) = self.observing.pulse.next
            && next <= now
        {
            let missed = (now - next) / BEAT_NS;
            if missed > 0 {
                self.miss_beats(missed);
            }
            self.beat(now, next + missed * BEAT_NS);
        }
        self.look_at_regions(now);
        self.answer_observers(now);
    }

    fn beat(&mut self, now: Nanos, at: Nanos) {
        self.observing.pulse.beats += 1;
        self.observing.pulse.last = at;
        let beats = self.observing.pulse.beats;
        let ids: Vec<NodeId> = self.machine.nodes().iter().map(|node| node.id).collect();
        let mut sampling = false;
        for id in ids {
            let Some(watched) = self.observing.nodes.get(usize::from(id.0)) else { continue };
            let fresh = watched.fresh(now).is_some();
            sampling |= fresh;
            if !fresh && !watched.moving.is_empty() {
                self.still_node(id);
            }
            if (beats + u64::from(id.0)).is_multiple_of(PROBE_BEATS) && self.is_up(id) {
                if id != NodeId::HOST {
                    self.probe(now, id);
                }
                self.look_at_engines(id);
            }
        }
        self.remove_closed_channels(now);
        self.remember(now);
        let goes_on = sampling || self.observing.channels.closes();
        self.observing.pulse.next = goes_on.then_some(at.saturating_add(BEAT_NS));
    }

    /// Records `count` beats without samples.
    fn miss_beats(&mut self, count: u64) {
        let first = self.observing.pulse.beats + 1;
        self.observing.pulse.beats += count;
        let beats = first..=self.observing.pulse.beats;
        let (nodes, channels) = (&mut self.observing.nodes, &mut self.observing.channels);
        let of_nodes = nodes.iter_mut().filter_map(|node| node.history.as_mut());
        let of_links = channels.links.values_mut().filter_map(|link| link.history.as_mut());
        let of_channels = channels.channels.values_mut().filter_map(|channel| channel.history.as_mut());
        let of_domains = self.domains.iter_mut().filter_map(|(_, record)| record.watched.history.as_mut());
        for history in of_nodes.chain(of_links).chain(of_channels).chain(of_domains) {
            history.miss(beats.clone());
        }
    }

    /// Adds a point to every history.
    fn remember(&mut self, now: Nanos) {
        let (beat, observing) = (self.observing.pulse.beats, &mut self.observing);
        let budget = &mut observing.budget;
        for watched in &mut observing.nodes {
            let mut points = [Point::none(Measure::Load); 3];
            let mut count = 0;
            if let Some(sample) = watched.fresh(now) {
                points[0] = Point::new(Measure::Load, Core::node_load(sample));
                points[1] = Point::new(Measure::Memory, sample.memory_used_bytes);
                count = 2;
                if !sample.power.is_empty() {
                    let power_mw = sample.power.iter().map(|meter| u64::from(meter.power_mw)).sum();
                    points[2] = Point::new(Measure::Power, power_mw);
                    count = 3;
                }
            }
            History::add(&mut watched.history, budget, Depth::All, beat, &points[..count]);
        }
        let of_node: Vec<bool> = observing.nodes.iter().map(|watched| watched.fresh(now).is_some()).collect();
        for (id, record) in self.domains.iter_mut() {
            let known = of_node.get(usize::from(id.node().0)).is_some_and(|fresh| *fresh);
            let points = record.watched.sample.filter(|_| known).map(|sample| {
                [
                    Point::new(Measure::Load, sample.load_permille.into()),
                    Point::new(Measure::Memory, sample.resident_bytes),
                ]
            });
            let points = points.as_ref().map_or(&[][..], |points| points);
            History::add(&mut record.watched.history, budget, Depth::Finest, beat, points);
        }
        for link in observing.channels.links.values_mut() {
            let (rate, bytes) = link.rates();
            let points = [Point::new(Measure::Rate, rate), Point::new(Measure::Bytes, bytes)];
            History::add(&mut link.history, budget, Depth::All, beat, &points);
        }
        for channel in observing.channels.channels.values_mut() {
            let (rate, bytes) = channel.rates();
            let depth = channel
                .depth()
                .map_or(Point::none(Measure::Depth), |depth| Point::new(Measure::Depth, depth));
            let points = [Point::new(Measure::Rate, rate), Point::new(Measure::Bytes, bytes), depth];
            History::add(&mut channel.history, budget, Depth::Finest, beat, &points);
        }
    }

    /// Returns the history of a domain, if there is one, and the time of its last point.
    pub(super) fn history_of_domain(&self, domain: DomainId) -> Option<Option<(&History, Nanos)>> {
        let last = self.observing.pulse.last();
        match self.domains.get(&domain) {
            Some(record) => Some(record.watched.history.as_ref().map(|history| (history, last))),
            None => {
                let ended = self.observing.ended.of(domain)?;
                let last = last.min(ended.seen.ended_ns);
                Some(ended.history.as_ref().map(|history| (history, last)))
            }
        }
    }

    pub(super) fn history_of_channel(&self, channel: ChannelId) -> Option<Option<(&History, Nanos)>> {
        let channel = self.observing.channels.channels.get(&channel)?;
        Some(channel.history.as_ref().map(|history| (history, self.observing.pulse.last())))
    }
}
