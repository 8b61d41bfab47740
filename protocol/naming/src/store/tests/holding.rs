use super::*;

fn acquire(bench: &mut Bench, session: u64, permits: u32) -> u32 {
    bench.send(session, Operation::Acquire { name: "s".into(), permits, timeout: SECOND })
}

fn permit(bench: &mut Bench, request: u32) -> Option<u64> {
    match bench.take_answer(request)? {
        Ok(Answer::Acquired { permit }) => Some(permit),
        other => panic!("{other:?}"),
    }
}

fn join(bench: &mut Bench, session: u64, parties: u32) -> Result<u64, NameFault> {
    match bench.call(session, Operation::Join { name: "b".into(), parties })? {
        Answer::Joined { place } => Ok(place),
        other => panic!("{other:?}"),
    }
}

fn meet(bench: &mut Bench, session: u64, place: u64) -> u32 {
    bench.send(session, Operation::Meet { place, timeout: SECOND })
}

#[test]
fn lock_is_granted_in_order_with_growing_tokens() {
    let mut bench = Bench::new();
    let requests = [1, 2, 3, 2].map(|session| bench.lock(session, SECOND));
    let mut last = 0;
    for (index, session) in [1, 2, 3, 2].into_iter().enumerate() {
        let token = bench.token(requests[index]).expect("its turn");
        assert!(token > last && bench.answers.is_empty(), "one at a time");
        last = token;
        let stale = Operation::Unlock { name: "lock".into(), token: token - 1 };
        assert_eq!(bench.call(session, stale), Err(NameFault::NotHeld { name: "lock".into() }));
        let request = bench.send(session, Operation::Unlock { name: "lock".into(), token });
        assert_eq!(bench.take_answer(request), Some(Ok(Answer::Done)));
    }
    assert!(bench.naming.locks.is_empty(), "a lock without a holder takes no room");
    let request = bench.lock(4, SECOND);
    assert!(bench.token(request) > Some(last));
}

#[test]
fn lock_fails_at_once_or_after_its_timeout() {
    let mut bench = Bench::new();
    bench.lock(1, SECOND);
    let locked = NameFault::Locked { name: "lock".into(), holder: domain(1) };
    let request = bench.lock(2, Duration::ZERO);
    assert_eq!(bench.take_answer(request), Some(Err(locked.clone())));
    let (patient, hasty) = (bench.lock(3, 2 * SECOND), bench.lock(2, SECOND));
    bench.tick(SECOND);
    assert_eq!(bench.take_answer(hasty), Some(Err(locked)));
    bench.close(1);
    assert!(bench.token(patient).is_some());
    assert_eq!(bench.naming.next_tick(), None);
}

#[test]
fn death_of_a_lock_holder_or_waiter() {
    let mut bench = Bench::new();
    let requests = [1, 2, 3, 4].map(|session| bench.lock(session, SECOND));
    bench.close(3);
    bench.close(1);
    assert!(bench.token(requests[1]).is_some());
    bench.close(2);
    assert!(bench.token(requests[3]).is_some());
    assert_eq!(bench.take_answer(requests[2]), None);
}

#[test]
fn cancelled_request_holds_nothing() {
    let mut bench = Bench::new();
    let holder = bench.lock(1, SECOND);
    let (first, second) = (bench.lock(2, SECOND), bench.lock(3, SECOND));
    bench.send(2, Operation::Cancel { request: first });
    assert_eq!(bench.take_answer(first), Some(Err(NameFault::Cancelled)));
    // The holder was never notified that it has the lock.
    bench.send(1, Operation::Cancel { request: holder });
    assert!(bench.token(second).is_some());
    bench.call(1, Operation::Semaphore { name: "s".into(), permits: 1 }).unwrap();
    let (held, waits) = (acquire(&mut bench, 1, 1), acquire(&mut bench, 2, 1));
    bench.send(1, Operation::Cancel { request: held });
    assert!(permit(&mut bench, waits).is_some());
}

#[test]
fn permits_are_granted_in_order_and_released_on_death() {
    let mut bench = Bench::new();
    let none = NameFault::NoSuchSemaphore { name: "s".into() };
    let acquired = Operation::Acquire { name: "s".into(), permits: 1, timeout: SECOND };
    assert_eq!(bench.call(1, acquired), Err(none.clone()));
    bench.call(1, Operation::Semaphore { name: "s".into(), permits: 3 }).unwrap();
    bench.call(2, Operation::Semaphore { name: "s".into(), permits: 9 }).unwrap();
    let first = acquire(&mut bench, 1, 2);
    assert!(permit(&mut bench, first).is_some());
    let (large, small) = (acquire(&mut bench, 2, 3), acquire(&mut bench, 3, 1));
    assert_eq!(
        (permit(&mut bench, large), permit(&mut bench, small)),
        (None, None),
        "a later request must not overtake"
    );
    bench.close(2);
    let small = permit(&mut bench, small).expect("the large one is gone");
    let rest = Operation::Acquire { name: "s".into(), permits: 1, timeout: Duration::ZERO };
    assert_eq!(bench.call(4, rest.clone()), Err(NameFault::NoPermits { name: "s".into() }));
    bench.close(1);
    assert!(bench.call(4, rest.clone()).is_ok());
    assert!(matches!(
        bench.call(4, Operation::Release { permit: small, forget: false }),
        Err(NameFault::NotHeld { .. })
    ));
    bench.call(3, Operation::Release { permit: small, forget: true }).unwrap();
    assert!(bench.call(4, rest.clone()).is_ok());
    let waits = acquire(&mut bench, 3, 1);
    bench.call(3, Operation::Post { name: "s".into(), permits: 1 }).unwrap();
    assert!(permit(&mut bench, waits).is_some());
    let waits = acquire(&mut bench, 3, 1);
    bench.call(4, Operation::RemoveSemaphore { name: "s".into() }).unwrap();
    assert_eq!(bench.take_answer(waits), Some(Err(none)));
    // Permits of a removed semaphore do not count for a later one with its name.
    bench.call(1, Operation::Leave { place: 0 }).unwrap_err();
    bench.call(3, Operation::Semaphore { name: "s".into(), permits: 0 }).unwrap();
    bench.close(4);
    assert_eq!(bench.call(3, rest), Err(NameFault::NoPermits { name: "s".into() }));
}

#[test]
fn barrier_can_be_reused() {
    let mut bench = Bench::new();
    let places = [1, 2, 2].map(|session| join(&mut bench, session, 3).unwrap());
    assert_eq!(join(&mut bench, 3, 3), Err(NameFault::BarrierFull { name: "b".into(), parties: 3 }));
    for generation in 1..=3 {
        let waiting = [meet(&mut bench, 1, places[0]), meet(&mut bench, 2, places[1])];
        assert_eq!(waiting.map(|request| bench.take_answer(request)), [None, None]);
        let last = meet(&mut bench, 2, places[2]);
        assert_eq!(bench.take_answer(last), Some(Ok(Answer::Met { generation, leader: true })));
        for request in waiting {
            assert_eq!(bench.take_answer(request), Some(Ok(Answer::Met { generation, leader: false })));
        }
    }
    for (session, place) in [(1, places[0]), (2, places[1]), (2, places[2])] {
        bench.call(session, Operation::Leave { place }).unwrap();
    }
    assert!(
        bench.naming.barriers.is_empty()
            && bench.naming.barrier_names.is_empty()
            && bench.naming.places.is_empty()
    );
}

#[test]
fn party_that_dies_or_leaves_breaks_the_barrier() {
    let mut bench = Bench::new();
    let places = [1, 2, 3].map(|session| join(&mut bench, session, 3).unwrap());
    let waiting = [meet(&mut bench, 1, places[0]), meet(&mut bench, 2, places[1])];
    bench.close(3);
    let broken = |by, died| NameFault::BarrierBroken { name: "b".into(), by: Some(domain(by)), died };
    assert_eq!(
        waiting.map(|request| bench.take_answer(request)),
        [const { None::<()> }; 2].map(|_| Some(Err(broken(3, true))))
    );
    // It stays broken for those parties, but others get a new one.
    let late = meet(&mut bench, 1, places[0]);
    assert_eq!(bench.take_answer(late), Some(Err(broken(3, true))));
    let fresh = join(&mut bench, 4, 2).unwrap();
    bench.call(1, Operation::Leave { place: places[0] }).unwrap();
    let other = join(&mut bench, 1, 2).unwrap();
    let waits = meet(&mut bench, 1, other);
    bench.call(4, Operation::Leave { place: fresh }).unwrap();
    assert_eq!(bench.take_answer(waits), Some(Err(broken(4, false))));
}

#[test]
fn incomplete_barrier_breaks_on_death_but_not_on_leave() {
    let mut bench = Bench::new();
    let first = join(&mut bench, 1, 3).unwrap();
    let waits = meet(&mut bench, 1, first);
    let second = join(&mut bench, 2, 3).unwrap();
    assert_eq!(join(&mut bench, 3, 2), Err(NameFault::BarrierDiffers { name: "b".into(), parties: 3 }));
    bench.call(2, Operation::Leave { place: second }).unwrap();
    assert_eq!(bench.take_answer(waits), None);
    join(&mut bench, 3, 3).unwrap();
    bench.close(3);
    let broken = NameFault::BarrierBroken { name: "b".into(), by: Some(domain(3)), died: true };
    assert_eq!(bench.take_answer(waits), Some(Err(broken)));
}

#[test]
fn barrier_timeout_reports_arrivals_and_can_be_retried() {
    let mut bench = Bench::new();
    let places = [1, 2].map(|session| join(&mut bench, session, 2).unwrap());
    let waits = meet(&mut bench, 1, places[0]);
    bench.tick(SECOND);
    let timeout = NameFault::BarrierTimeout { name: "b".into(), arrived: 0, parties: 2 };
    assert_eq!(bench.take_answer(waits), Some(Err(timeout)));
    let second = meet(&mut bench, 2, places[1]);
    let double = meet(&mut bench, 2, places[1]);
    assert!(matches!(bench.take_answer(double), Some(Err(NameFault::Refused { .. }))));
    let again = meet(&mut bench, 1, places[0]);
    assert!(matches!(bench.take_answer(again), Some(Ok(Answer::Met { generation: 1, leader: true }))));
    assert!(matches!(bench.take_answer(second), Some(Ok(Answer::Met { generation: 1, leader: false }))));
}

#[test]
fn holdings_waits_and_objects_are_limited() {
    let limits = Limits {
        objects: 3,
        holdings_per_session: 2,
        waits_per_session: 2,
        permits: 4,
        parties: 4,
        ..Limits::default()
    };
    let mut bench = Bench::limited(limits);
    let lock = |name: &str| Operation::Lock { name: name.into(), timeout: SECOND };
    let refused = |bench: &mut Bench, session, operation| {
        let request = bench.send(session, operation);
        bench.take_answer(request).map(limit_of)
    };
    assert_eq!(refused(&mut bench, 1, lock("a")), Some(None));
    assert_eq!(refused(&mut bench, 1, lock("b")), Some(None));
    assert_eq!(refused(&mut bench, 1, lock("c")), Some(Some(2)));
    assert_eq!(refused(&mut bench, 2, lock("c")), Some(None));
    assert_eq!(refused(&mut bench, 2, lock("d")), Some(Some(3)));
    assert_eq!([1, 2, 3].map(|_| refused(&mut bench, 3, lock("a"))), [None, None, Some(Some(2))]);
    bench.close(1);
    bench.close(2);
    bench.close(3);
    for (permits, limit) in [(3, None), (4, None), (5, Some(4))] {
        bench.close(4);
        bench.naming.open(Session(4), domain(4));
        let make = Operation::Semaphore { name: "s".into(), permits };
        assert_eq!(refused(&mut bench, 4, make), Some(limit));
        let take = Operation::Acquire { name: "s".into(), permits, timeout: Duration::ZERO };
        let answer = bench.call(4, take);
        assert_eq!(matches!(answer, Err(NameFault::Limit { .. })), limit.is_some(), "{answer:?}");
        let join = Operation::Join { name: alloc::format!("b{permits}"), parties: permits };
        let answer = bench.call(4, join);
        assert_eq!(matches!(answer, Err(NameFault::Limit { limit: 4, .. })), permits == 5, "{answer:?}");
    }
    let post = |permits| Operation::Post { name: "s".into(), permits };
    assert_eq!(refused(&mut bench, 4, post(1)), Some(None));
    assert_eq!(refused(&mut bench, 4, post(1)), Some(Some(4)));
}

#[test]
fn held_objects_can_be_listed() {
    let mut bench = Bench::new();
    bench.lock(1, SECOND);
    bench.lock(2, SECOND);
    bench.call(1, Operation::Semaphore { name: "s".into(), permits: 3 }).unwrap();
    acquire(&mut bench, 2, 2);
    let place = join(&mut bench, 3, 2).unwrap();
    meet(&mut bench, 3, place);
    let Ok(Answer::Objects { objects, more: false }) =
        bench.call(1, Operation::Objects { after: Default::default() })
    else {
        panic!()
    };
    let truncated: Vec<_> =
        objects.iter().map(|o| (o.kind.as_str(), o.name.as_str(), o.holders.as_slice(), o.waiting)).collect();
    let expected: [(&str, &str, &[DomainId], u32); 3] = [
        ("barrier", "b", &[domain(3)], 1),
        ("lock", "lock", &[domain(1)], 1),
        ("semaphore", "s", &[domain(2)], 0),
    ];
    assert_eq!(truncated, expected);
    assert_eq!(objects[2].count, 1, "free permits");
}

#[test]
fn later_generation_has_larger_numbers() {
    let mut old = Naming::new(Limits::default(), 1);
    let mut new = Naming::new(Limits::default(), 2);
    let mut tokens = Vec::new();
    for naming in [&mut old, &mut new] {
        naming.open(Session(1), domain(1));
        naming.request(0, Session(1), 1, Operation::Lock { name: "lock".into(), timeout: SECOND });
        tokens.extend(naming.take_outputs().into_iter().map(|output| match output {
            Output::Answer { result: Ok(Answer::Locked { token }), .. } => token,
            other => panic!("{other:?}"),
        }));
    }
    assert!(tokens[0] < tokens[1]);
}
