//! One waitset over channels from every kind of node; placement and priority of programs.

use tombolo_e2e::{Machine, MachineFile};

/// Channels per node: fewer than the 24 across windows that one domain may open.
const EACH: &str = "20";

#[test]
fn one_waitset_serves_every_kind_of_node_at_once() {
    let machine = Machine::up(
        &MachineFile::host()
            .with_vm("arm0", "")
            .with_user("arm-user", "aarch64")
            .with_user("s390x-user", "s390x"),
    );
    // The server runs on the host, then on a foreign node; some clients are killed in the middle.
    for server_node in ["host", "s390x-user"] {
        let name = format!("everybody/{server_node}");
        let server = machine.start_actor(server_node, &["serve-all", &name, "100"]);
        server.wait_for("serving");
        let victims = machine.start_actor("host:1", &["use-many", &name, EACH, "2", "keep"]);
        victims.wait_for("used");
        let said =
            machine.actor("host,arm0,arm-user,s390x-user", &["use-many", &name, EACH, "20", "close"]).ok();
        assert_eq!(said.matches("used").count(), 4, "{said}");
        let (_, victim) = machine.domains_on("host").pop().expect("the victims' domain");
        machine.kill(victim);
        server.wait_for("at most ");
        let said = server.finish().ok();
        drop(victims);
        for end in
            ["arm-user closed 20", "arm0 closed 20", "host closed 20", "host died 20", "s390x-user closed 20"]
        {
            assert!(said.contains(end), "no {end:?} in {said}");
        }
        assert!(said.contains("1640 echoes"), "{said}");
    }
    machine.down();
}

#[test]
fn program_runs_on_its_processors_or_is_refused() {
    let machine = Machine::up(&MachineFile::host().with_user("arm-user", "aarch64"));
    let status = "grep Cpus_allowed_list /proc/self/status; chrt -p $$ || true";
    let said = machine.tombolo(["run", "--pin", "0", "/bin/sh", "-c", status]).ok();
    assert!(said.contains("Cpus_allowed_list:\t0\n"), "{said}");
    machine.tombolo(["run", "--pin", "1000", "/bin/sh", "-c", status]).fails_with(1, &["processor 1000"]);
    // The user running the tests may or may not be allowed real-time priorities.
    let prioritised = machine.tombolo(["run", "--priority", "7", "/bin/sh", "-c", status]);
    if prioritised.status == 0 {
        let said = prioritised.text();
        assert!(said.contains("SCHED_FIFO") || !said.contains("SCHED_"), "{said}");
    } else {
        prioritised.fails_with(1, &["priority 7", "RLIMIT_RTPRIO"]);
    }
    machine.down();
}
