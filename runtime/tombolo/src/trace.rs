//! Tracing: what a program adds to the trace of its machine. The crate `tombolo-admin` starts and reads
//! traces.
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

use std::marker::PhantomData;
use std::sync::Arc;

use tombolo_transport::trace::{EventKind, NewEvent, Recorder};

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
