//! Groups of channels that share a word counting their rings, so that a monitor whose shared doorbell rang
//! need not check every channel.
//!
//! There is a page of words for each direction between two members of a window, lent with the first group and
//! freed with the last. The writer and the reader of a word get its location with the ends of a channel.

use std::collections::BTreeMap;

use tombolo_link::layout::PAGE_BYTES;
use tombolo_link::shared_doorbell::GROUP_CHANNELS;
use tombolo_link::window::{WindowAllocator, WindowRange};

/// Size of a word, in bytes.
const WORD_BYTES: u64 = 8;

/// A direction: peer numbers of the ringing and the rung member.
type Direction = (u16, u16);

/// Groups of a window.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pages: BTreeMap<Direction, Page>,
}

/// Words of a direction.
#[derive(Debug)]
struct Page {
    range: WindowRange,
    /// Number of channels of each word.
    members: Vec<usize>,
}

impl Page {
    fn new(range: WindowRange) -> Page {
        Page { range, members: vec![0; PAGE_BYTES / WORD_BYTES as usize] }
    }
}

/// A word lent to a channel, and the page to be cleared first.
pub(super) struct GroupWord {
    pub(super) offset_bytes: u64,
    pub(super) new_page: Option<WindowRange>,
}

impl Groups {
    /// Returns the word for one more channel in a direction. `None` if the window has no room for it: the
    /// channel is then checked on every ring.
    pub(super) fn allocate(
        &mut self,
        direction: Direction,
        allocator: &mut WindowAllocator,
    ) -> Option<GroupWord> {
        let mut new_page = None;
        let page = match self.pages.entry(direction) {
            std::collections::btree_map::Entry::Occupied(page) => page.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => {
                let range = allocator.allocate(PAGE_BYTES as u64).ok()?;
                new_page = Some(range);
                place.insert(Page::new(range))
            }
        };
        let word = page.members.iter().position(|members| *members < GROUP_CHANNELS)?;
        page.members[word] += 1;
        Some(GroupWord { offset_bytes: page.range.offset_bytes + word as u64 * WORD_BYTES, new_page })
    }

    /// Frees a word returned by [`allocate`](Self::allocate). No side of the channel can access it any more.
    pub(super) fn free(&mut self, direction: Direction, offset_bytes: u64, allocator: &mut WindowAllocator) {
        let Some(page) = self.pages.get_mut(&direction) else { return };
        let word = (offset_bytes.saturating_sub(page.range.offset_bytes) / WORD_BYTES) as usize;
        if let Some(members) = page.members.get_mut(word) {
            *members = members.saturating_sub(1);
        }
        if page.members.iter().all(|members| *members == 0) {
            allocator.free(page.range);
            self.pages.remove(&direction);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_word_fills_and_page_is_freed_with_last_channel() {
        let mut allocator = WindowAllocator::new(0, 3 * PAGE_BYTES as u64);
        let mut groups = Groups::default();
        let mut allocate =
            |direction| groups.allocate(direction, &mut allocator).map(|word| word.offset_bytes);
        let words: Vec<u64> = (0..=GROUP_CHANNELS).filter_map(|_| allocate((0, 1))).collect();
        assert_eq!(words[..GROUP_CHANNELS], [0; GROUP_CHANNELS]);
        assert_eq!(words[GROUP_CHANNELS], 8);
        assert_eq!(allocate((1, 0)), Some(PAGE_BYTES as u64), "each direction has its own lines");
        assert_eq!(allocate((2, 0)), Some(2 * PAGE_BYTES as u64));
        assert_eq!(allocate((2, 1)), None, "the window is full");
        groups.free((0, 1), 0, &mut allocator);
        let word = groups.allocate((0, 1), &mut allocator).unwrap();
        assert_eq!((word.offset_bytes, word.new_page), (0, None));
        for offset_bytes in words {
            groups.free((0, 1), offset_bytes, &mut allocator);
        }
        assert_eq!(allocator.allocated_bytes(), 2 * PAGE_BYTES as u64);
        assert!(groups.allocate((2, 1), &mut allocator).unwrap().new_page.is_some());
    }
}
