//! Synchronization objects of POSIX threads in an image.
//!
//! The C library's futexes wake threads of one process only. So mutexes, condition variables, barriers,
//! semaphores and the like are words here on which threads sleep through the job's parking. They have the
//! size and initial values of musl's.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};

use tombolo_omp_team::device::migrate;
use tombolo_omp_team::job::start;
use tombolo_omp_team::primitives::lock::Lock;
use tombolo_omp_team::primitives::{park, separate_processes, sys};

use crate::cancellation;
use crate::threads::errno_status;

/// Ensures that the calling thread has a record; a thread without one polls instead of sleeping.
fn ensure_registered() {
    if separate_processes::is_enabled() {
        start::current();
    }
}

/// Mutex in the memory of musl's, whose kind is kept.
#[repr(C)]
pub struct Mutex {
    kind: AtomicU32,
    lock: Lock,
    /// Owner of the mutex, if its kind needs one.
    owner: AtomicUsize,
    count: AtomicU32,
}

const RECURSIVE: u32 = 1;
const ERROR_CHECK: u32 = 2;
const KIND_MASK: u32 = 3;
/// Bits of musl for robust and priority-inheriting mutexes.
const UNSUPPORTED: u32 = 12;

impl Mutex {
    /// Acquires the mutex with `attempt`. Returns 0 or an errno value.
    fn acquire(&self, attempt: impl FnOnce(&Lock) -> c_int) -> c_int {
        ensure_registered();
        let kind = self.kind.load(Ordering::Relaxed);
        if kind & UNSUPPORTED != 0 {
            return libc::ENOTSUP;
        }
        if kind & KIND_MASK == 0 {
            return attempt(&self.lock);
        }
        let me = migrate::identity(start::current());
        if self.owner.load(Ordering::Relaxed) == me {
            if kind & KIND_MASK == ERROR_CHECK {
                return libc::EDEADLK;
            }
            self.count.fetch_add(1, Ordering::Relaxed);
            return 0;
        }
        let taken = attempt(&self.lock);
        if taken == 0 {
            self.owner.store(me, Ordering::Relaxed);
            self.count.store(1, Ordering::Relaxed);
        }
        taken
    }

    fn release(&self) -> c_int {
        if self.kind.load(Ordering::Relaxed) & KIND_MASK != 0 {
            if self.owner.load(Ordering::Relaxed) != migrate::identity(start::current()) {
                return libc::EPERM;
            }
            if self.count.fetch_sub(1, Ordering::Relaxed) > 1 {
                return 0;
            }
            self.owner.store(0, Ordering::Relaxed);
        }
        self.lock.release();
        0
    }

    /// Releases the mutex entirely, for a condition variable. Returns its nesting count.
    fn release_all(&self) -> Result<u32, c_int> {
        let taken = self.count.load(Ordering::Relaxed);
        if self.kind.load(Ordering::Relaxed) & KIND_MASK == RECURSIVE {
            self.count.store(1, Ordering::Relaxed);
        }
        match self.release() {
            0 => Ok(taken),
            error => Err(error),
        }
    }

    fn reacquire(&self, taken: u32) {
        self.acquire(wait);
        if self.kind.load(Ordering::Relaxed) & KIND_MASK == RECURSIVE {
            self.count.store(taken, Ordering::Relaxed);
        }
    }
}

fn wait(lock: &Lock) -> c_int {
    lock.acquire();
    0
}

/// Polling interval of a wait with a deadline, in microseconds.
const POLL_INTERVAL_US: u32 = 500;

/// Polls until a condition holds or the deadline passes. Returns 0, `ETIMEDOUT`, or `EINVAL` for an invalid
/// deadline.
///
/// # Safety
/// `time` can be read.
unsafe fn poll_until(
    clock: libc::clockid_t,
    time: *const libc::timespec,
    mut holds: impl FnMut() -> bool,
) -> c_int {
    loop {
        if holds() {
            return 0;
        }
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the current time is a local variable; the caller guarantees the rest.
        let end = unsafe {
            libc::clock_gettime(clock, &raw mut now);
            *time
        };
        if !(0..1_000_000_000).contains(&end.tv_nsec) {
            return libc::EINVAL;
        }
        if (now.tv_sec, now.tv_nsec) >= (end.tv_sec, end.tv_nsec) {
            return libc::ETIMEDOUT;
        }
        sys::sleep_for(POLL_INTERVAL_US);
    }
}

/// Acquires a mutex, waiting until it is free.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_pthread_mutex_lock(mutex: &Mutex) -> c_int {
    mutex.acquire(wait)
}

/// Acquires a mutex if it is free.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_pthread_mutex_trylock(mutex: &Mutex) -> c_int {
    match mutex.acquire(|lock| if lock.try_acquire() { 0 } else { libc::EBUSY }) {
        libc::EDEADLK => libc::EBUSY,
        taken => taken,
    }
}

/// Acquires a mutex, waiting until a deadline.
///
/// # Safety
/// `time` can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_mutex_timedlock(mutex: &Mutex, time: *const libc::timespec) -> c_int {
    // SAFETY: guaranteed by the caller.
    mutex.acquire(|lock| unsafe { poll_until(libc::CLOCK_REALTIME, time, || lock.try_acquire()) })
}

/// Releases a mutex that the caller holds.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_pthread_mutex_unlock(mutex: &Mutex) -> c_int {
    mutex.release()
}

/// Condition variable in the memory of musl's, whose clock is kept.
#[repr(C)]
pub struct Condvar {
    reserved: [u32; 4],
    clock: AtomicI32,
    reserved_tail: u32,
    /// Number of signals so far.
    signals: AtomicU32,
}

/// Waits for a condition variable.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_pthread_cond_wait(condition: &Condvar, mutex: &Mutex) -> c_int {
    ensure_registered();
    cancellation::test_cancel();
    let signals = condition.signals.load(Ordering::SeqCst);
    let taken = match mutex.release_all() {
        Ok(taken) => taken,
        Err(error) => return error,
    };
    cancellation::sleep(&condition.signals, signals);
    mutex.reacquire(taken);
    test_cancel_unless_signalled(condition, signals);
    0
}

/// Acts as a cancellation point after a wait. A signalled thread may be the only one that was woken, so it
/// must continue.
fn test_cancel_unless_signalled(condition: &Condvar, signals: u32) {
    if condition.signals.load(Ordering::SeqCst) == signals {
        cancellation::test_cancel();
    }
}

/// Waits for a condition variable until a deadline.
///
/// # Safety
/// `time` can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_cond_timedwait(
    condition: &Condvar,
    mutex: &Mutex,
    time: *const libc::timespec,
) -> c_int {
    ensure_registered();
    cancellation::test_cancel();
    let signals = condition.signals.load(Ordering::SeqCst);
    let taken = match mutex.release_all() {
        Ok(taken) => taken,
        Err(error) => return error,
    };
    let clock = condition.clock.load(Ordering::Relaxed);
    let signalled = || condition.signals.load(Ordering::SeqCst) != signals;
    // SAFETY: guaranteed by the caller.
    let ended = unsafe {
        if separate_processes::is_enabled() {
            poll_until(clock, time, || signalled() || cancellation::is_due())
        } else {
            cancellation::sleep_until(&condition.signals, signals, clock, time)
        }
    };
    mutex.reacquire(taken);
    test_cancel_unless_signalled(condition, signals);
    // The program sees an interruption as a spurious wake-up.
    if matches!(ended, libc::EINTR | libc::ECANCELED) { 0 } else { ended }
}

fn signal(condition: &Condvar, count: u32) -> c_int {
    condition.signals.fetch_add(1, Ordering::SeqCst);
    park::wake(&condition.signals, count);
    0
}

/// Wakes one thread that waits for a condition variable.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_pthread_cond_signal(condition: &Condvar) -> c_int {
    signal(condition, 1)
}

/// Wakes all threads that wait for a condition variable.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_pthread_cond_broadcast(condition: &Condvar) -> c_int {
    signal(condition, c_int::MAX.unsigned_abs())
}

/// Barrier in the memory of musl's.
#[repr(C)]
pub struct Barrier {
    threads: AtomicU32,
    arrived: AtomicU32,
    generation: AtomicU32,
}

/// Initializes a barrier for a number of threads.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_pthread_barrier_init(
    barrier: &Barrier,
    _attributes: *const c_void,
    threads: u32,
) -> c_int {
    if threads == 0 {
        return libc::EINVAL;
    }
    barrier.threads.store(threads, Ordering::Relaxed);
    barrier.arrived.store(0, Ordering::Relaxed);
    0
}

/// Destroys a barrier, which has no resources.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_pthread_barrier_destroy(_barrier: &Barrier) -> c_int {
    0
}

/// Waits until all threads have reached the barrier.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_pthread_barrier_wait(barrier: &Barrier) -> c_int {
    ensure_registered();
    let generation = barrier.generation.load(Ordering::SeqCst);
    if barrier.arrived.fetch_add(1, Ordering::SeqCst) + 1 == barrier.threads.load(Ordering::Relaxed) {
        barrier.arrived.store(0, Ordering::SeqCst);
        barrier.generation.fetch_add(1, Ordering::SeqCst);
        park::wake(&barrier.generation, c_int::MAX.unsigned_abs());
        return libc::PTHREAD_BARRIER_SERIAL_THREAD;
    }
    while barrier.generation.load(Ordering::SeqCst) == generation {
        park::sleep(&barrier.generation, generation);
    }
    0
}

/// Semaphore in the memory of musl's.
#[repr(C)]
pub struct Semaphore(AtomicU32);

impl Semaphore {
    fn try_decrement(&self) -> bool {
        let less = |value: u32| value.checked_sub(1);
        self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, less).is_ok()
    }
}

/// Increments a semaphore and wakes a waiter.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_sem_post(semaphore: &Semaphore) -> c_int {
    let more = |value: u32| (value < c_int::MAX.unsigned_abs()).then_some(value + 1);
    if semaphore.0.fetch_update(Ordering::Release, Ordering::Relaxed, more).is_err() {
        return errno_status(libc::EOVERFLOW);
    }
    park::wake(&semaphore.0, 1);
    0
}

/// Decrements a semaphore, waiting while it is 0.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_sem_wait(semaphore: &Semaphore) -> c_int {
    ensure_registered();
    cancellation::test_cancel();
    while !semaphore.try_decrement() {
        match cancellation::sleep(&semaphore.0, 0) {
            libc::ECANCELED => cancellation::test_cancel(),
            libc::EINTR => return errno_status(libc::EINTR),
            _ => {}
        }
    }
    0
}

/// Decrements a semaphore unless it is 0.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_sem_trywait(semaphore: &Semaphore) -> c_int {
    errno_status(if semaphore.try_decrement() { 0 } else { libc::EAGAIN })
}

/// Decrements a semaphore, waiting until a deadline.
///
/// # Safety
/// `time` can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_sem_timedwait(semaphore: &Semaphore, time: *const libc::timespec) -> c_int {
    ensure_registered();
    cancellation::test_cancel();
    if !separate_processes::is_enabled() {
        // SAFETY: guaranteed by the caller.
        return errno_status(unsafe { wait_until_deadline(semaphore, time) });
    }
    let mut is_taken = false;
    let mut holds = || {
        is_taken = semaphore.try_decrement();
        is_taken || cancellation::is_due()
    };
    // SAFETY: guaranteed by the caller.
    let ended = unsafe { poll_until(libc::CLOCK_REALTIME, time, &mut holds) };
    if !is_taken {
        cancellation::test_cancel();
    }
    errno_status(ended)
}

/// Decrements a semaphore before a deadline, in a program that is not a job. Returns 0 or an errno value.
///
/// # Safety
/// `time` can be read.
unsafe fn wait_until_deadline(semaphore: &Semaphore, time: *const libc::timespec) -> c_int {
    while !semaphore.try_decrement() {
        // SAFETY: guaranteed by the caller.
        match unsafe { cancellation::sleep_until(&semaphore.0, 0, libc::CLOCK_REALTIME, time) } {
            0 => {}
            libc::ECANCELED => cancellation::test_cancel(),
            error => return error,
        }
    }
    0
}

/// Readers-writer lock in the memory of musl's.
#[repr(C)]
pub struct RwLock {
    /// Number of readers that hold it, or [`WRITER`].
    state: AtomicU32,
    /// Number of times that it became free.
    release_count: AtomicU32,
}

const WRITER: u32 = u32::MAX;

impl RwLock {
    fn try_read(&self) -> bool {
        let one_more = |state: u32| state.checked_add(1).filter(|&more| more != WRITER);
        self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).is_ok()
    }

    fn try_write(&self) -> bool {
        self.state.compare_exchange(0, WRITER, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Acquires the lock with `attempt`, waiting until it succeeds.
    fn acquire(&self, attempt: impl Fn(&Self) -> bool) -> c_int {
        ensure_registered();
        loop {
            // Read before the attempt, so that a release after the attempt wakes this thread.
            let release_count = self.release_count.load(Ordering::SeqCst);
            if attempt(self) {
                return 0;
            }
            park::sleep(&self.release_count, release_count);
        }
    }

    fn release(&self) -> c_int {
        let less = |state: u32| if state == WRITER { Some(0) } else { state.checked_sub(1) };
        match self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less) {
            Ok(1 | WRITER) => {
                self.release_count.fetch_add(1, Ordering::SeqCst);
                park::wake(&self.release_count, c_int::MAX.unsigned_abs());
                0
            }
            Ok(_) => 0,
            Err(_) => libc::EPERM,
        }
    }
}

/// Acquires a lock for reading, waiting until it can.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_pthread_rwlock_rdlock(lock: &RwLock) -> c_int {
    lock.acquire(RwLock::try_read)
}

/// Acquires a lock for writing, waiting until it can.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_pthread_rwlock_wrlock(lock: &RwLock) -> c_int {
    lock.acquire(RwLock::try_write)
}

/// Acquires a lock for reading unless a writer holds it.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_pthread_rwlock_tryrdlock(lock: &RwLock) -> c_int {
    if lock.try_read() { 0 } else { libc::EBUSY }
}

/// Acquires a lock for writing if it is free.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_pthread_rwlock_trywrlock(lock: &RwLock) -> c_int {
    if lock.try_write() { 0 } else { libc::EBUSY }
}

/// Acquires a lock for reading, waiting until a deadline.
///
/// # Safety
/// `time` can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_rwlock_timedrdlock(
    lock: &RwLock,
    time: *const libc::timespec,
) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { poll_until(libc::CLOCK_REALTIME, time, || lock.try_read()) }
}

/// Acquires a lock for writing, waiting until a deadline.
///
/// # Safety
/// `time` can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_rwlock_timedwrlock(
    lock: &RwLock,
    time: *const libc::timespec,
) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { poll_until(libc::CLOCK_REALTIME, time, || lock.try_write()) }
}

/// Releases a lock that was acquired for reading or writing.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_pthread_rwlock_unlock(lock: &RwLock) -> c_int {
    lock.release()
}

const BEGUN: u32 = 1;
const DONE: u32 = 2;

/// Calls a function once for this word; later callers wait until that call has returned.
///
/// # Safety
/// The function can be called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_once(once: &AtomicU32, function: unsafe extern "C" fn()) -> c_int {
    ensure_registered();
    match once.compare_exchange(0, BEGUN, Ordering::SeqCst, Ordering::SeqCst) {
        Ok(_) => {
            // SAFETY: guaranteed by the caller.
            unsafe { function() };
            once.store(DONE, Ordering::SeqCst);
            park::wake(once, c_int::MAX.unsigned_abs());
        }
        Err(_) => {
            while once.load(Ordering::SeqCst) == BEGUN {
                park::sleep(once, BEGUN);
            }
        }
    }
    0
}
