//! `tombolo trace show`

use std::io::Write;

use clap::Args;
use serde::Serialize;
use tombolo::DomainId;
use tombolo_trace::event::{AWAITS_ROOM, EventKind, GONE_CLOSED, GONE_DIED};
use tombolo_trace::merge::{Timeline, TimelineEvent};

use super::file::Source;
use super::names::{Names, id};
use crate::context::Context;
use crate::failure::Failure;

/// Shows a trace as text: one event per line, causes before effects
///
/// TIME is in microseconds since the first event, on one time line for all nodes. CLOCK is a logical clock:
/// of two events one of which may have caused the other, the one with the smaller CLOCK came first.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo trace show job.tbt | less
  tombolo trace show job.tbt --channel 3 --limit 100
  tombolo trace show job.tbt --json | jq 'select(.event == \"gone\")'")]
pub(super) struct Options {
    #[command(flatten)]
    source: Source,

    /// Show only events of this channel
    #[arg(long, value_name = "NUMBER")]
    channel: Option<u64>,

    /// Show only events of this domain
    #[arg(long, value_name = "ID")]
    domain: Option<DomainId>,

    /// Show only this many events
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,

    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
}

/// An event, with stable keys.
#[derive(Serialize)]
struct EventReport {
    time_ns: u64,
    logical_clock: u64,
    domain: String,
    node: String,
    program: String,
    thread: u16,
    event: &'static str,
    /// Index of the send event of a message, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<u64>,
    /// Description of the event.
    text: String,
}

pub(super) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let (recording, timeline) = options.source.load(context)?;
    let names = Names::new(&recording);
    let wanted = |placed: &&TimelineEvent| {
        let domain = names.record(placed.domain).map(|record| record.head.identity.domain);
        options.domain.is_none_or(|wanted| domain == Some(wanted.to_bits()))
            && options
                .channel
                .is_none_or(|channel| placed.event.kind.is_of_channel() && placed.event.subject == channel)
    };
    let events = timeline.events.iter().filter(wanted).take(options.limit.unwrap_or(usize::MAX));
    let mut output = std::io::BufWriter::new(std::io::stdout().lock());
    let mut line = |text: String| writeln!(output, "{text}").map_err(Failure::Output);
    if options.json {
        for placed in events {
            let report = report(&names, &timeline, placed);
            line(serde_json::to_string(&report).map_err(|error| Failure::Output(error.into()))?)?;
        }
    } else {
        let heads = ["TIME", "CLOCK", "DOMAIN", "NODE", "THREAD"];
        line(format!(
            "{:>14}  {:>8}  {:<8}  {:<10}  {:>6}  EVENT",
            heads[0], heads[1], heads[2], heads[3], heads[4]
        ))?;
        for placed in events {
            let node = names.record(placed.domain).map_or("?", |record| record.head.node.as_str());
            let (time_us, below) = (placed.time_ns / 1000, placed.time_ns % 1000);
            line(format!(
                "{time_us:>10}.{below:03}  {:>8}  {:<8}  {node:<10}  {:>6}  {}",
                placed.logical,
                names.domain(placed.domain),
                placed.event.thread,
                words(&names, &timeline, placed)
            ))?;
        }
    }
    output.flush().map_err(Failure::Output)
}

fn latency_ns(timeline: &Timeline, placed: &TimelineEvent) -> Option<u64> {
    let send = timeline.events.get(placed.cause? as usize)?;
    Some(placed.time_ns - send.time_ns)
}

fn report(names: &Names<'_>, timeline: &Timeline, placed: &TimelineEvent) -> EventReport {
    let event = &placed.event;
    let is_message = matches!(event.kind, EventKind::Send | EventKind::Receive);
    let of_channel = event.kind.is_of_channel();
    let record = names.record(placed.domain);
    EventReport {
        time_ns: placed.time_ns,
        logical_clock: placed.logical,
        domain: names.domain(placed.domain),
        node: record.map(|record| record.head.node.clone()).unwrap_or_default(),
        program: record.map(|record| record.head.program.clone()).unwrap_or_default(),
        thread: event.thread,
        event: event.kind.name(),
        cause: placed.cause,
        channel: of_channel.then_some(event.subject),
        end: of_channel.then_some(if event.accepting { "accepting" } else { "connecting" }),
        message: is_message.then_some(event.value),
        bytes: is_message.then_some(event.size),
        latency_ns: latency_ns(timeline, placed),
        name: event.kind.is_named().then(|| names.text(placed.domain, event.subject)),
        value: matches!(event.kind, EventKind::Marker | EventKind::Value).then_some(event.value),
        text: words(names, timeline, placed),
    }
}

/// Describes an event in words.
fn words(names: &Names<'_>, timeline: &Timeline, placed: &TimelineEvent) -> String {
    let event = &placed.event;
    let channel = event.subject;
    let text = || names.text(placed.domain, event.subject);
    match event.kind {
        EventKind::Send => {
            let to = names.sender((channel, !event.accepting));
            let to = to.map_or_else(String::new, |to| format!(" to {}", names.place(to)));
            format!("send {} on channel {channel}{to}, {} B", event.value, event.size)
        }
        EventKind::Receive => {
            let latency = match latency_ns(timeline, placed) {
                Some(ns) => format!("{}.{:03} us after its send", ns / 1000, ns % 1000),
                None => "whose send was not recorded".to_owned(),
            };
            format!("receive {} on channel {channel}, {} B, {latency}", event.value, event.size)
        }
        EventKind::Ring => format!("ring on channel {channel}"),
        EventKind::Sleep if event.value == AWAITS_ROOM => format!("sleep on channel {channel}, for room"),
        EventKind::Sleep => format!("sleep on channel {channel}"),
        EventKind::Wake if event.value == 0 => format!("wake on channel {channel}, by itself"),
        EventKind::Wake => format!("wake on channel {channel}"),
        EventKind::Open => {
            format!("open channel {channel} to {} by {}", names.place(event.value), names.transport(channel))
        }
        EventKind::Close => format!("close channel {channel}"),
        EventKind::Gone => {
            let how = match event.value {
                GONE_CLOSED => "closed it",
                GONE_DIED => "died",
                _ => "broke the protocol",
            };
            format!("the peer on channel {channel} {how}")
        }
        EventKind::Spawn => format!("spawn {}", names.place(event.subject)),
        EventKind::ChildEnded => format!("child {} ended", id(event.subject)),
        EventKind::SpanBegin => format!("begin '{}'", text()),
        EventKind::SpanEnd => format!("end '{}'", text()),
        EventKind::Marker => format!("marker '{}': {}", text(), event.value),
        EventKind::Value => format!("value '{}': {}", text(), event.value),
        EventKind::Clock => "clock".to_owned(),
    }
}
