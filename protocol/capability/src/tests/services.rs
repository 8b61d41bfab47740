//! Capabilities to services.

use super::*;

#[test]
fn a_right_to_connect_is_attenuated_passed_and_revoked() {
    let (mut table, server, client, third) = (table(), domain(HOST, 1), domain(ARM0, 2), domain(ARM0, 3));
    let all = table.create_service(server, NonZeroU16::MIN).unwrap();
    assert_eq!((all.kind, all.rights), (Kind::Service, Rights::CONNECT | Rights::GRANT));
    let given = table.derive(server, all.id, None, Rights::CONNECT | Rights::GRANT, client).unwrap();
    let last = table.derive(client, given.id, None, Rights::CONNECT, third).unwrap();
    assert_eq!(table.connectable(third, last.id), Ok(all.region));
    let lacks = table.derive(third, last.id, None, Rights::CONNECT, client).unwrap_err();
    assert!(matches!(lacks, CapabilityFault::Lacks { .. }), "{lacks:?}");
    assert!(matches!(table.connectable(client, last.id), Err(CapabilityFault::NotYours { .. })));
    let lacks = table.mappable(third, last.id, Rights::READ, false, |_, _| true).unwrap_err();
    assert!(matches!(lacks, CapabilityFault::Lacks { .. }), "there is nothing to map: {lacks:?}");
    table.revoke(0, server, all.id, false).unwrap();
    assert!(matches!(table.connectable(third, last.id), Err(CapabilityFault::Gone { .. })));
    let outcome = Ok(Revoked { removed: 2, killed: vec![] });
    assert!(
        matches!(&table.take_actions()[..], [TableAction::Answer { outcome: found, .. }] if *found == outcome)
    );
    let memory = create(&mut table, memory(HOST, server, 1));
    assert!(matches!(table.connectable(server, memory.id), Err(CapabilityFault::Lacks { .. })));
}

#[test]
fn service_ends_with_its_creator() {
    let (mut table, server, client) = (table(), domain(HOST, 1), domain(ARM0, 2));
    let all = table.create_service(server, NonZeroU16::MIN).unwrap();
    let given = table.derive(server, all.id, None, Rights::CONNECT, client).unwrap();
    table.domain_ended(server);
    table.foreign_lost(server);
    assert!(matches!(table.connectable(client, given.id), Err(CapabilityFault::Gone { .. })));
    assert!(matches!(table.take_actions()[..], [TableAction::Freed { memory: Memory::Service, .. }]));
    let all = table.create_service(server, NonZeroU16::MIN).unwrap();
    table.service_lost(all.region);
    assert!(matches!(table.connectable(server, all.id), Err(CapabilityFault::Gone { .. })));
    let memory = create(&mut table, memory(HOST, server, 1));
    table.service_lost(memory.region);
    assert!(table.show(server, memory.id).is_ok(), "memory is no service");
}
