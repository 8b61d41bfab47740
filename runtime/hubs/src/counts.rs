//! Counts of semaphores and events, in memory that a server shares with tasks on its kernel.

use std::collections::HashMap;

use tombolo::region::{CapabilityId, Region, RegionOptions, Rights, SharedMemory};
use tombolo::{Domain, DomainId, Error};
use tombolo_hub::{COUNT_BYTES, Client, CountWord, Hubs};

/// Size of a count's slot, in words.
const COUNT_WORDS: usize = COUNT_BYTES / 8;

/// Server side: the counts of its hubs.
#[derive(Debug)]
pub(crate) struct Counts {
    region: Region,
    memory: SharedMemory,
    /// Capability of each client that has opened a hub with a count.
    granted: HashMap<Client, u64>,
}

impl Counts {
    /// Allocates a slot for each hub.
    pub(crate) fn new(domain: &Domain, hubs: &mut Hubs) -> Result<Option<Counts>, Error> {
        let length_bytes = (hubs.len() * COUNT_BYTES) as u64;
        let region = domain.create_region(&RegionOptions::new(length_bytes).coherent())?;
        let Some(memory) = region.map(Rights::READ_WRITE)?.memory() else { return Ok(None) };
        hubs.share_counts();
        Ok(Some(Counts { region, memory, granted: HashMap::new() }))
    }

    /// Takes the count of a hub back from the tasks, to handle a request.
    pub(crate) fn reclaim(&self, hubs: &mut Hubs, hub: u32) {
        if let Some(capacity) = hubs.lent_capacity(hub)
            && let Some(count) = word(&self.memory, hub)
        {
            hubs.reclaim_count(hub, count.reclaim(capacity));
        }
    }

    /// Lends the counts of hubs on which no request waits.
    pub(crate) fn lend(&self, hubs: &mut Hubs) {
        while let Some((hub, count)) = hubs.lend_next_count() {
            if let Some(word) = word(&self.memory, hub) {
                word.lend(count);
            }
        }
    }

    /// Returns the number of a client's capability to the counts; 0 if the grant fails, and the client sends
    /// requests instead.
    pub(crate) fn grant(&mut self, client: Client, domain: DomainId) -> u64 {
        let region = &self.region;
        let granted = || region.grant(domain, Rights::READ_WRITE).map_or(0, |granted| granted.id.0);
        *self.granted.entry(client).or_insert_with(granted)
    }

    pub(crate) fn remove_client(&mut self, client: Client) {
        self.granted.remove(&client);
    }
}

/// Task side: the counts of a server. They outlive the server, so users have to check whether it is alive.
#[derive(Clone, Debug)]
pub(crate) struct LentCounts(SharedMemory);

impl LentCounts {
    /// Maps the counts; `None` on another kernel, and if the memory is not coherent.
    pub(crate) fn map(domain: &Domain, capability: u64) -> Option<LentCounts> {
        let mapping = domain.capability(CapabilityId(capability)).ok()?.map(Rights::READ_WRITE).ok()?;
        let is_coherent = mapping.flushed_memory().ok()?.is_none();
        if is_coherent { mapping.memory().map(LentCounts) } else { None }
    }

    /// Returns the count of a hub.
    pub(crate) fn of(&self, hub: u32) -> Option<CountWord<'_>> {
        word(&self.0, hub)
    }
}

fn word(memory: &SharedMemory, hub: u32) -> Option<CountWord<'_>> {
    memory.words().get(hub as usize * COUNT_WORDS).map(CountWord::new)
}
