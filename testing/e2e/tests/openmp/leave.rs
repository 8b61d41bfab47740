//! Signal handlers, and threads that leave calls on other nodes by `longjmp`, exit, cancellation and
//! exceptions. The programs check themselves (`testing/omp/programs`).

use tombolo_e2e::{Machine, MachineFile, eventually};

use crate::migrate::{EXCLUSIVE, HYBRID, PAGES, USER, VM, run, with_user};
use crate::nodes::{compile, machine};

const SPREAD: &str = "OMP_TOMBOLO_PTHREADS=spread";
const OTHERS: &str = "OMP_TOMBOLO_PTHREADS=others";

fn leave<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [&["leave.tbi"], words].concat()
}

/// Signal handlers belong to the whole program; jumps and exits of threads leave calls on other nodes.
fn check_left_calls(machine: &Machine, variables: &[&str]) {
    for word in ["handlers", "jumps", "exits", "main"] {
        let said = run(machine, variables, &leave(&[word])).ok();
        assert_eq!(said, format!("{word}: right\n"), "{variables:?}");
    }
}

/// Threads are cancelled at every wait, and signal handlers interrupt blocking calls.
fn check_cancellation(machine: &Machine, variables: &[&str]) {
    for word in ["cancel", "interrupts"] {
        let said = run(machine, variables, &leave(&[word])).ok();
        assert_eq!(said, format!("{word}: right\n"), "{variables:?}");
    }
}

const IN_HANDLER: &str = "a thread cannot migrate in a signal handler";

#[test]
fn longjmp_leaves_calls_on_emulated_node() {
    let Some(machine) = machine(&with_user(), &["leave"]) else { return };
    for mode in [HYBRID, EXCLUSIVE] {
        check_left_calls(&machine, &[mode, USER]);
        check_cancellation(&machine, &[mode, USER]);
        check_cancellation(&machine, &[mode, USER, OTHERS]);
        check_cancellation(&machine, &[mode, USER, SPREAD]);
    }
    check_left_calls(&machine, &[]);
    check_left_calls(&machine, &[HYBRID]);
    check_cancellation(&machine, &[HYBRID]);
    // Without the run-time, with the C library's implementation alone.
    check_cancellation(&machine, &[]);
    // A migration inside a handler ends the program, on every node.
    for (word, node) in [("moves", "host"), ("moves-there", "arm-user"), ("calls", "host")] {
        let ended = run(&machine, &[HYBRID, USER], &leave(&[word]));
        ended.fails_with(1, &[IN_HANDLER, "where the program reads it"]);
        assert!(eventually(|| machine.domains_on(node).is_empty()), "{word}: {:?}", machine.domains_on(node));
    }
    let stays = "in the handler on 0\nstays: right\n";
    assert_eq!(run(&machine, &[HYBRID, USER], &leave(&["stays"])).ok(), stays);
    for word in ["moves", "calls"] {
        run(&machine, &[], &leave(&[word])).ok();
    }
    assert_eq!(run(&machine, &[], &leave(&["alarm"])).ok(), "alarm: right\n");
    assert!(eventually(|| machine.domains_on("host").is_empty()), "{:?}", machine.domains_on("host"));
    machine.down();
}

#[test]
fn longjmp_leaves_calls_on_virtual_machines() {
    let file = MachineFile::host().with_vm("arm0", "").with_vm("arm1", "");
    let Some(machine) = machine(&file, &["leave"]) else { return };
    check_left_calls(&machine, &[HYBRID, VM]);
    check_cancellation(&machine, &[HYBRID, VM]);
    check_cancellation(&machine, &[HYBRID, VM, OTHERS]);
    // Three nodes, of which two share no memory: jumps cross several nodes.
    let both = [HYBRID, "OMP_TOMBOLO_NODES=arm0,arm1", PAGES];
    check_left_calls(&machine, &both);
    check_cancellation(&machine, &[&both[..], &[SPREAD]].concat());
    machine.down();
}

/// Exceptions are caught on the node where they are thrown or on a caller's node. An uncaught one ends the
/// program as usual, and nothing is left.
fn are_caught(machine: &Machine, on: &str, variables: &[&str], nodes: u32) {
    let begin = ["run", "--on", on];
    let variables: Vec<&str> = variables.iter().flat_map(|variable| ["--env", variable]).collect();
    let run = |word: &str| machine.tombolo([&begin[..], &variables, &["exceptions.tbi", word]].concat());
    assert_eq!(run("all").ok(), format!("all: right on {nodes} nodes\n"), "{on} {variables:?}");
    for (word, thrown) in [("nobody", "'failure'"), ("noexcept", "'int'"), ("thread", "'std::runtime_error'")]
    {
        run(word).fails_with(134, &["terminate called after throwing an instance of", thrown]);
        for node in [on, "host"] {
            let none = || machine.domains_on(node).is_empty();
            assert!(eventually(none), "{word}: {:?}", machine.domains_on(node));
        }
    }
}

#[test]
fn exceptions_leave_calls_on_an_emulated_node() {
    let Some(machine) = machine(&with_user(), &["exceptions"]) else { return };
    are_caught(&machine, "host", &[], 1);
    for mode in [HYBRID, EXCLUSIVE] {
        for place in ["OMP_TOMBOLO_PTHREADS=here", OTHERS] {
            are_caught(&machine, "host", &[mode, USER, place], 2);
        }
        are_caught(&machine, "arm-user", &[mode, "OMP_TOMBOLO_NODES=host", SPREAD], 2);
    }
    machine.down();
}

#[test]
fn exceptions_leave_calls_on_virtual_machines() {
    let file = MachineFile::host().with_vm("arm0", "").with_vm("arm1", "");
    let Some(machine) = machine(&file, &["exceptions"]) else { return };
    are_caught(&machine, "host", &[HYBRID, VM, OTHERS], 2);
    are_caught(&machine, "arm0", &[HYBRID, "OMP_TOMBOLO_NODES=host"], 2);
    are_caught(&machine, "host", &[HYBRID, "OMP_TOMBOLO_NODES=arm0,arm1", PAGES], 3);
    machine.down();
}

/// Output of a program whose main thread creates two objects and ends.
const OBJECTS: [(&str, &str); 2] =
    [("main", "main: right\ndestroyed 2\ndestroyed 1\n"), ("exits", "1 2\ndestroyed 2\ndestroyed 1\n")];

#[test]
fn objects_of_threads_are_destroyed_at_their_end() {
    let Some(machine) = machine(&with_user().with_vm("arm0", ""), &[]) else { return };
    let source = |name: &str| format!("{}/../omp/programs/{name}.cpp", env!("CARGO_MANIFEST_DIR"));
    compile(&machine, &source("thread_objects"), "objects", &[&source("thread_objects_other")]);
    for variables in
        [&[][..], &[HYBRID, USER], &[EXCLUSIVE, USER], &[HYBRID, VM], &[HYBRID, VM, PAGES, SPREAD]]
    {
        let said = run(&machine, variables, &["objects.tbi"]).ok();
        assert!(said.ends_with("threads: right\n"), "{variables:?}: {said}");
        for (word, expected) in OBJECTS {
            let ended = run(&machine, variables, &["objects.tbi", word]);
            assert_eq!(ended.text(), expected, "{variables:?} {word}");
        }
    }
    machine.down();
}
