//! Builds programs that tests on machines run and the kit lacks, ahead of those tests and without a machine.
//!
//! Otherwise those tests would build them while a machine is up and idle.

use std::fs;
use std::path::Path;

use tombolo_e2e::c::put_into_kit;
use tombolo_e2e::python::GuestPython;
use tombolo_e2e::{Machine, MachineFile, actor_image, outside, restartable_actor_image};

/// The instruction sets of the machine in the quick start.
const ISAS: [&str; 2] = ["x86_64", "aarch64"];

/// Asserts what `tombolo image inspect` reports of an image.
fn has_programs(machine: &Machine, image: &Path, restartable: bool) {
    let report = machine.json(&["image", "inspect", &image.display().to_string()]);
    assert_eq!(report["restartable"], restartable, "{report}");
    let programs = report["programs"].as_array().expect("programs");
    for isa in ISAS {
        assert!(programs.iter().any(|program| program["isa"] == isa), "{isa}: {report}");
    }
}

#[test]
fn actor_images_have_all_programs() {
    let machine = Machine::new(&MachineFile::host());
    has_programs(&machine, &actor_image(), false);
    has_programs(&machine, &restartable_actor_image(), true);
}

#[test]
fn libraries_for_c_are_in_the_kit() {
    ISAS.iter().for_each(|isa| put_into_kit(isa));
}

#[test]
fn libraries_for_python_are_built_for_arm() {
    // The test that needs it reports what is missing.
    let _ = GuestPython::of_arm();
}

#[test]
fn projects_outside_the_tree_are_built_for_two_instruction_sets() {
    let machine = Machine::new(&MachineFile::host());
    machine.tombolo(["new", "there-and-back", "--typed"]).ok();
    let project = machine.folder().join("there-and-back");
    let mut build = machine.command();
    build.current_dir(&project).envs(outside::cargo_settings()).args(["build", "--isa", &ISAS.join(",")]);
    let output = build.output().expect("the command runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let image = project.join("there-and-back.tbi");
    assert!(fs::metadata(&image).is_ok(), "{} is not there", image.display());
    has_programs(&machine, &image, false);
}
