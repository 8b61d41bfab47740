//! Watches, which report changes in order together with the number of lost ones.

use alloc::collections::VecDeque;
use alloc::string::String;

use super::{Naming, Output, Session};
use crate::name_faults::NameFault;
use crate::names::{Answer, DeleteCause, EndCause, Event, EventMask, Notice};
use crate::pattern::Exhausted;
use crate::query::{Matcher, truncated};
use crate::record::size_bytes;
use crate::records::{Query, Record};
use crate::store::waits::too_costly;
use crate::value::Attributes;

/// Size of a notice without its record or event, in bytes.
const NOTICE_BYTES: usize = 64;

/// Watch of a client on records or events.
#[derive(Debug)]
pub(super) struct Watch {
    session: Session,
    matcher: Matcher,
    events: EventMask,
    once: bool,
    capacity: usize,
    /// Sizes of the notices in transit.
    in_transit: VecDeque<usize>,
    lost: u64,
}

impl Naming {
    pub(super) fn watch(
        &mut self,
        session: Session,
        query: &Query,
        events: EventMask,
        once: bool,
        capacity: u32,
    ) -> Result<Answer, NameFault> {
        if events.0 == 0 || events.0 > 7 {
            return Err(NameFault::Refused { why: "a watch needs something to watch for".into() });
        }
        if capacity == 0 || capacity > self.limits.watch_capacity {
            return Err(Self::limit_fault(
                "notices on the way (1 or more)",
                self.limits.watch_capacity as usize,
            ));
        }
        let matcher = query.compile(&self.limits)?;
        if self.watches.len() >= self.limits.watches {
            return Err(Self::limit_fault("watches", self.limits.watches));
        }
        let session_watches = self.sessions.get(&session).map_or(0, |state| state.watches.len());
        if session_watches >= self.limits.watches_per_session {
            return Err(Self::limit_fault("watches of this program", self.limits.watches_per_session));
        }
        let (records, next) = if events.has(EventMask::RECORDS) {
            let page = self.page(&matcher, "", self.limits.page_records);
            page.map_err(|Exhausted| too_costly(&truncated(&alloc::format!("{query}"))))?
        } else {
            Default::default()
        };
        let watch = self.next_revision();
        if let Some(state) = self.sessions.get_mut(&session) {
            state.watches.insert(watch);
        }
        self.watch_index.add(&matcher, watch);
        let state = Watch {
            session,
            matcher,
            events,
            once,
            capacity: capacity as usize,
            in_transit: VecDeque::new(),
            lost: 0,
        };
        self.watches.insert(watch, state);
        Ok(Answer::Watching { watch, records, next })
    }

    pub(super) fn unwatch(&mut self, session: Session, watch: u64) -> Result<Answer, NameFault> {
        if self.watches.get(&watch).is_none_or(|state| state.session != session) {
            return Err(NameFault::NoSuchWatch { watch });
        }
        self.end_watch(watch, EndCause::Unwatched);
        Ok(Answer::Done)
    }

    /// Removes a watch from all tables without a notice.
    pub(super) fn drop_watch(&mut self, watch: u64) -> Option<Watch> {
        let state = self.watches.remove(&watch)?;
        self.watch_index.remove(&state.matcher, watch);
        if let Some(session) = self.sessions.get_mut(&state.session) {
            session.watches.remove(&watch);
            session.notice_bytes -= state.in_transit.iter().sum::<usize>();
        }
        Some(state)
    }

    fn end_watch(&mut self, watch: u64, cause: EndCause) {
        if let Some(state) = self.drop_watch(watch) {
            let notice = Notice { watch, lost: state.lost, last: true, event: Event::Ended { cause } };
            self.outputs.push(Output::Notice { session: state.session, notice });
        }
    }

    /// Handles acknowledged notices: others may follow, and losses are reported at once.
    pub(super) fn acknowledge_notices(&mut self, session: Session, watch: u64, count: u32) {
        let Some(state) = self.watches.get_mut(&watch).filter(|state| state.session == session) else {
            return;
        };
        let count = (count as usize).min(state.in_transit.len());
        let freed: usize = state.in_transit.drain(..count).sum();
        let Some(session_state) = self.sessions.get_mut(&session) else { return };
        session_state.notice_bytes -= freed;
        // Room for this session is room for each of its watches.
        let session_watches: alloc::vec::Vec<u64> = session_state.watches.iter().copied().collect();
        for watch in session_watches {
            if self.watches.get(&watch).is_some_and(|state| state.lost > 0) {
                self.notify(watch, Event::Lost, NOTICE_BYTES);
            }
        }
    }

    /// Sends a notice of a watch, or counts it as lost. Returns whether it was sent.
    fn notify(&mut self, watch: u64, event: Event, size: usize) -> bool {
        let Some(state) = self.watches.get_mut(&watch) else { return false };
        let Some(session) = self.sessions.get_mut(&state.session) else { return false };
        let reports_only_losses = matches!(event, Event::Lost);
        let room = self.limits.notice_bytes_per_session.saturating_sub(session.notice_bytes);
        if state.in_transit.len() >= state.capacity || size > room {
            // A notice that only reports losses is not a loss itself.
            state.lost += u64::from(!reports_only_losses);
            return false;
        }
        state.in_transit.push_back(size);
        session.notice_bytes += size;
        let last = state.once && !reports_only_losses;
        let notice = Notice { watch, lost: core::mem::take(&mut state.lost), last, event };
        self.outputs.push(Output::Notice { session: state.session, notice });
        if last {
            self.drop_watch(watch);
        }
        true
    }

    /// Whether an event of a name matches a watch with any of `events`. Ends a watch whose query is too
    /// costly.
    fn watch_matches(&mut self, watch: u64, events: EventMask, name: &str, attributes: &Attributes) -> bool {
        let Some(state) = self.watches.get(&watch).filter(|state| state.events.has(events)) else {
            return false;
        };
        match state.matcher.matches(name, attributes, &mut { self.limits.steps_per_record }) {
            Ok(matched) => matched,
            Err(Exhausted) => {
                self.end_watch(watch, EndCause::TooCostly);
                false
            }
        }
    }

    pub(super) fn notify_set(&mut self, before: Option<&Record>, now: &Record) {
        let size = NOTICE_BYTES + now.name.len() + size_bytes(&now.attributes);
        for watch in self.watch_index.candidates(&now.name) {
            if self.watch_matches(watch, EventMask::RECORDS, &now.name, &now.attributes) {
                if self.watches.get(&watch).is_some_and(|state| state.events.has(EventMask::SET)) {
                    self.notify(watch, Event::Set { record: now.clone() }, size);
                }
                continue;
            }
            if before.is_some_and(|before| {
                self.watch_matches(watch, EventMask::DELETE, &before.name, &before.attributes)
            }) {
                let event = Event::Deleted { record: now.clone(), cause: DeleteCause::NoMatch };
                self.notify(watch, event, size);
            }
        }
    }

    pub(super) fn notify_deleted(&mut self, record: &Record, cause: DeleteCause) {
        let size = NOTICE_BYTES + record.name.len() + size_bytes(&record.attributes);
        for watch in self.watch_index.candidates(&record.name) {
            if self.watch_matches(watch, EventMask::DELETE, &record.name, &record.attributes) {
                self.notify(watch, Event::Deleted { record: record.clone(), cause }, size);
            }
        }
    }

    pub(super) fn publish(
        &mut self,
        session: Session,
        name: String,
        attributes: Attributes,
    ) -> Result<Answer, NameFault> {
        self.check_change(&name, &attributes)?;
        let publisher =
            self.domain_of(session).ok_or(NameFault::Refused { why: "no such session".into() })?;
        let size = NOTICE_BYTES + name.len() + size_bytes(&attributes);
        let (mut told, mut refused) = (0, 0);
        for watch in self.watch_index.candidates(&name) {
            if self.watch_matches(watch, EventMask::PUBLISH, &name, &attributes) {
                let event =
                    Event::Published { name: name.clone(), attributes: attributes.clone(), publisher };
                if self.notify(watch, event, size) { told += 1 } else { refused += 1 }
            }
        }
        Ok(Answer::Published { told, refused })
    }
}
