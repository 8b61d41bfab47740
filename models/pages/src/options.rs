//! Options for opening pages.

use std::time::Duration;

use tombolo::{Channel, ChannelOptions, Domain, Job};
use tombolo_directory::Consistency;

use crate::error::{Error, LostAccess, LostPage, OnLoss};
use crate::pages::Pages;

/// Default start address of the range: within the user address space of every 64-bit kernel, and far from
/// its default mappings. 32-bit address spaces do not contain it; jobs with ranks of both widths have to
/// choose another address.
const DEFAULT_ADDRESS: usize = if usize::BITS >= 64 { 0x1000_0000_0000_u64 as usize } else { 0x9000_0000 };

/// Maximum length of a range: 16 GiB. Metadata of a rank takes about 1/30 of the range.
pub(crate) const MAX_BYTES: u64 = 16 << 30;

/// Options for opening a range. Name, address, length and [`block_pages`](Self::block_pages) must be the same
/// at all ranks.
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
    /// Creates options with defaults for a range with this name in the job: at 0x100000000000 (0x90000000 on
    /// 32-bit systems), in blocks of 16 pages, with 3 pages of read-ahead and a hold time of 100 µs.
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

    /// Sets the start address: a multiple of the page size below 2^48, where the program has nothing mapped.
    #[must_use]
    pub fn address(mut self, address: usize) -> Self {
        self.address = address;
        self
    }

    /// Sets the number of consecutive pages with the same home, the rank that manages them; blocks are
    /// assigned to ranks round-robin. At least 1.
    #[must_use]
    pub fn block_pages(mut self, pages: u32) -> Self {
        self.block_pages = pages.max(1);
        self
    }

    /// Sets how long a fetched page stays at least. It has to be long enough for the waiting thread to use
    /// the page; otherwise two ranks that write to it take it from each other before either makes progress.
    /// The next rank that wants the page is delayed by as much.
    #[must_use]
    pub fn hold(mut self, hold: Duration) -> Self {
        self.hold = hold;
        self
    }

    /// Sets the number of pages to read ahead, if they have the same home and are available there.
    #[must_use]
    pub fn ahead(mut self, pages: u8) -> Self {
        self.ahead = pages;
        self
    }

    /// Sets the processors of the service thread; by default all that the program may use. It wakes up
    /// fastest on the processor of the faulting thread.
    #[must_use]
    pub fn service_cpus(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.cpus = cpus.into_iter().collect();
        self
    }

    /// Sets how long the service thread polls for replies before it sleeps, in nanoseconds. The default of
    /// 50,000 is about the cost of a wake-up.
    #[must_use]
    pub fn spin_ns(mut self, spin_ns: u64) -> Self {
        self.spin_ns = spin_ns;
        self
    }

    /// Sets the memory consistency, sequential by default. With [`Consistency::Release`], which all ranks
    /// must choose, several ranks may write different bytes of one page at the same time, and see each
    /// other's writes after [`Pages::barrier`], or after [`Pages::release`] at the writer and
    /// [`Pages::refresh`] at the reader. In this mode pages stay at their homes, and a home that dies takes
    /// its pages with it.
    #[must_use]
    pub fn consistency(mut self, consistency: Consistency) -> Self {
        self.consistency = consistency;
        self
    }

    /// Opens the range, together with all other domains of the job, and waits for them up to the domain's
    /// timeout. The length is rounded up to whole pages, which are zeroed.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if this node does not support it, or the range is in use. [`Error::Mismatch`],
    /// [`Error::Length`], [`Error::TooManyRanks`]; or a channel to another rank could not be opened.
    pub fn open(&self, domain: &Domain, job: &Job, bytes: u64) -> Result<Pages, Error> {
        let mut pages = Pages::open(self, domain, job, bytes)?;
        pages.report(domain, (job.id(), job.rank()), &self.name);
        Ok(pages)
    }

    /// Sets the job under which `tombolo pages` lists a range opened by [`open_center`](Self::open_center) or
    /// [`open_around`](Self::open_around). Without it such ranges are not listed. The same at all ranks.
    #[must_use]
    pub fn reported_under(mut self, job: impl Into<String>) -> Self {
        self.job = Some(job.into());
        self
    }

    fn start_report(&self, mut pages: Pages, domain: &Domain, rank: u32) -> Pages {
        if let Some(job) = &self.job {
            pages.report(domain, (job, rank), &self.name);
        }
        pages
    }

    /// Sets a callback for accesses to lost pages, called after the access has waited for `after`. It decides
    /// about the access: for programs that also learn of a rank's death in another way, or have their own way
    /// of ending. The service thread calls it, so it must not access any page.
    #[must_use]
    pub fn on_loss(mut self, after: Duration, call: fn(&LostPage) -> LostAccess) -> Self {
        self.on_loss = Some((after, call));
        self
    }

    /// Opens a range as its rank 0, which is the home of all its pages, without waiting for other ranks. Up
    /// to 63 ranks join later with [`open_around`](Self::open_around), each over a channel with
    /// [`channel_options`](Self::channel_options) that is passed to [`Pages::admit`]. They have no channels
    /// to each other, so the range ends with rank 0, and does not support [`Pages::barrier`] and
    /// [`Pages::close`].
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_center(&self, domain: &Domain, bytes: u64) -> Result<Pages, Error> {
        let pages = Pages::open_center(&self.clone().block_pages(u32::MAX), domain, bytes)?;
        Ok(self.start_report(pages, domain, 0))
    }

    /// Joins a range that was opened with [`open_center`](Self::open_center), as a rank other than 0.
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
        Ok(self.start_report(pages, domain, rank))
    }

    /// Returns the options of the channel between rank 0 and another rank of such a range.
    ///
    /// # Errors
    /// None that depends on the caller.
    pub fn channel_options() -> Result<ChannelOptions, tombolo::Error> {
        crate::setup::channel_options()
    }
}
