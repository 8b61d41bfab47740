//! Conversion of the machine's parts to observations.

use tombolo_base::{DomainId, NodeId};
use tombolo_control::observation::{NodePhase, Observation, SeenDomain, SeenNode, SeenRegion};

use super::versions::Key;
use crate::root::nodes::MAX_CAUSE_BYTES;
use crate::root::{Core, DomainRecord, NodeState};

/// Maximum length of a domain's arguments, in bytes.
const MAX_ARGUMENTS_BYTES: usize = 1000;

impl Core {
    /// Returns the present state of a part; `None` if it is gone.
    pub(super) fn see(&self, key: Key) -> Option<Observation> {
        Some(match key {
            Key::Node(node) => Observation::Node(self.see_node(node)?),
            Key::Domain(domain) => Observation::Domain(match self.domains.get(&domain) {
                Some(record) => self.see_domain(domain, record),
                None => self.observing.ended.of(domain)?.seen.clone(),
            }),
            Key::Channel(channel) => {
                Observation::Channel(self.observing.channels.see(channel, self.relays.via(channel))?)
            }
            Key::Region(region) => {
                Observation::Region(SeenRegion { info: self.observing.regions.of(region)?.clone() })
            }
            Key::Link(a, b) => Observation::Link(self.observing.channels.see_link(a, b)?),
            Key::Event(number) => Observation::Event(self.observing.events.of(number)?.clone()),
        })
    }

    fn see_node(&self, id: NodeId) -> Option<SeenNode> {
        let node = self.machine.node(id)?;
        let (record, watched) =
            (self.nodes.get(usize::from(id.0))?, self.observing.nodes.get(usize::from(id.0))?);
        let mut info = self.node_info(node, record);
        info.cause = cut(info.cause, MAX_CAUSE_BYTES);
        let phase = match record.state {
            NodeState::Booting { .. } => NodePhase::Starting,
            NodeState::Up => NodePhase::Up,
            NodeState::Down { .. } | NodeState::Awaited { .. } => NodePhase::Down,
        };
        Some(SeenNode {
            info,
            phase,
            target: node.target(),
            sample: watched.sample.clone(),
            sampled_ns: watched.sampled_ns,
            engines: watched.engines.clone(),
        })
    }

    /// Returns the observation of a living domain.
    pub(super) fn see_domain(&self, id: DomainId, record: &DomainRecord) -> SeenDomain {
        let watched = &record.watched;
        SeenDomain {
            id,
            node: id.node(),
            program: record.program.clone(),
            arguments: watched.arguments.clone(),
            pid: record.pid,
            parent: record.parent.map(|(parent, _)| parent),
            since_ns: record.since,
            exit: None,
            ended_ns: 0,
            paused: watched.paused,
            restartable: record.image.as_ref().is_some_and(tombolo_machine::Image::is_restartable)
                && record.is_repeatable(),
            repeatable: record.is_repeatable(),
            channels: record.channels,
            output_bytes: watched.output.written(),
            sample: watched.sample,
        }
    }
}

/// Joins arguments to one line for display.
pub(in crate::root) fn line_of(arguments: &[String]) -> String {
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
    cut(line, MAX_ARGUMENTS_BYTES)
}

/// Truncates a text to a length; an ellipsis marks omissions.
pub(in crate::root) fn cut(mut text: String, max_bytes: usize) -> String {
    if text.len() > max_bytes {
        let end = text.floor_char_boundary(max_bytes.saturating_sub('…'.len_utf8()));
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Truncates the cause in a domain's exit status.
pub(super) fn short(exit: tombolo_control::Exit) -> tombolo_control::Exit {
    match exit {
        tombolo_control::Exit::NodeLost { cause } => {
            tombolo_control::Exit::NodeLost { cause: cut(cause, MAX_CAUSE_BYTES) }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_cut_between_characters() {
        assert_eq!(cut("ä".repeat(5), 10), "äääää");
        assert_eq!(cut("ä".repeat(6), 10), "äää…");
        assert_eq!(cut("ä".repeat(6), 2), "…");
        let arguments = ["a", "b c", "", "it's"].map(str::to_owned);
        assert_eq!(line_of(&arguments), r"a 'b c' '' 'it'\''s'");
        assert!(line_of(&vec!["x".repeat(70); 1000]).len() <= MAX_ARGUMENTS_BYTES);
    }
}
