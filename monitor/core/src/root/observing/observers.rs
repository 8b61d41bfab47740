//! Observers: they request changes since a version, and wait for them.

use std::time::Duration;

use tombolo_control::observation::{MAX_OBSERVATIONS, Observation};
use tombolo_control::{Fault, MAX_MESSAGE_BYTES, Reply};

use super::versions::PartKey;
use crate::root::{ClientId, Core, Nanos};

/// Minimum time between two answers to a client, in nanoseconds, unless a page is incomplete: changes in
/// between are combined.
pub(in crate::root) const PAUSE_NS: Nanos = 50_000_000;

/// Length of an answer without its observations.
const ENVELOPE_BYTES: usize = 256;

/// State of a client that observes.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::root) struct ObserverState {
    /// Earliest time of the next answer.
    not_before: Nanos,
    /// End of the previous page if there is more, and the newest version at the time of the first of these
    /// pages.
    page: Option<(u64, u64)>,
}

/// An observer that waits for changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingObserver {
    request: u32,
    since: u64,
    until: Nanos,
}

/// Content of an answer.
struct Page {
    observations: Vec<Observation>,
    keys: Vec<PartKey>,
    until: u64,
    more: bool,
}

impl Core {
    /// Handles a client's request for changes since a version.
    pub(in crate::root) fn observe(
        &mut self,
        now: Nanos,
        client: ClientId,
        request: u32,
        since: u64,
        timeout: Duration,
    ) {
        if let Some(before) = self.observing.waiting.remove(&client) {
            // A second request makes the first be answered with the present changes.
            self.answer_observer(now, client, before);
        }
        let timeout_ns = Nanos::try_from(timeout.as_nanos()).unwrap_or(Nanos::MAX);
        let waiting = WaitingObserver { request, since, until: now.saturating_add(timeout_ns) };
        self.observing.waiting.insert(client, waiting);
        self.answer_observers(now);
    }

    /// Returns the time when the next waiting observer must be answered.
    pub(super) fn observers_due(&self) -> Option<Nanos> {
        self.observing.waiting.iter().map(|(client, waiting)| self.due_at(*client, waiting)).min()
    }

    fn due_at(&self, client: ClientId, waiting: &WaitingObserver) -> Nanos {
        if waiting.since == self.observing.versions.newest() {
            return waiting.until;
        }
        let not_before = self.clients.get(&client).map_or(0, |record| record.observer.not_before);
        not_before.min(waiting.until)
    }

    /// Answers observers for which there are changes, or whose timeout has passed.
    pub(super) fn answer_observers(&mut self, now: Nanos) {
        let waiting = &self.observing.waiting;
        let due: Vec<(ClientId, WaitingObserver)> = waiting
            .iter()
            .filter(|(client, waiting)| self.due_at(**client, waiting) <= now)
            .map(|(client, waiting)| (*client, *waiting))
            .collect();
        for (client, waiting) in due {
            self.observing.waiting.remove(&client);
            self.answer_observer(now, client, waiting);
        }
    }

    fn answer_observer(&mut self, now: Nanos, client: ClientId, waiting: WaitingObserver) {
        let Some(observer) = self.clients.get(&client).map(|record| record.observer) else { return };
        let versions = &self.observing.versions;
        let newest = versions.newest();
        let (mut since, mut began) = match observer.page {
            Some((ended, began)) if ended == waiting.since => (waiting.since, began),
            _ if waiting.since == 0 => (0, newest),
            _ => (waiting.since, waiting.since),
        };
        let anew = since != 0 && (began < versions.last_dropped() || since > newest);
        if anew {
            (since, began) = (0, newest);
        }
        let Page { observations, keys, until, more } = self.page(since, began);
        self.observing.versions.mark_reported(keys, until);
        if let Some(record) = self.clients.get_mut(&client) {
            record.observer = ObserverState {
                not_before: if more { now } else { now.saturating_add(PAUSE_NS) },
                page: more.then_some((until, began)),
            };
        }
        let wall_ns = now.wrapping_add(self.wall_offset_ns);
        let reply = Reply::Observe { observations, until, more, anew, now_ns: now, wall_ns };
        self.answer(client, waiting.request, Ok(reply));
    }

    /// Returns as many changes after a version as fit into a message. Parts already gone when the first page
    /// was built are omitted: the reader never knew them.
    fn page(&self, since: u64, began: u64) -> Page {
        let mut page = Page { observations: Vec::new(), keys: Vec::new(), until: since, more: false };
        let mut length_bytes = ENVELOPE_BYTES;
        for (version, key, gone) in self.observing.versions.after(since) {
            if !(gone && version <= began) {
                let part = key.into();
                let observation = if gone { None } else { self.snapshot(key) };
                let observation = observation.unwrap_or(Observation::Gone { part });
                // An observation that cannot be encoded is omitted: it would block all that follow.
                let Ok(bytes) = tombolo_control::observation_bytes(&observation) else { continue };
                page.more = page.observations.len() as u64 == MAX_OBSERVATIONS
                    || length_bytes + bytes > MAX_MESSAGE_BYTES;
                if page.more {
                    return page;
                }
                length_bytes += bytes;
                page.observations.push(observation);
                page.keys.push(key);
            }
            page.until = version;
        }
        page.until = self.observing.versions.newest();
        page
    }

    /// Sets the wall clock time at an instant of the monitor's clock.
    pub fn set_wall_clock(&mut self, now: Nanos, wall_ns: u64) {
        self.wall_offset_ns = wall_ns.wrapping_sub(now);
    }

    /// Resolves a node name given by a client.
    pub(in crate::root) fn node_by_name(&self, name: &str) -> Result<tombolo_base::NodeId, Fault> {
        self.machine.node_named(name).map(|node| node.id).ok_or_else(|| self.no_such_node(name))
    }
}
