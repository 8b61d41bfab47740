//! Every order of events of a revocation, within bounds.

use stateright::{Checker, Model};
use tombolo_modelcheck::revocation::{Mistake, Revocation};

/// Number of deaths and stops of domains in addition to those of the test. `TOMBOLO_MODEL_FAULTS=1` takes
/// minutes.
fn more_faults() -> u8 {
    std::env::var("TOMBOLO_MODEL_FAULTS").map_or(0, |faults| faults.parse().expect("a small number"))
}

fn check(mut model: Revocation) {
    model.faults += more_faults();
    let checker = model.checker().threads(2).spawn_bfs().join();
    println!("{} states, {} of them different", checker.state_count(), checker.unique_state_count());
    checker.assert_properties();
}

#[track_caller]
fn is_found(mistake: Mistake) {
    let model = Revocation { faults: 1, losses: 0, ticks: 2, gives_up: false, mistake };
    let checker = model.checker().threads(2).spawn_bfs().join();
    let found = checker.discoveries().contains_key("no domain reaches memory that was revoked or is free");
    assert!(found, "{mistake:?} was not found");
}

#[test]
fn deaths_and_stops_at_every_step() {
    check(Revocation { faults: 1, losses: 0, ticks: 2, gives_up: false, mistake: Mistake::None });
}

#[test]
fn the_loss_of_a_node_at_every_step() {
    check(Revocation { faults: 0, losses: 1, ticks: 0, gives_up: false, mistake: Mistake::None });
}

#[test]
fn rights_dropped_at_every_step() {
    check(Revocation { faults: 0, losses: 0, ticks: 0, gives_up: true, mistake: Mistake::None });
}

#[test]
fn mistakes_are_found() {
    is_found(Mistake::TrustsConnections);
    is_found(Mistake::SaysTooEarly);
    is_found(Mistake::SilenceIsDeath);
}
