//! Median time of a copy in one program.

use std::hint::black_box;
use std::time::{Duration, Instant};

use tombolo_base::SharedMemory;
use tombolo_platform::copy::{self, CopyLoop};

use super::command::Way;
use crate::Error;

/// Minimum time of the copies that are timed together, so that reading the clock, which is slow on an
/// emulated processor, is negligible.
const BATCH: Duration = Duration::from_micros(20);

/// Copies all of `memory` repeatedly for a time, at least three times; returns the picoseconds of one copy.
///
/// # Errors
/// [`Error::Unexpected`] if the memory cannot be copied.
pub fn median_ps(way: Way, memory: &SharedMemory, length_ns: u64) -> Result<u64, Error> {
    let bytes = memory.len_bytes();
    let (mut own, mut other) = (vec![1_u8; bytes], vec![2_u8; if way == Way::Own { bytes } else { 0 }]);
    let mut run = || {
        let copied = match way {
            Way::Own => {
                black_box(&mut other[..]).copy_from_slice(black_box(&own));
                Ok(())
            }
            Way::Pull => copy::read(CopyLoop::Best, memory, 0, black_box(&mut own)),
            Way::Push => copy::write(CopyLoop::Best, memory, 0, black_box(&own)),
        };
        copied.map_err(|_| Error::Unexpected { length_bytes: bytes })
    };
    run()?;
    let once = Instant::now();
    run()?;
    let batch = (BATCH.as_nanos() / once.elapsed().as_nanos().max(1) + 1).min(1000) as u64;
    let (start, length) = (Instant::now(), Duration::from_nanos(length_ns));
    let mut times_ps = Vec::new();
    while times_ps.len() < 3 || (start.elapsed() < length && times_ps.len() < 100_000) {
        let began = Instant::now();
        for _ in 0..batch {
            run()?;
        }
        let took_ps = 1000 * began.elapsed().as_nanos() / u128::from(batch);
        times_ps.push(u64::try_from(took_ps).unwrap_or(u64::MAX));
    }
    times_ps.sort_unstable();
    Ok(times_ps[times_ps.len() / 2])
}
