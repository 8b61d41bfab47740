//! Tracing: adds events of a program to the trace of its machine. The crate `tombolo-admin` starts and reads
//! traces.
//!
//! While a recording runs (`tombolo trace record`), channels trace their messages automatically. A program
//! can add spans of time, markers and values. While no recording runs, each of these costs a load and a
//! branch.
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

use crate::recorder::active_recorder;

/// Whether a recording is running: for values that are costly to compute and needed only for the trace.
#[inline]
#[must_use]
pub fn is_on() -> bool {
    active_recorder().is_some()
}

/// Span of time, which ends when this is dropped, on the thread on which it began.
#[derive(Debug)]
#[must_use = "a span ends when it is dropped"]
pub struct Span {
    began: Option<(&'static Arc<Recorder>, u64)>,
    /// Spans nest within a thread, so they cannot move to another.
    _thread: PhantomData<*const ()>,
}

/// Begins a span. Spans of a thread nest. Use few different names: each takes space in the trace page, and a
/// name that finds none appears as `?`.
#[inline]
pub fn span(name: &str) -> Span {
    Span { began: active_recorder().map(|recorder| begin(recorder, name)), _thread: PhantomData }
}

#[cold]
fn begin(recorder: &'static Arc<Recorder>, name: &str) -> (&'static Arc<Recorder>, u64) {
    let text = recorder.intern_name(name);
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

/// Records an event, with a number of the program's choice. Names as for [`span`].
#[inline]
pub fn marker(name: &str, value: u64) {
    if let Some(recorder) = active_recorder() {
        recorder.record(NewEvent::of(EventKind::Marker, recorder.intern_name(name), value));
    }
}

/// Records the current value of a quantity, for example the length of a queue. Viewers draw it as a line.
/// Names as for [`span`].
#[inline]
pub fn value(name: &str, value: u64) {
    if let Some(recorder) = active_recorder() {
        recorder.record(NewEvent::of(EventKind::Value, recorder.intern_name(name), value));
    }
}
