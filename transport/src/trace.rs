//! Writes trace events: the recorder of a domain, shared by all its threads and channels.
//!
//! A thread that writes acquires a lane of the domain's trace page and releases it when it ends, so that no
//! two threads write to one lane. While tracing is off none of this runs.

mod lane;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use tombolo_base::SharedMemory;
use tombolo_base::hash::fnv1a;
use tombolo_platform::clock::TimestampClock;
use tombolo_platform::lock_unpoisoned;
use tombolo_trace::event::Event;
use tombolo_trace::layout::PageError;
use tombolo_trace::page::{Identity, Page, Row, RowDescription, Switch};

pub use tombolo_trace::event::EventKind;

/// State shared by all writers to one trace page.
#[derive(Debug)]
pub struct Recorder {
    page: Page,
    switch: Switch,
    clock: TimestampClock,
    lanes: Mutex<Lanes>,
    rows: Mutex<Rows>,
    names: Mutex<NameTable>,
}

/// Allocation state of lanes.
#[derive(Debug, Default)]
struct Lanes {
    in_use: Vec<bool>,
    threads: u16,
}

/// Allocation state of rows of counters.
#[derive(Debug, Default)]
struct Rows {
    used: usize,
    /// Released rows, the oldest first, so that their last values stay visible as long as possible.
    free: VecDeque<usize>,
}

/// Names that the page already contains.
#[derive(Debug, Default)]
struct NameTable {
    used_bytes: usize,
    known: HashMap<String, Option<u64>>,
}

/// Event to record, without its time and thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewEvent {
    /// Kind of the event.
    pub kind: EventKind,
    /// Whether the event happened at the accepting end of the channel.
    pub accepting: bool,
    /// Length of the message in bytes, for events about messages.
    pub size: u32,
    /// Object concerned; see [`EventKind`].
    pub subject: u64,
    /// Additional value; see [`EventKind`].
    pub value: u64,
}

impl NewEvent {
    /// Creates an event that concerns no channel and no message.
    #[must_use]
    pub fn of(kind: EventKind, subject: u64, value: u64) -> NewEvent {
        NewEvent { kind, accepting: false, size: 0, subject, value }
    }
}

/// Returns an identifier of the kernel whose monotonic clock this process reads; 0 if unknown.
fn kernel_clock_id() -> u64 {
    std::fs::read("/proc/sys/kernel/random/boot_id").map_or(0, |id| fnv1a(id.trim_ascii()))
}

impl Recorder {
    /// Creates a recorder that writes to the page in `memory`, for the domain with the bits `domain` on this
    /// instruction set.
    ///
    /// # Errors
    /// [`PageError`] when the memory is not a trace page.
    pub fn new(memory: SharedMemory, domain: u64, isa: u8) -> Result<Arc<Recorder>, PageError> {
        let recorder = Recorder::with_page(Page::open(memory)?);
        let (ticks, monotonic_ns) = recorder.clock.anchor();
        recorder.page.identify(Identity {
            domain,
            pid: std::process::id(),
            isa,
            ticks_per_s: recorder.clock.ticks_per_s(),
            clock: kernel_clock_id(),
            ticks,
            monotonic_ns,
        });
        Ok(Arc::new(recorder))
    }

    /// Creates a recorder that is always off.
    #[must_use]
    pub fn disabled() -> Arc<Recorder> {
        Arc::new(Recorder::with_page(Page::private()))
    }

    fn with_page(page: Page) -> Recorder {
        // An earlier user of the page, in the same domain, left its rows in it.
        let rows = Rows { used: page.rows_used(), free: VecDeque::new() };
        let names = NameTable { used_bytes: page.text_used_bytes(), known: HashMap::new() };
        Recorder {
            switch: page.switch(),
            clock: TimestampClock::detect(),
            lanes: Mutex::new(Lanes { in_use: vec![false; page.shape().lanes], threads: 0 }),
            rows: Mutex::new(rows),
            names: Mutex::new(names),
            page,
        }
    }

    /// Whether tracing is on. Costs one load.
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.switch.is_on()
    }

    /// Returns a handle that reports whether tracing is on.
    #[must_use]
    pub fn switch(&self) -> Switch {
        self.switch.clone()
    }

    /// Returns the current timestamp, for [`record_at`](Self::record_at).
    #[inline]
    #[must_use]
    pub fn ticks(&self) -> u64 {
        self.clock.ticks()
    }

    /// Records an event at the current time.
    pub fn record(self: &Arc<Self>, event: NewEvent) {
        self.record_at(self.ticks(), event);
    }

    /// Records an event that happened at `ticks`, before another thread could see it.
    pub fn record_at(self: &Arc<Self>, ticks: u64, event: NewEvent) {
        let NewEvent { kind, accepting, size, subject, value } = event;
        lane::write(self, Event { ticks, kind, accepting, thread: 0, size, subject, value });
    }

    /// Returns the number that stands for a name in events, or 0 if the page has no room for it.
    #[must_use]
    pub fn intern_name(&self, name: &str) -> u64 {
        let mut names = lock_unpoisoned(&self.names);
        if let Some(known) = names.known.get(name) {
            return known.unwrap_or(0);
        }
        let written = self.page.write_text(&mut names.used_bytes, name);
        // A name that found no room will not find any later, so it is not retried.
        names.known.insert(name.to_owned(), written);
        written.unwrap_or(0)
    }

    fn acquire_lane(&self) -> Option<(usize, u16)> {
        let mut lanes = lock_unpoisoned(&self.lanes);
        let lane = lanes.in_use.iter().position(|in_use| !in_use)?;
        lanes.in_use[lane] = true;
        lanes.threads = lanes.threads.wrapping_add(1);
        Some((lane, lanes.threads))
    }

    fn release_lane(&self, lane: usize) {
        if let Some(in_use) = lock_unpoisoned(&self.lanes).in_use.get_mut(lane) {
            *in_use = false;
        }
    }

    /// Allocates a row of counters for a channel end and returns it with its number. Returns a row that is
    /// not shown if all are in use.
    pub(crate) fn acquire_row(&self, described: &RowDescription) -> (Row, Option<usize>) {
        let number = {
            let mut rows = lock_unpoisoned(&self.rows);
            if rows.used < self.page.shape().rows {
                rows.used += 1;
                self.page.set_rows_used(rows.used);
                Some(rows.used - 1)
            } else {
                rows.free.pop_front()
            }
        };
        let Some(row) = number.and_then(|number| self.page.row(number)) else {
            self.page.count_channel_without_row();
            return (Row::private(), None);
        };
        row.describe(described);
        (row, number)
    }

    pub(crate) fn release_row(&self, number: usize) {
        lock_unpoisoned(&self.rows).free.push_back(number);
    }
}
