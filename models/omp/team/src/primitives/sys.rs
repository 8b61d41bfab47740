//! System calls and processor primitives of the run-time.
//!
//! Words that workers wait on may be in memory shared by several processes. In that case futexes are not
//! private, unless the memory has no pages known to the kernel.

use std::ffi::c_void;
use std::fmt::{self, Write as _};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// Flags of this process's futexes: `FUTEX_PRIVATE_FLAG` or 0.
static FUTEX_FLAGS: AtomicI32 = AtomicI32::new(0);

/// Makes futexes private, for jobs whose workers are threads of one process: the kernel then need not look up
/// their pages.
pub fn use_private_futexes() {
    FUTEX_FLAGS.store(libc::FUTEX_PRIVATE_FLAG, Ordering::Relaxed);
}

/// Returns the flags of this process's futexes: `FUTEX_PRIVATE_FLAG` or 0.
#[must_use]
pub fn futex_flags() -> i32 {
    FUTEX_FLAGS.load(Ordering::Relaxed)
}

/// Makes futexes private if the kernel does not support shared ones for this word, as in memory of a device.
/// Returns whether it did.
pub fn use_private_futexes_if_needed(word: &AtomicU32) -> bool {
    let other = word.load(Ordering::Relaxed).wrapping_add(1);
    // SAFETY: the word is alive; as its value differs, the kernel does not wait.
    let result = unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, other, ptr::null::<libc::timespec>())
    };
    let own = result < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT);
    if own {
        FUTEX_FLAGS.store(libc::FUTEX_PRIVATE_FLAG, Ordering::Relaxed);
    }
    own
}

/// Sleeps until `word` is woken; returns at once if it is not `expected`. May also return spuriously.
pub fn futex_wait(word: &AtomicU32, expected: u32) {
    // SAFETY: the word is alive as long as the reference, and the kernel only reads it.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | FUTEX_FLAGS.load(Ordering::Relaxed),
            expected,
            ptr::null::<libc::timespec>(),
        );
    }
}

/// Sleeps as [`futex_wait`] does, for at most `milliseconds`.
pub fn futex_wait_for(word: &AtomicU32, expected: u32, milliseconds: u32) {
    let time = libc::timespec {
        tv_sec: i64::from(milliseconds / 1000),
        tv_nsec: i64::from(milliseconds % 1000) * 1_000_000,
    };
    // SAFETY: the word and the time outlive the call, and the kernel only reads them.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | FUTEX_FLAGS.load(Ordering::Relaxed),
            expected,
            &raw const time,
        );
    }
}

/// Wakes up to `count` threads that sleep on `word`.
pub fn futex_wake(word: &AtomicU32, count: u32) {
    // SAFETY: the kernel takes the address as a key and touches no memory.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | FUTEX_FLAGS.load(Ordering::Relaxed),
            count,
        );
    }
}

// SAFETY: declared as in the C library.
unsafe extern "C" {
    fn pthread_setcancelstate(state: i32, before: *mut i32) -> i32;
    fn pthread_testcancel();
}

/// Ends the calling thread if it was already cancelled, and disables the C library's cancellation from then
/// on. The thread must hold nothing that needs to be released.
pub fn disable_cancellation() {
    const DISABLE: i32 = 1;
    full_fence();
    // SAFETY: the only pointer is null, which is permitted.
    unsafe {
        pthread_testcancel();
        pthread_setcancelstate(DISABLE, ptr::null_mut());
    }
}

/// Sleeps for a number of microseconds.
pub fn sleep_for(microseconds: u32) {
    let time = libc::timespec {
        tv_sec: i64::from(microseconds / 1_000_000),
        tv_nsec: i64::from(microseconds % 1_000_000) * 1000,
    };
    // SAFETY: the time outlives the call; the remaining time is not requested.
    unsafe { libc::nanosleep(&raw const time, ptr::null_mut()) };
}

/// Returns the time of the monotonic clock in nanoseconds.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every Linux, and `time` is local.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Yields the processor to other runnable threads.
pub fn yield_now() {
    // SAFETY: the call has no arguments and touches no memory.
    unsafe { libc::sched_yield() };
}

/// Returns how often the calling thread was preempted (involuntary context switches).
pub fn preemption_count() -> i64 {
    // SAFETY: plain numbers, for which zero is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the record is local. A kernel that refuses leaves it unchanged.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_nivcsw
}

/// Migrates the calling thread to another of the processors that it may run on, if there is one.
pub fn move_to_other_processor() {
    let all = affinity();
    // SAFETY: the call has no arguments.
    let here = usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(usize::MAX);
    if count(&all) < 2 || !includes(&all, here) {
        return;
    }
    let mut others = all;
    // SAFETY: the number is within the mask, as checked above.
    unsafe { libc::CPU_CLR(here, &mut others) };
    // The kernel migrates the thread at once; afterwards it may choose any processor again.
    if bind(&others) {
        bind(&all);
    }
}

/// Set of processors, as a mask by number.
pub type Processors = libc::cpu_set_t;

/// Returns the processors that the calling thread may run on.
pub fn affinity() -> Processors {
    // SAFETY: an empty mask is a valid value, all of whose bytes are zero.
    let mut set: Processors = unsafe { std::mem::zeroed() };
    // SAFETY: the mask is local and has the size given.
    let failed = unsafe { libc::sched_getaffinity(0, size_of::<Processors>(), &raw mut set) } != 0;
    if failed {
        include(&mut set, 0);
    }
    set
}

/// Restricts the calling thread to these processors. Returns whether the kernel agreed.
pub fn bind(set: &Processors) -> bool {
    // SAFETY: the mask is only read and has the size given.
    unsafe { libc::sched_setaffinity(0, size_of::<Processors>(), set) == 0 }
}

/// Whether a processor is in the mask.
pub fn includes(set: &Processors, processor: usize) -> bool {
    // SAFETY: the number is within the mask.
    processor < limit() && unsafe { libc::CPU_ISSET(processor, set) }
}

/// Adds a processor to the mask; ignores one beyond its end.
pub fn include(set: &mut Processors, processor: usize) {
    if processor < limit() {
        // SAFETY: the number is within the mask.
        unsafe { libc::CPU_SET(processor, set) };
    }
}

/// Returns the number of processors in the mask, at least 1.
pub fn count(set: &Processors) -> u32 {
    // SAFETY: the mask is only read.
    u32::try_from(unsafe { libc::CPU_COUNT(set) }).unwrap_or(1).max(1)
}

/// Returns the number of processors that a mask can hold.
pub const fn limit() -> usize {
    size_of::<Processors>() * 8
}

/// Registers a function that each child of a `fork` calls before `fork` returns there. Does nothing if the C
/// library is out of memory.
pub fn at_fork_in_child(call: extern "C" fn()) {
    // SAFETY: the C library's function; `call` stays loaded as long as this library, which is never unloaded.
    let _ = unsafe { libc::pthread_atfork(None, None, Some(call)) };
}

/// Reserves memory: readable, writable, zeroed, with pages allocated on first access.
pub fn reserve(length: usize) -> Option<*mut u8> {
    // SAFETY: a new mapping anywhere; it replaces nothing.
    let base = unsafe {
        libc::mmap(
            ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    (base != libc::MAP_FAILED).then_some(base.cast())
}

/// Start function of a thread of this process.
pub type Start = extern "C" fn(*mut libc::c_void) -> *mut libc::c_void;

/// Starts a detached thread. A `stack` of 0 gives it the system's default size.
///
/// # Errors
/// The error number that the C library returned.
pub fn start_thread<T: Sync>(stack: usize, start: Start, argument: &'static T) -> Result<(), i32> {
    // SAFETY: an attribute object is plain data until it is initialised in the next line.
    let mut attributes: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
    // SAFETY: the attributes are local and destroyed below. The thread's argument is never freed.
    unsafe {
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
        // musl's own default is 128 KiB; that of glibc is the limit of the system.
        let stack = if stack == 0 && cfg!(target_env = "musl") { default_stack_bytes() } else { stack };
        if stack > 0 {
            libc::pthread_attr_setstacksize(&raw mut attributes, stack);
        }
        // A number in one C library, a pointer in another; it is written and not used.
        let mut thread = std::mem::zeroed();
        let argument = ptr::from_ref(argument).cast_mut().cast();
        let failure = libc::pthread_create(&raw mut thread, &raw const attributes, start, argument);
        libc::pthread_attr_destroy(&raw mut attributes);
        if failure == 0 { Ok(()) } else { Err(failure) }
    }
}

/// Returns the default size of a thread's stack: the limit of the first thread's (`ulimit -s`), or 8 MiB
/// without a limit.
fn default_stack_bytes() -> usize {
    const UNLIMITED: usize = 8 << 20;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the record is local.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) } == 0;
    let limited = known && limit.rlim_cur != libc::RLIM_INFINITY;
    usize::try_from(limit.rlim_cur).ok().filter(|_| limited).unwrap_or(UNLIMITED)
}

/// Returns the calling thread's id in the kernel (tid).
pub fn thread_id() -> u64 {
    // SAFETY: the call has no arguments.
    u64::try_from(unsafe { libc::syscall(libc::SYS_gettid) }).unwrap_or(0)
}

/// Returns the calling thread's `pthread_t`: a number in one C library, an address in another.
pub fn pthread_handle() -> usize {
    // SAFETY: the call has no arguments.
    unsafe { libc::pthread_self() as usize }
}

/// Whether the calling thread is the first of its process.
pub fn is_first_thread() -> bool {
    // SAFETY: the call has no arguments.
    u64::try_from(unsafe { libc::getpid() }).is_ok_and(|process| process == thread_id())
}

/// Buffer of a message to standard error. Needs no heap, which may be exhausted.
struct Message {
    bytes: [u8; 1024],
    length: usize,
}

impl Message {
    fn flush(&mut self) {
        write_to_standard_error(&self.bytes[..self.length]);
        self.length = 0;
    }
}

impl fmt::Write for Message {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let bytes = text.as_bytes();
        if bytes.len() > self.bytes.len() - self.length {
            self.flush();
        }
        match self.bytes.get_mut(self.length..self.length + bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.length += bytes.len();
            }
            None => write_to_standard_error(bytes),
        }
        Ok(())
    }
}

fn write_to_standard_error(bytes: &[u8]) {
    // SAFETY: the bytes are alive and have the length given; a short or failed write is accepted.
    unsafe { libc::write(2, bytes.as_ptr().cast(), bytes.len()) };
}

/// Returns the calling thread's `errno`.
#[must_use]
pub fn errno() -> usize {
    // SAFETY: the C library provides a valid address for this thread.
    usize::try_from(unsafe { *libc::__errno_location() }).unwrap_or(0)
}

/// Sets the calling thread's `errno`.
pub fn set_errno(number: usize) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = i32::try_from(number).unwrap_or(0) };
}

/// Writes to standard error, in one call unless the text is long. Allocates nothing.
pub fn print_error(text: impl fmt::Display) {
    let mut message = Message { bytes: [0; 1024], length: 0 };
    let _ = write!(message, "{text}");
    message.flush();
}

/// Signals raised synchronously by a thread's own actions.
const SYNCHRONOUS_SIGNALS: [i32; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT, libc::SIGSYS];

/// Original signal mask of the process's first thread, once that blocks all signals.
static ORIGINAL_MASK: OnceLock<libc::sigset_t> = OnceLock::new();

/// Blocks signals in the calling thread and the threads that it creates, so that other threads of the process
/// handle them. Called once per process.
pub fn block_signals() {
    // SAFETY: local sets, which the calls write and read.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        for signal in SYNCHRONOUS_SIGNALS {
            libc::sigdelset(&raw mut all, signal);
        }
        if libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before) == 0 {
            let _ = ORIGINAL_MASK.set(before);
        }
    }
}

/// Restores the original signal mask of the process's first thread, if that blocks signals.
pub fn restore_signal_mask() {
    if let Some(before) = ORIGINAL_MASK.get() {
        // SAFETY: the set is only read.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, ptr::null_mut()) };
    }
}

/// Calls `run` with all signals blocked in the calling thread.
pub fn with_signals_blocked<T>(run: impl FnOnce() -> T) -> T {
    // SAFETY: local sets, which the calls write and read.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
        let result = run();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        result
    }
}

/// Ends the program, with its exit handlers run.
pub fn exit(status: i32) -> ! {
    // SAFETY: the program's exit handlers are meant to run now.
    unsafe { libc::exit(status) }
}

/// Ends this process at once, without exit handlers.
pub fn exit_now(status: i32) -> ! {
    loop {
        // SAFETY: the call has no pointers and does not return. The C library's `_exit` would end the
        // program's process, which may be another one.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

/// Ends the program with a message, because it requested something impossible. Flushes `stdout` where streams
/// are private to the process. Allocates nothing.
pub fn fatal(text: impl fmt::Display) -> ! {
    print_error(format_args!("tombolo omp: {text}\n"));
    // In an image, streams are shared by all processes and may be in pages that this one does not have.
    #[cfg(target_env = "gnu")]
    try_flush_stdout();
    exit_now(1)
}

/// Flushes `stdout` unless another thread has it locked. Returns whether it did.
pub fn try_flush_stdout() -> bool {
    // SAFETY: the C library's own stream, unlocked by the thread that locked it.
    unsafe {
        let locked = ftrylockfile(stdout) == 0;
        if locked {
            libc::fflush(stdout);
            funlockfile(stdout);
        }
        locked
    }
}

// SAFETY: declared as in the C library.
unsafe extern "C" {
    static stdout: *mut libc::FILE;
    fn ftrylockfile(stream: *mut libc::FILE) -> i32;
    fn funlockfile(stream: *mut libc::FILE);
}

// Word of thread-local storage with a pointer to the calling thread's record. Uses the "initial exec" model,
// with an offset fixed at load time: a call to find the word would take longer than the rest of many entry
// points.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .tbss.tombolo_omp_me,\"awT\",@nobits",
    ".hidden tombolo_omp_me",
    ".globl tombolo_omp_me",
    ".type tombolo_omp_me, @object",
    ".size tombolo_omp_me, 8",
    ".p2align 3",
    "tombolo_omp_me:",
    ".zero 8",
    ".popsection",
);

#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".pushsection .tbss.tombolo_omp_me,\"awT\",%nobits",
    ".hidden tombolo_omp_me",
    ".globl tombolo_omp_me",
    ".type tombolo_omp_me, %object",
    ".size tombolo_omp_me, 8",
    ".p2align 3",
    "tombolo_omp_me:",
    ".zero 8",
    ".popsection",
);

/// Returns the address of the calling thread's word.
#[inline]
fn slot() -> *mut *const c_void {
    super::thread_variable::own_address!("tombolo_omp_me")
}

/// Returns the calling thread's record as set by [`crate::primitives::local`]; null before that.
#[inline]
pub(super) fn thread_record() -> *const c_void {
    // SAFETY: the word is this thread's own, aligned, and initially zero.
    unsafe { *slot() }
}

/// Sets the record of the calling thread.
pub(super) fn set_thread_record(record: *const c_void) {
    // SAFETY: the word is this thread's own.
    unsafe { *slot() = record };
}

/// Budget of turns for spinning.
#[derive(Debug)]
pub struct Spin {
    left: u64,
}

impl Spin {
    /// Allows `left` turns of spinning.
    pub fn turns(left: u64) -> Self {
        Self { left }
    }

    /// Spins for one turn; returns false when the budget is used up.
    #[inline]
    pub fn turn(&mut self) -> bool {
        std::hint::spin_loop();
        self.left = self.left.saturating_sub(1);
        self.left > 0
    }
}

/// Full fence, between a store and a later load; pairs with the same on the other side.
#[inline]
pub fn full_fence() {
    // A locked operation on a cached line takes half as long as the `mfence` that compilers emit for a fence.
    // SAFETY: changes nothing.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("lock or dword ptr [rsp], 0", options(nostack));
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affinity_is_kept_after_a_move() {
        let before = affinity();
        move_to_other_processor();
        let after = affinity();
        let numbers = |set: &Processors| (0..limit()).filter(|&at| includes(set, at)).collect::<Vec<_>>();
        assert_eq!(numbers(&before), numbers(&after));
        // With only one processor available, it stays there.
        std::thread::spawn(move || {
            let first = numbers(&before)[0];
            // SAFETY: an empty mask is a valid value, all of whose bytes are zero.
            let mut one: Processors = unsafe { std::mem::zeroed() };
            include(&mut one, first);
            assert!(bind(&one));
            move_to_other_processor();
            assert_eq!(numbers(&affinity()), [first]);
        })
        .join()
        .expect("no panic");
    }
}
