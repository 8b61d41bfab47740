//! A job: its domains from the first start to the last end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tombolo::{Domain, DomainId, Error, Exit, SpawnOptions};

use crate::context::Context;
use crate::failure::Failure;
use crate::input;
use crate::output::{Printer, unpoisoned};
use crate::signals;
use crate::text;

/// What a domain gets to end by itself once the job is over.
const GRACE: Duration = Duration::from_secs(3);

/// How much later than that the monitors must have told the end of every domain.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long to wait at a time: how soon it shows that another thread has ended the job, and that its domains do not.
const AWHILE: Duration = Duration::from_secs(1);

/// The domains of one `tombolo run`.
pub(super) struct Job {
    context: Context,
    domain: Domain,
    printer: Arc<Mutex<Printer>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    live: HashMap<DomainId, Rank>,
    started: usize,
    end: Option<End>,
}

/// What is to be started as one rank.
pub(super) struct Plan {
    pub(super) spawn: SpawnOptions,
    /// It gets the standard input.
    pub(super) with_input: bool,
}

/// One domain of the job.
#[derive(Clone, Debug)]
struct Rank {
    rank: usize,
    node: String,
}

/// What ended a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cause {
    /// The user, or that not all could be started.
    Order,
    /// A domain ended with a status other than 0.
    Status,
    /// A domain was killed, or was lost with its node.
    Death,
}

/// Why the job is over before all domains have ended by themselves.
#[derive(Clone, Debug)]
struct End {
    cause: Cause,
    /// Whose fault it is, as a sentence without its end.
    why: String,
    status: u8,
    /// How many other domains had to be ended.
    others: usize,
    since: Instant,
}

impl State {
    /// Takes note of a failure. True if it is the first, so that the others have to be ended.
    ///
    /// News of a death may come later than the failure of a peer that noticed it: then the death is the reason.
    fn fail(&mut self, cause: Cause, why: String, status: u8) -> bool {
        match &mut self.end {
            None => {
                let others = self.live.len();
                self.end = Some(End { cause, why, status, others, since: Instant::now() });
                return true;
            }
            Some(end)
                if end.cause == Cause::Status && cause == Cause::Death && end.since.elapsed() < GRACE =>
            {
                let others = end.others.saturating_sub(1);
                *end = End { cause, why, status, others, since: end.since };
            }
            Some(_) => {}
        }
        false
    }
}

impl Job {
    pub(super) fn new(context: Context, domain: Domain, printer: Arc<Mutex<Printer>>) -> Arc<Job> {
        Arc::new(Job { context, domain, printer, state: Mutex::default() })
    }

    /// Ends the job when the user wants it ended.
    pub(super) fn watch_signals(self: &Arc<Self>) -> Result<(), Failure> {
        let mut signals =
            Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(Failure::system("listen for signals"))?;
        let job = Arc::clone(self);
        std::thread::spawn(move || {
            for signal in signals.forever() {
                let signal = signal as u8;
                if !job.interrupt(signal) {
                    // The second time: the monitor kills the domains of whoever is gone.
                    std::process::exit(i32::from(128 + signal));
                }
            }
        });
        Ok(())
    }

    /// Starts all, waits for all, and says how it went.
    pub(super) fn run(&self, plans: &[Plan]) -> Result<(), Failure> {
        let started =
            plans.iter().enumerate().try_for_each(|(rank, plan)| self.start(rank, plan, plans.len()));
        if let Err(error) = started {
            self.end(Cause::Order, format!("{error}"), 1, signals::TERM);
        }
        let waited = self.wait_for_all();
        let end = unpoisoned(&self.state).end.take();
        match end {
            Some(end) => Err(Failure::Job { message: self.sentence(&end), status: end.status }),
            None => waited,
        }
    }

    fn start(&self, rank: usize, plan: &Plan, size: usize) -> Result<(), Error> {
        if unpoisoned(&self.state).end.is_some() {
            return Ok(());
        }
        unpoisoned(&self.printer).expect();
        let spawned = self.domain.spawn(&plan.spawn);
        let known = spawned.as_ref().ok().map(|child| (child.id(), rank.to_string(), rank));
        // Whether anybody reads it shows with the next piece of output.
        let _ = unpoisoned(&self.printer).started(known);
        let child = spawned?;
        if self.context.verbose {
            let node = child.node_name();
            self.context.say(format!("rank {rank} of {size} is domain {} on {node}", child.id()));
        }
        let over = {
            let mut state = unpoisoned(&self.state);
            state.started += 1;
            state.live.insert(child.id(), Rank { rank, node: child.node_name().to_owned() });
            state.end.is_some()
        };
        if over {
            // The user ended the job while this one was being started.
            return self.domain.kill(child.id(), signals::TERM, GRACE).or_else(ignore_gone);
        }
        if plan.with_input {
            input::forward_to(child);
        }
        Ok(())
    }

    /// Ends the job because of a signal. False if it is being ended already.
    pub(super) fn interrupt(&self, signal: u8) -> bool {
        // Programs that know the signal may end in their own way; nobody expects to get a SIGPIPE from afar.
        let asked = if signal == signals::PIPE { signals::TERM } else { signal };
        self.end(Cause::Order, format!("ended by {}", signals::name(signal)), 128 + signal, asked)
    }

    /// Notes why the job is over, unless it is over already, and asks all domains to end.
    fn end(&self, cause: Cause, why: String, status: u8, signal: u8) -> bool {
        let others: Vec<DomainId> = {
            let mut state = unpoisoned(&self.state);
            if !state.fail(cause, why, status) {
                return false;
            }
            state.live.keys().copied().collect()
        };
        for id in others {
            // If it is gone its end is on the way; if the monitor is, so are all domains.
            let _ = self.domain.kill(id, signal, GRACE);
        }
        true
    }

    fn wait_for_all(&self) -> Result<(), Failure> {
        loop {
            let patience = {
                let state = unpoisoned(&self.state);
                if state.live.is_empty() {
                    return Ok(());
                }
                match &state.end {
                    None => AWHILE,
                    Some(end) => (GRACE + PATIENCE).saturating_sub(end.since.elapsed()),
                }
            };
            match self.domain.next_exit(patience.min(AWHILE)) {
                Ok((id, exit)) => self.ended(id, &exit),
                Err(Error::TimedOut { .. }) if patience.is_zero() => {
                    self.context.say("some domains did not end in time; the monitor ends them now");
                    return Ok(());
                }
                Err(Error::TimedOut { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes note of the end of a domain; the first that fails ends the job.
    fn ended(&self, id: DomainId, exit: &Exit) {
        // What the job's domains started is theirs to look after.
        let Some(rank) = unpoisoned(&self.state).live.remove(&id) else { return };
        if self.context.verbose {
            self.context.say(format!("rank {} on {} {}", rank.rank, rank.node, how(exit).0));
        }
        let (how, status) = how(exit);
        if status != 0 {
            let who = if unpoisoned(&self.state).started > 1 {
                format!("rank {} on {} (domain {id})", rank.rank, rank.node)
            } else {
                format!("domain {id} on {}", rank.node)
            };
            self.end(cause(exit), format!("{who} {how}"), status, signals::TERM);
        }
    }

    fn sentence(&self, end: &End) -> String {
        match end.others {
            0 => end.why.clone(),
            1 if unpoisoned(&self.state).started == 1 => end.why.clone(),
            others => format!("{}; {} ended", end.why, were(others)),
        }
    }
}

fn were(others: usize) -> String {
    let verb = if others == 1 { "was" } else { "were" };
    format!("{} that still ran {verb}", text::count(others, "domain"))
}

fn ignore_gone(error: Error) -> Result<(), Error> {
    match error {
        Error::Monitor(tombolo::Fault::NoSuchDomain { .. }) => Ok(()),
        error => Err(error),
    }
}

fn cause(exit: &Exit) -> Cause {
    match exit {
        // What we ask for ourselves, once the job is over, explains nothing.
        Exit::Signalled { signal } if *signal != signals::TERM => Cause::Death,
        Exit::NodeLost { .. } => Cause::Death,
        _ => Cause::Status,
    }
}

/// How a domain ended, and the exit status for it.
fn how(exit: &Exit) -> (String, u8) {
    match exit {
        Exit::Exited { status: 0 } | Exit::Left => ("ended well".to_owned(), 0),
        Exit::Exited { status } => (format!("ended with status {status}"), *status),
        Exit::Signalled { signal } => {
            (format!("was killed by {}", signals::name(*signal)), 128_u8.saturating_add(*signal))
        }
        Exit::NodeLost { cause } if cause.is_empty() => ("was lost with its node".to_owned(), 1),
        Exit::NodeLost { cause } => (format!("was lost with its node: {}", text::one_line(cause)), 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits_have_the_statuses_of_a_shell() {
        assert_eq!(how(&Exit::Exited { status: 0 }).1, 0);
        assert_eq!(how(&Exit::Exited { status: 3 }), ("ended with status 3".to_owned(), 3));
        assert_eq!(how(&Exit::Signalled { signal: 9 }), ("was killed by SIGKILL".to_owned(), 137));
        assert_eq!(how(&Exit::Signalled { signal: 255 }).1, 255);
        assert_eq!(
            how(&Exit::NodeLost { cause: "killed\nhard".into() }),
            ("was lost with its node: killed\u{fffd}hard".to_owned(), 1)
        );
        assert_eq!(were(1), "1 domain that still ran was");
        assert_eq!(were(2), "2 domains that still ran were");
    }

    #[test]
    fn a_death_explains_the_failure_of_who_noticed_it() {
        let mut state = State::default();
        for (index, id) in ["0.1.2", "1.1.3"].iter().enumerate() {
            let rank = Rank { rank: index, node: "host".into() };
            state.live.insert(id.parse().unwrap(), rank);
        }
        state.live.remove(&"0.1.2".parse().unwrap());
        assert!(state.fail(Cause::Status, "rank 0".into(), 1));
        assert!(
            !state.fail(cause(&Exit::Signalled { signal: 15 }), "rank 1".into(), 143),
            "that was our doing"
        );
        assert_eq!(state.end.as_ref().map(|end| (end.status, end.others)), Some((1, 1)));
        assert!(!state.fail(cause(&Exit::Signalled { signal: 9 }), "rank 1".into(), 137));
        assert_eq!(state.end.as_ref().map(|end| (end.status, end.others)), Some((137, 0)));
        assert!(!state.fail(cause(&Exit::NodeLost { cause: String::new() }), "rank 2".into(), 1));
        assert_eq!(state.end.map(|end| end.why), Some("rank 1".to_owned()), "the first death counts");
    }

    #[test]
    fn what_the_user_ordered_stays_the_reason() {
        let mut state = State::default();
        assert!(state.fail(Cause::Order, "ended by SIGINT".into(), 130));
        assert!(!state.fail(Cause::Death, "rank 1".into(), 137));
        assert_eq!(state.end.map(|end| end.status), Some(130));
    }
}
