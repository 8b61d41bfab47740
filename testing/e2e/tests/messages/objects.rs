//! Shared objects of ranks on the host, on foreign processors of the other byte order, and across windows,
//! coherent and not; and a rank that dies while it writes.

use tombolo_e2e::{Machine, MachineFile};

#[test]
fn ranks_share_objects_on_all_nodes_and_survive_a_writer() {
    let file = MachineFile::host()
        .with_vm("arm0", "")
        .with_vm("often", "coherence = \"flush\"\ncache_seed = 2\nevict_one_in = 4")
        .with_user("big", "s390x");
    let machine = Machine::up(&file);
    for on in ["host:2,arm0:1,big:1", "host:1,often:1,big:1"] {
        let said = machine.actor(on, &["objects", "12"]).ok();
        let ranks = on.matches(':').count() + usize::from(on.contains(":2"));
        assert_eq!(said.matches("agrees").count(), ranks, "{on}: {said}");
    }
    // The last rank dies: on the host, and across either window.
    for on in ["host:2,arm0:1", "host:1,often:1", "often:1,host:2"] {
        let job = machine.actor(on, &["objects-die"]);
        let said = job.text();
        let survivors = on.matches(':').count() + usize::from(on.contains(":2")) - 1;
        assert_eq!(said.matches("lives on").count(), survivors, "{on}: {said}");
        assert!(!said.contains("agrees"), "{said}");
    }
    assert_eq!(machine.node("often")["window_used_bytes"], 0, "what jobs took of the window came back");
    machine.down();
}
