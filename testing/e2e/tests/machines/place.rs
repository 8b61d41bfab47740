//! Placement on nodes: `tombolo place` and `--on auto`.

use std::collections::BTreeSet;

use serde_json::Value;
use tombolo_e2e::{Machine, MachineFile, actor_image, eventually, host_actor};

fn nodes(report: &Value) -> Vec<&str> {
    let candidates = report["candidates"].as_array().expect("a list");
    candidates.iter().map(|candidate| candidate["node"].as_str().expect("a name")).collect()
}

#[test]
fn nodes_are_chosen_by_needs_and_jobs_run_there() {
    let file = MachineFile::host().with_vm_of("arm0", 512, "").with_user("s390", "s390x");
    let machine = Machine::up(&file);
    let (actor, host) = (actor_image().display().to_string(), host_actor().display().to_string());
    // The status is 1 if no node fits; the report is printed anyway.
    let place = |needs: &str| -> Value {
        let said = machine.tombolo(["place", "--needs", needs, "--json"]).text();
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
    };

    assert_eq!(nodes(&place("isa=aarch64,memory>=256M,near=arm0")), ["arm0"]);
    assert_eq!(nodes(&place("isa=s390x")), ["s390"]);
    // Load samples and round-trip times arrive a few seconds after a node comes up. Which node has more free
    // processor time and which is nearer depends on other load on this host.
    let fit = |needs: &str, expected: [&str; 2]| {
        let both = BTreeSet::from(expected);
        assert!(eventually(|| BTreeSet::from_iter(nodes(&place(needs))) == both), "{}", place(needs));
    };
    fit("speed>=1,idle>=0", ["host", "arm0"]);
    fit("near=arm0,round-trip<1s,hops=1", ["host", "s390"]);
    let near = place("near=arm0");
    assert_eq!((nodes(&near)[0], &near["candidates"][0]["distance_ns"]), ("arm0", &Value::from(0)));
    assert!(near["candidates"][1]["distance_ns"].as_u64().is_some_and(|ns| ns > 0), "{near}");

    let explained = machine.tombolo(["place", "--needs", "memory>=1T", "--explain"]);
    explained.fails_with(1, &["no node fits"]);
    assert!(explained.text().contains("arm0 does not fit\n  memory>=1T: it has "), "{}", explained.text());
    machine
        .tombolo(["place", "--needs", "memory>=1T"])
        .fails_with(1, &["no node fits", "memory>=1T: it has"]);
    machine.tombolo(["place", "--needs", "memry>=1T"]).fails_with(2, &["unknown key 'memry'", "'memory'?"]);
    machine.tombolo(["place", "--needs", "near=mars"]).fails_with(1, &["no node 'mars'", "arm0"]);
    let built = machine.json(&["place", &host]);
    assert_eq!(nodes(&built), ["host"]);
    assert!(built["rejected"].to_string().contains("the image is built for"), "{built}");

    let run = |words: &[&str]| machine.tombolo(["run", "--label"].iter().chain(words)).ok();
    assert!(run(&["--needs", "isa=aarch64", &actor, "tell"]).contains("[0@arm0] "));
    let two = run(&["--on", "arm0,auto", "--needs", "isa=x86_64|s390x,kind=host", &actor, "tell"]);
    assert!(two.contains("[0@arm0] ") && two.contains("[1@host] "), "{two}");
    let refused = |words: &[&str]| machine.tombolo(["run"].iter().chain(words));
    refused(&["--on", "host", "--needs", "isa=aarch64", &actor]).fails_with(2, &["--needs", "--on auto"]);
    refused(&["--needs", "isa=aarch64", &host]).fails_with(1, &["no node fits", "arm0: it runs aarch64"]);
    machine.down();
}
