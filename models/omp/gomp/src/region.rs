//! Parallel regions, and leagues of teams on the host.

use std::ffi::c_void;
use std::ptr;

use tombolo_omp_team::constructs::region::Region;
use tombolo_omp_team::constructs::{loops, reduction, region};
use tombolo_omp_team::job::start;
use tombolo_omp_team::primitives::icv::ScheduleKind;
use tombolo_omp_team::team::share::Range;
use tombolo_omp_team::team::task::Function;
use tombolo_omp_team::team::thread::Thread;

fn region(function: Function, data: *mut c_void, threads: u32, flags: u32) -> Region {
    Region { function, data, threads, bind: flags & 7, group: None }
}

/// Runs a region from start to end; the caller is its thread 0.
fn run(me: &'static Thread, region: Region, share: Option<(Range, ScheduleKind, u64)>) {
    begin(me, region, share);
    // SAFETY: the program's function, with the argument that the program passed for it.
    unsafe { (region.function)(region.data) };
    region::end(me);
}

fn begin(me: &'static Thread, region: Region, share: Option<(Range, ScheduleKind, u64)>) {
    region::begin(me, region, |first, _| {
        if let Some((range, kind, chunk)) = share {
            first.describe(range, kind, chunk);
        }
    });
}

/// `parallel`.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_parallel(function: Function, data: *mut c_void, threads: u32, flags: u32) {
    run(start::current(), region(function, data, threads, flags), None);
}

/// `parallel` as called by GCC before 4.9: the caller runs its part between this and [`GOMP_parallel_end`].
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_parallel_start(function: Function, data: *mut c_void, threads: u32) {
    begin(start::current(), region(function, data, threads, 0), None);
}

/// The end of a region begun by `GOMP_parallel…_start`.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_parallel_end() {
    region::end(start::current());
}

/// `parallel reduction(task, …)`. Returns the number of threads of the region.
///
/// # Safety
/// `data` is the program's frame and begins with the address of its reduction array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_parallel_reductions(
    function: Function,
    data: *mut c_void,
    threads: u32,
    flags: u32,
) -> u32 {
    let me = start::current();
    let threads = region::resolve_team_size(me, threads, function);
    // SAFETY: the first word of the frame of such a region is the address of its array.
    let array = unsafe { *data.cast::<*mut usize>() };
    let group = reduction::create_region_group(me, array, threads);
    begin(me, Region { group: Some(group), ..region(function, data, threads, flags) }, None);
    let threads = me.team().size();
    // SAFETY: the program's function, with the argument that the program passed for it.
    unsafe { function(data) };
    region::end(me);
    // SAFETY: the group came from the store, and all of its tasks are finished.
    unsafe { me.store().release(ptr::from_ref(group).cast_mut().cast()) };
    threads
}

/// Regions combined with a loop, with the chunk size of the clause.
macro_rules! parallel_loops {
    ($($name:ident $old:ident $kind:ident $smallest:literal;)*) => {$(
        /// `parallel` combined with a loop.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(
            function: Function, data: *mut c_void, threads: u32,
            start: i64, end: i64, step: i64, chunk: i64, flags: u32,
        ) {
            let chunk = u64::try_from(chunk).unwrap_or(0).max($smallest);
            let share = (Range::signed(start, end, step), ScheduleKind::$kind, chunk);
            run(start::current(), region(function, data, threads, flags), Some(share));
        }

        /// The same as called by GCC before 4.9.
        #[unsafe(no_mangle)]
        pub extern "C" fn $old(
            function: Function, data: *mut c_void, threads: u32, start: i64, end: i64, step: i64, chunk: i64,
        ) {
            let chunk = u64::try_from(chunk).unwrap_or(0).max($smallest);
            let share = (Range::signed(start, end, step), ScheduleKind::$kind, chunk);
            begin(start::current(), region(function, data, threads, 0), Some(share));
        }
    )*};
}

parallel_loops! {
    GOMP_parallel_loop_static GOMP_parallel_loop_static_start Static 0;
    GOMP_parallel_loop_dynamic GOMP_parallel_loop_dynamic_start Dynamic 1;
    GOMP_parallel_loop_guided GOMP_parallel_loop_guided_start Guided 1;
}

/// `parallel for schedule(nonmonotonic: dynamic)`.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_parallel_loop_nonmonotonic_dynamic(
    function: Function,
    data: *mut c_void,
    threads: u32,
    start: i64,
    end: i64,
    step: i64,
    chunk: i64,
    flags: u32,
) {
    GOMP_parallel_loop_dynamic(function, data, threads, start, end, step, chunk, flags);
}

/// `parallel for schedule(nonmonotonic: guided)`.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_parallel_loop_nonmonotonic_guided(
    function: Function,
    data: *mut c_void,
    threads: u32,
    start: i64,
    end: i64,
    step: i64,
    chunk: i64,
    flags: u32,
) {
    GOMP_parallel_loop_guided(function, data, threads, start, end, step, chunk, flags);
}

macro_rules! parallel_loops_runtime {
    ($($name:ident)*) => {$(
        /// `parallel for schedule(runtime)`.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(
            function: Function, data: *mut c_void, threads: u32, start: i64, end: i64, step: i64, flags: u32,
        ) {
            let me = start::current();
            let (kind, chunk) = loops::runtime(me);
            run(me, region(function, data, threads, flags), Some((Range::signed(start, end, step), kind, chunk)));
        }
    )*};
}

parallel_loops_runtime! {
    GOMP_parallel_loop_runtime
    GOMP_parallel_loop_nonmonotonic_runtime
    GOMP_parallel_loop_maybe_nonmonotonic_runtime
}

/// `parallel for schedule(runtime)` as called by GCC before 4.9.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_parallel_loop_runtime_start(
    function: Function,
    data: *mut c_void,
    threads: u32,
    start: i64,
    end: i64,
    step: i64,
) {
    let me = start::current();
    let (kind, chunk) = loops::runtime(me);
    begin(me, region(function, data, threads, 0), Some((Range::signed(start, end, step), kind, chunk)));
}

/// `parallel sections`.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_parallel_sections(
    function: Function,
    data: *mut c_void,
    threads: u32,
    count: u32,
    flags: u32,
) {
    let share = (Range::counted(u64::from(count)), ScheduleKind::Dynamic, 1);
    run(start::current(), region(function, data, threads, flags), Some(share));
}

/// `parallel sections` as called by GCC before 4.9.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_parallel_sections_start(
    function: Function,
    data: *mut c_void,
    threads: u32,
    count: u32,
) {
    let share = (Range::counted(u64::from(count)), ScheduleKind::Dynamic, 1);
    begin(start::current(), region(function, data, threads, 0), Some(share));
}

/// Default number of teams in a league, the same as in libgomp.
const TEAMS: u32 = 3;

/// `teams` on the host: runs one team after the other.
///
/// # Safety
/// `function` may be called with `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_teams_reg(
    function: Function,
    data: *mut c_void,
    teams: u32,
    limit: u32,
    _flags: u32,
) {
    use std::sync::atomic::Ordering::Relaxed;
    let me = start::current();
    let mutable_settings = &me.root().mutable_settings;
    let or = |given: u32, set: u32| if given == 0 { set } else { given };
    let limit = or(limit, mutable_settings.teams_limit.load(Relaxed));
    let before = me.task().icv().limit;
    if limit > 0 {
        me.task().set_icv(|icv| icv.limit = limit);
    }
    let teams = or(or(teams, mutable_settings.teams.load(Relaxed)), TEAMS);
    for number in 0..teams {
        me.league.set((teams - 1, number));
        // SAFETY: the program's function, with the argument that the program passed for it.
        unsafe { function(data) };
    }
    me.league.set((0, 0));
    me.task().set_icv(|icv| icv.limit = before);
}

/// `teams` in a `target` region on the host: advances to the next team. Returns `false` after the last one.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_teams4(low: u32, _high: u32, limit: u32, first: bool) -> bool {
    let me = start::current();
    let (last, number) = me.league.get();
    if first {
        if limit > 0 {
            me.task().set_icv(|icv| icv.limit = limit);
        }
        me.league.set((low.max(1) - 1, 0));
        return true;
    }
    if number == last {
        return false;
    }
    me.league.set((last, number + 1));
    true
}

/// `teams` in a `target` region as called by GCC before 12.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_teams(_teams: u32, limit: u32) {
    let me = start::current();
    if limit > 0 {
        me.task().set_icv(|icv| icv.limit = limit);
    }
    me.league.set((0, 0));
}
