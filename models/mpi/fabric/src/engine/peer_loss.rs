//! End of links and loss of peers.
//!
//! Messages that a peer sent are received even if it closed or died: a link ends only after everything that
//! arrived over it has been taken. Two endpoints that connected to each other have two links, and a peer can
//! close both before this side has accepted the second, which is the one it sent over. So a peer without a
//! link is lost only once no connection is being accepted that could be its own.

use crate::completion::{CompletionKind, Failure, flags};
use crate::memory::{Memory, Payload};
use crate::net::{LinkEnd, LinkId, Net};

use super::peer::Peer;
use super::{Core, Engine, NO_ADDRESS, Op, PendingCompletion};

impl<V, M> Core<V, M> {
    /// Marks a peer without a link as leaving. It is lost unless a connection of its own is being accepted.
    pub(super) fn mark_leaving(&mut self, peer: u32, failure: Failure) {
        let state = &mut self.peers[peer as usize];
        if state.lost.is_none() {
            state.leaving = Some(failure);
            if !self.leaving.contains(&peer) {
                self.leaving.push(peer);
            }
        }
    }
}

impl<N: Net, M: Memory> Engine<N, M> {
    /// Returns whether all injected and queued data is out: everything is sent, and peers have read the
    /// chunks that they hold.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        let drained = |(index, peer): (usize, &Peer<N::View, M>)| {
            // Peers are numbered with 32 bits, so their index fits.
            let index = index as u32;
            let sent = peer.backlog.is_empty() && peer.control.is_empty();
            peer.lost.is_some() || peer.leaving.is_some() || sent && !self.core.holds_chunks(index)
        };
        let injected = |op: &Op<M>| matches!(op, Op::Sending { payload: Some(Payload::Copied(_)), .. });
        self.core.peers.iter().enumerate().all(drained) && self.core.ops.ids(injected).is_empty()
    }

    /// Stops sending over a link. Messages that arrived over it are still taken, unless the peer violated the
    /// protocol.
    pub(super) fn stop_sending(&mut self, link: LinkId, end: LinkEnd) {
        let Some(peer) = self.core.peer_of(link).filter(|_| end != LinkEnd::Violation) else {
            return self.end_link(link, end);
        };
        let state = &mut self.core.peers[peer as usize];
        if state.link == Some(link) {
            state.link = None;
            state.send_ended = true;
        }
    }

    /// Gives up peers without a link from which nothing more can arrive.
    #[inline(never)]
    pub(super) fn drop_leaving_peers(&mut self) {
        // Checked first: if false, the events of all accepted peers are queued and processed below.
        let accepting = self.net.is_accepting();
        self.process_events();
        for peer in std::mem::take(&mut self.core.leaving) {
            let state = &mut self.core.peers[peer as usize];
            let Some(failure) = state.leaving else { continue };
            if !state.links.is_empty() {
                state.leaving = None;
                continue;
            }
            let domain = state.address.domain;
            if accepting || self.core.unidentified.values().any(|other_domain| *other_domain == domain) {
                self.core.leaving.push(peer);
            } else {
                self.mark_lost(peer, failure);
            }
        }
    }

    pub(super) fn end_link(&mut self, link: LinkId, end: LinkEnd) {
        self.net.close(link);
        self.core.unidentified.remove(&link);
        let Some(peer) = self.core.peer_of(link) else { return };
        let state = &mut self.core.peers[peer as usize];
        state.links.retain(|other| *other != link);
        if state.link == Some(link) {
            state.link = None;
            state.send_ended = true;
        }
        let failure = match end {
            LinkEnd::Closed => Failure::PeerClosed,
            LinkEnd::Died => Failure::PeerDied,
            LinkEnd::Violation => Failure::Violation,
        };
        if end == LinkEnd::Violation {
            for other in std::mem::take(&mut state.links) {
                self.net.close(other);
            }
        }
        if self.core.peers[peer as usize].links.is_empty() {
            if end == LinkEnd::Violation {
                self.mark_lost(peer, failure);
            } else {
                self.core.mark_leaving(peer, failure);
            }
        }
    }

    /// Marks a peer as lost and fails all operations with it.
    fn mark_lost(&mut self, peer: u32, failure: Failure) {
        let state = &mut self.core.peers[peer as usize];
        if state.lost.is_some() {
            return;
        }
        state.lost = Some(failure);
        state.leaving = None;
        state.link = None;
        state.view = None;
        state.direct_access.clear();
        state.control.clear();
        state.streams.clear();
        let (backlog, source, place) = (std::mem::take(&mut state.backlog), state.source, state.place);
        if let Some(pool) = place.and_then(|place| self.core.pools.get_mut(place)) {
            pool.release_chunks_of(peer);
        }
        let ops = self.core.ops.ids(|op| op.peer() == peer);
        if failure == Failure::Unreachable && !(backlog.is_empty() && ops.is_empty()) {
            self.net.warn_unreachable(self.core.peers[peer as usize].address);
        }
        for pending in backlog {
            if let Some(completion) = pending.into_failed_completion() {
                self.core.fail(completion, failure);
            }
        }
        for id in ops {
            if let Some(op) = self.core.ops.remove(id) {
                let completion = match op {
                    Op::Sending { completion, .. }
                    | Op::Fetching { completion, .. }
                    | Op::AwaitingReply { completion, .. } => completion,
                    Op::Receiving { multi, mut completion, .. } => {
                        self.core.complete_multi_recv(multi, &mut completion);
                        completion
                    }
                    Op::Withdrawn { .. } => continue,
                };
                self.core.fail(completion, failure);
            }
        }
        // A peer may close in an orderly way while receives from it are posted; its death is an error.
        if failure != Failure::PeerClosed && source != NO_ADDRESS && self.core.directed {
            let is_from_peer = |posted: &crate::matching::Posted<M>| posted.source == source;
            let tagged = self
                .core
                .tagged
                .remove_posted(is_from_peer)
                .into_iter()
                .map(|posted| (posted, flags::TAGGED));
            let untagged =
                self.core.untagged.remove_posted(is_from_peer).into_iter().map(|posted| (posted, flags::MSG));
            for (posted, flag) in tagged.chain(untagged).collect::<Vec<_>>() {
                let mut completion =
                    PendingCompletion::new(CompletionKind::Receive, true, posted.context, flag | flags::RECV);
                completion.entry.tag = posted.tag;
                self.core.fail(completion, failure);
            }
        }
    }
}
