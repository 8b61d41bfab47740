//! `OMP_TOMBOLO_REPORT`: which regions ran how often and for how long.

use std::cell::UnsafeCell;
use std::fmt::Write as _;

use crate::lock::Spinlock;
use crate::root::Root;
use crate::thread::Function;

/// Regions that are kept apart; others are counted together.
const KEPT: usize = 256;

/// What is known of a region.
#[derive(Clone, Copy, Default)]
struct Line {
    function: usize,
    runs: u64,
    nanoseconds: u64,
    longest: u64,
    threads: u32,
}

/// What is known of all regions.
pub struct Report {
    lock: Spinlock,
    lines: UnsafeCell<[Line; KEPT]>,
}

// SAFETY: the lines are touched only while the lock is held.
unsafe impl Sync for Report {}

impl Default for Report {
    fn default() -> Self {
        Self { lock: Spinlock::new(), lines: UnsafeCell::new([Line::default(); KEPT]) }
    }
}

/// A region has ended after so long.
pub fn region(root: &Root, function: Option<Function>, threads: u32, nanoseconds: u64) {
    let report = &root.report;
    let function = function.map_or(0, |function| function as usize);
    let _held = report.lock.hold();
    // SAFETY: the lock is held.
    let lines = unsafe { &mut *report.lines.get() };
    let index = lines.iter().position(|line| line.function == function || line.runs == 0).unwrap_or(KEPT - 1);
    let line = &mut lines[index];
    if index < KEPT - 1 {
        line.function = function;
    }
    line.runs += 1;
    line.nanoseconds += nanoseconds;
    line.longest = line.longest.max(nanoseconds);
    line.threads = line.threads.max(threads);
}

/// The report as text; `name` says what a function is called.
pub fn text(root: &Root, name: impl Fn(usize) -> String) -> String {
    let report = &root.report;
    let _held = report.lock.hold();
    // SAFETY: the lock is held.
    let lines = unsafe { &*report.lines.get() };
    let mut shown: Vec<&Line> = lines.iter().filter(|line| line.runs > 0).collect();
    shown.sort_by_key(|line| std::cmp::Reverse(line.nanoseconds));
    let mut text = String::from("tombolo omp: regions\n");
    let _ = writeln!(text, "{:>10} {:>8} {:>12} {:>12}  region", "runs", "threads", "total ms", "longest ms");
    for line in shown {
        let milliseconds =
            |nanoseconds: u64| format!("{}.{:03}", nanoseconds / 1_000_000, nanoseconds / 1000 % 1000);
        let (total, longest) = (milliseconds(line.nanoseconds), milliseconds(line.longest));
        let name = if line.function == 0 { "(others)".to_owned() } else { name(line.function) };
        let _ = writeln!(text, "{:>10} {:>8} {total:>12} {longest:>12}  {name}", line.runs, line.threads);
    }
    text
}
