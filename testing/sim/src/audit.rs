//! Invariants of the root: an independent model, fed with all inputs and effects of the root's core.
//!
//! It knows less than the core and makes no decisions, so that it does not repeat the core's bugs.

use std::collections::{BTreeMap, BTreeSet};

use tombolo_base::{ChannelId, DomainId};
use tombolo_control::{
    Attachment, CapabilityId, ClientMessage, Fault, Grant, MonitorMessage, Order, Reply, Report, Request,
    Wire,
};
use tombolo_link::window::WindowRange;
use tombolo_monitor_core::root::{ClientId, Effect};
use tombolo_naming::{Answer, Operation, Scope};

use crate::rights::RightsModel;

/// State of a client, derived from its requests and the answers.
#[derive(Debug, Default)]
struct ClientModel {
    domain: Option<DomainId>,
    spawned: Option<DomainId>,
    asked: BTreeMap<u32, Request>,
}

#[derive(Debug)]
struct DomainModel {
    /// Whether it was started by the machine.
    is_started: bool,
    /// The connection of the client that asked for it, as long as it exists.
    parent: Option<ClientId>,
    /// The domain of that client.
    of: Option<DomainId>,
    /// The request that asked for it, until that is answered.
    starting: Option<u32>,
}

#[derive(Debug)]
struct ChannelModel {
    window: u16,
    offset_bytes: u64,
    vector: Option<u16>,
    held_by: Vec<u16>,
}

/// Effects that the core must emit before the next request.
#[derive(Clone, PartialEq, Eq, Debug)]
enum RequiredEffect {
    Told(ClientId, DomainId),
    Answer(ClientId, u32),
    HangUp(u16, ChannelId),
    Dismissed(ClientId),
    Output(DomainId, u8, Vec<u8>),
}

/// A range of a window that is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Lent {
    offset_bytes: u64,
    length_bytes: u64,
    /// Hash of the program being transferred; `None` if a channel uses the range.
    program: Option<[u8; 32]>,
}

/// The model of the root.
#[derive(Debug, Default)]
pub struct Audit {
    clients: BTreeMap<ClientId, ClientModel>,
    joined_ever: BTreeSet<(u16, u16, u32)>,
    domains: BTreeMap<DomainId, DomainModel>,
    domains_ever: BTreeSet<DomainId>,
    names: BTreeMap<String, (ClientId, DomainId, u32)>,
    channels: BTreeMap<ChannelId, ChannelModel>,
    newest_channel: u64,
    /// Machine-scope locks that are held: owner and token.
    locks: BTreeMap<String, (ClientId, u64)>,
    newest_tokens: BTreeMap<String, u64>,
    lent: BTreeMap<u16, Vec<Lent>>,
    vectors: BTreeMap<u16, BTreeSet<u16>>,
    generations: BTreeMap<u16, u16>,
    down: BTreeSet<u16>,
    /// Nodes with a window.
    windowed: BTreeSet<u16>,
    /// Regions and capabilities.
    pub rights: RightsModel,
    due: Vec<RequiredEffect>,
    /// Effects due once all of these domains have ended.
    held: Vec<(ClientId, DomainId, BTreeSet<DomainId>)>,
    current: Option<(ClientId, u32)>,
    failure: Option<String>,
}

impl Audit {
    /// A model of a machine of which these nodes have windows, and whose domains have so long to let revoked
    /// memory go.
    #[must_use]
    pub fn new(windowed: BTreeSet<u16>, unmap_timeout_ns: u64) -> Self {
        let rights = RightsModel::new(windowed.clone(), unmap_timeout_ns);
        Audit { windowed, rights, ..Audit::default() }
    }

    /// Returns the first violated invariant.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Records the violation of an invariant.
    pub fn fail(&mut self, what: impl Into<String>) {
        self.failure.get_or_insert(what.into());
    }

    fn require(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.fail(what());
        }
    }

    /// Updates the model before the core handles a report.
    pub fn before_report(&mut self, node: u16, report: &Report) {
        match report {
            Report::Joined { connection, domain, .. } => {
                let generation = self.generations.get(&node).copied().unwrap_or(0);
                let fresh = self.joined_ever.insert((node, generation, *connection));
                self.require(fresh, || format!("node {node} numbered two connections {connection}"));
                let model = ClientModel { spawned: *domain, ..ClientModel::default() };
                self.clients.insert(client(node, *connection), model);
            }
            Report::Asked { connection, message } => self.on_request(client(node, *connection), message),
            Report::Left { connection } => self.client_disconnected(client(node, *connection)),
            Report::Started { domain, .. } => {
                if let Some(model) = self.domains.get_mut(domain)
                    && let (Some(request), Some(parent)) = (model.starting.take(), model.parent)
                {
                    self.answer_due(parent, request);
                }
            }
            Report::NotStarted { domain, .. } | Report::Ended { domain, .. } => {
                let told = matches!(report, Report::Ended { .. });
                self.domain_ended(*domain, told);
            }
            Report::Output { domain, stream, bytes } => {
                self.due.push(RequiredEffect::Output(*domain, *stream, bytes.clone()));
            }
            Report::Released { channel } => {
                self.on_channel_released(node, *channel);
                self.rights.on_mapping_released(node, channel.0);
            }
            Report::ProgramTaken { hash } => {
                let lent = self.lent.entry(node).or_default();
                if let Some(index) = lent.iter().position(|lent| lent.program == Some(*hash)) {
                    lent.remove(index);
                }
            }
            Report::Ready { .. }
            | Report::InputTaken { .. }
            | Report::TraceBytes { .. }
            | Report::NamesSay { .. }
            | Report::Exported { .. }
            | Report::Withdrawn { .. }
            | Report::RegionMade { .. }
            | Report::Sampled { .. }
            | Report::Probed { .. }
            | Report::FrequencySet { .. } => {}
            Report::RegionSealed { region, failed } => {
                self.rights.on_region_sealed(*region, failed.is_none());
            }
        }
        self.collect_rights_results();
    }

    /// Records a failure found by the model of regions and capabilities.
    fn collect_rights_results(&mut self) {
        for (client, request) in self.rights.take_due_answers() {
            self.answer_due(client, request);
        }
        let hang_ups = self.rights.take_hang_ups();
        self.due.extend(
            hang_ups.into_iter().map(|(node, number)| RequiredEffect::HangUp(node, ChannelId(number))),
        );
        if let Some(what) = self.rights.take_failure() {
            self.fail(what);
        }
    }

    fn on_request(&mut self, client: ClientId, message: &[u8]) {
        let Some(model) = self.clients.get_mut(&client) else { return };
        let Ok(ClientMessage { request, body }) = ClientMessage::from_bytes(message) else {
            self.due.push(RequiredEffect::Dismissed(client));
            return self.client_disconnected(client);
        };
        if model.domain.is_some_and(|domain| !self.domains.contains_key(&domain)) {
            // The last request of a dead domain: there is no connection to answer on.
            return;
        }
        if let Request::Withdraw { listener } = body {
            self.names.retain(|_, (by, _, of)| (*by, *of) != (client, listener));
        }
        if let Request::Names { scope: Scope::Machine, operation: Operation::Unlock { name, token } } = &body
            && self.locks.get(name) == Some(&(client, *token))
        {
            self.locks.remove(name);
        }
        self.current = Some((client, request));
        let by = model.domain;
        let own =
            |name: &str| name == if client.0.0 == 0 { "host".into() } else { format!("n{}", client.0.0) };
        let by_agent = matches!(&body, Request::Names { scope: Scope::Node(name), .. } if own(name));
        // What a client asks about the names of its own node, by whatever scope, its agent answers.
        if let Some(by) = by {
            self.rights.on_request((client, request), by, &body, |domain| self.domains.contains_key(&domain));
        }
        if request != 0 && !by_agent {
            model.asked.insert(request, body);
        }
    }

    fn client_disconnected(&mut self, client: ClientId) {
        let Some(model) = self.clients.remove(&client) else { return };
        self.names.retain(|_, (by, ..)| *by != client);
        self.locks.retain(|_, (by, _)| *by != client);
        self.rights.client_disconnected(client);
        for child in self.domains.values_mut() {
            // A later connection may reuse the number.
            child.parent.take_if(|parent| *parent == client);
        }
        self.held.retain(|(told, ..)| *told != client);
        if let Some(domain) = model.domain
            && model.spawned.is_none()
        {
            self.domains.remove(&domain);
            self.rights.domain_ended(domain);
        }
    }

    fn answer_due(&mut self, client: ClientId, request: u32) {
        if self.clients.get(&client).is_some_and(|model| model.asked.contains_key(&request)) {
            self.due.push(RequiredEffect::Answer(client, request));
        }
    }

    fn domain_ended(&mut self, domain: DomainId, told: bool) {
        let Some(model) = self.domains.remove(&domain) else { return };
        self.rights.domain_ended(domain);
        self.names.retain(|_, (_, owner, _)| *owner != domain);
        let clients = &self.clients;
        self.locks.retain(|_, (by, _)| clients.get(by).is_some_and(|model| model.domain != Some(domain)));
        let of_it = |(child, model): (&DomainId, &DomainModel)| (model.of == Some(domain)).then_some(*child);
        let children: BTreeSet<DomainId> = self.domains.iter().filter_map(of_it).collect();
        for (.., descendants) in &mut self.held {
            if descendants.remove(&domain) {
                descendants.extend(&children);
            }
        }
        for (client, ended, _) in self.held.extract_if(.., |(.., descendants)| descendants.is_empty()) {
            self.due.push(RequiredEffect::Told(client, ended));
        }
        let Some(parent) = model.parent.filter(|parent| self.clients.contains_key(parent)) else { return };
        match model.starting {
            Some(request) => self.answer_due(parent, request),
            None if told && children.is_empty() => self.due.push(RequiredEffect::Told(parent, domain)),
            None if told => self.held.push((parent, domain, children)),
            None => {}
        }
    }

    fn on_channel_released(&mut self, node: u16, channel: ChannelId) {
        let Some(model) = self.channels.get_mut(&channel) else { return };
        let before = model.held_by.len();
        model.held_by.retain(|holder| *holder != node);
        if model.held_by.len() == before {
            return;
        }
        if let Some(other) = model.held_by.first() {
            return self.due.push(RequiredEffect::HangUp(*other, channel));
        }
        if let Some(model) = self.channels.remove(&channel) {
            let lent = self.lent.entry(model.window).or_default();
            lent.retain(|lent| lent.offset_bytes != model.offset_bytes);
            if let Some(vector) = model.vector {
                self.vectors.entry(model.window).or_default().remove(&vector);
            }
        }
    }

    /// Updates the model before the core learns that a node is lost.
    pub fn before_node_lost(&mut self, node: u16) {
        if !self.down.insert(node) {
            return;
        }
        let here = |(of, _): &ClientId| of.0 == node;
        let clients: Vec<ClientId> = self.clients.keys().copied().filter(|client| here(client)).collect();
        clients.into_iter().for_each(|client| self.client_disconnected(client));
        let domains: Vec<DomainId> =
            self.domains.keys().copied().filter(|domain| domain.node().0 == node).collect();
        domains.into_iter().for_each(|domain| self.domain_ended(domain, true));
        let channels: Vec<ChannelId> = self.channels.keys().copied().collect();
        channels.into_iter().for_each(|channel| self.on_channel_released(node, channel));
        self.channels.retain(|_, model| model.window != node);
        self.lent.remove(&node);
        self.vectors.remove(&node);
        self.rights.node_lost(node);
        self.collect_rights_results();
        // Nor is anything due there, though it may start again before that is looked at.
        self.due.retain(|due| !matches!(due, RequiredEffect::HangUp(of, _) if *of == node));
    }

    /// Checks an effect of the core against the model.
    pub fn effect(&mut self, effect: &Effect) {
        match effect {
            Effect::Order { node, order, .. } => self.order(node.0, order),
            Effect::Boot { node, generation } => {
                let before = self.generations.insert(node.0, generation.get()).unwrap_or(0);
                self.require(generation.get() > before, || {
                    format!("node {} starts again in generation {generation}, it was {before}", node.0)
                });
                self.down.remove(&node.0);
            }
            Effect::Destroy { node } => {
                self.rights.maps.destroyed(node.0);
                self.before_node_lost(node.0);
            }
            Effect::ClearWindow { window, range } => {
                // Windows of nodes with the host are numbered in the order of the nodes.
                let node = self.windowed.iter().nth(usize::from(window.0)).copied();
                self.on_range_cleared(node.unwrap_or_default(), *range);
            }
            _ => {}
        }
    }

    fn order(&mut self, node: u16, order: &Order) {
        match order {
            Order::Deliver { connection, channel, attachments, message } => {
                match MonitorMessage::from_bytes(message) {
                    Ok(message) => {
                        self.on_message_delivered(client(node, *connection), *channel, attachments, message);
                    }
                    Err(error) => self.fail(format!("the root says nonsense to a client: {error}")),
                }
            }
            Order::Start { order } => {
                let (parent, request) = self.current.unzip();
                let of = parent.and_then(|parent| self.clients.get(&parent)?.domain);
                self.admit(order.domain, DomainModel { is_started: true, parent, of, starting: request });
            }
            Order::Program { hash, length_bytes, window_offset_bytes: Some(offset_bytes), .. } => {
                let lent = Lent {
                    offset_bytes: *offset_bytes,
                    length_bytes: length_bytes.next_multiple_of(4096),
                    program: Some(*hash),
                };
                self.lend(node, lent);
            }
            Order::RegionForget { region } => {
                self.rights.on_memory_freed(*region);
                self.collect_rights_results();
            }
            Order::HangUp { channel } => self.done(&RequiredEffect::HangUp(node, *channel)),
            Order::Dismiss { connection } => {
                let client = client(node, *connection);
                self.done(&RequiredEffect::Dismissed(client));
                self.client_disconnected(client);
            }
            Order::OutputTaken { domain, stream, bytes } => {
                let dropped = |due: &RequiredEffect| {
                    matches!(due, RequiredEffect::Output(of, from, what)
                        if (of, from, what.len()) == (domain, stream, *bytes as usize))
                };
                if let Some(index) = self.due.iter().position(dropped) {
                    self.due.remove(index);
                }
            }
            _ => {}
        }
    }

    /// A domain is ordered to start: the capabilities that the core made for it.
    pub fn started_with(&mut self, domain: DomainId, made: &[(String, CapabilityId)]) {
        let Some((client, request)) = self.current else { return };
        let Some(model) = self.clients.get(&client) else { return };
        if let (Some(by), Some(Request::Spawn { spawn })) = (model.domain, model.asked.get(&request)) {
            self.rights.started_with(by, domain, &spawn.given, made);
            self.collect_rights_results();
        }
    }

    fn on_range_cleared(&mut self, node: u16, range: WindowRange) {
        let WindowRange { offset_bytes, length_bytes } = range;
        let generation = self.generations.get(&node).copied().unwrap_or(0);
        self.rights.on_range_cleared(node, generation, offset_bytes, length_bytes);
        let overlaps = |lent: &&Lent| {
            offset_bytes < lent.offset_bytes + lent.length_bytes
                && lent.offset_bytes < offset_bytes + length_bytes
        };
        if let Some(lent) = self.lent.get(&node).and_then(|all| all.iter().find(overlaps)).copied() {
            self.fail(format!("{range:?} of node {node}'s window is cleared while it is lent: {lent:?}"));
        }
        self.collect_rights_results();
    }

    fn done(&mut self, what: &RequiredEffect) {
        if let Some(index) = self.due.iter().position(|due| due == what) {
            self.due.remove(index);
        }
    }

    fn admit(&mut self, domain: DomainId, model: DomainModel) {
        let generation = self.generations.get(&domain.node().0).copied().unwrap_or(0);
        self.require(domain.generation().get() == generation, || {
            format!("domain {domain} was admitted in generation {generation} of its node")
        });
        let fresh = self.domains_ever.insert(domain);
        self.require(fresh, || format!("the id {domain} was given out twice"));
        self.domains.insert(domain, model);
    }

    fn lend(&mut self, node: u16, lent: Lent) {
        let generation = self.generations.get(&node).copied().unwrap_or(0);
        self.rights.on_range_lent(node, generation, lent.offset_bytes, lent.length_bytes);
        self.collect_rights_results();
        let all = self.lent.entry(node).or_default();
        let end = lent.offset_bytes + lent.length_bytes;
        let overlaps = all.iter().copied().find(|other| {
            lent.offset_bytes < other.offset_bytes + other.length_bytes && other.offset_bytes < end
        });
        all.push(lent);
        if let Some(other) = overlaps {
            self.fail(format!("a range of node {node}'s window is lent twice: {lent:?} and {other:?}"));
        }
    }

    fn on_message_delivered(
        &mut self,
        to: ClientId,
        channel: ChannelId,
        attachments: &[Attachment],
        message: MonitorMessage,
    ) {
        let Some(model) = self.clients.get_mut(&to) else {
            // It left meanwhile. A grant lends all the same, until the agents let go.
            if let Reply::Connect { grant } | Reply::Incoming { grant, .. } = &message.body {
                self.on_granted(to.0.0, channel, grant, attachments);
            }
            return;
        };
        let (by, asked) = (model.domain, model.asked.remove(&message.request));
        if message.request != 0 {
            self.done(&RequiredEffect::Answer(to, message.request));
            if asked.is_none() {
                return self.fail(format!(
                    "client {to:?} got an answer to request {}, which it did not ask or was answered: {:?}",
                    message.request, message.body
                ));
            }
        }
        if let (Some(asked), Some(by)) = (&asked, by) {
            let lives = |domain| self.domains.contains_key(&domain);
            self.rights.check_reply((to, message.request), by, asked, (&message.body, channel.0), lives);
            self.collect_rights_results();
        }
        match message.body {
            Reply::Attach { domain, spawned, .. } => self.on_attached(to, domain, spawned),
            Reply::Export { listener } => {
                if let Some(Request::Export { name, .. }) = asked {
                    self.on_exported(to, name, listener);
                }
            }
            Reply::Spawn { domain } => {
                self.require(self.domains.contains_key(&domain), || {
                    format!("domain {domain} was said to be spawned and does not live")
                });
            }
            Reply::Connect { grant } | Reply::Incoming { grant, .. } => {
                let place = asked.as_ref().and_then(|asked| requested_node(to, asked));
                self.require(place.is_none_or(|node| grant.peer.node() == node), || {
                    format!("{to:?} asked for a name by {asked:?} and was joined with {}", grant.peer)
                });
                self.require(self.domains.contains_key(&grant.peer), || {
                    format!("{} was granted to {to:?} with {}, which is dead", grant.channel, grant.peer)
                });
                self.on_granted(to.0.0, channel, &grant, attachments);
            }
            Reply::Failed { fault: Fault::NameTaken { name, owner } } => {
                let real = self.names.get(&name).map(|(_, owner, _)| *owner);
                self.require(real == Some(owner), || {
                    format!("'{name}' is said to be taken by {owner}, its owner is {real:?}")
                });
            }
            Reply::Names { origin: None, answer } => self.on_names_answer(to, answer, asked),
            Reply::Domains { domains, .. } => {
                for info in domains {
                    let lives = self.domains.contains_key(&info.id);
                    self.require(lives, || format!("{} is listed and does not live", info.id));
                }
            }
            Reply::Ended { domain, .. } => {
                let due = RequiredEffect::Told(to, domain);
                self.require(self.due.contains(&due), || {
                    format!("client {to:?} is told once too often that {domain} ended")
                });
                self.done(&due);
            }
            Reply::Output { domain, stream, bytes } => {
                let due = RequiredEffect::Output(domain, stream, bytes);
                self.require(self.due.contains(&due), || format!("{domain} never wrote what is shown"));
                self.done(&due);
            }
            _ => {}
        }
    }

    /// The machine's names answer.
    fn on_names_answer(&mut self, to: ClientId, answer: Answer, asked: Option<Request>) {
        match (answer, asked) {
            (Answer::Found { records, .. }, _) => {
                for record in records {
                    let real = self.names.get(&record.name).map(|(_, owner, _)| *owner);
                    self.require(record.owner.is_none() || record.owner == real, || {
                        format!("'{}' is listed as of {:?}, its owner is {real:?}", record.name, record.owner)
                    });
                }
            }
            (
                Answer::Locked { token },
                Some(Request::Names { operation: Operation::Lock { name, .. }, .. }),
            ) => {
                let newest = self.newest_tokens.insert(name.clone(), token).unwrap_or(0);
                self.require(token > newest, || format!("lock '{name}' has token {token} after {newest}"));
                if let Some((holder, _)) = self.locks.insert(name.clone(), (to, token)) {
                    self.fail(format!("lock '{name}' was given to {to:?} while {holder:?} holds it"));
                }
            }
            _ => {}
        }
    }

    fn on_attached(&mut self, to: ClientId, domain: DomainId, spawned: bool) {
        if spawned {
            let lives = self.domains.contains_key(&domain);
            self.require(lives, || format!("{domain} attached after its end"));
        } else {
            self.admit(domain, DomainModel { is_started: false, parent: None, of: None, starting: None });
        }
        if let Some(model) = self.clients.get_mut(&to) {
            model.domain = Some(domain);
            if !spawned {
                model.spawned = None;
            }
        }
    }

    fn on_exported(&mut self, to: ClientId, name: String, listener: u32) {
        let Some(owner) = self.clients.get(&to).and_then(|model| model.domain) else {
            return self.fail(format!("'{name}' was given to a client that is not attached"));
        };
        let lives = self.domains.contains_key(&owner);
        self.require(lives, || format!("'{name}' was given to {owner}, which is dead"));
        if let Some((_, before, _)) = self.names.insert(name.clone(), (to, owner, listener)) {
            self.fail(format!("'{name}' was given to {owner} while {before} has it"));
        }
    }

    fn on_granted(&mut self, to: u16, channel: ChannelId, grant: &Grant, attachments: &[Attachment]) {
        let Some(place) = &grant.window else {
            return self.require(channel == grant.channel, || format!("{channel} is granted as {grant:?}"));
        };
        let peer = grant.peer.node().0;
        let window = if self.windowed.contains(&to) { to } else { peer };
        if !self.channels.contains_key(&channel) {
            let fresh = channel.0 > self.newest_channel;
            self.require(fresh, || format!("{channel} was given out twice"));
            self.newest_channel = self.newest_channel.max(channel.0);
            let offset_bytes = place.offset_bytes;
            self.lend(window, Lent { offset_bytes, length_bytes: place.length_bytes, program: None });
            let model = ChannelModel { window, offset_bytes, vector: None, held_by: vec![to, peer] };
            self.channels.insert(channel, model);
        }
        let vector = attachments.iter().find_map(|attachment| match attachment {
            Attachment::Interrupt { vector, .. } => Some(*vector),
            _ => None,
        });
        let Some(model) = self.channels.get_mut(&channel) else { return };
        let same = model.offset_bytes == place.offset_bytes;
        let free = vector.is_none_or(|vector| self.vectors.entry(window).or_default().insert(vector));
        model.vector = model.vector.or(vector);
        self.require(same, || format!("the two ends of {channel} were granted different ranges"));
        self.require(free, || format!("doorbell {vector:?} of node {window} is lent twice"));
    }

    /// Checks, after the core handled an input, that it emitted all effects that were due.
    pub fn check_effects(&mut self) {
        self.current = None;
        self.rights.check_settled();
        self.collect_rights_results();
        let due = std::mem::take(&mut self.due);
        let still_due = due.into_iter().find(|due| match due {
            // A client that has disconnected is told nothing.
            RequiredEffect::Told(client, _) | RequiredEffect::Answer(client, _) => {
                self.clients.contains_key(client)
            }
            RequiredEffect::HangUp(node, _) => !self.down.contains(node),
            RequiredEffect::Dismissed(_) | RequiredEffect::Output(..) => true,
        });
        if let Some(due) = still_due {
            self.fail(format!("the root did not do what was due: {due:?}"));
        }
    }

    /// Returns the requests of live clients that are not answered yet.
    #[must_use]
    pub fn unanswered(&self) -> Vec<(ClientId, u32, &Request)> {
        let of = |(client, model): (&ClientId, &'_ ClientModel)| {
            let client = *client;
            model.asked.keys().map(move |request| (client, *request)).collect::<Vec<_>>()
        };
        let all: Vec<(ClientId, u32)> = self.clients.iter().flat_map(of).collect();
        all.into_iter()
            .filter_map(|(client, request)| {
                self.clients.get(&client)?.asked.get(&request).map(|body| (client, request, body))
            })
            .collect()
    }

    /// A domain that holds revoked memory though the machine started it, and can kill it.
    #[must_use]
    pub fn find_unkilled_domain(&self) -> Option<(DomainId, CapabilityId)> {
        let of_machine = |domain| self.domains.get(&domain).is_some_and(|model| model.is_started);
        self.rights.find_unkilled_holder(of_machine)
    }

    /// Describes what is left after all domains except `clients` clients have ended.
    #[must_use]
    pub fn leftovers(&self, clients: usize) -> Option<String> {
        let counts = [
            ("clients", self.clients.len().saturating_sub(clients)),
            ("domains", self.domains.len().saturating_sub(clients)),
            ("names", self.names.len()),
            ("locks", self.locks.len()),
            ("channels in windows", self.channels.len()),
            ("ranges lent", self.lent.values().map(Vec::len).sum()),
            ("doorbells lent", self.vectors.values().map(BTreeSet::len).sum()),
        ];
        let left: Vec<String> = counts
            .iter()
            .chain(&self.rights.remaining_objects())
            .filter(|(_, count)| *count > 0)
            .map(|(what, count)| format!("{count} {what}"))
            .collect();
        (!left.is_empty()).then(|| left.join(", "))
    }
}

fn client(node: u16, connection: u32) -> ClientId {
    (tombolo_base::NodeId(node), connection)
}

/// The node whose name a client asked to be connected to, if it is one's own and not the machine's.
fn requested_node(client: ClientId, asked: &Request) -> Option<tombolo_base::NodeId> {
    match asked {
        Request::Connect { scope: Scope::Own, .. } => Some(client.0),
        Request::Connect { scope: Scope::Node(name), .. } => {
            let number = name.strip_prefix('n').and_then(|number| number.parse().ok());
            Some(tombolo_base::NodeId(number.unwrap_or(0)))
        }
        _ => None,
    }
}
