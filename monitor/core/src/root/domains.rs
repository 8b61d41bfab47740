//! Domains: starting, input, ending.

use std::time::Duration;

use tombolo_base::{DomainId, NodeId, Target};
use tombolo_control::observation::Happening;
use tombolo_control::{Exit, Fault, Order, ProgramSpec, Reply, SpawnRequest, StartOrder, streams};
use tombolo_machine::image::Image;

use super::observing::{ObservedDomain, describe_exit};
use super::steering::{Launch, start_reply};
use super::{
    ClientId, Core, DomainRecord, Effect, MAX_PROGRAM_CHARS, MAX_PROGRAMS, Nanos, NodeState, Resource,
    truncate_name,
};

const SIGKILL: u8 = 9;

impl Core {
    /// Admits a domain that attached by itself.
    pub(super) fn admit(
        &mut self,
        now: Nanos,
        node: NodeId,
        pid: i32,
        program: String,
    ) -> Result<DomainId, Fault> {
        self.check_node_limit(node)?;
        let domain = self
            .new_id(node)
            .ok_or_else(|| Fault::NodeDown { node: self.node_name(node), cause: "it is starting".into() })?;
        self.domains.insert(
            domain,
            DomainRecord {
                program,
                pid,
                since: now,
                parent: None,
                image: None,
                build: [0; 32],
                channels: 0,
                start_request: None,
                initial_capabilities: Vec::new(),
                pending_inputs: Vec::new(),
                observed: ObservedDomain::default(),
            },
        );
        self.domain_changed(domain);
        self.node_changed(node);
        Ok(domain)
    }

    pub(super) fn new_id(&mut self, id: NodeId) -> Option<DomainId> {
        let node = self.node(id).filter(|node| node.state == NodeState::Up)?;
        let domain = DomainId::new(id, node.generation, node.next_index);
        node.next_index = node.next_index.checked_add(1)?;
        Some(domain)
    }

    pub(super) fn spawn(
        &mut self,
        now: Nanos,
        client: ClientId,
        request: u32,
        parent: DomainId,
        spawn: SpawnRequest,
        image: Option<Result<Image, String>>,
    ) {
        if let Err(fault) = self.try_spawn(now, client, request, parent, spawn, image) {
            self.answer(client, request, Err(fault));
        }
    }

    pub(super) fn try_spawn(
        &mut self,
        now: Nanos,
        client: ClientId,
        request: u32,
        parent: DomainId,
        spawn: SpawnRequest,
        image: Option<Result<Image, String>>,
    ) -> Result<(), Fault> {
        let (node, target) = self.running_node(&spawn.node)?;
        check_side_stream(&spawn, target)?;
        self.check_children_limit(parent)?;
        self.check_node_limit(node)?;
        let image = self.image_of(parent, &spawn, image)?;
        let image_name =
            if spawn.own_image { image.name().to_owned() } else { truncate_name(&spawn.program.name) };
        let hash = match image.program(target) {
            Ok(program) => program.sha256,
            Err(_) => {
                let (node, available) = (spawn.node, image.targets());
                return Err(Fault::NoBuildForIsa { image: image_name, node, isa: target, available });
            }
        };
        self.provide_program(node, target, hash, &image)?;
        let domain = self.new_id(node).ok_or_else(|| Fault::Limit {
            what: format!("node {} has used all its domain ids; restart it", spawn.node),
        })?;
        let initial_capabilities = self.grant_initial_capabilities(parent, domain, &spawn.given)?;
        let name = match self.domains.get(&parent) {
            Some(parent) if spawn.own_image => parent.program.clone(),
            _ => program_name(&spawn.program.name),
        };
        let program = ProgramSpec { name, ..spawn.program };
        let launch = Launch { image: image.clone(), program: program.clone() };
        let observed = ObservedDomain::starting(launch);
        self.domains.insert(
            domain,
            DomainRecord {
                program: program.name.clone(),
                pid: 0,
                since: now,
                parent: Some((parent, Some(client))),
                image: Some(image),
                build: hash,
                channels: 0,
                start_request: Some(request),
                initial_capabilities,
                pending_inputs: Vec::new(),
                observed,
            },
        );
        self.domain_changed(domain);
        self.node_changed(node);
        self.send_order(node, Order::Start { order: StartOrder { domain, build: hash, program } });
        Ok(())
    }

    fn image_of(
        &self,
        parent: DomainId,
        spawn: &SpawnRequest,
        image: Option<Result<Image, String>>,
    ) -> Result<Image, Fault> {
        if spawn.own_image {
            let own = self.domains.get(&parent).and_then(|record| record.image.clone());
            return own.ok_or_else(|| Fault::Refused {
                why: "this program has no image of its own: it was not started by the machine \
                      (`tombolo run`), so name an image file"
                    .into(),
            });
        }
        match image {
            Some(Ok(image)) => Ok(image),
            Some(Err(why)) => Err(Fault::BadImage { why }),
            None => Err(Fault::Refused {
                why: "an image file can be passed only by programs on the host's kernel; from inside a virtual \
                      machine start programs from the caller's own image"
                    .into(),
            }),
        }
    }

    /// Sends a program to the node's agent, unless it has it, before any later order.
    fn provide_program(
        &mut self,
        id: NodeId,
        target: Target,
        hash: [u8; 32],
        image: &Image,
    ) -> Result<(), Fault> {
        let through_window = self.is_behind_window(id);
        let kept = self.machine.node(id).map_or(MAX_PROGRAMS, program_limit);
        let length_bytes = image.program(target).map_or(0, |program| program.bytes.len() as u64);
        let Some(node) = self.node(id) else { return Ok(()) };
        if let Some(index) = node.programs.iter().position(|known| *known == hash) {
            // The most recently used comes last.
            node.programs.remove(index);
            node.programs.push_back(hash);
            return Ok(());
        }
        let own_kernel = self.machine.kernel_of(id) != NodeId::HOST;
        let stream = (own_kernel && !through_window).then(|| self.new_channel());
        let window_offset_bytes = if let Some(stream) = stream {
            self.effects.push(Effect::StreamProgram { node: id, stream, image: image.clone(), target });
            None
        } else if through_window {
            let window =
                self.own_window(id).ok_or(Fault::System { what: "the node has no window".into() })?;
            let range = window.allocator.allocate(length_bytes).map_err(|full| Fault::Limit {
                what: format!("the window has no room for a program of {length_bytes} bytes: {full}"),
            })?;
            window.programs.push_back((hash, range));
            let inside = window.base_bytes.1;
            self.node_changed(id);
            let image = image.clone();
            self.effects.push(Effect::WriteProgram { node: id, range, image, target });
            Some(inside + range.offset_bytes)
        } else {
            self.effects.push(Effect::KeepProgram { node: id, hash, image: image.clone(), target });
            None
        };
        let passed = if own_kernel { Vec::new() } else { vec![Resource::Program(hash)] };
        let order = Order::Program { hash, length_bytes, window_offset_bytes, stream };
        self.effects.push(Effect::Order { node: id, order, passed });
        if let Some(node) = self.node(id) {
            node.programs.push_back(hash);
            if node.programs.len() > kept
                && let Some(hash) = node.programs.pop_front()
            {
                self.send_order(id, Order::Forget { hash });
            }
        }
        Ok(())
    }

    /// Records that an agent has copied a program. A program may be in flight twice, if it was dropped before
    /// it had arrived; an agent receives them in the order of sending.
    pub(super) fn program_taken(&mut self, node: NodeId, hash: [u8; 32]) {
        if let Some(window) = self.own_window(node)
            && let Some(first) = window.programs.iter().position(|(sent, _)| *sent == hash)
            && let Some((_, range)) = window.programs.remove(first)
        {
            window.allocator.free(range);
            self.node_changed(node);
        }
    }

    /// Handles a program that cannot be passed to a node: its pending starts fail.
    pub fn program_store_failed(&mut self, node: NodeId, hash: [u8; 32], why: &str) {
        let waits = |id: &DomainId, record: &DomainRecord| {
            id.node() == node && record.build == hash && record.pid == 0
        };
        let waiting: Vec<DomainId> =
            self.domains.iter().filter(|(id, record)| waits(id, record)).map(|(id, _)| *id).collect();
        waiting.into_iter().for_each(|domain| self.domain_not_started(domain, why.to_owned()));
    }

    pub(super) fn domain_started(&mut self, domain: DomainId, pid: i32) {
        let Some(record) = self.domains.get_mut(domain) else { return };
        record.pid = pid;
        let program = record.program.clone();
        let requester = record.start_request.take().zip(record.parent.and_then(|(_, client)| client));
        self.domain_changed(domain);
        self.record_domain_event(domain, Happening::DOMAIN_STARTED, program);
        if let Some((request, client)) = requester {
            self.answer(client, request, Ok(start_reply(request, domain)));
        }
    }

    pub(super) fn domain_not_started(&mut self, domain: DomainId, why: String) {
        let Some(mut record) = self.domains.remove(domain) else { return };
        if !tombolo_base::canary!("core leaves what it gave with who did not start") {
            self.release_domain_regions(domain);
        }
        self.forget_program(domain.node(), record.build);
        let observed = std::mem::take(&mut record.observed);
        self.discard_observed(domain, observed.output, observed.history);
        self.node_changed(domain.node());
        self.record_domain_event(domain, Happening::DOMAIN_NOT_STARTED, format!("{}: {why}", record.program));
        self.relay_ended(domain, &why);
        self.continue_move(domain);
        self.report_deferred_exits(domain, &[]);
        if let (Some(request), Some((_, Some(client)))) = (record.start_request, record.parent) {
            let fault = self.start_failed(request, domain.node(), why);
            self.answer(client, request, Err(fault));
        }
    }

    /// Forgets a program after a failed start, perhaps because the node had no memory for it. The next start
    /// sends the program again; until then the node keeps no program that the root has forgotten. An agent
    /// executes orders in turn, so starts in flight still find it.
    fn forget_program(&mut self, id: NodeId, hash: [u8; 32]) {
        if let Some(node) = self.node(id)
            && let Some(index) = node.programs.iter().position(|known| *known == hash)
        {
            node.programs.remove(index);
            self.send_order(id, Order::Forget { hash });
        }
    }

    /// Handles the end of a domain: ends its children, and notifies its parent.
    pub(super) fn domain_ended(&mut self, domain: DomainId, exit: Exit) {
        let Some(mut record) = self.domains.remove(domain) else { return };
        self.trace_owner_ended(domain);
        self.release_domain_regions(domain);
        if !tombolo_base::canary!("core keeps the names of the dead") {
            self.names.domain_ended(domain);
            self.node_exports.retain(|_, record| record.owner != domain);
        }
        self.pending_kills.retain(|(_, killed)| *killed != domain);
        // Its connection may still exist: a channel to it would have a dead peer.
        let clients = &self.clients;
        self.waiting.retain(|waiting| clients.get(&waiting.client).and_then(|of| of.domain) != Some(domain));
        for (_, client, request) in std::mem::take(&mut record.pending_inputs) {
            self.answer(client, request, Err(Fault::NoSuchDomain { domain }));
        }
        self.relay_ended(domain, &describe_exit(&exit));
        let children: Vec<DomainId> = self.domains.children(domain).collect();
        match (record.start_request, record.parent) {
            (Some(request), Some((_, Some(client)))) => {
                let why = "it ended before its node reported the start".into();
                let fault = self.start_failed(request, domain.node(), why);
                self.answer(client, request, Err(fault));
            }
            (None, Some(_)) if tombolo_base::canary!("core tells no parent of a death") => {}
            (None, Some(parent)) => self.report_end(domain, parent, exit.clone(), &children),
            _ => {}
        }
        self.report_deferred_exits(domain, &children);
        if record.parent.is_some() {
            self.record_domain_event(
                domain,
                Happening::DOMAIN_ENDED,
                format!("{} {}", record.program, describe_exit(&exit)),
            );
        }
        self.retire_domain(domain, record, exit);
        self.continue_move(domain);
        children.into_iter().for_each(|child| self.kill_now(child));
    }

    /// Kills a domain that was started here, immediately.
    pub(super) fn kill_now(&mut self, domain: DomainId) {
        self.send_order(domain.node(), Order::Signal { domain, signal: SIGKILL });
    }

    pub(super) fn kill(
        &mut self,
        now: Nanos,
        domain: DomainId,
        signal: u8,
        grace: Duration,
    ) -> Result<Reply, Fault> {
        self.managed_domain(domain)?;
        if !(1..=64).contains(&signal) {
            return Err(Fault::Refused {
                why: format!("invalid signal {signal}; use a number from 1 to 64"),
            });
        }
        self.send_order(domain.node(), Order::Signal { domain, signal });
        self.note_signal(now, domain, signal);
        if signal != SIGKILL && grace > Duration::ZERO {
            let grace_ns = Nanos::try_from(grace.as_nanos()).unwrap_or(Nanos::MAX);
            let at = now.saturating_add(grace_ns);
            match self.pending_kills.iter_mut().find(|(_, killed)| *killed == domain) {
                // A second request does not delay the end.
                Some((before, _)) => *before = at.min(*before),
                None => self.pending_kills.push((at, domain)),
            }
        }
        Ok(Reply::Done)
    }

    pub(super) fn run_pending_kills(&mut self, now: Nanos) {
        let due: Vec<DomainId> =
            self.pending_kills.iter().filter(|(at, _)| *at <= now).map(|(_, domain)| *domain).collect();
        self.pending_kills.retain(|(at, _)| *at > now);
        due.into_iter().for_each(|domain| self.kill_now(domain));
    }

    /// Returns the client that gets the output of a domain. For a side stream that is the parent; for other
    /// streams the one that started the whole job, the nearest ancestor that the machine did not start.
    pub(super) fn output_owner(&self, domain: DomainId, stream: u8) -> Option<ClientId> {
        let mut owner = None;
        let mut next = Some(domain);
        while let Some(domain) = next {
            let parent = match self.domains.get(&domain) {
                Some(record) => record.parent,
                None => self.deferred_exits.parent(domain),
            };
            next = parent.map(|(parent, client)| {
                owner = client;
                parent
            });
            if stream == streams::SIDE {
                break;
            }
        }
        owner.filter(|client| self.clients.contains_key(client))
    }

    pub(super) fn domain_output(&mut self, domain: DomainId, stream: u8, bytes: Vec<u8>) {
        self.record_output(domain, stream, &bytes);
        match self.output_owner(domain, stream) {
            Some(client) => self.deliver(client, 0, Reply::Output { domain, stream, bytes }),
            None => {
                // The reader is gone, and the writer is being killed.
                let bytes = bytes.len() as u32;
                self.send_order(domain.node(), Order::OutputTaken { domain, stream, bytes });
            }
        }
    }

    pub(super) fn input(
        &mut self,
        client: ClientId,
        request: u32,
        domain: DomainId,
        stream: u8,
        bytes: Vec<u8>,
    ) {
        match self.check_feed(client, domain, stream, bytes.is_empty()) {
            Ok(()) => {
                if let Some(record) = self.domains.get_mut(domain) {
                    record.pending_inputs.push((stream, client, request));
                }
                if let Some(record) = self.clients.get_mut(&client) {
                    record.has_pending_input = true;
                }
                self.send_order(domain.node(), Order::Input { domain, stream, bytes });
            }
            Err(fault) => self.answer(client, request, Err(fault)),
        }
    }

    /// Returns whether a client may feed a stream of a domain now. An end may follow input that is still
    /// pending.
    fn check_feed(&self, client: ClientId, domain: DomainId, stream: u8, ends: bool) -> Result<(), Fault> {
        let record = self.domains.get(&domain).ok_or(Fault::NoSuchDomain { domain })?;
        let refused = |why: String| Err(Fault::Refused { why });
        match stream {
            streams::INPUT => {}
            streams::SIDE if self.output_owner(domain, stream) == Some(client) => {}
            streams::SIDE => {
                return refused(format!(
                    "only the domain that started domain {domain} can use its side stream"
                ));
            }
            _ => return refused(format!("domain {domain} has no input {stream}")),
        }
        match record.pending_inputs.iter().filter(|(of, ..)| *of == stream).count() {
            0 => Ok(()),
            1 if ends => Ok(()),
            _ => refused(format!("domain {domain} has not taken the previous input yet")),
        }
    }

    pub(super) fn input_taken(&mut self, domain: DomainId, stream: u8) {
        // An agent handles input in order.
        if let Some(record) = self.domains.get_mut(domain)
            && let Some(first) = record.pending_inputs.iter().position(|(of, ..)| *of == stream)
        {
            let (_, client, request) = record.pending_inputs.remove(first);
            self.answer(client, request, Ok(Reply::Done));
        }
    }
}

/// Maximum length of the name of the variable that announces a side stream.
const MAX_VARIABLE_BYTES: usize = 64;

/// Checks that a program supports the requested side stream, if any.
fn check_side_stream(spawn: &SpawnRequest, target: Target) -> Result<(), Fault> {
    let Some(variable) = &spawn.program.side else { return Ok(()) };
    let refused = |why: String| Err(Fault::Refused { why });
    let named = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if !(1..=MAX_VARIABLE_BYTES).contains(&variable.len()) || !variable.bytes().all(named) {
        return refused(format!(
            "invalid name '{}' for the variable of a side stream; use letters, digits and `_`",
            truncate_name(variable)
        ));
    }
    if target.bare {
        return refused(format!(
            "a program on a board has no side stream, and node {} is one",
            truncate_name(&spawn.node)
        ));
    }
    Ok(())
}

/// Returns the number of programs that a node's agent keeps for later starts: a board has little memory for
/// them.
fn program_limit(node: &tombolo_machine::Node) -> usize {
    if node.as_bare().is_some() { 1 } else { MAX_PROGRAMS }
}

/// Returns the name of a program, derived from its image's file name: a plain executable contains no name.
fn program_name(image_name: &str) -> String {
    let name = image_name.strip_suffix(".tbi").unwrap_or(image_name);
    let name: String = name.chars().take(MAX_PROGRAM_CHARS).collect();
    if name.is_empty() { "program".into() } else { name }
}
