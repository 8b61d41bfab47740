//! A worker: a domain that runs the tasks of its starter.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tombolo::{Channel, Domain, Error, Interest, Token, WaitSet, Waited};
use tombolo_task::{End, Failure, FailureKind, Message, Violation};

use crate::context::{Children, Context};
use crate::executor::{Executor, Turn};
use crate::function::Functions;
use crate::options;

/// How long to wait at a time for something to happen.
const AWHILE: Duration = Duration::from_secs(3600);

/// The most messages, and the most turns of tasks, before the other has its turn.
const TURN: usize = 64;

/// Work that a worker has at hand, so that it does not wait for the next task: for this long, and this many
/// tasks.
const AT_HAND: Duration = Duration::from_micros(200);
const TASKS_AT_HAND: std::ops::RangeInclusive<u32> = 2..=64;

/// A channel with what it had no room for yet.
#[derive(Debug)]
pub(crate) struct Link<K> {
    pub(crate) channel: Channel,
    /// What the program knows of its other end.
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

/// Sends, or keeps for when there is room. Both sides go on receiving meanwhile, so that neither waits for
/// the other for ever; what is kept is bounded by the number of tasks.
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

/// Sends what was kept, as far as there is room.
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

/// Runs tasks until the starter ends.
pub(crate) fn run(functions: Functions, starter: &str) -> Result<(), Error> {
    let domain = Domain::attach()?;
    let channel = options()?.connect(&domain, starter)?;
    let mut set = WaitSet::new()?;
    let children = Arc::new(Children::new(set.waker()));
    let executor = Executor::new(set.waker());
    let link = Link { channel, of: (), outbox: VecDeque::new() };
    let token = set.add(link).map_err(Error::from)?;
    let context = Context::new(domain, Arc::clone(&children));
    let (at_hand, target) = (0, *TASKS_AT_HAND.start());
    let set = Rc::new(RefCell::new(set));
    if cfg!(panic = "abort") {
        last_words::prepare(Rc::clone(&set), token, executor.current());
    }
    let mut worker =
        Worker { functions, set, token, executor, children, context, at_hand, target, mean_ns: 0 };
    match worker.serve() {
        Err(Stop::Starter) => Ok(()),
        Err(Stop::Failed(error)) => Err(error),
        Ok(never) => match never {},
    }
}

/// Why a worker ends.
enum Stop {
    /// With its starter.
    Starter,
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

/// The channel to the starter. It is not borrowed while a task runs.
type SharedSet = Rc<RefCell<WaitSet<Link<()>>>>;

/// In programs that end with a panic (`panic = "abort"`): tells the starter which task it was, before the
/// worker dies with all others.
mod last_words {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use tombolo::Token;
    use tombolo_task::{End, Failure, FailureKind, Message};

    use super::{SharedSet, send};
    use crate::executor::message_of;

    type Way = (SharedSet, Token, Rc<Cell<Option<u32>>>);

    thread_local! {
        static WAY: RefCell<Option<Way>> = const { RefCell::new(None) };
    }

    pub(super) fn prepare(set: SharedSet, token: Token, current: Rc<Cell<Option<u32>>>) {
        WAY.with(|way| *way.borrow_mut() = Some((set, token, current)));
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            before(panic);
            // A panic outside a task, or while the channel is in use, has no task to tell of.
            let _ = WAY.try_with(|way| {
                let Ok(way) = way.try_borrow() else { return };
                let Some((set, token, current)) = &*way else { return };
                if let (Some(task), Ok(mut set)) = (current.get(), set.try_borrow_mut()) {
                    let failure = Failure::new(FailureKind::Panicked).with_text(message_of(panic.payload()));
                    let mut bytes = Vec::new();
                    Message::Ended(task, End::Failed(failure)).encode(&mut bytes);
                    let _ = send(&mut set, *token, bytes);
                }
            });
        }));
    }
}

struct Worker {
    functions: Functions,
    set: SharedSet,
    token: Token,
    executor: Executor,
    children: Arc<Children>,
    context: Context,
    /// Tasks that were asked for and have neither ended nor waited.
    at_hand: u32,
    /// How many these are to be.
    target: u32,
    /// How long a task runs until it ends or waits, on average.
    mean_ns: u64,
}

impl Worker {
    fn serve(&mut self) -> Result<std::convert::Infallible, Stop> {
        self.want(0)?;
        let mut message = Vec::new();
        loop {
            self.hear(&mut message)?;
            let mut released = 0;
            for _ in 0..TURN {
                let Some(turn) = self.executor.turn() else { break };
                released += u32::from(turn.released);
                self.after(turn)?;
            }
            if released > 0 {
                self.want(released)?;
            }
            for message in self.children.take_outbox() {
                send(&mut self.set.borrow_mut(), self.token, message)?;
            }
            let timeout = if self.executor.falls_asleep() { AWHILE } else { Duration::ZERO };
            match self.set.borrow_mut().wait(timeout) {
                Ok(_) | Err(Error::TimedOut { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            self.executor.is_awake();
        }
    }

    /// Takes in messages of the starter.
    fn hear(&mut self, message: &mut Vec<u8>) -> Result<(), Stop> {
        flush(&mut self.set.borrow_mut(), self.token)?;
        for _ in 0..TURN {
            let received = match self.set.borrow_mut().get_mut(self.token) {
                None => return Err(Stop::Starter),
                Some(link) => link.channel.try_recv_into(message)?,
            };
            if received.is_none() {
                return Ok(());
            }
            let violation = match Message::decode(message) {
                Ok(message) => self.take_in(message)?,
                Err(violation) => Some(violation),
            };
            if let Some(violation) = violation {
                eprintln!("error: the starter broke the protocol: {violation}");
                return Err(Stop::Starter);
            }
        }
        Ok(())
    }

    fn take_in(&mut self, message: Message<'_>) -> Result<Option<Violation>, Stop> {
        match message {
            Message::Start { task, node: None, function, argument } => {
                let running = match self.functions.get(function) {
                    None => Err(FailureKind::UnknownFunction),
                    Some(body) => body(self.context.clone(), argument).ok_or(FailureKind::BadArgument),
                };
                match running {
                    Ok(running) => self.executor.add(task, running),
                    Err(kind) => {
                        self.tell_end(task, End::Failed(Failure::new(kind)))?;
                        self.want(1)?;
                    }
                }
            }
            Message::Cancel(task) => {
                // One that has ended was told of.
                if let Some(fresh) = self.executor.cancel(task) {
                    self.tell_end(task, End::Failed(Failure::new(FailureKind::Cancelled)))?;
                    self.want(u32::from(fresh))?;
                }
            }
            Message::Ended(number, end) => {
                if !self.children.ended(number, end) {
                    return Ok(Some(Violation::NotIts(number)));
                }
            }
            Message::Start { .. } | Message::Want { .. } => return Ok(Some(Violation::WrongSide)),
        }
        Ok(None)
    }

    fn after(&mut self, turn: Turn) -> Result<(), Stop> {
        if turn.released {
            let ran = u64::try_from(turn.ran.as_nanos()).unwrap_or(u64::MAX);
            self.mean_ns = if self.mean_ns == 0 { ran } else { self.mean_ns / 8 * 7 + ran / 8 };
            let at_hand = AT_HAND.as_nanos() as u64 / self.mean_ns.max(1);
            let (least, most) = TASKS_AT_HAND.into_inner();
            self.target = u32::try_from(at_hand).unwrap_or(most).clamp(least, most);
        }
        match turn.end {
            Some(end) => self.tell_end(turn.task, end),
            None => Ok(()),
        }
    }

    fn tell_end(&mut self, task: u32, end: End) -> Result<(), Stop> {
        self.tell(&Message::Ended(task, end))
    }

    /// Says how many tasks have been released, and asks for what there should be at hand.
    fn want(&mut self, released: u32) -> Result<(), Stop> {
        self.at_hand = self.at_hand.saturating_sub(released);
        let more = self.target.saturating_sub(self.at_hand);
        self.at_hand += more;
        if more == 0 && released == 0 {
            return Ok(());
        }
        self.tell(&Message::Want { more, released })
    }

    fn tell(&mut self, message: &Message<'_>) -> Result<(), Stop> {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        Ok(send(&mut self.set.borrow_mut(), self.token, bytes)?)
    }
}
