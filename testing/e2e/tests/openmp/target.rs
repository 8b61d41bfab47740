//! `target` regions on nodes of a machine, and data replicated on a node. The programs check themselves
//! (`testing/omp/programs`).

use std::fs;

use tombolo_e2e::{Finished, Machine, MachineFile, omp};

/// Brings up a machine with these nodes and compiles programs into its folder.
fn machine(file: &MachineFile, names: &[&str]) -> Option<Machine> {
    if !omp::can_compile() {
        return None;
    }
    let mut machine = Machine::new(file);
    let programs = concat!(env!("CARGO_MANIFEST_DIR"), "/../omp/programs");
    for name in names.iter().chain(&["check.h"]) {
        fs::copy(format!("{programs}/{name}"), machine.folder().join(name)).unwrap();
    }
    for name in names {
        let image = name.replace(".c", ".tbi");
        machine.tombolo(["ompcc", "-O2", "-fopenmp", "-Wall", name, "-o", &image]).ok();
    }
    machine.bring_up();
    Some(machine)
}

/// Runs a program on the host with environment variables.
fn run(machine: &Machine, variables: &[&str], words: &[&str]) -> Finished {
    let mut all = vec!["run", "--on", "host"];
    for variable in ["OMP_NUM_THREADS=4"].iter().chain(variables) {
        all.extend(["-e", variable]);
    }
    all.extend(words);
    machine.tombolo(all)
}

fn with_user() -> MachineFile {
    MachineFile::host().with_user("arm-user", "aarch64")
}

const HYBRID: &str = "OMP_TOMBOLO=hybrid";
const EXCLUSIVE: &str = "OMP_TOMBOLO=exclusive";
const ARM: &str = "OMP_TOMBOLO_NODES=arm-user";
const COPY: &str = "OMP_TOMBOLO_TARGET=copy";

#[test]
fn regions_and_data_are_on_the_node_that_a_device_is() {
    let Some(machine) = machine(&with_user(), &["target.c"]) else { return };
    for workers in [HYBRID, EXCLUSIVE] {
        assert_eq!(run(&machine, &[workers, ARM], &["target.tbi", "share", "1"]).ok(), "ok\n", "{workers}");
        let copied = run(&machine, &[workers, ARM, COPY], &["target.tbi", "copy", "1"]).ok();
        assert_eq!(copied, "ok\n", "{workers}");
    }
    let reported = run(&machine, &[HYBRID, ARM, COPY, "OMP_TOMBOLO_REPORT=1"], &["target.tbi", "copy", "1"]);
    reported.ok();
    assert!(
        reported.stderr.contains("device 0 (node arm-user): ")
            && reported.stderr.contains(" bytes moved back"),
        "{reported}"
    );
    machine.down();
}

#[test]
fn each_node_is_a_device_of_its_own() {
    let file = with_user().with_user("arm-other", "aarch64");
    let Some(machine) = machine(&file, &["target.c"]) else { return };
    let nodes = "OMP_TOMBOLO_NODES=arm-user,arm-other";
    assert_eq!(run(&machine, &[HYBRID, nodes], &["target.tbi", "share", "2"]).ok(), "ok\n");
    assert_eq!(run(&machine, &[HYBRID, nodes, COPY], &["target.tbi", "copy", "2"]).ok(), "ok\n");
    machine.down();
}

/// A program with invalid constructs, selected by its argument.
const WRONG: &str = r#"
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tombolo_omp.h>
static int data[100];
int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    if (strcmp(what, "number") == 0) {
#pragma omp target device(7)
        data[0] = 1;
    } else if (strcmp(what, "part") == 0) {
#pragma omp target enter data map(to : data[0:10])
#pragma omp target enter data map(to : data[5:10])
    } else if (strcmp(what, "large") == 0) {
        char *much = malloc(16);
        size_t bytes = (size_t)1 << 46;
#pragma omp target map(alloc : much[0:bytes])
        much[0] = 1;
    } else if (strcmp(what, "name") == 0) {
        char name[64] = "";
        int length = tombolo_omp_device_name ? tombolo_omp_device_name(0, name, sizeof name) : -2;
        printf("%d %s %d\n", length, name, tombolo_omp_device_name(7, NULL, 0));
    } else {
        int here = 0;
#pragma omp target map(from : here)
        here = omp_is_initial_device();
        printf("%d %d\n", omp_get_num_devices(), here);
    }
    return 0;
}
"#;

#[test]
fn unsupported_constructs_are_reported_by_name() {
    let Some(machine) = machine(&with_user(), &[]) else { return };
    fs::write(machine.folder().join("wrong.c"), WRONG).unwrap();
    machine.tombolo(["ompcc", "-O2", "-fopenmp", "wrong.c", "-o", "wrong.tbi"]).ok();
    let wrong = |variables: &[&str], what: &str| run(&machine, variables, &["wrong.tbi", what]);
    wrong(&[HYBRID, ARM], "number").fails_with(
        1,
        &["target: device 7 does not exist: the other nodes of the job are devices 0 to 0, and the host is 1"],
    );
    wrong(&[HYBRID, ARM, COPY], "part")
        .fails_with(1, &["target enter data: device 0 (node arm-user): ", "can neither grow"]);
    wrong(&[HYBRID, ARM, COPY], "large").fails_with(
        1,
        &["target: device 0 (node arm-user): out of memory: the device cannot allocate 70368744177664 bytes"],
    );
    assert_eq!(wrong(&[HYBRID, ARM], "name").ok(), "8 arm-user -1\n");
    assert_eq!(wrong(&[HYBRID, ARM], "").ok(), "1 0\n");
    // Without other nodes, or with offloading disabled, everything runs on the host.
    assert_eq!(wrong(&[], "").ok(), "0 1\n");
    assert_eq!(wrong(&[HYBRID, ARM, "OMP_TARGET_OFFLOAD=disabled"], "").ok(), "0 1\n");
    wrong(&["OMP_TARGET_OFFLOAD=mandatory"], "").fails_with(1, &["the host is the only device"]);
    machine.down();
}

#[test]
fn node_reads_its_own_copy_until_shared_again() {
    let file = with_user().with_vm("arm0", "window_mib = 64");
    let Some(machine) = machine(&file, &["replicate.c", "target.c"]) else { return };
    let window = "OMP_TOMBOLO_NODES=arm-user,arm0";
    let right = run(&machine, &[HYBRID, window], &["replicate.tbi"]).ok();
    assert!(right.ends_with("right\n"), "{right}");
    let wrote = run(&machine, &[HYBRID, window], &["replicate.tbi", "write"]);
    assert!(wrote.status != 0, "{wrote}");
    assert!(wrote.stderr.contains("writes to data that tombolo_omp_replicate has made read-only"), "{wrote}");
    for (mode, variables) in [("share", &[HYBRID, window][..]), ("copy", &[HYBRID, window, COPY])] {
        assert_eq!(run(&machine, variables, &["target.tbi", mode, "2"]).ok(), "ok\n", "{mode}");
    }
    machine.down();
}
