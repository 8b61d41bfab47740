//! The master's side: a [`Crew`](crate::search::Crew) whose members are workers at the other ends of
//! channels.
//!
//! The master never waits for one worker while another could proceed. Outgoing messages wait in an outbox per
//! worker; the parts of a round are handed out two at a time; an idle worker takes over parts from the one
//! that would be busy longest. If a worker is lost, its parts go to the others, and if none is left the
//! master does the work. The answer does not depend on which worker computed what.

mod member;
mod round;
mod share;

use std::rc::Rc;
use std::time::Duration;

pub use member::{Account, Identity};

use crate::graph::{Csr, Weights};
use crate::port::{Port, PortError};
use crate::search::Finder;
use crate::wire::{self, Answer, Array, Shape, WireError};
use member::Member;
use round::Round;

/// Timeout for messages while something cannot be sent for lack of room.
const RETRY_AFTER: Duration = Duration::from_micros(100);

/// Options of the master.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Time after which a worker that owes a reply is considered lost.
    pub patience: Duration,
    /// Minimum cost of a part that is worth a message, in arcs.
    pub part_cost_min: u64,
    /// Whether to spread the graph in both ways several times before the search, to measure how long each
    /// takes.
    pub compare_spreading: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { patience: Duration::from_secs(60), part_cost_min: 2_000, compare_spreading: false }
    }
}

/// Reason for dropping a worker.
#[derive(Debug, thiserror::Error)]
enum Misdeed {
    #[error("{0}")]
    Port(#[from] PortError),
    #[error("it broke the protocol: {0}")]
    Wire(#[from] WireError),
    #[error("it broke the protocol: {0}")]
    Unexpected(&'static str),
    #[error("it speaks version {0} of the protocol, not {version}", version = wire::VERSION)]
    Version(u32),
    #[error("it gave up: {0}")]
    GaveUp(String),
    #[error("it owed an answer for {0:?}")]
    Silent(Duration),
    #[error("its channel carries messages of up to {0} bytes, too short for anything")]
    NarrowChannel(usize),
}

/// Work of one worker, for the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberReport {
    /// Identity of the worker.
    pub identity: Identity,
    /// Counters of the worker.
    pub account: Account,
    /// Reason for its loss, if it was lost.
    pub lost: Option<String>,
}

/// Statistics of the transfer of the graph to the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spreading {
    /// Bytes of the graph sent to one worker.
    pub bytes: u64,
    /// Time from the first byte sent until all workers had acknowledged the whole graph, in seconds; the
    /// median if both ways were compared.
    pub seconds: f64,
    /// The same by messages, if both ways were compared.
    pub by_messages_seconds: Option<f64>,
}

/// Crew whose members are workers behind channels.
pub struct Workers<'w, P> {
    members: Vec<Member<P>>,
    options: Options,
    /// Serial numbers of the graphs that the workers hold, by depth.
    held: Vec<u32>,
    /// Whether the master searches the current graph itself, because its depth exceeds what a message can
    /// express.
    local: bool,
    /// Whether the workers have been released.
    finishing: bool,
    finder: Finder,
    own: Account,
    round: Round,
    buffer: Vec<u8>,
    spreading: Spreading,
    /// Called when a worker is dropped.
    warn: Box<dyn FnMut(&str) + 'w>,
}

impl<'w, P: Port> Workers<'w, P> {
    /// Creates a crew of the workers at the other ends of `ports`.
    pub fn new(
        ports: impl IntoIterator<Item = (Identity, P)>,
        options: Options,
        warn: impl FnMut(&str) + 'w,
    ) -> Self {
        let members = ports.into_iter().map(|(identity, port)| Member::new(identity, port)).collect();
        let mut crew = Self {
            members,
            options,
            held: Vec::new(),
            local: false,
            finishing: false,
            finder: Finder::default(),
            own: Account::default(),
            round: Round::default(),
            buffer: Vec::new(),
            spreading: Spreading::default(),
            warn: Box::new(warn),
        };
        for index in 0..crew.members.len() {
            let limit = crew.members[index].port.as_ref().map_or(0, P::max_message_bytes);
            if limit < wire::moves_bytes_max(1) {
                crew.give_up(index, &Misdeed::NarrowChannel(limit));
            }
        }
        crew
    }

    /// Returns statistics of the transfer of the graph to the workers.
    #[must_use]
    pub fn spreading(&self) -> Spreading {
        self.spreading
    }

    /// Ends the search: releases the workers and receives their summaries. The second account is the master's
    /// own.
    pub fn dismiss(mut self) -> (Vec<MemberReport>, Account) {
        self.broadcast(&[wire::finish()]);
        self.finishing = true;
        while self.members.iter().any(Member::is_live) {
            self.flush();
            self.exchange();
            self.give_up_the_silent(|_| true);
        }
        let reports = self.members.into_iter().map(|member| MemberReport {
            identity: member.identity,
            account: member.account,
            lost: member.lost,
        });
        (reports.collect(), self.own)
    }

    fn message_bytes_max(&self) -> usize {
        let ports = self.members.iter().filter_map(|member| member.port.as_ref());
        ports.map(P::max_message_bytes).min().unwrap_or(1 << 16)
    }

    fn bulk_bytes_max(&self) -> usize {
        let ports = self.members.iter().filter_map(|member| member.port.as_ref());
        ports.map(P::max_bulk_bytes).min().unwrap_or(1 << 16)
    }

    fn broadcast(&mut self, messages: &[Vec<u8>]) {
        for message in messages {
            let message: Rc<[u8]> = message.as_slice().into();
            for member in &mut self.members {
                member.post(Rc::clone(&message));
            }
        }
        self.flush();
    }

    /// Queues `elements` in pieces of the maximum message length.
    fn broadcast_array<T: Copy>(&mut self, array: Array, elements: &[T], piece: Piece<T>) {
        let piece_length = (self.bulk_bytes_max() - wire::FIXED_BYTES_MAX) / size_of::<T>();
        for (index, chunk) in elements.chunks(piece_length).enumerate() {
            let message: Rc<[u8]> = piece(array, (index * piece_length) as u32, chunk).into();
            for member in &mut self.members {
                member.post(Rc::clone(&message));
            }
        }
    }

    fn broadcast_graph(&mut self, depth: u8, graph: &Csr) {
        let weight_bytes = match graph.weights() {
            Weights::Unit => 0,
            Weights::Narrow(_) => 4,
            Weights::Wide(_) => 8,
        };
        let shape = Shape {
            depth,
            vertices: graph.vertices() as u32,
            arcs: graph.arcs() as u32,
            weight_bytes,
            loops: !graph.loops().is_empty(),
        };
        self.broadcast(&[wire::graph(shape)]);
        self.broadcast_array(Array::Offsets, graph.offsets(), wire::piece_u32);
        self.broadcast_array(Array::Targets, graph.targets(), wire::piece_u32);
        match graph.weights() {
            Weights::Unit => {}
            Weights::Narrow(weights) => self.broadcast_array(Array::Weights, weights, wire::piece_u32),
            Weights::Wide(weights) => self.broadcast_array(Array::Weights, weights, wire::piece_u64),
        }
        self.broadcast_array(Array::Loops, graph.loops(), wire::piece_u64);
    }

    fn give_up(&mut self, index: usize, why: &Misdeed) {
        let member = &mut self.members[index];
        let orphans = member.lose(why.to_string());
        let who = format!("{} on {}", member.identity.domain, member.identity.node);
        let live = self.members.iter().filter(|member| member.is_live()).count();
        let heirs = match live {
            0 => "no worker is left, the master goes on alone".to_owned(),
            1 => "the other worker takes over".to_owned(),
            live => format!("the other {live} workers take over"),
        };
        (self.warn)(&format!("lost worker {who}: {why}; {heirs}"));
        self.round.orphans.extend(orphans);
    }

    /// Sends as much of every outbox as fits.
    fn flush(&mut self) {
        for index in 0..self.members.len() {
            if let Err(error) = self.members[index].flush() {
                self.give_up(index, &error.into());
            }
        }
    }

    /// Waits briefly for replies and processes them.
    fn exchange(&mut self) {
        let stuck = self.members.iter().any(Member::has_mail);
        let mut ports: Vec<&mut P> =
            self.members.iter_mut().filter_map(|member| member.port.as_mut()).collect();
        if ports.is_empty() {
            return;
        }
        P::wait_any(&mut ports, if stuck { RETRY_AFTER } else { Duration::from_secs(1) });
        for index in 0..self.members.len() {
            if let Err(why) = self.take_answers(index) {
                self.give_up(index, &why);
            }
        }
    }

    fn take_answers(&mut self, index: usize) -> Result<(), Misdeed> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut result = Ok(());
        while result.is_ok() {
            result = match self.members[index].receive(&mut buffer) {
                Ok(true) => self.take_answer(index, &buffer),
                Ok(false) => break,
                Err(error) => Err(error.into()),
            };
        }
        self.buffer = buffer;
        result
    }

    fn take_answer(&mut self, index: usize, message: &[u8]) -> Result<(), Misdeed> {
        let member = &mut self.members[index];
        match wire::read_answer(message)? {
            Answer::Hello { version, .. } if version != wire::VERSION => Err(Misdeed::Version(version)),
            Answer::Hello { isa, .. } => {
                member.identity.isa = isa.to_owned();
                Ok(())
            }
            Answer::Arrived if !member.unconfirmed => Err(Misdeed::Unexpected("an unsolicited answer")),
            Answer::Arrived => {
                member.unconfirmed = false;
                Ok(())
            }
            Answer::GiveUp(why) => Err(Misdeed::GaveUp(why.to_owned())),
            Answer::Summary(_) if !self.finishing => Err(Misdeed::Unexpected("an unsolicited summary")),
            Answer::Summary(summary) => {
                member.account.summary = summary;
                member.port = None;
                Ok(())
            }
            Answer::Found { part, arcs, compute_ns, moves } => {
                let position = member.in_flight.iter().position(|&sent| sent == part);
                let position = position.ok_or(Misdeed::Unexpected("unsolicited moves"))?;
                let cost = self.round.take(part, moves)?;
                member.in_flight.swap_remove(position);
                member.credit(cost, arcs, compute_ns);
                Ok(())
            }
        }
    }

    /// Drops workers that have owed an answer for too long.
    fn give_up_the_silent(&mut self, owes: impl Fn(&Member<P>) -> bool) {
        let patience = self.options.patience;
        for index in 0..self.members.len() {
            let member = &self.members[index];
            if member.is_live() && owes(member) && member.silent_since.elapsed() > patience {
                self.give_up(index, &Misdeed::Silent(patience));
            }
        }
    }
}

/// Encoder of a piece of an array.
type Piece<T> = fn(Array, u32, &[T]) -> Vec<u8>;
