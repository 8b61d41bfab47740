//! Boards without an operating system: they come up, run programs, are killed, and refuse what they cannot
//! run.

use rustix::process::{Pid, Signal, kill_process};
use tombolo_e2e::{Machine, MachineFile, eventually, host_actor, image};

fn boards() -> MachineFile {
    MachineFile::host().with_board("arm", "aarch64", "").with_board("riscv", "riscv64", "")
}

fn pingpong(machine: &Machine, on: &str) -> tombolo_e2e::Finished {
    let image = image("bare-pingpong").display().to_string();
    machine.tombolo(["run", "--on", on, &image])
}

#[test]
fn boards_come_up_talk_both_ways_and_go_down() {
    let machine = Machine::up(&boards());
    for (name, isa) in [("arm", "aarch64"), ("riscv", "riscv64")] {
        let node = machine.node(name);
        assert_eq!((node["state"].as_str(), node["isa"].as_str()), (Some("up"), Some(isa)), "{node}");
        assert_eq!((node["kind"].as_str(), node["cores"].as_u64()), (Some("bare"), Some(1)), "{node}");
        for on in [format!("host,{name}"), format!("{name},host")] {
            let said = pingpong(&machine, &on).ok();
            assert!(said.contains("10000 round trips") && said.contains(isa), "{said}");
        }
        let console = machine.tombolo(["console", name, "--no-input", "--for", "1"]).ok();
        assert!(console.contains(&format!("board: {name} of machine")), "{console}");
        assert!(machine.domains_on(name).is_empty(), "its program has ended");
    }
    machine.down();
}

/// Windows with emulated caches, one of which never evicts and one often. The monitor of a board, its program
/// and the host each have their own cache.
#[test]
fn boards_talk_through_windows_that_are_not_coherent() {
    let flushed = |one_in| format!("coherence = \"flush\"\ncache_seed = 5\nevict_one_in = {one_in}");
    let file = MachineFile::host()
        .with_board("arm", "aarch64", &flushed(0))
        .with_board("riscv", "riscv64", &flushed(2))
        .with_board("real", "aarch64", "coherence = \"flush\"");
    let machine = Machine::up(&file);
    for on in ["host,arm", "riscv,host", "arm,riscv", "real,host"] {
        let said = pingpong(&machine, on).ok();
        assert!(said.contains("10000 round trips"), "{said}");
    }
    machine.down();
}

/// RISC-V has no cache instructions for programs; the board reports that where its real caches are to be
/// used.
#[test]
fn board_without_cache_instructions_reports_it() {
    let machine = Machine::new(&MachineFile::host().with_board("riscv", "riscv64", "coherence = \"flush\""));
    let file = machine.file().to_owned();
    let said = ["riscv", "no cache instructions"];
    machine.tombolo(["up".as_ref(), file.as_os_str()]).fails_with(1, &said);
    machine.assert_gone();
}

#[test]
fn a_board_talks_with_big_endian_programs() {
    let machine = Machine::up(&MachineFile::host_board_and_user());
    let said = pingpong(&machine, "s390x-user,bare0").ok();
    assert!(said.contains("s390x on s390x-user -> aarch64 on bare0"), "{said}");
    machine.down();
}

#[test]
fn a_killed_board_is_noticed_and_starts_again() {
    let machine = Machine::up(&MachineFile::host().with_board("bare0", "aarch64", ""));
    let pid = machine.processes("qemu-system-aarch64")[0];
    kill_process(Pid::from_raw(pid).expect("a process"), Signal::KILL).expect("it is ours");
    assert!(eventually(|| machine.node("bare0")["state"] == "down"), "its end is noticed");
    pingpong(&machine, "host,bare0").fails_with(1, &["bare0", "down"]);
    machine.tombolo(["restart", "bare0"]).ok();
    assert_eq!(machine.node("bare0")["generation"], 2);
    pingpong(&machine, "host,bare0").ok();
    machine.down();
}

/// Whether the integers in two outputs of `bounded` differ by at most `may_differ`.
fn differs_at_most(one: &str, other: &str, may_differ: impl Fn(u64) -> u64) -> bool {
    let counts =
        |said: &str| -> Vec<u64> { said.split_whitespace().filter_map(|word| word.parse().ok()).collect() };
    let (one, other) = (counts(one), counts(other));
    one.len() == other.len() && one.iter().zip(&other).all(|(a, b)| a.abs_diff(*b) <= may_differ(*a))
}

/// On a clock that counts instructions, measurements repeat: to the instruction where the clock shows each,
/// and to one tick where it advances every 100 ns, 7 instructions.
#[test]
fn bounded_operations_stay_within_their_bounds() {
    let counting = "instruction_clock = 4";
    let file =
        MachineFile::host().with_board("arm", "aarch64", counting).with_board("riscv", "riscv64", counting);
    let machine = Machine::up(&file);
    let image = image("bounded").display().to_string();
    for (node, tick) in [("arm", 0), ("riscv", 7)] {
        let [first, second] = [(); 2].map(|()| machine.tombolo(["run", "--on", node, &image, "16"]).ok());
        for said in ["times in instructions", "ring: send 48 B", "timer to program"] {
            assert!(first.contains(said), "{said}: {first}");
        }
        let [(first, late_first), (second, late_second)] =
            [&first, &second].map(|said| said.split_once("interrupt ").expect("its last part"));
        // The control loop's sums add up many measured parts.
        let sums = tick.min(1);
        assert!(
            differs_at_most(first, second, |count| tick.max(sums * count / 1000)),
            "{node}: {first}{second}"
        );
        // The traffic that the monitor finds on its link to the root varies, so some sleeps take another
        // branch.
        let branches = |count| 20.max(count / 20);
        assert!(differs_at_most(late_first, late_second, branches), "{node}: {late_first}{late_second}");
        machine.tombolo(["run", "--on", node, &image, "none"]).fails_with(2, &["nanoseconds an instruction"]);
    }
    machine.down();
}

#[test]
fn bench_hub_measures_board_interrupts() {
    let machine = Machine::up(&boards());
    let measured = machine.json(&["bench", "hub", "--on", "arm,riscv", "--count", "100"]);
    for (index, board) in ["arm", "riscv"].iter().enumerate() {
        let row = &measured["rows"][index];
        let texts = [&row["what"], &row["where"]].map(|text| text.as_str().unwrap());
        assert_eq!(texts, ["interrupt to program", board]);
        assert!(row["p50_ns"].as_f64() > Some(0.0) && row["paper_ns"].as_f64() > Some(0.0), "{row}");
    }
    machine.down();
}

#[test]
fn what_cannot_run_on_a_board_is_refused() {
    let machine = Machine::up(&boards());
    let actor = host_actor().display().to_string();
    machine
        .tombolo(["run", "--on", "arm", &actor])
        .fails_with(1, &["no build for aarch64-none", "which node arm runs"]);
    // Started alone, the program reports that and fails; the board stays up.
    pingpong(&machine, "arm").fails_with(1, &["start two of me"]);
    pingpong(&machine, "arm,arm").fails_with(1, &["one program at a time"]);
    pingpong(&machine, "host,arm").ok();
    machine.down();
}

#[test]
fn window_too_small_for_board_is_a_file_error() {
    let machine = Machine::new(&MachineFile::host().with_board("arm", "aarch64", "window_mib = 0"));
    let file = machine.file().to_owned();
    machine.tombolo(["up".as_ref(), file.as_os_str()]).fails_with(2, &["window_mib", "machine.toml:"]);
    machine.assert_gone();
}
