//! Recent events of the machine.

use std::collections::VecDeque;

use tombolo_base::{DomainId, NodeId};
use tombolo_control::observation::{Happening, SeenEvent};
use tombolo_control::{Exit, Fault};

use super::conversion::truncate_text;
use super::versions::PartKey;
use crate::root::{Core, Nanos};

/// Maximum number of events retained.
pub(in crate::root) const MAX_EVENTS: usize = 1024;

/// Maximum length of an event's text, in bytes.
const MAX_TEXT_BYTES: usize = 512;

/// Minimum interval between two events for the same limit.
const SAME_LIMIT_NS: Nanos = 1_000_000_000;

/// The recent events.
#[derive(Debug, Default)]
pub(in crate::root) struct Events {
    last: VecDeque<SeenEvent>,
    count: u64,
    limit: Option<(Nanos, String)>,
}

impl Events {
    pub(super) fn get(&self, number: u64) -> Option<&SeenEvent> {
        let first = self.last.front()?.number;
        self.last.get(usize::try_from(number.checked_sub(first)?).ok()?)
    }
}

impl Core {
    /// Adds an event.
    pub(in crate::root) fn record_event(
        &mut self,
        happening: Happening,
        node: Option<NodeId>,
        domain: Option<DomainId>,
        text: impl Into<String>,
    ) {
        let events = &mut self.observing.events;
        events.count += 1;
        let number = events.count;
        let text = truncate_text(text.into(), MAX_TEXT_BYTES);
        events.last.push_back(SeenEvent { number, at_ns: self.now, happening, node, domain, text });
        self.observing.versions.mark_changed(PartKey::Event(number));
        if self.observing.events.last.len() > MAX_EVENTS
            && let Some(oldest) = self.observing.events.last.pop_front()
        {
            self.observing.versions.mark_removed(PartKey::Event(oldest.number));
        }
    }

    /// Adds an event about a domain.
    pub(in crate::root) fn record_domain_event(
        &mut self,
        domain: DomainId,
        happening: Happening,
        text: impl Into<String>,
    ) {
        self.record_event(happening, Some(domain.node()), Some(domain), text);
    }

    /// Adds an event for a limit that was reached. Repetitions by one domain are combined.
    pub(in crate::root) fn record_limit_event(&mut self, domain: Option<DomainId>, fault: &Fault) {
        let Fault::Limit { what } = fault else { return };
        let events = &mut self.observing.events;
        let again = events.limit.take().filter(|(at, before)| {
            *before == *what && self.now.saturating_sub(*at) < SAME_LIMIT_NS && *at <= self.now
        });
        if again.is_some() {
            events.limit = again;
            return;
        }
        events.limit = Some((self.now, what.clone()));
        self.record_event(Happening::LIMIT_MET, domain.map(DomainId::node), domain, what.clone());
    }
}

/// Describes how a domain ended, in a few words.
pub(in crate::root) fn describe_exit(exit: &Exit) -> String {
    match exit {
        Exit::Exited { status } => format!("with status {status}"),
        Exit::Signalled { signal } => format!("by signal {signal}"),
        Exit::NodeLost { cause } => format!("with its node: {cause}"),
        Exit::Left => "by itself".into(),
    }
}
