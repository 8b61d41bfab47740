//! The remote end of a channel: every operation is an order to a program there.

use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use tombolo::{Channel, TransportKind};
use tombolo_conformance::patience;
use tombolo_platform::event::Interest;
use tombolo_remote_peer::{Answer, Awaited, Counts, Failure, MAX_CARRIED_BYTES, Opening, Order};
use tombolo_transport::contract::Announced;
use tombolo_transport::wait::{self, Spin};
use tombolo_transport::{
    Capabilities, ChannelError, Description, EndError, Message, Stats, Transport, error,
};

use crate::fleet::{self, RemoteNode};

/// Time to spin for an answer before sleeping, in nanoseconds.
const SPIN_NS: u64 = 50_000;

/// A remote end of a channel.
pub(crate) struct RemotePeer {
    control: Option<RefCell<Channel>>,
    /// Descriptors on which the control channel sleeps, kept here to be lent while the channel is borrowed.
    bells: Vec<OwnedFd>,
    description: Description,
    /// Counters as of the last answer; they only change by orders.
    counts: Cell<Counts>,
    /// Whether its sleep has ended.
    rung: Cell<bool>,
    /// Error that broke the channel.
    failure: RefCell<Option<ChannelError>>,
    give_back: fn(Channel),
}

impl RemotePeer {
    /// Opens one side of a channel at the remote peer.
    pub(crate) fn open<P: RemoteNode>(opening: Opening) -> Result<RemotePeer, ChannelError> {
        let control = fleet::control::<P>();
        let mut sources = Vec::new();
        control.sources(Interest::Read, &mut sources);
        let copy = |(fd, _): &(BorrowedFd<'_>, _)| fd.try_clone_to_owned().expect("one more descriptor");
        let bells = sources.iter().map(copy).collect();
        let kind = match P::CAPABILITIES.contains(Capabilities::ATOMICS) {
            true => TransportKind::Shm,
            false => TransportKind::Window,
        };
        let mut end = RemotePeer {
            control: Some(RefCell::new(control)),
            bells,
            description: Description { kind, capabilities: P::CAPABILITIES, max_message_bytes: 0 },
            counts: Cell::default(),
            rung: Cell::new(false),
            failure: RefCell::default(),
            give_back: fleet::give_back_control::<P>,
        };
        end.description.max_message_bytes = end.number(&Order::Open(opening))? as usize;
        Ok(end)
    }

    fn control(&self) -> &RefCell<Channel> {
        self.control.as_ref().expect("it is given back when this is dropped")
    }

    /// Sends an order and waits for the answer. A received message is stored in `received`.
    fn execute(&self, order: &Order<'_>, received: &mut Vec<u8>) -> Result<Option<u64>, ChannelError> {
        let mut control = self.control().borrow_mut();
        let mut spin = Spin::new(SPIN_NS);
        wait::send(&mut *control, &mut spin, &order.to_bytes(), patience())
            .unwrap_or_else(|error| panic!("the remote peer cannot be told anything: {error}"));
        let mut bytes = Vec::new();
        // Opening may take a full wait, after which the answer still has to arrive.
        let time = 2 * patience();
        loop {
            wait::recv_into(&mut *control, &mut spin, &mut bytes, time)
                .unwrap_or_else(|error| panic!("the remote peer does not answer {order:?}: {error}"));
            let (answer, counts) = Answer::from_bytes(&bytes).expect("an answer");
            self.counts.set(counts);
            return match answer {
                Answer::Rung => {
                    self.rung.set(true);
                    continue;
                }
                Answer::Done(number) => Ok(Some(number)),
                Answer::Message(message) => {
                    message.clone_into(received);
                    Ok(None)
                }
                Answer::Failed(failure) => Err(error_of(failure)),
            };
        }
    }

    fn record_failure(&self, error: ChannelError) -> EndError {
        let end = EndError::from(&error);
        if end == EndError::Broken {
            self.failure.borrow_mut().get_or_insert(error);
        }
        end
    }

    fn number(&self, order: &Order<'_>) -> Result<u64, ChannelError> {
        Ok(self.execute(order, &mut Vec::new())?.expect("no message was asked for"))
    }

    fn query_bool(&self, order: &Order<'_>) -> bool {
        self.number(order).unwrap_or_else(|error| panic!("{order:?}: {error}")) == 1
    }

    /// Waits up to `timeout` for the end of the remote peer's sleep.
    pub(crate) fn is_rung(&self, timeout: Duration) -> bool {
        if !self.rung.get() {
            let mut control = self.control().borrow_mut();
            let mut bytes = Vec::new();
            match wait::recv_into(&mut *control, &mut Spin::new(0), &mut bytes, timeout) {
                Ok(_) => assert!(matches!(Answer::from_bytes(&bytes), Ok((Answer::Rung, _)))),
                Err(ChannelError::TimedOut(_)) => return false,
                Err(error) => panic!("the remote peer is gone: {error}"),
            }
            self.rung.set(true);
        }
        true
    }
}

impl Drop for RemotePeer {
    fn drop(&mut self) {
        if self.description.max_message_bytes > 0 {
            // Ignores errors: a remote peer that fails here fails every later case too.
            let _ = self.execute(&Order::Drop, &mut Vec::new());
        }
        if let Some(control) = self.control.take() {
            (self.give_back)(control.into_inner());
        }
    }
}

fn error_of(failure: Failure) -> ChannelError {
    match failure {
        Failure::WouldBlock => ChannelError::WouldBlock,
        // Only opening has a timeout.
        Failure::TimedOut => ChannelError::TimedOut(error::Awaited::Handshake),
        Failure::Closed => ChannelError::Closed,
        Failure::PeerDied => ChannelError::PeerDied,
        Failure::TooLong(length_bytes, max_bytes) => {
            ChannelError::TooLong { length_bytes: length_bytes as usize, max_bytes: max_bytes as usize }
        }
        Failure::Violation(what) | Failure::Other(what) => ChannelError::Violation(what),
    }
}

fn of(awaited: Interest) -> Awaited {
    match awaited {
        Interest::Read => Awaited::Message,
        Interest::Write => Awaited::Room,
        Interest::ReadWrite => Awaited::Both,
    }
}

impl Transport for RemotePeer {
    fn describe(&self) -> Description {
        self.description
    }

    fn stats(&self) -> Stats {
        let [messages_sent, bytes_sent, messages_received, bytes_received, rings, sleeps] =
            self.counts.get().numbers;
        Stats {
            messages_sent,
            bytes_sent,
            messages_received,
            bytes_received,
            rings,
            sleeps,
            ..Stats::default()
        }
    }

    fn failure(&self) -> Option<ChannelError> {
        self.failure.borrow().clone()
    }

    fn try_send(&mut self, message: &[u8]) -> Result<(), EndError> {
        let order = if message.len() > MAX_CARRIED_BYTES {
            Order::SendZeros(message.len() as u64)
        } else {
            Order::Send(message)
        };
        self.number(&order).map(drop).map_err(|error| self.record_failure(error))
    }

    fn try_recv_in_place<R>(&mut self, read: impl FnOnce(&Message<'_>) -> R) -> Result<Option<R>, EndError> {
        let mut received = Vec::new();
        match self.execute(&Order::Recv, &mut received).map_err(|error| self.record_failure(error))? {
            Some(_) => Ok(None),
            None => Ok(Some(read(&Message::of_bytes(&received)))),
        }
    }

    fn is_ready(&mut self, awaited: Interest) -> bool {
        let readable = |end: &Self| end.query_bool(&Order::Readable);
        let sendable = |end: &Self| !end.query_bool(&Order::MaySleep(Awaited::Room));
        match awaited {
            Interest::Read => readable(self),
            Interest::Write => sendable(self),
            Interest::ReadWrite => readable(self) || sendable(self),
        }
    }

    fn announce_sleep(&mut self, awaited: Interest) -> Announced {
        self.query_bool(&Order::Announce(of(awaited)));
        // The remote peer has executed a barrier if one is needed.
        Announced::Complete
    }

    fn may_sleep(&mut self, awaited: Interest) -> bool {
        let may_sleep = self.query_bool(&Order::MaySleep(of(awaited)));
        may_sleep
            && !self.rung.get()
            && wait::prepare_to_sleep(&mut *self.control().borrow_mut(), Interest::Read)
    }

    fn sources<'a>(&'a self, _awaited: Interest, sources: &mut Vec<(BorrowedFd<'a>, Interest)>) {
        sources.extend(self.bells.iter().map(|bell| (bell.as_fd(), Interest::Read)));
    }

    fn finish_sleep(&mut self, rung: bool) {
        self.control().borrow_mut().finish_sleep(true);
        // An earlier ring may still be in flight: the remote peer's answer decides.
        let rung = self.is_rung(Duration::ZERO) || rung;
        self.query_bool(&Order::Awake(rung));
        self.rung.set(false);
    }

    fn close(&mut self) {
        self.query_bool(&Order::Close);
    }
}
