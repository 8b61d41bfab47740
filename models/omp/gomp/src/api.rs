//! `omp_…`: functions that programs call directly, and their Fortran bindings, whose names end in `_`.

use std::ffi::{CStr, c_char};
use std::sync::atomic::Ordering::Relaxed;

use tombolo_omp_team::constructs::affinity;
use tombolo_omp_team::job::{env, start, worker};
use tombolo_omp_team::primitives::icv::{ACTIVE_LEVELS_MAX, MONOTONIC, Schedule, ScheduleKind};
use tombolo_omp_team::primitives::lock::{Lock, NestLock};
use tombolo_omp_team::primitives::places::numbers;
use tombolo_omp_team::primitives::sys;
use tombolo_omp_team::team::thread::{TeamState, Thread};

use crate::target;

fn int(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

fn positive(value: i32) -> u32 {
    u32::try_from(value).unwrap_or(0).max(1)
}

/// Queries without arguments, for C and Fortran.
macro_rules! questions {
    ($($(#[$doc:meta])* $name:ident $fortran:ident $me:ident => $value:expr;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> i32 {
            let $me = start::current();
            $value
        }

        /// Fortran binding of the same function.
        #[unsafe(no_mangle)]
        pub extern "C" fn $fortran() -> i32 {
            $name()
        }
    )*};
}

questions! {
    /// Number of threads in the team.
    omp_get_num_threads omp_get_num_threads_ me => int(me.team().size());
    /// Number of the thread in its team.
    omp_get_thread_num omp_get_thread_num_ me => int(me.id());
    /// Number of processors available to the program.
    omp_get_num_procs omp_get_num_procs_ me => processors(me);
    /// Whether the caller is in a region with more than one thread.
    omp_in_parallel omp_in_parallel_ me => i32::from(me.team().active_level() > 0);
    /// Whether regions may have fewer threads than requested.
    omp_get_dynamic omp_get_dynamic_ me => i32::from(me.task().icv().dynamic);
    /// Whether nested regions have more than one thread.
    omp_get_nested omp_get_nested_ me => {
        let levels = me.task().icv().active_levels;
        i32::from(levels > 1 && levels > me.team().active_level())
    };
    /// Maximum number of concurrent threads.
    omp_get_thread_limit omp_get_thread_limit_ me => int(me.task().icv().limit);
    /// Maximum number of nested regions with more than one thread.
    omp_get_max_active_levels omp_get_max_active_levels_ me => int(me.task().icv().active_levels);
    /// Supported number of nested regions with more than one thread.
    omp_get_supported_active_levels omp_get_supported_active_levels_ _me => int(ACTIVE_LEVELS_MAX);
    /// Number of enclosing regions.
    omp_get_level omp_get_level_ me => int(me.team().level());
    /// Number of enclosing regions with more than one thread.
    omp_get_active_level omp_get_active_level_ me => int(me.team().active_level());
    /// Whether the task is final.
    omp_in_final omp_in_final_ me => i32::from(me.task().is_final());
    /// Whether cancellation is enabled.
    omp_get_cancellation omp_get_cancellation_ me => i32::from(me.root().settings.cancellation);
    /// Binding policy of the next region's threads.
    omp_get_proc_bind omp_get_proc_bind_ me => i32::from(me.task().icv().bind);
    /// Number of places.
    omp_get_num_places omp_get_num_places_ me => int(me.root().places().len());
    /// Place of the thread; -1 if it has none.
    omp_get_place_num omp_get_place_num_ me => place(me);
    /// Number of places in the thread's partition.
    omp_get_partition_num_places omp_get_partition_num_places_ me => int(me.partition.get().1);
    /// Device of `target` constructs without a `device` clause.
    omp_get_default_device omp_get_default_device_ me => me.task().icv().device;
    /// Number of devices besides the host.
    omp_get_num_devices omp_get_num_devices_ me => target::devices(me);
    /// Number of the device that the caller runs on.
    omp_get_device_num omp_get_device_num_ me => target::device_of(me);
    /// Device number of the host.
    omp_get_initial_device omp_get_initial_device_ me => target::devices(me);
    /// Whether the caller runs on the host.
    omp_is_initial_device omp_is_initial_device_ me => i32::from(me.team().confined_node().is_none());
    /// Number of teams in the league.
    omp_get_num_teams omp_get_num_teams_ me => int(me.league.get().0 + 1);
    /// Number of the team in its league.
    omp_get_team_num omp_get_team_num_ me => int(me.league.get().1);
    /// Default number of teams of a league; 0 for the run-time's choice.
    omp_get_max_teams omp_get_max_teams_ me => int(me.root().mutable_settings.teams.load(Relaxed));
    /// Maximum number of threads of a team in a league; 0 for no limit.
    omp_get_teams_thread_limit omp_get_teams_thread_limit_ me =>
        int(me.root().mutable_settings.teams_limit.load(Relaxed));
    /// Highest priority of a task.
    omp_get_max_task_priority omp_get_max_task_priority_ me => me.root().settings.priority;
}

/// Setters with an integer argument, for C and for both integer sizes of Fortran.
macro_rules! orders {
    ($($(#[$doc:meta])* $name:ident $fortran:ident $fortran8:ident $me:ident $value:ident => $order:expr;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($value: i32) {
            let $me = start::current();
            $order
        }

        /// Fortran binding of the same function.
        ///
        /// # Safety
        /// `value` points to a variable of the program.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $fortran(value: *const i32) {
            // SAFETY: guaranteed by the caller.
            $name(unsafe { *value });
        }

        /// Fortran binding with 64-bit integers.
        ///
        /// # Safety
        /// `value` points to a variable of the program.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $fortran8(value: *const i64) {
            // SAFETY: guaranteed by the caller.
            let value = unsafe { *value };
            $name(i32::try_from(value).unwrap_or(if value > 0 { i32::MAX } else { i32::MIN }));
        }
    )*};
}

orders! {
    /// Sets the number of threads of regions.
    omp_set_num_threads omp_set_num_threads_ omp_set_num_threads_8_ me value =>
        me.task().set_icv(|icv| icv.threads = positive(value));
    /// Sets whether regions may have fewer threads than requested.
    omp_set_dynamic omp_set_dynamic_ omp_set_dynamic_8_ me value =>
        me.task().set_icv(|icv| icv.dynamic = value != 0);
    /// Sets whether nested regions have more than one thread.
    omp_set_nested omp_set_nested_ omp_set_nested_8_ me value =>
        me.task().set_icv(|icv| icv.active_levels = if value != 0 { ACTIVE_LEVELS_MAX } else { icv.active_levels.min(1) });
    /// Sets the maximum number of nested regions with more than one thread.
    omp_set_max_active_levels omp_set_max_active_levels_ omp_set_max_active_levels_8_ me value =>
        if let Ok(levels) = u32::try_from(value) {
            me.task().set_icv(|icv| icv.active_levels = levels.min(ACTIVE_LEVELS_MAX));
        };
    /// Sets the default device of `target` constructs.
    omp_set_default_device omp_set_default_device_ omp_set_default_device_8_ me value =>
        me.task().set_icv(|icv| icv.device = value.max(0));
    /// Sets the default number of teams of a league.
    omp_set_num_teams omp_set_num_teams_ omp_set_num_teams_8_ me value =>
        me.root().mutable_settings.teams.store(u32::try_from(value).unwrap_or(0), Relaxed);
    /// Sets the maximum number of threads of a team in a league.
    omp_set_teams_thread_limit omp_set_teams_thread_limit_ omp_set_teams_thread_limit_8_ me value =>
        me.root().mutable_settings.teams_limit.store(u32::try_from(value).unwrap_or(0), Relaxed);
    /// Prints the environment to standard error.
    omp_display_env omp_display_env_ omp_display_env_8_ me value =>
        sys::print_error(env::display(me.root(), value != 0));
}

fn processors(me: &'static Thread) -> i32 {
    let root = me.root();
    int(me
        .team()
        .confined_node()
        .map_or_else(|| root.processors(), |node| root.nodes().at(node).processors()))
}

fn place(me: &'static Thread) -> i32 {
    if me.place.get() == 0 && !me.root().places().is_empty() {
        affinity::assign_default_place(me);
    }
    int(me.place.get()) - 1
}

/// Returns the team state of this thread, or of its ancestor, at a level.
fn ancestor(level: i32) -> Option<TeamState> {
    let mut team_state = start::current().team_state();
    let level = u32::try_from(level).ok().filter(|&level| level <= team_state.team.level())?;
    while team_state.team.level() > level {
        team_state = team_state.team.enclosing()?;
    }
    Some(team_state)
}

/// Number of this thread's ancestor at a level; -1 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn omp_get_ancestor_thread_num(level: i32) -> i32 {
    ancestor(level).map_or(-1, |team_state| int(team_state.id))
}

/// Number of threads of the team at a level; -1 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn omp_get_team_size(level: i32) -> i32 {
    ancestor(level).map_or(-1, |team_state| int(team_state.team.size()))
}

/// Number of processors of a place.
#[unsafe(no_mangle)]
pub extern "C" fn omp_get_place_num_procs(place: i32) -> i32 {
    let place = u32::try_from(place).ok().and_then(|place| start::root().places().at(place));
    place.map_or(0, |processors| int(sys::count(processors)))
}

/// Stores the processor numbers of a place.
///
/// # Safety
/// `ids` has room for as many numbers as [`omp_get_place_num_procs`] returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_place_proc_ids(place: i32, ids: *mut i32) {
    let place = u32::try_from(place).ok().and_then(|place| start::root().places().at(place));
    for (index, number) in place.map(numbers).unwrap_or_default().into_iter().enumerate() {
        // SAFETY: guaranteed by the caller.
        unsafe { ids.add(index).write(i32::try_from(number).unwrap_or(-1)) };
    }
}

/// Stores the numbers of the places in the thread's partition.
///
/// # Safety
/// `places` has room for as many numbers as [`omp_get_partition_num_places`] returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_partition_place_nums(places: *mut i32) {
    let (first, count) = start::current().partition.get();
    for index in 0..count {
        // SAFETY: guaranteed by the caller.
        unsafe { places.add(index as usize).write(int(first + index)) };
    }
}

/// Sets the schedule of `schedule(runtime)`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_set_schedule(kind: u32, chunk: i32) {
    let Some(known) = ScheduleKind::from_number(kind & !MONOTONIC) else { return };
    let chunk = match known {
        ScheduleKind::Static => chunk.max(0),
        ScheduleKind::Dynamic | ScheduleKind::Guided => chunk.max(1),
        ScheduleKind::Auto => 0,
    };
    let schedule = Schedule { kind: known, modifier: kind & MONOTONIC, chunk };
    start::current().task().set_icv(|icv| icv.schedule = schedule);
}

/// Stores the schedule of `schedule(runtime)`.
///
/// # Safety
/// Both arguments point to variables of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_schedule(kind: *mut u32, chunk: *mut i32) {
    let schedule = start::current().task().icv().schedule;
    // SAFETY: guaranteed by the caller.
    unsafe {
        kind.write(schedule.kind as u32 | schedule.modifier);
        chunk.write(schedule.chunk);
    }
}

/// Seconds since an arbitrary time in the past.
#[unsafe(no_mangle)]
pub extern "C" fn omp_get_wtime() -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "53 bits of nanoseconds are 104 days since the system was started"
    )]
    let nanoseconds = sys::now_ns() as f64;
    nanoseconds / 1e9
}

/// Fortran binding of the same function.
#[unsafe(no_mangle)]
pub extern "C" fn omp_get_wtime_() -> f64 {
    omp_get_wtime()
}

/// Resolution of the clock, in seconds.
#[unsafe(no_mangle)]
pub extern "C" fn omp_get_wtick() -> f64 {
    1e-9
}

/// Fortran binding of the same function.
#[unsafe(no_mangle)]
pub extern "C" fn omp_get_wtick_() -> f64 {
    omp_get_wtick()
}

/// Lock operations for C and Fortran, whose variables are large enough for a lock.
macro_rules! lock_orders {
    ($($name:ident $fortran:ident $lock:ident => $order:expr;)*) => {$(
        /// Lock operation, as its name says.
        ///
        /// # Safety
        /// `lock` points to a variable of the program.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(lock: *const Lock) {
            // SAFETY: guaranteed by the caller; a lock is a 32-bit atomic.
            let $lock = unsafe { &*lock };
            $order
        }

        /// Fortran binding of the same function.
        ///
        /// # Safety
        /// `lock` points to a variable of the program.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $fortran(lock: *const Lock) {
            // SAFETY: guaranteed by the caller.
            unsafe { $name(lock) }
        }
    )*};
}

lock_orders! {
    omp_init_lock omp_init_lock_ lock => lock.reset();
    omp_destroy_lock omp_destroy_lock_ lock => lock.reset();
    omp_set_lock omp_set_lock_ lock => lock.acquire();
    omp_unset_lock omp_unset_lock_ lock => lock.release();
}

/// Acquires a lock if it is free.
///
/// # Safety
/// `lock` points to a variable of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_test_lock(lock: *const Lock) -> i32 {
    // SAFETY: guaranteed by the caller; a lock is a 32-bit atomic.
    i32::from(unsafe { &*lock }.try_acquire())
}

/// Fortran binding of the same function.
///
/// # Safety
/// `lock` points to a variable of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_test_lock_(lock: *const Lock) -> i32 {
    // SAFETY: guaranteed by the caller.
    unsafe { omp_test_lock(lock) }
}

fn owner() -> usize {
    std::ptr::from_ref(start::current().task()) as usize
}

/// Initializes a nestable lock, which its owner may acquire again.
///
/// # Safety
/// `lock` points to a variable of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_init_nest_lock(lock: *const NestLock) {
    // SAFETY: guaranteed by the caller; any bytes are a valid lock.
    unsafe { &*lock }.reset();
}

/// Destroys a nestable lock.
///
/// # Safety
/// `lock` points to a variable of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_destroy_nest_lock(lock: *const NestLock) {
    // SAFETY: guaranteed by the caller.
    unsafe { &*lock }.reset();
}

/// Acquires a nestable lock, waiting until it is free.
///
/// # Safety
/// `lock` points to a variable of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_set_nest_lock(lock: *const NestLock) {
    // SAFETY: guaranteed by the caller.
    unsafe { &*lock }.acquire(owner(), true);
}

/// Releases a nestable lock once.
///
/// # Safety
/// `lock` points to a variable of the program, and the task holds the lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_unset_nest_lock(lock: *const NestLock) {
    // SAFETY: guaranteed by the caller.
    unsafe { &*lock }.release();
}

/// Acquires a nestable lock unless another task holds it. Returns the task's nesting count.
///
/// # Safety
/// `lock` points to a variable of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_test_nest_lock(lock: *const NestLock) -> i32 {
    // SAFETY: guaranteed by the caller.
    unsafe { &*lock }.acquire(owner(), false)
}

/// Sets the default format of [`omp_display_affinity`].
///
/// # Safety
/// `format` is null-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_set_affinity_format(format: *const c_char) {
    // SAFETY: guaranteed by the caller.
    affinity::set_format(start::root(), unsafe { CStr::from_ptr(format) }.to_bytes());
}

/// Copies text to a buffer of the program, truncated and null-terminated. Returns the text's full length.
///
/// # Safety
/// `buffer` has room for `size` bytes, or `size` is 0.
pub(crate) unsafe fn copy_text(text: &str, buffer: *mut c_char, size: usize) -> usize {
    if size > 0 {
        let count = text.len().min(size - 1);
        // SAFETY: guaranteed by the caller.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, count);
            buffer.add(count).write(0);
        }
    }
    text.len()
}

/// Stores the affinity format and returns its length.
///
/// # Safety
/// `buffer` has room for `size` bytes, or `size` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_affinity_format(buffer: *mut c_char, size: usize) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe { copy_text(&affinity::format(start::root()), buffer, size) }
}

/// Formats this thread's affinity, with the default format if `format` is null or empty.
///
/// # Safety
/// `format` is null or null-terminated.
unsafe fn format_affinity(format: *const c_char) -> String {
    // SAFETY: guaranteed by the caller.
    let given = (!format.is_null()).then(|| unsafe { CStr::from_ptr(format) }.to_string_lossy().into_owned());
    let format = given.filter(|format| !format.is_empty()).unwrap_or_else(|| affinity::format(start::root()));
    affinity::expand_format(start::current(), &format)
}

/// Prints this thread's affinity to standard error.
///
/// # Safety
/// `format` is null or null-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_display_affinity(format: *const c_char) {
    // SAFETY: guaranteed by the caller.
    sys::print_error(unsafe { format_affinity(format) } + "\n");
}

/// Stores this thread's affinity as text and returns its length.
///
/// # Safety
/// `buffer` has room for `size` bytes, or `size` is 0; `format` is null or null-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_capture_affinity(
    buffer: *mut c_char,
    size: usize,
    format: *const c_char,
) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe { copy_text(&format_affinity(format), buffer, size) }
}

/// Releases the run-time's resources for a device. As in GCC's library both kinds end the workers of the
/// host, if they are threads; the next region starts others, whose `threadprivate` variables have their
/// initial values.
#[unsafe(no_mangle)]
pub extern "C" fn omp_pause_resource(kind: i32, device: i32) -> i32 {
    let me = start::current();
    let devices = target::devices(me);
    // Refused within a region, whose threads would have to end.
    if me.team().active_level() == 0 && (1..=2).contains(&kind) && (0..=devices).contains(&device) {
        if device == devices {
            worker::end_idle(me);
        }
        0
    } else {
        -1
    }
}

/// Fortran binding of the same function.
///
/// # Safety
/// Both arguments point to variables of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_pause_resource_(kind: *const i32, device: *const i32) -> i32 {
    // SAFETY: guaranteed by the caller.
    unsafe { omp_pause_resource(*kind, *device) }
}

/// Releases the run-time's resources for all devices.
#[unsafe(no_mangle)]
pub extern "C" fn omp_pause_resource_all(kind: i32) -> i32 {
    omp_pause_resource(kind, target::devices(start::current()))
}

/// Fortran binding of the same function.
///
/// # Safety
/// `kind` points to a variable of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_pause_resource_all_(kind: *const i32) -> i32 {
    // SAFETY: guaranteed by the caller.
    omp_pause_resource_all(unsafe { *kind })
}
