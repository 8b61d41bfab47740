//! How fast a processor is, for sharing work out among unlike ones.
//!
//! The unit is a *step* per millisecond. A step ([`step`]) is what ordinary inner loops do: in each of
//! [`LANES`] chains, in which everything needs what came before, it multiplies, adds and shifts an integer,
//! loads a word at an unforeseeable place of [`WORDS`] words of eight bytes, does two multiplications and an
//! addition of floating-point numbers, and stores the word. Two chains are what a processor finds in such
//! loops to do at once: with one, the fastest would mostly wait for itself, with eight it would do more than
//! programs have for it. There is nothing in it that vector instructions would help, nor anything that leaves
//! the caches of a processor. So it says how much slower a processor is with ordinary code, and not what a
//! program finds that streams through memory, or one that is all vectors.
//!
//! The same steps are done each time. Their number is doubled until they take [`LEAST_NS`], then they are run
//! [`RUNS`] times, and the shortest time counts: what else the machine does can only make it longer. All of
//! that takes one or two milliseconds.

use std::hint::black_box;

use super::sys;

/// Words that are loaded and stored: 32 KiB.
pub const WORDS: usize = 4096;
/// How long steps are timed at least, in nanoseconds.
pub const LEAST_NS: u64 = 100_000;
/// How often the steps are timed; the shortest time counts.
pub const RUNS: u32 = 10;
/// The largest number of steps that is tried.
const MOST_STEPS: u32 = 1 << 24;

/// Chains that do not need each other's results.
pub const LANES: usize = 2;

/// What goes from step to step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepState {
    integers: [u64; LANES],
    floats: [f64; LANES],
}

impl StepState {
    const FIRST: Self = Self { integers: [1, 2], floats: [0.5; LANES] };
}

/// What words begin with.
const WORD: f64 = 0.25;

/// Does one step of the measured work.
#[inline]
pub fn step(state: &mut StepState, memory: &mut [f64; WORDS]) {
    for (integer, float) in state.integers.iter_mut().zip(&mut state.floats) {
        *integer = integer.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Below the number of words, which is a power of two.
        let word = &mut memory[usize::try_from(*integer >> 40).unwrap_or(0) % WORDS];
        *float = (*float * 0.999_999 + *word) * 0.5;
        *word = *float;
    }
}

fn run(steps: u32, memory: &mut [f64; WORDS]) -> u64 {
    memory.fill(WORD);
    let began = sys::now_ns();
    let mut state = black_box(StepState::FIRST);
    for _ in 0..steps {
        step(&mut state, memory);
    }
    black_box(state);
    sys::now_ns().saturating_sub(began).max(1)
}

/// Steps that the calling thread's processor does in a millisecond.
pub fn measure() -> u32 {
    let mut memory = Box::new([WORD; WORDS]);
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

    fn after(steps: u32) -> (StepState, Box<[f64; WORDS]>) {
        let mut memory = Box::new([WORD; WORDS]);
        let mut state = StepState::FIRST;
        (0..steps).for_each(|_| step(&mut state, &mut memory));
        (state, memory)
    }

    #[test]
    fn the_work_is_the_same_everywhere_and_touches_what_it_should() {
        let (state, memory) = after(100_000);
        let sum: f64 = memory.iter().sum();
        // As every processor computes that keeps to IEEE 754; nothing gets so small that some would take
        // longer for it.
        assert_eq!(state.integers, [7_853_315_990_982_803_361, 10_887_288_809_308_313_122]);
        assert_eq!(
            (state.floats.map(f64::to_bits), sum.to_bits()),
            ([4_598_177_192_138_833_494, 4_598_177_185_964_439_772], 4_652_220_393_127_345_150)
        );
        assert!(memory.iter().all(|word| *word > 1.0e-3 && *word < 1.0e3));
        assert!(memory.iter().filter(|word| **word != WORD).count() > WORDS / 2);
    }

    #[test]
    fn a_processor_has_a_speed() {
        assert!(measure() > 0);
    }
}
