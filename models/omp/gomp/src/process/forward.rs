//! Forwarding of C library calls from a worker's process to the program's process.
//!
//! All arguments of a call point to memory that every process of a job has at the same addresses: stacks, the
//! heap, the program's variables and constants. So only the argument words are sent. A thread of the
//! program's process makes the call (`tombolo_omp_domains::calls`), and the caller waits for its result and
//! for `errno`.

use std::cell::Cell;
use std::ffi::{c_int, c_long, c_uint};
use std::ptr;
use std::sync::OnceLock;

use tombolo_omp_domains::request::{self, RequestKind};
use tombolo_omp_team::job::start;
use tombolo_omp_team::primitives::{separate_processes, sys};
use tombolo_omp_team::team::root;
use tombolo_omp_team::team::thread::Thread;

use super::interrupts;
use crate::cancellation;

/// Errno value of a call that a signal interrupted.
const EINTR: usize = libc::EINTR as usize;

/// The number of the program's process.
pub(crate) const PROGRAM: u64 = 0;
/// Maximum number of arguments of a call.
pub(crate) const WORDS: usize = 7;

/// Call in flight. It is allocated in the arena, because its caller's stack may be elsewhere.
#[repr(C)]
struct Frame {
    words: [u64; WORDS],
    errno: Cell<u64>,
    /// Record of the program's thread, if its cancellation interrupts the call.
    caller: Option<&'static Thread>,
    /// Whether cancellation interrupted the call.
    is_interrupted: Cell<bool>,
}

/// Conversion of arguments and results to and from words.
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

/// Returns whether the caller is a thread of the program in a worker's process. The run-time's own threads
/// have stacks outside the arena.
pub(crate) fn is_in_worker_process() -> bool {
    let here = 0_u8;
    separate_processes::is_worker_process()
        && root::current().is_some_and(|root| root.store.contains((&raw const here) as usize))
}

/// Makes a C library call in the program's process: forwards it with `remote`, or makes it with `local`.
pub(crate) fn call<T>(remote: impl FnOnce() -> T, local: impl FnOnce() -> T) -> T {
    if is_in_worker_process() { remote() } else { local() }
}

/// Forwards the call with this number to the program's process and waits for its result.
pub(super) fn forward_call(number: usize, arguments: &[u64]) -> u64 {
    forward_to(PROGRAM, number, arguments).unwrap_or(0)
}

/// Forwards a call to a process of the job and waits for its result. Returns `None` if there is no such
/// process.
pub(crate) fn forward_to(process: u64, number: usize, arguments: &[u64]) -> Option<u64> {
    match cancellation::interruptible_caller() {
        None => forward_for(None, process, number, arguments),
        Some(caller) => {
            let call = || forward_for(Some(caller), process, number, arguments);
            caller.cancellation.call(process, call).unwrap_or_else(|| {
                cancellation::set_interrupted();
                Some(0)
            })
        }
    }
}

/// Forwards a call; the cancellation of `caller`, if given, interrupts it.
fn forward_for(
    caller: Option<&'static Thread>,
    process: u64,
    number: usize,
    arguments: &[u64],
) -> Option<u64> {
    let me = start::current();
    let frame = Frame { words: [0; WORDS], errno: Cell::new(0), caller, is_interrupted: Cell::new(false) };
    let mut words = frame.words;
    words[..arguments.len()].copy_from_slice(arguments);
    let frame = me.store().place(Frame { words, ..frame });
    let words = [number as u64, ptr::from_ref(frame) as u64, process, 0];
    let (error, result) = request::send_and_wait(me, RequestKind::Call, words);
    let (errno, is_interrupted) = (frame.errno.get(), frame.is_interrupted.get());
    // SAFETY: the frame came from the store, and the process that made the call does not access it again.
    unsafe { me.store().release(ptr::from_ref(frame).cast_mut().cast()) };
    if error != 0 {
        return None;
    }
    let is_due = || caller.is_some_and(|caller| caller.cancellation.is_due());
    if is_interrupted || errno == EINTR as u64 && is_due() {
        cancellation::set_interrupted();
    }
    if errno != 0 {
        sys::set_errno(usize::try_from(errno).unwrap_or(0));
    }
    Some(result)
}

/// Function that makes a call, given its argument words.
pub(crate) type Call = unsafe fn(&[u64; WORDS]) -> u64;

/// Calls with implementations of this crate's own; they have the lowest numbers.
#[derive(Clone, Copy)]
pub(crate) enum OwnCall {
    Getpid,
    Open,
    Openat,
    Fcntl,
    Pipe2,
    Fstatat,
    Fflush,
    Exit,
    ImmediateExit,
    Sigaction,
    Join,
    Kill,
    Cancel,
    Interrupt,
}

/// Number of these calls; the numbers of the others follow.
pub(crate) const OWN_CALLS: usize = OwnCall::Interrupt as usize + 1;

/// Functions that make the calls in this process, indexed by number.
static CALLS: OnceLock<([Call; OWN_CALLS], &[Call])> = OnceLock::new();

/// Registers the functions that serve forwarded calls in this process.
pub(crate) fn register(own: [Call; OWN_CALLS], others: &'static [Call]) {
    let _ = CALLS.set((own, others));
    request::set_call_handler(execute);
}

/// Makes a call in this process for a thread of another process.
fn execute([number, frame, ..]: [u64; 4]) -> u64 {
    let frame = frame as *const Frame;
    let find = |(own, others): &([Call; OWN_CALLS], &[Call])| {
        let number = usize::try_from(number).ok()?;
        own.get(number).or_else(|| others.get(number.checked_sub(OWN_CALLS)?)).copied()
    };
    let Some(call) = CALLS.get().and_then(find) else { return 0 };
    // SAFETY: the frame's owner waits for the result and does not access the frame meanwhile; the words are
    // arguments of this function.
    unsafe {
        let frame = &*frame;
        sys::set_errno(0);
        let result = match frame.caller {
            None => call(&frame.words),
            Some(caller) => {
                let (result, is_interrupted) =
                    interrupts::execute_interruptible(caller, || call(&frame.words));
                frame.is_interrupted.set(is_interrupted);
                result
            }
        };
        frame.errno.set(sys::errno() as u64);
        result
    }
}
