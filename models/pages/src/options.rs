//! How pages are opened.

use std::time::Duration;

use tombolo::{Channel, ChannelOptions, Domain, Job};
use tombolo_directory::Consistency;

use crate::error::{Error, LostAccess, LostPage, OnLoss};
use crate::pages::Pages;

/// Where the range begins unless another address is given: within what every 64-bit kernel gives programs,
/// and far from where they put anything by themselves. With addresses of 32 bits there is no such place, and
/// ranks of both widths have to agree on another.
const DEFAULT_ADDRESS: usize = if usize::BITS >= 64 { 0x1000_0000_0000_u64 as usize } else { 0x9000_0000 };

/// The most bytes of a range: 16 GiB. What each rank keeps of each page is about 1/30 of it.
pub(crate) const MAX_BYTES: u64 = 16 << 30;

/// How a range is opened. Name, address, length and [`block_pages`](Self::block_pages) must be the same at
/// all ranks.
#[derive(Clone, Debug)]
pub struct PagesOptions {
    pub(crate) name: String,
    pub(crate) address: usize,
    pub(crate) block_pages: u32,
    pub(crate) hold: Duration,
    pub(crate) ahead: u8,
    pub(crate) cpus: Vec<usize>,
    pub(crate) spin_ns: u64,
    pub(crate) on_loss: Option<OnLoss>,
    pub(crate) consistency: Consistency,
    pub(crate) job: Option<String>,
}

impl PagesOptions {
    /// A range that goes by this name in the job, at 0x100000000000 (with 32 bits at 0x90000000), in blocks
    /// of 16 pages, that fetches the 3 pages after one that is read, and keeps pages for 100 µs at least.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        PagesOptions {
            name: name.into(),
            address: DEFAULT_ADDRESS,
            block_pages: 16,
            hold: Duration::from_micros(100),
            ahead: 3,
            cpus: Vec::new(),
            spin_ns: 50_000,
            on_loss: None,
            consistency: Consistency::Sequential,
            job: None,
        }
    }

    /// Where the range begins: a multiple of the page size, where the program has nothing, in 48 bits.
    #[must_use]
    pub fn address(mut self, address: usize) -> Self {
        self.address = address;
        self
    }

    /// Pages in a row with the same home, the rank that directs them; blocks go to the ranks in turn. At
    /// least 1.
    #[must_use]
    pub fn block_pages(mut self, pages: u32) -> Self {
        self.block_pages = pages.max(1);
        self
    }

    /// How long a page that was fetched stays at least: long enough for the thread that waited for it to use
    /// it, or two ranks that write to one page take it from each other before either has. It delays the
    /// rank that wants the page next by as much.
    #[must_use]
    pub fn hold(mut self, hold: Duration) -> Self {
        self.hold = hold;
        self
    }

    /// How many pages after one that is read are fetched with it, if they have the same home and are at hand
    /// there.
    #[must_use]
    pub fn ahead(mut self, pages: u8) -> Self {
        self.ahead = pages;
        self
    }

    /// The processors for the thread that serves the pages; all that the program may use, unless given. On
    /// the processor of the thread that faults it is woken soonest.
    #[must_use]
    pub fn service_cpus(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.cpus = cpus.into_iter().collect();
        self
    }

    /// How long the thread that serves the pages looks for answers before it sleeps, in nanoseconds: 50,000
    /// unless given, about the cost of being woken.
    #[must_use]
    pub fn spin_ns(mut self, spin_ns: u64) -> Self {
        self.spin_ns = spin_ns;
        self
    }

    /// What the ranks see of each other's writes: each at once unless given. With
    /// [`Consistency::Release`], which all ranks must choose, several write to one page at the same time,
    /// each to other bytes, and see what the others wrote after [`Pages::barrier`], or after
    /// [`Pages::release`] there and [`Pages::refresh`] here. Then the homes of pages do not change, and one
    /// that dies takes its pages with it.
    #[must_use]
    pub fn consistency(mut self, consistency: Consistency) -> Self {
        self.consistency = consistency;
        self
    }

    /// Opens the range, together with all other domains of the job, and waits for them up to the domain's
    /// timeout. The length is rounded up to whole pages, which are zero.
    ///
    /// # Errors
    /// [`Error::Unavailable`]: this node has no such memory, or the range is in use. [`Error::Mismatch`],
    /// [`Error::Length`], [`Error::TooManyRanks`]; or a channel to another rank could not be opened.
    pub fn open(&self, domain: &Domain, job: &Job, bytes: u64) -> Result<Pages, Error> {
        let mut pages = Pages::open(self, domain, job, bytes)?;
        pages.report(domain, (job.id(), job.rank()), &self.name);
        Ok(pages)
    }

    /// The job that `tombolo pages` shows a range under that [`open_center`](Self::open_center) or
    /// [`open_around`](Self::open_around) opens, without which it shows none of these. The same at all ranks.
    #[must_use]
    pub fn shown_under(mut self, job: impl Into<String>) -> Self {
        self.job = Some(job.into());
        self
    }

    fn show(&self, mut pages: Pages, domain: &Domain, rank: u32) -> Pages {
        if let Some(job) = &self.job {
            pages.report(domain, (job, rank), &self.name);
        }
        pages
    }

    /// What is called when the program has accessed a lost page and waited for as long, and says what becomes
    /// of the access: for programs that learn of a rank's death in another way too, or have an end of their
    /// own. It is called by the thread that serves the pages, so it may access none.
    #[must_use]
    pub fn on_loss(mut self, after: Duration, call: fn(&LostPage) -> LostAccess) -> Self {
        self.on_loss = Some((after, call));
        self
    }

    /// Opens a range as its rank 0, which is the home of all its pages, without waiting for other ranks: up
    /// to 63 come later by [`open_around`](Self::open_around), each by a channel of
    /// [`channel_options`](Self::channel_options) that is given to [`Pages::admit`]. They have no channels to
    /// each other, so the range ends with rank 0, and [`Pages::barrier`] and [`Pages::close`] are not for
    /// it.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_center(&self, domain: &Domain, bytes: u64) -> Result<Pages, Error> {
        let pages = Pages::open_center(&self.clone().block_pages(u32::MAX), domain, bytes)?;
        Ok(self.show(pages, domain, 0))
    }

    /// Opens a range as another rank than 0 of one that was opened by [`open_center`](Self::open_center).
    ///
    /// # Errors
    /// As [`open`](Self::open); [`Error::NoSuchRank`].
    pub fn open_around(
        &self,
        domain: &Domain,
        rank: u32,
        center: Channel,
        bytes: u64,
    ) -> Result<Pages, Error> {
        let pages = Pages::open_around(&self.clone().block_pages(u32::MAX), domain, rank, center, bytes)?;
        Ok(self.show(pages, domain, rank))
    }

    /// Options of the channel between rank 0 and another of such a range.
    ///
    /// # Errors
    /// None that depends on the caller.
    pub fn channel_options() -> Result<ChannelOptions, tombolo::Error> {
        crate::setup::channel_options()
    }
}
