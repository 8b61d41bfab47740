//! Request to a scope, with a blocking and an async way to wait for the answer.

use std::sync::Arc;
use std::time::Duration;

use tombolo_base::NodeId;
use tombolo_naming::{Answer, Operation, Scope};

use crate::error::Error;
use crate::future::ask_names;
use crate::monitor::{ANSWER_TIMEOUT, MonitorLink};

/// Request to a scope, with the conversion of its answer.
#[must_use]
pub(super) struct NamesRequest<F> {
    pub(super) link: Arc<MonitorLink>,
    pub(super) scope: Scope,
    pub(super) operation: Operation,
    /// Time for which the monitor may delay the answer by design.
    pub(super) delay: Duration,
    pub(super) convert: F,
}

impl<T, F: FnOnce(Option<NodeId>, Answer) -> Result<T, Error>> NamesRequest<F> {
    /// Sets the time for which the monitor may delay the answer by design.
    pub(super) fn with_delay(self, delay: Duration) -> Self {
        NamesRequest { delay, ..self }
    }

    /// Sends the request and blocks until the answer arrives.
    pub(super) fn wait(self) -> Result<T, Error> {
        let timeout = self.delay.saturating_add(ANSWER_TIMEOUT);
        let (origin, answer) = self.link.ask_names(&self.scope, self.operation, timeout)?;
        (self.convert)(origin, answer)
    }

    /// Async version of [`wait`](Self::wait). The request is sent when the future is first polled; if it is
    /// dropped, the request is cancelled and what it acquired is released.
    pub(super) async fn answer(self) -> Result<T, Error> {
        let timeout = self.delay.saturating_add(ANSWER_TIMEOUT);
        let (origin, answer) = ask_names(&self.link, self.scope, self.operation, timeout).await?;
        (self.convert)(origin, answer)
    }
}

/// Converts an answer that carries no data.
pub(super) fn expect_done(_: Option<NodeId>, answer: Answer) -> Result<(), Error> {
    match answer {
        Answer::Done => Ok(()),
        other => Err(super::unexpected(&other)),
    }
}

/// Conversion of an answer, and the node that gave it, to a `T`.
pub(super) trait ConvertAnswer<T>:
    FnOnce(Option<NodeId>, Answer) -> Result<T, Error> + Send + 'static
{
}

impl<T, F: FnOnce(Option<NodeId>, Answer) -> Result<T, Error> + Send + 'static> ConvertAnswer<T> for F {}
