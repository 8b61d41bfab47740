//! Member of a group.

mod delivery;
mod receive;
mod transmit;
mod view_change;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::view::View;
use crate::wire::{Chunk, Sync};
use crate::{Config, MAX_MEMBERS, MemberId, Order};

/// Event in a group, in the order in which it concerns the program.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// A member has joined. Reported before its first message, and initially for each existing member.
    Joined(MemberId),
    /// A message was received.
    Message {
        /// Member that broadcast the message.
        from: MemberId,
        /// Bytes of the message.
        data: Vec<u8>,
    },
    /// A member is gone. Reported after the last of its messages that any member has.
    Left {
        /// Member that is gone.
        member: MemberId,
        /// Whether it announced that it leaves. Otherwise it died, or its channel broke.
        in_order: bool,
    },
    /// The others considered this member dead because its channel to one of them broke. It is no longer a
    /// member.
    Expelled,
}

/// Reason why a message is not accepted for broadcast.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BroadcastError {
    /// Others have not taken enough of the earlier messages. Try again later.
    #[error("not all members have taken the messages before it")]
    Full,
    /// The message exceeds the agreed length.
    #[error("a message of {length_bytes} bytes is longer than the group's limit of {max_bytes}")]
    TooLong {
        /// Length of the message, in bytes.
        length_bytes: usize,
        /// Maximum of the configuration, in bytes.
        max_bytes: usize,
    },
    /// The member has not joined yet, is leaving, or was expelled.
    #[error("not a member of the group: still joining, leaving, or expelled")]
    NotMember,
}

/// Memory in use by a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Number of chunks kept until all members have taken them.
    pub retained_chunks: usize,
    /// Number of kept chunks that wait for a forwarding buffer.
    pub queued_chunks: usize,
    /// Number of forwarding buffers in use.
    pub buffers: usize,
    /// Number of own chunks that were not broadcast yet, and others' chunks that wait to be ordered.
    pub waiting_chunks: usize,
    /// Number of streams of members that are gone, kept until all have taken them.
    pub old_streams: usize,
}

/// State of the channel to another member.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Link {
    /// Number of chunks sent over it.
    sent: u64,
    /// Number of these that the peer has received.
    acknowledged: u64,
    /// Number of chunks received over it.
    received: u64,
    /// Number of these that were acknowledged to the peer.
    acknowledged_to_peer: u64,
    /// Whether this member's view has changed and the peer was not notified.
    sync_due: bool,
    /// Whether the peer was notified that this member leaves.
    leave_sent: bool,
}

/// State of the stream of a source.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Stream {
    /// Sequence number of the last chunk received.
    have: u64,
    /// Sequence number of the last chunk that the program took.
    taken: u64,
    /// Sequence number of the last chunk that all members are known to have taken.
    stable: u64,
    /// Chunks after `stable`, up to `have`.
    retained: VecDeque<Chunk>,
    /// For a source that is gone, the last chunk that any member has, once all have reported.
    end: Option<u64>,
    /// Whether this member joined after the source was gone, so that chunks are kept for others only.
    forward_only: bool,
    /// Member that its chunks come from; `None` at the root, and while members exchange progress.
    parent: Option<MemberId>,
    is_root: bool,
    /// Members that its chunks are forwarded to.
    children: BTreeMap<MemberId, Child>,
    /// Progress of the whole subtree, as last reported to the parent.
    reported_taken: u64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Child {
    /// Sequence number of the last chunk that it has or that is in transit to it.
    reached: u64,
    /// Sequence number of the last chunk that it and all members below it have taken.
    taken: u64,
}

impl Stream {
    fn retained(&self, seq: u64) -> Option<&Chunk> {
        let index = seq.checked_sub(self.stable + 1)?;
        self.retained.get(usize::try_from(index).ok()?)
    }

    /// Returns the progress of this member and all members below it.
    fn subtree_taken(&self) -> u64 {
        self.children.values().map(|child| child.taken).fold(self.taken, u64::min)
    }

    /// Drops the chunks up to `seq`, which all members have taken.
    fn drop_stable(&mut self, seq: u64) {
        // A peer may report chunks that have not arrived yet.
        let seq = seq.min(self.taken);
        while self.stable < seq {
            self.retained.pop_front();
            self.stable += 1;
        }
    }
}

/// Chunk in a forwarding buffer: the paper's message buffer, in use until all children have the chunk.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Slot {
    source: MemberId,
    seq: u64,
    /// Children that do not have it, each with the chunk's sequence number on that link once it was sent.
    targets: Vec<(MemberId, Option<u64>)>,
}

/// Member of a group, as a state machine.
///
/// The caller carries messages between members, over channels that keep order and lose nothing while both
/// ends live: [`receive`](Self::receive) handles a message from a member, [`transmit`](Self::transmit)
/// returns the next message for one. [`peer_connected`](Self::peer_connected) and
/// [`peer_died`](Self::peer_died) report the state of the channels; a death must be reported after everything
/// that came from the member before. The program takes events with [`next_event`](Self::next_event) and sends
/// with [`broadcast`](Self::broadcast).
///
/// Memory is bounded: for each source [`Config::window_chunks`] chunks and one message that is being
/// reassembled, and with a total order twice that.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Member {
    own: MemberId,
    config: Config,
    view: View,
    /// Whether all members of the view have sent their progress, and the trees are those of the view.
    agreed: bool,
    /// Whether this member is joining.
    is_joining: bool,
    expelled: bool,
    leaving: bool,
    /// Progress that this member reported for the current view.
    snapshot: Sync,
    syncs: BTreeMap<MemberId, Sync>,
    /// Flags by member and source that arrived after that member's exchange and before the end of this one's.
    early_flags: BTreeMap<(MemberId, MemberId), u64>,
    links: BTreeMap<MemberId, Link>,
    streams: BTreeMap<MemberId, Stream>,
    queue: VecDeque<(MemberId, u64)>,
    slots: Vec<Slot>,
    /// Own chunks that were not broadcast or, with a total order, not seen in the order.
    outbox: VecDeque<Chunk>,
    /// Number of these that the sequencer has.
    submitted: usize,
    submitted_to: Option<MemberId>,
    /// Number of the next own chunk.
    next_number: u64,
    /// At the sequencer, chunks of incomplete messages.
    unordered: VecDeque<Chunk>,
    /// At the sequencer, complete messages to be broadcast. Chunks of a message are consecutive, so that a
    /// joining member misses at most the beginning of the first message.
    ordered: VecDeque<Chunk>,
    /// Chunks that arrived before this member had joined.
    early_messages: VecDeque<(MemberId, crate::wire::Message)>,
    events: VecDeque<Event>,
    /// Members that were announced to the program.
    announced: BTreeSet<MemberId>,
    /// Members that have announced that they leave.
    leaving_members: BTreeSet<MemberId>,
    /// Members that are gone, and the streams to be taken before the program is notified.
    pending_departures: BTreeMap<MemberId, BTreeMap<MemberId, u64>>,
    /// Minimum progress of each stream when members last agreed.
    last_progress: BTreeMap<MemberId, u64>,
    /// Messages of which not all chunks were taken, by origin.
    partial_messages: BTreeMap<MemberId, Vec<u8>>,
    /// Source that was served last.
    last_served: MemberId,
}

impl Member {
    /// Creates a member of a group whose members all start together and know each other.
    ///
    /// `own` is one of `members`, of which there are up to [`MAX_MEMBERS`]. All fields of `config` are above
    /// 0, and the same for all members.
    #[must_use]
    pub fn founding(own: MemberId, members: impl IntoIterator<Item = MemberId>, config: Config) -> Member {
        let mut member = Member::new(own, View::of(members.into_iter().chain([own])), config, false);
        member.try_finish_view_change();
        member
    }

    /// Creates a member that joins a group. Its id is above those of all earlier members; `others` are the
    /// possible members, at least one. It has joined once [`Event::Joined`] reports its own id.
    #[must_use]
    pub fn joining(own: MemberId, others: impl IntoIterator<Item = MemberId>, config: Config) -> Member {
        let mut member = Member::new(own, View::of(others.into_iter().chain([own])), config, true);
        member.try_finish_view_change();
        member
    }

    fn new(own: MemberId, view: View, config: Config, is_joining: bool) -> Member {
        let snapshot = Sync { view: view.clone(), is_joining, streams: BTreeMap::new() };
        let mut member = Member {
            own,
            config,
            view,
            agreed: false,
            is_joining,
            expelled: false,
            leaving: false,
            snapshot,
            syncs: BTreeMap::new(),
            early_flags: BTreeMap::new(),
            links: BTreeMap::new(),
            streams: BTreeMap::new(),
            queue: VecDeque::new(),
            slots: Vec::new(),
            outbox: VecDeque::new(),
            submitted: 0,
            submitted_to: None,
            next_number: 1,
            unordered: VecDeque::new(),
            ordered: VecDeque::new(),
            early_messages: VecDeque::new(),
            events: VecDeque::new(),
            announced: BTreeSet::new(),
            leaving_members: BTreeSet::new(),
            pending_departures: BTreeMap::new(),
            last_progress: BTreeMap::new(),
            partial_messages: BTreeMap::new(),
            last_served: own,
        };
        member.start_view_change();
        if !is_joining {
            // All start with the same view and no chunks, so there is nothing to exchange.
            for link in member.links.values_mut() {
                link.sync_due = false;
            }
            let everyone = member.snapshot.clone();
            let others = member.view.members.iter().filter(|other| **other != own);
            member.syncs = others.map(|other| (*other, everyone.clone())).collect();
        }
        member
    }

    /// Returns its own id.
    #[must_use]
    pub fn id(&self) -> MemberId {
        self.own
    }

    /// Returns the members that it knows of, including itself. Members outside the view need no channel any
    /// more.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Whether all members have the same view as far as this one can know. Otherwise nothing is forwarded.
    #[must_use]
    pub fn is_agreed(&self) -> bool {
        self.agreed
    }

    /// Whether it can broadcast: it has joined, is not leaving, and was not expelled.
    #[must_use]
    pub fn is_member(&self) -> bool {
        !self.is_joining && !self.expelled && !self.leaving
    }

    /// Returns the member whose stream is the total order, once that is known.
    #[must_use]
    pub fn sequencer(&self) -> Option<MemberId> {
        let ordered = self.config.order == Order::Total && self.agreed;
        // Everything that earlier sequencers broadcast comes before its own chunks.
        let complete = || {
            self.streams
                .iter()
                .all(|(source, stream)| self.view.members.contains(source) || stream.end == Some(stream.have))
        };
        self.view.members.first().copied().filter(|_| ordered && complete())
    }

    /// Reports an open channel to another member that joins, whose id is above all earlier ones.
    ///
    /// Members that are already known need no report.
    pub fn peer_connected(&mut self, peer: MemberId) {
        if peer > self.view.highest && self.view.members.len() < MAX_MEMBERS {
            self.view.highest = peer;
            self.view.members.insert(peer);
            self.start_view_change();
            self.try_finish_view_change();
        }
    }

    /// Reports that a member died, closed its channel, or violated the protocol. Everything that it sent was
    /// received.
    pub fn peer_died(&mut self, peer: MemberId) {
        if self.view.members.contains(&peer) && peer != self.own {
            self.view.members.remove(&peer);
            self.start_view_change();
            self.try_finish_view_change();
        }
    }

    /// Accepts a message for broadcast to all other members and, with a total order, to this one too.
    ///
    /// # Errors
    /// [`BroadcastError`]; nothing was accepted.
    pub fn broadcast(&mut self, message: &[u8]) -> Result<(), BroadcastError> {
        let max_bytes = self.config.max_message_bytes as usize;
        if message.len() > max_bytes {
            return Err(BroadcastError::TooLong { length_bytes: message.len(), max_bytes });
        }
        if !self.is_member() {
            return Err(BroadcastError::NotMember);
        }
        if !self.can_broadcast() {
            return Err(BroadcastError::Full);
        }
        let length = self.config.chunk_bytes as usize;
        let count = message.len().div_ceil(length).max(1);
        for index in 0..count {
            let part = &message[index * length..message.len().min((index + 1) * length)];
            self.outbox.push_back(Chunk {
                origin: self.own,
                number: self.next_number,
                first: index == 0,
                last: index + 1 == count,
                data: Arc::from(part),
            });
            self.next_number += 1;
        }
        self.publish_own_chunks();
        Ok(())
    }

    /// Whether [`broadcast`](Self::broadcast) accepts a message now.
    #[must_use]
    pub fn can_broadcast(&self) -> bool {
        let window = self.config.window_chunks as usize;
        let room = match self.config.order {
            Order::PerSource => self.outbox.is_empty() && self.has_room(),
            Order::Total => self.outbox.len() < window,
        };
        room && self.is_member()
    }

    /// Stops accepting messages. Once all have taken this member's messages, it announces that it leaves.
    /// After that it [has left](Self::has_left), and its channels can be closed.
    pub fn leave(&mut self) {
        self.leaving = true;
    }

    /// Whether all members have taken everything that this one broadcast.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        let done = |stream: &Stream| stream.stable == stream.have;
        let nothing_waits = self.outbox.is_empty() && self.unordered.is_empty() && self.ordered.is_empty();
        self.expelled || self.is_joining || nothing_waits && self.streams.get(&self.own).is_none_or(done)
    }

    /// Whether it is leaving and all members have everything that it sent, provided that their channels have
    /// accepted everything that it transmitted.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.leaving && self.is_drained() && self.links.values().all(|link| link.leave_sent && !link.sync_due)
    }

    /// Returns its memory usage.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage {
            retained_chunks: self.streams.values().map(|stream| stream.retained.len()).sum(),
            queued_chunks: self.queue.len(),
            buffers: self.slots.len(),
            waiting_chunks: self.outbox.len() + self.unordered.len() + self.ordered.len(),
            old_streams: self.streams.keys().filter(|source| self.view.is_gone(**source)).count(),
        }
    }

    /// Whether fewer chunks of the own stream than the window are in transit.
    fn has_room(&self) -> bool {
        let own = self.streams.get(&self.own);
        own.is_some_and(|stream| stream.have - stream.stable < u64::from(self.config.window_chunks))
    }

    /// Appends own chunks to the own stream, as far as the window allows. With a total order the sequencer
    /// does this for all.
    fn publish_own_chunks(&mut self) {
        match self.config.order {
            Order::PerSource => {
                while self.has_room()
                    && let Some(chunk) = self.outbox.pop_front()
                {
                    self.append(self.own, chunk);
                }
            }
            Order::Total if self.sequencer() == Some(self.own) => {
                self.set_submission_target(self.own);
                while let Some(chunk) = self.outbox.get(self.submitted) {
                    let chunk = chunk.clone();
                    self.submitted += 1;
                    self.sequence_chunk(chunk);
                }
                while self.has_room()
                    && let Some(chunk) = self.ordered.pop_front()
                {
                    self.append(self.own, chunk);
                }
            }
            Order::Total => {}
        }
        self.fill_slots();
    }

    /// Appends a message to the order, once its last chunk has arrived.
    fn sequence_chunk(&mut self, chunk: Chunk) {
        let (origin, last) = (chunk.origin, chunk.last);
        self.unordered.push_back(chunk);
        if last {
            let (complete, others) =
                core::mem::take(&mut self.unordered).into_iter().partition(|chunk| chunk.origin == origin);
            self.unordered = others;
            let mut complete: VecDeque<Chunk> = complete;
            self.ordered.append(&mut complete);
        }
    }

    /// Resubmits, to a new sequencer, the messages of this member that were not seen in the order.
    fn set_submission_target(&mut self, sequencer: MemberId) {
        if self.submitted_to != Some(sequencer) {
            self.submitted_to = Some(sequencer);
            self.submitted = 0;
        }
    }

    /// Appends the next chunk of a stream.
    fn append(&mut self, source: MemberId, chunk: Chunk) {
        let Some(stream) = self.streams.get_mut(&source) else { return };
        if chunk.origin == self.own && self.config.order == Order::Total && chunk.last {
            while self.outbox.front().is_some_and(|own| own.number <= chunk.number) {
                self.outbox.pop_front();
                self.submitted = self.submitted.saturating_sub(1);
            }
        }
        stream.have += 1;
        stream.retained.push_back(chunk);
        let own = source == self.own && self.config.order == Order::PerSource;
        if own || stream.forward_only {
            stream.taken = stream.have;
        }
        if !stream.children.is_empty() {
            self.queue.push_back((source, stream.have));
        }
        if own || stream.forward_only {
            self.drop_stable_at_root(source);
        }
    }

    /// Drops the chunks that all have taken of a stream whose root is this member.
    fn drop_stable_at_root(&mut self, source: MemberId) {
        if let Some(stream) = self.streams.get_mut(&source)
            && stream.is_root
        {
            let dropped = tombolo_base::canary!("broadcast drops what others lack");
            stream.drop_stable(if dropped { stream.taken } else { stream.subtree_taken() });
        }
    }
}
