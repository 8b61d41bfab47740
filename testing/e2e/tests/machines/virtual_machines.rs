//! Virtual machines of instruction sets other than Arm. Only what is specific to them is tested here. Their
//! kernels are in the kit only after `cargo xtask kit --vm ISA`.

use std::time::Instant;

use tombolo_e2e::{DEATH_IS_KNOWN, Machine, MachineFile, eventually, has_virtual_machine, image};

const ISAS: [&str; 2] = ["x86_64", "riscv64"];

/// Runs programs, uses the console, kills a program and the node, and restarts it.
#[test]
fn virtual_machine_of_another_isa_is_a_node() {
    for isa in ISAS.into_iter().filter(|isa| has_virtual_machine(isa)) {
        let machine = Machine::up(&MachineFile::host().with_node("vm0", "vm", isa, "memory_mib = 256"));
        exchanges_messages(&machine, isa);
        check_console(&machine, isa);
        check_death_notice(&machine);
        machine.tombolo(["restart", "vm0"]).ok();
        assert_eq!(machine.node("vm0")["generation"], 2);
        exchanges_messages(&machine, isa);
        machine.down();
    }
}

fn exchanges_messages(machine: &Machine, isa: &str) {
    let pingpong = image("pingpong");
    let path = pingpong.to_str().expect("a path in UTF-8");
    let said = machine.tombolo(["run", "--on", "host,vm0", path]).ok();
    assert!(said.contains(&format!("{isa} on vm0")), "{said}");
    // A sleeping receiver on either side, which interrupts or polling must wake.
    let far = machine.start_actor("vm0", &["serve", "sleepers", "64", "256", "0"]);
    far.wait_for("serving");
    let near = machine.start_actor("host", &["lose-peer", "traffic", "sleepers"]);
    near.wait_for("connected");
    let received = || {
        let channels = machine.json(&["channels"])["channels"].as_array().expect("channels").clone();
        channels.iter().all(|channel| channel["received"].as_u64().unwrap_or(0) > 100) && !channels.is_empty()
    };
    assert!(eventually(received), "{:?}", machine.json(&["channels"]));
    let (id, _) = machine.domains_on("vm0").remove(0);
    let since = Instant::now();
    machine.tombolo(["kill", &id, "--signal", "KILL", "--grace", "0"]).ok();
    let said = near.finish();
    assert!(said.ok().contains("peer died"), "{said}");
    assert!(since.elapsed() < DEATH_IS_KNOWN, "known after {:?}", since.elapsed());
    far.finish().fails_with(137, &["SIGKILL"]);
}

fn check_console(machine: &Machine, isa: &str) {
    let answered = || {
        let mut console = machine.start(["console", "vm0", "--for", "1"]);
        console.feed(b"echo $((6 * 7)) on $(uname -m)\n".to_vec());
        console.finish().text().contains(&format!("42 on {isa}"))
    };
    assert!(eventually(answered), "no answer on the console of {isa}");
}

/// Kills the emulator while a program on the host waits for a message from the node.
fn check_death_notice(machine: &Machine) {
    let far = machine.start_actor("vm0", &["hold", "held"]);
    far.wait_for("serving");
    let near = machine.start_actor("host", &["lose-peer", "recv", "held"]);
    near.wait_for("connected");
    let since = Instant::now();
    machine.kill(machine.pid_of("vm0"));
    let said = near.finish();
    assert!(said.ok().contains("peer died"), "{said}");
    assert!(since.elapsed() < DEATH_IS_KNOWN, "known after {:?}", since.elapsed());
    far.finish().fails_with(137, &[]);
    assert!(eventually(|| machine.node("vm0")["state"] == "down"), "{}", machine.node("vm0"));
}

/// The node comes up if KVM works. Where guests hang despite the device, as in some virtual machines, or
/// the emulator cannot use it, the node is given up with a message.
#[test]
fn kvm_node_comes_up_or_times_out() {
    let isa = std::env::consts::ARCH;
    if !has_virtual_machine(isa) {
        return;
    }
    let settings = "memory_mib = 256\naccelerator = \"kvm\"\ncpu = \"qemu64\"";
    let machine = Machine::new(&MachineFile::host().with_node("vm0", "vm", isa, settings));
    let file = machine.file().to_owned();
    let up = machine.tombolo(["up".as_ref(), file.as_os_str()]);
    if up.status == 0 {
        exchanges_messages(&machine, isa);
        machine.down();
        return;
    }
    up.fails_with(1, &["node vm0 did not come up"]);
    let said = up.to_string();
    let causes = ["accelerator = \"tcg\"", "its process was ended"];
    assert!(causes.iter().any(|cause| said.contains(cause)), "{said}");
    machine.assert_gone();
}

/// If the kit lacks a kernel, the error names the command that fetches it.
#[test]
fn a_kit_without_the_kernel_says_what_fetches_it() {
    for isa in ISAS {
        let machine = Machine::new(&MachineFile::host().with_node("vm0", "vm", isa, ""));
        let kit = machine.folder().join("kit");
        std::fs::create_dir_all(kit.join(isa)).expect("a folder");
        let mut command = machine.command();
        command.arg("up").arg(machine.file()).env("TOMBOLO_KIT", &kit);
        let said = tombolo_e2e::Running::start(&mut command).finish();
        said.fails_with(1, &["a Linux kernel", &format!("cargo xtask kit --vm {isa}")]);
        machine.has_ended();
    }
}
