//! The body of the control loop: a fast Fourier transform in shared memory, and a response to its result.
//!
//! Radix 2, decimation in frequency, so that each stage is a set of butterflies that touch different points:
//! workers share them out and meet at a barrier after each stage. Points are pairs of `f32` in one word, in
//! the byte order of the wire.

#[cfg(target_os = "none")]
use tombolo_bare::prelude::*;

use tombolo_base::SharedMemory;
use tombolo_base::sync::Ordering::Relaxed;

/// Stages: the binary logarithm of the points.
pub(crate) const STAGES: usize = 14;
/// Points of the transform.
pub(crate) const POINTS: usize = 1 << STAGES;
/// Butterflies of a stage.
pub(crate) const BUTTERFLIES: usize = POINTS / 2;

type Complex = [f32; 2];

/// The samples, and the roots of unity that the stages multiply by.
pub(crate) struct Fft {
    points: SharedMemory,
    roots: Vec<Complex>,
}

impl Fft {
    /// A transform of a wave of 17 periods.
    pub(crate) fn new() -> Fft {
        let fft = Fft { points: SharedMemory::zeroed(POINTS * 8), roots: roots() };
        fft.sample(17);
        fft
    }

    /// Fills the points with a cosine that has `periods` periods.
    pub(crate) fn sample(&self, periods: usize) {
        for index in 0..POINTS {
            let [cosine, _] = self.roots[(index * periods) % BUTTERFLIES];
            // The roots are the lower half circle; the other half has the opposite sign.
            let sign = if (index * periods) % POINTS < BUTTERFLIES { 1.0 } else { -1.0 };
            self.store(index, [sign * cosine, 0.0]);
        }
    }

    /// Butterfly `number` of a stage; each may be computed by any worker.
    pub(crate) fn butterfly(&self, stage: usize, number: usize) {
        let half = BUTTERFLIES >> stage;
        let (block, place) = (number / half, number % half);
        let upper = block * 2 * half + place;
        let (a, b) = (self.load(upper), self.load(upper + half));
        let [cosine, sine] = self.roots[place << stage];
        let (re, im) = (a[0] - b[0], a[1] - b[1]);
        self.store(upper, [a[0] + b[0], a[1] + b[1]]);
        self.store(upper + half, [re * cosine - im * sine, re * sine + im * cosine]);
    }

    /// Final step of the loop: finds the strongest frequency. One worker does it alone.
    pub(crate) fn respond(&self) -> usize {
        let mut strongest = (0, -1.0);
        for frequency in 0..BUTTERFLIES {
            let [re, im] = self.load(reversed(frequency));
            let power = re * re + im * im;
            if power > strongest.1 {
                strongest = (frequency, power);
            }
        }
        core::hint::black_box(strongest.0)
    }

    fn load(&self, index: usize) -> Complex {
        let word = self.points.load_le(index, Relaxed);
        [f32::from_bits(word as u32), f32::from_bits((word >> 32) as u32)]
    }

    fn store(&self, index: usize, [re, im]: Complex) {
        self.points.store_le(index, u64::from(re.to_bits()) | u64::from(im.to_bits()) << 32, Relaxed);
    }
}

/// Index at which decimation in frequency leaves the result of a frequency.
fn reversed(frequency: usize) -> usize {
    frequency.reverse_bits() >> (usize::BITS as usize - STAGES)
}

/// e^(-2πik/POINTS) for the first half of k. Boards have no library for sines: each is the one before, turned
/// by the smallest angle.
fn roots() -> Vec<Complex> {
    // cos and sin of 2π/POINTS.
    const TURN: [f64; 2] = [0.999_999_926_465_717_9, 0.000_383_495_187_571_395_56];
    let mut root = [1.0, 0.0];
    let turns = (0..BUTTERFLIES).map(|_| {
        let now = root;
        root = [now[0] * TURN[0] + now[1] * TURN[1], now[1] * TURN[0] - now[0] * TURN[1]];
        [now[0] as f32, now[1] as f32]
    });
    turns.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fft_finds_the_frequency_of_a_wave() {
        let fft = Fft::new();
        for periods in [1, 17, 100, 8191] {
            fft.sample(periods);
            for stage in 0..STAGES {
                (0..BUTTERFLIES).for_each(|number| fft.butterfly(stage, number));
            }
            assert_eq!(fft.respond(), periods);
        }
    }

    #[test]
    fn the_roots_are_those_of_unity() {
        for (index, [cosine, sine]) in roots().into_iter().enumerate() {
            let angle = -core::f64::consts::TAU * index as f64 / POINTS as f64;
            assert!(
                (f64::from(cosine) - angle.cos()).abs() < 1e-6
                    && (f64::from(sine) - angle.sin()).abs() < 1e-6
            );
        }
    }
}
