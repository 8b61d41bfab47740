//! Every order of messages between three clients and the hubs of two nodes, within bounds.

use stateright::{Checker, Model};
use tombolo_hub::Kind;
use tombolo_modelcheck::hubs::{ClientOperation, ClientProgram, HubMistake, HubModel, fault_of};

const PROMISE: &str = "hubs keep what they promise";

fn model(hubs: [(Kind, u32); 2], programs: [ClientProgram; 3]) -> HubModel {
    let mistake = HubMistake::None;
    HubModel { hubs, programs, deaths: 0, losses: 0, gives_up: 0, ticks: 0, closes: false, mistake }
}

#[track_caller]
fn check(model: HubModel) {
    let shown = format!("{:?} {:?}", model.hubs, model.programs);
    let checker = model.checker().threads(2).spawn_bfs().join();
    println!("{shown}: {} states, {} of them different", checker.state_count(), checker.unique_state_count());
    if let Some(path) = checker.discovery(PROMISE) {
        panic!("{:?} after {:?}", fault_of(path.last_state()), path.into_actions());
    }
    checker.assert_properties();
}

#[track_caller]
fn is_found(model: HubModel) {
    let mistake = model.mistake;
    let checker = model.checker().threads(2).spawn_bfs().join();
    assert!(checker.discoveries().contains_key(PROMISE), "{mistake:?} was not found");
}

const BOTH_PORTS: [(Kind, u32); 2] = [(Kind::Port, 0), (Kind::Port, 0)];
const CROSSED: [ClientProgram; 2] = [
    ClientProgram::Either(ClientOperation::Put, ClientOperation::Get),
    ClientProgram::Either(ClientOperation::Get, ClientOperation::Put),
];

/// Model of three clients at the first node: one puts or holds, two get.
fn of_kind(kind: Kind) -> HubModel {
    let capacity = u32::from(kind != Kind::Port);
    let first = if kind.has_holders() { ClientOperation::Get } else { ClientOperation::Put };
    let programs = [
        ClientProgram::One(0, first),
        ClientProgram::One(0, ClientOperation::Get),
        ClientProgram::One(0, ClientOperation::Get),
    ];
    model([(kind, capacity), (Kind::Event, 1)], programs)
}

#[test]
fn all_kinds_with_the_death_of_a_client_at_every_step() {
    for kind in Kind::ALL {
        check(HubModel { deaths: 1, gives_up: 1, ..of_kind(kind) });
    }
}

#[test]
fn all_kinds_closed_at_every_step() {
    for kind in Kind::ALL {
        check(HubModel { closes: true, ..of_kind(kind) });
    }
}

/// Sends two values in one message through a FIFO with room for one or two.
#[test]
fn several_values_of_one_request() {
    for capacity in [1, 2] {
        let hubs = [(Kind::Fifo, capacity), (Kind::Event, 1)];
        let to_one = [
            ClientProgram::One(0, ClientOperation::PutTwo),
            ClientProgram::One(0, ClientOperation::GetTwo),
            ClientProgram::One(0, ClientOperation::Get),
        ];
        check(HubModel { deaths: 1, gives_up: 1, ..model(hubs, to_one) });
        check(HubModel { closes: true, ..model(hubs, to_one) });
        let by_two = [
            ClientProgram::One(0, ClientOperation::PutTwo),
            ClientProgram::One(0, ClientOperation::PutTwo),
            ClientProgram::One(0, ClientOperation::GetTwo),
        ];
        check(HubModel { deaths: 1, gives_up: 1, ..model(hubs, by_two) });
        let select = ClientProgram::Either(ClientOperation::Get, ClientOperation::Get);
        let and_select = [
            ClientProgram::One(0, ClientOperation::PutTwo),
            select,
            ClientProgram::One(0, ClientOperation::GetTwo),
        ];
        check(HubModel { deaths: 1, ticks: 1, ..model(hubs, and_select) });
    }
}

#[test]
fn two_that_select_at_ports_of_two_nodes_and_a_third() {
    let third = [
        ClientProgram::Nothing,
        ClientProgram::One(0, ClientOperation::Get),
        ClientProgram::One(1, ClientOperation::Put),
    ];
    for third in third {
        check(model(BOTH_PORTS, [CROSSED[0], CROSSED[1], third]));
    }
}

#[test]
fn the_death_of_a_client_at_every_step_of_a_select() {
    check(HubModel { deaths: 1, ..model(BOTH_PORTS, [CROSSED[0], CROSSED[1], ClientProgram::Nothing]) });
    let one = ClientProgram::Either(ClientOperation::Get, ClientOperation::Get);
    let third = ClientProgram::One(0, ClientOperation::Put);
    check(HubModel {
        deaths: 1,
        ..model([(Kind::Fifo, 1), (Kind::Fifo, 1)], [one, ClientProgram::One(1, ClientOperation::Put), third])
    });
}

#[test]
fn the_loss_of_a_node_at_every_step_of_a_select() {
    check(HubModel { losses: 1, ..model(BOTH_PORTS, [CROSSED[0], CROSSED[1], ClientProgram::Nothing]) });
    let one = ClientProgram::Either(ClientOperation::Get, ClientOperation::Get);
    check(HubModel {
        losses: 1,
        ..model(
            [(Kind::Port, 0), (Kind::Fifo, 1)],
            [one, ClientProgram::One(1, ClientOperation::Put), ClientProgram::Nothing],
        )
    });
}

#[test]
fn the_loss_of_a_node_that_may_have_done_what_was_claimed() {
    let one = ClientProgram::Either(ClientOperation::Get, ClientOperation::Get);
    let programs =
        [one, ClientProgram::One(0, ClientOperation::Put), ClientProgram::One(1, ClientOperation::Put)];
    check(HubModel { losses: 1, ..model([(Kind::Fifo, 1), (Kind::Fifo, 1)], programs) });
    let sends = [
        ClientProgram::Either(ClientOperation::Put, ClientOperation::Put),
        ClientProgram::One(0, ClientOperation::Get),
        ClientProgram::One(1, ClientOperation::Get),
    ];
    check(HubModel { losses: 1, ..model(BOTH_PORTS, sends) });
}

#[test]
fn giving_up_at_every_step_of_a_select() {
    check(HubModel { gives_up: 1, ..model(BOTH_PORTS, [CROSSED[0], CROSSED[1], ClientProgram::Nothing]) });
}

#[test]
fn offers_that_end_at_every_step() {
    let one = ClientProgram::Either(ClientOperation::Get, ClientOperation::Get);
    let programs =
        [one, ClientProgram::One(0, ClientOperation::Put), ClientProgram::One(0, ClientOperation::Get)];
    check(HubModel { ticks: 2, ..model([(Kind::Fifo, 1), (Kind::Event, 1)], programs) });
    check(HubModel { ticks: 2, ..model([(Kind::Port, 0), (Kind::Event, 1)], programs) });
}

#[test]
fn selects_over_unlike_hubs() {
    let one = ClientProgram::Either(ClientOperation::Get, ClientOperation::Get);
    let programs =
        [one, ClientProgram::One(0, ClientOperation::Get), ClientProgram::One(1, ClientOperation::Put)];
    check(HubModel { deaths: 1, ..model([(Kind::Resource, 1), (Kind::Semaphore, 2)], programs) });
    check(HubModel { gives_up: 1, ..model([(Kind::Pool, 1), (Kind::Event, 1)], programs) });
    let tried = ClientProgram::Either(ClientOperation::TryGet, ClientOperation::TryGet);
    check(model(
        [(Kind::Fifo, 1), (Kind::Port, 0)],
        [tried, ClientProgram::One(0, ClientOperation::Put), ClientProgram::One(1, ClientOperation::Put)],
    ));
}

/// One client puts and two take, or the reverse, each directly on the count or by a request.
#[test]
fn counts_that_are_lent() {
    let (put, get, tried) = (
        ClientProgram::One(0, ClientOperation::Put),
        ClientProgram::One(0, ClientOperation::Get),
        ClientProgram::One(0, ClientOperation::TryGet),
    );
    let either = ClientProgram::Either(ClientOperation::Get, ClientOperation::Put);
    for (kind, capacity) in [(Kind::Semaphore, 2), (Kind::Semaphore, 1), (Kind::Event, 1)] {
        let hubs = [(kind, capacity), (kind, capacity)];
        for programs in [[put, get, get], [put, put, get], [put, tried, get], [put, get, either]] {
            check(HubModel { deaths: 1, ..model(hubs, programs) });
        }
        check(HubModel { gives_up: 1, ticks: 1, ..model(hubs, [put, either, get]) });
        check(HubModel { losses: 1, closes: true, ..model(hubs, [put, get, get]) });
    }
}

#[test]
fn mistakes_are_found() {
    let crossed = model(BOTH_PORTS, [CROSSED[0], CROSSED[1], ClientProgram::Nothing]);
    is_found(HubModel { mistake: HubMistake::KeepsItsClaim, ..crossed.clone() });
    is_found(HubModel { mistake: HubMistake::ClaimsAll, ..crossed.clone() });
    let third = ClientProgram::One(0, ClientOperation::Get);
    is_found(HubModel {
        mistake: HubMistake::LeavesArms,
        ..model(BOTH_PORTS, [CROSSED[0], third, ClientProgram::Nothing])
    });
    is_found(HubModel { deaths: 1, mistake: HubMistake::ForgetsTheDead, ..of_kind(Kind::Resource) });
    is_found(HubModel { deaths: 1, mistake: HubMistake::ForgetsTheDead, ..crossed });
}

/// Canaries in the hubs themselves. Run with `RUSTFLAGS="--cfg sim" cargo test -p tombolo-modelcheck`.
#[cfg(sim)]
#[test]
fn canaries_are_found() {
    let crossed = model(BOTH_PORTS, [CROSSED[0], CROSSED[1], ClientProgram::Nothing]);
    let either = ClientProgram::Either(ClientOperation::Get, ClientOperation::Get);
    let fifos = [(Kind::Fifo, 1), (Kind::Fifo, 1)];
    let given_up = HubModel {
        gives_up: 1,
        ..model(
            fifos,
            [
                either,
                ClientProgram::One(0, ClientOperation::Put),
                ClientProgram::One(1, ClientOperation::Put),
            ],
        )
    };
    let resource = HubModel { deaths: 1, ..of_kind(Kind::Resource) };
    let planted = [
        ("hub does with one claim of two", crossed),
        ("hub loses what was not claimed", given_up),
        ("hub keeps the requests of the dead", HubModel { deaths: 1, ..of_kind(Kind::Port) }),
        ("hub leaves blocks with the dead", resource),
        ("hub lends the count while one waits", of_kind(Kind::Semaphore)),
    ];
    for (canary, model) in planted {
        is_found(HubModel { mistake: HubMistake::Canary(canary), ..model });
    }
}
