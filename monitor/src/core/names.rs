//! Exports: records of the machine's names that domains can connect to.

use std::time::Duration;

use tombolo_base::DomainId;
use tombolo_control::{Fault, Reply};
use tombolo_link::ChannelConfig;
use tombolo_machine::Limit;
use tombolo_naming::NameFault;

use super::{Client, Core, NameRecord, Nanos, Waiting, shown};

impl Core {
    pub(super) fn export(&mut self, client: Client, owner: DomainId, name: String) -> Result<Reply, Fault> {
        if !tombolo_control::is_name(&name) {
            return Err(Fault::BadName { name: shown(&name) });
        }
        if let Some(taken) = self.names.record(&name) {
            return Err(match taken.owner {
                Some(owner) => Fault::NameTaken { name, owner },
                None => Fault::Name { fault: NameFault::Exists { name, owner: None } },
            });
        }
        let used = self.names.records_of(client);
        self.within(Limit::NamesPerDomain, used, format_args!("domain {owner}"))?;
        let record = self.clients.get_mut(&client).ok_or(Fault::NoSuchDomain { domain: owner })?;
        let listener = record.next_listener;
        record.next_listener += 1;
        self.names.export(client, &name, listener).map_err(|fault| Fault::Name { fault })?;
        Ok(Reply::Exported { listener })
    }

    /// Who exports a name.
    pub(super) fn exported(&self, name: &str) -> Option<NameRecord> {
        let endpoint = self.names.endpoint(name)?;
        let (client, owner) = (endpoint.session.client(), endpoint.domain);
        Some(NameRecord { owner, client, listener: endpoint.listener })
    }

    /// Opens channels for those who wait for a name of `owner`, first come first served, as far as its backlog
    /// has room.
    pub(super) fn serve_waiting(&mut self, owner: Client) {
        let mut index = 0;
        while index < self.waiting.len() && self.backlog_has_room(owner) {
            if self.exported(&self.waiting[index].name).is_some_and(|record| record.client == owner) {
                let Waiting { client, request, name, config, .. } = self.waiting.remove(index);
                self.open(client, request, &name, config);
            } else {
                index += 1;
            }
        }
    }

    /// A client has taken channels that were opened to it off its backlog.
    pub(super) fn accepted(&mut self, client: Client, count: u32) {
        if let Some(record) = self.clients.get_mut(&client) {
            record.unaccepted = record.unaccepted.saturating_sub(count as usize);
            self.serve_waiting(client);
        }
    }

    pub(super) fn connect(
        &mut self,
        now: Nanos,
        client: Client,
        request: u32,
        name: String,
        timeout: Duration,
        config: ChannelConfig,
    ) {
        if !tombolo_control::is_name(&name) {
            let fault = Fault::BadName { name: shown(&name) };
            return self.answer(client, request, Err(fault));
        }
        if self.exported(&name).is_some_and(|record| self.backlog_has_room(record.client)) {
            return self.open(client, request, &name, config);
        }
        let used = self.waiting.iter().filter(|waiting| waiting.client == client).count();
        if let Err(fault) = self.within(Limit::WaitingPerDomain, used, "this domain") {
            return self.answer(client, request, Err(fault));
        }
        let timeout_ns = Nanos::try_from(timeout.as_nanos()).unwrap_or(Nanos::MAX);
        let until = now.saturating_add(timeout_ns);
        self.waiting.push(Waiting { client, request, name, config, until });
        self.give_up_waiting(now);
    }

    pub(super) fn give_up_waiting(&mut self, now: Nanos) {
        let (due, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|waiting| waiting.until <= now);
        self.waiting = rest;
        for waiting in due {
            if tombolo_base::canary!("core answers nobody who waits in vain") {
                continue;
            }
            let fault = match self.exported(&waiting.name) {
                Some(record) => self.limit_met(Limit::Backlog, format_args!("domain {}", record.owner)),
                None => Fault::NoSuchName { name: waiting.name },
            };
            self.answer(waiting.client, waiting.request, Err(fault));
        }
    }
}
