//! Wait primitives of a domain: event counters and file descriptors, always with a deadline.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::error::{Context, OsError};
use crate::time::{Deadline, timespec};

/// Creates an event counter with the value zero, non-blocking.
///
/// # Errors
/// `EMFILE`: too many open files.
pub fn eventfd() -> Result<OwnedFd, OsError> {
    rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .context("create an event counter")
}

/// Increments an event counter, which wakes its waiter. Succeeds on a full counter, whose waiter is awake.
///
/// The increment is little-endian 1 on every processor: an emulator may or may not byte-swap the counters
/// of a big-endian program, and either value is a valid nonzero increment.
///
/// # Errors
/// An error of the kernel other than `EAGAIN`.
pub fn signal(counter: impl AsFd) -> Result<(), OsError> {
    match rustix::io::write(counter, &1_u64.to_le_bytes()) {
        Ok(_) | Err(Errno::AGAIN) => Ok(()),
        Err(errno) => Err(OsError::new("signal an event counter", errno)),
    }
}

/// Resets an event counter to zero. Returns whether it was signalled.
pub fn drain(counter: impl AsFd) -> bool {
    rustix::io::read(counter, &mut [0_u8; 8]).is_ok()
}

/// Creates a timer on the monotonic clock, non-blocking and not set.
///
/// # Errors
/// `EMFILE`: too many open files.
pub fn timer() -> Result<OwnedFd, OsError> {
    let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
    timerfd_create(TimerfdClockId::Monotonic, flags).context("create a timer")
}

/// Sets a timer: readable after `delay`, until it is [drained](drain) or set again.
///
/// # Errors
/// An error of the kernel.
pub fn set_timer(timer: impl AsFd, delay: Duration) -> Result<(), OsError> {
    // Zero would disarm it.
    let it_value = timespec(delay.max(Duration::from_nanos(1)));
    let setting = Itimerspec { it_interval: timespec(Duration::ZERO), it_value };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &setting).context("set a timer")?;
    Ok(())
}

/// State of one descriptor after a [`poll`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ready {
    /// Data or the end of the stream can be read.
    pub readable: bool,
    /// Writing would not block.
    pub writable: bool,
    /// The other end is closed; data sent before can still be read.
    pub hung_up: bool,
}

impl Ready {
    /// Returns whether any flag is set.
    #[must_use]
    pub fn any(self) -> bool {
        self.readable || self.writable || self.hung_up
    }
}

/// Events to wait for on a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interest {
    /// Data or the end to read.
    Read,
    /// Room to write, or the end.
    Write,
    /// Data to read or room to write.
    ReadWrite,
}

/// Sleeps until one of `sources` is ready or `deadline` passes; forever without a deadline.
///
/// Returns the state of each source in order, all false when the deadline passed. Signal handlers do not
/// end the wait.
///
/// # Errors
/// An error of the kernel.
pub fn poll(
    sources: &[(BorrowedFd<'_>, Interest)],
    deadline: Option<Deadline>,
) -> Result<Vec<Ready>, OsError> {
    let mut fds: Vec<PollFd<'_>> = sources
        .iter()
        .map(|(fd, interest)| {
            let flags = match interest {
                Interest::Read => PollFlags::IN,
                Interest::Write => PollFlags::OUT,
                Interest::ReadWrite => PollFlags::IN | PollFlags::OUT,
            };
            PollFd::from_borrowed_fd(*fd, flags)
        })
        .collect();
    loop {
        let timeout = deadline.map(|deadline| timespec(deadline.remaining()));
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(OsError::new("wait for a descriptor", errno)),
        }
    }
    Ok(fds
        .iter()
        .map(|fd| {
            let events = fd.revents();
            Ready {
                readable: events.contains(PollFlags::IN),
                writable: events.contains(PollFlags::OUT),
                hung_up: events.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL),
            }
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signalled_counter_is_readable_once() {
        let counter = eventfd().unwrap();
        let now = Some(Deadline::after(Duration::ZERO));
        assert!(!poll(&[(counter.as_fd(), Interest::Read)], now).unwrap()[0].any());
        signal(&counter).unwrap();
        signal(&counter).unwrap();
        let soon = Some(Deadline::after(Duration::from_secs(10)));
        assert!(poll(&[(counter.as_fd(), Interest::Read)], soon).unwrap()[0].readable);
        assert!(drain(&counter));
        assert!(!drain(&counter));
    }

    #[test]
    fn a_timer_ends_a_sleep() {
        let timer = timer().unwrap();
        let now = Some(Deadline::after(Duration::ZERO));
        assert!(!poll(&[(timer.as_fd(), Interest::Read)], now).unwrap()[0].any());
        for delay in [Duration::ZERO, Duration::from_millis(1)] {
            set_timer(&timer, delay).unwrap();
            let soon = Some(Deadline::after(Duration::from_secs(10)));
            assert!(poll(&[(timer.as_fd(), Interest::Read)], soon).unwrap()[0].readable);
            assert!(drain(&timer));
        }
        set_timer(&timer, Duration::from_secs(3600)).unwrap();
        assert!(!drain(&timer));
    }

    #[test]
    fn full_counter_stays_signalled() {
        let counter = eventfd().unwrap();
        rustix::io::write(&counter, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        signal(&counter).unwrap();
        assert!(drain(&counter));
    }

    #[test]
    fn pipe_hang_up_is_reported() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        drop(writer);
        let soon = Some(Deadline::after(Duration::from_secs(10)));
        assert!(poll(&[(reader.as_fd(), Interest::Read)], soon).unwrap()[0].hung_up);
    }
    #[test]
    fn descriptors_are_nonblocking_and_cloexec() {
        for descriptor in [eventfd().unwrap(), timer().unwrap()] {
            assert!(rustix::fs::fcntl_getfl(&descriptor).unwrap().contains(rustix::fs::OFlags::NONBLOCK));
            assert!(rustix::io::fcntl_getfd(&descriptor).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
        }
    }

    #[test]
    fn any_is_true_when_any_event_is_set() {
        assert!(!Ready::default().any());
        assert!(Ready { readable: true, ..Ready::default() }.any());
        assert!(Ready { writable: true, ..Ready::default() }.any());
        assert!(Ready { hung_up: true, ..Ready::default() }.any());
    }

    #[test]
    fn poll_reports_requested_events_in_order() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let counter = eventfd().unwrap();
        let sources = [
            (reader.as_fd(), Interest::Read),
            (writer.as_fd(), Interest::Write),
            (counter.as_fd(), Interest::ReadWrite),
            (counter.as_fd(), Interest::Read),
        ];
        let writable = Ready { writable: true, ..Ready::default() };
        let readable = Ready { readable: true, ..Ready::default() };
        // Some are ready, so no deadline is needed.
        assert_eq!(poll(&sources, None).unwrap(), [Ready::default(), writable, writable, Ready::default()]);
        signal(&counter).unwrap();
        rustix::io::write(&writer, b"x").unwrap();
        let both = Ready { readable: true, ..writable };
        assert_eq!(poll(&sources, None).unwrap(), [readable, writable, both, readable]);
    }

    #[test]
    fn writer_without_reader_is_hung_up() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        drop(reader);
        let ready = poll(&[(writer.as_fd(), Interest::Write)], None).unwrap()[0];
        assert!(ready.hung_up, "{ready:?}");
    }

    #[test]
    fn a_signal_to_another_kind_of_descriptor_is_an_error() {
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        assert_eq!(signal(&reader).unwrap_err().errno, Errno::BADF);
    }
}
