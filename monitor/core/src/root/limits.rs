//! Limits on a domain's use of the machine, so that it cannot exhaust the resources of others.

use std::fmt::Display;

use tombolo_base::{DomainId, NodeId};
use tombolo_control::{Fault, Order, Reply};
use tombolo_machine::Limit;

use super::{ClientId, Core};

impl Core {
    /// Returns the value of a limit of this machine.
    pub(super) fn limit(&self, limit: Limit) -> usize {
        self.machine.limits().of(limit) as usize
    }

    /// Checks a limit, given the number in `used`; `who` is the subject for the error message.
    pub(super) fn check_limit(&self, limit: Limit, used: usize, who: impl Display) -> Result<(), Fault> {
        if used < self.limit(limit) { Ok(()) } else { Err(self.limit_fault(limit, who)) }
    }

    /// Returns the fault for a client that has reached a limit.
    pub(super) fn limit_fault(&self, limit: Limit, who: impl Display) -> Fault {
        Fault::Limit {
            what: format!(
                "{who} has met the limit of {} {}: give some back, or raise `{}` under [limits] in the machine file",
                self.limit(limit),
                limit.meaning(),
                limit.key()
            ),
        }
    }

    /// Checks the limit on domains of a node.
    pub(super) fn check_node_limit(&self, node: NodeId) -> Result<(), Fault> {
        let used = self.domains_of(node).count();
        self.check_limit(Limit::DomainsPerNode, used, format_args!("node {}", self.node_name(node)))
    }

    /// Checks the limit on children of a domain.
    pub(super) fn check_children_limit(&self, parent: DomainId) -> Result<(), Fault> {
        let used = self.domains.children(parent).len();
        self.check_limit(Limit::ChildrenPerDomain, used, format_args!("domain {parent}"))
    }

    /// Checks the limit on connections of a process to the monitor of its node.
    pub(super) fn check_connection_limit(&self, node: NodeId, pid: i32) -> Result<(), Fault> {
        let of_node = self.clients.range((node, 0)..=(node, u32::MAX));
        let (mut all, mut own) = (0, 0);
        for (_, record) in of_node {
            all += 1;
            own += usize::from(record.pid == pid);
        }
        self.check_limit(Limit::ConnectionsPerProcess, own, format_args!("process {pid}"))?;
        self.check_limit(Limit::ConnectionsPerNode, all, format_args!("node {}", self.node_name(node)))
    }

    /// Refuses a client with a fault, and ends its connection.
    pub(super) fn reject_client(&mut self, client: ClientId, fault: Fault) {
        self.record_limit_event(None, &fault);
        self.deliver(client, 0, Reply::TurnedAway { fault });
        let (node, connection) = client;
        self.send_order(node, Order::Dismiss { connection });
    }

    /// Checks the limit on a domain's channels across windows or links of streams.
    pub(super) fn check_cross_link_limit(&self, opener: DomainId) -> Result<(), Fault> {
        let openers = self.channels.values().map(|record| record.opener);
        let openers = openers.chain(self.streams.values().map(|record| record.opener));
        let used = openers.filter(|of| *of == opener).count();
        self.check_limit(Limit::WindowChannelsPerDomain, used, format_args!("domain {opener}"))
    }

    /// Returns whether the backlog of a name's owner has room for another channel.
    pub(super) fn backlog_has_room(&self, owner: ClientId) -> bool {
        self.clients.get(&owner).is_some_and(|record| record.unaccepted < self.limit(Limit::Backlog))
    }
}

#[cfg(test)]
mod tests;
