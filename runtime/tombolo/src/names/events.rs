//! Publishing and subscribing to events.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use tombolo_base::DomainId;
use tombolo_naming::{Answer, Attributes, EventMask, NameFault, Operation, Record, Scope};
use tombolo_platform::Deadline;

use super::question::{Asks, Question};
use super::watch::{Change, Notice, Watch, WatchOptions};
use super::{Names, NewRecord, unexpected};
use crate::error::Error;

/// Publishes events of one name.
#[derive(Clone, Debug)]
pub struct Publisher {
    names: Names,
    scope: Scope,
    name: String,
}

/// Who got an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivered {
    /// Subscribers that are told.
    pub told: u32,
    /// Subscribers that are not, because they have not taken what they were told before. They hear how much
    /// they lost; a publisher that minds waits a little and publishes again.
    pub refused: u32,
}

impl Names {
    /// Publishes events of one name.
    ///
    /// # Errors
    /// [`NameFault::BadName`] in [`Error::Monitor`].
    pub fn publisher(&self, name: &str) -> Result<Publisher, Error> {
        let (scope, name) = self.name(name)?;
        Ok(Publisher { names: self.clone(), scope, name })
    }

    /// Publishes one event, as it is written: `name { attribute: value, … }`.
    ///
    /// # Errors
    /// [`Error::Text`], [`Error::Monitor`].
    pub fn publish(&self, event: &str) -> Result<Delivered, Error> {
        let (name, attributes) = event.parse::<NewRecord>()?.into_parts();
        self.publisher(&name)?.publish(attributes)
    }

    /// [`publish`](Self::publish) as a future. One that is dropped may have published it.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    pub async fn publish_async(&self, event: &str) -> Result<Delivered, Error> {
        let (name, attributes) = event.parse::<NewRecord>()?.into_parts();
        self.publisher(&name)?.publish_async(attributes).await
    }

    /// Subscribes to the events that a query matches. Up to `capacity` of them may wait for the subscriber:
    /// 1 to 4096.
    ///
    /// # Errors
    /// [`Error::Text`], [`Error::Monitor`].
    pub fn subscribe(&self, query: &str, capacity: u32) -> Result<Subscriber, Error> {
        self.watch(query, to_events(capacity)).map(|watch| Subscriber { watch, lost: 0 })
    }

    /// [`subscribe`](Self::subscribe) as a future. One that is dropped subscribes to nothing.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub async fn subscribe_async(&self, query: &str, capacity: u32) -> Result<Subscriber, Error> {
        self.watch_async(query, to_events(capacity)).await.map(|watch| Subscriber { watch, lost: 0 })
    }
}

fn to_events(capacity: u32) -> WatchOptions {
    WatchOptions { events: EventMask::PUBLISH, once: false, capacity }
}

impl Publisher {
    /// Publishes an event to the subscribers whose query it matches.
    ///
    /// # Errors
    /// [`Error::Monitor`]: a limit.
    pub fn publish(&self, attributes: Attributes) -> Result<Delivered, Error> {
        self.publication(attributes).wait()
    }

    /// [`publish`](Self::publish) as a future. One that is dropped may have published it.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    pub async fn publish_async(&self, attributes: Attributes) -> Result<Delivered, Error> {
        self.publication(attributes).answer().await
    }

    fn publication(&self, attributes: Attributes) -> Question<impl Asks<Delivered> + use<>> {
        let publish = Operation::Publish { name: self.name.clone(), attributes };
        self.names.question(&self.scope, publish, |_, answer| match answer {
            Answer::Published { told, refused } => Ok(Delivered { told, refused }),
            other => Err(unexpected(&other)),
        })
    }
}

/// An event that came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublishedEvent {
    /// Its name and attributes.
    pub record: Record,
    /// By whom.
    pub publisher: DomainId,
    /// Events lost before it, because too many waited.
    pub lost: u64,
}

/// A subscription, until this is dropped or the program ends.
#[derive(Debug)]
pub struct Subscriber {
    watch: Watch,
    /// Events known to be lost, and not said yet.
    lost: u64,
}

impl Subscriber {
    /// Waits up to `timeout` for the next event. What is lost is said with the next that is not.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when none came; [`NameFault::NoSuchWatch`] in [`Error::Monitor`] when the
    /// subscription has ended, as with its node.
    pub fn next(&mut self, timeout: Duration) -> Result<PublishedEvent, Error> {
        let deadline = Deadline::after(timeout);
        loop {
            let notice = self.watch.next(deadline.remaining())?;
            if let Some(event) = as_event(notice, &mut self.lost)? {
                return Ok(event);
            }
        }
    }

    /// [`next`](Self::next) as a future: awaited again and again, this is a stream. No event is lost with one
    /// that is dropped.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub async fn next_async(&mut self, timeout: Duration) -> Result<PublishedEvent, Error> {
        let deadline = Deadline::after(timeout);
        loop {
            let notice = self.watch.next_async(deadline.remaining()).await?;
            if let Some(event) = as_event(notice, &mut self.lost)? {
                return Ok(event);
            }
        }
    }

    /// The next event, if there is one.
    ///
    /// # Errors
    /// As [`next`](Self::next), but that none came is `None`.
    pub fn try_next(&mut self) -> Result<Option<PublishedEvent>, Error> {
        while let Some(notice) = self.watch.try_next()? {
            if let Some(event) = as_event(notice, &mut self.lost)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Ends the subscription: what is published after this has returned is not told to it. One that is
    /// dropped ends a little later. Events that are on their way can still be taken.
    ///
    /// # Errors
    /// [`NameFault::NoSuchWatch`] in [`Error::Monitor`] when it has ended already.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.watch.stop()
    }

    /// [`stop`](Self::stop) as a future. One that is dropped after it was polled has ended it, too.
    ///
    /// # Errors
    /// As [`stop`](Self::stop).
    pub async fn stop_async(&mut self) -> Result<(), Error> {
        self.watch.stop_async().await
    }
}

/// Readable when there may be something for [`try_next`](Subscriber::try_next); see [`Watch`].
impl AsFd for Subscriber {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

fn as_event(notice: Notice, lost: &mut u64) -> Result<Option<PublishedEvent>, Error> {
    *lost += notice.lost;
    match notice.change {
        Change::Published { name, attributes, publisher } => {
            let record = Record { name, attributes, version: 0, owner: Some(publisher), endpoint: false };
            Ok(Some(PublishedEvent { record, publisher, lost: std::mem::take(lost) }))
        }
        Change::Ended(_) => Err(NameFault::NoSuchWatch { watch: 0 }.into()),
        _ => Ok(None),
    }
}
