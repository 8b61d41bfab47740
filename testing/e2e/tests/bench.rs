//! What the command measures, as its user and its readers get it. Not how fast anything is.

use serde_json::Value;
use tombolo_e2e::{Machine, MachineFile};

const SHORT: [&str; 5] = ["bench", "ring", "--slices=1", "--slice-ms=1", "--json"];

fn measured(machine: &Machine, words: &[&str]) -> Value {
    let json = machine.tombolo(SHORT.iter().chain(words)).ok();
    serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"))
}

#[test]
fn rings_of_every_size_are_measured_on_every_link_that_has_memory() {
    let machine = Machine::up(&MachineFile::cheap());
    for slots in ["2", "8", "64", "4096"] {
        let report = measured(&machine, &["--on=host,s390x-user", "--slots", slots]);
        assert_eq!(report["unmeasured"].as_array().map(Vec::len), Some(0), "{report}");
        let links = report["links"].as_array().expect("a list");
        assert_eq!(links.len(), 2, "{report}");
        for link in links {
            for key in ["limit_rtt_ns", "rtt_ns", "rtt_8_ns", "wake_rtt_ns", "rate_per_s", "rate_back_per_s"]
            {
                for part in ["p50", "p99"] {
                    assert!(
                        link[key][part].as_f64().is_some_and(|figure| figure > 0.0),
                        "{key} {part}: {link}"
                    );
                }
            }
        }
    }
    machine.down();
}

#[test]
fn bulk_data_is_measured_to_every_node_and_back() {
    let machine = Machine::up(&MachineFile::cheap().with_vm("arm0", ""));
    let report = machine.json(&["bench", "bulk", "--parts=nodes", "--slices=1", "--slice-ms=1"]);
    assert_eq!(report["failed"].as_array().map(Vec::len), Some(0), "{report}");
    let rows = report["rows"].as_array().expect("a list");
    for (node, memory) in [("arm0", "the window"), ("s390x-user", "shared memory")] {
        for (peer, metric, figure) in [
            (format!("host → {node}"), "bandwidth", "rate_per_s"),
            (format!("{node} → host"), "bandwidth", "rate_per_s"),
            (format!("host ↔ {node}"), "transfer", "latency_ns"),
            (format!("{node}: memcpy"), "copy", "value"),
            (format!("{node}: out of {memory}"), "copy", "value"),
            (format!("{node}: into {memory}"), "copy", "value"),
            (format!("host: into {memory} with {node}"), "copy", "value"),
        ] {
            let lengths: Vec<_> = rows.iter().filter(|row| row["peer"] == peer.as_str()).collect();
            assert_eq!(lengths.len(), 5, "{peer}: {report}");
            for row in lengths {
                assert!(row["metric"][metric]["bytes"].is_u64() && !row[figure].is_null(), "{row}");
            }
        }
    }
    machine.tombolo(["bench", "bulk", "--parts=memory"]).fails_with(2, &["memory", "nodes"]);
    machine.tombolo(["bench", "bulk", "--peers=nobody"]).fails_with(2, &["nobody", "pool: move"]);
    machine.down();
}

#[test]
fn what_cannot_be_measured_is_said() {
    let machine = Machine::up(&MachineFile::host());
    machine.tombolo(SHORT.iter().chain(&["--slots=3"])).fails_with(2, &["a power of two from 2 to 65536"]);
    machine.tombolo(["bench", "ring", "--slices=none"]).fails_with(2, &["none"]);
    machine.tombolo(SHORT.iter().chain(&["--on=mars"])).fails_with(1, &["mars", "host"]);
    machine.tombolo(SHORT.iter().chain(&["--image=/nowhere.tbi"])).fails_with(1, &["/nowhere.tbi"]);
    machine.down();
}
