//! Requests that threads of any process send to the hub, and wait for.

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use tombolo_omp_team::team::thread::Thread;
use tombolo_omp_team::team::thread_status::Activity;
use tombolo_omp_team::team::waiting;

use crate::send_queue;

/// Operation that a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum RequestKind {
    /// Replicate data. Words: address of the data and its length in bytes.
    Replicate = 1,
    /// Share replicated data again. Words as for `Replicate`.
    Restore = 2,
    /// Make a call in another process through [`set_call_handler`]. The third word is the number of the
    /// process: 0 for the program's own, the others in the order in which they were started.
    Call = 3,
}

/// Request record, allocated in the arena so that all processes can access it.
#[repr(C)]
pub struct Request {
    kind: u32,
    /// Arguments, whose meaning depends on the kind.
    pub(crate) words: [u64; 4],
    error: AtomicU32,
    result: AtomicU64,
    done: AtomicU32,
    /// Next request in the list of those that the process has yet to forward.
    next: AtomicPtr<Request>,
    caller: &'static Thread,
}

/// Function that makes a call, given the words of the request, and returns the result.
pub type CallHandler = fn([u64; 4]) -> u64;

static CALL_HANDLER: OnceLock<CallHandler> = OnceLock::new();

/// Sets the function that serves call requests in this process.
pub fn set_call_handler(handler: CallHandler) {
    let _ = CALL_HANDLER.set(handler);
}

impl Request {
    /// Operation of the request; `None` if its number is invalid.
    pub(crate) fn kind(&self) -> Option<RequestKind> {
        [RequestKind::Replicate, RequestKind::Restore, RequestKind::Call]
            .into_iter()
            .find(|kind| *kind as u32 == self.kind)
    }

    /// Records an error number unless one is already recorded.
    pub(crate) fn set_error(&self, error: u64) {
        let error = u32::try_from(error).unwrap_or(u32::MAX);
        let _ = self.error.compare_exchange(0, error, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Completes the request and wakes the caller. The record may be freed as soon as this returns.
    pub(crate) fn complete(&self, error: u64) {
        self.set_error(error);
        let caller = self.caller;
        self.done.store(1, Ordering::Release);
        caller.parker.fence_and_wake();
    }

    /// Makes the call in this process and completes the request.
    pub(crate) fn serve(&'static self) {
        if let Some(handler) = CALL_HANDLER.get() {
            self.result.store(handler(self.words), Ordering::Relaxed);
        }
        self.complete(0);
    }
}

/// Sends a request to the hub and waits for its completion. Returns the errno value of a failure, or 0, and
/// the result of a call.
pub fn send_and_wait(me: &'static Thread, kind: RequestKind, words: [u64; 4]) -> (i32, u64) {
    let request = me.store().place(Request {
        kind: kind as u32,
        words,
        error: AtomicU32::new(0),
        result: AtomicU64::new(0),
        done: AtomicU32::new(0),
        next: AtomicPtr::new(ptr::null_mut()),
        caller: me,
    });
    let activity = me.status.activity();
    if kind == RequestKind::Call {
        me.status.set_activity(Activity::Calling);
    }
    REQUESTS.push(request);
    send_queue::wake_first_thread();
    waiting::until_true(me, || request.done.load(Ordering::Acquire) != 0);
    me.status.set_activity(activity);
    let answer =
        (request.error.load(Ordering::Relaxed).cast_signed(), request.result.load(Ordering::Relaxed));
    // SAFETY: it came from the store, and the process that completed it does not access it again.
    unsafe { me.store().release(ptr::from_ref(request).cast_mut().cast()) };
    answer
}

/// Requests that the first thread of this process has not forwarded yet. Like
/// [parkers](tombolo_omp_team::primitives::wake_domain::ParkerList), they are pushed without a lock.
struct RequestList(AtomicPtr<Request>);

static REQUESTS: RequestList = RequestList(AtomicPtr::new(ptr::null_mut()));

impl RequestList {
    fn push(&self, request: &'static Request) {
        let mut first = self.0.load(Ordering::Relaxed);
        loop {
            request.next.store(first, Ordering::Relaxed);
            let entry = ptr::from_ref(request).cast_mut();
            match self.0.compare_exchange_weak(first, entry, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }
}

/// Removes all requests made since the last call and passes their addresses to `forward`.
pub(crate) fn drain(mut forward: impl FnMut(u64)) {
    let mut at = REQUESTS.0.swap(ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: a request stays allocated until it is completed, which has not happened yet.
    while let Some(request) = unsafe { at.as_ref() } {
        at = request.next.load(Ordering::Relaxed);
        forward(ptr::from_ref(request) as u64);
    }
}
