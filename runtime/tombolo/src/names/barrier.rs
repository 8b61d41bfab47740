//! Barriers.

use std::time::Duration;

use tombolo_naming::{Answer, Operation, Scope};

use super::question::{Asks, Question};
use super::{Names, unexpected};
use crate::error::Error;

/// A place at a barrier, until this is dropped or the program ends.
///
/// All parties meet again and again. One that dies or leaves breaks the barrier: the others are told
/// [`BarrierBroken`](super::NameFault::BarrierBroken), and who it was, and do not wait for it. One more than
/// there should be is told [`BarrierFull`](super::NameFault::BarrierFull).
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
        self.joining(name, parties)?.wait()
    }

    /// [`barrier`](Self::barrier) as a future. One that is dropped has no place.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier).
    pub async fn barrier_async(&self, name: &str, parties: u32) -> Result<Barrier, Error> {
        self.joining(name, parties)?.answer().await
    }

    fn joining(&self, name: &str, parties: u32) -> Result<Question<impl Asks<Barrier> + use<>>, Error> {
        let (scope, name) = self.name(name)?;
        let (names, of) = (self.clone(), scope.clone());
        Ok(self.question(&scope, Operation::Join { name, parties }, |_, answer| match answer {
            Answer::Joined { place } => Ok(Barrier { names, scope: of, place }),
            other => Err(unexpected(&other)),
        }))
    }
}

impl Barrier {
    /// Waits up to `timeout` until all parties wait.
    ///
    /// # Errors
    /// [`BarrierTimeout`](super::NameFault::BarrierTimeout) in [`Error::Monitor`], after which it can be
    /// tried again; [`BarrierBroken`](super::NameFault::BarrierBroken) for good.
    pub fn wait(&self, timeout: Duration) -> Result<Meeting, Error> {
        self.meeting(timeout).wait()
    }

    /// [`wait`](Self::wait) as a future. One that is dropped waits no more, and the others wait for it. If
    /// all had come by then they have met without its taking note: [`Meeting::generation`] of the next
    /// meeting tells.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub async fn wait_async(&self, timeout: Duration) -> Result<Meeting, Error> {
        self.meeting(timeout).answer().await
    }

    fn meeting(&self, timeout: Duration) -> Question<impl Asks<Meeting> + use<>> {
        let meet = Operation::Meet { place: self.place, timeout };
        let question = self.names.question(&self.scope, meet, |_, answer| match answer {
            Answer::Met { generation, leader } => Ok(Meeting { generation, leader }),
            other => Err(unexpected(&other)),
        });
        question.that_waits(timeout)
    }
}

impl Drop for Barrier {
    fn drop(&mut self) {
        self.names.tell(&self.scope, Operation::Leave { place: self.place });
    }
}
