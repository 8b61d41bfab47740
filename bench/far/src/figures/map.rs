//! Cost of creating and mapping memory while other domains do the same.

use std::time::{Duration, Instant};

use tombolo::Domain;
use tombolo::region::{RegionOptions, Rights};

use super::{median, print_figure};
use crate::Error;

/// Timeout for the other domains to arrive at the barrier.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Page size for touching, in bytes.
const PAGE_BYTES: usize = 4096;

/// Waits for all `domains` of the measurement, then creates, maps, touches and unmaps a region of `bytes`,
/// `rounds` times.
pub(super) fn run(name: &str, domains: u64, bytes: u64, rounds: u64) -> Result<(), Error> {
    let domain = Domain::attach()?;
    let parties = u32::try_from(domains).map_err(|_| Error::of_figures("start that number of domains"))?;
    let barrier = domain.names().barrier(name, parties)?;
    let mut times: [Vec<f64>; 4] = Default::default();
    barrier.wait(TIMEOUT)?;
    for _ in 0..rounds {
        let mut began = Instant::now();
        let mut lap = |of: usize| {
            times[of].push(began.elapsed().as_nanos() as f64);
            began = Instant::now();
        };
        let region = domain.create_region(&RegionOptions::new(bytes))?;
        lap(0);
        let mapping = region.map(Rights::READ_WRITE)?;
        lap(1);
        for offset in (0..mapping.length_bytes()).step_by(PAGE_BYTES) {
            mapping.write(offset, &[1])?;
        }
        lap(2);
        drop(mapping);
        drop(region);
        lap(3);
    }
    // Stays until all have measured, because ending a domain is work for the root.
    barrier.wait(TIMEOUT)?;
    for (what, times) in ["create", "map", "touch", "unmap"].into_iter().zip(times) {
        print_figure(&format!("{what}_ns"), median(times));
    }
    Ok(())
}
