//! Home of a page: tracks its holders, and grants it to one rank after the other.

use crate::message::{Access, Message};
use crate::node::{Counts, Node, Store, Violation};
use crate::ranks::{Rank, Ranks};

/// Holders of a page, and ranks that wait for it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Directory<C> {
    /// Whether all holders are known, so that granting may start.
    pub(crate) settled: bool,
    pub(crate) holders: Ranks,
    /// Whether the only holder may write.
    pub(crate) exclusive: bool,
    pub(crate) pending_readers: Ranks,
    pub(crate) pending_writers: Ranks,
    /// Rank that was served last; the search for the next starts after it.
    last_served: Rank,
    pub(crate) active: Option<ActiveRequest<C>>,
}

/// Request that is being served.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ActiveRequest<C> {
    requester: Rank,
    access: Access,
    step: Step,
    /// Ranks that have not answered their recall.
    awaiting: Ranks,
    content: Option<C>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Step {
    /// One holder sends the content and keeps read access.
    Fetch,
    /// All holders but the requester give the page up.
    Collect,
}

impl<C> Directory<C> {
    /// Creates the initial state of a page whose home is `me`.
    pub(crate) fn at_home(me: Rank) -> Self {
        Directory { settled: true, holders: Ranks::of(me), exclusive: true, ..Directory::elsewhere() }
    }

    /// Creates the initial state of any other page.
    pub(crate) fn elsewhere() -> Self {
        Directory {
            settled: false,
            holders: Ranks::NONE,
            exclusive: false,
            pending_readers: Ranks::NONE,
            pending_writers: Ranks::NONE,
            last_served: Rank(0),
            active: None,
        }
    }

    /// Removes a rank that is dead.
    pub(crate) fn remove(&mut self, died: Rank) {
        self.holders.remove(died);
        self.pending_readers.remove(died);
        self.pending_writers.remove(died);
        self.exclusive &= !self.holders.is_empty();
    }

    /// Returns the next rank to be served, and the access that it wants.
    fn next(&mut self) -> Option<(Rank, Access)> {
        let rank = self.pending_readers.union(self.pending_writers).next_after(self.last_served)?;
        self.last_served = rank;
        let access = if self.pending_writers.contains(rank) { Access::Write } else { Access::Read };
        self.pending_readers.remove(rank);
        self.pending_writers.remove(rank);
        Some((rank, access))
    }
}

impl<C: Clone> Node<C> {
    pub(crate) fn handle_want<S>(
        &mut self,
        store: &mut S,
        from: Rank,
        page: u32,
        access: Access,
        ahead: u8,
    ) -> Result<(), Violation>
    where
        S: Store<Content = C>,
    {
        let directory = &mut self.pages.get_mut(page as usize).ok_or(Violation::Page(page))?.directory;
        match access {
            Access::None => return Err(Violation::Request(page)),
            Access::Read => directory.pending_readers.add(from),
            Access::Write => directory.pending_writers.add(from),
        }
        self.serve(store, page);
        self.serve_prefetch(store, from, page, ahead);
        Ok(())
    }

    /// Grants the available pages after `page`.
    fn serve_prefetch<S: Store<Content = C>>(&mut self, store: &mut S, reader: Rank, page: u32, ahead: u8) {
        let me = self.geometry.me;
        let block = page / self.geometry.block_pages;
        for next in (page + 1..self.geometry.pages).take(usize::from(ahead)) {
            if next / self.geometry.block_pages != block {
                return;
            }
            let record = &mut self.pages[next as usize];
            let directory = &mut record.directory;
            let idle = directory.settled && directory.active.is_none() && record.lost.is_none();
            if idle && directory.holders.contains(me) && !directory.holders.contains(reader) {
                directory.pending_readers.add(reader);
                self.serve(store, next);
            }
        }
    }

    /// Starts to serve the next request for a page, if none is being served.
    pub(crate) fn serve<S: Store<Content = C>>(&mut self, store: &mut S, page: u32) {
        loop {
            let me = self.geometry.me;
            if !self.is_home(page) {
                return;
            }
            let record = &mut self.pages[page as usize];
            let directory = &mut record.directory;
            if !directory.settled || directory.active.is_some() {
                return;
            }
            let Some((requester, access)) = directory.next() else { return };
            if let Some(with) = record.lost {
                self.post(requester, Message::Lost { page, with });
                continue;
            }
            let holds = directory.holders.contains(requester);
            if holds && (access == Access::Read || directory.exclusive) {
                let access = if directory.exclusive { Access::Write } else { Access::Read };
                self.post(requester, Message::Grant { page, access, content: None });
                continue;
            }
            // A home without a copy first gets one, so that the content is not lost if the other ranks die
            // meanwhile.
            let others = directory.holders.without(requester);
            let has_none = !directory.exclusive && !directory.holders.contains(me) && !others.is_empty();
            directory.active = Some(ActiveRequest {
                requester,
                access,
                step: Step::Fetch,
                awaiting: Ranks::NONE,
                content: None,
            });
            if access == Access::Read || has_none {
                let source = if others.contains(me) { Some(me) } else { others.first() };
                self.fetch(page, source);
                return;
            }
            if !self.collect(store, page) {
                return;
            }
        }
    }

    fn fetch(&mut self, page: u32, source: Option<Rank>) {
        let Some(source) = source else { return };
        if let Some(active) = &mut self.pages[page as usize].directory.active {
            active.awaiting = Ranks::of(source);
        }
        self.post(source, Message::Recall { page, leave: Access::Read, content: true });
    }

    /// Recalls the page from all but the requester. Returns whether no answer is needed and the page was
    /// granted.
    fn collect<S: Store<Content = C>>(&mut self, store: &mut S, page: u32) -> bool {
        let me = self.geometry.me;
        let directory = &mut self.pages[page as usize].directory;
        let Some(active) = &mut directory.active else { return false };
        let exclusive = directory.exclusive;
        let others = directory.holders.without(active.requester);
        (active.step, active.awaiting) = (Step::Collect, others);
        if others.is_empty() {
            self.finish_write(store, page);
            return true;
        }
        for holder in others.iter() {
            let content = exclusive || holder == me;
            self.post(holder, Message::Recall { page, leave: Access::None, content });
        }
        false
    }

    pub(crate) fn handle_yield<S>(
        &mut self,
        store: &mut S,
        from: Rank,
        page: u32,
        content: Option<C>,
    ) -> Result<(), Violation>
    where
        S: Store<Content = C>,
    {
        let directory = &mut self.pages.get_mut(page as usize).ok_or(Violation::Page(page))?.directory;
        let exclusive = directory.exclusive;
        let Some(active) = directory.active.as_mut().filter(|active| active.awaiting.contains(from)) else {
            return Err(Violation::Answer(page));
        };
        match (active.step, content) {
            (Step::Fetch, None) => return Err(Violation::Answer(page)),
            (Step::Fetch, Some(content)) => {
                active.awaiting = Ranks::NONE;
                directory.exclusive = false;
                self.handle_content(store, page, content);
            }
            (Step::Collect, None) if exclusive => return Err(Violation::Answer(page)),
            (Step::Collect, content) => {
                active.awaiting.remove(from);
                active.content = active.content.take().or(content);
                directory.holders.remove(from);
                if active.awaiting.is_empty() {
                    self.finish_write(store, page);
                }
            }
        }
        self.serve(store, page);
        Ok(())
    }

    /// Handles the content of a page whose sender now only reads.
    fn handle_content<S: Store<Content = C>>(&mut self, store: &mut S, page: u32, content: C) {
        let (me, dead) = (self.geometry.me, self.dead);
        let record = &mut self.pages[page as usize];
        let directory = &mut record.directory;
        let Some((requester, access)) =
            directory.active.as_ref().map(|active| (active.requester, active.access))
        else {
            return;
        };
        if !directory.holders.contains(me) && (requester != me || access == Access::Write) {
            directory.holders.add(me);
            store.install(page, Access::Read, content.clone());
            record.access = Access::Read;
            Counts::increment(&mut record.counts.fetched);
        }
        if access == Access::Write && !dead.contains(requester) {
            self.collect(store, page);
            return;
        }
        directory.active = None;
        // Serves all waiting readers at once.
        let readers =
            Ranks(directory.pending_readers.0 & !directory.pending_writers.0).union(Ranks::of(requester));
        directory.pending_readers = Ranks(directory.pending_readers.0 & directory.pending_writers.0);
        for reader in readers.iter().filter(|reader| !dead.contains(*reader)) {
            let has = self.pages[page as usize].directory.holders.contains(reader);
            self.pages[page as usize].directory.holders.add(reader);
            let content = (!has).then(|| content.clone());
            self.post(reader, Message::Grant { page, access: Access::Read, content });
        }
    }

    /// Completes a write request: no rank but possibly the requester has the page.
    fn finish_write<S: Store<Content = C>>(&mut self, store: &mut S, page: u32) {
        let me = self.geometry.me;
        let record = &mut self.pages[page as usize];
        let directory = &mut record.directory;
        let Some(active) = directory.active.take() else { return };
        let holds = directory.holders.contains(active.requester);
        if !self.dead.contains(active.requester) && (holds || active.content.is_some()) {
            directory.holders = Ranks::of(active.requester);
            directory.exclusive = true;
            if tombolo_base::canary!("directory forgets the owner") {
                directory.holders = Ranks::of(me);
            }
            let content = active.content.filter(|_| !holds);
            self.post(active.requester, Message::Grant { page, access: Access::Write, content });
        } else if let Some(content) = active.content {
            // The requester died, so the page stays here.
            directory.holders = Ranks::of(me);
            directory.exclusive = true;
            record.access = Access::Write;
            store.install(page, Access::Write, content);
        } else {
            record.lost = Some(active.requester);
            self.refuse(page, active.requester, active.requester);
        }
    }

    /// Handles the death of a rank on a page whose home is, and was, this rank.
    pub(crate) fn handle_holder_death<S: Store<Content = C>>(
        &mut self,
        store: &mut S,
        page: u32,
        died: Rank,
    ) {
        let record = &mut self.pages[page as usize];
        let directory = &mut record.directory;
        let was_exclusive = directory.exclusive && directory.holders.contains(died);
        directory.remove(died);
        match &mut directory.active {
            None if directory.settled && directory.holders.is_empty() && record.lost.is_none() => {
                record.lost = Some(died);
            }
            Some(active) if active.awaiting.contains(died) => {
                active.awaiting.remove(died);
                let (requester, access) = (active.requester, active.access);
                if active.step == Step::Collect {
                    if was_exclusive {
                        directory.active = None;
                        record.lost = Some(died);
                        self.refuse(page, requester, died);
                    } else if active.awaiting.is_empty() {
                        self.finish_write(store, page);
                    }
                } else if directory.holders.is_empty() {
                    directory.active = None;
                    record.lost = Some(died);
                    self.refuse(page, requester, died);
                } else {
                    // Another rank has it.
                    directory.active = None;
                    match access {
                        Access::Write => directory.pending_writers.add(requester),
                        Access::Read | Access::None => directory.pending_readers.add(requester),
                    }
                }
            }
            _ => {}
        }
        self.serve(store, page);
    }

    fn refuse(&mut self, page: u32, requester: Rank, with: Rank) {
        self.post(requester, Message::Lost { page, with });
    }
}
