//! `tombolo top`, on a terminal and without one.

use std::io::Write;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::LocalModes;
use tombolo_e2e::{Machine, MachineFile, Running, Terminal, eventually, tombolo};

/// Escape sequence that leaves the alternate screen.
const LEAVE: &str = "\u{1b}[?1049l";

/// Starts `tombolo top` on its own terminal, created by `script`.
fn start_on_terminal(machine: &Machine, words: &str) -> Running {
    let line = format!("stty cols 100 rows 24; exec {} top {words}", tombolo().display());
    let environment = machine.command();
    let mut command = Command::new("script");
    command.args(["-qefc", &line, "/dev/null"]).current_dir(machine.folder()).env("TERM", "xterm");
    for (name, value) in environment.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Running::start(&mut command)
}

/// Renders output as a terminal would. Interprets only cursor movements, the only sequences that `top` uses
/// to write less.
fn screen(told: &str) -> String {
    let mut lines = vec![vec![' '; 120]; 30];
    let (mut row, mut column) = (0, 0);
    let mut rest = told.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => {
                let text = rest.as_str();
                let Some(end) = text.find(|c: char| c.is_ascii_alphabetic()) else { break };
                let position = text[..end].strip_prefix('[').and_then(|place| place.split_once(';'));
                if let (Some((down, right)), b'H') = (position, text.as_bytes()[end]) {
                    let place = |text: &str| text.parse::<usize>().expect("a number").saturating_sub(1);
                    (row, column) = (place(down), place(right));
                }
                rest = text[end + 1..].chars();
            }
            c if c.is_control() => {}
            c => {
                if let Some(cell) = lines.get_mut(row).and_then(|line| line.get_mut(column)) {
                    *cell = c;
                }
                column += 1;
            }
        }
    }
    lines.into_iter().map(|line| line.into_iter().collect::<String>().trim_end().to_owned() + "\n").collect()
}

/// Waits until the terminal shows `text`.
#[track_caller]
fn assert_shown(top: &Running, text: &str) {
    let shown = || screen(&top.wait_for(""));
    assert!(eventually(|| shown().contains(text)), "{text:?} is not shown:\n{}", shown());
}

#[test]
fn domain_is_searched_inspected_and_killed() {
    let machine = Machine::up(&MachineFile::host());
    let job = machine.start_actor("host", &["sleep", "600"]);
    job.wait_for("sleeping");
    let mut top = start_on_terminal(&machine, "--steer");
    let mut keys = top.stdin();
    let mut press =
        |text: &str| keys.write_all(text.as_bytes()).and_then(|()| keys.flush()).expect("it reads");
    assert_shown(&top, "actor");
    press("/sleep 600\r");
    assert_shown(&top, "/sleep 600");
    // Selects the only remaining row. The details show its output.
    press("\r");
    assert_shown(&top, "started");
    assert_shown(&top, "sleeping");
    press("k");
    assert_shown(&top, "and what it started?");
    press("y");
    assert_shown(&top, "is killed");
    assert!(eventually(|| machine.domains_on("host").is_empty()));
    job.finish().fails_with(137, &["SIGKILL"]);
    press("q");
    assert_shown(&top, "q leave");
    press("q");
    let finished = top.finish();
    assert!(finished.ok().ends_with(LEAVE) || finished.text().contains(LEAVE), "{finished}");
    machine.down();
}

#[test]
fn terminal_is_restored_on_exit() {
    let machine = Machine::up(&MachineFile::host());
    let top = start_on_terminal(&machine, "--view nodes");
    assert_shown(&top, "PROCESSORS");
    let pid = machine.processes("top --view nodes").into_iter().max().expect("it runs");
    kill_process(Pid::from_raw(pid).expect("not 0"), Signal::TERM).expect("it is ours");
    let finished = top.finish();
    assert!(finished.ok().contains(LEAVE), "{finished}");

    // It keeps running when the machine goes down, and shows that.
    let mut top = start_on_terminal(&machine, "");
    assert_shown(&top, "1 of 1 node up");
    let mut keys = top.stdin();
    machine.tombolo(["down"]).ok();
    assert_shown(&top, "as it was before");
    keys.write_all(b"q").expect("it reads");
    assert!(top.finish().ok().contains(LEAVE));
    machine.has_ended();
}

/// Starts `tombolo top` on a terminal and waits for its first screen.
fn start_top(machine: &Machine, controlling: bool) -> Terminal {
    let mut top = Terminal::start(machine, &["top", "--view", "nodes"], controlling);
    assert!(eventually(|| screen(&top.output()).contains("PROCESSORS")), "{}", top.output());
    top
}

#[test]
fn terminal_is_restored_after_each_signal() {
    let machine = Machine::up(&MachineFile::host());
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut top = start_top(&machine, true);
        assert!(!top.settings().local_modes.contains(LocalModes::ECHO), "it reads keys");
        top.signal(signal);
        assert!(top.finish().success(), "{}", top.output());
        assert!(top.output().contains(LEAVE), "{}", top.output());
        assert!(top.settings().local_modes.contains(LocalModes::ECHO | LocalModes::ICANON));
    }
    machine.down();
}

#[test]
fn top_exits_when_its_terminal_closes() {
    let machine = Machine::up(&MachineFile::host());
    // With a controlling terminal, which sends SIGHUP, and without.
    for controlling in [true, false] {
        let mut top = start_top(&machine, controlling);
        top.hang_up();
        assert!(top.finish().success());
    }
    machine.down();
}

#[test]
fn top_exits_though_terminal_does_not_read() {
    let machine = Machine::up(&MachineFile::host());
    let mut top = start_top(&machine, true);
    top.fill();
    top.signal(Signal::TERM);
    let _ = top.finish();
    assert!(top.settings().local_modes.contains(LocalModes::ECHO), "keys are echoed again");
    machine.down();
}

#[test]
fn emulated_node_is_not_counted_twice_in_sums() {
    let machine = Machine::up(&MachineFile::host().with_user("arm0", "aarch64"));
    let seen = machine.json(&["top"]);
    let [host, arm] = [&seen["nodes"][0], &seen["nodes"][1]];
    assert_eq!((&host["shared"], &arm["shared"]), (&false.into(), &true.into()), "{seen}");
    assert!(arm["memory_bytes"].is_null(), "it has none of its own: {arm}");
    let used = |node: &serde_json::Value| node["memory_used_bytes"].as_u64().expect("it was sampled");
    assert!(used(arm) > 0 && used(arm) < used(host), "{seen}");
    assert!(arm["load"].is_u64(), "{arm}");
    assert_eq!((&seen["machine"]["load"], &seen["machine"]["cores"]), (&host["load"], &host["cores"]));
    machine.down();
}

#[test]
fn without_a_terminal_a_frame_is_printed() {
    let machine = Machine::up(&MachineFile::host());
    machine.tombolo(["top"]).fails_with(2, &["needs a terminal", "--once"]);
    let text = machine.tombolo(["top", "--once"]).ok();
    assert!(text.starts_with(&format!("{}  1 of 1 node up", machine.name())), "{text}");
    assert!(text.contains("PROCESSORS") && !text.contains('\u{1b}'), "{text}");
    let json = machine.json(&["top"]);
    assert_eq!(json["nodes"][0]["name"], "host", "{json}");
    assert!(json["nodes"][0]["load"].is_u64(), "{json}");
    machine.down();
}
