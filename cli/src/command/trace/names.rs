//! Names of the domains and channels in a recording.

use std::collections::BTreeMap;

use tombolo::{DomainId, TransportKind};
use tombolo_trace::event::EventKind;
use tombolo_trace::file::{DomainRecording, Recording};

use crate::text::one_line;

/// Known ends of a channel.
#[derive(Clone, Copy, Default)]
struct ChannelEnds {
    connecting: Option<u64>,
    accepting: Option<u64>,
    transport: Option<u8>,
}

/// Lookup of names for the numbers in a recording.
pub(super) struct Names<'a> {
    recording: &'a Recording,
    nodes: BTreeMap<u16, &'a str>,
    channels: BTreeMap<u64, ChannelEnds>,
}

impl<'a> Names<'a> {
    pub(super) fn new(recording: &'a Recording) -> Names<'a> {
        let mut names = Names {
            recording,
            nodes: recording.nodes.iter().map(|node| (node.id, node.name.as_str())).collect(),
            channels: BTreeMap::new(),
        };
        for domain in &recording.domains {
            let own = domain.head.identity.domain;
            for row in &domain.rows {
                names.note(row.channel, row.accepting, own, row.peer, row.transport);
            }
            let events = domain.lanes.values().flat_map(|lane| &lane.events);
            for event in events.filter(|event| event.kind == EventKind::Open) {
                names.note(event.subject, event.accepting, own, event.value, event.size as u8);
            }
        }
        names
    }

    fn note(&mut self, channel: u64, accepting: bool, own: u64, peer: u64, transport: u8) {
        let (connecting, accepting) = if accepting { (peer, own) } else { (own, peer) };
        let ends = self.channels.entry(channel).or_default();
        *ends = ChannelEnds {
            connecting: Some(connecting),
            accepting: Some(accepting),
            transport: Some(transport),
        };
    }

    /// Returns a domain of the recording.
    pub(super) fn record(&self, domain: u32) -> Option<&'a DomainRecording> {
        self.recording.domains.get(domain as usize)
    }

    /// Formats a domain by its index in the recording: `1.1.4`.
    pub(super) fn domain(&self, domain: u32) -> String {
        self.record(domain).map_or_else(|| "?".to_owned(), |record| id(record.head.identity.domain))
    }

    /// Formats a domain with its node: `1.1.4 on arm0`.
    pub(super) fn place(&self, bits: u64) -> String {
        let node = DomainId::from_bits(bits).and_then(|id| self.nodes.get(&id.node().0).copied());
        match node {
            Some(node) => format!("{} on {node}", id(bits)),
            None => id(bits),
        }
    }

    /// Returns the sender of a channel's direction.
    pub(super) fn sender(&self, (channel, from_accepting): (u64, bool)) -> Option<u64> {
        let ends = self.channels.get(&channel)?;
        if from_accepting { ends.accepting } else { ends.connecting }
    }

    /// Returns the transport of a channel.
    pub(super) fn transport(&self, channel: u64) -> &'static str {
        let number = self.channels.get(&channel).and_then(|ends| ends.transport);
        let kind = number.and_then(|number| TransportKind::ALL.get(usize::from(number)));
        kind.map_or("?", |kind| kind.name())
    }

    /// Returns a text of a domain.
    pub(super) fn text(&self, domain: u32, text: u64) -> String {
        let record = self.record(domain);
        record
            .and_then(|record| record.texts.get(&text))
            .map_or_else(|| "?".to_owned(), |text| one_line(text))
    }
}

/// Returns a domain's id.
pub(super) fn id(bits: u64) -> String {
    DomainId::from_bits(bits).map_or_else(|| format!("{bits:#x}"), |id| id.to_string())
}
