//! Recovery from the death of a rank: its pages get another home, which first learns their holders.

use crate::message::{Access, Message};
use crate::node::{Consistency, Node, Store, Violation};
use crate::ranks::Rank;

impl<C: Clone> Node<C> {
    /// Handles the death of a rank, known by evidence: none of its messages arrives any more, and those that
    /// were not received are lost.
    ///
    /// # Errors
    /// None that a peer can cause.
    pub fn handle_death<S: Store<Content = C>>(
        &mut self,
        store: &mut S,
        now_ns: u64,
        died: Rank,
    ) -> Result<(), Violation> {
        let me = self.geometry.me;
        if self.dead.contains(died) || died == me || died.0 >= self.geometry.ranks {
            return Ok(());
        }
        let before = self.dead;
        self.dead.add(died);
        if self.geometry.consistency == Consistency::Release {
            self.handle_copy_home_death(store, died);
            return Ok(());
        }
        let mut report = Report::default();
        for page in 0..self.geometry.pages {
            let home = self.geometry.home(page, before);
            if home == Some(me) {
                self.handle_holder_death(store, page, died);
                continue;
            }
            self.pages[page as usize].directory.remove(died);
            if home != Some(died) {
                continue;
            }
            self.cancel_deferred_recall(page, died);
            if self.is_home(page) {
                self.init_as_home(page);
            } else if let Some(home) = self.home(page) {
                let access = self.access(page);
                report.add(page, access, home, |home, message| self.post(home, message));
            }
        }
        report.end(|home, message| self.post(home, message));
        let dead = self.dead;
        for rank in (0..self.geometry.ranks).map(Rank).filter(|rank| *rank != me) {
            self.post(rank, Message::Reported { dead });
        }
        for page in 0..self.geometry.pages {
            if self.geometry.home(page, before) == Some(died) {
                self.retry_request(page);
            }
        }
        self.take_over();
        self.serve_settled(store);
        self.process_loopback(store, now_ns)
    }

    /// Initializes the holders of a page with this rank's own access, because it has become the home.
    fn init_as_home(&mut self, page: u32) {
        let me = self.geometry.me;
        let record = &mut self.pages[page as usize];
        if record.access > Access::None {
            record.directory.holders.add(me);
            record.directory.exclusive |= record.access == Access::Write;
        }
    }

    /// Handles a report of a rank about pages that it holds and whose home is this rank, or will be once this
    /// rank knows of a death that the other knows of.
    pub(crate) fn handle_held_report(
        &mut self,
        from: Rank,
        first: u32,
        count: u32,
        access: Access,
    ) -> Result<(), Violation> {
        let end = first.checked_add(count).filter(|end| *end <= self.geometry.pages);
        let range = first as usize..end.ok_or(Violation::Page(first))? as usize;
        for (index, record) in self.pages[range].iter_mut().enumerate() {
            let directory = &mut record.directory;
            let one_writes = directory.exclusive || access == Access::Write;
            if directory.settled || access == Access::None || (one_writes && !directory.holders.is_empty()) {
                return Err(Violation::Report(first + index as u32));
            }
            directory.holders.add(from);
            directory.exclusive = access == Access::Write;
        }
        Ok(())
    }

    /// Whether all others have reported their access to a page whose home is this rank.
    fn is_reported(&self, page: u32) -> bool {
        let me = self.geometry.me;
        let mut others =
            (0..self.geometry.ranks).map(Rank).filter(|rank| *rank != me && !self.dead.contains(*rank));
        others.all(|rank| self.geometry.home(page, self.reported[usize::from(rank.0)]) == Some(me))
    }

    /// Takes over the pages whose holders are all known.
    pub(crate) fn take_over(&mut self) {
        if self.dead.is_empty() {
            return;
        }
        for page in 0..self.geometry.pages {
            let record = &self.pages[page as usize];
            let reported = self.is_reported(page) || tombolo_base::canary!("home grants before all report");
            if record.directory.settled || !self.is_home(page) || !reported {
                continue;
            }
            let with = self.geometry.home(page, crate::Ranks::NONE).unwrap_or_default();
            let record = &mut self.pages[page as usize];
            record.directory.settled = true;
            if record.directory.holders.is_empty() && record.lost.is_none() {
                record.lost = Some(with);
            }
        }
    }

    /// Serves requests that waited for the takeover.
    pub(crate) fn serve_settled<S: Store<Content = C>>(&mut self, store: &mut S) {
        if self.dead.is_empty() {
            return;
        }
        for page in 0..self.geometry.pages {
            self.serve(store, page);
        }
    }
}

/// Runs of pages that a rank holds with the same access and that have the same home.
#[derive(Default)]
struct Report {
    run: Option<(u32, u32, Access, Rank)>,
}

impl Report {
    fn add<C>(&mut self, page: u32, access: Access, home: Rank, send: impl FnMut(Rank, Message<C>)) {
        if let Some((first, count, of, to)) = &mut self.run
            && (*first + *count, *of, *to) == (page, access, home)
        {
            *count += 1;
            return;
        }
        self.end(send);
        self.run = (access > Access::None).then_some((page, 1, access, home));
    }

    fn end<C>(&mut self, mut send: impl FnMut(Rank, Message<C>)) {
        if let Some((first, count, access, home)) = self.run.take() {
            send(home, Message::Held { first, count, access });
        }
    }
}
