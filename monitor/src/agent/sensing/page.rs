//! The rows of a domain's trace page that are not as they were. All of it is what the domain says.

use tombolo_base::{ChannelId, DomainId};
use tombolo_control::observation::EndSample;
use tombolo_link::TransportKind;
use tombolo_trace::layout::ROW_BYTES;
use tombolo_trace::page::RowState;
use tombolo_trace::snapshot::RowInfo;

use crate::agent::traces::TracePage;

/// Rows that are looked at in one round; others have their turn in the next. So no domain, whatever it writes, makes the
/// rounds longer for all.
const ROWS_PER_ROUND: usize = 512;

/// The rows of a page as they were.
#[derive(Debug, Default)]
pub(super) struct RowsSeen {
    bytes: Vec<u8>,
    /// The first row of the next round.
    next: usize,
}

impl RowsSeen {
    /// Looks at a page, and adds what is news to `found`.
    ///
    /// `memory` is for what is read.
    pub(super) fn look(
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
            // A row of nothing but zeros has nothing in it.
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
            // The row is another's by now: nothing more will be said of the one before.
            found
                .extend(was.filter(|was| was.open && !same(was)).map(|was| EndSample { open: false, ..was }));
            found.extend(is);
        }
    }
}

/// The end that a row tells of; none for what makes no sense.
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
