//! Watches: what changes is told.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use tombolo_base::{DomainId, NodeId};
use tombolo_naming::{
    Answer, Attributes, DeleteCause, EndCause, Event, EventMask, NameFault, Operation, Query, Record, Scope,
};

use super::question::{Asks, Question, done};
use super::{Names, Pages, unexpected};
use crate::error::Error;
use crate::future::Arrival;
use crate::monitor::Arrived;

/// What a watch is told, as it comes.
type Told = tombolo_naming::Notice;

/// What is waited for, in errors.
const AWAITED: &str = "a change of what is watched";

/// What a watch is told, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchOptions {
    /// What it is told.
    pub events: EventMask,
    /// Whether it ends with the first.
    pub once: bool,
    /// How many notices may wait for this program, 1 to 4096. Further ones are lost, and counted.
    pub capacity: u32,
}

impl Default for WatchOptions {
    /// Whatever happens to records, again and again; 256 notices may wait.
    fn default() -> Self {
        WatchOptions { events: EventMask::RECORDS, once: false, capacity: 256 }
    }
}

/// What a watch reports: a change of a record, or an event.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Change {
    /// A record was set.
    Set(Record),
    /// A record is gone, for this reason.
    Deleted(Record, DeleteCause),
    /// An event was published.
    Published {
        /// Its name.
        name: String,
        /// More about it.
        attributes: Attributes,
        /// By whom.
        publisher: DomainId,
    },
    /// Nothing but that notices were lost.
    Lost,
    /// The watch has ended.
    Ended(EndCause),
}

/// What a watch is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notice {
    /// Notices lost before this one, because too many waited for this program.
    pub lost: u64,
    /// No other will come.
    pub last: bool,
    /// What happened.
    pub change: Change,
}

/// A watch, until this is dropped, its last notice came, or the program ends.
///
/// Changes are told in the order in which they happened, and from the moment of [`current`](Self::current) on
/// none is left out without being counted.
#[derive(Debug)]
pub struct Watch {
    names: Names,
    scope: Scope,
    origin: Option<NodeId>,
    watch: u64,
    current: Vec<Record>,
    /// Notices that were taken and not yet acknowledged.
    taken: u32,
    acknowledge_after: u32,
    over: bool,
}

impl Names {
    /// Watches what a query matches, from what it matches now.
    ///
    /// # Errors
    /// [`Error::Text`], [`Error::Monitor`].
    pub fn watch(&self, query: &str, options: WatchOptions) -> Result<Watch, Error> {
        let (scope, query) = self.query(query)?;
        let (mut watch, next) = self.watching(&scope, &query, options).wait()?;
        let mut pages = Pages::new(self, &scope, query, super::PAGE).after(next);
        while !pages.over {
            let page = pages.next_page().wait()?;
            watch.current.extend(pages.turn(page));
        }
        Ok(watch)
    }

    /// [`watch`](Self::watch) as a future. One that is dropped watches nothing.
    ///
    /// # Errors
    /// As [`watch`](Self::watch).
    pub async fn watch_async(&self, query: &str, options: WatchOptions) -> Result<Watch, Error> {
        let (scope, query) = self.query(query)?;
        let (mut watch, next) = self.watching(&scope, &query, options).answer().await?;
        let mut pages = Pages::new(self, &scope, query, super::PAGE).after(next);
        while !pages.over {
            let page = pages.next_page().answer().await?;
            watch.current.extend(pages.turn(page));
        }
        Ok(watch)
    }

    /// Begins a watch; some of what matches comes with it, and the name after which there may be more.
    fn watching(
        &self,
        scope: &Scope,
        query: &Query,
        WatchOptions { events, once, capacity }: WatchOptions,
    ) -> Question<impl Asks<(Watch, Option<String>)> + use<>> {
        let (names, of) = (self.clone(), scope.clone());
        let request = Operation::Watch { query: query.clone(), events, once, capacity };
        self.question(scope, request, move |origin, answer| {
            let Answer::Watching { watch, records: current, next } = answer else {
                return Err(unexpected(&answer));
            };
            // Not each one alone, and early enough that others can follow meanwhile.
            let acknowledge_after = (capacity / 2).clamp(1, 64);
            let watch =
                Watch { names, scope: of, origin, watch, current, taken: 0, acknowledge_after, over: false };
            Ok((watch, next))
        })
    }
}

impl Watch {
    /// What matched when the watch began.
    #[must_use]
    pub fn current(&self) -> &[Record] {
        &self.current
    }

    /// Waits up to `timeout` for the next notice.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when nothing happened; [`NameFault::NoSuchWatch`] in [`Error::Monitor`] after the
    /// last.
    pub fn next(&mut self, timeout: Duration) -> Result<Notice, Error> {
        let take = self.next_notice()?;
        let notice = self.names.domain.link.wait(timeout, AWAITED, take)?;
        Ok(self.take_note(notice))
    }

    /// [`next`](Self::next) as a future: awaited again and again, this is a stream. No notice is lost with
    /// one that is dropped.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub async fn next_async(&mut self, timeout: Duration) -> Result<Notice, Error> {
        let take = self.next_notice()?;
        let notice = Arrival::new(&self.names.domain.link, AWAITED.to_owned(), timeout, take).await?;
        // Without a pause in between, in which it could be dropped.
        Ok(self.take_note(notice))
    }

    /// Finds the next notice among what arrived, if there can be one.
    fn next_notice(&self) -> Result<impl FnMut(&mut Arrived) -> Option<Told> + use<>, Error> {
        if self.over {
            return Err(NameFault::NoSuchWatch { watch: self.watch }.into());
        }
        let key = (self.origin, self.watch);
        Ok(move |arrived: &mut Arrived| arrived.take_notice(key))
    }

    fn take_note(&mut self, notice: Told) -> Notice {
        self.taken += 1;
        self.over = notice.last;
        if self.taken >= self.acknowledge_after && !self.over {
            let taken = Operation::Taken { watch: self.watch, count: std::mem::take(&mut self.taken) };
            self.names.tell(&self.scope, taken);
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

    /// The next notice, if there is one.
    ///
    /// # Errors
    /// As [`next`](Self::next), but that nothing happened is `None`.
    pub fn try_next(&mut self) -> Result<Option<Notice>, Error> {
        while self.names.domain.link.read_now()? {}
        match self.next(Duration::ZERO) {
            Ok(notice) => Ok(Some(notice)),
            Err(Error::TimedOut { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Ends it. Notices that are on their way can still be taken; the last says that it ended.
    ///
    /// # Errors
    /// [`NameFault::NoSuchWatch`] in [`Error::Monitor`] when it has ended already.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.unwatching().wait()
    }

    /// [`stop`](Self::stop) as a future. One that is dropped after it was polled has ended it, too.
    ///
    /// # Errors
    /// As [`stop`](Self::stop).
    pub async fn stop_async(&mut self) -> Result<(), Error> {
        self.unwatching().answer().await
    }

    fn unwatching(&self) -> Question<impl Asks<()> + use<>> {
        self.names.question(&self.scope, Operation::Unwatch { watch: self.watch }, done)
    }
}

/// Readable when there may be something for [`try_next`](Watch::try_next), which has to be asked once before
/// the first wait: another thread may have taken in what is for this one.
impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.names.domain.link.descriptor()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.names.domain.link.forget_watch((self.origin, self.watch));
        if !self.over {
            self.names.tell(&self.scope, Operation::Unwatch { watch: self.watch });
        }
    }
}
