//! View changes: the exchange of progress between members, and its result.
//!
//! A member whose view changes stops forwarding and sends its progress in each stream to all others. From
//! then on it accepts nothing from members that are gone. Once all members of its view have sent theirs for
//! the same view, it knows a lower bound on the progress of each, and that no member has more of the stream
//! of a member that is gone. All compute the same new trees, and each parent sends the chunks that its
//! children lack.

use alloc::collections::BTreeMap;

use super::{Child, Event, Member, Stream};
use crate::tree::position;
use crate::wire::{Progress, Sync};
use crate::{MAX_MEMBERS, MemberId, Order, Violation};

impl Member {
    /// Starts to exchange progress for the current view.
    pub(super) fn start_view_change(&mut self) {
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
        for chunks in [&mut self.unordered, &mut self.ordered] {
            chunks.retain(|chunk| members.contains(&chunk.origin));
        }
        if !tombolo_base::canary!("broadcast hears the dead") {
            self.early_messages.retain(|(from, _)| members.contains(from));
        }
        for stream in self.streams.values_mut() {
            (stream.parent, stream.is_root, stream.end) = (None, false, None);
            stream.children.clear();
        }
        let progress = |stream: &Stream| Progress { have: stream.have, taken: stream.taken };
        let streams = match self.is_joining {
            true => BTreeMap::new(),
            false => self.streams.iter().map(|(source, stream)| (*source, progress(stream))).collect(),
        };
        self.snapshot = Sync { view: self.view.clone(), is_joining: self.is_joining, streams };
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
            self.start_view_change();
        }
        self.try_finish_view_change();
        Ok(())
    }

    /// Ends the exchange, if all members have sent their progress for this view.
    pub(super) fn try_finish_view_change(&mut self) {
        let others = self.view.members.iter().filter(|member| **member != self.own);
        let all = |member: &MemberId| self.syncs.get(member).is_some_and(|sync| sync.view == self.view);
        if self.agreed || self.expelled || !others.clone().all(all) {
            return;
        }
        let mut reports: BTreeMap<MemberId, Sync> = self.syncs.clone();
        reports.insert(self.own, self.snapshot.clone());
        if reports.values().all(|sync| sync.is_joining) {
            // All previous members are gone: those that were joining start anew, together.
            for sync in reports.values_mut() {
                sync.streams =
                    self.view.members.iter().map(|member| (*member, Progress::default())).collect();
                sync.is_joining = false;
            }
        }
        let sources: alloc::vec::Vec<MemberId> = self
            .streams
            .keys()
            .copied()
            .chain(reports.values().flat_map(|sync| sync.streams.keys().copied()))
            .collect();
        for source in sources {
            self.rebuild_stream(source, &reports);
        }
        (self.agreed, self.is_joining) = (true, false);
        for ((member, source), taken) in core::mem::take(&mut self.early_flags) {
            let stream = self.streams.get_mut(&source);
            if let Some(child) = stream.and_then(|stream| stream.children.get_mut(&member)) {
                child.taken = child.taken.max(taken);
                self.drop_stable_at_root(source);
            }
        }
        self.announce(&reports);
        self.queue_missing_chunks();
        self.publish_own_chunks();
        for (from, message) in core::mem::take(&mut self.early_messages) {
            // The channel of a peer that sent an invalid message will be closed for its next one.
            let _ = self.handle_message(from, message);
        }
    }

    /// Computes the new parent and children for the chunks of a source, from the progress of all members.
    fn rebuild_stream(&mut self, source: MemberId, reports: &BTreeMap<MemberId, Sync>) {
        let old = || reports.iter().filter(|(_, sync)| !sync.is_joining);
        let is_gone = !self.view.members.contains(&source);
        if is_gone && old().any(|(_, sync)| !sync.streams.contains_key(&source)) {
            // A member has dropped the stream, which it does once all have taken all of it.
            self.streams.remove(&source);
            return;
        }
        let progress_of = |sync: &Sync| sync.streams.get(&source).copied().unwrap_or_default();
        // A joining member starts with the chunks that not all of the others have, so that it can forward
        // any chunk that is missed.
        let base = old().map(|(_, sync)| progress_of(sync).have).min().unwrap_or_default();
        let end = old().map(|(_, sync)| progress_of(sync).have).max().unwrap_or_default();
        if is_gone && old().all(|(_, sync)| progress_of(sync).taken >= end) {
            self.streams.remove(&source);
            return;
        }
        let holder = old().find(|(_, sync)| progress_of(sync).have == end).map(|(member, _)| *member);
        let root = if is_gone { holder.unwrap_or(self.own) } else { source };
        let stream = self.streams.entry(source).or_default();
        if reports.get(&self.own).is_some_and(|sync| sync.is_joining) {
            (stream.have, stream.taken, stream.stable) = (base, base, base);
            stream.forward_only = is_gone;
        }
        let position = position(&self.view.members, root, self.own, self.config.fan_out.into());
        stream.end = is_gone.then_some(end);
        stream.is_root = position.parent.is_none();
        stream.parent = position.parent;
        stream.reported_taken = 0;
        // About the members below a child it is only known that they have taken what all have.
        let all_taken = old().map(|(_, sync)| progress_of(sync).taken).min().unwrap_or_default();
        let child = |member: MemberId| match reports.get(&member) {
            Some(sync) if !sync.is_joining => Child { reached: progress_of(sync).have, taken: all_taken },
            _ => Child { reached: base, taken: all_taken },
        };
        stream.children = position.children.into_iter().map(|member| (member, child(member))).collect();
        stream.drop_stable(all_taken);
    }

    /// Records the members to be announced to the program.
    fn announce(&mut self, reports: &BTreeMap<MemberId, Sync>) {
        for member in &self.view.members {
            if self.announced.insert(*member) {
                self.events.push_back(Event::Joined(*member));
            }
        }
        for member in self.announced.clone() {
            if self.view.is_gone(member) {
                self.announced.remove(&member);
                self.pending_departures.insert(member, BTreeMap::new());
            }
        }
        // Messages of members that are gone are in their own streams, or in those of sequencers. The stream
        // of a live sequencer is considered up to its progress when it reported on this view.
        let last = |source: &MemberId, stream: &Stream| match stream.end {
            Some(end) => end,
            None => reports
                .get(source)
                .and_then(|sync| sync.streams.get(source))
                .map_or(stream.stable, |progress| progress.have),
        };
        self.last_progress =
            self.streams.iter().map(|(source, stream)| (*source, last(source, stream))).collect();
        for member in self.pending_departures.keys().copied().collect::<alloc::vec::Vec<_>>() {
            self.await_last_of(member);
        }
    }

    /// Records that the program must learn that a member is gone, after its last message.
    pub(super) fn await_last_of(&mut self, member: MemberId) {
        let mut awaited = self.last_progress.clone();
        if self.config.order == Order::PerSource {
            awaited.retain(|source, _| *source == member);
        }
        self.pending_departures.insert(member, awaited);
    }

    /// Queues, for the children of each stream, the chunks that not all of them have.
    fn queue_missing_chunks(&mut self) {
        if tombolo_base::canary!("broadcast repairs nothing") {
            return;
        }
        for (source, stream) in &self.streams {
            let lowest = stream.children.values().map(|child| child.reached).min().unwrap_or(stream.have);
            self.queue.extend((lowest.max(stream.stable) + 1..=stream.have).map(|seq| (*source, seq)));
        }
    }
}
