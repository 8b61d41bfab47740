//! Names, machine-wide: one owner each, gone with it.

use std::time::Duration;

use tombolo_base::DomainId;
use tombolo_control::{Fault, Reply};
use tombolo_link::ChannelConfig;
use tombolo_machine::Limit;

use super::{Client, Core, NameRecord, Nanos, Waiting, shown};

impl Core {
    pub(super) fn export(&mut self, client: Client, owner: DomainId, name: String) -> Result<Reply, Fault> {
        if !tombolo_control::is_name(&name) {
            return Err(Fault::BadName { name: shown(&name) });
        }
        if let Some(taken) = self.names.get(&name) {
            return Err(Fault::NameTaken { name, owner: taken.owner });
        }
        let used = self.names.values().filter(|record| record.owner == owner).count();
        self.within(Limit::NamesPerDomain, used, format_args!("domain {owner}"))?;
        let record = self.clients.get_mut(&client).ok_or(Fault::NoSuchDomain { domain: owner })?;
        let listener = record.next_listener;
        record.next_listener += 1;
        self.names.insert(name.clone(), NameRecord { owner, client, listener });
        Ok(Reply::Exported { listener })
    }

    /// Opens channels for those who wait for a name of `owner`, first come first served, as far as its backlog
    /// has room.
    pub(super) fn serve_waiting(&mut self, owner: Client) {
        let mut index = 0;
        while index < self.waiting.len() && self.backlog_has_room(owner) {
            if self.names.get(&self.waiting[index].name).is_some_and(|record| record.client == owner) {
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
        if self.names.get(&name).is_some_and(|record| self.backlog_has_room(record.client)) {
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
            let fault = match self.names.get(&waiting.name) {
                Some(record) => self.limit_met(Limit::Backlog, format_args!("domain {}", record.owner)),
                None => Fault::NoSuchName { name: waiting.name },
            };
            self.answer(waiting.client, waiting.request, Err(fault));
        }
    }
}
