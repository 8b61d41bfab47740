//! Windows between boards, with and without the host.

use std::sync::atomic::Ordering;

use tombolo::region::{RegionOptions, Rights};
use tombolo_e2e::{Machine, MachineFile, eventually, image};

use crate::board_regions::{order, with_regions};

/// Describes three boards: two with a window between them, and all three with the host in a window whose
/// emulated caches evict at every fourth operation.
fn boards() -> MachineFile {
    let evicting = "size_mib = 4\ndoorbells = 4\ncoherence = \"flush\"\ncache_seed = 5\nevict_one_in = 4";
    MachineFile::host()
        .with_board("arm", "aarch64", "")
        .with_board("riscv", "riscv64", "")
        .with_board("other", "aarch64", "")
        .with_window("boards", &["arm", "riscv"], "size_mib = 4\ndoorbells = 2")
        .with_window("all", &["host", "arm", "riscv", "other"], evicting)
}

fn talk(machine: &Machine, on: &str) {
    let image = image("bare-pingpong").display().to_string();
    let said = machine.tombolo(["run", "--on", on, &image]).ok();
    assert!(said.contains("10000 round trips"), "{on}: {said}");
}

/// Boards communicate through their common window, whether coherent or not and with an own or a shared
/// doorbell; the host relays nothing. A restarted board finds the window unchanged.
#[test]
fn boards_in_one_window_talk_directly() {
    let machine = Machine::up(&boards());
    for on in ["arm,riscv", "riscv,arm", "other,riscv", "arm,other", "host,other"] {
        talk(&machine, on);
    }
    machine.tombolo(["restart", "riscv", "--force"]).ok();
    talk(&machine, "arm,riscv");
    machine.kill(machine.pid_of("arm"));
    assert!(eventually(|| machine.node("arm")["state"] == "down"), "its end is noticed");
    machine.tombolo(["restart", "arm"]).ok();
    talk(&machine, "riscv,arm");
    let domains = machine.json(&["ps"])["domains"].as_array().expect("domains").clone();
    assert!(domains.iter().all(|domain| domain["program"] != "relay"), "{domains:?}");
    machine.down();
}

/// Regions in a window of several boards: what one publishes the others see.
#[test]
fn boards_map_regions_in_windows_that_they_share() {
    let machine = Machine::up(&boards());
    let (_arm, domain, mut arm) = with_regions(&machine, "arm");
    let (_riscv, _domain, mut riscv) = with_regions(&machine, "riscv");
    let region = domain.create_region(&RegionOptions::new(8192).in_window_of("all")).expect("room");
    let here = region.map(Rights::READ_WRITE).expect("the host reaches it");
    let view = here.flushed_memory().expect("emulated").expect("not coherent");
    for channel in [&mut arm, &mut riscv] {
        let granted = region.grant(channel.peer(), Rights::READ_WRITE).expect("it lives").id.0;
        assert_eq!(order(channel, &format!("map {granted}")), "8192 bytes");
    }
    view.store_through_le(0, 7, Ordering::Release);
    assert_eq!(order(&mut riscv, "current 0"), "7");
    assert_eq!(order(&mut arm, "publish 900 77"), "published");
    assert_eq!(order(&mut riscv, "current 900"), "77");
    assert_eq!(order(&mut riscv, "publish 8 78"), "published");
    assert_eq!(order(&mut arm, "current 8"), "78");
    assert_eq!(view.load_current_le(8, Ordering::Acquire), 78);
    // A board cannot reach a window that it is not in.
    let (_other, _domain, mut other) = with_regions(&machine, "other");
    order(&mut arm, "make 4096 boards").parse::<u64>().expect("a capability's id");
    assert!(order(&mut other, "make 4096 boards").contains("is not in window boards"));
    drop((view, here));
    machine.down();
}
