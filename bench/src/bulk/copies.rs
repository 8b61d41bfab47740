//! What a copy takes one program, by the median.

use std::hint::black_box;
use std::time::{Duration, Instant};

use tombolo_base::SharedMemory;
use tombolo_platform::copy::{self, Loop};

use super::command::Way;
use crate::ring::Error;

/// Copies as long as `memory` is, for so long and three times at least; nanoseconds of one.
pub(super) fn median_ns(way: Way, memory: &SharedMemory, length_ns: u64) -> Result<u64, Error> {
    let bytes = memory.len_bytes();
    let (mut own, mut other) = (vec![1_u8; bytes], vec![2_u8; if way == Way::Own { bytes } else { 0 }]);
    let mut run = || {
        let copied = match way {
            Way::Own => {
                black_box(&mut other[..]).copy_from_slice(black_box(&own));
                Ok(())
            }
            Way::Pull => copy::read(Loop::Best, memory, 0, black_box(&mut own)),
            Way::Push => copy::write(Loop::Best, memory, 0, black_box(&own)),
        };
        copied.map_err(|_| Error::Unexpected { length_bytes: bytes })
    };
    run()?;
    let (start, length) = (Instant::now(), Duration::from_nanos(length_ns));
    let mut times_ns = Vec::new();
    while times_ns.len() < 3 || (start.elapsed() < length && times_ns.len() < 100_000) {
        let began = Instant::now();
        run()?;
        times_ns.push(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    times_ns.sort_unstable();
    Ok(times_ns[times_ns.len() / 2])
}
