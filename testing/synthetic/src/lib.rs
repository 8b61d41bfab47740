//! A synthetic machine: the real monitor serving simulated nodes and domains. It tests and measures the
//! programs that watch a machine (`top`, the web page) at sizes that no test host could boot.
//!
//! [`SyntheticMachine`] drives the root's real core with agents that are simulated in this process. They
//! start domains, sample them every second, report channel traffic, and pause and end domains. From time to
//! time one node goes down and is restarted.
#![forbid(unsafe_code)]

mod nodes;
mod plan;

use std::collections::VecDeque;
use std::time::Duration;

use tombolo_base::NodeId;
use tombolo_control::{ClientMessage, MonitorMessage, Order, Reply, Report, Request, Wire};
use tombolo_machine::Image;
use tombolo_monitor_core::root::{Core, Effect, Nanos};

use nodes::SyntheticNodes;
pub use plan::Plan;

/// The node whose simulated clients start all other domains.
const STARTERS_NODE: NodeId = NodeId(1);

/// The connection number of the first simulated watcher.
const FIRST_WATCHER: u32 = 10_000;

/// The maximum number of children of one starter.
const CHILDREN: usize = 1000;

/// A machine whose nodes other than the host are simulated.
#[derive(Debug)]
pub struct SyntheticMachine {
    /// The root's core: the code under test.
    pub core: Core,
    plan: Plan,
    nodes: SyntheticNodes,
    /// Reports of simulated agents that the core has not seen yet, in order.
    reports: VecDeque<(NodeId, Report, Option<Image>)>,
    image: Image,
    next_start: usize,
    /// Number of spawn requests so far.
    started: usize,
    /// When the last node went down, while it is down.
    down_since: Option<Nanos>,
    next_down: Nanos,
    next_churn: Nanos,
    /// Number of simulated watchers that have attached.
    watchers: u32,
    observed: Observed,
}

/// Total that all simulated watchers have received so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Observed {
    /// Number of replies to `Observe` requests.
    pub replies: u64,
    /// Number of observations in these replies.
    pub observations: u64,
    /// Encoded length of these replies.
    pub bytes: u64,
}

impl SyntheticMachine {
    /// Creates the machine and boots all its nodes.
    ///
    /// # Errors
    /// If the plan does not describe a valid machine.
    pub fn new(plan: Plan, now: Nanos) -> Result<Self, String> {
        let machine = plan.machine()?;
        let image = plan::image()?;
        let mut core = Core::new(machine.clone(), now);
        core.boot_all(now);
        Ok(SyntheticMachine {
            core,
            nodes: SyntheticNodes::new(&machine, plan.seed),
            reports: VecDeque::new(),
            image,
            next_start: 0,
            started: 0,
            down_since: None,
            next_down: now + plan.down_every_ns,
            next_churn: now,
            watchers: 0,
            observed: Observed::default(),
            plan,
        })
    }

    /// Returns the time at which [`step`](Self::step) has to be called next.
    #[must_use]
    pub fn next_step(&self) -> Nanos {
        self.nodes.next_round().unwrap_or(Nanos::MAX).min(self.next_churn)
    }

    /// Returns the number of simulated domains that are alive.
    #[must_use]
    pub fn domains(&self) -> usize {
        self.nodes.domains()
    }

    /// Simulates everything that is due at `now`. The monitor receives the results in
    /// [`settle`](Self::settle).
    ///
    /// # Errors
    /// If a request to the monitor exceeds the maximum message length.
    pub fn step(&mut self, now: Nanos) -> Result<(), String> {
        // The clients that start domains are on this node, so it has to be up first.
        if now >= self.next_churn && self.nodes.is_up(STARTERS_NODE) {
            self.next_churn = now + self.plan.churn_ns();
            self.churn(now)?;
        }
        self.nodes.sample_due(now, &mut self.reports);
        if self.watchers < self.plan.watchers && self.nodes.is_up(STARTERS_NODE) {
            let connection = FIRST_WATCHER + self.watchers;
            self.watchers += 1;
            let joined = Report::Joined { connection, pid: connection as i32, domain: None };
            self.reports.push_back((STARTERS_NODE, joined, None));
            let version = tombolo_control::FINGERPRINT;
            self.send_request_from(connection, Request::Attach { version, program: "watcher".into() }, None)?;
        }
        Ok(())
    }

    /// Total that the simulated watchers have received so far.
    #[must_use]
    pub fn observed(&self) -> Observed {
        self.observed
    }

    /// Counts a message to a simulated watcher and sends its next `Observe` request.
    fn watch(&mut self, connection: u32, message: &[u8]) -> Result<(), String> {
        let since = match MonitorMessage::from_bytes(message).map_err(|error| error.to_string())?.body {
            Reply::Attach { .. } => 0,
            Reply::Observe { until, observations, .. } => {
                self.observed.replies += 1;
                self.observed.observations += observations.len() as u64;
                self.observed.bytes += message.len() as u64;
                until
            }
            _ => return Ok(()),
        };
        self.send_request_from(connection, Request::Observe { since, timeout: Duration::from_secs(10) }, None)
    }

    /// Advances the monitor to `now` and exchanges reports and effects with it until both are exhausted.
    /// Returns the effects that do not concern simulated nodes.
    ///
    /// # Errors
    /// If the monitor and the simulated agents cannot decode each other's messages.
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
                // The root receives reports encoded, so encode and decode this one too.
                let bytes = report.to_bytes().map_err(|error| format!("{report:?}: {error}"))?;
                let report = Report::from_bytes(&bytes).map_err(|error| format!("{report:?}: {error}"))?;
                self.core.report(now, node, report, image.map(Ok));
            }
        }
    }

    /// Performs an effect on a simulated node; returns any other effect.
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
            Effect::KeepProgram { node, .. } | Effect::WriteProgram { node, .. } if node != NodeId::HOST => {}
            Effect::ClearWindow { .. } | Effect::RemoveSharedBell { .. } => {}
            Effect::Destroy { node } => self.nodes.take_down(node),
            Effect::ConsoleWrite { .. } => {}
            other => return Ok(Some(other)),
        }
        Ok(None)
    }

    /// Ends a few domains and starts others; from time to time takes a node down or restarts it.
    fn churn(&mut self, now: Nanos) -> Result<(), String> {
        for domain in self.nodes.end_oldest(self.plan.ends_per_churn()) {
            self.reports.push_back(domain);
        }
        match self.down_since {
            None if now >= self.next_down => {
                let node = NodeId(self.plan.nodes);
                self.nodes.take_down(node);
                self.core.node_lost(node, "taken down by the simulation");
                (self.down_since, self.next_down) = (Some(now), now + self.plan.down_every_ns);
            }
            Some(since) if now >= since + self.plan.down_for_ns => {
                self.down_since = None;
                let node = self.plan.name(self.plan.nodes);
                self.send_request(0, Request::Restart { node, force: false }, None)?;
            }
            _ => {}
        }
        let missing = self.plan.domains.saturating_sub(self.nodes.domains());
        for _ in 0..missing.min(self.plan.starts_per_churn()) {
            self.start_one()?;
        }
        Ok(())
    }

    /// Asks a starter to start a domain on the next node that is up.
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
        self.send_request(starter, Request::Spawn { spawn }, Some(image))
    }

    fn attach(&mut self, starter: usize) -> Result<(), String> {
        let connection = 1 + starter as u32;
        let joined = Report::Joined { connection, pid: 500 + starter as i32, domain: None };
        self.reports.push_back((STARTERS_NODE, joined, None));
        let version = tombolo_control::FINGERPRINT;
        self.send_request(starter, Request::Attach { version, program: format!("starter {starter}") }, None)
    }

    fn send_request(&mut self, starter: usize, body: Request, image: Option<Image>) -> Result<(), String> {
        self.send_request_from(1 + starter as u32, body, image)
    }

    fn send_request_from(
        &mut self,
        connection: u32,
        body: Request,
        image: Option<Image>,
    ) -> Result<(), String> {
        let message = ClientMessage { request: 1, body }.to_bytes().map_err(|error| error.to_string())?;
        let asked = Report::Asked { connection, message };
        self.reports.push_back((STARTERS_NODE, asked, image));
        Ok(())
    }

    /// Returns the order if the effect is one for the host, whose agent is real.
    #[must_use]
    pub fn host_order(effect: &Effect) -> Option<&Order> {
        match effect {
            Effect::Order { node: NodeId::HOST, order, .. } => Some(order),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
