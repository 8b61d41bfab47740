//! One question to a scope, to be waited for in two ways.

use std::sync::Arc;
use std::time::Duration;

use tombolo_base::NodeId;
use tombolo_naming::{Answer, Operation, Scope};

use crate::error::Error;
use crate::future::ask_names;
use crate::monitor::{ANSWER_TIMEOUT, MonitorLink};

/// What is asked of a scope, and what is made of the answer.
#[must_use]
pub(super) struct Question<F> {
    pub(super) link: Arc<MonitorLink>,
    pub(super) scope: Scope,
    pub(super) operation: Operation,
    /// How long the answer may be held back by design.
    pub(super) waits: Duration,
    pub(super) make: F,
}

impl<T, F: FnOnce(Option<NodeId>, Answer) -> Result<T, Error>> Question<F> {
    /// One whose answer may be held back so long by design.
    pub(super) fn that_waits(self, waits: Duration) -> Self {
        Question { waits, ..self }
    }

    /// Blocks until the answer is there.
    pub(super) fn wait(self) -> Result<T, Error> {
        let timeout = self.waits.saturating_add(ANSWER_TIMEOUT);
        let (origin, answer) = self.link.ask_names(&self.scope, self.operation, timeout)?;
        (self.make)(origin, answer)
    }

    /// The answer as a future. Nothing is asked before it is polled; if it is dropped, the request is taken
    /// back, and with it what it was given meanwhile.
    pub(super) async fn answer(self) -> Result<T, Error> {
        let timeout = self.waits.saturating_add(ANSWER_TIMEOUT);
        let (origin, answer) = ask_names(&self.link, self.scope, self.operation, timeout).await?;
        (self.make)(origin, answer)
    }
}

/// That it is done is all that is to be known.
pub(super) fn done(_: Option<NodeId>, answer: Answer) -> Result<(), Error> {
    match answer {
        Answer::Done => Ok(()),
        other => Err(super::unexpected(&other)),
    }
}

/// Makes a `T` of an answer and of whose names gave it.
pub(super) trait Asks<T>: FnOnce(Option<NodeId>, Answer) -> Result<T, Error> + Send + 'static {}

impl<T, F: FnOnce(Option<NodeId>, Answer) -> Result<T, Error> + Send + 'static> Asks<T> for F {}
