//! Finds changed rows of a domain's trace page. All of its content is untrusted.

use tombolo_base::{ChannelId, DomainId};
use tombolo_control::observation::EndSample;
use tombolo_link::TransportKind;
use tombolo_trace::layout::ROW_BYTES;
use tombolo_trace::page::RowState;
use tombolo_trace::snapshot::RowInfo;

use crate::agent::traces::TracePage;

/// Maximum number of rows examined per round; later rounds cover the others. So no domain can prolong the
/// rounds by its data.
const ROWS_PER_ROUND: usize = 512;

/// Previous content of a page's rows.
#[derive(Debug, Default)]
pub(super) struct RowTracker {
    bytes: Vec<u8>,
    /// First row of the next round.
    next: usize,
}

impl RowTracker {
    /// Examines a page and adds changes to `found`.
    ///
    /// `memory` is the read buffer.
    pub(super) fn scan(
        &mut self,
        domain: DomainId,
        trace: &TracePage,
        memory: &mut Vec<u8>,
        found: &mut Vec<EndSample>,
    ) {
        let in_use = trace.rows_in_use();
        if in_use == 0 {
            return;
        }
        if self.next >= in_use {
            self.next = 0;
        }
        let first = self.next;
        let count = (in_use - first).min(ROWS_PER_ROUND);
        self.next = first + count;
        memory.resize(count * ROW_BYTES, 0);
        let length = trace.read_rows(first, memory);
        self.compare(domain, first, &memory[..length], found);
    }

    fn compare(&mut self, domain: DomainId, first: usize, now: &[u8], found: &mut Vec<EndSample>) {
        let start = first * ROW_BYTES;
        let end = start + now.len();
        if self.bytes.len() < end {
            // A row of zeros is unused.
            self.bytes.resize(end, 0);
        }
        let before = &mut self.bytes[start..end];
        if *before == *now {
            return;
        }
        let (rows_before, _) = before.as_chunks_mut::<ROW_BYTES>();
        let (rows_now, _) = now.as_chunks::<ROW_BYTES>();
        for (before, now) in rows_before.iter_mut().zip(rows_now).filter(|(before, now)| before != now) {
            let (was, is) = (end_of(domain, before), end_of(domain, now));
            *before = *now;
            let same = |was: &EndSample| {
                is.as_ref().is_some_and(|is| (is.channel, is.accepting) == (was.channel, was.accepting))
            };
            // The row has been reused: the previous channel gets no further reports.
            found
                .extend(was.filter(|was| was.open && !same(was)).map(|was| EndSample { open: false, ..was }));
            found.extend(is);
        }
    }
}

/// Decodes the channel end that a row describes; `None` if it is invalid.
fn end_of(domain: DomainId, row: &[u8; ROW_BYTES]) -> Option<EndSample> {
    let row = RowInfo::from_bytes(row)?;
    let transport = *TransportKind::ALL.get(usize::from(row.transport))?;
    (row.channel != 0).then(|| EndSample {
        domain,
        channel: ChannelId(row.channel),
        accepting: row.accepting,
        transport,
        peer: DomainId::from_bits(row.peer),
        open: row.state == RowState::Open,
        sent: row.messages_sent,
        sent_bytes: row.bytes_sent,
        received: row.messages_received,
        received_bytes: row.bytes_received,
        rings: row.rings,
        sleeps: row.sleeps,
        stalls: row.stalls,
        slots: row.slots,
        credit_slots: row.free_slots,
        max_message_bytes: row.max_message_bytes,
    })
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use proptest::prelude::*;
    use tombolo_base::{NodeId, SharedMemory};
    use tombolo_trace::page::{Row, RowDescription};

    use super::*;

    fn domain() -> DomainId {
        DomainId::new(NodeId(1), NonZeroU16::MIN, 5)
    }

    /// Returns the bytes of a row as written by domains.
    fn row(channel: u64, write: impl FnOnce(&Row)) -> Vec<u8> {
        let memory = SharedMemory::zeroed(ROW_BYTES);
        let row = Row::on(memory.clone());
        row.describe(&RowDescription {
            channel,
            peer: domain().to_bits(),
            accepting: true,
            transport: 1,
            max_message_bytes: 99,
            opened_ns: 5,
            slots: 8,
        });
        write(&row);
        let mut bytes = vec![0; ROW_BYTES];
        memory.copy_out(0, &mut bytes).unwrap();
        bytes
    }

    fn compare(seen: &mut RowTracker, first: usize, rows: &[Vec<u8>]) -> Vec<EndSample> {
        let mut found = Vec::new();
        seen.compare(domain(), first, &rows.concat(), &mut found);
        found
    }

    #[test]
    fn changed_rows_are_reported_in_full() {
        let mut seen = RowTracker::default();
        let quiet = row(3, |_| {});
        let busy = row(4, |row| {
            row.set_sent(5, 50);
            row.set_received(6, 60);
            row.set_rings_and_sleeps(7, 8);
            row.set_stalls(9);
            row.set_room(8, 2);
        });
        let expected = EndSample {
            domain: domain(),
            channel: ChannelId(4),
            accepting: true,
            transport: TransportKind::Window,
            peer: Some(domain()),
            open: true,
            sent: 5,
            sent_bytes: 50,
            received: 6,
            received_bytes: 60,
            rings: 7,
            sleeps: 8,
            stalls: 9,
            slots: 8,
            credit_slots: 2,
            max_message_bytes: 99,
        };
        assert_eq!(compare(&mut seen, 0, &[quiet.clone(), vec![0; ROW_BYTES], busy.clone()])[1], expected);
        assert_eq!(compare(&mut seen, 0, &[quiet.clone(), vec![0; ROW_BYTES], busy]), []);
        let closed = row(4, |row| row.set_state(RowState::PeerDied));
        let found = compare(&mut seen, 2, &[closed]);
        assert_eq!((found.len(), found[0].open), (1, false));
    }

    #[test]
    fn previous_user_of_a_row_is_reported_closed() {
        let mut seen = RowTracker::default();
        compare(&mut seen, 1, &[row(3, |row| row.set_sent(1, 2))]);
        let found = compare(&mut seen, 1, &[row(4, |_| {})]);
        let brief: Vec<(u64, bool, u64)> =
            found.iter().map(|end| (end.channel.0, end.open, end.sent)).collect();
        assert_eq!(brief, [(3, false, 1), (4, true, 0)]);
        // Closed in the previous round: already reported.
        compare(&mut seen, 1, &[row(4, |row| row.set_state(RowState::Closed))]);
        assert_eq!(compare(&mut seen, 1, &[row(5, |_| {})]).len(), 1);
        // Garbage in its place.
        let found = compare(&mut seen, 1, &[vec![0xff; ROW_BYTES]]);
        assert_eq!((found.len(), found[0].channel, found[0].open), (1, ChannelId(5), false));
    }

    #[test]
    fn large_page_is_scanned_in_rounds() {
        let trace = TracePage::create(0).unwrap();
        let file = trace.map_to_write();
        let page = tombolo_trace::page::Page::open(file).unwrap();
        let count = 2 * ROWS_PER_ROUND + 10;
        for index in 0..count {
            page.row(index).unwrap().describe(&RowDescription {
                channel: 1 + index as u64,
                peer: 0,
                accepting: false,
                transport: 0,
                max_message_bytes: 1,
                opened_ns: 1,
                slots: 0,
            });
        }
        let (mut seen, mut memory) = (RowTracker::default(), Vec::new());
        let mut scan = || {
            let mut found = Vec::new();
            seen.scan(domain(), &trace, &mut memory, &mut found);
            found.len()
        };
        assert_eq!(scan(), 0, "it says that none is in use");
        page.set_rows_used(count);
        assert_eq!((scan(), scan(), scan(), scan()), (ROWS_PER_ROUND, ROWS_PER_ROUND, 10, 0));
        page.row(3).unwrap().set_sent(1, 1);
        assert_eq!((scan(), scan(), scan()), (0, 0, 1));
        // More than the maximum.
        page.set_rows_used(usize::MAX);
        let told: usize = (0..100).map(|_| scan()).sum();
        assert_eq!(told, 0);
        page.set_rows_used(0);
        assert_eq!(scan(), 0);
    }

    proptest! {
        #[test]
        fn row_content_affects_only_its_own_domain(
            rounds in prop::collection::vec((0..4_usize, prop::collection::vec(any::<u8>(), 0..600)), 0..8),
        ) {
            let mut seen = RowTracker::default();
            for (first, bytes) in rounds {
                let mut found = Vec::new();
                seen.compare(domain(), first, &bytes, &mut found);
                // At most one for the previous content, and one for the present.
                prop_assert!(found.len() <= 2 * (bytes.len() / ROW_BYTES));
                prop_assert!(found.iter().all(|end| end.domain == domain() && end.channel.0 != 0));
                let mut again = Vec::new();
                seen.compare(domain(), first, &bytes, &mut again);
                prop_assert!(again.is_empty());
            }
        }
    }
}
