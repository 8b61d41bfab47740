//! `tombolo ps --threads`

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;
use tombolo::{Domain, DomainId};
use tombolo_omp_process::{Error, ProcessReport, ThreadReport};

use crate::context::{Context, print, print_json};
use crate::failure::Failure;
use crate::text::{self, Table};

#[derive(Serialize)]
struct Report {
    machine: String,
    jobs: Vec<Job>,
}

/// A job, with stable keys.
#[derive(Serialize)]
struct Job {
    id: String,
    program: String,
    pid: u32,
    folder: String,
    nodes: Vec<Node>,
    descriptors: Vec<Descriptor>,
    threads: Vec<Thread>,
}

#[derive(Serialize)]
struct Node {
    name: String,
    isa: String,
    processors: u32,
    domain: Option<String>,
    threads: usize,
}

#[derive(Serialize)]
struct Descriptor {
    number: u32,
    of: String,
}

#[derive(Serialize)]
struct Thread {
    number: u32,
    role: &'static str,
    member: u32,
    handle: u64,
    made: String,
    node: String,
    state: &'static str,
    time_s: f64,
    moves: u64,
    function: Option<String>,
}

impl Job {
    fn new(id: DomainId, report: ProcessReport) -> Job {
        let ProcessReport { pid, program, folder, nodes, descriptors, threads } = report;
        let on = |number: usize| threads.iter().filter(|thread| thread.node == number).count();
        let name = |number: usize| nodes[number].name.clone();
        let thread = |thread: &ThreadReport| Thread {
            number: thread.number,
            role: thread.role.name(),
            member: thread.team_number,
            handle: thread.handle,
            made: name(thread.home_node),
            node: name(thread.node),
            state: thread.state.name(),
            time_s: Duration::from_nanos(thread.time_ns).as_secs_f64(),
            moves: thread.moves,
            function: thread.function.clone(),
        };
        let node = |(number, node): (usize, &tombolo_omp_process::NodeReport)| Node {
            name: node.name.clone(),
            isa: node.isa.clone(),
            processors: node.processors,
            domain: node.domain.clone(),
            threads: on(number),
        };
        Job {
            id: id.to_string(),
            program,
            pid,
            folder,
            nodes: nodes.iter().enumerate().map(node).collect(),
            descriptors: descriptors.into_iter().map(|(number, of)| Descriptor { number, of }).collect(),
            threads: threads.iter().map(thread).collect(),
        }
    }
}

pub(super) fn run(
    context: &Context,
    domain: &Domain,
    job: Option<DomainId>,
    json: bool,
) -> Result<(), Failure> {
    let found = match job {
        Some(job) => tombolo_omp_process::report_of(domain, job).map(|report| vec![(job, report)]),
        None => tombolo_omp_process::list(domain),
    };
    let jobs = found.map_err(|error| match error {
        Error::Tombolo(error) => error.into(),
        error => Failure::Other(error.into()),
    })?;
    let jobs: Vec<Job> = jobs.into_iter().map(|(id, report)| Job::new(id, report)).collect();
    if json {
        return print_json(&Report { machine: domain.machine_name().to_owned(), jobs });
    }
    print(render(&jobs, context.colour))
}

fn render(jobs: &[Job], colour: bool) -> String {
    let mut text = String::new();
    for job in jobs {
        if !text.is_empty() {
            text.push('\n');
        }
        let nodes: Vec<String> =
            job.nodes.iter().map(|node| format!("{} ({})", node.name, node.threads)).collect();
        let (program, nodes) = (text::one_line(&job.program), nodes.join(", "));
        let _ = writeln!(text, "{}  pid {}  {program}\nthreads on {nodes}", job.id, job.pid);
        let mut table = Table::new(&[
            "THREAD>", "ROLE", "HANDLE>", "MADE", "NODE", "STATE", "TIME>", "MOVES>", "FUNCTION",
        ]);
        for thread in &job.threads {
            table.row([
                thread.number.to_string(),
                role(thread),
                format!("{:#x}", thread.handle),
                thread.made.clone(),
                thread.node.clone(),
                thread.state.to_owned(),
                text::duration(Duration::from_secs_f64(thread.time_s)),
                thread.moves.to_string(),
                thread.function.as_deref().map_or_else(|| "-".to_owned(), text::one_line),
            ]);
        }
        text.push_str(&table.render(colour));
    }
    text
}

/// Returns the role of a thread; a worker with its number in its team, while it has one.
fn role(thread: &Thread) -> String {
    match (thread.role, thread.state) {
        ("worker", "idle") => "worker".to_owned(),
        ("worker", _) => format!("worker {}", thread.member),
        (role, _) => role.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use tombolo_omp_process::{NodeReport, Role, State};

    use super::*;

    #[test]
    fn a_job_is_one_process_with_its_threads_on_their_nodes() {
        let node = |name: &str, domain: &str| NodeReport {
            name: name.into(),
            isa: "x86_64".into(),
            processors: 2,
            domain: Some(domain.into()),
        };
        let main = ThreadReport {
            number: 0,
            role: Role::Main,
            team_number: 0,
            handle: 0x2000,
            home_node: 0,
            node: 1,
            state: State::Running,
            time_ns: 75_000_000_000,
            moves: 3,
            function: Some("work".into()),
        };
        let worker = ThreadReport {
            number: 1,
            role: Role::Worker,
            team_number: 4,
            home_node: 1,
            moves: 0,
            function: None,
            state: State::Waiting,
            ..main.clone()
        };
        let idle = ThreadReport { number: 2, state: State::Idle, node: 0, home_node: 0, ..worker.clone() };
        let report = ProcessReport {
            pid: 42,
            program: "work\u{1b}[31m.tbi 3".into(),
            folder: "/home".into(),
            nodes: vec![node("host", "0.1.2"), node("arm0", "1.1.1")],
            descriptors: vec![(0, "/dev/null".into())],
            threads: vec![main, worker, idle],
        };
        let job = Job::new("0.1.2".parse().unwrap(), report);
        assert_eq!(
            render(&[job], false),
            "0.1.2  pid 42  work\u{fffd}[31m.tbi 3\n\
             threads on host (1), arm0 (2)\n\
             THREAD  ROLE      HANDLE  MADE  NODE  STATE      TIME  MOVES  FUNCTION\n\
             \x20    0  main      0x2000  host  arm0  running  1m 15s      3  work\n\
             \x20    1  worker 4  0x2000  arm0  arm0  waiting  1m 15s      0  -\n\
             \x20    2  worker    0x2000  host  host  idle     1m 15s      0  -\n"
        );
        assert_eq!(render(&[], false), "");
    }
}
