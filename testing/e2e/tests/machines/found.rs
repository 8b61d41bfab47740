//! Findings of `tombolo litmus` and `tombolo bench link` about links are written to the machine file and
//! used.

use tombolo_e2e::{Machine, MachineFile};

fn place(machine: &Machine, needs: &str) -> Vec<(String, String)> {
    let report = machine.json(&["place", "--needs", needs]);
    let candidates = report["candidates"].as_array().expect("candidates");
    let of = |it: &serde_json::Value| {
        let met = it["met"].as_array().into_iter().flatten().filter_map(|it| it.as_str());
        (it["node"].as_str().expect("a name").to_owned(), met.collect::<Vec<_>>().join("; "))
    };
    candidates.iter().map(of).collect()
}

/// The commands write their findings; the machine otherwise stays the same.
#[test]
fn measured_links_are_written_read_and_used() {
    let file = MachineFile::host()
        .with_user("arm-user", "aarch64")
        .with_vm("arm0", "# A comment that stays.\nwindow_mib = 16");
    let mut machine = Machine::up(&file);
    let path = machine.file().to_owned();
    let before = std::fs::read_to_string(&path).expect("the machine file");
    let file = path.display().to_string();
    // Without `--write` nothing is written.
    let said = machine.tombolo(["litmus", "--rounds", "4000", "--seconds", "60"]);
    assert!(said.ok().contains("sound") && said.stderr.contains("--write FILE"), "{said}");
    assert_eq!(std::fs::read_to_string(&path).expect("the machine file"), before);

    let said = machine.tombolo(["litmus", "--rounds", "4000", "--seconds", "60", "--write", &file]);
    assert!(said.ok().contains("sound") && said.stderr.contains("what was found of 2 links"), "{said}");
    let report = machine.json(&["bench", "link", "--slice-ms", "1", "--write", &file]);
    assert_eq!(report["failed"].as_array().map(Vec::len), Some(0), "{report}");
    let links = report["links"].as_array().expect("links");
    let joined = |link: &serde_json::Value| {
        link["nodes"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|it| it.as_str())
            .collect::<Vec<_>>()
            .join("-")
    };
    let names: Vec<String> = links.iter().map(joined).collect();
    assert_eq!(names, ["host-arm-user", "host-arm0", "arm-user-arm0"], "{report}");
    for link in links {
        let trips = link["round_trips"].as_array().expect("round trips");
        let bytes: Vec<u64> = trips.iter().filter_map(|trip| trip["bytes"].as_u64()).collect();
        assert_eq!(bytes, [8, 64, 256, 1024, 4096, 16384, 65536], "{link}");
        let is_figure = |value: &serde_json::Value| value.as_f64().is_some_and(|value| value > 0.0);
        assert!(trips.iter().all(|trip| is_figure(&trip["p50_ns"]) && is_figure(&trip["p99_ns"])), "{link}");
        for figure in ["bytes_per_s", "bytes_per_s_back", "limit_bytes_per_s"] {
            assert!(is_figure(&link[figure]), "{figure} of {link}");
        }
        assert!(is_figure(&link["limit"]["p50_ns"]), "{link}");
    }
    let one = machine.tombolo(["bench", "link", "arm-user", "--slice-ms", "1"]).ok();
    assert!(one.contains("host-arm-user") && !one.contains("host-arm0"), "{one}");

    let text = std::fs::read_to_string(&path).expect("the machine file");
    assert!(text.starts_with(&before) && text.matches("[[found]]").count() == 3, "{text}");
    assert_eq!((text.matches("memory = {").count(), text.matches("cost = {").count()), (2, 3), "{text}");
    machine.tombolo(["down"]).ok();
    machine.bring_up();
    let placed = place(&machine, "near=host,message-round-trip<3600s");
    assert!(placed.len() == 3 && placed[0].0 == "host", "{placed:?}");
    assert!(placed.iter().all(|(_, met)| met.contains("to host it has")), "{placed:?}");
    machine.down();
}

#[test]
fn unwritable_machine_file_is_reported_first() {
    let machine = Machine::up(&MachineFile::host().with_user("far", "riscv64"));
    let other = machine.folder().join("other.toml");
    std::fs::write(&other, "name = \"other\"\n[[node]]\nname = \"host\"\nkind = \"host\"\n").expect("a file");
    let other = other.display().to_string();
    for command in [&["litmus"][..], &["bench", "link"]] {
        let write = |file: &str| machine.tombolo(command.iter().copied().chain(["--write", file]));
        write("/nonexistent/m.toml").fails_with(2, &["/nonexistent/m.toml", "that `tombolo up` was given"]);
        write(&other).fails_with(2, &["describes machine 'other'", "--machine"]);
        write(&machine.folder().display().to_string()).fails_with(2, &["hint:"]);
        assert!(write(&other).stdout.is_empty(), "nothing was measured");
    }
    machine.tombolo(["bench", "link", "mars"]).fails_with(1, &["no node 'mars'"]);
    machine.down();
}

/// Writes `[[found]]` tables with these settings between the host and each of these nodes.
fn with_found(machine: &Machine, before: &str, found: &[(&str, &str)]) {
    let tables = found.iter().map(|(node, settings)| {
        format!("[[found]]\nbetween = [\"host\", \"{node}\"]\ntransport = \"shm\"\n{settings}\n")
    });
    let text = format!("{before}\n{}", tables.collect::<String>());
    std::fs::write(machine.file(), text).expect("the machine file");
}

#[test]
fn nearer_nodes_are_chosen_by_measurements() {
    let file = MachineFile::host().with_user("one", "riscv64").with_user("two", "s390x");
    let mut machine = Machine::new(&file);
    let before = std::fs::read_to_string(machine.file()).expect("the machine file");
    let cost = |time_ns: u32| {
        format!(
            "cost = {{ round_trip_ns = {time_ns}, latency_ns = [[8, {}]], bytes_per_s = 1000, bytes_per_s_back = 9 }}",
            time_ns / 2
        )
    };
    for (one_ns, two_ns, order) in [(900, 30_000, ["one", "two"]), (30_000, 900, ["two", "one"])] {
        with_found(&machine, &before, &[("one", &cost(one_ns)), ("two", &cost(two_ns))]);
        machine.bring_up();
        let placed = place(&machine, "kind=user,near=host,message-round-trip<1ms");
        let names: Vec<&str> = placed.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, order, "{placed:?}");
        let near = place(&machine, "kind=user,message-round-trip<1us");
        assert_eq!(near.len(), 1, "{near:?}");
        assert!(near[0].0 == order[0] && near[0].1.contains("900ns"), "{near:?}");
        machine.tombolo(["down"]).ok();
    }
    machine.has_ended();
}

#[test]
fn unfit_or_changed_links_are_refused() {
    let machine = Machine::new(&MachineFile::host().with_user("far", "s390x"));
    let before = std::fs::read_to_string(machine.file()).expect("the machine file");
    let up = |words: &[&str]| {
        let path = machine.file().display().to_string();
        machine.tombolo(["up", &path].iter().chain(words))
    };
    let memory = |order: &str, bytes: u8| {
        format!(
            "memory = {{ coherence = \"coherent\", order = \"{order}\", widest_store_bytes = {bytes}, atomics = true }}"
        )
    };
    with_found(&machine, &before, &[("far", &memory("sequential", 4))]);
    up(&[]).fails_with(2, &["between host and far is unfit", "messages can be torn", "tombolo up --force"]);
    with_found(&machine, &before, &[("gone", &memory("sequential", 8))]);
    up(&["--force"]).fails_with(2, &["unknown node `gone`", "delete this [[found]]", "--write FILE"]);
    with_found(&machine, &before, &[("far", &memory("release", 8))]);
    up(&[]).fails_with(2, &["wake-ups can be lost"]);
    let forced = up(&["--force"]);
    forced.ok();
    assert!(forced.stderr.contains("warning: what `tombolo litmus` found"), "{forced}");
    machine.tombolo(["down"]).ok();
    machine.has_ended();
}
