//! Worker: a domain that runs the tasks of its starter.

use std::time::Duration;

use tombolo::{Domain, Error};
use tombolo_task::{End, Failure, FailureKind};

use crate::executor::Executor;
use crate::function::Functions;
use crate::worker_connection::{Instruction, Stop, WorkerConnection};

/// Timeout of a wait that is repeated.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// Maximum number of messages, and of turns of tasks, that are handled before the other gets a turn.
const BATCH: usize = 64;

/// Runs tasks until the starter ends.
pub(crate) fn run(functions: Functions, starter: &str) -> Result<(), Error> {
    let ended = WorkerConnection::connect(Domain::attach()?, starter).and_then(|connection| {
        let executor = Executor::new(connection.waker());
        if cfg!(panic = "abort") {
            let (set, token) = connection.channel();
            panic_report::prepare(set, token, executor.current());
        }
        Worker { functions, connection, executor }.run_loop()
    });
    match ended {
        Err(Stop::StarterEnded) => Ok(()),
        Err(Stop::Failed(error)) => Err(error),
        Ok(never) => match never {},
    }
}

/// In programs that abort on a panic (`panic = "abort"`): reports to the starter which task panicked, before
/// the worker dies with all of its tasks.
mod panic_report {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use tombolo::Token;
    use tombolo_task::{End, Failure, FailureKind, Message};

    use crate::executor::panic_message;
    use crate::worker_connection::{SharedSet, send};

    type Connection = (SharedSet, Token, Rc<Cell<Option<u32>>>);

    thread_local! {
        static CONNECTION: RefCell<Option<Connection>> = const { RefCell::new(None) };
    }

    pub(super) fn prepare(set: SharedSet, token: Token, current: Rc<Cell<Option<u32>>>) {
        CONNECTION.with(|connection| *connection.borrow_mut() = Some((set, token, current)));
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            before(panic);
            // A panic outside of a task, or while the channel is in use, is not reported.
            let _ = CONNECTION.try_with(|connection| {
                let Ok(connection) = connection.try_borrow() else { return };
                let Some((set, token, current)) = &*connection else { return };
                if let (Some(task), Ok(mut set)) = (current.get(), set.try_borrow_mut()) {
                    let failure =
                        Failure::new(FailureKind::Panicked).with_text(panic_message(panic.payload()));
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
    connection: WorkerConnection,
    executor: Executor,
}

impl Worker {
    fn run_loop(&mut self) -> Result<std::convert::Infallible, Stop> {
        loop {
            for _ in 0..BATCH {
                let Some(instruction) = self.connection.next()? else { break };
                self.handle_instruction(instruction)?;
            }
            let mut released = 0;
            for _ in 0..BATCH {
                let Some(result) = self.executor.run_next() else { break };
                if result.released {
                    self.connection.record_run_time(result.ran);
                    released += 1;
                }
                if let Some(end) = result.end {
                    self.connection.report_end(result.task, end)?;
                }
            }
            if released > 0 {
                self.connection.request_tasks(released)?;
            }
            self.connection.flush()?;
            let timeout = if self.executor.prepare_sleep() { MAX_WAIT } else { Duration::ZERO };
            self.connection.wait(timeout)?;
            self.executor.end_sleep();
        }
    }

    fn handle_instruction(&mut self, instruction: Instruction) -> Result<(), Stop> {
        match instruction {
            Instruction::Start { task, function, argument } => {
                let context = self.connection.context().clone();
                let running = match self.functions.get(function) {
                    None => Err(FailureKind::UnknownFunction),
                    Some(body) => body(context, &argument).ok_or(FailureKind::BadArgument),
                };
                match running {
                    Ok(running) => self.executor.add(task, running),
                    Err(kind) => {
                        self.connection.report_end(task, End::Failed(Failure::new(kind)))?;
                        self.connection.request_tasks(1)?;
                    }
                }
            }
            Instruction::Cancel(task) => {
                // A task that has ended was reported already.
                if let Some(fresh) = self.executor.cancel(task) {
                    self.connection.report_end(task, End::Failed(Failure::new(FailureKind::Cancelled)))?;
                    self.connection.request_tasks(u32::from(fresh))?;
                }
            }
        }
        Ok(())
    }
}
