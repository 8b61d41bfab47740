//! Drives a job: starts its domains, restarts them, and ends them as [`Lifecycle`] decides.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tombolo::error::Fault;
use tombolo::{Domain, DomainId, Error, Exit, SpawnOptions};
use tombolo_admin::{Machine, Signal};

use super::lifecycle::{Cause, GRACE, Lifecycle, Next, Rules};
use crate::context::Context;
use crate::failure::Failure;
use crate::input;
use crate::output::{Printer, lock_unpoisoned};
use crate::signals;
use crate::text;

/// Variable with the number of restarts of a program's rank, from 0. Only set with `--restart`.
const RESTARTS_VARIABLE: &str = "TOMBOLO_RESTARTS";

/// Domains of one `tombolo run`.
pub(super) struct Job {
    context: Context,
    domain: Domain,
    printer: Arc<Mutex<Printer>>,
    rules: Rules,
    state: Mutex<Lifecycle>,
}

/// Parameters to start one rank.
pub(super) struct Plan {
    pub(super) spawn: SpawnOptions,
    /// Whether it gets the standard input, on its first start.
    pub(super) with_input: bool,
}

impl Job {
    /// Creates a job without domains, to be run by `run`.
    pub(super) fn new(
        context: Context,
        domain: Domain,
        printer: Arc<Mutex<Printer>>,
        rules: Rules,
    ) -> Arc<Job> {
        let state = Mutex::new(Lifecycle::new(rules));
        Arc::new(Job { context, domain, printer, rules, state })
    }

    /// Ends the job on SIGINT, SIGTERM and SIGHUP.
    pub(super) fn watch_signals(self: &Arc<Self>) -> Result<(), Failure> {
        let mut signals =
            Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(Failure::system("listen for signals"))?;
        let job = Arc::clone(self);
        std::thread::spawn(move || {
            for signal in signals.forever() {
                let signal = signal as u8;
                if !job.interrupt(signal) {
                    // The second time: the monitor kills the domains of a client that is gone.
                    std::process::exit(i32::from(128 + signal));
                }
            }
        });
        Ok(())
    }

    /// Starts all ranks, waits for the end of the job, and returns its failure.
    pub(super) fn run(&self, plans: &[Plan]) -> Result<(), Failure> {
        let started = plans.iter().enumerate().try_for_each(|(rank, plan)| {
            if lock_unpoisoned(&self.state).is_over() { Ok(()) } else { self.start(rank, plan, plans.len()) }
        });
        if let Err(error) = started {
            self.end(format!("{error}"), 1, signals::TERM);
        }
        let waited = self.wait_for_all(plans);
        match lock_unpoisoned(&self.state).failure() {
            Some((message, status)) => Err(Failure::Job { message, status }),
            None => waited,
        }
    }

    fn start(&self, rank: usize, plan: &Plan, size: usize) -> Result<(), Error> {
        let restarts = lock_unpoisoned(&self.state).restarts(rank);
        let with_input = plan.with_input && restarts == 0;
        let mut spawn = plan.spawn.clone();
        if self.rules.restart != super::restart::Policy::No {
            spawn = spawn.env(RESTARTS_VARIABLE, restarts.to_string());
        }
        if with_input {
            spawn = spawn.with_input();
        }
        lock_unpoisoned(&self.printer).expect_domain();
        let spawned = self.domain.spawn(&spawn);
        let known = spawned.as_ref().ok().map(|child| (child.id(), rank.to_string(), rank));
        // A closed output is detected with the next piece.
        let _ = lock_unpoisoned(&self.printer).started(known);
        let child = spawned?;
        let (id, node) = (child.id(), child.node_name());
        if self.context.verbose {
            self.context.info(format!("rank {rank} of {size} is domain {id} on {node}"));
        }
        if lock_unpoisoned(&self.state).started(Instant::now(), rank, id, node) {
            return Machine::of(&self.domain).kill(id, Signal::TERM, GRACE).or_else(ignore_gone);
        }
        if with_input {
            input::forward_to(child);
        }
        Ok(())
    }

    /// Restarts a rank. A failure counts as one of that rank.
    fn restart(&self, rank: usize, plans: &[Plan]) {
        let Some(Err(error)) = plans.get(rank).map(|plan| self.start(rank, plan, plans.len())) else {
            return;
        };
        let node_down = matches!(error, Error::Monitor(Fault::NodeDown { .. } | Fault::StartFailed { .. }));
        let why = text::one_line(&error.to_string());
        let again = lock_unpoisoned(&self.state).not_restarted(Instant::now(), rank, &why, node_down);
        if let Some(again) = again {
            self.context.info(format!("rank {rank} could not be restarted: {why}; {again}"));
        }
    }

    /// Ends the job because of a signal. Returns false if it is ending already.
    pub(super) fn interrupt(&self, signal: u8) -> bool {
        // The domains get the same signal, except for SIGPIPE: their own outputs are not closed.
        let sent = if signal == signals::PIPE { signals::TERM } else { signal };
        self.end(format!("ended by {}", signals::name(signal)), 128 + signal, sent)
    }

    /// Ends the job with this reason and status. Returns false if its domains have been asked to end already.
    fn end(&self, why: String, status: u8, signal: u8) -> bool {
        lock_unpoisoned(&self.state).fail(Instant::now(), Cause::Request, None, why, status);
        self.request_end(signal)
    }

    /// Asks all running domains to end. Returns false if they have been asked already.
    fn request_end(&self, signal: u8) -> bool {
        let Some(others) = lock_unpoisoned(&self.state).request_end(Instant::now()) else { return false };
        for id in others {
            // If it is gone its end is about to be reported; if the monitor is, so are all domains.
            let _ = Machine::of(&self.domain).kill(id, Signal(signal), GRACE);
        }
        true
    }

    fn wait_for_all(&self, plans: &[Plan]) -> Result<(), Failure> {
        loop {
            let next = lock_unpoisoned(&self.state).next(Instant::now());
            let timeout = match next {
                Next::Done => return Ok(()),
                Next::Wait(timeout) => timeout,
                Next::Restart { rank } => {
                    self.restart(rank, plans);
                    continue;
                }
                Next::RequestEnd => {
                    self.request_end(signals::TERM);
                    continue;
                }
                Next::GiveUp => {
                    self.context.info("some domains did not end in time; the monitor kills them now");
                    return Ok(());
                }
            };
            // A domain's end is reported after all of its output.
            match self.domain.next_exit(timeout) {
                Ok((id, exit)) => self.ended(id, &exit),
                Err(Error::TimedOut { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn ended(&self, id: DomainId, exit: &Exit) {
        let Some(ended) = lock_unpoisoned(&self.state).ended(Instant::now(), id, exit) else { return };
        match ended.restart {
            Some(restart) => self.context.info(format!("{}; {restart}", ended.description)),
            None if self.context.verbose => self.context.info(ended.description),
            None => {}
        }
    }
}

fn ignore_gone(error: Error) -> Result<(), Error> {
    match error {
        Error::Monitor(Fault::NoSuchDomain { .. }) => Ok(()),
        error => Err(error),
    }
}
