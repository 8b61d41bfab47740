//! Recent output of domains, retained independent of its readers.

use std::collections::VecDeque;

use tombolo_base::DomainId;
use tombolo_control::observation::{MAX_PIECES, OutputPiece};
use tombolo_control::{Fault, Reply, streams};
use tombolo_machine::{Limit, Limits};

use crate::root::Core;

/// Maximum number of output bytes per answer: together with the pieces' overhead it fits into a message.
const PAGE_BYTES: usize = 48 * 1024;

/// Overhead of a piece, in bytes.
const RUN_BYTES: usize = size_of::<(u8, u32)>();

/// Last part of a domain's standard output and error, in order of arrival.
#[derive(Debug, Default)]
pub(in crate::root) struct OutputTail {
    bytes: VecDeque<u8>,
    /// Runs of bytes of one stream: its number, and their count.
    runs: VecDeque<(u8, u32)>,
    written: u64,
}

impl OutputTail {
    /// Returns the total number of bytes written.
    pub(in crate::root) fn written(&self) -> u64 {
        self.written
    }

    /// Returns the memory used, in bytes.
    pub(super) fn retained_bytes(&self) -> usize {
        self.bytes.len() + self.runs.len() * RUN_BYTES
    }

    fn write(&mut self, stream: u8, bytes: &[u8], max_bytes: usize) {
        self.written += bytes.len() as u64;
        // Bytes that would be dropped immediately are not copied.
        let bytes = &bytes[bytes.len().saturating_sub(max_bytes)..];
        self.bytes.extend(bytes);
        match self.runs.back_mut() {
            Some((last, length)) if *last == stream => *length += bytes.len() as u32,
            _ => self.runs.push_back((stream, bytes.len() as u32)),
        }
        self.trim_to(max_bytes);
    }

    /// Truncates to the last `max_bytes`.
    fn trim_to(&mut self, max_bytes: usize) {
        loop {
            let excess = self.retained_bytes().saturating_sub(max_bytes) as u32;
            let Some((_, length)) = self.runs.front_mut().filter(|_| excess > 0) else { return };
            let dropped = (*length).min(excess);
            *length -= dropped;
            let emptied = *length == 0;
            self.bytes.drain(..dropped as usize);
            if emptied {
                self.runs.pop_front();
            }
        }
    }

    /// Drops everything and returns the memory freed.
    pub(super) fn forget(&mut self) -> usize {
        let freed_bytes = self.retained_bytes();
        (self.bytes, self.runs) = (VecDeque::new(), VecDeque::new());
        freed_bytes
    }

    /// Returns a page after a position: pieces, their end position, and the number of bytes lost before them.
    fn page(&self, after: u64) -> (Vec<OutputPiece>, u64, u64) {
        let oldest = self.written - self.bytes.len() as u64;
        let start = after.clamp(oldest, self.written);
        let lost = oldest.saturating_sub(after);
        let (mut pieces, mut at, mut room) = (Vec::new(), oldest, PAGE_BYTES);
        let mut next = start;
        for (stream, length) in &self.runs {
            let end = at + u64::from(*length);
            if end > start {
                if pieces.len() as u64 == MAX_PIECES || room == 0 {
                    break;
                }
                let from = at.max(start);
                let taken = ((end - from) as usize).min(room);
                let skipped = (from - oldest) as usize;
                let bytes: Vec<u8> = self.bytes.range(skipped..skipped + taken).copied().collect();
                pieces.push(OutputPiece { stream: *stream, bytes });
                (next, room) = (from + taken as u64, room - taken);
            }
            at = end;
        }
        (pieces, next, lost)
    }
}

/// Memory used by retained output, and its limit.
#[derive(Debug)]
pub(in crate::root) struct OutputUsage {
    retained_bytes: usize,
    max_domain_bytes: usize,
    max_total_bytes: usize,
}

impl OutputUsage {
    pub(super) fn new(limits: &Limits) -> Self {
        OutputUsage {
            retained_bytes: 0,
            max_domain_bytes: (limits.of(Limit::OutputKibPerDomain) as usize) << 10,
            max_total_bytes: (limits.of(Limit::OutputMib) as usize) << 20,
        }
    }

    pub(super) fn freed(&mut self, bytes: usize) {
        self.retained_bytes -= bytes;
    }

    #[cfg(test)]
    pub(in crate::root) fn retained_bytes(&self) -> usize {
        self.retained_bytes
    }
}

impl Core {
    /// Retains output of a domain.
    pub(in crate::root) fn record_output(&mut self, domain: DomainId, stream: u8, bytes: &[u8]) {
        if !matches!(stream, streams::OUTPUT | streams::ERROR) || bytes.is_empty() {
            return;
        }
        let Some(record) = self.domains.get_mut(domain) else { return };
        let tail = &mut record.observed.output;
        let before = tail.retained_bytes();
        tail.write(stream, bytes, self.observing.outputs.max_domain_bytes);
        let after = tail.retained_bytes();
        let outputs = &mut self.observing.outputs;
        outputs.retained_bytes = outputs.retained_bytes - before + after;
        self.domain_changed(domain);
        while self.observing.outputs.retained_bytes > self.observing.outputs.max_total_bytes
            && self.evict_output()
        {}
    }

    /// Makes room: drops the output of the domain that ended first, otherwise half of the largest.
    fn evict_output(&mut self) -> bool {
        let freed_bytes = match self.observing.ended.take_oldest_output() {
            Some((_, freed_bytes)) => freed_bytes,
            None => {
                let tails = self.domains.iter_mut().map(|(_, record)| &mut record.observed.output);
                let Some(longest) = tails.max_by_key(|tail| tail.retained_bytes()) else { return false };
                let before = longest.retained_bytes();
                longest.trim_to(before / 2);
                before - longest.retained_bytes()
            }
        };
        self.observing.outputs.retained_bytes -= freed_bytes;
        freed_bytes > 0
    }

    /// Returns the retained output of a domain.
    pub(in crate::root) fn remembered_output(&self, domain: DomainId, after: u64) -> Result<Reply, Fault> {
        let (tail, over) = match (self.domains.get(&domain), self.observing.ended.get(domain)) {
            (Some(record), _) => (&record.observed.output, false),
            (None, Some(ended)) => (&ended.output, true),
            (None, None) => return Err(Fault::NoSuchDomain { domain }),
        };
        let (pieces, next, lost) = tail.page(after);
        let more = next < tail.written;
        Ok(Reply::RememberedOutput { pieces, next, lost, more, ended: over && !more })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pieces: &[OutputPiece]) -> String {
        let shown =
            |piece: &OutputPiece| format!("{}:{}", piece.stream, String::from_utf8_lossy(&piece.bytes));
        pieces.iter().map(shown).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn output_keeps_the_order_of_streams() {
        let mut tail = OutputTail::default();
        for (stream, bytes) in [(1, "one "), (1, "two "), (2, "oh "), (1, "three")] {
            tail.write(stream, bytes.as_bytes(), 1024);
        }
        let (pieces, next, lost) = tail.page(0);
        assert_eq!((text(&pieces).as_str(), next, lost), ("1:one two  2:oh  1:three", 16, 0));
        let (pieces, next, lost) = tail.page(9);
        assert_eq!((text(&pieces).as_str(), next, lost), ("2:h  1:three", 16, 0));
        assert_eq!(tail.page(16), (vec![], 16, 0));
        assert_eq!(tail.page(u64::MAX), (vec![], 16, 0), "a reader that claims more has all");
    }

    #[test]
    fn last_output_bytes_are_retained() {
        let room = 100;
        for written in [room - RUN_BYTES - 1, room - RUN_BYTES, room - RUN_BYTES + 1, 3 * room] {
            let mut tail = OutputTail::default();
            let bytes: Vec<u8> = (0..written).map(|index| index as u8).collect();
            bytes.chunks(7).for_each(|chunk| tail.write(1, chunk, room));
            let kept = written.min(room - RUN_BYTES);
            let (pieces, next, lost) = tail.page(0);
            assert_eq!(pieces[0].bytes, bytes[written - kept..]);
            assert_eq!((next, lost), (written as u64, (written - kept) as u64), "{written}");
        }
        let mut tail = OutputTail::default();
        (0..100).for_each(|index| tail.write(1 + index % 2, b"x", room));
        assert!(tail.retained_bytes() <= room && tail.page(0).0.len() == room / (RUN_BYTES + 1));
        assert_eq!(tail.runs.iter().map(|(_, length)| *length as usize).sum::<usize>(), tail.bytes.len());
    }

    #[test]
    fn long_output_is_paged() {
        let mut tail = OutputTail::default();
        (0..1000_u32).for_each(|index| tail.write(1 + (index % 2) as u8, &[b'x'; 100], 1 << 20));
        let (mut at, mut pages, mut bytes) = (0, 0, 0);
        loop {
            let (pieces, next, lost) = tail.page(at);
            if pieces.is_empty() {
                break;
            }
            assert!(pieces.len() as u64 <= MAX_PIECES && lost == 0);
            let length: usize = pieces.iter().map(|piece| piece.bytes.len()).sum();
            assert!(length <= PAGE_BYTES);
            (at, pages, bytes) = (next, pages + 1, bytes + length);
        }
        assert_eq!((at, bytes), (100_000, 100_000));
        assert!(pages >= 4);
    }
}
