//! Records what passes an end.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use tombolo_platform::event::Interest;
use tombolo_platform::time::now_ns;

use super::format::{About, Event, Writer};
use crate::capabilities::Capabilities;
use crate::contract::{Description, EndError, Transport};
use crate::error::ChannelError;
use crate::message::Message;

/// Writes down every message that passes an end of a channel, and how it ends.
///
/// The channel comes first: when the capture cannot be written it stops, and the channel goes on; what is missing is
/// counted ([`missed`](Capture::missed)). The file then lacks the record that ends it, so that readers notice too.
#[derive(Debug)]
pub struct Capture<T, W: Write> {
    inner: T,
    /// Gone once the capture has ended or failed.
    writer: Option<Writer<W>>,
    failed: Option<io::Error>,
    missed: u64,
    began_ns: u64,
    /// An end was written down: it comes again with every operation.
    end_noted: bool,
    scratch: Vec<u8>,
}

impl<T: Transport> Capture<T, BufWriter<File>> {
    /// Captures into a file, which must not exist yet. It is brought up to date whenever the channel goes to sleep.
    ///
    /// # Errors
    /// What the operating system answered.
    pub fn to_file(inner: T, path: &Path, about: About) -> io::Result<Self> {
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let began_unix_ns = u64::try_from(began.as_nanos()).unwrap_or(0);
        let file = File::options().write(true).create_new(true).open(path)?;
        Capture::new(inner, BufWriter::new(file), About { began_unix_ns, ..about })
    }
}

impl<T: Transport, W: Write> Capture<T, W> {
    /// Captures into `sink` from now on. What carries the channel and what it can carry are taken from it.
    ///
    /// # Errors
    /// What the sink answered.
    pub fn new(inner: T, sink: W, about: About) -> io::Result<Self> {
        let Description { kind, max_message_bytes, .. } = inner.describe();
        let max_message_bytes = u32::try_from(max_message_bytes).unwrap_or(u32::MAX);
        let about = About { transport: kind, max_message_bytes, ..about };
        let writer = Some(Writer::new(sink, about)?);
        let (failed, scratch) = (None, Vec::new());
        Ok(Capture { inner, writer, failed, missed: 0, began_ns: now_ns(), end_noted: false, scratch })
    }

    /// Events that are not in the capture because it could not be written.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Why it could not be written.
    #[must_use]
    pub fn write_error(&self) -> Option<&io::Error> {
        self.failed.as_ref()
    }

    /// Ends the capture and gives the channel's sink back. The channel goes on, unrecorded.
    ///
    /// # Errors
    /// What the sink answered, now or before.
    pub fn finish(&mut self) -> io::Result<Option<W>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let time_ns = now_ns() - self.began_ns;
        self.writer.take().map(|writer| writer.finish(time_ns)).transpose()
    }

    fn note_end(&mut self, error: EndError) {
        let event = match error {
            EndError::Full | EndError::TooLong => return,
            EndError::Closed => Event::ClosedByPeer,
            EndError::PeerDied => Event::PeerDied,
            EndError::Broken => match self.inner.failure() {
                // Not of the channel's own doing, and not of the peer's.
                Some(ChannelError::Diverged(_)) => return,
                failure => Event::Failed(failure.map_or_else(String::new, |failure| failure.to_string())),
            },
        };
        if !std::mem::replace(&mut self.end_noted, true) {
            let time_ns = now_ns() - self.began_ns;
            note(&mut self.writer, &mut self.failed, &mut self.missed, |writer| {
                writer.event(time_ns, &event)
            });
        }
    }

    /// Brings the sink up to date, where that costs nothing that matters.
    fn flush(&mut self) {
        note(&mut self.writer, &mut self.failed, &mut 0, Writer::flush);
    }
}

/// Writes something down, or counts that it could not.
fn note<W: Write>(
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
    forward!(inner: stats failure is_ready announce_sleep sources park woken);

    /// Writing it down may be a system call, and is done message by message.
    fn describe(&self) -> Description {
        let inner = self.inner.describe();
        let lacks = Capabilities::SILENT | Capabilities::WHOLE_BATCHES;
        Description { capabilities: inner.capabilities.without(lacks), ..inner }
    }

    fn try_send(&mut self, message: &[u8]) -> Result<(), EndError> {
        let time_ns = now_ns() - self.began_ns;
        let sent = self.inner.try_send(message);
        // An end is noted when everything that was sent before it has been received.
        if sent.is_ok() {
            note(&mut self.writer, &mut self.failed, &mut self.missed, |writer| {
                writer.sent(time_ns, message)
            });
        }
        sent
    }

    /// From one copy, so that the capture has what the program read, whatever a peer does to the memory meanwhile.
    fn try_recv_in_place<R>(&mut self, read: impl FnOnce(&Message<'_>) -> R) -> Result<Option<R>, EndError> {
        let mut copy = std::mem::take(&mut self.scratch);
        // Of one type, whatever `read` is, so that what is captured may be a type that has captures among its kinds.
        let take: &mut dyn FnMut(&Message<'_>) = &mut |message| message.copy_into(&mut copy);
        let received = match self.inner.try_recv_in_place(take) {
            Ok(None) => Ok(None),
            Ok(Some(())) => {
                let time_ns = now_ns() - self.began_ns;
                note(&mut self.writer, &mut self.failed, &mut self.missed, |writer| {
                    writer.received(time_ns, &copy)
                });
                Ok(Some(read(&Message::of_bytes(&copy))))
            }
            Err(error) => {
                self.note_end(error);
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
        if !std::mem::replace(&mut self.end_noted, true) {
            let time_ns = now_ns() - self.began_ns;
            note(&mut self.writer, &mut self.failed, &mut self.missed, |writer| {
                writer.event(time_ns, &Event::ClosedHere)
            });
        }
    }
}

impl<T, W: Write> Drop for Capture<T, W> {
    /// Ends the capture: the channel is closed, in order, after it.
    fn drop(&mut self) {
        let Some(mut writer) = self.writer.take() else { return };
        let time_ns = now_ns() - self.began_ns;
        let closed = match self.end_noted {
            true => Ok(()),
            false => writer.event(time_ns, &Event::ClosedHere),
        };
        // Whoever wants to know whether it could be written calls `finish`.
        let _ = closed.and_then(|()| writer.finish(time_ns));
    }
}
