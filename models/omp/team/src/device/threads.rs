//! The threads of a job, as the program has them, on the nodes where they are.

use std::ptr;

use super::migrant::Migrant;
use crate::primitives::processor_time;
use crate::team::root::Root;
use crate::team::shown::{Activity, Role};
use crate::team::thread::Thread;

/// A thread of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Which thread of the job it is, in the order in which they began.
    pub number: u32,
    /// What it is to the program.
    pub role: Role,
    /// Its number in its team, of a worker that has something to do.
    pub in_team: u32,
    /// What the C library calls it.
    pub handle: usize,
    /// The node on which it was made.
    pub made: u32,
    /// The node on which it is.
    pub on: u32,
    /// What it does.
    pub activity: Activity,
    /// Whether it sleeps until other threads of the job wake it.
    pub is_asleep: bool,
    /// What its kernel says that it does, as the letter of `/proc/PID/stat`.
    pub letter: Option<u8>,
    /// How long it has had processors, on all nodes.
    pub time_ns: u64,
    /// How often it has changed its node.
    pub moves: u64,
    /// The function that was called on the node where it is; 0 is none.
    pub function: usize,
}

/// Has the records of threads of this process, which is of this node, say how long they have had a processor.
pub fn measure(root: &Root, node: u32) {
    for thread in root.threads().filter(|thread| thread.node == node && thread.shown.role() != Role::None) {
        let kernel = thread.shown.kernel();
        if let Some(time_ns) = processor_time::time_of_ns(kernel) {
            thread.shown.measured(time_ns, processor_time::state_letter(kernel).unwrap_or(0));
        }
    }
}

/// The threads of the job by number. Workers that are threads of the program on their nodes are not listed
/// besides those, nor are the run-time's own threads.
pub fn seen(root: &Root) -> Vec<Seen> {
    let all: Vec<&'static Thread> =
        root.threads().filter(|thread| thread.shown.role() != Role::None).collect();
    let runs: Vec<(&'static Thread, usize, u64)> =
        all.iter().map(|thread| Migrant::of_origin(thread).map_or((*thread, 0, 0), Migrant::seen)).collect();
    // One that waits for a call which its own made on a further node, and one that makes a call.
    let is_of_another = |thread: &Thread| {
        thread.shown.activity() == Activity::Carries
            || all
                .iter()
                .zip(&runs)
                .any(|(of, (runs_as, ..))| ptr::eq(*runs_as, thread) && !ptr::eq(*of, thread))
    };
    let mut seen: Vec<Seen> = all
        .iter()
        .zip(&runs)
        .filter(|(thread, _)| thread.shown.role() != Role::Other && !is_of_another(thread))
        .map(|(thread, &(runs_as, function, moves))| {
            let shown = &thread.shown;
            Seen {
                number: shown.number(),
                role: shown.role(),
                in_team: shown.in_team(),
                handle: shown.handle(),
                made: thread.node,
                on: runs_as.node,
                activity: runs_as.shown.activity(),
                is_asleep: runs_as.local.is_asleep(),
                letter: runs_as.shown.letter(),
                time_ns: shown.time_ns(all.iter().map(|thread| &thread.shown)),
                moves,
                function,
            }
        })
        .collect();
    seen.sort_by_key(|thread| thread.number);
    seen
}
