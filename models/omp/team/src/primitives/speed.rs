//! Processor benchmark, for dividing work among unlike processors.
//!
//! The unit is *steps* per millisecond. A step ([`step`]) resembles an ordinary inner loop. In each of
//! [`LANES`] dependency chains it multiplies, adds and shifts an integer, loads a word at an unpredictable
//! index of [`WORDS`] words of eight bytes, does two floating-point multiplications and an addition, and
//! stores the word. Two chains match the instruction-level parallelism of such loops: with one, the fastest
//! processors would mostly stall; with eight, they would do more than programs have for them. Vector
//! instructions do not help, and the data stays in the first-level caches. So the result compares processors
//! on ordinary code, not on code that streams through memory or is fully vectorised.
//!
//! Each run does the same steps. Their number is doubled until they take [`RUN_NS_MIN`], then they are run
//! [`RUNS`] times, and the shortest time counts, as interference can only lengthen it. All of that takes one
//! or two milliseconds.

use std::hint::black_box;

use super::sys;

/// Number of words that are loaded and stored: 32 KiB.
pub const WORDS: usize = 4096;
/// Minimum duration of a timed run, in nanoseconds.
pub const RUN_NS_MIN: u64 = 100_000;
/// Number of timed runs; the shortest counts.
pub const RUNS: u32 = 10;
/// Maximum number of steps per run.
const STEPS_MAX: u32 = 1 << 24;

/// Number of independent dependency chains.
pub const LANES: usize = 2;

/// State carried from step to step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepState {
    integers: [u64; LANES],
    floats: [f64; LANES],
}

impl StepState {
    const INITIAL: Self = Self { integers: [1, 2], floats: [0.5; LANES] };
}

/// Initial value of the words.
const WORD: f64 = 0.25;

/// Does one step of the measured work.
#[inline]
pub fn step(state: &mut StepState, memory: &mut [f64; WORDS]) {
    for (integer, float) in state.integers.iter_mut().zip(&mut state.floats) {
        *integer = integer.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The index is reduced modulo the number of words, a power of two.
        let word = &mut memory[usize::try_from(*integer >> 40).unwrap_or(0) % WORDS];
        *float = (*float * 0.999_999 + *word) * 0.5;
        *word = *float;
    }
}

fn run(steps: u32, memory: &mut [f64; WORDS]) -> u64 {
    memory.fill(WORD);
    let began = sys::now_ns();
    let mut state = black_box(StepState::INITIAL);
    for _ in 0..steps {
        step(&mut state, memory);
    }
    black_box(state);
    sys::now_ns().saturating_sub(began).max(1)
}

/// Measures the speed of the calling thread's processor in steps per millisecond.
pub fn measure() -> u32 {
    let mut memory = Box::new([WORD; WORDS]);
    let mut steps = 1024;
    let mut shortest = run(steps, &mut memory);
    while shortest < RUN_NS_MIN && steps < STEPS_MAX {
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
        let mut state = StepState::INITIAL;
        (0..steps).for_each(|_| step(&mut state, &mut memory));
        (state, memory)
    }

    #[test]
    fn step_results_are_reproducible() {
        let (state, memory) = after(100_000);
        let sum: f64 = memory.iter().sum();
        // Results of any processor that conforms to IEEE 754. No value becomes subnormal, which would slow
        // some down.
        assert_eq!(state.integers, [7_853_315_990_982_803_361, 10_887_288_809_308_313_122]);
        assert_eq!(
            (state.floats.map(f64::to_bits), sum.to_bits()),
            ([4_598_177_192_138_833_494, 4_598_177_185_964_439_772], 4_652_220_393_127_345_150)
        );
        assert!(memory.iter().all(|word| *word > 1.0e-3 && *word < 1.0e3));
        assert!(memory.iter().filter(|word| **word != WORD).count() > WORDS / 2);
    }

    #[test]
    fn measured_speed_is_positive() {
        assert!(measure() > 0);
    }
}
