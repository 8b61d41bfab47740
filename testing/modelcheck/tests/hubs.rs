//! Every order of messages between three clients and the hubs of two nodes, within bounds.

use stateright::{Checker, Model};
use tombolo_hub::Kind;
use tombolo_modelcheck::hubs::{Does, HubMistake, HubModel, Wants, fault_of};

const PROMISE: &str = "hubs keep what they promise";

fn model(hubs: [(Kind, u32); 2], does: [Does; 3]) -> HubModel {
    let mistake = HubMistake::None;
    HubModel { hubs, does, deaths: 0, losses: 0, gives_up: 0, ticks: 0, closes: false, mistake }
}

#[track_caller]
fn check(model: HubModel) {
    let shown = format!("{:?} {:?}", model.hubs, model.does);
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
const CROSSED: [Does; 2] = [Does::Either(Wants::Put, Wants::Get), Does::Either(Wants::Get, Wants::Put)];

/// Model of three clients at the first node: one puts or holds, two get.
fn of_kind(kind: Kind) -> HubModel {
    let capacity = u32::from(kind != Kind::Port);
    let first = if kind.has_holders() { Wants::Get } else { Wants::Put };
    let does = [Does::One(0, first), Does::One(0, Wants::Get), Does::One(0, Wants::Get)];
    model([(kind, capacity), (Kind::Event, 1)], does)
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
        let to_one = [Does::One(0, Wants::PutTwo), Does::One(0, Wants::GetTwo), Does::One(0, Wants::Get)];
        check(HubModel { deaths: 1, gives_up: 1, ..model(hubs, to_one) });
        check(HubModel { closes: true, ..model(hubs, to_one) });
        let by_two = [Does::One(0, Wants::PutTwo), Does::One(0, Wants::PutTwo), Does::One(0, Wants::GetTwo)];
        check(HubModel { deaths: 1, gives_up: 1, ..model(hubs, by_two) });
        let select = Does::Either(Wants::Get, Wants::Get);
        let and_select = [Does::One(0, Wants::PutTwo), select, Does::One(0, Wants::GetTwo)];
        check(HubModel { deaths: 1, ticks: 1, ..model(hubs, and_select) });
    }
}

#[test]
fn two_that_select_at_ports_of_two_nodes_and_a_third() {
    let third = [Does::Nothing, Does::One(0, Wants::Get), Does::One(1, Wants::Put)];
    for third in third {
        check(model(BOTH_PORTS, [CROSSED[0], CROSSED[1], third]));
    }
}

#[test]
fn the_death_of_a_client_at_every_step_of_a_select() {
    check(HubModel { deaths: 1, ..model(BOTH_PORTS, [CROSSED[0], CROSSED[1], Does::Nothing]) });
    let one = Does::Either(Wants::Get, Wants::Get);
    let third = Does::One(0, Wants::Put);
    check(HubModel {
        deaths: 1,
        ..model([(Kind::Fifo, 1), (Kind::Fifo, 1)], [one, Does::One(1, Wants::Put), third])
    });
}

#[test]
fn the_loss_of_a_node_at_every_step_of_a_select() {
    check(HubModel { losses: 1, ..model(BOTH_PORTS, [CROSSED[0], CROSSED[1], Does::Nothing]) });
    let one = Does::Either(Wants::Get, Wants::Get);
    check(HubModel {
        losses: 1,
        ..model([(Kind::Port, 0), (Kind::Fifo, 1)], [one, Does::One(1, Wants::Put), Does::Nothing])
    });
}

#[test]
fn the_loss_of_a_node_that_may_have_done_what_was_claimed() {
    let one = Does::Either(Wants::Get, Wants::Get);
    let does = [one, Does::One(0, Wants::Put), Does::One(1, Wants::Put)];
    check(HubModel { losses: 1, ..model([(Kind::Fifo, 1), (Kind::Fifo, 1)], does) });
    let sends = [Does::Either(Wants::Put, Wants::Put), Does::One(0, Wants::Get), Does::One(1, Wants::Get)];
    check(HubModel { losses: 1, ..model(BOTH_PORTS, sends) });
}

#[test]
fn giving_up_at_every_step_of_a_select() {
    check(HubModel { gives_up: 1, ..model(BOTH_PORTS, [CROSSED[0], CROSSED[1], Does::Nothing]) });
}

#[test]
fn offers_that_end_at_every_step() {
    let one = Does::Either(Wants::Get, Wants::Get);
    let does = [one, Does::One(0, Wants::Put), Does::One(0, Wants::Get)];
    check(HubModel { ticks: 2, ..model([(Kind::Fifo, 1), (Kind::Event, 1)], does) });
    check(HubModel { ticks: 2, ..model([(Kind::Port, 0), (Kind::Event, 1)], does) });
}

#[test]
fn selects_over_unlike_hubs() {
    let one = Does::Either(Wants::Get, Wants::Get);
    let does = [one, Does::One(0, Wants::Get), Does::One(1, Wants::Put)];
    check(HubModel { deaths: 1, ..model([(Kind::Resource, 1), (Kind::Semaphore, 2)], does) });
    check(HubModel { gives_up: 1, ..model([(Kind::Pool, 1), (Kind::Event, 1)], does) });
    let tried = Does::Either(Wants::TryGet, Wants::TryGet);
    check(model(
        [(Kind::Fifo, 1), (Kind::Port, 0)],
        [tried, Does::One(0, Wants::Put), Does::One(1, Wants::Put)],
    ));
}

/// One client puts and two take, or the reverse, each directly on the count or by a request.
#[test]
fn counts_that_are_lent() {
    let (put, get, tried) = (Does::One(0, Wants::Put), Does::One(0, Wants::Get), Does::One(0, Wants::TryGet));
    let either = Does::Either(Wants::Get, Wants::Put);
    for (kind, capacity) in [(Kind::Semaphore, 2), (Kind::Semaphore, 1), (Kind::Event, 1)] {
        let hubs = [(kind, capacity), (kind, capacity)];
        for does in [[put, get, get], [put, put, get], [put, tried, get], [put, get, either]] {
            check(HubModel { deaths: 1, ..model(hubs, does) });
        }
        check(HubModel { gives_up: 1, ticks: 1, ..model(hubs, [put, either, get]) });
        check(HubModel { losses: 1, closes: true, ..model(hubs, [put, get, get]) });
    }
}

#[test]
fn mistakes_are_found() {
    let crossed = model(BOTH_PORTS, [CROSSED[0], CROSSED[1], Does::Nothing]);
    is_found(HubModel { mistake: HubMistake::KeepsItsClaim, ..crossed.clone() });
    is_found(HubModel { mistake: HubMistake::ClaimsAll, ..crossed.clone() });
    let third = Does::One(0, Wants::Get);
    is_found(HubModel {
        mistake: HubMistake::LeavesArms,
        ..model(BOTH_PORTS, [CROSSED[0], third, Does::Nothing])
    });
    is_found(HubModel { deaths: 1, mistake: HubMistake::ForgetsTheDead, ..of_kind(Kind::Resource) });
    is_found(HubModel { deaths: 1, mistake: HubMistake::ForgetsTheDead, ..crossed });
}

/// Canaries in the hubs themselves. Run with `RUSTFLAGS="--cfg sim" cargo test -p tombolo-modelcheck`.
#[cfg(sim)]
#[test]
fn canaries_are_found() {
    let crossed = model(BOTH_PORTS, [CROSSED[0], CROSSED[1], Does::Nothing]);
    let either = Does::Either(Wants::Get, Wants::Get);
    let fifos = [(Kind::Fifo, 1), (Kind::Fifo, 1)];
    let given_up = HubModel {
        gives_up: 1,
        ..model(fifos, [either, Does::One(0, Wants::Put), Does::One(1, Wants::Put)])
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
