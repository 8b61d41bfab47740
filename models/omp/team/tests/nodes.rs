//! Teams whose threads are on several nodes.
//!
//! The nodes are labels: all threads are of this process, and their nodes are said to be as fast as the test likes. What is tested is who
//! is on which node and who gets which work; that workers on other nodes run is for the tests of whole programs.
#![cfg(not(loom))]

use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, Once, PoisonError};

use tombolo_omp::nodes::{About, Isa};
use tombolo_omp::root::{self, Root};
use tombolo_omp::store::{SPAN, Store};
use tombolo_omp::team::{self, Region};
use tombolo_omp::thread::{self, Thread};
use tombolo_omp::{env, sys};

/// The host with two processors, one less than half as fast with two, and one a tenth as fast with one, which may have two threads.
const SPEEDS: [(u32, u32); 3] = [(2, 30_000), (2, 12_000), (1, 3_000)];

fn start(thread: &'static Thread) -> Result<(), String> {
    sys::start_thread(0, team::worker, thread).map_err(|error| format!("error {error}"))
}

/// The job of this process. Its nodes were measured, in a manner of speaking.
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
        read.settings.processors = SPEEDS[0].0;
        let root = root::install(store, read, start);
        for (name, threads, (processors, _)) in [("slow", 0, SPEEDS[1]), ("slowest", 2, SPEEDS[2])] {
            let about = About { name, isa: Isa::Aarch64, processors, threads, runs_on: Some(0) };
            root.nodes().add(about).expect("there is room");
        }
        for ((_, node), (_, speed)) in root.nodes().all().zip(SPEEDS) {
            node.set_speed(speed);
        }
    });
    root::root()
}

/// One region at a time, so that nobody else has the threads.
static TURN: Mutex<()> = Mutex::new(());

/// Runs something in a region; what it returned, by the number of the thread.
fn region<T: Send>(threads: u32, run: impl Fn(&'static Thread) -> T + Sync) -> Vec<T> {
    struct Job<'a, T> {
        run: &'a (dyn Fn(&'static Thread) -> T + Sync),
        results: Mutex<Vec<(u32, T)>>,
    }
    /// # Safety
    /// The argument is a job that outlives the call.
    unsafe extern "C" fn outlined<T>(data: *mut c_void) {
        // SAFETY: the frame of `region`, which waits for the end.
        let job = unsafe { &*data.cast::<Job<'_, T>>() };
        let me = thread::current();
        let result = (job.run)(me);
        job.results.lock().unwrap_or_else(PoisonError::into_inner).push((me.seat().id, result));
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    job();
    let me = thread::current();
    let job = Job { run: &run, results: Mutex::new(Vec::new()) };
    let data = ptr::from_ref(&job).cast_mut().cast();
    team::begin(me, Region { function: outlined::<T>, data, threads, bind: 0, group: None }, |_, _| {});
    // SAFETY: as `outlined` wants it.
    unsafe { outlined::<T>(data) };
    team::end(me);
    let mut results = job.results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(id, _)| *id);
    results.into_iter().map(|(_, result)| result).collect()
}

#[test]
fn each_thread_is_on_the_node_that_its_number_says() {
    let (large, small) = (region(7, |me| me.node), region(3, |me| me.node));
    assert_eq!(large[..3], [0, 1, 2]);
    assert_eq!(small, [0, 1, 2]);
    assert_eq!(large.len(), 7);
    assert_eq!(region(7, |me| me.node), large);
}

#[test]
fn a_team_that_grows_keeps_its_threads() {
    let who = |me: &'static Thread| ptr::from_ref(me) as usize;
    let small = region(4, who);
    assert_eq!(region(9, who)[..4], small);
    assert_eq!(region(4, who), small);
}

#[test]
fn where_nobody_says_how_many_the_slowest_node_has_one_for_each_processor() {
    let nodes = region(0, |me| me.node);
    let count = |node: u32| nodes.iter().filter(|&&at| at == node).count();
    assert_eq!((count(0), count(1), count(2)), (20, 8, 1));
}

#[test]
fn regions_within_regions_may_have_more_threads_than_a_node_takes() {
    let sums = region(3, |me| {
        // The master of the inner region is on its own node, whatever else it gets.
        let outer = me.node;
        let inner = Region { function: nothing, data: ptr::null_mut(), threads: 4, bind: 0, group: None };
        team::begin(me, inner, |_, _| {});
        let team = me.team();
        let nodes: Vec<_> = team.members().filter_map(|member| member.thread()).map(|at| at.node).collect();
        team::end(me);
        assert_eq!((nodes.len(), nodes[0]), (4, outer));
        nodes.iter().filter(|&&node| node == 2).count()
    });
    assert_eq!(sums.len(), 3);
}

/// # Safety
/// Any argument will do.
unsafe extern "C" fn nothing(_: *mut c_void) {}
