//! How fast a processor is, for sharing work out among unlike ones.
//!
//! The unit is a *step* per millisecond. A step ([`step`]) is what a typical inner loop does once: it multiplies, adds and shifts
//! integers, multiplies and adds floating-point numbers, and loads and stores a word at an unforeseeable place of [`WORDS`] words of
//! eight bytes, each result being needed by the next step. There is nothing in it that vector instructions would help, nor anything that leaves
//! the caches of a processor. So it says how much slower one processor is with ordinary code, and not what a program that streams through memory, or
//! one that is all vectors, would find.
//!
//! The same steps are done each time. Their number is doubled until they take [`LEAST_NS`], then they are run [`RUNS`] times, and the
//! shortest time counts: what else the machine does can only make it longer. All of that takes one or two milliseconds.

use std::hint::black_box;

use crate::sys;

/// Words that are loaded and stored: 32 KiB.
pub const WORDS: usize = 4096;
/// How long steps are timed at least, in nanoseconds.
pub const LEAST_NS: u64 = 200_000;
/// How often.
pub const RUNS: u32 = 5;
/// The largest number of steps that is tried.
const MOST_STEPS: u32 = 1 << 24;

/// What goes from step to step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    integer: u64,
    float: f64,
}

impl State {
    const FIRST: Self = Self { integer: 0x9e37_79b9_7f4a_7c15, float: 0.5 };
}

/// One step.
#[inline]
pub fn step(state: State, memory: &mut [u64; WORDS]) -> State {
    let mut integer =
        state.integer.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    integer ^= integer >> 29;
    // Below the number of words, which is a power of two.
    let place = &mut memory[usize::try_from(integer >> 40).unwrap_or(0) % WORDS];
    let float = state.float * 0.999_999 + 1.0e-6;
    let loaded = *place;
    *place = loaded.wrapping_add(float.to_bits() & 0xffff);
    State { integer: integer.wrapping_add(loaded), float }
}

fn run(steps: u32, memory: &mut [u64; WORDS]) -> u64 {
    memory.fill(1);
    let began = sys::now_ns();
    let mut state = black_box(State::FIRST);
    for _ in 0..steps {
        state = step(state, memory);
    }
    black_box(state);
    sys::now_ns().saturating_sub(began).max(1)
}

/// Steps that the calling thread's processor does in a millisecond.
pub fn measure() -> u32 {
    let mut memory = Box::new([0; WORDS]);
    let mut steps = 1024;
    let mut shortest = run(steps, &mut memory);
    while shortest < LEAST_NS && steps < MOST_STEPS {
        steps *= 2;
        shortest = run(steps, &mut memory);
    }
    for _ in 1..RUNS {
        shortest = shortest.min(run(steps, &mut memory));
    }
    u32::try_from(u64::from(steps) * 1_000_000 / shortest).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(steps: u32) -> (State, u64) {
        let mut memory = Box::new([1; WORDS]);
        let state = (0..steps).fold(State::FIRST, |state, _| step(state, &mut memory));
        (state, memory.iter().fold(0, |sum, word| sum.wrapping_add(*word)))
    }

    #[test]
    fn the_work_is_the_same_everywhere_and_touches_what_it_should() {
        assert_eq!(after(1000), after(1000));
        // Of any processor that computes as all do; the numbers are those of the first.
        let (state, sum) = after(100_000);
        assert_eq!(
            (state.integer, state.float.to_bits(), sum),
            (1_142_580_591_094_152_841, 4_603_107_393_545_083_028, 3_276_907_879)
        );
        let mut memory = Box::new([1; WORDS]);
        (0..100_000).fold(State::FIRST, |state, _| step(state, &mut memory));
        assert!(memory.iter().filter(|word| **word != 1).count() > WORDS / 2);
    }

    #[test]
    fn a_processor_has_a_speed() {
        assert!(measure() > 0);
    }
}
