//! Memory of a team on nodes without common memory: pages that are sent in messages.
//!
//! The program's process is the home of all pages (`tombolo-pages`, rank 0). The other processes have the
//! numbers that the hub assigned as their ranks, and join as they are started. There are two ranges, the
//! program's variables and the arena, each with a channel from every process to that of the program.

use std::time::Duration;

use tombolo::{Channel, Domain, DomainId, Error, Listener};
use tombolo_omp_team::job::report::Faults;
use tombolo_pages::{Pages, PagesOptions};

use crate::death;
use crate::memory::{MemoryError, to_usize};
use crate::message::Layout;

/// Time that an access to a page of a dead process waits before it ends the job. The hub learns of the death
/// by itself and reports more about it, unless it waits for such a page too.
const LOST_PAGE_TIMEOUT: Duration = Duration::from_secs(2);
/// Minimum time that a page stays where it was fetched to.
const PAGE_HOLD_MIN: Duration = Duration::from_micros(50);
/// Number of pages fetched ahead on a read fault.
const PREFETCH_PAGES: u8 = 7;
/// Time within which a process that connects must send its first message.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of processes of a job, including the program's.
pub const PROCESSES_MAX: usize = 64;

/// Range of memory that is sent in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PagedRange {
    Variables,
    Arena,
}

/// Ranges in the order in which they are opened; the index identifies a range in the first message of a
/// channel.
const RANGES: [PagedRange; 2] = [PagedRange::Variables, PagedRange::Arena];

impl PagedRange {
    /// Name of the range in `tombolo pages`.
    fn name(self) -> &'static str {
        match self {
            Self::Variables => "variables",
            Self::Arena => "arena",
        }
    }

    fn bounds(self, layout: Layout) -> (u64, u64) {
        match self {
            Self::Variables => (layout.variables, layout.variables_bytes),
            Self::Arena => (layout.arena, layout.arena_bytes),
        }
    }
}

/// Address of the home of all pages, and this process's rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PagesHome {
    /// Name of its endpoint.
    pub name: String,
    /// Number of this process in the job.
    pub number: u32,
}

/// Page ranges of the job in this process. They exist until the process ends, because exit handlers use the
/// program's variables.
#[derive(Clone, Copy, Debug)]
pub struct PagedRanges {
    /// In [`RANGES`]; an image without variables has no such range.
    ranges: [Option<&'static Pages>; 2],
}

impl PagedRanges {
    /// Opens the ranges in the program's process, which provides the initial values of the variables.
    ///
    /// # Errors
    /// [`MemoryError`].
    ///
    /// # Safety
    /// The program's variables are not in use during the call, and the layout is that of the program.
    pub unsafe fn begin(domain: &Domain, layout: Layout) -> Result<Self, MemoryError> {
        let (address, bytes) = (to_usize(layout.variables)?, to_usize(layout.variables_bytes)?);
        // SAFETY: the caller guarantees that the variables are mapped and do not change.
        let values = unsafe { std::slice::from_raw_parts(address as *const u8, bytes) }.to_vec();
        // SAFETY: guaranteed by the caller.
        let ranges = unsafe {
            Self::open(layout, |options, _, bytes| {
                let options = options
                    .reported_under(job_name(domain.id()))
                    .on_loss(LOST_PAGE_TIMEOUT, death::handle_lost_page_at_home);
                Ok(options.open_center(domain, bytes)?)
            })?
        };
        for (at, page) in (address..).step_by(CHUNK).zip(values.chunks(CHUNK)) {
            // The range is zero-filled; chunks that stay zero need no page of memory.
            if page.iter().any(|byte| *byte != 0) {
                // SAFETY: the range was just opened at this address, with the same length.
                unsafe { std::ptr::copy_nonoverlapping(page.as_ptr(), at as *mut u8, page.len()) };
            }
        }
        Ok(ranges)
    }

    /// Opens the ranges in any other process.
    ///
    /// # Errors
    /// [`MemoryError`].
    ///
    /// # Safety
    /// As [`begin`](Self::begin).
    pub unsafe fn join(domain: &Domain, home: &PagesHome, layout: Layout) -> Result<Self, MemoryError> {
        let open = |options: PagesOptions, range: PagedRange, bytes| {
            let mut channel = PagesOptions::channel_options()?.connect(domain, &home.name)?;
            channel.send(&encode_hello(home.number, range))?;
            let options = options
                .reported_under(job_name(channel.peer()))
                .on_loss(LOST_PAGE_TIMEOUT, death::handle_lost_page_in_worker);
            Ok(options.open_around(domain, home.number, channel, bytes)?)
        };
        // SAFETY: guaranteed by the caller.
        unsafe { Self::open(layout, open) }
    }

    /// # Safety
    /// As [`begin`](Self::begin).
    unsafe fn open(
        layout: Layout,
        mut open: impl FnMut(PagesOptions, PagedRange, u64) -> Result<Pages, MemoryError>,
    ) -> Result<Self, MemoryError> {
        let mut ranges: [Option<&'static Pages>; 2] = [None; 2];
        for (range, place) in RANGES.into_iter().zip(&mut ranges) {
            let (address, bytes) = range.bounds(layout);
            if bytes == 0 {
                continue;
            }
            if range == PagedRange::Variables {
                // SAFETY: the caller guarantees that the variables are not in use; the range replaces them
                // before they are.
                unsafe { libc::munmap(to_usize(address)? as *mut libc::c_void, to_usize(bytes)?) };
            }
            let options = PagesOptions::new(range.name())
                .address(to_usize(address)?)
                .hold(PAGE_HOLD_MIN)
                .ahead(PREFETCH_PAGES);
            let pages = open(options, range, bytes)?;
            if pages.is_user_mode_only() {
                return Err(MemoryError::UserModeOnly);
            }
            let pages: &'static Pages = Box::leak(Box::new(pages));
            *place = Some(pages);
        }
        Ok(Self { ranges })
    }

    /// Admits a process that connected for one range. `wanted` decides by its number and domain; other
    /// processes are ignored.
    ///
    /// # Errors
    /// The process did not send its first message in time, or ended.
    pub fn admit(
        &self,
        mut channel: Channel,
        wanted: impl Fn(u32, DomainId) -> bool,
    ) -> Result<(), tombolo_pages::Error> {
        let mut bytes = Vec::new();
        channel.within(HELLO_TIMEOUT).recv_into(&mut bytes)?;
        let expected = decode_hello(&bytes).filter(|(number, _)| wanted(*number, channel.peer()));
        let pages = expected.and_then(|(number, range)| Some((number, self.at(range)?)));
        match pages {
            Some((number, pages)) => pages.admit(number, channel, HELLO_TIMEOUT),
            None => Ok(()),
        }
    }

    fn at(&self, range: PagedRange) -> Option<&'static Pages> {
        RANGES.iter().zip(self.ranges).find_map(|(at, pages)| pages.filter(|_| *at == range))
    }

    /// Returns the fault counts of this process.
    #[must_use]
    pub fn faults(&self) -> Faults {
        let mut sum = Faults::default();
        for pages in self.ranges.into_iter().flatten() {
            let counts = pages.totals();
            sum.read += u64::from(counts.read_faults);
            sum.written += u64::from(counts.write_faults);
            sum.upgraded += u64::from(counts.upgrades);
            sum.taken += u64::from(counts.taken);
        }
        sum
    }
}

/// Granularity in bytes at which zero variables are skipped.
const CHUNK: usize = 4096;

/// Listens for the page channels of a job's processes.
///
/// # Errors
/// Errors of opening the listener.
pub fn listen(domain: &Domain) -> Result<Listener, Error> {
    PagesOptions::channel_options()?.listen(domain)
}

/// Name of the job in `tombolo pages`.
fn job_name(program: DomainId) -> String {
    format!("omp-{program}")
}

fn encode_hello(number: u32, range: PagedRange) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes[4] = RANGES.iter().position(|at| *at == range).unwrap_or(0) as u8;
    bytes
}

fn decode_hello(bytes: &[u8]) -> Option<(u32, PagedRange)> {
    let [a, b, c, d, range, 0, 0, 0] = *bytes else { return None };
    Some((u32::from_le_bytes([a, b, c, d]), *RANGES.get(usize::from(range))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hello_is_decoded_as_it_was_encoded() {
        for range in RANGES {
            assert_eq!(decode_hello(&encode_hello(0x0102_0304, range)), Some((0x0102_0304, range)));
        }
        for wrong in [&[][..], &[0; 7], &[0; 9], &[1, 0, 0, 0, 2, 0, 0, 0], &[1, 0, 0, 0, 0, 0, 0, 1]] {
            assert_eq!(decode_hello(wrong), None, "{wrong:?}");
        }
    }
}
