//! Rights in flight over a channel.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};

use tombolo_base::{ChannelId, DomainId};
use tombolo_control::Request;

use crate::monitor::MonitorLink;

/// Rights granted over a channel by its peer; those not taken up when the channel ends are released.
#[derive(Debug)]
pub(crate) struct RightsInTransit {
    link: Weak<MonitorLink>,
    channel: ChannelId,
    peer: DomainId,
    expected: AtomicBool,
}

impl RightsInTransit {
    pub(crate) fn new(link: Weak<MonitorLink>, channel: ChannelId, peer: DomainId) -> Self {
        RightsInTransit { link, channel, peer, expected: false.into() }
    }

    /// Records that rights may arrive.
    pub(crate) fn mark_expected(&self) {
        self.expected.store(true, Ordering::Relaxed);
    }
}

impl Drop for RightsInTransit {
    fn drop(&mut self) {
        if *self.expected.get_mut()
            && let Some(link) = self.link.upgrade()
        {
            // If the monitor is gone, so are the rights of this program.
            let _ = link.notify(Request::CapabilityForget { channel: self.channel, granter: self.peer });
        }
    }
}
