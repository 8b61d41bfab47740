//! Explores all orders of messages between a starter and two workers, within bounds.

use stateright::{Checker, Model};
use tombolo_modelcheck::tasks::{TaskMistake, TaskModel};

const PROMISE: &str = "tasks end once";

fn model(tasks: &[Option<u16>]) -> TaskModel {
    let mistake = TaskMistake::None;
    TaskModel { tasks: tasks.to_vec(), nested: 0, deaths: 0, cancels: 0, waits: 0, mistake }
}

#[track_caller]
fn check(model: TaskModel) {
    let shown = format!("{model:?}");
    let checker = model.checker().threads(2).spawn_bfs().join();
    println!("{shown}: {} states, {} of them different", checker.state_count(), checker.unique_state_count());
    if let Some(path) = checker.discovery(PROMISE) {
        panic!("{:?} after {:?}", path.last_state().clone(), path.clone().into_actions());
    }
    checker.assert_properties();
}

#[track_caller]
fn is_found(model: TaskModel) {
    let mistake = model.mistake;
    let checker = model.checker().threads(2).spawn_bfs().join();
    assert!(checker.discoveries().contains_key(PROMISE), "{mistake:?} was not found");
}

const ANY: Option<u16> = None;

#[test]
fn tasks_that_wait_let_others_run() {
    check(TaskModel { waits: 2, ..model(&[ANY, Some(1), ANY]) });
}

#[test]
fn the_death_of_both_workers_at_every_step() {
    check(TaskModel { deaths: 2, ..model(&[ANY, Some(1), ANY]) });
}

#[test]
fn cancellation_and_a_death_at_every_step() {
    check(TaskModel { cancels: 2, deaths: 1, ..model(&[ANY, Some(0)]) });
}

#[test]
fn tasks_that_start_tasks_with_a_death_at_every_step() {
    check(TaskModel { nested: 2, deaths: 1, ..model(&[ANY, ANY]) });
}

#[test]
fn mistakes_are_found() {
    let some = model(&[ANY, Some(1), ANY]);
    is_found(TaskModel { deaths: 1, mistake: TaskMistake::ForgetsTheDead, ..some.clone() });
    is_found(TaskModel { cancels: 1, mistake: TaskMistake::CancelsInSilence, ..some.clone() });
    is_found(TaskModel { waits: 2, mistake: TaskMistake::HoldsOnWhileWaiting, ..some });
}
