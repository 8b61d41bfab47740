//! State of one rank: the accesses that its program has and waits for.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::home::Directory;
use crate::message::{Access, Message};
use crate::ranks::{MAX_RANKS, Rank, Ranks};
use crate::release::Copies;

/// Memory of a rank, as controlled by the protocol.
///
/// Calls cannot fail: an implementation whose system refuses one must record the failure, and its owner must
/// end.
pub trait Store {
    /// Content of a page.
    type Content: Clone;

    /// Reduces the access of the program to `page` to `leave`, [`Access::None`] or [`Access::Read`]. Then
    /// returns the contents if `content` is set. The program must not be able to change them in between.
    fn downgrade(&mut self, page: u32, leave: Access, content: bool) -> Option<Self::Content>;

    /// Fills the invalid `page` with this content, and grants access to the program.
    fn install(&mut self, page: u32, access: Access, content: Self::Content);

    /// Upgrades `page` from read to write access.
    fn upgrade(&mut self, page: u32);

    /// Makes every access to the invalid `page` fail, because its content died with a rank.
    fn mark_lost(&mut self, page: u32, with: Rank);

    /// Returns the content of `page`. With release consistency the page is a copy that the program may only
    /// read, or at home, where the program may write to it concurrently.
    fn copy(&mut self, page: u32) -> Self::Content;

    /// Returns the difference of `page`, which the program may only read, from `before`; `None` if they are
    /// equal.
    fn difference(&mut self, page: u32, before: &Self::Content) -> Option<Self::Content>;

    /// Merges a difference into `page`, which is at home, without touching other bytes; the program may write
    /// to those concurrently. Returns false and changes nothing if the difference is invalid.
    fn merge(&mut self, page: u32, difference: Self::Content) -> bool;

    /// Takes back content that is no longer needed.
    fn recycle(&mut self, content: Self::Content) {
        drop(content);
    }
}

/// Visibility of writes between programs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Consistency {
    /// Writes are visible at once: one rank writes to a page, or several read it. Includes atomic operations.
    #[default]
    Sequential,
    /// Writes are visible once the writer has released them and the reader has refreshed. Several ranks may
    /// write to different bytes of a page. Atomic operations work only between threads of one rank.
    Release,
}

/// Range that a job shares, and the ranks of the job. The same at all ranks, except for `me`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Geometry {
    /// Number of ranks, from 1 to 64.
    pub ranks: u8,
    /// This rank.
    pub me: Rank,
    /// Number of pages.
    pub pages: u32,
    /// Number of consecutive pages with the same home; blocks are assigned to the ranks in turn.
    pub block_pages: u32,
    /// Minimum time that a granted page stays, in nanoseconds, so that the program can use it before it is
    /// recalled. 0 for no time.
    pub hold_ns: u64,
    /// Number of pages requested in addition after one that the program wants to read.
    pub ahead: u8,
    /// Visibility of writes between the programs.
    pub consistency: Consistency,
}

/// Error of an invalid geometry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GeometryError {
    /// The number of ranks, or this rank, is out of range.
    #[error("rank {me} of {ranks} ranks: use 1 to {MAX_RANKS} ranks, counted from 0")]
    Ranks {
        /// This rank.
        me: u8,
        /// Number of ranks.
        ranks: u8,
    },
    /// There are no pages, or blocks of none.
    #[error("{pages} pages in blocks of {block_pages}: use at least 1 of each")]
    Pages {
        /// Number of pages.
        pages: u32,
        /// Number of pages in a block.
        block_pages: u32,
    },
    /// There is not enough memory for the state of each page.
    #[error("no memory for the records of {0} pages: use a shorter range")]
    Memory(u32),
}

impl Geometry {
    /// Returns the home of a page when the ranks in `dead` are dead; `None` when all are.
    #[must_use]
    pub fn home(&self, page: u32, dead: Ranks) -> Option<Rank> {
        let ranks = u32::from(self.ranks.max(1));
        let first = (page / self.block_pages.max(1)) % ranks;
        let living = Ranks(Ranks::below(self.ranks).0 & !dead.0);
        if living.contains(Rank(first as u8)) {
            Some(Rank(first as u8))
        } else {
            living.next_after(Rank(first as u8))
        }
    }

    fn check(&self) -> Result<(), GeometryError> {
        if self.ranks == 0 || self.ranks > MAX_RANKS || self.me.0 >= self.ranks {
            return Err(GeometryError::Ranks { me: self.me.0, ranks: self.ranks });
        }
        if self.pages == 0 || self.pages > crate::MAX_PAGES || self.block_pages == 0 {
            return Err(GeometryError::Pages { pages: self.pages, block_pages: self.block_pages });
        }
        Ok(())
    }
}

/// Protocol violation by a peer. This rank must end: if it treated the peer as dead and others did not, it
/// would wait forever for their reports of the peer's pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Violation {
    /// The page is outside the range.
    #[error("page {0} is outside the range")]
    Page(u32),
    /// Only the home of the page may send this message.
    #[error("a message about page {0}, whose home is another rank")]
    NotHome(u32),
    /// A recall concerns a page that is not here, or a grant lacks its content.
    #[error("a recall or grant of page {0} that does not fit what is held here")]
    Holding(u32),
    /// An answer matches no recall.
    #[error("an answer to no recall of page {0}")]
    Answer(u32),
    /// A report concerns a page whose home already grants it, or two ranks report write access to it.
    #[error("a report about page {0} that cannot be")]
    Report(u32),
    /// A request has no access, or one that the consistency of the range does not support.
    #[error("a request for an access to page {0} that cannot be")]
    Request(u32),
    /// The bytes are not a valid difference.
    #[error("bytes that are not a difference of page {0}")]
    Difference(u32),
    /// A confirmation was not requested.
    #[error("a confirmation of release {0}, which did not ask for it")]
    Confirmation(u64),
}

/// Outcome of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The program already has access and can continue.
    Resolved,
    /// The page was requested. The store is changed when it arrives.
    Requested,
    /// The page died with this rank.
    Lost(Rank),
}

/// Counters of a page at this rank.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Counts {
    /// Number of read faults.
    pub read_faults: u32,
    /// Number of write faults on an invalid page.
    pub write_faults: u32,
    /// Number of write faults on a readable page.
    pub upgrades: u32,
    /// Number of times that its content came from another rank.
    pub fetched: u32,
    /// Number of times that access was reduced because another rank needed the page.
    pub taken: u32,
    /// Number of times that it came back after that: each is half a round of a page that moves back and
    /// forth.
    pub returned: u32,
}

impl Counts {
    /// Returns the total number of faults.
    #[must_use]
    pub fn faults(&self) -> u32 {
        self.read_faults.saturating_add(self.write_faults).saturating_add(self.upgrades)
    }

    /// Returns the sums of both, counter by counter.
    #[must_use]
    pub fn saturating_add(self, other: Counts) -> Counts {
        Counts {
            read_faults: self.read_faults.saturating_add(other.read_faults),
            write_faults: self.write_faults.saturating_add(other.write_faults),
            upgrades: self.upgrades.saturating_add(other.upgrades),
            fetched: self.fetched.saturating_add(other.fetched),
            taken: self.taken.saturating_add(other.taken),
            returned: self.returned.saturating_add(other.returned),
        }
    }

    pub(crate) fn increment(counter: &mut u32) {
        *counter = counter.saturating_add(1);
    }
}

/// Recall that is delayed until the page has been here long enough.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Deferred {
    home: Rank,
    leave: Access,
    content: bool,
    due_ns: u64,
}

/// Page as known to this rank.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Page<C> {
    pub(crate) access: Access,
    /// Access that the program waits for.
    pub(crate) want: Access,
    /// Access that was requested from the home and not granted yet.
    requested: Access,
    granted_ns: u64,
    deferred: Option<Deferred>,
    pub(crate) lost: Option<Rank>,
    /// Whether it was taken and is not back yet.
    was_taken: bool,
    pub(crate) counts: Counts,
    /// State as the home of the page, now or in the future.
    pub(crate) directory: Directory<C>,
}

/// State of one rank.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node<C> {
    pub(crate) geometry: Geometry,
    pub(crate) dead: Ranks,
    /// Deaths that each rank has reported.
    pub(crate) reported: Vec<Ranks>,
    pub(crate) pages: Vec<Page<C>>,
    /// Messages to this rank itself.
    loopback: VecDeque<Message<C>>,
    outgoing: VecDeque<(Rank, Message<C>)>,
    /// Delayed recalls, by the time when the delay ends.
    deferred: BTreeSet<(u64, u32)>,
    /// With release consistency: state of pages with other homes.
    pub(crate) copies: Copies<C>,
}

impl<C: Clone> Node<C> {
    /// Creates a rank at the start of a job: each page is at its home, which may write to it.
    ///
    /// # Errors
    /// [`GeometryError`].
    pub fn new(geometry: Geometry) -> Result<Self, GeometryError> {
        geometry.check()?;
        let page = |page| {
            let at_home = geometry.home(page, Ranks::NONE) == Some(geometry.me);
            Page {
                access: if at_home { Access::Write } else { Access::None },
                want: Access::None,
                requested: Access::None,
                granted_ns: 0,
                deferred: None,
                lost: None,
                was_taken: false,
                counts: Counts::default(),
                directory: if at_home { Directory::at_home(geometry.me) } else { Directory::elsewhere() },
            }
        };
        let mut pages = Vec::new();
        let room = pages.try_reserve_exact(geometry.pages as usize);
        room.map_err(|_| GeometryError::Memory(geometry.pages))?;
        pages.extend((0..geometry.pages).map(page));
        Ok(Node {
            geometry,
            dead: Ranks::NONE,
            reported: alloc::vec![Ranks::NONE; usize::from(geometry.ranks)],
            pages,
            loopback: VecDeque::new(),
            outgoing: VecDeque::new(),
            deferred: BTreeSet::new(),
            copies: Copies::none(),
        })
    }

    /// Returns the range and the job.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns the access of the program to a page; none outside the range.
    #[must_use]
    pub fn access(&self, page: u32) -> Access {
        self.pages.get(page as usize).map_or(Access::None, |page| page.access)
    }

    /// Returns the access that the program waits for.
    #[must_use]
    pub fn want(&self, page: u32) -> Access {
        self.pages.get(page as usize).map_or(Access::None, |page| page.want)
    }

    /// Returns the rank that a page died with, as far as this rank was notified.
    #[must_use]
    pub fn lost(&self, page: u32) -> Option<Rank> {
        self.pages.get(page as usize)?.lost
    }

    /// Returns the counters of a page; all zero outside the range.
    #[must_use]
    pub fn counts(&self, page: u32) -> Counts {
        self.pages.get(page as usize).map_or(Counts::default(), |page| page.counts)
    }

    /// Returns the ranks that this one knows to be dead.
    #[must_use]
    pub fn dead(&self) -> Ranks {
        self.dead
    }

    /// Returns the next message to send.
    pub fn take_outgoing(&mut self) -> Option<(Rank, Message<C>)> {
        self.outgoing.pop_front()
    }

    /// Returns when [`tick`](Self::tick) must be called next, if at all.
    #[must_use]
    pub fn due_ns(&self) -> Option<u64> {
        self.deferred.first().map(|(due_ns, _)| *due_ns)
    }

    /// Handles a fault of the program on a page that it may not access in this way.
    ///
    /// # Errors
    /// [`Violation::Page`] if the page is outside the range. [`Violation::Request`] if no access is
    /// requested.
    pub fn fault<S>(
        &mut self,
        store: &mut S,
        now_ns: u64,
        page: u32,
        access: Access,
    ) -> Result<Fault, Violation>
    where
        S: Store<Content = C>,
    {
        if access == Access::None {
            return Err(Violation::Request(page));
        }
        let record = self.pages.get_mut(page as usize).ok_or(Violation::Page(page))?;
        if let Some(with) = record.lost {
            return Ok(Fault::Lost(with));
        }
        if record.access >= access {
            return Ok(Fault::Resolved);
        }
        Counts::increment(match (record.access, access) {
            (_, Access::None | Access::Read) => &mut record.counts.read_faults,
            (Access::Read, Access::Write) => &mut record.counts.upgrades,
            (_, Access::Write) => &mut record.counts.write_faults,
        });
        if self.geometry.consistency == Consistency::Release {
            return Ok(self.handle_copy_fault(store, page, access));
        }
        record.want = record.want.max(access);
        self.request_access(page);
        self.process_loopback(store, now_ns)?;
        let record = &self.pages[page as usize];
        Ok(match record.lost {
            Some(with) => Fault::Lost(with),
            None if record.access >= access => Fault::Resolved,
            None => Fault::Requested,
        })
    }

    /// Handles a message from `from`, another rank. Messages of ranks that this one knows to be dead are
    /// ignored.
    ///
    /// # Errors
    /// [`Violation`]; the message changed nothing.
    pub fn receive<S>(
        &mut self,
        store: &mut S,
        now_ns: u64,
        from: Rank,
        message: Message<C>,
    ) -> Result<(), Violation>
    where
        S: Store<Content = C>,
    {
        if self.dead.contains(from) || from == self.geometry.me || from.0 >= self.geometry.ranks {
            return Ok(());
        }
        self.handle(store, now_ns, from, message)?;
        self.process_loopback(store, now_ns)
    }

    /// Obeys the recalls whose delay has ended.
    ///
    /// # Errors
    /// None that a peer can cause.
    pub fn tick<S: Store<Content = C>>(&mut self, store: &mut S, now_ns: u64) -> Result<(), Violation> {
        while let Some((due_ns, page)) =
            self.deferred.first().copied().filter(|(due_ns, _)| *due_ns <= now_ns)
        {
            self.deferred.remove(&(due_ns, page));
            if let Some(recall) = self.pages[page as usize].deferred.take() {
                self.apply_recall(store, recall.home, page, recall.leave, recall.content);
            }
        }
        self.process_loopback(store, now_ns)
    }

    pub(crate) fn home(&self, page: u32) -> Option<Rank> {
        self.geometry.home(page, self.dead)
    }

    pub(crate) fn is_home(&self, page: u32) -> bool {
        self.home(page) == Some(self.geometry.me)
    }

    /// Sends a message, possibly to this rank itself.
    pub(crate) fn post(&mut self, to: Rank, message: Message<C>) {
        if to == self.geometry.me {
            self.loopback.push_back(message);
        } else if !self.dead.contains(to) {
            self.outgoing.push_back((to, message));
        }
    }

    /// Handles messages that this rank sent to itself, until there are none left.
    pub(crate) fn process_loopback<S>(&mut self, store: &mut S, now_ns: u64) -> Result<(), Violation>
    where
        S: Store<Content = C>,
    {
        while let Some(message) = self.loopback.pop_front() {
            self.handle(store, now_ns, self.geometry.me, message)?;
        }
        Ok(())
    }

    fn handle<S>(
        &mut self,
        store: &mut S,
        now_ns: u64,
        from: Rank,
        message: Message<C>,
    ) -> Result<(), Violation>
    where
        S: Store<Content = C>,
    {
        if self.geometry.consistency == Consistency::Release {
            return self.handle_release_message(store, from, message);
        }
        match message {
            Message::Want { page, access, ahead } => self.handle_want(store, from, page, access, ahead),
            Message::Recall { page, leave, content } => {
                self.handle_recall(store, now_ns, from, page, leave, content)
            }
            Message::Yield { page, content } => self.handle_yield(store, from, page, content),
            Message::Grant { page, access, content } => {
                self.handle_grant(store, now_ns, from, page, access, content)
            }
            Message::Lost { page, with } => {
                let record = self.page_of_home(from, page)?;
                if record.access != Access::None {
                    return Err(Violation::Holding(page));
                }
                record.lost = Some(with);
                (record.want, record.requested) = (Access::None, Access::None);
                store.mark_lost(page, with);
                Ok(())
            }
            Message::Held { first, count, access } => self.handle_held_report(from, first, count, access),
            Message::Reported { dead } => {
                if let Some(reported) = self.reported.get_mut(usize::from(from.0)) {
                    *reported = reported.union(dead);
                }
                self.take_over();
                self.serve_settled(store);
                Ok(())
            }
            Message::Difference { page, .. } => Err(Violation::Difference(page)),
            Message::Confirm { number } | Message::Confirmed { number } => {
                Err(Violation::Confirmation(number))
            }
        }
    }

    /// Returns the page of a message that only its home may send.
    fn page_of_home(&mut self, from: Rank, page: u32) -> Result<&mut Page<C>, Violation> {
        let is_home = self.home(page) == Some(from);
        let record = self.pages.get_mut(page as usize).ok_or(Violation::Page(page))?;
        if is_home { Ok(record) } else { Err(Violation::NotHome(page)) }
    }

    /// Requests from the home what the program waits for, unless it was already requested.
    pub(crate) fn request_access(&mut self, page: u32) {
        let Some(home) = self.home(page) else { return };
        let record = &mut self.pages[page as usize];
        if record.want > record.requested {
            record.requested = record.want;
            let access = record.want;
            let ahead = if access == Access::Read { self.geometry.ahead } else { 0 };
            self.post(home, Message::Want { page, access, ahead });
        }
    }

    /// Repeats the request of the program at the new home, because the home that was requested is dead.
    pub(crate) fn retry_request(&mut self, page: u32) {
        self.pages[page as usize].requested = Access::None;
        self.request_access(page);
    }

    /// Drops a delayed recall of a dead home, which awaits no answer.
    pub(crate) fn cancel_deferred_recall(&mut self, page: u32, by: Rank) {
        let record = &mut self.pages[page as usize];
        if let Some(recall) = record.deferred.take_if(|recall| recall.home == by) {
            self.deferred.remove(&(recall.due_ns, page));
        }
    }

    fn handle_grant<S>(
        &mut self,
        store: &mut S,
        now_ns: u64,
        from: Rank,
        page: u32,
        access: Access,
        content: Option<C>,
    ) -> Result<(), Violation>
    where
        S: Store<Content = C>,
    {
        let record = self.page_of_home(from, page)?;
        match (record.access, content) {
            (held, _) if held >= access => {}
            (Access::None, Some(content)) => {
                Counts::increment(&mut record.counts.fetched);
                store.install(page, access, content);
            }
            (Access::Read, _) => store.upgrade(page),
            (Access::None | Access::Write, _) => return Err(Violation::Holding(page)),
        }
        if access > record.access {
            (record.access, record.granted_ns) = (access, now_ns);
            if core::mem::take(&mut record.was_taken) {
                Counts::increment(&mut record.counts.returned);
            }
        }
        if record.access >= record.requested {
            record.requested = Access::None;
        }
        if record.access >= record.want {
            record.want = Access::None;
        }
        self.request_access(page);
        Ok(())
    }

    fn handle_recall<S>(
        &mut self,
        store: &mut S,
        now_ns: u64,
        from: Rank,
        page: u32,
        leave: Access,
        content: bool,
    ) -> Result<(), Violation>
    where
        S: Store<Content = C>,
    {
        let hold_ns = self.geometry.hold_ns;
        let record = self.page_of_home(from, page)?;
        if record.access == Access::None || leave == Access::Write || record.deferred.is_some() {
            return Err(Violation::Holding(page));
        }
        let due_ns = record.granted_ns.saturating_add(hold_ns);
        if record.access > leave && now_ns < due_ns {
            record.deferred = Some(Deferred { home: from, leave, content, due_ns });
            self.deferred.insert((due_ns, page));
            return Ok(());
        }
        self.apply_recall(store, from, page, leave, content);
        Ok(())
    }

    fn apply_recall<S>(&mut self, store: &mut S, home: Rank, page: u32, leave: Access, content: bool)
    where
        S: Store<Content = C>,
    {
        if tombolo_base::canary!("pages are not invalidated") && leave == Access::None && !content {
            self.post(home, Message::Yield { page, content: None });
            return;
        }
        let content = store.downgrade(page, leave, content);
        let record = &mut self.pages[page as usize];
        if record.access > leave {
            record.access = leave;
            record.was_taken = true;
            Counts::increment(&mut record.counts.taken);
        }
        self.post(home, Message::Yield { page, content });
    }
}
