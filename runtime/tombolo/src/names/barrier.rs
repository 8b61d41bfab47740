//! Barriers.

use std::time::Duration;

use tombolo_naming::{Answer, Operation, Scope};

use super::{Names, unexpected};
use crate::error::Error;

/// A place at a barrier, until this is dropped or the program ends.
///
/// All parties meet again and again. One that dies or leaves breaks the barrier: the others are told
/// [`BarrierBroken`](super::NameFault::BarrierBroken), and who it was, and do not wait for it. One more than there
/// should be is told [`BarrierFull`](super::NameFault::BarrierFull).
#[derive(Debug)]
pub struct Barrier {
    names: Names,
    scope: Scope,
    place: u64,
}

/// All parties were there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meeting {
    /// How often they have met, this time included.
    pub generation: u64,
    /// True for one of them.
    pub leader: bool,
}

impl Names {
    /// Becomes one of `parties` at a barrier.
    ///
    /// # Errors
    /// [`Error::Monitor`]: it has all its parties, or was set up for another number of them.
    pub fn barrier(&self, name: &str, parties: u32) -> Result<Barrier, Error> {
        let (scope, name) = self.name(name)?;
        match self.ask_now(&scope, Operation::Join { name, parties })? {
            Answer::Joined { place } => Ok(Barrier { names: self.clone(), scope, place }),
            other => Err(unexpected(&other)),
        }
    }
}

impl Barrier {
    /// Waits up to `timeout` until all parties wait.
    ///
    /// # Errors
    /// [`BarrierTimeout`](super::NameFault::BarrierTimeout) in [`Error::Monitor`], after which it can be tried again;
    /// [`BarrierBroken`](super::NameFault::BarrierBroken) for good.
    pub fn wait(&self, timeout: Duration) -> Result<Meeting, Error> {
        match self.names.ask(&self.scope, Operation::Meet { place: self.place, timeout }, timeout)? {
            Answer::Met { generation, leader } => Ok(Meeting { generation, leader }),
            other => Err(unexpected(&other)),
        }
    }
}

impl Drop for Barrier {
    fn drop(&mut self) {
        self.names.tell(&self.scope, Operation::Leave { place: self.place });
    }
}
