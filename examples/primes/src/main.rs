//! Tasks on all nodes: primes are counted by workers of different instruction sets.
//!
//! ```text
//! primes WORKERS [LIMIT]            counts the primes below LIMIT, in shares, on WORKERS such as host:2,arm0
//! primes tree WORKERS [DEPTH]       tasks that start tasks, each on any worker
//! primes stream WORKERS FIFO        tasks that send primes to a fifo, received on this node
//! primes ends WORKERS               tasks that panic, are cancelled, or are not known to the worker
//! primes wait WORKERS               a task whose worker is to be killed
//! primes die WORKERS                tasks that end their workers, until there are none
//! primes measure WORKERS            times of starting and joining, beside threads
//! ```

mod measure;

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;
use std::str::FromStr;

use tombolo::Domain;
use tombolo_tasks::{Context, Function, Functions, JoinHandle, TaskError, Tasks, yield_now};

/// Counts the primes from the first number to below the second, and returns the node that counted them.
const COUNT: Function<(u64, u64), (u64, String)> = Function::new("count");
/// Returns the number of tasks in a tree of this depth.
const TREE: Function<u32, u64> = Function::new("tree");
/// Sends the primes of a range to the fifo of this name.
const STREAM: Function<(u64, u64, String), u64> = Function::new("stream");
/// Does nothing, to measure the cost of a task.
const NOTHING: Function<(), ()> = Function::new("nothing");
/// Divides by a number, and panics when it is zero.
const DIVIDE: Function<u64, u64> = Function::new("divide");
/// Runs until it is cancelled.
const FOREVER: Function<(), ()> = Function::new("forever");

/// Ends its worker.
const DIE: Function<(), ()> = Function::new("die");

const USAGE: &str = "usage: primes [tree|stream|ends|wait|die|measure] WORKERS …";

fn main() -> ExitCode {
    let functions = Functions::new()
        .register(COUNT, count)
        .register(TREE, tree)
        .register(STREAM, stream)
        .register(NOTHING, async |_, ()| ())
        .register(DIVIDE, async |_, divisor| 100 / divisor)
        .register(DIE, die)
        .register(FOREVER, forever);
    if let Some(status) = functions.run_worker() {
        return status;
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<(), Box<dyn Error>> {
    let domain = Domain::attach()?;
    match words {
        ["tree", on] => run_tree(&Tasks::start(&domain, on)?, 6),
        ["tree", on, depth] => run_tree(&Tasks::start(&domain, on)?, number(depth)?),
        ["stream", on, fifo] => run_stream(&domain, &Tasks::start(&domain, on)?, fifo),
        ["measure", on] => measure::run(&domain, on),
        ["ends", on] => run_ends(&Tasks::start(&domain, on)?),
        ["wait", on] => run_wait(&Tasks::start(&domain, on)?),
        ["die", on] => run_die(&Tasks::start(&domain, on)?),
        [on] => run_count(&Tasks::start(&domain, on)?, 1_000_000),
        [on, limit] => run_count(&Tasks::start(&domain, on)?, number(limit)?),
        _ => Err(USAGE.into()),
    }
}

fn number<N: FromStr>(word: &str) -> Result<N, String> {
    word.parse().map_err(|_| format!("'{word}' is not a number that fits; {USAGE}"))
}

fn is_prime(number: u64) -> bool {
    number >= 2
        && (2..)
            .take_while(|divisor| divisor * divisor <= number)
            .all(|divisor| !number.is_multiple_of(divisor))
}

async fn count(context: Context, (from, to): (u64, u64)) -> (u64, String) {
    let primes = (from..to).filter(|number| is_prime(*number)).count() as u64;
    (primes, context.node_name().to_owned())
}

/// Counts primes in many equally long ranges, so that faster workers get more of them.
fn run_count(tasks: &Tasks, limit: u64) -> Result<(), Box<dyn Error>> {
    let share = (limit / 100).max(1);
    let ranges = (0..limit).step_by(usize::try_from(share)?).map(|from| (from, (from + share).min(limit)));
    let started: Result<Vec<_>, _> = ranges.map(|range| tasks.go(COUNT, range)).collect();
    let (mut primes, mut shares) = (0, BTreeMap::<String, u32>::new());
    for task in started? {
        let (count, node) = task.join()?;
        primes += count;
        *shares.entry(node).or_default() += 1;
    }
    println!("{primes} primes below {limit}");
    for (node, count) in shares {
        println!("{count} shares on {node}");
    }
    Ok(())
}

/// Starts two subtasks on any workers, and awaits them while other tasks run.
async fn tree(context: Context, depth: u32) -> u64 {
    if depth == 0 {
        return 1;
    }
    let (Ok(left), Ok(right)) = (context.go(TREE, depth - 1), context.go(TREE, depth - 1)) else { return 0 };
    match (left.await, right.await) {
        (Ok(left), Ok(right)) => left + right + 1,
        _ => 0,
    }
}

fn run_tree(tasks: &Tasks, depth: u32) -> Result<(), Box<dyn Error>> {
    let count = tasks.go(TREE, depth)?.join()?;
    println!("{count} tasks in a tree of depth {depth}");
    for worker in tasks.workers() {
        println!("{} ended on {}", worker.ended, worker.node);
    }
    Ok(())
}

/// Waits for room in the fifo, while other tasks of the worker run.
async fn stream(context: Context, (from, to, fifo): (u64, u64, String)) -> u64 {
    let sent = async {
        let chan = context.hubs()?.chan::<u64>(&fifo)?;
        let mut sent = 0;
        for number in (from..to).filter(|number| is_prime(*number)) {
            chan.send_async(number).await?;
            sent += 1;
        }
        Ok::<u64, tombolo_hubs::HubError>(sent)
    };
    sent.await.unwrap_or_else(|error| panic!("{error}"))
}

fn run_stream(domain: &Domain, tasks: &Tasks, fifo: &str) -> Result<(), Box<dyn Error>> {
    let primes = tombolo_hubs::Task::attach(domain)?.chan::<u64>(fifo)?;
    let ranges = (0..10).map(|range| (range * 100, range * 100 + 100));
    let started: Result<Vec<_>, _> =
        ranges.map(|(from, to)| tasks.go(STREAM, (from, to, fifo.to_owned()))).collect();
    let (mut sum, mut expected) = (0, 0);
    // The primes below 1000.
    for _ in 0..168 {
        sum += primes.recv()?;
    }
    for task in started? {
        expected += task.join()?;
    }
    println!("{expected} primes came through '{fifo}', their sum is {sum}");
    Ok(())
}

/// Occupies its worker only briefly at a time, so that others run and it can be cancelled.
async fn forever(context: Context, (): ()) {
    println!("waiting on {}", context.node_name());
    loop {
        std::thread::sleep(std::time::Duration::from_millis(1));
        yield_now().await;
    }
}

/// Shows how tasks end without a result.
fn run_ends(tasks: &Tasks) -> Result<(), Box<dyn Error>> {
    println!("100 / 7 is {}", tasks.go(DIVIDE, 7)?.join()?);
    let cancelled = tasks.go(FOREVER, ())?;
    cancelled.cancel();
    print_end(cancelled.join());
    print_end(tasks.go(Function::<u8, u8>::new("divide"), 1)?.join());
    print_end(tasks.go(DIVIDE, 0)?.join());
    Ok(())
}

/// Waits for a task whose worker is killed by the caller of this program.
fn run_wait(tasks: &Tasks) -> Result<(), Box<dyn Error>> {
    print_end(tasks.go(FOREVER, ())?.join());
    print_end(tasks.go(DIVIDE, 7).and_then(JoinHandle::join));
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "it stands for a program that dies")]
async fn die(_: Context, (): ()) {
    std::process::abort()
}

/// Kills workers, which are restarted a limited number of times.
fn run_die(tasks: &Tasks) -> Result<(), Box<dyn Error>> {
    for died in 0.. {
        match tasks.go(DIE, ()).and_then(JoinHandle::join) {
            Err(TaskError::Lost { .. }) => {}
            Err(error) => {
                println!("{died} workers died; {error}");
                break;
            }
            Ok(()) => return Err("a task that ends its worker came back".into()),
        }
    }
    Ok(())
}

fn print_end<R>(end: Result<R, TaskError>) {
    match end {
        Ok(_) => println!("it ended with a result"),
        Err(error) => println!("{error}"),
    }
}
