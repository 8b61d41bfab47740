//! The console of a virtual machine.

use tombolo_e2e::{Machine, MachineFile, eventually};

fn duo() -> MachineFile {
    MachineFile::host().with_vm("arm0", "").with_user("s390x-user", "s390x")
}

fn type_in(machine: &Machine, text: &str, seconds: &str) -> tombolo_e2e::Finished {
    let mut console = machine.start(["console", "arm0", "--for", seconds]);
    console.feed(text.as_bytes().to_vec());
    console.finish()
}

#[test]
fn console_commands_are_answered_and_remembered() {
    let machine = Machine::up(&duo());
    let answered =
        || type_in(&machine, "echo $((6 * 7)) on $(uname -m)\n", "1").text().contains("42 on aarch64");
    assert!(
        eventually(answered),
        "no answer: {}",
        machine.tombolo(["console", "arm0", "--no-input", "--for", "1"])
    );
    let later = machine.tombolo(["console", "arm0", "--no-input", "--for", "1"]).ok();
    assert!(later.contains("42 on aarch64"), "what was printed before is shown again:\n{later}");
    machine.tombolo(["console", "host"]).fails_with(1, &["host has no console", "only a vm"]);
    let all = machine.tombolo(["console", "--all", "--for", "1"]).ok();
    assert!(all.lines().any(|line| line.starts_with("[arm0]: ") && line.contains("42 on aarch64")), "{all}");
    machine.tombolo(["console", "--all", "arm0"]).fails_with(2, &["cannot be used with"]);
    machine.tombolo(["console"]).fails_with(2, &[]);
    machine.tombolo(["console", "s390x-user"]).fails_with(1, &["has no console"]);
    machine.tombolo(["console", "mars"]).fails_with(1, &["no node 'mars'"]);
    machine.down();
}

#[test]
fn unread_console_output_is_dropped_and_counted() {
    let machine = Machine::up(&duo());
    // 400 KiB of output, of which the monitor keeps 256 KiB.
    type_in(
        &machine,
        "i=0; while [ $i -lt 6400 ]; do printf '%063d\\n' $i; i=$((i+1)); done; echo the' 'end\n",
        "1",
    )
    .ok();
    let ended =
        || machine.tombolo(["console", "arm0", "--no-input", "--for", "1"]).text().contains("the end");
    assert!(eventually(ended), "it never printed all");
    let shown = machine.tombolo(["console", "arm0", "--no-input", "--for", "1"]);
    let shown_bytes = shown.ok().len();
    assert!((200 << 10..=256 << 10).contains(&shown_bytes), "{shown_bytes} bytes are remembered");
    let dropped: usize = shown
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix('[')?.strip_suffix(" bytes dropped]")?.parse().ok())
        .unwrap_or_else(|| panic!("nothing is said of what was dropped: {}", shown.stderr));
    assert!(dropped > 150_000, "{dropped} bytes dropped, {shown_bytes} shown");
    machine.down();
}

#[test]
fn a_console_shows_the_end_of_its_node() {
    let machine = Machine::up(&duo());
    let viewer = machine.start(["console", "arm0", "--no-input", "--for", "100"]);
    type_in(&machine, "echo before\n", "1").ok();
    viewer.wait_for("before");
    machine.kill(machine.pid_of("arm0"));
    assert!(eventually(|| machine.node("arm0")["state"] == "down"), "it is not known");
    let mut typing = machine.start(["console", "arm0", "--for", "100"]);
    typing.feed(b"echo lost\n".to_vec());
    typing.finish().fails_with(1, &["arm0 is down"]);
    machine.tombolo(["restart", "arm0"]).ok();
    viewer.wait_for("--- restarted ---");
    drop(viewer);
    machine.down();
}
