//! Watches: notifications about changes of records.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use tombolo_base::{DomainId, NodeId};
use tombolo_naming::{
    Answer, Attributes, DeleteCause, EndCause, Event, EventMask, NameFault, Operation, Query, Record, Scope,
};

use super::request::{ConvertAnswer, NamesRequest, expect_done};
use super::{Names, Pages, unexpected};
use crate::error::Error;
use crate::future::MonitorWait;
use crate::monitor::Inbox;

/// Notice as received from the monitor.
type NamingNotice = tombolo_naming::Notice;

/// Description of the awaited event, for errors.
const AWAITED: &str = "a change of what is watched";

/// Options of a watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchOptions {
    /// Events that the watch reports.
    pub events: EventMask,
    /// Whether the watch ends after the first notice.
    pub once: bool,
    /// Number of notices that may be queued for this program, 1 to 4096. Further ones are lost and counted.
    pub capacity: u32,
}

impl Default for WatchOptions {
    /// All changes of records, repeatedly, with up to 256 queued notices.
    fn default() -> Self {
        WatchOptions { events: EventMask::RECORDS, once: false, capacity: 256 }
    }
}

/// Change that a watch reports: of a record, or an event.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Change {
    /// A record was set.
    Set(Record),
    /// A record was deleted, for this reason.
    Deleted(Record, DeleteCause),
    /// An event was published.
    Published {
        /// Name of the event.
        name: String,
        /// Attributes of the event.
        attributes: Attributes,
        /// Domain that published it.
        publisher: DomainId,
    },
    /// Nothing changed, but notices were lost.
    Lost,
    /// The watch has ended.
    Ended(EndCause),
}

/// Notification from a watch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notice {
    /// Number of notices lost before this one, because the queue was full.
    pub lost: u64,
    /// Whether this is the last notice of the watch.
    pub last: bool,
    /// Change that the notice reports.
    pub change: Change,
}

/// Watch on the records that match a query, until it is dropped, its last notice arrived, or the program
/// ends.
///
/// Changes are reported in the order in which they happened. Starting from the state in
/// [`current`](Self::current), every change is reported or counted as lost.
#[derive(Debug)]
pub struct Watch {
    names: Names,
    scope: Scope,
    origin: Option<NodeId>,
    watch: u64,
    current: Vec<Record>,
    /// Notices that were taken and not acknowledged yet.
    taken: u32,
    acknowledge_after: u32,
    finished: bool,
}

impl Names {
    /// Watches the records that a query matches, starting with their current state.
    ///
    /// # Errors
    /// [`Error::Text`], [`Error::Monitor`].
    pub fn watch(&self, query: &str, options: WatchOptions) -> Result<Watch, Error> {
        let (scope, query) = self.query(query)?;
        let (mut watch, next) = self.watch_request(&scope, &query, options).wait()?;
        let mut pages = Pages::new(self, &scope, query, super::PAGE).after(next);
        while !pages.finished {
            let page = pages.next_page().wait()?;
            watch.current.extend(pages.advance(page));
        }
        Ok(watch)
    }

    /// Async [`watch`](Self::watch). Dropping the future leaves no watch.
    ///
    /// # Errors
    /// Same as [`watch`](Self::watch).
    pub async fn watch_async(&self, query: &str, options: WatchOptions) -> Result<Watch, Error> {
        let (scope, query) = self.query(query)?;
        let (mut watch, next) = self.watch_request(&scope, &query, options).answer().await?;
        let mut pages = Pages::new(self, &scope, query, super::PAGE).after(next);
        while !pages.finished {
            let page = pages.next_page().answer().await?;
            watch.current.extend(pages.advance(page));
        }
        Ok(watch)
    }

    /// Starts a watch. The answer includes the first matching records, and the name after which there may be
    /// more.
    fn watch_request(
        &self,
        scope: &Scope,
        query: &Query,
        WatchOptions { events, once, capacity }: WatchOptions,
    ) -> NamesRequest<impl ConvertAnswer<(Watch, Option<String>)> + use<>> {
        let (names, of) = (self.clone(), scope.clone());
        let request = Operation::Watch { query: query.clone(), events, once, capacity };
        self.new_request(scope, request, move |origin, answer| {
            let Answer::Watching { watch, records: current, next } = answer else {
                return Err(unexpected(&answer));
            };
            // Acknowledge in groups, and early enough that further notices can follow meanwhile.
            let acknowledge_after = (capacity / 2).clamp(1, 64);
            let watch = Watch {
                names,
                scope: of,
                origin,
                watch,
                current,
                taken: 0,
                acknowledge_after,
                finished: false,
            };
            Ok((watch, next))
        })
    }
}

impl Watch {
    /// Records that matched when the watch began.
    #[must_use]
    pub fn current(&self) -> &[Record] {
        &self.current
    }

    /// Waits up to `timeout` for the next notice.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if nothing happened; [`NameFault::NoSuchWatch`] in [`Error::Monitor`] after the
    /// last notice.
    pub fn next(&mut self, timeout: Duration) -> Result<Notice, Error> {
        let take = self.next_notice()?;
        let notice = self.names.domain.link.wait(timeout, AWAITED, take)?;
        Ok(self.handle_notice(notice))
    }

    /// Async [`next`](Self::next): awaited repeatedly, it forms a stream. Dropping the future loses no
    /// notice.
    ///
    /// # Errors
    /// Same as [`next`](Self::next).
    pub async fn next_async(&mut self, timeout: Duration) -> Result<Notice, Error> {
        let take = self.next_notice()?;
        let notice = MonitorWait::new(&self.names.domain.link, AWAITED.to_owned(), timeout, take).await?;
        // No await point in between, at which the notice could be dropped.
        Ok(self.handle_notice(notice))
    }

    /// Returns a function that takes the next notice from the arrived messages; fails after the last notice.
    fn next_notice(&self) -> Result<impl FnMut(&mut Inbox) -> Option<NamingNotice> + use<>, Error> {
        if self.finished {
            return Err(NameFault::NoSuchWatch { watch: self.watch }.into());
        }
        let key = (self.origin, self.watch);
        Ok(move |arrived: &mut Inbox| arrived.take_notice(key))
    }

    fn handle_notice(&mut self, notice: NamingNotice) -> Notice {
        self.taken += 1;
        self.finished = notice.last;
        if self.taken >= self.acknowledge_after && !self.finished {
            let taken = Operation::Taken { watch: self.watch, count: std::mem::take(&mut self.taken) };
            self.names.notify(&self.scope, taken);
        }
        let change = match notice.event {
            Event::Set { record } => Change::Set(record),
            Event::Deleted { record, cause } => Change::Deleted(record, cause),
            Event::Published { name, attributes, publisher } => {
                Change::Published { name, attributes, publisher }
            }
            Event::Lost => Change::Lost,
            Event::Ended { cause } => Change::Ended(cause),
        };
        Notice { lost: notice.lost, last: notice.last, change }
    }

    /// Returns the next notice, if one has arrived.
    ///
    /// # Errors
    /// Same as [`next`](Self::next), except that no notice is `None`.
    pub fn try_next(&mut self) -> Result<Option<Notice>, Error> {
        while self.names.domain.link.read_now()? {}
        match self.next(Duration::ZERO) {
            Ok(notice) => Ok(Some(notice)),
            Err(Error::TimedOut { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Ends the watch. Notices already queued can still be taken; the last one reports the end.
    ///
    /// # Errors
    /// [`NameFault::NoSuchWatch`] in [`Error::Monitor`] if it has already ended.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.unwatch_request().wait()
    }

    /// Async [`stop`](Self::stop). Once it was polled, the watch ends even if the future is dropped.
    ///
    /// # Errors
    /// Same as [`stop`](Self::stop).
    pub async fn stop_async(&mut self) -> Result<(), Error> {
        self.unwatch_request().answer().await
    }

    fn unwatch_request(&self) -> NamesRequest<impl ConvertAnswer<()> + use<>> {
        self.names.new_request(&self.scope, Operation::Unwatch { watch: self.watch }, expect_done)
    }
}

/// Readable when there may be a notice for [`try_next`](Watch::try_next). Call that once before the first
/// wait: another thread may already have read the notice from the socket.
impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.names.domain.link.descriptor()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.names.domain.link.forget_watch((self.origin, self.watch));
        if !self.finished {
            self.names.notify(&self.scope, Operation::Unwatch { watch: self.watch });
        }
    }
}
