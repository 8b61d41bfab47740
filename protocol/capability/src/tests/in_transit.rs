//! Capabilities in transit.

use super::*;

/// Creates an owner's region, and another domain.
fn region_of_owner(table: &mut Table) -> (DomainId, DomainId, CapabilityInfo) {
    let (owner, other) = (domain(HOST, 1), domain(ARM0, 2));
    (owner, other, create(table, memory(HOST, owner, 2)))
}

fn recipient(holder: DomainId, channel: u64) -> Recipient {
    Recipient { holder, channel: ChannelId(channel) }
}

#[test]
fn a_grant_is_accepted_once_and_only_from_its_granter() {
    let mut table = table();
    let (owner, other, all) = region_of_owner(&mut table);
    let stranger = domain(HOST, 3);
    let granted = table.derive(owner, all.id, None, Rights::READ, recipient(other, 5)).unwrap();
    assert_eq!((all.granter, granted.granter), (None, Some(owner)));
    let capability = granted.id;
    let before = table.clone();
    let not_from = Err(CapabilityFault::NotFrom { capability, domain: stranger });
    assert_eq!(table.accept(other, capability, Some(stranger), false), not_from);
    let not_yours = Err(CapabilityFault::NotYours { capability });
    assert_eq!(table.accept(stranger, capability, Some(owner), false), not_yours);
    assert_eq!(table, before);
    assert_eq!(table.accept(other, capability, Some(owner), false), Ok(()));
    let taken_up = Err(CapabilityFault::TakenUp { capability });
    assert_eq!(table.accept(other, capability, Some(owner), false), taken_up);
    assert_eq!(
        table.accept(other, capability, None, false),
        Ok(()),
        "accepting again without naming a granter is no error"
    );
    // A capability that a domain created was not sent to it.
    let own = Err(CapabilityFault::TakenUp { capability: all.id });
    assert_eq!(table.accept(owner, all.id, Some(other), false), own);
    assert_eq!(table.show(other, capability).unwrap().0.granter, None);
}

#[test]
fn a_whole_region_is_distinguished_from_a_part() {
    let mut table = table();
    let (owner, other, all) = region_of_owner(&mut table);
    let half = table.derive(owner, all.id, page(0, 1), Rights::READ, recipient(other, 5)).unwrap();
    let part = table.accept(other, half.id, Some(owner), true);
    assert!(matches!(part, Err(CapabilityFault::BadExtent { available_bytes: 8192, .. })), "{part:?}");
    assert_eq!(table.accept(other, half.id, Some(owner), false), Ok(()), "it was not taken up by that");
    let whole = table.derive(owner, all.id, None, Rights::READ, recipient(other, 5)).unwrap();
    assert_eq!(table.accept(other, whole.id, Some(owner), true), Ok(()));
}

#[test]
fn unaccepted_grant_can_be_taken_back() {
    let mut table = table();
    let (owner, other, all) = region_of_owner(&mut table);
    map(&mut table, owner, all.id, 1, Rights::READ_WRITE);
    table.give(owner, all.id, recipient(other, 5)).unwrap();
    assert_eq!(table.take_actions(), [TableAction::RequestUnmap { node: HOST, mapping: ChannelId(1) }]);
    let capability = all.id;
    assert_eq!(table.take_back(other, capability), Err(CapabilityFault::NotYours { capability }));
    assert_eq!(table.take_back(owner, capability).unwrap(), all);
    assert_eq!(
        table.accept(other, capability, Some(owner), false),
        Err(CapabilityFault::NotYours { capability })
    );
    assert_eq!(
        table.take_back(owner, capability),
        Err(CapabilityFault::TakenUp { capability }),
        "it is its own"
    );
    // Capabilities that the other derives from it before accepting it end with it.
    let lent = table.derive(owner, capability, None, Rights::READ, recipient(other, 5)).unwrap();
    map(&mut table, other, lent.id, 2, Rights::READ);
    assert_eq!(table.take_back(owner, lent.id).unwrap().holder, owner);
    assert_eq!(table.take_actions(), [TableAction::RequestUnmap { node: ARM0, mapping: ChannelId(2) }]);
    table.delete(owner, lent.id).unwrap();
    let lent = table.derive(owner, capability, None, Rights::READ, recipient(other, 5)).unwrap().id;
    table.accept(other, lent, Some(owner), false).unwrap();
    assert_eq!(table.take_back(owner, lent), Err(CapabilityFault::TakenUp { capability: lent }));
}

#[test]
fn a_grant_in_transit_ends_with_its_channel_its_holder_or_its_parent() {
    let mut table = table();
    let (owner, other, all) = region_of_owner(&mut table);
    let granted = |table: &mut Table, channel| {
        table.derive(owner, all.id, None, Rights::READ, recipient(other, channel)).unwrap().id
    };
    let [first, taken, third] = [5, 5, 6].map(|channel| granted(&mut table, channel));
    table.accept(other, taken, Some(owner), false).unwrap();
    // Neither for another domain, nor a capability of another one, nor over another channel.
    table.drop_in_transit(owner, ChannelId(5), owner);
    table.drop_in_transit(other, ChannelId(5), other);
    table.drop_in_transit(other, ChannelId(7), owner);
    let gone = |table: &Table, capability| table.show(other, capability).is_err();
    assert!([first, taken, third].into_iter().all(|capability| !gone(&table, capability)));
    table.drop_in_transit(other, ChannelId(5), owner);
    assert_eq!([first, taken, third].map(|capability| gone(&table, capability)), [true, false, false]);
    // The end of the granter loses nothing: the message has arrived, and its capability with it.
    let moved = create(&mut table, memory(HOST, owner, 1));
    table.give(owner, moved.id, recipient(other, 6)).unwrap();
    table.domain_ended(owner);
    assert_eq!(table.accept(other, moved.id, Some(owner), true), Ok(()));
    assert_eq!(table.accept(other, third, Some(owner), false), Ok(()));
    let maker = domain(HOST, 4);
    let all = create(&mut table, memory(HOST, maker, 1));
    let lent = table.derive(maker, all.id, None, Rights::READ, recipient(other, 8)).unwrap().id;
    table.revoke(0, maker, all.id, false).unwrap();
    assert_eq!(
        table.accept(other, lent, Some(maker), false),
        Err(CapabilityFault::Gone { capability: lent })
    );
    table.derive(maker, all.id, None, Rights::READ, recipient(other, 8)).unwrap();
    table.domain_ended(other);
    table.domain_ended(maker);
    table.take_actions();
    assert!(table.resource_counts().iter().all(|(_, count)| *count == 0));
}

#[test]
fn a_domain_may_have_a_channel_to_itself() {
    let mut table = table();
    let (owner, _, all) = region_of_owner(&mut table);
    let copied = table.derive(owner, all.id, None, Rights::READ, recipient(owner, 5)).unwrap().id;
    table.give(owner, all.id, recipient(owner, 5)).unwrap();
    for capability in [copied, all.id] {
        assert_eq!(table.accept(owner, capability, Some(owner), false), Ok(()));
        assert_eq!(
            table.accept(owner, capability, Some(owner), false),
            Err(CapabilityFault::TakenUp { capability })
        );
    }
    let own = table.derive(owner, all.id, None, Rights::READ, owner).unwrap();
    assert_eq!(own.granter, None, "what is for the caller itself is not on its way");
}
