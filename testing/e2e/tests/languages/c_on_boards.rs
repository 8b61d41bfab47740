//! C programs with `tombolo.h` on boards without an operating system.

use std::fs;
use std::path::{Path, PathBuf};

use tombolo_e2e::c::{boards, host_and, put_into_kit};
use tombolo_e2e::{Machine, MachineFile};

/// Brings up two boards, of two instruction sets if possible, and a window that they share with the host.
/// Their emulated caches evict now and then.
fn machine(of_boards: &[&str]) -> Option<(Machine, String)> {
    let (first, second) = (of_boards.first()?, of_boards.last()?);
    put_into_kit("x86_64");
    let evicting = "size_mib = 8\ncoherence = \"flush\"\ncache_seed = 3\nevict_one_in = 8";
    let file = MachineFile::host().with_board("b0", first, "").with_board("b1", second, "").with_window(
        "boards",
        &["host", "b0", "b1"],
        evicting,
    );
    Some((Machine::up(&file), host_and(of_boards)))
}

/// Builds a program or project for the host and boards.
fn build(machine: &Machine, isas: &str, source: &Path) -> String {
    let image = machine.folder().join("program.tbi").display().to_string();
    let source = source.display().to_string();
    let words = ["build", "--isa", isas, "-o", &image, &source];
    machine.tombolo(words).ok();
    image
}

/// Projects of `tombolo new`, the first of which is the quick start's, build unchanged.
#[test]
fn projects_in_c_run_on_boards_unchanged() {
    let of_boards = boards();
    let Some((machine, isas)) = machine(&of_boards) else { return };
    let project = |words: &[&str]| -> PathBuf {
        machine.tombolo([&["new", words[0], "--lang", "c"], &words[1..]].concat()).ok();
        machine.folder().join(words[0])
    };
    let plain = build(&machine, &isas, &project(&["there-and-back"]));
    for (one, other) in [("host", "b0"), ("b1", "host"), ("b0", "b1")] {
        let said = machine.tombolo(["run", "--on", &format!("{one},{other}"), &plain]).ok();
        assert!(said.contains(&format!("{one} -> {other}: 10000 round trips, median ")), "{said}");
    }
    machine.tombolo(["run", "--on", "b0", &plain]).fails_with(1, &["start two of me"]);
    let typed = build(&machine, &isas, &project(&["greetings", "--typed"]));
    for (server, clients) in [("host", ["b0", "b1"]), ("b1", ["b0", "host"])] {
        let on = format!("{server},{},{}", clients[0], clients[1]);
        let said = machine.tombolo(["run", "--on", &on, &typed]).ok();
        for client in clients {
            assert!(said.contains(&format!("hello {client}, from {server}")), "{on}: {said}");
        }
        assert!(said.contains("declined: no_name") && said.contains("2 greetings from"), "{on}: {said}");
    }
    machine.down();
}

#[test]
fn calls_of_programs_in_c_on_boards_do_what_the_header_says() {
    let of_boards = boards();
    let Some((machine, isas)) = machine(&of_boards) else { return };
    let tree = Path::new(env!("CARGO_MANIFEST_DIR"));
    let checks = build(&machine, &isas, &tree.join("c/board_messages.c"));
    for on in ["host:2", "host,b0", "b1,host", "b0,b1"] {
        let said = machine.tombolo(["run", "--on", on, &checks]).ok();
        assert_eq!(said.matches("all as it should be").count(), 2, "{on}: {said}");
    }
    // The benchmark that compares RCCE with channels and typed calls uses all of them.
    let words = ["bench", "rcce", "--on", "b0", "--sizes", "64", "--rounds", "1", "--slice-ms", "1"];
    let row = &machine.json(&words)["rows"][0];
    assert!(["send_ns", "put_ns", "channel_ns", "stubs_ns"].iter().all(|name| row[name].is_f64()), "{row}");
    // The linker names functions that boards lack.
    let spawns = machine.folder().join("spawns.c");
    let program = "#include <tombolo.h>\nint main(void) { return tombolo_spawn(0, 0, 0) != TOMBOLO_OK; }\n";
    fs::write(&spawns, program).expect("a program");
    let source = spawns.display().to_string();
    let isa = format!("{}-none", of_boards[0]);
    machine
        .tombolo(["build", "--isa", &isa, &source])
        .fails_with(1, &["undefined reference to `tombolo_spawn'", &format!("building for {isa} failed")]);
    machine.down();
}
