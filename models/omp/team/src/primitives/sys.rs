//! What the runtime asks of Linux and of the processor directly.
//!
//! Words that workers wait on may lie in memory that several processes share. Where it does futexes are not
//! private, unless the kernel knows no pages of that memory.

use std::ffi::c_void;
use std::fmt::{self, Write as _};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// What futexes of this process are: `FUTEX_PRIVATE_FLAG`, or nothing.
static FUTEX: AtomicI32 = AtomicI32::new(0);

/// Makes futexes the process's own, where all workers are threads of it: the kernel finds these without
/// looking for their pages.
pub fn keep_futexes() {
    FUTEX.store(libc::FUTEX_PRIVATE_FLAG, Ordering::Relaxed);
}

/// What futexes of this process are: `FUTEX_PRIVATE_FLAG`, or 0.
#[must_use]
pub fn kind_of_futexes() -> i32 {
    FUTEX.load(Ordering::Relaxed)
}

/// Makes futexes the process's own where the kernel has no others for this word, as in memory of a device.
/// Whether it did.
pub fn keep_futexes_where_they_must_be(word: &AtomicU32) -> bool {
    let other = word.load(Ordering::Relaxed).wrapping_add(1);
    // SAFETY: the word is alive; as its value is another, the kernel does not wait.
    let result = unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, other, ptr::null::<libc::timespec>())
    };
    let own = result < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT);
    if own {
        FUTEX.store(libc::FUTEX_PRIVATE_FLAG, Ordering::Relaxed);
    }
    own
}

/// Sleeps until `word` is woken; returns at once if it is not `expected`. May also return for no reason.
pub fn futex_wait(word: &AtomicU32, expected: u32) {
    // SAFETY: the word is alive as long as the reference, and the kernel only reads it.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | FUTEX.load(Ordering::Relaxed),
            expected,
            ptr::null::<libc::timespec>(),
        );
    }
}

/// As [`futex_wait`], for at most `milliseconds`.
pub fn futex_wait_for(word: &AtomicU32, expected: u32, milliseconds: u32) {
    let time = libc::timespec {
        tv_sec: i64::from(milliseconds / 1000),
        tv_nsec: i64::from(milliseconds % 1000) * 1_000_000,
    };
    // SAFETY: the word and the time are alive as long as the call lasts, and the kernel only reads them.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | FUTEX.load(Ordering::Relaxed),
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
            libc::FUTEX_WAKE | FUTEX.load(Ordering::Relaxed),
            count,
        );
    }
}

// SAFETY: the C library's functions of these names.
unsafe extern "C" {
    fn pthread_setcancelstate(state: i32, before: *mut i32) -> i32;
    fn pthread_testcancel();
}

/// Ends the calling thread if the C library was asked to. From here on it does so only once it is told that
/// it may. The thread has nothing to give back.
pub fn leave_cancellation_for_later() {
    const DISABLE: i32 = 1;
    full_fence();
    // SAFETY: the calls have no other pointer.
    unsafe {
        pthread_testcancel();
        pthread_setcancelstate(DISABLE, ptr::null_mut());
    }
}

/// Sleeps for a while.
pub fn sleep_for(microseconds: u32) {
    let time = libc::timespec {
        tv_sec: i64::from(microseconds / 1_000_000),
        tv_nsec: i64::from(microseconds % 1_000_000) * 1000,
    };
    // SAFETY: the time is alive as long as the call lasts; what is left of it is not wanted.
    unsafe { libc::nanosleep(&raw const time, ptr::null_mut()) };
}

/// Nanoseconds of the monotonic clock.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every Linux, and `time` is ours to write.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Lets others run that want this processor.
pub fn yield_now() {
    // SAFETY: the call has no arguments and touches no memory.
    unsafe { libc::sched_yield() };
}

/// How often the kernel had another thread run in place of the calling one although that could go on.
pub fn times_preempted() -> i64 {
    // SAFETY: numbers, for which zero is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the record is ours to write. A kernel that refuses leaves it as it is.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_nivcsw
}

/// Has the calling thread go on on another of the processors that it may run on, if there is one.
pub fn leave_processor() {
    let all = affinity();
    // SAFETY: the call has no arguments.
    let here = usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(usize::MAX);
    if count(&all) < 2 || !includes(&all, here) {
        return;
    }
    let mut others = all;
    // SAFETY: the number was just found to lie in the mask.
    unsafe { libc::CPU_CLR(here, &mut others) };
    // The kernel moves it at once. Where it goes afterwards is again the kernel's business.
    if bind(&others) {
        bind(&all);
    }
}

/// Processors that this process may run on, as a mask by number.
pub type Processors = libc::cpu_set_t;

/// The processors that the calling thread may run on.
pub fn affinity() -> Processors {
    // SAFETY: an empty mask is a valid value, all of whose bytes are zero.
    let mut set: Processors = unsafe { std::mem::zeroed() };
    // SAFETY: the mask is ours, and its size is told.
    let failed = unsafe { libc::sched_getaffinity(0, size_of::<Processors>(), &raw mut set) } != 0;
    if failed {
        include(&mut set, 0);
    }
    set
}

/// Lets the calling thread run on these processors only. Whether the kernel agreed.
pub fn bind(set: &Processors) -> bool {
    // SAFETY: the mask is read only, and its size is told.
    unsafe { libc::sched_setaffinity(0, size_of::<Processors>(), set) == 0 }
}

/// Whether a processor is in the mask.
pub fn includes(set: &Processors, processor: usize) -> bool {
    // SAFETY: the macro's function checks bounds of the mask that it is given.
    processor < limit() && unsafe { libc::CPU_ISSET(processor, set) }
}

/// Takes a processor into the mask; one beyond the mask is left out.
pub fn include(set: &mut Processors, processor: usize) {
    if processor < limit() {
        // SAFETY: the number was just found to lie in the mask.
        unsafe { libc::CPU_SET(processor, set) };
    }
}

/// How many processors are in the mask.
pub fn count(set: &Processors) -> u32 {
    // SAFETY: the mask is only read.
    u32::try_from(unsafe { libc::CPU_COUNT(set) }).unwrap_or(1).max(1)
}

/// The first number beyond a mask.
pub const fn limit() -> usize {
    size_of::<Processors>() * 8
}

/// Reserves memory for the runtime: readable, writable, zero, and without a page until it is touched.
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

/// What a new thread of this process begins with.
pub type Start = extern "C" fn(*mut libc::c_void) -> *mut libc::c_void;

/// Starts a detached thread. A `stack` of 0 gives it the system's default size.
///
/// # Errors
/// The error number that the C library returned.
pub fn start_thread<T: Sync>(stack: usize, start: Start, argument: &'static T) -> Result<(), i32> {
    // SAFETY: an attribute object is plain data until it is initialised in the next line.
    let mut attributes: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
    // SAFETY: the attributes are ours; they are destroyed below. The thread's argument lives for ever.
    unsafe {
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
        // musl's own default is 128 KiB; that of glibc is the limit of the system.
        let stack = if stack == 0 && cfg!(target_env = "musl") { default_stack() } else { stack };
        if stack > 0 {
            libc::pthread_attr_setstacksize(&raw mut attributes, stack);
        }
        // A number with one C library, a pointer with another; it is written and not looked at.
        let mut thread = std::mem::zeroed();
        let argument = ptr::from_ref(argument).cast_mut().cast();
        let failure = libc::pthread_create(&raw mut thread, &raw const attributes, start, argument);
        libc::pthread_attr_destroy(&raw mut attributes);
        if failure == 0 { Ok(()) } else { Err(failure) }
    }
}

/// The size of a thread's stack where none was said: what the system lets the first thread have
/// (`ulimit -s`), and 8 MiB where it sets no limit.
fn default_stack() -> usize {
    const UNLIMITED: usize = 8 << 20;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the record is ours to write.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) } == 0;
    let limited = known && limit.rlim_cur != libc::RLIM_INFINITY;
    usize::try_from(limit.rlim_cur).ok().filter(|_| limited).unwrap_or(UNLIMITED)
}

/// The calling thread's number in the kernel.
pub fn thread_number() -> u64 {
    // SAFETY: the call has no arguments.
    u64::try_from(unsafe { libc::syscall(libc::SYS_gettid) }).unwrap_or(0)
}

/// What the C library calls the calling thread: a number with one, an address with another.
pub fn name_of_thread() -> usize {
    // SAFETY: the call has no arguments.
    unsafe { libc::pthread_self() as usize }
}

/// Whether the calling thread is the first of its process.
pub fn is_first_thread() -> bool {
    // SAFETY: the call has no arguments.
    u64::try_from(unsafe { libc::getpid() }).is_ok_and(|process| process == thread_number())
}

/// A message on its way to standard error. It needs no heap, which may be what has run out.
struct Message {
    bytes: [u8; 1024],
    length: usize,
}

impl Message {
    fn send(&mut self) {
        write_to_standard_error(&self.bytes[..self.length]);
        self.length = 0;
    }
}

impl fmt::Write for Message {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let bytes = text.as_bytes();
        if bytes.len() > self.bytes.len() - self.length {
            self.send();
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
    // SAFETY: the bytes are alive and their number is told; a short or failed write is accepted.
    unsafe { libc::write(2, bytes.as_ptr().cast(), bytes.len()) };
}

/// The calling thread's `errno`.
#[must_use]
pub fn errno() -> usize {
    // SAFETY: the C library's, of this thread.
    usize::try_from(unsafe { *libc::__errno_location() }).unwrap_or(0)
}

/// Sets the calling thread's `errno`.
pub fn set_errno(number: usize) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = i32::try_from(number).unwrap_or(0) };
}

/// Writes to standard error, in one call unless the text is long. Allocates nothing.
pub fn complain(text: impl fmt::Display) {
    let mut message = Message { bytes: [0; 1024], length: 0 };
    let _ = write!(message, "{text}");
    message.send();
}

/// Signals that a thread is sent for what it does itself.
const OWN_FAULTS: [i32; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT, libc::SIGSYS];

/// What the process's first thread had blocked, once that has all signals blocked.
static BLOCKED: OnceLock<libc::sigset_t> = OnceLock::new();

/// Blocks signals in the calling thread and in those that it creates: other threads of the process handle
/// them. Once in a process.
pub fn withhold_signals() {
    // SAFETY: sets of ours, which the calls write and read.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        for signal in OWN_FAULTS {
            libc::sigdelset(&raw mut all, signal);
        }
        if libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before) == 0 {
            let _ = BLOCKED.set(before);
        }
    }
}

/// Has the calling thread handle signals again as the process's first thread did, if that withholds them.
pub fn handle_signals() {
    if let Some(before) = BLOCKED.get() {
        // SAFETY: the set is only read.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, ptr::null_mut()) };
    }
}

/// Does something while no signal is handled by the calling thread.
pub fn without_signals<T>(run: impl FnOnce() -> T) -> T {
    // SAFETY: sets of ours, which the calls write and read.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
        let result = run();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        result
    }
}

/// Ends the program, with what it has to do at its end.
pub fn exit(status: i32) -> ! {
    // SAFETY: what the program registered for its end is to run now.
    unsafe { libc::exit(status) }
}

/// Ends this process at once.
pub fn exit_now(status: i32) -> ! {
    loop {
        // SAFETY: the call has no pointers, and does not return. The C library's function of this name would
        // end the program's process, where that is another.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

/// Ends the program after saying why, as something cannot be done that it asked for. What it has printed is
/// written, where its streams are its own. Allocates nothing.
pub fn fatal(text: impl fmt::Display) -> ! {
    complain(format_args!("tombolo omp: {text}\n"));
    // In an image streams are those of all processes, and may lie in pages that this one does not have.
    #[cfg(target_env = "gnu")]
    write_output();
    exit_now(1)
}

/// Writes what the stream of output has buffered, unless another thread has locked it. Whether it has not.
pub fn write_output() -> bool {
    // SAFETY: the C library's own stream, which is unlocked by the thread that has locked it.
    unsafe {
        let locked = ftrylockfile(stdout) == 0;
        if locked {
            libc::fflush(stdout);
            funlockfile(stdout);
        }
        locked
    }
}

// SAFETY: as the C library has them.
unsafe extern "C" {
    static stdout: *mut libc::FILE;
    fn ftrylockfile(stream: *mut libc::FILE) -> i32;
    fn funlockfile(stream: *mut libc::FILE);
}

// The word of thread-local storage that points to the calling thread's record. Its offset is known when the
// library is loaded ("initial exec"): a call to find it would take longer than the rest of many entry points.
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

/// Where the calling thread's word lies.
#[inline]
fn slot() -> *mut *const c_void {
    super::thread_variable::own_address!("tombolo_omp_me")
}

/// The record of the calling thread, as [`crate::primitives::local`] has stored it; null before that.
#[inline]
pub(super) fn thread_record() -> *const c_void {
    // SAFETY: the word is this thread's own, aligned and zero at first.
    unsafe { *slot() }
}

/// Stores where the record of the calling thread is.
pub(super) fn set_thread_record(record: *const c_void) {
    // SAFETY: the word is this thread's own.
    unsafe { *slot() = record };
}

/// Counts attempts to spin, and tells when it has been enough.
#[derive(Debug)]
pub struct Spin {
    left: u64,
}

impl Spin {
    /// Allows `left` turns of spinning.
    pub fn turns(left: u64) -> Self {
        Self { left }
    }

    /// One more turn; false when there are none left.
    #[inline]
    pub fn turn(&mut self) -> bool {
        std::hint::spin_loop();
        self.left = self.left.saturating_sub(1);
        self.left > 0
    }
}

/// A fence between a store and a later load, which pairs with the same on the other side.
#[inline]
pub fn full_fence() {
    // An atomic operation on a line that the processor has anyway takes half of what `mfence` takes, which
    // compilers write for a fence.
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
    fn who_leaves_a_processor_may_come_back() {
        let before = affinity();
        leave_processor();
        let after = affinity();
        let numbers = |set: &Processors| (0..limit()).filter(|&at| includes(set, at)).collect::<Vec<_>>();
        assert_eq!(numbers(&before), numbers(&after));
        // Where there is one processor to stay on, it stays.
        std::thread::spawn(move || {
            let first = numbers(&before)[0];
            // SAFETY: an empty mask is a valid value, all of whose bytes are zero.
            let mut one: Processors = unsafe { std::mem::zeroed() };
            include(&mut one, first);
            assert!(bind(&one));
            leave_processor();
            assert_eq!(numbers(&affinity()), [first]);
        })
        .join()
        .expect("no panic");
    }
}
