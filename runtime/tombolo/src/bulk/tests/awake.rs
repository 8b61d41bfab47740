//! Transfers between awake domains with full trust neither allocate nor make system calls, for any verb:
//! counted by the allocator and by the kernel.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use tombolo_platform::syscall_counter::SyscallCounter;
use tombolo_platform::{allocations, time};

use super::super::{BulkChannel, BulkOptions, Pool, PoolOptions};
use super::{SIZE, assign, ends_of};
use crate::ChannelOptions;
use crate::testing::{LONG, Monitor, SharedRegion};

/// Rounds of a burst; in each, a buffer is transferred once by every verb.
const ROUNDS: u64 = 2;

/// Maximum number of bursts, one of which must cost nothing, unless the time is up before. The first burst
/// allocates what later ones reuse, and on a busy host a side that polls in vain yields, which is a system
/// call.
const BURSTS: u64 = 100_000;

/// One end of the channel.
struct Side {
    bulk: BulkChannel,
    pool: Pool,
    leads: bool,
}

impl Side {
    /// Moves a buffer there and back; shares it there, and releases it; passes it there and back.
    fn round(&mut self, round: u64) {
        let mut metadata = Vec::new();
        if self.leads {
            let mut buffer = self.bulk.take(&self.pool).expect("the buffer");
            buffer.write(0, &round.to_le_bytes()).expect("a buffer of this side");
            self.bulk.move_to(buffer, &[]).expect("room");
            let buffer = self.bulk.recv_moved(&mut metadata).expect("it back");
            let shared = self.bulk.share(buffer, &[]).expect("room");
            while shared.shares() > 0 {
                self.bulk.settle().expect("the other side");
            }
            let buffer = shared.reclaim().expect("nobody reads it");
            self.bulk.pass(buffer, &[]).expect("room");
        } else {
            let buffer = self.bulk.recv_moved(&mut metadata).expect("a buffer");
            let mut found = [0; 8];
            buffer.read(0, &mut found).expect("what was written");
            assert_eq!(u64::from_le_bytes(found), round);
            self.bulk.move_to(buffer, &[]).expect("room");
            let shared = self.bulk.recv_shared(&mut metadata).expect("a buffer to read");
            self.bulk.release(shared, &[]).expect("room");
            let buffer = self.bulk.take(&self.pool).expect("a buffer to fill");
            self.bulk.pass(buffer, &[]).expect("room");
        }
    }
}

/// Cost of a burst.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cost {
    allocations: u64,
    /// `None` if system calls cannot be counted, or reading the clock is one.
    calls: Option<u64>,
}

impl Cost {
    fn and(self, other: Cost) -> Cost {
        let calls = self.calls.zip(other.calls).map(|(ours, theirs)| ours + theirs);
        Cost { allocations: self.allocations + other.allocations, calls }
    }

    fn is_nothing(self) -> bool {
        self.allocations == 0 && self.calls.unwrap_or(0) == 0
    }
}

/// Counters of this thread.
struct Counts {
    calls: Option<SyscallCounter>,
}

impl Counts {
    fn watch() -> Counts {
        let calls = SyscallCounter::start().ok().filter(|calls| {
            let before = calls.count();
            std::hint::black_box(time::now_ns());
            calls.count() == before
        });
        Counts { calls }
    }

    fn of(&self, work: impl FnOnce()) -> Cost {
        let calls = || self.calls.as_ref().map(SyscallCounter::count);
        let before = (allocations::count(), calls());
        work();
        let allocations = allocations::count() - before.0;
        Cost { allocations, calls: calls().zip(before.1).map(|(after, before)| after - before) }
    }
}

/// Leading side: runs bursts until one cost nothing on either side; returns the cost of the last one.
fn lead(mut side: Side, costs: &Receiver<Cost>, goes_on: &Sender<bool>) -> Cost {
    let (counts, start) = (Counts::watch(), Instant::now());
    for burst in 1.. {
        let own = counts.of(|| (0..ROUNDS).for_each(|round| side.round(round)));
        let both = own.and(costs.recv_timeout(LONG).expect("what it cost the other side"));
        let over = both.is_nothing() || burst == BURSTS || start.elapsed() > LONG / 2;
        goes_on.send(!over).expect("the other side");
        if over {
            return both;
        }
    }
    unreachable!("there is a last burst")
}

fn follow(mut side: Side, costs: &Sender<Cost>, goes_on: &Receiver<bool>) {
    let counts = Counts::watch();
    loop {
        let own = counts.of(|| (0..ROUNDS).for_each(|round| side.round(round)));
        costs.send(own).expect("the side that leads");
        if !goes_on.recv_timeout(LONG).expect("a verdict") {
            return;
        }
    }
}

#[test]
fn a_transfer_between_domains_that_are_awake_allocates_nothing_and_costs_no_system_call() {
    let memory = Arc::new(SharedRegion::default());
    let (near, far) = (Monitor::domain_with(&memory), Monitor::domain_with(&memory));
    // Awake: neither side ever sleeps.
    let options = BulkOptions::default().channel(ChannelOptions::default().spin_ns(u64::MAX / 4));
    let (left, right) = ends_of((&near, &options), (&far, &options));
    let (mut left, mut right) = (left.unwrap(), right.unwrap());
    let pool = near.create_pool(&PoolOptions::new(SIZE, 1)).unwrap();
    let taken = assign(&mut left, &mut right, &pool);
    let counted = Counts { calls: None }.of(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(counted.allocations, 1, "allocations are counted");
    let ((costs, told_costs), (goes_on, told_to_go_on)) = (channel(), channel());
    let last = std::thread::scope(|scope| {
        let follows = Side { bulk: right, pool: taken, leads: false };
        scope.spawn(move || follow(follows, &costs, &told_to_go_on));
        let leads = Side { bulk: left, pool, leads: true };
        scope.spawn(move || lead(leads, &told_costs, &goes_on)).join().expect("no panic")
    });
    assert!(last.is_nothing(), "no burst of {ROUNDS} rounds was free; the last cost {last:?}");
    if last.calls.is_none() {
        println!("skipped in part: system calls cannot be counted here");
    }
}
