//! Semaphores with names.

use std::time::Duration;

use tombolo_naming::{Answer, NameFault, Operation, Scope};

use super::request::{ConvertAnswer, NamesRequest, expect_done};
use super::{Names, unexpected};
use crate::error::Error;

/// Named semaphore. Permits are granted in the order of the requests, and those of a program that dies are
/// returned.
#[derive(Clone, Debug)]
pub struct Semaphore {
    names: Names,
    scope: Scope,
    name: String,
}

impl Names {
    /// Returns the semaphore with this name. The first program that asks for it creates it with `permits`
    /// permits; it exists until it is [removed](Semaphore::remove).
    ///
    /// # Errors
    /// [`Error::Monitor`] if the name is invalid or a limit is exceeded.
    pub fn semaphore(&self, name: &str, permits: u32) -> Result<Semaphore, Error> {
        self.create_request(name, permits)?.wait()
    }

    /// Async [`semaphore`](Self::semaphore). If the future is dropped, the semaphore may have been created.
    ///
    /// # Errors
    /// Same as [`semaphore`](Self::semaphore).
    pub async fn semaphore_async(&self, name: &str, permits: u32) -> Result<Semaphore, Error> {
        self.create_request(name, permits)?.answer().await
    }

    fn create_request(
        &self,
        name: &str,
        permits: u32,
    ) -> Result<NamesRequest<impl ConvertAnswer<Semaphore> + use<>>, Error> {
        let (scope, name) = self.name(name)?;
        let semaphore = Semaphore { names: self.clone(), scope: scope.clone(), name: name.clone() };
        let convert = |origin, answer| expect_done(origin, answer).map(|()| semaphore);
        Ok(self.new_request(&scope, Operation::Semaphore { name, permits }, convert))
    }
}

impl Semaphore {
    /// Name of the semaphore in its scope.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Acquires permits, waiting up to `timeout` for earlier requests and for enough permits.
    ///
    /// # Errors
    /// [`NameFault::NoPermits`] in [`Error::Monitor`] if there were not enough in time,
    /// [`NameFault::NoSuchSemaphore`] if the semaphore is removed.
    pub fn acquire(&self, permits: u32, timeout: Duration) -> Result<Permit, Error> {
        self.acquire_request(permits, timeout).wait()
    }

    /// Async [`acquire`](Self::acquire). Dropping the future cancels the request; permits granted meanwhile
    /// are returned.
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire).
    pub async fn acquire_async(&self, permits: u32, timeout: Duration) -> Result<Permit, Error> {
        self.acquire_request(permits, timeout).answer().await
    }

    fn acquire_request(
        &self,
        permits: u32,
        timeout: Duration,
    ) -> NamesRequest<impl ConvertAnswer<Permit> + use<>> {
        let semaphore = self.clone();
        let acquire = Operation::Acquire { name: self.name.clone(), permits, timeout };
        let request = self.names.new_request(&self.scope, acquire, |_, answer| match answer {
            Answer::Acquired { permit } => Ok(Permit { semaphore, permit, held: true }),
            other => Err(unexpected(&other)),
        });
        request.with_delay(timeout)
    }

    /// Acquires permits if there are enough and no other request is waiting.
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire), except that too few permits are `None`.
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
        self.post_request(permits).wait()
    }

    /// Async [`post`](Self::post). If the future is dropped, the permits may have been added.
    ///
    /// # Errors
    /// Same as [`post`](Self::post).
    pub async fn post_async(&self, permits: u32) -> Result<(), Error> {
        self.post_request(permits).answer().await
    }

    fn post_request(&self, permits: u32) -> NamesRequest<impl ConvertAnswer<()> + use<>> {
        self.names.new_request(&self.scope, Operation::Post { name: self.name.clone(), permits }, expect_done)
    }

    /// Removes the semaphore. Waiting requests fail, and permits that are held lose their effect.
    ///
    /// # Errors
    /// [`NameFault::NoSuchSemaphore`] in [`Error::Monitor`].
    pub fn remove(self) -> Result<(), Error> {
        self.names
            .new_request(&self.scope, Operation::RemoveSemaphore { name: self.name }, expect_done)
            .wait()
    }
}

/// Permits held by this program, until this is dropped or the program ends.
#[derive(Debug)]
pub struct Permit {
    semaphore: Semaphore,
    permit: u64,
    held: bool,
}

impl Permit {
    /// Removes the permits from the semaphore permanently: only [`Semaphore::post`] adds them again, and the
    /// death of this program does not return them. For semaphores that count items, rather than protect a
    /// resource.
    ///
    /// # Errors
    /// [`NameFault::NotHeld`] in [`Error::Monitor`] if the semaphore's node was restarted.
    pub fn forget(mut self) -> Result<(), Error> {
        self.forget_request().wait()
    }

    /// Async [`forget`](Self::forget). Once it was polled, the permits are removed even if the future is
    /// dropped.
    ///
    /// # Errors
    /// Same as [`forget`](Self::forget).
    pub async fn forget_async(mut self) -> Result<(), Error> {
        self.forget_request().answer().await
    }

    fn forget_request(&mut self) -> NamesRequest<impl ConvertAnswer<()> + use<>> {
        self.held = false;
        let release = Operation::Release { permit: self.permit, forget: true };
        self.semaphore.names.new_request(&self.semaphore.scope, release, expect_done)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.held {
            let release = Operation::Release { permit: self.permit, forget: false };
            self.semaphore.names.notify(&self.semaphore.scope, release);
        }
    }
}
