//! Conversion of the machine's parts to observations.

use tombolo_base::{DomainId, NodeId};
use tombolo_control::observation::{NodePhase, Observation, SeenDomain, SeenNode, SeenRegion};

use super::versions::PartKey;
use crate::root::nodes::MAX_CAUSE_BYTES;
use crate::root::{Core, DomainRecord, NodeState};

/// Maximum length of a domain's arguments, in bytes.
const MAX_ARGUMENTS_BYTES: usize = 1000;

impl Core {
    /// Returns the present state of a part; `None` if it is gone.
    pub(super) fn snapshot(&self, key: PartKey) -> Option<Observation> {
        Some(match key {
            PartKey::Node(node) => Observation::Node(self.node_snapshot(node)?),
            PartKey::Domain(domain) => Observation::Domain(match self.domains.get(&domain) {
                Some(record) => self.domain_snapshot(domain, record),
                None => self.observing.ended.get(domain)?.seen.clone(),
            }),
            PartKey::Channel(channel) => {
                Observation::Channel(self.observing.channels.snapshot(channel, self.relays.via(channel))?)
            }
            PartKey::Region(region) => {
                Observation::Region(SeenRegion { info: self.observing.regions.get(region)?.clone() })
            }
            PartKey::Link(a, b) => Observation::Link(self.observing.channels.link_snapshot(a, b)?),
            PartKey::Event(number) => Observation::Event(self.observing.events.get(number)?.clone()),
        })
    }

    fn node_snapshot(&self, id: NodeId) -> Option<SeenNode> {
        let node = self.machine.node(id)?;
        let (record, observed) =
            (self.nodes.get(usize::from(id.0))?, self.observing.nodes.get(usize::from(id.0))?);
        let mut info = self.node_info(node, record);
        info.cause = truncate_text(info.cause, MAX_CAUSE_BYTES);
        let phase = match record.state {
            NodeState::Booting { .. } => NodePhase::Starting,
            NodeState::Up => NodePhase::Up,
            NodeState::Down { .. } | NodeState::AwaitingJoin { .. } => NodePhase::Down,
        };
        Some(SeenNode {
            info,
            phase,
            target: node.target(),
            sample: observed.sample.clone(),
            sampled_ns: observed.sampled_ns,
            engines: observed.engines.clone(),
        })
    }

    /// Returns the observation of a living domain.
    pub(super) fn domain_snapshot(&self, id: DomainId, record: &DomainRecord) -> SeenDomain {
        let observed = &record.observed;
        SeenDomain {
            id,
            node: id.node(),
            program: record.program.clone(),
            arguments: observed.arguments.clone(),
            pid: record.pid,
            parent: record.parent.map(|(parent, _)| parent),
            since_ns: record.since,
            exit: None,
            ended_ns: 0,
            paused: observed.paused,
            restartable: record.image.as_ref().is_some_and(tombolo_machine::Image::is_restartable)
                && record.is_repeatable(),
            repeatable: record.is_repeatable(),
            channels: record.channels,
            output_bytes: observed.output.written(),
            sample: observed.sample,
        }
    }
}

/// Joins arguments to one line for display.
pub(in crate::root) fn command_line(arguments: &[String]) -> String {
    let mut line = String::new();
    for argument in arguments {
        if !line.is_empty() {
            line.push(' ');
        }
        let plain = !argument.is_empty() && !argument.contains(|c: char| c.is_whitespace() || c == '\'');
        if plain {
            line.push_str(argument);
        } else {
            line.push('\'');
            line.push_str(&argument.replace('\'', "'\\''"));
            line.push('\'');
        }
        if line.len() > MAX_ARGUMENTS_BYTES {
            break;
        }
    }
    truncate_text(line, MAX_ARGUMENTS_BYTES)
}

/// Truncates a text to a length; an ellipsis marks omissions.
pub(in crate::root) fn truncate_text(mut text: String, max_bytes: usize) -> String {
    if text.len() > max_bytes {
        let end = text.floor_char_boundary(max_bytes.saturating_sub('…'.len_utf8()));
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Truncates the cause in a domain's exit status.
pub(super) fn truncate_exit(exit: tombolo_control::Exit) -> tombolo_control::Exit {
    match exit {
        tombolo_control::Exit::NodeLost { cause } => {
            tombolo_control::Exit::NodeLost { cause: truncate_text(cause, MAX_CAUSE_BYTES) }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_at_character_boundaries() {
        assert_eq!(truncate_text("ä".repeat(5), 10), "äääää");
        assert_eq!(truncate_text("ä".repeat(6), 10), "äää…");
        assert_eq!(truncate_text("ä".repeat(6), 2), "…");
        let arguments = ["a", "b c", "", "it's"].map(str::to_owned);
        assert_eq!(command_line(&arguments), r"a 'b c' '' 'it'\''s'");
        assert!(command_line(&vec!["x".repeat(70); 1000]).len() <= MAX_ARGUMENTS_BYTES);
    }
}
