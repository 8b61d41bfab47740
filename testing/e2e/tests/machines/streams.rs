//! A virtual machine linked to the host only by byte streams: its life cycle, its channels, and the deaths of
//! programs, of the machine and of the root.

use std::time::Instant;

use tombolo_e2e::{DEATH_IS_KNOWN, Machine, MachineFile, eventually, image};

/// Describes a machine with that node, and a node of foreign programs on the host's kernel that it reaches
/// through the host.
fn file() -> MachineFile {
    MachineFile::host().with_vm("arm0", "").with_user("s390x-user", "s390x").with_socket("host", "arm0")
}

fn pingpong(machine: &Machine, on: &str) -> String {
    let image = image("pingpong");
    machine.tombolo(["run", "--on", on, image.to_str().expect("a path in UTF-8")]).ok()
}

#[test]
fn virtual_machine_without_a_window_is_a_node() {
    let machine = Machine::up(&file());
    let node = machine.node("arm0");
    assert_eq!(
        (&node["state"], &node["link"], &node["window_bytes"]),
        (&"up".into(), &"socket".into(), &0.into())
    );
    for (on, said) in [
        ("host,arm0", "aarch64 on arm0"),
        ("arm0,host", "aarch64 on arm0"),
        ("s390x-user,arm0", "s390x on s390x-user"),
        ("arm0,arm0", "aarch64 on arm0"),
    ] {
        let heard = pingpong(&machine, on);
        assert!(heard.contains(said), "{on}: {heard}");
    }
    let answered = || {
        let mut console = machine.start(["console", "arm0", "--for", "1"]);
        console.feed(b"echo $((6 * 7)) on $(uname -m); ls /sys/class/net\n".to_vec());
        console.finish().text().contains("42 on aarch64")
    };
    assert!(eventually(answered), "no answer on its console");
    machine.tombolo(["restart", "arm0", "--force"]).ok();
    assert_eq!(machine.node("arm0")["generation"], 2);
    assert!(pingpong(&machine, "host,arm0").contains("aarch64 on arm0"));
    machine.down();
}

#[test]
fn deaths_hang_up_its_streams() {
    let machine = Machine::up(&file());
    // The program there dies; then the program here; then the machine.
    for victim in ["far", "near", "machine"] {
        let name = format!("held-by-{victim}");
        let far = machine.start_actor("arm0", &["hold", &name]);
        far.wait_for("serving");
        let near = machine.start_actor("host", &["lose-peer", "recv", &name]);
        near.wait_for("connected");
        let since = Instant::now();
        match victim {
            "machine" => machine.kill(machine.pid_of("arm0")),
            _ => {
                let node = if victim == "far" { "arm0" } else { "host" };
                let (id, _) = machine.domains_on(node).remove(0);
                machine.tombolo(["kill", &id, "--signal", "KILL", "--grace", "0"]).ok();
            }
        }
        if victim == "near" {
            near.finish().fails_with(137, &[]);
            let (id, _) = machine.domains_on("arm0").remove(0);
            machine.tombolo(["kill", &id, "--signal", "KILL", "--grace", "0"]).ok();
        } else {
            let said = near.finish();
            assert!(said.ok().contains("peer died"), "{victim}: {said}");
            assert!(since.elapsed() < DEATH_IS_KNOWN, "{victim}: known after {:?}", since.elapsed());
        }
        match victim {
            "machine" => far.finish().fails_with(1, &["on arm0 was lost with its node"]),
            _ => far.finish().fails_with(137, &[]),
        };
    }
    assert!(eventually(|| machine.node("arm0")["state"] == "down"), "{}", machine.node("arm0"));
    assert_eq!(machine.node("arm0")["cause"], "its process was ended by signal 9");
    machine.tombolo(["restart", "arm0"]).ok();
    assert!(pingpong(&machine, "arm0,host").contains("aarch64 on arm0"));
    machine.down();
}

/// A program that does not read blocks no other program.
#[test]
fn stopped_reader_stalls_no_other_stream() {
    let machine = Machine::up(&file());
    let far = machine.start_actor("arm0", &["hold", "held"]);
    far.wait_for("serving");
    let near = machine.start_actor("host", &["lose-peer", "send", "held"]);
    near.wait_for("connected");
    assert!(pingpong(&machine, "host,arm0").contains("aarch64 on arm0"));
    machine.kill(machine.pid_of("arm0"));
    let said = near.finish();
    assert!(said.ok().contains("peer died"), "{said}");
    far.finish().fails_with(1, &["on arm0 was lost with its node"]);
    machine.down();
}
