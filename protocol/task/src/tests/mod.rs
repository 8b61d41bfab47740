mod random;
mod wire;

use crate::{
    Bytes, End, Failure, FailureKind, Limits, Origin, Output, Refusal, Scheduler, Violation, WorkerId,
};

const FAST: WorkerId = WorkerId(0);
const SLOW: WorkerId = WorkerId(1);

/// Returns a scheduler whose node 0 is ten times as fast as node 1.
fn fast_and_slow_workers() -> Scheduler {
    let mut scheduler = Scheduler::new(Limits::default());
    assert_eq!(scheduler.add_worker(0, "host", 100), FAST);
    assert_eq!(scheduler.add_worker(1, "arm0", 10), SLOW);
    scheduler
}

fn start(scheduler: &mut Scheduler, now: u64, node: Option<u16>) -> u32 {
    scheduler.start(now, node, 7, Bytes::default()).unwrap()
}

/// Returns the assignments of tasks to workers, and the tasks that have ended.
fn take_started(scheduler: &mut Scheduler) -> Vec<(usize, u32)> {
    let outputs = scheduler.take_outputs().into_iter();
    outputs
        .filter_map(|output| match output {
            Output::Start { worker, task, .. } => Some((worker.0, task)),
            _ => None,
        })
        .collect()
}

fn failed(outputs: &[Output]) -> Vec<(u32, FailureKind, &str)> {
    let outputs = outputs.iter();
    outputs
        .filter_map(|output| match output {
            Output::Ended { task, end: End::Failed(failure), .. } => {
                Some((*task, failure.kind, failure.node.as_str()))
            }
            _ => None,
        })
        .collect()
}

fn done() -> End {
    End::Done(Bytes::default())
}

#[test]
fn tasks_go_to_the_fastest_free_worker_first() {
    let mut scheduler = fast_and_slow_workers();
    for _ in 0..3 {
        start(&mut scheduler, 0, None);
    }
    assert_eq!(take_started(&mut scheduler), [], "no worker wants any yet");
    scheduler.handle_want(0, SLOW, 1, 0).unwrap();
    assert_eq!(take_started(&mut scheduler), [(1, 0)], "nothing is known of the function");
    scheduler.handle_want(0, FAST, 1, 0).unwrap();
    assert_eq!(take_started(&mut scheduler), [(0, 1)]);
    scheduler.handle_ended(5, FAST, 1, done()).unwrap();
    scheduler.handle_want(5, FAST, 1, 1).unwrap();
    assert_eq!(take_started(&mut scheduler), [(0, 2)]);
    let usage: Vec<_> = scheduler.workers().map(|worker| (worker.tasks, worker.ended)).collect();
    assert_eq!(usage, [(1, 1), (1, 0)]);
}

#[test]
fn last_tasks_wait_for_faster_workers() {
    let mut scheduler = fast_and_slow_workers();
    scheduler.handle_want(0, FAST, 1, 0).unwrap();
    start(&mut scheduler, 0, None);
    scheduler.handle_ended(10, FAST, 0, done()).unwrap();
    scheduler.handle_want(10, FAST, 1, 1).unwrap();
    // A task takes 10 ns on the fast worker, so 100 ns on the slow one.
    scheduler.handle_want(10, SLOW, 1, 0).unwrap();
    start(&mut scheduler, 10, None);
    start(&mut scheduler, 10, None);
    assert_eq!(take_started(&mut scheduler), [(0, 0), (0, 1)], "the third is queued");
    assert_eq!(scheduler.next_tick(), Some(110));
    scheduler.tick(109);
    assert_eq!(take_started(&mut scheduler), []);
    scheduler.tick(110);
    assert_eq!(take_started(&mut scheduler), [(1, 2)], "the fast worker has not taken it");
    assert_eq!(scheduler.next_tick(), None);
}

#[test]
fn a_long_queue_is_shared() {
    let mut scheduler = fast_and_slow_workers();
    scheduler.handle_want(0, FAST, 1, 0).unwrap();
    start(&mut scheduler, 0, None);
    scheduler.handle_ended(10, FAST, 0, done()).unwrap();
    for _ in 0..20 {
        start(&mut scheduler, 10, None);
    }
    scheduler.handle_want(10, FAST, 1, 1).unwrap();
    scheduler.handle_want(10, SLOW, 2, 0).unwrap();
    assert_eq!(take_started(&mut scheduler), [(0, 0), (0, 1), (1, 2)], "19 are queued, then 18");
}

#[test]
fn pinned_task_runs_only_on_its_node() {
    let mut scheduler = fast_and_slow_workers();
    start(&mut scheduler, 0, Some(1));
    scheduler.handle_want(0, FAST, 1, 0).unwrap();
    assert_eq!(take_started(&mut scheduler), []);
    scheduler.handle_want(0, SLOW, 1, 0).unwrap();
    assert_eq!(take_started(&mut scheduler), [(1, 0)]);
    let refused = scheduler.start(0, Some(9), 7, Bytes::default());
    assert_eq!(refused, Err(Refusal::NoWorker));
}

#[test]
fn task_cancelled_in_the_queue_never_runs() {
    let mut scheduler = fast_and_slow_workers();
    let (first, second) = (start(&mut scheduler, 0, None), start(&mut scheduler, 0, Some(1)));
    scheduler.cancel(0, first);
    scheduler.cancel(0, second);
    scheduler.cancel(0, second);
    let outputs = scheduler.take_outputs();
    assert_eq!(failed(&outputs), [(0, FailureKind::Cancelled, ""), (1, FailureKind::Cancelled, "")]);
    scheduler.handle_want(0, FAST, 1, 0).unwrap();
    assert_eq!(take_started(&mut scheduler), []);
    assert!(scheduler.is_empty());
}

#[test]
fn running_task_is_cancelled_at_its_worker() {
    let mut scheduler = fast_and_slow_workers();
    scheduler.handle_want(0, FAST, 2, 0).unwrap();
    let (first, second) = (start(&mut scheduler, 0, None), start(&mut scheduler, 0, None));
    scheduler.take_outputs();
    scheduler.cancel(0, first);
    scheduler.cancel(0, first);
    assert_eq!(scheduler.take_outputs(), [Output::Cancel { worker: FAST, task: first }]);
    let cancelled = End::Failed(Failure::new(FailureKind::Cancelled));
    scheduler.handle_ended(1, FAST, first, cancelled).unwrap();
    assert_eq!(failed(&scheduler.take_outputs()), [(first, FailureKind::Cancelled, "host")]);
    scheduler.cancel(1, second);
    scheduler.handle_ended(1, FAST, second, done()).unwrap();
    assert!(failed(&scheduler.take_outputs()).is_empty());
    assert_eq!(scheduler.handle_ended(1, FAST, second, done()), Err(Violation::NotAssigned(second)));
}

#[test]
fn dead_worker_loses_only_its_tasks() {
    let mut scheduler = fast_and_slow_workers();
    scheduler.handle_want(0, SLOW, 1, 0).unwrap();
    let (there, queued) = (start(&mut scheduler, 0, Some(1)), start(&mut scheduler, 0, Some(1)));
    let anywhere = start(&mut scheduler, 0, None);
    scheduler.take_outputs();
    scheduler.worker_ended(0, SLOW, "it died");
    let outputs = scheduler.take_outputs();
    let expected = [(there, FailureKind::Lost, "arm0"), (queued, FailureKind::NoWorker, "arm0")];
    assert_eq!(failed(&outputs), expected);
    scheduler.worker_ended(0, FAST, "it died");
    assert_eq!(failed(&scheduler.take_outputs()), [(anywhere, FailureKind::NoWorker, "host")]);
    assert!(
        scheduler.resource_counts().iter().all(|(_, count)| *count == 0),
        "{:?}",
        scheduler.resource_counts()
    );
    assert_eq!(scheduler.start(0, None, 7, Bytes::default()), Err(Refusal::NoWorker));
}

#[test]
fn workers_start_tasks_under_their_own_numbers() {
    let mut scheduler = fast_and_slow_workers();
    scheduler.handle_want(0, FAST, 1, 0).unwrap();
    let parent = start(&mut scheduler, 0, None);
    scheduler.start_for_worker(0, (FAST, 40), Some(1), 7, Bytes::default()).unwrap();
    assert_eq!(
        scheduler.start_for_worker(0, (FAST, 40), None, 7, Bytes::default()),
        Err(Violation::DuplicateNumber(40))
    );
    scheduler.start_for_worker(0, (FAST, 41), Some(9), 7, Bytes::default()).unwrap();
    scheduler.take_outputs();
    scheduler.handle_want(0, SLOW, 1, 0).unwrap();
    let child = take_started(&mut scheduler)[0];
    scheduler.handle_ended(0, SLOW, child.1, done()).unwrap();
    let outputs = scheduler.take_outputs();
    let origin = Origin::Worker(FAST, 40);
    assert_eq!(outputs, [Output::Ended { origin, task: child.1, end: done() }]);
    // Tasks started by a task continue when its worker dies.
    scheduler.start_for_worker(0, (FAST, 42), Some(1), 7, Bytes::default()).unwrap();
    scheduler.worker_ended(0, FAST, "it died");
    assert_eq!(failed(&scheduler.take_outputs()), [(parent, FailureKind::Lost, "host")]);
    scheduler.handle_want(0, SLOW, 1, 0).unwrap();
    let (_, child) = take_started(&mut scheduler)[0];
    scheduler.handle_ended(0, SLOW, child, done()).unwrap();
    assert_eq!(scheduler.take_outputs(), [], "there is nothing left to tell");
    assert!(scheduler.is_empty());
}

#[test]
fn limits_hold() {
    let mut scheduler = Scheduler::new(Limits { tasks: 2, wanted: 3 });
    let worker = scheduler.add_worker(0, "host", 0);
    start(&mut scheduler, 0, None);
    start(&mut scheduler, 0, None);
    assert_eq!(scheduler.start(0, None, 7, Bytes::default()), Err(Refusal::TooMany(2)));
    scheduler.start_for_worker(0, (worker, 1), None, 7, Bytes::default()).unwrap();
    assert_eq!(failed(&scheduler.take_outputs()), [(0, FailureKind::TooMany, "")]);
    scheduler.handle_want(0, worker, 3, 0).unwrap();
    assert_eq!(scheduler.handle_want(0, worker, 3, 0), Err(Violation::TooManyWanted(4)));
}

#[test]
fn tasks_wait_for_an_announced_worker() {
    let mut scheduler = fast_and_slow_workers();
    scheduler.handle_want(0, SLOW, 1, 0).unwrap();
    let lost = start(&mut scheduler, 0, Some(1));
    let waits = start(&mut scheduler, 0, Some(1));
    assert_eq!(take_started(&mut scheduler), [(1, lost)]);
    scheduler.announce_worker(1);
    scheduler.worker_ended(0, SLOW, "it died");
    let outputs = scheduler.take_outputs();
    assert_eq!(failed(&outputs), [(lost, FailureKind::Lost, "arm0")], "it is not run again");
    let later = start(&mut scheduler, 0, Some(1));
    let again = scheduler.add_announced_worker(1, "arm0", 10);
    scheduler.handle_want(0, again, 2, 0).unwrap();
    assert_eq!(take_started(&mut scheduler), [(2, waits), (2, later)]);
    let alive: Vec<bool> = scheduler.workers().map(|worker| worker.alive).collect();
    assert_eq!(alive, [true, false, true]);
}

#[test]
fn tasks_fail_if_the_announced_worker_fails() {
    let mut scheduler = fast_and_slow_workers();
    scheduler.announce_worker(1);
    scheduler.worker_ended(0, SLOW, "it died");
    scheduler.worker_ended(0, FAST, "it died");
    let (pinned, shared) = (start(&mut scheduler, 0, Some(1)), start(&mut scheduler, 0, None));
    assert_eq!(scheduler.start(0, Some(0), 7, Bytes::default()), Err(Refusal::NoWorker));
    scheduler.announced_worker_failed(1, "arm0", "its node is down");
    let none = FailureKind::NoWorker;
    assert_eq!(failed(&scheduler.take_outputs()), [(pinned, none, "arm0"), (shared, none, "arm0")]);
    assert_eq!(scheduler.start(0, None, 7, Bytes::default()), Err(Refusal::NoWorker));
    assert!(scheduler.is_empty() && scheduler.resource_counts().iter().all(|(_, count)| *count == 0));
}
