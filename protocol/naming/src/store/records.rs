//! Finding, setting, deleting and exporting records.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Bound;

use tombolo_base::DomainId;

use super::waits::too_costly;
use super::{Endpoint, Naming, Output, Session};
use crate::name::{NaturalName, is_attribute, is_name};
use crate::name_faults::NameFault;
use crate::names::{Answer, Condition, DeleteCause, Lifetime, SetMode};
use crate::pattern::Exhausted;
use crate::query::{Matcher, truncated};
use crate::record::{encoded_bytes, size_bytes};
use crate::records::{Query, Record, Value};
use crate::value::Attributes;

/// Record in the store.
#[derive(Clone, Debug)]
pub(super) struct StoredRecord {
    attributes: Attributes,
    version: u64,
    owner: Option<(Session, DomainId)>,
    /// Owner's number for the record, if it is an export.
    listener: Option<u32>,
}

impl StoredRecord {
    fn to_record(&self, name: &str) -> Record {
        Record {
            name: name.to_string(),
            attributes: self.attributes.clone(),
            version: self.version,
            owner: self.owner.map(|(_, domain)| domain),
            endpoint: self.listener.is_some(),
        }
    }

    /// Returns the encoded size in an answer, in bytes.
    fn encoded_bytes(&self, name: &str) -> usize {
        encoded_bytes(name, &self.attributes)
    }

    fn size_bytes(&self, name: &str) -> usize {
        name.len() + size_bytes(&self.attributes)
    }
}

/// Change of a record.
pub(super) struct Change {
    pub(super) attributes: Attributes,
    pub(super) remove: Vec<String>,
    pub(super) mode: SetMode,
    pub(super) lifetime: Lifetime,
}

impl Naming {
    fn stored(&self, name: &str) -> Option<&StoredRecord> {
        self.records.get(&NaturalName(name.to_string()))
    }

    /// Returns the record with a name.
    #[must_use]
    pub fn record(&self, name: &str) -> Option<Record> {
        self.stored(name).map(|stored| stored.to_record(name))
    }

    /// Returns the records whose names have a prefix, in order.
    pub fn records_with_prefix<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a Attributes)> + 'a {
        let from = self.records.range(NaturalName(prefix.to_string())..);
        let under = from.take_while(move |(name, _)| name.0.starts_with(prefix));
        under.map(|(name, stored)| (name.0.as_str(), &stored.attributes))
    }

    /// Returns the exporter of a name.
    #[must_use]
    pub fn endpoint(&self, name: &str) -> Option<Endpoint> {
        let stored = self.stored(name)?;
        let (session, domain) = stored.owner?;
        Some(Endpoint { session, domain, listener: stored.listener? })
    }

    /// Exports a name: creates a record that domains can connect to and that ends with its session.
    ///
    /// # Errors
    /// [`NameFault`] if the name is taken or invalid, or a limit is reached.
    pub fn export(
        &mut self,
        session: Session,
        name: &str,
        listener: u32,
        attributes: Attributes,
    ) -> Result<(), NameFault> {
        let domain = self.domain_of(session).ok_or(NameFault::Refused { why: "no such session".into() })?;
        self.check_change(name, &attributes)?;
        if let Some(taken) = self.record(name) {
            return Err(NameFault::Exists { name: taken.name, owner: taken.owner });
        }
        let stored =
            StoredRecord { attributes, version: 0, owner: Some((session, domain)), listener: Some(listener) };
        self.put(name, stored)?;
        Ok(())
    }

    /// Withdraws an export of a session, given the session's number for it.
    pub fn withdraw(&mut self, session: Session, listener: u32) {
        if let Some(name) = self.exported_name(session, listener).cloned() {
            self.remove_record(&name, DeleteCause::Deleted);
        }
    }

    /// Returns the name that a session exports under its number for it.
    #[must_use]
    pub fn exported_name(&self, session: Session, listener: u32) -> Option<&String> {
        let is_it =
            |name: &&String| self.stored(name).is_some_and(|stored| stored.listener == Some(listener));
        self.sessions.get(&session)?.records.iter().find(is_it)
    }

    /// Returns matching records from a name on, and where to continue. Running out of steps shortens the
    /// page; it is an error only if a single record takes too many.
    pub(super) fn page(
        &self,
        matcher: &Matcher,
        after: &str,
        limit: usize,
    ) -> Result<(Vec<Record>, Option<String>), Exhausted> {
        let per_record = self.limits.steps_per_record;
        if let Some(name) = matcher.exact() {
            let record = self.record(name).filter(|_| NaturalName(name.into()) > NaturalName(after.into()));
            let matched = match record {
                Some(record) => {
                    matcher.matches(name, &record.attributes, &mut { per_record })?.then_some(record)
                }
                None => None,
            };
            return Ok((matched.into_iter().collect(), None));
        }
        let (mut records, mut room_bytes, mut steps) =
            (Vec::new(), self.limits.page_bytes, self.limits.steps_per_request);
        let mut seen: Option<&str> = None;
        let from = NaturalName(after.to_string());
        for (NaturalName(name), stored) in self.records.range((Bound::Excluded(from), Bound::Unbounded)) {
            let continuation = || seen.map(ToString::to_string);
            if records.len() >= limit || steps < per_record {
                return Ok((records, continuation()));
            }
            let mut left = per_record;
            let matched = matcher.matches(name, &stored.attributes, &mut left)?;
            steps -= per_record - left;
            if matched {
                let size = stored.encoded_bytes(name);
                if size > room_bytes && !records.is_empty() {
                    return Ok((records, continuation()));
                }
                room_bytes = room_bytes.saturating_sub(size);
                records.push(stored.to_record(name));
            }
            seen = Some(name);
        }
        Ok((records, None))
    }

    pub(super) fn find(&self, query: &Query, after: &str, limit: u32) -> Result<Answer, NameFault> {
        let matcher = query.compile(&self.limits)?;
        let limit = (limit as usize).clamp(1, self.limits.page_records);
        let (records, next) = self
            .page(&matcher, after, limit)
            .map_err(|Exhausted| too_costly(&truncated(&query.to_string())))?;
        Ok(Answer::Found { records, next })
    }

    /// Checks the name and attributes of a record to be set.
    pub(super) fn check_change(&self, name: &str, attributes: &Attributes) -> Result<(), NameFault> {
        if !is_name(name) {
            return Err(NameFault::BadName { name: truncated(name) });
        }
        if attributes.len() > self.limits.attributes {
            return Err(Self::limit_fault("attributes in a record", self.limits.attributes));
        }
        for (attribute, value) in attributes {
            if !is_attribute(attribute) {
                return Err(NameFault::BadAttribute { attribute: truncated(attribute) });
            }
            if matches!(value, Value::Float(float) if float.0.is_nan()) {
                return Err(NameFault::BadValue { attribute: attribute.clone() });
            }
        }
        if name.len() + size_bytes(attributes) > self.limits.record_bytes {
            return Err(Self::limit_fault("bytes in a record", self.limits.record_bytes));
        }
        Ok(())
    }

    fn check_condition(&self, name: &str, condition: &Condition) -> Result<(), NameFault> {
        let existing = self.stored(name);
        match condition {
            Condition::Always => Ok(()),
            Condition::Absent => match existing {
                None => Ok(()),
                Some(stored) => {
                    let owner = stored.owner.map(|(_, domain)| domain);
                    Err(NameFault::Exists { name: name.to_string(), owner })
                }
            },
            Condition::Version(expected) => match existing {
                None => Err(NameFault::NoSuchName { name: truncated(name) }),
                Some(stored) if stored.version == *expected => Ok(()),
                Some(stored) => Err(NameFault::WrongVersion {
                    name: name.to_string(),
                    expected: *expected,
                    found: stored.version,
                }),
            },
            Condition::Fenced { lock, token } => {
                if self.is_held(lock, *token) {
                    Ok(())
                } else {
                    Err(NameFault::NotHeld { name: truncated(lock) })
                }
            }
        }
    }

    /// Checks that an export is changed only by its owner.
    fn check_owner(&self, session: Session, name: &str) -> Result<(), NameFault> {
        match self.stored(name) {
            Some(StoredRecord { listener: Some(_), owner: Some((owner, domain)), .. })
                if *owner != session =>
            {
                Err(NameFault::NotYours { name: name.to_string(), owner: *domain })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn set(
        &mut self,
        session: Session,
        name: String,
        change: Change,
        condition: &Condition,
        want_previous: bool,
    ) -> Result<Answer, NameFault> {
        // Numbers are never reused, so no record has the next sequential name yet.
        let name = match change.mode {
            SetMode::Sequential => name + &(self.revision + 1).to_string(),
            SetMode::Replace | SetMode::Merge => name,
        };
        if !is_name(&name) {
            return Err(NameFault::BadName { name: truncated(&name) });
        }
        self.check_condition(&name, condition)?;
        self.check_owner(session, &name)?;
        let before = self.stored(&name).cloned();
        let mut attributes = match (&before, change.mode) {
            (Some(stored), SetMode::Merge) => stored.attributes.clone(),
            _ => Attributes::new(),
        };
        for attribute in &change.remove {
            attributes.remove(attribute);
        }
        attributes.extend(change.attributes);
        self.check_change(&name, &attributes)?;
        let requested = match change.lifetime {
            Lifetime::Transient => self.domain_of(session).map(|domain| (session, domain)),
            Lifetime::Persistent => None,
        };
        let (owner, listener) = match &before {
            Some(stored) if change.mode == SetMode::Merge || stored.listener.is_some() => {
                (stored.owner, stored.listener)
            }
            _ => (requested, None),
        };
        let version = self.put(&name, StoredRecord { attributes, version: 0, owner, listener })?;
        let previous = before.filter(|_| want_previous).map(|stored| stored.to_record(&name));
        Ok(Answer::Changed { name, version, previous })
    }

    /// Stores a record, updates its owner's accounts, and serves its waiters. Returns its version.
    fn put(&mut self, name: &str, mut stored: StoredRecord) -> Result<u64, NameFault> {
        let key = NaturalName(name.to_string());
        let before = self.records.get(&key);
        let size_before = before.map_or(0, |stored| stored.size_bytes(name));
        let store_bytes = self.store_bytes - size_before + stored.size_bytes(name);
        if before.is_none() && self.records.len() >= self.limits.records {
            return Err(Self::limit_fault("records", self.limits.records));
        }
        if store_bytes > self.limits.store_bytes {
            return Err(Self::limit_fault("bytes of records", self.limits.store_bytes));
        }
        let owner_before = before.and_then(|stored| stored.owner);
        let owner_changes =
            owner_before.map(|(session, _)| session) != stored.owner.map(|(session, _)| session);
        let owner_state = stored.owner.and_then(|(session, _)| self.sessions.get(&session));
        if owner_changes
            && owner_state.is_some_and(|state| state.records.len() >= self.limits.records_per_session)
        {
            return Err(Self::limit_fault("records of this program", self.limits.records_per_session));
        }
        if owner_changes {
            if let Some(state) = owner_before.and_then(|(session, _)| self.sessions.get_mut(&session)) {
                state.records.remove(name);
            }
            if let Some(state) = stored.owner.and_then(|(session, _)| self.sessions.get_mut(&session)) {
                state.records.insert(name.to_string());
            }
        }
        let version = self.next_revision();
        stored.version = version;
        self.store_bytes = store_bytes;
        let now = stored.to_record(name);
        let before = self.records.insert(key, stored).map(|stored| stored.to_record(name));
        self.notify_set(before.as_ref(), &now);
        self.serve_awaiting(name);
        Ok(version)
    }

    pub(super) fn delete(
        &mut self,
        session: Session,
        name: &str,
        condition: &Condition,
        want_previous: bool,
    ) -> Result<Answer, NameFault> {
        if !is_name(name) {
            return Err(NameFault::BadName { name: truncated(name) });
        }
        self.check_condition(name, condition)?;
        self.check_owner(session, name)?;
        let record = self
            .remove_record(name, DeleteCause::Deleted)
            .ok_or_else(|| NameFault::NoSuchName { name: truncated(name) })?;
        let previous = want_previous.then_some(record);
        Ok(Answer::Changed { name: name.to_string(), version: self.revision, previous })
    }

    /// Deletes a record whose session has ended and is no longer accounted.
    pub(super) fn remove_orphaned_record(&mut self, name: &str) {
        self.remove_record(name, DeleteCause::OwnerGone);
    }

    fn remove_record(&mut self, name: &str, cause: DeleteCause) -> Option<Record> {
        let stored = self.records.remove(&NaturalName(name.to_string()))?;
        self.store_bytes -= stored.size_bytes(name);
        if let Some(state) = stored.owner.and_then(|(session, _)| self.sessions.get_mut(&session)) {
            state.records.remove(name);
        }
        self.next_revision();
        let record = stored.to_record(name);
        if record.endpoint {
            self.outputs.push(Output::Withdrawn { name: record.name.clone() });
        }
        self.notify_deleted(&record, cause);
        Some(record)
    }
}
