//! Listing of a job's threads as the program sees them, with the nodes that they are on.

use std::ptr;

use super::migration::MigrationState;
use crate::primitives::processor_time;
use crate::team::root::Root;
use crate::team::thread::Thread;
use crate::team::thread_status::{Activity, Role};

/// Snapshot of a thread of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadSnapshot {
    /// Number in the job, in the order in which threads began.
    pub number: u32,
    /// Role in the program.
    pub role: Role,
    /// Thread number in its team, for a worker that has work.
    pub team_number: u32,
    /// Handle of the C library (`pthread_t`).
    pub pthread: usize,
    /// Node on which it was created.
    pub home_node: u32,
    /// Node on which it is now.
    pub node: u32,
    /// Current activity.
    pub activity: Activity,
    /// Whether it sleeps until other threads of the job wake it.
    pub is_asleep: bool,
    /// Process state as reported by its kernel, the letter in `/proc/PID/stat`.
    pub state_letter: Option<u8>,
    /// Processor time on all nodes, in nanoseconds.
    pub time_ns: u64,
    /// Number of migrations between nodes.
    pub moves: u64,
    /// Function that was called on the current node; 0 if none.
    pub function: usize,
}

/// Updates the processor times and states in the records of this process's threads, which are on node `node`.
pub fn measure(root: &Root, node: u32) {
    for thread in root.threads().filter(|thread| thread.node == node && thread.status.role() != Role::None) {
        let tid = thread.status.tid();
        if let Some(time_ns) = processor_time::thread_time_ns(tid) {
            thread.status.record_measurement(time_ns, processor_time::state_letter(tid).unwrap_or(0));
        }
    }
}

/// Lists the threads of the job, sorted by number. Omits workers that run for a migrating thread, which is
/// listed itself, and the run-time's own threads.
pub fn snapshots(root: &Root) -> Vec<ThreadSnapshot> {
    let all: Vec<&'static Thread> =
        root.threads().filter(|thread| thread.status.role() != Role::None).collect();
    let runs: Vec<(&'static Thread, usize, u64)> = all
        .iter()
        .map(|thread| MigrationState::of_origin(thread).map_or((*thread, 0, 0), MigrationState::snapshot))
        .collect();
    // True for a worker that executes a call, or waits for one made from there to a further node.
    let is_of_another = |thread: &Thread| {
        thread.status.activity() == Activity::RunningMigratedThread
            || all
                .iter()
                .zip(&runs)
                .any(|(of, (runs_as, ..))| ptr::eq(*runs_as, thread) && !ptr::eq(*of, thread))
    };
    let mut snapshots: Vec<ThreadSnapshot> = all
        .iter()
        .zip(&runs)
        .filter(|(thread, _)| thread.status.role() != Role::Other && !is_of_another(thread))
        .map(|(thread, &(runs_as, function, moves))| {
            let status = &thread.status;
            ThreadSnapshot {
                number: status.number(),
                role: status.role(),
                team_number: status.team_number(),
                pthread: status.pthread(),
                home_node: thread.node,
                node: runs_as.node,
                activity: runs_as.status.activity(),
                is_asleep: runs_as.local.is_asleep(),
                state_letter: runs_as.status.state_letter(),
                time_ns: status.time_ns(all.iter().map(|thread| &thread.status)),
                moves,
                function,
            }
        })
        .collect();
    snapshots.sort_by_key(|thread| thread.number);
    snapshots
}
