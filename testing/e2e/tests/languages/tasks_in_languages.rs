//! Tasks whose starters and workers are programs in Rust, C and Python.

use tombolo_e2e::c::{AARCH64, HOST, S390X, Toolchain};
use tombolo_e2e::python::Python;
use tombolo_e2e::{Machine, MachineFile, Running, actor_image, eventually};

/// Asserts a starter's output about workers in this language on this node.
#[track_caller]
fn has_all(said: &str, language: &str, node: &str) {
    let why = if language == "python" { "ValueError: on purpose" } else { "on purpose" };
    for line in [
        "square 49".to_owned(),
        format!("described {language} {node} hällo 14"),
        format!("failed: task 'fails' on {node} failed: {why}"),
        "cancelled: task 'forever' was cancelled".to_owned(),
        format!("unknown: the worker on {node} has no function 'square' of these types"),
        "sum 110 of 20".to_owned(),
        "nested 285".to_owned(),
        format!("lost: task 'die' is lost: its worker on {node} has ended (domain "),
        "again 100".to_owned(),
    ] {
        assert!(said.contains(&line), "no '{line}' in: {said}");
    }
}

fn compiled(machine: &Machine, toolchain: Toolchain, node: &str) -> Option<String> {
    let (library, program) = (toolchain.library()?, machine.folder().join(format!("tasks-{node}")));
    toolchain.build(&["testing/e2e/c/tasks.c"], &library, &program);
    Some(program.display().to_string())
}

#[test]
fn starters_and_workers_may_be_in_rust_c_and_python() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", "").with_user("z0", "s390x"));
    let serving = machine.start(["hubs", "serve", "tasks-values:fifo:2", "--on", "host"]);
    serving.wait_for("ready: ");
    let in_c = compiled(&machine, HOST, "host").expect("this test depends on it");
    let rust = actor_image().display().to_string();
    let before = machine.domains_on("host").len();
    let c_starts = |on: &str, worker: &[&str]| {
        machine.tombolo(["run", &in_c, on, "tasks-values"].iter().chain(worker)).ok()
    };
    let rust_starts = |on: &str, worker: &[&str]| {
        machine.tombolo(["run", &rust, "tasks", on, "tasks-values"].iter().chain(worker)).ok()
    };
    has_all(&c_starts("host", &[]), "c", "host");
    has_all(&c_starts("z0", &[&rust]), "rust", "z0");
    has_all(&rust_starts("host", &[&in_c]), "c", "host");
    for (toolchain, node) in [(AARCH64, "arm0"), (S390X, "z0")] {
        if let Some(program) = compiled(&machine, toolchain, node) {
            has_all(&rust_starts(node, &[&program]), "c", node);
            has_all(&c_starts(node, &[&program]), "c", node);
        }
    }
    if let Some(python) = Python::of(&machine) {
        let starts = |words: &[&str]| {
            let mut command = python.command(&machine);
            Running::start(command.arg("task_functions.py").args(words)).finish().ok()
        };
        has_all(&starts(&["host", "tasks-values"]), "python", "host");
        has_all(&starts(&["host", "tasks-values", &in_c]), "c", "host");
        has_all(&starts(&["arm0", "tasks-values", &rust]), "rust", "arm0");
        let script = python.script("task_functions.py");
        let worker = script.iter().map(String::as_str).collect::<Vec<_>>();
        has_all(&rust_starts("host", &worker), "python", "host");
        has_all(&c_starts("host", &worker), "python", "host");
    }
    assert!(eventually(|| machine.domains_on("host").len() == before), "nothing of it is left");
    serving.signal(rustix::process::Signal::INT);
    serving.finish().ok();
    machine.down();
}
