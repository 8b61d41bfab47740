//! Handlers of signals. Those of the program are called by one of ours, so that a thread knows when it
//! executes one. `sigaction` and `signal` tell the program of its own.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use tombolo_omp_team::job::{fault, start};
use tombolo_omp_team::primitives::handlers;
use tombolo_omp_team::primitives::lock::Spinlock;

use super::forward::{Own, WORDS, Word, ask, is_elsewhere};
use super::interrupts;

type Action = libc::sigaction;
pub(super) type Function = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

// SAFETY: the C library's function of this name; the linker has named it so.
unsafe extern "C" {
    fn __real_sigaction(signal: c_int, action: *const Action, before: *mut Action) -> c_int;
}

/// One more than the greatest signal.
const SIGNALS: usize = 65;

/// The program's handlers by their signals, and the flags that they were set with.
static HANDLERS: [(AtomicUsize, AtomicI32); SIGNALS] =
    [const { (AtomicUsize::new(0), AtomicI32::new(0)) }; SIGNALS];

/// One thread at a time sets a handler. It has all signals blocked, whose handlers may do so too.
static SETTING: Spinlock = Spinlock::new();

/// `sigaction`.
///
/// # Safety
/// As the C library's function of this name.
#[unsafe(export_name = "__wrap_sigaction")]
pub unsafe extern "C" fn sigaction(signal: c_int, action: *const Action, before: *mut Action) -> c_int {
    if is_elsewhere() {
        let words = [signal.to_word(), action.to_word(), before.to_word()];
        return c_int::from_word(ask(Own::Sigaction as usize, &words));
    }
    // SAFETY: the caller says that there is an action, unless there is none.
    let action = unsafe { action.as_ref() };
    let Some(entry) = usize::try_from(signal).ok().and_then(|signal| HANDLERS.get(signal)) else {
        // SAFETY: it fails, as no signal has that number.
        return unsafe { __real_sigaction(signal, ptr::null(), ptr::null_mut()) };
    };
    // SAFETY: sets are plain data, for which zeros are valid, and ours.
    let (mut all, mut blocked): (libc::sigset_t, libc::sigset_t) = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut blocked);
    }
    let held = SETTING.hold();
    let (failed, known) = set(signal, action, entry);
    drop(held);
    // SAFETY: the set is ours; where the action is to be written, as the caller says.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const blocked, ptr::null_mut());
        if failed == 0 && !before.is_null() {
            before.write(known);
        }
    }
    failed
}

/// Sets what is done at a signal, and says what that was before, in the program's terms.
fn set(
    signal: c_int,
    action: Option<&Action>,
    (handler, flags): &(AtomicUsize, AtomicI32),
) -> (c_int, Action) {
    let old = (handler.load(Ordering::Relaxed), flags.load(Ordering::Relaxed));
    let mut real = action.copied();
    if let Some(action) = &mut real {
        if !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN) {
            // Before it is installed: it may be called at once.
            handler.store(action.sa_sigaction, Ordering::Relaxed);
            flags.store(action.sa_flags, Ordering::Relaxed);
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags |= libc::SA_SIGINFO;
        } else if action.sa_sigaction == libc::SIG_DFL
            && let Some(explains) = fault::explaining(signal)
        {
            *action = explains;
        }
    }
    // SAFETY: an action object is plain data, for which zeros are valid.
    let mut before: Action = unsafe { std::mem::zeroed() };
    // SAFETY: both actions are ours; the handler takes what the kernel gives it.
    let failed = unsafe {
        __real_sigaction(signal, real.as_ref().map_or(ptr::null(), ptr::from_ref), &raw mut before)
    };
    if failed != 0 {
        handler.store(old.0, Ordering::Relaxed);
        flags.store(old.1, Ordering::Relaxed);
    }
    if before.sa_sigaction == handle as *const () as usize {
        before.sa_sigaction = old.0;
        before.sa_flags = old.1;
    } else if fault::explaining(signal).is_some_and(|own| own.sa_sigaction == before.sa_sigaction) {
        // What ours does after its message.
        before.sa_sigaction = libc::SIG_DFL;
        before.sa_flags = 0;
    }
    (failed, before)
}

/// Makes such a call for another process.
///
/// # Safety
/// The words are those of such a call.
pub(super) unsafe fn serve_sigaction(&[signal, action, before, ..]: &[u64; WORDS]) -> u64 {
    // SAFETY: a thread of the job waits for this, and had these words.
    unsafe { sigaction(c_int::from_word(signal), action as *const Action, before as *mut Action) }.to_word()
}

/// `signal`.
#[unsafe(export_name = "__wrap_signal")]
pub extern "C" fn signal(signal: c_int, handler: usize) -> usize {
    // SAFETY: an action object is plain data, for which zeros are valid.
    let (mut action, mut before): (Action, Action) = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: both are ours.
    match unsafe { sigaction(signal, &raw const action, &raw mut before) } {
        0 => before.sa_sigaction,
        _ => libc::SIG_ERR,
    }
}

/// The same by its older name.
#[unsafe(export_name = "__wrap_bsd_signal")]
pub extern "C" fn bsd_signal(number: c_int, handler: usize) -> usize {
    signal(number, handler)
}

/// Has this process, which is a worker's, handle a signal by the handler of the program, which was set in the
/// program's process: a thread of this process is about to get it. Without a handler nothing changes.
pub(crate) fn adopt(signal: c_int) {
    let Some((handler, flags)) = usize::try_from(signal).ok().and_then(|signal| HANDLERS.get(signal)) else {
        return;
    };
    let store = start::current().store();
    // SAFETY: an action object is plain data, for which zeros are valid.
    let action: &UnsafeCell<Action> = store.place(UnsafeCell::new(unsafe { std::mem::zeroed() }));
    let words = [signal.to_word(), ptr::null::<Action>().to_word(), action.get().to_word()];
    let failed = c_int::from_word(ask(Own::Sigaction as usize, &words));
    // SAFETY: the program's process has written it; it came from the store, and nothing else refers to it.
    let mut known = unsafe {
        let known = action.get().read();
        store.release(action.get().cast());
        known
    };
    if failed != 0 || known.sa_sigaction == libc::SIG_DFL {
        return;
    }
    if known.sa_sigaction != libc::SIG_IGN {
        handler.store(known.sa_sigaction, Ordering::Relaxed);
        flags.store(known.sa_flags, Ordering::Relaxed);
        known.sa_sigaction = handle as *const () as usize;
        known.sa_flags |= libc::SA_SIGINFO;
    }
    // SAFETY: the action is ours, and what restores is the C library's concern.
    unsafe { __real_sigaction(signal, &raw const known, ptr::null_mut()) };
}

/// What the kernel calls in place of the program's handlers.
extern "C" fn handle(signal: c_int, about: *mut libc::siginfo_t, context: *mut c_void) {
    let known = usize::try_from(signal).ok().and_then(|signal| HANDLERS.get(signal));
    let Some((handler, _)) = known else { return };
    // SAFETY: the kernel tells a handler in which context the signal came.
    let interrupted = fault::stack_pointer(unsafe { &*context.cast() });
    let handler = handler.load(Ordering::Relaxed);
    interrupts::handle(|| call(handler, interrupted, (signal, about, context)));
}

/// Calls a handler of the program, which interrupts code that has its stack there.
pub(super) fn call(
    handler: usize,
    interrupted: usize,
    (signal, about, context): (c_int, *mut libc::siginfo_t, *mut c_void),
) {
    // SAFETY: the program has set it. One that takes the number alone does not look at the others.
    let handler: Function = unsafe { std::mem::transmute(handler) };
    handlers::run(interrupted, || handler(signal, about, context));
}
