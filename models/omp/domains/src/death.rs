//! End of the job after the death of a worker's process.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tombolo::{Child, Error, Exit};
use tombolo_omp_team::primitives::sys;
use tombolo_pages::{LostAccess, LostPage};

/// Time within which the machine must report how a process ended.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Processes of workers, at the index of their number minus 1.
static WORKERS: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// Exit status of the job, set when the reason has been printed; negative before.
static STATUS: AtomicI32 = AtomicI32::new(-1);

/// Registers the process with the next number.
pub(crate) fn add_worker(child: &Child) {
    WORKERS.lock().unwrap_or_else(PoisonError::into_inner).push(child.clone());
}

/// Prints why the job ends, and returns its exit status.
pub(crate) fn report_exit(how: &Result<Exit, Error>, node: &str) -> i32 {
    let mut status = 1;
    let say = |reason: std::fmt::Arguments<'_>| {
        sys::print_error(format_args!("tombolo omp: the worker on node {node} {reason}: the job ends\n"));
    };
    match how {
        Ok(Exit::Exited { status }) => say(format_args!("ended with status {status} before it began")),
        Ok(Exit::Signalled { signal }) => {
            status = 128 + i32::from(*signal);
            let hint = if *signal == 11 || *signal == 7 {
                "; it touched memory that workers have not, or its stack is too small (OMP_STACKSIZE)"
            } else {
                ""
            };
            say(format_args!("was ended by signal {signal}{hint}"));
        }
        Ok(Exit::NodeLost { cause }) if cause.is_empty() => say(format_args!("was lost with its node")),
        Ok(Exit::NodeLost { cause }) => say(format_args!("was lost with its node ({cause})")),
        Ok(Exit::Left) => say(format_args!("has left the machine")),
        Err(error) => say(format_args!("ended, and how is not known ({error})")),
    }
    STATUS.store(status, Ordering::Release);
    status
}

/// Handles a worker's access to a page that only a dead process had. The worker waits: the program's process
/// knows how that process died, and ends the job and this worker.
pub(crate) fn handle_lost_page_in_worker(_: &LostPage) -> LostAccess {
    LostAccess::Waits
}

/// Ends the job, which needs such a page. Called by the thread of the program's process that serves pages.
/// The hub may be waiting for a lost page too, before or after it printed the reason.
pub(crate) fn handle_lost_page_at_home(page: &LostPage) -> LostAccess {
    let status = STATUS.load(Ordering::Acquire);
    if status >= 0 {
        sys::exit_now(status);
    }
    let index = (page.rank as usize).checked_sub(1);
    let workers = WORKERS.lock().unwrap_or_else(PoisonError::into_inner);
    let child = index.and_then(|index| workers.get(index)).cloned();
    drop(workers);
    match child.map(|child| child.wait(EXIT_TIMEOUT)) {
        // It ended without running exit handlers, and took pages with it that those of the program may need.
        Some(Ok(Exit::Exited { status })) => sys::exit_now(i32::from(status)),
        Some(how) => sys::exit_now(report_exit(&how, &page.node)),
        None => sys::fatal(format_args!(
            "a process on node {} ended with memory that only it had: the job ends",
            page.node
        )),
    }
}
