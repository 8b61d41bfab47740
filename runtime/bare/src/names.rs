//! Locks of the machine, as in `tombolo`. A board has no names of its own, so that a lock of `@NODE/NAME` is
//! that of a node with an operating system.

use alloc::borrow::ToOwned;
use alloc::rc::Rc;
use alloc::string::String;
use core::time::Duration;

use tombolo_control::{Reply, Request};
pub use tombolo_naming::NameFault;
use tombolo_naming::{Answer, Operation, Scope, is_name, split_scope};

use crate::domain::Domain;
use crate::error::{Error, Fault};
use crate::link::{ANSWER_TIMEOUT, Link, unexpected};

/// What of the machine's names programs on boards can use.
#[derive(Clone, Debug)]
pub struct Names {
    link: Rc<Link>,
}

impl Domain {
    /// The names of the machine.
    #[must_use]
    pub fn names(&self) -> Names {
        Names { link: Rc::clone(&self.link) }
    }
}

/// A lock by its name. It is given in the order of requests, and taken from a program that dies.
#[derive(Clone, Debug)]
pub struct Lock {
    link: Rc<Link>,
    scope: Scope,
    name: String,
}

impl Names {
    /// A lock. It need not be made.
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
    fn asked(&self, operation: Operation) -> Request {
        Request::Names { scope: self.scope.clone(), operation }
    }

    /// Takes it, waiting up to `timeout` for those who have asked before.
    ///
    /// # Errors
    /// [`NameFault::Locked`] in [`Error::Monitor`] says who held it all the time.
    pub fn acquire(&self, timeout: Duration) -> Result<LockGuard, Error> {
        let request = self.asked(Operation::Lock { name: self.name.clone(), timeout });
        match self.link.ask(request, timeout.saturating_add(ANSWER_TIMEOUT))? {
            Reply::Names { answer: Answer::Locked { token }, .. } => {
                Ok(LockGuard { lock: self.clone(), token, held: true })
            }
            other => Err(unexpected(&other)),
        }
    }
}

/// A lock that this program holds, until this is dropped or the program ends.
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
    /// [`NameFault::NotHeld`] in [`Error::Monitor`] when it was lost meanwhile.
    pub fn release(mut self) -> Result<(), Error> {
        self.held = false;
        match self.lock.link.ask(self.unlock(), ANSWER_TIMEOUT)? {
            Reply::Names { answer: Answer::Done, .. } => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    fn unlock(&self) -> Request {
        self.lock.asked(Operation::Unlock { name: self.lock.name.clone(), token: self.token })
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if self.held {
            // If that cannot be said, the lock goes with the program.
            let _ = self.lock.link.tell(self.unlock());
        }
    }
}
