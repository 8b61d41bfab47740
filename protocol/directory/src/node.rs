//! The state of one rank: what its program may access and waits for.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::home::Directory;
use crate::message::{Access, Message};
use crate::ranks::{MAX_RANKS, Rank, Ranks};
use crate::release::Copies;

/// What the protocol changes of a rank's memory.
///
/// Calls cannot fail: an implementation whose system refuses one keeps the failure, and its owner ends.
pub trait Store {
    /// The content of a page.
    type Content: Clone;

    /// Reduces what the program may do with `page` to `leave`, [`Access::None`] or [`Access::Read`];
    /// afterwards, if `content`, returns what is in it. The program may not change it in between.
    fn lower(&mut self, page: u32, leave: Access, content: bool) -> Option<Self::Content>;

    /// Gives `page`, which was invalid, this content, and lets the program access it.
    fn install(&mut self, page: u32, access: Access, content: Self::Content);

    /// Lets the program write to `page`, which it could read.
    fn raise(&mut self, page: u32);

    /// Has every access to `page`, which is invalid, fail: its content died with a rank.
    fn lose(&mut self, page: u32, with: Rank);

    /// What is in `page`. With release consistency: of a copy that the program may only read, or at home,
    /// where the program may write to it at that time.
    fn copy(&mut self, page: u32) -> Self::Content;

    /// In what `page`, which the program may only read, differs from `before`; nothing if in nothing.
    fn difference(&mut self, page: u32, before: &Self::Content) -> Option<Self::Content>;

    /// Puts the bytes of a difference into `page`, which is at home, and no others; the program may write to
    /// those at that time. False, and nothing changed, if it is not a difference.
    fn merge(&mut self, page: u32, difference: Self::Content) -> bool;

    /// Takes back content that is of no use any more.
    fn recycle(&mut self, content: Self::Content) {
        drop(content);
    }
}

/// What programs see of each other's writes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Consistency {
    /// Each at once: one rank writes to a page, or several read it. Also of atomic operations.
    #[default]
    Sequential,
    /// What another rank has released when this one refreshes; several write to a page, each to other bytes
    /// of it, until then. Atomic operations are for threads of one rank.
    Release,
}

/// The range that a job has in common, and who is in the job. The same at all ranks, but for `me`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Geometry {
    /// Number of ranks: 1 to 64.
    pub ranks: u8,
    /// This one.
    pub me: Rank,
    /// Number of pages.
    pub pages: u32,
    /// Pages in a row with the same home; blocks go to the ranks in turn.
    pub block_pages: u32,
    /// How long a page that was granted stays at least, in nanoseconds, so that the program can use it before
    /// it is recalled. 0 for no time.
    pub hold_ns: u64,
    /// How many pages after one that the program wants to read are asked for as well.
    pub ahead: u8,
    /// What the programs see of each other's writes.
    pub consistency: Consistency,
}

/// A geometry that cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unusable {
    /// The number of ranks, or this rank, is out of range.
    #[error("rank {me} of {ranks} ranks: use 1 to {MAX_RANKS} ranks, counted from 0")]
    Ranks {
        /// The rank.
        me: u8,
        /// The number of ranks.
        ranks: u8,
    },
    /// No pages, or blocks of none.
    #[error("{pages} pages in blocks of {block_pages}: use at least 1 of each")]
    Pages {
        /// Number of pages.
        pages: u32,
        /// Pages of a block.
        block_pages: u32,
    },
    /// There is not enough memory for what is kept of each page.
    #[error("no memory for the records of {0} pages: use a shorter range")]
    Memory(u32),
}

impl Geometry {
    /// The home of a page when the ranks in `dead` are dead; `None` when all are.
    #[must_use]
    pub fn home(&self, page: u32, dead: Ranks) -> Option<Rank> {
        let ranks = u32::from(self.ranks.max(1));
        let first = (page / self.block_pages.max(1)) % ranks;
        let living = Ranks(Ranks::below(self.ranks).0 & !dead.0);
        if living.has(Rank(first as u8)) {
            Some(Rank(first as u8))
        } else {
            living.next_after(Rank(first as u8))
        }
    }

    fn check(&self) -> Result<(), Unusable> {
        if self.ranks == 0 || self.ranks > MAX_RANKS || self.me.0 >= self.ranks {
            return Err(Unusable::Ranks { me: self.me.0, ranks: self.ranks });
        }
        if self.pages == 0 || self.pages > crate::MAX_PAGES || self.block_pages == 0 {
            return Err(Unusable::Pages { pages: self.pages, block_pages: self.block_pages });
        }
        Ok(())
    }
}

/// How a peer broke the protocol. This rank is to end: if it took the peer for dead, and others did not, it
/// would wait for ever for what they report of the peer's pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Violation {
    /// A page outside the range.
    #[error("page {0} is outside the range")]
    Page(u32),
    /// A message that only the home of the page sends.
    #[error("a message about page {0}, whose home is another rank")]
    NotHome(u32),
    /// A recall of a page that is not here, or a grant that lacks its content.
    #[error("a recall or grant of page {0} that does not fit what is held here")]
    Holding(u32),
    /// An answer to no recall.
    #[error("an answer to no recall of page {0}")]
    Answer(u32),
    /// A report about a page whose home already grants it, or of two that write to it.
    #[error("a report about page {0} that cannot be")]
    Report(u32),
    /// A request for no access, or for one that the consistency of the range does not know.
    #[error("a request for an access to page {0} that cannot be")]
    Request(u32),
    /// Bytes that are not a difference between two contents of a page.
    #[error("bytes that are not a difference of page {0}")]
    Difference(u32),
    /// A confirmation of what was not asked for.
    #[error("a confirmation of release {0}, which did not ask for it")]
    Confirmation(u64),
}

/// What becomes of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The program may access the page already: it can go on.
    Resolved,
    /// The page was asked for. The store is changed once it is there.
    Asked,
    /// The page died with this rank.
    Lost(Rank),
}

/// What happened to a page at this rank.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Counts {
    /// Faults of programs that read.
    pub read_faults: u32,
    /// Faults of programs that write, to a page that was invalid.
    pub write_faults: u32,
    /// Faults of programs that write, to a page that they could read.
    pub upgrades: u32,
    /// Times that its content came from another rank.
    pub fetched: u32,
    /// Times that access was reduced because another rank needed the page.
    pub taken: u32,
    /// Times that it came back after that: each is half a turn of a page that goes back and forth.
    pub returned: u32,
}

impl Counts {
    /// Number of all faults together.
    #[must_use]
    pub fn faults(&self) -> u32 {
        self.read_faults.saturating_add(self.write_faults).saturating_add(self.upgrades)
    }

    /// The sums of both, count by count.
    #[must_use]
    pub fn and(self, other: Counts) -> Counts {
        Counts {
            read_faults: self.read_faults.saturating_add(other.read_faults),
            write_faults: self.write_faults.saturating_add(other.write_faults),
            upgrades: self.upgrades.saturating_add(other.upgrades),
            fetched: self.fetched.saturating_add(other.fetched),
            taken: self.taken.saturating_add(other.taken),
            returned: self.returned.saturating_add(other.returned),
        }
    }

    pub(crate) fn count(counter: &mut u32) {
        *counter = counter.saturating_add(1);
    }
}

/// A recall that waits until the page was here long enough.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Deferred {
    home: Rank,
    leave: Access,
    content: bool,
    due_ns: u64,
}

/// A page, as this rank knows it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Page<C> {
    pub(crate) access: Access,
    /// What the program waits for.
    pub(crate) want: Access,
    /// What the home was asked for and has not granted.
    asked: Access,
    granted_ns: u64,
    deferred: Option<Deferred>,
    pub(crate) lost: Option<Rank>,
    /// It was taken, and is not back.
    away: bool,
    pub(crate) counts: Counts,
    /// What this rank knows as its home, or will need as that.
    pub(crate) directory: Directory<C>,
}

/// The state of one rank.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node<C> {
    pub(crate) geometry: Geometry,
    pub(crate) dead: Ranks,
    /// By rank, of what deaths it has reported.
    pub(crate) reported: Vec<Ranks>,
    pub(crate) pages: Vec<Page<C>>,
    /// Messages to this rank itself.
    loopback: VecDeque<Message<C>>,
    outgoing: VecDeque<(Rank, Message<C>)>,
    /// Recalls that wait, by the time when they end.
    deferred: BTreeSet<(u64, u32)>,
    /// With release consistency: what is here of pages of other homes.
    pub(crate) copies: Copies<C>,
}

impl<C: Clone> Node<C> {
    /// A rank at the start of a job: each page is at its home, which may write to it.
    ///
    /// # Errors
    /// [`Unusable`].
    pub fn new(geometry: Geometry) -> Result<Self, Unusable> {
        geometry.check()?;
        let page = |page| {
            let at_home = geometry.home(page, Ranks::NONE) == Some(geometry.me);
            Page {
                access: if at_home { Access::Write } else { Access::None },
                want: Access::None,
                asked: Access::None,
                granted_ns: 0,
                deferred: None,
                lost: None,
                away: false,
                counts: Counts::default(),
                directory: if at_home { Directory::at_home(geometry.me) } else { Directory::elsewhere() },
            }
        };
        let mut pages = Vec::new();
        let room = pages.try_reserve_exact(geometry.pages as usize);
        room.map_err(|_| Unusable::Memory(geometry.pages))?;
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

    /// The range and the job.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// What the program may do with a page; nothing outside the range.
    #[must_use]
    pub fn access(&self, page: u32) -> Access {
        self.pages.get(page as usize).map_or(Access::None, |page| page.access)
    }

    /// What the program waits for.
    #[must_use]
    pub fn want(&self, page: u32) -> Access {
        self.pages.get(page as usize).map_or(Access::None, |page| page.want)
    }

    /// The rank that a page died with, as far as this rank was told.
    #[must_use]
    pub fn lost(&self, page: u32) -> Option<Rank> {
        self.pages.get(page as usize)?.lost
    }

    /// What happened to a page; nothing outside the range.
    #[must_use]
    pub fn counts(&self, page: u32) -> Counts {
        self.pages.get(page as usize).map_or(Counts::default(), |page| page.counts)
    }

    /// The ranks that this one knows to be dead.
    #[must_use]
    pub fn dead(&self) -> Ranks {
        self.dead
    }

    /// The next message to send.
    pub fn take_outgoing(&mut self) -> Option<(Rank, Message<C>)> {
        self.outgoing.pop_front()
    }

    /// When [`tick`](Self::tick) is to be called next, if ever.
    #[must_use]
    pub fn due_ns(&self) -> Option<u64> {
        self.deferred.first().map(|(due_ns, _)| *due_ns)
    }

    /// The program stopped at a page that it may not access so.
    ///
    /// # Errors
    /// [`Violation::Page`]: it is outside the range. [`Violation::Request`]: it needs no access.
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
        Counts::count(match (record.access, access) {
            (_, Access::None | Access::Read) => &mut record.counts.read_faults,
            (Access::Read, Access::Write) => &mut record.counts.upgrades,
            (_, Access::Write) => &mut record.counts.write_faults,
        });
        if self.geometry.consistency == Consistency::Release {
            return Ok(self.fault_of_copy(store, page, access));
        }
        record.want = record.want.max(access);
        self.ask(page);
        self.settle_own(store, now_ns)?;
        let record = &self.pages[page as usize];
        Ok(match record.lost {
            Some(with) => Fault::Lost(with),
            None if record.access >= access => Fault::Resolved,
            None => Fault::Asked,
        })
    }

    /// A message arrived from `from`, another rank. Those of ranks that this one knows to be dead are
    /// ignored.
    ///
    /// # Errors
    /// [`Violation`]: nothing was changed by it.
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
        if self.dead.has(from) || from == self.geometry.me || from.0 >= self.geometry.ranks {
            return Ok(());
        }
        self.handle(store, now_ns, from, message)?;
        self.settle_own(store, now_ns)
    }

    /// Obeys the recalls that waited until now.
    ///
    /// # Errors
    /// None that a peer can cause.
    pub fn tick<S: Store<Content = C>>(&mut self, store: &mut S, now_ns: u64) -> Result<(), Violation> {
        while let Some((due_ns, page)) =
            self.deferred.first().copied().filter(|(due_ns, _)| *due_ns <= now_ns)
        {
            self.deferred.remove(&(due_ns, page));
            if let Some(recall) = self.pages[page as usize].deferred.take() {
                self.obey(store, recall.home, page, recall.leave, recall.content);
            }
        }
        self.settle_own(store, now_ns)
    }

    pub(crate) fn home(&self, page: u32) -> Option<Rank> {
        self.geometry.home(page, self.dead)
    }

    pub(crate) fn is_home(&self, page: u32) -> bool {
        self.home(page) == Some(self.geometry.me)
    }

    /// Sends, also to this rank itself.
    pub(crate) fn post(&mut self, to: Rank, message: Message<C>) {
        if to == self.geometry.me {
            self.loopback.push_back(message);
        } else if !self.dead.has(to) {
            self.outgoing.push_back((to, message));
        }
    }

    /// Handles what this rank sent to itself, until there is nothing.
    pub(crate) fn settle_own<S>(&mut self, store: &mut S, now_ns: u64) -> Result<(), Violation>
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
            return self.handle_of_copies(store, from, message);
        }
        match message {
            Message::Want { page, access, ahead } => self.wanted(store, from, page, access, ahead),
            Message::Recall { page, leave, content } => {
                self.recalled(store, now_ns, from, page, leave, content)
            }
            Message::Yield { page, content } => self.yielded(store, from, page, content),
            Message::Grant { page, access, content } => {
                self.granted(store, now_ns, from, page, access, content)
            }
            Message::Lost { page, with } => {
                let record = self.sent_by_home(from, page)?;
                if record.access != Access::None {
                    return Err(Violation::Holding(page));
                }
                record.lost = Some(with);
                (record.want, record.asked) = (Access::None, Access::None);
                store.lose(page, with);
                Ok(())
            }
            Message::Held { first, count, access } => self.held(from, first, count, access),
            Message::Reported { dead } => {
                if let Some(reported) = self.reported.get_mut(usize::from(from.0)) {
                    *reported = reported.or(dead);
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

    /// The page that a message is about that only its home may send.
    fn sent_by_home(&mut self, from: Rank, page: u32) -> Result<&mut Page<C>, Violation> {
        let is_home = self.home(page) == Some(from);
        let record = self.pages.get_mut(page as usize).ok_or(Violation::Page(page))?;
        if is_home { Ok(record) } else { Err(Violation::NotHome(page)) }
    }

    /// Asks the home for what the program waits for, unless it was asked.
    pub(crate) fn ask(&mut self, page: u32) {
        let Some(home) = self.home(page) else { return };
        let record = &mut self.pages[page as usize];
        if record.want > record.asked {
            record.asked = record.want;
            let access = record.want;
            let ahead = if access == Access::Read { self.geometry.ahead } else { 0 };
            self.post(home, Message::Want { page, access, ahead });
        }
    }

    /// The home that was asked is dead: whatever the program waits for is asked of another.
    pub(crate) fn ask_again(&mut self, page: u32) {
        self.pages[page as usize].asked = Access::None;
        self.ask(page);
    }

    /// A home that is dead awaits no answer.
    pub(crate) fn forget_recall(&mut self, page: u32, by: Rank) {
        let record = &mut self.pages[page as usize];
        if let Some(recall) = record.deferred.take_if(|recall| recall.home == by) {
            self.deferred.remove(&(recall.due_ns, page));
        }
    }

    fn granted<S>(
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
        let record = self.sent_by_home(from, page)?;
        match (record.access, content) {
            (held, _) if held >= access => {}
            (Access::None, Some(content)) => {
                Counts::count(&mut record.counts.fetched);
                store.install(page, access, content);
            }
            (Access::Read, _) => store.raise(page),
            (Access::None | Access::Write, _) => return Err(Violation::Holding(page)),
        }
        if access > record.access {
            (record.access, record.granted_ns) = (access, now_ns);
            if core::mem::take(&mut record.away) {
                Counts::count(&mut record.counts.returned);
            }
        }
        if record.access >= record.asked {
            record.asked = Access::None;
        }
        if record.access >= record.want {
            record.want = Access::None;
        }
        self.ask(page);
        Ok(())
    }

    fn recalled<S>(
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
        let record = self.sent_by_home(from, page)?;
        if record.access == Access::None || leave == Access::Write || record.deferred.is_some() {
            return Err(Violation::Holding(page));
        }
        let due_ns = record.granted_ns.saturating_add(hold_ns);
        if record.access > leave && now_ns < due_ns {
            record.deferred = Some(Deferred { home: from, leave, content, due_ns });
            self.deferred.insert((due_ns, page));
            return Ok(());
        }
        self.obey(store, from, page, leave, content);
        Ok(())
    }

    fn obey<S>(&mut self, store: &mut S, home: Rank, page: u32, leave: Access, content: bool)
    where
        S: Store<Content = C>,
    {
        if tombolo_base::canary!("pages are not invalidated") && leave == Access::None && !content {
            self.post(home, Message::Yield { page, content: None });
            return;
        }
        let content = store.lower(page, leave, content);
        let record = &mut self.pages[page as usize];
        if record.access > leave {
            record.access = leave;
            record.away = true;
            Counts::count(&mut record.counts.taken);
        }
        self.post(home, Message::Yield { page, content });
    }
}
