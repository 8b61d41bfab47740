//! Every order of events of shared objects, within bounds.

use stateright::{Checker, Model};
use tombolo_modelcheck::objects::{Canary, Checked, Objects};
use tombolo_sharing::{Caching, Consistency};

/// Number of acquisitions in addition to those of the test. `TOMBOLO_MODEL_ACQUISITIONS=1` takes minutes.
fn more_acquisitions() -> u8 {
    std::env::var("TOMBOLO_MODEL_ACQUISITIONS").map_or(0, |more| more.parse().expect("a small number"))
}

fn model(ranks: u8, acquisitions: u8, deaths: u8) -> Objects {
    let controller = Checked(Consistency::Timestamp, Canary::None);
    let acquisitions = acquisitions + more_acquisitions();
    Objects { ranks, acquisitions, deaths, gives_up: false, controller, caching: Caching::Cached }
}

fn check(model: &Objects) {
    for consistency in Consistency::ALL {
        let model = Objects { controller: Checked(consistency, Canary::None), ..model.clone() };
        let checker = model.checker().threads(2).spawn_bfs().join();
        let (all, different) = (checker.state_count(), checker.unique_state_count());
        println!("{consistency:?}: {all} states, {different} of them different");
        checker.assert_properties();
    }
}

#[test]
fn two_ranks() {
    check(&model(2, 4, 0));
}

#[test]
fn three_ranks() {
    check(&model(3, 3, 0));
}

#[test]
fn two_ranks_that_give_up() {
    check(&Objects { gives_up: true, ..model(2, 3, 0) });
}

#[test]
fn data_that_is_written_through_or_not_copied() {
    for caching in [Caching::WriteThrough, Caching::Uncached] {
        check(&Objects { caching, ..model(2, 3, 0) });
    }
}

#[test]
fn a_death_at_every_step() {
    check(&model(3, 3, 1));
}

/// Returns whether the checker finds the canary.
fn found(consistency: Consistency, canary: Canary) -> bool {
    let model = Objects { controller: Checked(consistency, canary), ..model(2, 3, 0) };
    let checker = model.checker().threads(2).spawn_bfs().join();
    checker.discovery("many read or one writes, and nothing stale").is_some()
}

#[test]
fn each_controller_needs_all_of_its_invalidations() {
    for consistency in Consistency::ALL {
        assert!(found(consistency, Canary::MissingInvalidate), "{consistency:?}");
        assert!(!found(consistency, Canary::None), "{consistency:?}");
    }
}

#[test]
fn a_suspicion_is_not_enough_to_pass_over_a_lock() {
    assert!(found(Consistency::Timestamp, Canary::Suspicion));
}
