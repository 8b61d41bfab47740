//! Revocation under a model checker.
//!
//! The root's table is the real one. Around it are agents with a queue in each direction, and domains that
//! map, unmap on request, are stopped, or die, with or without their node. The checker explores every order
//! of these events and verifies the guarantees of `docs/specs/capability.md` in each state.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU16;

use stateright::{Model, Property};
use tombolo_base::{ChannelId, DomainId, NodeId, WindowId};
use tombolo_capability::{
    CapabilityId, Memory, NewRegion, Operation, PAGE_BYTES, RevocationTimeouts, Rights, Table, TableAction,
};

/// Number of domains: the owner, its grantee on the host, and that one's grantee on the other node.
pub const DOMAINS: usize = 3;

/// Node of each domain.
const NODE_OF: [usize; DOMAINS] = [0, 0, 1];

/// Configuration and bounds of a model.
#[derive(Clone, Debug)]
pub struct Revocation {
    /// Total number of kills and stops of domains.
    pub faults: u8,
    /// Number of losses of the other node.
    pub losses: u8,
    /// Number of times that the root's timeout may expire.
    pub ticks: u8,
    /// Whether each domain may, once, delete its capability or unmap its memory.
    pub gives_up: bool,
    /// Mistake that the checker must find, if any.
    pub mistake: Mistake,
}

/// Mistakes that an implementation could make. They verify that the model can find faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mistake {
    /// None.
    None,
    /// The root takes the end of a domain's connection for the end of its process.
    TrustsConnections,
    /// An agent reports that memory was unmapped as soon as it has told the domain.
    SaysTooEarly,
    /// The root takes a silent node for a dead one.
    SilenceIsDeath,
}

/// Order in flight to a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Order {
    Map { domain: usize, mapping: u64 },
    HangUp { mapping: u64 },
    Kill { domain: usize },
}

/// Report in flight to the root.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Report {
    Released { mapping: u64 },
    Ended { domain: usize },
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Node {
    dead: bool,
    orders: VecDeque<Order>,
    reports: VecDeque<Report>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Domain {
    dead: bool,
    stopped: bool,
    gave_up: bool,
    asked_to_map: bool,
    asked_to_revoke: bool,
    /// Mappings of its process: number, and the domain whose capability was used.
    mapped: BTreeSet<(u64, usize)>,
    told: BTreeSet<u64>,
}

/// State of the whole machine.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RevocationState {
    table: Table,
    now: u64,
    /// Capability that each domain holds or held.
    rights: [CapabilityId; DOMAINS],
    nodes: [Node; 2],
    domains: [Domain; DOMAINS],
    next_mapping: u64,
    /// Unanswered revocations, with the requesting domain.
    open: BTreeMap<Operation, usize>,
    freed: bool,
    faults: u8,
    losses: u8,
    ticks: u8,
    /// Description of the violated invariant.
    broken: Option<&'static str>,
}

/// One step of the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// A domain asks to map its memory.
    Map(usize),
    /// A domain revokes the capabilities derived from its own.
    Revoke(usize),
    /// A domain deletes its capability.
    Delete(usize),
    /// A domain unmaps its memory on its own initiative.
    Unmap(usize),
    /// A domain unmaps memory as requested.
    Unmapped(usize),
    /// A node handles an order.
    ExecuteOrder(usize),
    /// The root handles a report of a node.
    ReceiveReport(usize),
    /// A domain is killed.
    Kill(usize),
    /// A domain is stopped forever.
    Stop(usize),
    /// The other node dies, and the root knows.
    Lose,
    /// The root's timeout expires.
    Tick,
}

fn id(domain: usize) -> DomainId {
    DomainId::new(NodeId(NODE_OF[domain] as u16), NonZeroU16::MIN, domain as u32 + 1)
}

fn index(domain: DomainId) -> usize {
    domain.index() as usize - 1
}

impl Revocation {
    fn settle(&self, state: &mut RevocationState) {
        for consequence in state.table.take_actions() {
            match consequence {
                TableAction::RequestUnmap { node, mapping } => {
                    let node = &mut state.nodes[usize::from(node.0)];
                    if !node.dead {
                        node.orders.push_back(Order::HangUp { mapping: mapping.0 });
                    }
                }
                TableAction::Kill { domain } => {
                    if self.mistake == Mistake::SilenceIsDeath {
                        state.table.node_lost(domain.node());
                    }
                    let node = &mut state.nodes[usize::from(domain.node().0)];
                    if !node.dead {
                        node.orders.push_back(Order::Kill { domain: index(domain) });
                    }
                }
                TableAction::Answer { operation, outcome } => {
                    let by = state.open.remove(&operation);
                    if outcome.is_ok() && by.is_some_and(|by| state.is_mapped_below(by)) {
                        state.broken =
                            Some("a revocation is complete, and the memory is mapped by what was revoked");
                    }
                }
                TableAction::Freed { .. } => {
                    if state.reaches() {
                        state.broken = Some("memory is free for others, and mapped");
                    }
                    state.freed = true;
                }
            }
        }
        // A planted mistake may cause further consequences.
        if !state
            .table
            .resource_counts()
            .iter()
            .all(|(what, count)| *what != "actions of regions" || *count == 0)
        {
            self.settle(state);
        }
    }
}

impl RevocationState {
    /// Returns whether a process has the memory mapped by a capability below that of `by`, or is about to.
    fn is_mapped_below(&self, by: usize) -> bool {
        let mapped = self.domains.iter().flat_map(|domain| &domain.mapped).any(|(_, right)| *right > by);
        let on_its_way = |order: &Order| matches!(order, Order::Map { domain, .. } if *domain > by && !self.domains[*domain].dead);
        mapped || self.nodes.iter().flat_map(|node| &node.orders).any(on_its_way)
    }

    fn reaches(&self) -> bool {
        let mapped = self.domains.iter().any(|domain| !domain.mapped.is_empty());
        let on_its_way =
            |order: &Order| matches!(order, Order::Map { domain, .. } if !self.domains[*domain].dead);
        mapped || self.nodes.iter().flat_map(|node| &node.orders).any(on_its_way)
    }

    /// Ends a process: its kernel unmaps all its memory and closes its lifelines.
    fn die(&mut self, domain: usize) {
        let gone = std::mem::take(&mut self.domains[domain].mapped);
        let node = &mut self.nodes[NODE_OF[domain]];
        let released = gone.into_iter().map(|(mapping, _)| Report::Released { mapping });
        node.reports.extend(released);
        node.reports.push_back(Report::Ended { domain });
        self.domains[domain] = Domain { dead: true, ..Domain::default() };
    }

    fn is_quiet(&self) -> bool {
        self.nodes.iter().all(|node| node.orders.is_empty() && node.reports.is_empty())
    }

    fn unmap(&mut self, domain: usize, mapping: u64) {
        self.domains[domain].mapped.retain(|(number, _)| *number != mapping);
        self.domains[domain].told.remove(&mapping);
        self.nodes[NODE_OF[domain]].reports.push_back(Report::Released { mapping });
    }
}

impl Model for Revocation {
    type State = RevocationState;
    type Action = Action;

    fn init_states(&self) -> Vec<RevocationState> {
        let mut table = Table::new(RevocationTimeouts { unmap_timeout_ns: 1 });
        let new = NewRegion {
            node: NodeId(0),
            generation: NonZeroU16::MIN,
            maker: id(0),
            memory: Memory::Window { window: WindowId(0), offset_bytes: 0 },
            length_bytes: PAGE_BYTES,
            unit_bytes: PAGE_BYTES,
        };
        let region = table.new_region_id(new.node, new.generation).expect("the first");
        let first = table.create(region, new).id;
        let mut granted = |from: usize, of: CapabilityId| {
            table.derive(id(from), of, None, Rights::ALL, id(from + 1)).expect("it has all rights").id
        };
        let second = granted(0, first);
        let third = granted(1, second);
        vec![RevocationState {
            table,
            now: 0,
            rights: [first, second, third],
            nodes: Default::default(),
            domains: Default::default(),
            next_mapping: 1,
            open: BTreeMap::new(),
            freed: false,
            faults: self.faults,
            losses: self.losses,
            ticks: self.ticks,
            broken: None,
        }]
    }

    fn actions(&self, state: &RevocationState, actions: &mut Vec<Action>) {
        for (domain, record) in state.domains.iter().enumerate() {
            if record.dead {
                continue;
            }
            if state.faults > 0 {
                actions.push(Action::Kill(domain));
                if !record.stopped {
                    actions.push(Action::Stop(domain));
                }
            }
            if record.stopped {
                continue;
            }
            if !record.asked_to_map {
                actions.push(Action::Map(domain));
            }
            if !record.asked_to_revoke && domain + 1 < DOMAINS {
                actions.push(Action::Revoke(domain));
            }
            if self.gives_up && !record.gave_up {
                actions.push(Action::Delete(domain));
                if !record.mapped.is_empty() {
                    actions.push(Action::Unmap(domain));
                }
            }
            if record.told.iter().any(|told| record.mapped.iter().any(|(number, _)| number == told)) {
                actions.push(Action::Unmapped(domain));
            }
        }
        for (node, record) in state.nodes.iter().enumerate() {
            if !record.orders.is_empty() {
                actions.push(Action::ExecuteOrder(node));
            }
            if !record.reports.is_empty() {
                actions.push(Action::ReceiveReport(node));
            }
        }
        if state.losses > 0 {
            actions.push(Action::Lose);
        }
        if state.ticks > 0 && state.table.next_tick().is_some() {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, before: &RevocationState, action: Action) -> Option<RevocationState> {
        let mut state = before.clone();
        match action {
            Action::Map(domain) => self.map(&mut state, domain),
            Action::Revoke(domain) => {
                state.domains[domain].asked_to_revoke = true;
                let right = state.rights[domain];
                if let Ok(operation) = state.table.revoke(state.now, id(domain), right, false) {
                    state.open.insert(operation, domain);
                }
            }
            Action::Delete(domain) => {
                state.domains[domain].gave_up = true;
                let _ = state.table.delete(id(domain), state.rights[domain]);
            }
            Action::Unmap(domain) => {
                state.domains[domain].gave_up = true;
                let (mapping, _) = *state.domains[domain].mapped.first()?;
                state.unmap(domain, mapping);
            }
            Action::Unmapped(domain) => {
                let told = *state.domains[domain].told.first()?;
                state.unmap(domain, told);
            }
            Action::ExecuteOrder(node) => self.execute_order(&mut state, node)?,
            Action::ReceiveReport(node) => match state.nodes[node].reports.pop_front()? {
                Report::Released { mapping } => {
                    state.table.mapping_released(NodeId(node as u16), ChannelId(mapping));
                }
                Report::Ended { domain } => state.table.domain_ended(id(domain)),
            },
            Action::Kill(domain) => {
                state.faults -= 1;
                state.die(domain);
            }
            Action::Stop(domain) => {
                state.faults -= 1;
                state.domains[domain].stopped = true;
                if self.mistake == Mistake::TrustsConnections {
                    state.table.domain_ended(id(domain));
                    let mapped: Vec<u64> =
                        state.domains[domain].mapped.iter().map(|(number, _)| *number).collect();
                    for mapping in mapped {
                        state.table.mapping_released(NodeId(NODE_OF[domain] as u16), ChannelId(mapping));
                    }
                }
            }
            Action::Lose => {
                state.losses -= 1;
                state.nodes[1] = Node { dead: true, ..Node::default() };
                for domain in (0..DOMAINS).filter(|domain| NODE_OF[*domain] == 1) {
                    state.domains[domain] = Domain { dead: true, ..Domain::default() };
                    state.table.domain_ended(id(domain));
                }
                state.table.node_lost(NodeId(1));
            }
            Action::Tick => {
                state.ticks -= 1;
                state.now += 1;
                state.table.tick(state.now);
            }
        }
        self.settle(&mut state);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "no domain reaches memory that was revoked or is free",
                |_, state: &RevocationState| state.broken.is_none(),
            ),
            Property::always("when everybody is dead nothing is left", |_, state: &RevocationState| {
                let all_dead = state.domains.iter().all(|domain| domain.dead) && state.is_quiet();
                !all_dead
                    || (state.freed && state.table.resource_counts().iter().all(|(_, count)| *count == 0))
            }),
            Property::always("a revocation is answered", |model: &Revocation, state: &RevocationState| {
                // Holds in final states, except where the bound on timeouts of the root cut the run short.
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                let faults =
                    |action: &Action| matches!(action, Action::Stop(_) | Action::Kill(_) | Action::Lose);
                let over = actions.iter().all(faults);
                let cut_short = state.ticks == 0 && state.table.next_tick().is_some();
                !over || cut_short || state.open.is_empty()
            }),
            Property::sometimes("a revocation waits for a domain", |_, state: &RevocationState| {
                !state.open.is_empty() && state.domains.iter().any(|domain| !domain.told.is_empty())
            }),
        ]
    }
}

impl Revocation {
    fn map(&self, state: &mut RevocationState, domain: usize) {
        state.domains[domain].asked_to_map = true;
        let right = state.rights[domain];
        let Ok(mappable) = state.table.mappable(id(domain), right, Rights::READ, false, |_, _| true) else {
            return;
        };
        let mapping = state.next_mapping;
        state.next_mapping += 1;
        state.table.map(right, &mappable, ChannelId(mapping));
        state.nodes[NODE_OF[domain]].orders.push_back(Order::Map { domain, mapping });
    }

    fn execute_order(&self, state: &mut RevocationState, node: usize) -> Option<()> {
        match state.nodes[node].orders.pop_front()? {
            Order::Map { domain, mapping } if state.domains[domain].dead => {
                // The domain's end of the lifeline was dropped with the message.
                state.nodes[node].reports.push_back(Report::Released { mapping });
            }
            Order::Map { domain, mapping } => {
                state.domains[domain].mapped.insert((mapping, domain));
            }
            Order::HangUp { mapping } => {
                let holds = |record: &Domain| record.mapped.iter().any(|(number, _)| *number == mapping);
                if let Some(record) = state.domains.iter_mut().find(|record| holds(record)) {
                    record.told.insert(mapping);
                    if self.mistake == Mistake::SaysTooEarly {
                        state.nodes[node].reports.push_back(Report::Released { mapping });
                    }
                }
            }
            Order::Kill { domain } if state.domains[domain].dead => {}
            Order::Kill { domain } => state.die(domain),
        }
        Some(())
    }
}
