//! Records the traffic at one end of a channel.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use tombolo_platform::event::Interest;
use tombolo_platform::time::now_ns;

use super::format::{CaptureHeader, Event, Writer};
use crate::capabilities::Capabilities;
use crate::contract::{Description, EndError, Transport};
use crate::error::ChannelError;
use crate::message::Message;

/// Transport that records every message that passes one end of a channel, and how the channel ends.
///
/// The channel has priority: if the capture cannot be written, recording stops, the channel continues, and
/// missing events are counted ([`missed`](Capture::missed)). The file then lacks its final record, so that
/// readers notice too.
#[derive(Debug)]
pub struct Capture<T, W: Write> {
    inner: T,
    /// `None` once the capture has ended or failed.
    writer: Option<Writer<W>>,
    failed: Option<io::Error>,
    missed: u64,
    began_ns: u64,
    /// Whether an end was already recorded; every later operation reports it again.
    end_recorded: bool,
    scratch: Vec<u8>,
}

impl<T: Transport> Capture<T, BufWriter<File>> {
    /// Captures into a new file, and fails if it exists. The file is flushed whenever the channel goes to
    /// sleep.
    ///
    /// # Errors
    /// An error of the operating system.
    pub fn to_file(inner: T, path: &Path, header: CaptureHeader) -> io::Result<Self> {
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let began_unix_ns = u64::try_from(began.as_nanos()).unwrap_or(0);
        let file = File::options().write(true).create_new(true).open(path)?;
        Capture::new(inner, BufWriter::new(file), CaptureHeader { began_unix_ns, ..header })
    }
}

impl<T: Transport, W: Write> Capture<T, W> {
    /// Captures into `sink` from now on. Transport kind and message limit are taken from `inner`.
    ///
    /// # Errors
    /// An error of the sink.
    pub fn new(inner: T, sink: W, header: CaptureHeader) -> io::Result<Self> {
        let Description { kind, max_message_bytes, .. } = inner.describe();
        let max_message_bytes = u32::try_from(max_message_bytes).unwrap_or(u32::MAX);
        let header = CaptureHeader { transport: kind, max_message_bytes, ..header };
        let writer = Some(Writer::new(sink, header)?);
        let (failed, scratch) = (None, Vec::new());
        Ok(Capture { inner, writer, failed, missed: 0, began_ns: now_ns(), end_recorded: false, scratch })
    }

    /// Returns the number of events that are missing because the capture could not be written.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Returns the reason why the capture could not be written.
    #[must_use]
    pub fn write_error(&self) -> Option<&io::Error> {
        self.failed.as_ref()
    }

    /// Ends the capture and returns the sink. The channel continues unrecorded.
    ///
    /// # Errors
    /// An error of the sink, now or earlier.
    pub fn finish(&mut self) -> io::Result<Option<W>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let time_ns = now_ns() - self.began_ns;
        self.writer.take().map(|writer| writer.finish(time_ns)).transpose()
    }

    fn record_end(&mut self, error: EndError) {
        let event = match error {
            EndError::Full | EndError::TooLong => return,
            EndError::Closed => Event::ClosedByPeer,
            EndError::PeerDied => Event::PeerDied,
            EndError::Broken => match self.inner.failure() {
                // Caused by a replay, not by the channel or the peer.
                Some(ChannelError::Diverged(_)) => return,
                failure => Event::Failed(failure.map_or_else(String::new, |failure| failure.to_string())),
            },
        };
        if !std::mem::replace(&mut self.end_recorded, true) {
            let time_ns = now_ns() - self.began_ns;
            record_event(&mut self.writer, &mut self.failed, &mut self.missed, |writer| {
                writer.event(time_ns, &event)
            });
        }
    }

    /// Flushes the sink at a time when that delays nothing.
    fn flush(&mut self) {
        record_event(&mut self.writer, &mut self.failed, &mut 0, Writer::flush);
    }
}

/// Records an event, or counts it as missing.
fn record_event<W: Write>(
    writer: &mut Option<Writer<W>>,
    failed: &mut Option<io::Error>,
    missed: &mut u64,
    write: impl FnOnce(&mut Writer<W>) -> io::Result<()>,
) {
    let Some(active) = writer else {
        *missed += u64::from(failed.is_some());
        return;
    };
    if let Err(error) = write(active) {
        (*writer, *failed) = (None, Some(error));
        *missed += 1;
    }
}

impl<T: Transport, W: Write> Transport for Capture<T, W> {
    crate::forward_transport!(inner: stats failure is_ready announce_sleep sources park finish_sleep);

    /// Removes the capabilities of silence and whole batches: recording may take a system call, and is done
    /// message by message.
    fn describe(&self) -> Description {
        let inner = self.inner.describe();
        let lacks = Capabilities::SYSCALL_FREE | Capabilities::WHOLE_BATCHES;
        Description { capabilities: inner.capabilities.without(lacks), ..inner }
    }

    fn try_send(&mut self, message: &[u8]) -> Result<(), EndError> {
        let time_ns = now_ns() - self.began_ns;
        let sent = self.inner.try_send(message);
        // A failed send is recorded as an end only after everything sent before has been received.
        if sent.is_ok() {
            record_event(&mut self.writer, &mut self.failed, &mut self.missed, |writer| {
                writer.sent(time_ns, message)
            });
        }
        sent
    }

    /// Receives into a single copy, so that the capture holds exactly what the program read even if a peer
    /// changes the memory.
    fn try_recv_in_place<R>(&mut self, read: impl FnOnce(&Message<'_>) -> R) -> Result<Option<R>, EndError> {
        let mut copy = std::mem::take(&mut self.scratch);
        // A trait object, so that its type is the same for every `read` and wrappers can nest.
        let take: &mut dyn FnMut(&Message<'_>) = &mut |message| message.copy_into(&mut copy);
        let received = match self.inner.try_recv_in_place(take) {
            Ok(None) => Ok(None),
            Ok(Some(())) => {
                let time_ns = now_ns() - self.began_ns;
                record_event(&mut self.writer, &mut self.failed, &mut self.missed, |writer| {
                    writer.received(time_ns, &copy)
                });
                Ok(Some(read(&Message::of_bytes(&copy))))
            }
            Err(error) => {
                self.record_end(error);
                Err(error)
            }
        };
        self.scratch = copy;
        received
    }

    fn may_sleep(&mut self, awaited: Interest) -> bool {
        let may_sleep = self.inner.may_sleep(awaited);
        if may_sleep {
            self.flush();
        }
        may_sleep
    }

    fn close(&mut self) {
        self.inner.close();
        if !std::mem::replace(&mut self.end_recorded, true) {
            let time_ns = now_ns() - self.began_ns;
            record_event(&mut self.writer, &mut self.failed, &mut self.missed, |writer| {
                writer.event(time_ns, &Event::ClosedHere)
            });
        }
    }
}

impl<T, W: Write> Drop for Capture<T, W> {
    /// Closes the channel, then ends the capture.
    fn drop(&mut self) {
        let Some(mut writer) = self.writer.take() else { return };
        let time_ns = now_ns() - self.began_ns;
        let closed = match self.end_recorded {
            true => Ok(()),
            false => writer.event(time_ns, &Event::ClosedHere),
        };
        // A caller that needs to know whether it was written calls `finish`.
        let _ = closed.and_then(|()| writer.finish(time_ns));
    }
}
