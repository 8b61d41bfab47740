//! Exports: names of the machine or of a node that domains can connect to.
//!
//! Those of the machine are records of the root's names. Those of a node are records of its agent, which
//! reports them.

use std::time::Duration;

use tombolo_base::{DomainId, NodeId};
use tombolo_capability::CapabilityFault;
use tombolo_control::{Fault, Reply};
use tombolo_link::ChannelConfig;
use tombolo_machine::Limit;
use tombolo_naming::{NameFault, Scope};

use super::{ClientId, Core, Destination, NameKey, NameRecord, Nanos, WaitingConnect, truncate_name};

impl Core {
    pub(super) fn export(
        &mut self,
        client: ClientId,
        owner: DomainId,
        scope: Scope,
        name: String,
    ) -> Result<Reply, Fault> {
        match scope {
            Scope::Machine => {}
            // A node whose agent forwards this has no names of its own.
            Scope::Own => return Err(self.no_names_fault(owner.node())),
            Scope::Node(node) => {
                let why =
                    format!("names of node {node} are exported by programs that run there, as '@/NAME'");
                return Err(Fault::Refused { why: truncate_name(&why) });
            }
        }
        if !tombolo_control::is_name(&name) {
            return Err(Fault::BadName { name: truncate_name(&name) });
        }
        if let Some(taken) = self.names.record(&name) {
            return Err(match taken.owner {
                Some(owner) => Fault::NameTaken { name, owner },
                None => Fault::Name { fault: NameFault::Exists { name, owner: None } },
            });
        }
        let used = self.names.records_of(client);
        self.check_limit(Limit::NamesPerDomain, used, format_args!("domain {owner}"))?;
        let record = self.clients.get_mut(&client).ok_or(Fault::NoSuchDomain { domain: owner })?;
        let listener = record.next_listener;
        record.next_listener += 1;
        self.names.export(client, &name, listener).map_err(|fault| Fault::Name { fault })?;
        Ok(Reply::Export { listener })
    }

    /// Records a node's name exported by its client. The agent is trusted only about its own names and
    /// clients.
    pub(super) fn node_exported(&mut self, client: ClientId, name: String, listener: u32) {
        let Some(owner) = self.clients.get(&client).and_then(|record| record.domain) else { return };
        if tombolo_control::is_name(&name) && self.domains.contains_key(&owner) {
            self.node_exports.insert((client.0, name), NameRecord { owner, client, listener });
            self.serve_waiting(client);
        }
    }

    /// Returns the fault for a node without names.
    pub(super) fn no_names_fault(&self, node: NodeId) -> Fault {
        Fault::Refused { why: format!("node {} has no names of its own", self.node_name(node)) }
    }

    /// Formats a name with its scope.
    pub(super) fn scoped_name(&self, (node, name): &NameKey) -> String {
        match node {
            Some(node) => format!("@{}/{name}", self.node_name(*node)),
            None => name.clone(),
        }
    }

    /// Resolves a client's scope and name to a key.
    pub(super) fn resolve_name(
        &self,
        client: ClientId,
        scope: Scope,
        name: String,
    ) -> Result<NameKey, Fault> {
        if !tombolo_control::is_name(&name) {
            return Err(Fault::BadName { name: truncate_name(&name) });
        }
        let node = match scope {
            Scope::Machine => return Ok((None, name)),
            Scope::Own => client.0,
            Scope::Node(of) => self.running_node(&of)?.0,
        };
        if self.machine.node(node).is_some_and(|node| node.as_bare().is_some()) {
            return Err(self.no_names_fault(node));
        }
        Ok((Some(node), name))
    }

    /// Notifies the clients that wait for names of a lost node.
    pub(super) fn node_exports_lost(&mut self, node: NodeId, cause: &str) {
        let (lost, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|waiting| matches!(waiting.to, Destination::Name((Some(of), _)) if of == node));
        self.waiting = rest;
        for WaitingConnect { client, request, .. } in lost {
            let fault = Fault::NodeDown { node: self.node_name(node), cause: cause.to_owned() };
            self.answer(client, request, Err(fault));
        }
    }

    /// Returns the exporter of a name.
    pub(super) fn exporter_of(&self, (node, name): &NameKey) -> Option<NameRecord> {
        if let Some(node) = node {
            return self.node_exports.get(&(*node, name.clone())).copied();
        }
        let endpoint = self.names.endpoint(name)?;
        let (client, owner) = (endpoint.session.client(), endpoint.domain);
        Some(NameRecord { owner, client, listener: endpoint.listener })
    }

    /// Returns the listener that a channel is to be opened to, if it exists.
    pub(super) fn listener_of(&self, destination: &Destination) -> Option<NameRecord> {
        match destination {
            Destination::Name(name) => self.exporter_of(name),
            Destination::Service { by, capability } => self.service(*by, *capability),
        }
    }

    /// Returns the fault for a destination without a listener.
    pub(super) fn no_listener_fault(&self, destination: &Destination) -> Fault {
        match destination {
            Destination::Name(name) => Fault::NoSuchName { name: self.scoped_name(name) },
            Destination::Service { by, capability } => {
                let capability = *capability;
                let fault = self.regions.table.connectable(*by, capability).err();
                Fault::Capability { fault: fault.unwrap_or(CapabilityFault::Gone { capability }) }
            }
        }
    }

    /// Opens channels for clients waiting for a name of `owner`, first come first served, as far as its
    /// backlog has room.
    pub(super) fn serve_waiting(&mut self, owner: ClientId) {
        let mut index = 0;
        while index < self.waiting.len() && self.backlog_has_room(owner) {
            if self.listener_of(&self.waiting[index].to).is_some_and(|record| record.client == owner) {
                let WaitingConnect { client, request, to, config, .. } = self.waiting.remove(index);
                self.open(client, request, &to, config);
            } else {
                index += 1;
            }
        }
    }

    /// Records that a client has accepted `count` channels from its backlog.
    pub(super) fn accepted(&mut self, client: ClientId, count: u32) {
        if let Some(record) = self.clients.get_mut(&client) {
            record.unaccepted = record.unaccepted.saturating_sub(count as usize);
            self.serve_waiting(client);
        }
    }

    pub(super) fn connect(
        &mut self,
        now: Nanos,
        client: ClientId,
        request: u32,
        to: Destination,
        timeout: Duration,
        config: ChannelConfig,
    ) {
        match self.listener_of(&to) {
            Some(record) if self.backlog_has_room(record.client) => {
                return self.open(client, request, &to, config);
            }
            // A capability without the right now will never have it.
            None if matches!(to, Destination::Service { .. }) => {
                let fault = self.no_listener_fault(&to);
                return self.answer(client, request, Err(fault));
            }
            _ => {}
        }
        let used = self.waiting.iter().filter(|waiting| waiting.client == client).count();
        if let Err(fault) = self.check_limit(Limit::WaitingPerDomain, used, "this domain") {
            return self.answer(client, request, Err(fault));
        }
        let timeout_ns = Nanos::try_from(timeout.as_nanos()).unwrap_or(Nanos::MAX);
        let until = now.saturating_add(timeout_ns);
        self.waiting.push(WaitingConnect { client, request, to, config, until });
        self.expire_waiting(now);
    }

    pub(super) fn expire_waiting(&mut self, now: Nanos) {
        let (due, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|waiting| waiting.until <= now);
        self.waiting = rest;
        for waiting in due {
            if tombolo_base::canary!("core answers no wait that is over") {
                continue;
            }
            let fault = match self.listener_of(&waiting.to) {
                Some(record) => self.limit_fault(Limit::Backlog, format_args!("domain {}", record.owner)),
                None => self.no_listener_fault(&waiting.to),
            };
            self.answer(waiting.client, waiting.request, Err(fault));
        }
    }
}
