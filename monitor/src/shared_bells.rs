//! Wakes the ends of channels without an interrupt vector of their own.
//!
//! They sleep on event counters that this monitor signals. A vector shared by all of them wakes the monitor,
//! which checks the memory of each channel for a ring of its peer ([`tombolo_link::shared_doorbell`]).
//! Channels in a group share a word that counts their rings; they are checked only if that word has changed.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;

use tombolo_base::coherence::Caches;
use tombolo_base::{ChannelId, SharedMemory, WindowId};
use tombolo_link::layout::{HEADER_BYTES, PAGE_BYTES};
use tombolo_link::{RingWatch, Side};
use tombolo_platform::error::Context;
use tombolo_platform::{Errno, OsError, event};

/// Bytes of a channel that its watch maps: its header, in whole pages.
pub(crate) const WATCHED_BYTES: usize = HEADER_BYTES.next_multiple_of(PAGE_BYTES);

#[derive(Debug)]
struct SharedBell {
    window: WindowId,
    memory: SharedMemory,
    /// Location of its group's word.
    group: Option<u64>,
    caches: Option<Caches>,
    watch: RingWatch,
    counter: OwnedFd,
}

impl SharedBell {
    /// Wakes the end if its peer has rung.
    fn signal_if_rung(&mut self) {
        if let Some(caches) = self.caches {
            caches.invalidate(&self.memory);
        }
        if self.watch.has_rung() {
            // An event counter fails only when it is full, which wakes the end as well.
            let _ = event::signal(&self.counter);
        }
    }
}

/// Channels whose rings one word counts.
#[derive(Debug)]
struct Group {
    watch: RingWatch,
    channels: HashSet<ChannelId>,
}

/// Channels of one window.
#[derive(Debug, Default)]
struct Members {
    /// Channels without a group, checked on every ring.
    ungrouped: HashSet<ChannelId>,
    /// Groups by the location of their word.
    groups: HashMap<u64, Group>,
}

/// Parameters of a channel to be watched.
pub(crate) struct WatchedChannel {
    pub(crate) channel: ChannelId,
    pub(crate) window: WindowId,
    /// Whether the end to be woken is the accepting one.
    pub(crate) accepting: bool,
    /// Location of its group's word.
    pub(crate) group: Option<u64>,
}

/// Event counters of a monitor's channels without a vector.
#[derive(Debug, Default)]
pub(crate) struct SharedBells {
    bells: HashMap<ChannelId, SharedBell>,
    windows: HashMap<WindowId, Members>,
}

impl SharedBells {
    /// Creates the event counter for one end of a channel in a memory, given the caches of its sides. It is
    /// kept until it is [forgotten](Self::forget). `page` maps the page of the window at an offset; it is
    /// called once for each group.
    ///
    /// # Errors
    /// An error of the kernel; memory that is too short.
    pub(crate) fn make(
        &mut self,
        watched: &WatchedChannel,
        (memory, caches): (SharedMemory, Option<Caches>),
        page: impl FnOnce(u64) -> Result<SharedMemory, OsError>,
    ) -> Result<OwnedFd, OsError> {
        let &WatchedChannel { channel, window, accepting, group } = watched;
        let peer = if accepting { Side::A } else { Side::B };
        let short = |_| OsError::new("watch a channel whose memory is too short", Errno::INVAL);
        let watch = RingWatch::new(&memory, peer).map_err(short)?;
        let counter = event::eventfd()?;
        let copy = counter.try_clone().context("copy a descriptor")?;
        let known =
            |word| self.windows.get(&window).is_some_and(|members| members.groups.contains_key(&word));
        let new_watch = match group {
            Some(word) if !known(word) => {
                let in_page = word % PAGE_BYTES as u64;
                let page = page(word - in_page)?;
                Some(RingWatch::of_group(&page, in_page as usize).map_err(short)?)
            }
            _ => None,
        };
        let members = self.windows.entry(window).or_default();
        if let (Some(word), Some(watch)) = (group, new_watch) {
            members.groups.insert(word, Group { watch, channels: HashSet::new() });
        }
        match group.and_then(|word| members.groups.get_mut(&word)) {
            Some(group) => group.channels.insert(channel),
            None => members.ungrouped.insert(channel),
        };
        self.bells.insert(channel, SharedBell { window, memory, group, caches, watch, counter });
        Ok(copy)
    }

    pub(crate) fn forget(&mut self, channel: ChannelId) {
        let Some(bell) = self.bells.remove(&channel) else { return };
        let Some(members) = self.windows.get_mut(&bell.window) else { return };
        members.ungrouped.remove(&channel);
        if let Some(word) = bell.group
            && let Some(group) = members.groups.get_mut(&word)
        {
            group.channels.remove(&channel);
            if group.channels.is_empty() {
                members.groups.remove(&word);
            }
        }
        if members.ungrouped.is_empty() && members.groups.is_empty() {
            self.windows.remove(&bell.window);
        }
    }

    /// Returns whether any end is woken by the shared vector of a window.
    pub(crate) fn has_any(&self, window: WindowId) -> bool {
        self.windows.contains_key(&window)
    }

    /// Wakes the ends in a window whose peers have rung. Acknowledge the shared vector first.
    pub(crate) fn forward(&mut self, window: WindowId) {
        let Some(members) = self.windows.get_mut(&window) else { return };
        let changed = members.groups.values_mut().filter_map(|Group { watch, channels }| {
            let rung = watch.has_rung();
            rung.then_some(&*channels)
        });
        for channel in changed.flatten().chain(&members.ungrouped) {
            if let Some(bell) = self.bells.get_mut(channel) {
                bell.signal_if_rung();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tombolo_link::{GroupCounter, RingCounter};
    use tombolo_platform::event::drain;

    use super::*;

    #[test]
    fn only_the_end_whose_peer_rang_is_woken() {
        let memories = [0, 1, 2].map(|_| SharedMemory::zeroed(WATCHED_BYTES));
        let mut bells = SharedBells::default();
        let counters = [0, 1, 2].map(|index: usize| {
            let window = WindowId(u16::from(index == 2));
            let part = (memories[index].clone(), None);
            let watched = WatchedChannel {
                channel: ChannelId(index as u64),
                window,
                accepting: index == 0,
                group: None,
            };
            bells.make(&watched, part, |_| panic!("it has no group")).unwrap()
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

    #[test]
    fn group_with_an_unchanged_word_is_not_examined() {
        let window = WindowId(0);
        let words = SharedMemory::zeroed(PAGE_BYTES);
        let memories = [(); 3].map(|()| SharedMemory::zeroed(WATCHED_BYTES));
        let mut bells = SharedBells::default();
        let mut pages = Vec::new();
        let counters = [0, 1, 2].map(|index: usize| {
            let group = Some(8192 + 8 * (index as u64 / 2));
            let watched = WatchedChannel { channel: ChannelId(index as u64), window, accepting: true, group };
            let page = |offset_bytes| {
                pages.push(offset_bytes);
                Ok(words.clone())
            };
            bells.make(&watched, (memories[index].clone(), None), page).unwrap()
        });
        assert_eq!(pages, [8192, 8192], "once for each group");
        let woken = || counters.each_ref().map(drain);
        for memory in &memories {
            RingCounter::new(memory, Side::A).unwrap().count();
        }
        bells.forward(window);
        assert_eq!(woken(), [false; 3], "the count of a channel alone is no ring");
        GroupCounter::new(&words, 0).unwrap().count();
        bells.forward(window);
        assert_eq!(woken(), [true, true, false]);
        GroupCounter::new(&words, 8).unwrap().count();
        bells.forward(window);
        assert_eq!(woken(), [false, false, true]);
        (0..3).for_each(|channel| bells.forget(ChannelId(channel)));
        assert!(!bells.has_any(window) && bells.windows.is_empty());
    }
}
