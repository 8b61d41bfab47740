//! Wakes the ends of channels that have no interrupt vector of their own.
//!
//! They sleep on event counters that this monitor signals. The vector that all of them share wakes the
//! monitor, which finds in the memory of each channel whether its peer has rung ([`tombolo_link::rung`]).

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use tombolo_base::coherence::Caches;
use tombolo_base::{ChannelId, SharedMemory, WindowId};
use tombolo_link::layout::HEADER_BYTES;
use tombolo_link::{RingWatch, Side};
use tombolo_platform::error::Context;
use tombolo_platform::{Errno, OsError, event};

/// The bytes of a channel that its watch needs: its header, in whole pages.
pub(crate) const WATCHED_BYTES: usize = HEADER_BYTES.next_multiple_of(4096);

#[derive(Debug)]
struct SharedBell {
    window: WindowId,
    memory: SharedMemory,
    caches: Option<Caches>,
    watch: RingWatch,
    counter: OwnedFd,
}

/// The event counters of a monitor's channels without a vector.
#[derive(Debug, Default)]
pub(crate) struct SharedBells {
    bells: HashMap<ChannelId, SharedBell>,
}

impl SharedBells {
    /// The event counter for one end of a channel in a memory, with the way in which its sides keep their
    /// views of it. It is kept until it is
    /// [forgotten](Self::forget). `accepting` says that the end is the accepting one.
    ///
    /// # Errors
    /// An error of the kernel; memory that is too short.
    pub(crate) fn make(
        &mut self,
        channel: ChannelId,
        window: WindowId,
        (memory, caches): (SharedMemory, Option<Caches>),
        accepting: bool,
    ) -> Result<OwnedFd, OsError> {
        let peer = if accepting { Side::A } else { Side::B };
        let short = |_| OsError::new("watch a channel whose memory is too short", Errno::INVAL);
        let watch = RingWatch::new(&memory, peer).map_err(short)?;
        let counter = event::eventfd()?;
        let copy = counter.try_clone().context("copy a descriptor")?;
        self.bells.insert(channel, SharedBell { window, memory, caches, watch, counter });
        Ok(copy)
    }

    pub(crate) fn forget(&mut self, channel: ChannelId) {
        self.bells.remove(&channel);
    }

    /// Whether any end sleeps by the shared vector of a window.
    pub(crate) fn has_any(&self, window: WindowId) -> bool {
        self.bells.values().any(|bell| bell.window == window)
    }

    /// Wakes the ends in a window whose peers have rung. Acknowledge the shared vector first.
    pub(crate) fn forward(&mut self, window: WindowId) {
        for bell in self.bells.values_mut().filter(|bell| bell.window == window) {
            if let Some(caches) = bell.caches {
                caches.invalidate(&bell.memory);
            }
            if bell.watch.has_rung() {
                // An event counter fails only when it is full, which wakes the end as well.
                let _ = event::signal(&bell.counter);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tombolo_link::RingCounter;
    use tombolo_platform::event::drain;

    use super::*;

    #[test]
    fn only_the_end_whose_peer_rang_is_woken() {
        let memories = [0, 1, 2].map(|_| SharedMemory::zeroed(WATCHED_BYTES));
        let mut bells = SharedBells::default();
        let counters = [0, 1, 2].map(|index: usize| {
            let window = WindowId(u16::from(index == 2));
            let part = (memories[index].clone(), None);
            bells.make(ChannelId(index as u64), window, part, index == 0).unwrap()
        });
        let woken = || counters.each_ref().map(drain);
        bells.forward(WindowId(0));
        assert_eq!(woken(), [false, false, false]);
        for (memory, side) in memories.iter().zip([Side::A, Side::A, Side::B]) {
            RingCounter::new(memory, side).unwrap().count();
        }
        bells.forward(WindowId(0));
        assert_eq!(woken(), [true, false, false], "the second end is A itself, the third in another window");
        bells.forward(WindowId(1));
        assert_eq!(woken(), [false, false, true]);
        bells.forward(WindowId(0));
        assert_eq!(woken(), [false, false, false], "a ring wakes once");
        bells.forget(ChannelId(2));
        assert!(bells.has_any(WindowId(0)) && !bells.has_any(WindowId(1)));
    }
}
