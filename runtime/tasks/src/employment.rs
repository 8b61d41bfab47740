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
use crate::executor::ended_with;
use crate::{STARTER_VARIABLE, options};

/// Amount of work that a worker requests in advance, so that it does not wait for its next task: a duration,
/// and limits for the number of tasks.
const AT_HAND: Duration = Duration::from_micros(200);
const TASKS_AT_HAND: std::ops::RangeInclusive<u32> = 2..=64;

/// Channel with the messages that it had no room for.
#[derive(Debug)]
pub(crate) struct Link<K> {
    pub(crate) channel: Channel,
    /// State of the program for the other end.
    pub(crate) of: K,
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
    Starter,
    /// An operation failed.
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        match error {
            Error::Closed { .. } | Error::PeerDied { .. } | Error::MonitorLost { .. } => Stop::Starter,
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
/// Report each task exactly once as [ended](Self::ended), and count it exactly once as
/// [released](Self::want): when it has ended, or waits for the first time.
#[derive(Debug)]
pub struct Employment {
    set: SharedSet,
    token: Token,
    children: Arc<Children>,
    context: Context,
    message: Vec<u8>,
    /// Number of tasks that were requested and have neither ended nor waited.
    at_hand: u32,
    /// Target for that number.
    target: u32,
    /// Average time that a task runs until it ends or waits.
    mean_ns: u64,
}

impl Employment {
    /// Connects to the starter, if this program was started as a worker.
    ///
    /// # Errors
    /// [`Stop`] if the starter has ended.
    pub fn of(domain: &Domain) -> Result<Option<Employment>, Stop> {
        match std::env::var(STARTER_VARIABLE) {
            Ok(starter) => Employment::connect(domain.clone(), &starter).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Whether this program was started as a worker.
    #[must_use]
    pub fn is_worker() -> bool {
        std::env::var_os(STARTER_VARIABLE).is_some()
    }

    pub(crate) fn connect(domain: Domain, starter: &str) -> Result<Employment, Stop> {
        let channel = options()?.connect(&domain, starter)?;
        let mut set = WaitSet::new()?;
        let children = Arc::new(Children::new(set.waker()));
        let link = Link { channel, of: (), outbox: VecDeque::new() };
        let token = set.add(link).map_err(Error::from)?;
        let context = Context::new(domain, Arc::clone(&children));
        let (at_hand, target, set) = (0, *TASKS_AT_HAND.start(), Rc::new(RefCell::new(set)));
        let message = Vec::new();
        let mut employment =
            Employment { set, token, children, context, message, at_hand, target, mean_ns: 0 };
        employment.want(0)?;
        Ok(employment)
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
                None => return Err(Stop::Starter),
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
                    if self.children.ended(number, end) {
                        continue;
                    }
                    return Err(broken(&Violation::NotIts(number)));
                }
                Ok(_) => return Err(broken(&Violation::WrongSide)),
                Err(violation) => return Err(broken(&violation)),
            };
            return Ok(Some(instruction));
        }
    }

    /// Records that a task has ended or waits for the first time, after it ran for this long.
    pub fn ran(&mut self, ran: Duration) {
        let ran = u64::try_from(ran.as_nanos()).unwrap_or(u64::MAX);
        self.mean_ns = if self.mean_ns == 0 { ran } else { self.mean_ns / 8 * 7 + ran / 8 };
        let at_hand = AT_HAND.as_nanos() as u64 / self.mean_ns.max(1);
        let (least, most) = TASKS_AT_HAND.into_inner();
        self.target = u32::try_from(at_hand).unwrap_or(most).clamp(least, most);
    }

    /// Reports how a task ended.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn ended(&mut self, task: u32, end: End) -> Result<(), Stop> {
        self.tell(&Message::Ended(task, end))
    }

    /// Reports how a task ended, as its encoded result or an error.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn returned(
        &mut self,
        task: u32,
        returned: Result<Vec<u8>, (FailureKind, &str)>,
    ) -> Result<(), Stop> {
        let failed = |(kind, text): (FailureKind, &str)| Failure::new(kind).with_text(text);
        self.ended(task, ended_with(returned.map_err(failed)))
    }

    /// Reports the number of tasks that were released, and requests new ones up to the target.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn want(&mut self, released: u32) -> Result<(), Stop> {
        self.at_hand = self.at_hand.saturating_sub(released);
        let more = self.target.saturating_sub(self.at_hand);
        self.at_hand += more;
        if more == 0 && released == 0 {
            return Ok(());
        }
        self.tell(&Message::Want { more, released })
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

    fn tell(&mut self, message: &Message<'_>) -> Result<(), Stop> {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        Ok(send(&mut self.set.borrow_mut(), self.token, bytes)?)
    }
}

impl AsRawFd for Employment {
    fn as_raw_fd(&self) -> RawFd {
        self.set.borrow().as_fd().as_raw_fd()
    }
}

/// Handles a protocol violation by the starter.
fn broken(violation: &Violation) -> Stop {
    eprintln!("error: the starter broke the protocol: {violation}");
    Stop::Starter
}
