//! Shared objects of ranks on the host, on foreign processors of the other byte order, and across windows,
//! coherent and not; and a rank that dies during a write.

use tombolo_e2e::{Machine, MachineFile, actor_image};

#[test]
fn ranks_share_objects_on_all_nodes_and_survive_a_writer() {
    let file = MachineFile::host()
        .with_vm("arm0", "")
        .with_vm("often", "coherence = \"flush\"\ncache_seed = 2\nevict_one_in = 4")
        .with_user("big", "s390x");
    let machine = Machine::up(&file);
    for (on, ranks) in [("host:2,arm0:1,big:1", 4), ("host:1,often:1,big:1", 3)] {
        let said = machine.actor(on, &["objects", "12"]).ok();
        assert_eq!(said.matches("agrees").count(), ranks, "{on}: {said}");
    }
    // The last rank dies on the host, on a foreign processor, and across either window.
    let actor = actor_image().display().to_string();
    for (on, survivors) in
        [("host:2,arm0:1", 2), ("host:1,often:1", 1), ("often:1,host:2", 2), ("host:2,big:1", 2)]
    {
        let job = machine.tombolo(["run", "--keep-going", "--on", on, &actor, "objects-die"]);
        job.fails_with(137, &["was killed by SIGKILL"]);
        assert_eq!(job.text().matches("lives on").count(), survivors, "{on}: {job}");
    }
    // Ranks die in collectives: in the middle of the tree, then two at once.
    for (on, deaths, survivors) in [("host:5", ["2", "1,3"], 2), ("host:2,arm0:1,big:1", ["2", "3"], 2)] {
        let words = ["run", "--keep-going", "--on", on, &actor, "objects-shrink"];
        let job = machine.tombolo(words.iter().chain(&deaths));
        job.fails_with(137, &["was killed by SIGKILL"]);
        assert_eq!(job.text().matches("goes on with [0, ").count(), survivors, "{on}: {job}");
    }
    let apart = machine.actor("arm0:1,often:1", &["objects", "1"]);
    apart.fails_with(1, &["no window is reached by all nodes with ranks (arm0, often)"]);
    assert_eq!(machine.node("often")["window_used_bytes"], 0, "what jobs took of the window came back");
    machine.down();
}
