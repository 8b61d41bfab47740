//! A synthetic machine: simulated nodes and domains under the real root, to test and measure programs that
//! watch a machine where a thousand virtual machines would not fit.
//!
//! [`Crowd`] is the root's core with agents that exist only in this process. They start domains as requested,
//! sample them each second, count made-up traffic on channels, and pause and end domains; one node in turn
//! goes down and comes back.
#![forbid(unsafe_code)]

mod made_up;
mod plan;
mod random;

use std::collections::VecDeque;
use std::time::Duration;

use tombolo_base::NodeId;
use tombolo_control::{ClientMessage, MonitorMessage, Order, Reply, Report, Request, Wire};
use tombolo_machine::Image;
use tombolod::core::{Core, Effect, Nanos};

use made_up::MadeUp;
pub use plan::Plan;

/// Where clients are that start the domains of the crowd: the first node that is not the host.
const STARTERS_NODE: NodeId = NodeId(1);

/// The connection of the first watcher that is made up.
const FIRST_WATCHER: u32 = 10_000;

/// Children that a starter has at most.
const CHILDREN: usize = 1000;

/// A made-up machine.
#[derive(Debug)]
pub struct Crowd {
    /// The code under test.
    pub core: Core,
    plan: Plan,
    nodes: MadeUp,
    /// What made-up agents report, in order.
    reports: VecDeque<(NodeId, Report, Option<Image>)>,
    image: Image,
    next_start: usize,
    /// Domains that were asked for.
    started: usize,
    /// When the node went down that is down, if one is.
    down_since: Option<Nanos>,
    next_down: Nanos,
    next_churn: Nanos,
    /// Made-up watchers that have begun, and what all of them were told.
    watchers: u32,
    told: Told,
}

/// What made-up watchers were told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Told {
    /// Answers.
    pub answers: u64,
    /// Parts in them.
    pub parts: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Crowd {
    /// The machine, whose nodes start at once.
    ///
    /// # Errors
    /// The plan makes no machine.
    pub fn new(plan: Plan, now: Nanos) -> Result<Self, String> {
        let machine = plan.machine()?;
        let image = plan::image()?;
        let mut core = Core::new(machine.clone(), now);
        core.boot_all(now);
        Ok(Crowd {
            core,
            nodes: MadeUp::new(&machine, plan.seed),
            reports: VecDeque::new(),
            image,
            next_start: 0,
            started: 0,
            down_since: None,
            next_down: now + plan.down_every_ns,
            next_churn: now,
            watchers: 0,
            told: Told::default(),
            plan,
        })
    }

    /// When [`step`](Self::step) is due, which is when made-up nodes do something.
    #[must_use]
    pub fn next_step(&self) -> Nanos {
        self.nodes.next_round().unwrap_or(Nanos::MAX).min(self.next_churn)
    }

    /// Domains of the crowd that live, as their agents know.
    #[must_use]
    pub fn domains(&self) -> usize {
        self.nodes.domains()
    }

    /// Has made-up nodes do what is due; the monitor hears of it when things [settle](Self::settle).
    ///
    /// # Errors
    /// What is asked of the monitor is too long to be asked.
    pub fn step(&mut self, now: Nanos) -> Result<(), String> {
        // Nobody can be started by clients of a node that is not up yet.
        if now >= self.next_churn && self.nodes.is_up(STARTERS_NODE) {
            self.next_churn = now + self.plan.churn_ns();
            self.churn(now)?;
        }
        self.nodes.rounds(now, &mut self.reports);
        if self.watchers < self.plan.watchers && self.nodes.is_up(STARTERS_NODE) {
            let connection = FIRST_WATCHER + self.watchers;
            self.watchers += 1;
            let joined = Report::Joined { connection, pid: connection as i32, domain: None };
            self.reports.push_back((STARTERS_NODE, joined, None));
            let version = tombolo_control::FINGERPRINT;
            self.ask_by(connection, Request::Attach { version, program: "watcher".into() }, None)?;
        }
        Ok(())
    }

    /// What made-up watchers were told so far.
    #[must_use]
    pub fn told(&self) -> Told {
        self.told
    }

    /// A watcher that is made up is told something, and asks for what comes next.
    fn watch(&mut self, connection: u32, message: &[u8]) -> Result<(), String> {
        let since = match MonitorMessage::from_bytes(message).map_err(|error| error.to_string())?.body {
            Reply::Attach { .. } => 0,
            Reply::Observe { until, observations, .. } => {
                self.told.answers += 1;
                self.told.parts += observations.len() as u64;
                self.told.bytes += message.len() as u64;
                until
            }
            _ => return Ok(()),
        };
        self.ask_by(connection, Request::Observe { since, timeout: Duration::from_secs(10) }, None)
    }

    /// Tells the monitor what time it is, and passes reports and effects around until there are none. Effects that are not of made-up
    /// nodes come back.
    ///
    /// # Errors
    /// The monitor and made-up agents do not understand each other.
    pub fn settle(&mut self, now: Nanos) -> Result<Vec<Effect>, String> {
        self.core.tick(now);
        let mut others = Vec::new();
        loop {
            let effects = self.core.take_effects();
            if effects.is_empty() && self.reports.is_empty() {
                return Ok(others);
            }
            for effect in effects {
                others.extend(self.perform(now, effect)?);
            }
            while let Some((node, report, image)) = self.reports.pop_front() {
                // As the root has it from a line: encoded and checked.
                let bytes = report.to_bytes().map_err(|error| format!("{report:?}: {error}"))?;
                let report = Report::from_bytes(&bytes).map_err(|error| format!("{report:?}: {error}"))?;
                self.core.report(now, node, report, image.map(Ok));
            }
        }
    }

    /// Does something, if it is of a made-up node.
    fn perform(&mut self, now: Nanos, effect: Effect) -> Result<Option<Effect>, String> {
        match effect {
            Effect::Boot { node, .. } if node != NodeId::HOST => {
                self.core.node_started(node, 1000 + i32::from(node.0), self.nodes.window(node));
                self.reports.push_back((node, self.nodes.boot(now, node), None));
            }
            Effect::Order {
                node: STARTERS_NODE,
                order: Order::Deliver { connection: connection @ FIRST_WATCHER.., message, .. },
                ..
            } => self.watch(connection, &message)?,
            Effect::Order { node, order, .. } if node != NodeId::HOST => {
                self.nodes.execute(node, order, &mut self.reports);
            }
            Effect::KeepProgram { node, .. }
            | Effect::WriteProgram { node, .. }
            | Effect::ClearWindow { node, .. }
                if node != NodeId::HOST => {}
            Effect::Destroy { node } => self.nodes.lose(node),
            Effect::ConsoleWrite { .. } => {}
            other => return Ok(Some(other)),
        }
        Ok(None)
    }

    /// A few domains end and others start; now and then a node goes down, and comes back.
    fn churn(&mut self, now: Nanos) -> Result<(), String> {
        for domain in self.nodes.some_to_end(self.plan.ends_per_churn()) {
            self.reports.push_back(domain);
        }
        match self.down_since {
            None if now >= self.next_down => {
                let node = NodeId(self.plan.nodes);
                self.nodes.lose(node);
                self.core.node_lost(node, "made up: it fell over");
                (self.down_since, self.next_down) = (Some(now), now + self.plan.down_every_ns);
            }
            Some(since) if now >= since + self.plan.down_for_ns => {
                self.down_since = None;
                let node = self.plan.name(self.plan.nodes);
                self.ask(0, Request::Restart { node, force: false }, None)?;
            }
            _ => {}
        }
        let missing = self.plan.domains.saturating_sub(self.nodes.domains());
        for _ in 0..missing.min(self.plan.starts_per_churn()) {
            self.start_one()?;
        }
        Ok(())
    }

    /// Has a starter start a domain, on one node after the other.
    fn start_one(&mut self) -> Result<(), String> {
        let starter = self.started / CHILDREN % self.plan.starters();
        if self.started.is_multiple_of(CHILDREN) && self.started / CHILDREN < self.plan.starters() {
            self.attach(starter)?;
        }
        self.started += 1;
        let mut tries = 0;
        let node = loop {
            self.next_start = self.next_start % usize::from(self.plan.nodes) + 1;
            tries += 1;
            let node = NodeId(self.next_start as u16);
            if self.nodes.is_up(node) || tries > self.plan.nodes {
                break node;
            }
        };
        let number = self.started;
        let spawn = plan::spawn(self.plan.name(node.0), number);
        let image = self.image.clone();
        self.ask(starter, Request::Spawn { spawn }, Some(image))
    }

    fn attach(&mut self, starter: usize) -> Result<(), String> {
        let connection = 1 + starter as u32;
        let joined = Report::Joined { connection, pid: 500 + starter as i32, domain: None };
        self.reports.push_back((STARTERS_NODE, joined, None));
        let version = tombolo_control::FINGERPRINT;
        self.ask(starter, Request::Attach { version, program: format!("starter {starter}") }, None)
    }

    fn ask(&mut self, starter: usize, body: Request, image: Option<Image>) -> Result<(), String> {
        self.ask_by(1 + starter as u32, body, image)
    }

    fn ask_by(&mut self, connection: u32, body: Request, image: Option<Image>) -> Result<(), String> {
        let message = ClientMessage { request: 1, body }.to_bytes().map_err(|error| error.to_string())?;
        let asked = Report::Asked { connection, message };
        self.reports.push_back((STARTERS_NODE, asked, image));
        Ok(())
    }

    /// What the host's agent, which is real, is told.
    #[must_use]
    pub fn for_host(effect: &Effect) -> Option<&Order> {
        match effect {
            Effect::Order { node: NodeId::HOST, order, .. } => Some(order),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
