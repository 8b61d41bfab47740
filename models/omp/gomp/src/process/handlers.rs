//! Signal handlers. A handler of this crate calls those of the program, so that a thread knows when it
//! executes one. `sigaction` and `signal` report the program's handlers.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use tombolo_omp_team::job::{fault, start};
use tombolo_omp_team::primitives::handlers;
use tombolo_omp_team::primitives::lock::Spinlock;

use super::forward::{OwnCall, WORDS, Word, forward_call, is_in_worker_process};
use super::interrupts;

type Action = libc::sigaction;
pub(super) type Function = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

// SAFETY: the C library's function; `--wrap` gives it this name.
unsafe extern "C" {
    fn __real_sigaction(signal: c_int, action: *const Action, before: *mut Action) -> c_int;
}

/// One more than the highest signal number.
const SIGNALS: usize = 65;

/// Handlers of the program and their flags, indexed by signal.
static HANDLERS: [(AtomicUsize, AtomicI32); SIGNALS] =
    [const { (AtomicUsize::new(0), AtomicI32::new(0)) }; SIGNALS];

/// Serializes changes of handlers. The holder blocks all signals, because a handler may set handlers too.
static SET_LOCK: Spinlock = Spinlock::new();

/// `sigaction`.
///
/// # Safety
/// As the C library's function of this name.
#[unsafe(export_name = "__wrap_sigaction")]
pub unsafe extern "C" fn sigaction(signal: c_int, action: *const Action, before: *mut Action) -> c_int {
    if is_in_worker_process() {
        let words = [signal.to_word(), action.to_word(), before.to_word()];
        return c_int::from_word(forward_call(OwnCall::Sigaction as usize, &words));
    }
    // SAFETY: the caller guarantees that the pointer is null or valid.
    let action = unsafe { action.as_ref() };
    let Some(entry) = usize::try_from(signal).ok().and_then(|signal| HANDLERS.get(signal)) else {
        // SAFETY: the call fails, because the signal number is invalid.
        return unsafe { __real_sigaction(signal, ptr::null(), ptr::null_mut()) };
    };
    // SAFETY: signal sets are plain data, for which zeros are valid.
    let (mut all, mut blocked): (libc::sigset_t, libc::sigset_t) = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut blocked);
    }
    let held = SET_LOCK.lock();
    let (failed, program_action) = set_action(signal, action, entry);
    drop(held);
    // SAFETY: the set is a local variable; the caller guarantees that `before` can be written.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const blocked, ptr::null_mut());
        if failed == 0 && !before.is_null() {
            before.write(program_action);
        }
    }
    failed
}

/// Sets the action for a signal. Returns the status and the previous action as the program knows it.
fn set_action(
    signal: c_int,
    action: Option<&Action>,
    (handler, flags): &(AtomicUsize, AtomicI32),
) -> (c_int, Action) {
    let old = (handler.load(Ordering::Relaxed), flags.load(Ordering::Relaxed));
    let mut real = action.copied();
    if let Some(action) = &mut real {
        if !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN) {
            // Stored before the handler is installed, which may run immediately.
            handler.store(action.sa_sigaction, Ordering::Relaxed);
            flags.store(action.sa_flags, Ordering::Relaxed);
            action.sa_sigaction = dispatch_signal as *const () as usize;
            action.sa_flags |= libc::SA_SIGINFO;
        } else if action.sa_sigaction == libc::SIG_DFL
            && let Some(explains) = fault::diagnostic_action(signal)
        {
            *action = explains;
        }
    }
    // SAFETY: `sigaction` is plain data, for which zeros are valid.
    let mut before: Action = unsafe { std::mem::zeroed() };
    // SAFETY: both actions are local variables, and the handler has the type that `SA_SIGINFO` requires.
    let failed = unsafe {
        __real_sigaction(signal, real.as_ref().map_or(ptr::null(), ptr::from_ref), &raw mut before)
    };
    if failed != 0 {
        handler.store(old.0, Ordering::Relaxed);
        flags.store(old.1, Ordering::Relaxed);
    }
    if before.sa_sigaction == dispatch_signal as *const () as usize {
        before.sa_sigaction = old.0;
        before.sa_flags = old.1;
    } else if fault::diagnostic_action(signal).is_some_and(|own| own.sa_sigaction == before.sa_sigaction) {
        // The default action follows the message of our handler.
        before.sa_sigaction = libc::SIG_DFL;
        before.sa_flags = 0;
    }
    (failed, before)
}

/// Serves `sigaction` for another process.
///
/// # Safety
/// The words are the arguments of such a call.
pub(super) unsafe fn serve_sigaction(&[signal, action, before, ..]: &[u64; WORDS]) -> u64 {
    // SAFETY: the requesting thread waits for the result, and the pointers are its arguments.
    unsafe { sigaction(c_int::from_word(signal), action as *const Action, before as *mut Action) }.to_word()
}

/// `signal`.
#[unsafe(export_name = "__wrap_signal")]
pub extern "C" fn signal(signal: c_int, handler: usize) -> usize {
    // SAFETY: `sigaction` is plain data, for which zeros are valid.
    let (mut action, mut before): (Action, Action) = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: both are local variables.
    match unsafe { sigaction(signal, &raw const action, &raw mut before) } {
        0 => before.sa_sigaction,
        _ => libc::SIG_ERR,
    }
}

/// The older name of `signal`.
#[unsafe(export_name = "__wrap_bsd_signal")]
pub extern "C" fn bsd_signal(number: c_int, handler: usize) -> usize {
    signal(number, handler)
}

/// Installs the program's handler of a signal, which is set in the program's process, in this worker's
/// process: a thread of this process is about to receive the signal. Changes nothing if there is no handler.
pub(crate) fn install_from_program(signal: c_int) {
    let Some((handler, flags)) = usize::try_from(signal).ok().and_then(|signal| HANDLERS.get(signal)) else {
        return;
    };
    let store = start::current().store();
    // SAFETY: `sigaction` is plain data, for which zeros are valid.
    let action: &UnsafeCell<Action> = store.place(UnsafeCell::new(unsafe { std::mem::zeroed() }));
    let words = [signal.to_word(), ptr::null::<Action>().to_word(), action.get().to_word()];
    let failed = c_int::from_word(forward_call(OwnCall::Sigaction as usize, &words));
    // SAFETY: the program's process has written the action; it came from the store, and nothing else refers
    // to it.
    let mut program_action = unsafe {
        let program_action = action.get().read();
        store.release(action.get().cast());
        program_action
    };
    if failed != 0 || program_action.sa_sigaction == libc::SIG_DFL {
        return;
    }
    if program_action.sa_sigaction != libc::SIG_IGN {
        handler.store(program_action.sa_sigaction, Ordering::Relaxed);
        flags.store(program_action.sa_flags, Ordering::Relaxed);
        program_action.sa_sigaction = dispatch_signal as *const () as usize;
        program_action.sa_flags |= libc::SA_SIGINFO;
    }
    // SAFETY: the action is a local variable; the C library sets its restorer.
    unsafe { __real_sigaction(signal, &raw const program_action, ptr::null_mut()) };
}

/// Handler that the kernel calls in place of the program's handlers.
extern "C" fn dispatch_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let entry = usize::try_from(signal).ok().and_then(|signal| HANDLERS.get(signal));
    let Some((handler, _)) = entry else { return };
    // SAFETY: the kernel passes the context that the signal interrupted.
    let interrupted_sp = fault::stack_pointer(unsafe { &*context.cast() });
    let handler = handler.load(Ordering::Relaxed);
    interrupts::run_handler(|| call_program_handler(handler, interrupted_sp, (signal, info, context)));
}

/// Calls a handler of the program. `interrupted_sp` is the stack pointer of the interrupted code.
pub(super) fn call_program_handler(
    handler: usize,
    interrupted_sp: usize,
    (signal, info, context): (c_int, *mut libc::siginfo_t, *mut c_void),
) {
    // SAFETY: the program has set this handler. One that takes only the signal number ignores the other
    // arguments.
    let handler: Function = unsafe { std::mem::transmute(handler) };
    handlers::run(interrupted_sp, || handler(signal, info, context));
}
