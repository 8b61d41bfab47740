//! Tasks of one image on a host, a virtual machine and a big-endian node: the example that counts primes.

use tombolo_e2e::{Machine, Running, eventually, image};

use crate::hubs::serve;

const WORKERS: &str = "host,arm0,z0";

/// Runs the cases on the machine of the hub tests.
pub(crate) fn on_three_nodes(machine: &Machine) {
    let primes = image("primes").display().to_string();
    let run = |words: &[&str]| machine.tombolo(["run", &primes].iter().chain(words)).ok();
    // Every share is counted exactly once.
    let counted = run(&[WORKERS, "20000"]);
    assert!(counted.contains("2262 primes below 20000"), "{counted}");
    let shares = counted.lines().filter_map(|line| line.split_once(" shares on "));
    let count: u32 =
        shares.filter_map(|(count, _)| count.trim().rsplit(' ').next()?.parse::<u32>().ok()).sum();
    assert_eq!(count, 100, "{counted}");
    // Tasks that start and join tasks, on nodes with one thread each.
    let tree = run(&["tree", WORKERS, "4"]);
    assert!(tree.contains("31 tasks in a tree of depth 4"), "{tree}");
    // Tasks that wait on a hub of another node.
    let serving = serve(machine, "arm0", &["found:fifo:4"]);
    let file = machine.folder().join("stream.tbt");
    let mut command = machine.command();
    command.args(["trace", "record", "-o"]).arg(&file).arg("--").arg(tombolo_e2e::tombolo());
    command.args(["run", &primes, "stream", WORKERS, "found"]);
    let streamed = Running::start(&mut command).finish().ok();
    assert!(streamed.contains("168 primes came through 'found', their sum is 76127"), "{streamed}");
    // The trace contains the tasks' hub operations and the queue depth seen by the server.
    let trace = machine.tombolo(["trace".as_ref(), "show".as_ref(), file.as_os_str()]).ok();
    for event in ["marker 'hub found: send'", "marker 'hub found: receive'", "value 'hub found: depth'"] {
        assert!(trace.contains(event), "{event}: {trace}");
    }
    serving.signal(rustix::process::Signal::INT);
    serving.finish().ok();
    for node in ["host", "arm0", "z0"] {
        ends(machine, &primes, node);
    }
    machine.tombolo(["run", &primes, "mars"]).fails_with(1, &["no node 'mars'", "arm0"]);
}

/// Errors of tasks name task and node, and a worker that dies leaves nothing.
fn ends(machine: &Machine, primes: &str, node: &str) {
    let ends = machine.tombolo(["run", primes, "ends", node]).ok();
    for line in [
        "100 / 7 is 14".to_owned(),
        "task 'forever' was cancelled".to_owned(),
        format!("the worker on {node} has no function 'divide' of these types"),
        format!("task 'divide' on {node} failed: attempt to divide by zero"),
    ] {
        assert!(ends.contains(&line), "{line}: {ends}");
    }
    let before = machine.domains_on(node).len();
    let waiting = machine.start(["run", primes, "wait", node]);
    // The worker prints this when it has the task.
    waiting.wait_for("waiting on");
    let domains = machine.domains_on(node);
    // The last domain is the worker; on the host there is also its starter.
    let (worker, _) = domains.last().expect("a worker");
    machine.tombolo(["kill", worker, "--signal", "KILL"]).ok();
    let ended = waiting.finish().ok();
    let lost = format!("task 'forever' is lost: its worker on {node} has ended (domain {worker}: ");
    assert!(ended.contains(&lost), "{lost}: {ended}");
    assert!(ended.contains("it ended with a result"), "another worker came in its place: {ended}");
    let died = machine.tombolo(["run", primes, "die", node]).ok();
    assert!(died.contains("4 workers died; no worker for task 'die' lives on any node"), "{died}");
    assert!(eventually(|| machine.domains_on(node).len() == before), "nothing of it is left");
}
