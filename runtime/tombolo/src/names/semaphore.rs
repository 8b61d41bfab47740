//! Semaphores.

use std::time::Duration;

use tombolo_naming::{Answer, NameFault, Operation, Scope};

use super::question::{Asks, Question, done};
use super::{Names, unexpected};
use crate::error::Error;

/// A semaphore by its name. Permits are given in the order in which they are asked for, and those of a
/// program that dies come back.
#[derive(Clone, Debug)]
pub struct Semaphore {
    names: Names,
    scope: Scope,
    name: String,
}

impl Names {
    /// The semaphore with this name. The first program that asks for it makes it, with `permits` permits; it
    /// stays until it is [removed](Semaphore::remove).
    ///
    /// # Errors
    /// [`Error::Monitor`]: a bad name, a limit.
    pub fn semaphore(&self, name: &str, permits: u32) -> Result<Semaphore, Error> {
        self.making(name, permits)?.wait()
    }

    /// [`semaphore`](Self::semaphore) as a future. One that is dropped may have made it.
    ///
    /// # Errors
    /// As [`semaphore`](Self::semaphore).
    pub async fn semaphore_async(&self, name: &str, permits: u32) -> Result<Semaphore, Error> {
        self.making(name, permits)?.answer().await
    }

    fn making(&self, name: &str, permits: u32) -> Result<Question<impl Asks<Semaphore> + use<>>, Error> {
        let (scope, name) = self.name(name)?;
        let semaphore = Semaphore { names: self.clone(), scope: scope.clone(), name: name.clone() };
        let make = |origin, answer| done(origin, answer).map(|()| semaphore);
        Ok(self.question(&scope, Operation::Semaphore { name, permits }, make))
    }
}

impl Semaphore {
    /// Its name, in its scope.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes permits, waiting up to `timeout` for those who have asked before and for enough of them.
    ///
    /// # Errors
    /// [`NameFault::NoPermits`] in [`Error::Monitor`] when there were not enough in time,
    /// [`NameFault::NoSuchSemaphore`] when it is removed.
    pub fn acquire(&self, permits: u32, timeout: Duration) -> Result<Permit, Error> {
        self.acquisition(permits, timeout).wait()
    }

    /// [`acquire`](Self::acquire) as a future. One that is dropped does not queue any more, and has no
    /// permits: if it was given them meanwhile, they come back.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_async(&self, permits: u32, timeout: Duration) -> Result<Permit, Error> {
        self.acquisition(permits, timeout).answer().await
    }

    fn acquisition(&self, permits: u32, timeout: Duration) -> Question<impl Asks<Permit> + use<>> {
        let semaphore = self.clone();
        let acquire = Operation::Acquire { name: self.name.clone(), permits, timeout };
        let question = self.names.question(&self.scope, acquire, |_, answer| match answer {
            Answer::Acquired { permit } => Ok(Permit { semaphore, permit, held: true }),
            other => Err(unexpected(&other)),
        });
        question.that_waits(timeout)
    }

    /// Takes permits if there are enough and no other request waits.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), but that there are not enough is `None`.
    pub fn try_acquire(&self, permits: u32) -> Result<Option<Permit>, Error> {
        match self.acquire(permits, Duration::ZERO) {
            Ok(permit) => Ok(Some(permit)),
            Err(error) if matches!(error.name_fault(), Some(NameFault::NoPermits { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Adds permits to the semaphore.
    ///
    /// # Errors
    /// [`NameFault::NoSuchSemaphore`], [`NameFault::Limit`] in [`Error::Monitor`].
    pub fn post(&self, permits: u32) -> Result<(), Error> {
        self.posting(permits).wait()
    }

    /// [`post`](Self::post) as a future. One that is dropped may have added them.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    pub async fn post_async(&self, permits: u32) -> Result<(), Error> {
        self.posting(permits).answer().await
    }

    fn posting(&self, permits: u32) -> Question<impl Asks<()> + use<>> {
        self.names.question(&self.scope, Operation::Post { name: self.name.clone(), permits }, done)
    }

    /// Removes it. Requests that wait end with an error, and permits that are held have no effect any more.
    ///
    /// # Errors
    /// [`NameFault::NoSuchSemaphore`] in [`Error::Monitor`].
    pub fn remove(self) -> Result<(), Error> {
        self.names.question(&self.scope, Operation::RemoveSemaphore { name: self.name }, done).wait()
    }
}

/// Permits that this program holds, until this is dropped or the program ends.
#[derive(Debug)]
pub struct Permit {
    semaphore: Semaphore,
    permit: u64,
    held: bool,
}

impl Permit {
    /// Takes them out of the semaphore for good: they come back by [`Semaphore::post`] if at all, also when
    /// this program dies. What a semaphore that counts things needs, in place of one that guards them.
    ///
    /// # Errors
    /// [`NameFault::NotHeld`] in [`Error::Monitor`] when the semaphore's node was started again.
    pub fn forget(mut self) -> Result<(), Error> {
        self.forgetting().wait()
    }

    /// [`forget`](Self::forget) as a future. One that is dropped after it was polled has taken them out, too.
    ///
    /// # Errors
    /// As [`forget`](Self::forget).
    pub async fn forget_async(mut self) -> Result<(), Error> {
        self.forgetting().answer().await
    }

    fn forgetting(&mut self) -> Question<impl Asks<()> + use<>> {
        self.held = false;
        let release = Operation::Release { permit: self.permit, forget: true };
        self.semaphore.names.question(&self.semaphore.scope, release, done)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.held {
            let release = Operation::Release { permit: self.permit, forget: false };
            self.semaphore.names.tell(&self.semaphore.scope, release);
        }
    }
}
