//! Descriptors that are sent to domains with messages.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::Shutdown;
use tombolo_base::{ChannelId, WindowId};
use tombolo_link::layout::PAGE_BYTES;
use tombolo_platform::error::Context;
use tombolo_platform::event::Interest;
use tombolo_platform::{Errno, OsError, memory, socket};

use super::{Agent, GuestWindow, Token};
use crate::shared_bells::{WATCHED_BYTES, WatchedChannel};
use crate::streams::LinkStreams;
use tombolo_monitor_core::agent::Item;

impl Agent {
    /// Creates the descriptors for a domain.
    pub(super) fn create_descriptors(
        &mut self,
        channel: ChannelId,
        items: Vec<Item<OwnedFd>>,
    ) -> Result<Vec<OwnedFd>, OsError> {
        // Creates all of them even if one fails: the far end of a pair must not wait forever.
        let made: Vec<_> = items.into_iter().map(|item| self.create_descriptor(channel, item)).collect();
        made.into_iter().collect()
    }

    fn create_descriptor(&mut self, channel: ChannelId, item: Item<OwnedFd>) -> Result<OwnedFd, OsError> {
        let missing = || OsError::new("pass on a descriptor that did not arrive", Errno::BADF);
        let copy = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().context("copy a descriptor");
        match item {
            Item::Passed(descriptor) => Ok(descriptor),
            Item::Missing => Err(missing()),
            Item::Lifeline => self.create_lifeline(channel),
            Item::PairEnd => match self.pairs.remove(&channel) {
                Some(other) => Ok(other),
                None => {
                    let (first, second) = socket::pair(socket::SocketKind::Stream)?;
                    self.pairs.insert(channel, second);
                    Ok(first)
                }
            },
            Item::LinkStream => self.streams()?.open(channel),
            Item::TracePage(domain) => self.trace_page(domain),
            Item::WindowMemory(window) => copy(self.window(window)?.memory.as_fd()),
            Item::Region(region, writable) => self.region_memory(region, writable),
            Item::WindowToRead(window) => memory::open_read_only(&self.window(window)?.memory),
            Item::Registers(window) => copy(self.window(window)?.bells.registers().ok_or_else(missing)?),
            Item::Interrupt(window, vector) => {
                copy(self.window(window)?.bells.incoming(vector).ok_or_else(missing)?)
            }
            Item::Ringer(window, vector) => {
                copy(self.window(window)?.bells.ringer(vector).ok_or_else(missing)?)
            }
            Item::SharedBell { window, offset_bytes, accepting, group } => {
                // Kept as long as the lifeline.
                self.lifelines.get(&channel).ok_or_else(missing)?;
                let made = self.window(window)?;
                let memory = memory::map(&made.memory, offset_bytes, WATCHED_BYTES)?;
                let part = (memory, made.caches);
                let watched = WatchedChannel { channel, window, accepting, group };
                let GuestWindow { memory, .. } = self.windows.get(&window).ok_or_else(missing)?;
                let page = |at| memory::map(memory, at, PAGE_BYTES);
                self.shared_bells.make(&watched, part, page)
            }
        }
    }

    fn window(&self, id: WindowId) -> Result<&GuestWindow, OsError> {
        self.windows.get(&id).ok_or_else(|| OsError::new(format!("reach {id}"), Errno::NODEV))
    }

    pub(super) fn streams(&self) -> Result<&LinkStreams, OsError> {
        let missing = || OsError::new("open a stream of the link with the host", Errno::NODEV);
        self.streams.as_ref().ok_or_else(missing)
    }

    fn create_lifeline(&mut self, channel: ChannelId) -> Result<OwnedFd, OsError> {
        let made = socket::pair(socket::SocketKind::Stream).and_then(|(ours, theirs)| {
            Ok((self.poller.add(ours, Token::Lifeline(channel), Some(Interest::Read))?, theirs))
        });
        match made {
            Ok((ours, theirs)) => {
                self.lifelines.insert(channel, ours);
                self.core.lifeline_created(channel);
                Ok(theirs)
            }
            Err(error) => {
                self.core.lifeline_failed(channel);
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
