//! Waits for many descriptors at a cost that does not depend on their number: the kernel keeps the list of
//! ready ones.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, epoll};
use rustix::io::Errno;
use rustix::time::{TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

use crate::error::{Context, OsError};
use crate::event::{Interest, Ready};
use crate::time::{Deadline, timespec};

/// Trigger mode of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trigger {
    /// Reported by every wait while it is ready.
    Level,
    /// Reported once per event: the caller must handle it until nothing is left.
    Edge,
    /// Reported once, until the interest is [changed](Epoll::change); then immediately if it is ready.
    Once,
}

/// Set of descriptors to wait for, each under a key. Shareable: all operations take `&self`.
#[derive(Debug)]
pub struct Epoll {
    fd: OwnedFd,
}

/// Maximum number of events per wait; the next wait returns the rest.
const EVENTS_PER_WAIT: usize = 64;

/// Events returned by a wait.
#[derive(Debug, Default)]
pub struct Events {
    found: Vec<(u64, Ready)>,
}

impl Events {
    /// Creates an empty buffer without allocating.
    #[must_use]
    pub const fn new() -> Self {
        Events { found: Vec::new() }
    }

    /// Returns the keys of the ready descriptors, with their states.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Ready)> {
        self.found.iter().copied()
    }

    fn set(&mut self, raw: &[epoll::Event]) {
        self.found.clear();
        self.found.extend(raw.iter().map(|event| {
            let flags = event.flags;
            let ready = Ready {
                readable: flags.contains(epoll::EventFlags::IN),
                writable: flags.contains(epoll::EventFlags::OUT),
                hung_up: flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR),
            };
            (event.data.u64(), ready)
        }));
    }
}

fn flags(interest: Interest, trigger: Trigger) -> epoll::EventFlags {
    let awaited = match interest {
        Interest::Read => epoll::EventFlags::IN,
        Interest::Write => epoll::EventFlags::OUT,
        Interest::ReadWrite => epoll::EventFlags::IN | epoll::EventFlags::OUT,
    };
    match trigger {
        Trigger::Level => awaited,
        Trigger::Edge => awaited | epoll::EventFlags::ET,
        Trigger::Once => awaited | epoll::EventFlags::ONESHOT,
    }
}

impl Epoll {
    /// Creates an empty set.
    ///
    /// # Errors
    /// `EMFILE`: too many open files.
    pub fn new() -> Result<Self, OsError> {
        let fd = epoll::create(epoll::CreateFlags::CLOEXEC).context("create an epoll instance")?;
        Ok(Epoll { fd })
    }

    /// Creates a set that becomes readable when the reading end of `fd` is closed. `None` for a file, which
    /// has no such end.
    ///
    /// # Errors
    /// As [`Epoll::new`] and [`Epoll::add`].
    pub fn watch_hang_up(fd: impl AsFd) -> Result<Option<Self>, OsError> {
        let set = Epoll::new()?;
        // The kernel always reports hang-ups.
        match epoll::add(&set.fd, fd, epoll::EventData::new_u64(0), epoll::EventFlags::empty()) {
            Ok(()) => Ok(Some(set)),
            Err(Errno::PERM) => Ok(None),
            Err(errno) => Err(OsError::new("wait for the end of a descriptor", errno)),
        }
    }

    /// Adds `fd`, which stays in the set until its last duplicate is closed.
    ///
    /// # Errors
    /// `EEXIST` if it is in the set; `EPERM` for a file, which is always ready; `ENOSPC` if the sets of this
    /// user hold as many as `/proc/sys/fs/epoll/max_user_watches` allows.
    pub fn add(&self, fd: impl AsFd, interest: Interest, trigger: Trigger, key: u64) -> Result<(), OsError> {
        epoll::add(&self.fd, fd, epoll::EventData::new_u64(key), flags(interest, trigger))
            .context("wait for a descriptor among many")
    }

    /// Changes the interest in `fd`.
    ///
    /// # Errors
    /// `ENOENT` when it is not in the set.
    pub fn change(
        &self,
        fd: impl AsFd,
        interest: Interest,
        trigger: Trigger,
        key: u64,
    ) -> Result<(), OsError> {
        epoll::modify(&self.fd, fd, epoll::EventData::new_u64(key), flags(interest, trigger))
            .context("change what to wait for on a descriptor")
    }

    /// Removes `fd`. Does nothing if it is not in the set.
    pub fn remove(&self, fd: impl AsFd) {
        let _ = epoll::delete(&self.fd, fd);
    }

    /// Sleeps until a descriptor is ready or `deadline` passes, and replaces the content of `events`: empty
    /// if the deadline passed. Signal handlers do not end the wait.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn wait(&self, events: &mut Events, deadline: Option<Deadline>) -> Result<(), OsError> {
        loop {
            let remaining = deadline.map(Deadline::remaining);
            match self.wait_once(events, remaining) {
                Ok(()) if !events.found.is_empty() || remaining.is_some_and(|left| left.is_zero()) => {
                    return Ok(());
                }
                Ok(()) | Err(Errno::INTR) => {}
                Err(errno) => return Err(OsError::new("wait for many descriptors", errno)),
            }
        }
    }

    /// Sleeps once. May return up to a millisecond early, the resolution of the call; the remainder is slept
    /// by a call with a finer one.
    fn wait_once(&self, events: &mut Events, remaining: Option<Duration>) -> rustix::io::Result<()> {
        let millis = remaining.map(|remaining| {
            // The call accepts at most 24 days.
            Duration::from_millis(u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX).min(0x7fff_ffff))
        });
        let timeout: Option<Timespec> = millis.map(timespec);
        if let (Some(millis), Some(remaining)) = (millis, remaining)
            && millis.is_zero()
            && !remaining.is_zero()
        {
            let mut this = [PollFd::new(&self.fd, PollFlags::IN)];
            rustix::event::poll(&mut this, Some(&timespec(remaining)))?;
        }
        let mut room = [MaybeUninit::uninit(); EVENTS_PER_WAIT];
        let (raw, _) = epoll::wait(&self.fd, &mut room, timeout.as_ref())?;
        events.set(raw);
        Ok(())
    }
}

impl AsFd for Epoll {
    /// Returns a descriptor that is readable while something in the set is ready.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A timer descriptor, readable from a deadline on.
#[derive(Debug)]
pub struct TimerFd {
    fd: OwnedFd,
    set_to: Option<Deadline>,
}

impl TimerFd {
    /// Creates a timer that is not set.
    ///
    /// # Errors
    /// `EMFILE`: too many open files.
    pub fn new() -> Result<Self, OsError> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let fd = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags).context("create a timer")?;
        Ok(TimerFd { fd, set_to: None })
    }

    /// Makes the timer readable at `deadline`, or never. Makes no system call if it is set so already.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn set(&mut self, deadline: Option<Deadline>) -> Result<(), OsError> {
        if self.set_to == deadline {
            return Ok(());
        }
        // Zero would disarm it.
        let at = deadline.map_or(Duration::ZERO, |at| Duration::from_nanos(at.as_ns().max(1)));
        let value =
            rustix::time::Itimerspec { it_interval: timespec(Duration::ZERO), it_value: timespec(at) };
        rustix::time::timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &value).context("set a timer")?;
        self.set_to = deadline;
        Ok(())
    }

    /// Records that the timer expired and is no longer set.
    pub fn acknowledge(&mut self) {
        let _ = rustix::io::read(&self.fd, &mut [0_u8; 8]);
        self.set_to = None;
    }
}

impl AsFd for TimerFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{drain, eventfd, poll, signal};

    const SOON: Duration = Duration::from_secs(20);

    fn found(epoll: &Epoll, timeout: Duration) -> Vec<u64> {
        let mut events = Events::new();
        epoll.wait(&mut events, Some(Deadline::after(timeout))).unwrap();
        let mut keys: Vec<u64> = events.iter().map(|(key, _)| key).collect();
        keys.sort_unstable();
        keys
    }

    #[test]
    fn watch_hang_up_reports_hang_up_only() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let end = Epoll::watch_hang_up(&writer).unwrap().expect("a pipe has an end");
        assert_eq!(found(&end, Duration::ZERO), []);
        drop(reader);
        assert_eq!(found(&end, SOON), [0]);
        assert!(Epoll::watch_hang_up(std::fs::File::open("/proc/self/exe").unwrap()).unwrap().is_none());
    }

    #[test]
    fn triggers_differ_in_how_often_they_report() {
        let epoll = Epoll::new().unwrap();
        let counters = [eventfd().unwrap(), eventfd().unwrap(), eventfd().unwrap()];
        for (key, trigger) in (0..).zip([Trigger::Level, Trigger::Edge, Trigger::Once]) {
            epoll.add(&counters[key as usize], Interest::Read, trigger, key).unwrap();
        }
        assert!(found(&epoll, Duration::ZERO).is_empty());
        counters.iter().for_each(|counter| signal(counter).unwrap());
        assert_eq!(found(&epoll, SOON), [0, 1, 2]);
        assert_eq!(found(&epoll, SOON), [0]);
        counters.iter().for_each(|counter| signal(counter).unwrap());
        assert_eq!(found(&epoll, SOON), [0, 1]);
        epoll.change(&counters[2], Interest::Read, Trigger::Once, 7).unwrap();
        assert_eq!(found(&epoll, SOON), [0, 7]);
        epoll.remove(&counters[0]);
        epoll.remove(&counters[0]);
        assert!(found(&epoll, Duration::ZERO).is_empty());
        assert!(drain(&counters[0]));
    }

    #[test]
    fn short_and_long_waits_end_at_their_deadline_and_not_before() {
        let epoll = Epoll::new().unwrap();
        for timeout_us in [1, 300, 1_000, 1_700] {
            let deadline = Deadline::after(Duration::from_micros(timeout_us));
            let mut events = Events::new();
            epoll.wait(&mut events, Some(deadline)).unwrap();
            assert!(deadline.passed() && events.iter().next().is_none());
        }
    }

    #[test]
    fn timer_expires_when_set_and_can_be_unset() {
        let mut timer = TimerFd::new().unwrap();
        let readable = |timer: &TimerFd, timeout| {
            poll(&[(timer.as_fd(), Interest::Read)], Some(Deadline::after(timeout))).unwrap()[0].readable
        };
        timer.set(Some(Deadline::at_ns(0))).unwrap();
        assert!(readable(&timer, SOON));
        timer.acknowledge();
        assert!(!readable(&timer, Duration::ZERO));
        timer.set(Some(Deadline::after(Duration::from_secs(3600)))).unwrap();
        timer.set(None).unwrap();
        assert!(!readable(&timer, Duration::from_millis(1)));
    }

    #[test]
    fn regular_files_are_refused() {
        let epoll = Epoll::new().unwrap();
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let error = epoll.add(&file, Interest::Read, Trigger::Level, 0).unwrap_err();
        assert_eq!(error.errno, Errno::PERM);
    }
}
