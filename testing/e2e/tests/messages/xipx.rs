//! Message devices between the host, foreign processors of the other byte order, and across windows, coherent
//! and not; programs that use devices served by `tombolo xipx`; and deaths of nodes and programs.

use rustix::process::Signal;
use tombolo_e2e::{Machine, MachineFile, Running, actor_image};

fn machine() -> Machine {
    let file = MachineFile::host()
        .with_vm("arm0", "")
        .with_vm("often", "coherence = \"flush\"\ncache_seed = 2\nevict_one_in = 4")
        .with_user("big", "s390x");
    Machine::up(&file)
}

#[test]
fn devices_deliver_between_all_nodes_despite_deaths() {
    let machine = machine();
    for (on, nodes) in [("host:3", 3), ("host:1,arm0:1,big:1", 3), ("often:1,host:1,big:1", 3)] {
        let said = machine.actor(on, &["xipx", "15"]).ok();
        assert_eq!(said.matches("all as they were sent").count(), nodes, "{on}: {said}");
    }
    let actor = actor_image().display().to_string();
    for (on, survivors) in [("host:3", 2), ("host:2,arm0:1", 2), ("host:1,often:1", 1), ("host:2,big:1", 2)] {
        let job = machine.tombolo(["run", "--keep-going", "--on", on, &actor, "xipx-die"]);
        job.fails_with(137, &["was killed by SIGKILL"]);
        assert_eq!(job.text().matches("lives on").count(), survivors, "{on}: {job}");
    }
    let apart = machine.actor("arm0:1,often:1", &["xipx", "1"]);
    apart.fails_with(1, &["no window is reached by all nodes with ranks (arm0, often)"]);
    served(&machine);
    assert_eq!(machine.node("often")["window_used_bytes"], 0, "what jobs took of the window came back");
    machine.down();
}

fn answers(machine: &Machine, on: &str, channel: &str) -> Running {
    let program = machine.start_actor(on, &["xipx-answer", "xipx", channel]);
    program.wait_for("open: channel");
    program
}

/// Runs programs that only use the device's socket, two at a time on one node.
fn served(machine: &Machine) {
    let devices = machine.start(["xipx", "--on", "host,often,big", "--fifo", "1024"]);
    for node in 0..3 {
        devices.wait_for(&format!("ready: node {node} of 3"));
    }
    let (one, other) = (answers(machine, "often", "7"), answers(machine, "often", "8"));
    for (on, channel) in [("host", "7"), ("big", "8"), ("host", "8"), ("often", "7")] {
        let said = machine.actor(on, &["xipx-ask", "xipx", "1", channel, on]).ok();
        assert!(said.contains(&format!("answered: {on}")), "{on}: {said}");
    }
    let taken = machine.actor("often", &["xipx-answer", "xipx", "7"]);
    taken.fails_with(1, &["channel 7 of node 1 (often) is in use"]);
    let long = "x".repeat(497);
    let words = ["xipx-ask", "xipx", "1", "7", &long];
    machine.actor("host", &words).fails_with(1, &["a message of 497 bytes is too long"]);
    let twice = machine.tombolo(["xipx", "--on", "host"]);
    twice.fails_with(1, &["use another group (--group)"]);
    // An interrupted program frees its channel; so does one that exits.
    one.signal(Signal::INT);
    one.finish().fails_with(130, &[]);
    machine.actor("host", &["xipx-ask", "xipx", "1", "8", "stop"]).ok();
    other.finish().ok();
    let again = answers(machine, "often", "7");
    machine.actor("big", &["xipx-ask", "xipx", "1", "7", "stop"]).ok();
    again.finish().ok();
    devices.signal(Signal::INT);
    devices.finish().fails_with(130, &[]);
}
