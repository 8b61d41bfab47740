//! Regions on boards without an operating system, which are in the boards' windows.

use std::sync::atomic::Ordering;

use tombolo::region::{CapabilityId, Region, RegionOptions, Rights};
use tombolo::{Channel, Domain};
use tombolo_e2e::{Machine, MachineFile, PATIENCE, Running, image};

/// Starts a program on a board that executes orders about regions, and opens the channel to it.
pub(crate) fn with_regions(machine: &Machine, node: &str) -> (Running, Domain, Channel) {
    let image = image("remote-peer").display().to_string();
    let running = machine.start(["run", "--on", node, &image, "regions", &format!("regions/{node}")]);
    let domain = Domain::attach_to_machine(machine.name()).expect("the machine is up").with_timeout(PATIENCE);
    let channel = domain.connect(format!("regions/{node}")).expect("it listens");
    (running, domain, channel)
}

pub(crate) fn order(channel: &mut Channel, order: &str) -> String {
    channel.send(order.as_bytes()).expect("it listens");
    let mut answer = Vec::new();
    channel.recv_into(&mut answer).unwrap_or_else(|error| panic!("{order}: {error}"));
    String::from_utf8(answer).expect("text")
}

/// A board uses regions created by the host and by itself: maps them, writes adjacent bytes, is refused,
/// loses them by revocation, keeps them beyond that, and leaves them behind.
#[test]
fn boards_map_regions_in_their_windows() {
    let boards = MachineFile::host().with_board("arm", "aarch64", "").with_board("riscv", "riscv64", "");
    let machine = Machine::up(&boards.with_limit("revoke_ms", 2000));
    for node in ["arm", "riscv"] {
        let (running, domain, mut channel) = with_regions(&machine, node);
        let region = domain.create_region(&RegionOptions::new(8192).in_window_of(node)).expect("room");
        let here = region.map(Rights::READ_WRITE).expect("the host reaches it");
        let grant = |rights| region.grant(channel.peer(), rights).expect("it lives").id.0;
        let (whole, view) = (grant(Rights::READ_WRITE), grant(Rights::READ));
        here.write(0, b"from the host").expect("mapped");
        assert_eq!(order(&mut channel, &format!("view {view}")), "8192 bytes");
        assert_eq!(order(&mut channel, "read 5 8"), "the host");
        assert!(order(&mut channel, "write 0 x").contains("error: "), "only for reading");
        assert_eq!(order(&mut channel, &format!("map {whole}")), "8192 bytes");
        here.write(4093, b"ab......ijk").expect("mapped");
        assert_eq!(order(&mut channel, "write 4095 cdefgh"), "written");
        let mut bytes = [0; 11];
        here.read(4093, &mut bytes).expect("mapped");
        assert_eq!(&bytes, b"abcdefghijk");
        assert!(order(&mut channel, "write 8190 abc").contains("error: bytes"));
        assert!(order(&mut channel, "read 8192 1").contains("error: bytes"));

        // Revoked: the board unmaps by itself and must not reach what is there next.
        let revoked = region.revoke(PATIENCE).expect("it lets go");
        assert_eq!((revoked.removed, revoked.killed.len()), (1, 0));
        assert!(order(&mut channel, "read 0 1").contains("was taken back"));
        assert!(order(&mut channel, "write 0 x").contains("was taken back"));

        // A region of the board's own.
        let id = order(&mut channel, "make 4096").parse().expect("a capability's id");
        let theirs = domain.capability(CapabilityId(id)).expect("granted").map(Rights::READ_WRITE);
        let theirs = theirs.expect("the host reaches it");
        assert_eq!(order(&mut channel, "write 1 board"), "written");
        theirs.read(0, &mut bytes[..6]).expect("mapped");
        assert_eq!(&bytes[..6], b"\0board");
        assert_eq!(order(&mut channel, "revoke"), "removed 1");
        assert!(matches!(theirs.read(0, &mut bytes), Err(tombolo::Error::Revoked { .. })));

        // The board cannot reach memory of the host's kernel and gets an error.
        let far = domain.create_region(&RegionOptions::new(4096)).expect("memory");
        let id = far.grant(channel.peer(), Rights::READ).expect("it lives").id.0;
        assert!(order(&mut channel, &format!("view {id}")).contains("error: "));

        // A program that keeps the memory after the grace period is killed; so is one that does not react at
        // all.
        drop((here, theirs, far));
        check_killed_on_revocation(running, &region, &mut channel, "keep", "kept 1");
        let (running, domain, mut channel) = with_regions(&machine, node);
        let region = domain.create_region(&RegionOptions::new(4096).in_window_of(node)).expect("room");
        check_killed_on_revocation(running, &region, &mut channel, "spin", "spinning");
    }
    machine.down();
}

/// Revokes a region that the program on the board maps and does not unmap, and checks that it is killed.
fn check_killed_on_revocation(
    running: Running,
    region: &Region,
    channel: &mut Channel,
    misdeed: &str,
    answer: &str,
) {
    let granted = region.grant(channel.peer(), Rights::READ_WRITE).expect("it lives").id.0;
    assert!(order(channel, &format!("map {granted}")).ends_with("bytes"));
    assert_eq!(order(channel, misdeed), answer);
    let revoked = region.revoke(PATIENCE).expect("it is ended");
    assert_eq!((revoked.removed, revoked.killed), (1, vec![channel.peer()]));
    assert_eq!(running.finish().status, 137);
}

/// Shares memory between a board and the host where neither's stores reach the other without cache
/// operations.
#[test]
fn boards_detect_regions_that_are_not_coherent() {
    let file = MachineFile::host().with_board("arm", "aarch64", "coherence = \"flush\"\ncache_seed = 5");
    let machine = Machine::up(&file);
    let (_running, domain, mut channel) = with_regions(&machine, "arm");
    let region = domain.create_region(&RegionOptions::new(4096).in_window_of("arm")).expect("room");
    let refused = domain.create_region(&RegionOptions::new(4096).in_window_of("arm").coherent());
    assert!(refused.expect_err("it is not").to_string().contains("not coherent"));
    let here = region.map(Rights::READ_WRITE).expect("the host reaches it");
    let view = here.flushed_memory().expect("emulated").expect("not coherent");
    let granted = region.grant(channel.peer(), Rights::READ_WRITE).expect("it lives").id.0;
    assert_eq!(order(&mut channel, &format!("map {granted}")), "4096 bytes");
    assert_eq!(order(&mut channel, "publish 3 77"), "published");
    assert_eq!(view.load_current_le(3, Ordering::Acquire), 77);
    view.store_through_le(4, 78, Ordering::Release);
    assert_eq!(order(&mut channel, "current 4"), "78");
    drop((view, here));
    machine.down();
}

/// A program that never calls the library can be killed, too.
#[test]
fn endless_loop_on_a_board_is_killed() {
    let machine = Machine::up(&MachineFile::host().with_board("arm", "aarch64", ""));
    let (running, _domain, mut channel) = with_regions(&machine, "arm");
    assert_eq!(order(&mut channel, "spin"), "spinning");
    let (id, _) = machine.domains_on("arm").pop().expect("the program");
    machine.tombolo(["kill", &id]).ok();
    assert_eq!(running.finish().status, 143);
    machine.down();
}
