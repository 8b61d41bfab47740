//! Calls of the C library that a worker's process has done by the program's process.
//!
//! What a call is given lies in memory that all processes of a job have at the same addresses: stacks, the
//! heap, the program's variables and constants. So its words are all that goes across. A thread of the
//! program's process makes the call (`tombolo_omp_domains::calls`), and the caller waits for its result and
//! for `errno`.

use std::ffi::{c_int, c_long, c_uint};
use std::ptr;
use std::sync::OnceLock;

use tombolo_omp_domains::request::{self, RequestKind};
use tombolo_omp_team::job::start;
use tombolo_omp_team::primitives::{exclusive, sys};
use tombolo_omp_team::team::root;

/// The number of the program's process.
pub(crate) const PROGRAM: u64 = 0;
/// Arguments of a call at most.
pub(crate) const WORDS: usize = 7;

/// A call on its way. It lies on the caller's stack, which is in the arena.
#[repr(C)]
struct Frame {
    words: [u64; WORDS],
    errno: u64,
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

/// Has the program's process make the call with a number, and waits for it.
pub(super) fn ask(number: usize, arguments: &[u64]) -> u64 {
    ask_in(PROGRAM, number, arguments).unwrap_or(0)
}

/// Has a process of the job make a call, by its number, and waits for it. `None` if there is no such process.
pub(crate) fn ask_in(process: u64, number: usize, arguments: &[u64]) -> Option<u64> {
    let mut frame = Frame { words: [0; WORDS], errno: 0 };
    frame.words[..arguments.len()].copy_from_slice(arguments);
    let words = [number as u64, (&raw mut frame) as u64, process, 0];
    let (error, result) = request::ask(start::current(), RequestKind::Call, words);
    if error != 0 {
        return None;
    }
    // SAFETY: the process that answered has written it before, and does not look at it again.
    let errno = unsafe { ptr::read_volatile(&raw const frame.errno) };
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
}

/// How many these are; the others follow.
pub(crate) const OWN: usize = Own::Cancel as usize + 1;

/// What makes the calls of this process, by their numbers.
static CALLS: OnceLock<([Call; OWN], &[Call])> = OnceLock::new();

/// Has this process make calls for others.
pub(crate) fn serve(own: [Call; OWN], others: &'static [Call]) {
    let _ = CALLS.set((own, others));
    request::serve_calls(make);
}

/// Makes a call for a thread of another process, in this one.
fn make([number, frame, ..]: [u64; 4]) -> u64 {
    let frame = frame as *mut Frame;
    let find = |(own, others): &([Call; OWN], &[Call])| {
        let number = usize::try_from(number).ok()?;
        own.get(number).or_else(|| others.get(number.checked_sub(OWN)?)).copied()
    };
    let Some(call) = CALLS.get().and_then(find) else { return 0 };
    // SAFETY: a thread of the job waits for this, on whose stack it lies, and had the C library's words.
    unsafe {
        let words = (*frame).words;
        sys::set_errno(0);
        let result = call(&words);
        (*frame).errno = sys::errno() as u64;
        result
    }
}
