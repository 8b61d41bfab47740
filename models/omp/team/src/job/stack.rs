//! Threads whose stacks are in the arena, in particular `main`.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::{fault, start};
use crate::primitives::stack_bounds::{MAIN_OF_ARENA, StackBounds};
use crate::primitives::store::{self, SPAN, Store};
use crate::primitives::sys;
use crate::team::root::Root;
use crate::team::shown::Role;
use crate::team::thread::Thread;

/// Minimum sizes of stacks, if the size was set and if it was not.
const LEAST: usize = 64 * 1024;
const LEAST_UNSAID: usize = 2 * SPAN - GUARD;
/// Extra room for thread-local storage, where the C library puts it on the stack.
const STORAGE: usize = if cfg!(target_env = "gnu") { 2 << 20 } else { 0 };
/// Divisor of the arena that limits the default stack size of a worker.
const OF_WORKER: usize = 64;
/// The same for threads created by the program: there may be many, each with workers on other nodes.
const OF_CREATED: usize = 256;
/// Stack size of `main` if the resource limit is infinite.
const UNLIMITED: usize = 64 << 20;
/// Size of the guard area at a stack's end in bytes, a whole number of pages.
const GUARD: usize = 16 * 1024;

/// Stack in the arena, with guard pages at its lower end.
#[derive(Clone, Copy, Debug)]
pub struct Stack {
    /// Lowest address, that of the guard.
    pub memory: *mut u8,
    /// Size in bytes, guard included.
    pub size: usize,
}

// SAFETY: an address and a length, which imply nothing about the memory there.
unsafe impl Send for Stack {}

impl Stack {
    /// Allocates the stack of a worker. The size is that of the environment, or the system's default limited
    /// to a small part of the arena. The default also leaves half of the free arena once all hired workers
    /// have their stacks.
    pub fn of_worker(thread: &Thread) -> Self {
        let (root, store) = (thread.root(), thread.store());
        let due = root.take_stack_due() as usize;
        let size = match root.settings.stack {
            0 => {
                let fair = (store.left() / 2 / due / SPAN * SPAN).saturating_sub(GUARD + STORAGE);
                size_of_main().min(store.length() / OF_WORKER).min(fair).max(LEAST_UNSAID)
            }
            size => size.max(LEAST),
        };
        let stack = Self::new(store, size).unwrap_or_else(|| {
            sys::fatal(format_args!(
                "out of memory: no stack of {} KiB for another thread is left in the {} MiB of the arena; fewer threads (OMP_NUM_THREADS) \
                 and smaller stacks (OMP_STACKSIZE, {} KiB at least) take less; {}",
                size >> 10,
                store.length() >> 20,
                LEAST >> 10,
                store.advice()
            ))
        });
        thread.stack.set(Some(stack.bounds(false)));
        stack
    }

    /// Allocates a stack for a thread created by the program. A size of 0 means the system's default, limited
    /// to a small part of the arena. Returns `None` if the arena has no room.
    pub(super) fn of_created(root: &Root, size: usize) -> Option<Self> {
        let unsaid = size_of_main().min(root.store.length() / OF_CREATED).max(LEAST_UNSAID);
        Self::new(root.store, if size == 0 { unsaid } else { size.max(LEAST) })
    }

    /// Whether the usable size is at least `size`.
    pub(super) fn holds(self, size: usize) -> bool {
        self.size - GUARD - STORAGE >= size
    }

    pub(super) fn bounds(self, is_main: bool) -> StackBounds {
        let guard = self.memory as usize;
        StackBounds {
            guard,
            lowest: guard + GUARD,
            bytes: self.size - GUARD - STORAGE,
            is_main,
            in_arena: true,
        }
    }

    /// Allocates the stack of `main`.
    fn of_main(store: &Store) -> Self {
        let size = size_of_main().min(store.length() / MAIN_OF_ARENA).max(LEAST_UNSAID);
        Self::new(store, size).unwrap_or_else(|| store.exhausted())
    }

    fn new(store: &Store, size: usize) -> Option<Self> {
        let size = (size + STORAGE + GUARD).next_multiple_of(SPAN);
        store.allocate(size, SPAN).map(|memory| Self { memory, size })
    }

    /// Starts a thread of this process on the stack.
    ///
    /// # Errors
    /// Returns a message with the reason and what to change.
    ///
    /// # Safety
    /// The stack must be unused; the argument must be what `start` takes.
    pub unsafe fn run(self, start: sys::Start, argument: *mut c_void) -> Result<(), String> {
        // SAFETY: guaranteed by the caller.
        let failure = unsafe { self.create(start, argument) };
        if failure == 0 {
            return Ok(());
        }
        let error = std::io::Error::from_raw_os_error(failure);
        Err(format!("{error}: its thread-local storage may be larger than its stack"))
    }

    /// Starts a thread on the stack. Returns the error number of the C library, or 0.
    ///
    /// # Safety
    /// As for [`Stack::run`].
    unsafe fn create(self, start: sys::Start, argument: *mut c_void) -> i32 {
        // SAFETY: an attribute object is plain data until it is initialised below.
        let mut attributes: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
        // SAFETY: the attributes are local; the caller guarantees the rest. A `pthread_t` is a number in one
        // C library and a pointer in another; it is not used.
        unsafe {
            let mut thread: libc::pthread_t = std::mem::zeroed();
            libc::pthread_attr_init(&raw mut attributes);
            let failure = self.create_with(&mut attributes, &mut (0, 0), |attributes| {
                libc::pthread_create(&raw mut thread, attributes, start, argument)
            });
            libc::pthread_attr_destroy(&raw mut attributes);
            failure
        }
    }

    /// Calls `create` with attributes for this stack, to create a thread, and returns its result: an error
    /// number or 0. `storage` is the thread-local storage left by the stack's previous thread, and is set to
    /// that of the new one.
    ///
    /// # Safety
    /// The stack must be unused and the attributes initialised.
    pub(super) unsafe fn create_with(
        self,
        attributes: &mut libc::pthread_attr_t,
        storage: &mut (usize, usize),
        create: impl FnOnce(*const libc::pthread_attr_t) -> i32,
    ) -> i32 {
        let Self { memory, size } = self;
        // SAFETY: the guard is part of the stack's own memory; the stack belongs to the thread alone while it
        // runs.
        unsafe {
            libc::mprotect(memory.cast(), GUARD, libc::PROT_NONE);
            libc::pthread_attr_setstack(attributes, memory.add(GUARD).cast(), size - GUARD);
        }
        let _held = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        GIVEN[0].store(storage.0, Ordering::Relaxed);
        GIVEN[1].store(storage.1, Ordering::Relaxed);
        STARTER.store(sys::thread_number(), Ordering::Relaxed);
        let failure = create(attributes);
        STARTER.store(0, Ordering::Relaxed);
        *storage = (GIVEN[0].load(Ordering::Relaxed), GIVEN[1].load(Ordering::Relaxed));
        failure
    }
}

/// Serializes thread creation, which uses `STARTER` and `GIVEN`.
static STARTING: Mutex<()> = Mutex::new(());

/// Tid of the thread that is creating one on a stack in the arena; 0 if none.
static STARTER: AtomicU64 = AtomicU64::new(0);

/// Alignment of thread-local storage, as for memory from the system.
const PAGE: usize = 4096;

/// Thread-local storage for the thread being created, address and length: left by an ended thread, or newly
/// allocated.
static GIVEN: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Allocates zeroed memory in the arena for thread-local storage, if the caller is creating a thread on a
/// stack in the arena. Called by C libraries that do not place that storage on the stack.
pub fn storage(length: usize) -> Option<*mut u8> {
    let starter = STARTER.load(Ordering::Relaxed);
    if starter == 0 || starter != sys::thread_number() {
        return None;
    }
    let [address, there] = [&GIVEN[0], &GIVEN[1]].map(|word| word.load(Ordering::Relaxed));
    let memory = if address != 0 && there >= length {
        address as *mut u8
    } else {
        store::current()?.allocate(length, PAGE)?
    };
    GIVEN[0].store(memory as usize, Ordering::Relaxed);
    GIVEN[1].store(length.max(there), Ordering::Relaxed);
    // SAFETY: the memory has this length and is used by no other thread.
    unsafe { ptr::write_bytes(memory, 0, length) };
    Some(memory)
}

fn size_of_main() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is local.
    unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) };
    usize::try_from(limit.rlim_cur).ok().filter(|&size| size < 1 << 40).unwrap_or(UNLIMITED)
}

/// Signature of a program's `main`.
pub type Main = unsafe extern "C" fn(c_int, *mut *mut i8, *mut *mut i8) -> c_int;

/// Call of `main` on a stack in the arena, if any.
static THE_CALL: AtomicPtr<Call> = AtomicPtr::new(ptr::null_mut());

/// Call of `main` on a stack in the arena.
pub struct Call {
    main: Main,
    count: c_int,
    words: *mut *mut i8,
    environment: *mut *mut i8,
    at_end: fn(),
    stack: OnceLock<StackBounds>,
    status: AtomicU32,
    ended: AtomicU32,
}

impl Call {
    /// Creates a call with the arguments of `main` and a function to run after its return.
    pub fn new(
        main: Main,
        (count, words, environment): (c_int, *mut *mut i8, *mut *mut i8),
        at_end: fn(),
    ) -> Self {
        let (status, ended) = (AtomicU32::new(0), AtomicU32::new(0));
        Self { main, count, words, environment, at_end, stack: OnceLock::new(), status, ended }
    }

    /// Starts a thread that calls `main`. Called once per process.
    pub fn start(&'static self, store: &Store) {
        THE_CALL.store(ptr::from_ref(self).cast_mut(), Ordering::Release);
        let argument = ptr::from_ref(self).cast_mut().cast();
        let stack = Stack::of_main(store);
        let _ = self.stack.set(stack.bounds(true));
        // SAFETY: the stack is new; the argument is what `call` takes.
        if let Err(text) = unsafe { stack.run(call, argument) } {
            sys::fatal(format_args!("main cannot be started ({text}); `ulimit -s` sets that"));
        }
    }

    fn end(&self, status: c_int) -> ! {
        self.status.store(status.cast_unsigned(), Ordering::Relaxed);
        self.ended.store(1, Ordering::Release);
        (self.at_end)();
        // The thread must not end: the exit path still accesses its thread-local storage.
        loop {
            sys::futex_wait(&self.ended, 1);
        }
    }

    /// Returns the result of `main` once it has returned.
    pub fn status(&self) -> Option<c_int> {
        (self.ended.load(Ordering::Acquire) != 0).then(|| self.status.load(Ordering::Relaxed).cast_signed())
    }
}

extern "C" fn call(argument: *mut c_void) -> *mut c_void {
    // SAFETY: the argument is a `Call` that is never freed.
    let call = unsafe { &*argument.cast::<Call>() };
    let me = start::current();
    me.shown.becomes(Role::Main);
    me.stack.set(call.stack.get().copied());
    fault::watch(me);
    // SAFETY: the program's function, with the arguments from the C library.
    let status = unsafe { (call.main)(call.count, call.words, call.environment) };
    call.end(status)
}

/// Ends the program as if `main` had returned. Only the thread that runs `main` may call this.
pub fn end_main(status: c_int) -> ! {
    // SAFETY: the call is never freed.
    match unsafe { THE_CALL.load(Ordering::Acquire).as_ref() } {
        Some(call) => call.end(status),
        None => sys::exit(status),
    }
}
