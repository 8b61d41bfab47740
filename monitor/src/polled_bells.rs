//! Doorbells and heartbeat of a window without interrupts, with a thread in each of its two monitors.
//!
//! Programs ring event counters, as everywhere. For each ring the thread increments a word in the window; it
//! polls the words that the other side increments, and signals the event counters of its own programs.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use tombolo_base::{CacheMaintenance, SharedMemory};
use tombolo_link::rendezvous::{Bells, Host, HostEvent, JoinEvent, Joiner, Loss};
use tombolo_machine::WindowKey;
use tombolo_platform::event::{Interest, Ready, drain, poll, signal};
use tombolo_platform::time::now_ns;
use tombolo_platform::{Deadline, OsError};

/// Polling period of the window while bells ring; the next constant is the period while idle.
const BUSY_PERIOD: Duration = Duration::from_micros(100);
const IDLE_PERIOD: Duration = Duration::from_millis(1);

/// Time after a ring during which the window counts as busy, in nanoseconds.
const BUSY_NS: u64 = 5_000_000;

/// Heartbeat period of this side; the minimum silence limit is 1 s.
pub(crate) const HEARTBEAT_NS: u64 = 50_000_000;

/// One side of a joined window.
#[derive(Debug)]
pub(crate) enum JoinSide {
    /// Side of the root.
    Host(Host),
    /// Side of the node.
    Joiner(Joiner),
}

impl JoinSide {
    fn write_heartbeat<C: CacheMaintenance>(&mut self, window: &SharedMemory<C>) {
        match self {
            JoinSide::Host(host) => host.write_heartbeat(window),
            JoinSide::Joiner(joiner) => joiner.write_heartbeat(window),
        }
    }

    fn poll<C: CacheMaintenance>(&mut self, window: &SharedMemory<C>, key: &WindowKey) -> Option<Loss> {
        match self {
            JoinSide::Host(host) => match host.poll(window, now_ns(), key) {
                HostEvent::Lost(loss) => Some(loss),
                _ => None,
            },
            JoinSide::Joiner(joiner) => match joiner.poll(window, now_ns(), key) {
                JoinEvent::Lost(loss) => Some(loss),
                _ => None,
            },
        }
    }

    /// Notifies the other side that this one ends.
    pub(crate) fn leave<C: CacheMaintenance>(&mut self, window: &SharedMemory<C>) {
        match self {
            JoinSide::Host(host) => host.close(window),
            JoinSide::Joiner(joiner) => joiner.leave(window),
        }
    }
}

/// Doorbells of one side, which a thread forwards between its programs and the window.
pub(crate) struct PolledBells<'a, C> {
    /// This side's view of the first page of the window.
    pub(crate) window: &'a SharedMemory<C>,
    pub(crate) key: &'a WindowKey,
    pub(crate) end: &'a mut JoinSide,
    pub(crate) bells: Bells,
    /// Event counters to signal when the other side has rung, by bell.
    pub(crate) incoming: &'a [OwnedFd],
    /// Event counters that programs here ring, by bell.
    pub(crate) outgoing: &'a [OwnedFd],
    /// Descriptors of which one becomes readable to stop the thread.
    pub(crate) stop: &'a [BorrowedFd<'a>],
}

impl<C: CacheMaintenance> PolledBells<'_, C> {
    /// Forwards rings until the other side is lost, or returns `None` when told to stop.
    ///
    /// # Errors
    /// An error of the kernel.
    pub(crate) fn run(mut self) -> Result<Option<Loss>, OsError> {
        let (mut busy_until_ns, mut next_heartbeat_ns) = (0, 0);
        loop {
            let now = now_ns();
            if now >= next_heartbeat_ns {
                self.end.write_heartbeat(self.window);
                next_heartbeat_ns = now + HEARTBEAT_NS;
            }
            if let Some(loss) = self.end.poll(self.window, self.key) {
                return Ok(Some(loss));
            }
            let period = if now < busy_until_ns { BUSY_PERIOD } else { IDLE_PERIOD };
            let mut sources: Vec<_> = self.stop.iter().map(|stop| (*stop, Interest::Read)).collect();
            sources.extend(self.outgoing.iter().map(|bell| (bell.as_fd(), Interest::Read)));
            let ready = poll(&sources, Some(Deadline::after(period)))?;
            let (stop, rung) = ready.split_at(self.stop.len());
            if stop.iter().any(|stop| stop.any()) {
                return Ok(None);
            }
            if self.forward(rung) {
                busy_until_ns = now_ns() + BUSY_NS;
            }
        }
    }

    /// Forwards rings in both directions. Returns whether there were any.
    fn forward(&mut self, rung: &[Ready]) -> bool {
        let mut any = false;
        for (bell, counter) in self.outgoing.iter().enumerate() {
            if rung.get(bell).is_some_and(|ready| ready.readable) && drain(counter) {
                self.bells.ring(self.window, bell as u16);
                any = true;
            }
        }
        let incoming = self.incoming;
        any | self.bells.poll(self.window, |bell| {
            if let Some(counter) = incoming.get(usize::from(bell)) {
                // The counter belongs to this process: the write cannot fail.
                let _ = signal(counter);
            }
        })
    }
}
