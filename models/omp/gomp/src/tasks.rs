//! Tasks, task groups, and task reductions.

use std::ffi::c_void;
use std::ptr;

use tombolo_omp_team::constructs::group;
use tombolo_omp_team::constructs::taskloop::Granularity;
use tombolo_omp_team::constructs::tasks::NewTask;
use tombolo_omp_team::constructs::{reduction, taskloop, tasks};
use tombolo_omp_team::job::start;
use tombolo_omp_team::primitives::sys;
use tombolo_omp_team::team::depend::Dependence;
use tombolo_omp_team::team::share::Range;
use tombolo_omp_team::team::task::Function;
use tombolo_omp_team::team::thread::Thread;

/// GCC's flags of `task` and `taskloop`.
const FINAL: u32 = 1 << 1;
const DEPEND: u32 = 1 << 3;
const PRIORITY: u32 = 1 << 4;
const UP: u32 = 1 << 8;
const GRAINSIZE: u32 = 1 << 9;
const IF: u32 = 1 << 10;
const NOGROUP: u32 = 1 << 11;
const REDUCTION: u32 = 1 << 12;
const DETACH: u32 = 1 << 13;
const STRICT: u32 = 1 << 14;

/// Function with which the program copies a task's arguments.
type Copy = Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>;

/// Decodes a task's dependences from the words that GCC passes: either a count, the number of them that are
/// written, and the addresses; or 0, a count, the numbers of those that are written, `mutexinoutset` and
/// read, the addresses, and objects of type `omp_depend_t`.
///
/// # Safety
/// `words` points to such words.
pub(crate) unsafe fn decode_dependences(words: *const usize) -> Vec<Dependence> {
    // SAFETY: guaranteed by the caller.
    let word = |index: usize| unsafe { *words.add(index) };
    let count = word(0);
    if count > 0 {
        let written = word(1);
        return (0..count)
            .map(|index| Dependence { address: word(2 + index), reads: index >= written })
            .collect();
    }
    if word(1) == 0 {
        // An iterator without elements: GCC fills in no more than the two numbers.
        return Vec::new();
    }
    let (count, written, exclusive, read) = (word(1), word(2), word(3), word(4));
    let plain = written + exclusive + read;
    // SAFETY: an `omp_depend_t` of the program has two words.
    let of_object = |index: usize| unsafe { decode_depend_object(word(5 + index) as *const [usize; 2]) };
    let mut all: Vec<_> = (0..plain)
        .map(|index| Dependence { address: word(5 + index), reads: index >= written + exclusive })
        .chain((plain..count).map(of_object))
        .collect();
    sort_writes_first(&mut all);
    all
}

/// Sorts writes before reads: if an address occurs twice, the write counts.
fn sort_writes_first(dependences: &mut [Dependence]) {
    dependences.sort_by_key(|dependence| dependence.reads);
}

/// Decodes an object of type `omp_depend_t`: an address and a kind.
///
/// # Safety
/// `object` points to such an object.
unsafe fn decode_depend_object(object: *const [usize; 2]) -> Dependence {
    // SAFETY: guaranteed by the caller.
    let [address, kind] = unsafe { *object };
    match kind {
        1 => Dependence { address, reads: true },
        2..=4 => Dependence { address, reads: false },
        _ => sys::fatal(format_args!("an omp_depend_t has kind {kind}, which GCC 12 does not know")),
    }
}

/// Decodes a list of `omp_depend_t` objects; `None` if it is empty.
///
/// # Safety
/// `list` is null or points to `count` objects.
pub(crate) unsafe fn decode_depend_objects(count: i32, list: *const [usize; 2]) -> Option<Vec<Dependence>> {
    let count = usize::try_from(count).unwrap_or(0);
    if count == 0 || list.is_null() {
        return None;
    }
    // SAFETY: guaranteed by the caller.
    let mut all: Vec<_> = (0..count).map(|index| unsafe { decode_depend_object(list.add(index)) }).collect();
    sort_writes_first(&mut all);
    Some(all)
}

/// `task`.
///
/// # Safety
/// All pointers are null or the program's, as passed by GCC.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_task(
    function: Function,
    data: *mut c_void,
    copy: Copy,
    size: i64,
    align: i64,
    deferred: bool,
    flags: u32,
    depend: *const usize,
    priority: i32,
    detach: *mut usize,
) {
    let me = start::current();
    if copy.is_none() && flags & (DEPEND | DETACH) == 0 && (!deferred || tasks::must_run_undeferred(me)) {
        return tasks::run_undeferred_in_place(me, function, data, flags & FINAL != 0);
    }
    // SAFETY: guaranteed by the caller.
    let depend = (flags & DEPEND != 0).then(|| unsafe { decode_dependences(depend) });
    let new_task = NewTask {
        function,
        data,
        copy,
        size: usize::try_from(size).unwrap_or(0),
        align: usize::try_from(align).unwrap_or(1),
        deferred,
        is_final: flags & FINAL != 0,
        priority: if flags & PRIORITY != 0 { priority } else { 0 },
        depend: depend.as_deref(),
        event: (flags & DETACH != 0).then_some(detach),
        bounds: None,
    };
    tasks::create(me, new_task);
}

/// Arguments of `taskloop` besides its bounds.
struct TaskloopArguments {
    function: Function,
    data: *mut c_void,
    copy: Copy,
    size: i64,
    align: i64,
    flags: u32,
    tasks: u64,
    priority: i32,
}

/// # Safety
/// All pointers are the program's, as passed by GCC.
unsafe fn run_taskloop(me: &'static Thread, range: Range, arguments: &TaskloopArguments) {
    let flags = arguments.flags;
    let granularity = match (flags & GRAINSIZE != 0, flags & STRICT != 0) {
        (false, _) => Granularity::Tasks(arguments.tasks),
        (true, false) => Granularity::Grain(arguments.tasks),
        (true, true) => Granularity::Strict(arguments.tasks),
    };
    // SAFETY: in a loop with reductions, the address of the reduction array follows the two bounds in the
    // arguments.
    let reductions = (flags & REDUCTION != 0).then(|| unsafe { *arguments.data.cast::<*mut usize>().add(2) });
    let new_task = NewTask {
        function: arguments.function,
        data: arguments.data,
        copy: arguments.copy,
        size: usize::try_from(arguments.size).unwrap_or(0),
        align: usize::try_from(arguments.align).unwrap_or(1),
        deferred: flags & IF != 0,
        is_final: flags & FINAL != 0,
        priority: arguments.priority,
        depend: None,
        event: None,
        bounds: None,
    };
    taskloop::run(me, range, granularity, flags & NOGROUP != 0, reductions, new_task);
}

/// `taskloop`.
///
/// # Safety
/// All pointers are null or the program's, as passed by GCC.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_taskloop(
    function: Function,
    data: *mut c_void,
    copy: Copy,
    size: i64,
    align: i64,
    flags: u32,
    tasks: u64,
    priority: i32,
    start: i64,
    end: i64,
    step: i64,
) {
    let arguments = TaskloopArguments { function, data, copy, size, align, flags, tasks, priority };
    // SAFETY: guaranteed by the caller.
    unsafe { run_taskloop(start::current(), Range::signed(start, end, step), &arguments) };
}

/// `taskloop` over `unsigned long long`s.
///
/// # Safety
/// All pointers are null or the program's, as passed by GCC.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_taskloop_ull(
    function: Function,
    data: *mut c_void,
    copy: Copy,
    size: i64,
    align: i64,
    flags: u32,
    tasks: u64,
    priority: i32,
    start: u64,
    end: u64,
    step: u64,
) {
    let arguments = TaskloopArguments { function, data, copy, size, align, flags, tasks, priority };
    // SAFETY: guaranteed by the caller.
    unsafe { run_taskloop(start::current(), Range::unsigned(flags & UP != 0, start, end, step), &arguments) };
}

/// `taskwait`.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_taskwait() {
    tasks::wait_for_children(start::current());
}

/// `taskwait depend(…)`.
///
/// # Safety
/// `depend` points to words as passed by GCC.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_taskwait_depend(depend: *const usize) {
    let me = start::current();
    // SAFETY: guaranteed by the caller.
    let depend = unsafe { decode_dependences(depend) };
    tasks::wait_for_dependences(me, me.task(), &depend);
}

/// `taskyield`. The thread continues with its task, which OpenMP permits.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_taskyield() {}

/// `taskgroup`.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_taskgroup_start() {
    group::start(start::current());
}

/// The end of `taskgroup`.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_taskgroup_end() {
    group::end(start::current());
}

/// `taskgroup task_reduction(…)`.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_taskgroup_reduction_register(data: *mut usize) {
    reduction::register_in_group(start::current(), data, ptr::null_mut());
}

/// The end of `task_reduction`, after the program has combined the copies.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_taskgroup_reduction_unregister(data: *mut usize) {
    reduction::unregister(start::current(), data);
}

/// `in_reduction`: replaces addresses with those of this thread's copies.
///
/// # Safety
/// `addresses` has `count + originals` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_task_reduction_remap(count: usize, originals: usize, addresses: *mut usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { reduction::remap(start::current(), count, originals, addresses) };
}

/// The end of a construct with `reduction(task, …)`.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_workshare_task_reduction_unregister(cancelled: bool) {
    reduction::end_construct(start::current(), cancelled);
}

/// `omp_fulfill_event`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_fulfill_event(event: usize) {
    if !tasks::fulfill(event) {
        sys::fatal("omp_fulfill_event: the event was fulfilled before, or is none");
    }
}

/// Fortran binding of the same function. `omp_lib` passes the handle by value.
#[unsafe(no_mangle)]
pub extern "C" fn omp_fulfill_event_(event: usize) {
    omp_fulfill_event(event);
}
