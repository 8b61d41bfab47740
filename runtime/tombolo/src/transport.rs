//! A channel is a transport: what takes any transport, such as the conformance suite, takes it as it is.

use std::os::fd::BorrowedFd;

use tombolo_platform::Deadline;
use tombolo_platform::event::Interest;
use tombolo_transport::contract::Announced;
use tombolo_transport::{Batch, ChannelError, Description, Draft, EndError, Message, Stats, Transport};

use crate::channel::Channel;

impl Transport for Channel {
    fn describe(&self) -> Description {
        self.carrier().describe()
    }

    fn stats(&self) -> Stats {
        self.carrier().stats()
    }

    fn failure(&self) -> Option<ChannelError> {
        self.carrier().failure()
    }

    #[inline]
    fn try_send(&mut self, message: &[u8]) -> Result<(), EndError> {
        self.carrier_mut().try_send(message)
    }

    #[inline]
    fn try_recv_in_place<R>(&mut self, read: impl FnOnce(&Message<'_>) -> R) -> Result<Option<R>, EndError> {
        self.carrier_mut().try_recv_in_place(read)
    }

    #[inline]
    fn try_recv_batch(&mut self, max: usize, read: impl FnMut(&Message<'_>)) -> Result<usize, EndError> {
        self.carrier_mut().try_recv_batch(max, read)
    }

    #[inline]
    fn try_send_in_place(
        &mut self,
        length_bytes: usize,
        write: impl FnOnce(&mut Draft<'_>),
    ) -> Result<(), EndError> {
        self.carrier_mut().try_send_in_place(length_bytes, write)
    }

    #[inline]
    fn try_send_batch(&mut self, fill: impl FnOnce(&mut Batch<'_>)) -> Result<u64, EndError> {
        self.carrier_mut().try_send_batch(fill)
    }

    fn is_ready(&mut self, awaited: Interest) -> bool {
        self.carrier_mut().is_ready(awaited)
    }

    fn announce_sleep(&mut self, awaited: Interest) -> Announced {
        self.carrier_mut().announce_sleep(awaited)
    }

    fn may_sleep(&mut self, awaited: Interest) -> bool {
        self.carrier_mut().may_sleep(awaited)
    }

    fn sources<'a>(&'a self, awaited: Interest, sources: &mut Vec<(BorrowedFd<'a>, Interest)>) {
        self.carrier().sources(awaited, sources);
    }

    fn park(&mut self, deadline: Deadline) -> Option<bool> {
        self.carrier_mut().park(deadline)
    }

    fn woken(&mut self, rung: bool) {
        self.carrier_mut().woken(rung);
    }

    fn close(&mut self) {
        self.carrier_mut().close();
    }
}
