//! Tests of one scope, driven by requests, ends of sessions and time.

mod holding;
mod model;
mod records;
mod watching;

use alloc::vec::Vec;
use core::num::NonZeroU16;
use core::time::Duration;

use tombolo_base::{DomainId, NodeId};

use super::*;
use crate::names::{Condition, Event, EventMask, Lifetime, SetMode};
use crate::records::Query;
use crate::text::{parse_query, parse_record};

const SECOND: Duration = Duration::from_secs(1);

/// Scope under test. Sessions are numbers, and their domains have the same numbers.
struct Bench {
    naming: Naming,
    now: Nanos,
    notices: Vec<(u64, Notice)>,
    withdrawn: Vec<String>,
    answers: Vec<(u64, u32, Result<Answer, NameFault>)>,
    last_request: u32,
}

fn domain(session: u64) -> DomainId {
    DomainId::new(NodeId(0), NonZeroU16::MIN, session as u32)
}

impl Bench {
    fn new() -> Bench {
        Bench::limited(Limits::default())
    }

    fn limited(limits: Limits) -> Bench {
        let mut naming = Naming::new(limits, 1);
        (1..=4).for_each(|session| naming.open(Session(session), domain(session)));
        Bench {
            naming,
            now: 0,
            notices: Vec::new(),
            withdrawn: Vec::new(),
            answers: Vec::new(),
            last_request: 0,
        }
    }

    fn collect(&mut self) {
        for output in self.naming.take_outputs() {
            match output {
                Output::Answer { session, request, result } => {
                    self.answers.push((session.0, request, result));
                }
                Output::Notice { session, notice } => self.notices.push((session.0, notice)),
                Output::Withdrawn { name } => self.withdrawn.push(name),
            }
        }
    }

    /// Sends a request and returns its number.
    fn send(&mut self, session: u64, operation: Operation) -> u32 {
        self.last_request += 1;
        self.naming.request(self.now, Session(session), self.last_request, operation);
        self.collect();
        self.last_request
    }

    fn take_answer(&mut self, request: u32) -> Option<Result<Answer, NameFault>> {
        let index = self.answers.iter().position(|(_, of, _)| *of == request)?;
        Some(self.answers.remove(index).2)
    }

    fn call(&mut self, session: u64, operation: Operation) -> Result<Answer, NameFault> {
        let request = self.send(session, operation);
        self.take_answer(request).expect("an answer at once")
    }

    fn close(&mut self, session: u64) {
        self.naming.close(Session(session));
        self.collect();
    }

    fn tick(&mut self, by: Duration) {
        self.now += by.as_nanos() as u64;
        self.naming.tick(self.now);
        self.collect();
    }

    fn change(text: &str, mode: SetMode, lifetime: Lifetime, condition: Condition) -> Operation {
        let (name, attributes) = parse_record(text).unwrap();
        Operation::Set {
            name,
            attributes,
            remove: Vec::new(),
            mode,
            lifetime,
            condition,
            want_previous: true,
        }
    }

    fn set(&mut self, session: u64, text: &str) -> Result<Answer, NameFault> {
        self.call(session, Self::change(text, SetMode::Replace, Lifetime::Persistent, Condition::Always))
    }

    fn set_transient(&mut self, session: u64, text: &str) -> Result<Answer, NameFault> {
        self.call(session, Self::change(text, SetMode::Replace, Lifetime::Transient, Condition::Always))
    }

    fn delete(&mut self, session: u64, name: &str) -> Result<Answer, NameFault> {
        let condition = Condition::Always;
        self.call(session, Operation::Delete { name: name.into(), condition, want_previous: true })
    }

    /// Returns all matching records in text form.
    fn find(&mut self, query: &str) -> Vec<String> {
        let query = parse_query(query).unwrap();
        let mut all = Vec::new();
        let mut after = String::new();
        loop {
            let Ok(Answer::Found { records, next }) =
                self.call(4, Operation::Find { query: query.clone(), after, limit: 100 })
            else {
                panic!("no page");
            };
            all.extend(records.iter().map(|record| alloc::format!("{record}")));
            match next {
                Some(next) => after = next,
                None => return all,
            }
        }
    }

    fn watch(&mut self, session: u64, query: &str, events: EventMask, once: bool) -> u64 {
        match self.watch_with(session, parse_query(query).unwrap(), events, once, 64) {
            Ok(Answer::Watching { watch, .. }) => watch,
            other => panic!("{other:?}"),
        }
    }

    fn watch_with(
        &mut self,
        session: u64,
        query: Query,
        events: EventMask,
        once: bool,
        capacity: u32,
    ) -> Result<Answer, NameFault> {
        self.call(session, Operation::Watch { query, events, once, capacity })
    }

    fn lock(&mut self, session: u64, timeout: Duration) -> u32 {
        self.send(session, Operation::Lock { name: "lock".into(), timeout })
    }

    fn token(&mut self, request: u32) -> Option<u64> {
        match self.take_answer(request)? {
            Ok(Answer::Locked { token }) => Some(token),
            other => panic!("{other:?}"),
        }
    }
}

fn limit_of(result: Result<Answer, NameFault>) -> Option<u64> {
    match result {
        Err(NameFault::Limit { limit, .. }) => Some(limit),
        Ok(_) => None,
        Err(other) => panic!("{other}"),
    }
}
