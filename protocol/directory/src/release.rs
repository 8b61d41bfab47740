//! Release consistency: ranks write to copies of a page concurrently, and send the differences home.
//!
//! The home of a page has the authoritative content, which its own program accesses directly. Another rank
//! gets a copy to read. Before its program writes to it, the copy is saved as the *twin* (TreadMarks). A
//! *release* sends the differences of pages from their twins to their homes, which merge them at once, and
//! ends when all homes have confirmed; an acquire, here [`refresh`](Node::refresh), invalidates all copies,
//! so that they are fetched from the homes again (home-based lazy release consistency: Zhou, Iftode and Li,
//! OSDI 1996; without its write notices, as Argo does it: Kaxiras and others, HPDC 2015). Homes do not track
//! copies, recall nothing and wait for nothing.
//!
//! A program that accesses the same bytes from two ranks must order the accesses by a release of the first
//! one, any notification of the second one, and a refresh there. It then observes the same as on a single
//! computer.
//!
//! Homes do not change: a rank that dies takes the pages of its home with it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::message::{Access, Message};
use crate::node::{Counts, Fault, Node, Store, Violation};
use crate::ranks::{Rank, Ranks};

/// State of pages whose home is another rank.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Copies<C> {
    /// Pages that the program may read.
    valid: BTreeSet<u32>,
    /// For each page that the program may write to, its content when it last matched its home.
    twins: BTreeMap<u32, C>,
    /// Pages in transit.
    in_flight: BTreeSet<u32>,
    /// Pages in transit that were requested before the last refresh: their content may be too old for the
    /// program.
    stale: BTreeSet<u32>,
    /// Homes that were sent differences since they were last asked to confirm them.
    unconfirmed: Ranks,
    /// Number of the last release.
    number: u64,
    /// Outstanding confirmations: the home, and the release that requested it.
    pending: Vec<(Rank, u64)>,
    /// Home that died with writes of the program.
    failed: Option<Rank>,
}

impl<C> Copies<C> {
    pub(crate) fn none() -> Self {
        Copies {
            valid: BTreeSet::new(),
            twins: BTreeMap::new(),
            in_flight: BTreeSet::new(),
            stale: BTreeSet::new(),
            unconfirmed: Ranks::NONE,
            number: 0,
            pending: Vec::new(),
            failed: None,
        }
    }
}

impl<C: Clone> Node<C> {
    /// Returns the home of a page, dead or not.
    fn fixed_home(&self, page: u32) -> Rank {
        self.geometry.home(page, Ranks::NONE).unwrap_or_default()
    }

    /// Starts to send the program's writes home. Returns the number of this release, for
    /// [`is_released`](Self::is_released). Has no effect on a range with sequential consistency.
    pub fn release<S: Store<Content = C>>(&mut self, store: &mut S) -> u64 {
        self.copies.number += 1;
        let number = self.copies.number;
        if tombolo_base::canary!("confirmation overtakes differences") {
            self.copies.unconfirmed = self.copies.twins.keys().fold(Ranks::NONE, |homes, page| {
                homes.union(Ranks::of(self.geometry.home(*page, Ranks::NONE).unwrap_or_default()))
            });
        } else {
            self.send_differences(store);
        }
        for home in core::mem::take(&mut self.copies.unconfirmed).iter() {
            self.post(home, Message::Confirm { number });
            self.copies.pending.push((home, number));
        }
        if tombolo_base::canary!("confirmation overtakes differences") {
            self.send_differences(store);
        }
        number
    }

    /// Whether all homes have merged the writes of the program from before this release.
    #[must_use]
    pub fn is_released(&self, number: u64) -> bool {
        self.copies.pending.iter().all(|(_, pending)| *pending > number)
    }

    /// Returns a home that died with writes of the program since the last call.
    pub fn take_failed(&mut self) -> Option<Rank> {
        self.copies.failed.take()
    }

    /// Makes everything that other ranks have released visible to the program. Has no effect on a range with
    /// sequential consistency.
    pub fn refresh<S: Store<Content = C>>(&mut self, store: &mut S) {
        // Writes of the program itself, possibly by another thread, must not be lost.
        self.send_differences(store);
        self.copies.twins.clear();
        for page in core::mem::take(&mut self.copies.valid) {
            self.pages[page as usize].access = Access::None;
            let _ = store.downgrade(page, Access::None, false);
        }
        if !tombolo_base::canary!("old copies arrive after a refresh") {
            self.copies.stale = self.copies.in_flight.clone();
        }
    }

    fn send_differences<S: Store<Content = C>>(&mut self, store: &mut S) {
        for (page, before) in core::mem::take(&mut self.copies.twins) {
            let home = self.fixed_home(page);
            self.pages[page as usize].access = Access::Read;
            // The program may not write from now on, until there is a twin again.
            let _ = store.downgrade(page, Access::Read, false);
            if let Some(content) = store.difference(page, &before) {
                self.copies.unconfirmed.add(home);
                if !tombolo_base::canary!("a difference is lost") {
                    self.post(home, Message::Difference { page, content });
                }
            }
            if tombolo_base::canary!("a twin outlives its release") {
                self.copies.twins.insert(page, before);
            } else {
                store.recycle(before);
            }
        }
    }

    /// Handles a fault on a page of another home. Its record shows that it is not lost, and that it may not
    /// be accessed in this way.
    pub(crate) fn handle_copy_fault<S>(&mut self, store: &mut S, page: u32, access: Access) -> Fault
    where
        S: Store<Content = C>,
    {
        let record = &mut self.pages[page as usize];
        if record.access == Access::Read {
            self.create_twin(store, page);
            store.upgrade(page);
            return Fault::Resolved;
        }
        record.want = record.want.max(access);
        self.request_copy(page);
        let block = page / self.geometry.block_pages;
        for next in (page + 1..self.geometry.pages).take(usize::from(self.geometry.ahead)) {
            let record = &self.pages[next as usize];
            if next / self.geometry.block_pages == block
                && record.access == Access::None
                && record.lost.is_none()
            {
                self.request_copy(next);
            }
        }
        Fault::Requested
    }

    /// Saves the twin of a page that the program may read.
    fn create_twin<S: Store<Content = C>>(&mut self, store: &mut S, page: u32) {
        if !(tombolo_base::canary!("a twin outlives its release") && self.copies.twins.contains_key(&page)) {
            self.copies.twins.insert(page, store.copy(page));
        }
        let record = &mut self.pages[page as usize];
        (record.access, record.want) = (Access::Write, Access::None);
    }

    fn request_copy(&mut self, page: u32) {
        if self.copies.in_flight.insert(page) {
            let home = self.fixed_home(page);
            self.post(home, Message::Want { page, access: Access::Read, ahead: 0 });
        }
    }

    /// Handles a message of another rank.
    pub(crate) fn handle_release_message<S>(
        &mut self,
        store: &mut S,
        from: Rank,
        message: Message<C>,
    ) -> Result<(), Violation>
    where
        S: Store<Content = C>,
    {
        match message {
            Message::Want { page, access, ahead } => {
                self.check_at_home(page)?;
                if (access, ahead) != (Access::Read, 0) {
                    return Err(Violation::Request(page));
                }
                let content = Some(store.copy(page));
                self.post(from, Message::Grant { page, access, content });
                Ok(())
            }
            Message::Grant { page, access: Access::Read, content: Some(content) } => {
                self.handle_copy(store, from, page, content)
            }
            Message::Difference { page, content } => {
                self.check_at_home(page)?;
                if store.merge(page, content) { Ok(()) } else { Err(Violation::Difference(page)) }
            }
            Message::Confirm { number } => {
                self.post(from, Message::Confirmed { number });
                Ok(())
            }
            Message::Confirmed { number } => {
                let pending = self.copies.pending.iter().position(|pending| *pending == (from, number));
                self.copies.pending.remove(pending.ok_or(Violation::Confirmation(number))?);
                Ok(())
            }
            Message::Grant { page, .. }
            | Message::Recall { page, .. }
            | Message::Yield { page, .. }
            | Message::Lost { page, .. }
            | Message::Held { first: page, .. } => Err(Violation::Holding(page)),
            Message::Reported { .. } => Err(Violation::Holding(0)),
        }
    }

    fn check_at_home(&self, page: u32) -> Result<(), Violation> {
        if page >= self.geometry.pages {
            Err(Violation::Page(page))
        } else if self.fixed_home(page) == self.geometry.me {
            Ok(())
        } else {
            Err(Violation::NotHome(page))
        }
    }

    fn handle_copy<S>(&mut self, store: &mut S, from: Rank, page: u32, content: C) -> Result<(), Violation>
    where
        S: Store<Content = C>,
    {
        let home = self.fixed_home(page);
        let record = self.pages.get_mut(page as usize).ok_or(Violation::Page(page))?;
        if home != from {
            return Err(Violation::NotHome(page));
        }
        if !self.copies.in_flight.remove(&page) {
            return Err(Violation::Holding(page));
        }
        if self.copies.stale.remove(&page) {
            store.recycle(content);
            if record.want > Access::None {
                self.request_copy(page);
            }
            return Ok(());
        }
        let writes = record.want == Access::Write;
        record.want = Access::None;
        record.access = if writes { Access::Write } else { Access::Read };
        Counts::increment(&mut record.counts.fetched);
        self.copies.valid.insert(page);
        if writes {
            self.copies.twins.insert(page, content.clone());
        }
        let access = self.pages[page as usize].access;
        store.install(page, access, content);
        Ok(())
    }

    /// Handles the death of a rank: the pages of its home are lost, with all writes to copies of them.
    pub(crate) fn handle_copy_home_death<S: Store<Content = C>>(&mut self, store: &mut S, died: Rank) {
        let before = self.copies.pending.len();
        self.copies.pending.retain(|(home, _)| *home != died);
        if self.copies.pending.len() < before || self.copies.unconfirmed.contains(died) {
            self.copies.failed = Some(died);
        }
        self.copies.unconfirmed.remove(died);
        for page in 0..self.geometry.pages {
            if self.fixed_home(page) != died {
                continue;
            }
            if let Some(twin) = self.copies.twins.remove(&page) {
                store.recycle(twin);
                self.copies.failed = Some(died);
            }
            self.copies.in_flight.remove(&page);
            self.copies.stale.remove(&page);
            if self.copies.valid.remove(&page) {
                let _ = store.downgrade(page, Access::None, false);
            }
            let record = &mut self.pages[page as usize];
            let is_awaited = record.want > Access::None;
            (record.access, record.want, record.lost) = (Access::None, Access::None, Some(died));
            if is_awaited {
                store.mark_lost(page, died);
            }
        }
    }
}
