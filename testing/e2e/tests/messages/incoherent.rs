//! Non-coherent windows: each side of each mapping works through its own emulated cache, over real processes
//! and virtual machines.

use tombolo_e2e::{Machine, MachineFile, image};

/// Virtual machines by how often their caches evict: never, which exposes missing cache operations; often,
/// which exposes operations in the wrong order; and seldom.
const NODES: [(&str, u32); 3] = [("never", 0), ("seldom", 64), ("often", 2)];

fn machine() -> Machine {
    let with_vm = |file: MachineFile, (name, one_in): &(&str, u32)| {
        file.with_vm(name, &format!("coherence = \"flush\"\ncache_seed = 1\nevict_one_in = {one_in}"))
    };
    Machine::up(&NODES.iter().fold(MachineFile::host(), with_vm))
}

#[test]
fn messages_and_buffers_cross_windows_that_are_not_coherent() {
    let machine = machine();
    for (node, _) in NODES {
        let on = format!("host,{node}");
        let said = machine.actor(&on, &["exchange", "2000"]).ok();
        for rank in [0, 1] {
            assert!(said.contains(&format!("rank {rank} exchanged 2000 messages twice")), "{on}:\n{said}");
        }
        let said = machine.actor(&format!("host,{node},host"), &["bulk-chain", "full", node, "20"]).ok();
        assert!((0..3).all(|rank| said.contains(&format!("rank {rank} is done"))), "{node}:\n{said}");
        assert_eq!(machine.node(node)["window_used_bytes"], 0, "what channels took of the window came back");
    }
    let frames = image("frames").display().to_string();
    let said = machine.tombolo(["run", "--on", "host,often,host", &frames]).ok();
    assert!(said.contains("200 frames of 640x480 in 4 buffers") && said.contains("by often"), "{said}");
    machine.down();
}

#[test]
fn death_across_incoherent_window_frees_memory() {
    let machine = machine();
    for (node, _) in NODES {
        let name = format!("holder-{node}");
        let holder = machine.start_actor(node, &["bulk-hold", &name, "full", "-"]);
        holder.wait_for("exported");
        let (id, _) = machine.domains_on(node).pop().expect("the holder");
        let giver = machine.start_actor("host", &["bulk-outlive", &name, "full", node, "here-only"]);
        giver.wait_for("given");
        machine.tombolo(["kill", "--signal", "KILL", &id]).ok();
        let said = giver.finish().ok();
        assert!(said.contains("died"), "{node}: {said}");
        assert_eq!(holder.finish().status, 137);
    }
    machine.down();
}
