//! Barriers of several domains.

use std::time::Duration;

use tombolo_naming::{Answer, Operation, Scope};

use super::request::{ConvertAnswer, NamesRequest};
use super::{Names, unexpected};
use crate::error::Error;

/// Place at a barrier, held until this is dropped or the program ends.
///
/// The parties can meet any number of times. A party that dies or leaves breaks the barrier: the others get
/// [`BarrierBroken`](super::NameFault::BarrierBroken) with its domain, and do not wait for it. A party beyond
/// the number gets [`BarrierFull`](super::NameFault::BarrierFull).
#[derive(Debug)]
pub struct Barrier {
    names: Names,
    scope: Scope,
    place: u64,
}

/// Result of a meeting of all parties.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meeting {
    /// Number of meetings so far, including this one.
    pub generation: u64,
    /// True for exactly one of the parties.
    pub leader: bool,
}

impl Names {
    /// Joins a barrier as one of `parties` parties.
    ///
    /// # Errors
    /// [`Error::Monitor`] if the barrier is full, or was created for another number of parties.
    pub fn barrier(&self, name: &str, parties: u32) -> Result<Barrier, Error> {
        self.join_request(name, parties)?.wait()
    }

    /// Async [`barrier`](Self::barrier). Dropping the future takes no place.
    ///
    /// # Errors
    /// Same as [`barrier`](Self::barrier).
    pub async fn barrier_async(&self, name: &str, parties: u32) -> Result<Barrier, Error> {
        self.join_request(name, parties)?.answer().await
    }

    fn join_request(
        &self,
        name: &str,
        parties: u32,
    ) -> Result<NamesRequest<impl ConvertAnswer<Barrier> + use<>>, Error> {
        let (scope, name) = self.name(name)?;
        let (names, of) = (self.clone(), scope.clone());
        Ok(self.new_request(&scope, Operation::Join { name, parties }, |_, answer| match answer {
            Answer::Joined { place } => Ok(Barrier { names, scope: of, place }),
            other => Err(unexpected(&other)),
        }))
    }
}

impl Barrier {
    /// Waits up to `timeout` until all parties wait.
    ///
    /// # Errors
    /// [`BarrierTimeout`](super::NameFault::BarrierTimeout) in [`Error::Monitor`], after which the wait can
    /// be repeated; [`BarrierBroken`](super::NameFault::BarrierBroken), which is permanent.
    pub fn wait(&self, timeout: Duration) -> Result<Meeting, Error> {
        self.meet_request(timeout).wait()
    }

    /// Async [`wait`](Self::wait). Dropping the future stops waiting, and the others wait for this party. If
    /// all parties had arrived before, the meeting took place; [`Meeting::generation`] of the next one shows
    /// that.
    ///
    /// # Errors
    /// Same as [`wait`](Self::wait).
    pub async fn wait_async(&self, timeout: Duration) -> Result<Meeting, Error> {
        self.meet_request(timeout).answer().await
    }

    fn meet_request(&self, timeout: Duration) -> NamesRequest<impl ConvertAnswer<Meeting> + use<>> {
        let meet = Operation::Meet { place: self.place, timeout };
        let request = self.names.new_request(&self.scope, meet, |_, answer| match answer {
            Answer::Met { generation, leader } => Ok(Meeting { generation, leader }),
            other => Err(unexpected(&other)),
        });
        request.with_delay(timeout)
    }
}

impl Drop for Barrier {
    fn drop(&mut self) {
        self.names.notify(&self.scope, Operation::Leave { place: self.place });
    }
}
