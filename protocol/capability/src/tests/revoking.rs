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

fn request_unmap(node: NodeId, mapping: u64) -> TableAction {
    TableAction::RequestUnmap { node, mapping: ChannelId(mapping) }
}

fn answer(operation: Operation, removed: u32, killed: &[DomainId]) -> TableAction {
    TableAction::Answer { operation, outcome: Ok(Revoked { removed, killed: killed.to_vec() }) }
}

#[test]
fn descendants_are_removed_once_unmapped() {
    let mut table = table();
    let [(owner, all), (middle, middle_capability), (last, last_capability)] = chain(&mut table);
    let operation = table.revoke(0, owner, all, false).unwrap();
    assert_eq!(table.take_actions(), [request_unmap(HOST, 2), request_unmap(ARM0, 3)]);
    // Marked: unusable, but still in the table.
    let revoked = |capability| CapabilityFault::Revoked { capability };
    assert_eq!(
        table.derive(middle, middle_capability, None, Rights::READ, middle),
        Err(revoked(middle_capability))
    );
    assert_eq!(
        table.mappable(last, last_capability, Rights::READ, false, |_, _| true),
        Err(revoked(last_capability))
    );
    assert_eq!(table.delete(last, last_capability), Err(revoked(last_capability)));
    assert!(table.mapping_released(ARM0, ChannelId(3)));
    assert_eq!(table.take_actions(), [], "one has not let go");
    assert!(table.mapping_released(HOST, ChannelId(2)));
    assert_eq!(table.take_actions(), [answer(operation, 2, &[])]);
    assert_eq!(
        table.show(middle, middle_capability),
        Err(CapabilityFault::Gone { capability: middle_capability })
    );
    assert_eq!(table.show(owner, all).unwrap().1.mappings, 1, "the owner's own is its own");
    assert_eq!(table.next_tick(), None);
}

#[test]
fn unmapped_capabilities_are_revoked_at_once() {
    let (mut table, owner) = (table(), domain(HOST, 1));
    let all = create(&mut table, memory(HOST, owner, 1));
    let operation = table.revoke(0, owner, all.id, false).unwrap();
    assert_eq!(table.take_actions(), [answer(operation, 0, &[])]);
    table.derive(owner, all.id, None, Rights::READ, domain(ARM0, 1)).unwrap();
    let operation = table.revoke(0, owner, all.id, true).unwrap();
    let actions = table.take_actions();
    assert!(matches!(actions[0], TableAction::Freed { .. }), "{actions:?}");
    assert_eq!(actions[1..], [answer(operation, 2, &[])]);
}

#[test]
fn domain_that_does_not_unmap_is_killed() {
    let mut table = table();
    let [(owner, all), (middle, _), (last, _)] = chain(&mut table);
    let operation = table.revoke(7, owner, all, false).unwrap();
    table.take_actions();
    assert_eq!(table.next_tick(), Some(7 + SECOND));
    table.tick(6 + SECOND);
    assert_eq!(table.take_actions(), []);
    table.tick(7 + SECOND);
    let condemned = [middle, last].map(|domain| TableAction::Kill { domain });
    assert_eq!(table.take_actions(), condemned);
    // One domain is killed; the other's node does not answer.
    table.domain_ended(middle);
    table.mapping_released(HOST, ChannelId(2));
    assert_eq!(table.take_actions(), []);
    table.tick(7 + 2 * SECOND);
    let fault = CapabilityFault::StillHeld { capability: all, holders: vec![last] };
    assert_eq!(table.take_actions(), [TableAction::Answer { operation, outcome: Err(fault) }]);
    assert_eq!(table.next_tick(), None);
    table.delete(owner, all).unwrap();
    table.mapping_released(HOST, ChannelId(1));
    assert_eq!(table.take_actions(), [request_unmap(HOST, 1)], "the memory is not free");
    table.node_lost(ARM0);
    assert!(matches!(table.take_actions()[..], [TableAction::Freed { .. }]), "now it is");
}

#[test]
fn orphaned_mapping_delays_revocation() {
    let mut table = table();
    let [(owner, all), (middle, _), (_, last_capability)] = chain(&mut table);
    // Its holder is no longer known, but its process may still have the memory mapped.
    table.domain_ended(middle);
    assert_eq!(table.take_actions(), [request_unmap(HOST, 2)]);
    let operation = table.revoke(0, owner, all, false).unwrap();
    table.mapping_released(ARM0, ChannelId(3));
    assert_eq!(table.take_actions(), [request_unmap(ARM0, 3)]);
    table.mapping_released(HOST, ChannelId(2));
    assert_eq!(table.take_actions(), [answer(operation, 1, &[])]);
    assert_eq!(table.capabilities.get(&last_capability), None);
}

#[test]
fn overlapping_revocations_complete_independently() {
    let mut table = table();
    let [(owner, all), (middle, middle_capability), _] = chain(&mut table);
    let inner = table.revoke(0, middle, middle_capability, false).unwrap();
    let outer = table.revoke(0, owner, all, true).unwrap();
    assert_eq!(
        table.revoke(0, middle, middle_capability, false),
        Err(CapabilityFault::Revoked { capability: middle_capability })
    );
    assert_eq!(
        table.take_actions(),
        [request_unmap(ARM0, 3), request_unmap(HOST, 1), request_unmap(HOST, 2)]
    );
    table.mapping_released(ARM0, ChannelId(3));
    assert_eq!(table.take_actions(), [answer(inner, 1, &[])]);
    table.mapping_released(HOST, ChannelId(2));
    table.mapping_released(HOST, ChannelId(1));
    let actions = table.take_actions();
    assert_eq!(actions.last(), Some(&answer(outer, 2, &[])));
    assert!(table.resource_counts().iter().all(|(_, count)| *count == 0));
}
