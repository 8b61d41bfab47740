//! `tombolo run --balance`: marked functions run where they are fastest (`testing/omp/programs/balance.c`).
//! That emulated processors are slower is what the tests rely on.

use std::io::Write as _;

use tombolo_e2e::{Machine, MachineFile, eventually};

use crate::migrate::with_user;
use crate::nodes::machine;

const IMAGE: &str = "balance.tbi";

fn said(machine: &Machine, words: &[&str], calls: &str) -> String {
    machine.tombolo([&["run", "--balance"], words, &[IMAGE, calls]].concat()).ok()
}

#[test]
fn functions_run_where_they_are_fastest() {
    let Some(machine) = machine(&with_user(), &["balance"]) else { return };
    // All nodes are tried, wherever the program begins, and then the fastest has most of the calls.
    assert_eq!(said(&machine, &[], "60"), "balance: right on 2 nodes, most on node 0\n");
    let exclusive = ["--env", "OMP_TOMBOLO=exclusive"];
    assert_eq!(said(&machine, &exclusive, "60"), "balance: right on 2 nodes, most on node 0\n");
    let emulated = ["--on", "arm-user", "--env", "OMP_TOMBOLO_NODES=host"];
    assert_eq!(said(&machine, &emulated, "60"), "balance: right on 2 nodes, most on node 1\n");
    // Without it, and without other nodes, threads stay.
    let plain =
        machine.tombolo(["run", "--env", "OMP_TOMBOLO=hybrid", "--env", "OMP_TOMBOLO_NODES=all", IMAGE]);
    assert_eq!(plain.ok(), "balance: right on 1 nodes, most on node 0\n");
    let alone = ["--env", "OMP_TOMBOLO_NODES=host"];
    assert_eq!(said(&machine, &alone, "5"), "balance: right on 1 nodes, most on node 0\n");

    let mut program = machine.start([&["run", "--balance"], &emulated[..], &[IMAGE, "60", "wait"]].concat());
    let mut input = program.stdin();
    program.wait_for("most on node 1\n");
    let jobs = machine.json(&["ps", "--threads"]);
    let threads = jobs["jobs"][0]["threads"].as_array().unwrap();
    let main = threads.iter().find(|thread| thread["role"] == "main").unwrap();
    assert_eq!(
        (main["made"].as_str(), main["node"].as_str()),
        (Some("arm-user"), Some("arm-user")),
        "{jobs}"
    );
    // All nodes are tried; how often it went back later depends on what else the host does.
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
    let window = ["--env", "OMP_TOMBOLO_NODES=arm0"];
    assert_eq!(said(&machine, &window, "60"), "balance: right on 2 nodes, most on node 0\n");
    let pages = ["--env", "OMP_TOMBOLO_NODES=arm0,arm1", "--env", "OMP_TOMBOLO_MEMORY=pages"];
    assert_eq!(said(&machine, &pages, "20"), "balance: right on 3 nodes, most on node 0\n");
    machine.down();
}
