//! Revocation of rights.

use super::*;

/// Creates a region of the host, a capability of a domain there, and one derived from it for a domain on
/// another node. The last holder has it mapped as 3, the middle one as 2, the owner as 1.
fn chain(table: &mut Table) -> [(DomainId, CapabilityId); 3] {
    let domains = [domain(HOST, 1), domain(HOST, 2), domain(ARM0, 3)];
    let all = create(table, memory(HOST, domains[0], 2));
    let middle = table.derive(domains[0], all.id, None, Rights::ALL, domains[1]).unwrap();
    let last = table.derive(domains[1], middle.id, None, Rights::READ, domains[2]).unwrap();
    let chain = [(domains[0], all.id), (domains[1], middle.id), (domains[2], last.id)];
    for (number, (holder, capability)) in chain.into_iter().enumerate() {
        map(table, holder, capability, number as u64 + 1, Rights::READ);
    }
    chain
}

fn hang_up(node: NodeId, mapping: u64) -> Consequence {
    Consequence::HangUp { node, mapping: ChannelId(mapping) }
}

fn answer(operation: Operation, removed: u32, killed: &[DomainId]) -> Consequence {
    Consequence::Answer { operation, outcome: Ok(Revoked { removed, killed: killed.to_vec() }) }
}

#[test]
fn everything_below_is_removed_when_all_have_unmapped() {
    let mut table = table();
    let [(owner, all), (middle, theirs), (last, lasts)] = chain(&mut table);
    let operation = table.revoke(0, owner, all, false).unwrap();
    assert_eq!(table.take_consequences(), [hang_up(HOST, 2), hang_up(ARM0, 3)]);
    // Marked: unusable, but still in the table.
    let revoked = |capability| CapabilityFault::Revoked { capability };
    assert_eq!(table.derive(middle, theirs, None, Rights::READ, middle), Err(revoked(theirs)));
    assert_eq!(table.mappable(last, lasts, Rights::READ, false, |_, _| true), Err(revoked(lasts)));
    assert_eq!(table.delete(last, lasts), Err(revoked(lasts)));
    assert!(table.released(ARM0, ChannelId(3)));
    assert_eq!(table.take_consequences(), [], "one has not let go");
    assert!(table.released(HOST, ChannelId(2)));
    assert_eq!(table.take_consequences(), [answer(operation, 2, &[])]);
    assert_eq!(table.show(middle, theirs), Err(CapabilityFault::Gone { capability: theirs }));
    assert_eq!(table.show(owner, all).unwrap().1.mappings, 1, "the owner's own is its own");
    assert_eq!(table.next_tick(), None);
}

#[test]
fn nothing_mapped_is_revoked_at_once_and_itself_too_if_asked() {
    let (mut table, owner) = (table(), domain(HOST, 1));
    let all = create(&mut table, memory(HOST, owner, 1));
    let operation = table.revoke(0, owner, all.id, false).unwrap();
    assert_eq!(table.take_consequences(), [answer(operation, 0, &[])]);
    table.derive(owner, all.id, None, Rights::READ, domain(ARM0, 1)).unwrap();
    let operation = table.revoke(0, owner, all.id, true).unwrap();
    let consequences = table.take_consequences();
    assert!(matches!(consequences[0], Consequence::Freed { .. }), "{consequences:?}");
    assert_eq!(consequences[1..], [answer(operation, 2, &[])]);
}

#[test]
fn a_domain_that_does_not_unmap_is_killed_and_until_its_death_the_memory_is_not_reused() {
    let mut table = table();
    let [(owner, all), (middle, _), (last, _)] = chain(&mut table);
    let operation = table.revoke(7, owner, all, false).unwrap();
    table.take_consequences();
    assert_eq!(table.next_tick(), Some(7 + SECOND));
    table.tick(6 + SECOND);
    assert_eq!(table.take_consequences(), []);
    table.tick(7 + SECOND);
    let condemned = [middle, last].map(|domain| Consequence::Condemn { domain });
    assert_eq!(table.take_consequences(), condemned);
    // One domain is killed; the other's node does not answer.
    table.domain_ended(middle);
    table.released(HOST, ChannelId(2));
    assert_eq!(table.take_consequences(), []);
    table.tick(7 + 2 * SECOND);
    let fault = CapabilityFault::StillHeld { capability: all, holders: vec![last] };
    assert_eq!(table.take_consequences(), [Consequence::Answer { operation, outcome: Err(fault) }]);
    assert_eq!(table.next_tick(), None);
    table.delete(owner, all).unwrap();
    table.released(HOST, ChannelId(1));
    assert_eq!(table.take_consequences(), [hang_up(HOST, 1)], "the memory is not free");
    table.node_lost(ARM0);
    assert!(matches!(table.take_consequences()[..], [Consequence::Freed { .. }]), "now it is");
}

#[test]
fn what_was_mapped_by_a_right_that_went_is_waited_for() {
    let mut table = table();
    let [(owner, all), (middle, _), (_, lasts)] = chain(&mut table);
    // Its holder is no longer known, but its process may still have the memory mapped.
    table.domain_ended(middle);
    assert_eq!(table.take_consequences(), [hang_up(HOST, 2)]);
    let operation = table.revoke(0, owner, all, false).unwrap();
    table.released(ARM0, ChannelId(3));
    assert_eq!(table.take_consequences(), [hang_up(ARM0, 3)]);
    table.released(HOST, ChannelId(2));
    assert_eq!(table.take_consequences(), [answer(operation, 1, &[])]);
    assert_eq!(table.capabilities.get(&lasts), None);
}

#[test]
fn revocations_that_overlap_end_each_when_it_may() {
    let mut table = table();
    let [(owner, all), (middle, theirs), _] = chain(&mut table);
    let inner = table.revoke(0, middle, theirs, false).unwrap();
    let outer = table.revoke(0, owner, all, true).unwrap();
    assert_eq!(table.revoke(0, middle, theirs, false), Err(CapabilityFault::Revoked { capability: theirs }));
    assert_eq!(table.take_consequences(), [hang_up(ARM0, 3), hang_up(HOST, 1), hang_up(HOST, 2)]);
    table.released(ARM0, ChannelId(3));
    assert_eq!(table.take_consequences(), [answer(inner, 1, &[])]);
    table.released(HOST, ChannelId(2));
    table.released(HOST, ChannelId(1));
    let consequences = table.take_consequences();
    assert_eq!(consequences.last(), Some(&answer(outer, 2, &[])));
    assert!(table.held().iter().all(|(_, count)| *count == 0));
}
