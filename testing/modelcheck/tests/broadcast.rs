//! Explores every order of messages, joins and deaths in a small group.

use stateright::{Checker, Model};
use tombolo_broadcast::Order;
use tombolo_modelcheck::broadcast::{Broadcast, Mistake};

/// Four members in a chain, each of which broadcasts a message of two chunks.
const FOUR: Broadcast = Broadcast {
    members: 4,
    sources: 4,
    chunks: 2,
    fan_out: 1,
    deaths: 0,
    joins: false,
    order: Order::PerSource,
    mistake: Mistake::None,
};

const THREE: Broadcast = Broadcast { members: 3, sources: 2, ..FOUR };

/// Returns the maximum number of states to explore: groups of four have millions. `TOMBOLO_MODEL_STATES=0`
/// explores all.
fn most() -> usize {
    std::env::var("TOMBOLO_MODEL_STATES").map_or(40_000, |most| most.parse().expect("a number"))
}

fn explore(model: Broadcast) -> (usize, Option<&'static str>) {
    let mut builder = model.checker().threads(2);
    if most() > 0 {
        builder = builder.target_state_count(most());
    }
    let checker = builder.spawn_dfs().join();
    let faults =
        ["nothing is taken twice, late or by one that is out", "where nothing moves all have the same"];
    let found = checker.discoveries();
    (checker.unique_state_count(), faults.into_iter().find(|fault| found.contains_key(fault)))
}

#[track_caller]
fn holds(model: Broadcast) {
    let described = format!("{model:?}");
    let (states, fault) = explore(model);
    println!("{states} different states: {described}");
    assert_eq!(fault, None, "{described}");
}

#[test]
fn four_members_that_all_broadcast_two_chunks() {
    holds(FOUR);
    for fan_out in [1, 2, 3] {
        holds(Broadcast { sources: 2, fan_out, ..FOUR });
    }
    holds(Broadcast { order: Order::Total, ..FOUR });
}

#[test]
fn a_death_at_every_step() {
    for order in [Order::PerSource, Order::Total] {
        holds(Broadcast { deaths: 1, order, ..THREE });
        holds(Broadcast { deaths: 1, order, ..FOUR });
        holds(Broadcast { deaths: 2, order, sources: 1, ..THREE });
    }
}

#[test]
fn a_join_at_every_step_and_a_death() {
    for order in [Order::PerSource, Order::Total] {
        holds(Broadcast { members: 2, joins: true, order, ..FOUR });
        holds(Broadcast { deaths: 1, joins: true, order, ..THREE });
    }
}

#[test]
fn mistakes_are_found() {
    for (mistake, deaths) in [(Mistake::WaitsForBuffer, 0), (Mistake::TellsNothing, 1), (Mistake::Forgets, 1)]
    {
        let (_, fault) = explore(Broadcast { deaths, mistake, ..THREE });
        assert!(fault.is_some(), "{mistake:?} was not found");
    }
}
