//! Handle of a range of shared pages.

use std::ops::Range;
use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use tombolo::waitset::Waker;
use tombolo::{Channel, Domain, Job};
use tombolo_base::SharedMemory;
use tombolo_directory::{Access, Consistency, Counts, Fault, Geometry, MAX_RANKS, Node, Rank, Ranks};
use tombolo_platform::memory::PagedMemory;
use tombolo_platform::time::{Deadline, now_ns};
use tombolo_platform::{OsError, lock_unpoisoned};

use crate::error::Error;
use crate::options::{MAX_BYTES, PagesOptions};
use crate::service::{Service, Shared, State};
use crate::setup::{self, Setup};
use crate::statistics::fault_samples::Place;
use crate::statistics::report::RankReport;
use crate::statistics::reporter::Reporter;
use crate::store::{Backing, Content};

/// A page and its counters at this rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HotPage {
    /// Index of the page in the range.
    pub page: u32,
    /// Address of the page.
    pub address: usize,
    /// Faults, and how often the page left and returned.
    pub counts: Counts,
}

/// A range shared by the domains of a job.
///
/// Dropping it has the effect of this rank's death: pages that only this rank has are lost to the others.
/// [`close`](Self::close) waits for the other ranks first.
#[derive(Debug)]
pub struct Pages {
    shared: Arc<Shared>,
    memory: SharedMemory,
    address: usize,
    page_bytes: usize,
    pages: u32,
    consistency: Consistency,
    is_user_mode_only: bool,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
    /// Setup that later ranks must match, if the range admits any.
    center: Option<Setup>,
    reporter: Option<Reporter>,
}

/// A range whose service thread has not been started yet.
struct Prepared {
    memory: PagedMemory,
    node: Node<Content>,
    setup: Setup,
    /// Whether ranks may join later.
    admits: bool,
}

impl Prepared {
    fn new(options: &PagesOptions, rank: u32, size: u32, bytes: u64) -> Result<Self, Error> {
        if bytes == 0 || bytes > MAX_BYTES {
            return Err(Error::Length { bytes, max_bytes: MAX_BYTES });
        }
        let ranks = u8::try_from(size).ok().filter(|size| *size <= MAX_RANKS);
        let (Some(ranks), Ok(me)) = (ranks, u8::try_from(rank)) else {
            return Err(Error::TooManyRanks { size });
        };
        let page_bytes = tombolo_platform::memory::page_bytes();
        let length = Error::Length { bytes, max_bytes: MAX_BYTES };
        let pages = u32::try_from(bytes.div_ceil(page_bytes as u64)).map_err(|_| length)?;
        let memory = PagedMemory::create(options.address, pages)?;
        let geometry = Geometry {
            ranks,
            me: Rank(me),
            pages,
            block_pages: options.block_pages,
            hold_ns: u64::try_from(options.hold.as_nanos()).unwrap_or(u64::MAX),
            ahead: options.ahead,
            consistency: options.consistency,
        };
        let node = Node::new(geometry)?;
        let setup = Setup {
            page_bytes: page_bytes as u64,
            pages: pages.into(),
            block_pages: options.block_pages.into(),
            address: options.address as u64,
            consistency: options.consistency as u64,
        };
        Ok(Self { memory, node, setup, admits: false })
    }

    /// Starts the service thread of the range.
    fn serve(
        self,
        options: &PagesOptions,
        own_node: &str,
        channels: Vec<Option<Channel>>,
    ) -> Result<Pages, Error> {
        let Self { memory, node, setup, admits } = self;
        let me = node.geometry().me;
        let pages = node.geometry().pages;
        let node_of = |(rank, channel): (u8, &Option<Channel>)| match channel {
            Some(channel) => channel.peer_node().to_owned(),
            None if rank == me.0 => own_node.to_owned(),
            None => String::new(),
        };
        let nodes = (0..).zip(&channels).map(node_of).collect();
        let (range, is_user_mode_only) = (memory.memory(), memory.is_user_mode_only());
        let (address, page_bytes) = (memory.address(), memory.page_bytes());
        let shared = Shared::new(node, Backing::new(memory), nodes, options.on_loss)?;
        let service = Service::new(Arc::clone(&shared), channels, options.spin_ns)?;
        let waker = service.waker();
        let cpus = options.cpus.clone();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let serve = move || {
            let placed = if cpus.is_empty() { Ok(()) } else { tombolo_platform::thread::set_cpus(&cpus) };
            let serves = placed.is_ok();
            let _ = ready.send(placed);
            if serves {
                service.run();
            }
        };
        let thread = std::thread::Builder::new()
            .name("pages".to_owned())
            .spawn(serve)
            .map_err(|error| OsError::from_io("start a thread that serves pages", &error))?;
        is_ready.recv().map_err(|_| Error::NotServed("its thread did not start".to_owned()))??;
        Ok(Pages {
            shared,
            memory: range,
            address,
            page_bytes,
            pages,
            consistency: options.consistency,
            is_user_mode_only,
            waker,
            thread: Some(thread),
            center: admits.then_some(setup),
            reporter: None,
        })
    }
}

impl Pages {
    pub(crate) fn open(
        options: &PagesOptions,
        domain: &Domain,
        job: &Job,
        bytes: u64,
    ) -> Result<Pages, Error> {
        let prepared = Prepared::new(options, job.rank(), job.size(), bytes)?;
        let channels = setup::connect(domain, job, &options.name, prepared.setup)?;
        prepared.serve(options, domain.node_name(), channels)
    }

    /// Opens the range as rank 0; the other ranks join later.
    pub(crate) fn open_center(options: &PagesOptions, domain: &Domain, bytes: u64) -> Result<Pages, Error> {
        let mut prepared = Prepared::new(options, 0, MAX_RANKS.into(), bytes)?;
        prepared.admits = true;
        let channels = (0..MAX_RANKS).map(|_| None).collect();
        prepared.serve(options, domain.node_name(), channels)
    }

    /// Joins such a range as another rank, over a channel to rank 0.
    pub(crate) fn open_around(
        options: &PagesOptions,
        domain: &Domain,
        rank: u32,
        mut center: Channel,
        bytes: u64,
    ) -> Result<Pages, Error> {
        if rank == 0 {
            return Err(Error::NoSuchRank { rank });
        }
        let prepared = Prepared::new(options, rank, MAX_RANKS.into(), bytes)?;
        setup::exchange(&mut center, 0, prepared.setup, domain.timeout())?;
        let mut channels: Vec<Option<Channel>> = (0..MAX_RANKS).map(|_| None).collect();
        channels[0] = Some(center);
        prepared.serve(options, domain.node_name(), channels)
    }

    /// Admits a rank to a range that was opened with [`PagesOptions::open_center`], over a channel that the
    /// rank connected. Waits for the rank's part of the setup.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`] if the rank is 0 or above 63, was admitted before, or the range was opened
    /// otherwise. [`Error::Mismatch`]; an error of the channel.
    pub fn admit(&self, rank: u32, mut channel: Channel, timeout: Duration) -> Result<(), Error> {
        let setup = self.center.ok_or(Error::NoSuchRank { rank })?;
        let known = u8::try_from(rank).ok().filter(|rank| *rank > 0 && *rank < MAX_RANKS);
        let index = known.map(Rank).ok_or(Error::NoSuchRank { rank })?;
        setup::exchange(&mut channel, rank, setup, timeout)?;
        let mut state = self.shared.lock();
        let name = &mut state.nodes[usize::from(index.0)];
        if !name.is_empty() {
            return Err(Error::NoSuchRank { rank });
        }
        channel.peer_node().clone_into(name);
        state.admitted.push((index, channel));
        drop(state);
        self.waker.wake();
        Ok(())
    }

    /// Starts to report this rank's pages to `tombolo pages`, as those of a range of this job.
    pub(crate) fn report(&mut self, domain: &Domain, (job, rank): (&str, u32), range: &str) {
        let report = RankReport {
            job: job.to_owned(),
            range: range.to_owned(),
            rank,
            node: domain.node_name().to_owned(),
            address: self.address as u64,
            page_bytes: self.page_bytes as u32,
            pages: self.pages,
            totals: Counts::default(),
            hot: Vec::new(),
        };
        self.reporter = Reporter::start(Arc::clone(&self.shared), domain, report);
    }

    /// Returns the range for access without `unsafe`: words with atomic operations.
    #[must_use]
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    /// Returns the start address of the range, the same at all ranks.
    #[must_use]
    pub fn address(&self) -> usize {
        self.address
    }

    /// Returns the page size in bytes, the same at all ranks.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Returns the number of pages of the range.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Returns whether syscalls that access an absent page (such as `read` into the range) fail with
    /// `EFAULT`, because `vm.unprivileged_userfaultfd` is 0 and this user may handle only user-mode faults.
    /// Then [`acquire`](Self::acquire) such pages first.
    #[must_use]
    pub fn is_user_mode_only(&self) -> bool {
        self.is_user_mode_only
    }

    /// Fetches pages ahead of their use, and reports lost ones as an error. Another rank may take them away
    /// as soon as they have arrived.
    ///
    /// # Errors
    /// [`Error::Lost`] for the first lost page; [`Error::NoSuchPage`]; [`Error::TimedOut`];
    /// [`Error::NotServed`].
    pub fn acquire(&self, pages: Range<u32>, access: Access, timeout: Duration) -> Result<(), Error> {
        if pages.end > self.pages {
            return Err(Error::NoSuchPage { page: pages.end.saturating_sub(1), pages: self.pages });
        }
        let deadline = Deadline::after(timeout);
        let mut state = self.shared.lock();
        state.acquiring.extend(pages.clone());
        let mut outcome = Ok(());
        for page in pages.clone() {
            outcome = request_page(&mut state, page, access).and(outcome);
        }
        self.waker.wake();
        for page in pages.clone() {
            while outcome.is_ok() && state.node.want(page) > Access::None {
                (state, outcome) = self.wait(state, deadline, "the arrival of pages", timeout);
            }
            if let (Ok(()), Some(with)) = (&outcome, state.node.lost(page)) {
                outcome = Err(state.lost_page(page, with).into());
            }
        }
        for page in pages {
            if let Some(index) = state.acquiring.iter().position(|acquired| *acquired == page) {
                state.acquiring.swap_remove(index);
            }
        }
        outcome
    }

    /// With release consistency: waits until all writes of this rank are visible to ranks that refresh
    /// afterwards. Call it before notifying them: before unlocking a lock or sending a message. Threads of
    /// this rank may write meanwhile. Does nothing with sequential consistency.
    ///
    /// # Errors
    /// [`Error::RankEnded`] if the home of a written page ended, so that the writes are lost;
    /// [`Error::TimedOut`]; [`Error::NotServed`].
    pub fn release(&self, timeout: Duration) -> Result<(), Error> {
        if self.consistency == Consistency::Sequential {
            return Ok(());
        }
        let deadline = Deadline::after(timeout);
        let mut state = self.shared.lock();
        let State { node, store, .. } = &mut *state;
        let number = node.release(store);
        self.waker.wake();
        while !state.node.is_released(number) {
            let outcome;
            (state, outcome) = self.wait(state, deadline, "the release of what was written", timeout);
            outcome?;
        }
        match state.node.take_failed() {
            None => Ok(()),
            Some(rank) => Err(state.rank_ended_error(rank)),
        }
    }

    /// With release consistency: makes writes that other ranks have released visible. Call it after being
    /// notified: after locking a lock or receiving a message. Invalidates the local copies of pages, which
    /// are fetched again on the next access. Does nothing with sequential consistency.
    pub fn refresh(&self) {
        if self.consistency == Consistency::Release {
            let mut state = self.shared.lock();
            let State { node, store, .. } = &mut *state;
            node.refresh(store);
            drop(state);
            self.waker.wake();
        }
    }

    /// Waits until all ranks have called this as often as this one. All their earlier writes are visible
    /// afterwards: with release consistency it [releases](Self::release) and [refreshes](Self::refresh).
    ///
    /// # Errors
    /// [`Error::RankEnded`] if a rank ended or closes the range; [`Error::TimedOut`]; [`Error::NotServed`].
    pub fn barrier(&self, timeout: Duration) -> Result<(), Error> {
        let deadline = Deadline::after(timeout);
        self.release(timeout)?;
        self.wait_barrier(deadline, timeout)?;
        self.refresh();
        Ok(())
    }

    fn wait_barrier(&self, deadline: Deadline, timeout: Duration) -> Result<(), Error> {
        let mut state = self.shared.lock();
        let barrier = state.announce_barrier();
        self.waker.wake();
        loop {
            let late = (0..).zip(&state.arrived).filter(|(_, arrived)| **arrived < barrier);
            let late = late.fold(Ranks::NONE, |late, (rank, _)| late.union(Ranks::of(Rank(rank))));
            // The others must learn that this rank arrived even if it dies next.
            if late.is_empty() && state.announcements.is_empty() {
                return Ok(());
            }
            let never = Ranks(late.0 & (state.node.dead().0 | state.done.0)).first();
            if let Some(rank) = never {
                return Err(state.rank_ended_error(rank));
            }
            let outcome;
            (state, outcome) = self.wait(state, deadline, "a meeting of all ranks", timeout);
            outcome?;
        }
    }

    /// Closes the range once all ranks call this, so that no page is lost that another rank still uses.
    ///
    /// # Errors
    /// [`Error::RankEnded`] if a rank ended without this call; [`Error::TimedOut`]. The range is closed in
    /// any case.
    pub fn close(self, timeout: Duration) -> Result<(), Error> {
        let deadline = Deadline::after(timeout);
        let released = self.release(timeout);
        let mut state = self.shared.lock();
        state.announce_done();
        self.waker.wake();
        let all = Ranks::below(state.node.geometry().ranks);
        while all != state.done.union(state.node.dead()) {
            let outcome;
            (state, outcome) = self.wait(state, deadline, "the end of all ranks' use of the pages", timeout);
            outcome?;
        }
        let ended = state.dead_rank_error();
        drop(state);
        ended.map_or(released, Err)
    }

    /// Returns the counters of a page at this rank; zeros for a page outside the range.
    #[must_use]
    pub fn counts(&self, page: u32) -> Counts {
        self.shared.lock().node.counts(page)
    }

    /// Returns the sums of the counters of all pages at this rank.
    #[must_use]
    pub fn totals(&self) -> Counts {
        self.shared.lock().totals(self.pages)
    }

    /// Returns up to `most` pages with the most faults at this rank, hottest first. A page that returned
    /// often ping-pongs between ranks: if they use different variables in it, move these to different pages.
    #[must_use]
    pub fn hottest(&self, most: usize) -> Vec<HotPage> {
        let hottest = self.shared.lock().hottest(self.pages, most);
        let report = |(page, counts)| HotPage {
            page,
            address: self.address + page as usize * self.page_bytes,
            counts,
        };
        hottest.into_iter().map(report).collect()
    }

    /// Returns the places of a page where threads of this rank faulted, most frequent first, and the object
    /// there: one that was [named](Self::name_object), or a variable of the program's symbol table. This is a
    /// sample: only the first access after a page arrives faults.
    #[must_use]
    pub fn places(&self, page: u32) -> Vec<(Place, Option<String>)> {
        self.shared.lock().places(page)
    }

    /// Names the object in a part of the range, given in bytes from its start, for [`places`](Self::places)
    /// and `tombolo pages`. Variables of the program have names already.
    pub fn name_object(&self, part: Range<usize>, name: &str) {
        let at = |offset_bytes: usize| self.address.saturating_add(offset_bytes) as u64;
        self.shared.lock().named.add(at(part.start)..at(part.end), name);
    }

    /// Waits for a change of the state.
    fn wait<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        deadline: Deadline,
        what: &'static str,
        timeout: Duration,
    ) -> (MutexGuard<'a, State>, Result<(), Error>) {
        if let Some(failure) = &state.failure {
            let failure = Error::NotServed(failure.clone());
            return (state, Err(failure));
        }
        let left = deadline.remaining();
        if left.is_zero() {
            return (state, Err(Error::TimedOut { what, timeout }));
        }
        state.waiter_count += 1;
        let waited = self.shared.changed.wait_timeout(state, left);
        let (mut state, _) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        state.waiter_count -= 1;
        (state, Ok(()))
    }
}

/// Requests a page.
fn request_page(state: &mut State, page: u32, access: Access) -> Result<(), Error> {
    let State { node, store, .. } = state;
    match node.fault(store, now_ns(), page, access) {
        Ok(Fault::Lost(owner)) => Err(state.lost_page(page, owner).into()),
        Ok(Fault::Resolved | Fault::Requested) => Ok(()),
        Err(_) => Err(Error::NoSuchPage { page, pages: node.geometry().pages }),
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        lock_unpoisoned(&self.shared.state).stop = true;
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
