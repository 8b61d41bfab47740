//! `tombolo run --balance`: marked functions run where they are fastest (`testing/omp/programs/balance.c`).
//!
//! The function sleeps for a second on all nodes but one, longer than a call and a migration on the slowest
//! node of a busy host. So the fastest node depends neither on the speed of nodes nor on other load.

use std::io::Write as _;

use serde_json::Value;
use tombolo_e2e::{Machine, MachineFile, eventually};

use crate::migrate::with_user;
use crate::nodes::machine;

const IMAGE: &str = "balance.tbi";

fn run_balanced(machine: &Machine, words: &[&str], calls: &str) -> String {
    machine.tombolo([&["run", "--balance"], words, &[IMAGE, calls]].concat()).ok()
}

/// Runs the program, whose function is fast on one of the nodes. Asserts that all nodes are tried, most calls
/// run on the fast one, and the report agrees.
fn check_balancing(machine: &Machine, words: &[&str], (calls, fast): (&str, usize), nodes: &[&str]) {
    let report = ["run", "--balance", "--env", "OMP_TOMBOLO_REPORT=json"];
    let done = machine.tombolo([&report, words, &[IMAGE, calls, &fast.to_string()]].concat());
    let text = done.ok();
    let lines = done.stderr.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let known: Vec<Value> = lines.filter(|line| line["function"] == "work").collect();
    let names: Vec<_> = known.iter().filter_map(|line| line["node"].as_str()).collect();
    assert_eq!(names, nodes, "{done}");
    let number = |node: usize, field: &str| known[node][field].as_u64().expect("a number");
    for node in 0..nodes.len() {
        assert!(number(node, "calls") >= 2 && number(node, "run_ns") > 0, "{done}");
    }
    let moves = |node: usize| if node == 0 { 0 } else { number(node, "move_ns") };
    let fastest = (0..nodes.len()).min_by_key(|node| number(*node, "run_ns") + moves(*node)).unwrap();
    assert_eq!(fastest, fast, "{done}");
    let expected = format!("balance: right on {} nodes, most on node {fast}\n", nodes.len());
    assert_eq!(text, expected, "{done}");
}

#[test]
fn functions_run_where_they_are_fastest() {
    let Some(machine) = machine(&with_user(), &["balance"]) else { return };
    // For every initial node and every fast node.
    let emulated = ["--on", "arm-user", "--env", "OMP_TOMBOLO_NODES=host"];
    for fast in [0, 1] {
        check_balancing(&machine, &[], ("100", fast), &["host", "arm-user"]);
        check_balancing(&machine, &["--env", "OMP_TOMBOLO=exclusive"], ("100", fast), &["host", "arm-user"]);
        check_balancing(&machine, &emulated, ("100", fast), &["arm-user", "host"]);
    }
    // Without `--balance`, and without other nodes, threads stay.
    let plain =
        machine.tombolo(["run", "--env", "OMP_TOMBOLO=hybrid", "--env", "OMP_TOMBOLO_NODES=all", IMAGE]);
    assert_eq!(plain.ok(), "balance: right on 1 nodes, most on node 0\n");
    let alone = ["--env", "OMP_TOMBOLO_NODES=host"];
    assert_eq!(run_balanced(&machine, &alone, "5"), "balance: right on 1 nodes, most on node 0\n");

    let mut program =
        machine.start([&["run", "--balance"], &emulated[..], &[IMAGE, "60", "1", "wait"]].concat());
    let mut input = program.stdin();
    program.wait_for("right on 2 nodes");
    let jobs = machine.json(&["ps", "--threads"]);
    let threads = jobs["jobs"][0]["threads"].as_array().unwrap();
    let main = threads.iter().find(|thread| thread["role"] == "main").unwrap();
    assert_eq!(
        (main["made"].as_str(), main["node"].as_str()),
        (Some("arm-user"), Some("arm-user")),
        "{jobs}"
    );
    // All nodes are tried; the number of later moves depends on the host's load.
    assert!(main["moves"].as_u64() >= Some(2), "there and back: {jobs}");
    input.write_all(b"\n").unwrap();
    let _ = program.finish().ok();

    machine
        .tombolo(["run", "--balance", "/bin/true"])
        .fails_with(2, &["--balance", "cannot change their node", "tombolo ompcc"]);
    assert!(eventually(|| machine.domains_on("host").is_empty()), "{:?}", machine.domains_on("host"));
    machine.down();
}

#[test]
fn functions_run_where_they_are_fastest_of_virtual_machines_too() {
    let file = MachineFile::host().with_vm("arm0", "").with_vm("arm1", "");
    let Some(machine) = machine(&file, &["balance"]) else { return };
    for fast in [0, 1] {
        check_balancing(&machine, &["--env", "OMP_TOMBOLO_NODES=arm0"], ("60", fast), &["host", "arm0"]);
    }
    let pages = ["--env", "OMP_TOMBOLO_NODES=arm0,arm1", "--env", "OMP_TOMBOLO_MEMORY=pages"];
    check_balancing(&machine, &pages, ("40", 2), &["host", "arm0", "arm1"]);
    machine.down();
}
