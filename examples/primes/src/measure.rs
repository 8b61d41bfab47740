//! Measures the cost of starting and joining tasks, compared with threads.

use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use tombolo::Domain;
use tombolo_tasks::{TaskError, Tasks};

use crate::NOTHING;

/// Number of tasks measured one by one, and number started at once.
const TIMES: usize = 2_000;
const AT_ONCE: usize = 20_000;

pub(crate) fn run(domain: &Domain, on: &str) -> Result<(), Box<dyn Error>> {
    for place in on.split(',') {
        let tasks = Tasks::start(domain, place)?;
        let one = || tasks.go(NOTHING, ())?.join();
        for _ in 0..TIMES / 10 {
            one()?;
        }
        let mut times = Vec::with_capacity(TIMES);
        for _ in 0..TIMES {
            let begun = Instant::now();
            one()?;
            times.push(begun.elapsed());
        }
        let begun = Instant::now();
        let started: Result<Vec<_>, TaskError> = (0..AT_ONCE).map(|_| tasks.go(NOTHING, ())).collect();
        for task in started? {
            task.join()?;
        }
        print(&format!("task on {place}"), &mut times, begun.elapsed(), AT_ONCE);
    }
    let mut times = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let begun = Instant::now();
        thread::spawn(|| ()).join().map_err(|_| "a thread panicked")?;
        times.push(begun.elapsed());
    }
    let begun = Instant::now();
    let started: Vec<_> = (0..TIMES).map(|_| thread::spawn(|| ())).collect();
    for thread in started {
        thread.join().map_err(|_| "a thread panicked")?;
    }
    print("std::thread", &mut times, begun.elapsed(), TIMES);
    Ok(())
}

fn print(what: &str, times: &mut [Duration], took: Duration, count: usize) {
    times.sort_unstable();
    let micros = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1e6;
    let rate = count as f64 / took.as_secs_f64();
    println!("{what}: start and join {:.1} us (p99 {:.1}), {rate:.0} a second", micros(50), micros(99));
}
