//! The memory between the host and a node of every kind is what the protocols rest on, and one that is not is seen.

use std::os::unix::fs::PermissionsExt;

use tombolo_e2e::{Finished, Machine, MachineFile, image};

fn run(machine: &Machine, node: &str) -> Finished {
    let image = image("litmus").display().to_string();
    machine.tombolo(["run", "--on", &format!("host,{node}"), &image])
}

fn is_sound(machine: &Machine, node: &str) {
    let said = run(machine, node).ok();
    assert!(said.contains("0 of 400000 lost") && said.contains(&format!("with {node}")), "{said}");
}

#[test]
fn boards_are_sound() {
    let file = MachineFile::host().with_board("arm", "aarch64", "").with_board("riscv", "riscv64", "");
    let machine = Machine::up(&file);
    is_sound(&machine, "arm");
    is_sound(&machine, "riscv");
    machine.down();
}

#[test]
fn foreign_programs_on_this_kernel_are_sound() {
    let nodes = ["aarch64", "riscv64", "s390x"];
    let file =
        nodes.iter().fold(MachineFile::host(), |file, isa| file.with_user(&format!("{isa}-user"), isa));
    let machine = Machine::up(&file);
    nodes.iter().for_each(|isa| is_sound(&machine, &format!("{isa}-user")));
    machine.down();
}

#[test]
fn a_virtual_machine_is_sound() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", ""));
    is_sound(&machine, "arm0");
    machine.down();
}

/// What this project never does, done on purpose: a board that can only ever have one processor.
#[test]
fn a_wrong_emulator_setting_is_seen() {
    let script = std::env::temp_dir().join(format!("tombolo-one-processor-{}", std::process::id()));
    let text = "#!/bin/sh\nfor word; do shift; [ \"$word\" = 1,maxcpus=2 ] && word=1; set -- \"$@\" \"$word\"; done\n\
                exec qemu-system-aarch64 \"$@\"\n";
    std::fs::write(&script, text).expect("a script");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("it can be run");
    let emulator = format!("emulator = \"{}\"", script.display());
    let machine = Machine::up(&MachineFile::host().with_board("wrong", "aarch64", &emulator));
    run(&machine, "wrong").fails_with(1, &["cannot be trusted", "maxcpus=2"]);
    machine.down();
    std::fs::remove_file(&script).expect("it is ours");
}
