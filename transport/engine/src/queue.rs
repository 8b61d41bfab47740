//! Queue inside background engines. Requests are cut into pieces, which threads process.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tombolo_platform::event::{drain, eventfd, signal};
use tombolo_platform::{Deadline, OsError};

use crate::contract::{Rejected, RejectionReason};
use crate::request::{Completion, Failure, Refusal, Request, RequestId};

/// Completions to be taken, and the descriptor that signals them.
#[derive(Debug, Default)]
pub(crate) struct Completions {
    ready: VecDeque<Completion>,
    /// Event counter, created when it is first requested.
    eventfd: Option<Arc<OwnedFd>>,
}

impl Completions {
    pub(crate) fn push(&mut self, completion: Completion) {
        self.ready.push_back(completion);
        if let Some(eventfd) = &self.eventfd
            && self.ready.len() == 1
        {
            // Cannot fail on a valid descriptor of our own.
            let _ = signal(eventfd);
        }
    }

    pub(crate) fn take(&mut self) -> Option<Completion> {
        let taken = self.ready.pop_front();
        if let (Some(_), Some(eventfd), true) = (&taken, &self.eventfd, self.ready.is_empty()) {
            drain(eventfd);
        }
        taken
    }

    fn len(&self) -> usize {
        self.ready.len()
    }

    /// Returns the descriptor, created on first use.
    pub(crate) fn eventfd(&mut self) -> Result<Arc<OwnedFd>, OsError> {
        if let Some(eventfd) = &self.eventfd {
            return Ok(Arc::clone(eventfd));
        }
        let eventfd = Arc::new(eventfd()?);
        if !self.ready.is_empty() {
            signal(&eventfd)?;
        }
        self.eventfd = Some(Arc::clone(&eventfd));
        Ok(eventfd)
    }
}

/// Processor of pieces of requests; one for each thread.
pub(crate) trait Mover: Send + 'static {
    /// Returns the maximum number of bytes of a request to process between two checks of deadlines and
    /// cancellations; at least one.
    fn piece_bytes(&self, request: &Request) -> u64;

    /// Processes `length` bytes of a request from byte `at` on. The request was checked when it was accepted.
    ///
    /// # Errors
    /// Failure with which the request ends.
    fn work(&mut self, request: &Request, at: u64, length: u64) -> Result<(), Failure>;
}

struct Job {
    id: RequestId,
    request: Arc<Request>,
    /// First byte that no thread has started.
    next: u64,
    /// Whether a piece was started. A request of no bytes has one piece too.
    started: bool,
    /// Number of threads that process pieces of it.
    busy: usize,
    failure: Option<Failure>,
}

impl Job {
    fn is_fully_started(&self) -> bool {
        self.failure.is_some() || (self.started && self.next >= self.request.length_bytes)
    }

    /// Ends the job early, unless it already failed.
    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }
}

#[derive(Default)]
struct QueueState {
    jobs: VecDeque<Job>,
    completions: Completions,
    last_id: u64,
    /// Reason why no more requests are accepted, if so.
    lost: Option<String>,
    closing: bool,
}

impl QueueState {
    /// Turns every finished job into a completion.
    fn complete_finished(&mut self) {
        let over = |job: &Job| job.busy == 0 && job.is_fully_started();
        while let Some(index) = self.jobs.iter().position(over) {
            if let Some(job) = self.jobs.remove(index) {
                if job.failure.is_some() {
                    let fenced = self.jobs.range_mut(index..).filter(|later| later.request.fence);
                    fenced.for_each(|later| later.fail(Failure::Earlier { earlier: job.id }));
                }
                let result = job.failure.map_or(Ok(()), Err);
                self.completions.push(Completion { id: job.id, result });
            }
        }
    }

    /// Returns a job in progress that conflicts with a request.
    fn conflict(&self, request: &Request) -> Option<RequestId> {
        let conflicts = |job: &&Job| !request.fence && job.request.conflicts(request);
        self.jobs.iter().find(conflicts).map(|job| job.id)
    }

    /// Claims the next piece of the first job that has one left. A fenced job, and any job behind it, has
    /// none until the fenced job is the first of all.
    fn claim(
        &mut self,
        piece_bytes: impl Fn(&Request) -> u64,
    ) -> Option<(RequestId, Arc<Request>, u64, u64)> {
        loop {
            let index = self.jobs.iter().position(|job| !job.is_fully_started())?;
            let job = &mut self.jobs[index];
            if job.request.fence && index > 0 {
                return None;
            }
            if job.request.deadline.is_some_and(Deadline::passed) {
                job.fail(Failure::DeadlinePassed);
                self.complete_finished();
                continue;
            }
            let (at, left) = (job.next, job.request.length_bytes - job.next);
            let length = left.min(piece_bytes(&job.request).max(1));
            job.next += length;
            job.started = true;
            job.busy += 1;
            return Some((job.id, Arc::clone(&job.request), at, length));
        }
    }

    /// Whether the first job is fenced and not started, so that threads held back by the fence have work
    /// again.
    fn is_fence_open(&self) -> bool {
        self.jobs.front().is_some_and(|job| job.request.fence && !job.started)
    }

    fn finish_piece(&mut self, id: RequestId, result: Result<(), Failure>) {
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
            // Jobs behind it would wait forever.
            let lost = |job: &&mut Job| !job.started;
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
                state.finish_piece(id, result);
                if state.is_fence_open() {
                    self.work.notify_all();
                }
            } else if state.closing {
                return;
            } else {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// Queue and its threads.
pub(crate) struct Queue {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    limit: usize,
    eventfd: Option<Arc<OwnedFd>>,
}

impl Queue {
    /// Starts a thread for each mover. The threads end with the queue.
    pub(crate) fn start<M: Mover>(name: &str, movers: Vec<M>, limit: usize) -> Result<Queue, OsError> {
        let shared = Arc::new(Shared { state: Mutex::default(), work: Condvar::new() });
        let mut queue = Queue { shared, threads: Vec::new(), limit: limit.max(1), eventfd: None };
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
            return Err(Rejected { request, why: RejectionReason::Refused(Refusal::Lost { why }) });
        }
        if state.jobs.len() + state.completions.len() >= self.limit {
            return Err(Rejected { request, why: RejectionReason::Full { limit: self.limit } });
        }
        if let Some(with) = state.conflict(&request) {
            return Err(Rejected { request, why: Refusal::InUse { with }.into() });
        }
        let pieces = self.threads.len() > 1;
        state.last_id += 1;
        let id = RequestId(state.last_id);
        let request = Arc::new(request);
        state.jobs.push_back(Job { id, request, next: 0, started: false, busy: 0, failure: None });
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
        let Some(job) = state.jobs.iter_mut().find(|job| job.id == id && !job.is_fully_started()) else {
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

    pub(crate) fn in_progress(&self) -> usize {
        self.shared.lock().jobs.len()
    }

    pub(crate) fn conflict(&self, request: &Request) -> Option<RequestId> {
        self.shared.lock().conflict(request)
    }

    pub(crate) fn descriptor(&mut self) -> Result<BorrowedFd<'_>, OsError> {
        let eventfd = match self.eventfd.take() {
            Some(eventfd) => eventfd,
            None => self.shared.lock().completions.eventfd()?,
        };
        let eventfd: &Arc<OwnedFd> = self.eventfd.insert(eventfd);
        Ok(eventfd.as_fd())
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

            fn in_progress(&self) -> usize {
                self.queue.in_progress()
            }

            fn conflict(&self, request: &$crate::Request) -> Option<$crate::RequestId> {
                self.queue.conflict(request)
            }

            fn descriptor(&mut self) -> Result<std::os::fd::BorrowedFd<'_>, tombolo_platform::OsError> {
                self.queue.descriptor()
            }
        }
    };
}
pub(crate) use queued;

/// Checks whether an engine with these abilities can execute a request.
pub(crate) fn check(abilities: crate::Abilities, request: &Request) -> Result<(), Refusal> {
    let route = request.route();
    if !abilities.reaches(route) || !request.read_only_use_is_valid() {
        return Err(Refusal::Unreachable { route });
    }
    request.check()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use tombolo_base::SharedMemory;

    use super::*;
    use crate::request::Location;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Mover that reports each request it starts, and ends it when told how.
    struct ControlledMover {
        started: Sender<u64>,
        end: Arc<Mutex<Receiver<Result<(), Failure>>>>,
    }

    impl Mover for ControlledMover {
        fn piece_bytes(&self, _request: &Request) -> u64 {
            1 << 20
        }

        fn work(&mut self, request: &Request, _at: u64, _length: u64) -> Result<(), Failure> {
            self.started.send(request.length_bytes).unwrap();
            self.end.lock().unwrap().recv().unwrap()
        }
    }

    struct TestQueue {
        queue: Queue,
        memory: SharedMemory,
        started: Receiver<u64>,
        end: Sender<Result<(), Failure>>,
    }

    impl TestQueue {
        fn start(threads: usize) -> TestQueue {
            let ((begin, started), (end, ends)) = (channel(), channel());
            let ends = Arc::new(Mutex::new(ends));
            let movers =
                (0..threads).map(|_| ControlledMover { started: begin.clone(), end: Arc::clone(&ends) });
            let queue = Queue::start("held", movers.collect(), 16).unwrap();
            TestQueue { queue, memory: SharedMemory::zeroed(4096), started, end }
        }

        /// Returns a request identified by its length, at an offset of its own.
        fn request(&self, length_bytes: u64, offset_bytes: usize) -> Request {
            let target = Location::Mapped { memory: self.memory.clone(), offset_bytes };
            Request::fill(target, 1, length_bytes)
        }

        fn wait_for_start(&self) -> u64 {
            self.started.recv_timeout(PATIENCE).unwrap()
        }

        fn end_all(&self, count: usize) {
            (0..count).for_each(|_| self.end.send(Ok(())).unwrap());
        }

        fn expect_successes(&mut self, count: usize) {
            (0..count).for_each(|_| assert_eq!(self.completion().result, Ok(())));
        }

        fn completion(&mut self) -> Completion {
            loop {
                if let Some(completion) = self.queue.take() {
                    return completion;
                }
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn a_fenced_request_begins_when_all_before_it_have_ended() {
        let mut test_queue = TestQueue::start(3);
        for (length, place) in [(1, 0), (2, 64)] {
            test_queue.queue.submit(test_queue.request(length, place)).unwrap();
        }
        test_queue.queue.submit(test_queue.request(3, 0).fenced()).unwrap();
        // Behind a fence requests run in the usual order, and both wait.
        test_queue.queue.submit(test_queue.request(4, 256)).unwrap();
        let mut first = [test_queue.wait_for_start(), test_queue.wait_for_start()];
        first.sort_unstable();
        assert_eq!(first, [1, 2]);
        assert!(test_queue.started.try_recv().is_err(), "a third thread is free, and nothing may begin");
        test_queue.end.send(Ok(())).unwrap();
        assert_eq!(test_queue.completion().result, Ok(()));
        assert!(test_queue.started.try_recv().is_err(), "one of two has ended");
        test_queue.end.send(Ok(())).unwrap();
        let mut rest = [test_queue.wait_for_start(), test_queue.wait_for_start()];
        rest.sort_unstable();
        assert_eq!(rest, [3, 4]);
        test_queue.end_all(2);
        test_queue.expect_successes(3);
        assert_eq!(test_queue.queue.in_progress(), 0);
    }

    #[test]
    fn fenced_requests_fail_after_a_failure() {
        let mut test_queue = TestQueue::start(1);
        let failed = test_queue.queue.submit(test_queue.request(1, 0)).unwrap();
        let fenced = test_queue.queue.submit(test_queue.request(2, 0).fenced()).unwrap();
        let next = test_queue.queue.submit(test_queue.request(3, 0).fenced()).unwrap();
        let other = test_queue.queue.submit(test_queue.request(4, 64)).unwrap();
        assert_eq!(test_queue.wait_for_start(), 1);
        test_queue.end.send(Err(Failure::DeadlinePassed)).unwrap();
        let earlier = |earlier| Err(Failure::Earlier { earlier });
        assert_eq!(test_queue.completion(), Completion { id: failed, result: Err(Failure::DeadlinePassed) });
        assert_eq!(test_queue.completion(), Completion { id: fenced, result: earlier(failed) });
        assert_eq!(test_queue.completion(), Completion { id: next, result: earlier(failed) });
        assert_eq!(test_queue.wait_for_start(), 4);
        test_queue.end.send(Ok(())).unwrap();
        assert_eq!(test_queue.completion(), Completion { id: other, result: Ok(()) });
        // Nor requests that waited for a cancelled one; later requests do not wait for it.
        test_queue.queue.submit(test_queue.request(5, 0)).unwrap();
        let cancelled = test_queue.queue.submit(test_queue.request(6, 64)).unwrap();
        let fenced = test_queue.queue.submit(test_queue.request(7, 64).fenced()).unwrap();
        assert_eq!(test_queue.wait_for_start(), 5);
        assert!(test_queue.queue.cancel(cancelled));
        assert_eq!(test_queue.completion().id, cancelled);
        assert_eq!(test_queue.completion(), Completion { id: fenced, result: earlier(cancelled) });
        test_queue.queue.submit(test_queue.request(8, 64).fenced()).unwrap();
        test_queue.end.send(Ok(())).unwrap();
        assert_eq!((test_queue.completion().result, test_queue.wait_for_start()), (Ok(()), 8));
        test_queue.end.send(Ok(())).unwrap();
        assert_eq!(test_queue.completion().result, Ok(()));
    }

    #[test]
    fn bytes_that_a_request_in_progress_writes_are_in_use() {
        let mut test_queue = TestQueue::start(1);
        let with = test_queue.queue.submit(test_queue.request(100, 0)).unwrap();
        for (length, offset) in [(1, 0), (1, 99), (200, 0)] {
            let rejected = test_queue.queue.submit(test_queue.request(length, offset)).unwrap_err();
            assert_eq!(rejected.why, RejectionReason::Refused(Refusal::InUse { with }));
        }
        test_queue.queue.submit(test_queue.request(2, 104)).unwrap();
        test_queue.queue.submit(test_queue.request(3, 0).fenced()).unwrap();
        assert_eq!(test_queue.wait_for_start(), 100);
        test_queue.end_all(3);
        test_queue.expect_successes(3);
        test_queue.queue.submit(test_queue.request(4, 0)).unwrap();
        test_queue.end.send(Ok(())).unwrap();
        assert_eq!(test_queue.completion().result, Ok(()));
    }
}
