//! Engines that copy with the processor: on the caller's thread or on threads of their own.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use tombolo_platform::copy::{self, CopyLoop};
use tombolo_platform::{Deadline, OsError};

use crate::contract::{Abilities, Engine, Rejected, RejectionReason};
use crate::queue::{self, Completions, Mover, Queue, queued};
use crate::request::{Completion, Failure, Location, Operation, Refusal, Request, RequestId};

/// Default limit on the number of requests.
pub const LIMIT: usize = 64;

/// Bytes copied between two checks of deadlines, cancellations and other threads.
const PIECE_BYTES: u64 = 1 << 20;

/// Bytes that one of several threads copies at a time: a few times the size of its first-level cache.
const SHARE_BYTES: u64 = 256 << 10;

/// Processes a piece of a request with a copy loop.
fn work(copy_loop: CopyLoop, request: &Request, at: u64, length: u64) -> Result<(), Failure> {
    // Checked when the request was accepted: both ranges lie in memory.
    let (at, length) = (at as usize, length as usize);
    match &request.operation {
        Operation::Copy {
            source: Location::Mapped { memory: source, offset_bytes: from },
            target: Location::Mapped { memory: target, offset_bytes: to },
        } => copy::between(copy_loop, (source, from + at), (target, to + at), length)?,
        Operation::Copy {
            source: Location::ReadOnly { memory: source, offset_bytes: from },
            target: Location::Mapped { memory: target, offset_bytes: to },
        } => source.copy_to(copy_loop, from + at, (target, to + at), length)?,
        Operation::Fill { target: Location::Mapped { memory, offset_bytes }, byte } => {
            copy::fill(memory, offset_bytes + at, length, *byte)?;
        }
        // Other requests are not accepted.
        _ => {}
    }
    Ok(())
}

/// Engine that copies on the caller's thread. A request is complete when it is accepted, which suits copies
/// shorter than a wake-up.
#[derive(Debug)]
pub struct Caller {
    copy_loop: CopyLoop,
    name: String,
    completions: Completions,
    last_id: u64,
    in_flight: usize,
    limit: usize,
    eventfd: Option<Arc<OwnedFd>>,
}

impl Caller {
    const ABILITIES: Abilities = Abilities::MAPPED.with(Abilities::FILL);

    /// Creates an engine that copies with `copy_loop` and holds `limit` requests, at least one, until
    /// completions are taken.
    #[must_use]
    pub fn new(copy_loop: CopyLoop, limit: usize) -> Caller {
        let name = if copy_loop == CopyLoop::Best { "caller".into() } else { format!("caller-{copy_loop}") };
        Caller {
            copy_loop,
            name,
            completions: Completions::default(),
            last_id: 0,
            in_flight: 0,
            limit: limit.max(1),
            eventfd: None,
        }
    }

    fn run(&self, request: &Request) -> Result<(), Failure> {
        let mut at = 0;
        loop {
            if request.deadline.is_some_and(Deadline::passed) {
                return Err(Failure::DeadlinePassed);
            }
            let length = (request.length_bytes - at).min(PIECE_BYTES);
            work(self.copy_loop, request, at, length)?;
            at += length;
            if at >= request.length_bytes {
                return Ok(());
            }
        }
    }
}

impl Engine for Caller {
    fn name(&self) -> &str {
        &self.name
    }

    fn abilities(&self) -> Abilities {
        Caller::ABILITIES
    }

    fn limit(&self) -> usize {
        self.limit
    }

    fn check(&self, request: &Request) -> Result<(), Refusal> {
        queue::check(Caller::ABILITIES, request)
    }

    fn submit(&mut self, request: Request) -> Result<RequestId, Rejected> {
        if let Err(refusal) = self.check(&request) {
            return Err(Rejected { request, why: refusal.into() });
        }
        if self.in_flight >= self.limit {
            return Err(Rejected { request, why: RejectionReason::Full { limit: self.limit } });
        }
        self.in_flight += 1;
        self.last_id += 1;
        let id = RequestId(self.last_id);
        let result = self.run(&request);
        self.completions.push(Completion { id, result });
        Ok(id)
    }

    fn cancel(&mut self, _id: RequestId) -> bool {
        false
    }

    fn take(&mut self) -> Option<Completion> {
        let taken = self.completions.take()?;
        self.in_flight -= 1;
        Some(taken)
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Always zero: accepted requests have already ended.
    fn in_progress(&self) -> usize {
        0
    }

    fn conflict(&self, _request: &Request) -> Option<RequestId> {
        None
    }

    fn descriptor(&mut self) -> Result<BorrowedFd<'_>, OsError> {
        let eventfd = self.completions.eventfd()?;
        let eventfd: &Arc<OwnedFd> = self.eventfd.insert(eventfd);
        Ok(eventfd.as_fd())
    }
}

/// Engine of several threads of this process, which divide each request among them.
pub struct Threads {
    name: String,
    queue: Queue,
}

/// State of one thread: the loop that it copies with, and the bytes that it takes at a time.
struct Share {
    copy_loop: CopyLoop,
    piece_bytes: u64,
}

impl Mover for Share {
    fn piece_bytes(&self, _request: &Request) -> u64 {
        self.piece_bytes
    }

    fn work(&mut self, request: &Request, at: u64, length: u64) -> Result<(), Failure> {
        work(self.copy_loop, request, at, length)
    }
}

impl Threads {
    const ABILITIES: Abilities = Abilities::MAPPED.with(Abilities::FILL).with(Abilities::BACKGROUND);

    /// Starts `count` threads, at least one, that copy with `copy_loop`. The engine accepts `limit` requests.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(copy_loop: CopyLoop, count: usize, limit: usize) -> Result<Threads, OsError> {
        let count = count.max(1);
        let name = match copy_loop {
            CopyLoop::Best => format!("threads-{count}"),
            copy_loop => format!("threads-{count}-{copy_loop}"),
        };
        let piece_bytes = if count == 1 { PIECE_BYTES } else { SHARE_BYTES };
        let movers = (0..count).map(|_| Share { copy_loop, piece_bytes }).collect();
        Ok(Threads { queue: Queue::start(&name, movers, limit)?, name })
    }

    fn name_of(&self) -> &str {
        &self.name
    }
}

queued!(Threads);
