//! The physical limit: ping-pong of two cache lines between the two sides.
//!
//! One side stores a number in its line with release order; the other, polling with acquire order, sees it
//! and stores it in its own line, which the first polls. No message can be answered with fewer transfers of
//! cache lines. The lines are at the offsets of the rings' slots, in memory of the same kind.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Error, SpinTimeout};

/// First word of the line that the near side writes: that of the first slot.
const OUT_WORD: usize = 1024 / 8;
/// First word of the peer's line: 128 bytes further, since processors prefetch pairs of lines.
const BACK_WORD: usize = OUT_WORD + 128 / 8;

/// Value that ends a run of round trips.
const STOP: u64 = u64::MAX;

/// The two lines, in memory that is little-endian on every processor.
#[derive(Clone, Copy, Debug)]
pub struct Lines<'a> {
    out: &'a AtomicU64,
    back: &'a AtomicU64,
}

impl<'a> Lines<'a> {
    /// Locates the lines in these words.
    ///
    /// # Errors
    /// [`Error::TooSmall`].
    pub fn new(words: &'a [AtomicU64]) -> Result<Self, Error> {
        match (words.get(OUT_WORD), words.get(BACK_WORD)) {
            (Some(out), Some(back)) => Ok(Lines { out, back }),
            _ => Err(Error::TooSmall { have_bytes: words.len() * 8, need_bytes: (BACK_WORD + 1) * 8 }),
        }
    }

    /// Runs the near half of a round trip: `number` must differ from the previous one.
    ///
    /// # Errors
    /// [`Error::Stalled`].
    #[inline(always)]
    pub fn round_trip(self, number: u64) -> Result<(), Error> {
        let number = number.to_le();
        self.out.store(number, Ordering::Release);
        let mut spin_timeout = SpinTimeout::default();
        while self.back.load(Ordering::Acquire) != number {
            spin_timeout.wait()?;
        }
        Ok(())
    }

    /// Ends the peer's [`serve`](Self::serve).
    ///
    /// # Errors
    /// [`Error::Stalled`].
    pub fn stop(self) -> Result<(), Error> {
        self.round_trip(STOP)
    }

    /// Runs the peer's half: returns every number that differs from the previous one, up to the stop value.
    ///
    /// # Errors
    /// [`Error::Stalled`].
    pub fn serve(self) -> Result<(), Error> {
        let mut last = self.back.load(Ordering::Relaxed);
        let mut spin_timeout = SpinTimeout::default();
        loop {
            let number = self.out.load(Ordering::Acquire);
            if number == last {
                spin_timeout.wait()?;
                continue;
            }
            self.back.store(number, Ordering::Release);
            if number == STOP.to_le() {
                return Ok(());
            }
            last = number;
            spin_timeout = SpinTimeout::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_echoed_until_stop() {
        let words: Vec<AtomicU64> = (0..=BACK_WORD).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            let lines = Lines::new(&words).expect("long enough");
            for _ in 0..2 {
                let peer = scope.spawn(move || lines.serve());
                for number in 1..100 {
                    lines.round_trip(number).expect("the peer answers");
                }
                lines.stop().expect("the peer answers");
                peer.join().expect("no panic").expect("it was stopped");
            }
        });
        assert!(Lines::new(&words[..BACK_WORD]).is_err());
    }
}
