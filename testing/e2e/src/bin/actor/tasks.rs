//! Tasks of programs in several languages, with the same functions as `testing/e2e/c/tasks.c` and
//! `task_functions.py`. As a worker it registers the same functions as those, and as a starter it prints the
//! same lines.

use std::process::ExitCode;

use tombolo::SpawnOptions;
use tombolo_hubs::Task;
use tombolo_tasks::{Context, Function, Functions, JoinHandle, TaskError, Tasks, Value, yield_now};

use crate::{Outcome, PATIENCE, attach};

const SQUARE: Function<u64, u64> = Function::new("square");
const DESCRIBE: Function<(u64, String), (String, u64)> = Function::new("describe");
const FAILS: Function<String, ()> = Function::new("fails");
const FOREVER: Function<(), ()> = Function::new("forever");
const SEND: Function<(String, u64), u64> = Function::new("send");
const NESTED: Function<u64, u64> = Function::new("nested");
const DIE: Function<(), ()> = Function::new("die");

/// Number of values per sender.
const VALUES: u64 = 10;

/// Runs as a worker if this domain was started as one.
pub(crate) fn run_worker() -> Option<ExitCode> {
    Functions::new()
        .register(SQUARE, async |_, number| number * number)
        .register(DESCRIBE, async |context: Context, (number, text)| {
            (format!("rust {} {text}", context.node_name()), number * 2)
        })
        .register(FAILS, async |_, text| panic!("{text}"))
        .register(FOREVER, async |_, ()| {
            loop {
                yield_now().await;
            }
        })
        .register(SEND, send)
        .register(NESTED, nested)
        .register(DIE, die)
        .run_worker()
}

async fn send(context: Context, (fifo, count): (String, u64)) -> u64 {
    let chan = context.hubs().and_then(|task| task.chan::<u64>(&fifo)).expect("the fifo is there");
    for value in 1..=count {
        chan.send_async(value).await.expect("it is open");
    }
    count
}

async fn nested(context: Context, count: u64) -> u64 {
    let started: Vec<_> = (0..count).map(|number| context.go(SQUARE, number).expect("it is short")).collect();
    let mut sum = 0;
    for task in started {
        sum += task.await.expect("it ends");
    }
    sum
}

#[allow(clippy::disallowed_methods, reason = "it stands for a program that dies")]
async fn die(_: Context, (): ()) {
    std::process::abort()
}

fn print_error<R: Value>(what: &str, task: JoinHandle<R>) -> Outcome {
    match task.join() {
        Ok(_) => Err(format!("{what}: it has a result").into()),
        Err(error) => {
            println!("{what}: {error}");
            Ok(())
        }
    }
}

/// Starts tasks on workers that run the program `worker`, or this one.
pub(crate) fn start(on: &str, fifo: &str, worker: &[&str]) -> Outcome {
    let domain = attach()?;
    let tasks = match worker {
        [] => Tasks::start(&domain, on)?,
        [program, arguments @ ..] => {
            let program = SpawnOptions::image(program).args(arguments.iter().copied());
            Tasks::start_program(&domain, &program, on)?
        }
    };
    let tasks = tasks.within(PATIENCE);
    println!("square {}", tasks.go(SQUARE, 7)?.join()?);
    let (text, doubled) = tasks.go(DESCRIBE, (7, "hällo".to_owned()))?.join()?;
    println!("described {text} {doubled}");
    let cancelled = tasks.go(FOREVER, ())?;
    cancelled.cancel();
    print_error("cancelled", cancelled)?;
    print_error("unknown", tasks.go(Function::<u8, u8>::new("square"), 7)?)?;
    let hub = Task::attach(&domain)?.within(PATIENCE).chan::<u64>(fifo)?;
    let senders = [tasks.go(SEND, (fifo.to_owned(), VALUES))?, tasks.go(SEND, (fifo.to_owned(), VALUES))?];
    let mut sum = 0;
    for _ in 0..2 * VALUES {
        sum += hub.recv()?;
    }
    let sent: Result<Vec<u64>, TaskError> = senders.into_iter().map(JoinHandle::join).collect();
    println!("sum {sum} of {}", sent?.iter().sum::<u64>());
    println!("nested {}", tasks.go(NESTED, 10)?.join()?);
    // In builds with `panic = "abort"`, a panic ends the worker and its other tasks are lost.
    print_error("failed", tasks.go(FAILS, "on purpose".to_owned())?)?;
    print_error("lost", tasks.go(DIE, ())?)?;
    println!("again {}", tasks.go(SQUARE, 10)?.join()?);
    Ok(())
}
