//! Registered memory that peers reach by themselves: regions that lie where a program's own memory was.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use tombolo::nodes::NodeKind;
use tombolo::region::{Capability, Extent, FarEnd, Region, RegionFile, Rights};
use tombolo::{Domain, DomainId};
use tombolo_platform::memory::is_mapped;

use super::staging::MemoryPlace;
use super::{Exposed, MAX_PIECES};

/// How long peers may take to release memory that is not exposed any more.
const LET_GO_TIMEOUT: Duration = Duration::from_secs(10);

/// Replaces whole pages of this process's memory, at that address and of that length in bytes, by those of a
/// region, with what they hold. Whether that was done. The implementation must not lose what threads write
/// meanwhile.
pub type Replace = fn(address: usize, length_bytes: usize, region: &RegionFile) -> bool;

/// Pages that lie in a region. They stay there until the process ends: what they were is gone, and where a
/// region lies in a window it may not be given to others before.
#[derive(Debug)]
struct Pages {
    at: Range<usize>,
    place: MemoryPlace,
    region: Region,
    file: RegionFile,
}

impl Pages {
    /// Whether some of them still are the program's memory there. It may have unmapped them, and have others
    /// at the same addresses.
    fn are_there(&self, part: &Range<usize>) -> bool {
        let within = (part.start - self.at.start) as u64;
        is_mapped(part.start, part.len(), &self.file, self.file.offset_bytes() + within)
    }
}

/// Memory of a key: pieces in order.
#[derive(Debug)]
struct Exposure {
    pieces: Vec<Piece>,
    rights: Rights,
}

/// What of the memory of a key is in one region.
#[derive(Debug)]
struct Piece {
    /// The capability that peers' rights are derived from: revoking it revokes all of them at once.
    source: Capability,
    region_bytes: u64,
    offset: u64,
    length: u64,
}

/// Whether two ranges have something in common.
fn meet(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

/// What two ranges that meet have in common.
fn common(one: &Range<usize>, other: &Range<usize>) -> Range<usize> {
    one.start.max(other.start)..one.end.min(other.end)
}

/// What of a range is in none of others, which lie in it and do not meet.
fn gaps(whole: &Range<usize>, mut others: Vec<Range<usize>>) -> Vec<Range<usize>> {
    others.sort_by_key(|other| other.start);
    let starts = std::iter::once(whole.start).chain(others.iter().map(|other| other.end));
    let ends = others.iter().map(|other| other.start).chain(std::iter::once(whole.end));
    starts.zip(ends).map(|(start, end)| start..end).filter(|gap| !gap.is_empty()).collect()
}

/// All that is exposed.
#[derive(Debug)]
pub(super) struct Exposures {
    replace: Replace,
    pages: Vec<Pages>,
    /// Those that are not there any more, but perhaps in part.
    left: Vec<Pages>,
    /// By key; none where it cannot be.
    keys: HashMap<u64, Option<Exposure>>,
    /// The virtual machines by the numbers of their nodes, once they were asked for.
    machines: Option<HashMap<u16, String>>,
}

impl Exposures {
    pub(super) fn new(replace: Replace) -> Exposures {
        Exposures { replace, pages: Vec::new(), left: Vec::new(), keys: HashMap::new(), machines: None }
    }

    /// Lets a domain reach memory of a key. `peers` are those that may ask as well.
    pub(super) fn expose(
        &mut self,
        domain: &Domain,
        (key, reader): (u64, u64),
        memory: (usize, usize),
        writable: bool,
        peers: &[u64],
    ) -> Option<Vec<Exposed>> {
        if !self.keys.contains_key(&key) {
            let exposure = self.make(domain, memory, writable, peers);
            self.keys.insert(key, exposure);
        }
        let exposure = self.keys.get(&key)?.as_ref()?;
        let reader = FarEnd::from(DomainId::from_bits(reader)?);
        let granted = |piece: &Piece| {
            let granted = piece.source.copy_to(reader, exposure.rights).ok()?;
            let Piece { region_bytes, offset, length, .. } = *piece;
            Some(Exposed { capability: granted.object, region_bytes, offset, length })
        };
        exposure.pieces.iter().map(granted).collect()
    }

    /// Revokes the rights to the memory of a key, and waits until no peer has it mapped.
    pub(super) fn withdraw(&mut self, key: u64) {
        if let Some(Some(exposure)) = self.keys.remove(&key) {
            for piece in exposure.pieces {
                // A peer that does not release it in time is killed by its monitor; one that no monitor
                // started is trusted by the program.
                let _ = piece.source.revoke(LET_GO_TIMEOUT);
            }
        }
    }

    fn make(
        &mut self,
        domain: &Domain,
        (address, length): (usize, usize),
        writable: bool,
        peers: &[u64],
    ) -> Option<Exposure> {
        let page_bytes = rustix::param::page_size();
        let stop = address.checked_add(length)?;
        let wanted = address / page_bytes * page_bytes..stop.checked_next_multiple_of(page_bytes)?;
        let place = self.place(domain, peers);
        self.put_in_regions(domain, &wanted, &place)?;
        let rights = if writable { Rights::READ_WRITE } else { Rights::READ };
        let mut pieces = Vec::new();
        for pages in self.pages.iter().filter(|pages| meet(&pages.at, &wanted)) {
            let part = common(&pages.at, &wanted);
            let extent = Extent {
                offset_bytes: (part.start - pages.at.start) as u64,
                length_bytes: part.len() as u64,
            };
            let source = pages.region.derive(Some(extent), Rights::ALL).ok()?;
            let bytes = common(&part, &(address..stop));
            let offset = (bytes.start - part.start) as u64;
            let (region_bytes, length) = (extent.length_bytes, bytes.len() as u64);
            pieces.push((part.start, Piece { source, region_bytes, offset, length }));
        }
        pieces.sort_by_key(|(start, _)| *start);
        Some(Exposure { pieces: pieces.into_iter().map(|(_, piece)| piece).collect(), rights })
    }

    /// Puts what of the program's memory in a range is in no region into one, so that all of it is in regions
    /// at that place.
    fn put_in_regions(&mut self, domain: &Domain, wanted: &Range<usize>, place: &MemoryPlace) -> Option<()> {
        let mut index = 0;
        while let Some(pages) = self.pages.get(index) {
            if !meet(&pages.at, wanted) {
                index += 1;
            } else if !pages.are_there(&common(&pages.at, wanted)) {
                let left = self.pages.swap_remove(index);
                self.left.push(left);
            } else if pages.place == *place {
                index += 1;
            } else {
                // Elsewhere: memory cannot be in two regions.
                return None;
            }
        }
        let there = self.pages.iter().map(|pages| &pages.at).filter(|at| meet(at, wanted));
        let there: Vec<Range<usize>> = there.map(|at| common(at, wanted)).collect();
        let mut gaps = gaps(wanted, there.clone());
        if there.len() + gaps.len() > MAX_PIECES {
            return None;
        }
        // The longest is the one that there may be no room for.
        gaps.sort_by_key(|gap| std::cmp::Reverse(gap.len()));
        for gap in gaps {
            let region = place.region(domain, gap.len() as u64).ok()?;
            let file = region.file(Rights::READ_WRITE).ok()?;
            if !(self.replace)(gap.start, gap.len(), &file) {
                return None;
            }
            self.pages.push(Pages { at: gap, place: place.clone(), region, file });
        }
        Some(())
    }

    /// Where memory has to lie for all peers to reach it, or most: in the window of the virtual machine that
    /// this program or one of them runs on, else in memory of this kernel.
    fn place(&mut self, domain: &Domain, peers: &[u64]) -> MemoryPlace {
        let machines = self.machines.get_or_insert_with(|| {
            let nodes = domain.nodes().unwrap_or_default();
            let machines = nodes.into_iter().filter(|node| node.kind == NodeKind::Vm);
            machines.map(|node| (node.id.0, node.name)).collect()
        });
        let nodes = std::iter::once(domain.id().to_bits()).chain(peers.iter().copied());
        let mut nodes = nodes.filter_map(DomainId::from_bits).map(|peer| peer.node().0);
        match nodes.find_map(|node| machines.get(&node)) {
            Some(name) => MemoryPlace::Window(name.clone()),
            None => MemoryPlace::Kernel,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_in_no_region_is_between_those_that_are() {
        let of = |there: &[(usize, usize)]| {
            let found = gaps(&(10..20), there.iter().map(|(start, end)| *start..*end).collect());
            found.into_iter().map(|gap| (gap.start, gap.end)).collect::<Vec<_>>()
        };
        assert_eq!(of(&[]), [(10, 20)]);
        assert_eq!(of(&[(10, 20)]), []);
        assert_eq!(of(&[(15, 17), (10, 12)]), [(12, 15), (17, 20)]);
        assert_eq!(of(&[(12, 15), (15, 20)]), [(10, 12)]);
    }

    proptest! {
        #[test]
        fn gaps_and_what_is_between_them_are_the_whole(mut cuts in prop::collection::vec(100..200_usize, 0..12)) {
            cuts.sort_unstable();
            // Every second range between two cuts is taken.
            let taken: Vec<Range<usize>> = cuts.chunks_exact(2).map(|pair| pair[0]..pair[1]).filter(|range| !range.is_empty()).collect();
            let gaps = gaps(&(100..200), taken.iter().rev().cloned().collect());
            for byte in 100..200 {
                let times = taken.iter().chain(&gaps).filter(|range| range.contains(&byte)).count();
                prop_assert_eq!(times, 1, "{}", byte);
            }
            prop_assert!(gaps.iter().all(|gap| !gap.is_empty()));
        }
    }
}
