//! An island genetic algorithm, identical to that in Go (`examples/go/islands`): islands of both languages,
//! on any nodes, can form one job, and the result equals that of goroutines in one process.
//!
//! ```text
//! islands native ISLANDS [GENERATIONS]    threads and channels without room of Rust, in this process
//! islands channels [GENERATIONS]          an island of a job, for each of its domains
//! ```

use std::error::Error;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use islands::{INDIVIDUALS, Neighbours, TARGET, better, evolve, fitness_of};
use tombolo::{Channel, Domain, Job};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Err(error) = run(&words.iter().map(String::as_str).collect::<Vec<_>>()) {
        eprintln!("islands: {error}");
        std::process::exit(1);
    }
}

fn run(words: &[&str]) -> Outcome<()> {
    match words {
        ["native", islands] => native(islands.parse()?, 300),
        ["native", islands, generations] => native(islands.parse()?, generations.parse()?),
        ["channels"] => in_job(300),
        ["channels", generations] => in_job(generations.parse()?),
        _ => Err("usage: islands native ISLANDS [GENERATIONS] | channels [GENERATIONS]".into()),
    }
}

fn tell(over: &str, size: usize, best: &[u8], took: Duration) {
    let (text, fitness) = (String::from_utf8_lossy(&best[..TARGET.len()]), fitness_of(best));
    println!("{size} islands over {over}: {text:?}, fitness {fitness}, {:.3} s", took.as_secs_f64());
}

/// Channels to the neighbors of an island in this process.
struct InProcess {
    inbox: Receiver<Vec<u8>>,
    next: SyncSender<Vec<u8>>,
}

impl Neighbours for InProcess {
    fn send(&mut self, message: &[u8]) -> Result<(), String> {
        self.next.send(message.to_vec()).map_err(|error| error.to_string())
    }

    fn receive(&mut self) -> Result<Vec<u8>, String> {
        self.inbox.recv().map_err(|error| error.to_string())
    }
}

fn native(size: usize, generations: u32) -> Outcome<()> {
    if size == 0 || size > INDIVIDUALS / 4 {
        return Err(format!("{size} islands; give 1 to {}", INDIVIDUALS / 4).into());
    }
    let start = Instant::now();
    let (senders, inboxes): (Vec<_>, Vec<_>) = (0..size).map(|_| sync_channel(0)).unzip();
    let islands: Vec<_> = inboxes
        .into_iter()
        .enumerate()
        .map(|(rank, inbox)| {
            let mut beside = InProcess { inbox, next: senders[(rank + 1) % size].clone() };
            std::thread::spawn(move || evolve(rank, size, generations, &mut beside))
        })
        .collect();
    let mut best: Option<Vec<u8>> = None;
    for island in islands {
        let result = island.join().map_err(|_| "an island panicked")??;
        best = Some(best.map_or_else(|| result.clone(), |best| better(best, result.clone())));
    }
    tell("native channels", size, &best.unwrap_or_default(), start.elapsed());
    Ok(())
}

/// Channels to the neighbors of an island in a job; `right` is `None` if both neighbors are the same island.
struct Beside {
    left: Channel,
    right: Option<Channel>,
}

impl Neighbours for Beside {
    fn send(&mut self, message: &[u8]) -> Result<(), String> {
        let right = self.right.as_mut().unwrap_or(&mut self.left);
        right.send(message).map_err(|error| error.to_string())
    }

    fn receive(&mut self) -> Result<Vec<u8>, String> {
        let mut message = Vec::new();
        self.left.recv_into(&mut message).map_err(|error| error.to_string())?;
        Ok(message)
    }
}

/// Neighbors of a single island, which sends to itself.
struct Alone;

impl Neighbours for Alone {
    fn send(&mut self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn receive(&mut self) -> Result<Vec<u8>, String> {
        Ok(Vec::new())
    }
}

fn beside(job: &Job) -> Outcome<Box<dyn Neighbours>> {
    let (rank, size) = (job.rank(), job.size());
    let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
    Ok(match size {
        1 => Box::new(Alone),
        2 => Box::new(Beside { left: job.channel_to(left)?, right: None }),
        _ => {
            let mut both = job.channels_to(&[left, right])?;
            let right = both.pop();
            Box::new(Beside { left: both.pop().ok_or("no channel")?, right })
        }
    })
}

/// Runs one island of a job; rank 0 gathers the results.
fn in_job(generations: u32) -> Outcome<()> {
    let domain = Domain::attach()?;
    let job = domain.job()?;
    let name = job.name("best");
    let gather = if job.rank() == 0 { Some(domain.export(&name)?) } else { None };
    let mut neighbours = beside(&job)?;
    let start = Instant::now();
    let size = job.size() as usize;
    let mut best = evolve(job.rank() as usize, size, generations, &mut *neighbours)?;
    let Some(gather) = gather else {
        return Ok(domain.connect(&name)?.send(&best)?);
    };
    for _ in 1..size {
        let (mut channel, mut result) = (gather.accept()?, Vec::new());
        channel.recv_into(&mut result)?;
        if result.len() != best.len() {
            return Err(format!("a result of {} bytes", result.len()).into());
        }
        best = better(best, result);
    }
    tell("channels", size, &best, start.elapsed());
    Ok(())
}
