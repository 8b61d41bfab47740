//! Reads a capture record by record.

use std::io::{BufReader, ErrorKind, Read};

use super::format::{
    CHECKSUM_BYTES, CaptureError, CaptureHeader, CutPosition, Defect, Event, HEADER_BYTES, MAGIC,
    MAX_PAYLOAD_BYTES, RECORD_HEAD_BYTES, Record, checksum, u32_at, u64_at,
};

/// Bytes of a payload read at a time, so that a wrong length takes no more memory than there are bytes.
const PIECE_BYTES: usize = 64 * 1024;

/// Iterator over the records of a capture, in order. Ends after an error.
#[derive(Debug)]
pub struct Reader<R> {
    source: BufReader<R>,
    header: CaptureHeader,
    offset_bytes: u64,
    checksum: u32,
    sent: u64,
    received: u64,
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// When the header is malformed or of another version.
    pub fn new(source: R) -> Result<Self, CaptureError> {
        let mut source = BufReader::new(source);
        let mut bytes = [0; HEADER_BYTES];
        let length = fill(&mut source, &mut bytes, 0)?;
        let common = length.min(MAGIC.len());
        if length < HEADER_BYTES && bytes[..common] == MAGIC[..common] {
            return Err(CaptureError::CutShort { offset_bytes: 0, cut: CutPosition::Header });
        }
        let header = CaptureHeader::from_bytes(&bytes)?;
        let checksum = u32_at(&bytes, HEADER_BYTES - CHECKSUM_BYTES);
        let offset_bytes = HEADER_BYTES as u64;
        Ok(Reader { source, header, offset_bytes, checksum, sent: 0, received: 0, ended: false })
    }

    /// Returns the description of the channel that the capture was taken from.
    #[must_use]
    pub fn header(&self) -> CaptureHeader {
        self.header
    }

    fn record(&mut self) -> Result<Record, CaptureError> {
        let offset_bytes = self.offset_bytes;
        let cut = |cut| CaptureError::CutShort { offset_bytes, cut };
        let corrupt = |defect| CaptureError::Corrupt { offset_bytes, defect };
        let mut head = [0; RECORD_HEAD_BYTES];
        match fill(&mut self.source, &mut head, offset_bytes)? {
            0 => return Err(cut(CutPosition::End)),
            RECORD_HEAD_BYTES => {}
            _ => return Err(cut(CutPosition::Record)),
        }
        let length_bytes = u32_at(&head, 0) as usize;
        if length_bytes > MAX_PAYLOAD_BYTES {
            return Err(corrupt(Defect::Length));
        }
        let mut payload = Vec::new();
        while payload.len() < length_bytes {
            let before = payload.len();
            payload.resize(length_bytes.min(before + PIECE_BYTES), 0);
            if fill(&mut self.source, &mut payload[before..], offset_bytes)? < payload.len() - before {
                return Err(cut(CutPosition::Record));
            }
        }
        let mut stored = [0; CHECKSUM_BYTES];
        if fill(&mut self.source, &mut stored, offset_bytes)? < CHECKSUM_BYTES {
            return Err(cut(CutPosition::Record));
        }
        self.checksum = checksum(checksum(self.checksum, &head), &payload);
        if self.checksum != u32::from_le_bytes(stored) {
            return Err(corrupt(Defect::Checksum));
        }
        let event = Event::from_parts(head[4], payload).map_err(corrupt)?;
        self.offset_bytes += (RECORD_HEAD_BYTES + length_bytes + CHECKSUM_BYTES) as u64;
        Ok(Record { offset_bytes, time_ns: u64_at(&head, 8), event })
    }

    /// Counts the messages, and compares the totals at the final record.
    fn check_counts(&mut self, record: &Record) -> Result<(), CaptureError> {
        let corrupt = |offset_bytes, defect| Err(CaptureError::Corrupt { offset_bytes, defect });
        match record.event {
            Event::Sent(_) => self.sent += 1,
            Event::Received(_) => self.received += 1,
            Event::End { sent, received } => {
                self.ended = true;
                if (sent, received) != (self.sent, self.received) {
                    return corrupt(record.offset_bytes, Defect::Count);
                }
                if fill(&mut self.source, &mut [0], self.offset_bytes)? > 0 {
                    return corrupt(self.offset_bytes, Defect::Trailing);
                }
            }
            Event::ClosedHere | Event::ClosedByPeer | Event::PeerDied | Event::Failed(_) => {}
        }
        Ok(())
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Record, CaptureError>;

    /// Returns the next record, including the final one.
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let record = self.record().and_then(|record| self.check_counts(&record).map(|()| record));
        self.ended |= record.is_err();
        Some(record)
    }
}

/// Reads until `target` is full or the source ends; returns the number of bytes read.
fn fill(source: &mut impl Read, target: &mut [u8], offset_bytes: u64) -> Result<usize, CaptureError> {
    let mut length = 0;
    while length < target.len() {
        match source.read(&mut target[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(source) => return Err(CaptureError::Io { offset_bytes, source }),
        }
    }
    Ok(length)
}

/// Reads a whole capture.
///
/// # Errors
/// The first error of the reader.
pub(super) fn read_all(source: impl Read) -> Result<(CaptureHeader, Vec<Record>), CaptureError> {
    let reader = Reader::new(source)?;
    let header = reader.header();
    Ok((header, reader.collect::<Result<_, _>>()?))
}
