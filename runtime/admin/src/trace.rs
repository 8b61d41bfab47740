//! Recording of a machine's traces, and reading of what domains have traced.
//!
//! [`tombolo::trace`] adds events to a program's own trace.

use tombolo::control::{Reply, Request};
use tombolo::{DomainId, Error};

pub use crate::collect::{CollectError, Collector, Summary};
pub use tombolo_control::TracedInfo;
pub use tombolo_trace::snapshot::RowInfo;

use crate::{Machine, unexpected};

/// Options of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Recording {
    /// Whether to keep the first events, rather than the latest, when the buffers are full.
    pub keep_first: bool,
    /// Whether the recording ends with this domain.
    pub while_attached: bool,
}

/// Domains with a trace page, including dead ones whose page is kept, and whether the machine is tracing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Traced {
    /// Domains, by id.
    pub domains: Vec<TracedInfo>,
    /// Whether the machine is tracing.
    pub on: bool,
}

impl Machine {
    /// Starts tracing on all nodes. From then on the pages of domains that die are kept.
    ///
    /// # Errors
    /// [`Error::Monitor`] if the machine is already tracing.
    pub fn start_trace(&self, recording: Recording) -> Result<(), Error> {
        let Recording { keep_first, while_attached } = recording;
        self.ask(Request::Trace { on: true, keep_first, while_attached }).map(|_| ())
    }

    /// Stops tracing on all nodes. The recorded events can still be read; stopping again discards those of
    /// domains that have ended.
    ///
    /// # Errors
    /// [`Error::MonitorLost`].
    pub fn stop_trace(&self) -> Result<(), Error> {
        let stop = Request::Trace { on: false, keep_first: false, while_attached: false };
        self.ask(stop).map(|_| ())
    }

    /// Whether the machine is currently tracing.
    ///
    /// # Errors
    /// [`Error::MonitorLost`].
    pub fn is_tracing(&self) -> Result<bool, Error> {
        // There are no domains after the highest id, so the reply is short.
        match self.ask(Request::Traced { after: u64::MAX })? {
            Reply::Traced { on, .. } => Ok(on),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the domains that have a trace page.
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
    /// [`Error::Monitor`] if the page no longer exists.
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
