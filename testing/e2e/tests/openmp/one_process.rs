//! A job looks like one process to its program: process id, files, streams, signals, threads and exit are the
//! same on every node. The program checks itself (`testing/omp/programs/one_process.c`).

use std::fmt::Write as _;

use tombolo_e2e::{Machine, MachineFile, eventually};

use crate::migrate::{EXCLUSIVE, HYBRID, PAGES, USER, VM, all_words, run, with_user};
use crate::nodes::machine;

const IMAGE: &str = "one_process.tbi";

/// Runs the program's own checks.
fn run_own_checks(machine: &Machine, variables: &[&str], nodes: u32) {
    for word in ["files", "signals", "threads"] {
        let said = run(machine, variables, &[IMAGE, word]).ok();
        assert_eq!(said, format!("{word}: right on {nodes} nodes\n"), "{variables:?}");
    }
}

/// Lines of threads on all nodes arrive in the order of writing, and all threads read one input.
fn check_shared_streams(machine: &Machine, variables: &[&str]) {
    let spread = [variables, &["OMP_TOMBOLO_PTHREADS=spread"]].concat();
    let mut lines = String::new();
    for number in 0..40 {
        writeln!(lines, "line {number}").unwrap();
    }
    assert_eq!(run(machine, &spread, &[IMAGE, "order"]).ok(), lines.as_str(), "{variables:?}");
    let mut job = machine.start(all_words(variables, &[IMAGE, "reads"]));
    job.feed(b"a\nb\nc\n".to_vec());
    assert_eq!(job.finish().ok(), "node 0: a\nnode 1: b\nnode 0: c\n", "{variables:?}");
}

/// The job's exit status is that of the program, even if it ends on another node.
fn check_exit_status(machine: &Machine, variables: &[&str]) {
    for (word, status, at_end) in [
        ("exit", 7, true),
        ("_exit", 6, false),
        ("abort", 134, false),
        ("raise", 130, false),
        ("term", 143, false),
    ] {
        let done = run(machine, variables, &[IMAGE, word]);
        let end = if at_end { "at the end, on node 0\n" } else { "" };
        assert_eq!(done.text(), format!("leaves by {word}\n{end}"), "{variables:?} {word}");
        done.fails_with(status, &[]);
    }
}

#[test]
fn processes_of_host_and_emulator_act_as_one() {
    let Some(machine) = machine(&with_user(), &["one_process"]) else { return };
    for mode in [HYBRID, EXCLUSIVE] {
        run_own_checks(&machine, &[mode, USER], 2);
        check_shared_streams(&machine, &[mode, USER]);
        check_exit_status(&machine, &[mode, USER]);
    }
    // Without other nodes it is an ordinary program.
    run_own_checks(&machine, &[], 1);
    assert!(eventually(|| machine.domains_on("host").is_empty()), "{:?}", machine.domains_on("host"));
    machine.down();
}

#[test]
fn processes_of_virtual_machines_act_as_one() {
    let file = MachineFile::host().with_vm("arm0", "").with_vm("arm1", "");
    let Some(machine) = machine(&file, &["one_process"]) else { return };
    run_own_checks(&machine, &[HYBRID, VM], 2);
    check_shared_streams(&machine, &[HYBRID, VM]);
    check_exit_status(&machine, &[HYBRID, VM]);
    run_own_checks(&machine, &[HYBRID, "OMP_TOMBOLO_NODES=arm0,arm1", PAGES], 3);
    check_shared_streams(&machine, &[HYBRID, VM, PAGES]);
    machine.down();
}
