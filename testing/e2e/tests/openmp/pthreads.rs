//! Programs that only use POSIX threads, which start on other nodes. The programs check themselves
//! (`testing/omp/programs`).

use tombolo_e2e::{MachineFile, eventually};

use crate::migrate::{EXCLUSIVE, HYBRID, PAGES, USER, VM, run, with_user};
use crate::nodes::machine;

const SPREAD: &str = "OMP_TOMBOLO_PTHREADS=spread";
const OTHERS: &str = "OMP_TOMBOLO_PTHREADS=others";

const KERNELS: [&[&str]; 3] = [&["jacobi", "100", "3", "20"], &["fft", "1024", "3"], &["lu", "48", "3"]];

fn kernel<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [&["pthread_kernels.tbi"], words].concat()
}

#[test]
fn threads_start_on_a_node_of_another_isa() {
    let Some(machine) = machine(&with_user(), &["pthread_calls", "pthread_kernels", "own_names"]) else {
        return;
    };
    for mode in [HYBRID, EXCLUSIVE] {
        for (place, nodes) in [("OMP_TOMBOLO_PTHREADS=here", "0"), (SPREAD, "0 1"), (OTHERS, "1")] {
            let said = run(&machine, &[mode, USER, place], &["pthread_calls.tbi"]).ok();
            assert_eq!(said, format!("calls: right on nodes {nodes}\n"), "{mode} {place}");
        }
        for words in KERNELS {
            let said = run(&machine, &[mode, USER, SPREAD], &kernel(words)).ok();
            assert_eq!(said, format!("{}: right, 2 instruction sets\n", words[0]), "{mode}");
        }
        assert_eq!(
            run(&machine, &[mode, USER], &["pthread_calls.tbi", "many"]).ok(),
            "many: right\n",
            "{mode}"
        );
        assert_eq!(run(&machine, &[mode, USER], &["own_names.tbi"]).ok(), "own names: right\n", "{mode}");
    }
    // Threads outlive the main thread, and a call that ends the program works from any node.
    let calls = |word: &str| run(&machine, &[HYBRID, USER, OTHERS], &["pthread_calls.tbi", word]);
    assert_eq!(calls("last").ok(), "last: right\n");
    calls("fail").fails_with(9, &[]);
    // Without other nodes or without the run-time it is an ordinary program.
    for variables in [&[OTHERS][..], &[HYBRID, OTHERS], &[]] {
        assert_eq!(run(&machine, variables, &["pthread_calls.tbi"]).ok(), "calls: right on nodes 0\n");
        let said = run(&machine, variables, &kernel(KERNELS[2])).ok();
        assert_eq!(said, "lu: right, 1 instruction sets\n");
    }
    let wrong = [HYBRID, USER, "OMP_TOMBOLO_PTHREADS=everywhere"];
    run(&machine, &wrong, &["pthread_calls.tbi"]).fails_with(1, &["`here`, `spread` and `others`"]);
    assert!(eventually(|| machine.domains_on("host").is_empty()), "{:?}", machine.domains_on("host"));
    machine.down();
}

#[test]
fn threads_start_on_virtual_machines() {
    let file = MachineFile::host().with_vm("arm0", "").with_vm("arm1", "");
    let Some(machine) = machine(&file, &["pthread_calls", "pthread_kernels"]) else { return };
    assert_eq!(
        run(&machine, &[HYBRID, VM, OTHERS], &["pthread_calls.tbi"]).ok(),
        "calls: right on nodes 1\n"
    );
    for words in KERNELS {
        let said = run(&machine, &[HYBRID, VM, SPREAD], &kernel(words)).ok();
        assert_eq!(said, format!("{}: right, 2 instruction sets\n", words[0]));
        // Two nodes that share no memory: everything is sent in pages.
        let both = [HYBRID, "OMP_TOMBOLO_NODES=arm0,arm1", OTHERS, PAGES];
        let few = [&words[..2], &["2", "2"]].concat();
        let said = run(&machine, &both, &kernel(&few)).ok();
        assert_eq!(said, format!("{}: right, 1 instruction sets\n", words[0]), "pages");
    }
    machine.down();
}
