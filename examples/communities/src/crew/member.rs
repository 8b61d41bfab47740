//! The master's view of one worker.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

use crate::port::{Port, PortError};
use crate::wire::Summary;

/// Weight of a new speed measurement in the moving average.
const SPEED_WEIGHT: f64 = 0.3;

/// Identity of a worker, for reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Name of its node.
    pub node: String,
    /// Its domain, or another name for it.
    pub domain: String,
    /// The instruction set that it reported.
    pub isa: String,
    /// The transport of the channel to it.
    pub transport: String,
    /// Whether its processor is emulated.
    pub emulated: bool,
}

/// Counters of the traffic between the master and a worker, and of the worker's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Messages sent to the worker.
    pub messages_sent: u64,
    /// Bytes in them.
    pub bytes_sent: u64,
    /// Messages received from the worker.
    pub messages_received: u64,
    /// Bytes in them.
    pub bytes_received: u64,
    /// Parts that it has evaluated.
    pub parts: u64,
    /// Arcs that it has examined.
    pub arcs: u64,
    /// Time spent on these, in nanoseconds of its own clock.
    pub compute_ns: u64,
    /// Its summary at the end; zero if it did not send one.
    pub summary: Summary,
}

/// Worker with its queue and its state.
pub(super) struct Member<P> {
    pub(super) identity: Identity,
    pub(super) account: Account,
    /// Channel to the worker; `None` once it is lost.
    pub(super) port: Option<P>,
    /// Reason for its loss.
    pub(super) lost: Option<String>,
    /// Messages waiting to be sent; shared, because most go to all workers.
    outbox: VecDeque<Rc<[u8]>>,
    /// Numbers of parts assigned to it and not yet sent.
    pub(super) queue: VecDeque<u32>,
    /// Numbers of parts sent to it whose results are outstanding.
    pub(super) in_flight: Vec<u32>,
    /// Whether it owes the confirmation that everything has arrived.
    pub(super) unconfirmed: bool,
    /// Time since which it owes an answer.
    pub(super) silent_since: Instant,
    /// Speed in arcs per nanosecond, once measured.
    speed: Option<f64>,
}

impl<P: Port> Member<P> {
    pub(super) fn new(identity: Identity, port: P) -> Self {
        Self {
            identity,
            account: Account::default(),
            port: Some(port),
            lost: None,
            outbox: VecDeque::new(),
            queue: VecDeque::new(),
            in_flight: Vec::new(),
            unconfirmed: false,
            silent_since: Instant::now(),
            speed: None,
        }
    }

    pub(super) fn is_live(&self) -> bool {
        self.port.is_some()
    }

    pub(super) fn post(&mut self, message: Rc<[u8]>) {
        if self.is_live() {
            self.outbox.push_back(message);
        }
    }

    pub(super) fn has_mail(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Sends as much of the outbox as fits.
    pub(super) fn flush(&mut self) -> Result<(), PortError> {
        let Some(port) = &mut self.port else { return Ok(()) };
        while let Some(message) = self.outbox.front() {
            if !port.try_send(message)? {
                break;
            }
            self.account.messages_sent += 1;
            self.account.bytes_sent += message.len() as u64;
            self.outbox.pop_front();
            self.silent_since = Instant::now();
        }
        Ok(())
    }

    /// Receives the next message; returns `false` if none has arrived.
    pub(super) fn receive(&mut self, buffer: &mut Vec<u8>) -> Result<bool, PortError> {
        let Some(port) = &mut self.port else { return Ok(false) };
        if !port.try_recv(buffer)? {
            return Ok(false);
        }
        self.account.messages_received += 1;
        self.account.bytes_received += buffer.len() as u64;
        self.silent_since = Instant::now();
        Ok(true)
    }

    /// Records an evaluated part and updates the speed.
    pub(super) fn credit(&mut self, cost: u64, arcs: u64, compute_ns: u64) {
        self.account.parts += 1;
        self.account.arcs += arcs;
        self.account.compute_ns += compute_ns;
        let measured = cost as f64 / compute_ns.max(1) as f64;
        self.speed = Some(self.speed.map_or(measured, |speed| speed + SPEED_WEIGHT * (measured - speed)));
    }

    pub(super) fn measured_speed(&self) -> Option<f64> {
        self.speed
    }

    /// Marks the member as lost and returns its parts, to be reassigned.
    pub(super) fn lose(&mut self, why: String) -> Vec<u32> {
        self.port = None;
        self.lost = Some(why);
        self.outbox.clear();
        self.unconfirmed = false;
        let mut parts = std::mem::take(&mut self.in_flight);
        parts.extend(self.queue.drain(..));
        parts
    }
}
