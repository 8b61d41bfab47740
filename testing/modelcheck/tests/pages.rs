//! Every order of events of coherent pages, within bounds.

use stateright::{Checker, Model};
use tombolo_modelcheck::pages::Pages;

/// Number of accesses in addition to those of the test. `TOMBOLO_MODEL_ACCESSES=1` takes minutes.
fn more_accesses() -> u8 {
    std::env::var("TOMBOLO_MODEL_ACCESSES").map_or(0, |more| more.parse().expect("a small number"))
}

const THREE_RANKS: Pages =
    Pages { ranks: 3, pages: 2, accesses: 4, deaths: 0, holds: false, ahead: 0, block_pages: 1 };

fn check(mut model: Pages) {
    model.accesses += more_accesses();
    let checker = model.checker().threads(2).spawn_bfs().join();
    println!("{} states, {} of them different", checker.state_count(), checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn accesses_in_every_order() {
    check(THREE_RANKS);
}

#[test]
fn pages_that_stay_for_a_time() {
    check(Pages { holds: true, ..THREE_RANKS });
}

#[test]
fn pages_that_follow() {
    check(Pages { ahead: 1, block_pages: 2, ..THREE_RANKS });
}

#[test]
fn a_death_at_every_step() {
    check(Pages { accesses: 3, deaths: 1, ..THREE_RANKS });
}

#[test]
fn two_deaths_at_every_step() {
    check(Pages { accesses: 2, deaths: 2, ..THREE_RANKS });
}

#[test]
fn a_death_while_pages_stay() {
    check(Pages { accesses: 3, deaths: 1, holds: true, pages: 1, ..THREE_RANKS });
}
