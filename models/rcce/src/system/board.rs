//! System interface on boards without an operating system.

use tombolo_bare::prelude::*;
use tombolo_bare::region::{Capability, Mapping, RegionOptions, Rights};
pub(crate) use tombolo_bare::time::{Instant, sleep};
use tombolo_bare::{Domain, Error, env};
pub(crate) use tombolo_bare_c::{Global, domain as attach};

use crate::failure::Failure;
use crate::job::fatal_error;

/// Runs `body`. A panic ends the program.
pub(crate) fn catch_panic<T>(body: impl FnOnce() -> T) -> Result<T, ()> {
    Ok(body())
}

pub(crate) fn exit(status: u8) -> ! {
    tombolo_bare_c::exit(status)
}

pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}

/// Returns 1: a board runs one program, on one processor.
pub(crate) fn processors() -> usize {
    1
}

/// Does nothing: the board runs no other program.
pub(crate) fn yield_now() {}

/// Maps the memory of the job.
pub(crate) fn map(capability: &Capability) -> Result<Mapping, Failure> {
    capability.map(Rights::READ_WRITE).map_err(fatal_error)
}

/// Creates a region, and returns the capability for all of it.
pub(crate) fn create_region(domain: &Domain, options: &RegionOptions) -> Result<Capability, Error> {
    domain.create_region(options)
}
