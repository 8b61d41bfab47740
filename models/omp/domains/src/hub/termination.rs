//! End of the job when one of its processes ends or does not respond.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tombolo::{Exit, Token};
use tombolo_omp_team::primitives::separate_processes::flush_after_loss;
use tombolo_omp_team::primitives::sys;

use super::{DRAIN_TIMEOUT, Hub, JOIN_TIMEOUT, ProcessState, TERMINATING};
use crate::{death, fatal};

impl Hub {
    /// Ends the job after the end of a worker's process.
    pub(super) fn handle_child_exit(&mut self, token: Token) {
        let Some(process) = self.processes.iter().find(|process| process.token == token) else { return };
        if TERMINATING.load(Ordering::Acquire) {
            return;
        }
        let how = process.child.wait(Duration::ZERO);
        // The program itself may be ending: its workers are notified first.
        std::thread::sleep(Duration::from_millis(1));
        if TERMINATING.load(Ordering::Acquire) {
            return;
        }
        let joined = !matches!(process.state, ProcessState::Started { .. });
        match how {
            Ok(Exit::Exited { status }) if joined && self.mapped.paged_ranges().is_some() => {
                // It ended without running exit handlers, and took pages with it that those of the program
                // may need.
                sys::exit_now(i32::from(status))
            }
            Ok(Exit::Exited { status }) if joined => {
                // The run-time ended it because the program called `exit` there.
                if flush_after_loss() {
                    sys::exit(i32::from(status))
                }
                sys::exit_now(i32::from(status))
            }
            how => {
                let status = death::report_exit(&how, process.child.node_name());
                // Stream buffers may be in pages that only that process had: then the thread that serves
                // pages ends the job, with this status.
                flush_after_loss();
                sys::exit_now(status)
            }
        }
    }

    pub(super) fn check_deadlines(&self) {
        for process in &self.processes {
            if process.outbox.full_for() > DRAIN_TIMEOUT {
                let node = process.child.node_name();
                fatal(format_args!(
                    "the worker on node {node} has not heard anything for {} s",
                    DRAIN_TIMEOUT.as_secs()
                ));
            }
            let (ProcessState::Started { since } | ProcessState::Joining { since, .. }) = process.state
            else {
                continue;
            };
            if since.elapsed() > JOIN_TIMEOUT {
                fatal(format_args!(
                    "the worker on node {} has not come within {} s",
                    process.child.node_name(),
                    JOIN_TIMEOUT.as_secs()
                ));
            }
        }
    }
}
