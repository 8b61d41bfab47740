//! `tombolo replay`

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use tombolo::{Channel, ChannelOptions, Domain, Error};
use tombolo_link::Side;
use tombolo_transport::wrap::capture::{CaptureHeader, Event, Record};

use super::capture::{briefly, damaged, open};
use crate::context::Context;
use crate::failure::Failure;
use crate::text::count;

/// Default payload of a slot, in bytes: a message takes one or more slots.
const SLOT_PAYLOAD_BYTES: u32 = 56;

/// Plays the captured peer of a channel to a program
///
/// Start the captured program again: it has to send the same messages as before, and gets the same answers in
/// the same order. If it sends something else, replay ends with status 1 and shows the difference. A program
/// that connected finds the name exported by replay; to a program that exported the name, replay connects. If
/// the peer died in the capture, replay closes the channel at that point.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo replay captures/channel-1-connecting.tbc --name pong
  tombolo replay captures/channel-1-connecting.tbc --name pong --as-recorded")]
pub(crate) struct Options {
    /// A capture file of `tombolo run --capture`
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The name that the program connects to, or exports
    #[arg(long, value_name = "NAME")]
    name: String,

    /// Send messages at the recorded times, not as fast as possible
    #[arg(long)]
    as_recorded: bool,

    /// How long the program may take for each step, in seconds
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,

    /// The interface hash that the program gives when it opens the channel
    #[arg(long, value_name = "HASH", default_value_t = 0)]
    interface_hash: u64,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let reader = open(&options.file)?;
    let header = reader.header();
    // Reads everything first: a damaged file should fail before anything has started.
    let records: Vec<Record> = reader.collect::<Result<_, _>>().map_err(damaged(&options.file))?;
    let timeout = Duration::from_secs(options.timeout);
    let domain = context.attach()?;
    let channel = connect(context, &domain, &header, options, timeout)?;
    let mut player = PeerReplay {
        channel,
        path: &options.file,
        timeout,
        start: options.as_recorded.then(Instant::now),
        buffer: Vec::new(),
        messages: 0,
    };
    for record in &records {
        if !player.play(record)? {
            break;
        }
    }
    context.info(format!("{}: replayed {}", options.file.display(), count(player.messages, "message")));
    Ok(())
}

/// Opens the channel, as the end opposite to the captured one.
fn connect(
    context: &Context,
    domain: &Domain,
    header: &CaptureHeader,
    options: &Options,
    timeout: Duration,
) -> Result<Channel, Failure> {
    let slots = header.max_message_bytes.div_ceil(SLOT_PAYLOAD_BYTES).clamp(64, 1 << 16).next_power_of_two();
    let shape = ChannelOptions::default().slots(slots)?.interface_hash(options.interface_hash);
    match header.side {
        Some(Side::B) => Ok(shape.connect(&domain.within(timeout), &options.name)?),
        Some(Side::A) => {
            let listener = shape.export(domain, &options.name)?;
            context.info(format!("waiting for a program that connects to '{}'", options.name));
            Ok(listener.within(timeout).accept()?)
        }
        None => Err(Failure::Usage {
            message: format!("{} does not say which end it is of", options.file.display()),
            hint: None,
        }),
    }
}

/// Replays the peer.
struct PeerReplay<'a> {
    channel: Channel,
    path: &'a Path,
    timeout: Duration,
    /// Start time, if the recorded times are to be kept.
    start: Option<Instant>,
    buffer: Vec<u8>,
    messages: usize,
}

impl PeerReplay<'_> {
    /// Replays a record. Returns false at the end.
    fn play(&mut self, record: &Record) -> Result<bool, Failure> {
        let diverged =
            |what| Failure::Diverged { path: self.path.to_owned(), offset_bytes: record.offset_bytes, what };
        match &record.event {
            Event::Sent(then) => match self.channel.within(self.timeout).recv_into(&mut self.buffer) {
                Ok(_) if self.buffer == *then => self.messages += 1,
                Ok(_) => {
                    let (then, now) = (briefly(then), briefly(&self.buffer));
                    return Err(diverged(format!("it sent {then} then, and {now} now")));
                }
                Err(error) => {
                    return Err(diverged(format!("it sent {} then, and now: {error}", briefly(then))));
                }
            },
            Event::Received(message) => {
                if let Some(start) = self.start {
                    let due = Duration::from_nanos(record.time_ns);
                    std::thread::sleep(due.saturating_sub(start.elapsed()));
                }
                self.channel.within(self.timeout).send(message)?;
                self.messages += 1;
            }
            Event::ClosedHere => match self.channel.within(self.timeout).recv_into(&mut self.buffer) {
                Err(Error::Closed { .. }) => return Ok(false),
                Ok(_) => {
                    return Err(diverged(format!(
                        "it closed the channel then, and sent {} now",
                        briefly(&self.buffer)
                    )));
                }
                Err(error) => return Err(diverged(format!("it closed the channel then, and now: {error}"))),
            },
            // The channel closes when this command ends.
            Event::ClosedByPeer | Event::PeerDied | Event::Failed(_) | Event::End { .. } => return Ok(false),
        }
        Ok(true)
    }
}
