//! The queue inside background engines: requests are cut into pieces, which threads process.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tombolo_platform::event::{drain, eventfd, signal};
use tombolo_platform::{Deadline, OsError};

use crate::contract::{Rejected, WhyRejected};
use crate::request::{Completion, Failure, Refusal, Request, RequestId};

/// Completions to be taken, and the descriptor that signals them.
#[derive(Debug, Default)]
pub(crate) struct Completions {
    waiting: VecDeque<Completion>,
    /// Created when first requested.
    bell: Option<Arc<OwnedFd>>,
}

impl Completions {
    pub(crate) fn push(&mut self, completion: Completion) {
        self.waiting.push_back(completion);
        if let Some(bell) = &self.bell
            && self.waiting.len() == 1
        {
            // Cannot fail on a valid descriptor of our own.
            let _ = signal(bell);
        }
    }

    pub(crate) fn take(&mut self) -> Option<Completion> {
        let taken = self.waiting.pop_front();
        if let (Some(_), Some(bell), true) = (&taken, &self.bell, self.waiting.is_empty()) {
            drain(bell);
        }
        taken
    }

    fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The descriptor, created on first use.
    pub(crate) fn bell(&mut self) -> Result<Arc<OwnedFd>, OsError> {
        if let Some(bell) = &self.bell {
            return Ok(Arc::clone(bell));
        }
        let bell = Arc::new(eventfd()?);
        if !self.waiting.is_empty() {
            signal(&bell)?;
        }
        self.bell = Some(Arc::clone(&bell));
        Ok(bell)
    }
}

/// Processes pieces of requests; one for each thread.
pub(crate) trait Mover: Send + 'static {
    /// The most bytes of a request to process between two checks of deadlines and cancellations; at least
    /// one.
    fn piece_bytes(&self, request: &Request) -> u64;

    /// Processes `length` bytes of a request from byte `at` on. The request was checked when it was
    /// accepted.
    ///
    /// # Errors
    /// The failure with which the request ends.
    fn work(&mut self, request: &Request, at: u64, length: u64) -> Result<(), Failure>;
}

struct Job {
    id: RequestId,
    request: Arc<Request>,
    /// The first byte that no thread has started.
    next: u64,
    /// Whether a piece was started; a request of no bytes has one piece too.
    begun: bool,
    /// Threads that process pieces of it.
    busy: usize,
    failure: Option<Failure>,
}

impl Job {
    fn all_begun(&self) -> bool {
        self.failure.is_some() || (self.begun && self.next >= self.request.length_bytes)
    }

    /// Ends the job early, unless it has failed before.
    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }
}

#[derive(Default)]
struct QueueState {
    jobs: VecDeque<Job>,
    completions: Completions,
    last_id: u64,
    /// Why nothing more is accepted, if so.
    lost: Option<String>,
    closing: bool,
}

impl QueueState {
    /// Turns every finished job into a completion.
    fn complete_finished(&mut self) {
        let over = |job: &Job| job.busy == 0 && job.all_begun();
        while let Some(index) = self.jobs.iter().position(over) {
            if let Some(job) = self.jobs.remove(index) {
                let result = job.failure.map_or(Ok(()), Err);
                self.completions.push(Completion { id: job.id, result });
            }
        }
    }

    /// Claims the next piece, of the first job that has one left.
    fn claim(
        &mut self,
        piece_bytes: impl Fn(&Request) -> u64,
    ) -> Option<(RequestId, Arc<Request>, u64, u64)> {
        loop {
            let job = self.jobs.iter_mut().find(|job| !job.all_begun())?;
            if job.request.deadline.is_some_and(Deadline::passed) {
                job.fail(Failure::DeadlinePassed);
                self.complete_finished();
                continue;
            }
            let (at, left) = (job.next, job.request.length_bytes - job.next);
            let length = left.min(piece_bytes(&job.request).max(1));
            job.next += length;
            job.begun = true;
            job.busy += 1;
            return Some((job.id, Arc::clone(&job.request), at, length));
        }
    }

    fn release(&mut self, id: RequestId, result: Result<(), Failure>) {
        if let Some(job) = self.jobs.iter_mut().find(|job| job.id == id) {
            job.busy -= 1;
            if let Err(failure) = result {
                if let Failure::Channel(error) = &failure {
                    self.lost = Some(error.to_string());
                }
                job.fail(failure);
            }
        }
        if let Some(why) = self.lost.clone() {
            // Jobs behind it would wait for ever.
            let lost = |job: &&mut Job| !job.begun;
            self.jobs.iter_mut().filter(lost).for_each(|job| job.fail(Failure::Lost { why: why.clone() }));
        }
        self.complete_finished();
    }
}

struct Shared {
    state: Mutex<QueueState>,
    work: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mover: &mut impl Mover) {
        let mut state = self.lock();
        loop {
            if let Some((id, request, at, length)) = state.claim(|request| mover.piece_bytes(request)) {
                drop(state);
                let result = mover.work(&request, at, length);
                drop(request);
                state = self.lock();
                state.release(id, result);
            } else if state.closing {
                return;
            } else {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// The queue and its threads.
pub(crate) struct Queue {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    limit: usize,
    bell: Option<Arc<OwnedFd>>,
}

impl Queue {
    /// Starts a thread for each mover. They end with the queue.
    pub(crate) fn start<M: Mover>(name: &str, movers: Vec<M>, limit: usize) -> Result<Queue, OsError> {
        let shared = Arc::new(Shared { state: Mutex::default(), work: Condvar::new() });
        let mut queue = Queue { shared, threads: Vec::new(), limit: limit.max(1), bell: None };
        for mut mover in movers {
            let shared = Arc::clone(&queue.shared);
            let thread = std::thread::Builder::new().name(name.to_owned());
            let started = thread.spawn(move || shared.run(&mut mover));
            // On failure, dropping the queue ends the threads that were started.
            queue.threads.push(started.map_err(|error| OsError::from_io("start a thread", &error))?);
        }
        Ok(queue)
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn check(&self) -> Result<(), Refusal> {
        match &self.shared.lock().lost {
            Some(why) => Err(Refusal::Lost { why: why.clone() }),
            None => Ok(()),
        }
    }

    #[expect(clippy::result_large_err, reason = "the request itself, to be tried again")]
    pub(crate) fn submit(&mut self, request: Request) -> Result<RequestId, Rejected> {
        let mut state = self.shared.lock();
        if let Some(why) = state.lost.clone() {
            return Err(Rejected { request, why: WhyRejected::Refused(Refusal::Lost { why }) });
        }
        if state.jobs.len() + state.completions.len() >= self.limit {
            return Err(Rejected { request, why: WhyRejected::Full { limit: self.limit } });
        }
        let pieces = self.threads.len() > 1;
        state.last_id += 1;
        let id = RequestId(state.last_id);
        let request = Arc::new(request);
        state.jobs.push_back(Job { id, request, next: 0, begun: false, busy: 0, failure: None });
        drop(state);
        if pieces {
            self.shared.work.notify_all();
        } else {
            self.shared.work.notify_one();
        }
        Ok(id)
    }

    pub(crate) fn cancel(&mut self, id: RequestId) -> bool {
        let mut state = self.shared.lock();
        let Some(job) = state.jobs.iter_mut().find(|job| job.id == id && !job.all_begun()) else {
            return false;
        };
        job.fail(Failure::Cancelled);
        state.complete_finished();
        true
    }

    pub(crate) fn take(&mut self) -> Option<Completion> {
        self.shared.lock().completions.take()
    }

    pub(crate) fn in_flight(&self) -> usize {
        let state = self.shared.lock();
        state.jobs.len() + state.completions.len()
    }

    pub(crate) fn descriptor(&mut self) -> Result<BorrowedFd<'_>, OsError> {
        let bell = match self.bell.take() {
            Some(bell) => bell,
            None => self.shared.lock().completions.bell()?,
        };
        let bell: &Arc<OwnedFd> = self.bell.insert(bell);
        Ok(bell.as_fd())
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        {
            let mut state = self.shared.lock();
            state.closing = true;
            state.jobs.iter_mut().for_each(|job| job.fail(Failure::Cancelled));
        }
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Implements [`crate::Engine`] for a type with a field `queue`, a constant `ABILITIES` and a method
/// `name_of`.
macro_rules! queued {
    ($engine:ty) => {
        impl $crate::contract::Engine for $engine {
            fn name(&self) -> &str {
                self.name_of()
            }

            fn abilities(&self) -> $crate::contract::Abilities {
                Self::ABILITIES
            }

            fn limit(&self) -> usize {
                self.queue.limit()
            }

            fn check(&self, request: &$crate::Request) -> Result<(), $crate::Refusal> {
                $crate::queue::check(Self::ABILITIES, request)?;
                self.queue.check()
            }

            fn submit(
                &mut self,
                request: $crate::Request,
            ) -> Result<$crate::RequestId, $crate::contract::Rejected> {
                match $crate::queue::check(Self::ABILITIES, &request) {
                    Ok(()) => self.queue.submit(request),
                    Err(refusal) => Err($crate::contract::Rejected { request, why: refusal.into() }),
                }
            }

            fn cancel(&mut self, id: $crate::RequestId) -> bool {
                self.queue.cancel(id)
            }

            fn take(&mut self) -> Option<$crate::Completion> {
                self.queue.take()
            }

            fn in_flight(&self) -> usize {
                self.queue.in_flight()
            }

            fn descriptor(&mut self) -> Result<std::os::fd::BorrowedFd<'_>, tombolo_platform::OsError> {
                self.queue.descriptor()
            }
        }
    };
}
pub(crate) use queued;

/// Checks whether an engine with these abilities can do a request.
pub(crate) fn check(abilities: crate::Abilities, request: &Request) -> Result<(), Refusal> {
    let route = request.route();
    if !abilities.reaches(route) {
        return Err(Refusal::Unreachable { route });
    }
    request.check()
}
