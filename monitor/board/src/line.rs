//! The line to the root: a channel at the start of the window.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use tombolo_base::SharedMemory;
use tombolo_control::{Report, Unsendable, Wire};
use tombolo_link::end::{Awaited, ChannelEnd, Deferred, EndError, memory_of};
use tombolo_link::window::{CONTROL_OFFSET_BYTES, WindowHeader, control_config};
use tombolo_link::{Hello, Side};

use crate::leaf::Ended;

/// Stands for the messages between monitors when their channel opens, as the root says it.
const INTERFACE_HASH: u64 = tombolo_base::hash::fnv1a(b"tombolo.control.1");

/// A handshake under way.
pub(crate) struct Opening {
    opening: tombolo_link::Opening,
    signals: Deferred,
}

impl Opening {
    /// Begins; ring the root after this and after every step.
    pub(crate) fn start(window: &SharedMemory) -> Result<Opening, Ended> {
        WindowHeader::read(window).map_err(Ended::window)?;
        let memory = memory_of(window, CONTROL_OFFSET_BYTES, control_config()).map_err(Ended::window)?;
        let hello = Hello::new(control_config(), INTERFACE_HASH, None);
        let mut signals = Deferred::default();
        let opening = tombolo_link::Opening::start(&memory, Side::A, hello, &mut signals);
        Ok(Opening { opening: opening.map_err(Ended::window)?, signals })
    }

    /// Goes on as far as the root has answered; the answer is the line when it is there.
    pub(crate) fn step(&mut self) -> Result<Option<Line>, Ended> {
        let Some(agreed) = self.opening.step(&mut self.signals).map_err(Ended::window)? else {
            return Ok(None);
        };
        // The root is rung with every step, whether that changed anything or not.
        let end = self.opening.end(agreed, Deferred::default()).map_err(Ended::window)?;
        Ok(Some(Line { end, queue: VecDeque::new(), unsendable: None }))
    }
}

/// The line.
pub(crate) struct Line {
    end: ChannelEnd<Deferred>,
    /// What the root has not taken yet.
    queue: VecDeque<Vec<u8>>,
    /// A report that could not be sent.
    unsendable: Option<Unsendable>,
}

impl Line {
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
            return Err(Ended::line(error));
        }
        while let Some(message) = self.queue.front() {
            match self.end.try_send(message) {
                Ok(()) => {}
                Err(EndError::Full) => return Ok(()),
                Err(error) => return Err(Ended::line(error)),
            }
            self.queue.pop_front();
        }
        Ok(())
    }

    /// The next order, encoded.
    pub(crate) fn receive(&mut self) -> Result<Option<Vec<u8>>, Ended> {
        self.end.try_recv(|message| message.to_vec()).map_err(Ended::line)
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
