//! Reports of `tombolo bench`, for users and for programs. Not the speed of anything.

use serde_json::Value;
use tombolo_e2e::{Machine, MachineFile};

const SHORT: [&str; 5] = ["bench", "ring", "--slices=1", "--slice-ms=1", "--json"];

fn measured(machine: &Machine, words: &[&str]) -> Value {
    let json = machine.tombolo(SHORT.iter().chain(words)).ok();
    serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"))
}

#[test]
fn rings_of_every_size_are_measured_on_every_link_that_has_memory() {
    let machine = Machine::up(&MachineFile::host_board_and_user());
    for slots in ["2", "8", "64", "4096"] {
        let report = measured(&machine, &["--on=host,s390x-user", "--slots", slots]);
        assert_eq!(report["failed"].as_array().map(Vec::len), Some(0), "{report}");
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

/// Asserts that a metric of a peer has a row with its route for each of the eight lengths between nodes.
fn assert_all_lengths(rows: &[Value], peer: &str, metric: &str, figure: &str) {
    let of = |row: &&Value| row["peer"] == peer && row["metric"][metric]["bytes"].is_u64();
    let lengths: Vec<_> = rows.iter().filter(of).collect();
    assert_eq!(lengths.len(), 8, "{peer}, {metric}: {rows:?}");
    for row in lengths {
        assert!(!row[figure].is_null() && row["route"]["by"].is_string(), "{row}");
    }
}

/// Two virtual machines without a link are measured through a program on the host. Each is also measured over
/// TCP, in a separate machine of which nothing is left.
#[test]
fn virtual_machines_are_measured_by_way_of_the_host_and_by_tcp() {
    let machine = Machine::up(&MachineFile::host_board_and_user().with_vm("arm0", "").with_vm("arm1", ""));
    let emulators = || {
        let all = std::fs::read_dir("/proc").expect("the processes").flatten();
        all.filter(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let parent = std::fs::read_to_string(entry.path().join("status")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains("hostfwd=tcp:127.0.0.1:0")
                && parent.contains("\nPPid:\t1\n")
        })
        .count()
    };
    let report = machine.json(&["bench", "bulk", "--parts=nodes,network", "--slices=1", "--slice-ms=1"]);
    assert_eq!(report["failed"].as_array().map(Vec::len), Some(0), "{report}");
    let rows = report["rows"].as_array().expect("a list");
    for peer in ["arm0 → arm1 by way of host", "arm1 → arm0 by way of host"] {
        assert_all_lengths(rows, peer, "bandwidth", "rate_per_s");
    }
    for node in ["arm0", "arm1"] {
        for peer in
            [format!("host → {node}: TCP over virtio-net"), format!("{node} → host: TCP over virtio-net")]
        {
            assert_all_lengths(rows, &peer, "bandwidth", "rate_per_s");
        }
        let peer = format!("host → {node}: TCP over virtio-net");
        assert_all_lengths(rows, &peer, "delivery", "latency_ns");
    }
    assert_eq!(emulators(), 0, "a machine outlives who started it");
    machine.down();
}

#[test]
fn placement_benchmark_uses_modelled_window_costs() {
    let costs = "doorbells = 2\nsize_mib = 2\nread_ns = 20000\nline_ns = 100";
    let file = MachineFile::host()
        .with_vm("arm0", "")
        .with_window("here", &["host", "arm0"], &format!("{costs}\nhome = \"host\""))
        .with_window("there", &["host", "arm0"], &format!("{costs}\nhome = \"arm0\""));
    let machine = Machine::up(&file);
    let report = machine.json(&["bench", "placement", "--rounds=50"]);
    assert_eq!(report["failed"].as_array().map(Vec::len), Some(0), "{report}");
    let rows = report["rows"].as_array().expect("a list");
    assert_eq!(rows.len(), 8, "{report}");
    for row in rows {
        assert_eq!(row["modelled"]["read_ns"], 20_000, "{row}");
        assert_eq!(row["windows"], serde_json::json!(["here", "there"]), "{row}");
        assert!(row["round_trip_ns"]["p50"].as_f64().is_some_and(|p50_ns| p50_ns > 0.0), "{row}");
    }
    let table = machine.tombolo(["bench", "placement", "--rounds=1"]).ok();
    assert_eq!(table.matches("modelled: read 20000 ns, line 100 ns").count(), 8, "{table}");
    machine.down();
}

#[test]
fn bulk_data_is_measured_to_every_node_and_back() {
    let machine = Machine::up(&MachineFile::host_board_and_user().with_vm("arm0", ""));
    let report = machine.json(&["bench", "bulk", "--parts=nodes", "--slices=1", "--slice-ms=1"]);
    assert_eq!(report["failed"].as_array().map(Vec::len), Some(0), "{report}");
    let rows = report["rows"].as_array().expect("a list");
    for (node, memory) in [("arm0", "the window"), ("s390x-user", "shared memory")] {
        for (peer, metric, figure) in [
            (format!("host → {node}"), "bandwidth", "rate_per_s"),
            (format!("{node} → host"), "bandwidth", "rate_per_s"),
            (format!("host → {node}"), "delivery", "latency_ns"),
            (format!("host ↔ {node}"), "transfer", "latency_ns"),
            (format!("{node}: memcpy"), "copy", "value"),
            (format!("{node}: out of {memory}"), "copy", "value"),
            (format!("{node}: into {memory}"), "copy", "value"),
            (format!("host: into {memory} with {node}"), "copy", "value"),
        ] {
            assert_all_lengths(rows, &peer, metric, figure);
        }
    }
    // Not the host itself: a foreign program on its kernel creates memory in the window.
    for (peer, metric, figure) in [
        ("s390x-user → arm0", "bandwidth", "rate_per_s"),
        ("arm0 → s390x-user", "bandwidth", "rate_per_s"),
        ("s390x-user → arm0", "delivery", "latency_ns"),
        ("s390x-user ↔ arm0", "transfer", "latency_ns"),
    ] {
        assert_all_lengths(rows, peer, metric, figure);
    }
    let report = machine.json(&["bench", "messages", "--on=host,arm0", "--messages=8", "--rounds=2"]);
    assert_eq!(report["failed"].as_array().map(Vec::len), Some(0), "{report}");
    let pairs = report["pairs"].as_array().expect("a list");
    assert_eq!(pairs.len(), 3, "{report}");
    for pair in pairs {
        for figure in
            ["direct_mean_ns", "engine_sd_ns", "overload_max_ns", "direct_4x16384_s", "engine_1x64_s"]
        {
            assert!(pair["figures"][figure].as_f64().is_some_and(|figure| figure > 0.0), "{figure}: {pair}");
        }
        // Only measured on request; no test does.
        assert!(pair["no_priority"].is_string() && pair["figures"]["priority_mean_ns"].is_null(), "{pair}");
    }
    machine.tombolo(["bench", "bulk", "--parts=memory"]).fails_with(2, &["memory", "nodes"]);
    machine.tombolo(["bench", "bulk", "--peers=nobody"]).fails_with(2, &["nobody", "pool: move"]);
    machine.down();
}

#[test]
fn bench_reports_what_it_cannot_measure() {
    let machine = Machine::up(&MachineFile::host());
    machine.tombolo(SHORT.iter().chain(&["--slots=3"])).fails_with(2, &["a power of two from 2 to 65536"]);
    machine.tombolo(["bench", "ring", "--slices=none"]).fails_with(2, &["none"]);
    machine.tombolo(SHORT.iter().chain(&["--on=mars"])).fails_with(1, &["mars", "host"]);
    machine.tombolo(SHORT.iter().chain(&["--image=/nowhere.tbi"])).fails_with(2, &["/nowhere.tbi"]);
    machine.down();
}

/// Each available run-time has every row of a section, and missing measurements are reported with their
/// reason.
#[test]
fn openmp_is_measured_on_every_run_time_of_this_host() {
    let machine = Machine::up(&MachineFile::host().with_user("arm-user", "aarch64"));
    let report = machine.json(&["bench", "omp", "--quick"]);
    let rows = report["rows"].as_array().expect("a list");
    let sections = ["constructs", "schedules", "tasks", "start", "sharing", "regions", "matmul"];
    for section in sections {
        let of = |stack: &str| {
            // Only our run-time has replicated data.
            let of_all = |row: &&Value| !row["metric"].to_string().contains("replicated");
            let rows = rows.iter().filter(|row| row["group"] == section && row["stack"] == stack);
            let rows = rows.filter(of_all);
            rows.map(|row| (row["metric"].to_string(), row["size"].to_string())).collect::<Vec<_>>()
        };
        let libgomp = of("libgomp");
        assert!(!libgomp.is_empty(), "{section}: {report}");
        for own in ["shared", "exclusive"] {
            assert_eq!(of(own), libgomp, "{section}: {report}");
        }
        let judged = report["targets"].as_array().expect("a list");
        assert!(
            judged.iter().any(|target| target["what"].as_str().is_some_and(|what| what.starts_with(section))),
            "{section}: {report}"
        );
    }
    for row in rows {
        assert!(
            row["p50"].is_f64()
                && row["p99"].is_f64()
                && row["runs"].as_array().is_some_and(|runs| !runs.is_empty()),
            "{row}"
        );
    }
    for stack in ["hybrid", "libomp", "host and arm-user"] {
        let measured = rows.iter().any(|row| row["stack"] == stack);
        let absent = report["absent"].as_array().expect("a list");
        let why =
            absent.iter().find(|absent| absent["peer"] == stack).map(|absent| absent["why"].to_string());
        assert!(measured || why.is_some_and(|why| why.len() > 10), "{stack}: {report}");
    }
    machine.tombolo(["bench", "omp", "--sections=all"]).fails_with(2, &["constructs, schedules, tasks"]);
    machine.down();
}
