//! Loops, sections, `single` and `scope`.

use std::ffi::c_void;
use std::ptr;

use tombolo_omp_team::constructs::barrier::barrier;
use tombolo_omp_team::constructs::doacross;
use tombolo_omp_team::constructs::{loops, reduction};
use tombolo_omp_team::job::start;
use tombolo_omp_team::primitives::icv::ScheduleKind;
use tombolo_omp_team::primitives::store::Store;
use tombolo_omp_team::team::share::{Range, WorkShare};
use tombolo_omp_team::team::thread::Thread;

/// Stores the bounds of a chunk in the program's variables. Returns whether there is a chunk.
///
/// # Safety
/// `low` and `high` are the program's variables for bounds.
#[inline]
unsafe fn bounds(found: Option<(u64, u64)>, low: *mut u64, high: *mut u64) -> bool {
    let Some((first, last)) = found else { return false };
    // SAFETY: guaranteed by the caller.
    unsafe {
        low.write(first);
        high.write(last);
    }
    true
}

/// Resets the thread's chunk at the start of a loop, for `ordered`.
fn reset_chunk(me: &'static Thread) {
    me.set_chunk((0, 0));
}

fn chunk_of(chunk: i64) -> u64 {
    u64::try_from(chunk).unwrap_or(0)
}

/// Start functions of loops over `long`, each with its schedule and the function that takes the next chunk.
macro_rules! signed_loops {
    ($($start:ident $kind:ident $smallest:literal $next:ident;)*) => {$(
        /// Enters a loop and takes this thread's first chunk. Returns whether there is one.
        ///
        /// # Safety
        /// `low` and `high` are variables of the program.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $start(
            start: i64, end: i64, step: i64, chunk: i64, low: *mut u64, high: *mut u64,
        ) -> bool {
            let me = start::current();
            reset_chunk(me);
            loops::start(me, Range::signed(start, end, step), (ScheduleKind::$kind, chunk_of(chunk).max($smallest)));
            // SAFETY: guaranteed by the caller.
            unsafe { bounds(loops::$next(me), low, high) }
        }
    )*};
}

signed_loops! {
    GOMP_loop_static_start Static 0 next;
    GOMP_loop_dynamic_start Dynamic 1 next;
    GOMP_loop_guided_start Guided 1 next;
    GOMP_loop_nonmonotonic_dynamic_start Dynamic 1 next;
    GOMP_loop_nonmonotonic_guided_start Guided 1 next;
    GOMP_loop_ordered_static_start Static 0 next_ordered;
    GOMP_loop_ordered_dynamic_start Dynamic 1 next_ordered;
    GOMP_loop_ordered_guided_start Guided 1 next_ordered;
}

macro_rules! signed_loops_runtime {
    ($($start:ident $next:ident;)*) => {$(
        /// Enters a loop with `schedule(runtime)` and takes this thread's first chunk. Returns whether there
        /// is one.
        ///
        /// # Safety
        /// `low` and `high` are variables of the program.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $start(start: i64, end: i64, step: i64, low: *mut u64, high: *mut u64) -> bool {
            let me = start::current();
            reset_chunk(me);
            loops::start(me, Range::signed(start, end, step), loops::runtime(me));
            // SAFETY: guaranteed by the caller.
            unsafe { bounds(loops::$next(me), low, high) }
        }
    )*};
}

signed_loops_runtime! {
    GOMP_loop_runtime_start next;
    GOMP_loop_nonmonotonic_runtime_start next;
    GOMP_loop_maybe_nonmonotonic_runtime_start next;
    GOMP_loop_ordered_runtime_start next_ordered;
}

/// Functions that take the next chunk, which are the same for all schedules and types.
macro_rules! next_chunks {
    ($next:ident: $($name:ident)*) => {$(
        /// Takes the next chunk for this thread. Returns whether there is one.
        ///
        /// # Safety
        /// `low` and `high` are variables of the program.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(low: *mut u64, high: *mut u64) -> bool {
            // SAFETY: guaranteed by the caller.
            unsafe { bounds(loops::$next(start::current()), low, high) }
        }
    )*};
}

next_chunks! { next:
    GOMP_loop_static_next GOMP_loop_dynamic_next GOMP_loop_guided_next GOMP_loop_runtime_next
    GOMP_loop_nonmonotonic_dynamic_next GOMP_loop_nonmonotonic_guided_next
    GOMP_loop_nonmonotonic_runtime_next GOMP_loop_maybe_nonmonotonic_runtime_next
    GOMP_loop_ull_static_next GOMP_loop_ull_dynamic_next GOMP_loop_ull_guided_next GOMP_loop_ull_runtime_next
    GOMP_loop_ull_nonmonotonic_dynamic_next GOMP_loop_ull_nonmonotonic_guided_next
    GOMP_loop_ull_nonmonotonic_runtime_next GOMP_loop_ull_maybe_nonmonotonic_runtime_next
}
next_chunks! { next_ordered:
    GOMP_loop_ordered_static_next GOMP_loop_ordered_dynamic_next GOMP_loop_ordered_guided_next
    GOMP_loop_ordered_runtime_next
    GOMP_loop_ull_ordered_static_next GOMP_loop_ull_ordered_dynamic_next GOMP_loop_ull_ordered_guided_next
    GOMP_loop_ull_ordered_runtime_next
}

/// Start functions of loops over `unsigned long long`.
macro_rules! unsigned_loops {
    ($($start:ident $kind:ident $smallest:literal $next:ident;)*) => {$(
        /// Enters a loop and takes this thread's first chunk. Returns whether there is one.
        ///
        /// # Safety
        /// `low` and `high` are variables of the program.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $start(
            up: bool, start: u64, end: u64, step: u64, chunk: u64, low: *mut u64, high: *mut u64,
        ) -> bool {
            let me = start::current();
            reset_chunk(me);
            loops::start(me, Range::unsigned(up, start, end, step), (ScheduleKind::$kind, chunk.max($smallest)));
            // SAFETY: guaranteed by the caller.
            unsafe { bounds(loops::$next(me), low, high) }
        }
    )*};
}

unsigned_loops! {
    GOMP_loop_ull_static_start Static 0 next;
    GOMP_loop_ull_dynamic_start Dynamic 1 next;
    GOMP_loop_ull_guided_start Guided 1 next;
    GOMP_loop_ull_nonmonotonic_dynamic_start Dynamic 1 next;
    GOMP_loop_ull_nonmonotonic_guided_start Guided 1 next;
    GOMP_loop_ull_ordered_static_start Static 0 next_ordered;
    GOMP_loop_ull_ordered_dynamic_start Dynamic 1 next_ordered;
    GOMP_loop_ull_ordered_guided_start Guided 1 next_ordered;
}

macro_rules! unsigned_loops_runtime {
    ($($start:ident $next:ident;)*) => {$(
        /// Enters a loop with `schedule(runtime)` and takes this thread's first chunk. Returns whether there
        /// is one.
        ///
        /// # Safety
        /// `low` and `high` are variables of the program.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $start(
            up: bool, start: u64, end: u64, step: u64, low: *mut u64, high: *mut u64,
        ) -> bool {
            let me = start::current();
            reset_chunk(me);
            loops::start(me, Range::unsigned(up, start, end, step), loops::runtime(me));
            // SAFETY: guaranteed by the caller.
            unsafe { bounds(loops::$next(me), low, high) }
        }
    )*};
}

unsigned_loops_runtime! {
    GOMP_loop_ull_runtime_start next;
    GOMP_loop_ull_nonmonotonic_runtime_start next;
    GOMP_loop_ull_maybe_nonmonotonic_runtime_start next;
    GOMP_loop_ull_ordered_runtime_start next_ordered;
}

/// Additional needs of a construct: copies for task reductions, and memory that all threads share.
struct Extras {
    reductions: *mut usize,
    memory: *mut *mut c_void,
}

impl Extras {
    fn any(&self) -> bool {
        !self.reductions.is_null() || !self.memory.is_null()
    }

    /// Provides them: the first thread creates them, the others wait and take them over.
    ///
    /// # Safety
    /// The pointers are null or the program's.
    unsafe fn provide(&self, me: &'static Thread, (share, first): (&'static WorkShare, bool)) {
        if self.any() {
            // SAFETY: guaranteed by the caller.
            unsafe {
                share.prepare(first, || self.create(me, share));
                self.take(me, (share, first));
            }
        }
    }

    /// Creates them, in the first thread.
    ///
    /// # Safety
    /// The pointers are null or the program's.
    unsafe fn create(&self, me: &'static Thread, share: &'static WorkShare) {
        if !self.reductions.is_null() {
            reduction::register_in_group(me, self.reductions, share.reductions.get());
        }
        share.reductions.set(self.reductions);
        // SAFETY: guaranteed by the caller; the program's word holds the size of the memory.
        if let Some(size) = unsafe { self.memory.as_ref() } {
            share.set_memory(zeroed(me.store(), *size as usize));
        }
    }

    /// Takes them over, in all threads, once they have been created.
    ///
    /// # Safety
    /// The pointers are null or the program's.
    unsafe fn take(&self, me: &'static Thread, (share, first): (&'static WorkShare, bool)) {
        if !first && !self.reductions.is_null() {
            reduction::register_in_group(me, self.reductions, share.reductions.get());
        }
        // SAFETY: guaranteed by the caller.
        if let Some(place) = unsafe { self.memory.as_mut() } {
            *place = share.memory().cast();
        }
    }
}

fn zeroed(store: &Store, bytes: usize) -> *mut u8 {
    let Some(memory) = store.allocate(bytes.max(1), 64) else { store.exhausted() };
    // SAFETY: the memory is new and has that length.
    unsafe { ptr::write_bytes(memory, 0, bytes) };
    memory
}

/// Enters a loop with extras and takes this thread's first chunk, if `low` is not null.
///
/// # Safety
/// All pointers are null or the program's.
unsafe fn start_with_extras(
    range: Range,
    (schedule, chunk): (u64, u64),
    (low, high): (*mut u64, *mut u64),
    extras: Extras,
    ordered: bool,
) -> bool {
    let me = start::current();
    if !extras.reductions.is_null() {
        reduction::begin_construct(me);
    }
    reset_chunk(me);
    let entered = loops::start(me, range, loops::decode_schedule(me, schedule, chunk));
    // SAFETY: guaranteed by the caller.
    unsafe { extras.provide(me, entered) };
    if low.is_null() {
        return true;
    }
    let found = if ordered { loops::next_ordered(me) } else { loops::next(me) };
    // SAFETY: guaranteed by the caller.
    unsafe { bounds(found, low, high) }
}

macro_rules! loops_with_extras {
    ($($signed:ident $unsigned:ident $ordered:literal;)*) => {$(
        /// Enters a loop with extras and takes this thread's first chunk.
        ///
        /// # Safety
        /// All pointers are null or the program's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $signed(
            start: i64, end: i64, step: i64, schedule: i64, chunk: i64, low: *mut u64, high: *mut u64,
            reductions: *mut usize, memory: *mut *mut c_void,
        ) -> bool {
            let schedule = (schedule.cast_unsigned(), chunk_of(chunk));
            // SAFETY: guaranteed by the caller.
            unsafe {
                let extras = Extras { reductions, memory };
                start_with_extras(Range::signed(start, end, step), schedule, (low, high), extras, $ordered)
            }
        }

        /// The same for `unsigned long long`.
        ///
        /// # Safety
        /// All pointers are null or the program's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $unsigned(
            up: bool, start: u64, end: u64, step: u64, schedule: i64, chunk: u64, low: *mut u64, high: *mut u64,
            reductions: *mut usize, memory: *mut *mut c_void,
        ) -> bool {
            let schedule = (schedule.cast_unsigned(), chunk);
            // SAFETY: guaranteed by the caller.
            unsafe {
                let extras = Extras { reductions, memory };
                start_with_extras(Range::unsigned(up, start, end, step), schedule, (low, high), extras, $ordered)
            }
        }
    )*};
}

loops_with_extras! {
    GOMP_loop_start GOMP_loop_ull_start false;
    GOMP_loop_ordered_start GOMP_loop_ull_ordered_start true;
}

/// Enters a nest of loops with dependences between iterations (`ordered(n)`), and takes this thread's first
/// chunk, if `low` is not null.
///
/// # Safety
/// All pointers are null or the program's; there are `depth` counts.
unsafe fn start_doacross(
    depth: u32,
    counts: *const u64,
    schedule: impl FnOnce(&'static Thread) -> (ScheduleKind, u64),
    (low, high): (*mut u64, *mut u64),
    extras: Extras,
) -> bool {
    let me = start::current();
    if !extras.reductions.is_null() {
        reduction::begin_construct(me);
    }
    reset_chunk(me);
    // SAFETY: guaranteed by the caller.
    let counts = unsafe { std::slice::from_raw_parts(counts, depth as usize) };
    // SAFETY: guaranteed by the caller.
    unsafe {
        let entered = doacross::start(me, counts, schedule(me), |share| extras.create(me, share));
        extras.take(me, entered);
    }
    if low.is_null() {
        return true;
    }
    // SAFETY: guaranteed by the caller.
    unsafe { bounds(loops::next(me), low, high) }
}

const EMPTY_EXTRAS: Extras = Extras { reductions: ptr::null_mut(), memory: ptr::null_mut() };

macro_rules! doacross_loops {
    ($($signed:ident $unsigned:ident $kind:ident $smallest:literal;)*) => {$(
        /// Enters `ordered(n)` and takes this thread's first chunk.
        ///
        /// # Safety
        /// All pointers are the program's; there are `depth` counts.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $signed(
            depth: u32, counts: *const u64, chunk: i64, low: *mut u64, high: *mut u64,
        ) -> bool {
            let schedule = (ScheduleKind::$kind, chunk_of(chunk).max($smallest));
            // SAFETY: guaranteed by the caller.
            unsafe { start_doacross(depth, counts, |_| schedule, (low, high), EMPTY_EXTRAS) }
        }

        /// The same for `unsigned long long`.
        ///
        /// # Safety
        /// All pointers are the program's; there are `depth` counts.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $unsigned(
            depth: u32, counts: *const u64, chunk: u64, low: *mut u64, high: *mut u64,
        ) -> bool {
            let schedule = (ScheduleKind::$kind, chunk.max($smallest));
            // SAFETY: guaranteed by the caller.
            unsafe { start_doacross(depth, counts, |_| schedule, (low, high), EMPTY_EXTRAS) }
        }
    )*};
}

doacross_loops! {
    GOMP_loop_doacross_static_start GOMP_loop_ull_doacross_static_start Static 0;
    GOMP_loop_doacross_dynamic_start GOMP_loop_ull_doacross_dynamic_start Dynamic 1;
    GOMP_loop_doacross_guided_start GOMP_loop_ull_doacross_guided_start Guided 1;
}

macro_rules! doacross_loops_others {
    ($($runtime:ident $general:ident;)*) => {$(
        /// Enters `ordered(n)` with `schedule(runtime)` and takes this thread's first chunk.
        ///
        /// # Safety
        /// All pointers are the program's; there are `depth` counts.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $runtime(depth: u32, counts: *const u64, low: *mut u64, high: *mut u64) -> bool {
            // SAFETY: guaranteed by the caller.
            unsafe { start_doacross(depth, counts, loops::runtime, (low, high), EMPTY_EXTRAS) }
        }

        /// Enters `ordered(n)` with extras and takes this thread's first chunk.
        ///
        /// # Safety
        /// All pointers are null or the program's; there are `depth` counts.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $general(
            depth: u32, counts: *const u64, schedule: i64, chunk: u64, low: *mut u64, high: *mut u64,
            reductions: *mut usize, memory: *mut *mut c_void,
        ) -> bool {
            let schedule = |me| loops::decode_schedule(me, schedule.cast_unsigned(), chunk);
            // SAFETY: guaranteed by the caller.
            unsafe { start_doacross(depth, counts, schedule, (low, high), Extras { reductions, memory }) }
        }
    )*};
}

doacross_loops_others! {
    GOMP_loop_doacross_runtime_start GOMP_loop_doacross_start;
    GOMP_loop_ull_doacross_runtime_start GOMP_loop_ull_doacross_start;
}

/// The end of a loop: waits for the others.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_loop_end() {
    barrier(start::current(), false);
}

/// The end of a loop with `nowait`. Does nothing: the next construct has a work share of its own.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_loop_end_nowait() {}

/// The end of a loop in a region that may be cancelled. Returns whether it was.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_loop_end_cancel() -> bool {
    barrier(start::current(), true)
}

/// Enters `sections` and returns the number of this thread's first section, or 0.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_sections_start(count: u32) -> u32 {
    let me = start::current();
    loops::start_sections(me, u64::from(count));
    loops::next_section(me)
}

/// `sections` with extras.
///
/// # Safety
/// All pointers are null or the program's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_sections2_start(
    count: u32,
    reductions: *mut usize,
    memory: *mut *mut c_void,
) -> u32 {
    let me = start::current();
    if !reductions.is_null() {
        reduction::begin_construct(me);
    }
    let entered = loops::start_sections(me, u64::from(count));
    // SAFETY: guaranteed by the caller.
    unsafe { Extras { reductions, memory }.provide(me, entered) };
    loops::next_section(me)
}

/// Returns the number of this thread's next section, or 0.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_sections_next() -> u32 {
    loops::next_section(start::current())
}

/// The end of `sections`: waits for the others.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_sections_end() {
    barrier(start::current(), false);
}

/// The end of `sections` with `nowait`.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_sections_end_nowait() {}

/// The end of `sections` in a region that may be cancelled. Returns whether it was.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_sections_end_cancel() -> bool {
    barrier(start::current(), true)
}

/// `single`. Returns whether this thread executes it.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_single_start() -> bool {
    loops::try_claim_single(start::current())
}

/// `single copyprivate`. Returns null to the thread that executes it, and to the others the data to copy.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_single_copy_start() -> *mut c_void {
    let me = start::current();
    if loops::try_claim_single(me) {
        return ptr::null_mut();
    }
    barrier(me, false);
    me.team().copyprivate_data.get()
}

/// The end of `single copyprivate`, called by the thread that executed it.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_single_copy_end(data: *mut c_void) {
    let me = start::current();
    me.team().copyprivate_data.set(data);
    barrier(me, false);
}

/// `scope reduction(task, …)`.
///
/// # Safety
/// `reductions` is null or the program's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_scope_start(reductions: *mut usize) {
    let me = start::current();
    if reductions.is_null() {
        return;
    }
    reduction::begin_construct(me);
    let entered = loops::start(me, Range::default(), (ScheduleKind::Static, 0));
    // SAFETY: guaranteed by the caller.
    unsafe { Extras { reductions, memory: ptr::null_mut() }.provide(me, entered) };
}
