//! Tracing: state of the machine, its pages, and their readers.

use std::collections::{BTreeMap, VecDeque};

use tombolo_base::{ChannelId, DomainId, NodeId};
use tombolo_control::{Attachment, Fault, MAX_TRACE_READ_BYTES, Order, Reply, TracedInfo};
use tombolo_trace::layout::control_on;

use super::{ClientId, Core, Effect, Nanos, NodeState};

/// Time that a machine going down waits for its recorder to read the rest.
const FINAL_READ_TIMEOUT_NS: Nanos = 10_000_000_000;

/// Maximum number of entries per page of a listing; the rest follows on demand.
const PAGE: usize = 100;

/// Maximum number of pages of dead domains retained, the latest ones; each uses as much memory as its domain
/// traced.
const MAX_KEPT: usize = 64;

/// Maximum number of pending reads of one client.
const MAX_READS: usize = 64;

/// A client that waits for a part of a page.
#[derive(Debug)]
struct Read {
    client: ClientId,
    request: u32,
    node: NodeId,
}

/// State of tracing.
#[derive(Debug, Default)]
pub(super) struct Traces {
    /// Control word of all pages; 0 while tracing is off.
    word: u64,
    epoch: u32,
    /// Whether pages of dead domains are retained: from the start of a recording until they have been read.
    retaining: bool,
    /// Client whose end stops the tracing.
    held_by: Option<ClientId>,
    /// All domains with an existing page.
    pages: BTreeMap<DomainId, TracedInfo>,
    /// Dead ones among them, oldest first.
    dead: VecDeque<DomainId>,
    reads: BTreeMap<u64, Read>,
    next_ticket: u64,
    /// The machine goes down when this recording client has left, and at this time at the latest.
    pending_shutdown: Option<(ClientId, Nanos)>,
}

impl Traces {
    pub(super) fn resource_counts(&self) -> [(&'static str, usize); 3] {
        [
            ("trace pages", self.pages.len()),
            ("trace pages of the dead", self.dead.len()),
            ("reads of trace pages", self.reads.len()),
        ]
    }

    /// Returns the time when [`Core::trace_tick`] is due.
    pub(super) fn shutdown_at(&self) -> Option<Nanos> {
        self.pending_shutdown.map(|(_, at)| at)
    }
}

impl Core {
    /// Answers a request to attach, with the domain's trace page.
    pub(super) fn attached(&mut self, client: ClientId, request: u32, result: Result<Reply, Fault>) {
        let Ok(Reply::Attach { domain, .. }) = result else {
            return self.answer(client, request, result);
        };
        let program = self.domains.get(&domain).map(|record| record.program.clone()).unwrap_or_default();
        let info = TracedInfo { id: domain, node: self.node_name(domain.node()), program, alive: true };
        self.traces.pages.insert(domain, info);
        if let Ok(reply) = result {
            let attachments = vec![Attachment::TracePage { domain }];
            self.deliver_with(client, request, reply, ChannelId(0), attachments, Vec::new());
        }
    }

    /// Starts or stops tracing everywhere; it ends when the client `held_by` leaves. A second stop releases
    /// the retained pages of ended domains.
    pub(super) fn trace(
        &mut self,
        on: bool,
        keep_first: bool,
        held_by: Option<ClientId>,
    ) -> Result<Reply, Fault> {
        if on && self.traces.word != 0 {
            return Err(Fault::Refused {
                why: "the machine is already tracing; `tombolo trace stop` stops it".into(),
            });
        }
        if (on || self.traces.word == 0) && self.traces.pending_shutdown.is_none() {
            // The previous recording has been read, or is not wanted.
            self.retain_latest(0);
            self.traces.retaining = on;
        }
        if on {
            self.traces.epoch = self.traces.epoch.wrapping_add(1);
        }
        self.traces.word = if on { control_on(self.traces.epoch, keep_first) } else { 0 };
        self.traces.held_by = held_by.filter(|_| on);
        let word = self.traces.word;
        let up: Vec<NodeId> = self
            .machine
            .nodes()
            .iter()
            .map(|node| node.id)
            .filter(|id| self.nodes.get(usize::from(id.0)).is_some_and(|node| node.state == NodeState::Up))
            .collect();
        up.into_iter().for_each(|node| self.send_order(node, Order::Trace { word }));
        Ok(Reply::Done)
    }

    /// Shuts the machine down: immediately or, while a client records a trace, when that client has read the
    /// rest. Trace pages are lost with their nodes.
    pub(super) fn shut_down(&mut self, now: Nanos) {
        match self.traces.held_by {
            Some(recorder) if self.traces.pending_shutdown.is_none() => {
                // The recorder notices that the trace is stopped, reads the remaining events, and leaves.
                let _ = self.trace(false, false, None);
                self.traces.pending_shutdown = Some((recorder, now.saturating_add(FINAL_READ_TIMEOUT_NS)));
            }
            _ => self.effects.push(Effect::Shutdown),
        }
    }

    /// Stops waiting for the recorder.
    pub(super) fn trace_tick(&mut self, now: Nanos) {
        if self.traces.shutdown_at().is_some_and(|at| at <= now) {
            self.traces.pending_shutdown = None;
            self.effects.push(Effect::Shutdown);
        }
    }

    /// Starts tracing on a node that has come up, if the machine traces.
    pub(super) fn trace_node_ready(&mut self, node: NodeId) {
        if self.traces.word != 0 {
            let word = self.traces.word;
            self.send_order(node, Order::Trace { word });
        }
    }

    /// Drops the pages of a lost node's domains, and fails reads of them.
    pub(super) fn trace_node_lost(&mut self, node: NodeId) {
        self.traces.pages.retain(|domain, _| domain.node() != node);
        self.traces.dead.retain(|domain| domain.node() != node);
        let lost: Vec<u64> = self
            .traces
            .reads
            .iter()
            .filter(|(_, read)| read.node == node)
            .map(|(ticket, _)| *ticket)
            .collect();
        lost.into_iter().for_each(|ticket| self.trace_read_done(node, ticket, None));
    }

    pub(super) fn trace_client_left(&mut self, client: ClientId) {
        self.traces.reads.retain(|_, read| read.client != client);
        if self.traces.pending_shutdown.is_some_and(|(recorder, _)| recorder == client) {
            self.traces.pending_shutdown = None;
            self.effects.push(Effect::Shutdown);
        }
        if self.traces.held_by == Some(client) {
            // No client will read the recording: the first call stops it, the second releases the pages.
            for _ in 0..2 {
                let _ = self.trace(false, false, None);
            }
        }
    }

    /// Handles the end of a domain. During a recording its page is retained: the last events are the most
    /// interesting.
    pub(super) fn trace_owner_ended(&mut self, domain: DomainId) {
        let Some(page) = self.traces.pages.get_mut(&domain) else { return };
        page.alive = false;
        self.traces.dead.push_back(domain);
        let kept = if self.traces.retaining { MAX_KEPT } else { 0 };
        self.retain_latest(kept);
    }

    /// Drops the pages of dead domains except for the latest.
    fn retain_latest(&mut self, kept: usize) {
        while self.traces.dead.len() > kept
            && let Some(oldest) = self.traces.dead.pop_front()
        {
            self.forget_trace(oldest);
        }
    }

    fn forget_trace(&mut self, domain: DomainId) {
        if self.traces.pages.remove(&domain).is_some() {
            self.send_order(domain.node(), Order::TraceForget { domain });
        }
    }

    pub(super) fn list_traced(&self, after: u64) -> Reply {
        let mut rest = self.traces.pages.iter().filter(|(id, _)| id.to_bits() > after);
        let domains = rest.by_ref().take(PAGE).map(|(_, info)| info.clone()).collect();
        Reply::Traced { domains, more: rest.next().is_some(), on: self.traces.word != 0 }
    }

    pub(super) fn read_trace(
        &mut self,
        client: ClientId,
        request: u32,
        domain: DomainId,
        offset_bytes: u64,
        length_bytes: u32,
    ) {
        if !self.traces.pages.contains_key(&domain) {
            return self.answer(client, request, Err(Fault::NoSuchDomain { domain }));
        }
        if self.traces.reads.values().filter(|read| read.client == client).count() >= MAX_READS {
            let fault = Fault::Limit { what: format!("{MAX_READS} parts of traces are being read already") };
            return self.answer(client, request, Err(fault));
        }
        let (node, ticket) = (domain.node(), self.traces.next_ticket);
        self.traces.next_ticket += 1;
        self.traces.reads.insert(ticket, Read { client, request, node });
        let length_bytes = length_bytes.min(MAX_TRACE_READ_BYTES);
        self.send_order(node, Order::TraceRead { ticket, domain, offset_bytes, length_bytes });
    }

    /// Handles an agent's answer to a read, for its own domains only.
    pub(super) fn trace_read_done(&mut self, node: NodeId, ticket: u64, bytes: Option<Vec<u8>>) {
        if self.traces.reads.get(&ticket).is_none_or(|read| read.node != node) {
            return;
        }
        let Some(read) = self.traces.reads.remove(&ticket) else { return };
        let result = match bytes {
            Some(bytes) => Ok(Reply::TraceRead { bytes }),
            None => Err(Fault::Refused {
                why: "the trace is gone: its node went down, or had no memory for it".into(),
            }),
        };
        self.answer(read.client, read.request, result);
    }
}
