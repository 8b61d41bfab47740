//! One member of a group.

mod agree;
mod receive;
mod take;
mod transmit;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::view::View;
use crate::wire::{Chunk, Sync};
use crate::{Config, MAX_MEMBERS, MemberId, Order};

/// What happens in a group, in the order in which it concerns the program.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// A member has joined. Told before its first message, and at first for each member that there is.
    Joined(MemberId),
    /// A message.
    Message {
        /// The member that broadcast it.
        from: MemberId,
        /// Its bytes.
        data: Vec<u8>,
    },
    /// A member is gone. Told after the last of its messages that any member has.
    Left {
        /// The member.
        member: MemberId,
        /// It said that it leaves. Otherwise it died, or its channel broke.
        in_order: bool,
    },
    /// The others took this member for dead: its channel to one of them broke. It is not a member any more.
    Expelled,
}

/// Why a message is not accepted for broadcast.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// Others have not taken enough of the messages before it. Try again later.
    #[error("not all members have taken the messages before it")]
    Full,
    /// It is longer than agreed.
    #[error("a message of {length_bytes} bytes is longer than the group's limit of {max_bytes}")]
    TooLong {
        /// The length of the message.
        length_bytes: usize,
        /// The most that the configuration allows.
        max_bytes: usize,
    },
    /// The member has not joined yet, is leaving, or was expelled.
    #[error("not a member of the group: still joining, leaving, or expelled")]
    NotMember,
}

/// What a member keeps in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Chunks that are kept until all members have taken them.
    pub kept_chunks: usize,
    /// Chunks that wait for a forwarding buffer; they are among those kept.
    pub queued_chunks: usize,
    /// Forwarding buffers in use.
    pub buffers: usize,
    /// Chunks of own messages that were not broadcast yet, and others' that wait to be ordered.
    pub waiting_chunks: usize,
    /// Streams of members that are gone, until all have taken them.
    pub old_streams: usize,
}

/// The channel to another member.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Link {
    /// Chunks sent over it.
    sent: u64,
    /// Of these, how many the peer has received.
    acknowledged: u64,
    /// Chunks received over it.
    received: u64,
    /// Of these, how many the peer was told of.
    told: u64,
    /// This member's view has changed, and the peer was not told.
    sync_due: bool,
    /// The peer was told that this member leaves.
    leave_told: bool,
}

/// What is left of the stream of a source.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Stream {
    /// The last chunk received.
    have: u64,
    /// The last chunk that the program took.
    taken: u64,
    /// The last chunk that all members are known to have taken.
    stable: u64,
    /// The chunks after `stable`, up to `have`.
    kept: VecDeque<Chunk>,
    /// Of a source that is gone: the last chunk that any member has, once all have said so.
    end: Option<u64>,
    /// Joined after its source was gone: kept for others, not for this program.
    mute: bool,
    /// Where its chunks come from; `None` at the root, and while members exchange what they have.
    parent: Option<MemberId>,
    is_root: bool,
    /// Where they go to.
    children: BTreeMap<MemberId, Child>,
    /// What the parent was told that all below have taken.
    told: u64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Child {
    /// The last chunk that it has or that is on its way to it.
    reached: u64,
    /// The last chunk that all below it and itself have taken.
    taken: u64,
}

impl Stream {
    fn kept(&self, seq: u64) -> Option<&Chunk> {
        let index = seq.checked_sub(self.stable + 1)?;
        self.kept.get(usize::try_from(index).ok()?)
    }

    /// What this member and all below it have taken.
    fn taken_below(&self) -> u64 {
        self.children.values().map(|child| child.taken).fold(self.taken, u64::min)
    }

    /// All members have taken the chunks up to `seq`.
    fn settle(&mut self, seq: u64) {
        // A peer may say so of chunks that are not there yet.
        let seq = seq.min(self.taken);
        while self.stable < seq {
            self.kept.pop_front();
            self.stable += 1;
        }
    }
}

/// A chunk in a forwarding buffer: the paper's message buffer, in use until all children have the chunk.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Slot {
    source: MemberId,
    seq: u64,
    /// The children that do not have it, and as the how manieth chunk it was sent to each.
    targets: Vec<(MemberId, Option<u64>)>,
}

/// A member of a group, as a state machine.
///
/// Its user carries messages between members, over channels that keep order and lose nothing while both ends
/// live: [`receive`](Self::receive) takes what came from a member, [`transmit`](Self::transmit) gives the
/// next message for one. [`connected`](Self::connected) and [`died`](Self::died) report the channels
/// themselves; a death must be reported after everything that came from the member before.
/// [`next_event`](Self::next_event) is what the program takes, and [`broadcast`](Self::broadcast) what it
/// sends.
///
/// Memory is bounded: for each source [`Config::window_chunks`] chunks and one message that is being put
/// together, and with a total order twice that.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Member {
    own: MemberId,
    config: Config,
    view: View,
    /// All members of the view have told what they have, and the trees are those of the view.
    agreed: bool,
    /// This member is joining.
    fresh: bool,
    expelled: bool,
    leaving: bool,
    /// What this member has told of the current view.
    snapshot: Sync,
    syncs: BTreeMap<MemberId, Sync>,
    /// By member and source, flags that came after that member's exchange and before the end of this one's.
    early_flags: BTreeMap<(MemberId, MemberId), u64>,
    links: BTreeMap<MemberId, Link>,
    streams: BTreeMap<MemberId, Stream>,
    queue: VecDeque<(MemberId, u64)>,
    slots: Vec<Slot>,
    /// Own chunks that were not broadcast, or with a total order not seen in the order.
    outbox: VecDeque<Chunk>,
    /// Of these, how many the sequencer has.
    submitted: usize,
    submitted_to: Option<MemberId>,
    /// The number of the next own chunk.
    next_number: u64,
    /// At the sequencer, chunks of messages that are not complete.
    unordered: VecDeque<Chunk>,
    /// At the sequencer, complete messages to be broadcast. Their chunks follow each other, so that a member
    /// that joins misses none but the first.
    ordered: VecDeque<Chunk>,
    /// Chunks that came before this member had joined.
    early: VecDeque<(MemberId, crate::wire::Message)>,
    events: VecDeque<Event>,
    /// The members that the program was told of.
    announced: BTreeSet<MemberId>,
    /// Members that have said that they leave.
    departed: BTreeSet<MemberId>,
    /// Members that are gone, and what is to be taken before the program is told.
    gone: BTreeMap<MemberId, BTreeMap<MemberId, u64>>,
    /// What each stream held when members last agreed, at least.
    lasts: BTreeMap<MemberId, u64>,
    /// Messages of which not all chunks were taken, by origin.
    partial: BTreeMap<MemberId, Vec<u8>>,
    /// The source whose turn it was last.
    turn: MemberId,
}

impl Member {
    /// A member of a group whose members all begin at once and know each other.
    ///
    /// `own` is one of `members`, of which there are up to [`MAX_MEMBERS`]; all fields of `config` are above
    /// 0, and the same for all members.
    #[must_use]
    pub fn founding(own: MemberId, members: impl IntoIterator<Item = MemberId>, config: Config) -> Member {
        let mut member = Member::new(own, View::of(members.into_iter().chain([own])), config, false);
        member.agree();
        member
    }

    /// A member that joins a group. Its id is above those of all that have been members; `others` are those
    /// that there may be, one at least. It is a member once [`Event::Joined`] tells so of itself.
    #[must_use]
    pub fn joining(own: MemberId, others: impl IntoIterator<Item = MemberId>, config: Config) -> Member {
        let mut member = Member::new(own, View::of(others.into_iter().chain([own])), config, true);
        member.agree();
        member
    }

    fn new(own: MemberId, view: View, config: Config, fresh: bool) -> Member {
        let snapshot = Sync { view: view.clone(), fresh, streams: BTreeMap::new() };
        let mut member = Member {
            own,
            config,
            view,
            agreed: false,
            fresh,
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
            early: VecDeque::new(),
            events: VecDeque::new(),
            announced: BTreeSet::new(),
            departed: BTreeSet::new(),
            gone: BTreeMap::new(),
            lasts: BTreeMap::new(),
            partial: BTreeMap::new(),
            turn: own,
        };
        member.view_changed();
        if !fresh {
            // All begin with the same view and nothing else, so there is nothing to exchange.
            for link in member.links.values_mut() {
                link.sync_due = false;
            }
            let everyone = member.snapshot.clone();
            let others = member.view.members.iter().filter(|other| **other != own);
            member.syncs = others.map(|other| (*other, everyone.clone())).collect();
        }
        member
    }

    /// Its own id.
    #[must_use]
    pub fn id(&self) -> MemberId {
        self.own
    }

    /// The members that it knows of, itself included. What is not in it needs no channel any more.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Whether all members have the same view as far as this one can know. While not, nothing is forwarded.
    #[must_use]
    pub fn is_agreed(&self) -> bool {
        self.agreed
    }

    /// Whether it can broadcast: it has joined, is not leaving, and was not expelled.
    #[must_use]
    pub fn is_member(&self) -> bool {
        !self.fresh && !self.expelled && !self.leaving
    }

    /// The member whose stream is the total order, once that is known.
    #[must_use]
    pub fn sequencer(&self) -> Option<MemberId> {
        let ordered = self.config.order == Order::Total && self.agreed;
        // All that the sequencers before it broadcast comes before its own.
        let complete = || {
            self.streams
                .iter()
                .all(|(source, stream)| self.view.members.contains(source) || stream.end == Some(stream.have))
        };
        self.view.members.first().copied().filter(|_| ordered && complete())
    }

    /// A channel to another member is open: one that joins, whose id is above all before it.
    ///
    /// A member that is known needs no report.
    pub fn connected(&mut self, peer: MemberId) {
        if peer > self.view.highest && self.view.members.len() < MAX_MEMBERS {
            self.view.highest = peer;
            self.view.members.insert(peer);
            self.view_changed();
            self.agree();
        }
    }

    /// A member died, closed its channel, or broke the protocol. Everything that came from it was received.
    pub fn died(&mut self, peer: MemberId) {
        if self.view.members.contains(&peer) && peer != self.own {
            self.view.members.remove(&peer);
            self.view_changed();
            self.agree();
        }
    }

    /// Accepts a message for broadcast to all other members, and with a total order to this one, too.
    ///
    /// # Errors
    /// [`Refusal`]; nothing was accepted.
    pub fn broadcast(&mut self, message: &[u8]) -> Result<(), Refusal> {
        let max_bytes = self.config.max_message_bytes as usize;
        if message.len() > max_bytes {
            return Err(Refusal::TooLong { length_bytes: message.len(), max_bytes });
        }
        if !self.is_member() {
            return Err(Refusal::NotMember);
        }
        if !self.can_broadcast() {
            return Err(Refusal::Full);
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
        self.issue();
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

    /// Accepts no more messages. Once all have taken this member's it tells them that it leaves, after which
    /// it [has left](Self::has_left), and its channels can be closed.
    pub fn leave(&mut self) {
        self.leaving = true;
    }

    /// Whether all members have taken everything that this one broadcast.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        let done = |stream: &Stream| stream.stable == stream.have;
        let nothing_waits = self.outbox.is_empty() && self.unordered.is_empty() && self.ordered.is_empty();
        self.expelled || self.fresh || nothing_waits && self.streams.get(&self.own).is_none_or(done)
    }

    /// Whether it is leaving and all members have what it sent, if their channels have taken what it
    /// transmitted.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.leaving && self.is_drained() && self.links.values().all(|link| link.leave_told && !link.sync_due)
    }

    /// What it keeps in memory.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage {
            kept_chunks: self.streams.values().map(|stream| stream.kept.len()).sum(),
            queued_chunks: self.queue.len(),
            buffers: self.slots.len(),
            waiting_chunks: self.outbox.len() + self.unordered.len() + self.ordered.len(),
            old_streams: self.streams.keys().filter(|source| self.view.is_gone(**source)).count(),
        }
    }

    /// Whether fewer chunks of the own stream than the window are on their way.
    fn has_room(&self) -> bool {
        let own = self.streams.get(&self.own);
        own.is_some_and(|stream| stream.have - stream.stable < u64::from(self.config.window_chunks))
    }

    /// Puts own chunks into the own stream, as far as the window allows; with a total order the sequencer
    /// does, for all.
    fn issue(&mut self) {
        match self.config.order {
            Order::PerSource => {
                while self.has_room()
                    && let Some(chunk) = self.outbox.pop_front()
                {
                    self.append(self.own, chunk);
                }
            }
            Order::Total if self.sequencer() == Some(self.own) => {
                self.begin_to_submit(self.own);
                while let Some(chunk) = self.outbox.get(self.submitted) {
                    let chunk = chunk.clone();
                    self.submitted += 1;
                    self.order(chunk);
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

    /// Gives a message its place in the order, once its last chunk is there.
    fn order(&mut self, chunk: Chunk) {
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

    /// A new sequencer knows of no message of this member that it has not seen in the order.
    fn begin_to_submit(&mut self, sequencer: MemberId) {
        if self.submitted_to != Some(sequencer) {
            self.submitted_to = Some(sequencer);
            self.submitted = 0;
        }
    }

    /// The next chunk of a stream is here.
    fn append(&mut self, source: MemberId, chunk: Chunk) {
        let Some(stream) = self.streams.get_mut(&source) else { return };
        if chunk.origin == self.own && self.config.order == Order::Total && chunk.last {
            while self.outbox.front().is_some_and(|own| own.number <= chunk.number) {
                self.outbox.pop_front();
                self.submitted = self.submitted.saturating_sub(1);
            }
        }
        stream.have += 1;
        stream.kept.push_back(chunk);
        let own = source == self.own && self.config.order == Order::PerSource;
        if own || stream.mute {
            stream.taken = stream.have;
        }
        if !stream.children.is_empty() {
            self.queue.push_back((source, stream.have));
        }
        if own || stream.mute {
            self.settle_root(source);
        }
    }

    /// What all have taken of a stream whose root this member is need not be kept.
    fn settle_root(&mut self, source: MemberId) {
        if let Some(stream) = self.streams.get_mut(&source)
            && stream.is_root
        {
            let dropped = tombolo_base::canary!("broadcast drops what others lack");
            stream.settle(if dropped { stream.taken } else { stream.taken_below() });
        }
    }
}
