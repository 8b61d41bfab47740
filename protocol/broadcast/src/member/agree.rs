//! View changes: the exchange of progress between members, and its result.
//!
//! A member whose view changes stops forwarding and sends its progress in each stream to all others. From
//! then on it accepts nothing from members that are gone. Once all members of its view have sent theirs for
//! the same view, it knows a lower bound on the progress of each, and that no member has more of the stream
//! of a member that is gone. All compute the same new trees, and each parent sends the chunks that its
//! children lack.

use alloc::collections::BTreeMap;

use super::{Child, Event, Member, Stream};
use crate::tree::place;
use crate::wire::{Progress, Sync};
use crate::{MAX_MEMBERS, MemberId, Order, Violation};

impl Member {
    /// Starts to exchange progress for the current view.
    pub(super) fn view_changed(&mut self) {
        self.agreed = false;
        self.slots.clear();
        self.queue.clear();
        for member in &self.view.members {
            self.streams.entry(*member).or_default();
            if *member != self.own {
                self.links.entry(*member).or_default();
            }
        }
        let members = &self.view.members;
        self.links.retain(|peer, _| members.contains(peer));
        self.syncs.retain(|peer, _| members.contains(peer));
        // No member has seen these. The only messages left of a member that is gone are those that members
        // report now.
        for waiting in [&mut self.unordered, &mut self.ordered] {
            waiting.retain(|chunk| members.contains(&chunk.origin));
        }
        if !tombolo_base::canary!("broadcast hears the dead") {
            self.early.retain(|(from, _)| members.contains(from));
        }
        for stream in self.streams.values_mut() {
            (stream.parent, stream.is_root, stream.end) = (None, false, None);
            stream.children.clear();
        }
        let progress = |stream: &Stream| Progress { have: stream.have, taken: stream.taken };
        let streams = match self.fresh {
            true => BTreeMap::new(),
            false => self.streams.iter().map(|(source, stream)| (*source, progress(stream))).collect(),
        };
        self.snapshot = Sync { view: self.view.clone(), fresh: self.fresh, streams };
        for link in self.links.values_mut() {
            link.sync_due = true;
        }
    }

    /// Handles another member's view and progress.
    pub(super) fn receive_sync(&mut self, from: MemberId, sync: Sync) -> Result<(), Violation> {
        if !sync.view.members.contains(&from) {
            return Err(Violation::View { from });
        }
        if sync.view.is_gone(self.own) {
            self.expelled = true;
            self.events.push_back(Event::Expelled);
            return Ok(());
        }
        let merged = self.view.merged(&sync.view);
        if merged.members.len() > MAX_MEMBERS {
            return Err(Violation::View { from });
        }
        self.syncs.insert(from, sync);
        self.early_flags.retain(|(member, _), _| *member != from);
        if merged != self.view {
            self.view = merged;
            self.view_changed();
        }
        self.agree();
        Ok(())
    }

    /// Ends the exchange, if all members have sent their progress for this view.
    pub(super) fn agree(&mut self) {
        let others = self.view.members.iter().filter(|member| **member != self.own);
        let all = |member: &MemberId| self.syncs.get(member).is_some_and(|sync| sync.view == self.view);
        if self.agreed || self.expelled || !others.clone().all(all) {
            return;
        }
        let mut told: BTreeMap<MemberId, Sync> = self.syncs.clone();
        told.insert(self.own, self.snapshot.clone());
        if told.values().all(|sync| sync.fresh) {
            // All previous members are gone: those that were joining start anew, together.
            for sync in told.values_mut() {
                sync.streams =
                    self.view.members.iter().map(|member| (*member, Progress::default())).collect();
                sync.fresh = false;
            }
        }
        let sources: alloc::vec::Vec<MemberId> = self
            .streams
            .keys()
            .copied()
            .chain(told.values().flat_map(|sync| sync.streams.keys().copied()))
            .collect();
        for source in sources {
            self.agree_on(source, &told);
        }
        (self.agreed, self.fresh) = (true, false);
        for ((member, source), taken) in core::mem::take(&mut self.early_flags) {
            let stream = self.streams.get_mut(&source);
            if let Some(child) = stream.and_then(|stream| stream.children.get_mut(&member)) {
                child.taken = child.taken.max(taken);
                self.settle_root(source);
            }
        }
        self.announce(&told);
        self.send_what_is_missing();
        self.issue();
        for (from, message) in core::mem::take(&mut self.early) {
            // The channel of a peer that sent an invalid message will be closed for its next one.
            let _ = self.take_in(from, message);
        }
    }

    /// Computes the new parent and children for the chunks of a source, from the progress of all members.
    fn agree_on(&mut self, source: MemberId, told: &BTreeMap<MemberId, Sync>) {
        let old = || told.iter().filter(|(_, sync)| !sync.fresh);
        let is_gone = !self.view.members.contains(&source);
        if is_gone && old().any(|(_, sync)| !sync.streams.contains_key(&source)) {
            // A member has dropped the stream, which it does once all have taken all of it.
            self.streams.remove(&source);
            return;
        }
        let of = |sync: &Sync| sync.streams.get(&source).copied().unwrap_or_default();
        // A joining member starts with the chunks that not all of the others have, so that it can forward
        // any chunk that is missed.
        let base = old().map(|(_, sync)| of(sync).have).min().unwrap_or_default();
        let end = old().map(|(_, sync)| of(sync).have).max().unwrap_or_default();
        if is_gone && old().all(|(_, sync)| of(sync).taken >= end) {
            self.streams.remove(&source);
            return;
        }
        let holder = old().find(|(_, sync)| of(sync).have == end).map(|(member, _)| *member);
        let root = if is_gone { holder.unwrap_or(self.own) } else { source };
        let stream = self.streams.entry(source).or_default();
        if told.get(&self.own).is_some_and(|sync| sync.fresh) {
            (stream.have, stream.taken, stream.stable) = (base, base, base);
            stream.mute = is_gone;
        }
        let place = place(&self.view.members, root, self.own, self.config.fan_out.into());
        stream.end = is_gone.then_some(end);
        stream.is_root = place.parent.is_none();
        stream.parent = place.parent;
        stream.told = 0;
        // About the members below a child it is only known that they have taken what all have.
        let settled = old().map(|(_, sync)| of(sync).taken).min().unwrap_or_default();
        let child = |member: MemberId| match told.get(&member) {
            Some(sync) if !sync.fresh => Child { reached: of(sync).have, taken: settled },
            _ => Child { reached: base, taken: settled },
        };
        stream.children = place.children.into_iter().map(|member| (member, child(member))).collect();
        stream.settle(settled);
    }

    /// Records the members to be announced to the program.
    fn announce(&mut self, told: &BTreeMap<MemberId, Sync>) {
        for member in &self.view.members {
            if self.announced.insert(*member) {
                self.events.push_back(Event::Joined(*member));
            }
        }
        for member in self.announced.clone() {
            if self.view.is_gone(member) {
                self.announced.remove(&member);
                self.gone.insert(member, BTreeMap::new());
            }
        }
        // Messages of members that are gone are in their own streams, or in those of sequencers. The stream
        // of a live sequencer is considered up to its progress when it reported on this view.
        let last = |source: &MemberId, stream: &Stream| match stream.end {
            Some(end) => end,
            None => told
                .get(source)
                .and_then(|sync| sync.streams.get(source))
                .map_or(stream.stable, |progress| progress.have),
        };
        self.lasts = self.streams.iter().map(|(source, stream)| (*source, last(source, stream))).collect();
        for member in self.gone.keys().copied().collect::<alloc::vec::Vec<_>>() {
            self.await_last_of(member);
        }
    }

    /// Records that the program must learn that a member is gone, after its last message.
    pub(super) fn await_last_of(&mut self, member: MemberId) {
        let mut awaited = self.lasts.clone();
        if self.config.order == Order::PerSource {
            awaited.retain(|source, _| *source == member);
        }
        self.gone.insert(member, awaited);
    }

    /// Queues, for the children of each stream, the chunks that not all of them have.
    fn send_what_is_missing(&mut self) {
        if tombolo_base::canary!("broadcast repairs nothing") {
            return;
        }
        for (source, stream) in &self.streams {
            let lowest = stream.children.values().map(|child| child.reached).min().unwrap_or(stream.have);
            self.queue.extend((lowest.max(stream.stable) + 1..=stream.have).map(|seq| (*source, seq)));
        }
    }
}
