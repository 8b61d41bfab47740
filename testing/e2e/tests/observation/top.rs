//! `tombolo top`, on a terminal and without one.

use std::io::Write;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::LocalModes;
use tombolo_e2e::{Machine, MachineFile, Running, Terminal, eventually, tombolo};

/// Escape sequence that leaves the alternate screen.
const LEAVE: &str = "\u{1b}[?1049l";

/// Starts `tombolo top` on its own terminal, created by `script`.
fn on_a_terminal(machine: &Machine, words: &str) -> Running {
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
fn shows(top: &Running, text: &str) {
    let shown = || screen(&top.wait_for(""));
    assert!(eventually(|| shown().contains(text)), "{text:?} is not shown:\n{}", shown());
}

#[test]
fn a_domain_is_found_looked_into_and_killed() {
    let machine = Machine::up(&MachineFile::host());
    let job = machine.start_actor("host", &["sleep", "600"]);
    job.wait_for("sleeping");
    let mut top = on_a_terminal(&machine, "--steer");
    let mut keys = top.stdin();
    let mut press =
        |text: &str| keys.write_all(text.as_bytes()).and_then(|()| keys.flush()).expect("it reads");
    shows(&top, "actor");
    press("/sleep 600\r");
    shows(&top, "/sleep 600");
    // Selects the only remaining row. The details show its output.
    press("\r");
    shows(&top, "started");
    shows(&top, "sleeping");
    press("k");
    shows(&top, "and what it started?");
    press("y");
    shows(&top, "is killed");
    assert!(eventually(|| machine.domains_on("host").is_empty()));
    job.finish().fails_with(137, &["SIGKILL"]);
    press("q");
    shows(&top, "q leave");
    press("q");
    let finished = top.finish();
    assert!(finished.ok().ends_with(LEAVE) || finished.text().contains(LEAVE), "{finished}");
    machine.down();
}

#[test]
fn the_terminal_is_given_back_when_it_is_ended() {
    let machine = Machine::up(&MachineFile::host());
    let top = on_a_terminal(&machine, "--view nodes");
    shows(&top, "PROCESSORS");
    let pid = machine.processes("top --view nodes").into_iter().max().expect("it runs");
    kill_process(Pid::from_raw(pid).expect("not 0"), Signal::TERM).expect("it is ours");
    let finished = top.finish();
    assert!(finished.ok().contains(LEAVE), "{finished}");

    // It keeps running when the machine goes down, and shows that.
    let mut top = on_a_terminal(&machine, "");
    shows(&top, "1 of 1 node up");
    let mut keys = top.stdin();
    machine.tombolo(["down"]).ok();
    shows(&top, "as it was before");
    keys.write_all(b"q").expect("it reads");
    assert!(top.finish().ok().contains(LEAVE));
    machine.has_ended();
}

/// Starts `tombolo top` on a terminal and waits for its first screen.
fn showing(machine: &Machine, controlling: bool) -> Terminal {
    let mut top = Terminal::start(machine, &["top", "--view", "nodes"], controlling);
    assert!(eventually(|| screen(&top.said()).contains("PROCESSORS")), "{}", top.said());
    top
}

#[test]
fn each_signal_ends_it_and_the_terminal_is_as_before() {
    let machine = Machine::up(&MachineFile::host());
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut top = showing(&machine, true);
        assert!(!top.settings().local_modes.contains(LocalModes::ECHO), "it reads keys");
        top.signal(signal);
        assert!(top.finish().success(), "{}", top.said());
        assert!(top.said().contains(LEAVE), "{}", top.said());
        assert!(top.settings().local_modes.contains(LocalModes::ECHO | LocalModes::ICANON));
    }
    machine.down();
}

#[test]
fn it_ends_when_its_terminal_is_gone() {
    let machine = Machine::up(&MachineFile::host());
    // With a controlling terminal, which sends SIGHUP, and without.
    for controlling in [true, false] {
        let mut top = showing(&machine, controlling);
        top.hang_up();
        assert!(top.finish().success());
    }
    machine.down();
}

#[test]
fn a_terminal_that_takes_nothing_does_not_keep_it_from_ending() {
    let machine = Machine::up(&MachineFile::host());
    let mut top = showing(&machine, true);
    top.fill();
    top.signal(Signal::TERM);
    let _ = top.finish();
    assert!(top.settings().local_modes.contains(LocalModes::ECHO), "keys are echoed again");
    machine.down();
}

#[test]
fn an_emulated_node_tells_of_its_own_processes_and_no_sum_counts_it_again() {
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
