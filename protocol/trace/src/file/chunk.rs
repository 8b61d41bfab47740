//! Chunks of a file, and their encoding.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use tombolo_base::hash::fnv1a;

use super::{CHUNK_HEADER_BYTES, MAX_CHUNK_BYTES};
use crate::event::Event;
use crate::layout::EVENT_BYTES;
use crate::page::Identity;
use crate::snapshot::{Losses, ROW_WORDS, RowInfo};

/// Description of a node of the machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeHead {
    /// Number of the node.
    pub id: u16,
    /// Name of the node.
    pub name: String,
    /// Kind of the node, as in machine files.
    pub kind: String,
    /// Instruction set of the node.
    pub isa: String,
}

/// Identity of a recorded domain, its node and its program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DomainHead {
    /// Identity and clock of the domain.
    pub identity: Identity,
    /// Name of its node.
    pub node: String,
    /// Name of its program.
    pub program: String,
}

/// State of a domain when the recording ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FinalState {
    /// Whether the domain was alive.
    pub alive: bool,
    /// Events and names lost for lack of room in its page.
    pub losses: Losses,
}

/// Chunk of a file. Domains are numbered from 0 in the order of their [`Chunk::Domain`]s.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Chunk {
    /// Description of the machine; the first chunk.
    Machine {
        /// Name of the machine.
        name: String,
        /// Nodes of the machine.
        nodes: Vec<NodeHead>,
    },
    /// Description of the next domain.
    Domain(DomainHead),
    /// Texts of a domain.
    Texts {
        /// Number of the domain.
        domain: u32,
        /// Texts with their numbers in events.
        texts: Vec<(u64, String)>,
    },
    /// Events of one lane of a domain, in order.
    Events {
        /// Number of the domain.
        domain: u32,
        /// Number of the lane.
        lane: u32,
        /// Number of events lost before these.
        missed: u64,
        /// Events of the lane.
        events: Vec<Event>,
    },
    /// Counters of a domain's channels at the end.
    Rows {
        /// Number of the domain.
        domain: u32,
        /// Rows, one per channel end.
        rows: Vec<RowInfo>,
    },
    /// State of a domain at the end.
    FinalState {
        /// Number of the domain.
        domain: u32,
        /// State of the domain.
        final_state: FinalState,
    },
    /// The last chunk.
    End {
        /// Number of chunks before it.
        chunks: u64,
    },
}

impl Chunk {
    fn kind(&self) -> u32 {
        match self {
            Chunk::Machine { .. } => 1,
            Chunk::Domain(_) => 2,
            Chunk::Texts { .. } => 3,
            Chunk::Events { .. } => 4,
            Chunk::Rows { .. } => 5,
            Chunk::FinalState { .. } => 6,
            Chunk::End { .. } => 7,
        }
    }

    /// Encodes the chunk for a file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = alloc::vec![0; CHUNK_HEADER_BYTES];
        self.encode(&mut bytes);
        let length = bytes.len() - CHUNK_HEADER_BYTES;
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes[..4].copy_from_slice(&self.kind().to_le_bytes());
        bytes[8..16].copy_from_slice(&(length as u64).to_le_bytes());
        let checksum = checksum(&bytes[..16], &bytes[CHUNK_HEADER_BYTES..]);
        bytes[16..24].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Chunk::Machine { name, nodes } => {
                put_text(out, name);
                put(out, nodes.len() as u64);
                for node in nodes {
                    put(out, u64::from(node.id));
                    [&node.name, &node.kind, &node.isa].into_iter().for_each(|text| put_text(out, text));
                }
            }
            Chunk::Domain(head) => {
                head.identity.to_words().into_iter().for_each(|word| put(out, word));
                put_text(out, &head.node);
                put_text(out, &head.program);
            }
            Chunk::Texts { domain, texts } => {
                put(out, u64::from(*domain));
                put(out, texts.len() as u64);
                for (number, text) in texts {
                    put(out, *number);
                    put_text(out, text);
                }
            }
            Chunk::Events { domain, lane, missed, events } => {
                put(out, u64::from(*domain) | u64::from(*lane) << 32);
                put(out, *missed);
                events.iter().for_each(|event| out.extend_from_slice(&event.to_bytes()));
            }
            Chunk::Rows { domain, rows } => {
                put(out, u64::from(*domain));
                rows.iter().flat_map(RowInfo::to_words).for_each(|word| put(out, word));
            }
            Chunk::FinalState { domain, final_state } => {
                put(out, u64::from(*domain) | u64::from(final_state.alive) << 32);
                put(out, final_state.losses.events_without_lane);
                put(out, final_state.losses.channels_without_row);
                put(out, final_state.losses.texts);
            }
            Chunk::End { chunks } => put(out, *chunks),
        }
    }

    /// Decodes the content of a chunk. The error is a description.
    pub(super) fn decode(kind: u32, content: &[u8]) -> Result<Chunk, String> {
        let mut input = Decoder(content);
        let chunk = match kind {
            1 => {
                let name = input.text()?;
                let nodes = input.list(|input| {
                    Ok(NodeHead {
                        id: u16::try_from(input.word()?).map_err(|_| "a node's number is too large")?,
                        name: input.text()?,
                        kind: input.text()?,
                        isa: input.text()?,
                    })
                })?;
                Chunk::Machine { name, nodes }
            }
            2 => Chunk::Domain(DomainHead {
                identity: Identity::from_words(input.words()?),
                node: input.text()?,
                program: input.text()?,
            }),
            3 => {
                let domain = input.number()?;
                Chunk::Texts { domain, texts: input.list(|input| Ok((input.word()?, input.text()?)))? }
            }
            4 => {
                let word = input.word()?;
                let missed = input.word()?;
                let events = input.events()?;
                Chunk::Events { domain: word as u32, lane: (word >> 32) as u32, missed, events }
            }
            5 => {
                let domain = input.number()?;
                let mut rows = Vec::new();
                while !input.0.is_empty() {
                    rows.push(input.row()?);
                }
                Chunk::Rows { domain, rows }
            }
            6 => {
                let word = input.word()?;
                let [events_without_lane, channels_without_row, texts] = input.words()?;
                let alive = match word >> 32 {
                    0 => false,
                    1 => true,
                    other => return Err(format!("the alive flag of a domain is {other}")),
                };
                let losses = Losses { events_without_lane, channels_without_row, texts };
                Chunk::FinalState { domain: word as u32, final_state: FinalState { alive, losses } }
            }
            7 => Chunk::End { chunks: input.word()? },
            _ => return Err(format!("a chunk of the unknown kind {kind}")),
        };
        match input.0.len() {
            0 => Ok(chunk),
            rest => Err(format!("{rest} bytes at the end of a chunk of kind {kind}")),
        }
    }
}

/// Returns the checksum over a chunk's kind and length, and its padded content.
pub(super) fn checksum(head: &[u8], content: &[u8]) -> u64 {
    let (words, _) = content.as_chunks::<8>();
    // One step per word rather than byte, because files can be large.
    words.iter().fold(fnv1a(head), |hash, word| {
        (hash ^ u64::from_le_bytes(*word)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29)
    })
}

/// Whether a content of this length is valid.
pub(super) fn is_valid_length(length: u64) -> bool {
    length <= MAX_CHUNK_BYTES as u64
}

fn put(out: &mut Vec<u8>, word: u64) {
    out.extend_from_slice(&word.to_le_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Rest of a content that is not decoded yet.
struct Decoder<'a>(&'a [u8]);

impl Decoder<'_> {
    fn take(&mut self, length: usize) -> Result<&[u8], String> {
        let (head, tail) = self.0.split_at_checked(length).ok_or("a chunk that is too short")?;
        self.0 = tail;
        Ok(head)
    }

    fn word(&mut self) -> Result<u64, String> {
        let bytes = self.take(8)?.first_chunk::<8>().ok_or("a chunk that is too short")?;
        Ok(u64::from_le_bytes(*bytes))
    }

    fn words<const N: usize>(&mut self) -> Result<[u64; N], String> {
        let mut words = [0; N];
        for word in &mut words {
            *word = self.word()?;
        }
        Ok(words)
    }

    fn number(&mut self) -> Result<u32, String> {
        u32::try_from(self.word()?).map_err(|_| "a domain's number is too large".into())
    }

    fn text(&mut self) -> Result<String, String> {
        let length = usize::try_from(self.word()?).map_err(|_| "a text that is too long")?;
        let text = core::str::from_utf8(self.take(length)?).map_err(|_| "text that is not UTF-8")?;
        Ok(text.into())
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T, String>) -> Result<Vec<T>, String> {
        let count = self.word()?;
        // Every item takes at least eight bytes.
        if count > self.0.len() as u64 / 8 {
            return Err("a list that is longer than its chunk".into());
        }
        (0..count).map(|_| item(self)).collect()
    }

    fn events(&mut self) -> Result<Vec<Event>, String> {
        let (pieces, rest) = core::mem::take(&mut self.0).as_chunks::<EVENT_BYTES>();
        self.0 = rest;
        pieces.iter().map(|piece| Event::from_bytes(piece).map_err(|error| format!("{error}"))).collect()
    }

    fn row(&mut self) -> Result<RowInfo, String> {
        let bytes = self.take(ROW_WORDS * 8)?;
        RowInfo::from_bytes(bytes).ok_or_else(|| "a row of counters has an invalid state".into())
    }
}
