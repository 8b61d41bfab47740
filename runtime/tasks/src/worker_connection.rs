//! A worker's connection to its starter: the channel, and the number of tasks at hand.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tombolo::{Channel, Domain, Error, Interest, Token, WaitSet, Waited};
use tombolo_task::{End, Failure, FailureKind, Message, Violation};

use crate::context::{Children, Context};
use crate::executor::end_from_result;
use crate::{STARTER_VARIABLE, options};

/// Amount of work that a worker requests in advance, so that it does not wait for its next task: a duration,
/// and limits for the number of tasks.
const PREFETCH_TIME: Duration = Duration::from_micros(200);
const PREFETCH_TASKS: std::ops::RangeInclusive<u32> = 2..=64;

/// Channel with the messages that it had no room for.
#[derive(Debug)]
pub(crate) struct Link<K> {
    pub(crate) channel: Channel,
    /// State of the program for the other end.
    pub(crate) peer: K,
    pub(crate) outbox: VecDeque<Vec<u8>>,
}

impl<K> Waited for Link<K> {
    type End = Channel;

    fn end(&self) -> &Channel {
        &self.channel
    }

    fn end_mut(&mut self) -> &mut Channel {
        &mut self.channel
    }
}

/// Sends a message, or queues it until there is room. Both sides continue to receive meanwhile, so that they
/// do not deadlock; the number of tasks bounds the queue.
pub(crate) fn send<K>(set: &mut WaitSet<Link<K>>, token: Token, message: Vec<u8>) -> Result<(), Error> {
    match set.get(token) {
        None => return Ok(()),
        Some(link) if link.outbox.is_empty() => match set.try_send(token, &message) {
            Err(Error::WouldBlock) => {}
            sent => return sent,
        },
        Some(_) => {}
    }
    if let Some(link) = set.get_mut(token) {
        link.outbox.push_back(message);
        set.set_interest(token, Interest::ReadWrite);
    }
    Ok(())
}

/// Sends queued messages, as far as there is room.
pub(crate) fn flush<K>(set: &mut WaitSet<Link<K>>, token: Token) -> Result<(), Error> {
    let Some(link) = set.get_mut(token).filter(|link| !link.outbox.is_empty()) else { return Ok(()) };
    while let Some(message) = link.outbox.front() {
        match link.channel.try_send(message) {
            Ok(()) => drop(link.outbox.pop_front()),
            Err(Error::WouldBlock) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    set.set_interest(token, Interest::Read);
    Ok(())
}

/// Reason for the end of a worker.
#[derive(Debug)]
pub enum Stop {
    /// The starter has ended.
    StarterEnded,
    /// An operation failed.
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        match error {
            Error::Closed { .. } | Error::PeerDied { .. } | Error::MonitorLost { .. } => Stop::StarterEnded,
            error => Stop::Failed(error),
        }
    }
}

/// Channel to the starter. It is not borrowed while a task runs.
pub(crate) type SharedSet = Rc<RefCell<WaitSet<Link<()>>>>;

/// Instruction from the starter to a worker.
#[derive(Debug)]
pub enum Instruction {
    /// Starts a task.
    Start {
        /// Number of the task.
        task: u32,
        /// [Number](crate::Signature::number) of its function.
        function: u64,
        /// Encoded argument.
        argument: Vec<u8>,
    },
    /// Cancels a task, if it exists.
    Cancel(u32),
}

/// Worker side of the connection to a starter, for programs that run tasks in an event loop of their own;
/// [`Functions::run_worker`](crate::Functions::run_worker) includes one.
///
/// Report each task exactly once as [ended](Self::report_end), and count it exactly once as
/// [released](Self::request_tasks): when it has ended, or waits for the first time.
#[derive(Debug)]
pub struct WorkerConnection {
    set: SharedSet,
    token: Token,
    children: Arc<Children>,
    context: Context,
    message: Vec<u8>,
    /// Number of tasks that were requested and have neither ended nor waited.
    prefetched: u32,
    /// Target for that number.
    target: u32,
    /// Average time that a task runs until it ends or waits.
    mean_ns: u64,
}

impl WorkerConnection {
    /// Connects to the starter, if this program was started as a worker.
    ///
    /// # Errors
    /// [`Stop`] if the starter has ended.
    pub fn connect_from_env(domain: &Domain) -> Result<Option<WorkerConnection>, Stop> {
        match std::env::var(STARTER_VARIABLE) {
            Ok(starter) => WorkerConnection::connect(domain.clone(), &starter).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Whether this program was started as a worker.
    #[must_use]
    pub fn is_worker() -> bool {
        std::env::var_os(STARTER_VARIABLE).is_some()
    }

    pub(crate) fn connect(domain: Domain, starter: &str) -> Result<WorkerConnection, Stop> {
        let channel = options()?.connect(&domain, starter)?;
        let mut set = WaitSet::new()?;
        let children = Arc::new(Children::new(set.waker()));
        let link = Link { channel, peer: (), outbox: VecDeque::new() };
        let token = set.add(link).map_err(Error::from)?;
        let context = Context::new(domain, Arc::clone(&children));
        let (prefetched, target, set) = (0, *PREFETCH_TASKS.start(), Rc::new(RefCell::new(set)));
        let message = Vec::new();
        let mut connection =
            WorkerConnection { set, token, children, context, message, prefetched, target, mean_ns: 0 };
        connection.request_tasks(0)?;
        Ok(connection)
    }

    /// Context for the tasks of this worker.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    pub(crate) fn waker(&self) -> tombolo::waitset::Waker {
        self.set.borrow().waker()
    }

    pub(crate) fn channel(&self) -> (SharedSet, Token) {
        (Rc::clone(&self.set), self.token)
    }

    /// Returns the next instruction that has arrived.
    ///
    /// # Errors
    /// [`Stop`].
    #[allow(clippy::should_implement_trait, reason = "it fails, and goes on after none")]
    pub fn next(&mut self) -> Result<Option<Instruction>, Stop> {
        flush(&mut self.set.borrow_mut(), self.token)?;
        loop {
            let received = match self.set.borrow_mut().get_mut(self.token) {
                None => return Err(Stop::StarterEnded),
                Some(link) => link.channel.try_recv_into(&mut self.message)?,
            };
            if received.is_none() {
                return Ok(None);
            }
            let instruction = match Message::decode(&self.message) {
                Ok(Message::Start { task, node: None, function, argument }) => {
                    Instruction::Start { task, function, argument: argument.to_vec() }
                }
                Ok(Message::Cancel(task)) => Instruction::Cancel(task),
                Ok(Message::Ended(number, end)) => {
                    if self.children.complete(number, end) {
                        continue;
                    }
                    return Err(report_violation(&Violation::NotAssigned(number)));
                }
                Ok(_) => return Err(report_violation(&Violation::WrongSide)),
                Err(violation) => return Err(report_violation(&violation)),
            };
            return Ok(Some(instruction));
        }
    }

    /// Records that a task has ended or waits for the first time, after it ran for this long.
    pub fn record_run_time(&mut self, ran: Duration) {
        let ran = u64::try_from(ran.as_nanos()).unwrap_or(u64::MAX);
        self.mean_ns = if self.mean_ns == 0 { ran } else { self.mean_ns / 8 * 7 + ran / 8 };
        let prefetched = PREFETCH_TIME.as_nanos() as u64 / self.mean_ns.max(1);
        let (least, most) = PREFETCH_TASKS.into_inner();
        self.target = u32::try_from(prefetched).unwrap_or(most).clamp(least, most);
    }

    /// Reports how a task ended.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn report_end(&mut self, task: u32, end: End) -> Result<(), Stop> {
        self.send_message(&Message::Ended(task, end))
    }

    /// Reports how a task ended, as its encoded result or an error.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn report_result(
        &mut self,
        task: u32,
        returned: Result<Vec<u8>, (FailureKind, &str)>,
    ) -> Result<(), Stop> {
        let failed = |(kind, text): (FailureKind, &str)| Failure::new(kind).with_text(text);
        self.report_end(task, end_from_result(returned.map_err(failed)))
    }

    /// Reports the number of tasks that were released, and requests new ones up to the target.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn request_tasks(&mut self, released: u32) -> Result<(), Stop> {
        self.prefetched = self.prefetched.saturating_sub(released);
        let more = self.target.saturating_sub(self.prefetched);
        self.prefetched += more;
        if more == 0 && released == 0 {
            return Ok(());
        }
        self.send_message(&Message::Want { more, released })
    }

    /// Sends the messages about tasks that its tasks have started and cancelled.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn flush(&mut self) -> Result<(), Stop> {
        for message in self.children.take_outbox() {
            send(&mut self.set.borrow_mut(), self.token, message)?;
        }
        Ok(())
    }

    /// Waits until a message has arrived, or a task has started another one. Once a call with a timeout of
    /// zero has found nothing, the [descriptor](AsRawFd) becomes readable with the next message.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn wait(&mut self, timeout: Duration) -> Result<bool, Stop> {
        match self.set.borrow_mut().wait(timeout) {
            Ok(_) => Ok(true),
            Err(Error::TimedOut { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn send_message(&mut self, message: &Message<'_>) -> Result<(), Stop> {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        Ok(send(&mut self.set.borrow_mut(), self.token, bytes)?)
    }
}

impl AsRawFd for WorkerConnection {
    fn as_raw_fd(&self) -> RawFd {
        self.set.borrow().as_fd().as_raw_fd()
    }
}

/// Handles a protocol violation by the starter.
fn report_violation(violation: &Violation) -> Stop {
    eprintln!("error: the starter broke the protocol: {violation}");
    Stop::StarterEnded
}
