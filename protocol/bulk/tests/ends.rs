//! State of buffers when a channel is left or ends.

use tombolo_bulk::table::UPSTREAM;
use tombolo_bulk::{Layout, PoolChannel, Table, TableError, Verb};

fn layout() -> Layout {
    Layout::new(4096, 4).unwrap()
}

/// Returns a home and a channel to a domain that may, or may not, assign the pool further.
fn home(may_forward: bool) -> (Table, PoolChannel) {
    let mut table = Table::home(layout());
    let link = table.assign(may_forward).unwrap();
    (table, link)
}

fn send(table: &mut Table, verb: Verb, buffer: u32, link: PoolChannel) {
    table.begin(verb, buffer, link).unwrap();
    table.commit(verb, buffer, link);
}

#[test]
fn last_read_right_cannot_be_dropped_while_lent() {
    let mut table = Table::assigned(layout());
    let link = table.assign(false).unwrap();
    assert_eq!(table.drop_borrowed(2), Err(TableError::NotHeld(2)));
    table.receive(Verb::Share, 2, UPSTREAM).unwrap();
    table.receive(Verb::Share, 2, UPSTREAM).unwrap();
    send(&mut table, Verb::Share, 2, link);
    assert_eq!(table.drop_borrowed(2), Ok(()), "another is left");
    assert_eq!(table.drop_borrowed(2), Err(TableError::Shared { buffer: 2, times: 1 }));
    assert_eq!(table.begin(Verb::Release, 2, UPSTREAM), Err(TableError::Shared { buffer: 2, times: 1 }));
    assert_eq!((table.borrowed(2), table.lent(2)), (1, 1));
    assert_eq!((table.counts().borrowed, table.counts().away), (1, 3));
    table.receive(Verb::Release, 2, link).unwrap();
    assert_eq!(table.begin(Verb::Release, 2, UPSTREAM), Ok(()));
    table.abort(2);
    assert_eq!(table.drop_borrowed(2), Ok(()));
    assert_eq!(table.drop_borrowed(2), Err(TableError::NotHeld(2)));
}

#[test]
fn buffers_lent_to_a_live_domain_return_only_by_reclaim() {
    let (mut table, link) = home(false);
    let buffer = table.allocate().unwrap();
    send(&mut table, Verb::Share, buffer, link);
    assert_eq!((table.counts().lent, table.counts().held), (1, 0));
    assert_eq!(table.reclaim(link), 0, "it lives");
    assert!(table.mark_lost(link, false), "it can still read");
    assert!(table.mark_lost(link, true), "as before");
    assert_eq!(table.receive(Verb::Release, buffer, link), Err(TableError::NotOnChannel));
    assert_eq!(table.lent(buffer), 1);
    assert_eq!(table.reclaim(link), 1);
    assert_eq!((table.lent(buffer), table.counts().held), (0, 1), "it is still in hand");
    assert!(!table.mark_lost(link, false), "it is gone");
    assert_eq!(table.reclaim(link), 0);
}

#[test]
fn channel_without_remote_buffers_is_freed_at_once() {
    for dead in [false, true] {
        let (mut table, link) = home(true);
        assert!(!table.mark_lost(link, dead));
        assert_eq!(table.assign(false), Ok(link), "its place is another's");
    }
}

#[test]
fn buffers_of_a_dead_domain_are_freed_unless_forwardable() {
    for (may_forward, dead, waits) in
        [(false, true, false), (true, true, true), (false, false, true), (true, false, true)]
    {
        let (mut table, link) = home(may_forward);
        let buffer = table.allocate().unwrap();
        send(&mut table, Verb::Move, buffer, link);
        assert_eq!(table.mark_lost(link, dead), waits, "{may_forward} {dead}");
        assert_eq!(table.counts().free, if waits { 3 } else { 4 });
        assert_eq!(table.reclaim(link), u32::from(waits));
        assert_eq!(table.counts().free, 4);
        assert!(table.is_local(buffer));
    }
}

#[test]
fn rights_return_over_the_channel_they_left_by() {
    let (mut table, link) = home(false);
    let other = table.assign(false).unwrap();
    let buffer = table.allocate().unwrap();
    send(&mut table, Verb::Move, buffer, link);
    for verb in [Verb::Move, Verb::Pass, Verb::Share, Verb::Release] {
        assert_eq!(table.receive(verb, buffer, other), Err(TableError::NotHeld(buffer)));
    }
    assert_eq!(table.receive(Verb::Share, buffer, link), Ok(()));
}

#[test]
fn local_buffers_keep_a_pool_in_use() {
    let mut table = Table::assigned(layout());
    table.receive(Verb::Move, 0, UPSTREAM).unwrap();
    table.receive(Verb::Pass, 1, UPSTREAM).unwrap();
    table.receive(Verb::Share, 2, UPSTREAM).unwrap();
    assert_eq!(table.unassign(UPSTREAM), Err(TableError::InUse { buffers: 3 }));
    send(&mut table, Verb::Move, 0, UPSTREAM);
    assert_eq!(table.unassign(UPSTREAM), Err(TableError::InUse { buffers: 2 }));
}

#[test]
fn buffers_upstream_are_permanently_lost() {
    let mut table = Table::assigned(layout());
    assert!(!table.is_home() && home(false).0.is_home());
    table.receive(Verb::Move, 1, UPSTREAM).unwrap();
    assert!(!table.mark_lost(UPSTREAM, false));
    assert!(!table.mark_lost(UPSTREAM, true));
    assert_eq!(table.reclaim(UPSTREAM), 0);
    assert_eq!(table.receive(Verb::Move, 2, UPSTREAM), Err(TableError::NotOnChannel));
    assert_eq!((table.counts().held, table.counts().away), (1, 3), "what is here stays");
}

#[test]
fn transfers_in_transit_arrive_during_unassign() {
    let mut table = Table::assigned(layout());
    table.start_unassign(UPSTREAM).unwrap();
    assert_eq!(table.start_unassign(UPSTREAM), Err(TableError::NotOnChannel), "it is being taken off");
    assert_eq!(table.assign(false), Err(TableError::NotOnChannel));
    assert_eq!(table.receive(Verb::Move, 1, UPSTREAM), Ok(()));
    assert_eq!(table.begin(Verb::Move, 1, UPSTREAM), Err(TableError::NotOnChannel));
    assert_eq!(table.unassign(UPSTREAM), Err(TableError::InUse { buffers: 1 }));
    table.cancel_unassign(UPSTREAM);
    assert_eq!(table.begin(Verb::Move, 1, UPSTREAM), Ok(()));
}

#[test]
fn revoked_pool_has_no_local_buffers() {
    let (mut table, link) = home(false);
    let buffer = table.allocate().unwrap();
    table.revoke();
    assert!(table.is_revoked());
    assert_eq!(table.allocate(), None);
    assert_eq!(table.begin(Verb::Move, buffer, link), Err(TableError::Revoked));
    assert_eq!(table.assign(false), Err(TableError::Revoked));
    assert_eq!(table.unassign(link), Ok(()));
}
