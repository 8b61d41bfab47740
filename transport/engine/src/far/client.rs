//! Side that has the engine.

use std::collections::VecDeque;
use std::time::Duration;

use tombolo_platform::copy::{self, CopyLoop};
use tombolo_platform::{Deadline, OsError};
use tombolo_transport::wait::{self, Spin};
use tombolo_transport::{ChannelError, Transport, TransportExt};

use super::wire::{ANSWER_BYTES, Answer, COMMAND_BYTES, Command, CommandKind, FarRange, MAX_PIECE_BYTES};
use crate::contract::Abilities;
use crate::queue::{Mover, Queue, queued};
use crate::request::{Failure, Location, Operation, Request};

/// Time limit for one command of a request without a deadline.
const PATIENCE: Duration = Duration::from_secs(10);

/// Number of commands in flight: enough that neither side waits for the other's answer, and few enough that
/// there is room for the answers while this side does not read them.
const MAX_COMMANDS_IN_FLIGHT: usize = 4;

/// Engine at the far side of a channel, where a [`Server`](super::Server) runs.
pub struct Far {
    name: String,
    queue: Queue,
}

impl Far {
    const ABILITIES: Abilities =
        Abilities::FAR.with(Abilities::FAR_ALONE).with(Abilities::FILL).with(Abilities::BACKGROUND);

    /// Starts the thread that uses this end of the channel. The engine accepts `limit` requests. `name` is
    /// for tables.
    ///
    /// # Errors
    /// `ENOBUFS` when the channel's messages are too short to carry data, or an error of starting the thread.
    pub fn start<T: Transport + Send + 'static>(
        name: &str,
        channel: T,
        limit: usize,
    ) -> Result<Far, OsError> {
        let longest = channel.max_message_bytes();
        let max_payload_bytes = longest.saturating_sub(COMMAND_BYTES.max(ANSWER_BYTES));
        if max_payload_bytes < 8 {
            return Err(OsError::new(
                format!("copy over a channel with messages of at most {longest} bytes"),
                tombolo_platform::Errno::NOBUFS,
            ));
        }
        let remote_mover = RemoteMover {
            channel,
            // A multiple of eight, so that words are not split.
            max_payload_bytes: (max_payload_bytes as u64).min(MAX_PIECE_BYTES) / 8 * 8,
            message: Vec::new(),
            // Short rings may lack room for several answers.
            max_in_flight: if longest < 1024 { 1 } else { MAX_COMMANDS_IN_FLIGHT },
            in_flight: VecDeque::new(),
            stale: 0,
        };
        Ok(Far { name: name.into(), queue: Queue::start(name, vec![remote_mover], limit)? })
    }

    fn name_of(&self) -> &str {
        &self.name
    }
}

queued!(Far);

struct RemoteMover<T> {
    channel: T,
    /// Maximum number of bytes that one message carries.
    max_payload_bytes: u64,
    message: Vec<u8>,
    max_in_flight: usize,
    /// For each unanswered command, the destination of the bytes that it reads, as an offset from the start
    /// of the target.
    in_flight: VecDeque<(u64, u64)>,
    /// Number of these that belong to a request that is over. Their answers are ignored.
    stale: usize,
}

impl<T: Transport + Send + 'static> Mover for RemoteMover<T> {
    fn piece_bytes(&self, _request: &Request) -> u64 {
        MAX_PIECE_BYTES
    }

    fn work(&mut self, request: &Request, at: u64, length: u64) -> Result<(), Failure> {
        let patience = request.deadline.unwrap_or_else(|| Deadline::after(PATIENCE));
        self.stale = self.in_flight.len();
        self.execute_piece(request, at, length, patience).map_err(|failure| match failure {
            // The channel still works, and the outstanding answers are accounted for.
            Failure::Channel(ChannelError::TimedOut(_)) if request.deadline.is_some() => {
                Failure::DeadlinePassed
            }
            failure => failure,
        })
    }
}

impl<T: Transport> RemoteMover<T> {
    fn execute_piece(
        &mut self,
        request: &Request,
        at: u64,
        length: u64,
        deadline: Deadline,
    ) -> Result<(), Failure> {
        let step = if has_payload(&request.operation) { self.max_payload_bytes } else { MAX_PIECE_BYTES };
        if at == 0 && step < request.length_bytes {
            // Lets the far side refuse the whole request before anything is written.
            self.send_command(request, 0, request.length_bytes, true, deadline)?;
            while !self.in_flight.is_empty() {
                self.receive_answer(request, deadline)?;
            }
        }
        let mut refused = None;
        let mut next = at;
        loop {
            let more = refused.is_none() && (next < at + length || (length == 0 && next == at));
            if more && self.in_flight.len() < self.max_in_flight {
                let piece = step.min(at + length - next);
                self.send_command(request, next, piece, false, deadline)?;
                // A request of no bytes still takes one command.
                next += piece.max(u64::from(length == 0));
            } else if !self.in_flight.is_empty() {
                // Unless the deadline passes, every command is answered before this returns.
                if let Err(failure) = self.receive_answer(request, deadline) {
                    match failure {
                        Failure::Far(_) => refused = Some(failure),
                        failure => return Err(failure),
                    }
                }
            } else {
                return refused.map_or(Ok(()), Err);
            }
        }
    }
}

/// Whether the bytes travel over the channel.
fn has_payload(operation: &Operation) -> bool {
    let mapped = |place: &Location| matches!(place, Location::Mapped { .. });
    matches!(operation, Operation::Copy { source, target } if mapped(source) || mapped(target))
}

fn far_range(place: &Location, at: u64) -> Option<FarRange> {
    match place {
        Location::Far { memory, offset_bytes } => {
            Some(FarRange { memory: *memory, offset_bytes: offset_bytes + at })
        }
        _ => None,
    }
}

impl<T: Transport> RemoteMover<T> {
    /// Sends the command for one piece, or the check of a whole request.
    fn send_command(
        &mut self,
        request: &Request,
        at: u64,
        length: u64,
        check_only: bool,
        deadline: Deadline,
    ) -> Result<(), Failure> {
        let mut payload = None;
        let kind = match &request.operation {
            Operation::Copy { source, target } => match (far_range(source, at), far_range(target, at)) {
                (Some(source), Some(target)) => Some(CommandKind::Copy { source, target }),
                (Some(source), None) => Some(CommandKind::Read { source }),
                (None, Some(target)) => {
                    payload = (!check_only).then_some(source);
                    Some(CommandKind::Write { target })
                }
                (None, None) => None,
            },
            Operation::Fill { target, byte } => {
                far_range(target, at).map(|target| CommandKind::Fill { target, byte: *byte })
            }
        };
        // Every accepted request has a far end.
        let Some(kind) = kind else { return Ok(()) };
        self.message.clear();
        self.message.extend(Command { kind, check_only, length_bytes: length }.to_bytes());
        if let Some(Location::Mapped { memory, offset_bytes }) = payload {
            self.message.resize(COMMAND_BYTES + length as usize, 0);
            copy::read(
                CopyLoop::Best,
                memory,
                offset_bytes + at as usize,
                &mut self.message[COMMAND_BYTES..],
            )?;
        }
        wait::send(&mut self.channel, &mut Spin::default(), &self.message, deadline.remaining())?;
        self.in_flight.push_back((at, if check_only { 0 } else { length }));
        Ok(())
    }

    /// Processes the answer to the oldest command.
    fn receive_answer(&mut self, request: &Request, deadline: Deadline) -> Result<(), Failure> {
        wait::recv_into(&mut self.channel, &mut Spin::default(), &mut self.message, deadline.remaining())?;
        let Some((at, length)) = self.in_flight.pop_front() else { return Ok(()) };
        if let Some(stale) = self.stale.checked_sub(1) {
            self.stale = stale;
            return Ok(());
        }
        let violation = |what: &str| Failure::Channel(ChannelError::Violation(what.into()));
        let (answer, bytes) = Answer::from_bytes(&self.message)
            .ok_or_else(|| violation("a malformed answer to a copy command"))?;
        answer.result.map_err(Failure::Far)?;
        let target = match &request.operation {
            Operation::Copy {
                source: Location::Far { .. },
                target: Location::Mapped { memory, offset_bytes },
            } => Some((memory, offset_bytes)),
            _ => None,
        };
        let expected = if target.is_some() { length } else { 0 };
        if answer.length_bytes != expected {
            return Err(violation("an answer with the wrong number of bytes"));
        }
        if let Some((memory, offset_bytes)) = target {
            copy::write(CopyLoop::Best, memory, offset_bytes + at as usize, bytes)?;
        }
        Ok(())
    }
}
