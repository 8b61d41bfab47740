//! The user's own kernel, root file system and disks, for virtual machines of every instruction set in the
//! kit.

use std::fs;
use std::path::Path;
use std::process::Command;

use tombolo_e2e::{Finished, Machine, MachineFile, has_virtual_machine, image, kit_folder, skipped};

const DISK_BYTES: usize = 1 << 20;

/// Runs a tool on the node.
fn busybox(machine: &Machine, isa: &str, words: &[&str]) -> Finished {
    let tool = kit_folder().join(isa).join("busybox").display().to_string();
    machine.tombolo(["run", "--on", "vm0", &tool].iter().chain(words))
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Copies Debian's kernel as a user's own, with its modules in a folder and a file with their order.
fn put_kernel(folder: &Path, isa: &str) {
    let kit = kit_folder().join(isa);
    fs::copy(kit.join("vmlinuz"), folder.join("kernel")).unwrap();
    let modules = folder.join("modules");
    fs::create_dir(&modules).unwrap();
    let mut order: Vec<String> = Vec::new();
    for part in ["modules", "network-modules"] {
        for name in fs::read_to_string(kit.join(part).join("order")).unwrap().lines() {
            if !order.iter().any(|known| known == name) {
                fs::copy(kit.join(part).join(name), modules.join(name)).unwrap();
                order.push(name.to_owned());
            }
        }
    }
    fs::write(modules.join("order"), order.join("\n") + "\n").unwrap();
}

/// Creates a raw ext4 image that contains a file and, for dynamically linked programs, their libraries.
fn put_root(folder: &Path, isa: &str) {
    let root = folder.join("root");
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::write(root.join("etc/motto"), "on a disk\n").unwrap();
    let libraries = kit_folder().join(isa).join("root");
    if libraries.is_dir() {
        run(Command::new("cp").arg("-a").arg(libraries.join(".")).arg(&root));
    }
    let image = folder.join("root.img");
    run(Command::new("mke2fs").args(["-q", "-t", "ext4", "-d"]).arg(&root).arg(&image).arg("64M"));
}

fn has_mke2fs() -> bool {
    let found = Command::new("mke2fs").arg("-V").output().is_ok();
    if !found {
        skipped("a root file system on a disk: there is no mke2fs (Debian: e2fsprogs)");
    }
    found
}

/// Brings up a machine whose node has these settings; its files are beside the machine file.
fn up(isa: &str, settings: &str) -> Machine {
    let settings = format!("memory_mib = 256\n{settings}");
    let mut machine = Machine::new(&MachineFile::host().with_node("vm0", "vm", isa, &settings));
    put_kernel(machine.folder(), isa);
    put_root(machine.folder(), isa);
    let mut disk = vec![0; DISK_BYTES];
    disk[..12].copy_from_slice(b"by the host\n");
    fs::write(machine.folder().join("data.img"), disk).unwrap();
    machine.bring_up();
    machine
}

fn check_disks(machine: &Machine, isa: &str, disk: &str) {
    assert_eq!(busybox(machine, isa, &["head", "-n", "1", disk]).ok(), "by the host\n");
    let line = format!("echo by the node | dd of={disk} bs=512 seek=4 conv=fsync,notrunc 2>&1");
    busybox(machine, isa, &["sh", "-c", &line]).ok();
    let bytes = fs::read(machine.folder().join("data.img")).unwrap();
    assert_eq!((bytes.len(), &bytes[2048..2060]), (DISK_BYTES, b"by the node\n".as_slice()));
}

/// Checks messages and thus the window's interrupts, which modules of that kernel deliver to programs.
fn check_messages(machine: &Machine) {
    let pingpong = image("pingpong").display().to_string();
    let said = machine.tombolo(["run", "--on", "host,vm0", &pingpong]).ok();
    assert!(said.contains(" on vm0"), "{said}");
}

#[test]
fn virtual_machine_boots_users_kernel_and_root() {
    if !has_mke2fs() {
        return;
    }
    for isa in ["aarch64", "x86_64", "riscv64"].into_iter().filter(|isa| has_virtual_machine(isa)) {
        let all = "kernel = \"kernel\"\nmodules = \"modules\"\nroot = \"root.img\"\ndisks = [\"data.img\"]";
        let machine = up(isa, all);
        assert_eq!(busybox(&machine, isa, &["cat", "/etc/motto"]).ok(), "on a disk\n");
        check_disks(&machine, isa, "/dev/vdb");
        check_messages(&machine);
        // The node's writes to its root survive a restart.
        busybox(&machine, isa, &["sh", "-c", "echo kept > /etc/kept && sync"]).ok();
        machine.tombolo(["restart", "vm0", "--force"]).ok();
        assert_eq!(busybox(&machine, isa, &["cat", "/etc/kept"]).ok(), "kept\n");
        machine.down();
    }
}

/// The kit's kernel has the needed drivers and the file system.
#[test]
fn users_root_boots_with_the_kits_kernel() {
    if !has_mke2fs() {
        return;
    }
    for isa in ["aarch64", "x86_64", "riscv64"].into_iter().filter(|isa| has_virtual_machine(isa)) {
        let machine = up(isa, "root = \"root.img\"\ndisks = [\"data.img\"]");
        assert_eq!(busybox(&machine, isa, &["cat", "/etc/motto"]).ok(), "on a disk\n");
        check_disks(&machine, isa, "/dev/vdb");
        check_messages(&machine);
        machine.down();
    }
}

#[test]
fn missing_kernel_or_root_is_named() {
    for (setting, said) in [
        ("kernel = \"none\"", "its kernel"),
        ("kernel = \"machine.toml\"\nmodules = \"none\"", "its modules need the file"),
        ("root = \"none\"", "none"),
        ("disks = [\"none\"]", "none"),
    ] {
        let machine = Machine::new(&MachineFile::host().with_vm("vm0", setting));
        let file = machine.file().to_owned();
        machine.tombolo(["up".as_ref(), file.as_os_str()]).fails_with(1, &["vm0", said]);
        machine.has_ended();
    }
}
