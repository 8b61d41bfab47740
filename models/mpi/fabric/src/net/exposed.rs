//! Registered memory that peers reach by themselves: regions that lie where a program's own memory was.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use tombolo::{Capability, Domain, DomainId, Extent, FarEnd, Region, RegionFile, Rights};
use tombolo_platform::memory::is_mapped;

use super::Exposed;
use super::staging::Place;

/// How long peers may take to let go of memory that nobody is to reach any more.
const LET_GO_TIMEOUT: Duration = Duration::from_secs(10);

/// Replaces whole pages of this process's memory, at that address and of that length in bytes, by those of a region, with what
/// they hold. Whether that was done. Who makes one promises that nothing is lost of what threads write meanwhile.
pub type Replace = fn(address: usize, length_bytes: usize, region: &RegionFile) -> bool;

/// Pages that lie in a region. They stay there until the process ends: what they were is gone, and where a region lies in a window
/// nobody else may get it before.
#[derive(Debug)]
struct Pages {
    at: Range<usize>,
    place: Place,
    region: Region,
    file: RegionFile,
}

impl Pages {
    /// Whether they still are the program's memory there. It may have unmapped them, and have others at the same addresses.
    fn are_there(&self) -> bool {
        is_mapped(self.at.start, self.at.len(), &self.file, self.file.offset_bytes())
    }
}

/// Memory of a key.
#[derive(Debug)]
struct Exposure {
    /// What those who reach it have their rights from: to take back all of them at once.
    source: Capability,
    rights: Rights,
    region_bytes: u64,
    offset: u64,
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
    /// The virtual machines by the numbers of their nodes, once somebody has asked.
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
    ) -> Option<Exposed> {
        if !self.keys.contains_key(&key) {
            let exposure = self.make(domain, memory, writable, peers);
            self.keys.insert(key, exposure);
        }
        let exposure = self.keys.get(&key)?.as_ref()?;
        let reader = FarEnd::from(DomainId::from_bits(reader)?);
        let granted = exposure.source.copy_to(reader, exposure.rights).ok()?;
        let Exposure { region_bytes, offset, .. } = *exposure;
        Some(Exposed { capability: granted.object, region_bytes, offset })
    }

    /// Takes back what was given of a key, and waits until nobody has it.
    pub(super) fn withdraw(&mut self, key: u64) {
        if let Some(Some(exposure)) = self.keys.remove(&key) {
            // Who does not let go in time is killed by its monitor, or was not started by one and is what the program trusts.
            let _ = exposure.source.revoke(LET_GO_TIMEOUT);
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
        let end = address.checked_add(length)?.checked_next_multiple_of(page_bytes)?;
        let wanted = address / page_bytes * page_bytes..end;
        let place = self.place(domain, peers);
        let pages = self.pages_with(domain, wanted.clone(), &place)?;
        let extent = Extent {
            offset_bytes: (wanted.start - pages.at.start) as u64,
            length_bytes: wanted.len() as u64,
        };
        let rights = if writable { Rights::READ_WRITE } else { Rights::READ };
        let source = pages.region.derive(Some(extent), Rights::ALL).ok()?;
        let offset = (address - wanted.start) as u64;
        Some(Exposure { source, rights, region_bytes: extent.length_bytes, offset })
    }

    /// Pages in a region at that place that are all of the program's memory in a range.
    fn pages_with(&mut self, domain: &Domain, wanted: Range<usize>, place: &Place) -> Option<&Pages> {
        let mut index = 0;
        while index < self.pages.len() {
            let pages = &self.pages[index];
            let apart = pages.at.end <= wanted.start || wanted.end <= pages.at.start;
            if apart {
                index += 1;
            } else if !pages.are_there() {
                let left = self.pages.swap_remove(index);
                self.left.push(left);
            } else if pages.place == *place && pages.at.start <= wanted.start && wanted.end <= pages.at.end {
                return self.pages.get(index);
            } else {
                // In part, or elsewhere: memory cannot be in two regions.
                return None;
            }
        }
        let region = place.region(domain, wanted.len() as u64).ok()?;
        let file = region.file(Rights::READ_WRITE).ok()?;
        if !(self.replace)(wanted.start, wanted.len(), &file) {
            return None;
        }
        self.pages.push(Pages { at: wanted, place: place.clone(), region, file });
        self.pages.last()
    }

    /// Where memory has to lie for all peers to reach it, or most: in the window of the virtual machine that this program or one
    /// of them runs on, else in memory of this kernel.
    fn place(&mut self, domain: &Domain, peers: &[u64]) -> Place {
        let machines = self.machines.get_or_insert_with(|| {
            let nodes = domain.nodes().unwrap_or_default();
            let machines = nodes.into_iter().filter(|node| node.kind == "vm");
            machines.map(|node| (node.id.0, node.name)).collect()
        });
        let nodes = std::iter::once(domain.id().to_bits()).chain(peers.iter().copied());
        let mut nodes = nodes.filter_map(DomainId::from_bits).map(|peer| peer.node().0);
        match nodes.find_map(|node| machines.get(&node)) {
            Some(name) => Place::Window(name.clone()),
            None => Place::Kernel,
        }
    }
}
