//! Teams whose threads are on several nodes.
//!
//! The nodes are only labels: all threads belong to this process, and the test sets the nodes' speeds. The
//! tests check the placement of threads and the distribution of work; tests of whole programs check that
//! workers run on other nodes.
#![cfg(not(loom))]

use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, Once, PoisonError};

use tombolo_omp_team::constructs::barrier::barrier;
use tombolo_omp_team::constructs::doacross;
use tombolo_omp_team::constructs::region::Region;
use tombolo_omp_team::constructs::{loops, region};
use tombolo_omp_team::device::command::count_bytes_moved;
use tombolo_omp_team::device::migrate::{self, CallOutcome};
use tombolo_omp_team::job::{env, start, worker};
use tombolo_omp_team::primitives::icv::ScheduleKind;
use tombolo_omp_team::primitives::nodes::{Isa, NodeDescription};
use tombolo_omp_team::primitives::store::{SPAN, Store};
use tombolo_omp_team::primitives::sys;
use tombolo_omp_team::team::root::Root;
use tombolo_omp_team::team::share::Range;
use tombolo_omp_team::team::tally::{RegionTally, Totals};
use tombolo_omp_team::team::thread::Thread;

/// Number of processors and measured speed of each node: the host, one less than half as fast, and one a
/// tenth as fast, which may have two threads.
const SPEEDS: [(u32, u32); 3] = [(2, 30_000), (2, 12_000), (1, 3_000)];

fn start(thread: &'static Thread) -> Result<(), String> {
    sys::start_thread(0, worker::worker, thread).map_err(|error| format!("error {error}"))
}

/// Returns the job of this process, created on first use. The nodes' speeds are set instead of measured.
fn job() -> &'static Root {
    static MADE: Once = Once::new();
    MADE.call_once(|| {
        let length = 256 << 20;
        let memory = sys::reserve(length + SPAN).expect("there is memory");
        let base = (memory as usize).next_multiple_of(SPAN) as *mut u8;
        // SAFETY: the mapping is fresh, zero and never unmapped; a span was added for the alignment.
        let store = unsafe { Store::format(base, length) };
        let mut read = env::read();
        read.settings.icv.threads = 0;
        read.settings.icv.active_levels = 4;
        read.settings.report = true;
        read.settings.processors = SPEEDS[0].0;
        let root = start::install(store, read, start);
        for (name, threads, (processors, _)) in [("slow", 0, SPEEDS[1]), ("slowest", 2, SPEEDS[2])] {
            let description = NodeDescription { name, isa: Isa::Aarch64, processors, threads, runs_on: None };
            root.nodes().add(description).expect("there is room");
        }
        for ((_, node), (_, speed)) in root.nodes().all().zip(SPEEDS) {
            node.set_speed(speed);
        }
    });
    start::root()
}

/// Serializes the regions of all tests, so that each can use all threads.
static TEST_LOCK: Mutex<()> = Mutex::new(());

/// Runs `run` in a region and returns the results by thread number.
fn region<T: Send>(threads: u32, run: impl Fn(&'static Thread) -> T + Sync) -> Vec<T> {
    struct Job<'a, T> {
        run: &'a (dyn Fn(&'static Thread) -> T + Sync),
        results: Mutex<Vec<(u32, T)>>,
    }
    /// # Safety
    /// The argument is a job that outlives the call.
    unsafe extern "C" fn outlined<T>(data: *mut c_void) {
        // SAFETY: `job` is in the frame of `region`, which waits for the end of the region.
        let job = unsafe { &*data.cast::<Job<'_, T>>() };
        let me = start::current();
        let result = (job.run)(me);
        job.results.lock().unwrap_or_else(PoisonError::into_inner).push((me.team_state().id, result));
    }
    let _guard = TEST_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    job();
    let me = start::current();
    let job = Job { run: &run, results: Mutex::new(Vec::new()) };
    let data = ptr::from_ref(&job).cast_mut().cast();
    region::begin(me, Region { function: outlined::<T>, data, threads, bind: 0, group: None }, |_, _| {});
    // SAFETY: `data` is a job that lives until the end of this function.
    unsafe { outlined::<T>(data) };
    region::end(me);
    let mut results = job.results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(id, _)| *id);
    results.into_iter().map(|(_, result)| result).collect()
}

#[test]
fn thread_number_determines_the_node() {
    let (large, small) = (region(7, |me| me.node), region(3, |me| me.node));
    assert_eq!(large[..3], [0, 1, 2]);
    assert_eq!(small, [0, 1, 2]);
    assert_eq!(large.len(), 7);
    assert_eq!(region(7, |me| me.node), large);
}

#[test]
fn first_worker_knows_whom_to_wake() {
    for threads in [24, 25, 26] {
        // The master has a new team, or one of a thread that has ended.
        let masters = std::thread::spawn(move || {
            let master = ptr::from_ref(start::current()) as usize;
            let known =
                region(threads, |me| me.team().member(0).thread().map(|known| ptr::from_ref(known) as usize));
            known.into_iter().map(|known| known == Some(master)).collect::<Vec<_>>()
        });
        assert_eq!(masters.join().expect("no panic"), vec![true; threads as usize]);
    }
}

#[test]
fn growing_team_keeps_its_threads() {
    let who = |me: &'static Thread| ptr::from_ref(me) as usize;
    let small = region(4, who);
    assert_eq!(region(9, who)[..4], small);
    assert_eq!(region(4, who), small);
}

#[test]
fn slowest_node_has_one_thread_per_processor_by_default() {
    let nodes = region(0, |me| me.node);
    let count = |node: u32| nodes.iter().filter(|&&at| at == node).count();
    assert_eq!((count(0), count(1), count(2)), (20, 8, 1));
}

/// Returns the number of iterations that each thread got, by thread number. Asserts that the chunks cover the
/// loop exactly once.
fn shares(threads: u32, count: u64, schedule: (ScheduleKind, u64), ordered: bool) -> Vec<u64> {
    let chunks = region(threads, |me| {
        loops::start(me, Range::counted(count), schedule);
        let next = || if ordered { loops::next_ordered(me) } else { loops::next(me) };
        let mut mine = Vec::new();
        while let Some((low, high)) = next() {
            if ordered {
                loops::wait_for_turn(me);
            }
            assert!(low < high && high <= count, "{low}..{high} of {count}");
            assert!(mine.last().is_none_or(|&(_, before)| before <= low), "chunks come in order");
            mine.push((low, high));
        }
        barrier(me, false);
        mine
    });
    let mut all: Vec<(u64, u64)> = chunks.iter().flatten().copied().collect();
    all.sort_unstable();
    let mut next = 0;
    for (low, high) in all {
        assert_eq!(low, next, "{schedule:?}");
        next = high;
    }
    assert_eq!(next, count, "{schedule:?}");
    chunks.iter().map(|mine| mine.iter().map(|(low, high)| high - low).sum()).collect()
}

#[test]
fn unspecified_shares_are_proportional_to_speed() {
    // The weights of the three threads are 10, 4 and 1.
    assert_eq!(shares(3, 15_000, (ScheduleKind::Auto, 0), false), [10_000, 4_000, 1_000]);
    assert_eq!(shares(3, 15_000, (ScheduleKind::Auto, 0), true), [10_000, 4_000, 1_000]);
    // A static schedule guarantees equal shares, regardless of the nodes' speeds.
    assert_eq!(shares(3, 15_000, (ScheduleKind::Static, 0), false), [5_000; 3]);
    assert_eq!(shares(3, 15_000, (ScheduleKind::Static, 5_000), false), [5_000; 3]);
    // With as many threads on each node as its weight, all shares are equal.
    assert_eq!(shares(29, 2_900, (ScheduleKind::Auto, 0), false), [100; 29]);
    // A small loop is divided by weight too, but a team of one gets all of it.
    assert_eq!(shares(3, 15, (ScheduleKind::Auto, 0), false), [10, 4, 1]);
    assert_eq!(shares(1, 15, (ScheduleKind::Auto, 0), false), [15]);
}

#[test]
fn each_iteration_runs_once_under_any_schedule() {
    for kind in [ScheduleKind::Static, ScheduleKind::Dynamic, ScheduleKind::Guided, ScheduleKind::Auto] {
        for (count, chunk) in [(0, 1), (1, 1), (2, 7), (100, 1), (100, 3), (99, 101)] {
            for threads in [1, 3, 8] {
                for ordered in [false, true] {
                    shares(threads, count, (kind, chunk), ordered);
                }
            }
        }
    }
    for (count, least) in [(u64::MAX, 1 << 60), (u64::MAX - 1, u64::MAX), (1 << 62, 1 << 61)] {
        shares(3, count, (ScheduleKind::Auto, 0), false);
        shares(3, count, (ScheduleKind::Guided, least), false);
        shares(3, count, (ScheduleKind::Dynamic, least), false);
    }
}

#[test]
fn doacross_chunk_belongs_to_one_thread() {
    for (kind, chunk) in [
        (ScheduleKind::Guided, 3),
        (ScheduleKind::Dynamic, 3),
        (ScheduleKind::Guided, 1),
        (ScheduleKind::Dynamic, 1),
        (ScheduleKind::Auto, 0),
    ] {
        let chunks = region(3, |me| {
            doacross::start(me, &[100], (kind, chunk), |_| {});
            let mut mine = Vec::new();
            while let Some((low, high)) = loops::next(me) {
                for iteration in low..high {
                    // A dependence over a distance of 7: with 1, the threads would run in lockstep.
                    if let Some(before) = iteration.checked_sub(7) {
                        doacross::wait(me, &[before]);
                    }
                    doacross::post(me, &[iteration]);
                }
                mine.push((low, high));
            }
            barrier(me, false);
            mine
        });
        let mut all: Vec<(u64, u64)> = chunks.into_iter().flatten().collect();
        all.sort_unstable();
        assert_eq!(all.iter().map(|(low, high)| high - low).sum::<u64>(), 100);
        assert!(all.iter().all(|(low, _)| low % chunk.max(1) == 0), "{kind:?},{chunk}: {all:?}");
    }
}

#[test]
fn report_has_work_of_each_node() {
    /// Distinct result type, so that this region has its own instance of `outlined` and its own tally.
    struct Reported;
    region(4, |me| {
        loops::start(me, Range::counted(15_000), (ScheduleKind::Static, 3_750));
        while loops::next(me).is_some() {}
        count_bytes_moved(10);
        barrier(me, false);
        Reported
    });
    let is_expected =
        |line: &&&RegionTally| line.by_thread().iter().map(|sum| sum.bytes_moved).sum::<u64>() == 40;
    job().tallies.read(|lines| {
        let line = lines.iter().find(is_expected).expect("the region is known");
        assert_eq!((line.runs, line.threads), (1, 4));
        let of_node = |sum: &Totals| (sum.node, sum.threads, sum.iterations, sum.bytes_moved);
        let nodes: Vec<_> = line.by_node(3).iter().map(of_node).collect();
        assert_eq!(nodes, [(0, 2, 7_500, 20), (1, 1, 3_750, 10), (2, 1, 3_750, 10)]);
        let threads: Vec<_> = line.by_thread().iter().map(of_node).collect();
        assert_eq!(threads, [(0, 1, 3_750, 10), (1, 1, 3_750, 10), (2, 1, 3_750, 10), (0, 1, 3_750, 10)]);
        for sum in line.by_thread() {
            assert_eq!(sum.busy + sum.waited, line.nanoseconds);
        }
        assert!(line.busiest >= line.mean && line.busiest <= line.nanoseconds);
    });
    let before = job().tallies.bytes_moved_outside();
    count_bytes_moved(7);
    assert_eq!(job().tallies.bytes_moved_outside(), before + 7);
}

#[test]
fn nested_regions_may_exceed_a_nodes_limit() {
    let sums = region(3, |me| {
        // The master of the inner region stays on its node, wherever the other threads are.
        let outer = me.node;
        let inner = Region { function: nothing, data: ptr::null_mut(), threads: 4, bind: 0, group: None };
        region::begin(me, inner, |_, _| {});
        let team = me.team();
        let nodes: Vec<_> = team.members().filter_map(|member| member.thread()).map(|at| at.node).collect();
        region::end(me);
        assert_eq!((nodes.len(), nodes[0]), (4, outer));
        nodes.iter().filter(|&&node| node == 2).count()
    });
    assert_eq!(sums.len(), 3);
}

/// # Safety
/// Safe with any argument, which is ignored.
unsafe extern "C" fn nothing(_: *mut c_void) {}

/// Argument of a call by a migrating thread: the nodes to visit next, as digits of base 3 in `route`, and the
/// findings so far.
struct Visit {
    route: u64,
    depth: u32,
    /// Address of the thread that served this chain of calls on each node; 0 for none yet.
    threads_by_node: [usize; 3],
    calls: u64,
}

/// Runs on the node that the caller chose, and makes three nested calls until `depth` is 0.
///
/// # Safety
/// The argument is a [`Visit`] that no other thread uses.
unsafe extern "C" fn visit(frame: *mut c_void) {
    // SAFETY: by this function's contract.
    let here = unsafe { &mut *frame.cast::<Visit>() };
    let me = start::current();
    let who = ptr::from_ref(me) as usize;
    assert!(
        [0, who].contains(&here.threads_by_node[me.node as usize]),
        "a node has one thread in a chain of calls"
    );
    let outer_threads = here.threads_by_node;
    here.threads_by_node[me.node as usize] = who;
    here.calls += 1;
    for turn in 0..if here.depth == 0 { 0 } else { 3 } {
        let node = u32::try_from((here.route / 3_u64.pow(turn)) % 3).expect("less than 3");
        here.depth -= 1;
        here.route = here.route.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        migrate_and_call(me, node, here);
        here.depth += 1;
        assert!(ptr::eq(me, start::current()));
    }
    here.threads_by_node = outer_threads;
    sys::set_errno(here.calls as usize);
}

/// Thunk of a migrating call: calls [`visit`] on a node, or directly if the thread is already there.
fn migrate_and_call(me: &'static Thread, node: u32, frame: &mut Visit) {
    assert!(migrate::set_node(me, node));
    let data = ptr::from_mut(frame).cast();
    if migrate::call(me, visit, data) == CallOutcome::NotYet {
        assert_eq!(me.node, node);
        // SAFETY: the frame belongs to this thread.
        unsafe { visit(data) };
    }
    assert_eq!(sys::errno() as u64, frame.calls, "errno comes back");
}

#[test]
fn migrating_thread_has_one_thread_per_node() {
    let calls = region(5, |me| {
        let me_too = migrate::identity(me);
        let mut frame = Visit {
            route: u64::from(me.team_state().id) + 12_345,
            depth: 5,
            threads_by_node: [0; 3],
            calls: 0,
        };
        frame.threads_by_node[me.node as usize] = ptr::from_ref(me) as usize;
        for node in [0, 1, 2, 1, 0] {
            migrate_and_call(me, node, &mut frame);
        }
        assert_eq!(migrate::identity(me), me_too);
        assert!(!migrate::set_node(me, 3), "there is no such node");
        assert!(migrate::set_node(me, me.node));
        assert_eq!(migrate::call(me, visit, ptr::null_mut()), CallOutcome::NotYet, "it is there");
        frame.calls
    });
    // 1 + 3 + 9 + … + 243 calls for each of the five calls in the loop.
    assert_eq!(calls, [1820; 5]);
}
