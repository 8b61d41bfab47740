//! The contract of an engine, case by case.

use std::collections::BTreeMap;

use tombolo_engine::{
    Abilities, Completion, Engine, Failure, Location, Reach, Refusal, RejectionReason, Request, RequestId,
    finish,
};
use tombolo_platform::Deadline;
use tombolo_platform::event::{Interest, poll};
use tombolo_transport::ChannelError;

use crate::fixtures::{EngineSetup, Fixture, PATIENCE, ROOM};

/// Requirement of a case for a setup.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Requirement {
    Nothing,
    Fills,
    Background,
    Killable,
    Overlaps,
}

#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    need: Requirement,
    pub(crate) run: fn(&dyn Fn(usize) -> Fixture),
}

macro_rules! cases {
    ($($need:ident $name:ident),* $(,)?) => {
        &[$(Case { name: stringify!($name), need: Requirement::$need, run: $name }),*]
    };
}

pub(crate) const ALL: &[Case] = cases![
    Nothing every_length_arrives_whole,
    Nothing engine_does_what_it_claims_and_refuses_the_rest,
    Fills fills_write_exactly_their_range,
    Nothing the_limit_on_requests_is_exact,
    Nothing every_request_has_one_completion,
    Nothing the_descriptor_is_readable_while_there_are_completions,
    Nothing ranges_outside_are_refused_and_nothing_is_written,
    Overlaps ranges_that_overlap_are_refused,
    Nothing conflicting_requests_are_refused,
    Nothing fenced_requests_run_one_after_the_other,
    Nothing expired_requests_are_not_started,
    Background cancelled_requests_complete,
    Background an_engine_that_is_dropped_leaves_nothing_behind,
    Killable peer_death_ends_pending_requests,
];

/// Returns the reason why a case cannot be run with a setup.
pub(crate) fn missing_requirement(setup: &EngineSetup, case: &Case) -> Option<String> {
    if let Some(missing) = &setup.missing {
        return Some(missing.clone());
    }
    let (has, what) = match case.need {
        Requirement::Nothing => (true, ""),
        Requirement::Fills => (setup.fills, "its target cannot be filled by this engine"),
        Requirement::Background => (setup.background, "it does a request when it takes it"),
        Requirement::Killable => (setup.killable, "there is no other side that could die"),
        Requirement::Overlaps => (setup.overlaps, "its source and its target are never the same memory"),
    };
    (!has).then(|| what.into())
}

fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|index| ((index + seed) % 251) as u8).collect()
}

fn next_completion(engine: &mut dyn Engine) -> Completion {
    finish(engine, PATIENCE).unwrap().expect("a completion in time")
}

fn copy(fixture: &Fixture, from: usize, to: usize, length: usize) -> Request {
    Request::copy((fixture.source.place)(from), (fixture.target.place)(to), length as u64)
}

fn submit(fixture: &mut Fixture, from: usize, to: usize, length: usize) -> RequestId {
    let request = copy(fixture, from, to, length);
    fixture.engine.submit(request).unwrap()
}

fn submit_fenced(fixture: &mut Fixture, from: usize, to: usize, length: usize) -> RequestId {
    let request = copy(fixture, from, to, length).fenced();
    fixture.engine.submit(request).unwrap()
}

fn copy_and_wait(fixture: &mut Fixture, from: usize, to: usize, length: usize) {
    let id = submit(fixture, from, to, length);
    assert_eq!(next_completion(fixture.engine.as_mut()), Completion { id, result: Ok(()) });
}

fn every_length_arrives_whole(start: &dyn Fn(usize) -> Fixture) {
    let mut fixture = start(4);
    let bytes = pattern(ROOM, 3);
    (fixture.source.write)(0, &bytes);
    for (length, from, to) in [
        (0, 0, 0),
        (1, 0, 7),
        (7, 1, 8),
        (64, 3, 64),
        (4093, 8, 1),
        (65_536, 64, 128),
        (262_145, 1, 2),
        ((1 << 20) - 1, 0, 8),
        (1 << 20, 8, 8),
        ((1 << 20) + 13, 5, 16),
        (ROOM - 64, 64, 32),
    ] {
        (fixture.target.write)(0, &vec![0xEE; ROOM]);
        copy_and_wait(&mut fixture, from, to, length);
        let found = (fixture.target.read)(0, ROOM);
        assert!(found[to..to + length] == bytes[from..from + length], "{length} bytes from {from} to {to}");
        let around = found[..to].iter().chain(&found[to + length..]);
        assert!(around.into_iter().all(|byte| *byte == 0xEE), "{length} bytes from {from} wrote more");
    }
    copy_and_wait(&mut fixture, 0, 0, ROOM);
    assert!((fixture.target.read)(0, ROOM) == bytes, "all of it");
    assert!((fixture.source.read)(0, ROOM) == bytes, "the source changed");
}

fn engine_does_what_it_claims_and_refuses_the_rest(start: &dyn Fn(usize) -> Fixture) {
    let mut fixture = start(4);
    let here = Request::copy((fixture.source.place)(0), (fixture.target.place)(0), 8);
    assert!(fixture.engine.abilities().reaches(here.route()));
    assert_eq!(fixture.engine.check(&here), Ok(()));
    // Every pairing of two of the available locations.
    for (source, target) in [(true, true), (false, false), (false, true)] {
        let place = |of_source: bool, at| {
            if of_source { (fixture.source.place)(at) } else { (fixture.target.place)(at) }
        };
        let request = Request::copy(place(source, 0), place(target, 64), 8);
        let reaches = fixture.engine.abilities().reaches(request.route());
        assert_eq!(fixture.engine.check(&request).is_ok(), reaches, "{}", request.route());
        if !reaches {
            let rejected = fixture.engine.submit(request).unwrap_err();
            assert!(matches!(rejected.why, RejectionReason::Refused(Refusal::Unreachable { .. })));
        }
    }
    let fill = Request::fill((fixture.target.place)(0), 1, 8);
    if !fixture.engine.abilities().contains(Abilities::FILL) {
        assert!(matches!(fixture.engine.check(&fill), Err(Refusal::Unreachable { .. })));
    }
    assert_eq!(fixture.engine.in_flight(), 0);
}

fn fills_write_exactly_their_range(start: &dyn Fn(usize) -> Fixture) {
    let mut fixture = start(4);
    for (length, at) in [(0, 0), (1, 3), (63, 1), (4096, 8), ((1 << 20) + 1, 7), (ROOM, 0)] {
        (fixture.target.write)(0, &vec![0xEE; ROOM]);
        let request = Request::fill((fixture.target.place)(at), 0x31, length as u64);
        let id = fixture.engine.submit(request).unwrap();
        assert_eq!(next_completion(fixture.engine.as_mut()), Completion { id, result: Ok(()) });
        let found = (fixture.target.read)(0, ROOM);
        assert!(found[at..at + length].iter().all(|byte| *byte == 0x31), "{length} bytes at {at}");
        let around = found[..at].iter().chain(&found[at + length..]);
        assert!(around.into_iter().all(|byte| *byte == 0xEE), "{length} bytes at {at} wrote more");
    }
}

fn the_limit_on_requests_is_exact(start: &dyn Fn(usize) -> Fixture) {
    for limit in [1, 2, 5] {
        let mut fixture = start(limit);
        assert_eq!(fixture.engine.limit(), limit);
        for taken in 0..limit {
            assert_eq!(fixture.engine.in_flight(), taken);
            submit(&mut fixture, 0, taken * 4096, 4096);
        }
        let one_more = copy(&fixture, 8, limit * 4096, 16);
        let rejected = fixture.engine.submit(one_more).unwrap_err();
        assert_eq!(rejected.why, RejectionReason::Full { limit });
        assert_eq!(fixture.engine.in_flight(), limit, "what was rejected was taken");
        // Taking completions makes room, whether the requests succeeded or not.
        assert_eq!(next_completion(fixture.engine.as_mut()).result, Ok(()));
        fixture.engine.submit(rejected.request).unwrap();
        for _ in 0..limit {
            assert_eq!(next_completion(fixture.engine.as_mut()).result, Ok(()));
        }
        assert_eq!((fixture.engine.in_flight(), fixture.engine.take()), (0, None));
    }
}

fn every_request_has_one_completion(start: &dyn Fn(usize) -> Fixture) {
    let mut fixture = start(16);
    (fixture.source.write)(0, &pattern(64 * 1024, 1));
    let mut submitted = Vec::new();
    let mut completions: Vec<Completion> = Vec::new();
    // Targets that no request in progress writes.
    let mut free: Vec<usize> = (1..=16).map(|slot| slot * 65_536).collect();
    let mut at = BTreeMap::new();
    for round in 0..64_usize {
        let target = free.pop().unwrap_or_else(|| {
            completions.push(next_completion(fixture.engine.as_mut()));
            at[&completions[completions.len() - 1].id]
        });
        submitted.push(submit(&mut fixture, 0, target, 1 + round * 997));
        at.insert(submitted[round], target);
    }
    while completions.len() < submitted.len() {
        completions.push(next_completion(fixture.engine.as_mut()));
    }
    assert_eq!(fixture.engine.take(), None, "a completion of nothing");
    let mut ids: Vec<_> = completions.iter().map(|completion| completion.id).collect();
    assert!(completions.iter().all(|completion| completion.result == Ok(())));
    ids.sort_unstable();
    submitted.sort_unstable();
    assert_eq!(ids, submitted);
    ids.dedup();
    assert_eq!(ids.len(), 64, "an id came twice");
}

fn readable(engine: &mut dyn Engine, until: Deadline) -> bool {
    poll(&[(engine.descriptor().unwrap(), Interest::Read)], Some(until)).unwrap()[0].readable
}

fn the_descriptor_is_readable_while_there_are_completions(start: &dyn Fn(usize) -> Fixture) {
    let mut fixture = start(8);
    let now = || Deadline::after(std::time::Duration::ZERO);
    // One completion from before the descriptor was requested.
    submit(&mut fixture, 0, 0, 64);
    assert!(readable(fixture.engine.as_mut(), Deadline::after(PATIENCE)));
    assert!(fixture.engine.take().is_some());
    assert!(!readable(fixture.engine.as_mut(), now()));
    for _ in 0..3 {
        submit(&mut fixture, 0, 0, 64);
        submit(&mut fixture, 0, 64, 100_000);
        for _ in 0..2 {
            assert!(readable(fixture.engine.as_mut(), Deadline::after(PATIENCE)));
            assert!(fixture.engine.take().is_some(), "readable, and nothing to take");
        }
        assert!(!readable(fixture.engine.as_mut(), now()), "nothing to take, and readable");
    }
}

/// Checks that a request with an invalid range is refused, on submission or by another side.
fn refused(fixture: &mut Fixture, request: Request) {
    match fixture.engine.submit(request) {
        Err(rejected) => {
            let RejectionReason::Refused(Refusal::Range(_) | Refusal::TooLong { .. }) = rejected.why else {
                panic!("{}", rejected.why);
            };
        }
        Ok(id) => {
            let completion = next_completion(fixture.engine.as_mut());
            assert_eq!(completion.id, id);
            let failure = completion.result.unwrap_err();
            assert!(matches!(failure, Failure::Far(_) | Failure::Attach(_)), "{failure}");
        }
    }
}

fn ranges_outside_are_refused_and_nothing_is_written(start: &dyn Fn(usize) -> Fixture) {
    let mut fixture = start(4);
    (fixture.source.write)(0, &pattern(ROOM, 9));
    (fixture.target.write)(0, &vec![0xEE; ROOM]);
    for (from, to, length) in [
        (ROOM + 8, 0, 8),
        (0, ROOM + 8, 8),
        (0, 0, u64::MAX as usize),
        (0, ROOM - 8192, 65_536),
        (ROOM - 8192, 0, 65_536),
        (0, usize::MAX - 7, 64),
        (usize::MAX - 7, 0, 64),
    ] {
        let request = Request::copy((fixture.source.place)(from), (fixture.target.place)(to), length as u64);
        let route = request.route();
        let of_process = [route.source, route.target].contains(&Reach::Process);
        if of_process && from.max(to) < ROOM && length < ROOM {
            // It is unknown here whether mapped memory follows that of another process.
            continue;
        }
        refused(&mut fixture, request);
        assert!(
            (fixture.target.read)(0, ROOM).iter().all(|byte| *byte == 0xEE),
            "{length} from {from} to {to}"
        );
    }
    // The engine keeps working.
    copy_and_wait(&mut fixture, 0, ROOM - 8, 8);
    assert_eq!((fixture.target.read)(ROOM - 8, 8), pattern(8, 9));
}

fn ranges_that_overlap_are_refused(start: &dyn Fn(usize) -> Fixture) {
    let fixture = start(4);
    for (from, to, length, overlap) in
        [(0, 63, 64, true), (63, 0, 64, true), (8, 8, 1, true), (0, 64, 64, false), (64, 0, 64, false)]
    {
        let request = Request::copy((fixture.target.place)(from), (fixture.target.place)(to), length);
        let checked = fixture.engine.check(&request);
        assert_eq!(matches!(checked, Err(Refusal::Range(_))), overlap, "{length} bytes from {from} to {to}");
    }
}

/// Unless the request in progress has already ended, according to its completion.
fn conflicting_requests_are_refused(start: &dyn Fn(usize) -> Fixture) {
    let mut fixture = start(4);
    for (from, to, length) in [(0, ROOM / 2 - 1, 1), (8, 0, ROOM / 2), (ROOM / 2, 1, 8)] {
        let first = submit(&mut fixture, 0, 0, ROOM / 2);
        let request = copy(&fixture, from, to, length);
        match fixture.engine.submit(request) {
            Err(rejected) => {
                let why = RejectionReason::Refused(Refusal::InUse { with: first });
                assert_eq!((rejected.why, fixture.engine.in_flight()), (why, 1));
                assert_eq!(next_completion(fixture.engine.as_mut()).id, first);
                fixture.engine.submit(rejected.request).unwrap();
            }
            Ok(_) => assert_eq!(fixture.engine.take().map(|completion| completion.id), Some(first)),
        }
        assert_eq!(next_completion(fixture.engine.as_mut()).result, Ok(()));
    }
    // A request that only reads the same bytes, or writes others, does not conflict.
    submit(&mut fixture, 0, 0, ROOM / 2);
    submit(&mut fixture, 0, ROOM / 2, ROOM / 4);
    submit(&mut fixture, 8, ROOM / 4 * 3, 64);
    for _ in 0..3 {
        assert_eq!(next_completion(fixture.engine.as_mut()).result, Ok(()));
    }
    assert_eq!(fixture.engine.in_progress(), 0);
}

/// Each request writes the result of the previous one.
fn fenced_requests_run_one_after_the_other(start: &dyn Fn(usize) -> Fixture) {
    let mut fixture = start(16);
    let bytes = pattern(ROOM, 5);
    (fixture.source.write)(0, &bytes);
    for last in [7, 64, 4093] {
        let ids: Vec<_> = (0..16)
            .map(|round| {
                let from = if round == 15 { last } else { round * 32 };
                submit_fenced(&mut fixture, from, 0, ROOM - 8192)
            })
            .collect();
        for id in ids {
            assert_eq!(next_completion(fixture.engine.as_mut()), Completion { id, result: Ok(()) });
        }
        assert!((fixture.target.read)(0, ROOM - 8192) == bytes[last..last + ROOM - 8192], "from {last}");
    }
}

fn expired_requests_are_not_started(start: &dyn Fn(usize) -> Fixture) {
    let mut fixture = start(4);
    (fixture.source.write)(0, &pattern(4096, 1));
    (fixture.target.write)(0, &[0xEE; 4096]);
    let late =
        Request::copy((fixture.source.place)(0), (fixture.target.place)(0), 4096).by(Deadline::at_ns(1));
    let id = fixture.engine.submit(late).unwrap();
    let completion = next_completion(fixture.engine.as_mut());
    assert_eq!(completion, Completion { id, result: Err(Failure::DeadlinePassed) });
    assert!((fixture.target.read)(0, 4096).iter().all(|byte| *byte == 0xEE));
    let in_time = Request::copy((fixture.source.place)(0), (fixture.target.place)(0), 4096);
    let id = fixture.engine.submit(in_time.by(Deadline::after(PATIENCE))).unwrap();
    assert_eq!(next_completion(fixture.engine.as_mut()), Completion { id, result: Ok(()) });
}

fn cancelled_requests_complete(start: &dyn Fn(usize) -> Fixture) {
    let mut fixture = start(8);
    let ids: Vec<_> = (0..8).map(|_| submit_fenced(&mut fixture, 0, 0, ROOM)).collect();
    let cancelled = fixture.engine.cancel(ids[7]);
    let never = fixture.engine.cancel(ids[7]);
    assert!(!(cancelled && never), "it was cancelled twice");
    for _ in 0..8 {
        let completion = next_completion(fixture.engine.as_mut());
        let expected = if cancelled && completion.id == ids[7] { Err(Failure::Cancelled) } else { Ok(()) };
        assert_eq!(completion.result, expected);
    }
    assert_eq!(fixture.engine.take(), None);
    assert!(!fixture.engine.cancel(ids[0]), "what is over was cancelled");
    copy_and_wait(&mut fixture, 0, 0, 64);
}

fn an_engine_that_is_dropped_leaves_nothing_behind(start: &dyn Fn(usize) -> Fixture) {
    let mut fixture = start(8);
    for _ in 0..8 {
        submit_fenced(&mut fixture, 0, 0, ROOM);
    }
    // A request keeps its memory mapped, and the drop does not wait for requests that were not started.
    drop(fixture.source);
    drop(fixture.target);
    drop(fixture.engine);
    if let Some(kill) = fixture.kill {
        kill();
    }
}

fn peer_death_ends_pending_requests(start: &dyn Fn(usize) -> Fixture) {
    let mut fixture = start(4);
    copy_and_wait(&mut fixture, 0, 0, 4096);
    fixture.kill.take().unwrap()();
    let request = Request::copy((fixture.source.place)(0), (fixture.target.place)(0), 4096);
    let Ok(id) = fixture.engine.submit(request) else { return };
    let completion = next_completion(fixture.engine.as_mut());
    assert_eq!(completion.id, id);
    match completion.result.unwrap_err() {
        Failure::Attach(_) => return,
        Failure::Channel(ChannelError::Closed | ChannelError::PeerDied) => {}
        failure => panic!("{failure}"),
    }
    let after = Request::copy(Location::clone(&(fixture.source.place)(0)), (fixture.target.place)(0), 8);
    assert!(matches!(fixture.engine.check(&after), Err(Refusal::Lost { .. })));
}
