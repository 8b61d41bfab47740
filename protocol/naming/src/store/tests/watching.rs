use super::*;

use crate::names::{DeleteCause, EndCause};

/// Returns the notices of one watch since the last call, abbreviated.
fn take_notices(bench: &mut Bench, watch: u64) -> Vec<String> {
    let (matching, others) =
        core::mem::take(&mut bench.notices).into_iter().partition(|(_, n)| n.watch == watch);
    bench.notices = others;
    let matching: Vec<(u64, Notice)> = matching;
    let short = |notice: Notice| {
        let what = match notice.event {
            Event::Set { record } => alloc::format!("set {record}"),
            Event::Deleted { record, cause } => alloc::format!("{cause:?} {}", record.name),
            Event::Published { name, .. } => alloc::format!("event {name}"),
            Event::Lost => "lost".into(),
            Event::Ended { cause } => alloc::format!("ended {cause:?}"),
        };
        let last = if notice.last { " last" } else { "" };
        alloc::format!(
            "{what}{last}{}",
            if notice.lost > 0 { alloc::format!(" -{}", notice.lost) } else { "".into() }
        )
    };
    matching.into_iter().map(|(_, notice)| short(notice)).collect()
}

#[test]
fn watch_reports_existing_records_and_then_every_change() {
    let mut bench = Bench::new();
    bench.set(1, "obj1 { a: 1 }").unwrap();
    bench.set(1, "other").unwrap();
    let query = parse_query("obj*").unwrap();
    let Ok(Answer::Watching { watch, records, next: None }) =
        bench.watch_with(2, query, EventMask::RECORDS, false, 10)
    else {
        panic!()
    };
    assert_eq!(records.iter().map(|record| record.name.as_str()).collect::<Vec<_>>(), ["obj1"]);
    bench.set(3, "obj2").unwrap();
    bench.set(3, "unrelated").unwrap();
    bench.delete(3, "obj1").unwrap();
    assert_eq!(take_notices(&mut bench, watch), ["set obj2 {}", "Deleted obj1"]);
    bench.call(2, Operation::Unwatch { watch }).unwrap();
    assert_eq!(take_notices(&mut bench, watch), ["ended Unwatched last"]);
    bench.set(3, "obj3").unwrap();
    assert!(bench.notices.is_empty());
    assert_eq!(bench.call(2, Operation::Unwatch { watch }), Err(NameFault::NoSuchWatch { watch }));
}

#[test]
fn record_that_no_longer_matches_is_reported_deleted() {
    let mut bench = Bench::new();
    bench.set(1, "x { load: 3 }").unwrap();
    let watch = bench.watch(2, "_ { load < 5 }", EventMask::RECORDS, false);
    bench.set(1, "x { load: 9 }").unwrap();
    bench.set(1, "x { load: 8 }").unwrap();
    bench.set(1, "x { load: 4 }").unwrap();
    assert_eq!(
        take_notices(&mut bench, watch),
        [alloc::format!("{:?} x", DeleteCause::NoMatch).as_str(), "set x { load: 4 }"]
    );
}

#[test]
fn one_shot_watch_ends_after_its_notice_and_masks_apply() {
    let mut bench = Bench::new();
    let once = bench.watch(2, "x", EventMask::DELETE, true);
    let sets = bench.watch(2, "x", EventMask::SET, false);
    bench.set(1, "x").unwrap();
    bench.delete(1, "x").unwrap();
    bench.set(1, "x").unwrap();
    bench.delete(1, "x").unwrap();
    assert_eq!(take_notices(&mut bench, once), ["Deleted x last"]);
    assert_eq!(take_notices(&mut bench, sets), ["set x {}", "set x {}"]);
}

#[test]
fn notices_lost_by_a_slow_watch_are_counted_and_reported() {
    let mut bench = Bench::new();
    let Ok(Answer::Watching { watch, .. }) = bench.watch_with(2, Query::any(), EventMask::PUBLISH, false, 2)
    else {
        panic!()
    };
    let publish = |bench: &mut Bench, name: &str| {
        bench.call(1, Operation::Publish { name: name.into(), attributes: Default::default() }).unwrap()
    };
    for (name, told, refused) in [("a", 1, 0), ("b", 1, 0), ("c", 0, 1), ("d", 0, 1)] {
        assert_eq!(publish(&mut bench, name), Answer::Published { told, refused }, "{name}");
    }
    assert_eq!(take_notices(&mut bench, watch), ["event a", "event b"]);
    bench.send(2, Operation::Taken { watch, count: 1 });
    assert_eq!(take_notices(&mut bench, watch), ["lost -2"]);
    assert_eq!(publish(&mut bench, "e"), Answer::Published { told: 0, refused: 1 });
    bench.send(2, Operation::Taken { watch, count: 99 });
    assert_eq!(take_notices(&mut bench, watch), ["lost -1"]);
    publish(&mut bench, "f");
    assert_eq!(take_notices(&mut bench, watch), ["event f"]);
    // No other session can acknowledge them.
    bench.send(3, Operation::Taken { watch, count: 99 });
    publish(&mut bench, "g");
    assert_eq!(take_notices(&mut bench, watch), Vec::<String>::new());
}

#[test]
fn notices_in_transit_are_limited_in_bytes() {
    let limits = Limits { notice_bytes_per_session: 200, ..Limits::default() };
    let mut bench = Bench::limited(limits);
    let watches = [0, 1].map(|_| bench.watch(2, "_", EventMask::PUBLISH, false));
    let event = || Operation::Publish { name: "e".repeat(36), attributes: Default::default() };
    assert_eq!(bench.call(1, event()), Ok(Answer::Published { told: 2, refused: 0 }));
    assert_eq!(bench.call(1, event()), Ok(Answer::Published { told: 0, refused: 2 }));
    bench.notices.clear();
    bench.send(2, Operation::Taken { watch: watches[0], count: 1 });
    assert_eq!(take_notices(&mut bench, watches[0]), ["lost -1"]);
    bench.send(2, Operation::Taken { watch: watches[0], count: 1 });
    assert_eq!(take_notices(&mut bench, watches[1]), ["lost -1"], "room made by one watch serves the other");
}

#[test]
fn dropped_watch_makes_room_for_other_notices() {
    let limits = Limits { notice_bytes_per_session: 200, ..Limits::default() };
    let mut bench = Bench::limited(limits);
    let watches = [0, 1].map(|_| bench.watch(2, "_", EventMask::PUBLISH, false));
    let event = || Operation::Publish { name: "e".repeat(36), attributes: Default::default() };
    assert_eq!(bench.call(1, event()), Ok(Answer::Published { told: 2, refused: 0 }));
    bench.call(2, Operation::Unwatch { watch: watches[0] }).unwrap();
    assert_eq!(bench.call(1, event()), Ok(Answer::Published { told: 1, refused: 0 }));
    assert_eq!(bench.call(1, event()), Ok(Answer::Published { told: 0, refused: 1 }));
}

#[test]
fn too_costly_watch_ends_with_that_cause() {
    let mut bench = Bench::limited(Limits { steps_per_record: 500, ..Limits::default() });
    let watch = bench.watch(2, "_ { t: r'(a|aa)+b' }", EventMask::SET, false);
    bench.set(1, "short { t: 'aab' }").unwrap();
    bench.set(1, &alloc::format!("long {{ t: '{}' }}", "a".repeat(500))).unwrap();
    let ended = alloc::format!("ended {:?} last", EndCause::TooCostly);
    assert_eq!(take_notices(&mut bench, watch), ["set short { t: 'aab' }", ended.as_str()]);
}

#[test]
fn watches_are_limited() {
    let mut bench =
        Bench::limited(Limits { watches: 3, watches_per_session: 2, watch_capacity: 8, ..Limits::default() });
    let mut watch = |session, capacity| {
        limit_of(bench.watch_with(session, Query::any(), EventMask::SET, false, capacity))
    };
    assert_eq!([watch(1, 0), watch(1, 1), watch(1, 9)], [Some(8), None, Some(8)]);
    assert_eq!([watch(1, 7), watch(1, 8)], [None, Some(2)]);
    assert_eq!([watch(2, 8), watch(2, 8)], [None, Some(3)]);
    bench.close(1);
    assert_eq!(limit_of(bench.watch_with(2, Query::any(), EventMask::SET, false, 8)), None);
    let refused = bench.watch_with(3, Query::any(), EventMask(8), false, 8);
    assert!(matches!(refused, Err(NameFault::Refused { .. })), "there are three kinds of events");
    assert!(bench.watch_with(3, Query::any(), EventMask(7), false, 8).is_ok());
    let held = bench.naming.resource_counts();
    assert!(held.contains(&("watches", 3)) && held.contains(&("sessions", 3)), "{held:?}");
}
