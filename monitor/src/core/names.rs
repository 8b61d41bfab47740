//! Names, machine-wide: one owner each, gone with it.

use std::time::Duration;

use tombolo_base::DomainId;
use tombolo_control::{Fault, Reply};
use tombolo_link::ChannelConfig;

use super::{Client, Core, NameRecord, Nanos, Waiting, shown};

/// Names that one client may hold.
const MAX_NAMES_PER_CLIENT: usize = 1024;

impl Core {
    pub(super) fn export(&mut self, client: Client, owner: DomainId, name: String) -> Result<Reply, Fault> {
        if !tombolo_control::is_name(&name) {
            return Err(Fault::BadName { name: shown(&name) });
        }
        if let Some(taken) = self.names.get(&name) {
            return Err(Fault::NameTaken { name, owner: taken.owner });
        }
        if self.names.values().filter(|record| record.client == client).count() >= MAX_NAMES_PER_CLIENT {
            let what = format!("a program may export {MAX_NAMES_PER_CLIENT} names, and this one does");
            return Err(Fault::Limit { what });
        }
        let record = self.clients.get_mut(&client).ok_or(Fault::NoSuchDomain { domain: owner })?;
        let listener = record.next_listener;
        record.next_listener += 1;
        self.names.insert(name.clone(), NameRecord { owner, client, listener });
        let (matched, rest) =
            std::mem::take(&mut self.waiting).into_iter().partition(|waiting| waiting.name == name);
        self.waiting = rest;
        let matched: Vec<Waiting> = matched;
        for waiting in matched {
            self.open(waiting.client, waiting.request, &name, waiting.config);
        }
        Ok(Reply::Exported { listener })
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
        if self.names.contains_key(&name) {
            return self.open(client, request, &name, config);
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
            self.answer(waiting.client, waiting.request, Err(Fault::NoSuchName { name: waiting.name }));
        }
    }
}
