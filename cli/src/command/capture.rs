//! `tombolo capture`

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;
use tombolo::DomainId;
use tombolo_link::Side;
use tombolo_transport::wrap::capture::{CaptureError, CaptureHeader, Event, Reader, Record};

use crate::context::{Context, print};
use crate::failure::Failure;
use crate::text::one_line;

/// Maximum number of message bytes shown per line.
const SHOWN_BYTES: usize = 32;

/// Shows the recorded messages of a channel
///
/// `tombolo run --capture FOLDER` writes a file for each end of each channel of the job: all messages in
/// full, when they passed, and how the channel ended. `tombolo replay` plays such a file back.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo run --capture captures --on host:2 pingpong.tbi
  tombolo capture show captures/channel-1-connecting.tbc")]
pub(crate) struct Options {
    #[command(subcommand)]
    command: CaptureCommand,
}

#[derive(Subcommand, Debug)]
enum CaptureCommand {
    Show(ShowOptions),
}

/// Shows a capture, one message per line
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo capture show channel-1-connecting.tbc
  tombolo capture show channel-1-connecting.tbc --json | jq -r 'select(.event == \"sent\").hex'")]
struct ShowOptions {
    /// The capture file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Print JSON, one object per line; the first describes the channel
    #[arg(long)]
    json: bool,
}

/// Header of a capture, with stable keys.
#[derive(Serialize)]
struct AboutReport {
    channel: u64,
    link: &'static str,
    end: Option<&'static str>,
    domain: Option<String>,
    peer: Option<String>,
    max_message_bytes: u32,
    began_unix_ns: u64,
}

/// A record, with stable keys.
#[derive(Serialize)]
struct RecordReport {
    offset_bytes: u64,
    time_ns: u64,
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Opens a capture.
pub(super) fn open(path: &Path) -> Result<Reader<File>, Failure> {
    let file = File::open(path).map_err(Failure::unreadable(path))?;
    Reader::new(file).map_err(damaged(path))
}

/// Converts an error of reading a capture, adding its path.
pub(super) fn damaged(path: &Path) -> impl Fn(CaptureError) -> Failure {
    move |source| Failure::Capture { path: path.to_owned(), source }
}

pub(crate) fn run(_context: &Context, options: &Options) -> Result<(), Failure> {
    let CaptureCommand::Show(options) = &options.command;
    let reader = open(&options.file)?;
    let about = AboutReport::new(&reader.header());
    print(if options.json { json(&about)? } else { about.line() })?;
    let mut output = std::io::BufWriter::new(std::io::stdout().lock());
    let mut outcome = Ok(());
    for record in reader {
        let record = match record.map_err(damaged(&options.file)) {
            Ok(record) => record,
            Err(failure) => {
                // The part before the damage is shown.
                outcome = Err(failure);
                break;
            }
        };
        let line = if options.json { json(&RecordReport::new(&record))? } else { line_of(&record) };
        output.write_all(line.as_bytes()).map_err(Failure::Output)?;
    }
    output.flush().map_err(Failure::Output)?;
    outcome
}

/// Formats a value as a line of JSON.
fn json(value: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string(value).map_err(|error| Failure::Output(error.into()))?;
    Ok(text + "\n")
}

impl AboutReport {
    fn new(about: &CaptureHeader) -> AboutReport {
        let domain = |bits: u64| DomainId::from_bits(bits).map(|id| id.to_string());
        AboutReport {
            channel: about.channel,
            link: about.transport.name(),
            end: about.side.map(|side| if side == Side::A { "connecting" } else { "accepting" }),
            domain: domain(about.own),
            peer: domain(about.peer),
            max_message_bytes: about.max_message_bytes,
            began_unix_ns: about.began_unix_ns,
        }
    }

    fn line(&self) -> String {
        let known = |text: Option<&str>| text.unwrap_or("?").to_owned();
        format!(
            "channel {} by {}: the {} end, of domain {}; its peer is {}\n",
            self.channel,
            self.link,
            known(self.end),
            known(self.domain.as_deref()),
            known(self.peer.as_deref())
        )
    }
}

impl RecordReport {
    fn new(record: &Record) -> RecordReport {
        let (event, message, error) = match &record.event {
            Event::Sent(message) => ("sent", Some(message), None),
            Event::Received(message) => ("received", Some(message), None),
            Event::ClosedHere => ("closed-here", None, None),
            Event::ClosedByPeer => ("closed-by-peer", None, None),
            Event::PeerDied => ("peer-died", None, None),
            Event::Failed(why) => ("failed", None, Some(why.clone())),
            Event::End { .. } => ("end", None, None),
        };
        RecordReport {
            offset_bytes: record.offset_bytes,
            time_ns: record.time_ns,
            event,
            bytes: message.map(Vec::len),
            hex: message.map(|message| message.iter().map(|byte| format!("{byte:02x}")).collect()),
            error,
        }
    }
}

/// Formats a message for people, truncated to a line.
pub(super) fn briefly(message: &[u8]) -> String {
    let shown = &message[..message.len().min(SHOWN_BYTES)];
    let more = if message.len() > shown.len() { "..." } else { "" };
    format!("{} B \"{}{more}\"", message.len(), shown.escape_ascii())
}

fn line_of(record: &Record) -> String {
    let what = match &record.event {
        Event::Sent(message) => format!("sent      {}", briefly(message)),
        Event::Received(message) => format!("received  {}", briefly(message)),
        Event::ClosedHere => "closed here".to_owned(),
        Event::ClosedByPeer => "closed by the peer".to_owned(),
        Event::PeerDied => "the peer died".to_owned(),
        Event::Failed(why) => format!("failed: {}", one_line(why)),
        Event::End { sent, received } => format!("end: {sent} sent, {received} received"),
    };
    format!("{:>12}.{:03} us  {what}\n", record.time_ns / 1000, record.time_ns % 1000)
}
