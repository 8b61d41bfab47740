//! `tombolo channels`

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tombolo::{ChannelId, DomainId, TransportKind};
use tombolo_admin::Machine;
use tombolo_admin::trace::TracedInfo;
use tombolo_trace::page::RowState;
use tombolo_trace::snapshot::RowInfo;

use crate::context::{Context, print, print_json};
use crate::failure::Failure;
use crate::text::{self, Table};

/// Lists the channels of a machine, with what they have carried
///
/// Each line is one direction of a channel. SENT, RECEIVED and BYTES count messages since the channel was
/// opened. DEPTH is the number of messages between the ends; the two counters are not read at the same
/// moment, so it is at most the room of the ring. RINGS counts wake-ups of the receiver, SLEEPS how often it
/// slept, STALLS messages that found the ring full. LINK names the nodes that relay a channel whose two nodes
/// have no link. Domains count all the time, at no cost to this command.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo channels
  tombolo channels --all
  tombolo channels --json | jq '.channels[] | select(.depth > 10)'")]
pub(crate) struct Options {
    /// Also channels that have ended, as long as they are remembered
    #[arg(long)]
    all: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    machine: String,
    channels: Vec<DirectionReport>,
}

/// A direction of a channel, with stable keys. Unknown values are null, because the end is gone or not in
/// this machine.
#[derive(Serialize)]
struct DirectionReport {
    channel: u64,
    link: &'static str,
    /// Nodes whose relays are between, starting at the sender.
    via: Vec<String>,
    state: &'static str,
    from: String,
    from_node: Option<String>,
    to: String,
    to_node: Option<String>,
    sent: Option<u64>,
    sent_bytes: Option<u64>,
    received: Option<u64>,
    received_bytes: Option<u64>,
    depth: Option<u64>,
    rings: Option<u64>,
    sleeps: Option<u64>,
    stalls: Option<u64>,
    max_message_bytes: u64,
}

/// One end, with its domain.
type ChannelEnd = (TracedInfo, RowInfo);

/// Ends of a channel: the connecting, then the accepting.
type ChannelEnds = [Option<ChannelEnd>; 2];

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let domain = context.attach_running()?;
    let machine = Machine::of(&domain);
    let mut channels: BTreeMap<u64, ChannelEnds> = BTreeMap::new();
    for (info, rows) in machine.channel_rows()? {
        for row in rows {
            let ends = channels.entry(row.channel).or_default();
            ends[usize::from(row.accepting)] = Some((info.clone(), row));
        }
    }
    let nodes: BTreeMap<u16, String> =
        domain.nodes()?.into_iter().map(|node| (node.id.0, node.name)).collect();
    let mut observer = machine.observe();
    observer.refresh(Duration::ZERO)?;
    let via = |channel: u64| -> Vec<String> {
        let seen = observer.seen().channels.get(&ChannelId(channel));
        let relays = seen.into_iter().flat_map(|channel| &channel.via);
        relays.filter_map(|node| nodes.get(&node.0).cloned()).collect()
    };
    let open = |ends: &&ChannelEnds| {
        ends.iter().flatten().any(|(info, row)| info.alive && row.state == RowState::Open)
    };
    let reports: Vec<DirectionReport> = channels
        .values()
        .filter(|ends| options.all || open(ends))
        .flat_map(|ends| [direction(ends, 0, &nodes, via), direction(ends, 1, &nodes, via)])
        .flatten()
        .collect();
    if options.json {
        return print_json(&Report { machine: domain.machine_name().to_owned(), channels: reports });
    }
    print(render(&reports, context.colour))
}

/// Builds the report of one direction of a channel.
fn direction(
    ends: &ChannelEnds,
    from: usize,
    nodes: &BTreeMap<u16, String>,
    via: impl Fn(u64) -> Vec<String>,
) -> Option<DirectionReport> {
    let (sender, receiver) = (&ends[from], &ends[1 - from]);
    let (_, known) = sender.as_ref().or(receiver.as_ref())?;
    let mut via = via(known.channel);
    if from == 1 {
        via.reverse();
    }
    let who = |end: &Option<ChannelEnd>, other: &Option<ChannelEnd>| match (end, other) {
        (Some((info, _)), _) => (info.id.to_string(), Some(info.node.clone())),
        // Its peer knows its identity.
        (None, Some((_, row))) => match DomainId::from_bits(row.peer) {
            Some(id) => (id.to_string(), nodes.get(&id.node().0).cloned()),
            None => ("?".to_owned(), None),
        },
        (None, None) => ("?".to_owned(), None),
    };
    let ((from, from_node), (to, to_node)) = (who(sender, receiver), who(receiver, sender));
    let (out, into) = (sender.as_ref().map(|(_, row)| row), receiver.as_ref().map(|(_, row)| row));
    // The two ends were not read at the same moment, so messages in between are bounded by the ring.
    let most = out.filter(|out| out.slots != 0).map_or(u64::MAX, |out| out.slots.into());
    let depth =
        out.zip(into).map(|(out, into)| out.messages_sent.saturating_sub(into.messages_received).min(most));
    Some(DirectionReport {
        channel: known.channel,
        via,
        link: TransportKind::ALL.get(usize::from(known.transport)).map_or("?", |kind| kind.name()),
        state: state(ends),
        from,
        from_node,
        to,
        to_node,
        sent: out.map(|row| row.messages_sent),
        sent_bytes: out.map(|row| row.bytes_sent),
        received: into.map(|row| row.messages_received),
        received_bytes: into.map(|row| row.bytes_received),
        depth,
        rings: out.map(|row| row.rings),
        sleeps: into.map(|row| row.sleeps),
        stalls: out.map(|row| row.stalls),
        max_message_bytes: known.max_message_bytes,
    })
}

/// Returns the state of a channel: the worst reported by its ends.
fn state(ends: &ChannelEnds) -> &'static str {
    let states: Vec<RowState> = ends
        .iter()
        .flatten()
        .map(|(info, row)| match row.state {
            RowState::Open if !info.alive => RowState::PeerDied,
            state => state,
        })
        .collect();
    let any = |wanted: RowState| states.contains(&wanted);
    if any(RowState::Broken) {
        "broken"
    } else if any(RowState::PeerDied) {
        "died"
    } else if any(RowState::Closed) || any(RowState::PeerClosed) {
        "closed"
    } else {
        "open"
    }
}

fn render(reports: &[DirectionReport], colour: bool) -> String {
    let mut table = Table::new(&[
        "CHANNEL>",
        "LINK",
        "STATE",
        "FROM",
        "TO",
        "SENT>",
        "BYTES>",
        "RECEIVED>",
        "DEPTH>",
        "RINGS>",
        "SLEEPS>",
        "STALLS>",
    ]);
    let number = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    let place = |id: &str, node: &Option<String>| match node {
        Some(node) => format!("{id} on {node}"),
        None => id.to_owned(),
    };
    for report in reports {
        table.row([
            report.channel.to_string(),
            match &report.via[..] {
                [] => report.link.to_owned(),
                via => format!("{} by {}", report.link, via.join(", ")),
            },
            report.state.to_owned(),
            place(&report.from, &report.from_node),
            place(&report.to, &report.to_node),
            number(report.sent),
            report.sent_bytes.map_or_else(|| "-".to_owned(), text::bytes),
            number(report.received),
            number(report.depth),
            number(report.rings),
            number(report.sleeps),
            number(report.stalls),
        ]);
    }
    table.render(colour)
}
