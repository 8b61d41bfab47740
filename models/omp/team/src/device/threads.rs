//! Listing of a job's threads as the program sees them, with the nodes that they are on.

use std::ptr;

use super::migrant::Migrant;
use crate::primitives::processor_time;
use crate::team::root::Root;
use crate::team::shown::{Activity, Role};
use crate::team::thread::Thread;

/// Snapshot of a thread of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Number in the job, in the order in which threads began.
    pub number: u32,
    /// Role in the program.
    pub role: Role,
    /// Thread number in its team, for a worker that has work.
    pub in_team: u32,
    /// Handle of the C library (`pthread_t`).
    pub handle: usize,
    /// Node on which it was created.
    pub made: u32,
    /// Node on which it is now.
    pub on: u32,
    /// Current activity.
    pub activity: Activity,
    /// Whether it sleeps until other threads of the job wake it.
    pub is_asleep: bool,
    /// Process state as reported by its kernel, the letter in `/proc/PID/stat`.
    pub letter: Option<u8>,
    /// Processor time on all nodes, in nanoseconds.
    pub time_ns: u64,
    /// Number of migrations between nodes.
    pub moves: u64,
    /// Function that was called on the current node; 0 if none.
    pub function: usize,
}

/// Updates the processor times and states in the records of this process's threads, which are on node `node`.
pub fn measure(root: &Root, node: u32) {
    for thread in root.threads().filter(|thread| thread.node == node && thread.shown.role() != Role::None) {
        let kernel = thread.shown.kernel();
        if let Some(time_ns) = processor_time::time_of_ns(kernel) {
            thread.shown.measured(time_ns, processor_time::state_letter(kernel).unwrap_or(0));
        }
    }
}

/// Lists the threads of the job, sorted by number. Omits workers that run for a migrating thread, which is
/// listed itself, and the run-time's own threads.
pub fn seen(root: &Root) -> Vec<Seen> {
    let all: Vec<&'static Thread> =
        root.threads().filter(|thread| thread.shown.role() != Role::None).collect();
    let runs: Vec<(&'static Thread, usize, u64)> =
        all.iter().map(|thread| Migrant::of_origin(thread).map_or((*thread, 0, 0), Migrant::seen)).collect();
    // True for a worker that executes a call, or waits for one made from there to a further node.
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
