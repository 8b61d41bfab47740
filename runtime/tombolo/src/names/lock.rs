//! Locks with names.

use std::time::Duration;

use tombolo_naming::{Answer, NameFault, Operation, Scope};

use super::request::{ConvertAnswer, NamesRequest, expect_done};
use super::{Names, unexpected};
use crate::error::Error;

/// Named lock. It is granted in the order of the requests, and released when its holder dies.
#[derive(Clone, Debug)]
pub struct Lock {
    names: Names,
    scope: Scope,
    name: String,
}

impl Names {
    /// Returns the lock with this name. It does not have to be created first.
    ///
    /// # Errors
    /// [`NameFault::BadName`] in [`Error::Monitor`].
    pub fn lock(&self, name: &str) -> Result<Lock, Error> {
        let (scope, name) = self.name(name)?;
        Ok(Lock { names: self.clone(), scope, name })
    }
}

impl Lock {
    /// Name of the lock in its scope.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Acquires the lock, waiting up to `timeout` for earlier requests.
    ///
    /// # Errors
    /// [`NameFault::Locked`] in [`Error::Monitor`] with the holder, if it was not released in time.
    pub fn acquire(&self, timeout: Duration) -> Result<LockGuard, Error> {
        self.acquire_request(timeout).wait()
    }

    /// Async [`acquire`](Self::acquire). Dropping the future cancels the request; a lock that was granted
    /// meanwhile goes to the next request.
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire).
    pub async fn acquire_async(&self, timeout: Duration) -> Result<LockGuard, Error> {
        self.acquire_request(timeout).answer().await
    }

    fn acquire_request(&self, timeout: Duration) -> NamesRequest<impl ConvertAnswer<LockGuard> + use<>> {
        let lock = self.clone();
        let operation = Operation::Lock { name: self.name.clone(), timeout };
        let request = self.names.new_request(&self.scope, operation, |_, answer| match answer {
            Answer::Locked { token } => Ok(LockGuard { lock, token, held: true }),
            other => Err(unexpected(&other)),
        });
        request.with_delay(timeout)
    }

    /// Acquires the lock if it is free.
    ///
    /// # Errors
    /// [`Error::Monitor`], except that a held lock is `None`.
    pub fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        match self.acquire(Duration::ZERO) {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if matches!(error.name_fault(), Some(NameFault::Locked { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Acquired lock, held until this is dropped or the program ends.
///
/// **No mutual exclusion guarantee:** another program may act on the protected resource at the same time. A
/// program that is stopped for a while, or whose node is disconnected, can be considered dead, and the lock
/// granted to another one before it acts. Pass the [fencing token](Self::fencing_token) to the protected
/// resource, and have it refuse any token smaller than the largest that it has seen. Records do this
/// themselves with [`Condition::Fenced`](super::Condition::Fenced).
#[derive(Debug)]
pub struct LockGuard {
    lock: Lock,
    token: u64,
    held: bool,
}

impl LockGuard {
    /// Fencing token: larger than that of every earlier holder of the lock, while the machine is up.
    #[must_use]
    pub fn fencing_token(&self) -> u64 {
        self.token
    }

    /// Releases the lock and reports errors; dropping the guard ignores them.
    ///
    /// # Errors
    /// [`NameFault::NotHeld`] in [`Error::Monitor`] if the lock was lost because its node was restarted.
    pub fn release(mut self) -> Result<(), Error> {
        self.held = false;
        self.lock.names.new_request(&self.lock.scope, self.unlock(), expect_done).wait()
    }

    /// Async [`release`](Self::release). The lock is released even if the future is dropped.
    ///
    /// # Errors
    /// Same as [`release`](Self::release).
    pub async fn release_async(mut self) -> Result<(), Error> {
        self.held = false;
        self.lock.names.new_request(&self.lock.scope, self.unlock(), expect_done).answer().await
    }

    fn unlock(&self) -> Operation {
        Operation::Unlock { name: self.lock.name.clone(), token: self.token }
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if self.held {
            self.lock.names.notify(&self.lock.scope, self.unlock());
        }
    }
}
