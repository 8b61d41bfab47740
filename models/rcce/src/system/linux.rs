//! System interface on Linux.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use std::process::exit;
pub(crate) use std::thread::{sleep, yield_now};
pub(crate) use std::time::Instant;

use tombolo::region::{Capability, MapOptions, Mapping, Region, RegionOptions, Rights};
use tombolo::{Domain, Error};

use crate::failure::Failure;
use crate::job::fatal_error;

/// State shared by all threads of the program.
#[derive(Debug)]
pub(crate) struct Global<T>(Mutex<T>);

impl<T> Global<T> {
    pub(crate) const fn new(value: T) -> Self {
        Global(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        // A panic leaves at most a message half sent, and its peer then learns that this rank has ended.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs `body`, and returns an error if it panics.
pub(crate) fn catch_panic<T>(body: impl FnOnce() -> T) -> Result<T, ()> {
    catch_unwind(AssertUnwindSafe(body)).map_err(drop)
}

pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Maps the memory of the job.
pub(crate) fn map(capability: &Capability) -> Result<Mapping, Failure> {
    let options = MapOptions { address: None, alignment_bytes: 0, populate: true };
    capability.map_with(Rights::READ_WRITE, options).map_err(fatal_error)
}

/// Attaches to the machine.
pub(crate) fn attach() -> Result<Domain, Error> {
    Domain::attach()
}

/// Creates a region, and returns the capability for all of it.
pub(crate) fn create_region(domain: &Domain, options: &RegionOptions) -> Result<Capability, Error> {
    domain.create_region(options).map(Region::into_capability)
}
