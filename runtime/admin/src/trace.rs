//! Recording traces of a machine, and reading what domains have traced.
//!
//! What a program adds to its own trace is in [`tombolo::trace`].

use tombolo::control::{Reply, Request};
use tombolo::{DomainId, Error};

pub use crate::collect::{CollectError, Collector, Summary};
pub use tombolo_control::TracedInfo;
pub use tombolo_trace::snapshot::RowInfo;

use crate::{Machine, unexpected};

/// How a recording is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Recording {
    /// When the room is used up: keep the first events, rather than the latest.
    pub keep_first: bool,
    /// It ends when this domain does.
    pub while_attached: bool,
}

/// The domains with a trace page, dead ones included whose page is kept, and whether the machine traces now.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Traced {
    /// By id.
    pub domains: Vec<TracedInfo>,
    /// Whether the machine traces now.
    pub on: bool,
}

impl Machine {
    /// Starts to trace on all nodes. From then on the pages of domains that die are kept.
    ///
    /// # Errors
    /// [`Error::Monitor`] when the machine traces already.
    pub fn start_trace(&self, recording: Recording) -> Result<(), Error> {
        let Recording { keep_first, while_attached } = recording;
        self.ask(Request::Trace { on: true, keep_first, while_attached }).map(|_| ())
    }

    /// Stops tracing on all nodes. What was recorded stays, to be read; stopping once more discards the
    /// records of domains that have ended.
    ///
    /// # Errors
    /// [`Error::MonitorLost`].
    pub fn stop_trace(&self) -> Result<(), Error> {
        let stop = Request::Trace { on: false, keep_first: false, while_attached: false };
        self.ask(stop).map(|_| ())
    }

    /// Whether the machine traces now.
    ///
    /// # Errors
    /// [`Error::MonitorLost`].
    pub fn is_tracing(&self) -> Result<bool, Error> {
        // After the last of all domains there is none to tell of.
        match self.ask(Request::Traced { after: u64::MAX })? {
            Reply::Traced { on, .. } => Ok(on),
            other => Err(unexpected(&other)),
        }
    }

    /// The domains that have a trace page.
    ///
    /// # Errors
    /// [`Error::MonitorLost`].
    pub(crate) fn traced(&self) -> Result<Traced, Error> {
        let mut all = Traced::default();
        loop {
            let after = all.domains.last().map_or(0, |domain| domain.id.to_bits());
            match self.ask(Request::Traced { after })? {
                Reply::Traced { domains, more, on } => {
                    let done = !more || domains.is_empty();
                    all.domains.extend(domains);
                    all.on = on;
                    if done {
                        return Ok(all);
                    }
                }
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// Reads a part of a domain's trace page: up to `length_bytes`, at most
    /// `tombolo_control::MAX_TRACE_READ_BYTES`.
    ///
    /// # Errors
    /// [`Error::Monitor`] when there is no such page any more.
    pub(crate) fn read_trace(
        &self,
        domain: DomainId,
        offset_bytes: u64,
        length_bytes: u32,
    ) -> Result<Vec<u8>, Error> {
        match self.ask(Request::TraceRead { domain, offset_bytes, length_bytes })? {
            Reply::TraceRead { bytes } => Ok(bytes),
            other => Err(unexpected(&other)),
        }
    }
}
