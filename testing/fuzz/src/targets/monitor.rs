//! The core of the root, fed with arbitrary messages of agents and clients in any order.

use std::path::Path;

use tombolo_base::{Isa, NodeId};
use tombolo_control::{ClientMessage, Report, Wire};
use tombolo_machine::Machine;
use tombolo_monitor_core::root::Core;

use super::messages;
use crate::read::Choices;

const MACHINE: &str = r#"
name = "fuzz"
[[node]]
name = "host"
kind = "host"
[[node]]
name = "arm0"
kind = "vm"
isa = "aarch64"
[limits]
domains_per_node = 20
connections_per_node = 20
names_per_domain = 5
waiting_per_domain = 5
backlog = 3
window_channels_per_domain = 4
children_per_domain = 5
"#;

/// Number of client connections; few, so that their messages interact.
const CONNECTIONS: u8 = 4;

/// Runs the steps of an input: node, kind, and then the arguments of each step.
pub(super) fn run(input: &[u8]) {
    let Ok(machine) = Machine::parse(MACHINE, Path::new("fuzz.toml"), Isa::X86_64) else { return };
    let mut core = Core::new(machine, 0);
    core.boot_all(0);
    for (node, isa) in [(NodeId(0), Isa::X86_64), (NodeId(1), Isa::Aarch64)] {
        core.node_started(node, 100, (node.0 == 1).then_some((1 << 20, 6)));
        let version = tombolo_control::FINGERPRINT;
        core.report(0, node, Report::Ready { version, isa, cores: 1, pid: 100 }, None);
    }
    let mut choices = Choices::new(input);
    let mut now = 0;
    let mut steps = 0_usize;
    let mut effects = core.take_effects().len();
    while !choices.is_empty() {
        steps += 1;
        let node = NodeId(u16::from(choices.below(2)));
        match choices.below(6) {
            0 => {
                now += choices.word() >> 24;
                core.tick(now);
            }
            1 => {
                let connection = u32::from(choices.below(CONNECTIONS));
                core.report(now, node, Report::Joined { connection, pid: 7, domain: None }, None);
            }
            2 | 3 => {
                let connection = u32::from(choices.below(CONNECTIONS));
                let message = choices.piece().to_vec();
                core.report(now, node, Report::Asked { connection, message }, None);
            }
            4 => {
                if let Ok(report) = Report::from_bytes(choices.piece()) {
                    core.report(now, node, report, None);
                }
            }
            _ => match choices.below(3) {
                0 => core.node_lost(NodeId(1), "fuzzed"),
                1 => core.console_output(NodeId(1), choices.piece()),
                _ => core.set_pending_console_input(NodeId(1), usize::from(choices.byte())),
            },
        }
        effects += core.take_effects().len();
        // The work per message is bounded: at most one message to each existing party.
        assert!(effects <= 64 + steps * 256, "{effects} effects after {steps} steps");
    }
    let _ = (core.next_tick(), core.idle_since(), core.boot_progress());
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let piece = |bytes: &[u8]| {
        let mut piece = (bytes.len() as u16).to_le_bytes().to_vec();
        piece.extend_from_slice(bytes);
        piece
    };
    let mut story = Vec::new();
    for (node, connection) in [(0, 1), (1, 2)] {
        story.extend([node, 1, connection]);
        for body in messages::requests() {
            story.extend([node, 2, connection]);
            story.extend(piece(&messages::bytes(&ClientMessage { request: 9, body })));
        }
    }
    let mut told = Vec::new();
    for report in messages::reports() {
        told.extend([1, 4]);
        told.extend(piece(&messages::bytes(&report)));
    }
    let both = [story.clone(), told.clone()].concat();
    vec![story, told, both]
}
