//! Reads a page from outside while its domain writes it, or after the domain died.
//!
//! Every number in a page is an unverified claim of its domain: sizes are bounded before use, and invalid
//! content is skipped.

use alloc::string::String;
use alloc::vec::Vec;

use crate::event::Event;
use crate::layout::{
    BASE_WORD, CONTROL_KEEP_FIRST, CONTROL_WORD, EVENT_BYTES, HEAD_BYTES, IDENTITY_WORD, LANE_LINE_WORDS,
    LANE_WORD, LOSS_WORD, PageError, ROW_BYTES, Shape, USED_WORD,
};
use crate::page::{
    Identity, ROW_CHANNEL, ROW_COUNTERS, ROW_MAX, ROW_OPENED, ROW_PEER, ROW_SLOTS, ROW_STALLS, ROW_STATE,
    RowState,
};

/// Maximum length of a text, in characters; longer names are truncated.
pub const MAX_TEXT_CHARS: usize = 256;

fn word(bytes: &[u8], index: usize) -> u64 {
    let word = bytes.get(index * 8..).and_then(|rest| rest.first_chunk::<8>());
    word.map_or(0, |word| u64::from_le_bytes(*word))
}

fn words<const N: usize>(bytes: &[u8], first: usize) -> [u64; N] {
    core::array::from_fn(|index| word(bytes, first + index))
}

/// Counts of items lost for lack of room in a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Losses {
    /// Events of threads without a lane.
    pub events_without_lane: u64,
    /// Channel ends without a row.
    pub channels_without_row: u64,
    /// Names that found no room.
    pub texts: u64,
}

/// Progress of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneHead {
    /// Total number of events written.
    pub written: u64,
    /// Number of events that were not kept because the lane was full, since the page was created.
    pub lost: u64,
    /// Number of events written before the recording began.
    pub base: u64,
}

/// Range of events of a lane that can be read now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadableRange {
    /// Number of the first event.
    pub first: u64,
    /// Number of events.
    pub count: u64,
    /// Number of earlier events that were overwritten unread.
    pub missed: u64,
}

/// Decoded head of a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    /// Sizes of the parts.
    pub shape: Shape,
    /// Control word of the page.
    pub control: u64,
    /// Identity of the writer.
    pub identity: Identity,
    /// Progress of each lane.
    pub lanes: Vec<LaneHead>,
    /// Items lost for lack of room.
    pub losses: Losses,
    /// Number of rows that have been in use.
    pub rows_used: usize,
    /// Bytes of text in use.
    pub text_used_bytes: usize,
}

impl Head {
    /// Decodes the first [`HEAD_BYTES`] of a page.
    ///
    /// # Errors
    /// [`PageError`], with the reason.
    pub fn from_bytes(bytes: &[u8]) -> Result<Head, PageError> {
        if bytes.len() < HEAD_BYTES {
            return Err(PageError::Short { available_bytes: bytes.len(), needed_bytes: HEAD_BYTES });
        }
        let shape = Shape::from_header(words(bytes, 0))?;
        let lane = |lane: usize| {
            let [written, lost] = words(bytes, LANE_WORD + lane * LANE_LINE_WORDS);
            LaneHead { written, lost, base: word(bytes, BASE_WORD + lane) }
        };
        let [events_without_lane, channels_without_row, texts] = words(bytes, LOSS_WORD);
        let [rows_used, text_used] = words::<2>(bytes, USED_WORD);
        Ok(Head {
            shape,
            control: word(bytes, CONTROL_WORD),
            identity: Identity::from_words(words(bytes, IDENTITY_WORD)),
            lanes: (0..shape.lanes).map(lane).collect(),
            losses: Losses { events_without_lane, channels_without_row, texts },
            rows_used: usize::try_from(rows_used).unwrap_or(usize::MAX).min(shape.rows),
            text_used_bytes: usize::try_from(text_used).unwrap_or(usize::MAX).min(shape.text_bytes) & !7,
        })
    }

    /// Returns the events of a lane that can be read, if all events before number `cursor` have been.
    #[must_use]
    pub fn readable(&self, lane: usize, cursor: u64) -> ReadableRange {
        let Some(head) = self.lanes.get(lane) else { return ReadableRange { first: 0, count: 0, missed: 0 } };
        let start = cursor.max(head.base).min(head.written);
        let first = start.max(self.oldest_complete(head));
        ReadableRange { first, count: head.written - first, missed: first - start }
    }

    /// Returns the oldest event that is not being overwritten. The next event overwrites the oldest, unless
    /// the recording keeps the first ones.
    fn oldest_complete(&self, head: &LaneHead) -> u64 {
        let kept = self.shape.lane_events as u64 - u64::from(self.control & CONTROL_KEEP_FIRST == 0);
        head.written.saturating_sub(kept)
    }

    /// Returns the first event of a lane that was complete when this head was read, and thus also in
    /// everything that was read before it.
    #[must_use]
    pub fn first_complete(&self, lane: usize) -> u64 {
        self.lanes.get(lane).map_or(u64::MAX, |head| self.oldest_complete(head))
    }

    /// Returns the offset in the page of event `first` of a lane, and how many of `count` events are
    /// contiguous there, in at most `max_bytes`.
    #[must_use]
    pub fn contiguous(&self, lane: usize, first: u64, count: u64, max_bytes: usize) -> (usize, usize) {
        let slot = (first % self.shape.lane_events as u64) as usize;
        let together = (self.shape.lane_events - slot).min(max_bytes / EVENT_BYTES);
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(together);
        (self.shape.lane_offset(lane) + slot * EVENT_BYTES, count)
    }
}

/// Decodes the valid events in a piece of a lane, and counts the invalid ones.
#[must_use]
pub fn events(bytes: &[u8]) -> (Vec<Event>, u64) {
    let (pieces, _) = bytes.as_chunks::<EVENT_BYTES>();
    let events: Vec<Event> = pieces.iter().filter_map(|piece| Event::from_bytes(piece).ok()).collect();
    let invalid_events = (pieces.len() - events.len()) as u64;
    (events, invalid_events)
}

/// Counters of one channel end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowInfo {
    /// Id of the channel.
    pub channel: u64,
    /// State of the end.
    pub state: RowState,
    /// Whether it is the accepting end.
    pub accepting: bool,
    /// Index of the transport in the list of transports.
    pub transport: u8,
    /// Id of the peer domain, as bits.
    pub peer: u64,
    /// Time at which it was opened, in nanoseconds on the monotonic clock.
    pub opened_ns: u64,
    /// Number of messages sent.
    pub messages_sent: u64,
    /// Bytes of the messages sent.
    pub bytes_sent: u64,
    /// Number of messages received.
    pub messages_received: u64,
    /// Bytes of the messages received.
    pub bytes_received: u64,
    /// Number of rings of the peer.
    pub rings: u64,
    /// Number of sleeps of this end.
    pub sleeps: u64,
    /// Message limit, in bytes.
    pub max_message_bytes: u64,
    /// Number of sends that found no room. This and the following fields are 0 in trace files.
    pub stalls: u64,
    /// Slots of the ring that it sends on; 0 without a ring.
    pub slots: u32,
    /// Slots known to be free when it last rang its peer, slept or found no room. There may have been more.
    pub free_slots: u32,
}

/// Words of a row in trace files.
pub(crate) const ROW_WORDS: usize = 11;

impl RowInfo {
    /// Decodes a row. Returns `None` if it was never used.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<RowInfo> {
        let state_word = word(bytes, ROW_STATE);
        let state = RowState::from_code(state_word as u8).filter(|state| *state != RowState::Free)?;
        let counters: [u64; 6] = words(bytes, ROW_COUNTERS);
        Some(RowInfo {
            channel: word(bytes, ROW_CHANNEL),
            state,
            accepting: state_word >> 8 & 1 != 0,
            transport: (state_word >> 16) as u8,
            peer: word(bytes, ROW_PEER),
            opened_ns: word(bytes, ROW_OPENED),
            messages_sent: counters[0],
            bytes_sent: counters[1],
            messages_received: counters[2],
            bytes_received: counters[3],
            rings: counters[4],
            sleeps: counters[5],
            max_message_bytes: word(bytes, ROW_MAX),
            stalls: word(bytes, ROW_STALLS),
            slots: word(bytes, ROW_SLOTS) as u32,
            free_slots: (word(bytes, ROW_SLOTS) >> 32) as u32,
        })
    }

    /// Encodes the row as words for trace files.
    #[must_use]
    pub fn to_words(&self) -> [u64; ROW_WORDS] {
        let state = self.state as u64 | u64::from(self.accepting) << 8 | u64::from(self.transport) << 16;
        [
            self.channel,
            state,
            self.peer,
            self.opened_ns,
            self.messages_sent,
            self.bytes_sent,
            self.messages_received,
            self.bytes_received,
            self.rings,
            self.sleeps,
            self.max_message_bytes,
        ]
    }
}

/// Decodes all rows that have been in use.
#[must_use]
pub fn rows(bytes: &[u8]) -> Vec<RowInfo> {
    bytes.chunks_exact(ROW_BYTES).filter_map(RowInfo::from_bytes).collect()
}

/// Decodes the texts of a page, with their numbers in events.
#[must_use]
pub fn texts(bytes: &[u8]) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    let mut offset = 0;
    while let Some(rest) = bytes.get(offset + 8..) {
        let length = usize::try_from(word(bytes, offset / 8)).unwrap_or(usize::MAX);
        let Some(text) = rest.get(..length) else { break };
        let text = String::from_utf8_lossy(text).chars().take(MAX_TEXT_CHARS).collect();
        found.push((offset as u64 / 8 + 1, text));
        offset += 8 + length.next_multiple_of(8);
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tombolo_base::SharedMemory;

    use super::*;
    use crate::event::EventKind;
    use crate::layout::control_on;
    use crate::page::{Page, RowDescription, init_page, set_control};

    const SHAPE: Shape = Shape { lanes: 2, lane_events: 16, rows: 2, text_bytes: 64 };

    fn page() -> (SharedMemory, Page) {
        let memory = SharedMemory::zeroed(SHAPE.length_bytes());
        init_page(&memory, &SHAPE);
        (memory.clone(), Page::open(memory).unwrap())
    }

    fn bytes(memory: &SharedMemory) -> std::vec::Vec<u8> {
        let mut bytes = std::vec![0; memory.len_bytes()];
        memory.copy_out(0, &mut bytes).unwrap();
        bytes
    }

    fn send(number: u64) -> Event {
        Event {
            ticks: number,
            kind: EventKind::Send,
            accepting: false,
            thread: 1,
            size: 8,
            subject: 3,
            value: number,
        }
    }

    fn read(memory: &SharedMemory, lane: usize, cursor: u64) -> (Vec<u64>, u64) {
        let bytes = bytes(memory);
        let head = Head::from_bytes(&bytes).unwrap();
        let mut readable = head.readable(lane, cursor);
        let missed = readable.missed;
        let mut numbers = Vec::new();
        while readable.count > 0 {
            let (offset, count) = head.contiguous(lane, readable.first, readable.count, 5 * EVENT_BYTES);
            let (events, invalid_events) = events(&bytes[offset..offset + count * EVENT_BYTES]);
            assert_eq!(invalid_events, 0);
            numbers.extend(events.iter().map(|event| event.value));
            readable.first += count as u64;
            readable.count -= count as u64;
        }
        (numbers, missed)
    }

    #[test]
    fn lane_keeps_the_latest_events() {
        let (memory, page) = page();
        let mut lane = page.lane(1).unwrap();
        (1..=10).for_each(|number| lane.write(&send(number)));
        assert_eq!(read(&memory, 1, 0), ((1..=10).collect(), 0));
        assert_eq!(read(&memory, 1, 7), ((8..=10).collect(), 0));
        (11..=40).for_each(|number| lane.write(&send(number)));
        // One fewer than fits, because the oldest may be being overwritten.
        assert_eq!(read(&memory, 1, 10), ((26..=40).collect(), 15));
        assert_eq!(read(&memory, 0, 0), (Vec::new(), 0));
        assert!(page.lane(2).is_none());
    }

    #[test]
    fn lane_keeps_the_first_events_if_configured() {
        let (memory, page) = page();
        let mut lane = page.lane(0).unwrap();
        (1..=5).for_each(|number| lane.write(&send(number)));
        set_control(&memory, control_on(1, true));
        (6..=30).for_each(|number| lane.write(&send(number)));
        assert_eq!(read(&memory, 0, 0), ((6..=21).collect(), 0));
        let head = Head::from_bytes(&bytes(&memory)).unwrap();
        assert_eq!(head.lanes[0].lost, 9);
        // The next recording begins after the existing events.
        set_control(&memory, control_on(2, false));
        assert_eq!(read(&memory, 0, 0).0, Vec::<u64>::new());
        lane.write(&send(31));
        assert_eq!(read(&memory, 0, 0), (std::vec![31], 0));
    }

    #[test]
    fn the_switch_is_one_word() {
        let (memory, page) = page();
        let switch = page.switch();
        assert!(!switch.is_on());
        set_control(&memory, control_on(7, false));
        assert!(switch.is_on());
        assert_eq!(switch.control(), 7 << 32 | 1);
        set_control(&memory, 0);
        assert!(!switch.is_on());
        assert!(!Page::private().switch().is_on());
    }

    #[test]
    fn rows_and_texts_round_trip() {
        let (memory, page) = page();
        let described = RowDescription {
            channel: 9,
            peer: 0x1_0001_0000_0001,
            accepting: true,
            transport: 2,
            max_message_bytes: 3584,
            opened_ns: 77,
            slots: 256,
        };
        let row = page.row(1).unwrap();
        row.describe(&described);
        row.set_sent(3, 24);
        row.set_received(2, 16);
        row.set_rings_and_sleeps(1, 4);
        row.set_stalls(6);
        row.set_room(256, 31);
        row.set_state(RowState::PeerDied);
        row.set_state(RowState::Closed);
        page.set_rows_used(2);
        assert!(page.row(2).is_none());
        let mut used = 0;
        assert_eq!(page.write_text(&mut used, "first"), Some(1));
        assert_eq!(page.write_text(&mut used, "the second"), Some(3));
        assert_eq!(page.write_text(&mut used, &"x".repeat(25)), None);
        assert_eq!(page.write_text(&mut used, &"x".repeat(16)), Some(6));
        page.count_event_without_lane();
        let identity =
            Identity { domain: 5, pid: 6, isa: 2, ticks_per_s: 7, clock: 8, ticks: 9, monotonic_ns: 10 };
        page.identify(identity);

        let bytes = bytes(&memory);
        let head = Head::from_bytes(&bytes).unwrap();
        assert_eq!((head.rows_used, head.text_used_bytes, head.identity), (2, used, identity));
        assert_eq!(head.losses, Losses { events_without_lane: 1, channels_without_row: 0, texts: 1 });
        let found = rows(&bytes[SHAPE.rows_offset()..SHAPE.text_offset()]);
        assert_eq!(found.len(), 1);
        let golden = [9, 0x2_0104, 0x1_0001_0000_0001, 77, 3, 24, 2, 16, 1, 4, 3584];
        assert_eq!(found[0].to_words(), golden);
        assert_eq!((found[0].stalls, found[0].slots, found[0].free_slots), (6, 256, 31));
        let row = &bytes[SHAPE.rows_offset() + ROW_BYTES..][..ROW_BYTES];
        assert_eq!(words::<3>(row, 11), [6, 0x1f_0000_0100, 0], "as the specification has it");
        assert_eq!(crate::page::rows_in_use(&memory, &SHAPE), 2);
        page.set_rows_used(usize::MAX);
        assert_eq!(crate::page::rows_in_use(&memory, &SHAPE), SHAPE.rows);
        let text = &bytes[SHAPE.text_offset()..SHAPE.text_offset() + used];
        assert_eq!(texts(text)[1], (3, "the second".to_owned()));
        assert_eq!(texts(text).len(), 3);
    }

    proptest! {
        #[test]
        fn a_page_with_arbitrary_content_is_read_safely(
            noise in prop::collection::vec(any::<u64>(), SHAPE.length_bytes() / 8),
            keep_header: bool,
            cursor: u64,
        ) {
            let mut noise: std::vec::Vec<u8> = noise.into_iter().flat_map(u64::to_le_bytes).collect();
            if keep_header {
                for (index, word) in SHAPE.header().into_iter().enumerate() {
                    noise[index * 8..index * 8 + 8].copy_from_slice(&word.to_le_bytes());
                }
            }
            let Ok(head) = Head::from_bytes(&noise) else { return Ok(()) };
            for lane in 0..head.shape.lanes {
                let readable = head.readable(lane, cursor);
                prop_assert!(readable.count <= head.shape.lane_events as u64);
                let (offset, count) = head.contiguous(lane, readable.first, readable.count, 4096);
                let _ = events(&noise[offset..offset + count * EVENT_BYTES]);
            }
            prop_assert!(head.rows_used <= head.shape.rows);
            let _ = rows(&noise[head.shape.rows_offset()..][..head.rows_used * ROW_BYTES]);
            let _ = texts(&noise[head.shape.text_offset()..][..head.text_used_bytes]);
        }
    }
}
