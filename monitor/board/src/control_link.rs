//! The control link to the root: a channel at the start of the window.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use tombolo_base::SharedMemory;
use tombolo_control::{Report, Unsendable, Wire};
use tombolo_link::either::{EitherEnd, EitherMemory, EitherOpening};
use tombolo_link::end::{Awaited, Deferred, EndError, memory_of};
use tombolo_link::window::{CONTROL_OFFSET_BYTES, WindowHeader, control_config};
use tombolo_link::{Hello, Side};

use crate::node_monitor::Ended;

/// The interface hash of the channel between monitors, as the root has it.
const INTERFACE_HASH: u64 = tombolo_base::hash::fnv1a(b"tombolo.control.1");

/// A handshake under way.
pub(crate) struct Opening {
    opening: EitherOpening,
    signals: Deferred,
}

impl Opening {
    /// Begins the handshake. Ring the root after this and after every step.
    pub(crate) fn start(window: &SharedMemory) -> Result<Opening, Ended> {
        let header = WindowHeader::read(window).map_err(Ended::window)?;
        let memory = memory_of(window, CONTROL_OFFSET_BYTES, control_config()).map_err(Ended::window)?;
        let memory = EitherMemory::view(memory, header.caches).map_err(Ended::window)?;
        let hello = Hello::new(control_config(), INTERFACE_HASH, None);
        let mut signals = Deferred::default();
        let opening = memory.open(Side::A, hello, &mut signals);
        Ok(Opening { opening: opening.map_err(Ended::window)?, signals })
    }

    /// Goes on as far as the root has answered; returns the link once it is open.
    pub(crate) fn step(&mut self) -> Result<Option<ControlLink>, Ended> {
        let Some(agreed) = self.opening.step(&mut self.signals).map_err(Ended::window)? else {
            return Ok(None);
        };
        // The root is rung with every step, whether that changed anything or not.
        let end = self.opening.end(agreed, Deferred::default()).map_err(Ended::window)?;
        Ok(Some(ControlLink { end, queue: VecDeque::new(), unsendable: None }))
    }
}

/// An open control link.
pub(crate) struct ControlLink {
    end: EitherEnd<Deferred>,
    /// What the root has not taken yet.
    queue: VecDeque<Vec<u8>>,
    /// A report that could not be sent.
    unsendable: Option<Unsendable>,
}

impl ControlLink {
    /// Sends a report, now or when the root takes it.
    pub(crate) fn report(&mut self, report: &Report) {
        match report.to_bytes() {
            Ok(message) => self.queue.push_back(message),
            Err(error) => self.unsendable = Some(error),
        }
    }

    /// Reports that wait.
    pub(crate) fn backlog(&self) -> usize {
        self.queue.len()
    }

    /// Sends what the root takes.
    pub(crate) fn flush(&mut self) -> Result<(), Ended> {
        if let Some(error) = self.unsendable.take() {
            return Err(Ended::link(error));
        }
        while let Some(message) = self.queue.front() {
            match self.end.try_send(message) {
                Ok(()) => {}
                Err(EndError::Full) => return Ok(()),
                Err(error) => return Err(Ended::link(error)),
            }
            self.queue.pop_front();
        }
        Ok(())
    }

    /// The next order, encoded.
    pub(crate) fn receive(&mut self) -> Result<Option<Vec<u8>>, Ended> {
        let mut message = Vec::new();
        Ok(self.end.try_recv_into(&mut message).map_err(Ended::link)?.map(|_| message))
    }

    fn awaited(&self) -> Awaited {
        if self.queue.is_empty() { Awaited::Message } else { Awaited::Both }
    }

    /// Says that this side is about to sleep; false when there is something to do first.
    pub(crate) fn may_sleep(&mut self) -> bool {
        self.end.about_to_sleep(self.awaited())
    }

    pub(crate) fn awake(&mut self) {
        self.end.awake(true);
    }

    /// Whether the root must be rung.
    pub(crate) fn ring_due(&mut self) -> bool {
        self.end.signals_mut().take_ring()
    }
}
