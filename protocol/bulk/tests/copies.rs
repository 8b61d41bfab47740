//! Buffers that are being copied keep their rights until the copy ends.

use tombolo_bulk::table::UPSTREAM;
use tombolo_bulk::{Layout, PoolChannel, Table, TableError, Verb};

fn home() -> (Table, PoolChannel) {
    let mut table = Table::home(Layout::new(4096, 4).unwrap());
    let link = table.assign(false).unwrap();
    (table, link)
}

#[test]
fn pinned_buffer_cannot_be_transferred() {
    for to_write in [false, true] {
        let (mut table, link) = home();
        let buffer = table.allocate().unwrap();
        table.pin(buffer, to_write).unwrap();
        table.pin(buffer, to_write).unwrap();
        assert_eq!(table.may_write(buffer), Ok(()));
        let in_flight = Err(TableError::InFlight(buffer));
        for _ in 0..2 {
            for verb in [Verb::Move, Verb::Pass, Verb::Share] {
                assert_eq!(table.begin(verb, buffer, link), in_flight);
            }
            assert_eq!(table.free(buffer), in_flight);
            table.unpin(buffer);
        }
        assert_eq!(table.begin(Verb::Move, buffer, link), Ok(()), "both copies are over");
        table.unpin(buffer);
        assert_eq!(table.begin(Verb::Move, buffer, link), in_flight, "what is sent is no copy");
        assert_eq!(table.pin(buffer, to_write), in_flight);
        assert_eq!((table.may_write(buffer), table.may_read(buffer)), (in_flight, Ok(())));
        table.abort(buffer);
        table.unpin(buffer);
        assert_eq!(table.free(buffer), Ok(()));
    }
}

#[test]
fn pin_requires_the_right_to_read_or_write() {
    let (mut table, link) = home();
    let buffer = table.allocate().unwrap();
    table.begin(Verb::Share, buffer, link).unwrap();
    table.commit(Verb::Share, buffer, link);
    assert_eq!(table.pin(buffer, true), Err(TableError::Shared { buffer, times: 1 }));
    assert_eq!(table.pin(buffer, false), Ok(()), "all may read it");
    table.unpin(buffer);
    table.receive(Verb::Release, buffer, link).unwrap();
    assert_eq!(table.pin(buffer, true), Ok(()));
    table.unpin(buffer);
    table.begin(Verb::Move, buffer, link).unwrap();
    table.commit(Verb::Move, buffer, link);
    for to_write in [false, true] {
        assert_eq!(table.pin(buffer, to_write), Err(TableError::NotHeld(buffer)));
    }
    assert!(table.pin(4, false).is_err(), "there is no such buffer");
}

#[test]
fn copies_of_a_buffer_are_counted_to_a_limit() {
    let (mut table, link) = home();
    let buffer = table.allocate().unwrap();
    let mut pins = 0;
    while table.pin(buffer, false).is_ok() {
        pins += 1;
    }
    assert_eq!(pins, u16::MAX - 1, "the last number says that it is sent");
    assert_eq!(table.pin(buffer, false), Err(TableError::InFlight(buffer)));
    for _ in 0..pins {
        assert!(table.begin(Verb::Move, buffer, link).is_err());
        table.unpin(buffer);
    }
    assert_eq!(table.begin(Verb::Move, buffer, link), Ok(()));
}

#[test]
fn channel_is_live_until_unassigned_or_lost() {
    let (mut table, link) = home();
    assert!(table.is_live(link) && !table.is_live(UPSTREAM), "at home there is nothing upstream");
    assert_eq!(table.layout().pool_bytes(), 4 * 4096);
    table.start_unassign(link).unwrap();
    assert!(!table.is_live(link));
    table.cancel_unassign(link);
    assert!(table.is_live(link));
    table.unassign(link).unwrap();
    assert!(!table.is_live(link));
    let link = table.assign(true).unwrap();
    table.mark_lost(link, true);
    assert!(!table.is_live(link));
    assert!(Table::assigned(Layout::new(4096, 4).unwrap()).is_live(UPSTREAM));
}
