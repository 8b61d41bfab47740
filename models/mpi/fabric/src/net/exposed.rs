//! Registered memory that peers access directly: regions mapped over the program's own pages.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use tombolo::nodes::NodeKind;
use tombolo::region::{Capability, Extent, FarEnd, Region, RegionFile, Rights};
use tombolo::{Domain, DomainId};
use tombolo_platform::memory::is_mapped;

use super::staging::MemoryPlace;
use super::{Exposed, MAX_PIECES};

/// Time that peers have to release memory after its exposure ends.
const REVOKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Replaces whole pages of this process's memory by pages of a region and copies their contents. Returns
/// whether it did. The implementation must not lose what other threads write meanwhile.
pub type Replace = fn(address: usize, length_bytes: usize, region: &RegionFile) -> bool;

/// Program pages that were moved into a region. They stay there until the process ends: the original pages
/// are gone, and a region in a window must not be freed while the program uses it.
#[derive(Debug)]
struct Pages {
    range: Range<usize>,
    place: MemoryPlace,
    region: Region,
    file: RegionFile,
}

impl Pages {
    /// Returns whether the region is still mapped at `part`. The program may have unmapped it and mapped
    /// other pages at the same addresses.
    fn are_mapped(&self, part: &Range<usize>) -> bool {
        let within = (part.start - self.range.start) as u64;
        is_mapped(part.start, part.len(), &self.file, self.file.offset_bytes() + within)
    }
}

/// Memory exposed under a key: its pieces in address order.
#[derive(Debug)]
struct Exposure {
    pieces: Vec<Piece>,
    rights: Rights,
}

/// The part of a key's memory that lies in one region.
#[derive(Debug)]
struct Piece {
    /// Parent of the capabilities granted to peers: revoking it revokes all of them at once.
    source: Capability,
    region_bytes: u64,
    offset: u64,
    length: u64,
}

/// Returns whether two ranges overlap.
fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Returns the intersection of two overlapping ranges.
fn intersection(one: &Range<usize>, other: &Range<usize>) -> Range<usize> {
    one.start.max(other.start)..one.end.min(other.end)
}

/// Returns the parts of `whole` that `others` do not cover. `others` lie within it and do not overlap.
fn gaps(whole: &Range<usize>, mut others: Vec<Range<usize>>) -> Vec<Range<usize>> {
    others.sort_by_key(|other| other.start);
    let starts = std::iter::once(whole.start).chain(others.iter().map(|other| other.end));
    let ends = others.iter().map(|other| other.start).chain(std::iter::once(whole.end));
    starts.zip(ends).map(|(start, end)| start..end).filter(|gap| !gap.is_empty()).collect()
}

/// All memory of the endpoint that is exposed to peers.
#[derive(Debug)]
pub(super) struct Exposures {
    replace: Replace,
    pages: Vec<Pages>,
    /// Pages that the program has unmapped at least in part. Kept because parts may still be mapped.
    retired: Vec<Pages>,
    /// Exposures by key; `None` for memory that cannot be exposed.
    keys: HashMap<u64, Option<Exposure>>,
    /// Names of the virtual machines by node number, once queried.
    vm_names: Option<HashMap<u16, String>>,
}

impl Exposures {
    pub(super) fn new(replace: Replace) -> Exposures {
        Exposures { replace, pages: Vec::new(), retired: Vec::new(), keys: HashMap::new(), vm_names: None }
    }

    /// Grants a domain access to the memory of a key. `peers` are the other domains that may request it.
    pub(super) fn expose(
        &mut self,
        domain: &Domain,
        (key, reader): (u64, u64),
        memory: (usize, usize),
        writable: bool,
        peers: &[u64],
    ) -> Option<Vec<Exposed>> {
        if !self.keys.contains_key(&key) {
            let exposure = self.create(domain, memory, writable, peers);
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

    /// Revokes all access to the memory of a key, and waits until no peer has it mapped.
    pub(super) fn withdraw(&mut self, key: u64) {
        if let Some(Some(exposure)) = self.keys.remove(&key) {
            for piece in exposure.pieces {
                // A peer that does not release it in time is killed by its monitor; one that no monitor
                // started is trusted by the program.
                let _ = piece.source.revoke(REVOKE_TIMEOUT);
            }
        }
    }

    fn create(
        &mut self,
        domain: &Domain,
        (address, length): (usize, usize),
        writable: bool,
        peers: &[u64],
    ) -> Option<Exposure> {
        let page_bytes = rustix::param::page_size();
        let stop = address.checked_add(length)?;
        let wanted = address / page_bytes * page_bytes..stop.checked_next_multiple_of(page_bytes)?;
        let place = self.choose_place(domain, peers);
        self.move_to_regions(domain, &wanted, &place)?;
        let rights = if writable { Rights::READ_WRITE } else { Rights::READ };
        let mut pieces = Vec::new();
        for pages in self.pages.iter().filter(|pages| overlap(&pages.range, &wanted)) {
            let part = intersection(&pages.range, &wanted);
            let extent = Extent {
                offset_bytes: (part.start - pages.range.start) as u64,
                length_bytes: part.len() as u64,
            };
            let source = pages.region.derive(Some(extent), Rights::ALL).ok()?;
            let bytes = intersection(&part, &(address..stop));
            let offset = (bytes.start - part.start) as u64;
            let (region_bytes, length) = (extent.length_bytes, bytes.len() as u64);
            pieces.push((part.start, Piece { source, region_bytes, offset, length }));
        }
        pieces.sort_by_key(|(start, _)| *start);
        Some(Exposure { pieces: pieces.into_iter().map(|(_, piece)| piece).collect(), rights })
    }

    /// Moves the parts of a range that are not in a region yet into new regions, so that all of it lies in
    /// regions of `place`.
    fn move_to_regions(&mut self, domain: &Domain, wanted: &Range<usize>, place: &MemoryPlace) -> Option<()> {
        let mut index = 0;
        while let Some(pages) = self.pages.get(index) {
            if !overlap(&pages.range, wanted) {
                index += 1;
            } else if !pages.are_mapped(&intersection(&pages.range, wanted)) {
                let unmapped = self.pages.swap_remove(index);
                self.retired.push(unmapped);
            } else if pages.place == *place {
                index += 1;
            } else {
                // In a region of another place: memory cannot be in two regions.
                return None;
            }
        }
        let in_regions = self.pages.iter().map(|pages| &pages.range).filter(|at| overlap(at, wanted));
        let in_regions: Vec<Range<usize>> = in_regions.map(|at| intersection(at, wanted)).collect();
        let mut gaps = gaps(wanted, in_regions.clone());
        if in_regions.len() + gaps.len() > MAX_PIECES {
            return None;
        }
        // Longest first: it is the one most likely to find no room.
        gaps.sort_by_key(|gap| std::cmp::Reverse(gap.len()));
        for gap in gaps {
            let region = place.region(domain, gap.len() as u64).ok()?;
            let file = region.file(Rights::READ_WRITE).ok()?;
            if !(self.replace)(gap.start, gap.len(), &file) {
                return None;
            }
            self.pages.push(Pages { range: gap, place: place.clone(), region, file });
        }
        Some(())
    }

    /// Chooses the place from which all or most peers can access memory: the window of the virtual machine
    /// that this program or a peer runs on, otherwise memory of this kernel.
    fn choose_place(&mut self, domain: &Domain, peers: &[u64]) -> MemoryPlace {
        let vm_names = self.vm_names.get_or_insert_with(|| {
            let nodes = domain.nodes().unwrap_or_default();
            let vms = nodes.into_iter().filter(|node| node.kind == NodeKind::Vm);
            vms.map(|node| (node.id.0, node.name)).collect()
        });
        let nodes = std::iter::once(domain.id().to_bits()).chain(peers.iter().copied());
        let mut nodes = nodes.filter_map(DomainId::from_bits).map(|peer| peer.node().0);
        match nodes.find_map(|node| vm_names.get(&node)) {
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
    fn gaps_are_the_parts_in_no_region() {
        let gaps_between = |in_regions: &[(usize, usize)]| {
            let found = gaps(&(10..20), in_regions.iter().map(|(start, end)| *start..*end).collect());
            found.into_iter().map(|gap| (gap.start, gap.end)).collect::<Vec<_>>()
        };
        assert_eq!(gaps_between(&[]), [(10, 20)]);
        assert_eq!(gaps_between(&[(10, 20)]), []);
        assert_eq!(gaps_between(&[(15, 17), (10, 12)]), [(12, 15), (17, 20)]);
        assert_eq!(gaps_between(&[(12, 15), (15, 20)]), [(10, 12)]);
    }

    proptest! {
        #[test]
        fn gaps_and_covered_parts_are_the_whole(mut cuts in prop::collection::vec(100..200_usize, 0..12)) {
            cuts.sort_unstable();
            // Pairs of cuts delimit the taken ranges.
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
