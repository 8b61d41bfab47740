//! Publishing of events, and subscriptions to them.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use tombolo_base::DomainId;
use tombolo_naming::{Answer, Attributes, EventMask, NameFault, Operation, Record, Scope};
use tombolo_platform::Deadline;

use super::request::{ConvertAnswer, NamesRequest};
use super::watch::{Change, Notice, Watch, WatchOptions};
use super::{Names, NewRecord, unexpected};
use crate::error::Error;

/// Publisher of events with one name.
#[derive(Clone, Debug)]
pub struct Publisher {
    names: Names,
    scope: Scope,
    name: String,
}

/// Numbers of subscribers that an event reached and missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivered {
    /// Number of subscribers that receive the event.
    pub told: u32,
    /// Number of subscribers that miss it because their queues are full. They learn how many events they
    /// lost; to avoid losses, a publisher waits a little and publishes again.
    pub refused: u32,
}

impl Names {
    /// Creates a publisher of events with this name.
    ///
    /// # Errors
    /// [`NameFault::BadName`] in [`Error::Monitor`].
    pub fn publisher(&self, name: &str) -> Result<Publisher, Error> {
        let (scope, name) = self.name(name)?;
        Ok(Publisher { names: self.clone(), scope, name })
    }

    /// Publishes one event in text form: `name { attribute: value, … }`.
    ///
    /// # Errors
    /// [`Error::Text`], [`Error::Monitor`].
    pub fn publish(&self, event: &str) -> Result<Delivered, Error> {
        let (name, attributes) = event.parse::<NewRecord>()?.into_parts();
        self.publisher(&name)?.publish(attributes)
    }

    /// Async [`publish`](Self::publish). If the future is dropped, the event may have been published.
    ///
    /// # Errors
    /// Same as [`publish`](Self::publish).
    pub async fn publish_async(&self, event: &str) -> Result<Delivered, Error> {
        let (name, attributes) = event.parse::<NewRecord>()?.into_parts();
        self.publisher(&name)?.publish_async(attributes).await
    }

    /// Subscribes to the events that a query matches. Up to `capacity` events are queued for the subscriber:
    /// 1 to 4096.
    ///
    /// # Errors
    /// [`Error::Text`], [`Error::Monitor`].
    pub fn subscribe(&self, query: &str, capacity: u32) -> Result<Subscriber, Error> {
        self.watch(query, to_events(capacity)).map(|watch| Subscriber { watch, lost: 0 })
    }

    /// Async [`subscribe`](Self::subscribe). Dropping the future leaves no subscription.
    ///
    /// # Errors
    /// Same as [`subscribe`](Self::subscribe).
    pub async fn subscribe_async(&self, query: &str, capacity: u32) -> Result<Subscriber, Error> {
        self.watch_async(query, to_events(capacity)).await.map(|watch| Subscriber { watch, lost: 0 })
    }
}

fn to_events(capacity: u32) -> WatchOptions {
    WatchOptions { events: EventMask::PUBLISH, once: false, capacity }
}

impl Publisher {
    /// Publishes an event to the subscribers whose query matches it.
    ///
    /// # Errors
    /// [`Error::Monitor`] if a limit is exceeded.
    pub fn publish(&self, attributes: Attributes) -> Result<Delivered, Error> {
        self.publish_request(attributes).wait()
    }

    /// Async [`publish`](Self::publish). If the future is dropped, the event may have been published.
    ///
    /// # Errors
    /// Same as [`publish`](Self::publish).
    pub async fn publish_async(&self, attributes: Attributes) -> Result<Delivered, Error> {
        self.publish_request(attributes).answer().await
    }

    fn publish_request(&self, attributes: Attributes) -> NamesRequest<impl ConvertAnswer<Delivered> + use<>> {
        let publish = Operation::Publish { name: self.name.clone(), attributes };
        self.names.new_request(&self.scope, publish, |_, answer| match answer {
            Answer::Published { told, refused } => Ok(Delivered { told, refused }),
            other => Err(unexpected(&other)),
        })
    }
}

/// Event that a subscriber received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublishedEvent {
    /// Name and attributes of the event.
    pub record: Record,
    /// Domain that published the event.
    pub publisher: DomainId,
    /// Number of events lost before this one, because the queue was full.
    pub lost: u64,
}

/// Subscription, until this is dropped or the program ends.
#[derive(Debug)]
pub struct Subscriber {
    watch: Watch,
    /// Number of lost events that were not reported yet.
    lost: u64,
}

impl Subscriber {
    /// Waits up to `timeout` for the next event. It includes the number of events lost before it.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if there was none; [`NameFault::NoSuchWatch`] in [`Error::Monitor`] if the
    /// subscription has ended, for example with its node.
    pub fn next(&mut self, timeout: Duration) -> Result<PublishedEvent, Error> {
        let deadline = Deadline::after(timeout);
        loop {
            let notice = self.watch.next(deadline.remaining())?;
            if let Some(event) = as_event(notice, &mut self.lost)? {
                return Ok(event);
            }
        }
    }

    /// Async [`next`](Self::next): awaited repeatedly, it forms a stream. Dropping the future loses no event.
    ///
    /// # Errors
    /// Same as [`next`](Self::next).
    pub async fn next_async(&mut self, timeout: Duration) -> Result<PublishedEvent, Error> {
        let deadline = Deadline::after(timeout);
        loop {
            let notice = self.watch.next_async(deadline.remaining()).await?;
            if let Some(event) = as_event(notice, &mut self.lost)? {
                return Ok(event);
            }
        }
    }

    /// Returns the next event, if one has arrived.
    ///
    /// # Errors
    /// Same as [`next`](Self::next), except that no event is `None`.
    pub fn try_next(&mut self) -> Result<Option<PublishedEvent>, Error> {
        while let Some(notice) = self.watch.try_next()? {
            if let Some(event) = as_event(notice, &mut self.lost)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Ends the subscription: events published after this returns are not delivered. Dropping the subscriber
    /// ends it a little later. Events already queued can still be taken.
    ///
    /// # Errors
    /// [`NameFault::NoSuchWatch`] in [`Error::Monitor`] if it has already ended.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.watch.stop()
    }

    /// Async [`stop`](Self::stop). Once it was polled, the subscription ends even if the future is dropped.
    ///
    /// # Errors
    /// Same as [`stop`](Self::stop).
    pub async fn stop_async(&mut self) -> Result<(), Error> {
        self.watch.stop_async().await
    }
}

/// Readable when there may be an event for [`try_next`](Subscriber::try_next); see [`Watch`].
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
