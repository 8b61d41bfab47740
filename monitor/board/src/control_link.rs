//! The control link to the root: a channel at the start of the window.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use tombolo_base::SharedMemory;
use tombolo_control::{Report, Unsendable, Wire};
use tombolo_link::either::{EitherEnd, EitherMemory, EitherOpening};
use tombolo_link::end::{Awaited, DeferredSignals, EndError, channel_memory};
use tombolo_link::window::{CONTROL_OFFSET_BYTES, WindowHeader, control_config};
use tombolo_link::{Hello, Side};

use crate::node_monitor::ExitReason;

/// Interface hash of the channel between monitors. Must match the root's.
const INTERFACE_HASH: u64 = tombolo_base::hash::fnv1a(b"tombolo.control.1");

/// State of a handshake in progress.
pub(crate) struct Opening {
    opening: EitherOpening,
    signals: DeferredSignals,
}

impl Opening {
    /// Begins the handshake. Ring the root after this and after every step.
    pub(crate) fn start(window: &SharedMemory) -> Result<Opening, ExitReason> {
        let header = WindowHeader::read(window).map_err(ExitReason::window)?;
        let memory =
            channel_memory(window, CONTROL_OFFSET_BYTES, control_config()).map_err(ExitReason::window)?;
        let memory = EitherMemory::view(memory, header.caches).map_err(ExitReason::window)?;
        let hello = Hello::new(control_config(), INTERFACE_HASH, None);
        let mut signals = DeferredSignals::default();
        let opening = memory.open(Side::A, hello, &mut signals);
        Ok(Opening { opening: opening.map_err(ExitReason::window)?, signals })
    }

    /// Advances the handshake as far as the root's replies allow. Returns the link once it is open.
    pub(crate) fn step(&mut self) -> Result<Option<ControlLink>, ExitReason> {
        let Some(agreed) = self.opening.step(&mut self.signals).map_err(ExitReason::window)? else {
            return Ok(None);
        };
        // The pending ring is dropped: the caller rings the root after every step anyway.
        let end = self.opening.attach(agreed, DeferredSignals::default()).map_err(ExitReason::window)?;
        Ok(Some(ControlLink { end, queue: VecDeque::new(), unsendable: None }))
    }
}

/// An open control link.
pub(crate) struct ControlLink {
    end: EitherEnd<DeferredSignals>,
    /// Encoded reports that did not fit in the ring yet.
    queue: VecDeque<Vec<u8>>,
    /// Error of a report that could not be encoded. The next flush returns it.
    unsendable: Option<Unsendable>,
}

impl ControlLink {
    /// Queues a report for the next [`flush`](Self::flush).
    pub(crate) fn report(&mut self, report: &Report) {
        match report.to_bytes() {
            Ok(message) => self.queue.push_back(message),
            Err(error) => self.unsendable = Some(error),
        }
    }

    /// Returns the number of queued reports.
    pub(crate) fn backlog(&self) -> usize {
        self.queue.len()
    }

    /// Sends queued reports until the ring is full.
    pub(crate) fn flush(&mut self) -> Result<(), ExitReason> {
        if let Some(error) = self.unsendable.take() {
            return Err(ExitReason::link(error));
        }
        while let Some(message) = self.queue.front() {
            match self.end.try_send(message) {
                Ok(()) => {}
                Err(EndError::Full) => return Ok(()),
                Err(error) => return Err(ExitReason::link(error)),
            }
            self.queue.pop_front();
        }
        Ok(())
    }

    /// Receives the next order, encoded, if there is one.
    pub(crate) fn receive(&mut self) -> Result<Option<Vec<u8>>, ExitReason> {
        let mut message = Vec::new();
        Ok(self.end.try_recv_into(&mut message).map_err(ExitReason::link)?.map(|_| message))
    }

    fn awaited(&self) -> Awaited {
        if self.queue.is_empty() { Awaited::Message } else { Awaited::Both }
    }

    /// Announces to the root that this side is about to sleep. Returns false if there is work to do first.
    pub(crate) fn prepare_to_sleep(&mut self) -> bool {
        self.end.prepare_to_sleep(self.awaited())
    }

    pub(crate) fn end_sleep(&mut self) {
        self.end.finish_sleep(true);
    }

    /// Returns whether the root must be rung, and clears the request.
    pub(crate) fn take_pending_ring(&mut self) -> bool {
        self.end.signals_mut().take_ring()
    }
}
