//! Names: records that programs find, wait for and watch, and the locks, semaphores, barriers and events
//! among them.
//!
//! ```no_run
//! use std::time::Duration;
//! use tombolo::{Domain, Error};
//! use tombolo::names::NewRecord;
//!
//! fn main() -> Result<(), Error> {
//!     let domain = Domain::attach()?;
//!     let names = domain.names();
//!     names.set(&NewRecord::new("sensor/1").with("celsius", 21.5))?;
//!     let warm = names.wait_for("sensor/* { celsius > 20 }", Duration::from_secs(1))?;
//!     println!("{warm}");
//!     let guard = names.lock("setup")?.acquire(Duration::from_secs(10))?;
//!     println!("this is turn {}", guard.fencing_token());
//!     Ok(())
//! }
//! ```
//!
//! Each operation that sends a request to a monitor has an async variant, such as [`Lock::acquire_async`],
//! which works on any executor. If the future is dropped, what it acquired is released.
//!
//! A plain name belongs to the machine. `@/NAME` is a name on the node that this program runs on, which
//! serves it, and `@NODE/NAME` one on the given node. `docs/specs/names.md` specifies records, queries, and
//! the guarantees when a domain ends.

mod barrier;
mod events;
mod lock;
mod record;
mod request;
mod semaphore;
mod watch;

use std::time::Duration;

use tombolo_control::Fault;
use tombolo_naming::{Answer, Operation, Scope, TextError, parse_query, split_scope};
pub use tombolo_naming::{
    AttributeError, Attributes, Comparison, Condition, DeleteCause, EndCause, EventMask, NameFault, Query,
    Record, Value,
};

pub use barrier::{Barrier, Meeting};
pub use events::{Delivered, PublishedEvent, Publisher, Subscriber};
pub use lock::{Lock, LockGuard};
pub use record::{Changed, NewRecord};
pub use semaphore::{Permit, Semaphore};
pub use watch::{Change, Notice, Watch, WatchOptions};

use crate::domain::Domain;
use crate::error::Error;
use request::{ConvertAnswer, NamesRequest};

/// Maximum number of records per reply; further records need further requests.
const PAGE: u32 = 1024;

/// Access to the names that a domain can reach. Created by [`Domain::names`].
#[derive(Clone, Debug)]
pub struct Names {
    domain: Domain,
}

impl Domain {
    /// Returns access to names: records, locks, events.
    #[must_use]
    pub fn names(&self) -> Names {
        Names { domain: self.clone() }
    }
}

impl Names {
    /// Parses a query and its scope.
    fn query(&self, text: &str) -> Result<(Scope, Query), Error> {
        let (scope, rest) = split_scope(text);
        let query = parse_query(rest).map_err(|error| offset_error(text, rest, error))?;
        Ok((self.scope(scope), query))
    }

    /// Validates a name and resolves its scope.
    fn name(&self, text: &str) -> Result<(Scope, String), Error> {
        let (scope, name) = split_scope(text);
        if !tombolo_naming::is_name(name) {
            return Err(NameFault::BadName { name: text.to_owned() }.into());
        }
        Ok((self.scope(scope), name.to_owned()))
    }

    fn scope(&self, scope: Scope) -> Scope {
        self.domain.normalize_scope(scope)
    }

    /// Creates a request that the monitor answers immediately.
    fn new_request<T, F: ConvertAnswer<T>>(
        &self,
        scope: &Scope,
        operation: Operation,
        convert: F,
    ) -> NamesRequest<F> {
        let link = std::sync::Arc::clone(&self.domain.link);
        NamesRequest { link, scope: scope.clone(), operation, delay: Duration::ZERO, convert }
    }

    fn notify(&self, scope: &Scope, operation: Operation) {
        // If the monitor is gone, so is the subject of the message.
        let _ = self.domain.link.notify_names(scope, operation);
    }

    /// Returns the first record that a query matches, in natural order of names.
    ///
    /// # Errors
    /// [`NameFault::NoSuchName`] in [`Error::Monitor`] if there is none; [`Error::Text`].
    pub fn get(&self, query: &str) -> Result<Record, Error> {
        let (scope, parsed) = self.query(query)?;
        let mut pages = Pages::new(self, &scope, parsed, 1);
        while !pages.finished {
            let page = pages.next_page().wait()?;
            if let Some(record) = pages.advance(page).pop() {
                return Ok(record);
            }
        }
        Err(NameFault::NoSuchName { name: query.to_owned() }.into())
    }

    /// Async version of [`get`](Self::get).
    ///
    /// # Errors
    /// Same as [`get`](Self::get).
    pub async fn get_async(&self, query: &str) -> Result<Record, Error> {
        let (scope, parsed) = self.query(query)?;
        let mut pages = Pages::new(self, &scope, parsed, 1);
        while !pages.finished {
            let page = pages.next_page().answer().await?;
            if let Some(record) = pages.advance(page).pop() {
                return Ok(record);
            }
        }
        Err(NameFault::NoSuchName { name: query.to_owned() }.into())
    }

    /// Returns all records that a query matches, in natural order of names. If they exceed one reply, the
    /// result is not an atomic snapshot.
    ///
    /// # Errors
    /// [`Error::Text`], [`Error::Monitor`].
    pub fn find(&self, query: &str) -> Result<Vec<Record>, Error> {
        let (scope, query) = self.query(query)?;
        let mut pages = Pages::new(self, &scope, query, PAGE);
        let mut all = Vec::new();
        while !pages.finished {
            let page = pages.next_page().wait()?;
            all.extend(pages.advance(page));
        }
        Ok(all)
    }

    /// Async version of [`find`](Self::find).
    ///
    /// # Errors
    /// Same as [`find`](Self::find).
    pub async fn find_async(&self, query: &str) -> Result<Vec<Record>, Error> {
        let (scope, query) = self.query(query)?;
        let mut pages = Pages::new(self, &scope, query, PAGE);
        let mut all = Vec::new();
        while !pages.finished {
            let page = pages.next_page().answer().await?;
            all.extend(pages.advance(page));
        }
        Ok(all)
    }

    /// Whether a query matches any record.
    ///
    /// # Errors
    /// [`Error::Text`], [`Error::Monitor`].
    pub fn exists(&self, query: &str) -> Result<bool, Error> {
        is_found(self.get(query))
    }

    /// Async version of [`exists`](Self::exists).
    ///
    /// # Errors
    /// Same as [`exists`](Self::exists).
    pub async fn exists_async(&self, query: &str) -> Result<bool, Error> {
        is_found(self.get_async(query).await)
    }

    /// Waits up to `timeout` until a query matches a record, and returns the first match.
    ///
    /// # Errors
    /// [`NameFault::NoSuchName`] in [`Error::Monitor`] if nothing matched in time; [`Error::Text`].
    pub fn wait_for(&self, query: &str, timeout: Duration) -> Result<Record, Error> {
        self.wait_request(query, timeout)?.wait()
    }

    /// Async version of [`wait_for`](Self::wait_for).
    ///
    /// # Errors
    /// Same as [`wait_for`](Self::wait_for).
    pub async fn wait_for_async(&self, query: &str, timeout: Duration) -> Result<Record, Error> {
        self.wait_request(query, timeout)?.answer().await
    }

    fn wait_request(
        &self,
        query: &str,
        timeout: Duration,
    ) -> Result<NamesRequest<impl ConvertAnswer<Record>>, Error> {
        let (scope, query) = self.query(query)?;
        let request =
            self.new_request(&scope, Operation::Await { query, timeout }, |_, answer| match answer {
                Answer::There { record } => Ok(record),
                other => Err(unexpected(&other)),
            });
        Ok(request.with_delay(timeout))
    }

    /// Deletes a record and returns its last state.
    ///
    /// # Errors
    /// [`NameFault::NoSuchName`], [`NameFault::NotYours`] in [`Error::Monitor`].
    pub fn delete(&self, name: &str) -> Result<Record, Error> {
        self.delete_request(name)?.wait()
    }

    /// Async [`delete`](Self::delete). If the future is dropped, the record may have been deleted.
    ///
    /// # Errors
    /// Same as [`delete`](Self::delete).
    pub async fn delete_async(&self, name: &str) -> Result<Record, Error> {
        self.delete_request(name)?.answer().await
    }

    fn delete_request(&self, name: &str) -> Result<NamesRequest<impl ConvertAnswer<Record>>, Error> {
        let (scope, name) = self.name(name)?;
        let delete = Operation::Delete { name, condition: Condition::Always, want_previous: true };
        Ok(self.new_request(&scope, delete, |_, answer| match answer {
            Answer::Changed { previous: Some(record), .. } => Ok(record),
            other => Err(unexpected(&other)),
        }))
    }
}

/// Converts the result of a query to whether it found a record.
fn is_found(found: Result<Record, Error>) -> Result<bool, Error> {
    match found {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.name_fault(), Some(NameFault::NoSuchName { .. })) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Records of one reply, and the name after which there may be more.
type Page = (Vec<Record>, Option<String>);

/// Iterator over the pages of a query's result.
struct Pages<'a> {
    names: &'a Names,
    scope: &'a Scope,
    query: Query,
    after: String,
    limit: u32,
    finished: bool,
}

impl<'a> Pages<'a> {
    fn new(names: &'a Names, scope: &'a Scope, query: Query, limit: u32) -> Self {
        Pages { names, scope, query, after: String::new(), limit, finished: false }
    }

    /// Continues after a page that is known already.
    fn after(mut self, next: Option<String>) -> Self {
        self.finished = next.is_none();
        self.after = next.unwrap_or_default();
        self
    }

    fn next_page(&self) -> NamesRequest<impl ConvertAnswer<Page> + use<>> {
        let find =
            Operation::Find { query: self.query.clone(), after: self.after.clone(), limit: self.limit };
        self.names.new_request(self.scope, find, |_, answer| match answer {
            Answer::Found { records, next } => Ok((records, next)),
            other => Err(unexpected(&other)),
        })
    }

    /// Advances behind a page and returns its records.
    fn advance(&mut self, (records, next): Page) -> Vec<Record> {
        // A monitor that repeats a page would cause an infinite loop.
        self.finished = next.as_ref().is_none_or(|next| *next == self.after);
        self.after = next.unwrap_or_default();
        records
    }
}

fn unexpected(answer: &Answer) -> Error {
    Error::MonitorProtocol(format!("it answered with {answer:?}"))
}

/// Converts an error in a part of a text to one in the whole text.
fn offset_error(text: &str, part: &str, error: TextError) -> TextError {
    TextError { text: text.to_owned(), offset: error.offset + text.len() - part.len(), ..error }
}

impl From<NameFault> for Error {
    fn from(fault: NameFault) -> Error {
        Error::Monitor(Fault::Name { fault })
    }
}

impl Error {
    /// Returns the fault if this is an error of a request about names.
    #[must_use]
    pub fn name_fault(&self) -> Option<&NameFault> {
        match self {
            Error::Monitor(Fault::Name { fault }) => Some(fault),
            _ => None,
        }
    }
}
