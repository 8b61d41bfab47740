//! Random starts, messages, cancellations and deaths, compared with a simple model of each task's state.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::{Bytes, End, Failure, FailureKind, Limits, Origin, Output, Scheduler, WorkerId};

const WORKERS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Start(Option<u16>),
    StartForWorker(usize, Option<u16>),
    Want(usize, u32),
    End(usize, usize, bool),
    Cancel(usize),
    Die(usize),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let node = prop::option::of(0..2_u16);
    prop_oneof![
        4 => node.clone().prop_map(Step::Start),
        2 => (0..WORKERS, node).prop_map(|(worker, node)| Step::StartForWorker(worker, node)),
        4 => (0..WORKERS, 1..3_u32).prop_map(|(worker, count)| Step::Want(worker, count)),
        4 => (0..WORKERS, 0..9_usize, any::<bool>()).prop_map(|(worker, which, done)| Step::End(worker, which, done)),
        1 => (0..30_usize).prop_map(Step::Cancel),
        1 => (0..WORKERS).prop_map(Step::Die),
        1 => (1..1000_u64).prop_map(Step::Pass),
    ]
}

#[derive(Default)]
struct TaskModel {
    now: u64,
    local_tasks: Vec<u32>,
    next_number: u32,
    /// Tasks started by workers that have not ended, and whether the worker is alive.
    worker_tasks: BTreeMap<(WorkerId, u32), ()>,
    /// Tasks that are with workers.
    running: Vec<Vec<u32>>,
    wanted: [u32; WORKERS],
    dead: [bool; WORKERS],
    ended_local: Vec<u32>,
}

impl TaskModel {
    fn take(&mut self, scheduler: &mut Scheduler) {
        for output in scheduler.take_outputs() {
            match output {
                Output::Start { worker, task, .. } => {
                    assert!(!self.dead[worker.0], "nothing is given to the dead");
                    assert!(self.wanted[worker.0] > 0, "no more than it wants");
                    assert!(self.running.iter().all(|tasks| !tasks.contains(&task)), "given once");
                    assert!(!self.ended_local.contains(&task), "what has ended is not given");
                    self.wanted[worker.0] -= 1;
                    self.running[worker.0].push(task);
                }
                Output::Cancel { worker, task } => assert!(self.running[worker.0].contains(&task)),
                Output::Ended { origin: Origin::Local, task, .. } => {
                    assert!(!self.ended_local.contains(&task), "it ends once");
                    self.ended_local.push(task);
                }
                Output::Ended { origin: Origin::Worker(worker, number), .. } => {
                    assert!(!self.dead[worker.0], "nothing is told to the dead");
                    assert!(self.worker_tasks.remove(&(worker, number)).is_some(), "it ends once");
                }
            }
        }
    }

    fn apply(&mut self, scheduler: &mut Scheduler, step: &Step) {
        match *step {
            Step::Start(node) => {
                if let Ok(task) = scheduler.start(self.now, node, 1, Bytes::default()) {
                    self.local_tasks.push(task);
                }
            }
            Step::StartForWorker(worker, node) if !self.dead[worker] => {
                self.next_number += 1;
                let key = (WorkerId(worker), self.next_number);
                self.worker_tasks.insert(key, ());
                scheduler.start_for_worker(self.now, key, node, 1, Bytes::default()).unwrap();
            }
            Step::Want(worker, count) if !self.dead[worker] => {
                self.wanted[worker] += count;
                scheduler.handle_want(self.now, WorkerId(worker), count, count).unwrap();
            }
            Step::End(worker, which, done) if !self.running[worker].is_empty() => {
                let which = which % self.running[worker].len();
                let task = self.running[worker].remove(which);
                let failure = Failure::new(FailureKind::Panicked);
                let end = if done { End::Done(Bytes::default()) } else { End::Failed(failure) };
                scheduler.handle_ended(self.now, WorkerId(worker), task, end).unwrap();
            }
            Step::Cancel(which) => {
                if let Some(task) = self.local_tasks.get(which) {
                    scheduler.cancel(self.now, *task);
                }
            }
            Step::Die(worker) => {
                self.dead[worker] = true;
                self.wanted[worker] = 0;
                self.running[worker].clear();
                self.worker_tasks.retain(|(begun_by, _), ()| begun_by.0 != worker);
                scheduler.worker_ended(self.now, WorkerId(worker), "it died");
            }
            Step::Pass(time) => {
                self.now += time;
                scheduler.tick(self.now);
            }
            _ => {}
        }
        self.take(scheduler);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn every_task_ends_once_and_runs_at_most_once(steps in prop::collection::vec(step(), 0..60)) {
        let mut scheduler = Scheduler::new(Limits { tasks: 12, wanted: 1024 });
        for (node, name, speed) in [(0, "host", 50), (0, "host", 50), (1, "arm0", 7)] {
            scheduler.add_worker(node, name, speed);
        }
        let mut book = TaskModel { running: vec![Vec::new(); WORKERS], ..TaskModel::default() };
        for step in &steps {
            book.apply(&mut scheduler, step);
        }
        // Live workers run the remaining tasks until there are none.
        for round in 0..40 {
            for worker in 0..WORKERS {
                book.apply(&mut scheduler, &Step::Want(worker, 1));
                book.apply(&mut scheduler, &Step::End(worker, 0, round % 2 == 0));
            }
            book.apply(&mut scheduler, &Step::Pass(1_000_000));
        }
        prop_assert_eq!(scheduler.resource_counts().map(|(_, count)| count), [0; 4]);
        prop_assert!(book.worker_tasks.is_empty());
        book.local_tasks.sort_unstable();
        book.ended_local.sort_unstable();
        prop_assert_eq!(book.local_tasks, book.ended_local);
    }
}
