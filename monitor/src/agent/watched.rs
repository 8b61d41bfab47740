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
pub(super) struct Watch(Rc<Shared>);

#[derive(Debug)]
struct Shared {
    set: Epoll,
    /// Object of each key in the set. Keys are not reused.
    tokens: RefCell<HashMap<u64, Token>>,
    last_key: Cell<u64>,
}

impl Watch {
    /// Creates an empty set.
    ///
    /// # Errors
    /// `EMFILE`: too many open files.
    pub(super) fn new() -> Result<Watch, OsError> {
        let set = Epoll::new()?;
        Ok(Watch(Rc::new(Shared { set, tokens: RefCell::default(), last_key: Cell::new(0) })))
    }

    /// Adds a descriptor, whose events are identified by `token`, and waits for `wanted` on it.
    ///
    /// # Errors
    /// As [`Watched::want`].
    pub(super) fn add<T: AsFd>(
        &self,
        descriptor: T,
        token: Token,
        interest: Option<Interest>,
    ) -> Result<Watched<T>, OsError> {
        let key = self.0.last_key.get() + 1;
        self.0.last_key.set(key);
        self.0.tokens.borrow_mut().insert(key, token);
        let mut watched = Watched { descriptor, watch: Watch(Rc::clone(&self.0)), key, interest: None };
        watched.want(interest)?;
        Ok(watched)
    }

    /// Returns a descriptor that is readable when there are events.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.set.as_fd()
    }

    /// Returns some of the pending events; the rest stays for the next call.
    ///
    /// # Errors
    /// An error of the kernel.
    pub(super) fn happened(&self, events: &mut Events) -> Result<(), OsError> {
        self.0.set.wait(events, Some(Deadline::after(Duration::ZERO)))
    }

    /// Returns the token of an event's key; `None` if its descriptor is no longer watched.
    pub(super) fn token(&self, key: u64) -> Option<Token> {
        self.0.tokens.borrow().get(&key).copied()
    }
}

/// A descriptor that is watched until this is dropped. The kernel removes a closed descriptor from the set
/// only when its last copy is closed: the other descriptor of a side stream, or that of a process which is
/// being started, would keep reporting events. So it is removed before it is closed.
#[derive(Debug)]
pub(super) struct Watched<T: AsFd> {
    descriptor: T,
    watch: Watch,
    key: u64,
    interest: Option<Interest>,
}

impl<T: AsFd> Watched<T> {
    /// Sets the events to wait for; `None` disables the descriptor, even for hang-ups.
    ///
    /// # Errors
    /// `ENOSPC` if this user waits for as much as `/proc/sys/fs/epoll/max_user_watches` allows; `ENOMEM`.
    pub(super) fn want(&mut self, wanted: Option<Interest>) -> Result<(), OsError> {
        let set = &self.watch.0.set;
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

impl<T: AsFd> AsFd for Watched<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl<T: AsFd> Drop for Watched<T> {
    fn drop(&mut self) {
        if self.interest.is_some() {
            self.watch.0.set.remove(&self.descriptor);
        }
        self.watch.0.tokens.borrow_mut().remove(&self.key);
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

    fn told(watch: &Watch) -> Vec<(Token, Ready)> {
        let mut events = Events::new();
        watch.happened(&mut events).unwrap();
        events.iter().filter_map(|(key, ready)| Some((watch.token(key)?, ready))).collect()
    }

    #[test]
    fn what_is_wanted_is_told_until_it_is_no_longer_wanted() {
        let watch = Watch::new().unwrap();
        let (near, far) = pair();
        let mut watched = watch.add(near, Token::Client(7), None).unwrap();
        drop(far);
        assert_eq!(told(&watch), [], "not even a hang-up");
        watched.want(Some(Interest::Read)).unwrap();
        watched.want(Some(Interest::Read)).unwrap();
        assert!(matches!(told(&watch)[..], [(Token::Client(7), ready)] if ready.readable && ready.hung_up));
        watched.want(Some(Interest::ReadWrite)).unwrap();
        assert!(matches!(told(&watch)[..], [(Token::Client(7), ready)] if ready.writable));
        watched.want(None).unwrap();
        assert_eq!(told(&watch), []);
    }

    #[test]
    fn nothing_is_told_of_a_descriptor_that_is_closed_while_a_copy_is_open() {
        let watch = Watch::new().unwrap();
        let (near, far) = pair();
        let copy = near.try_clone().unwrap();
        let watched = watch.add(near, Token::Client(1), Some(Interest::Read)).unwrap();
        rustix::io::write(&far, b"x").unwrap();
        assert_eq!(told(&watch).len(), 1);
        drop(watched);
        let mut events = Events::new();
        watch.happened(&mut events).unwrap();
        assert_eq!(events.iter().count(), 0);
        assert!(watch.0.tokens.borrow().is_empty());
        // The copy, and a descriptor with the number of the closed one, are distinct from it.
        let _watched = watch.add(copy, Token::Client(2), Some(Interest::Read)).unwrap();
        assert!(matches!(told(&watch)[..], [(Token::Client(2), _)]));
    }

    #[test]
    fn more_than_one_call_reports_come_with_the_next() {
        let watch = Watch::new().unwrap();
        let pairs: Vec<_> = (0..100).map(|_| pair()).collect();
        let mut watched = Vec::new();
        for (number, (near, far)) in (0..).zip(pairs) {
            drop(far);
            watched.push(watch.add(near, Token::Client(number), Some(Interest::Read)).unwrap());
        }
        let mut seen = std::collections::BTreeSet::new();
        while !watched.is_empty() {
            for (token, _) in told(&watch) {
                let Token::Client(number) = token else { panic!("{token:?}") };
                seen.insert(number);
                watched.retain(|watched| watch.token(watched.key) != Some(token));
            }
        }
        assert_eq!(seen.len(), 100);
    }
}
