//! A running node: the real agent, at its end of the line to the root.

use tombolo_control::FINGERPRINT;
use tombolo_control::{Order, Report, Wire};

use crate::agent::SimAgent;
use crate::descriptor::Actor;
use crate::line::MonitorLine;
use crate::shared::Shared;
use crate::window::WindowPlace;

/// Maximum number of orders handled in one turn.
const ORDERS_IN_A_ROW: usize = 32;

/// A node in the simulation.
pub struct Node {
    number: u16,
    /// Generation in which it runs.
    pub generation: u16,
    /// Place of its window, if it has one.
    pub place: Option<WindowPlace>,
    agent: Option<SimAgent>,
    line: MonitorLine,
}

impl Node {
    /// Creates a node whose monitor has just started.
    #[must_use]
    pub fn new(number: u16, generation: u16, line: MonitorLine, place: Option<WindowPlace>) -> Self {
        Node { number, generation, place, agent: None, line }
    }

    /// Lists the processes that its agent started.
    #[must_use]
    pub fn pids(&self) -> Vec<i32> {
        self.agent.as_ref().map(SimAgent::pids).unwrap_or_default()
    }

    /// Describes resources that its agent holds although no domain uses them.
    #[must_use]
    pub fn leftovers(&self, clients: usize) -> Option<String> {
        self.agent.as_ref().and_then(|agent| agent.leftovers(clients))
    }

    /// Runs one turn after a wake-up.
    ///
    /// # Errors
    /// The reason why the node ends.
    pub fn turn(&mut self, shared: &mut Shared) -> Result<(), String> {
        self.line.wake_up(shared);
        for count in 0..=ORDERS_IN_A_ROW {
            if count == ORDERS_IN_A_ROW {
                shared.wake(Actor::Node(self.number));
                break;
            }
            let Some((bytes, fds)) = self.line.receive(shared) else { break };
            let order =
                Order::from_bytes(&bytes).map_err(|error| format!("the root says nonsense: {error}"))?;
            match &mut self.agent {
                None => self.handle_welcome(shared, order)?,
                Some(agent) => {
                    agent.execute(shared, order, fds).map_err(|_| "it was told to stop".to_owned())?;
                }
            }
        }
        if let Some(agent) = &mut self.agent {
            agent.poll_events(shared);
            while let Some((report, file)) = agent.next_report() {
                let bytes = report.to_bytes().map_err(|error| format!("a report: {error}"))?;
                self.line.send(shared, (bytes, file.into_iter().collect()));
            }
        }
        if self.line.is_gone() {
            return Err("the root is gone".to_owned());
        }
        self.line.sleep(shared);
        Ok(())
    }

    fn handle_welcome(&mut self, shared: &mut Shared, order: Order) -> Result<(), String> {
        match order {
            Order::Welcome { node, .. } if node.0 == self.number => {}
            other => {
                shared.audit.fail(format!("node {} was welcomed with {other:?}", self.number));
                return Err("no welcome".to_owned());
            }
        }
        self.agent = Some(SimAgent::new(shared, self.number, self.place));
        let isa = shared.plan.nodes[usize::from(self.number) - 1].isa;
        let ready = Report::Ready { version: FINGERPRINT, isa, cores: 1, pid: 1 };
        let ready = ready.to_bytes().map_err(|error| error.to_string())?;
        self.line.send(shared, (ready, Vec::new()));
        Ok(())
    }
}
