//! Locks.

use std::time::Duration;

use tombolo_naming::{Answer, NameFault, Operation, Scope};

use super::question::{Asks, Question, done};
use super::{Names, unexpected};
use crate::error::Error;

/// A lock by its name. It is given in the order of requests, and taken from a program that dies.
#[derive(Clone, Debug)]
pub struct Lock {
    names: Names,
    scope: Scope,
    name: String,
}

impl Names {
    /// A lock. It need not be made.
    ///
    /// # Errors
    /// [`NameFault::BadName`] in [`Error::Monitor`].
    pub fn lock(&self, name: &str) -> Result<Lock, Error> {
        let (scope, name) = self.name(name)?;
        Ok(Lock { names: self.clone(), scope, name })
    }
}

impl Lock {
    /// Its name, in its scope.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes it, waiting up to `timeout` for those who have asked before.
    ///
    /// # Errors
    /// [`NameFault::Locked`] in [`Error::Monitor`] says who held it all the time.
    pub fn acquire(&self, timeout: Duration) -> Result<LockGuard, Error> {
        self.acquisition(timeout).wait()
    }

    /// [`acquire`](Self::acquire) as a future. One that is dropped does not queue any more, and has no lock:
    /// if it was given it meanwhile, it goes to the next.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_async(&self, timeout: Duration) -> Result<LockGuard, Error> {
        self.acquisition(timeout).answer().await
    }

    fn acquisition(&self, timeout: Duration) -> Question<impl Asks<LockGuard> + use<>> {
        let lock = self.clone();
        let operation = Operation::Lock { name: self.name.clone(), timeout };
        let question = self.names.question(&self.scope, operation, |_, answer| match answer {
            Answer::Locked { token } => Ok(LockGuard { lock, token, held: true }),
            other => Err(unexpected(&other)),
        });
        question.that_waits(timeout)
    }

    /// Takes it if it is free.
    ///
    /// # Errors
    /// [`Error::Monitor`], but not for being held: that is `None`.
    pub fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        match self.acquire(Duration::ZERO) {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if matches!(error.name_fault(), Some(NameFault::Locked { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A lock that this program holds, until this is dropped or the program ends.
///
/// **What it does not promise:** that no other program acts at the same time on what it guards. A program
/// that is stopped for a while, or cut off with its node, may be held dead and the lock be given on before it
/// acts. So what is guarded should be shown the [fencing token](Self::fencing_token), and refuse one that is
/// smaller than the largest it has seen; records do that by themselves with
/// [`Condition::Fenced`](super::Condition::Fenced).
#[derive(Debug)]
pub struct LockGuard {
    lock: Lock,
    token: u64,
    held: bool,
}

impl LockGuard {
    /// A number that is larger than that of everybody who held the lock before, for as long as the machine is
    /// up.
    #[must_use]
    pub fn fencing_token(&self) -> u64 {
        self.token
    }

    /// Gives it back, and says whether that worked; dropping does the same and says nothing.
    ///
    /// # Errors
    /// [`NameFault::NotHeld`] in [`Error::Monitor`] when it was lost meanwhile: its node was started again.
    pub fn release(mut self) -> Result<(), Error> {
        self.held = false;
        self.lock.names.question(&self.lock.scope, self.unlock(), done).wait()
    }

    /// [`release`](Self::release) as a future. One that is dropped has given it back, too.
    ///
    /// # Errors
    /// As [`release`](Self::release).
    pub async fn release_async(mut self) -> Result<(), Error> {
        self.held = false;
        self.lock.names.question(&self.lock.scope, self.unlock(), done).answer().await
    }

    fn unlock(&self) -> Operation {
        Operation::Unlock { name: self.lock.name.clone(), token: self.token }
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if self.held {
            self.lock.names.tell(&self.lock.scope, self.unlock());
        }
    }
}
