//! Threads whose stacks are in the arena, in particular `main`.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::{fault, start};
use crate::primitives::stack_bounds::{MAIN_STACK_DIVISOR, StackBounds};
use crate::primitives::store::{self, SPAN, Store};
use crate::primitives::sys;
use crate::team::root::Root;
use crate::team::thread::Thread;
use crate::team::thread_status::Role;

/// Minimum sizes of stacks, if the size was set and if it was not.
const STACK_BYTES_MIN: usize = 64 * 1024;
const DEFAULT_BYTES_MIN: usize = 2 * SPAN;
/// Extra room for thread-local storage, where the C library puts it on the stack.
const TLS_BYTES: usize = if cfg!(target_env = "gnu") { 2 << 20 } else { 0 };
/// Divisor of the arena that limits the default stack size of a worker.
const WORKER_ARENA_SHARE: usize = 64;
/// The same for threads created by the program: there may be many, each with workers on other nodes.
const CREATED_ARENA_SHARE: usize = 256;
/// Stack size of `main` if the resource limit is infinite.
const UNLIMITED_BYTES: usize = 64 << 20;
/// Size of the guard area at a stack's end in bytes. A whole number of pages on every node: kernels for Arm
/// may have pages of 64 KiB, and `mprotect` rounds up.
const GUARD_BYTES: usize = SPAN;

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
    /// to a small part of the arena. The default also leaves half of the free arena once all acquired workers
    /// have their stacks.
    pub fn of_worker(thread: &Thread) -> Self {
        let (root, store) = (thread.root(), thread.store());
        let due = root.take_pending_stack() as usize;
        let size = match root.settings.stack {
            0 => {
                let fair =
                    (store.free_bytes() / 2 / due / SPAN * SPAN).saturating_sub(GUARD_BYTES + TLS_BYTES);
                default_stack_bytes()
                    .min(store.length() / WORKER_ARENA_SHARE)
                    .min(fair)
                    .max(DEFAULT_BYTES_MIN)
            }
            size => size.max(STACK_BYTES_MIN),
        };
        let stack = Self::new(store, size).unwrap_or_else(|| {
            sys::fatal(format_args!(
                "out of memory: no stack of {} KiB for another thread is left in the {} MiB of the arena; fewer threads (OMP_NUM_THREADS) \
                 and smaller stacks (OMP_STACKSIZE, {} KiB at least) take less; {}",
                size >> 10,
                store.length() >> 20,
                STACK_BYTES_MIN >> 10,
                store.advice()
            ))
        });
        thread.stack.set(Some(stack.bounds(false)));
        stack
    }

    /// Allocates a stack for a thread created by the program. A size of 0 means the system's default, limited
    /// to a small part of the arena. Returns `None` if the arena has no room.
    pub(super) fn of_created(root: &Root, size: usize) -> Option<Self> {
        let default_size =
            default_stack_bytes().min(root.store.length() / CREATED_ARENA_SHARE).max(DEFAULT_BYTES_MIN);
        Self::new(root.store, if size == 0 { default_size } else { size.max(STACK_BYTES_MIN) })
    }

    /// Whether the usable size is at least `size`.
    pub(super) fn has_room_for(self, size: usize) -> bool {
        self.size - GUARD_BYTES - TLS_BYTES >= size
    }

    pub(super) fn bounds(self, is_main: bool) -> StackBounds {
        let guard = self.memory as usize;
        StackBounds {
            guard,
            lowest: guard + GUARD_BYTES,
            bytes: self.size - GUARD_BYTES - TLS_BYTES,
            is_main,
            in_arena: true,
        }
    }

    /// Allocates the stack of `main`.
    fn of_main(store: &Store) -> Self {
        let size = default_stack_bytes().min(store.length() / MAIN_STACK_DIVISOR).max(DEFAULT_BYTES_MIN);
        Self::new(store, size).unwrap_or_else(|| store.exhausted())
    }

    fn new(store: &Store, size: usize) -> Option<Self> {
        let size = (size + TLS_BYTES + GUARD_BYTES).next_multiple_of(SPAN);
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
    /// number or 0. `tls` is the thread-local storage left by the stack's previous thread, and is set to
    /// that of the new one.
    ///
    /// # Safety
    /// The stack must be unused and the attributes initialised.
    pub(super) unsafe fn create_with(
        self,
        attributes: &mut libc::pthread_attr_t,
        tls: &mut (usize, usize),
        create: impl FnOnce(*const libc::pthread_attr_t) -> i32,
    ) -> i32 {
        let Self { memory, size } = self;
        // SAFETY: the guard is part of the stack's own memory; the stack belongs to the thread alone while it
        // runs.
        unsafe {
            libc::mprotect(memory.cast(), GUARD_BYTES, libc::PROT_NONE);
            libc::pthread_attr_setstack(attributes, memory.add(GUARD_BYTES).cast(), size - GUARD_BYTES);
        }
        let _held = CREATE_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        TLS_MEMORY[0].store(tls.0, Ordering::Relaxed);
        TLS_MEMORY[1].store(tls.1, Ordering::Relaxed);
        CREATING_THREAD.store(sys::thread_id(), Ordering::Relaxed);
        let failure = create(attributes);
        CREATING_THREAD.store(0, Ordering::Relaxed);
        *tls = (TLS_MEMORY[0].load(Ordering::Relaxed), TLS_MEMORY[1].load(Ordering::Relaxed));
        failure
    }
}

/// Serializes thread creation, which uses `CREATING_THREAD` and `TLS_MEMORY`.
static CREATE_LOCK: Mutex<()> = Mutex::new(());

/// Tid of the thread that is creating one on a stack in the arena; 0 if none.
static CREATING_THREAD: AtomicU64 = AtomicU64::new(0);

/// Alignment of thread-local storage, as for memory from the system.
const PAGE: usize = 4096;

/// Thread-local storage for the thread being created, address and length: left by an ended thread, or newly
/// allocated.
static TLS_MEMORY: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Allocates zeroed memory in the arena for thread-local storage, if the caller is creating a thread on a
/// stack in the arena. Called by C libraries that do not place that storage on the stack.
pub fn allocate_tls(length: usize) -> Option<*mut u8> {
    let creating_thread = CREATING_THREAD.load(Ordering::Relaxed);
    if creating_thread == 0 || creating_thread != sys::thread_id() {
        return None;
    }
    let [address, there] = [&TLS_MEMORY[0], &TLS_MEMORY[1]].map(|word| word.load(Ordering::Relaxed));
    let memory = if address != 0 && there >= length {
        address as *mut u8
    } else {
        store::current()?.allocate(length, PAGE)?
    };
    TLS_MEMORY[0].store(memory as usize, Ordering::Relaxed);
    TLS_MEMORY[1].store(length.max(there), Ordering::Relaxed);
    // SAFETY: the memory has this length and is used by no other thread.
    unsafe { ptr::write_bytes(memory, 0, length) };
    Some(memory)
}

fn default_stack_bytes() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is local.
    unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) };
    usize::try_from(limit.rlim_cur).ok().filter(|&size| size < 1 << 40).unwrap_or(UNLIMITED_BYTES)
}

/// Signature of a program's `main`.
pub type Main = unsafe extern "C" fn(c_int, *mut *mut i8, *mut *mut i8) -> c_int;

/// Call of `main` on a stack in the arena, if any.
static MAIN_CALL: AtomicPtr<MainCall> = AtomicPtr::new(ptr::null_mut());

/// Call of `main` on a stack in the arena.
pub struct MainCall {
    main: Main,
    argc: c_int,
    argv: *mut *mut i8,
    envp: *mut *mut i8,
    at_end: fn(),
    /// Record that the process's first thread had, if constructors used OpenMP.
    record: Option<&'static Thread>,
    stack: OnceLock<StackBounds>,
    status: AtomicU32,
    ended: AtomicU32,
}

impl MainCall {
    /// Creates a call with the arguments of `main` and a function to run after its return. What constructors
    /// set in the calling thread will be set for `main`.
    pub fn new(main: Main, (argc, argv, envp): (c_int, *mut *mut i8, *mut *mut i8), at_end: fn()) -> Self {
        let (status, ended) = (AtomicU32::new(0), AtomicU32::new(0));
        let record = start::leave_record();
        Self { main, argc, argv, envp, at_end, record, stack: OnceLock::new(), status, ended }
    }

    /// Starts a thread that calls `main`. Called once per process.
    pub fn start(&'static self, store: &Store) {
        MAIN_CALL.store(ptr::from_ref(self).cast_mut(), Ordering::Release);
        let argument = ptr::from_ref(self).cast_mut().cast();
        let stack = Stack::of_main(store);
        let _ = self.stack.set(stack.bounds(true));
        // SAFETY: the stack is new; the argument is what `main_thread` takes.
        if let Err(text) = unsafe { stack.run(main_thread, argument) } {
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

extern "C" fn main_thread(argument: *mut c_void) -> *mut c_void {
    // SAFETY: the argument is a `MainCall` that is never freed.
    let call = unsafe { &*argument.cast::<MainCall>() };
    if let Some(record) = call.record {
        start::take_record(record);
    }
    let me = start::current();
    me.status.set_role(Role::Main);
    me.stack.set(call.stack.get().copied());
    fault::watch_stack(me);
    // SAFETY: the program's function, with the arguments from the C library.
    let status = unsafe { (call.main)(call.argc, call.argv, call.envp) };
    call.end(status)
}

/// Ends the program as if `main` had returned. Only the thread that runs `main` may call this.
pub fn end_main(status: c_int) -> ! {
    // SAFETY: the call is never freed.
    match unsafe { MAIN_CALL.load(Ordering::Acquire).as_ref() } {
        Some(call) => call.end(status),
        None => sys::exit(status),
    }
}
