//! How the job ends when one of its processes does, or does not answer.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tombolo::{Exit, Token};
use tombolo_omp_team::primitives::exclusive::flush_after_loss;
use tombolo_omp_team::primitives::sys;

use super::{ENDING, HEARING, Hub, PATIENCE, ProcessState};
use crate::{death, fatal};

impl Hub {
    /// A worker's process has ended, and so does the job.
    pub(super) fn ended(&mut self, token: Token) {
        let Some(process) = self.processes.iter().find(|process| process.token == token) else { return };
        if ENDING.load(Ordering::Acquire) {
            return;
        }
        let how = process.child.wait(Duration::ZERO);
        // Another thread may end the program just now, which its workers heard of before.
        std::thread::sleep(Duration::from_millis(1));
        if ENDING.load(Ordering::Acquire) {
            return;
        }
        let joined = !matches!(process.state, ProcessState::Started { .. });
        match how {
            Ok(Exit::Exited { status }) if joined && self.mapped.sent().is_some() => {
                // It ended at once, with pages that the end of the program may need.
                sys::exit_now(i32::from(status))
            }
            Ok(Exit::Exited { status }) if joined => {
                // The run-time has ended it, which ends the program.
                if flush_after_loss() {
                    sys::exit(i32::from(status))
                }
                sys::exit_now(i32::from(status))
            }
            how => {
                let status = death::explain(&how, process.child.node_name());
                // Streams may have buffers in pages that only that process had: then the thread that serves
                // pages ends the job, with this status.
                flush_after_loss();
                sys::exit_now(status)
            }
        }
    }

    pub(super) fn check_deadlines(&self) {
        for process in &self.processes {
            if process.outbox.full_for() > HEARING {
                let node = process.child.node_name();
                fatal(format_args!(
                    "the worker on node {node} has not heard anything for {} s",
                    HEARING.as_secs()
                ));
            }
            let (ProcessState::Started { since } | ProcessState::Joining { since, .. }) = process.state
            else {
                continue;
            };
            if since.elapsed() > PATIENCE {
                fatal(format_args!(
                    "the worker on node {} has not come within {} s",
                    process.child.node_name(),
                    PATIENCE.as_secs()
                ));
            }
        }
    }
}
