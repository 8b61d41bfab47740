//! Rights that may be on their way over a channel.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};

use tombolo_base::{ChannelId, DomainId};
use tombolo_control::Request;

use crate::monitor::MonitorLink;

/// What may be on its way over a channel, and is let go with it if it was not taken up.
#[derive(Debug)]
pub(crate) struct OnTheWay {
    link: Weak<MonitorLink>,
    channel: ChannelId,
    peer: DomainId,
    expected: AtomicBool,
}

impl OnTheWay {
    pub(crate) fn new(link: Weak<MonitorLink>, channel: ChannelId, peer: DomainId) -> Self {
        OnTheWay { link, channel, peer, expected: false.into() }
    }

    /// Rights may come.
    pub(crate) fn expect(&self) {
        self.expected.store(true, Ordering::Relaxed);
    }
}

impl Drop for OnTheWay {
    fn drop(&mut self) {
        if *self.expected.get_mut()
            && let Some(link) = self.link.upgrade()
        {
            // If the monitor is gone, so is what this program holds.
            let _ = link.tell(Request::CapabilityForget { channel: self.channel, granter: self.peer });
        }
    }
}
