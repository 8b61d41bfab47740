//! Reads a file completely, or as far as it is valid.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use tombolo_base::hash::fnv1a;

use super::chunk::{checksum, is_valid_length};
use super::{
    CHUNK_HEADER_BYTES, Chunk, DomainHead, FileError, FinalState, HEADER_BYTES, MAGIC, NodeHead, Problem,
};
use crate::event::Event;
use crate::layout::MAX_LANES;
use crate::snapshot::RowInfo;

/// Events of one lane.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lane {
    /// Events in order.
    pub events: Vec<Event>,
    /// Number of events lost among them.
    pub missed: u64,
}

/// Recording of one domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DomainRecording {
    /// Identity of the domain.
    pub head: DomainHead,
    /// Lanes by number.
    pub lanes: BTreeMap<u32, Lane>,
    /// Texts, by their number in events.
    pub texts: BTreeMap<u64, String>,
    /// Counters of its channels at the end.
    pub rows: Vec<RowInfo>,
    /// State at the end.
    pub final_state: FinalState,
}

/// Content of a trace file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recording {
    /// Creation time, in nanoseconds since 1970.
    pub created_ns: u64,
    /// Name of the machine.
    pub machine: String,
    /// Nodes of the machine.
    pub nodes: Vec<NodeHead>,
    /// Domains, in the order of the file.
    pub domains: Vec<DomainRecording>,
}

impl DomainRecording {
    /// Creates the recording of a domain with nothing recorded yet.
    #[must_use]
    pub fn new(head: DomainHead) -> Self {
        DomainRecording {
            head,
            lanes: BTreeMap::new(),
            texts: BTreeMap::new(),
            rows: Vec::new(),
            final_state: FinalState::default(),
        }
    }
}

impl Recording {
    /// Adds a chunk. The error is a description.
    fn add_chunk(&mut self, chunk: Chunk) -> Result<(), String> {
        let missing = |number: u32| format!("a chunk of domain number {number}, which does not exist");
        match chunk {
            Chunk::Machine { name, nodes } => (self.machine, self.nodes) = (name, nodes),
            Chunk::Domain(head) => self.domains.push(DomainRecording::new(head)),
            Chunk::Texts { domain, texts } => {
                self.domain(domain).ok_or_else(|| missing(domain))?.texts.extend(texts);
            }
            Chunk::Events { domain, lane, missed, events } => {
                if lane as usize >= MAX_LANES {
                    return Err(format!("events of the invalid lane {lane}"));
                }
                let domain = self.domain(domain).ok_or_else(|| missing(domain))?;
                let lane = domain.lanes.entry(lane).or_default();
                lane.missed = lane.missed.saturating_add(missed);
                lane.events.extend(events);
            }
            Chunk::Rows { domain, rows } => {
                self.domain(domain).ok_or_else(|| missing(domain))?.rows.extend(rows);
            }
            Chunk::FinalState { domain, final_state } => {
                self.domain(domain).ok_or_else(|| missing(domain))?.final_state = final_state;
            }
            Chunk::End { .. } => {}
        }
        Ok(())
    }

    fn domain(&mut self, number: u32) -> Option<&mut DomainRecording> {
        self.domains.get_mut(number as usize)
    }

    /// Returns the number of events, including clock readings.
    #[must_use]
    pub fn event_count(&self) -> usize {
        self.domains.iter().flat_map(|domain| domain.lanes.values()).map(|lane| lane.events.len()).sum()
    }

    /// Returns the number of events known to be lost.
    #[must_use]
    pub fn missed_count(&self) -> u64 {
        let lanes = self.domains.iter().flat_map(|domain| domain.lanes.values()).map(|lane| lane.missed);
        let without = self.domains.iter().map(|domain| domain.final_state.losses.events_without_lane);
        lanes.chain(without).fold(0, u64::saturating_add)
    }
}

/// Decodes a trace file, which must be valid and complete.
///
/// # Errors
/// [`FileError`], with the first error and its position.
pub fn read(bytes: &[u8]) -> Result<Recording, FileError> {
    match salvage(bytes) {
        (recording, None) => Ok(recording),
        (_, Some(error)) => Err(error),
    }
}

/// Decodes a file as far as it is valid, and returns the error found there.
#[must_use]
pub fn salvage(bytes: &[u8]) -> (Recording, Option<FileError>) {
    let mut recording = Recording::default();
    let error = read_into(&mut recording, bytes).err();
    (recording, error)
}

fn read_into(recording: &mut Recording, bytes: &[u8]) -> Result<(), FileError> {
    recording.created_ns = read_header(bytes)?;
    let mut offset = HEADER_BYTES;
    let mut chunks = 0;
    while offset < bytes.len() {
        let at = |problem| FileError { offset: offset as u64, problem };
        let content_error = |why| at(Problem::Content(why));
        let (kind, content, next) = read_chunk(bytes, offset)?;
        let chunk = Chunk::decode(kind, content).map_err(content_error)?;
        if matches!(chunk, Chunk::Machine { .. }) != (chunks == 0) {
            return Err(content_error("the machine must be described first, and once".into()));
        }
        if let Chunk::End { chunks: declared } = chunk {
            if declared != chunks {
                return Err(content_error(format!("{chunks} chunks instead of {declared}")));
            }
            return match next == bytes.len() {
                true => Ok(()),
                false => Err(FileError { offset: next as u64, problem: Problem::TrailingBytes }),
            };
        }
        recording.add_chunk(chunk).map_err(content_error)?;
        chunks += 1;
        offset = next;
    }
    Err(FileError { offset: offset as u64, problem: Problem::MissingEnd })
}

/// Decodes the time in the header.
fn read_header(bytes: &[u8]) -> Result<u64, FileError> {
    let at = |offset, problem| FileError { offset, problem };
    if !bytes.starts_with(&MAGIC) && !MAGIC.starts_with(bytes) {
        return Err(at(0, Problem::NotATrace));
    }
    let cut = Problem::Truncated { needed_bytes: HEADER_BYTES as u64, available_bytes: bytes.len() as u64 };
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return Err(at(0, cut)) };
    let number = |from: usize| header[from..].first_chunk::<8>().map_or(0, |word| u64::from_le_bytes(*word));
    if fnv1a(&header[..24]) != number(24) {
        return Err(at(0, Problem::Checksum { length_bytes: 24 }));
    }
    let version = number(8);
    if version != u64::from(super::VERSION) {
        return Err(at(8, Problem::Version(version as u32)));
    }
    Ok(number(16))
}

/// Returns the kind and content of the chunk at `offset`, and the offset of the next one.
fn read_chunk(bytes: &[u8], offset: usize) -> Result<(u32, &[u8], usize), FileError> {
    let at = |problem| FileError { offset: offset as u64, problem };
    let rest = &bytes[offset..];
    let cut =
        |needed: u64| at(Problem::Truncated { needed_bytes: needed, available_bytes: rest.len() as u64 });
    let Some(head) = rest.first_chunk::<CHUNK_HEADER_BYTES>() else {
        return Err(cut(CHUNK_HEADER_BYTES as u64));
    };
    let number = |from: usize| head[from..].first_chunk::<8>().map_or(0, |word| u64::from_le_bytes(*word));
    let (kind, length, sum) = (number(0), number(8), number(16));
    if !is_valid_length(length) {
        return Err(at(Problem::Length(length)));
    }
    // No overflow: the length is within the limit of a chunk.
    let padded = (length as usize).next_multiple_of(8);
    let Some(content) = rest[CHUNK_HEADER_BYTES..].get(..padded) else {
        return Err(cut((CHUNK_HEADER_BYTES + padded) as u64));
    };
    if checksum(&head[..16], content) != sum {
        return Err(at(Problem::Checksum { length_bytes: (CHUNK_HEADER_BYTES + padded) as u64 }));
    }
    let kind = u32::try_from(kind)
        .map_err(|_| at(Problem::Content(format!("a chunk of the unknown kind {kind}"))))?;
    Ok((kind, &content[..length as usize], offset + CHUNK_HEADER_BYTES + padded))
}
