//! Groups across nodes: all members receive the same messages, even if an inner member of the trees dies.

use std::collections::BTreeMap;

use tombolo_e2e::{Machine, MachineFile};

/// Returns the survivors' lines `took SOURCE COUNT HASH`, by member and source.
fn survivors(
    machine: &Machine,
    group: &str,
    on: &str,
    order: &str,
) -> Vec<(String, BTreeMap<String, String>)> {
    let survivors = on.split(',').count();
    let parties = (survivors + 1).to_string();
    let job = machine.start_actor(on, &["group", group, &parties, "60", order]);
    let victim = machine.start_actor("host", &["group", group, &parties, "0", order]);
    let victim = victim.finish();
    assert_eq!(victim.status, 137, "it kills itself: {victim}");
    let text = job.finish().ok();
    let mut members: BTreeMap<String, (String, BTreeMap<String, String>)> = BTreeMap::new();
    for line in text.lines() {
        // `tombolo run` prefixes lines with rank and node.
        let (rank, rest) = line.split_once("] ").unwrap_or(("", line));
        let member = members.entry(rank.to_owned()).or_default();
        match rest.split(' ').collect::<Vec<_>>().as_slice() {
            ["member", id] => (*id).clone_into(&mut member.0),
            ["took", source, count, hash] => {
                member.1.insert((*source).to_owned(), format!("{count} {hash}"));
            }
            _ => {}
        }
    }
    assert_eq!(members.len(), survivors, "{text}");
    members.into_values().collect()
}

const NODES: &str = "host:1,arm0:1,s390x-user:1";

fn machine() -> Machine {
    let file = MachineFile::host().with_vm("arm0", "").with_user("s390x-user", "s390x");
    Machine::up(&file)
}

#[test]
fn survivors_deliver_the_same_after_inner_death() {
    let machine = machine();
    let members = survivors(&machine, "sources", NODES, "per-source");
    for (one, took) in &members {
        for (other, theirs) in &members {
            for (source, what) in took.iter().filter(|(source, _)| *source != other) {
                assert_eq!(theirs.get(source), Some(what), "of {source}: {one} and {other}");
            }
        }
        assert_eq!(took.len(), members.len(), "{one} took of all others, the dead one included: {took:?}");
    }
    // With a total order of messages.
    let members = survivors(&machine, "all-in-order", NODES, "total");
    for (member, took) in &members {
        assert_eq!(took, &members[0].1, "{member} and {}", members[0].0);
        assert!(
            took["all"].split(' ').next().and_then(|count| count.parse::<u64>().ok()) >= Some(3 * 60),
            "{took:?}"
        );
    }
    machine.down();
}
