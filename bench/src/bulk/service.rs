//! Copies by this node's copy service, compared with those by this program itself.

use std::path::Path;
use std::time::Duration;

use tombolo::region::{RegionOptions, Rights};
use tombolo::{Domain, SpawnOptions};
use tombolo_copies::engines::{Engines, Request};
use tombolo_copies::{Copies, CopiesError, Copy};

use super::alone::{keep, times};
use crate::ring::Error;
use crate::suite::{self, Failed, Metric, Results, Schedule};

/// Name in tables of a copy by the service.
pub const SERVICE: &str = "copy service";
/// Name of the copy by this program's own engines.
pub const OWN_ENGINES: &str = "own engines";

/// Timeout of one copy.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum length of a copy, in bytes.
const LONGEST_BYTES: usize = 64 << 20;

/// Adds rows for copies between two regions of this node: by its copy service, from enqueuing the descriptor
/// to receiving the completion, and by this program's engines. `image` is `copies.tbi`.
pub fn add(
    results: &mut Results,
    (domain, image): (&Domain, &Path),
    schedule: Schedule,
    progress: &mut dyn FnMut(&str),
) {
    progress("starting a copy service");
    if let Err(error) = measure(results, (domain, image), schedule, progress) {
        results.failed.push(Failed::new("copies by a copy service", &error));
    }
}

fn measure(
    results: &mut Results,
    (domain, image): (&Domain, &Path),
    schedule: Schedule,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    if !image.is_file() {
        return Err(Error::NoImage { path: image.to_owned() });
    }
    // Discards its ready message, which does not belong in the report.
    domain.on_output(|_, _, _| {});
    let child = domain.spawn(&SpawnOptions::image(image).on(domain.node_name()))?;
    let measured = with_service(results, domain, schedule, progress);
    // It serves until it is killed.
    child.kill()?;
    child.wait(TIMEOUT)?;
    measured
}

fn far(error: &dyn std::fmt::Display) -> suite::Error {
    suite::Error::Far { what: error.to_string() }
}

fn with_service(
    results: &mut Results,
    domain: &Domain,
    schedule: Schedule,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let of_service = |error: CopiesError| match error {
        CopiesError::Tombolo(error) => Error::from(error),
        other => Error::from(tombolo::Error::Os { operation: other.to_string(), errno: 0 }),
    };
    let mut copies = Copies::connect(domain, domain.node_name()).map_err(of_service)?;
    let region = || domain.create_region(&RegionOptions::new(LONGEST_BYTES as u64));
    let (from, to) = (region()?, region()?);
    let (source, target) = (from.map(Rights::READ_WRITE)?, to.map(Rights::READ_WRITE)?);
    // Touches every page before the measurement.
    for mapping in [&source, &target] {
        mapping.write(0, &vec![1; LONGEST_BYTES])?;
    }
    let there = copies.register(&from, Rights::READ).map_err(of_service)?;
    let here = copies.register(&to, Rights::READ_WRITE).map_err(of_service)?;
    let (Some(source), Some(target)) = (source.location(0), target.location(0)) else { return Ok(()) };
    let own = Request::copy(source, target, 0);
    let mut engines = Engines::new(domain)?;
    for bytes in Metric::COPIES_BYTES.into_iter().filter(|bytes| *bytes <= LONGEST_BYTES) {
        progress(&format!("copies by a copy service: {}", suite::length(bytes)));
        let served = times(schedule, || {
            let copy = Copy::new(there.at(0), here.at(0), bytes as u64);
            let descriptor = copies.enqueue(&copy).map_err(|error| far(&error))?;
            copies.wait(descriptor, TIMEOUT).map_err(|error| far(&error))
        });
        keep(results, SERVICE, bytes, served);
        let request = Request { length_bytes: bytes as u64, ..own.clone() };
        let owned = times(schedule, || {
            engines.submit(&request).map_err(|error| far(&error))?;
            loop {
                if let Some((_, completion)) = engines.take() {
                    return completion.result.map_err(|failure| far(&failure));
                }
                std::hint::spin_loop();
            }
        });
        keep(results, OWN_ENGINES, bytes, owned);
    }
    Ok(())
}
