//! Layout of a trace page, specified in `docs/specs/trace.md`.
//!
//! A page consists of little-endian 64-bit words. Its monitor writes the header, the control line and the
//! bases, before or while the domain uses it; the domain writes everything else. Because a domain can write
//! all of the page, readers outside trust none of it: see [`crate::snapshot`].

/// First word of every page: `TBLTRACE`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TBLTRACE");

/// Version of this layout.
pub const VERSION: u64 = 1;

/// Size of the first part, which is fixed and which a monitor maps, in bytes.
pub const HEAD_BYTES: usize = 4096;

/// Size of an event, in bytes.
pub const EVENT_BYTES: usize = 32;

/// Size of a row of counters, in bytes.
pub const ROW_BYTES: usize = 128;

/// Maximum number of lanes of a page.
pub const MAX_LANES: usize = 24;

/// Maximum number of events of a lane.
pub const MAX_LANE_EVENTS: usize = 1 << 20;

/// Maximum number of rows of a page.
pub const MAX_ROWS: usize = 1 << 16;

/// Maximum size of the text in a page, in bytes.
pub const MAX_TEXT_BYTES: usize = 1 << 20;

/// Index of the control word, which has a line of its own. Zero means that tracing is off. Written by the
/// monitor.
pub const CONTROL_WORD: usize = 16;

/// Index of each lane's event count at the start of the recording. Written by the monitor.
pub(crate) const BASE_WORD: usize = 32;

/// Index of the writer's identity: domain, process, instruction set and clock. Written by the domain.
pub(crate) const IDENTITY_WORD: usize = 64;

/// Index of the loss counters: events without a lane, channel ends without a row, texts.
pub(crate) const LOSS_WORD: usize = 80;

/// Index of the numbers of rows and bytes of text in use.
pub(crate) const USED_WORD: usize = 96;

/// Index of the lanes' own lines.
pub(crate) const LANE_WORD: usize = 128;

/// Words in a lane's line: events written, events lost, number of the thread.
pub(crate) const LANE_LINE_WORDS: usize = 16;

/// Bit of the control word that turns tracing on.
pub const CONTROL_ON: u64 = 1;

/// Bit of the control word that makes a full lane keep its first events, not the latest.
pub const CONTROL_KEEP_FIRST: u64 = 2;

/// Returns the control word of a recording. Each recording has a different `epoch`.
#[must_use]
pub const fn control_on(epoch: u32, keep_first: bool) -> u64 {
    CONTROL_ON | if keep_first { CONTROL_KEEP_FIRST } else { 0 } | (epoch as u64) << 32
}

/// Sizes of the parts of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Number of lanes.
    pub lanes: usize,
    /// Number of events in each lane, a power of two.
    pub lane_events: usize,
    /// Number of rows of counters.
    pub rows: usize,
    /// Size of the text, in bytes.
    pub text_bytes: usize,
}

impl Default for Shape {
    /// Returns 16 lanes of 32,768 events and 16,384 rows: 18 MiB, of which only used parts take memory.
    fn default() -> Self {
        Shape { lanes: 16, lane_events: 1 << 15, rows: 1 << 14, text_bytes: 1 << 16 }
    }
}

/// Error of memory that is not a page of this version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum PageError {
    /// The memory does not begin with the magic of a page.
    #[error("the trace page does not start with TBLTRACE")]
    Magic,
    /// The page has another version.
    #[error("the trace page has version {0}; this program reads version {VERSION}")]
    Version(u64),
    /// The sizes are invalid.
    #[error(
        "the trace page has invalid sizes: {lanes} lanes of {lane_events} events, {rows} rows and {text_bytes} bytes of text"
    )]
    Shape { lanes: u64, lane_events: u64, rows: u64, text_bytes: u64 },
    /// The memory is shorter than the header claims.
    #[error("the trace page has {available_bytes} bytes; {needed_bytes} are needed")]
    Short { available_bytes: usize, needed_bytes: usize },
}

impl Shape {
    /// Encodes the first six words of the header.
    #[must_use]
    pub fn header(&self) -> [u64; 6] {
        [MAGIC, VERSION, self.lanes as u64, self.lane_events as u64, self.rows as u64, self.text_bytes as u64]
    }

    /// Decodes the first six words of the header.
    ///
    /// # Errors
    /// [`PageError`], with the reason.
    pub fn from_header(words: [u64; 6]) -> Result<Shape, PageError> {
        let [magic, version, lanes, lane_events, rows, text_bytes] = words;
        if magic != MAGIC {
            return Err(PageError::Magic);
        }
        if version != VERSION {
            return Err(PageError::Version(version));
        }
        let fits = (1..=MAX_LANES as u64).contains(&lanes)
            && (16..=MAX_LANE_EVENTS as u64).contains(&lane_events)
            && lane_events.is_power_of_two()
            && rows <= MAX_ROWS as u64
            && text_bytes <= MAX_TEXT_BYTES as u64
            && text_bytes.is_multiple_of(8);
        if !fits {
            return Err(PageError::Shape { lanes, lane_events, rows, text_bytes });
        }
        Ok(Shape {
            lanes: lanes as usize,
            lane_events: lane_events as usize,
            rows: rows as usize,
            text_bytes: text_bytes as usize,
        })
    }

    /// Returns the offset of the rows, in bytes.
    #[must_use]
    pub const fn rows_offset(&self) -> usize {
        HEAD_BYTES
    }

    /// Returns the offset of the text, in bytes.
    #[must_use]
    pub const fn text_offset(&self) -> usize {
        self.rows_offset() + self.rows * ROW_BYTES
    }

    /// Returns the offset of a lane's events, in bytes.
    #[must_use]
    pub const fn lane_offset(&self, lane: usize) -> usize {
        self.text_offset() + self.text_bytes + lane * self.lane_events * EVENT_BYTES
    }

    /// Returns the length of the whole page, in bytes.
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
            assert!(matches!(Shape::from_header(shape.header()), Err(PageError::Shape { .. })), "{shape:?}");
        }
        let mut header = good.header();
        header[1] = 2;
        assert_eq!(Shape::from_header(header), Err(PageError::Version(2)));
        header[0] = 0;
        assert_eq!(Shape::from_header(header), Err(PageError::Magic));
    }
}
