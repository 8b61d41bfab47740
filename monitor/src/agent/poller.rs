//! Ready descriptors of an agent. The kernel keeps the list, so that the cost of a wake-up depends on the
//! events, not on the number of domains of the node.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::Duration;

use tombolo_platform::epoll::{Epoll, Events, Trigger};
use tombolo_platform::event::Interest;
use tombolo_platform::{Deadline, OsError};

use super::Token;

/// Set of the agent's descriptors.
#[derive(Clone, Debug)]
pub(super) struct Poller(Rc<Shared>);

#[derive(Debug)]
struct Shared {
    set: Epoll,
    /// Object of each key in the set. Keys are not reused.
    tokens: RefCell<HashMap<u64, Token>>,
    last_key: Cell<u64>,
}

impl Poller {
    /// Creates an empty set.
    ///
    /// # Errors
    /// `EMFILE`: too many open files.
    pub(super) fn new() -> Result<Poller, OsError> {
        let set = Epoll::new()?;
        Ok(Poller(Rc::new(Shared { set, tokens: RefCell::default(), last_key: Cell::new(0) })))
    }

    /// Adds a descriptor, whose events are identified by `token`, and waits for `wanted` on it.
    ///
    /// # Errors
    /// As [`Registered::set_interest`].
    pub(super) fn add<T: AsFd>(
        &self,
        descriptor: T,
        token: Token,
        interest: Option<Interest>,
    ) -> Result<Registered<T>, OsError> {
        let key = self.0.last_key.get() + 1;
        self.0.last_key.set(key);
        self.0.tokens.borrow_mut().insert(key, token);
        let mut registered =
            Registered { descriptor, poller: Poller(Rc::clone(&self.0)), key, interest: None };
        registered.set_interest(interest)?;
        Ok(registered)
    }

    /// Returns a descriptor that is readable when there are events.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.set.as_fd()
    }

    /// Returns some of the pending events; the rest stays for the next call.
    ///
    /// # Errors
    /// An error of the kernel.
    pub(super) fn poll_events(&self, events: &mut Events) -> Result<(), OsError> {
        self.0.set.wait(events, Some(Deadline::after(Duration::ZERO)))
    }

    /// Returns the token of an event's key; `None` if its descriptor is no longer registered.
    pub(super) fn token(&self, key: u64) -> Option<Token> {
        self.0.tokens.borrow().get(&key).copied()
    }
}

/// A descriptor that is registered until this is dropped. The kernel removes a closed descriptor from the set
/// only when its last copy is closed: the other descriptor of a side stream, or that of a process which is
/// being started, would keep reporting events. So it is removed before it is closed.
#[derive(Debug)]
pub(super) struct Registered<T: AsFd> {
    descriptor: T,
    poller: Poller,
    key: u64,
    interest: Option<Interest>,
}

impl<T: AsFd> Registered<T> {
    /// Sets the events to wait for; `None` disables the descriptor, even for hang-ups.
    ///
    /// # Errors
    /// `ENOSPC` if this user waits for as much as `/proc/sys/fs/epoll/max_user_watches` allows; `ENOMEM`.
    pub(super) fn set_interest(&mut self, wanted: Option<Interest>) -> Result<(), OsError> {
        let set = &self.poller.0.set;
        match (self.interest, wanted) {
            (before, wanted) if before == wanted => return Ok(()),
            (None, Some(wanted)) => set.add(&self.descriptor, wanted, Trigger::Level, self.key)?,
            (Some(_), Some(wanted)) => set.change(&self.descriptor, wanted, Trigger::Level, self.key)?,
            (_, None) => set.remove(&self.descriptor),
        }
        self.interest = wanted;
        Ok(())
    }

    /// Returns the descriptor, or the object that contains it.
    pub(super) fn inner(&self) -> &T {
        &self.descriptor
    }

    /// Returns the same mutably as [`inner`](Self::inner).
    pub(super) fn inner_mut(&mut self) -> &mut T {
        &mut self.descriptor
    }
}

impl<T: AsFd> AsFd for Registered<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl<T: AsFd> Drop for Registered<T> {
    fn drop(&mut self) {
        if self.interest.is_some() {
            self.poller.0.set.remove(&self.descriptor);
        }
        self.poller.0.tokens.borrow_mut().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use tombolo_platform::event::Ready;

    use super::*;

    fn pair() -> (OwnedFd, OwnedFd) {
        tombolo_platform::socket::pair(tombolo_platform::socket::SocketKind::Stream).unwrap()
    }

    fn ready_tokens(poller: &Poller) -> Vec<(Token, Ready)> {
        let mut events = Events::new();
        poller.poll_events(&mut events).unwrap();
        events.iter().filter_map(|(key, ready)| Some((poller.token(key)?, ready))).collect()
    }

    #[test]
    fn events_are_reported_while_registered() {
        let poller = Poller::new().unwrap();
        let (near, far) = pair();
        let mut registered = poller.add(near, Token::Client(7), None).unwrap();
        drop(far);
        assert_eq!(ready_tokens(&poller), [], "not even a hang-up");
        registered.set_interest(Some(Interest::Read)).unwrap();
        registered.set_interest(Some(Interest::Read)).unwrap();
        assert!(
            matches!(ready_tokens(&poller)[..], [(Token::Client(7), ready)] if ready.readable && ready.hung_up)
        );
        registered.set_interest(Some(Interest::ReadWrite)).unwrap();
        assert!(matches!(ready_tokens(&poller)[..], [(Token::Client(7), ready)] if ready.writable));
        registered.set_interest(None).unwrap();
        assert_eq!(ready_tokens(&poller), []);
    }

    #[test]
    fn closed_descriptor_with_an_open_copy_reports_nothing() {
        let poller = Poller::new().unwrap();
        let (near, far) = pair();
        let copy = near.try_clone().unwrap();
        let registered = poller.add(near, Token::Client(1), Some(Interest::Read)).unwrap();
        rustix::io::write(&far, b"x").unwrap();
        assert_eq!(ready_tokens(&poller).len(), 1);
        drop(registered);
        let mut events = Events::new();
        poller.poll_events(&mut events).unwrap();
        assert_eq!(events.iter().count(), 0);
        assert!(poller.0.tokens.borrow().is_empty());
        // The copy, and a descriptor with the number of the closed one, are distinct from it.
        let _watched = poller.add(copy, Token::Client(2), Some(Interest::Read)).unwrap();
        assert!(matches!(ready_tokens(&poller)[..], [(Token::Client(2), _)]));
    }

    #[test]
    fn excess_events_are_returned_by_the_next_call() {
        let poller = Poller::new().unwrap();
        let pairs: Vec<_> = (0..100).map(|_| pair()).collect();
        let mut registered = Vec::new();
        for (number, (near, far)) in (0..).zip(pairs) {
            drop(far);
            registered.push(poller.add(near, Token::Client(number), Some(Interest::Read)).unwrap());
        }
        let mut seen = std::collections::BTreeSet::new();
        while !registered.is_empty() {
            for (token, _) in ready_tokens(&poller) {
                let Token::Client(number) = token else { panic!("{token:?}") };
                seen.insert(number);
                registered.retain(|registered| poller.token(registered.key) != Some(token));
            }
        }
        assert_eq!(seen.len(), 100);
    }
}
