//! Memory operations of simulated programs: they create regions, derive capabilities, pass them on in
//! messages, map, unmap on revocation (soon, late or never), revoke, and send requests that must be refused.

use tombolo_base::sync::Ordering;
use tombolo_base::{ChannelId, DomainId};
use tombolo_capability::{Backing, Extent, Kind, PAGE_BYTES};
use tombolo_control::monitor::GivenCapability;
use tombolo_control::{
    CapabilityFault, CapabilityId, CapabilityInfo, Fault, MemoryOptions, RegionId, RegionMap, RegionPlace,
    Reply, Request, Rights, Seal,
};

use crate::descriptor::{Fd, SocketEnd};
use crate::maps::Mapped;
use crate::process::{Action, PendingRequest, Process};
use crate::shared::Shared;
use crate::window::WindowPlace;

/// Longest delay of a late program before it unmaps, in thousandths of the revocation timeout.
const LATE_PERMILLE: u64 = 3500;

/// Maximum number of capabilities given to a program at its start.
const GIFTS: u64 = 4;

fn gift_name(number: u64) -> String {
    format!("gift{number}")
}

/// Capabilities and mappings of one program.
#[derive(Default)]
pub struct Holdings {
    /// Capabilities that the program believes it holds.
    known: Vec<CapabilityInfo>,
    mapped: Vec<Mapping>,
    /// Highest capability number seen so far.
    newest: u64,
    unmap_delay: UnmapDelay,
}

/// Delay with which a program unmaps after a revocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum UnmapDelay {
    #[default]
    Soon,
    Late,
    Never,
}

struct Mapping {
    number: u64,
    region: RegionId,
    writable: bool,
    /// For memory in a window: the place, and the offset and length in bytes.
    bytes: Option<(WindowPlace, usize, usize)>,
    lifeline: SocketEnd,
    unmap_at: Option<u64>,
}

impl Holdings {
    /// Creates empty holdings and draws how soon the program unmaps.
    pub fn new(shared: &mut Shared) -> Self {
        let unmap_delays = shared.plan.unmap_delays;
        let unmap_delay = match shared.random.below(1000) {
            drawn if drawn < unmap_delays.never => UnmapDelay::Never,
            drawn if drawn < unmap_delays.never + unmap_delays.late => UnmapDelay::Late,
            _ => UnmapDelay::Soon,
        };
        Holdings { unmap_delay, ..Holdings::default() }
    }

    fn add_known(&mut self, info: CapabilityInfo) {
        self.newest = self.newest.max(info.id.0);
        self.known.retain(|known| known.id != info.id);
        self.known.push(info);
    }

    fn forget(&mut self, capability: CapabilityId) {
        self.known.retain(|known| known.id != capability);
    }

    /// Removes all mappings, as the kernel does at the end of a process.
    pub fn end(self, shared: &mut Shared) {
        for mapping in self.mapped {
            shared.audit.rights.maps.unmap(mapping.number);
        }
    }
}

impl Process {
    /// Handles a monitor's reply to a memory request.
    pub(crate) fn handle_memory_reply(
        &mut self,
        shared: &mut Shared,
        reply: &Reply,
        pending: Option<&PendingRequest>,
        fds: Vec<Fd>,
    ) {
        if matches!(reply, Reply::Failed { fault: Fault::Capability { .. } }) && shared.random.chance(200) {
            // A refused request must not change anything: the audit compares the listing.
            self.request(Request::Capabilities { after: 0 });
        }
        match (reply, pending) {
            (Reply::CapabilityTakeBack { capability }, _) => self.holdings.add_known(capability.clone()),
            (
                Reply::RegionCreate { capability }
                | Reply::CapabilityAccept { capability, .. }
                | Reply::Given { capability, .. },
                _,
            ) => {
                self.holdings.add_known(capability.clone());
                // Programs map most of the capabilities that they receive.
                if shared.random.chance(600) {
                    self.map_capability(shared, capability);
                }
            }
            (Reply::CapabilityShow { capability, .. }, _) => self.holdings.add_known(capability.clone()),
            (
                Reply::Failed {
                    fault:
                        Fault::Capability {
                            fault:
                                CapabilityFault::Gone { capability }
                                | CapabilityFault::NotYours { capability }
                                | CapabilityFault::Revoked { capability },
                        },
                },
                _,
            ) => self.holdings.forget(*capability),
            (Reply::CapabilityDerive { capability }, Some(PendingRequest::Grant { channel })) => {
                self.holdings.newest = self.holdings.newest.max(capability.id.0);
                self.send_capability(shared, *channel, capability.id);
            }
            (Reply::CapabilityDerive { capability }, _) => self.holdings.add_known(capability.clone()),
            (Reply::CapabilitySplit { capabilities }, _) => {
                capabilities.iter().cloned().for_each(|capability| self.holdings.add_known(capability));
            }
            (Reply::Done, Some(PendingRequest::Give { capability, channel })) => {
                self.holdings.forget(*capability);
                self.send_capability(shared, *channel, *capability);
            }
            (Reply::Done, Some(PendingRequest::Delete(capability))) => self.holdings.forget(*capability),
            (Reply::Capabilities { capabilities, .. }, _) => {
                self.holdings.known = capabilities.iter().filter(|info| !info.revoked).cloned().collect();
            }
            (Reply::RegionMap { map }, _) => self.map(shared, map, fds),
            _ => {}
        }
    }

    /// Sends the number of a capability to its new holder, if the channel is open.
    fn send_capability(&mut self, shared: &mut Shared, channel: ChannelId, capability: CapabilityId) {
        if let Some(conversation) = self.conversations.iter_mut().find(|open| open.id() == channel) {
            conversation.send_capability(shared, capability);
        }
    }

    /// Kills the program with the probability of the plan.
    fn maybe_kill(&mut self, shared: &mut Shared) {
        self.dies |= !shared.healed && shared.random.chance(shared.plan.faults.kill_process);
    }

    fn map(&mut self, shared: &mut Shared, map: &RegionMap, fds: Vec<Fd>) {
        let mut fds = fds.into_iter();
        let (memory, lifeline) = (fds.next(), fds.next());
        // The process may die while it holds both descriptors.
        self.maybe_kill(shared);
        // The monitor could not create the descriptors.
        let (Some(memory), Some(Fd::SocketEnd(lifeline))) = (memory, lifeline) else { return };
        let (bytes, writable) = match (map.backing, memory) {
            (Backing::Memory | Backing::File, Fd::Region { region, writable }) if region == map.region => {
                (None, writable)
            }
            (Backing::Window, Fd::Window(place)) => (Some(place), true),
            (Backing::Window, Fd::WindowToRead(place)) => (Some(place), false),
            (_, other) => return shared.audit.fail(format!("{map:?} came with {other:?}")),
        };
        let (Some(holder), false) = (self.domain, self.has_lost_monitor()) else { return };
        let mapped = Mapped {
            pid: self.pid,
            holder,
            region: map.region,
            extent: map.extent,
            writable,
            in_window: bytes.map(|_| map.file_offset_bytes),
        };
        let number = lifeline.number();
        shared.audit.rights.map(number, mapped);
        let (first, length) = (map.file_offset_bytes as usize, map.extent.length_bytes as usize);
        let bytes = bytes.map(|place| (place, first, length));
        let lifeline = lifeline.owned_by(self.actor());
        let (region, unmap_at) = (map.region, None);
        self.holdings.mapped.push(Mapping { number, region, writable, bytes, lifeline, unmap_at });
        self.access_memory(shared);
    }

    /// Reads and writes the mapped window memory. Checks that only holders of the region have written to it.
    fn access_memory(&mut self, shared: &mut Shared) {
        for mapping in &self.holdings.mapped {
            let Some((place, first, length)) = mapping.bytes else { continue };
            let memory = shared.windows.memory(place).and_then(|memory| memory.slice(first, length).ok());
            let Some(memory) = memory else {
                shared.audit.fail(format!("bytes {first}+{length} do not lie in a window"));
                return;
            };
            let words = memory.words();
            let word = &words[shared.random.below(words.len() as u64) as usize];
            let (found, own) = (word.load(Ordering::Relaxed), mapping.region.to_bits());
            if found != 0 && found != own {
                let region = mapping.region;
                shared
                    .audit
                    .fail(format!("region {region} shows {found:#x}, which none of its holders wrote"));
            }
            if mapping.writable {
                word.store(own, Ordering::Relaxed);
            }
        }
    }

    /// Schedules the mappings whose lifeline hung up, and unmaps those that are due.
    pub(crate) fn release_mappings(&mut self, shared: &mut Shared) {
        let unmap_delay = self.holdings.unmap_delay;
        let mut told = false;
        let (now, revoke_ns) = (shared.now, u64::from(shared.plan.revoke_ms) * 1_000_000);
        for mapping in &mut self.holdings.mapped {
            if mapping.lifeline.is_gone() && mapping.unmap_at.is_none() && unmap_delay != UnmapDelay::Never {
                told = true;
                let most_ns = match unmap_delay {
                    UnmapDelay::Late => revoke_ns * LATE_PERMILLE / 1000,
                    _ => 10_000,
                };
                mapping.unmap_at = Some(now + shared.random.magnitude(1, most_ns));
            }
        }
        let due = |mapping: &mut Mapping| mapping.unmap_at.is_some_and(|at| at <= now);
        for mapping in self.holdings.mapped.extract_if(.., due) {
            shared.audit.rights.maps.unmap(mapping.number);
        }
        if told {
            self.maybe_kill(shared);
        }
        let next = self.holdings.mapped.iter().filter_map(|mapping| mapping.unmap_at).min();
        if let Some(at) = next {
            shared.schedule_turn(self.actor(), at - now);
        }
    }

    /// Accepts the capabilities that arrived in messages.
    pub(crate) fn accept_capabilities(&mut self, shared: &mut Shared) {
        let mut received_capabilities: Vec<(CapabilityId, DomainId)> = Vec::new();
        for conversation in &mut self.conversations {
            let peer = conversation.peer;
            received_capabilities
                .extend(conversation.received_capabilities.drain(..).map(|capability| (capability, peer)));
        }
        for (capability, granter) in received_capabilities {
            self.maybe_kill(shared);
            // Some programs ignore what they receive.
            if !shared.random.chance(900) {
                continue;
            }
            let whole = shared.random.chance(200);
            // Some name the wrong granter.
            let granter = match shared.random.chance(100) {
                true => self.random_grantee(shared).map_or(granter, |(domain, _)| domain),
                false => granter,
            };
            self.request(Request::CapabilityAccept { capability, granter: Some(granter), whole });
        }
    }

    /// Performs one memory operation, drawn by the weights of the plan.
    pub(crate) fn act_memory(&mut self, shared: &mut Shared) {
        let weights = shared.plan.memory;
        let choices: [(u64, Action); 13] = [
            (weights.create, Self::create_region),
            (weights.derive, Self::derive),
            (weights.grant, Self::grant),
            (weights.split, Self::split),
            (weights.take_up, Self::request_given),
            (weights.map, Self::request_map),
            (weights.unmap, Self::unmap),
            (weights.delete, Self::delete),
            (weights.revoke, Self::revoke),
            (weights.seal, Self::seal),
            (weights.settle, Self::settle),
            (weights.list, Self::list_memory),
            (weights.abuse, Self::send_invalid_request),
        ];
        self.access_memory(shared);
        if self.holdings.known.is_empty() && shared.random.chance(500) {
            return self.create_region(shared);
        }
        let sum = choices.iter().map(|(weight, _)| weight).sum();
        let mut chosen = shared.random.below(sum);
        for (weight, action) in choices {
            if chosen < weight {
                return action(self, shared);
            }
            chosen -= weight;
        }
    }

    fn create_region(&mut self, shared: &mut Shared) {
        let node = match shared.random.below(shared.plan.nodes.len() as u64 + 1) {
            0 => "host".to_owned(),
            number => format!("n{number}"),
        };
        let mut length_bytes = shared.random.magnitude(1, 16 * PAGE_BYTES);
        let mut fds = Vec::new();
        let place = match shared.random.below(16) {
            0 => RegionPlace::Foreign { address: shared.random.magnitude(1, u64::MAX / 2) },
            1 | 2 => {
                let writable = shared.random.chance(500);
                if !shared.random.chance(50) {
                    fds.push(Fd::File { writable });
                }
                RegionPlace::File
            }
            3..=8 => {
                let alignments = [0, 0, 1, PAGE_BYTES, 1 << 16, 1 << 20, 12_345];
                let alignment_bytes = *shared.random.pick(&alignments).unwrap_or(&0);
                RegionPlace::Window { node, alignment_bytes, coherent: shared.random.chance(500) }
            }
            _ => {
                let huge_page_bytes = *shared.random.pick(&[0, 0, 0, 0, 0, 0, 2 << 20, 12_345]).unwrap_or(&0);
                length_bytes = shared.random.magnitude(1, 8 << 20);
                RegionPlace::Memory { node, options: MemoryOptions { huge_page_bytes, numa_node: None } }
            }
        };
        if shared.random.chance(20) {
            length_bytes = *shared.random.pick(&[0, u64::MAX, u64::MAX - PAGE_BYTES]).unwrap_or(&0);
        }
        self.ask(Request::RegionCreate { place, length_bytes }, PendingRequest::Other, fds);
    }

    fn random_capability(&self, shared: &mut Shared) -> Option<CapabilityInfo> {
        shared.random.pick(&self.holdings.known).cloned()
    }

    /// Draws an extent, mostly a valid one; `None` stands for the whole capability.
    fn random_extent(shared: &mut Shared, of: Extent) -> Option<Extent> {
        if shared.random.chance(500) {
            return None;
        }
        let pages = of.length_bytes.div_ceil(PAGE_BYTES);
        let first = shared.random.below(pages);
        let count = shared.random.between(1, pages - first);
        let offset_bytes = first * PAGE_BYTES;
        let length_bytes = (count * PAGE_BYTES).min(of.length_bytes - offset_bytes);
        Some(match shared.random.below(16) {
            0 => Extent::new(offset_bytes + 1, length_bytes),
            1 => Extent::new(offset_bytes, length_bytes + PAGE_BYTES),
            2 => Extent::new(offset_bytes, length_bytes / 2),
            3 => Extent::new(u64::MAX - 1, length_bytes),
            _ => Extent::new(offset_bytes, length_bytes),
        })
    }

    /// Draws rights, mostly a subset of `of`.
    fn random_rights(shared: &mut Shared, of: Rights) -> Rights {
        let bits = shared.random.below(8) as u8;
        let bits = if shared.random.chance(900) { bits & of.bits() } else { bits };
        let bits = if shared.random.chance(400) { of.bits() } else { bits };
        Rights::from_bits(bits).unwrap_or(Rights::NONE)
    }

    fn derive(&mut self, shared: &mut Shared) {
        let Some(from) = self.random_capability(shared) else { return };
        let extent = Self::random_extent(shared, from.extent);
        let rights = Self::random_rights(shared, from.rights);
        let (capability, channel) = (from.id, ChannelId(0));
        self.request(Request::CapabilityDerive { capability, extent, rights, holder: None, channel });
    }

    /// Asks for a split, mostly into disjoint parts in ascending order.
    fn split(&mut self, shared: &mut Shared) {
        let memory = self.holdings.known.iter().filter(|info| info.kind == Kind::Memory).cloned();
        let memory: Vec<CapabilityInfo> = memory.collect();
        let picked = if shared.random.chance(900) {
            shared.random.pick(&memory).cloned()
        } else {
            self.random_capability(shared)
        };
        let Some(from) = picked else { return };
        let kinds = [Kind::Frame, Kind::Frame, Kind::Pool, Kind::Memory, Kind::Memory, Kind::Service];
        let kind = *shared.random.pick(&kinds).unwrap_or(&Kind::Frame);
        let pages = from.extent.length_bytes.div_ceil(PAGE_BYTES);
        let mut parts = Vec::new();
        let mut first = shared.random.below(pages.min(4));
        while first < pages && parts.len() < 4 {
            let count = shared.random.between(1, (pages - first).min(4));
            let length_bytes = (count * PAGE_BYTES).min(from.extent.length_bytes - first * PAGE_BYTES);
            parts.push(Extent::new(first * PAGE_BYTES, length_bytes));
            first += count + shared.random.below(3);
        }
        if shared.random.chance(150) {
            parts.extend(Self::random_extent(shared, from.extent));
        }
        self.request(Request::CapabilitySplit { capability: from.id, kind, parts });
    }

    /// Picks a domain to grant to, and the channel over which it receives the number.
    fn random_grantee(&mut self, shared: &mut Shared) -> Option<(DomainId, ChannelId)> {
        let mut known: Vec<(DomainId, ChannelId)> = self
            .conversations
            .iter()
            .filter(|open| !open.is_bulk())
            .map(|open| (open.peer, open.id()))
            .collect();
        if known.is_empty() || shared.random.chance(100) {
            // Without a channel they find the capability in their listing.
            known.extend(self.children.iter().map(|child| (child.domain, ChannelId(0))));
            known.extend(self.domain.map(|own| (own, ChannelId(0))));
        }
        shared.random.pick(&known).copied()
    }

    fn grant(&mut self, shared: &mut Shared) {
        let Some(from) = self.random_capability(shared) else { return };
        let Some((holder, channel)) = self.random_grantee(shared) else { return };
        let capability = from.id;
        if shared.random.chance(300) {
            let pending = PendingRequest::Give { capability, channel };
            return self.ask(Request::CapabilityGive { capability, holder, channel }, pending, Vec::new());
        }
        let extent = Self::random_extent(shared, from.extent);
        let rights = Self::random_rights(shared, from.rights);
        let request = Request::CapabilityDerive { capability, extent, rights, holder: Some(holder), channel };
        self.ask(request, PendingRequest::Grant { channel }, Vec::new());
    }

    /// Draws the capabilities that a new program is given, mostly valid ones.
    pub(crate) fn gifts(&mut self, shared: &mut Shared) -> Vec<GivenCapability> {
        if !shared.random.chance(shared.plan.memory.give_at_start) {
            return Vec::new();
        }
        let mut given = Vec::new();
        for number in 0..shared.random.between(1, GIFTS) {
            let Some(from) = self.random_capability(shared) else { break };
            let number = if shared.random.chance(950) { number } else { shared.random.below(GIFTS) };
            let name = if shared.random.chance(980) { gift_name(number) } else { "no name".to_owned() };
            let capability = if shared.random.chance(960) { from.id } else { self.random_number(shared) };
            let extent = Self::random_extent(shared, from.extent);
            let rights = Self::random_rights(shared, from.rights);
            given.push(GivenCapability { name, capability, extent, rights });
        }
        given
    }

    fn request_given(&mut self, shared: &mut Shared) {
        let name = gift_name(shared.random.below(GIFTS));
        self.request(Request::Given { name });
    }

    fn request_map(&mut self, shared: &mut Shared) {
        if let Some(from) = self.random_capability(shared) {
            self.map_capability(shared, &from);
        }
    }

    fn map_capability(&mut self, shared: &mut Shared, from: &CapabilityInfo) {
        let write = if shared.random.chance(900) { from.rights & Rights::WRITE } else { Rights::WRITE };
        let rights = if shared.random.chance(300) { Rights::READ } else { Rights::READ | write };
        let pool =
            if shared.random.chance(900) { from.kind == Kind::Pool } else { shared.random.chance(500) };
        self.request(Request::RegionMap { capability: from.id, rights, pool });
    }

    fn unmap(&mut self, shared: &mut Shared) {
        let index = shared.random.below(self.holdings.mapped.len() as u64) as usize;
        if index < self.holdings.mapped.len() {
            let mapping = self.holdings.mapped.remove(index);
            shared.audit.rights.maps.unmap(mapping.number);
        }
    }

    fn delete(&mut self, shared: &mut Shared) {
        let Some(CapabilityInfo { id: capability, .. }) = self.random_capability(shared) else { return };
        if shared.random.chance(300) {
            self.holdings.forget(capability);
            return self.send_request(0, Request::CapabilityDelete { capability }, Vec::new());
        }
        self.ask(Request::CapabilityDelete { capability }, PendingRequest::Delete(capability), Vec::new());
    }

    fn revoke(&mut self, shared: &mut Shared) {
        // Prefers root capabilities, from which many others are derived.
        let first = self.holdings.known.iter().find(|info| info.parent.is_none()).map(|info| info.id);
        let first = first.filter(|_| shared.random.chance(500));
        let some = self.random_capability(shared).map(|info| info.id);
        let Some(capability) = first.or(some) else { return };
        let itself = shared.random.chance(300);
        self.request(Request::CapabilityRevoke { capability, itself });
    }

    fn seal(&mut self, shared: &mut Shared) {
        let Some(CapabilityInfo { id: capability, .. }) = self.random_capability(shared) else { return };
        let seal = *shared
            .random
            .pick(&[Seal::SoleWriter, Seal::SoleWriter, Seal::Frozen, Seal::Frozen, Seal::Open])
            .unwrap_or(&Seal::Frozen);
        self.request(Request::RegionSeal { capability, seal });
    }

    fn settle(&mut self, shared: &mut Shared) {
        let capability = self.random_number(shared);
        if shared.random.chance(500) {
            return self.request(Request::CapabilityTakeBack { capability });
        }
        let in_transit = self.holdings.known.iter().find(|info| info.granter.is_some());
        let (capability, granter) = match in_transit {
            Some(info) if shared.random.chance(800) => (info.id, info.granter),
            _ => (capability, self.random_grantee(shared).map(|(domain, _)| domain)),
        };
        let granter = granter.filter(|_| shared.random.chance(800));
        let whole = shared.random.chance(300);
        self.request(Request::CapabilityAccept { capability, granter, whole });
    }

    /// Draws a capability number, which may belong to another domain, be unused, or be deleted.
    fn random_number(&mut self, shared: &mut Shared) -> CapabilityId {
        let last = self.holdings.newest + 3;
        CapabilityId(shared.random.between(last.saturating_sub(40), last))
    }

    fn list_memory(&mut self, shared: &mut Shared) {
        let number = self.random_number(shared).0;
        self.request(match shared.random.below(4) {
            0 => Request::Regions { after: 0 },
            1 => Request::Capabilities { after: number },
            _ => Request::Capabilities { after: 0 },
        });
    }

    fn send_invalid_request(&mut self, shared: &mut Shared) {
        let capability = self.random_number(shared);
        let somebody = self.random_grantee(shared);
        let Some((holder, channel)) = somebody else { return };
        let rights = Self::random_rights(shared, Rights::ALL);
        let extent = Self::random_extent(shared, Extent::new(0, 8 * PAGE_BYTES));
        self.request(match shared.random.below(8) {
            0 => Request::CapabilityDerive { capability, extent, rights, holder: None, channel },
            1 => Request::CapabilityDerive { capability, extent, rights, holder: Some(holder), channel },
            2 => Request::CapabilityGive { capability, holder, channel },
            3 => Request::CapabilityDelete { capability },
            4 => Request::CapabilityShow { capability },
            5 => Request::RegionMap { capability, rights, pool: false },
            6 => Request::CapabilityRevoke { capability, itself: rights == Rights::ALL },
            _ => Request::RegionSeal { capability, seal: Seal::Frozen },
        });
    }
}
