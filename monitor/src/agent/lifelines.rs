//! The descriptors that go to domains beside messages.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::Shutdown;
use tombolo_base::ChannelId;
use tombolo_platform::error::Context;
use tombolo_platform::{Errno, OsError, memory, socket};

use super::Agent;
use super::core::Item;

impl Agent {
    /// Makes what is to go to a domain.
    pub(super) fn attach(
        &mut self,
        channel: ChannelId,
        items: Vec<Item<OwnedFd>>,
    ) -> Result<Vec<OwnedFd>, OsError> {
        // All of them, whatever becomes of one: the far end of a pair must not wait for nothing.
        let made: Vec<_> = items.into_iter().map(|item| self.make(channel, item)).collect();
        made.into_iter().collect()
    }

    fn make(&mut self, channel: ChannelId, item: Item<OwnedFd>) -> Result<OwnedFd, OsError> {
        let missing = || OsError::new("pass on a descriptor that did not arrive", Errno::BADF);
        let copy = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().context("copy a descriptor");
        match item {
            Item::Passed(descriptor) => Ok(descriptor),
            Item::Missing => Err(missing()),
            Item::Lifeline => self.make_lifeline(channel),
            Item::PairEnd => match self.pairs.remove(&channel) {
                Some(other) => Ok(other),
                None => {
                    let (first, second) = socket::pair(socket::SocketKind::Stream)?;
                    self.pairs.insert(channel, second);
                    Ok(first)
                }
            },
            Item::TracePage(domain) => self.trace_page(domain),
            Item::WindowMemory => copy(self.window.as_ref().ok_or_else(missing)?.memory.as_fd()),
            Item::Region(region, writable) => self.region_memory(region, writable),
            Item::WindowToRead => memory::open_to_read(&self.window.as_ref().ok_or_else(missing)?.memory),
            Item::Registers | Item::Interrupt(_) | Item::Ringer(_) => {
                let bells = &self.window.as_ref().ok_or_else(missing)?.bells;
                let found = match item {
                    Item::Interrupt(vector) => bells.incoming(vector),
                    Item::Ringer(vector) => bells.ringer(vector),
                    _ => bells.registers(),
                };
                copy(found.ok_or_else(missing)?)
            }
        }
    }

    fn make_lifeline(&mut self, channel: ChannelId) -> Result<OwnedFd, OsError> {
        match socket::pair(socket::SocketKind::Stream) {
            Ok((ours, theirs)) => {
                self.lifelines.insert(channel, ours);
                self.core.lifeline_made(channel);
                Ok(theirs)
            }
            Err(error) => {
                self.core.lifeline_not_made(channel);
                Err(error)
            }
        }
    }

    pub(super) fn hang_up(&mut self, channel: ChannelId) {
        if let Some(lifeline) = self.lifelines.get(&channel) {
            let _ = rustix::net::shutdown(lifeline, Shutdown::Write);
        }
    }
}
