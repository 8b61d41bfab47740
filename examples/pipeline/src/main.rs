//! An application of hubs: a producer, workers and a collector, which know hubs by name, not by location.
//!
//! ```text
//! pipeline produce NUMBERS     sends the numbers from 1 to NUMBERS to the fifo 'jobs'
//! pipeline work                squares what comes from 'jobs' and sends it to the port 'results'
//! pipeline collect WORKERS     adds up 'results' until WORKERS workers have signalled 'done'
//! ```
//!
//! `tombolo hubs run examples/pipeline/app.toml examples/pipeline/two-nodes.toml` runs all of it.

use std::process::ExitCode;

use tombolo::Domain;
use tombolo_hubs::{HubError, Task};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<(), Box<dyn std::error::Error>> {
    let domain = Domain::attach()?;
    let task = Task::attach(&domain)?;
    match words {
        ["produce", numbers] => produce(&task, numbers.parse()?)?,
        ["work"] => {
            let jobs = work(&task)?;
            println!("{jobs} jobs on {}", domain.node_name());
        }
        ["collect", workers] => println!("the sum is {}", collect(&task, workers.parse()?)?),
        _ => return Err("usage: pipeline produce NUMBERS | work | collect WORKERS".into()),
    }
    Ok(())
}

fn produce(task: &Task, numbers: u64) -> Result<(), HubError> {
    let jobs = task.chan::<u64>("jobs")?;
    for number in 1..=numbers {
        jobs.send(number)?;
    }
    jobs.close()
}

/// Processes jobs until there are none left. Returns their number.
fn work(task: &Task) -> Result<u64, HubError> {
    let (jobs, results) = (task.chan::<u64>("jobs")?, task.chan::<u64>("results")?);
    let mut count = 0;
    for job in &jobs {
        let job = job?;
        results.send(job * job)?;
        count += 1;
    }
    task.semaphore("done")?.signal()?;
    Ok(count)
}

/// Adds up results. A port's sender waits for its receiver, so all results of a worker have been received
/// when it signals that it is done.
fn collect(task: &Task, workers: u32) -> Result<u64, HubError> {
    let (results, done) = (task.chan::<u64>("results")?, task.semaphore("done")?);
    let (mut sum, mut ended) = (0, 0);
    while ended < workers {
        let mut select = task.select();
        let result = select.recv(&results);
        select.semaphore(&done);
        let chosen = select.wait()?;
        if chosen.index == result {
            sum += chosen.value(&results)?;
        } else {
            ended += 1;
        }
    }
    Ok(sum)
}
