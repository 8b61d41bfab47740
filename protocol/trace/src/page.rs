//! Trace page as seen by its two writers: the monitor, which creates and controls it, and the domain.

use tombolo_base::sync::{AtomicU64, Ordering, store_both};
use tombolo_base::{SharedMemory, SharedWords};

use crate::event::Event;
use crate::layout::{
    BASE_WORD, CONTROL_KEEP_FIRST, CONTROL_WORD, EVENT_BYTES, HEAD_BYTES, IDENTITY_WORD, LANE_LINE_WORDS,
    LANE_WORD, LOSS_WORD, PageError, ROW_BYTES, Shape, USED_WORD,
};

/// Formats `head`, the first [`HEAD_BYTES`] of zeroed memory, as the head of a page.
pub fn init_page(head: &SharedMemory, shape: &Shape) {
    for (index, word) in shape.header().into_iter().enumerate().rev() {
        // Stores the magic last; readers that see it see everything before it.
        head.store_le(index, word, Ordering::Release);
    }
}

/// Turns tracing on or off. Writers notice it at their next event.
///
/// `head` is the first [`HEAD_BYTES`] of a page. The domain can write it, so its content is not trusted.
pub fn set_control(head: &SharedMemory, word: u64) {
    if word != 0 {
        // A writer that is still in the previous recording must not use the new bases.
        head.store_le(CONTROL_WORD, 0, Ordering::SeqCst);
        for lane in 0..crate::layout::MAX_LANES {
            let written = head.load_le(LANE_WORD + lane * LANE_LINE_WORDS, Ordering::Acquire);
            head.store_le(BASE_WORD + lane, written, Ordering::Relaxed);
        }
    }
    head.store_le(CONTROL_WORD, word, Ordering::Release);
}

/// Returns how many rows of a page have been in use, according to its domain, clamped to `shape`.
///
/// `head` is the first [`HEAD_BYTES`] of the page.
#[must_use]
pub fn rows_in_use(head: &SharedMemory, shape: &Shape) -> usize {
    let used = head.load_le(USED_WORD, Ordering::Acquire);
    usize::try_from(used).unwrap_or(usize::MAX).min(shape.rows)
}

/// Writer of a page, and its clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Identity {
    /// Id of the domain, as bits.
    pub domain: u64,
    /// Process id in its own kernel.
    pub pid: u32,
    /// Code of the instruction set.
    pub isa: u8,
    /// Ticks of its clock per second; 0 if unknown.
    pub ticks_per_s: u64,
    /// Identifier of the kernel whose monotonic clock it reads: domains with the same value share a clock.
    pub clock: u64,
    /// Time on its clock.
    pub ticks: u64,
    /// Same time on the monotonic clock, in nanoseconds.
    pub monotonic_ns: u64,
}

impl Identity {
    pub(crate) fn to_words(self) -> [u64; 6] {
        let process = u64::from(self.pid) | u64::from(self.isa) << 32;
        [self.domain, process, self.ticks_per_s, self.clock, self.ticks, self.monotonic_ns]
    }

    pub(crate) fn from_words([domain, process, ticks_per_s, clock, ticks, monotonic_ns]: [u64; 6]) -> Self {
        let (pid, isa) = (process as u32, (process >> 32) as u8);
        Identity { domain, pid, isa, ticks_per_s, clock, ticks, monotonic_ns }
    }
}

/// Page as used by its domain.
#[derive(Clone, Debug)]
pub struct Page {
    memory: SharedMemory,
    control: SharedMemory,
    shape: Shape,
}

impl Page {
    /// Opens the page that a writer has formatted in `memory`.
    ///
    /// # Errors
    /// [`PageError`], with the reason.
    pub fn open(memory: SharedMemory) -> Result<Page, PageError> {
        let short = |needed_bytes| PageError::Short { available_bytes: memory.len_bytes(), needed_bytes };
        if memory.len_bytes() < HEAD_BYTES {
            return Err(short(HEAD_BYTES));
        }
        let word = |index| memory.load_le(index, Ordering::Acquire);
        let shape = Shape::from_header([word(0), word(1), word(2), word(3), word(4), word(5)])?;
        let control = memory.slice(CONTROL_WORD * 8, 8).map_err(|_| short(HEAD_BYTES))?;
        if memory.len_bytes() < shape.length_bytes() {
            return Err(short(shape.length_bytes()));
        }
        Ok(Page { memory, control, shape })
    }

    /// Creates a page private to this process, for a program without a monitor. It counts, but tracing is
    /// off.
    #[must_use]
    pub fn private() -> Page {
        let shape = Shape { lanes: 1, lane_events: 16, rows: 0, text_bytes: 0 };
        let memory = SharedMemory::zeroed(shape.length_bytes());
        init_page(&memory, &shape);
        let control = memory.clone();
        let page = Page { memory, control, shape };
        Page { control: page.part(CONTROL_WORD * 8, 8), ..page }
    }

    /// Returns the sizes of the page's parts.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns a handle for cheap checks of the control word.
    #[must_use]
    pub fn switch(&self) -> Switch {
        Switch { word: SharedWords::first_of(self.control.clone()) }
    }

    /// Writes the writer's identity.
    pub fn identify(&self, identity: Identity) {
        for (index, word) in identity.to_words().into_iter().enumerate() {
            self.memory.store_le(IDENTITY_WORD + index, word, Ordering::Relaxed);
        }
    }

    /// Returns the writer of a lane, or `None` beyond the last lane. The caller must ensure that there is
    /// only one at a time.
    #[must_use]
    pub fn lane(&self, lane: usize) -> Option<LaneWriter> {
        if lane >= self.shape.lanes {
            return None;
        }
        let events = self.part(self.shape.lane_offset(lane), self.shape.lane_events * EVENT_BYTES);
        let line = self.part((LANE_WORD + lane * LANE_LINE_WORDS) * 8, LANE_LINE_WORDS * 8);
        let base = self.part((BASE_WORD + lane) * 8, 8);
        let (written, lost) = (line.load_le(0, Ordering::Relaxed), line.load_le(1, Ordering::Relaxed));
        Some(LaneWriter { switch: self.switch(), events, line, base, written, lost })
    }

    /// Counts an event of a thread without a lane.
    pub fn count_event_without_lane(&self) {
        self.add(LOSS_WORD, 1);
    }

    /// Returns a row of counters, for a single channel end to write, or `None` beyond the last row.
    #[must_use]
    pub fn row(&self, row: usize) -> Option<Row> {
        (row < self.shape.rows).then(|| Row::on(self.part(HEAD_BYTES + row * ROW_BYTES, ROW_BYTES)))
    }

    /// Counts a channel end without a row.
    pub fn count_channel_without_row(&self) {
        self.add(LOSS_WORD + 1, 1);
    }

    /// Returns the number of rows that have been in use, according to the page.
    #[must_use]
    pub fn rows_used(&self) -> usize {
        self.used(0).min(self.shape.rows)
    }

    /// Returns the bytes of text in use, according to the page.
    #[must_use]
    pub fn text_used_bytes(&self) -> usize {
        self.used(1).min(self.shape.text_bytes)
    }

    fn used(&self, which: usize) -> usize {
        usize::try_from(self.memory.load_le(USED_WORD + which, Ordering::Acquire)).unwrap_or(usize::MAX)
    }

    /// Sets the number of rows that have been in use.
    pub fn set_rows_used(&self, rows: usize) {
        self.memory.store_le(USED_WORD, rows as u64, Ordering::Release);
    }

    /// Appends a text and returns its number in events, or `None` if there is no room. `used_bytes` is the
    /// offset to write at, kept by the only writer of texts.
    pub fn write_text(&self, used_bytes: &mut usize, text: &str) -> Option<u64> {
        let room = self.shape.text_bytes - *used_bytes;
        let needed = 8 + text.len().next_multiple_of(8);
        if needed > room {
            self.add(LOSS_WORD + 2, 1);
            return None;
        }
        let entry = self.part(self.shape.text_offset() + *used_bytes, needed);
        entry.store_le(0, text.len() as u64, Ordering::Relaxed);
        // Cannot fail: the entry has the length of the text.
        let _ = entry.copy_in(8, text.as_bytes());
        let number = *used_bytes as u64 / 8 + 1;
        *used_bytes += needed;
        self.memory.store_le(USED_WORD + 1, *used_bytes as u64, Ordering::Release);
        Some(number)
    }

    fn add(&self, word: usize, count: u64) {
        let cell = &self.memory.words()[word];
        // Written only by threads of this process. A plain counter that orders nothing.
        let _ = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |bits| {
            Some(u64::from_le(bits).wrapping_add(count).to_le())
        });
    }

    /// Returns a part of the page that is guaranteed to exist by its shape.
    fn part(&self, offset_bytes: usize, length_bytes: usize) -> SharedMemory {
        self.memory.slice(offset_bytes, length_bytes).unwrap_or_else(|_| SharedMemory::zeroed(length_bytes))
    }
}

/// Handle that reports whether tracing is on, with one load.
#[derive(Clone, Debug)]
pub struct Switch {
    word: SharedWords<1>,
}

impl Switch {
    /// Whether tracing is on.
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.word.words()[0].load(Ordering::Relaxed) != 0
    }

    /// Returns the whole control word.
    #[inline]
    #[must_use]
    pub fn control(&self) -> u64 {
        self.word.load_current_le::<0>(Ordering::Acquire)
    }
}

/// Writer of the events of one thread.
#[derive(Debug)]
pub struct LaneWriter {
    switch: Switch,
    events: SharedMemory,
    line: SharedMemory,
    base: SharedMemory,
    written: u64,
    lost: u64,
}

impl LaneWriter {
    /// Returns the total number of events written.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Sets the number of the thread that writes from now on.
    pub fn set_thread(&self, thread: u16) {
        self.line.store_le(2, u64::from(thread), Ordering::Relaxed);
    }

    /// Returns the control word of the page.
    #[must_use]
    pub fn control(&self) -> u64 {
        self.switch.control()
    }

    /// Writes an event, overwriting the oldest one. If the recording keeps the first events and the lane is
    /// full, counts the event as lost instead.
    pub fn write(&mut self, event: &Event) {
        let words = self.events.words();
        let capacity = (words.len() * 8 / EVENT_BYTES) as u64;
        if self.control() & CONTROL_KEEP_FIRST != 0 {
            let since = self.written.wrapping_sub(self.base.load_le(0, Ordering::Relaxed));
            if since >= capacity {
                self.lost = self.lost.wrapping_add(1);
                return self.line.store_le(1, self.lost, Ordering::Relaxed);
            }
        }
        let first = (self.written % capacity) as usize * (EVENT_BYTES / 8);
        for (cell, word) in words[first..].iter().zip(event.to_words()) {
            cell.store(word.to_le(), Ordering::Relaxed);
        }
        self.written = self.written.wrapping_add(1);
        // Readers that see the number also see the event.
        self.line.store_le(0, self.written, Ordering::Release);
    }
}

/// Description of a channel end in its row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowDescription {
    /// Id of the channel.
    pub channel: u64,
    /// Id of the peer domain, as bits.
    pub peer: u64,
    /// Whether it is the accepting end.
    pub accepting: bool,
    /// Index of the transport in the list of transports.
    pub transport: u8,
    /// Message limit, in bytes.
    pub max_message_bytes: u64,
    /// Time at which it was opened, in nanoseconds on the monotonic clock.
    pub opened_ns: u64,
    /// Slots of the ring that it sends on; 0 without a ring.
    pub slots: u32,
}

/// State of a channel end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum RowState {
    /// The row was never used.
    Free = 0,
    /// The channel is open.
    Open = 1,
    /// This end closed the channel.
    Closed = 2,
    /// The peer closed the channel.
    PeerClosed = 3,
    /// The peer died.
    PeerDied = 4,
    /// The peer violated the protocol.
    Broken = 5,
}

impl RowState {
    pub(crate) fn from_code(code: u8) -> Option<RowState> {
        use RowState::{Broken, Closed, Free, Open, PeerClosed, PeerDied};
        [Free, Open, Closed, PeerClosed, PeerDied, Broken].get(usize::from(code)).copied()
    }
}

/// Index of the word with the channel.
pub(crate) const ROW_CHANNEL: usize = 0;
/// Index of the word with state, end and transport.
pub(crate) const ROW_STATE: usize = 1;
/// Index of the word with the peer.
pub(crate) const ROW_PEER: usize = 2;
/// Index of the word with the opening time.
pub(crate) const ROW_OPENED: usize = 3;
/// Index of the first of six words: messages and bytes sent, messages and bytes received, rings, sleeps.
pub(crate) const ROW_COUNTERS: usize = 4;
/// Index of the word with the message limit.
pub(crate) const ROW_MAX: usize = 10;
/// Index of the word that counts sends without room.
pub(crate) const ROW_STALLS: usize = 11;
/// Index of the word with the slots of the sending ring, and how many of them were last known to be free.
pub(crate) const ROW_SLOTS: usize = 12;

/// Counters of one channel end, in memory that others read.
#[derive(Clone, Debug)]
pub struct Row {
    line: SharedMemory,
    /// The same line, for counters that are updated with each message.
    words: SharedWords<{ ROW_BYTES / 8 }>,
}

impl Row {
    /// Creates a row without readers.
    #[must_use]
    pub fn private() -> Row {
        Row::on(SharedMemory::zeroed(ROW_BYTES))
    }

    /// Creates a row in `line`.
    ///
    /// # Panics
    /// Panics if `line` has fewer than [`ROW_BYTES`]. Its length comes from the caller.
    #[must_use]
    pub fn on(line: SharedMemory) -> Row {
        Row { words: SharedWords::first_of(line.clone()), line }
    }

    /// Starts counting for a channel end.
    pub fn describe(&self, described: &RowDescription) {
        self.line.store_le(ROW_STATE, 0, Ordering::Relaxed);
        for word in ROW_COUNTERS..ROW_MAX {
            self.line.store_le(word, 0, Ordering::Relaxed);
        }
        self.line.store_le(ROW_CHANNEL, described.channel, Ordering::Release);
        self.line.store_le(ROW_PEER, described.peer, Ordering::Relaxed);
        self.line.store_le(ROW_OPENED, described.opened_ns, Ordering::Relaxed);
        self.line.store_le(ROW_MAX, described.max_message_bytes, Ordering::Relaxed);
        self.line.store_le(ROW_STALLS, 0, Ordering::Relaxed);
        self.set_room(described.slots, described.slots);
        let rest = u64::from(described.accepting) << 8 | u64::from(described.transport) << 16;
        self.line.store_le(ROW_STATE, rest | RowState::Open as u64, Ordering::Release);
    }

    /// Sets the state. Once a final state is set it is never replaced.
    pub fn set_state(&self, state: RowState) {
        let word = self.line.load_le(ROW_STATE, Ordering::Relaxed);
        if word as u8 <= RowState::Open as u8 {
            self.line.store_le(ROW_STATE, word & !0xff | state as u64, Ordering::Release);
        }
    }

    /// Sets the numbers of messages and bytes sent.
    #[inline]
    pub fn set_sent(&self, messages: u64, bytes: u64) {
        set(self.pair::<ROW_COUNTERS>(), [messages, bytes]);
    }

    /// Sets the numbers of messages and bytes received.
    #[inline]
    pub fn set_received(&self, messages: u64, bytes: u64) {
        set(self.pair::<{ ROW_COUNTERS + 2 }>(), [messages, bytes]);
    }

    /// Adds to the numbers of messages and bytes sent.
    #[inline(always)]
    pub fn add_sent(&self, messages: u64, bytes: u64) {
        add(self.pair::<ROW_COUNTERS>(), [messages, bytes]);
    }

    /// Adds to the numbers of messages and bytes received.
    #[inline(always)]
    pub fn add_received(&self, messages: u64, bytes: u64) {
        add(self.pair::<{ ROW_COUNTERS + 2 }>(), [messages, bytes]);
    }

    /// Sets the number of rings of the peer and of sleeps of this end.
    pub fn set_rings_and_sleeps(&self, rings: u64, sleeps: u64) {
        set(self.pair::<{ ROW_COUNTERS + 4 }>(), [rings, sleeps]);
    }

    /// Sets the number of sends that found no room.
    pub fn set_stalls(&self, stalls: u64) {
        self.line.store_le(ROW_STALLS, stalls, Ordering::Relaxed);
    }

    /// Sets the slots of the sending ring, and how many of them are known to be free.
    pub fn set_room(&self, slots: u32, free_slots: u32) {
        let word = u64::from(slots) | u64::from(free_slots) << 32;
        self.line.store_le(ROW_SLOTS, word, Ordering::Relaxed);
    }

    #[inline(always)]
    fn pair<const FIRST: usize>(&self) -> &[AtomicU64; 2] {
        const { assert!(FIRST.is_multiple_of(2) && FIRST < ROW_BYTES / 8) };
        let (pairs, _) = self.words.words().as_chunks();
        &pairs[FIRST / 2]
    }
}

// Does not use `map` of arrays: without inlining across codegen units it is a call for each message.

#[inline(always)]
fn set(pair: &[AtomicU64; 2], [first, second]: [u64; 2]) {
    store_both(pair, [first.to_le(), second.to_le()]);
}

/// Readers can write the page, so the old value may be arbitrary. Nothing relies on these counters.
#[inline(always)]
fn add(pair: &[AtomicU64; 2], [first, second]: [u64; 2]) {
    let before = |word: &AtomicU64| u64::from_le(word.load(Ordering::Relaxed));
    set(pair, [before(&pair[0]).wrapping_add(first), before(&pair[1]).wrapping_add(second)]);
}
