//! What a program on a board has.

use tombolo_bare::prelude::*;
use tombolo_bare::region::{Capability, Mapping, RegionOptions, Rights};
pub(crate) use tombolo_bare::time::{Instant, sleep};
use tombolo_bare::{Domain, Error, env};
pub(crate) use tombolo_bare_c::{Global, domain as attach};

use crate::failure::Failure;
use crate::job::ended;

/// What `body` returns. A panic ends the program.
pub(crate) fn caught<T>(body: impl FnOnce() -> T) -> Result<T, ()> {
    Ok(body())
}

pub(crate) fn exit(status: u8) -> ! {
    tombolo_bare_c::exit(status)
}

pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}

/// A board runs one program, on one processor.
pub(crate) fn processors() -> usize {
    1
}

/// The board runs no other program.
pub(crate) fn yield_now() {}

/// Maps the memory of the job.
pub(crate) fn map(capability: &Capability) -> Result<Mapping, Failure> {
    capability.map(Rights::READ_WRITE).map_err(ended)
}

/// Makes a region, and returns the capability to all of it.
pub(crate) fn create_region(domain: &Domain, options: &RegionOptions) -> Result<Capability, Error> {
    domain.create_region(options)
}
