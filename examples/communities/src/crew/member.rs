//! One worker as the master sees it.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

use crate::port::{Port, PortError};
use crate::wire::Summary;

/// How much a new measurement of speed weighs against the old ones.
const SPEED_WEIGHT: f64 = 0.3;

/// The identity of a worker, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Its node.
    pub node: String,
    /// Its domain, or another name of it.
    pub domain: String,
    /// The instruction set that it reported.
    pub isa: String,
    /// The transport of the channel to it.
    pub transport: String,
    /// Whether its processor is emulated.
    pub emulated: bool,
}

/// The traffic between master and a worker, and the work of the worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Messages to the worker.
    pub messages_sent: u64,
    /// Bytes in them.
    pub bytes_sent: u64,
    /// Messages from the worker.
    pub messages_received: u64,
    /// Bytes in them.
    pub bytes_received: u64,
    /// Parts it has judged.
    pub parts: u64,
    /// Arcs it has looked at.
    pub arcs: u64,
    /// Time that took it, in nanoseconds, by its own clock.
    pub compute_ns: u64,
    /// Its summary at the end; zero if it did not send one.
    pub summary: Summary,
}

/// One worker.
pub(super) struct Member<P> {
    pub(super) identity: Identity,
    pub(super) account: Account,
    /// `None` once it is lost.
    pub(super) port: Option<P>,
    /// The reason why it was lost.
    pub(super) lost: Option<String>,
    /// Messages to be sent. They are shared, since most go to all workers.
    outbox: VecDeque<Rc<[u8]>>,
    /// Parts that it is to get, by number.
    pub(super) queue: VecDeque<u32>,
    /// Parts that were sent to it and have not come back.
    pub(super) in_flight: Vec<u32>,
    /// It was asked whether everything has arrived, and has not answered.
    pub(super) unconfirmed: bool,
    /// Since when it owes an answer.
    pub(super) silent_since: Instant,
    /// Arcs per nanosecond, once measured.
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

    /// The next message, if there is one.
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

    /// Takes note of a judged part.
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

    /// Gives the member up and returns its parts, for others to judge.
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
