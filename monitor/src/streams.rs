//! Multiplexed streams of a link that is a single byte stream: a thread at each end connects them to sockets
//! of programs.
//!
//! [`tombolo_link::streams`] decides; this module reads and writes. When the link ends, all streams end, and
//! those opened later are closed immediately: no program waits for a link that is gone.

use std::collections::BTreeMap;
use std::mem::take;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::SeekFrom;
use rustix::net::SendFlags;
use tombolo_base::ChannelId;
use tombolo_link::streams::{MAX_DATA_BYTES, Streams};
use tombolo_platform::error::Context;
use tombolo_platform::event::{Interest, drain, eventfd, poll, signal};
use tombolo_platform::{Errno, OsError, socket};

/// The only stream of a control link's port: the control link.
pub(crate) const CONTROL_STREAM: ChannelId = ChannelId(1);

/// Number of bytes read from the link at a time.
const READ_BYTES: usize = 64 * 1024;

/// Maximum number of reads and writes of the link before programs get their turn.
const BURST: usize = 8;

/// This side's end of a stream.
#[derive(Debug)]
enum End {
    /// Socket whose other end a program has.
    Socket(OwnedFd),
    /// File to send completely.
    File(OwnedFd),
}

impl End {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            End::Socket(fd) | End::File(fd) => fd.as_fd(),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    /// New ends that the thread has not taken yet; `None` for an end that could not be created.
    new_ends: Vec<(u64, Option<End>)>,
    /// Ended streams that were not reported yet.
    ended: Vec<ChannelId>,
    /// Whether the link and the thread have ended.
    closed: bool,
    stop: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Wakes the thread.
    wake: OwnedFd,
    /// Signalled when streams have ended.
    ended: OwnedFd,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One end of a link, with the thread that serves it. Dropping it closes the link.
#[derive(Debug)]
pub struct LinkStreams {
    shared: Arc<Shared>,
}

impl LinkStreams {
    /// Serves `link`, a socket or a serial port, non-blocking.
    ///
    /// # Errors
    /// No descriptors or no threads are left.
    pub fn start(link: OwnedFd) -> Result<Self, OsError> {
        let shared = Shared { state: Mutex::default(), wake: eventfd()?, ended: eventfd()? };
        let shared = Arc::new(shared);
        let served = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("streams".to_owned());
        let started = thread.spawn(move || {
            let mut thread = Thread { link, streams: Streams::new(), ends: BTreeMap::new(), turn: 0 };
            thread.serve(&served);
            thread.shut_down(&served);
        });
        started.map_err(|error| OsError::from_io("start a thread for the streams of a link", &error))?;
        Ok(LinkStreams { shared })
    }

    /// Opens a stream on this side and returns the end for a program.
    ///
    /// # Errors
    /// No descriptors are left; the far side is then notified that the end does not exist.
    pub fn open(&self, stream: ChannelId) -> Result<OwnedFd, OsError> {
        match socket::pair(socket::SocketKind::Stream) {
            Ok((ours, theirs)) => {
                self.add_end(stream, Some(End::Socket(ours)));
                Ok(theirs)
            }
            Err(error) => {
                self.add_end(stream, None);
                Err(error)
            }
        }
    }

    /// Sends a whole file in a stream; nothing if it cannot be read.
    pub fn send_file(&self, stream: ChannelId, file: OwnedFd) {
        let at_start = rustix::fs::seek(&file, SeekFrom::Start(0)).is_ok();
        self.add_end(stream, at_start.then_some(End::File(file)));
    }

    /// Closes a stream without sending anything: the far side sees its end.
    pub fn send_empty(&self, stream: ChannelId) {
        self.add_end(stream, None);
    }

    fn add_end(&self, stream: ChannelId, end: Option<End>) {
        let mut state = self.shared.state();
        // Dropped, and so hung up, if the thread has ended.
        if !state.closed {
            state.new_ends.push((stream.0, end));
            drop(state);
            let _ = signal(&self.shared.wake);
        }
    }

    /// Returns a descriptor that is readable when streams have ended.
    #[must_use]
    pub fn ended_fd(&self) -> BorrowedFd<'_> {
        self.shared.ended.as_fd()
    }

    /// Returns the streams whose local end closed since the last call.
    #[must_use]
    pub fn take_ended(&self) -> Vec<ChannelId> {
        drain(&self.shared.ended);
        take(&mut self.shared.state().ended)
    }
}

impl Drop for LinkStreams {
    fn drop(&mut self) {
        self.shared.state().stop = true;
        let _ = signal(&self.shared.wake);
    }
}

/// State of the thread.
struct Thread {
    link: OwnedFd,
    streams: Streams,
    ends: BTreeMap<u64, End>,
    /// Stream that is served first: the link may be full before all have had their turn.
    turn: u64,
}

/// The link has ended, and the thread ends.
struct LinkClosed;

impl Thread {
    /// Serves until the link ends, or its [`LinkStreams`] is dropped.
    fn serve(&mut self, shared: &Shared) {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            if self.take_new_ends(shared).is_err() {
                return;
            }
            let Ok(link_did_work) = self.serve_link(&mut buffer) else { return };
            let ends_did_work = self.serve_ends(shared, &mut buffer[..MAX_DATA_BYTES]);
            if !(link_did_work || ends_did_work) && self.sleep(shared).is_err() {
                return;
            }
        }
    }

    fn take_new_ends(&mut self, shared: &Shared) -> Result<(), LinkClosed> {
        let new_ends = {
            let mut state = shared.state();
            if state.stop {
                return Err(LinkClosed);
            }
            take(&mut state.new_ends)
        };
        for (stream, end) in new_ends {
            match end {
                Some(end) => {
                    self.streams.open(stream);
                    self.ends.insert(stream, end);
                }
                None => self.streams.end(stream),
            }
        }
        Ok(())
    }

    /// Writes to and reads from the link, up to a bounded amount.
    fn serve_link(&mut self, buffer: &mut [u8]) -> Result<bool, LinkClosed> {
        let mut did_work = false;
        for _ in 0..BURST {
            if self.streams.outgoing().is_empty() {
                break;
            }
            match rustix::io::write(&self.link, self.streams.outgoing()) {
                Ok(count) => {
                    self.streams.consume_outgoing(count);
                    did_work = true;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => return Err(LinkClosed),
            }
        }
        for _ in 0..BURST {
            match rustix::io::read(&self.link, &mut *buffer) {
                Ok(0) => return Err(LinkClosed),
                Ok(count) => {
                    did_work = true;
                    // A peer that breaks the protocol is treated like one that is gone.
                    self.streams.receive(&buffer[..count]).map_err(|_| LinkClosed)?;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => return Err(LinkClosed),
            }
        }
        Ok(did_work)
    }

    /// Delivers to every end, and reads one piece from each that has data.
    fn serve_ends(&mut self, shared: &Shared, buffer: &mut [u8]) -> bool {
        let mut did_work = false;
        let mut ended_streams = Vec::new();
        let first = self.turn;
        for (stream, end) in self.ends.range(first..).chain(self.ends.range(..first)) {
            let mut ended = deliver(&mut self.streams, *stream, end, &mut did_work);
            let room = self.streams.room(*stream);
            if !ended && room > 0 {
                match rustix::io::read(end.fd(), &mut buffer[..room]) {
                    Ok(0) => ended = true,
                    Ok(count) => {
                        self.streams.send(*stream, &buffer[..count]);
                        self.turn = stream.wrapping_add(1);
                        did_work = true;
                    }
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(_) => ended = true,
                }
            }
            if ended || self.streams.is_done(*stream) {
                ended_streams.push(*stream);
            }
        }
        for stream in &ended_streams {
            self.ends.remove(stream);
            self.streams.end(*stream);
        }
        if !ended_streams.is_empty() {
            shared.state().ended.extend(ended_streams.into_iter().map(ChannelId));
            let _ = signal(&shared.ended);
            return true;
        }
        did_work
    }

    /// Sleeps until there is work.
    fn sleep(&self, shared: &Shared) -> Result<(), OsError> {
        let link = match self.streams.outgoing().is_empty() {
            true => Interest::Read,
            false => Interest::ReadWrite,
        };
        let mut sources = vec![(shared.wake.as_fd(), Interest::Read), (self.link.as_fd(), link)];
        for (stream, end) in &self.ends {
            let reads = self.streams.room(*stream) > 0;
            let writes = !self.streams.pending(*stream).is_empty();
            let interest = match (reads, writes) {
                (true, true) => Interest::ReadWrite,
                (true, false) => Interest::Read,
                (false, true) => Interest::Write,
                (false, false) => continue,
            };
            sources.push((end.fd(), interest));
        }
        let ready = poll(&sources, None)?;
        if ready[0].any() {
            drain(&shared.wake);
        }
        Ok(())
    }

    /// Hangs up all ends.
    fn shut_down(mut self, shared: &Shared) {
        let new_ends = {
            let mut state = shared.state();
            state.closed = true;
            state.ended.extend(self.ends.keys().copied().map(ChannelId));
            take(&mut state.new_ends)
        };
        drop(new_ends);
        self.ends.clear();
        let _ = signal(&shared.ended);
    }
}

/// Writes received data to an end. Returns whether the end is closed.
fn deliver(streams: &mut Streams, stream: u64, end: &End, did_work: &mut bool) -> bool {
    loop {
        let pending = streams.pending(stream);
        if pending.is_empty() {
            return false;
        }
        let End::Socket(socket) = end else { return true };
        match rustix::net::send(socket, pending, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(count) => {
                streams.consume_pending(stream, count);
                *did_work = true;
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return false,
            // It is closed. Data that it sent before must still be read, including its close; its end is
            // detected after that.
            Err(_) => {
                let count = pending.len();
                streams.consume_pending(stream, count);
            }
        }
    }
}

/// Reads exactly `length` bytes of a stream opened by [`LinkStreams`], and passes them to `keep` piece by
/// piece.
///
/// # Errors
/// The stream ended early, the deadline passed, or `keep` failed.
pub(crate) fn read_whole(
    socket: &OwnedFd,
    mut length: u64,
    deadline: tombolo_platform::Deadline,
    mut keep: impl FnMut(&[u8]) -> Result<(), OsError>,
) -> Result<(), OsError> {
    const WHAT: &str = "take a program from the link with the host";
    let mut piece = vec![0; READ_BYTES];
    while length > 0 {
        let most = piece.len().min(usize::try_from(length).unwrap_or(usize::MAX));
        match rustix::io::read(socket, &mut piece[..most]) {
            Ok(0) => return Err(OsError::new(WHAT, Errno::PIPE)),
            Ok(count) => {
                keep(&piece[..count])?;
                length -= count as u64;
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if deadline.passed() => return Err(OsError::new(WHAT, Errno::TIMEDOUT)),
            Err(Errno::AGAIN) => drop(poll(&[(socket.as_fd(), Interest::Read)], Some(deadline))?),
            Err(errno) => return Err(errno).context(WHAT),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
