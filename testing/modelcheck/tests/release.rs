//! Every order of events of pages with release consistency, within bounds.

use stateright::{Checker, Model};
use tombolo_modelcheck::release::Release;

/// Number of operations in addition to those of the test. `TOMBOLO_MODEL_ACCESSES=1` takes minutes.
fn more_operations() -> u8 {
    std::env::var("TOMBOLO_MODEL_ACCESSES").map_or(0, |more| more.parse().expect("a small number"))
}

const THREE_RANKS: Release =
    Release { ranks: 3, pages: 1, operations: 4, deaths: 0, ahead: 0, block_pages: 1, lock: false };

fn check(mut model: Release) {
    model.operations += more_operations();
    let checker = model.checker().threads(2).spawn_bfs().join();
    println!("{} states, {} of them different", checker.state_count(), checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn operations_in_every_order() {
    check(THREE_RANKS);
}

#[test]
fn pages_of_two_homes() {
    check(Release { pages: 2, operations: 3, ..THREE_RANKS });
}

#[test]
fn writes_under_a_lock() {
    check(Release { ranks: 2, lock: true, operations: 6, ..THREE_RANKS });
}

#[test]
fn pages_that_follow() {
    check(Release { ranks: 2, pages: 2, block_pages: 2, ahead: 1, operations: 5, ..THREE_RANKS });
}

#[test]
fn a_death_at_every_step() {
    check(Release { operations: 3, deaths: 1, lock: true, ..THREE_RANKS });
}

#[test]
fn two_deaths_at_every_step() {
    check(Release { operations: 2, deaths: 2, pages: 2, ..THREE_RANKS });
}
