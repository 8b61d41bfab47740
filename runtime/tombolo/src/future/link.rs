//! Futures for replies and events of the monitor.

use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tombolo_base::NodeId;
use tombolo_control::{Exit, Reply, Request};
use tombolo_naming::{Answer, Operation, Scope};
use tombolo_platform::Deadline;

use super::offload::offload;
use crate::address::Address;
use crate::channel::Channel;
use crate::domain::Domain;
use crate::error::Error;
use crate::listener::{Accepted, Listener};
use crate::monitor::unexpected;
use crate::monitor::{ANSWER_TIMEOUT, Inbox, MonitorLink, Watch, names_answer};
use crate::options::ChannelOptions;
use crate::reactor::Registration;
use crate::spawn::Child;

/// Future that waits until `take` finds what it looks for among the arrived messages.
pub(crate) struct MonitorWait<F> {
    link: Arc<MonitorLink>,
    what: String,
    timeout: Duration,
    deadline: Option<Deadline>,
    take: F,
    /// Registration of the deadline with the reactor, and the watch on the monitor's socket.
    waiting: Option<(Registration, Arc<Watch>)>,
}

impl<F> MonitorWait<F> {
    pub(crate) fn new(link: &Arc<MonitorLink>, what: String, timeout: Duration, take: F) -> Self {
        MonitorWait { link: Arc::clone(link), what, timeout, deadline: None, take, waiting: None }
    }
}

impl<T, F: FnMut(&mut Inbox) -> Option<T> + Unpin> MonitorWait<F> {
    fn poll_inbox(&mut self, context: &mut Context<'_>) -> Result<Option<T>, Error> {
        let deadline = *self.deadline.get_or_insert_with(|| Deadline::after(self.timeout));
        if self.waiting.is_none() {
            // Watch before checking, so that a message that arrives after the check wakes this future.
            self.waiting = Some((Registration::new()?, Watch::start(&self.link)?));
        }
        loop {
            self.link.observe(context.waker());
            // Messages read here are reported to all observers, including this one.
            if !self.link.read_now()? {
                break;
            }
        }
        if let Some(found) = self.link.try_take(&mut self.take)? {
            return Ok(Some(found));
        }
        if deadline.passed() {
            return Err(Error::TimedOut { what: self.what.clone(), timeout: self.timeout });
        }
        if let Some((registration, _)) = &mut self.waiting {
            registration.arm(&[], deadline, context.waker())?;
        }
        Ok(None)
    }
}

impl<T, F: FnMut(&mut Inbox) -> Option<T> + Unpin> Future for MonitorWait<F> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut().poll_inbox(context) {
            Ok(Some(found)) => Poll::Ready(Ok(found)),
            Ok(None) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

/// Request that is abandoned when its future is dropped.
struct PendingRequest {
    link: Arc<MonitorLink>,
    request: Option<u32>,
    /// Scope of the names that it is about, if it is about names.
    scope: Option<Scope>,
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        match (self.request, &self.scope) {
            (Some(request), Some(scope)) => self.link.abandon_names(request, scope),
            (Some(request), None) => self.link.abandon(request),
            (None, _) => {}
        }
    }
}

/// Sends a request and waits for the reply. The request is abandoned at the deadline, or if the future is
/// dropped.
async fn request_reply(
    link: &Arc<MonitorLink>,
    body: Request,
    scope: Option<Scope>,
    timeout: Duration,
) -> Result<(Reply, Vec<OwnedFd>), Error> {
    let request = link.start(body, &[])?;
    let mut pending = PendingRequest { link: Arc::clone(link), request: Some(request), scope };
    let what = "an answer of the monitor".to_owned();
    let reply =
        MonitorWait::new(link, what, timeout, move |arrived: &mut Inbox| arrived.take_reply(request)).await?;
    pending.request = None;
    Ok(reply)
}

/// Async version of [`MonitorLink::ask`].
async fn ask(
    link: &Arc<MonitorLink>,
    body: Request,
    timeout: Duration,
) -> Result<(Reply, Vec<OwnedFd>), Error> {
    match request_reply(link, body, None, timeout).await? {
        (Reply::Failed { fault }, _) => Err(fault.into()),
        reply => Ok(reply),
    }
}

/// Async version of [`MonitorLink::ask_names`].
pub(crate) async fn ask_names(
    link: &Arc<MonitorLink>,
    scope: Scope,
    operation: Operation,
    timeout: Duration,
) -> Result<(Option<NodeId>, Answer), Error> {
    let body = Request::Names { scope: scope.clone(), operation };
    names_answer(request_reply(link, body, Some(scope), timeout).await?.0)
}

impl Domain {
    /// Async [`connect`](Self::connect), which also waits for a domain to export the name. Dropping the
    /// future leaves no channel open.
    ///
    /// # Errors
    /// Same as [`connect`](Self::connect).
    pub fn connect_async<A: Into<Address>>(
        &self,
        to: A,
    ) -> impl Future<Output = Result<Channel, Error>> + Send + 'static + use<A> {
        ChannelOptions::default().connect_async(self, to)
    }

    /// Async [`next_exit`](Self::next_exit). Dropping the future takes no exit from the queue.
    ///
    /// # Errors
    /// Same as [`next_exit`](Self::next_exit).
    pub fn next_exit_async(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<(tombolo_base::DomainId, Exit), Error>> + Send + 'static + use<> {
        let what = "the end of a child".to_owned();
        MonitorWait::new(&self.link, what, timeout, |arrived: &mut Inbox| arrived.exits.next())
    }
}

impl ChannelOptions {
    /// Like [`Domain::connect_async`], with these options.
    ///
    /// # Errors
    /// Same as [`Domain::connect`].
    pub fn connect_async<A: Into<Address>>(
        &self,
        domain: &Domain,
        to: A,
    ) -> impl Future<Output = Result<Channel, Error>> + Send + 'static + use<A> {
        let (domain, options, timeout) = (domain.clone(), self.clone(), domain.timeout());
        let to = to.into();
        let request = domain.connection(to.clone(), &options);
        async move {
            let deadline = Deadline::after(timeout);
            let (reply, fds) = ask(&domain.link, request, timeout.saturating_add(ANSWER_TIMEOUT)).await?;
            match reply {
                // On a separate thread, because the peer may take any time to open its end.
                Reply::Connect { grant } => {
                    offload(move || options.open_granted(&domain, (grant, fds), &to, deadline)).await?
                }
                other => Err(unexpected(&other)),
            }
        }
    }
}

impl<T: Accepted> Listener<T> {
    /// Async [`accept`](Self::accept). If the future is dropped, a peer that had connected remains for the
    /// next call; a peer whose channel was being opened sees it end.
    ///
    /// # Errors
    /// Same as [`accept`](Self::accept).
    pub async fn accept_async(&self) -> Result<T, Error> {
        let timeout = self.timeout();
        let deadline = Deadline::after(timeout);
        let what = self.awaits();
        let number = self.number();
        let take = move |arrived: &mut Inbox| arrived.incoming.get_mut(&number)?.pop_front();
        let (grant, fds) = MonitorWait::new(self.link(), what, timeout, take).await?;
        let incoming = self.connected(grant, fds, deadline);
        // On a separate thread, because the peer may take any time to open its end.
        offload(move || incoming.open()).await?
    }
}

impl Child {
    /// Async version of [`wait`](Self::wait).
    ///
    /// # Errors
    /// Same as [`wait`](Self::wait).
    pub fn wait_async(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<Exit, Error>> + Send + 'static + use<> {
        let what = format!("the end of domain {}", self.id());
        let ended = self.ended().clone();
        MonitorWait::new(self.link(), what, timeout, move |_: &mut Inbox| ended.get().cloned())
    }
}
