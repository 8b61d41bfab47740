//! How the job ends when one of its processes does, or does not answer.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tombolo::{Exit, Token};
use tombolo_omp_team::primitives::exclusive::flush;
use tombolo_omp_team::primitives::sys;

use super::{ENDING, HEARING, Hub, PATIENCE, ProcessState};
use crate::fatal;

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
        let node = process.child.node_name().to_owned();
        let joined = !matches!(process.state, ProcessState::Started { .. });
        flush();
        match how {
            Ok(Exit::Exited { status }) if joined && self.mapped.sent().is_some() && !self.has_gathered => {
                // It ended at once, with pages that the end of the program may need.
                sys::exit_now(i32::from(status))
            }
            Ok(Exit::Exited { status }) if joined => {
                // A worker said `exit`, which ends the program wherever it is said.
                sys::exit(i32::from(status))
            }
            Ok(Exit::Exited { status }) => {
                fatal(format_args!("the worker on node {node} ended with status {status} before it began"))
            }
            Ok(Exit::Signalled { signal }) => {
                let hint = if signal == 11 || signal == 7 {
                    "; it touched memory that workers have not, or its stack is too small (OMP_STACKSIZE)"
                } else {
                    ""
                };
                sys::complain(format_args!(
                    "tombolo omp: the worker on node {node} was ended by signal {signal}{hint}: the job ends\n"
                ));
                sys::exit_now(128 + i32::from(signal));
            }
            Ok(Exit::NodeLost { cause }) => {
                let cause = if cause.is_empty() { String::new() } else { format!(" ({cause})") };
                fatal(format_args!("the worker on node {node} was lost with its node{cause}: the job ends"))
            }
            Ok(Exit::Left) => {
                fatal(format_args!("the worker on node {node} has left the machine: the job ends"))
            }
            Err(error) => {
                fatal(format_args!("what became of the worker on node {node} is not known: {error}"))
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
