//! Regions of memory and capabilities to them: requests of clients, origin of the memory, and access by
//! domains.

use std::collections::BTreeMap;

use tombolo_base::{ChannelId, DomainId, NodeId, WindowId};
use tombolo_capability::{
    CapabilityFault, CapabilityId, CapabilityInfo, Extent, Kind, Mappable, Memory, MemoryOptions, NewRegion,
    Operation, PAGE_BYTES, Recipient, RegionId, RegionInfo, RevocationTimeouts, Rights, Seal, Table,
    TableAction,
};
use tombolo_control::{
    Attachment, AttachmentWindow, Fault, ForeignPlace, Order, RegionMap, RegionPlace, Reply,
};
use tombolo_link::TransportKind;
use tombolo_link::link::Coherence;
use tombolo_link::window::WindowRange;
use tombolo_machine::{Limit, Limits};

use super::{ClientId, Core, Effect, Nanos, NodeState, Resource};

/// Maximum number of entries per page of a listing.
const PAGE: usize = 100;

/// Regions of the machine, and the clients waiting for results about them.
#[derive(Debug)]
pub(super) struct Regions {
    pub(super) table: Table,
    /// Regions whose memory is being created, with the waiting client unless it has left.
    pending_creations: BTreeMap<RegionId, (Option<(ClientId, u32)>, NewRegion)>,
    pending_seals: BTreeMap<RegionId, (ClientId, u32)>,
    pending_revocations: BTreeMap<Operation, (ClientId, u32)>,
}

impl Regions {
    pub(super) fn new(limits: &Limits) -> Self {
        let unmap_timeout_ns = Nanos::from(limits.of(Limit::RevokeMs)) * 1_000_000;
        Regions {
            table: Table::new(RevocationTimeouts { unmap_timeout_ns }),
            pending_creations: BTreeMap::new(),
            pending_seals: BTreeMap::new(),
            pending_revocations: BTreeMap::new(),
        }
    }

    pub(super) fn resource_counts(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let waiting = [
            ("regions being made", self.pending_creations.len()),
            ("regions being sealed", self.pending_seals.len()),
            ("revocations awaited", self.pending_revocations.len()),
        ];
        self.table.resource_counts().into_iter().chain(waiting)
    }

    /// Drops the pending answers of a client that left.
    pub(super) fn client_left(&mut self, client: ClientId) {
        for (waits, _) in self.pending_creations.values_mut() {
            waits.take_if(|(by, _)| *by == client);
        }
        self.pending_seals.retain(|_, (by, _)| *by != client);
        self.pending_revocations.retain(|_, (by, _)| *by != client);
    }

    fn usage_of_maker(&self, maker: DomainId) -> (usize, u64) {
        let pending_creations = self.pending_creations.values().filter(|(_, new)| new.maker == maker);
        // The length of a file is the client's claim until the agent has checked it.
        let length_bytes = |new: &NewRegion| if new.memory == Memory::File { 0 } else { new.length_bytes };
        pending_creations.fold(self.table.regions_of(maker), |(count, bytes), (_, new)| {
            (count + 1, bytes.saturating_add(length_bytes(new)))
        })
    }
}

impl From<CapabilityFault> for Refusal {
    fn from(fault: CapabilityFault) -> Self {
        Refusal(Fault::Capability { fault })
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Refusal(fault)
    }
}

/// Reason for refusing a request about regions.
pub(super) struct Refusal(pub(super) Fault);

impl Core {
    pub(super) fn region_create(
        &mut self,
        client: ClientId,
        request: u32,
        maker: DomainId,
        place: RegionPlace,
        length_bytes: u64,
    ) {
        if let Err(Refusal(fault)) = self.try_create(client, request, maker, place, length_bytes) {
            self.answer(client, request, Err(fault));
        }
    }

    fn try_create(
        &mut self,
        client: ClientId,
        request: u32,
        maker: DomainId,
        place: RegionPlace,
        length_bytes: u64,
    ) -> Result<(), Refusal> {
        let extent = Extent::new(0, length_bytes);
        let bad = CapabilityFault::BadExtent { extent, available_bytes: u64::MAX };
        if length_bytes == 0 {
            return Err(bad.into());
        }
        let (node, memory, unit_bytes) = match &place {
            RegionPlace::Memory { node, options } => self.kernel_memory(node, options)?,
            RegionPlace::Window { node, alignment_bytes, coherent } => {
                let window = self.window_for(maker.node(), node, *alignment_bytes, *coherent)?;
                // A window shared by several nodes outlives each of them but the host, which has its memory.
                let owner = self.machine.window(window).and_then(|window| window.private_to);
                (owner.unwrap_or(NodeId::HOST), Memory::Window { window, offset_bytes: 0 }, PAGE_BYTES)
            }
            RegionPlace::File => (NodeId::HOST, Memory::File, PAGE_BYTES),
            RegionPlace::Foreign { address } => {
                address.checked_add(length_bytes).ok_or(bad.clone())?;
                (maker.node(), Memory::Foreign { address: *address }, 1)
            }
        };
        let whole = matches!(memory, Memory::Kernel { .. } | Memory::Window { .. });
        let length_bytes =
            if whole { length_bytes.checked_next_multiple_of(unit_bytes).ok_or(bad)? } else { length_bytes };
        self.check_region_limits(maker, if whole { length_bytes } else { 0 })?;
        let generation = self.nodes[usize::from(node.0)].generation;
        let new = NewRegion { node, generation, maker, memory, length_bytes, unit_bytes };
        match place {
            RegionPlace::Window { alignment_bytes, .. } => {
                self.create_window_region(client, request, new, alignment_bytes)?;
            }
            RegionPlace::Foreign { .. } => {
                let id = self.new_region(&new)?;
                self.finish_region_creation(client, request, id, new);
            }
            RegionPlace::Memory { options, .. } => {
                let id = self.new_region(&new)?;
                self.regions.pending_creations.insert(id, (Some((client, request)), new));
                self.send_order(node, Order::RegionMake { region: id, length_bytes, file: false, options });
            }
            RegionPlace::File => {
                if self.machine.kernel_of(client.0) != NodeId::HOST {
                    let why = "a file can be passed only by programs on the host's kernel".into();
                    return Err(Fault::Refused { why }.into());
                }
                let id = self.new_region(&new)?;
                self.regions.pending_creations.insert(id, (Some((client, request)), new));
                let options = MemoryOptions { huge_page_bytes: 0, numa_node: None };
                let order = Order::RegionMake { region: id, length_bytes, file: true, options };
                let passed = vec![Resource::RequestFile(client, request)];
                self.effects.push(Effect::Order { node, order, passed });
            }
        }
        Ok(())
    }

    fn new_region(&mut self, new: &NewRegion) -> Result<RegionId, Refusal> {
        let id = self.regions.table.new_region_id(new.node, new.generation);
        id.ok_or_else(|| Fault::Limit { what: "the machine has used all its region ids".into() }.into())
    }

    fn kernel_memory(&self, name: &str, options: &MemoryOptions) -> Result<(NodeId, Memory, u64), Fault> {
        let (node, _) = self.running_node(name)?;
        if self.machine.node(node).is_some_and(|node| node.as_bare().is_some()) {
            let why = format!("{name} is a board, which keeps no memory for regions: make it in its window");
            return Err(Fault::Refused { why });
        }
        let huge_page_bytes = options.huge_page_bytes;
        if huge_page_bytes != 0 && !(huge_page_bytes.is_power_of_two() && huge_page_bytes > PAGE_BYTES) {
            let why =
                format!("invalid huge page length {huge_page_bytes}; use a power of two above {PAGE_BYTES}");
            return Err(Fault::Refused { why });
        }
        let unit_bytes = huge_page_bytes.max(PAGE_BYTES);
        Ok((self.machine.kernel_of(node), Memory::Kernel { huge_page_bytes }, unit_bytes))
    }

    /// Resolves the name of a window for a program on `maker`: a window, or a node that it reaches through
    /// one.
    fn window_for(
        &self,
        maker: NodeId,
        name: &str,
        alignment_bytes: u64,
        coherent: bool,
    ) -> Result<WindowId, Fault> {
        let kernel = self.machine.kernel_of(maker);
        let named = self.machine.window_named(name).filter(|window| window.private_to.is_none());
        let window = match named {
            Some(window) if window.members.contains(&kernel) => window.id,
            Some(_) => {
                let why = format!("node {} is not in window {name}", self.node_name(maker));
                return Err(Fault::Refused { why });
            }
            None => {
                let (node, _) = self.running_node(name)?;
                let own = self.machine.own_window(node).ok_or_else(|| Fault::Refused {
                    why: match self.machine.kernel_of(node) {
                        NodeId::HOST => format!(
                            "node {name} is behind no window: its programs and the host's share memory of the host"
                        ),
                        _ => format!("node {name} has no window: it shares no memory with other nodes"),
                    },
                })?;
                // Between two nodes that share a window, use the one that both reach.
                let common = if kernel == node { None } else { self.machine.window_between(kernel, node) };
                common.unwrap_or(own).id
            }
        };
        let coherence = match self.machine.window(window).and_then(|window| window.caches) {
            None => TransportKind::Window.traits().coherence,
            Some(_) => Coherence::Flush,
        };
        let why = if alignment_bytes != 0 && !alignment_bytes.is_power_of_two() {
            format!("invalid alignment {alignment_bytes}; use a power of two")
        } else if coherent && coherence < Coherence::Coherent {
            format!("the window of {name} is not coherent, but '{}'", coherence.name())
        } else {
            return Ok(window);
        };
        Err(Fault::Refused { why })
    }

    pub(super) fn check_region_limits(&self, maker: DomainId, length_bytes: u64) -> Result<(), Fault> {
        let all = self.regions.table.regions(0).count() + self.regions.pending_creations.len();
        self.check_limit(Limit::Regions, all, "this machine")?;
        let (count, bytes) = self.regions.usage_of_maker(maker);
        let who = || format!("domain {maker}");
        self.check_limit(Limit::RegionsPerDomain, count, who())?;
        let may_have_bytes = (self.limit(Limit::RegionMibPerDomain) as u64) << 20;
        if bytes.saturating_add(length_bytes) > may_have_bytes {
            return Err(self.limit_fault(Limit::RegionMibPerDomain, who()));
        }
        self.check_capability_limit(maker)
    }

    pub(super) fn check_capability_limit(&self, maker: DomainId) -> Result<(), Fault> {
        let used = self.regions.table.capabilities_of(maker);
        self.check_limit(Limit::CapabilitiesPerDomain, used, format_args!("domain {maker}"))
    }

    fn check_mapping_limits(&self, domain: DomainId) -> Result<(), Fault> {
        let table = &self.regions.table;
        self.check_limit(
            Limit::MappingsPerDomain,
            table.mappings_of(domain),
            format_args!("domain {domain}"),
        )?;
        self.check_limit(Limit::Mappings, table.mappings(), "this machine")
    }

    /// Lends a range of a window to a region.
    fn create_window_region(
        &mut self,
        client: ClientId,
        request: u32,
        new: NewRegion,
        alignment_bytes: u64,
    ) -> Result<(), Refusal> {
        let Memory::Window { window: window_id, .. } = new.memory else {
            return Err(Fault::System { what: "the region is in no window".into() }.into());
        };
        let name = self.machine.window(window_id).map(|window| window.name.clone()).unwrap_or_default();
        let window = self.window(window_id);
        let window =
            window.ok_or(Fault::NodeDown { node: name.clone(), cause: "it has no window".into() })?;
        let range = window.allocator.allocate_aligned(new.length_bytes, alignment_bytes).map_err(|full| {
            Fault::Limit { what: format!("no room for a region in window {name}: {full}") }
        })?;
        let id = match self.new_region(&new) {
            Ok(id) => id,
            Err(refusal) => {
                self.take_back(window_id, range);
                return Err(refusal);
            }
        };
        self.effects.push(Effect::ClearWindow { window: window_id, range });
        self.window_changed(window_id);
        let memory = Memory::Window { window: window_id, offset_bytes: range.offset_bytes };
        self.finish_region_creation(client, request, id, NewRegion { memory, ..new });
        Ok(())
    }

    fn take_back(&mut self, id: WindowId, range: WindowRange) {
        if let Some(window) = self.window(id) {
            window.allocator.free(range);
        }
        self.window_changed(id);
    }

    fn finish_region_creation(&mut self, client: ClientId, request: u32, id: RegionId, new: NewRegion) {
        self.observing.regions.changed();
        let capability = self.regions.table.create(id, new);
        self.answer(client, request, Ok(Reply::RegionCreate { capability }));
    }

    /// Handles an agent's result of creating a region's memory.
    pub(super) fn region_made(&mut self, region: RegionId, failed: Option<String>, read_only: bool) {
        self.observing.regions.changed();
        let Some((waits, new)) = self.regions.pending_creations.remove(&region) else { return };
        let Some((client, request)) = waits.filter(|_| self.domains.contains_key(&new.maker)) else {
            if failed.is_none() {
                self.send_order(region.node(), Order::RegionForget { region });
            }
            return;
        };
        if let Some(what) = failed {
            return self.answer(client, request, Err(Fault::System { what }));
        }
        let rights = if read_only { Rights::READ | Rights::GRANT } else { Rights::ALL };
        let capability = self.regions.table.create_with(region, new, rights);
        self.answer(client, request, Ok(Reply::RegionCreate { capability }));
    }

    pub(super) fn capability_derive(
        &mut self,
        by: DomainId,
        capability: CapabilityId,
        extent: Option<Extent>,
        rights: Rights,
        to: Recipient,
    ) -> Result<Reply, Refusal> {
        self.check_capability_limit(by)?;
        self.check_alive(to.holder)?;
        let capability = self.regions.table.derive(by, capability, extent, rights, to)?;
        Ok(Reply::CapabilityDerive { capability })
    }

    pub(super) fn capability_give(
        &mut self,
        by: DomainId,
        capability: CapabilityId,
        to: Recipient,
    ) -> Result<Reply, Refusal> {
        self.check_alive(to.holder)?;
        self.regions.table.give(by, capability, to)?;
        Ok(Reply::Done)
    }

    fn check_alive(&self, domain: DomainId) -> Result<(), Fault> {
        if self.is_alive(domain) { Ok(()) } else { Err(Fault::NoSuchDomain { domain }) }
    }

    pub(super) fn capability_accept(
        &mut self,
        by: DomainId,
        capability: CapabilityId,
        granter: Option<DomainId>,
        whole: bool,
    ) -> Result<Reply, Refusal> {
        self.regions.table.accept(by, capability, granter, whole)?;
        let (capability, region, foreign) = self.describe_capability(by, capability)?;
        Ok(Reply::CapabilityAccept { capability, region, foreign })
    }

    pub(super) fn capability_take_back(
        &mut self,
        by: DomainId,
        capability: CapabilityId,
    ) -> Result<Reply, Refusal> {
        let capability = self.regions.table.take_back(by, capability)?;
        Ok(Reply::CapabilityTakeBack { capability })
    }

    pub(super) fn capability_split(
        &mut self,
        by: DomainId,
        capability: CapabilityId,
        kind: Kind,
        parts: &[Extent],
    ) -> Result<Reply, Refusal> {
        let used = self.regions.table.capabilities_of(by) + parts.len().saturating_sub(1);
        self.check_limit(Limit::CapabilitiesPerDomain, used, format_args!("domain {by}"))?;
        let capabilities = self.regions.table.split(by, capability, kind, parts)?;
        Ok(Reply::CapabilitySplit { capabilities })
    }

    pub(super) fn capability_delete(
        &mut self,
        by: DomainId,
        capability: CapabilityId,
    ) -> Result<Reply, Refusal> {
        self.regions.table.delete(by, capability)?;
        Ok(Reply::Done)
    }

    pub(super) fn capability_show(
        &mut self,
        by: DomainId,
        capability: CapabilityId,
    ) -> Result<Reply, Refusal> {
        let (capability, region, foreign) = self.describe_capability(by, capability)?;
        Ok(Reply::CapabilityShow { capability, region, foreign })
    }

    /// Returns the description of a capability, including the address of foreign memory.
    pub(super) fn describe_capability(
        &self,
        by: DomainId,
        capability: CapabilityId,
    ) -> Result<(CapabilityInfo, RegionInfo, Option<ForeignPlace>), CapabilityFault> {
        let (capability, region, memory) = self.regions.table.show(by, capability)?;
        let foreign = match memory {
            // Addresses of emulated programs differ from those of the process.
            Memory::Foreign { address }
                if region.maker.node() == NodeId::HOST && by.node() == NodeId::HOST =>
            {
                self.domains.get(&region.maker).map(|maker| ForeignPlace {
                    pid: maker.pid,
                    address: address + capability.extent.offset_bytes,
                })
            }
            _ => None,
        };
        Ok((capability, region, foreign))
    }

    pub(super) fn list_capabilities(&self, by: DomainId, after: u64) -> Reply {
        let mut rest = self.regions.table.held_by(by, CapabilityId(after));
        let capabilities = rest.by_ref().take(PAGE).collect();
        Reply::Capabilities { capabilities, more: rest.next().is_some() }
    }

    /// Returns the holders of capabilities to a region.
    pub(super) fn holders(&self, region: RegionId, after: u64) -> Reply {
        let mut rest = self.regions.table.capabilities_to(region, CapabilityId(after));
        let capabilities = rest.by_ref().take(PAGE).collect();
        Reply::Holders { capabilities, more: rest.next().is_some() }
    }

    pub(super) fn list_regions(&self, after: u64) -> Reply {
        let mut rest = self.regions.table.regions(after);
        let regions = rest.by_ref().take(PAGE).collect();
        Reply::Regions { regions, more: rest.next().is_some() }
    }

    /// Lets a domain map a region by capability: it gets the memory and a lifeline, which hangs up here when
    /// the domain has released it, and there when the domain must release it.
    pub(super) fn region_map(
        &mut self,
        client: ClientId,
        request: u32,
        by: DomainId,
        capability: CapabilityId,
        (rights, pool): (Rights, bool),
    ) -> Result<(), Refusal> {
        self.check_mapping_limits(by)?;
        let reaches = |region: RegionId, memory: Memory| self.reaches(by, region.node(), memory);
        let mappable = self.regions.table.mappable(by, capability, rights, pool, reaches)?;
        let (attachment, passed) = self.memory_for(by.node(), &mappable);
        let mapping = ChannelId(self.next_channel);
        self.next_channel += 1;
        self.regions.table.map(capability, &mappable, mapping);
        let Mappable { region, extent, rights, memory } = mappable;
        let (start_bytes, huge_page_bytes) = match memory {
            Memory::Window { offset_bytes, .. } => (offset_bytes, 0),
            Memory::Kernel { huge_page_bytes } => (0, huge_page_bytes),
            Memory::File | Memory::Foreign { .. } | Memory::Service => (0, 0),
        };
        let base_bytes = match memory {
            Memory::Window { window, .. } => {
                let (outside, inside) = self.base_bytes(window);
                let private_to = self.machine.window(window).and_then(|window| window.private_to);
                if private_to == Some(by.node()) { inside } else { outside }
            }
            Memory::Kernel { .. } | Memory::File | Memory::Foreign { .. } | Memory::Service => 0,
        };
        let file_offset_bytes = base_bytes + start_bytes + extent.offset_bytes;
        let caches = match memory {
            Memory::Window { window, .. } => self.machine.window(window).and_then(|window| window.caches),
            Memory::Kernel { .. } | Memory::File | Memory::Foreign { .. } | Memory::Service => None,
        };
        let map = RegionMap {
            region,
            extent,
            rights,
            file_offset_bytes,
            backing: memory.backing(),
            huge_page_bytes,
            caches,
        };
        let attachments = vec![attachment, Attachment::Lifeline];
        self.deliver_with(client, request, Reply::RegionMap { map }, mapping, attachments, passed);
        Ok(())
    }

    /// Returns whether a domain can access memory of a region of a node.
    fn reaches(&self, domain: DomainId, node: NodeId, memory: Memory) -> bool {
        let kernel = self.machine.kernel_of(domain.node());
        match memory {
            Memory::Kernel { .. } | Memory::File => kernel == node,
            Memory::Window { window, .. } => {
                self.machine.window(window).is_some_and(|window| window.members.contains(&kernel))
            }
            Memory::Foreign { .. } | Memory::Service => false,
        }
    }

    /// Returns the descriptor with which programs of a node map a region that they can access.
    fn memory_for(&self, on: NodeId, mappable: &Mappable) -> (Attachment, Vec<Resource>) {
        let Mappable { region, rights, memory, .. } = *mappable;
        let writable = rights.contains(Rights::WRITE);
        match memory {
            Memory::Window { window, .. } if !self.is_behind_window(on) => {
                (Attachment::Passed, vec![Resource::RegionInWindow { window, writable }])
            }
            Memory::Window { window, .. } => {
                let number = AttachmentWindow { window: window.0 };
                let attachment = match writable {
                    true => Attachment::WindowMemory(number),
                    false => Attachment::WindowToRead(number),
                };
                (attachment, Vec::new())
            }
            _ if on == region.node() => (Attachment::Region { region, writable }, Vec::new()),
            _ => (Attachment::Passed, vec![Resource::Region { region, writable }]),
        }
    }

    pub(super) fn capability_revoke(
        &mut self,
        now: Nanos,
        client: ClientId,
        request: u32,
        by: DomainId,
        capability: CapabilityId,
        itself: bool,
    ) -> Result<(), Refusal> {
        let operation = self.regions.table.revoke(now, by, capability, itself)?;
        self.regions.pending_revocations.insert(operation, (client, request));
        Ok(())
    }

    pub(super) fn region_seal(
        &mut self,
        client: ClientId,
        request: u32,
        by: DomainId,
        capability: CapabilityId,
        seal: Seal,
    ) -> Result<(), Refusal> {
        if seal == Seal::Open {
            return Err(
                Fault::Refused { why: "a region is made open, and what is sealed stays so".into() }.into()
            );
        }
        let region = self.regions.table.seal(by, capability, seal)?;
        self.regions.pending_seals.insert(region, (client, request));
        self.send_order(region.node(), Order::RegionSeal { region, seal });
        Ok(())
    }

    pub(super) fn region_sealed(&mut self, region: RegionId, failed: Option<String>) {
        self.regions.table.complete_seal(region, failed.is_none());
        self.observing.regions.changed();
        if let Some((client, request)) = self.regions.pending_seals.remove(&region) {
            let result = failed.map_or(Ok(Reply::Done), |what| Err(Fault::System { what }));
            self.answer(client, request, result);
        }
    }

    /// Removes the capabilities and regions of a domain that has ended.
    pub(super) fn release_domain_regions(&mut self, domain: DomainId) {
        self.observing.regions.changed();
        self.regions.table.domain_ended(domain);
        self.regions.table.foreign_lost(domain);
    }

    /// Removes the regions of a lost node, with the memory kept by its agent.
    pub(super) fn regions_lost(&mut self, node: NodeId, cause: &str) {
        self.observing.regions.changed();
        self.regions.table.node_lost(node);
        let mut waiting: Vec<(ClientId, u32)> = Vec::new();
        self.regions.pending_creations.retain(|region, (waits, _)| {
            let lost = region.node() == node;
            waiting.extend(waits.filter(|_| lost));
            !lost
        });
        self.regions.pending_seals.retain(|region, waits| {
            let lost = region.node() == node;
            waiting.extend(lost.then_some(*waits));
            !lost
        });
        let name = self.node_name(node);
        for (client, request) in waiting {
            let fault = Fault::NodeDown { node: name.clone(), cause: cause.to_owned() };
            self.answer(client, request, Err(fault));
        }
    }

    /// Carries out the actions of changes to regions.
    pub(super) fn apply_region_consequences(&mut self) {
        let actions = self.regions.table.take_actions();
        if !actions.is_empty() {
            self.refuse_revoked();
        }
        for action in actions {
            self.observing.regions.changed();
            match action {
                TableAction::RequestUnmap { node, mapping } => {
                    self.order_if_up(node, Order::HangUp { channel: mapping });
                }
                TableAction::Kill { .. } if tombolo_base::canary!("core spares who does not let go") => {}
                TableAction::Kill { domain } => {
                    // The machine does not kill domains that attached by themselves.
                    if self.domains.get(&domain).is_some_and(|record| record.parent.is_some()) {
                        self.kill_now(domain);
                    }
                }
                TableAction::Answer { operation, outcome } => {
                    if let Some((client, request)) = self.regions.pending_revocations.remove(&operation) {
                        let result = outcome
                            .map(|revoked| Reply::CapabilityRevoke {
                                removed: revoked.removed,
                                killed: revoked.killed,
                            })
                            .map_err(|fault| Fault::Capability { fault });
                        self.answer(client, request, result);
                    }
                }
                TableAction::Freed { region, memory, length_bytes } => match memory {
                    Memory::Kernel { .. } | Memory::File => {
                        self.order_if_up(region.node(), Order::RegionForget { region });
                    }
                    Memory::Window { window, offset_bytes } => {
                        let current = self.nodes[usize::from(region.node().0)].generation;
                        if current == region.generation() {
                            self.take_back(window, WindowRange { offset_bytes, length_bytes });
                        }
                    }
                    Memory::Foreign { .. } => {}
                    Memory::Service => self.services.forget(region),
                },
            }
        }
    }

    fn order_if_up(&mut self, node: NodeId, order: Order) {
        if self.node(node).is_some_and(|node| node.state == NodeState::Up) {
            self.send_order(node, order);
        }
    }
}
