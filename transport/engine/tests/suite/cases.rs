//! The contract of an engine, case by case.

use std::collections::BTreeMap;

use tombolo_engine::{
    Abilities, Completion, Engine, Failure, Location, Reach, Refusal, Request, RequestId, WhyRejected, finish,
};
use tombolo_platform::Deadline;
use tombolo_platform::event::{Interest, poll};
use tombolo_transport::ChannelError;

use crate::rigs::{Bench, PATIENCE, ROOM, Rig};

/// Requirement of a case for a rig.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Nothing,
    Fills,
    Background,
    Killable,
    Overlaps,
}

#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    need: Need,
    pub(crate) run: fn(&dyn Fn(usize) -> Bench),
}

macro_rules! cases {
    ($($need:ident $name:ident),* $(,)?) => {
        &[$(Case { name: stringify!($name), need: Need::$need, run: $name }),*]
    };
}

pub(crate) const ALL: &[Case] = cases![
    Nothing every_length_arrives_whole,
    Nothing it_does_what_it_claims_and_refuses_the_rest,
    Fills fills_reach_what_they_say_and_no_more,
    Nothing the_limit_on_requests_is_exact,
    Nothing every_request_comes_to_one_completion,
    Nothing the_descriptor_is_readable_while_there_are_completions,
    Nothing ranges_outside_are_refused_and_nothing_is_written,
    Overlaps ranges_that_overlap_are_refused,
    Nothing what_conflicts_with_a_request_in_progress_is_refused,
    Nothing fenced_requests_run_one_after_the_other,
    Nothing what_is_too_late_is_not_begun,
    Background what_is_cancelled_comes_to_a_completion,
    Background an_engine_that_is_dropped_leaves_nothing_behind,
    Killable the_death_of_the_other_side_ends_what_is_asked,
];

/// Returns the reason why a case cannot be run with a rig.
pub(crate) fn lacks(rig: &Rig, case: &Case) -> Option<String> {
    if let Some(missing) = &rig.missing {
        return Some(missing.clone());
    }
    let (has, what) = match case.need {
        Need::Nothing => (true, ""),
        Need::Fills => (rig.fills, "its target cannot be filled by this engine"),
        Need::Background => (rig.background, "it does a request when it takes it"),
        Need::Killable => (rig.killable, "there is no other side that could die"),
        Need::Overlaps => (rig.overlaps, "its source and its target are never the same memory"),
    };
    (!has).then(|| what.into())
}

fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|index| ((index + seed) % 251) as u8).collect()
}

fn done(engine: &mut dyn Engine) -> Completion {
    finish(engine, PATIENCE).unwrap().expect("a completion in time")
}

fn copy(bench: &Bench, from: usize, to: usize, length: usize) -> Request {
    Request::copy((bench.source.place)(from), (bench.target.place)(to), length as u64)
}

fn submit(bench: &mut Bench, from: usize, to: usize, length: usize) -> RequestId {
    let request = copy(bench, from, to, length);
    bench.engine.submit(request).unwrap()
}

fn submit_fenced(bench: &mut Bench, from: usize, to: usize, length: usize) -> RequestId {
    let request = copy(bench, from, to, length).fenced();
    bench.engine.submit(request).unwrap()
}

fn copied(bench: &mut Bench, from: usize, to: usize, length: usize) {
    let id = submit(bench, from, to, length);
    assert_eq!(done(bench.engine.as_mut()), Completion { id, result: Ok(()) });
}

fn every_length_arrives_whole(start: &dyn Fn(usize) -> Bench) {
    let mut bench = start(4);
    let bytes = pattern(ROOM, 3);
    (bench.source.write)(0, &bytes);
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
        (bench.target.write)(0, &vec![0xEE; ROOM]);
        copied(&mut bench, from, to, length);
        let found = (bench.target.read)(0, ROOM);
        assert!(found[to..to + length] == bytes[from..from + length], "{length} bytes from {from} to {to}");
        let around = found[..to].iter().chain(&found[to + length..]);
        assert!(around.into_iter().all(|byte| *byte == 0xEE), "{length} bytes from {from} wrote more");
    }
    copied(&mut bench, 0, 0, ROOM);
    assert!((bench.target.read)(0, ROOM) == bytes, "all of it");
    assert!((bench.source.read)(0, ROOM) == bytes, "the source changed");
}

fn it_does_what_it_claims_and_refuses_the_rest(start: &dyn Fn(usize) -> Bench) {
    let mut bench = start(4);
    let here = Request::copy((bench.source.place)(0), (bench.target.place)(0), 8);
    assert!(bench.engine.abilities().reaches(here.route()));
    assert_eq!(bench.engine.check(&here), Ok(()));
    // Every pairing of two of the available locations.
    for (source, target) in [(true, true), (false, false), (false, true)] {
        let place =
            |of_source: bool, at| if of_source { (bench.source.place)(at) } else { (bench.target.place)(at) };
        let request = Request::copy(place(source, 0), place(target, 64), 8);
        let reaches = bench.engine.abilities().reaches(request.route());
        assert_eq!(bench.engine.check(&request).is_ok(), reaches, "{}", request.route());
        if !reaches {
            let rejected = bench.engine.submit(request).unwrap_err();
            assert!(matches!(rejected.why, WhyRejected::Refused(Refusal::Unreachable { .. })));
        }
    }
    let fill = Request::fill((bench.target.place)(0), 1, 8);
    if !bench.engine.abilities().contains(Abilities::FILL) {
        assert!(matches!(bench.engine.check(&fill), Err(Refusal::Unreachable { .. })));
    }
    assert_eq!(bench.engine.in_flight(), 0);
}

fn fills_reach_what_they_say_and_no_more(start: &dyn Fn(usize) -> Bench) {
    let mut bench = start(4);
    for (length, at) in [(0, 0), (1, 3), (63, 1), (4096, 8), ((1 << 20) + 1, 7), (ROOM, 0)] {
        (bench.target.write)(0, &vec![0xEE; ROOM]);
        let request = Request::fill((bench.target.place)(at), 0x31, length as u64);
        let id = bench.engine.submit(request).unwrap();
        assert_eq!(done(bench.engine.as_mut()), Completion { id, result: Ok(()) });
        let found = (bench.target.read)(0, ROOM);
        assert!(found[at..at + length].iter().all(|byte| *byte == 0x31), "{length} bytes at {at}");
        let around = found[..at].iter().chain(&found[at + length..]);
        assert!(around.into_iter().all(|byte| *byte == 0xEE), "{length} bytes at {at} wrote more");
    }
}

fn the_limit_on_requests_is_exact(start: &dyn Fn(usize) -> Bench) {
    for limit in [1, 2, 5] {
        let mut bench = start(limit);
        assert_eq!(bench.engine.limit(), limit);
        for taken in 0..limit {
            assert_eq!(bench.engine.in_flight(), taken);
            submit(&mut bench, 0, taken * 4096, 4096);
        }
        let one_more = copy(&bench, 8, limit * 4096, 16);
        let rejected = bench.engine.submit(one_more).unwrap_err();
        assert_eq!(rejected.why, WhyRejected::Full { limit });
        assert_eq!(bench.engine.in_flight(), limit, "what was rejected was taken");
        // Taking completions makes room, whether the requests succeeded or not.
        assert_eq!(done(bench.engine.as_mut()).result, Ok(()));
        bench.engine.submit(rejected.request).unwrap();
        for _ in 0..limit {
            assert_eq!(done(bench.engine.as_mut()).result, Ok(()));
        }
        assert_eq!((bench.engine.in_flight(), bench.engine.take()), (0, None));
    }
}

fn every_request_comes_to_one_completion(start: &dyn Fn(usize) -> Bench) {
    let mut bench = start(16);
    (bench.source.write)(0, &pattern(64 * 1024, 1));
    let mut asked = Vec::new();
    let mut answered: Vec<Completion> = Vec::new();
    // Targets that no request in progress writes.
    let mut free: Vec<usize> = (1..=16).map(|slot| slot * 65_536).collect();
    let mut at = BTreeMap::new();
    for round in 0..64_usize {
        let target = free.pop().unwrap_or_else(|| {
            answered.push(done(bench.engine.as_mut()));
            at[&answered[answered.len() - 1].id]
        });
        asked.push(submit(&mut bench, 0, target, 1 + round * 997));
        at.insert(asked[round], target);
    }
    while answered.len() < asked.len() {
        answered.push(done(bench.engine.as_mut()));
    }
    assert_eq!(bench.engine.take(), None, "a completion of nothing");
    let mut ids: Vec<_> = answered.iter().map(|completion| completion.id).collect();
    assert!(answered.iter().all(|completion| completion.result == Ok(())));
    ids.sort_unstable();
    asked.sort_unstable();
    assert_eq!(ids, asked);
    ids.dedup();
    assert_eq!(ids.len(), 64, "an id came twice");
}

fn readable(engine: &mut dyn Engine, until: Deadline) -> bool {
    poll(&[(engine.descriptor().unwrap(), Interest::Read)], Some(until)).unwrap()[0].readable
}

fn the_descriptor_is_readable_while_there_are_completions(start: &dyn Fn(usize) -> Bench) {
    let mut bench = start(8);
    let now = || Deadline::after(std::time::Duration::ZERO);
    // One completion from before the descriptor was requested.
    submit(&mut bench, 0, 0, 64);
    assert!(readable(bench.engine.as_mut(), Deadline::after(PATIENCE)));
    assert!(bench.engine.take().is_some());
    assert!(!readable(bench.engine.as_mut(), now()));
    for _ in 0..3 {
        submit(&mut bench, 0, 0, 64);
        submit(&mut bench, 0, 64, 100_000);
        for _ in 0..2 {
            assert!(readable(bench.engine.as_mut(), Deadline::after(PATIENCE)));
            assert!(bench.engine.take().is_some(), "readable, and nothing to take");
        }
        assert!(!readable(bench.engine.as_mut(), now()), "nothing to take, and readable");
    }
}

/// Checks that a request with an invalid range is refused, on submission or by another side.
fn refused(bench: &mut Bench, request: Request) {
    match bench.engine.submit(request) {
        Err(rejected) => {
            let WhyRejected::Refused(Refusal::Range(_) | Refusal::TooLong { .. }) = rejected.why else {
                panic!("{}", rejected.why);
            };
        }
        Ok(id) => {
            let completion = done(bench.engine.as_mut());
            assert_eq!(completion.id, id);
            let failure = completion.result.unwrap_err();
            assert!(matches!(failure, Failure::Far(_) | Failure::Attach(_)), "{failure}");
        }
    }
}

fn ranges_outside_are_refused_and_nothing_is_written(start: &dyn Fn(usize) -> Bench) {
    let mut bench = start(4);
    (bench.source.write)(0, &pattern(ROOM, 9));
    (bench.target.write)(0, &vec![0xEE; ROOM]);
    for (from, to, length) in [
        (ROOM + 8, 0, 8),
        (0, ROOM + 8, 8),
        (0, 0, u64::MAX as usize),
        (0, ROOM - 8192, 65_536),
        (ROOM - 8192, 0, 65_536),
        (0, usize::MAX - 7, 64),
        (usize::MAX - 7, 0, 64),
    ] {
        let request = Request::copy((bench.source.place)(from), (bench.target.place)(to), length as u64);
        let route = request.route();
        let of_process = [route.source, route.target].contains(&Reach::Process);
        if of_process && from.max(to) < ROOM && length < ROOM {
            // It is unknown here whether mapped memory follows that of another process.
            continue;
        }
        refused(&mut bench, request);
        assert!(
            (bench.target.read)(0, ROOM).iter().all(|byte| *byte == 0xEE),
            "{length} from {from} to {to}"
        );
    }
    // The engine keeps working.
    copied(&mut bench, 0, ROOM - 8, 8);
    assert_eq!((bench.target.read)(ROOM - 8, 8), pattern(8, 9));
}

fn ranges_that_overlap_are_refused(start: &dyn Fn(usize) -> Bench) {
    let bench = start(4);
    for (from, to, length, overlap) in
        [(0, 63, 64, true), (63, 0, 64, true), (8, 8, 1, true), (0, 64, 64, false), (64, 0, 64, false)]
    {
        let request = Request::copy((bench.target.place)(from), (bench.target.place)(to), length);
        let checked = bench.engine.check(&request);
        assert_eq!(matches!(checked, Err(Refusal::Range(_))), overlap, "{length} bytes from {from} to {to}");
    }
}

/// Unless the request in progress has already ended, according to its completion.
fn what_conflicts_with_a_request_in_progress_is_refused(start: &dyn Fn(usize) -> Bench) {
    let mut bench = start(4);
    for (from, to, length) in [(0, ROOM / 2 - 1, 1), (8, 0, ROOM / 2), (ROOM / 2, 1, 8)] {
        let first = submit(&mut bench, 0, 0, ROOM / 2);
        let request = copy(&bench, from, to, length);
        match bench.engine.submit(request) {
            Err(rejected) => {
                let why = WhyRejected::Refused(Refusal::InUse { with: first });
                assert_eq!((rejected.why, bench.engine.in_flight()), (why, 1));
                assert_eq!(done(bench.engine.as_mut()).id, first);
                bench.engine.submit(rejected.request).unwrap();
            }
            Ok(_) => assert_eq!(bench.engine.take().map(|completion| completion.id), Some(first)),
        }
        assert_eq!(done(bench.engine.as_mut()).result, Ok(()));
    }
    // A request that only reads the same bytes, or writes others, does not conflict.
    submit(&mut bench, 0, 0, ROOM / 2);
    submit(&mut bench, 0, ROOM / 2, ROOM / 4);
    submit(&mut bench, 8, ROOM / 4 * 3, 64);
    for _ in 0..3 {
        assert_eq!(done(bench.engine.as_mut()).result, Ok(()));
    }
    assert_eq!(bench.engine.in_progress(), 0);
}

/// Each request writes the result of the previous one.
fn fenced_requests_run_one_after_the_other(start: &dyn Fn(usize) -> Bench) {
    let mut bench = start(16);
    let bytes = pattern(ROOM, 5);
    (bench.source.write)(0, &bytes);
    for last in [7, 64, 4093] {
        let ids: Vec<_> = (0..16)
            .map(|round| {
                let from = if round == 15 { last } else { round * 32 };
                submit_fenced(&mut bench, from, 0, ROOM - 8192)
            })
            .collect();
        for id in ids {
            assert_eq!(done(bench.engine.as_mut()), Completion { id, result: Ok(()) });
        }
        assert!((bench.target.read)(0, ROOM - 8192) == bytes[last..last + ROOM - 8192], "from {last}");
    }
}

fn what_is_too_late_is_not_begun(start: &dyn Fn(usize) -> Bench) {
    let mut bench = start(4);
    (bench.source.write)(0, &pattern(4096, 1));
    (bench.target.write)(0, &[0xEE; 4096]);
    let late = Request::copy((bench.source.place)(0), (bench.target.place)(0), 4096).by(Deadline::at_ns(1));
    let id = bench.engine.submit(late).unwrap();
    let completion = done(bench.engine.as_mut());
    assert_eq!(completion, Completion { id, result: Err(Failure::DeadlinePassed) });
    assert!((bench.target.read)(0, 4096).iter().all(|byte| *byte == 0xEE));
    let in_time = Request::copy((bench.source.place)(0), (bench.target.place)(0), 4096);
    let id = bench.engine.submit(in_time.by(Deadline::after(PATIENCE))).unwrap();
    assert_eq!(done(bench.engine.as_mut()), Completion { id, result: Ok(()) });
}

fn what_is_cancelled_comes_to_a_completion(start: &dyn Fn(usize) -> Bench) {
    let mut bench = start(8);
    let ids: Vec<_> = (0..8).map(|_| submit_fenced(&mut bench, 0, 0, ROOM)).collect();
    let cancelled = bench.engine.cancel(ids[7]);
    let never = bench.engine.cancel(ids[7]);
    assert!(!(cancelled && never), "it was cancelled twice");
    for _ in 0..8 {
        let completion = done(bench.engine.as_mut());
        let expected = if cancelled && completion.id == ids[7] { Err(Failure::Cancelled) } else { Ok(()) };
        assert_eq!(completion.result, expected);
    }
    assert_eq!(bench.engine.take(), None);
    assert!(!bench.engine.cancel(ids[0]), "what is over was cancelled");
    copied(&mut bench, 0, 0, 64);
}

fn an_engine_that_is_dropped_leaves_nothing_behind(start: &dyn Fn(usize) -> Bench) {
    let mut bench = start(8);
    for _ in 0..8 {
        submit_fenced(&mut bench, 0, 0, ROOM);
    }
    // A request keeps its memory mapped, and the drop does not wait for requests that were not started.
    drop(bench.source);
    drop(bench.target);
    drop(bench.engine);
    if let Some(kill) = bench.kill {
        kill();
    }
}

fn the_death_of_the_other_side_ends_what_is_asked(start: &dyn Fn(usize) -> Bench) {
    let mut bench = start(4);
    copied(&mut bench, 0, 0, 4096);
    bench.kill.take().unwrap()();
    let request = Request::copy((bench.source.place)(0), (bench.target.place)(0), 4096);
    let Ok(id) = bench.engine.submit(request) else { return };
    let completion = done(bench.engine.as_mut());
    assert_eq!(completion.id, id);
    match completion.result.unwrap_err() {
        Failure::Attach(_) => return,
        Failure::Channel(ChannelError::Closed | ChannelError::PeerDied) => {}
        failure => panic!("{failure}"),
    }
    let after = Request::copy(Location::clone(&(bench.source.place)(0)), (bench.target.place)(0), 8);
    assert!(matches!(bench.engine.check(&after), Err(Refusal::Lost { .. })));
}
