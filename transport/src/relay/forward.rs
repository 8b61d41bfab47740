//! Forwards the messages of all routes of a relay.

use std::collections::HashMap;
use std::time::Duration;

use tombolo_link::relay::{HopPeer, Needs, Route, Step};
use tombolo_platform::OsError;
use tombolo_platform::event::Interest;

use super::hop::Hop;
use super::join::OpenRoute;
use crate::waitset::{Ready, Token, WaitSet, Waker};

/// Routes of a relay. A single thread moves the messages of all.
///
/// A hop on which nothing is awaited, because the other hop has no room, is taken out of the set.
#[derive(Debug)]
pub struct Forwarder {
    set: WaitSet<Hop>,
    routes: HashMap<u64, Entry>,
    /// Routes by the tokens of their hops.
    by_token: HashMap<Token, u64>,
    next: u64,
    /// Messages forwarded so far.
    forwarded: u64,
}

#[derive(Debug)]
struct Entry {
    route: Route,
    hops: [HopState; 2],
}

/// Location of a hop.
#[derive(Debug)]
enum HopState {
    Registered(Token, Interest),
    Detached(Box<Hop>),
    /// The hop was dropped.
    Dropped,
}

impl Forwarder {
    /// Creates a forwarder without routes.
    ///
    /// # Errors
    /// Same as [`WaitSet::new`].
    pub fn new() -> Result<Self, OsError> {
        Ok(Forwarder {
            set: WaitSet::new()?,
            routes: HashMap::new(),
            by_token: HashMap::new(),
            next: 0,
            forwarded: 0,
        })
    }

    /// Returns a handle that ends a wait of [`run_once`](Self::run_once) from any thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.set.waker()
    }

    /// Returns the number of routes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether there are no routes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Returns the number of messages forwarded so far.
    #[must_use]
    pub fn forwarded_messages(&self) -> u64 {
        self.forwarded
    }

    /// Adds a route whose channels are open.
    pub fn add(&mut self, OpenRoute { near, far }: OpenRoute, peers: [HopPeer; 2]) {
        let number = self.next;
        self.next += 1;
        let hops = [near, far].map(|hop| HopState::Detached(Box::new(hop)));
        self.routes.insert(number, Entry { route: Route::new(peers), hops });
        self.advance(number);
    }

    /// Waits until a route can make progress and advances it. Returns false after `timeout` or when woken.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn run_once(&mut self, timeout: Duration) -> Result<bool, OsError> {
        match self.set.wait(timeout)? {
            Some(Ready::Channel(token)) => {
                if let Some(number) = self.by_token.get(&token).copied() {
                    self.advance(number);
                }
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Ends all routes without closing, so that the ends see the death of their relay.
    pub fn abandon(&mut self) {
        for (_, mut entry) in std::mem::take(&mut self.routes) {
            for hop in &mut entry.hops {
                match hop {
                    HopState::Registered(token, _) => {
                        if let Some(hop) = self.set.get_mut(*token) {
                            hop.abandon();
                        }
                    }
                    HopState::Detached(hop) => hop.abandon(),
                    HopState::Dropped => {}
                }
            }
            self.unregister(&mut entry);
        }
    }

    fn advance(&mut self, number: u64) {
        let Some(mut entry) = self.routes.remove(&number) else { return };
        match self.step(&mut entry) {
            Some(step) if !step.finished && self.update_registrations(number, &mut entry, step.needs) => {
                self.routes.insert(number, entry);
            }
            // Its hops are dropped with it.
            _ => self.unregister(&mut entry),
        }
    }

    fn step(&mut self, entry: &mut Entry) -> Option<Step> {
        let [near, far] = &mut entry.hops;
        let step = match (near, far) {
            (HopState::Registered(near, _), HopState::Registered(far, _)) => {
                let [near, far] = self.set.get_two_mut(*near, *far)?;
                entry.route.step([near, far])
            }
            (HopState::Detached(near), HopState::Registered(far, _)) => {
                entry.route.step([&mut **near, self.set.get_mut(*far)?])
            }
            (HopState::Registered(near, _), HopState::Detached(far)) => {
                entry.route.step([self.set.get_mut(*near)?, &mut **far])
            }
            (HopState::Detached(near), HopState::Detached(far)) => {
                entry.route.step([&mut **near, &mut **far])
            }
            _ => return None,
        };
        self.forwarded += step.moved;
        Some(step)
    }

    /// Moves hops to where they belong. Returns false if the set has no room.
    fn update_registrations(&mut self, number: u64, entry: &mut Entry, needs: [Needs; 2]) -> bool {
        let mut placed = true;
        for (hop, needs) in entry.hops.iter_mut().zip(needs) {
            let awaited = match (needs.message, needs.room) {
                (true, true) => Some(Interest::ReadWrite),
                (true, false) => Some(Interest::Read),
                (false, true) => Some(Interest::Write),
                (false, false) => None,
            };
            match (&mut *hop, awaited) {
                (HopState::Registered(token, before), Some(awaited)) => {
                    if *before != awaited {
                        *before = awaited;
                        self.set.set_interest(*token, awaited);
                    }
                }
                (HopState::Detached(_), Some(awaited)) => {
                    let HopState::Detached(channel) = std::mem::replace(hop, HopState::Dropped) else {
                        continue;
                    };
                    match self.set.add(*channel, awaited) {
                        Ok(token) => {
                            self.by_token.insert(token, number);
                            *hop = HopState::Registered(token, awaited);
                        }
                        Err(_) => placed = false,
                    }
                }
                (HopState::Registered(token, _), None) => {
                    self.by_token.remove(token);
                    if let Some(channel) = self.set.remove(*token) {
                        *hop = HopState::Detached(Box::new(channel));
                    }
                }
                (HopState::Detached(_) | HopState::Dropped, None) | (HopState::Dropped, Some(_)) => {}
            }
        }
        placed
    }

    fn unregister(&mut self, entry: &mut Entry) {
        for hop in &mut entry.hops {
            if let HopState::Registered(token, _) = hop {
                self.by_token.remove(token);
                drop(self.set.remove(*token));
            }
        }
    }
}
