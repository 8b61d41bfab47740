//! Litmus tests of the memory between two nodes: whether it has the ordering and atomicity that the protocols
//! rely on.
//!
//! Both sides run the same test at the same time, each as one of two [`Part`]s, on private memory that is
//! zero at the start. They detect a misconfigured emulator before it loses one message a day: QEMU omits the
//! memory barriers of a board that can only ever have one processor, and compiles its atomic operations as
//! plain ones.
//!
//! * **store buffering**: each side stores to its own word, fences, and loads the other's. The two must never
//!   both load the old value. The doorbell protocol, which loses no wake-up, relies on this.
//! * **publication**: a payload, then one word with release. A side that loads the word with acquire must see
//!   the payload, and every word whole.
//! * **whole stores**: each side repeatedly stores two words at once, both filled with one 16-bit pattern,
//!   and loads the other's. The widest part that never mixed the patterns of two stores is stored whole.
//! * **read-modify-write**: both add to one word, and no addition is lost. The protocols do not need this
//!   across a window; it shows what the link can do, and whether an emulator is configured correctly.
//!
//! In memory that is not coherent, stores are written back and lines invalidated as channels do. Such memory
//! has no read-modify-write, so that test is skipped.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

use core::fmt;

use tombolo_base::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use tombolo_base::sync::{AtomicU64, Ordering, fence, load_pair, spin_hint, store_both};
use tombolo_base::{CacheMaintenance, Coherent, LINE_BYTES, OutOfRange, SharedMemory};

/// Number of words in a cache line.
const LINE_WORDS: usize = LINE_BYTES / 8;

/// Number of cache lines that the tests use.
const LINES: usize = 12;

/// Size of the memory under test, in bytes.
pub const MEMORY_BYTES: usize = LINES * LINE_BYTES;

/// Number of words of a payload in the publication test.
const PAYLOAD_WORDS: usize = 7;

/// Widths of the stores tested, in bytes. Stores of 2 bytes are assumed to be whole.
const WIDTHS: [usize; 3] = [4, 8, 16];

/// Minimum number of changes that each side must observe before the absence of torn stores counts as evidence
/// that 16-byte stores are whole. Stores of 8 bytes are also tested by publication.
const LEAST_CHANGES: u64 = 1000;

/// Word value that ends a test early.
const STOP: u64 = u64::MAX;

/// One of the two sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The side that ends a test when its time is up.
    First,
    /// The side that follows.
    Second,
}

impl Part {
    const fn index(self) -> usize {
        match self {
            Part::First => 0,
            Part::Second => 1,
        }
    }
}

/// Policy for waiting: what a side does between polls, and when it gives up. On a busy host the other side
/// may not be scheduled at all.
pub trait TestClock {
    /// Called after many unsuccessful polls. Returns false to give up on the other side.
    fn may_keep_waiting(&mut self) -> bool;

    /// Called when the next test begins.
    fn begin_test(&mut self);

    /// Returns whether the time of this test is up. Called on the first side only.
    fn is_time_up(&mut self) -> bool;
}

/// Error of a test whose other side did not respond in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerUnresponsive;

impl fmt::Display for PeerUnresponsive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the other side stopped coming along")
    }
}

impl core::error::Error for PeerUnresponsive {}

/// Results of the tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Findings {
    /// Rounds of store buffering.
    pub buffering_rounds: u64,
    /// Rounds in which both sides found the old value.
    pub both_old: u64,
    /// Messages published.
    pub messages: u64,
    /// Messages whose payload differed from the published one, or had a torn word.
    pub torn: u64,
    /// Additions by both sides.
    pub additions: u64,
    /// Additions that were lost.
    pub lost: u64,
    /// Number of loads that found parts of two stores of the other side, for each width: 4, 8 and 16 bytes.
    pub parted: [u64; WIDTHS.len()],
    /// Number of loads that found a new store, of the side that found fewer.
    pub changes: u64,
    /// Whether the memory is coherent. If not, read-modify-write was not tested.
    pub coherent: bool,
}

impl Findings {
    /// Whether all invariants hold.
    #[must_use]
    pub fn are_sound(&self) -> bool {
        (self.both_old, self.torn, self.lost) == (0, 0, 0) && self.widest_store_bytes() >= 8
    }

    /// Width of the widest store that was never seen torn, in bytes; 2 if all tested widths were.
    #[must_use]
    pub fn widest_store_bytes(&self) -> usize {
        let seen = |index: usize| WIDTHS[index] < 16 || self.changes >= LEAST_CHANGES;
        let whole = (0..WIDTHS.len()).take_while(|index| self.parted[*index] == 0 && seen(*index));
        whole.last().map_or(2, |index| WIDTHS[index])
    }

    /// Returns whether all requested rounds were run. A test ends early when its time is up.
    #[must_use]
    pub fn covers(&self, amount: Amount) -> bool {
        self.buffering_rounds >= amount.buffering_rounds
            && self.messages >= amount.messages
            && (self.additions >= amount.additions || !self.coherent)
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Findings { buffering_rounds, both_old, messages, torn, additions, lost, .. } = self;
        write!(
            f,
            "store buffering: {both_old} of {buffering_rounds} both old; publication: {torn} of {messages} torn; \
             stores of {} bytes are whole; read-modify-write: {lost} of {additions} lost",
            self.widest_store_bytes()
        )
    }
}

/// Number of rounds of each test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Amount {
    /// Rounds of store buffering.
    pub buffering_rounds: u64,
    /// Messages published each way.
    pub messages: u64,
    /// Additions by each side.
    pub additions: u64,
}

impl Default for Amount {
    /// Takes half a second if the other side has its own processor. A misconfigured emulator fails thousands
    /// of the rounds.
    fn default() -> Self {
        Amount::of_rounds(200_000)
    }
}

impl Amount {
    /// Returns this number of rounds, with the other settings in proportion.
    #[must_use]
    pub fn of_rounds(rounds: u64) -> Self {
        Amount { buffering_rounds: rounds, messages: rounds / 4, additions: rounds }
    }
}

/// One side of the tests.
pub struct Litmus<'a, P, C = Coherent> {
    lines: [SharedMemory<C>; LINES],
    part: Part,
    clock: &'a mut P,
    steps: u64,
}

impl<'a, P: TestClock, C: CacheMaintenance> Litmus<'a, P, C> {
    /// Creates one side of the tests, in `memory`.
    ///
    /// # Errors
    /// [`OutOfRange`] if the memory is shorter than [`MEMORY_BYTES`].
    pub fn new(memory: &SharedMemory<C>, part: Part, clock: &'a mut P) -> Result<Self, OutOfRange> {
        let whole = memory.slice(0, MEMORY_BYTES)?;
        // Cannot fail: every line lies within `whole`.
        let lines = core::array::from_fn(|index| {
            whole.slice(index * LINE_BYTES, LINE_BYTES).unwrap_or_else(|_| whole.clone())
        });
        Ok(Litmus { lines, part, clock, steps: 0 })
    }

    /// Runs all tests together with the other side.
    ///
    /// # Errors
    /// [`PeerUnresponsive`] if the other side does not respond in time.
    pub fn run(&mut self, amount: Amount) -> Result<Findings, PeerUnresponsive> {
        let mut findings = Findings { coherent: C::COHERENT, ..Findings::default() };
        self.barrier()?;
        self.clock.begin_test();
        self.buffering(amount.buffering_rounds, &mut findings)?;
        self.barrier()?;
        self.clock.begin_test();
        self.publication(amount.messages, &mut findings)?;
        self.barrier()?;
        self.clock.begin_test();
        self.whole_stores(amount.buffering_rounds, &mut findings)?;
        if C::COHERENT {
            self.additions(amount.additions, &mut findings)?;
            self.barrier()?;
        }
        Ok(findings)
    }

    /// Returns the own line and the peer's line of a group.
    fn pair(&self, group: usize) -> (SharedMemory<C>, SharedMemory<C>) {
        let own = self.part.index();
        (self.lines[2 * group + own].clone(), self.lines[2 * group + 1 - own].clone())
    }

    /// Waits until both sides reach this point.
    fn barrier(&mut self) -> Result<(), PeerUnresponsive> {
        self.steps += 1;
        let (own, peer) = self.pair(0);
        own.store_through_le(0, self.steps, Release);
        let steps = self.steps;
        self.poll_until(&peer, 0, |word| word >= steps).map(|_| ())
    }

    /// Polls a word of a line until `is_so` holds.
    fn poll_until(
        &mut self,
        line: &SharedMemory<C>,
        word: usize,
        is_so: impl Fn(u64) -> bool,
    ) -> Result<u64, PeerUnresponsive> {
        loop {
            for _ in 0..1000 {
                let found = line.load_current_le(word, Acquire);
                if is_so(found) {
                    return Ok(found);
                }
                spin_hint();
            }
            if !self.clock.may_keep_waiting() {
                return Err(PeerUnresponsive);
            }
        }
    }

    fn buffering(&mut self, rounds: u64, findings: &mut Findings) -> Result<(), PeerUnresponsive> {
        let ((own, peer), (own_result, peer_result)) = (self.pair(1), self.pair(2));
        for round in 1..=rounds {
            let last = self.part == Part::First && round % 1024 == 0 && self.clock.is_time_up();
            own.store_through_le(0, round, Relaxed);
            fence(Ordering::SeqCst);
            let old = peer.load_current_le(0, Relaxed) < round;
            // A side is at most one round ahead of the other, so results alternate between two words.
            let turn = (round % 2) as usize;
            own_result.store_through_le(turn, if last { STOP } else { round << 1 | u64::from(old) }, Release);
            let theirs = self.poll_until(&peer_result, turn, |word| word >> 1 >= round)?;
            if last || theirs == STOP {
                return Ok(());
            }
            findings.buffering_rounds = round;
            findings.both_old += u64::from(old && theirs & 1 == 1);
        }
        Ok(())
    }

    /// Each side publishes to the other and checks what the other publishes, at the same time.
    fn publication(&mut self, messages: u64, findings: &mut Findings) -> Result<(), PeerUnresponsive> {
        let (own, peer) = self.pair(3);
        for number in 1..=messages {
            let last = self.part == Part::First && number % 1024 == 0 && self.clock.is_time_up();
            for index in 1..=PAYLOAD_WORDS {
                own.store_le(index, payload(number, index), Relaxed);
            }
            own.write_back(1..PAYLOAD_WORDS + 1);
            own.store_through_le(0, if last { STOP } else { number }, Release);
            let seen = self.poll_until(&peer, 0, |word| word >= number)?;
            if last || seen == STOP {
                return Ok(());
            }
            // The peer cannot continue before this side publishes its next value.
            peer.invalidate(1..PAYLOAD_WORDS + 1);
            let right =
                (1..=PAYLOAD_WORDS).all(|index| peer.load_le(index, Relaxed) == payload(number, index));
            findings.torn += u64::from(!right);
            findings.messages = number;
            self.barrier()?;
        }
        Ok(())
    }

    /// Stores pairs of words and loads the other side's, without synchronization.
    fn whole_stores(&mut self, stores: u64, findings: &mut Findings) -> Result<(), PeerUnresponsive> {
        /// Index of the word that is set once this side has ended.
        const ENDED: usize = 2;
        /// Index of the first word with the number of torn loads, one word per width.
        const PARTED: usize = 3;
        const CHANGES: usize = PARTED + WIDTHS.len();
        let (own, peer) = self.pair(5);
        let (mut parted, mut changes, mut last) = ([0; WIDTHS.len()], 0, [0; 16]);
        for number in 1..=stores {
            let look = number % 1024 == 0;
            let over = look && self.part == Part::First && self.clock.is_time_up();
            if over || (look && peer.load_current_le(ENDED, Relaxed) == STOP) {
                break;
            }
            let word = u64::from(number as u16) * 0x0001_0001_0001_0001;
            if let Some(pair) = own.words().first_chunk() {
                store_both(pair, [word; 2]);
            }
            own.write_back(0..2);
            peer.invalidate(0..2);
            let Some(found) = peer.words().first_chunk().map(load_pair) else { break };
            changes += u64::from(found != last);
            last = found;
            for (width, parted) in WIDTHS.into_iter().zip(&mut parted) {
                *parted += u64::from(!found.chunks(width).all(is_of_one_store));
            }
        }
        own.store_through_le(ENDED, STOP, Relaxed);
        for (index, parted) in parted.into_iter().enumerate() {
            own.store_through_le(PARTED + index, parted, Relaxed);
        }
        own.store_through_le(CHANGES, changes, Relaxed);
        self.barrier()?;
        for (index, parted) in parted.into_iter().enumerate() {
            findings.parted[index] = parted.saturating_add(peer.load_current_le(PARTED + index, Relaxed));
        }
        findings.changes = changes.min(peer.load_current_le(CHANGES, Relaxed));
        Ok(())
    }

    fn additions(&mut self, additions: u64, findings: &mut Findings) -> Result<(), PeerUnresponsive> {
        let shared = self.lines[8].clone();
        let word = &shared.words()[0];
        for _ in 0..additions {
            add_one(word);
        }
        self.barrier()?;
        findings.additions = 2 * additions;
        findings.lost = findings.additions.saturating_sub(shared.load_le(0, Relaxed));
        Ok(())
    }
}

const _: () = assert!(PAYLOAD_WORDS < LINE_WORDS);

/// Generates a payload word with two equal halves, which differs by message and index.
fn payload(number: u64, index: usize) -> u64 {
    let half = (number as u32).wrapping_mul(0x9e37_79b9) ^ index as u32;
    u64::from(half) << 32 | u64::from(half)
}

/// Returns whether all two-byte parts are equal, as in a single store.
fn is_of_one_store(bytes: &[u8]) -> bool {
    bytes.chunks(2).all(|part| part == &bytes[..2])
}

/// Atomically adds one to a little-endian word.
fn add_one(word: &AtomicU64) {
    if cfg!(target_endian = "little") {
        word.fetch_add(1, AcqRel);
    } else {
        // `fetch_add` would add in big-endian byte order.
        let add = |found: u64| Some((u64::from_le(found) + 1).to_le());
        let mut found = word.load(Relaxed);
        while let Some(next) = add(found) {
            match word.compare_exchange_weak(found, next, AcqRel, Relaxed) {
                Ok(_) => return,
                Err(now) => found = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use tombolo_base::coherence::{Caches, Evictions};

    use super::*;

    /// Yields to other threads, and gives up after a million calls.
    struct Threads(u32);

    impl TestClock for Threads {
        fn may_keep_waiting(&mut self) -> bool {
            self.0 += 1;
            std::thread::yield_now();
            self.0 < 1_000_000
        }

        fn begin_test(&mut self) {}

        fn is_time_up(&mut self) -> bool {
            false
        }
    }

    fn both(amount: Amount, memory: &SharedMemory) -> [Result<Findings, PeerUnresponsive>; 2] {
        let side = |part| {
            let memory = memory.clone();
            std::thread::spawn(move || {
                let mut clock = Threads(0);
                Litmus::new(&memory, part, &mut clock).unwrap().run(amount)
            })
        };
        [Part::First, Part::Second].map(side).map(|thread| thread.join().unwrap())
    }

    #[test]
    fn this_processor_is_sound() {
        let amount = Amount { buffering_rounds: 2000, messages: 500, additions: 5000 };
        let memory = SharedMemory::zeroed(MEMORY_BYTES);
        for findings in both(amount, &memory) {
            let findings = findings.unwrap();
            assert!(findings.are_sound(), "{findings}");
            assert_eq!((findings.buffering_rounds, findings.additions), (2000, 10_000));
            assert!(findings.covers(amount));
            assert!(findings.coherent && findings.widest_store_bytes() >= 8, "{findings:?}");
        }
    }

    #[test]
    fn memory_that_is_not_coherent_is_sound_if_lines_are_written_back() {
        let memory = SharedMemory::zeroed(MEMORY_BYTES);
        let amount = Amount { buffering_rounds: 500, messages: 200, additions: 500 };
        let side = |part| {
            let memory = memory.clone();
            std::thread::spawn(move || {
                let evictions = Evictions { seed: 3, one_in: NonZeroU32::new(2) };
                let view = Caches::Emulated(evictions).view(memory).unwrap();
                Litmus::new(&view, part, &mut Threads(0)).unwrap().run(amount)
            })
        };
        for findings in [Part::First, Part::Second].map(side).map(|thread| thread.join().unwrap()) {
            let findings = findings.unwrap();
            assert!(findings.are_sound() && findings.covers(amount), "{findings:?}");
            assert_eq!((findings.coherent, findings.additions), (false, 0));
        }
    }

    #[test]
    fn the_widest_store_is_the_last_that_was_never_seen_in_parts() {
        let of = |parted, changes| {
            let findings = Findings { parted, changes, ..Findings::default() };
            (findings.widest_store_bytes(), findings.are_sound())
        };
        assert_eq!(of([0, 0, 0], LEAST_CHANGES), (16, true));
        assert_eq!(of([0, 0, 0], LEAST_CHANGES - 1), (8, true), "too little was seen");
        assert_eq!(of([0, 0, 1], LEAST_CHANGES), (8, true));
        assert_eq!(of([0, 1, 1], LEAST_CHANGES), (4, false));
        assert_eq!(of([1, 1, 1], LEAST_CHANGES), (2, false));
        assert!(is_of_one_store(&[7, 1, 7, 1]) && !is_of_one_store(&[7, 1, 7, 2]));
    }

    /// Simulates a peer that stores 32-bit halves one after the other, as a 32-bit bus does.
    #[test]
    fn a_store_in_parts_is_seen() {
        let memory = SharedMemory::zeroed(MEMORY_BYTES);
        let halves = memory.slice(11 * LINE_BYTES, LINE_BYTES).unwrap();
        halves.store_le(0, 0x0005_0005_0004_0004, Relaxed);
        halves.store_le(2, STOP, Relaxed);
        // The other side has already arrived at the meeting point.
        memory.store_le(LINE_WORDS, 1, Relaxed);
        let mut clock = Threads(0);
        let mut litmus = Litmus::new(&memory, Part::First, &mut clock).unwrap();
        let mut findings = Findings::default();
        litmus.whole_stores(1023, &mut findings).unwrap();
        assert_eq!((findings.parted, findings.widest_store_bytes()), ([0, 1023, 1023], 4));
    }

    #[test]
    fn timed_out_test_is_incomplete() {
        struct Over;
        impl TestClock for Over {
            fn may_keep_waiting(&mut self) -> bool {
                std::thread::yield_now();
                true
            }
            fn begin_test(&mut self) {}
            fn is_time_up(&mut self) -> bool {
                true
            }
        }
        // Just before the first check of the time, and at it.
        for (rounds, whole) in [(1023, true), (1024, false)] {
            let amount = Amount { buffering_rounds: rounds, messages: 1, additions: 1 };
            let memory = SharedMemory::zeroed(MEMORY_BYTES);
            let side = |part| {
                let memory = memory.clone();
                std::thread::spawn(move || Litmus::new(&memory, part, &mut Over).unwrap().run(amount))
            };
            for findings in [Part::First, Part::Second].map(side).map(|thread| thread.join().unwrap()) {
                let findings = findings.unwrap();
                assert_eq!((findings.are_sound(), findings.covers(amount)), (true, whole), "{findings}");
            }
        }
    }

    #[test]
    fn a_lost_addition_is_seen() {
        let memory = SharedMemory::zeroed(MEMORY_BYTES);
        // As if a thousand additions had been lost.
        memory.store_le(8 * LINE_WORDS, 0_u64.wrapping_sub(1000), Relaxed);
        let amount = Amount { buffering_rounds: 1, messages: 1, additions: 2000 };
        let findings = both(amount, &memory)[0].unwrap();
        assert_eq!((findings.lost, findings.are_sound()), (1000, false));
    }

    #[test]
    fn memory_that_is_too_short_is_refused() {
        for (bytes, fits) in [(MEMORY_BYTES - 8, false), (MEMORY_BYTES, true), (MEMORY_BYTES + 8, true)] {
            let mut clock = Threads(0);
            assert_eq!(Litmus::new(&SharedMemory::zeroed(bytes), Part::First, &mut clock).is_ok(), fits);
        }
    }

    #[test]
    fn absent_side_is_detected() {
        struct None;
        impl TestClock for None {
            fn may_keep_waiting(&mut self) -> bool {
                false
            }
            fn begin_test(&mut self) {}
            fn is_time_up(&mut self) -> bool {
                true
            }
        }
        let memory = SharedMemory::zeroed(MEMORY_BYTES);
        assert_eq!(
            Litmus::new(&memory, Part::First, &mut None).unwrap().run(Amount::default()),
            Err(PeerUnresponsive)
        );
    }
}
