//! `tombolo top`: on a terminal, and where there is none.

use std::io::Write;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use tombolo_e2e::{Machine, MachineFile, Running, eventually, tombolo};

/// What gives the terminal back.
const LEAVE: &str = "\u{1b}[?1049l";

/// Starts `tombolo top` on a terminal of its own, which `script` makes.
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

#[test]
fn a_domain_is_found_looked_into_and_killed() {
    let machine = Machine::up(&MachineFile::host());
    let job = machine.start_actor("host", &["sleep", "600"]);
    job.wait_for("sleeping");
    let mut top = on_a_terminal(&machine, "--steer");
    let mut keys = top.stdin();
    let mut press =
        |text: &str| keys.write_all(text.as_bytes()).and_then(|()| keys.flush()).expect("it reads");
    top.wait_for("actor");
    press("/sleep 600\r");
    top.wait_for("/sleep 600");
    // The only row that is left is chosen. Details show what it wrote.
    press("\r");
    top.wait_for("started");
    top.wait_for("sleeping");
    press("k");
    top.wait_for("and what it started?");
    press("y");
    top.wait_for("is killed");
    assert!(eventually(|| machine.domains_on("host").is_empty()));
    job.finish().fails_with(137, &["SIGKILL"]);
    press("\u{1b}q");
    let finished = top.finish();
    assert!(finished.ok().ends_with(LEAVE) || finished.text().contains(LEAVE), "{finished}");
    machine.down();
}

#[test]
fn the_terminal_is_given_back_when_it_is_ended() {
    let machine = Machine::up(&MachineFile::host());
    let top = on_a_terminal(&machine, "--view nodes");
    top.wait_for("PROCESSORS");
    let pid = machine.processes("top --view nodes").into_iter().max().expect("it runs");
    kill_process(Pid::from_raw(pid).expect("not 0"), Signal::TERM).expect("it is ours");
    let finished = top.finish();
    assert!(finished.ok().contains(LEAVE), "{finished}");

    // It stays when the machine goes, and says so.
    let mut top = on_a_terminal(&machine, "");
    top.wait_for("1 of 1 node up");
    let mut keys = top.stdin();
    machine.tombolo(["down"]).ok();
    top.wait_for("this is how it was");
    keys.write_all(b"q").expect("it reads");
    assert!(top.finish().ok().contains(LEAVE));
    machine.has_ended();
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
