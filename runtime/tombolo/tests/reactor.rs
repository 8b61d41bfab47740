//! The thread that wakes futures runs only while something waits. In a separate program, so that no other
//! test starts one.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use tombolo::{WaitSet, sleep};

const LONG: Duration = Duration::from_secs(60);

fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    // A thread may end between being listed and its name being read.
    let names = tasks.map(|task| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default());
    names.filter(|name| name.trim() == "tombolo-reactor").count()
}

fn settles_at(count: usize) {
    let until = Instant::now() + LONG;
    while threads() != count {
        assert!(Instant::now() < until, "{} threads where {count} should be", threads());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn reactor_runs_only_while_futures_wait() {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..3 {
        settles_at(0);
        let mut set: WaitSet = WaitSet::new().unwrap();
        {
            let mut one = pin!(sleep(LONG));
            let mut other = pin!(set.wait_async(LONG));
            settles_at(0);
            assert!(one.as_mut().poll(&mut context).is_pending());
            assert!(other.as_mut().poll(&mut context).is_pending());
            settles_at(1);
        }
        settles_at(0);
    }
}
