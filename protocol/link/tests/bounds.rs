//! No path through a channel end exceeds its bound on accesses to shared memory.
//!
//! `RUSTFLAGS="--cfg sim" cargo test -p tombolo-link --test bounds`; without that, accesses are not counted.
#![cfg(all(sim, not(loom)))]

use tombolo_base::steps::counted;
use tombolo_base::sync::Ordering::{Relaxed, Release};
use tombolo_base::{Random, SharedMemory, Steps};
use tombolo_link::end::{Awaited, Signals, WakeOrder};
use tombolo_link::{ChannelConfig, ChannelEnd, ChannelLayout, Side};
use tombolo_ring::{SlotSize, Variant};

/// Lifeline that reports a death on request, and clock that advances by a check interval at every read.
#[derive(Default, Debug)]
struct TestSignals {
    gone: bool,
    now_ns: u64,
}

impl Signals for TestSignals {
    fn ring(&mut self) {}

    fn peer_gone(&self) -> bool {
        self.gone
    }

    fn poll_signals(&mut self) {
        self.now_ns += 10_000_000;
    }

    fn now_ns(&self) -> u64 {
        self.now_ns
    }
}

type TestEnd = ChannelEnd<TestSignals>;

/// Eight slots of 24 bytes.
const LONGEST: usize = 192;
const ORDERS: [WakeOrder; 2] = [WakeOrder::Fence, WakeOrder::Asymmetric];
const VARIANTS: [Variant; 2] = [Variant::EpochCredit, Variant::UsedFlag];

/// Maximum steps of each kind of operation.
#[derive(Default)]
struct MaxSteps {
    send: Steps,
    receive: Steps,
    announce: Steps,
}

fn within(what: &str, steps: Steps, bound: Steps, max_steps: &mut Steps) {
    assert!(steps.within(bound), "{what}: {steps:?} exceeds {bound:?}");
    *max_steps = max_steps.max(steps);
}

fn send(end: &mut TestEnd, length: usize, max_steps: &mut MaxSteps) {
    let bound = end.send_bound(length);
    let (_, steps) = counted(|| end.try_send(&[7; LONGEST][..length]));
    within("send", steps, bound, &mut max_steps.send);
}

fn receive(end: &mut TestEnd, max_steps: &mut MaxSteps) {
    let bound = end.receive_bound(LONGEST);
    let mut target = [0; LONGEST];
    let (_, steps) = counted(|| end.try_recv(|message| message.copy_to(&mut target).map(drop)));
    within("receive", steps, bound, &mut max_steps.receive);
}

/// Announces a sleep and withdraws it.
fn sleep_once(end: &mut TestEnd, max_steps: &mut MaxSteps) {
    let bound = end.announce_bound();
    let (_, announced) = counted(|| end.announce(Awaited::Both));
    let _ = end.may_sleep(Awaited::Both);
    let ((), withdrawn) = counted(|| end.finish_sleep(true));
    within("announce", announced + withdrawn, bound, &mut max_steps.announce);
}

/// Runs both ends in a random order derived from the seed. A hostile peer also changes words of the memory.
fn walk(seed: u64, order: WakeOrder, variant: Variant, hostile: bool, max_steps: &mut MaxSteps) {
    let mut random = Random::new(seed);
    let config = ChannelConfig::new(SlotSize::B32, 8, variant).unwrap();
    let memory = SharedMemory::zeroed(ChannelLayout::new(config).length_bytes());
    let end = |side| ChannelEnd::attach(&memory, side, config, order, TestSignals::default()).unwrap();
    let mut ends = [end(Side::A), end(Side::B)];
    for _ in 0..400 {
        let by = random.index(2);
        match random.below(100) {
            0..40 => send(&mut ends[by], random.index(LONGEST + 1), max_steps),
            40..80 => receive(&mut ends[by], max_steps),
            80..97 => sleep_once(&mut ends[by], max_steps),
            97 if random.chance(200) => {
                let bound = ends[by].close_bound();
                let ((), steps) = counted(|| ends[by].close());
                within("close", steps, bound, &mut Steps::default());
            }
            98 if random.chance(100) => ends[by].signals_mut().gone = true,
            _ if hostile => {
                let index = random.index(memory.len_bytes() / 8);
                let old = memory.load_le(index, Relaxed);
                memory.store_le(index, old ^ (1 << random.below(64)), Release);
            }
            _ => {}
        }
    }
}

#[test]
fn ends_stay_within_their_bounds_with_peers_of_both_kinds() {
    for (order, variant) in ORDERS.into_iter().flat_map(|order| VARIANTS.map(|variant| (order, variant))) {
        let mut max_steps = MaxSteps::default();
        for seed in 0..500 {
            walk(seed, order, variant, false, &mut max_steps);
            walk(seed, order, variant, true, &mut max_steps);
        }
        println!(
            "{order:?} {variant:?}: {:?} {:?} {:?}",
            max_steps.send, max_steps.receive, max_steps.announce
        );
        // No operation on the path of a message uses a locked instruction or can be forced to retry.
        assert_eq!(max_steps.send.read_modify_writes + max_steps.receive.read_modify_writes, 0);
    }
}
