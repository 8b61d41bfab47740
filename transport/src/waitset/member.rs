//! Members of a waitset.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use tombolo_platform::OsError;
use tombolo_platform::epoll::{Epoll, Trigger};
use tombolo_platform::event::Interest;

use super::Token;
use crate::capabilities::Capabilities;
use crate::contract::{Announced, HasTransport, Transport};

/// Number of empty polls after which a channel is no longer polled.
const DEFAULT_MAX_EMPTY_POLLS: u32 = 64;

#[derive(Debug)]
pub(super) enum Member<C> {
    Channel(ChannelMember<C>),
    Descriptor(OwnedFd),
    /// Something that the owner of the set watches itself.
    External,
    Timer {
        /// Due time, while the timer is set.
        due_ns: Option<u64>,
        /// Whether the timer is removed once it has been reported.
        once: bool,
    },
}

/// Channel and its state in the set.
#[derive(Debug)]
pub(super) struct ChannelMember<C> {
    pub(super) channel: C,
    pub(super) awaited: Interest,
    /// Whether its peer rings for the awaited condition, so that it need not be polled. Otherwise the channel
    /// is hot.
    pub(super) armed: bool,
    empty_polls: u32,
    /// Descriptors and interests registered with the kernel, in the order of the transport's sources.
    registered: Vec<(RawFd, Interest)>,
}

impl<C: HasTransport> ChannelMember<C> {
    pub(super) fn new(channel: C, awaited: Interest) -> Self {
        ChannelMember { channel, awaited, armed: false, empty_polls: 0, registered: Vec::new() }
    }

    /// Whether the awaited condition holds.
    #[inline]
    pub(super) fn is_ready(&mut self) -> bool {
        self.channel.transport_mut().is_ready(self.awaited)
    }

    /// Counts an empty poll. Returns whether it makes the channel cold.
    #[inline]
    pub(super) fn count_empty_poll(&mut self) -> bool {
        self.empty_polls = self.empty_polls.saturating_add(1);
        self.empty_polls == self.max_empty_polls()
    }

    pub(super) fn reset_empty_polls(&mut self) {
        self.empty_polls = 0;
    }

    pub(super) fn is_cold(&self) -> bool {
        self.empty_polls >= self.max_empty_polls()
    }

    fn max_empty_polls(&self) -> u32 {
        if self.arming_is_free() { 1 } else { DEFAULT_MAX_EMPTY_POLLS }
    }

    /// Whether the channel can be armed without cost. Where each message is a system call anyway, polling
    /// costs one more and saves the peer none.
    pub(super) fn arming_is_free(&self) -> bool {
        !self.channel.transport().describe().capabilities.contains(Capabilities::SYSCALL_FREE)
    }

    /// First half of arming.
    pub(super) fn announce(&mut self) -> Announced {
        self.channel.transport_mut().announce_sleep(self.awaited)
    }

    /// Second half of arming, after the barrier. Returns false if the awaited condition already holds.
    pub(super) fn finish_arming(&mut self, epoll: &Epoll, token: Token) -> Result<bool, OsError> {
        if !self.channel.transport_mut().may_sleep(self.awaited) {
            self.channel.transport_mut().finish_sleep(false);
            return Ok(false);
        }
        if let Err(error) = self.register(epoll, token) {
            self.channel.transport_mut().finish_sleep(false);
            return Err(error);
        }
        self.armed = true;
        self.reset_empty_polls();
        Ok(true)
    }

    /// Updates the kernel's interest in the descriptors where it changed.
    pub(super) fn register(&mut self, epoll: &Epoll, token: Token) -> Result<(), OsError> {
        let mut sources = Vec::with_capacity(2);
        self.channel.transport().sources(self.awaited, &mut sources);
        for (index, (fd, interest)) in sources.into_iter().enumerate() {
            match self.registered.get_mut(index) {
                Some(known) if *known == (fd.as_raw_fd(), interest) => {}
                Some(known) => {
                    epoll.change(fd, interest, Trigger::Level, token.to_bits())?;
                    *known = (fd.as_raw_fd(), interest);
                }
                None => {
                    epoll.add(fd, interest, Trigger::Level, token.to_bits())?;
                    self.registered.push((fd.as_raw_fd(), interest));
                }
            }
        }
        Ok(())
    }

    /// Withdraws an announcement. `rung` means that one of its sources was ready.
    pub(super) fn disarm(&mut self, rung: bool) {
        self.armed = false;
        self.channel.transport_mut().finish_sleep(rung);
    }

    /// Returns the channel as it was added.
    pub(super) fn release(mut self, epoll: &Epoll) -> C {
        self.disarm(true);
        let mut sources = Vec::with_capacity(2);
        self.channel.transport().sources(self.awaited, &mut sources);
        let known = self.registered.len();
        sources.iter().take(known).for_each(|(fd, _)| epoll.remove(fd));
        self.channel
    }
}

impl<C> Member<C> {
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Member::Descriptor(fd) => Some(fd.as_fd()),
            _ => None,
        }
    }
}
