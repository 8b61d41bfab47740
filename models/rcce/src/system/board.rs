//! What a program on a board has.

use core::cell::{RefCell, RefMut};

use tombolo_bare::prelude::*;
use tombolo_bare::region::{Capability, Mapping, RegionOptions, Rights};
pub(crate) use tombolo_bare::time::{Instant, sleep};
use tombolo_bare::{ChannelOptions, Domain, Error, env};
use tombolo_link::ChannelConfig;
use tombolo_ring::{SlotSize, Variant};

use crate::failure::Failure;
use crate::job::ended;

/// What the program has in common: it has one thread.
#[derive(Debug)]
pub(crate) struct Global<T>(RefCell<T>);

// SAFETY: a program on a board has one thread, and no code of it runs in an interrupt.
unsafe impl<T> Sync for Global<T> {}

impl<T> Global<T> {
    pub(crate) const fn new(value: T) -> Self {
        Global(RefCell::new(value))
    }

    pub(crate) fn lock(&self) -> RefMut<'_, T> {
        self.0.borrow_mut()
    }
}

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

/// Small messages, a few of them.
pub(crate) fn channel_options() -> Result<ChannelOptions, Failure> {
    let config = ChannelConfig::new(SlotSize::B64, 8, Variant::EpochCredit);
    let config = config.map_err(|error| Failure::end(error.to_string()))?;
    Ok(ChannelOptions::default().with_config(config))
}

/// Maps the memory of the job.
pub(crate) fn map(capability: &Capability) -> Result<Mapping, Failure> {
    capability.map(Rights::READ_WRITE).map_err(ended)
}

/// Makes a region, and returns the capability to all of it.
pub(crate) fn create_region(domain: &Domain, options: &RegionOptions) -> Result<Capability, Error> {
    domain.create_region(options)
}
