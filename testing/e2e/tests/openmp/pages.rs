//! OpenMP teams on nodes without common memory: their memory is sent in pages.

use std::fs;

use rustix::process::Signal;
use tombolo_e2e::{Finished, Machine, MachineFile, eventually};

use crate::nodes::{compile, machine};

const PAGES: &str = "OMP_TOMBOLO_MEMORY=pages";
const EXCLUSIVE: &str = "OMP_TOMBOLO=exclusive";
const HYBRID: &str = "OMP_TOMBOLO=hybrid";

fn run(machine: &Machine, on: &str, variables: &[&str], words: &[&str]) -> Finished {
    machine.tombolo(all_words(on, variables, words))
}

fn all_words<'a>(on: &'a str, variables: &[&'a str], words: &[&'a str]) -> Vec<&'a str> {
    let mut all = vec!["run", "--on", on];
    all.extend(variables.iter().flat_map(|variable| ["--env", variable]));
    all.extend(words);
    all
}

#[test]
fn processes_exchanging_pages_form_a_team() {
    let programs = ["atomics", "kernels", "ends"];
    let Some(machine) = machine(&MachineFile::host().with_user("arm-user", "aarch64"), &programs) else {
        return;
    };
    for program in ["atomics", "kernels"] {
        let image = format!("{program}.tbi");
        let said = run(&machine, "host", &[EXCLUSIVE, PAGES, "OMP_NUM_THREADS=3"], &[&image]).ok();
        assert!(said.contains(": right"), "{program}: {said}");
    }
    for (how, status, said) in [
        ("well", 0, &[][..]),
        ("killed", 137, &["the worker on node host was ended by signal 9: the job ends"]),
        ("exit", 7, &[]),
        ("gone", 6, &[]),
        ("stack", 139, &["OMP_STACKSIZE sets its size"]),
        ("heap", 3, &["out of memory: all 64 MiB of the arena are in use"]),
        ("main", 5, &[]),
    ] {
        let variables = [EXCLUSIVE, PAGES, "OMP_TOMBOLO_ARENA=64M"];
        let done = run(&machine, "host", &variables, &["ends.tbi", how]);
        if status == 0 {
            assert_eq!(done.ok(), "2 of 2 workers have a process of their own\n");
        } else {
            done.fails_with(status, said);
        }
    }
    fs::write(machine.folder().join("stays.c"), STAYS).unwrap();
    compile(&machine, "stays.c", "stays", &[]);
    let job = machine.start(all_words("host", &[EXCLUSIVE, PAGES], &["stays.tbi"]));
    job.wait_for("begun\nbegun\nbegun\n");
    let shown = || machine.tombolo(["pages", "--json"]).ok();
    assert!(eventually(|| shown().contains("\"object\": \"begun\"")), "{}", shown());
    let shown = machine.tombolo(["pages"]).ok();
    assert!(shown.lines().any(|line| line.contains("  variables ") && line.contains("begun")), "{shown}");
    job.signal(Signal::TERM);
    drop(job.finish());
    // Emulators have no userfaultfd, and invalid values are refused.
    let variables = [HYBRID, PAGES, "OMP_TOMBOLO_NODES=arm-user"];
    run(&machine, "host", &variables, &["ends.tbi", "well"])
        .fails_with(1, &["node arm-user cannot be in a job whose memory is sent in pages", "userfaultfd"]);
    run(&machine, "host", &[HYBRID, "OMP_TOMBOLO_MEMORY=some"], &["ends.tbi", "well"])
        .fails_with(1, &["OMP_TOMBOLO_MEMORY=some: there are `shared` and `pages`"]);
    // The end of the job may be reported before that of its last worker.
    assert!(eventually(|| machine.domains_on("host").is_empty()), "{:?}", machine.domains_on("host"));
    machine.down();
}

/// Prints that it has started and then runs forever; each thread uses private and shared variables.
const STAYS: &str = r#"
#include <stdio.h>
#include <unistd.h>
static int begun;
int main(void)
{
#pragma omp parallel num_threads(3)
    {
        puts("begun");
        fflush(stdout);
        for (;;) {
#pragma omp atomic
            begun++;
            usleep(1000);
        }
    }
}
"#;

#[test]
fn two_virtual_machines_without_a_common_window_are_a_team() {
    let file = MachineFile::host().with_vm("arm0", "").with_vm("arm1", "");
    let Some(machine) = machine(&file, &["atomics", "kernels"]) else { return };
    fs::write(machine.folder().join("stays.c"), STAYS).unwrap();
    compile(&machine, "stays.c", "stays", &[]);
    let nodes = "OMP_TOMBOLO_NODES=arm0,arm1";
    let variables = [HYBRID, nodes, "OMP_NUM_THREADS=3", "OMP_TOMBOLO_REPORT=1"];
    let done = run(&machine, "host", &variables, &["atomics.tbi"]);
    assert_eq!(done.ok(), "atomics: right\n");
    assert!(done.stderr.contains("tombolo omp: memory: pages sent by messages"), "{done}");
    let done = run(&machine, "arm0", &[HYBRID, "OMP_TOMBOLO_NODES=arm1"], &["kernels.tbi", "cg", "1000"]);
    assert!(done.ok().contains("kernels: right"), "{done}");
    run(&machine, "host", &[HYBRID, nodes, "OMP_TOMBOLO_MEMORY=shared"], &["atomics.tbi"]).fails_with(
        1,
        &["OMP_TOMBOLO_NODES: node arm1 shares no memory with", "no window", "sends its memory in pages"],
    );
    let job = machine.start(all_words("host", &[HYBRID, nodes], &["stays.tbi"]));
    job.wait_for("begun\nbegun\nbegun\n");
    machine.kill(machine.pid_of("arm1"));
    job.finish().fails_with(1, &["the worker on node arm1 was lost with its node"]);
    machine.down();
}

#[test]
fn virtual_machine_without_shared_memory_joins_a_team() {
    let file = MachineFile::host().with_vm("arm0", "").with_socket("host", "arm0");
    let Some(machine) = machine(&file, &["atomics", "kernels"]) else { return };
    let variables = [HYBRID, "OMP_TOMBOLO_NODES=arm0", "OMP_NUM_THREADS=3", "OMP_TOMBOLO_REPORT=1"];
    let done = run(&machine, "host", &variables, &["atomics.tbi"]);
    assert_eq!(done.ok(), "atomics: right\n");
    assert!(done.stderr.contains("tombolo omp: memory: pages sent by messages"), "{done}");
    let done = run(&machine, "host", &variables[..2], &["kernels.tbi", "cg", "1000"]);
    assert!(done.ok().contains("kernels: right"), "{done}");
    let done = run(&machine, "arm0", &[HYBRID, "OMP_TOMBOLO_NODES=host"], &["kernels.tbi", "cg", "1000"]);
    assert!(done.ok().contains("kernels: right"), "{done}");
    fs::write(machine.folder().join("stays.c"), STAYS).unwrap();
    compile(&machine, "stays.c", "stays", &[]);
    let job = machine.start(all_words("host", &variables[..2], &["stays.tbi"]));
    job.wait_for("begun\nbegun\nbegun\n");
    machine.kill(machine.pid_of("arm0"));
    job.finish().fails_with(1, &["the worker on node arm0 was lost with its node"]);
    machine.down();
}
