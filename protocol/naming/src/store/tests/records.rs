use super::*;

use crate::names::DeleteCause;

#[test]
fn records_are_found_in_natural_order() {
    let mut bench = Bench::new();
    for name in ["job10", "job9", "other", "job1"] {
        bench.set(1, name).unwrap();
    }
    assert_eq!(bench.find("job*"), ["job1 {}", "job9 {}", "job10 {}"]);
    assert_eq!(bench.find("r'^o'"), ["other {}"]);
    assert_eq!(bench.find("_").len(), 4);
}

#[test]
fn set_replaces_and_merge_adds_attributes() {
    let mut bench = Bench::new();
    bench.set(1, "bob { age: 12, ako: john }").unwrap();
    let merge = Bench::change("bob { age: 13 }", SetMode::Merge, Lifetime::Persistent, Condition::Always);
    let Ok(Answer::Changed { previous: Some(previous), version, .. }) = bench.call(1, merge) else {
        panic!()
    };
    assert_eq!(alloc::format!("{previous}"), "bob { age: 12, ako: 'john' }");
    assert!(version > previous.version);
    assert_eq!(bench.find("bob"), ["bob { age: 13, ako: 'john' }"]);
    let remove = Operation::Set {
        name: "bob".into(),
        attributes: Default::default(),
        remove: alloc::vec!["ako".into()],
        mode: SetMode::Merge,
        lifetime: Lifetime::Persistent,
        condition: Condition::Always,
        want_previous: false,
    };
    assert!(matches!(bench.call(1, remove), Ok(Answer::Changed { previous: None, .. })));
    assert_eq!(bench.find("bob"), ["bob { age: 13 }"]);
    bench.set(1, "bob { tt: 1 }").unwrap();
    assert_eq!(bench.find("bob"), ["bob { tt: 1 }"]);
}

#[test]
fn conditional_set_has_one_winner() {
    let mut bench = Bench::new();
    let create = || Bench::change("x { by: 1 }", SetMode::Replace, Lifetime::Transient, Condition::Absent);
    let Ok(Answer::Changed { version, .. }) = bench.call(1, create()) else { panic!() };
    let exists = NameFault::Exists { name: "x".into(), owner: Some(domain(1)) };
    assert_eq!(bench.call(2, create()), Err(exists));
    let swap = |version| {
        Bench::change("x { by: 2 }", SetMode::Replace, Lifetime::Transient, Condition::Version(version))
    };
    let Ok(Answer::Changed { version: second, .. }) = bench.call(2, swap(version)) else { panic!() };
    let wrong = NameFault::WrongVersion { name: "x".into(), expected: version, found: second };
    assert_eq!(bench.call(1, swap(version)), Err(wrong));
    let gone =
        Operation::Delete { name: "x".into(), condition: Condition::Version(second), want_previous: false };
    assert!(bench.call(1, gone.clone()).is_ok());
    assert!(matches!(bench.call(1, gone), Err(NameFault::NoSuchName { .. })));
}

#[test]
fn set_can_be_fenced_by_a_lock() {
    let mut bench = Bench::new();
    let request = bench.lock(1, SECOND);
    let token = bench.token(request).unwrap();
    let fenced = |token| {
        let condition = Condition::Fenced { lock: "lock".into(), token };
        Bench::change("x { by: 1 }", SetMode::Replace, Lifetime::Persistent, condition)
    };
    assert!(bench.call(1, fenced(token)).is_ok());
    let request = bench.lock(2, SECOND);
    bench.close(1);
    let second = bench.token(request).unwrap();
    assert!(second > token);
    // The first holder may still believe that it holds the lock.
    assert_eq!(bench.call(3, fenced(token)), Err(NameFault::NotHeld { name: "lock".into() }));
    assert!(bench.call(2, fenced(second)).is_ok());
}

#[test]
fn sequential_names_are_unique_and_increase() {
    let mut bench = Bench::new();
    let mut names = Vec::new();
    for _ in 0..12 {
        let next = Bench::change("job-", SetMode::Sequential, Lifetime::Persistent, Condition::Always);
        let Ok(Answer::Changed { name, version, .. }) = bench.call(1, next) else { panic!() };
        assert_eq!(name, format!("job-{version}"));
        bench.delete(1, names.last().map_or("none", |name: &String| name)).ok();
        names.push(name);
    }
    assert!(names.windows(2).all(|pair| NaturalName(pair[0].clone()) < NaturalName(pair[1].clone())));
}

#[test]
fn transient_records_end_with_their_session() {
    let mut bench = Bench::new();
    bench.set_transient(1, "mine").unwrap();
    bench.set(1, "lasting").unwrap();
    bench.set_transient(1, "taken-over").unwrap();
    bench.set_transient(2, "taken-over").unwrap();
    let watch = bench.watch(3, "_", EventMask::RECORDS, false);
    bench.close(1);
    assert_eq!(bench.find("_"), ["lasting {}", "taken-over {}"]);
    let [(3, notice)] = bench.notices.as_slice() else { panic!("{:?}", bench.notices) };
    assert!(
        notice.watch == watch
            && matches!(&notice.event, Event::Deleted { cause: DeleteCause::OwnerGone, .. })
    );
    assert!(bench.call(1, Operation::Leave { place: 1 }).is_err(), "a closed session is not served");
}

#[test]
fn export_can_be_changed_only_by_its_owner() {
    let mut bench = Bench::new();
    bench.naming.export(Session(1), "pong", 7, Default::default()).unwrap();
    let endpoint = Endpoint { session: Session(1), domain: domain(1), listener: 7 };
    assert_eq!(bench.naming.endpoint("pong"), Some(endpoint));
    let not_yours = NameFault::NotYours { name: "pong".into(), owner: domain(1) };
    assert_eq!(bench.set(2, "pong { a: 1 }"), Err(not_yours.clone()));
    assert_eq!(bench.delete(2, "pong"), Err(not_yours));
    bench.set(1, "pong { load: 3 }").unwrap();
    assert_eq!(bench.naming.endpoint("pong"), Some(endpoint), "also when it says more about itself");
    assert_eq!(bench.find("_ { load < 5 }"), ["pong { load: 3 }"]);
    let exists = NameFault::Exists { name: "pong".into(), owner: Some(domain(1)) };
    assert_eq!(bench.naming.export(Session(2), "pong", 1, Default::default()), Err(exists));
    bench.set(1, "plain").unwrap();
    assert_eq!(bench.naming.endpoint("plain"), None);
    bench.naming.withdraw(Session(2), 7);
    assert!(bench.naming.endpoint("pong").is_some());
    bench.naming.withdraw(Session(1), 7);
    assert_eq!(bench.naming.record("pong"), None);
    // Every way to end an export is reported.
    bench.naming.export(Session(1), "ping", 8, Default::default()).unwrap();
    bench.naming.export(Session(1), "pang", 9, Default::default()).unwrap();
    bench.delete(1, "ping").unwrap();
    bench.delete(1, "plain").unwrap();
    bench.naming.close(Session(1));
    bench.collect();
    assert_eq!(bench.withdrawn, ["pong", "ping", "pang"]);
}

#[test]
fn await_waits_for_a_matching_record() {
    let mut bench = Bench::new();
    let look = |timeout| Operation::Await { query: parse_query("late* { ready: true }").unwrap(), timeout };
    let missing = NameFault::NoSuchName { name: "late* { ready == true }".into() };
    assert_eq!(bench.call(1, look(Duration::ZERO)), Err(missing.clone()));
    let (first, second) = (bench.send(1, look(SECOND)), bench.send(2, look(2 * SECOND)));
    bench.set(3, "late1 { ready: false }").unwrap();
    bench.tick(SECOND - Duration::from_nanos(1));
    assert_eq!(bench.take_answer(first), None);
    bench.tick(Duration::from_nanos(1));
    assert_eq!(bench.take_answer(first), Some(Err(missing)));
    bench.set(3, "late1 { ready: true }").unwrap();
    assert!(matches!(bench.take_answer(second), Some(Ok(Answer::There { .. }))));
    assert!(matches!(bench.call(1, look(SECOND)), Ok(Answer::There { .. })));
    assert_eq!(bench.naming.next_tick(), None);
    let third = bench.send(1, Operation::Await { query: Query::exact("never"), timeout: SECOND });
    bench.naming.request(bench.now, Session(1), 0, Operation::Cancel { request: third });
    bench.collect();
    assert_eq!(bench.take_answer(third), Some(Err(NameFault::Cancelled)));
}

#[test]
fn records_are_limited() {
    let limits = Limits {
        records: 3,
        records_per_session: 2,
        store_bytes: 64,
        attributes: 2,
        record_bytes: 40,
        constraints: 2,
        ..Limits::default()
    };
    let mut bench = Bench::limited(limits);
    assert_eq!(limit_of(bench.set_transient(1, "a")), None);
    assert_eq!(limit_of(bench.set_transient(1, "b")), None);
    assert_eq!(limit_of(bench.set_transient(1, "c")), Some(2));
    assert_eq!(limit_of(bench.set_transient(1, "b { again: 1 }")), None);
    assert_eq!(limit_of(bench.set(1, "c")), None);
    assert_eq!(limit_of(bench.set(1, "d")), Some(3));
    assert_eq!(limit_of(bench.set(1, "c { a: 1, b: 2 }")), None);
    assert_eq!(limit_of(bench.set(1, "c { a: 1, b: 2, c: 3 }")), Some(2));
    for (length, limit) in [(37, None), (38, None), (39, Some(40))] {
        let text = alloc::format!("c {{ a: '{}' }}", "x".repeat(length));
        assert_eq!(limit_of(bench.set(1, &text)), limit, "{length}");
    }
    // Current size of the store: 1 + 14 + 40 bytes.
    for (length, limit) in [(7, None), (8, None), (9, None), (10, Some(64))] {
        let text = alloc::format!("a {{ a: '{}' }}", "x".repeat(length - 1));
        assert_eq!(limit_of(bench.set_transient(1, &text)), limit, "{length}");
    }
    let constrained = |count: usize| {
        let query = (0..count).fold(Query::any(), |query, _| query.has("a"));
        Operation::Find { query, after: String::new(), limit: 1 }
    };
    for (count, limit) in [(1, None), (2, None), (3, Some(2))] {
        assert_eq!(limit_of(bench.call(1, constrained(count))), limit);
    }
}

#[test]
fn costly_query_is_paged_or_refused() {
    let limits = Limits { steps_per_record: 200, steps_per_request: 400, ..Limits::default() };
    let mut bench = Bench::limited(limits);
    for index in 0..20 {
        bench.set(1, &alloc::format!("n{index} {{ t: '{}' }}", "a".repeat(10))).unwrap();
    }
    assert_eq!(bench.find("_ { t: r'aab$' }").len(), 0);
    assert_eq!(bench.find("_ { t: r'aa$' }").len(), 20);
    // A query that is too costly to search cannot be awaited either.
    let query = parse_query("_ { t: r'aab$' }").unwrap();
    assert!(matches!(
        bench.call(1, Operation::Await { query, timeout: SECOND }),
        Err(NameFault::TooCostly { .. })
    ));
    bench.set(1, &alloc::format!("long {{ t: '{}' }}", "a".repeat(300))).unwrap();
    let query = parse_query("long* { t: r'(a|aa)+b' }").unwrap();
    let find = Operation::Find { query, after: String::new(), limit: 1 };
    assert!(matches!(bench.call(1, find), Err(NameFault::TooCostly { .. })));
}

#[test]
fn page_is_limited_in_bytes_but_has_one_record() {
    for (page_bytes, on_page) in [(1, 1), (usize::MAX, 3)] {
        let mut bench = Bench::limited(Limits { page_bytes, ..Limits::default() });
        for text in ["a { x: 1 }", "b { x: 2 }", "c { x: 3 }"] {
            bench.set(1, text).unwrap();
        }
        let find = Operation::Find { query: Query::any(), after: String::new(), limit: 100 };
        let Ok(Answer::Found { records, next }) = bench.call(1, find) else { panic!("no page") };
        assert_eq!((records.len(), next.is_some()), (on_page, on_page == 1));
        assert_eq!(bench.find("_"), ["a { x: 1 }", "b { x: 2 }", "c { x: 3 }"]);
    }
}

#[test]
fn stored_bytes_and_next_tick_are_reported() {
    let mut bench = Bench::new();
    let bytes = |bench: &Bench| bench.naming.resource_counts()[11];
    assert_eq!((bytes(&bench), bench.naming.next_tick()), (("bytes of records", 0), None));
    bench.set(1, "a { x: 'text' }").unwrap();
    let one = bytes(&bench).1;
    bench.set(1, "b { x: 'text' }").unwrap();
    assert!(one >= "axtext".len() && bytes(&bench).1 == 2 * one);
    bench.delete(1, "a").unwrap();
    assert_eq!(bytes(&bench).1, one);
    let query = parse_query("absent").unwrap();
    let request = bench.send(1, Operation::Await { query, timeout: SECOND });
    assert_eq!(bench.naming.next_tick(), Some(SECOND.as_nanos() as u64));
    bench.tick(SECOND);
    assert!(bench.take_answer(request).is_some_and(|answer| answer.is_err()));
    assert_eq!(bench.naming.next_tick(), None);
}

#[test]
fn waiting_request_needs_a_unique_number() {
    let mut bench = Bench::new();
    for request in [0, 7, 7] {
        let query = parse_query("absent").unwrap();
        bench.naming.request(0, Session(1), request, Operation::Await { query, timeout: SECOND });
    }
    bench.collect();
    let refused: Vec<u32> = bench
        .answers
        .iter()
        .map(|(_, request, answer)| {
            assert!(matches!(answer, Err(NameFault::Refused { .. })), "{answer:?}");
            *request
        })
        .collect();
    assert_eq!(refused, [7], "a request without a number has no answer");
    assert!(bench.naming.resource_counts().contains(&("waits", 1)));
}

#[test]
fn invalid_requests_are_refused() {
    let mut bench = Bench::new();
    let bad_name =
        Operation::Delete { name: "a b".into(), condition: Condition::Always, want_previous: false };
    assert!(matches!(bench.call(1, bad_name), Err(NameFault::BadName { .. })));
    let nan = Operation::Publish { name: "a".into(), attributes: [("x".into(), f64::NAN.into())].into() };
    assert!(matches!(bench.call(1, nan), Err(NameFault::BadValue { .. })));
    let attribute = Operation::Publish { name: "a".into(), attributes: [("x y".into(), 1.into())].into() };
    assert!(matches!(bench.call(1, attribute), Err(NameFault::BadAttribute { .. })));
    let pattern = Operation::Find { query: Query::regex("(a"), after: String::new(), limit: 1 };
    assert!(matches!(bench.call(1, pattern), Err(NameFault::BadPattern { offset: 0, .. })));
    let nothing = bench.watch_with(1, Query::any(), EventMask(0), false, 1);
    assert!(matches!(nothing, Err(NameFault::Refused { .. })));
    assert!(matches!(bench.set(9, "a"), Err(NameFault::Refused { .. })), "domain 9 must not set a record");
}

#[test]
fn records_are_counted_by_session_and_listed_by_prefix() {
    let mut bench = Bench::new();
    for (session, text) in
        [(1, "disk.2 { size: 2 }"), (1, "disk.10 { size: 10 }"), (2, "disks { }"), (2, "cpu.1 { }")]
    {
        bench.set_transient(session, text).unwrap();
    }
    bench.set(1, "disk.3 { }").unwrap();
    let records_of = |bench: &Bench| [1, 2, 3].map(|session| bench.naming.records_of(Session(session)));
    assert_eq!(records_of(&bench), [2, 2, 0], "what is to last goes with none");
    let under = |bench: &Bench, prefix: &str| {
        let listed = bench.naming.records_with_prefix(prefix).map(|(name, _)| name.to_string());
        listed.collect::<Vec<_>>()
    };
    assert_eq!(under(&bench, "disk."), ["disk.2", "disk.3", "disk.10"]);
    assert_eq!(under(&bench, "mem"), [""; 0]);
    bench.close(1);
    assert_eq!(records_of(&bench), [0, 2, 0]);
    assert_eq!(under(&bench, "disk."), ["disk.3"]);
}
