//! Explores all interleavings of the ranks' steps in barriers, with deaths, within bounds.

use stateright::{Checker, Model};
use tombolo_modelcheck::collectives::{CollectiveMistake, CollectiveModel};

fn model(ranks: u8, barriers: u8, deaths: u8) -> CollectiveModel {
    CollectiveModel { ranks, barriers, deaths, mistake: CollectiveMistake::None }
}

#[track_caller]
fn check(model: CollectiveModel) {
    let shown = format!("{model:?}");
    let checker = model.checker().threads(2).spawn_bfs().join();
    println!("{shown}: {} states, {} of them different", checker.state_count(), checker.unique_state_count());
    if let Some((property, path)) = checker.discoveries().into_iter().next() {
        panic!("{property}: {:?} after {:?}", path.last_state().clone(), path.clone().into_actions());
    }
}

#[track_caller]
fn is_found(mistake: CollectiveMistake, property: &str) {
    let checker = CollectiveModel { mistake, ..model(4, 1, 1) }.checker().threads(2).spawn_bfs().join();
    assert!(checker.discoveries().contains_key(property), "{mistake:?} was not found");
}

#[test]
fn barriers_without_a_death() {
    check(model(4, 3, 0));
}

#[test]
fn a_death_at_every_step() {
    check(model(3, 2, 1));
    check(model(4, 2, 1));
}

#[test]
fn two_deaths_at_every_step() {
    check(model(3, 2, 2));
    check(model(4, 1, 2));
}

#[test]
fn mistakes_are_found() {
    is_found(CollectiveMistake::KeepsSilent, "nobody waits for ever");
    is_found(CollectiveMistake::WaitsForTheDead, "nobody waits for ever");
    is_found(CollectiveMistake::DoesNotWait, "barriers are barriers, and nobody is left out");
}
