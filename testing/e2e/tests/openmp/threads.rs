//! `tombolo ps --threads`: a job is one process, with its threads on their nodes
//! (`testing/omp/programs/seen.c`).

use std::io::Write as _;

use serde_json::{Value, json};
use tombolo_e2e::web::Web;
use tombolo_e2e::{Machine, MachineFile, Running, eventually};

use crate::migrate::{EXCLUSIVE, HYBRID, PAGES, USER, VM, all_words, run, with_user};
use crate::nodes::machine;

const IMAGE: &str = "seen.tbi";

/// Returns the only job of the machine.
fn job(machine: &Machine) -> Value {
    let jobs = machine.json(&["ps", "--threads"])["jobs"].take();
    let Value::Array(mut jobs) = jobs else { panic!("{jobs}") };
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    jobs.remove(0)
}

/// Returns the entry of the thread with this handle: its node, state, function and number of moves.
fn thread(job: &Value, handle: u64) -> (String, String, String, u64) {
    let threads = job["threads"].as_array().unwrap();
    let found: Vec<&Value> =
        threads.iter().filter(|one| one["handle"] == handle && one["role"] != "worker").collect();
    let [found] = found[..] else { panic!("{handle:#x}: {job}") };
    let text = |key: &str| found[key].as_str().unwrap_or("-").to_owned();
    (text("node"), text("state"), text("function"), found["moves"].as_u64().unwrap())
}

/// Waits until these threads are in the expected states.
fn wait_for_threads(machine: &Machine, expected: &[(u64, &str, &str, &str, u64)]) -> Value {
    let mut last = Value::Null;
    let same = eventually(|| {
        last = job(machine);
        expected.iter().all(|&(handle, node, state, function, moves)| {
            thread(&last, handle) == (node.to_owned(), state.to_owned(), function.to_owned(), moves)
        })
    });
    assert!(same, "{expected:?}: {last}");
    last
}

fn check_nodes_of_threads(machine: &Machine, variables: &[&str], there: &str) {
    let mut program: Running = machine.start(all_words(variables, &[IMAGE, "a word"]));
    let mut input = program.stdin();
    let said = program.wait_for("away\n");
    let handles: Vec<u64> = said
        .split_whitespace()
        .filter_map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok())
        .collect();
    let [main, waiting, spinning] = handles[..] else { panic!("{said}") };
    let seen = wait_for_threads(
        machine,
        &[
            (main, there, "calling", "reads_there", 1),
            (waiting, "host", "waiting", "-", 0),
            (spinning, there, "running", "spins_there", 1),
        ],
    );
    assert!(seen["program"].as_str().unwrap().ends_with("seen a word"), "{seen}");
    let nodes: Vec<&str> =
        seen["nodes"].as_array().unwrap().iter().map(|of| of["name"].as_str().unwrap()).collect();
    assert_eq!((nodes[0], nodes[nodes.len() - 1]), ("host", there));
    assert!(seen["descriptors"].as_array().unwrap().iter().any(|of| of["number"] == 0), "{seen}");
    // Domain id and process id are those of the process.
    let host = machine.domains_on("host");
    assert!(host.iter().any(|(id, pid)| seen["id"] == id.as_str() && seen["pid"] == *pid), "{seen} {host:?}");
    let time = |job: &Value| {
        let threads = job["threads"].as_array().unwrap();
        threads.iter().find(|one| one["handle"] == spinning).unwrap()["time_s"].as_f64().unwrap()
    };
    let before = time(&seen);
    assert!(eventually(|| time(&job(machine)) > before), "{variables:?}");
    // For a worker, `ps` names its job.
    let worker = seen["nodes"][nodes.len() - 1]["domain"].as_str().unwrap().to_owned();
    machine
        .tombolo(["ps", "--threads", &worker])
        .fails_with(1, &["is a worker of the job", seen["id"].as_str().unwrap()]);
    let text = machine.tombolo(["ps", "--threads", seen["id"].as_str().unwrap()]).ok();
    assert!(text.contains("THREAD") && text.contains("spins_there"), "{text}");

    input.write_all(b"\n").unwrap();
    program.wait_for("back\n");
    wait_for_threads(
        machine,
        &[(main, "host", "sleeping", "-", 2), (spinning, there, "running", "spins_there", 1)],
    );
    input.write_all(b"\n").unwrap();
    program.wait_for("joined\n");
    let left = wait_for_threads(machine, &[(main, "host", "sleeping", "-", 2)]);
    let created = |job: &Value| {
        job["threads"].as_array().unwrap().iter().filter(|one| one["role"] == "pthread").count()
    };
    assert_eq!((created(&seen), created(&left)), (2, 0), "{left}");
    input.write_all(b"\n").unwrap();
    let _ = program.finish().ok();
}

/// The page of the program's domain shows the same, and the process data of `/proc`.
#[test]
fn the_page_shows_a_job_as_one_process() {
    let Some(machine) = machine(&with_user(), &["seen"]) else { return };
    let mut program = machine.start(all_words(&[HYBRID, USER], &[IMAGE]));
    let mut input = program.stdin();
    program.wait_for("away\n");
    let seen = job(&machine);
    let id = seen["id"].as_str().unwrap();
    let web = Web::start(&machine, &[]);
    let mut live = web.watch(&json!([
        {"id": "n", "view": "names", "pattern": format!("process/{id}")},
        {"id": "p", "view": "process", "domain": id},
        {"id": "t", "view": "threads", "domain": id, "filter": "spins"},
    ]));
    let _ = live.row("n", "the job's name", |row| row["endpoint"] == true && row["owner"] == id);
    let process = live.row("p", "the process", |row| row["key"] == id);
    assert_eq!((&process["pid"], &process["folder"]), (&seen["pid"], &seen["folder"]));
    assert_eq!(process["nodes"][1]["name"], "arm-user");
    assert!(process["descriptors"].as_array().unwrap().len() >= 3, "{process}");
    let thread = live.row("t", "a thread on another node", |row| row["state"] == "running");
    assert_eq!(
        (&thread["node"], &thread["made"], &thread["function"], &thread["moves"]),
        (&json!("arm-user"), &json!("host"), &json!("spins_there"), &json!(1)),
    );
    live.subscribe(&json!([{"id": "x", "view": "process", "domain": "0.1.77"}]));
    let _ = live.until("why there is none", |message| {
        message["id"] == "x" && message["error"].as_str().is_some_and(|why| why.contains("is no job"))
    });
    drop(live);
    assert_eq!(web.stop().status, 0);
    input.write_all(b"\n\n\n").unwrap();
    let _ = program.finish().ok();
    machine.down();
}

#[test]
fn threads_are_shown_on_the_nodes_where_they_are() {
    let Some(machine) = machine(&with_user(), &["seen", "tasks"]) else { return };
    for mode in [HYBRID, EXCLUSIVE] {
        check_nodes_of_threads(&machine, &[mode, USER], "arm-user");
    }
    assert_eq!(machine.json(&["ps", "--threads"])["jobs"], Value::Array(Vec::new()));
    machine.tombolo(["ps", "--threads"]).ok();
    machine.tombolo(["ps", "--threads", "0.1.77"]).fails_with(1, &["0.1.77 is no job", "`tombolo ompcc`"]);
    machine.tombolo(["ps", "--threads", "seven"]).fails_with(2, &["seven"]);
    machine.tombolo(["ps", "0.1.1"]).fails_with(2, &["--threads"]);
    run(&machine, &[HYBRID, USER], &["tasks.tbi"]).ok();
    assert!(eventually(|| machine.domains_on("host").is_empty()), "{:?}", machine.domains_on("host"));
    machine.down();
}

#[test]
fn threads_on_virtual_machines_are_shown() {
    let file = MachineFile::host().with_vm("arm0", "").with_vm("arm1", "");
    let Some(machine) = machine(&file, &["seen"]) else { return };
    check_nodes_of_threads(&machine, &[HYBRID, VM], "arm0");
    check_nodes_of_threads(&machine, &[HYBRID, "OMP_TOMBOLO_NODES=arm0,arm1", PAGES], "arm1");
    machine.down();
}
