//! What a thread of any process asks of the hub, and waits for.

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use tombolo_omp_team::team::shown::Activity;
use tombolo_omp_team::team::thread::Thread;
use tombolo_omp_team::team::waiting;

use crate::send_queue;

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum RequestKind {
    /// Data is to be replicated: where it begins, and how many bytes it has.
    Replicate = 1,
    /// It is to be shared again.
    Share = 2,
    /// A call is to be made by another process, as [`serve_calls`] says: the third word is the process, 0 for
    /// that of the program, the others in the order in which they were started.
    Call = 3,
}

/// A request. It lies in the arena.
#[repr(C)]
pub struct Request {
    kind: u32,
    /// What it is about.
    pub(crate) words: [u64; 4],
    error: AtomicU32,
    result: AtomicU64,
    done: AtomicU32,
    /// The next in a list of those that the process is to pass on.
    next: AtomicPtr<Request>,
    caller: &'static Thread,
}

/// What a call's words say, and what comes of it.
pub type Serve = fn([u64; 4]) -> u64;

static SERVE: OnceLock<Serve> = OnceLock::new();

/// Sets the function that makes calls in this process.
pub fn serve_calls(serve: Serve) {
    let _ = SERVE.set(serve);
}

impl Request {
    /// What is asked for; `None` for what no thread asks for.
    pub(crate) fn kind(&self) -> Option<RequestKind> {
        [RequestKind::Replicate, RequestKind::Share, RequestKind::Call]
            .into_iter()
            .find(|kind| *kind as u32 == self.kind)
    }

    /// Keeps an error, unless there is one.
    pub(crate) fn fail(&self, error: u64) {
        let error = u32::try_from(error).unwrap_or(u32::MAX);
        let _ = self.error.compare_exchange(0, error, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Says that it is done; the record may be gone afterwards.
    pub(crate) fn answer(&self, error: u64) {
        self.fail(error);
        let caller = self.caller;
        self.done.store(1, Ordering::Release);
        caller.parker.tell();
    }

    /// Makes the call in this process.
    pub(crate) fn serve(&'static self) {
        if let Some(serve) = SERVE.get() {
            self.result.store(serve(self.words), Ordering::Relaxed);
        }
        self.answer(0);
    }
}

/// Asks, and waits for the answer: the system's number of an error, or 0, and the result of a call.
pub fn ask(me: &'static Thread, kind: RequestKind, words: [u64; 4]) -> (i32, u64) {
    let request = me.store().place(Request {
        kind: kind as u32,
        words,
        error: AtomicU32::new(0),
        result: AtomicU64::new(0),
        done: AtomicU32::new(0),
        next: AtomicPtr::new(ptr::null_mut()),
        caller: me,
    });
    let activity = me.shown.activity();
    if kind == RequestKind::Call {
        me.shown.does(Activity::Calls);
    }
    ASKED.enter(request);
    send_queue::ring();
    waiting::until_surely(me, || request.done.load(Ordering::Acquire) != 0);
    me.shown.does(activity);
    let answer =
        (request.error.load(Ordering::Relaxed).cast_signed(), request.result.load(Ordering::Relaxed));
    // SAFETY: it came from the store, and the process that answered does not look at it again.
    unsafe { me.store().release(ptr::from_ref(request).cast_mut().cast()) };
    answer
}

/// Requests that the first thread of this process has not passed on yet. Like
/// [parkers](tombolo_omp_team::primitives::wake_domain::List), they are entered without a lock.
struct Asked(AtomicPtr<Request>);

static ASKED: Asked = Asked(AtomicPtr::new(ptr::null_mut()));

impl Asked {
    fn enter(&self, request: &'static Request) {
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

/// Takes out what was asked for since the last call: the addresses of requests.
pub(crate) fn take(mut pass_on: impl FnMut(u64)) {
    let mut at = ASKED.0.swap(ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: a request is there until it is answered, which has not happened yet.
    while let Some(request) = unsafe { at.as_ref() } {
        at = request.next.load(Ordering::Relaxed);
        pass_on(ptr::from_ref(request) as u64);
    }
}
