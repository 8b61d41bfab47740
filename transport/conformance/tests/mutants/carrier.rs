//! Transport that works except for one defect.

use std::any::Any;
use std::marker::PhantomData;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::time::Duration;

use tombolo_conformance::peer::{self, KillablePeer, PeerTask};
use tombolo_conformance::{Carrier, CheckMode, Fixture, Hostile};
use tombolo_link::{ChannelConfig, Hello, Side};
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::time::Deadline;
use tombolo_transport::contract::Announced;
use tombolo_transport::{
    Capabilities, ChannelError, Description, EndError, Message, Stats, Transport, TransportExt,
};

/// Defect of a transport. Methods that are not implemented behave correctly.
pub(crate) trait Mutation: Default + Send + 'static {
    /// Transport that gets the defect.
    type Base: Carrier<End = Vec<OwnedFd>>;
    /// Case that must find the defect.
    const CAUGHT_BY: &'static str;
    /// Capabilities that it claims.
    const CAPABILITIES: Capabilities = <Self::Base as Carrier>::CAPABILITIES;
    /// Whether dropping it does not close it.
    const LEAKS_ITSELF: bool = false;

    fn open(end: Vec<OwnedFd>, side: Side, hello: Hello, deadline: Deadline) -> Opened<Self> {
        Self::Base::open(end, side, hello, deadline)
    }

    fn decline(end: Vec<OwnedFd>, hello: Hello, reason: u32) -> Result<(), ChannelError> {
        Self::Base::decline(end, hello, reason)
    }

    /// Returns the message limit that it claims.
    fn max_message_bytes(inner: &impl Transport) -> usize {
        inner.describe().max_message_bytes
    }

    fn stats(inner: &impl Transport) -> Stats {
        inner.stats()
    }

    fn send(&mut self, inner: &mut impl Transport, message: &[u8]) -> Result<(), EndError> {
        inner.try_send(message)
    }

    fn receive(
        &mut self,
        inner: &mut impl Transport,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<usize>, EndError> {
        inner.try_recv_into(buffer)
    }

    fn readable(&mut self, inner: &mut impl Transport) -> bool {
        inner.readable()
    }

    fn announce_sleep(&mut self, inner: &mut impl Transport, awaited: Interest) -> Announced {
        inner.announce_sleep(awaited)
    }

    fn may_sleep(&mut self, inner: &mut impl Transport, awaited: Interest) -> bool {
        inner.may_sleep(awaited)
    }

    /// Whether it has descriptors to sleep on.
    fn has_sources() -> bool {
        true
    }

    fn close(&mut self, inner: &mut impl Transport) {
        inner.close();
    }
}

pub(crate) type Opened<M> = Result<<<M as Mutation>::Base as Carrier>::Channel, ChannelError>;

/// Ends that stay open although they were dropped.
static LEAKED: Mutex<Vec<Box<dyn Any + Send>>> = Mutex::new(Vec::new());

/// Channel end with the defect.
pub(crate) struct Mutant<M: Mutation> {
    mutation: M,
    /// `Some` until it is dropped.
    inner: Option<<M::Base as Carrier>::Channel>,
}

impl<M: Mutation> Mutant<M> {
    fn new(inner: <M::Base as Carrier>::Channel) -> Self {
        Mutant { mutation: M::default(), inner: Some(inner) }
    }

    fn parts(&mut self) -> (&mut M, &mut <M::Base as Carrier>::Channel) {
        (&mut self.mutation, self.inner.as_mut().unwrap())
    }

    fn inner(&self) -> &<M::Base as Carrier>::Channel {
        self.inner.as_ref().unwrap()
    }
}

impl<M: Mutation> Drop for Mutant<M> {
    fn drop(&mut self) {
        if M::LEAKS_ITSELF {
            LEAKED.lock().unwrap().push(Box::new(self.inner.take()));
        }
    }
}

impl<M: Mutation> Transport for Mutant<M> {
    fn describe(&self) -> Description {
        Description {
            capabilities: M::CAPABILITIES,
            max_message_bytes: M::max_message_bytes(self.inner()),
            ..self.inner().describe()
        }
    }

    fn stats(&self) -> Stats {
        M::stats(self.inner())
    }

    fn failure(&self) -> Option<ChannelError> {
        self.inner().failure()
    }

    fn try_send(&mut self, message: &[u8]) -> Result<(), EndError> {
        let (mutation, inner) = self.parts();
        mutation.send(inner, message)
    }

    fn try_recv_in_place<R>(&mut self, read: impl FnOnce(&Message<'_>) -> R) -> Result<Option<R>, EndError> {
        let (mutation, inner) = self.parts();
        let mut buffer = Vec::new();
        let received = mutation.receive(inner, &mut buffer)?;
        Ok(received.map(|_| read(&Message::of_bytes(&buffer))))
    }

    fn is_ready(&mut self, awaited: Interest) -> bool {
        let (mutation, inner) = self.parts();
        match awaited {
            Interest::Read => mutation.readable(inner),
            Interest::Write => inner.is_ready(awaited),
            Interest::ReadWrite => mutation.readable(inner) || inner.is_ready(Interest::Write),
        }
    }

    fn announce_sleep(&mut self, awaited: Interest) -> Announced {
        let (mutation, inner) = self.parts();
        mutation.announce_sleep(inner, awaited)
    }

    fn may_sleep(&mut self, awaited: Interest) -> bool {
        let (mutation, inner) = self.parts();
        mutation.may_sleep(inner, awaited)
    }

    fn sources<'a>(&'a self, awaited: Interest, sources: &mut Vec<(BorrowedFd<'a>, Interest)>) {
        if M::has_sources() {
            self.inner().sources(awaited, sources);
        }
    }

    fn finish_sleep(&mut self, rung: bool) {
        self.parts().1.finish_sleep(rung);
    }

    fn close(&mut self) {
        let (mutation, inner) = self.parts();
        mutation.close(inner);
    }
}

/// Carrier for a defect. Its channels are not checked: the cases must find the defect.
pub(crate) struct MutantCarrier<M>(PhantomData<M>);

impl<M: Mutation> Carrier for MutantCarrier<M> {
    type Channel = Mutant<M>;
    type End = Vec<OwnedFd>;
    const NAME: &'static str = <M::Base as Carrier>::NAME;
    const CAPABILITIES: Capabilities = M::CAPABILITIES;
    const FIXTURES: &'static [Fixture] = <M::Base as Carrier>::FIXTURES;
    const SIDE_A_SETS_SHAPE: bool = <M::Base as Carrier>::SIDE_A_SETS_SHAPE;
    const CHECK_MODE: CheckMode = CheckMode::Nothing;
    const EFFORT_PERCENT: u64 = 10;

    fn ends(config: ChannelConfig) -> (Vec<OwnedFd>, Vec<OwnedFd>) {
        M::Base::ends(config)
    }

    fn open(
        end: Vec<OwnedFd>,
        side: Side,
        hello: Hello,
        deadline: Deadline,
    ) -> Result<Mutant<M>, ChannelError> {
        M::open(end, side, hello, deadline).map(Mutant::new)
    }

    fn decline(end: Vec<OwnedFd>, hello: Hello, reason: u32) -> Result<(), ChannelError> {
        M::decline(end, hello, reason)
    }

    fn spawn_killable_peer(order: PeerTask) -> (Mutant<M>, Box<dyn KillablePeer>) {
        peer::spawn_process_peer::<Self>(order)
    }

    fn peer(descriptors: Vec<OwnedFd>, order: PeerTask) {
        M::Base::peer(descriptors, order);
    }

    fn hostile(end: Vec<OwnedFd>, hello: Hello) -> Hostile {
        M::Base::hostile(end, hello)
    }

    fn wakes_within(channel: &Mutant<M>, awaited: Interest, timeout: Duration) -> bool {
        let mut sources = Vec::new();
        channel.sources(awaited, &mut sources);
        poll(&sources, Some(Deadline::after(timeout))).unwrap().iter().any(|ready| ready.any())
    }
}
