//! Forwards the messages of all routes of a relay.

use std::collections::HashMap;
use std::time::Duration;

use tombolo_link::relay::{Beyond, Needs, Route, Step};
use tombolo_platform::OsError;
use tombolo_platform::event::Interest;

use super::hop::Hop;
use super::join::Joined;
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
    /// Messages moved so far.
    moved: u64,
}

#[derive(Debug)]
struct Entry {
    route: Route,
    hops: [Place; 2],
}

/// Location of a hop.
#[derive(Debug)]
enum Place {
    InSet(Token, Interest),
    Here(Box<Hop>),
    /// The hop was dropped.
    Nowhere,
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
            moved: 0,
        })
    }

    /// Returns a handle that ends a wait of [`turn`](Self::turn) from any thread.
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

    /// Returns the number of messages moved so far.
    #[must_use]
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// Adds a route whose channels are open.
    pub fn add(&mut self, Joined { near, far }: Joined, beyond: [Beyond; 2]) {
        let number = self.next;
        self.next += 1;
        let hops = [near, far].map(|hop| Place::Here(Box::new(hop)));
        self.routes.insert(number, Entry { route: Route::new(beyond), hops });
        self.advance(number);
    }

    /// Waits until a route can make progress and advances it. Returns false after `timeout` or when woken.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn turn(&mut self, timeout: Duration) -> Result<bool, OsError> {
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
                    Place::InSet(token, _) => {
                        if let Some(hop) = self.set.get_mut(*token) {
                            hop.abandon();
                        }
                    }
                    Place::Here(hop) => hop.abandon(),
                    Place::Nowhere => {}
                }
            }
            self.take_out(&mut entry);
        }
    }

    fn advance(&mut self, number: u64) {
        let Some(mut entry) = self.routes.remove(&number) else { return };
        match self.step(&mut entry) {
            Some(step) if !step.over && self.place(number, &mut entry, step.needs) => {
                self.routes.insert(number, entry);
            }
            // Its hops are dropped with it.
            _ => self.take_out(&mut entry),
        }
    }

    fn step(&mut self, entry: &mut Entry) -> Option<Step> {
        let [near, far] = &mut entry.hops;
        let step = match (near, far) {
            (Place::InSet(near, _), Place::InSet(far, _)) => {
                let [near, far] = self.set.get_two_mut(*near, *far)?;
                entry.route.step([near, far])
            }
            (Place::Here(near), Place::InSet(far, _)) => {
                entry.route.step([&mut **near, self.set.get_mut(*far)?])
            }
            (Place::InSet(near, _), Place::Here(far)) => {
                entry.route.step([self.set.get_mut(*near)?, &mut **far])
            }
            (Place::Here(near), Place::Here(far)) => entry.route.step([&mut **near, &mut **far]),
            _ => return None,
        };
        self.moved += step.moved;
        Some(step)
    }

    /// Moves hops to where they belong. Returns false if the set has no room.
    fn place(&mut self, number: u64, entry: &mut Entry, needs: [Needs; 2]) -> bool {
        let mut placed = true;
        for (hop, needs) in entry.hops.iter_mut().zip(needs) {
            let awaited = match (needs.message, needs.room) {
                (true, true) => Some(Interest::ReadWrite),
                (true, false) => Some(Interest::Read),
                (false, true) => Some(Interest::Write),
                (false, false) => None,
            };
            match (&mut *hop, awaited) {
                (Place::InSet(token, before), Some(awaited)) => {
                    if *before != awaited {
                        *before = awaited;
                        self.set.set_interest(*token, awaited);
                    }
                }
                (Place::Here(_), Some(awaited)) => {
                    let Place::Here(channel) = std::mem::replace(hop, Place::Nowhere) else { continue };
                    match self.set.add(*channel, awaited) {
                        Ok(token) => {
                            self.by_token.insert(token, number);
                            *hop = Place::InSet(token, awaited);
                        }
                        Err(_) => placed = false,
                    }
                }
                (Place::InSet(token, _), None) => {
                    self.by_token.remove(token);
                    if let Some(channel) = self.set.remove(*token) {
                        *hop = Place::Here(Box::new(channel));
                    }
                }
                (Place::Here(_) | Place::Nowhere, None) | (Place::Nowhere, Some(_)) => {}
            }
        }
        placed
    }

    fn take_out(&mut self, entry: &mut Entry) {
        for hop in &mut entry.hops {
            if let Place::InSet(token, _) = hop {
                self.by_token.remove(token);
                drop(self.set.remove(*token));
            }
        }
    }
}
