//! Encoding of a capture: a header of 64 bytes, then records. Specified in `docs/specs/capture.md`.

use std::io::{self, Write};

use tombolo_link::{Side, TransportKind};

/// Version of the format that this library writes and reads.
pub const VERSION: u32 = 1;

/// Size of the header, and of the shortest capture, in bytes.
pub const HEADER_BYTES: usize = 64;

/// "TMBLCAPT".
pub(super) const MAGIC: [u8; 8] = *b"TMBLCAPT";

/// Size of a record before its payload, in bytes.
pub(super) const RECORD_HEAD_BYTES: usize = 16;

/// Size of a checksum, in bytes.
pub(super) const CHECKSUM_BYTES: usize = 4;

/// Maximum payload of a record, in bytes: four times the longest message of a channel.
pub(super) const MAX_PAYLOAD_BYTES: usize = 1 << 25;

/// Description of the channel that a capture was taken from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CaptureHeader {
    /// Kind of the transport.
    pub transport: TransportKind,
    /// Side that was recorded; `None` if unknown.
    pub side: Option<Side>,
    /// Id of the channel, the same on both sides; 0 if unknown.
    pub channel: u64,
    /// Domain that recorded; 0 if unknown.
    pub own: u64,
    /// Domain at the other end; 0 if unknown.
    pub peer: u64,
    /// Message limit of the channel, in bytes.
    pub max_message_bytes: u32,
    /// Start of the capture, in nanoseconds since 1970; 0 if unknown.
    pub began_unix_ns: u64,
}

impl CaptureHeader {
    /// Describes a channel of which only the transport and the message limit are known.
    #[must_use]
    pub const fn new(transport: TransportKind, max_message_bytes: u32) -> Self {
        CaptureHeader {
            transport,
            side: None,
            channel: 0,
            own: 0,
            peer: 0,
            max_message_bytes,
            began_unix_ns: 0,
        }
    }

    pub(super) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &MAGIC);
        put(8, &VERSION.to_le_bytes());
        put(12, &(HEADER_BYTES as u32).to_le_bytes());
        put(16, &self.began_unix_ns.to_le_bytes());
        put(24, &self.channel.to_le_bytes());
        put(32, &self.own.to_le_bytes());
        put(40, &self.peer.to_le_bytes());
        put(48, &self.max_message_bytes.to_le_bytes());
        let transport = match self.transport {
            TransportKind::Shm => 0,
            TransportKind::Window => 1,
            TransportKind::Socket => 2,
        };
        let side = match self.side {
            None => 0,
            Some(Side::A) => 1,
            Some(Side::B) => 2,
        };
        put(52, &[transport, side]);
        let checksum = checksum(0, &bytes[..HEADER_BYTES - CHECKSUM_BYTES]);
        bytes[HEADER_BYTES - CHECKSUM_BYTES..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> Result<CaptureHeader, CaptureError> {
        let found = u64_at(bytes, 0);
        if bytes[..8] != MAGIC {
            return Err(CaptureError::NotACapture { found });
        }
        let version = u32_at(bytes, 8);
        if version != VERSION {
            return Err(CaptureError::Version { found: version });
        }
        let corrupt = |at: usize, defect| CaptureError::Corrupt { offset_bytes: at as u64, defect };
        let stored = u32_at(bytes, 60);
        if checksum(0, &bytes[..60]) != stored {
            return Err(corrupt(0, Defect::Checksum));
        }
        let transport = match bytes[52] {
            0 => TransportKind::Shm,
            1 => TransportKind::Window,
            2 => TransportKind::Socket,
            code => return Err(corrupt(52, Defect::Transport { code })),
        };
        let side = match bytes[53] {
            0 => None,
            1 => Some(Side::A),
            2 => Some(Side::B),
            code => return Err(corrupt(53, Defect::Side { code })),
        };
        Ok(CaptureHeader {
            transport,
            side,
            channel: u64_at(bytes, 24),
            own: u64_at(bytes, 32),
            peer: u64_at(bytes, 40),
            max_message_bytes: u32_at(bytes, 48),
            began_unix_ns: u64_at(bytes, 16),
        })
    }
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(field)
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// Returns the CRC-32 (IEEE 802.3) of `bytes`, continued from `before`. Each record's checksum continues the
/// previous one, so that a missing, repeated or misplaced record is detected like a modified one.
pub(super) fn checksum(before: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(before);
    hasher.update(bytes);
    hasher.finalize()
}

/// Event at the recorded end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A message was accepted for sending.
    Sent(Vec<u8>),
    /// A message was received.
    Received(Vec<u8>),
    /// This end was closed.
    ClosedHere,
    /// The peer closed its end, and everything it sent had been received.
    ClosedByPeer,
    /// The peer died.
    PeerDied,
    /// The channel failed, with the text of the error.
    Failed(String),
    /// The capture is complete and contains this many messages.
    End {
        /// Number of messages sent.
        sent: u64,
        /// Number of messages received.
        received: u64,
    },
}

impl Event {
    pub(super) fn code(&self) -> u8 {
        match self {
            Event::Sent(_) => 1,
            Event::Received(_) => 2,
            Event::ClosedHere => 3,
            Event::ClosedByPeer => 4,
            Event::PeerDied => 5,
            Event::Failed(_) => 6,
            Event::End { .. } => 7,
        }
    }

    pub(super) fn from_parts(code: u8, payload: Vec<u8>) -> Result<Event, Defect> {
        let nothing = |event| if payload.is_empty() { Ok(event) } else { Err(Defect::Length) };
        match code {
            1 => Ok(Event::Sent(payload)),
            2 => Ok(Event::Received(payload)),
            3 => nothing(Event::ClosedHere),
            4 => nothing(Event::ClosedByPeer),
            5 => nothing(Event::PeerDied),
            6 => String::from_utf8(payload).map(Event::Failed).map_err(|_| Defect::Text),
            7 if payload.len() == 16 => {
                Ok(Event::End { sent: u64_at(&payload, 0), received: u64_at(&payload, 8) })
            }
            7 => Err(Defect::Length),
            code => Err(Defect::Event { code }),
        }
    }
}

/// Event with its time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Offset of the record in the file.
    pub offset_bytes: u64,
    /// Nanoseconds since the capture began, on the recorder's monotonic clock.
    pub time_ns: u64,
    /// The event that was recorded.
    pub event: Event,
}

/// Encoder of a capture.
#[derive(Debug)]
pub struct Writer<W> {
    sink: W,
    checksum: u32,
    sent: u64,
    received: u64,
}

impl<W: Write> Writer<W> {
    /// Writes the header of a capture.
    ///
    /// # Errors
    /// An error of the sink.
    pub fn new(mut sink: W, header: CaptureHeader) -> io::Result<Self> {
        let bytes = header.to_bytes();
        sink.write_all(&bytes)?;
        Ok(Writer { sink, checksum: u32_at(&bytes, HEADER_BYTES - CHECKSUM_BYTES), sent: 0, received: 0 })
    }

    /// Records that `message` was sent.
    ///
    /// # Errors
    /// An error of the sink.
    pub fn sent(&mut self, time_ns: u64, message: &[u8]) -> io::Result<()> {
        self.record(1, time_ns, message)?;
        self.sent += 1;
        Ok(())
    }

    /// Records that `message` was received.
    ///
    /// # Errors
    /// An error of the sink.
    pub fn received(&mut self, time_ns: u64, message: &[u8]) -> io::Result<()> {
        self.record(2, time_ns, message)?;
        self.received += 1;
        Ok(())
    }

    /// Records an event of any kind at `time_ns`.
    ///
    /// # Errors
    /// An error of the sink.
    pub fn event(&mut self, time_ns: u64, event: &Event) -> io::Result<()> {
        match event {
            Event::Sent(message) => self.sent(time_ns, message),
            Event::Received(message) => self.received(time_ns, message),
            Event::Failed(text) => self.record(event.code(), time_ns, text.as_bytes()),
            Event::End { sent, received } => {
                let counts = [sent.to_le_bytes(), received.to_le_bytes()].concat();
                self.record(event.code(), time_ns, &counts)
            }
            Event::ClosedHere | Event::ClosedByPeer | Event::PeerDied => {
                self.record(event.code(), time_ns, &[])
            }
        }
    }

    fn record(&mut self, code: u8, time_ns: u64, payload: &[u8]) -> io::Result<()> {
        let mut head = [0; RECORD_HEAD_BYTES];
        head[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        head[4] = code;
        head[8..].copy_from_slice(&time_ns.to_le_bytes());
        let checksum = checksum(checksum(self.checksum, &head), payload);
        self.sink.write_all(&head)?;
        self.sink.write_all(payload)?;
        self.sink.write_all(&checksum.to_le_bytes())?;
        self.checksum = checksum;
        Ok(())
    }

    /// Flushes the sink of the capture.
    ///
    /// # Errors
    /// An error of the sink.
    pub fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }

    /// Writes the final record, which marks the capture as complete, and returns the sink.
    ///
    /// # Errors
    /// An error of the sink.
    pub fn finish(mut self, time_ns: u64) -> io::Result<W> {
        let end = Event::End { sent: self.sent, received: self.received };
        self.event(time_ns, &end)?;
        self.sink.flush()?;
        Ok(self.sink)
    }
}

/// Position at which a capture was cut short.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CutPosition {
    /// Inside the header.
    Header,
    /// Inside a record that begins at the offset.
    Record,
    /// Between two records: the final record is missing.
    End,
}

/// Defect of a header or record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum Defect {
    /// The checksum does not match.
    Checksum,
    /// The transport code is unknown.
    Transport { code: u8 },
    /// The side code is unknown.
    Side { code: u8 },
    /// The event code is unknown.
    Event { code: u8 },
    /// The length is impossible for a record of this kind.
    Length,
    /// A text is not UTF-8.
    Text,
    /// The final record's message counts differ from the records'.
    Count,
    /// Bytes follow the final record.
    Trailing,
}

/// Error of reading a capture, or its rest. Records read before are valid.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum CaptureError {
    /// It does not begin with the magic of a capture.
    #[error("not a capture: it begins with {} instead of \"TMBLCAPT\"", quote_magic(*found))]
    NotACapture { found: u64 },
    /// It has another version.
    #[error("the capture has format version {found}; this program reads version {VERSION}")]
    Version { found: u32 },
    /// It ends too early.
    #[error("the capture is cut short {}, at byte {offset_bytes}", describe_cut(*cut))]
    CutShort { offset_bytes: u64, cut: CutPosition },
    /// It was modified or damaged.
    #[error("the capture is corrupt at byte {offset_bytes}: {}", describe_defect(*defect))]
    Corrupt { offset_bytes: u64, defect: Defect },
    /// Reading the source failed.
    #[error("cannot read the capture at byte {offset_bytes}: {source}")]
    Io { offset_bytes: u64, source: io::Error },
}

fn quote_magic(found: u64) -> String {
    format!("\"{}\"", found.to_le_bytes().escape_ascii())
}

fn describe_cut(cut: CutPosition) -> &'static str {
    match cut {
        CutPosition::Header => "in its header",
        CutPosition::Record => "in a record",
        CutPosition::End => "before its final record",
    }
}

fn describe_defect(defect: Defect) -> String {
    match defect {
        Defect::Checksum => "the checksum does not match".to_owned(),
        Defect::Transport { code } => format!("unknown transport code {code}"),
        Defect::Side { code } => format!("unknown side code {code}"),
        Defect::Event { code } => format!("unknown event code {code}"),
        Defect::Length => "the record has an impossible length".to_owned(),
        Defect::Text => "a text is not UTF-8".to_owned(),
        Defect::Count => "the message counts of the final record differ from the records".to_owned(),
        Defect::Trailing => "bytes follow the final record".to_owned(),
    }
}
