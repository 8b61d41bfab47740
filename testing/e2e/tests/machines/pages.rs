//! Shared pages: one address range over the memories of a host and an Arm machine.

use serde_json::{Value, json};
use tombolo_e2e::{Finished, Machine, MachineFile, actor_image, eventually, unsupported};

/// Whether a node does not support shared pages; reports it if so.
fn is_refused(finished: &Finished) -> bool {
    let refused = finished.stderr.lines().find(|line| line.contains("this node cannot have pages in common"));
    if let Some(refused) = refused {
        unsupported(&format!("pages in common: {refused}"));
    }
    refused.is_some()
}

#[test]
fn pages_of_the_host_and_an_arm_machine() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", "").with_user("big", "s390x"));
    // A contended counter, other counters in the same page, and an array that all fill in turn.
    for (on, increments, total) in
        [("host:2", "200000", "400000"), ("host,arm0", "50000", "100000"), ("arm0,host:2", "50000", "150000")]
    {
        let counted = machine.actor(on, &["pages-count", increments]);
        if is_refused(&counted) {
            machine.down();
            return;
        }
        let text = counted.ok();
        let expected = format!("counted {total}, sum 100659200");
        assert_eq!(text.matches(&expected).count(), text.lines().count(), "{on}: {text}");
    }
    for (on, dies_on) in [("host:2,arm0", "arm0"), ("host,arm0,host", "host")] {
        killed(&machine, on, dies_on);
    }
    for on in ["host:2", "host,arm0", "arm0,host:2"] {
        let released = machine.actor(on, &["pages-release", "20"]).ok();
        assert_eq!(
            released.matches("released 20 rounds").count(),
            released.lines().count(),
            "{on}: {released}"
        );
    }
    let image = actor_image().display().to_string();
    let homeless = machine.tombolo(["run", "--keep-going", "--on", "host:2,arm0", &image, "pages-lose-home"]);
    for line in ["lost 5 with 2 on arm0", "page 3 has 7"] {
        assert_eq!(homeless.text().matches(line).count(), 2, "{line}: {homeless:?}");
    }
    check_page_report(&machine);
    let differ = machine.actor("host:2", &["pages-refuse", "8192"]).ok();
    for (rank, theirs, ours) in [(0, 3, 2), (1, 2, 3)] {
        let line = format!("another number of pages: {theirs}, and this rank with {ours}");
        assert!(differ.contains(&line), "rank {rank}: {differ}");
    }
    let emulated = machine.actor("big", &["pages-refuse", "8192"]).ok();
    assert!(emulated.contains("this kernel has no userfaultfd, or the emulator"), "{emulated}");
    machine.down();
}

/// Kills the last of three ranks. The others continue with every page that one of them has and learn which
/// one is lost; one of them accesses the lost page anyway.
fn killed(machine: &Machine, on: &str, dies_on: &str) {
    let image = actor_image().display().to_string();
    let finished = machine.tombolo(["run", "--keep-going", "--on", on, &image, "pages-lose"]);
    let text = finished.text();
    for line in [&format!("ended 2 on {dies_on}"), &format!("lost 0 with 2 on {dies_on}"), "counted on"] {
        assert_eq!(text.matches(line).count(), 2, "{on}: {line}: {finished:?}");
    }
    let closed = text.lines().any(|line| line.starts_with("[0@host] closed: rank 1 on "));
    assert!(closed, "{on}: {finished:?}");
    // Rank 1 was killed by SIGBUS after the reason was reported.
    let reason = format!("page 0 (0x100000000000) existed only at rank 2 on {dies_on}, which ended");
    finished.fails_with(135, &[&reason, "SIGBUS", "2 of 3 domains failed"]);
}

/// While a job runs, `tombolo pages` distinguishes pages whose ranks access different words from those whose
/// ranks access the same word.
fn check_page_report(machine: &Machine) {
    let running = machine.start_actor("host,arm0", &["pages-share"]);
    let hot = |report: &Value, page: u64| {
        report["pages"].as_array().and_then(|pages| pages.iter().find(|hot| hot["page"] == page).cloned())
    };
    let mut report = Value::Null;
    let both = eventually(|| {
        report = machine.json(&["pages"]);
        (1..3).all(|page| hot(&report, page).is_some_and(|hot| hot["ping_pong"] == json!([0, 1])))
    });
    assert!(both, "{report}");
    let sharing: Vec<Value> = (1..3).map(|page| hot(&report, page).unwrap()["sharing"].clone()).collect();
    assert_eq!(sharing, ["false sharing", "common"], "{report}");
    let table = machine.tombolo(["pages"]).ok();
    for part in ["count_of_0 (0), count_of_1 (1)", "all+24 (0 1)"] {
        assert!(table.contains(part), "{part} in {table}");
    }
    machine.tombolo(["names", "set", "enough"]).ok();
    assert_eq!(running.finish().ok().matches("shared").count(), 2);
    machine.tombolo(["names", "delete", "enough"]).ok();
    // A closed range is not shown.
    assert_eq!(machine.json(&["pages"])["pages"], json!([]));
}
