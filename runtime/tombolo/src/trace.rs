//! Tracing: what a program adds to the trace of its machine, and reading such traces.
//!
//! Channels trace by themselves what passes through them, while a recording runs (`tombolo trace record`). A
//! program can add what it is about: spans of time, markers and values. While no recording runs each costs a
//! load and a branch.
//!
//! ```
//! fn sort(numbers: &mut [u32]) {
//!     let _span = tombolo::trace::span("sort");
//!     numbers.sort_unstable();
//!     tombolo::trace::marker("sorted", numbers.len() as u64);
//! }
//! sort(&mut [3, 1, 2]);
//! ```

mod collect;

use std::marker::PhantomData;
use std::sync::Arc;

use tombolo_base::DomainId;
use tombolo_control::{Reply, Request};
use tombolo_transport::trace::{EventKind, NewEvent, Recorder};

pub use collect::{CollectError, Collector, Summary};
pub use tombolo_control::MAX_TRACE_READ_BYTES;
use tombolo_control::TracedInfo;
pub use tombolo_trace::snapshot::RowInfo;

use crate::domain::Domain;
use crate::error::Error;
use crate::monitor::ANSWER_TIMEOUT;
use crate::monitor::unexpected;
use crate::recorder::own;

/// Whether a recording runs now: for values that are costly to compute and needed only for the trace.
#[inline]
#[must_use]
pub fn is_on() -> bool {
    own().is_some()
}

/// A span of time. It ends when this is dropped, on the thread on which it began.
#[derive(Debug)]
#[must_use = "a span ends when it is dropped"]
pub struct Span {
    began: Option<(&'static Arc<Recorder>, u64)>,
    /// Spans nest within a thread, so they do not move to another.
    _thread: PhantomData<*const ()>,
}

/// Begins a span. Spans of a thread nest. `name` should be one of few: each takes room in the trace page, and
/// a name that finds none shows as `?`.
#[inline]
pub fn span(name: &str) -> Span {
    Span { began: own().map(|recorder| begin(recorder, name)), _thread: PhantomData }
}

#[cold]
fn begin(recorder: &'static Arc<Recorder>, name: &str) -> (&'static Arc<Recorder>, u64) {
    let text = recorder.text(name);
    recorder.record(NewEvent::of(EventKind::SpanBegin, text, 0));
    (recorder, text)
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if let Some((recorder, text)) = self.began {
            recorder.record(NewEvent::of(EventKind::SpanEnd, text, 0));
        }
    }
}

/// Notes that something happened, with a number of the program's choice. Names as of [`span`].
#[inline]
pub fn marker(name: &str, value: u64) {
    if let Some(recorder) = own() {
        recorder.record(NewEvent::of(EventKind::Marker, recorder.text(name), value));
    }
}

/// Notes what something is now: the length of a queue, say. Viewers draw it as a line. Names as of [`span`].
#[inline]
pub fn value(name: &str, value: u64) {
    if let Some(recorder) = own() {
        recorder.record(NewEvent::of(EventKind::Value, recorder.text(name), value));
    }
}

/// How a recording is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Recording {
    /// When the room is used up: keep the first events, rather than the latest.
    pub keep_first: bool,
    /// It ends when this domain does.
    pub while_attached: bool,
}

/// The domains with a trace page, dead ones included whose page is kept, and whether the machine traces now.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Traced {
    /// By id.
    pub domains: Vec<TracedInfo>,
    /// Whether the machine traces now.
    pub on: bool,
}

impl Domain {
    /// Starts to trace on all nodes. From then on the pages of domains that die are kept.
    ///
    /// # Errors
    /// [`Error::Monitor`] when the machine traces already.
    pub fn start_trace(&self, recording: Recording) -> Result<(), Error> {
        let Recording { keep_first, while_attached } = recording;
        self.link.ask(Request::Trace { on: true, keep_first, while_attached }, ANSWER_TIMEOUT).map(|_| ())
    }

    /// Stops tracing on all nodes. What was recorded stays, to be read; stopping once more discards the
    /// records of domains that have ended.
    ///
    /// # Errors
    /// [`Error::MonitorLost`].
    pub fn stop_trace(&self) -> Result<(), Error> {
        let stop = Request::Trace { on: false, keep_first: false, while_attached: false };
        self.link.ask(stop, ANSWER_TIMEOUT).map(|_| ())
    }

    /// Whether the machine traces now.
    ///
    /// # Errors
    /// [`Error::MonitorLost`].
    pub fn is_tracing(&self) -> Result<bool, Error> {
        // After the last of all domains there is none to tell of.
        match self.link.ask(Request::Traced { after: u64::MAX }, ANSWER_TIMEOUT)?.0 {
            Reply::Traced { on, .. } => Ok(on),
            other => Err(unexpected(&other)),
        }
    }

    /// Who has a trace page.
    ///
    /// # Errors
    /// [`Error::MonitorLost`].
    pub fn traced(&self) -> Result<Traced, Error> {
        let mut all = Traced::default();
        loop {
            let after = all.domains.last().map_or(0, |domain| domain.id.to_bits());
            match self.link.ask(Request::Traced { after }, ANSWER_TIMEOUT)?.0 {
                Reply::Traced { domains, more, on } => {
                    let done = !more || domains.is_empty();
                    all.domains.extend(domains);
                    all.on = on;
                    if done {
                        return Ok(all);
                    }
                }
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// Reads a part of a domain's trace page: up to `length_bytes`, at most [`MAX_TRACE_READ_BYTES`].
    ///
    /// # Errors
    /// [`Error::Monitor`] when there is no such page any more.
    pub fn read_trace(
        &self,
        domain: DomainId,
        offset_bytes: u64,
        length_bytes: u32,
    ) -> Result<Vec<u8>, Error> {
        match self.link.ask(Request::TraceRead { domain, offset_bytes, length_bytes }, ANSWER_TIMEOUT)?.0 {
            Reply::TraceRead { bytes } => Ok(bytes),
            other => Err(unexpected(&other)),
        }
    }
}
