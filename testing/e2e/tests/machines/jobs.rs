//! The main example job gives one answer on any nodes.

use std::fmt::Write;

use tombolo_e2e::{Machine, MachineFile, image};

const NODES: [&str; 4] = ["host", "arm0", "riscv-user", "s390x-user"];

/// Generates a graph as an edge list, with groups of fifty vertices that are more densely connected.
fn planted_graph(vertices: u64, edges: u64) -> String {
    let mut state = 1_u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut text = String::new();
    for number in 0..edges {
        let from = draw(vertices);
        let to = if number % 5 == 0 { draw(vertices) } else { from / 50 * 50 + draw(50) };
        let _ = writeln!(text, "{from} {to}");
    }
    text
}

#[test]
fn result_is_equal_on_each_node_and_on_all() {
    let file = MachineFile::host()
        .with_vm("arm0", "")
        .with_user("riscv-user", "riscv64")
        .with_user("s390x-user", "s390x");
    let machine = Machine::up(&file);
    let graph = machine.folder().join("graph.txt");
    std::fs::write(&graph, planted_graph(2000, 12_000)).expect("a graph");
    let image = image("communities");
    let everywhere = NODES.map(|node| format!("{node}:1")).join(",");
    let answers = NODES.map(|node| format!("{node}:1")).into_iter().chain([everywhere]).map(|workers| {
        let labels = machine.folder().join(format!("labels-{workers}"));
        let words = ["--workers", &workers, "--verify", "--json", "--output"];
        let job = machine.tombolo(
            ["run".as_ref(), "--on".as_ref(), "host".as_ref(), image.as_os_str(), "--".as_ref()]
                .into_iter()
                .chain(words.map(AsRef::as_ref))
                .chain([labels.as_os_str(), graph.as_os_str()]),
        );
        let report: serde_json::Value = serde_json::from_str(&job.ok()).expect("a report");
        assert_eq!(report["verified"], true, "{workers}: {report}");
        let emulated: Vec<&str> = NODES[1..].iter().copied().filter(|node| workers.contains(node)).collect();
        let said = &report["emulation"];
        if emulated.is_empty() {
            assert!(said.is_null(), "{workers}: {report}");
        } else {
            assert_eq!(said["nodes"], serde_json::json!(emulated), "{workers}: {report}");
            assert!(said["arcs_per_second"].as_f64() > Some(0.0), "{workers}: {report}");
            assert_eq!(said["one_thread"]["seconds"], report["verify_seconds"], "{workers}: {report}");
        }
        (workers, std::fs::read_to_string(&labels).expect("labels"))
    });
    let answers: Vec<(String, String)> = answers.collect();
    assert_eq!(answers[0].1.lines().count(), 2000);
    for (workers, labels) in &answers {
        assert!(*labels == answers[0].1, "the answer of {workers} is another than that of the host alone");
    }
    machine.down();
}
