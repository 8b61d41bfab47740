//! Background threads for slow operations: accepting, connecting, creating and mapping regions. Thanks to
//! them peers can connect even to a program that computes for an hour without calling MPI.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tombolo::region::{Mapping, Rights};
use tombolo::waitset::Waker;
use tombolo::{Channel, ChannelOptions, Domain, DomainId, Endpoint, Error, Listener, Ready, WaitSet};
use tombolo_platform::lock_unpoisoned;

use super::LinkId;
use super::staging::{self, MemoryPlace, Regions};
use crate::address::Address;

/// Timeout for a peer to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout for a peer that connected to open the channel.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum sleep of the accepting thread.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(3600);

/// Maximum number of threads, not counting the accepting one.
const MAX_THREADS: usize = 4;

/// A slow operation to run on a background thread.
#[derive(Debug)]
pub(super) enum Job {
    Connect { to: Address, slots: u32 },
    Stage { link: LinkId, domain: u64, index: usize, place: MemoryPlace },
    Map { link: LinkId, domain: u64, capability: u64, length_bytes: u64 },
    MapDirect { link: LinkId, domain: u64, key: u64, capability: u64, length_bytes: u64, rights: Rights },
}

/// Result of a [`Job`], or an accepted peer.
#[derive(Debug)]
pub(super) enum Outcome {
    Connected { to: Address, channel: Result<Box<Channel>, Error> },
    Accepted(Box<Channel>),
    Staged { link: LinkId, place: usize, staged: Option<(Arc<Mapping>, u64)> },
    Mapped { link: LinkId, mapping: Option<Mapping> },
    DirectMapped { link: LinkId, key: u64, capability: u64, mapping: Option<Mapping> },
}

#[derive(Debug)]
struct Shared {
    domain: Domain,
    options: ChannelOptions,
    regions: Regions,
    queue: Mutex<Queue>,
    outcomes: Mutex<Sender<Outcome>>,
    outcome_pending: AtomicBool,
    closing: AtomicBool,
    /// Whether a peer is being accepted whose outcome has not been queued yet.
    accepting: AtomicBool,
    waker: Waker,
}

#[derive(Default, Debug)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
}

/// Background threads of an endpoint. They end when it is dropped.
#[derive(Debug)]
pub(super) struct Worker {
    shared: Arc<Shared>,
    outcomes: Receiver<Outcome>,
    acceptor: Waker,
}

impl Worker {
    /// Starts the accepting thread.
    pub(super) fn start(
        domain: Domain,
        listener: Listener,
        options: ChannelOptions,
        waker: Waker,
    ) -> Result<Worker, Error> {
        let mut set = WaitSet::new()?;
        set.add_listener(&listener)?;
        let acceptor = set.waker();
        let (outcomes, receiver) = channel();
        let shared = Arc::new(Shared {
            domain,
            options,
            regions: Regions::default(),
            queue: Mutex::default(),
            outcomes: Mutex::new(outcomes),
            outcome_pending: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            accepting: AtomicBool::new(false),
            waker,
        });
        let accepting = Arc::clone(&shared);
        spawn("fabric-accept", move || accept(&accepting, &listener, set))?;
        Ok(Worker { shared, outcomes: receiver, acceptor })
    }

    /// Queues a job, and starts another thread for it unless there are [`MAX_THREADS`].
    pub(super) fn submit(&self, job: Job) {
        let mut queue = lock_unpoisoned(&self.shared.queue);
        queue.jobs.push_back(job);
        if queue.threads < MAX_THREADS {
            let shared = Arc::clone(&self.shared);
            // If no thread can be started, the existing ones run the job. If there are none, the job never
            // runs, and the peer stays unreachable.
            if spawn("fabric-work", move || run_jobs(&shared)).is_ok() {
                queue.threads += 1;
            }
        }
    }

    /// Removes the job to connect to an address if no thread has begun it. Returns whether it was removed.
    pub(super) fn cancel_connect(&self, address: Address) -> bool {
        let jobs = &mut lock_unpoisoned(&self.shared.queue).jobs;
        let at = jobs.iter().position(|job| matches!(job, Job::Connect { to, .. } if *to == address));
        at.is_some_and(|at| jobs.remove(at).is_some())
    }

    /// Returns whether an outcome may be available. A relaxed load, cheap enough for every poll.
    #[inline]
    pub(super) fn may_have_outcome(&self) -> bool {
        self.shared.outcome_pending.load(Ordering::Relaxed)
    }

    /// Takes the next outcome, if there is one.
    #[inline]
    pub(super) fn next_outcome(&self) -> Option<Outcome> {
        if !self.may_have_outcome() {
            return None;
        }
        self.shared.outcome_pending.store(false, Ordering::SeqCst);
        let outcome = self.outcomes.try_recv().ok();
        if outcome.is_some() {
            // There may be more.
            self.shared.outcome_pending.store(true, Ordering::SeqCst);
        }
        outcome
    }

    /// Returns whether a peer is being accepted. This becomes true before the peer learns that it is
    /// connected, and false only after the outcome has been queued.
    pub(super) fn is_accepting(&self) -> bool {
        self.shared.accepting.load(Ordering::SeqCst)
    }

    /// Returns whether an outcome is available, with sequentially consistent ordering.
    pub(super) fn has_outcome(&self) -> bool {
        self.shared.outcome_pending.load(Ordering::SeqCst)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        self.acceptor.wake();
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let started = thread::Builder::new().name(name.to_owned()).stack_size(256 * 1024).spawn(run);
    // Thread creation fails for lack of resources; reported like a channel without room.
    started.map(drop).map_err(|_| Error::WouldBlock)
}

impl Shared {
    fn push_outcome(&self, outcome: Outcome) {
        if lock_unpoisoned(&self.outcomes).send(outcome).is_ok() {
            self.outcome_pending.store(true, Ordering::SeqCst);
            self.waker.wake();
        }
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }
}

fn accept(shared: &Shared, listener: &Listener, mut set: WaitSet) {
    while !shared.is_closing() {
        match set.wait(LISTEN_TIMEOUT) {
            Ok(Ready::Listener(_)) => {
                shared.accepting.store(true, Ordering::SeqCst);
                let accepted = listener.within(ACCEPT_TIMEOUT).accept();
                // Without the monitor no more peers can connect.
                let monitor_lost = matches!(accepted, Err(Error::MonitorLost { .. }));
                if let Ok(channel) = accepted {
                    shared.push_outcome(Outcome::Accepted(Box::new(channel)));
                }
                // Otherwise the peer does not match, or is gone already.
                shared.accepting.store(false, Ordering::SeqCst);
                // A thread may be waiting for `accepting` to become false.
                shared.outcome_pending.store(true, Ordering::SeqCst);
                shared.waker.wake();
                if monitor_lost {
                    return;
                }
            }
            Ok(_) | Err(Error::TimedOut { .. }) => {}
            Err(_) => return,
        }
    }
}

fn run_jobs(shared: &Shared) {
    loop {
        let job = {
            let mut queue = lock_unpoisoned(&shared.queue);
            match queue.jobs.pop_front() {
                Some(job) if !shared.is_closing() => job,
                _ => {
                    queue.threads -= 1;
                    return;
                }
            }
        };
        shared.push_outcome(shared.run_job(job));
    }
}

impl Shared {
    fn run_job(&self, job: Job) -> Outcome {
        let domain = &self.domain;
        match job {
            Job::Connect { to, slots } => {
                let endpoint = Endpoint::from_number(to.endpoint);
                let options = self.options.clone().slots(slots);
                let connected =
                    options.and_then(|options| options.connect(&domain.within(CONNECT_TIMEOUT), endpoint));
                let channel = connected.and_then(|channel| {
                    // The listener must belong to the domain that the address names.
                    let right = channel.peer().to_bits() == to.domain;
                    if right { Ok(Box::new(channel)) } else { Err(Error::WouldBlock) }
                });
                Outcome::Connected { to, channel }
            }
            Job::Stage { link, domain: reader, index, place } => {
                let reader = DomainId::from_bits(reader);
                let staged = reader.and_then(|reader| self.regions.grant_read(domain, &place, reader).ok());
                Outcome::Staged { link, place: index, staged }
            }
            Job::Map { link, domain: from, capability, length_bytes } => {
                let from = DomainId::from_bits(from);
                let map = |from| staging::map(domain, from, capability, length_bytes, Rights::READ).ok();
                Outcome::Mapped { link, mapping: from.and_then(map) }
            }
            Job::MapDirect { link, domain: from, key, capability, length_bytes, rights } => {
                let from = DomainId::from_bits(from);
                let map = |from| staging::map(domain, from, capability, length_bytes, rights).ok();
                Outcome::DirectMapped { link, key, capability, mapping: from.and_then(map) }
            }
        }
    }
}
