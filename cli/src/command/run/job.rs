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

/// How long the others go on when one has failed: those that wait for it learn of its death, and say so before they end.
const NOTICE: Duration = Duration::from_secs(1);

/// What a domain gets to end by itself once it was asked to.
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
    /// The failure of one domain is no reason to end the others.
    keep_going: bool,
    live: HashMap<DomainId, Rank>,
    started: usize,
    /// Domains that did not end well.
    failed: usize,
    end: Option<End>,
    asked: Option<Asked>,
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

/// Why the job is over before all domains have ended by themselves, or did not go well.
#[derive(Clone, Debug)]
struct End {
    cause: Cause,
    /// The domain that failed, unless the cause is an order.
    rank: Option<usize>,
    /// Whose fault it is, as a sentence without its end.
    why: String,
    status: u8,
    since: Instant,
}

/// The domains that still ran were asked to end.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// How many there were.
    others: usize,
    since: Instant,
}

/// What `wait_for_all` does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// Nothing runs any more.
    Done,
    /// Hear what happens for so long at most.
    Wait(Duration),
    /// Ask the domains that still run to end.
    Ask,
    /// They did not end although they were asked to.
    GiveUp,
}

impl State {
    /// Takes note of a failure; the first is the reason.
    ///
    /// News of a death may come later than the failure of a peer that noticed it: then the death is the reason.
    /// With `keep_going` failures are unrelated and all of them become known, so that the lowest rank is the reason: which
    /// of two that failed at the same time is heard of first is chance.
    fn fail(&mut self, cause: Cause, rank: Option<usize>, why: String, status: u8) {
        let since = match &self.end {
            None => Instant::now(),
            Some(end) if end.cause == Cause::Order => return,
            Some(end) if self.keep_going && rank < end.rank => end.since,
            Some(end)
                if !self.keep_going
                    && end.cause == Cause::Status
                    && cause == Cause::Death
                    && end.since.elapsed() < GRACE =>
            {
                if let Some(asked) = &mut self.asked {
                    asked.others = asked.others.saturating_sub(1);
                }
                end.since
            }
            Some(_) => return,
        };
        self.end = Some(End { cause, rank, why, status, since });
    }

    /// Whether no more domains are to be started.
    fn is_over(&self) -> bool {
        self.asked.is_some() || (self.end.is_some() && !self.keep_going)
    }

    /// Takes note that the domains that run are asked to end: these. `None` if they were asked before.
    fn ask(&mut self) -> Option<Vec<DomainId>> {
        if self.asked.is_some() {
            return None;
        }
        self.asked = Some(Asked { others: self.live.len(), since: Instant::now() });
        Some(self.live.keys().copied().collect())
    }

    fn next(&self) -> Next {
        let left = match (&self.asked, &self.end) {
            _ if self.live.is_empty() => return Next::Done,
            (Some(asked), _) => (GRACE + PATIENCE).saturating_sub(asked.since.elapsed()),
            (None, Some(end)) if !self.keep_going => NOTICE.saturating_sub(end.since.elapsed()),
            _ => AWHILE,
        };
        match left.is_zero() {
            false => Next::Wait(left.min(AWHILE)),
            true if self.asked.is_some() => Next::GiveUp,
            true => Next::Ask,
        }
    }

    fn sentence(&self, end: &End) -> String {
        let others = self.asked.map_or(0, |asked| asked.others);
        let mut text = match others {
            0 => end.why.clone(),
            1 if self.started == 1 => end.why.clone(),
            others => format!("{}; {} ended", end.why, were(others)),
        };
        if self.keep_going && self.failed > 1 {
            text = format!("{text}; {} of {} failed", self.failed, text::count(self.started, "domain"));
        }
        text
    }
}

impl Job {
    /// A job of no domains yet. When one of them fails the others are ended, unless it is to `keep_going`.
    pub(super) fn new(
        context: Context,
        domain: Domain,
        printer: Arc<Mutex<Printer>>,
        keep_going: bool,
    ) -> Arc<Job> {
        let state = State { keep_going, ..State::default() };
        Arc::new(Job { context, domain, printer, state: Mutex::new(state) })
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
            self.end(format!("{error}"), 1, signals::TERM);
        }
        let waited = self.wait_for_all();
        let state = unpoisoned(&self.state);
        match &state.end {
            Some(end) => Err(Failure::Job { message: state.sentence(end), status: end.status }),
            None => waited,
        }
    }

    fn start(&self, rank: usize, plan: &Plan, size: usize) -> Result<(), Error> {
        if unpoisoned(&self.state).is_over() {
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
        let asked_to_end = {
            let mut state = unpoisoned(&self.state);
            state.started += 1;
            state.live.insert(child.id(), Rank { rank, node: child.node_name().to_owned() });
            state.asked.is_some()
        };
        if asked_to_end {
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
        self.end(format!("ended by {}", signals::name(signal)), 128 + signal, asked)
    }

    /// Ends the job by order, whatever its domains do. False if they have been asked to end already.
    fn end(&self, why: String, status: u8, signal: u8) -> bool {
        unpoisoned(&self.state).fail(Cause::Order, None, why, status);
        self.ask_to_end(signal)
    }

    /// Asks all domains that still run to end. False if they have been asked already.
    fn ask_to_end(&self, signal: u8) -> bool {
        let Some(others) = unpoisoned(&self.state).ask() else { return false };
        for id in others {
            // If it is gone its end is on the way; if the monitor is, so are all domains.
            let _ = self.domain.kill(id, signal, GRACE);
        }
        true
    }

    fn wait_for_all(&self) -> Result<(), Failure> {
        loop {
            let next = unpoisoned(&self.state).next();
            let patience = match next {
                Next::Done => return Ok(()),
                Next::Wait(patience) => patience,
                Next::Ask => {
                    self.ask_to_end(signals::TERM);
                    continue;
                }
                Next::GiveUp => {
                    self.context.say("some domains did not end in time; the monitor ends them now");
                    return Ok(());
                }
            };
            // All that a domain has written comes before its end.
            match self.domain.next_exit(patience) {
                Ok((id, exit)) => self.ended(id, &exit),
                Err(Error::TimedOut { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes note of the end of a domain.
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
            let mut state = unpoisoned(&self.state);
            state.failed += 1;
            state.fail(cause(exit), Some(rank.rank), format!("{who} {how}"), status);
        }
    }
}

fn were(others: usize) -> String {
    let verb = if others == 1 { "was" } else { "were" };
    format!("{} that still ran {verb}", text::count(others, "domain"))
}

fn ignore_gone(error: Error) -> Result<(), Error> {
    match error {
        Error::Monitor(tombolo::error::Fault::NoSuchDomain { .. }) => Ok(()),
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

    fn two_domains(keep_going: bool) -> State {
        let mut state = State { keep_going, started: 2, ..State::default() };
        for (index, id) in ["0.1.2", "1.1.3"].iter().enumerate() {
            let rank = Rank { rank: index, node: "host".into() };
            state.live.insert(id.parse().unwrap(), rank);
        }
        state
    }

    fn reason(state: &State) -> (u8, String) {
        state.end.as_ref().map(|end| (end.status, state.sentence(end))).unwrap()
    }

    #[test]
    fn a_death_explains_the_failure_of_who_noticed_it() {
        let mut state = two_domains(false);
        state.live.remove(&"0.1.2".parse().unwrap());
        state.fail(Cause::Status, Some(0), "rank 0".into(), 1);
        assert_eq!(state.ask(), Some(vec!["1.1.3".parse().unwrap()]));
        assert_eq!(state.ask(), None, "they are asked once");
        state.fail(cause(&Exit::Signalled { signal: 15 }), Some(1), "rank 1".into(), 143);
        assert_eq!(
            reason(&state),
            (1, "rank 0; 1 domain that still ran was ended".into()),
            "that was our doing"
        );
        state.fail(cause(&Exit::Signalled { signal: 9 }), Some(1), "rank 1".into(), 137);
        assert_eq!(reason(&state), (137, "rank 1".into()));
        state.fail(cause(&Exit::NodeLost { cause: String::new() }), Some(2), "rank 2".into(), 1);
        assert_eq!(reason(&state).1, "rank 1", "the first death counts");
    }

    #[test]
    fn what_the_user_ordered_stays_the_reason() {
        let mut state = State::default();
        state.fail(Cause::Order, None, "ended by SIGINT".into(), 130);
        state.fail(Cause::Death, Some(1), "rank 1".into(), 137);
        assert_eq!(reason(&state).0, 130);
    }

    #[test]
    fn the_others_have_time_to_notice_a_failure_before_they_are_asked_to_end() {
        let mut state = two_domains(false);
        assert_eq!(state.next(), Next::Wait(AWHILE));
        state.live.remove(&"0.1.2".parse().unwrap());
        state.fail(Cause::Death, Some(0), "rank 0".into(), 137);
        assert!(matches!(state.next(), Next::Wait(time) if time <= NOTICE));
        state.end.as_mut().unwrap().since -= NOTICE;
        assert_eq!(state.next(), Next::Ask);
        state.ask();
        assert!(matches!(state.next(), Next::Wait(_)));
        state.asked.as_mut().unwrap().since -= GRACE + PATIENCE;
        assert_eq!(state.next(), Next::GiveUp);
        state.live.clear();
        assert_eq!(state.next(), Next::Done);
    }

    #[test]
    fn of_failures_that_end_nothing_the_lowest_rank_is_the_reason() {
        let mut state = two_domains(true);
        state.fail(Cause::Status, Some(1), "rank 1".into(), 4);
        state.fail(Cause::Status, Some(0), "rank 0".into(), 3);
        state.fail(Cause::Death, Some(1), "rank 1".into(), 137);
        assert_eq!(reason(&state), (3, "rank 0".into()), "in whichever order they are heard of");
        state.fail(Cause::Order, None, "ended by SIGINT".into(), 130);
        assert_eq!(reason(&state), (130, "ended by SIGINT".into()));
    }

    #[test]
    fn the_others_go_on_where_that_was_asked_for() {
        let mut state = two_domains(true);
        state.fail(Cause::Status, Some(0), "rank 0".into(), 3);
        state.end.as_mut().unwrap().since -= NOTICE;
        assert!(!state.is_over() && state.next() == Next::Wait(AWHILE));
        state.failed = 2;
        state.fail(Cause::Status, Some(1), "rank 1".into(), 4);
        assert_eq!(reason(&state), (3, "rank 0; 2 of 2 domains failed".into()));
        assert!(state.ask().is_some() && state.is_over(), "the user can still end the job");
    }
}
