//! Side streams of children: bytes in both directions, in addition to the standard streams.

use std::sync::Arc;
use std::time::Duration;

use tombolo_base::DomainId;
use tombolo_control::{Fault, Reply, Request, streams};
use tombolo_platform::Deadline;

use crate::error::Error;
use crate::monitor::{Inbox, MonitorLink};

/// Maximum number of bytes per message.
const PIECE_BYTES: usize = 8 << 10;

/// Parent's end of a child's side stream, see
/// [`SpawnOptions::with_side_stream`](crate::SpawnOptions::with_side_stream).
///
/// At most 64 KiB written by the child are in flight; further writes wait until these are received. The
/// child's monitor buffers a piece that is sent until the child's socket has accepted it.
///
/// The stream ends in both directions when this is dropped, and when the child ends or closes its descriptor;
/// what it wrote before can still be received. A [`WaitSet`](crate::WaitSet) can wait for many of them.
#[derive(Debug)]
pub struct SideStream {
    domain: DomainId,
    link: Arc<MonitorLink>,
    /// Whether [`finish`](Self::finish) was called.
    finished: bool,
}

impl SideStream {
    /// Takes the side stream of a child, unless it was taken before.
    pub(crate) fn take(link: &Arc<MonitorLink>, domain: DomainId) -> Option<SideStream> {
        let free = |arrived: &mut Inbox| {
            let side = arrived.sides.get_mut(&domain).filter(|side| !side.taken)?;
            side.taken = true;
            Some(())
        };
        // If the monitor is gone, this reports it.
        link.try_take(free).ok()??;
        Some(SideStream { domain, link: Arc::clone(link), finished: false })
    }

    /// Child at the other end.
    #[must_use]
    pub fn domain(&self) -> DomainId {
        self.domain
    }

    pub(crate) fn link(&self) -> &Arc<MonitorLink> {
        &self.link
    }

    /// Returns what the child wrote, if anything has arrived. At the end of the stream, and from then on, the
    /// result is empty.
    ///
    /// # Errors
    /// [`Error::MonitorLost`].
    pub fn try_recv(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let domain = self.domain;
        let piece = self.poll_link(|arrived| Self::next_piece(arrived, domain))?;
        self.acknowledge(piece.as_deref());
        Ok(piece)
    }

    /// Waits for what the child writes next. At the end of the stream, and from then on, the result is empty.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::MonitorLost`].
    pub fn recv(&mut self, timeout: Duration) -> Result<Vec<u8>, Error> {
        let domain = self.domain;
        let what = format!("the side stream of domain {domain}");
        let piece = self.link.wait(timeout, &what, |arrived| Self::next_piece(arrived, domain))?;
        self.acknowledge(Some(&piece));
        Ok(piece)
    }

    /// Looks among the messages that have arrived, and if that finds nothing, reads more from the socket.
    fn poll_link<T>(&self, mut look: impl FnMut(&mut Inbox) -> Option<T>) -> Result<Option<T>, Error> {
        // Reading needs a system call.
        if let Some(found) = self.link.try_take(&mut look)? {
            return Ok(Some(found));
        }
        while self.link.read_now()? {}
        self.link.try_take(look)
    }

    fn next_piece(arrived: &mut Inbox, domain: DomainId) -> Option<Vec<u8>> {
        let side = arrived.sides.get_mut(&domain)?;
        let piece = if side.ended { Vec::new() } else { side.pieces.pop_front()? };
        side.ended |= piece.is_empty();
        Some(piece)
    }

    /// Acknowledges a received piece, so that more can follow.
    fn acknowledge(&self, piece: Option<&[u8]>) {
        if let Some(length @ 1..) = piece.map(<[u8]>::len) {
            let (domain, stream, bytes) = (self.domain, streams::SIDE, length as u32);
            // If the monitor is gone by now, the next read reports it.
            let _ = self.link.notify(Request::OutputTaken { domain, stream, bytes });
        }
    }

    /// Sends up to 8 KiB of `bytes`, and returns the number of bytes sent: 0 while the child has not accepted
    /// what was sent before.
    ///
    /// # Errors
    /// [`Error::Monitor`] with [`Fault::NoSuchDomain`] if the child has ended; [`Error::MonitorLost`].
    pub fn try_send(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let domain = self.domain;
        match self.poll_link(|arrived| Self::take_send_result(arrived, domain))? {
            Some(settled) => settled?,
            None => return Ok(0),
        }
        if bytes.is_empty() { Ok(0) } else { self.start(bytes) }
    }

    /// Sends all of `bytes`, as the child accepts them.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if it does not: the number of bytes that it accepted is unknown. Otherwise like
    /// [`try_send`](Self::try_send).
    pub fn send(&mut self, mut bytes: &[u8], timeout: Duration) -> Result<(), Error> {
        let deadline = Deadline::after(timeout);
        let domain = self.domain;
        let what = format!("domain {domain} to take what its side stream holds");
        loop {
            self.link
                .wait(deadline.remaining(), &what, |arrived| Self::take_send_result(arrived, domain))??;
            if bytes.is_empty() {
                return Ok(());
            }
            let sent = self.start(bytes)?;
            bytes = &bytes[sent..];
        }
    }

    fn start(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        if self.finished {
            let why = "nothing more can be sent after the end of a side stream".into();
            return Err(Fault::Refused { why }.into());
        }
        let piece = &bytes[..bytes.len().min(PIECE_BYTES)];
        let (domain, stream) = (self.domain, streams::SIDE);
        let request = self.link.start(Request::Input { domain, stream, bytes: piece.to_vec() }, &[])?;
        let note =
            |arrived: &mut Inbox| arrived.sides.get_mut(&domain).map(|side| side.sending = Some(request));
        self.link.try_take(note)?;
        Ok(piece.len())
    }

    /// Returns whether the last piece was accepted, once that is known; `Ok` if there was none.
    fn take_send_result(arrived: &mut Inbox, domain: DomainId) -> Option<Result<(), Fault>> {
        let Some(request) = arrived.sides.get(&domain).and_then(|side| side.sending) else {
            return Some(Ok(()));
        };
        let (reply, _) = arrived.take_reply(request)?;
        if let Some(side) = arrived.sides.get_mut(&domain) {
            side.sending = None;
        }
        Some(match reply {
            Reply::Failed { fault } => Err(fault),
            _ => Ok(()),
        })
    }

    /// Ends the outgoing direction: the child reads the end of the stream after what was sent before. Its own
    /// output can still be received.
    ///
    /// # Errors
    /// [`Error::MonitorLost`].
    pub fn finish(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.finished, true) {
            return Ok(());
        }
        self.link.notify(Request::Input { domain: self.domain, stream: streams::SIDE, bytes: Vec::new() })
    }
}

impl Drop for SideStream {
    fn drop(&mut self) {
        // If the monitor is gone, so is the child.
        let _ = self.finish();
        let domain = self.domain;
        let side = self.link.try_take(|arrived| arrived.sides.remove(&domain));
        let Ok(Some(side)) = side else { return };
        if let Some(request) = side.sending {
            self.link.abandon(request);
        }
        side.pieces.iter().for_each(|piece| self.acknowledge(Some(piece)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Domain;
    use crate::spawn::{Child, SpawnOptions};
    use crate::testing::{LONG, Monitor, id};
    use crate::waitset::{Ready, WaitSet};

    const CHILD: u64 = 0x0001_0001_0000_0007;

    /// Starts a child with a side stream, whose first output arrives before anything reads it.
    fn child(domain: &Domain, monitor: &Monitor) -> (Child, SideStream) {
        let child = std::thread::scope(|scope| {
            scope.spawn(|| {
                monitor.spawn(id(CHILD));
                send_bytes(monitor, b"early");
            });
            domain.spawn(&SpawnOptions::this_image().with_side_stream("SIDE_FD")).unwrap()
        });
        let side = child.side_stream().unwrap();
        (child, side)
    }

    fn send_bytes(monitor: &Monitor, bytes: &[u8]) {
        let body = Reply::Output { domain: id(CHILD), stream: streams::SIDE, bytes: bytes.to_vec() };
        monitor.send_reply(0, body, &[]);
    }

    fn next_input(monitor: &Monitor) -> (u32, Vec<u8>) {
        match monitor.next_message() {
            (request, Request::Input { stream: streams::SIDE, bytes, .. }) => (request, bytes),
            other => panic!("{other:?}"),
        }
    }

    fn next_taken(monitor: &Monitor) -> u32 {
        match monitor.next_message() {
            (0, Request::OutputTaken { stream: streams::SIDE, bytes, .. }) => bytes,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn bytes_go_both_ways_and_what_is_received_is_acknowledged() {
        let (domain, monitor) = Monitor::with_domain();
        let (child, mut side) = child(&domain, &monitor);
        assert!(child.side_stream().is_none(), "it is given once");
        assert_eq!(side.recv(LONG).unwrap(), b"early");
        assert_eq!(next_taken(&monitor), 5);
        assert_eq!(side.try_recv().unwrap(), None);
        // One piece at a time, of limited length.
        assert_eq!(side.try_send(&[7; PIECE_BYTES + 1]).unwrap(), PIECE_BYTES);
        assert_eq!(side.try_send(b"x").unwrap(), 0);
        let (request, bytes) = next_input(&monitor);
        assert_eq!(bytes.len(), PIECE_BYTES);
        monitor.send_reply(request, Reply::Done, &[]);
        assert_eq!(side.try_send(b"x").unwrap(), 1);
        let (request, _) = next_input(&monitor);
        monitor.send_reply(request, Reply::Failed { fault: Fault::NoSuchDomain { domain: id(CHILD) } }, &[]);
        assert!(matches!(side.send(b"y", LONG), Err(Error::Monitor(Fault::NoSuchDomain { .. }))));
        send_bytes(&monitor, b"");
        assert_eq!(side.recv(LONG).unwrap(), b"");
        assert_eq!(side.recv(LONG).unwrap(), b"", "and from then on");
        drop(side);
        assert_eq!(next_input(&monitor), (0, Vec::new()), "an end");
    }

    #[test]
    fn waitset_reports_both_directions() {
        let (domain, monitor) = Monitor::with_domain();
        let (_child, mut side) = child(&domain, &monitor);
        let mut set: WaitSet = WaitSet::new().unwrap();
        let token = set.add_side(&side).unwrap();
        assert_eq!(set.wait(LONG).unwrap(), Ready::Side(token));
        assert_eq!(set.wait(LONG).unwrap(), Ready::Side(token), "until it is taken");
        assert_eq!(side.try_recv().unwrap().unwrap(), b"early");
        assert!(matches!(set.wait(Duration::ZERO), Err(Error::TimedOut { .. })));
        next_taken(&monitor);
        assert_eq!(side.try_send(b"ask").unwrap(), 3);
        assert!(matches!(set.wait(Duration::ZERO), Err(Error::TimedOut { .. })));
        let (request, _) = next_input(&monitor);
        monitor.send_reply(request, Reply::Done, &[]);
        assert_eq!(set.wait(LONG).unwrap(), Ready::Side(token));
        assert_eq!(side.try_send(b"more").unwrap(), 4);
        // Pieces that were not received are acknowledged, and so are later ones.
        drop(side);
        assert!(matches!(set.wait(Duration::ZERO), Err(Error::TimedOut { .. })));
        send_bytes(&monitor, b"late");
        assert!(matches!(set.wait(Duration::ZERO), Err(Error::TimedOut { .. })));
        next_input(&monitor);
        next_input(&monitor);
        assert_eq!(next_taken(&monitor), 4);
    }
}
