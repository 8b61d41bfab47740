//! Record of the places of pages that faulted: a sample of the program's accesses. Only the first access
//! after a page arrives faults, so places that are always accessed second are not seen.

use std::collections::BTreeMap;

/// Maximum number of pages with recorded places; further pages are ignored.
const MAX_PAGES: usize = 4096;
/// Maximum number of places per page; further places are ignored.
const MAX_PLACES: usize = 16;
/// Granularity of places in bytes: the size of the largest usual access.
const PLACE_BYTES: usize = 8;

/// A place in a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Offset from the start of the page, a multiple of 8 bytes.
    pub offset_bytes: u32,
    /// Number of read faults.
    pub reads: u32,
    /// Number of write faults.
    pub writes: u32,
}

/// Places that faulted, by page.
#[derive(Debug, Default)]
pub(crate) struct FaultSamples {
    pages: BTreeMap<u32, Vec<Place>>,
}

impl FaultSamples {
    /// Records a fault.
    pub(crate) fn record(&mut self, page: u32, offset_bytes: usize, writes: bool) {
        if self.pages.len() >= MAX_PAGES && !self.pages.contains_key(&page) {
            return;
        }
        let places = self.pages.entry(page).or_default();
        let offset_bytes = (offset_bytes / PLACE_BYTES * PLACE_BYTES) as u32;
        let place = match places.iter_mut().position(|place| place.offset_bytes == offset_bytes) {
            Some(index) => &mut places[index],
            None if places.len() < MAX_PLACES => {
                places.push(Place { offset_bytes, reads: 0, writes: 0 });
                let last = places.len() - 1;
                &mut places[last]
            }
            None => return,
        };
        let counter = if writes { &mut place.writes } else { &mut place.reads };
        *counter = counter.saturating_add(1);
    }

    /// Returns the places of a page that faulted, most frequent first.
    pub(crate) fn of(&self, page: u32) -> Vec<Place> {
        let mut places = self.pages.get(&page).cloned().unwrap_or_default();
        places.sort_by_key(|place| std::cmp::Reverse(place.reads.saturating_add(place.writes)));
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_samples_are_words_and_bounded() {
        let mut fault_samples = FaultSamples::default();
        for offset_bytes in 0..8 * (MAX_PLACES + 3) {
            fault_samples.record(7, offset_bytes, offset_bytes % 8 == 0);
        }
        fault_samples.record(7, 17, false);
        let places = fault_samples.of(7);
        assert_eq!(places.len(), MAX_PLACES);
        assert_eq!(places[0], Place { offset_bytes: 16, reads: 8, writes: 1 });
        assert_eq!(fault_samples.of(8), []);
        for page in 0..2 * MAX_PAGES as u32 {
            fault_samples.record(page, 0, true);
        }
        assert_eq!(fault_samples.pages.len(), MAX_PAGES);
    }
}
