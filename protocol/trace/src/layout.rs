//! Where everything of a trace page lies. `docs/specs/trace.md` says the same in words.
//!
//! A page is words of 64 bits, little-endian. Its monitor writes the header, the control line and the bases, before
//! or while the domain uses it; the domain writes the rest. A domain can write all of it, so whoever reads it from
//! outside believes none of it: see [`crate::snapshot`].

/// First word of every page: `TBLTRACE`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TBLTRACE");

/// Version of this layout.
pub const VERSION: u64 = 1;

/// Bytes of the first part: everything of a fixed size. It is what a monitor maps.
pub const HEAD_BYTES: usize = 4096;

/// Bytes of an event.
pub const EVENT_BYTES: usize = 32;

/// Bytes of a row of counters.
pub const ROW_BYTES: usize = 128;

/// Lanes that a page can have.
pub const MAX_LANES: usize = 24;

/// Events that a lane can hold.
pub const MAX_LANE_EVENTS: usize = 1 << 20;

/// Rows that a page can have.
pub const MAX_ROWS: usize = 1 << 16;

/// Bytes of text that a page can hold.
pub const MAX_TEXT_BYTES: usize = 1 << 20;

/// The control word, on a line of its own. Zero: do not trace. Written by the monitor.
pub const CONTROL_WORD: usize = 16;

/// Where each lane stood when the recording began, in events. Written by the monitor.
pub(crate) const BASE_WORD: usize = 32;

/// Who writes: domain, process, instruction set and clock. Written by the domain as it attaches.
pub(crate) const IDENTITY_WORD: usize = 64;

/// What found no room: events of threads without a lane, ends of channels without a row, text.
pub(crate) const LOSS_WORD: usize = 80;

/// How many rows and bytes of text are in use.
pub(crate) const USED_WORD: usize = 96;

/// First word of the lanes' own lines.
pub(crate) const LANE_WORD: usize = 128;

/// Words of a lane's line: events written, events lost, number of the thread.
pub(crate) const LANE_LINE_WORDS: usize = 16;

/// Bit of the control word: trace.
pub const CONTROL_ON: u64 = 1;

/// Bit of the control word: a lane that is full keeps what it has, rather than the latest.
pub const CONTROL_KEEP_FIRST: u64 = 2;

/// The control word of a recording. Each has another `epoch`.
#[must_use]
pub const fn control_on(epoch: u32, keep_first: bool) -> u64 {
    CONTROL_ON | if keep_first { CONTROL_KEEP_FIRST } else { 0 } | (epoch as u64) << 32
}

/// How large the parts of a page are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Rings of events.
    pub lanes: usize,
    /// Events of each, a power of two.
    pub lane_events: usize,
    /// Rows of counters.
    pub rows: usize,
    /// Bytes of text.
    pub text_bytes: usize,
}

impl Default for Shape {
    /// 16 lanes of 32,768 events, 16,384 rows: 18 MiB, of which only what is used takes memory.
    fn default() -> Self {
        Shape { lanes: 16, lane_events: 1 << 15, rows: 1 << 14, text_bytes: 1 << 16 }
    }
}

/// What is in memory is no page that this version understands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotAPage {
    /// It does not start as one.
    #[error("it does not start with TBLTRACE")]
    Magic,
    /// Another version.
    #[error("it has version {0}, and version {VERSION} is understood")]
    Version(u64),
    /// Sizes that no page has.
    #[error(
        "it says to have {lanes} lanes of {lane_events} events, {rows} rows and {text_bytes} bytes of text"
    )]
    Shape {
        /// Lanes.
        lanes: u64,
        /// Events of each.
        lane_events: u64,
        /// Rows.
        rows: u64,
        /// Bytes of text.
        text_bytes: u64,
    },
    /// Less than it says.
    #[error("it has {available_bytes} bytes where {needed_bytes} are needed")]
    Short {
        /// Bytes there are.
        available_bytes: usize,
        /// Bytes it takes.
        needed_bytes: usize,
    },
}

impl Shape {
    /// The first six words of the header.
    #[must_use]
    pub fn header(&self) -> [u64; 6] {
        [MAGIC, VERSION, self.lanes as u64, self.lane_events as u64, self.rows as u64, self.text_bytes as u64]
    }

    /// Reads the header.
    ///
    /// # Errors
    /// [`NotAPage`].
    pub fn from_header(words: [u64; 6]) -> Result<Shape, NotAPage> {
        let [magic, version, lanes, lane_events, rows, text_bytes] = words;
        if magic != MAGIC {
            return Err(NotAPage::Magic);
        }
        if version != VERSION {
            return Err(NotAPage::Version(version));
        }
        let fits = (1..=MAX_LANES as u64).contains(&lanes)
            && (16..=MAX_LANE_EVENTS as u64).contains(&lane_events)
            && lane_events.is_power_of_two()
            && rows <= MAX_ROWS as u64
            && text_bytes <= MAX_TEXT_BYTES as u64
            && text_bytes.is_multiple_of(8);
        if !fits {
            return Err(NotAPage::Shape { lanes, lane_events, rows, text_bytes });
        }
        Ok(Shape {
            lanes: lanes as usize,
            lane_events: lane_events as usize,
            rows: rows as usize,
            text_bytes: text_bytes as usize,
        })
    }

    /// First byte of the rows.
    #[must_use]
    pub const fn rows_offset(&self) -> usize {
        HEAD_BYTES
    }

    /// First byte of the text.
    #[must_use]
    pub const fn text_offset(&self) -> usize {
        self.rows_offset() + self.rows * ROW_BYTES
    }

    /// First byte of a lane's events.
    #[must_use]
    pub const fn lane_offset(&self, lane: usize) -> usize {
        self.text_offset() + self.text_bytes + lane * self.lane_events * EVENT_BYTES
    }

    /// Bytes of all of it.
    #[must_use]
    pub const fn length_bytes(&self) -> usize {
        self.lane_offset(self.lanes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_the_head_do_not_overlap() {
        let ends = [
            (6, CONTROL_WORD),
            (CONTROL_WORD + 16, BASE_WORD),
            (BASE_WORD + MAX_LANES, IDENTITY_WORD),
            (IDENTITY_WORD + 6, LOSS_WORD),
            (LOSS_WORD + 16, USED_WORD),
            (USED_WORD + 16, LANE_WORD),
            (LANE_WORD + MAX_LANES * LANE_LINE_WORDS, HEAD_BYTES / 8),
        ];
        for (end, next) in ends {
            assert!(end <= next, "{end} {next}");
        }
    }

    #[test]
    fn shapes_are_checked_at_their_limits() {
        let good = Shape::default();
        assert_eq!(Shape::from_header(good.header()), Ok(good));
        let largest = Shape { lanes: 24, lane_events: 1 << 20, rows: 1 << 16, text_bytes: 1 << 20 };
        assert_eq!(Shape::from_header(largest.header()), Ok(largest));
        let smallest = Shape { lanes: 1, lane_events: 16, rows: 0, text_bytes: 0 };
        assert_eq!(Shape::from_header(smallest.header()), Ok(smallest));
        let bad = [
            Shape { lanes: 0, ..good },
            Shape { lanes: 25, ..good },
            Shape { lane_events: 8, ..good },
            Shape { lane_events: 48, ..good },
            Shape { lane_events: 1 << 21, ..good },
            Shape { rows: (1 << 16) + 1, ..good },
            Shape { text_bytes: 12, ..good },
            Shape { text_bytes: (1 << 20) + 8, ..good },
        ];
        for shape in bad {
            assert!(matches!(Shape::from_header(shape.header()), Err(NotAPage::Shape { .. })), "{shape:?}");
        }
        let mut header = good.header();
        header[1] = 2;
        assert_eq!(Shape::from_header(header), Err(NotAPage::Version(2)));
        header[0] = 0;
        assert_eq!(Shape::from_header(header), Err(NotAPage::Magic));
    }
}
