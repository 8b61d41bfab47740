//! Release consistency: ranks write to copies of a page at the same time, and send home in what theirs
//! differs.
//!
//! The home of a page has the content that counts, and its own program accesses that. Another rank gets a
//! copy to read. Before its program writes to it, the copy is kept as the *twin* (TreadMarks). A *release*
//! sends the bytes in which pages differ from their twins to their homes, which merge them at once, and ends
//! when all have said so; an acquire, here [`refresh`](Node::refresh), invalidates all copies, so that they
//! come from the homes again (home-based lazy release consistency: Zhou, Iftode and Li, OSDI 1996; without
//! its write notices, as Argo does it: Kaxiras and others, HPDC 2015). Homes keep no record of who has a
//! copy, recall nothing and wait for nothing.
//!
//! A program that accesses the same bytes from two ranks orders the accesses by a release of the one that
//! comes first, then anything that tells the other, then a refresh there. It sees what it would see on one
//! computer.
//!
//! Homes do not change: the death of one takes its pages with it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::message::{Access, Message};
use crate::node::{Counts, Fault, Node, Store, Violation};
use crate::ranks::{Rank, Ranks};

/// What a rank has of pages whose home is another.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Copies<C> {
    /// Pages that the program may read.
    here: BTreeSet<u32>,
    /// What was in those that the program may write to, when they last were as at their home.
    twins: BTreeMap<u32, C>,
    /// Pages that are on their way.
    under_way: BTreeSet<u32>,
    /// Of these, those that were asked for before the last refresh: their content may be older than what the
    /// program is to see.
    stale: BTreeSet<u32>,
    /// Homes that were sent differences since they were last asked to confirm them.
    unconfirmed: Ranks,
    /// The number of the last release.
    number: u64,
    /// What homes have not confirmed: the home, and the release that asked it.
    pending: Vec<(Rank, u64)>,
    /// A home that died with something that the program wrote.
    failed: Option<Rank>,
}

impl<C> Copies<C> {
    pub(crate) fn none() -> Self {
        Copies {
            here: BTreeSet::new(),
            twins: BTreeMap::new(),
            under_way: BTreeSet::new(),
            stale: BTreeSet::new(),
            unconfirmed: Ranks::NONE,
            number: 0,
            pending: Vec::new(),
            failed: None,
        }
    }
}

impl<C: Clone> Node<C> {
    /// The home of a page, dead or not.
    fn only_home(&self, page: u32) -> Rank {
        self.geometry.home(page, Ranks::NONE).unwrap_or_default()
    }

    /// Begins to send home what the program wrote; returns the number of this release, which
    /// [`is_released`](Self::is_released) takes. Changes nothing of a range with sequential consistency.
    pub fn release<S: Store<Content = C>>(&mut self, store: &mut S) -> u64 {
        self.copies.number += 1;
        let number = self.copies.number;
        if tombolo_base::canary!("confirmation overtakes differences") {
            self.copies.unconfirmed = self.copies.twins.keys().fold(Ranks::NONE, |homes, page| {
                homes.or(Ranks::of(self.geometry.home(*page, Ranks::NONE).unwrap_or_default()))
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

    /// Whether all homes have merged what the program wrote before that release began.
    #[must_use]
    pub fn is_released(&self, number: u64) -> bool {
        self.copies.pending.iter().all(|(_, pending)| *pending > number)
    }

    /// A home that died with something that the program wrote since this was last called.
    pub fn take_failed(&mut self) -> Option<Rank> {
        self.copies.failed.take()
    }

    /// Has the program see what other ranks have released until now. Changes nothing of a range with
    /// sequential consistency.
    pub fn refresh<S: Store<Content = C>>(&mut self, store: &mut S) {
        // What the program itself wrote, perhaps on another thread, is not lost.
        self.send_differences(store);
        self.copies.twins.clear();
        for page in core::mem::take(&mut self.copies.here) {
            self.pages[page as usize].access = Access::None;
            let _ = store.lower(page, Access::None, false);
        }
        if !tombolo_base::canary!("old copies arrive after a refresh") {
            self.copies.stale = self.copies.under_way.clone();
        }
    }

    fn send_differences<S: Store<Content = C>>(&mut self, store: &mut S) {
        for (page, before) in core::mem::take(&mut self.copies.twins) {
            let home = self.only_home(page);
            self.pages[page as usize].access = Access::Read;
            // The program may not write from now on, until there is a twin again.
            let _ = store.lower(page, Access::Read, false);
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

    /// The program stopped at a page of another home. Its record says that it is not lost, and that it may
    /// not be accessed so.
    pub(crate) fn fault_of_copy<S>(&mut self, store: &mut S, page: u32, access: Access) -> Fault
    where
        S: Store<Content = C>,
    {
        let record = &mut self.pages[page as usize];
        if record.access == Access::Read {
            self.begin_to_write(store, page);
            store.raise(page);
            return Fault::Resolved;
        }
        record.want = record.want.max(access);
        self.ask_for_copy(page);
        let block = page / self.geometry.block_pages;
        for next in (page + 1..self.geometry.pages).take(usize::from(self.geometry.ahead)) {
            let record = &self.pages[next as usize];
            if next / self.geometry.block_pages == block
                && record.access == Access::None
                && record.lost.is_none()
            {
                self.ask_for_copy(next);
            }
        }
        Fault::Asked
    }

    /// Keeps the twin of a page that the program may read.
    fn begin_to_write<S: Store<Content = C>>(&mut self, store: &mut S, page: u32) {
        if !(tombolo_base::canary!("a twin outlives its release") && self.copies.twins.contains_key(&page)) {
            self.copies.twins.insert(page, store.copy(page));
        }
        let record = &mut self.pages[page as usize];
        (record.access, record.want) = (Access::Write, Access::None);
    }

    fn ask_for_copy(&mut self, page: u32) {
        if self.copies.under_way.insert(page) {
            let home = self.only_home(page);
            self.post(home, Message::Want { page, access: Access::Read, ahead: 0 });
        }
    }

    /// A message of another rank.
    pub(crate) fn handle_of_copies<S>(
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
                self.at_home(page)?;
                if (access, ahead) != (Access::Read, 0) {
                    return Err(Violation::Request(page));
                }
                let content = Some(store.copy(page));
                self.post(from, Message::Grant { page, access, content });
                Ok(())
            }
            Message::Grant { page, access: Access::Read, content: Some(content) } => {
                self.copy_arrived(store, from, page, content)
            }
            Message::Difference { page, content } => {
                self.at_home(page)?;
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

    fn at_home(&self, page: u32) -> Result<(), Violation> {
        if page >= self.geometry.pages {
            Err(Violation::Page(page))
        } else if self.only_home(page) == self.geometry.me {
            Ok(())
        } else {
            Err(Violation::NotHome(page))
        }
    }

    fn copy_arrived<S>(&mut self, store: &mut S, from: Rank, page: u32, content: C) -> Result<(), Violation>
    where
        S: Store<Content = C>,
    {
        let home = self.only_home(page);
        let record = self.pages.get_mut(page as usize).ok_or(Violation::Page(page))?;
        if home != from {
            return Err(Violation::NotHome(page));
        }
        if !self.copies.under_way.remove(&page) {
            return Err(Violation::Holding(page));
        }
        if self.copies.stale.remove(&page) {
            store.recycle(content);
            if record.want > Access::None {
                self.ask_for_copy(page);
            }
            return Ok(());
        }
        let writes = record.want == Access::Write;
        record.want = Access::None;
        record.access = if writes { Access::Write } else { Access::Read };
        Counts::count(&mut record.counts.fetched);
        self.copies.here.insert(page);
        if writes {
            self.copies.twins.insert(page, content.clone());
        }
        let access = self.pages[page as usize].access;
        store.install(page, access, content);
        Ok(())
    }

    /// A rank died: the pages that it was home of are lost, with what was written to copies of them.
    pub(crate) fn home_of_copies_died<S: Store<Content = C>>(&mut self, store: &mut S, died: Rank) {
        let before = self.copies.pending.len();
        self.copies.pending.retain(|(home, _)| *home != died);
        if self.copies.pending.len() < before || self.copies.unconfirmed.has(died) {
            self.copies.failed = Some(died);
        }
        self.copies.unconfirmed.remove(died);
        for page in 0..self.geometry.pages {
            if self.only_home(page) != died {
                continue;
            }
            if let Some(twin) = self.copies.twins.remove(&page) {
                store.recycle(twin);
                self.copies.failed = Some(died);
            }
            self.copies.under_way.remove(&page);
            self.copies.stale.remove(&page);
            if self.copies.here.remove(&page) {
                let _ = store.lower(page, Access::None, false);
            }
            let record = &mut self.pages[page as usize];
            let is_awaited = record.want > Access::None;
            (record.access, record.want, record.lost) = (Access::None, Access::None, Some(died));
            if is_awaited {
                store.lose(page, died);
            }
        }
    }
}
