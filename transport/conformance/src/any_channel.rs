//! Type-erased channel end, so that cases are compiled once and not for every transport.

use std::any::Any;
use std::os::fd::BorrowedFd;

use tombolo_platform::event::Interest;
use tombolo_platform::time::Deadline;
use tombolo_transport::contract::Announced;
use tombolo_transport::{
    Batch, ChannelError, Description, Draft, EndError, MemoryChannel, Message, Stats, Transport,
};

/// Channel end of any type. Every method delegates to the end.
pub(crate) struct AnyChannel(Box<dyn Erased>);

impl AnyChannel {
    pub(crate) fn new<T: Transport + Send + 'static>(channel: T) -> Self {
        AnyChannel(Box::new(channel))
    }

    /// Returns the end itself, if it is a `T`.
    pub(crate) fn get<T: 'static>(&self) -> Option<&T> {
        self.0.as_any().downcast_ref()
    }

    /// Converts to the end itself, if it is a `T`.
    pub(crate) fn into_inner<T: 'static>(self) -> Option<T> {
        self.0.into_any().downcast().ok().map(|channel| *channel)
    }
}

/// Object-safe version of [`Transport`], without type parameters.
trait Erased: Send {
    fn as_any(&self) -> &dyn Any;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
    fn describe(&self) -> Description;
    fn stats(&self) -> Stats;
    fn failure(&self) -> Option<ChannelError>;
    fn send(&mut self, message: &[u8]) -> Result<(), EndError>;
    fn as_memory_channel(&mut self) -> Option<&mut MemoryChannel>;
    fn recv(&mut self, read: &mut dyn FnMut(&Message<'_>)) -> Result<bool, EndError>;
    fn recv_batch(&mut self, max: usize, read: &mut dyn FnMut(&Message<'_>)) -> Result<usize, EndError>;
    fn send_in_place(&mut self, length_bytes: usize, write: &mut dyn FnMut(&mut Draft<'_>)) -> Sent<()>;
    fn send_batch(&mut self, fill: &mut dyn FnMut(&mut Batch<'_>)) -> Sent<u64>;
    fn is_ready(&mut self, awaited: Interest) -> bool;
    fn announce_sleep(&mut self, awaited: Interest) -> Announced;
    fn may_sleep(&mut self, awaited: Interest) -> bool;
    fn sources<'a>(&'a self, awaited: Interest, sources: &mut Vec<(BorrowedFd<'a>, Interest)>);
    fn park(&mut self, deadline: Deadline) -> Option<bool>;
    fn finish_sleep(&mut self, rung: bool);
    fn close(&mut self);
}

type Sent<T> = Result<T, EndError>;

impl<T: Transport + Send + 'static> Erased for T {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }

    fn describe(&self) -> Description {
        Transport::describe(self)
    }

    fn stats(&self) -> Stats {
        Transport::stats(self)
    }

    fn failure(&self) -> Option<ChannelError> {
        Transport::failure(self)
    }

    fn send(&mut self, message: &[u8]) -> Result<(), EndError> {
        self.try_send(message)
    }

    fn as_memory_channel(&mut self) -> Option<&mut MemoryChannel> {
        Transport::as_memory_channel(self)
    }

    fn recv(&mut self, read: &mut dyn FnMut(&Message<'_>)) -> Result<bool, EndError> {
        Ok(self.try_recv_in_place(read)?.is_some())
    }

    fn recv_batch(&mut self, max: usize, read: &mut dyn FnMut(&Message<'_>)) -> Result<usize, EndError> {
        self.try_recv_batch(max, read)
    }

    fn send_in_place(&mut self, length_bytes: usize, write: &mut dyn FnMut(&mut Draft<'_>)) -> Sent<()> {
        self.try_send_in_place(length_bytes, write)
    }

    fn send_batch(&mut self, fill: &mut dyn FnMut(&mut Batch<'_>)) -> Sent<u64> {
        self.try_send_batch(fill)
    }

    fn is_ready(&mut self, awaited: Interest) -> bool {
        Transport::is_ready(self, awaited)
    }

    fn announce_sleep(&mut self, awaited: Interest) -> Announced {
        Transport::announce_sleep(self, awaited)
    }

    fn may_sleep(&mut self, awaited: Interest) -> bool {
        Transport::may_sleep(self, awaited)
    }

    fn sources<'a>(&'a self, awaited: Interest, sources: &mut Vec<(BorrowedFd<'a>, Interest)>) {
        Transport::sources(self, awaited, sources);
    }

    fn park(&mut self, deadline: Deadline) -> Option<bool> {
        Transport::park(self, deadline)
    }

    fn finish_sleep(&mut self, rung: bool) {
        Transport::finish_sleep(self, rung);
    }

    fn close(&mut self) {
        Transport::close(self);
    }
}

/// Takes the closure, which a transport calls at most once.
fn take<F>(once: &mut Option<F>) -> F {
    once.take().expect("a transport calls it once")
}

impl Transport for AnyChannel {
    fn describe(&self) -> Description {
        self.0.describe()
    }

    fn stats(&self) -> Stats {
        self.0.stats()
    }

    fn failure(&self) -> Option<ChannelError> {
        self.0.failure()
    }

    fn try_send(&mut self, message: &[u8]) -> Result<(), EndError> {
        self.0.send(message)
    }

    fn as_memory_channel(&mut self) -> Option<&mut MemoryChannel> {
        self.0.as_memory_channel()
    }

    fn try_recv_in_place<R>(&mut self, read: impl FnOnce(&Message<'_>) -> R) -> Result<Option<R>, EndError> {
        let (mut read, mut found) = (Some(read), None);
        self.0.recv(&mut |message| found = Some(take(&mut read)(message)))?;
        Ok(found)
    }

    fn try_recv_batch(&mut self, max: usize, mut read: impl FnMut(&Message<'_>)) -> Result<usize, EndError> {
        self.0.recv_batch(max, &mut read)
    }

    fn try_send_in_place(
        &mut self,
        length_bytes: usize,
        write: impl FnOnce(&mut Draft<'_>),
    ) -> Result<(), EndError> {
        let mut write = Some(write);
        self.0.send_in_place(length_bytes, &mut |draft| take(&mut write)(draft))
    }

    fn try_send_batch(&mut self, fill: impl FnOnce(&mut Batch<'_>)) -> Result<u64, EndError> {
        let mut fill = Some(fill);
        self.0.send_batch(&mut |batch| take(&mut fill)(batch))
    }

    fn is_ready(&mut self, awaited: Interest) -> bool {
        self.0.is_ready(awaited)
    }

    fn announce_sleep(&mut self, awaited: Interest) -> Announced {
        self.0.announce_sleep(awaited)
    }

    fn may_sleep(&mut self, awaited: Interest) -> bool {
        self.0.may_sleep(awaited)
    }

    fn sources<'a>(&'a self, awaited: Interest, sources: &mut Vec<(BorrowedFd<'a>, Interest)>) {
        self.0.sources(awaited, sources);
    }

    fn park(&mut self, deadline: Deadline) -> Option<bool> {
        self.0.park(deadline)
    }

    fn finish_sleep(&mut self, rung: bool) {
        self.0.finish_sleep(rung);
    }

    fn close(&mut self) {
        self.0.close();
    }
}
