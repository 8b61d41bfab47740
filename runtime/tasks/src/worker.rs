//! Worker: a domain that runs the tasks of its starter.

use std::time::Duration;

use tombolo::{Domain, Error};
use tombolo_task::{End, Failure, FailureKind};

use crate::employment::{Employment, Instruction, Stop};
use crate::executor::Executor;
use crate::function::Functions;

/// Timeout of a wait that is repeated.
const AWHILE: Duration = Duration::from_secs(3600);

/// Maximum number of messages, and of turns of tasks, that are handled before the other gets a turn.
const TURN: usize = 64;

/// Runs tasks until the starter ends.
pub(crate) fn run(functions: Functions, starter: &str) -> Result<(), Error> {
    let ended = Employment::connect(Domain::attach()?, starter).and_then(|employment| {
        let executor = Executor::new(employment.waker());
        if cfg!(panic = "abort") {
            let (set, token) = employment.channel();
            last_words::prepare(set, token, executor.current());
        }
        Worker { functions, employment, executor }.serve()
    });
    match ended {
        Err(Stop::Starter) => Ok(()),
        Err(Stop::Failed(error)) => Err(error),
        Ok(never) => match never {},
    }
}

/// In programs that abort on a panic (`panic = "abort"`): reports to the starter which task panicked, before
/// the worker dies with all of its tasks.
mod last_words {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use tombolo::Token;
    use tombolo_task::{End, Failure, FailureKind, Message};

    use crate::employment::{SharedSet, send};
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
            // A panic outside of a task, or while the channel is in use, is not reported.
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
    employment: Employment,
    executor: Executor,
}

impl Worker {
    fn serve(&mut self) -> Result<std::convert::Infallible, Stop> {
        loop {
            for _ in 0..TURN {
                let Some(instruction) = self.employment.next()? else { break };
                self.take_in(instruction)?;
            }
            let mut released = 0;
            for _ in 0..TURN {
                let Some(turn) = self.executor.turn() else { break };
                if turn.released {
                    self.employment.ran(turn.ran);
                    released += 1;
                }
                if let Some(end) = turn.end {
                    self.employment.ended(turn.task, end)?;
                }
            }
            if released > 0 {
                self.employment.want(released)?;
            }
            self.employment.flush()?;
            let timeout = if self.executor.falls_asleep() { AWHILE } else { Duration::ZERO };
            self.employment.wait(timeout)?;
            self.executor.is_awake();
        }
    }

    fn take_in(&mut self, instruction: Instruction) -> Result<(), Stop> {
        match instruction {
            Instruction::Start { task, function, argument } => {
                let context = self.employment.context().clone();
                let running = match self.functions.get(function) {
                    None => Err(FailureKind::UnknownFunction),
                    Some(body) => body(context, &argument).ok_or(FailureKind::BadArgument),
                };
                match running {
                    Ok(running) => self.executor.add(task, running),
                    Err(kind) => {
                        self.employment.ended(task, End::Failed(Failure::new(kind)))?;
                        self.employment.want(1)?;
                    }
                }
            }
            Instruction::Cancel(task) => {
                // A task that has ended was reported already.
                if let Some(fresh) = self.executor.cancel(task) {
                    self.employment.ended(task, End::Failed(Failure::new(FailureKind::Cancelled)))?;
                    self.employment.want(u32::from(fresh))?;
                }
            }
        }
        Ok(())
    }
}
