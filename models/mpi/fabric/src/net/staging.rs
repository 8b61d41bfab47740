//! Staging memory of this endpoint that peers read: one region per place.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tombolo::region::{FarEnd, MapOptions, Mapping, Region, RegionOptions, Rights};
use tombolo::{Channel, Domain, DomainId, Error, TransportKind};

use super::Stages;

/// Number of chunks in a region.
pub(super) const CHUNKS: u16 = 16;

/// Bytes of a chunk.
pub(super) const CHUNK_BYTES: u32 = 64 * 1024;

/// Kind of memory that a group of peers can map.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum MemoryPlace {
    /// Ordinary memory of this node's kernel.
    Kernel,
    /// Window between this node and the named one.
    Window(String),
}

impl MemoryPlace {
    /// Returns the place that the peer of a channel can map, or `None` if the transport does not share
    /// memory.
    pub(super) fn of(channel: &Channel) -> Option<MemoryPlace> {
        match channel.transport() {
            _ if !shares_memory(channel) => None,
            TransportKind::Window => Some(MemoryPlace::Window(channel.peer_node().to_owned())),
            _ => Some(MemoryPlace::Kernel),
        }
    }

    /// Creates a region in this place.
    pub(super) fn region(&self, domain: &Domain, length_bytes: u64) -> Result<Region, Error> {
        let options = RegionOptions::new(length_bytes);
        match self {
            MemoryPlace::Kernel => domain.create_region(&options),
            // The host has no window of its own: use that of this node.
            MemoryPlace::Window(peer) => domain
                .create_region(&options.clone().in_window_of(peer))
                .or_else(|_| domain.create_region(&options.in_window_of(domain.node_name()))),
        }
    }
}

/// Returns whether the transport of a channel can share memory.
fn shares_memory(channel: &Channel) -> bool {
    matches!(channel.transport(), TransportKind::Shm | TransportKind::Window)
}

/// Staging regions created so far, by place.
#[derive(Default, Debug)]
pub(super) struct Regions {
    created: Mutex<HashMap<MemoryPlace, (Region, Arc<Mapping>)>>,
}

impl Regions {
    /// Grants a domain read access to the region of a place, creating the region on first use. Returns the
    /// local mapping and the capability for the reader.
    pub(super) fn grant_read(
        &self,
        domain: &Domain,
        place: &MemoryPlace,
        reader: DomainId,
    ) -> Result<(Arc<Mapping>, u64), Error> {
        let mut created = self.created.lock().unwrap_or_else(PoisonError::into_inner);
        if !created.contains_key(place) {
            let region = place.region(domain, u64::from(CHUNKS) * u64::from(CHUNK_BYTES))?;
            let options = MapOptions { populate: true, ..MapOptions::default() };
            let mapping = region.map_with(Rights::READ_WRITE, options)?;
            created.insert(place.clone(), (region, Arc::new(mapping)));
        }
        let Some((region, mapping)) = created.get(place) else { return Err(Error::WouldBlock) };
        let handle = region.copy_to(FarEnd::from(reader), Rights::READ)?;
        Ok((Arc::clone(mapping), handle.object))
    }
}

/// Maps memory that another domain granted access to.
pub(super) fn map(
    domain: &Domain,
    from: DomainId,
    capability: u64,
    length_bytes: u64,
    rights: Rights,
) -> Result<Mapping, Error> {
    let handle = tombolo::interface::Capability::<false> { object: capability };
    let capability = domain.accept(FarEnd::from(from), handle)?;
    if capability.extent().length_bytes < length_bytes {
        return Err(Error::WouldBlock);
    }
    capability.map_with(rights, MapOptions { populate: true, ..MapOptions::default() })
}

/// Mappings of the staging regions, for writing.
#[derive(Default, Debug)]
pub struct RegionStages {
    mappings: Vec<Option<Arc<Mapping>>>,
}

impl RegionStages {
    pub(super) fn set(&mut self, place: usize, mapping: Arc<Mapping>) {
        if place >= self.mappings.len() {
            self.mappings.resize(place + 1, None);
        }
        self.mappings[place] = Some(mapping);
    }
}

impl Stages for RegionStages {
    #[inline]
    fn write(&mut self, place: usize, offset_bytes: usize, source: &[u8]) {
        if let Some(Some(mapping)) = self.mappings.get(place) {
            // Fails only if the region was revoked; then the peer's read fails as well.
            let _ = mapping.write(offset_bytes, source);
        }
    }
}
