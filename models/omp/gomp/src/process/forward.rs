//! Calls of the C library that a worker's process has done by the program's process.
//!
//! What a call is given lies in memory that all processes of a job have at the same addresses: stacks, the
//! heap, the program's variables and constants. So its words are all that goes across. A thread of the
//! program's process makes the call (`tombolo_omp_domains::calls`), and the caller waits for its result and
//! for `errno`.

use std::cell::Cell;
use std::ffi::{c_int, c_long, c_uint};
use std::ptr;
use std::sync::OnceLock;

use tombolo_omp_domains::request::{self, RequestKind};
use tombolo_omp_team::job::start;
use tombolo_omp_team::primitives::{exclusive, sys};
use tombolo_omp_team::team::root;
use tombolo_omp_team::team::thread::Thread;

use super::interrupts;
use crate::cancellation;

/// What a call fails with that a signal interrupts.
const EINTR: usize = libc::EINTR as usize;

/// The number of the program's process.
pub(crate) const PROGRAM: u64 = 0;
/// Arguments of a call at most.
pub(crate) const WORDS: usize = 7;

/// A call on its way. It lies in the arena, as its caller's stack may not.
#[repr(C)]
struct Frame {
    words: [u64; WORDS],
    errno: Cell<u64>,
    /// The record of the thread that the program has, if the call is one that its cancellation interrupts.
    caller: Option<&'static Thread>,
    /// Whether that interrupted it.
    is_interrupted: Cell<bool>,
}

/// An argument or a result as a word.
pub(crate) trait Word: Copy {
    fn to_word(self) -> u64;
    fn from_word(word: u64) -> Self;
}

macro_rules! words {
    ($($type:ty),*) => {$(
        impl Word for $type {
            fn to_word(self) -> u64 {
                self as u64
            }
            fn from_word(word: u64) -> Self {
                word as Self
            }
        }
    )*};
}
words!(c_int, c_uint, c_long, usize, isize);

impl<T> Word for *mut T {
    fn to_word(self) -> u64 {
        self as u64
    }
    fn from_word(word: u64) -> Self {
        word as Self
    }
}

impl<T> Word for *const T {
    fn to_word(self) -> u64 {
        self as u64
    }
    fn from_word(word: u64) -> Self {
        word as Self
    }
}

/// Whether the caller is a thread of the program in a worker's process. The run-time's own threads have
/// stacks of their process.
pub(crate) fn is_elsewhere() -> bool {
    let here = 0_u8;
    exclusive::is_worker() && root::current().is_some_and(|root| root.store.holds((&raw const here) as usize))
}

/// Makes a call of the C library in the program's process: asks for it, or makes it here.
pub(crate) fn call<T>(ask: impl FnOnce() -> T, here: impl FnOnce() -> T) -> T {
    if is_elsewhere() { ask() } else { here() }
}

/// Has the program's process make the call with a number, and waits for it.
pub(super) fn ask(number: usize, arguments: &[u64]) -> u64 {
    ask_in(PROGRAM, number, arguments).unwrap_or(0)
}

/// Has a process of the job make a call, by its number, and waits for it. `None` if there is no such process.
pub(crate) fn ask_in(process: u64, number: usize, arguments: &[u64]) -> Option<u64> {
    match cancellation::interruptible() {
        None => ask_for(None, process, number, arguments),
        Some(caller) => {
            let call = || ask_for(Some(caller), process, number, arguments);
            caller.cancellation.call(process, call).unwrap_or_else(|| {
                cancellation::was_interrupted();
                Some(0)
            })
        }
    }
}

/// The same, for a thread whose cancellation interrupts the call.
fn ask_for(caller: Option<&'static Thread>, process: u64, number: usize, arguments: &[u64]) -> Option<u64> {
    let me = start::current();
    let frame = Frame { words: [0; WORDS], errno: Cell::new(0), caller, is_interrupted: Cell::new(false) };
    let mut words = frame.words;
    words[..arguments.len()].copy_from_slice(arguments);
    let frame = me.store().place(Frame { words, ..frame });
    let words = [number as u64, ptr::from_ref(frame) as u64, process, 0];
    let (error, result) = request::ask(me, RequestKind::Call, words);
    let (errno, is_interrupted) = (frame.errno.get(), frame.is_interrupted.get());
    // SAFETY: it came from the store, and the process that answered does not look at it again.
    unsafe { me.store().release(ptr::from_ref(frame).cast_mut().cast()) };
    if error != 0 {
        return None;
    }
    let is_due = || caller.is_some_and(|caller| caller.cancellation.is_due());
    if is_interrupted || errno == EINTR as u64 && is_due() {
        cancellation::was_interrupted();
    }
    if errno != 0 {
        sys::set_errno(usize::try_from(errno).unwrap_or(0));
    }
    Some(result)
}

/// What makes a call of these words.
pub(crate) type Call = unsafe fn(&[u64; WORDS]) -> u64;

/// Calls that this crate makes in a way of its own: they have the first numbers.
#[derive(Clone, Copy)]
pub(crate) enum Own {
    Getpid,
    Open,
    Openat,
    Fcntl,
    Pipe2,
    Fstatat,
    Fflush,
    Exit,
    ExitAtOnce,
    Sigaction,
    Join,
    Kill,
    Cancel,
    Interrupt,
}

/// How many these are; the others follow.
pub(crate) const OWN: usize = Own::Interrupt as usize + 1;

/// What makes the calls of this process, by their numbers.
static CALLS: OnceLock<([Call; OWN], &[Call])> = OnceLock::new();

/// Has this process make calls for others.
pub(crate) fn serve(own: [Call; OWN], others: &'static [Call]) {
    let _ = CALLS.set((own, others));
    request::serve_calls(make);
}

/// Makes a call for a thread of another process, in this one.
fn make([number, frame, ..]: [u64; 4]) -> u64 {
    let frame = frame as *const Frame;
    let find = |(own, others): &([Call; OWN], &[Call])| {
        let number = usize::try_from(number).ok()?;
        own.get(number).or_else(|| others.get(number.checked_sub(OWN)?)).copied()
    };
    let Some(call) = CALLS.get().and_then(find) else { return 0 };
    // SAFETY: a thread of the job waits for this, does not touch it meanwhile, and had the C library's words.
    unsafe {
        let frame = &*frame;
        sys::set_errno(0);
        let result = match frame.caller {
            None => call(&frame.words),
            Some(caller) => {
                let (result, is_interrupted) = interrupts::serve(caller, || call(&frame.words));
                frame.is_interrupted.set(is_interrupted);
                result
            }
        };
        frame.errno.set(sys::errno() as u64);
        result
    }
}
