//! Locks of the machine, as in `tombolo`. A board has no names of its own, so a lock `@NODE/NAME` belongs to
//! a node with an operating system.

use alloc::borrow::ToOwned;
use alloc::rc::Rc;
use alloc::string::String;
use core::time::Duration;

use tombolo_control::{Reply, Request};
pub use tombolo_naming::NameFault;
use tombolo_naming::{Answer, Operation, Scope, is_name, split_scope};

use crate::domain::Domain;
use crate::error::{Error, Fault};
use crate::link::{Link, REPLY_TIMEOUT, unexpected};

/// Access to the part of the machine's names that programs on boards can use.
#[derive(Clone, Debug)]
pub struct Names {
    link: Rc<Link>,
}

impl Domain {
    /// Returns access to the names of the machine.
    #[must_use]
    pub fn names(&self) -> Names {
        Names { link: Rc::clone(&self.link) }
    }
}

/// Named lock. It is granted in the order of the requests, and released when its holder dies.
#[derive(Clone, Debug)]
pub struct Lock {
    link: Rc<Link>,
    scope: Scope,
    name: String,
}

impl Names {
    /// Returns the lock with this name. It does not have to be created first.
    ///
    /// # Errors
    /// [`NameFault::BadName`] in [`Error::Monitor`].
    pub fn lock(&self, name: &str) -> Result<Lock, Error> {
        let (scope, name) = split_scope(name);
        if !is_name(name) {
            let fault = NameFault::BadName { name: name.to_owned() };
            return Err(Fault::Name { fault }.into());
        }
        Ok(Lock { link: Rc::clone(&self.link), scope, name: name.to_owned() })
    }
}

impl Lock {
    fn names_request(&self, operation: Operation) -> Request {
        Request::Names { scope: self.scope.clone(), operation }
    }

    /// Acquires the lock, waiting up to `timeout` for earlier requests.
    ///
    /// # Errors
    /// [`NameFault::Locked`] in [`Error::Monitor`] with the holder, if it was not released in time.
    pub fn acquire(&self, timeout: Duration) -> Result<LockGuard, Error> {
        let request = self.names_request(Operation::Lock { name: self.name.clone(), timeout });
        match self.link.request(request, timeout.saturating_add(REPLY_TIMEOUT))? {
            Reply::Names { answer: Answer::Locked { token }, .. } => {
                Ok(LockGuard { lock: self.clone(), token, held: true })
            }
            other => Err(unexpected(&other)),
        }
    }
}

/// Acquired lock, held until this is dropped or the program ends.
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
    /// [`NameFault::NotHeld`] in [`Error::Monitor`] if the lock was lost meanwhile.
    pub fn release(mut self) -> Result<(), Error> {
        self.held = false;
        match self.lock.link.request(self.unlock(), REPLY_TIMEOUT)? {
            Reply::Names { answer: Answer::Done, .. } => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    fn unlock(&self) -> Request {
        self.lock.names_request(Operation::Unlock { name: self.lock.name.clone(), token: self.token })
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if self.held {
            // If this fails, the lock is released with the program.
            let _ = self.lock.link.notify(self.unlock());
        }
    }
}
