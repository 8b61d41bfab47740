//! Requests of clients.

use std::time::Duration;

use tombolo_base::DomainId;
use tombolo_capability::Recipient;
use tombolo_control::FINGERPRINT;
use tombolo_control::{ClientMessage, DomainInfo, Exit, Fault, Order, Reply, Request, Wire};
use tombolo_machine::image::Image;

use super::regions::Refusal;
use super::steering::Frequency;
use super::{ClientId, ClientRecord, Core, Destination, MAX_PROGRAM_CHARS, Nanos};

/// Maximum number of entries per page of a listing; the rest follows on demand.
const PAGE: usize = 100;

impl Core {
    pub(super) fn handle_request(
        &mut self,
        now: Nanos,
        client: ClientId,
        message: &[u8],
        image: Option<Result<Image, String>>,
    ) {
        if !self.clients.contains_key(&client) {
            return;
        }
        match ClientMessage::from_bytes(message) {
            Ok(ClientMessage { request, body }) => self.dispatch_request(now, client, request, body, image),
            Err(_) => {
                // Dismiss a client that sends something invalid; its node's agent reports the end of the
                // connection.
                let (node, connection) = client;
                self.send_order(node, Order::Dismiss { connection });
                self.client_left(client);
            }
        }
    }

    fn dispatch_request(
        &mut self,
        now: Nanos,
        client: ClientId,
        request: u32,
        body: Request,
        image: Option<Result<Image, String>>,
    ) {
        let domain = match (self.clients.get(&client).and_then(|record| record.domain), &body) {
            (_, Request::Attach { version, program }) => {
                let result = self.attach(now, client, *version, program);
                return self.attached(client, request, result);
            }
            (Some(domain), _) if self.domains.contains_key(&domain) => domain,
            // A request of a domain whose end was reported before that of its connection: no process is left
            // to read the answer.
            (Some(_), _) => return,
            (None, _) => {
                let fault = Fault::Refused { why: "attach to the monitor first".into() };
                return self.answer(client, request, Err(fault));
            }
        };
        let result = match body {
            Request::Attach { .. } => return,
            Request::Export { .. } if self.relays.has(domain) => {
                if let Some(reply) = self.register_relay_listener(client, domain) {
                    self.answer(client, request, Ok(reply));
                    self.open_pending(domain.node());
                }
                return;
            }
            Request::Export { scope, name } => {
                let result = self.export(client, domain, scope, name);
                self.answer(client, request, result);
                return self.serve_waiting(client);
            }
            Request::Accepted { count } => return self.accepted(client, count),
            Request::Withdraw { listener } => {
                self.names.withdraw(client, listener);
                self.listener_withdrawn(client, Some(listener));
                Ok(Reply::Done)
            }
            Request::Connect { scope, name, timeout, config, by } => {
                let to = match by {
                    Some(capability) => Ok(Destination::Service { by: domain, capability }),
                    None => self.resolve_name(client, scope, name).map(Destination::Name),
                };
                return match to {
                    Ok(to) => self.connect(now, client, request, to, timeout, config),
                    Err(fault) => self.answer(client, request, Err(fault)),
                };
            }
            Request::Spawn { spawn } => return self.spawn(now, client, request, domain, spawn, image),
            Request::Kill { domain, signal, grace } => self.kill(now, domain, signal, grace),
            Request::Domains { after } => Ok(self.list_domains(now, after)),
            Request::Names { scope, operation } => {
                let result = self.request_names(now, client, domain, request, scope, operation);
                if let Err(fault) = result {
                    self.answer(client, request, Err(fault));
                }
                return;
            }
            Request::Nodes { from } => Ok(self.page_of_nodes(from)),
            Request::Windows { from } => Ok(self.page_of_windows(from)),
            Request::ConsoleOpen { node } => {
                let result = self.console_open(client, &node);
                self.answer(client, request, result);
                return self.send_retained_console(client, &node);
            }
            Request::ConsoleInput { node, bytes } => self.console_input(&node, bytes),
            Request::ConsoleTaken { node, bytes } => return self.console_taken(client, &node, bytes),
            Request::OutputTaken { domain, stream, bytes } => {
                if self.output_owner(domain, stream) != Some(client) {
                    // Other domains' input must not be acknowledged: the writer would run ahead of its
                    // reader.
                    return;
                }
                let order = Order::OutputTaken { domain, stream, bytes };
                return self.send_order(domain.node(), order);
            }
            Request::Input { domain, stream, bytes } => {
                return self.input(client, request, domain, stream, bytes);
            }
            Request::Down => {
                self.answer(client, request, Ok(Reply::Done));
                return self.shut_down(now);
            }
            Request::Restart { node, force } => return self.restart(now, (client, request), &node, force),
            Request::Trace { on, keep_first, while_attached } => {
                self.trace(on, keep_first, while_attached.then_some(client))
            }
            Request::Traced { after } => Ok(self.list_traced(after)),
            Request::TraceRead { domain, offset_bytes, length_bytes } => {
                return self.read_trace(client, request, domain, offset_bytes, length_bytes);
            }
            body @ (Request::Observe { .. }
            | Request::History { .. }
            | Request::RememberedOutput { .. }
            | Request::Pause { .. }
            | Request::Repeat { .. }
            | Request::MoveTo { .. }
            | Request::SetFrequency { .. }
            | Request::RestoreFrequency { .. }
            | Request::Holders { .. }
            | Request::Facts { .. }) => {
                return self.dispatch_observe_request(now, client, request, domain, body);
            }
            body => return self.dispatch_region_request(now, client, request, domain, body),
        };
        self.answer(client, request, result);
    }

    fn dispatch_observe_request(
        &mut self,
        now: Nanos,
        client: ClientId,
        request: u32,
        by: DomainId,
        body: Request,
    ) {
        let result = match body {
            Request::Observe { since, timeout } => {
                return self.observe(now, client, request, since, timeout);
            }
            Request::History { part, measure, step_ms } => self.history(&part, measure, step_ms),
            Request::RememberedOutput { domain, after } => self.remembered_output(domain, after),
            Request::Pause { domain, paused } => self.pause(now, domain, paused),
            Request::Repeat { domain, node } => return self.repeat(now, client, request, by, domain, node),
            Request::MoveTo { domain, node, grace } => {
                return self.move_to(now, (client, request), by, domain, node, grace);
            }
            Request::SetFrequency { node, cores, governor, min_khz, max_khz } => {
                let setting = Frequency { cores, governor, min_khz, max_khz };
                return self.set_frequency(client, request, &node, setting);
            }
            Request::RestoreFrequency { node } => self.restore_frequency(client, &node),
            Request::Holders { region, after } => Ok(self.holders(region, after)),
            Request::Facts { query, from } => self.facts(now, &query, from),
            _ => return,
        };
        self.answer(client, request, result);
    }

    fn dispatch_region_request(
        &mut self,
        now: Nanos,
        client: ClientId,
        request: u32,
        domain: DomainId,
        body: Request,
    ) {
        // Read-only requests cause at most an unnecessary snapshot.
        self.observing.regions.changed();
        let result = match body {
            Request::RegionCreate { place, length_bytes } => {
                return self.region_create(client, request, domain, place, length_bytes);
            }
            Request::CapabilityDerive { capability, extent, rights, holder, channel } => {
                let to = Recipient { holder: holder.unwrap_or(domain), channel };
                self.capability_derive(domain, capability, extent, rights, to).map(Some)
            }
            Request::CapabilityGive { capability, holder, channel } => {
                self.capability_give(domain, capability, Recipient { holder, channel }).map(Some)
            }
            Request::CapabilityAccept { capability, granter, whole } => {
                self.capability_accept(domain, capability, granter, whole).map(Some)
            }
            Request::CapabilityTakeBack { capability } => {
                self.capability_take_back(domain, capability).map(Some)
            }
            Request::CapabilityForget { channel, granter } => {
                self.regions.table.drop_in_transit(domain, channel, granter);
                Ok(Some(Reply::Done))
            }
            Request::CapabilitySplit { capability, kind, parts } => {
                self.capability_split(domain, capability, kind, &parts).map(Some)
            }
            Request::Given { name } => self.given(domain, &name).map(Some),
            Request::ServiceCreate { listener } => self.service_create(client, domain, listener).map(Some),
            Request::CapabilityDelete { capability } => self.capability_delete(domain, capability).map(Some),
            Request::CapabilityShow { capability } => self.capability_show(domain, capability).map(Some),
            Request::Capabilities { after } => Ok(Some(self.list_capabilities(domain, after))),
            Request::Regions { after } => Ok(Some(self.list_regions(after))),
            Request::RegionMap { capability, rights, pool } => {
                self.region_map(client, request, domain, capability, (rights, pool)).map(|()| None)
            }
            Request::CapabilityRevoke { capability, itself } => {
                self.capability_revoke(now, client, request, domain, capability, itself).map(|()| None)
            }
            Request::RegionSeal { capability, seal } => {
                self.region_seal(client, request, domain, capability, seal).map(|()| None)
            }
            _ => return,
        };
        match result {
            Ok(Some(reply)) => self.answer(client, request, Ok(reply)),
            // The answer follows later, or was sent with descriptors.
            Ok(None) => {}
            Err(Refusal(fault)) => self.answer(client, request, Err(fault)),
        }
    }

    /// Handles the connection of a client to the agent of a node.
    pub(super) fn client_connected(&mut self, client: ClientId, pid: i32, spawned: Option<DomainId>) {
        // An agent never reuses a number while it is in use. If it does, the first client counts as gone.
        self.client_left(client);
        if let Err(fault) = self.check_connection_limit(client.0, pid) {
            return self.reject_client(client, fault);
        }
        let record = ClientRecord { pid, spawned, next_listener: 1, ..Default::default() };
        self.clients.insert(client, record);
        self.idle_since = None;
    }

    fn attach(&mut self, now: Nanos, client: ClientId, version: u32, program: &str) -> Result<Reply, Fault> {
        if version != FINGERPRINT {
            return Err(Fault::Refused {
                why: format!(
                    "this program speaks control protocol {version:08x}, the machine {FINGERPRINT:08x}: they are of \
                     different releases; take the machine down and bring it up with the one of the program, or build the \
                     program (`tombolo build`) with the one that the machine runs"
                ),
            });
        }
        let (node, _) = client;
        let record = self.clients.get(&client).ok_or(Fault::Refused { why: "no such connection".into() })?;
        let (pid, spawned) = (record.pid, record.spawned);
        if let Some(domain) = spawned.filter(|domain| !self.domains.contains_key(domain)) {
            // It ended before its request was read. Treated as a domain that attached by itself, it would
            // never end.
            return Err(Fault::NoSuchDomain { domain });
        }
        let domain = match (record.domain, spawned) {
            (Some(_), _) => return Err(Fault::Refused { why: "this connection is already attached".into() }),
            (None, Some(domain)) => domain,
            (None, None) => {
                let program = program.chars().take(MAX_PROGRAM_CHARS).collect();
                self.admit(now, node, pid, program)?
            }
        };
        if let Some(record) = self.clients.get_mut(&client) {
            record.domain = Some(domain);
        }
        let (_, connection) = client;
        self.send_order(node, Order::Admitted { connection, domain });
        self.names.admit(client, domain);
        Ok(Reply::Attach {
            domain,
            node: self.node_name(node),
            machine: self.machine.name().to_owned(),
            spawned: spawned.is_some(),
        })
    }

    fn list_domains(&self, now: Nanos, after: u64) -> Reply {
        let mut rest = self.domains.iter().filter(|(id, _)| id.to_bits() > after);
        let domains = rest
            .by_ref()
            .take(PAGE)
            .map(|(id, record)| DomainInfo {
                id: *id,
                node: self.node_name(id.node()),
                program: record.program.clone(),
                pid: record.pid,
                parent: record.parent.map(|(parent, _)| parent),
                age: Duration::from_nanos(now.saturating_sub(record.since)),
                channels: record.channels,
            })
            .collect();
        Reply::Domains { domains, more: rest.next().is_some() }
    }

    /// Handles the end of a client's connection, with everything that depends on it.
    pub(super) fn client_left(&mut self, client: ClientId) {
        let Some(record) = self.clients.remove(&client) else { return };
        self.trace_client_left(client);
        self.regions.client_left(client);
        self.listener_withdrawn(client, None);
        if !tombolo_base::canary!("core keeps the names of the dead") {
            self.names.client_left(client);
            self.node_exports.retain(|_, record| record.client != client);
        }
        self.remote_names_left(client);
        self.relays.client_left(client);
        self.observing.client_left(client);
        self.steering_client_left(client);
        self.deferred_exits.client_left(client);
        self.waiting.retain(|waiting| waiting.client != client);
        // A restarted node reuses connection numbers: its pending answers must not reach a later client.
        for node in &mut self.nodes {
            node.console.remove_viewer(client);
            node.restarting.take_if(|(by, _)| *by == client);
        }
        if record.has_pending_input {
            // Its input is still pending, but it no longer waits for the answer.
            let pending_inputs = self.domains.iter_mut().flat_map(|(_, domain)| &mut domain.pending_inputs);
            pending_inputs.filter(|(_, by, _)| *by == client).for_each(|(.., request)| *request = 0);
        }
        let family: Vec<DomainId> =
            record.domain.map_or_else(Vec::new, |domain| self.domains.children(domain).collect());
        for id in family {
            // A domain may have several connections.
            if let Some(child) = self.domains.get_mut(id)
                && let Some((parent, by)) = child.parent
                && by == Some(client)
            {
                child.start_request = None;
                child.parent = Some((parent, None));
                self.kill_now(id);
            }
        }
        if let Some(domain) = record.domain
            && record.spawned.is_none()
        {
            // A domain that attached by itself ends with its connection.
            if let Some(record) = self.domains.remove(domain) {
                self.retire_domain(domain, record, Exit::Left);
            }
            self.trace_owner_ended(domain);
            self.release_domain_regions(domain);
        }
    }
}
