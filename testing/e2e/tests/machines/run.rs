//! Jobs: placement, streams, and how they end.

use rustix::process::Signal;
use tombolo_e2e::{Finished, Machine, MachineFile, actor_image, host_actor};

fn zoo() -> MachineFile {
    MachineFile::host()
        .with_vm("arm0", "")
        .with_user("arm-user", "aarch64")
        .with_user("riscv-user", "riscv64")
        .with_user("s390x-user", "s390x")
}

const NODES: [&str; 5] = ["host", "arm0", "arm-user", "riscv-user", "s390x-user"];

fn pattern(bytes: u64) -> Vec<u8> {
    (0..bytes).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

#[test]
fn exit_status_is_equal_on_every_node() {
    let machine = Machine::up(&zoo());
    for node in NODES {
        assert_eq!(machine.actor(node, &["exit", "0"]).status, 0, "{node}");
        machine.actor(node, &["exit", "7"]).fails_with(7, &["ended with status 7", node]);
        machine.actor(node, &["raise", "9"]).fails_with(128 + 9, &["SIGKILL", node]);
        machine.actor(node, &["raise", "15"]).fails_with(128 + 15, &["SIGTERM", node]);
        machine.actor(node, &["raise", "10"]).fails_with(128 + 10, &["SIGUSR1", node]);
    }
    machine.down();
}

#[test]
fn arguments_environment_and_streams_are_forwarded() {
    let machine = Machine::up(&zoo());
    let image = actor_image();
    let isas = ["x86_64", "aarch64", "aarch64", "riscv64", "s390x"];
    for (node, isa) in NODES.into_iter().zip(isas) {
        let image = image.to_str().expect("a path of text");
        let words =
            ["run", "--on", node, "--env", "GIVEN=a b=ü", image, "tell", "", "two words", "-q", "ü\n"];
        let mut running = machine.start(words);
        running.feed(b"one\ntwo".to_vec());
        let finished = running.finish();
        let said = finished.ok();
        for line in [
            "argument 0: \"actor\"",
            "argument 1: \"tell\"",
            "argument 2: \"\"",
            "argument 3: \"two words\"",
            "argument 4: \"-q\"",
            "argument 5: \"ü\\n\"",
            "variable GIVEN=\"a b=ü\"",
            "variable TOMBOLO_RANK=\"0\"",
            "variable TOMBOLO_SIZE=\"1\"",
            "variable TOMBOLO_JOB=\"job-",
            "input \"one\\ntwo\"",
        ] {
            assert!(said.contains(line), "{node}: no {line} in\n{said}");
        }
        assert!(said.contains(&format!("isa {isa}\n")), "{node}:\n{said}");
        assert_eq!(finished.stderr, "on standard error\n");
        let directory = if node == "arm0" { "/".as_ref() } else { machine.folder() };
        assert!(said.contains(&format!("directory {}\n", directory.display())), "{node}:\n{said}");
    }
    machine.down();
}

#[test]
fn oom_killer_prefers_programs_to_monitors() {
    let machine = Machine::up(&MachineFile::host());
    let finished = machine.tombolo(["run", "--on", "host", "/bin/cat", "--", "/proc/self/oom_score_adj"]);
    let own = std::fs::read_to_string("/proc/self/oom_score_adj").expect("what the tests have");
    let own: i32 = own.trim().parse().expect("a number");
    assert_eq!(finished.ok().trim(), own.max(500).to_string());
    machine.down();
}

#[test]
fn long_input_and_output_are_lossless() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", "").with_user("s390x-user", "s390x"));
    let expected = pattern(10_000_000);
    for node in ["host", "arm0", "s390x-user"] {
        let flooded = machine.actor(node, &["flood", "stdout", "10000000"]);
        flooded.ok_bytes();
        assert!(flooded.stdout == expected, "{node}: {} bytes came", flooded.stdout.len());
        let mut cat = machine.start_actor(node, &["cat"]);
        cat.feed(expected[..3_000_000].to_vec());
        let cat = cat.finish();
        cat.ok_bytes();
        assert!(cat.stdout == expected[..3_000_000], "{node}: {} bytes came back", cat.stdout.len());
    }
    machine.down();
}

#[test]
fn a_reader_that_pauses_loses_nothing() {
    let machine = Machine::up(&MachineFile::host().with_user("riscv-user", "riscv64"));
    let (count, nodes) = (40_000, ["host", "riscv-user"]);
    for node in nodes {
        // Many small writes, and a reader that reads nothing for a while, like `less`.
        let words = format!(
            "{} run --no-input --on {node} {} mutter {count} 2>&1 >/dev/null | (sleep 2; cat)",
            tombolo_e2e::tombolo().display(),
            actor_image().display()
        );
        let mut shell = std::process::Command::new("sh");
        let environment: Vec<_> =
            machine.command().get_envs().map(|(k, v)| (k.to_owned(), v.map(ToOwned::to_owned))).collect();
        for (name, value) in environment {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        let output = shell.args(["-c", &words]).output().expect("a shell");
        let expected: String = (0..count).map(|number| format!("{number}\n")).collect();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            said == expected,
            "{node}: {} of {} bytes came; they end with {:?}",
            said.len(),
            expected.len(),
            said.lines().last()
        );
    }
    machine.down();
}

#[test]
fn jobs_are_labelled_and_ranked() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", ""));
    let said = machine.actor("arm0,host:2", &["tell"]).ok();
    for (rank, node) in [(0, "arm0"), (1, "host"), (2, "host")] {
        for line in ["TOMBOLO_SIZE=\"3\"", &format!("TOMBOLO_RANK=\"{rank}\"")] {
            assert!(
                said.contains(&format!("[{rank}@{node}] variable {line}\n")),
                "no {line} of {rank} in\n{said}"
            );
        }
    }
    assert!(said.lines().all(|line| line.starts_with('[')), "{said}");
    let image = actor_image();
    let image = image.to_str().expect("a path of text");
    let plain = machine.tombolo(["run", "--on", "arm0,host", "--no-label", image, "tell"]).ok();
    assert!(!plain.contains('@'), "{plain}");
    machine.down();
}

/// Python finds the virtual environment that it is of, and other programs their folder, by `argv[0]`.
#[test]
fn executable_gets_the_path_that_the_user_gave() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", ""));
    let (host, image) = (host_actor(), actor_image());
    let linked = machine.folder().join("linked");
    std::fs::create_dir(&linked).expect("a folder");
    std::os::unix::fs::symlink(&host, linked.join("program")).expect("a link");
    let told = |on: &str, path: &str| {
        let said = machine.tombolo(["run", "--on", on, path, "tell"]).ok();
        let line = said.lines().find(|line| line.starts_with("argument 0: ")).map(str::to_owned);
        assert!(!said.contains("TOMBOLO_ARGV0"), "{said}");
        line.unwrap_or(said)
    };
    let host = host.to_str().expect("a path of text");
    assert_eq!(told("host", host), format!("argument 0: \"{host}\""));
    // The command runs in the machine's folder.
    assert_eq!(told("host", "linked/program"), "argument 0: \"linked/program\"");
    assert_eq!(told("host", "linked/../linked/program"), "argument 0: \"linked/../linked/program\"");
    let image = image.to_str().expect("a path of text");
    for node in ["host", "arm0"] {
        assert_eq!(told(node, image), "argument 0: \"actor\"", "an image is not the program");
    }
    machine.down();
}

#[test]
fn what_cannot_run_is_refused_before_anything_starts() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", "").with_user("s390x-user", "s390x"));
    let run = |words: &[&str]| machine.tombolo(["run"].iter().chain(words));
    let host_only = host_actor();
    let host_only = host_only.to_str().expect("a path of text");
    run(&["--on", "host,arm0", host_only, "exit", "0"])
        .fails_with(1, &["no build for aarch64", "arm0", "x86_64"]);
    run(&["--on", "mars", host_only]).fails_with(1, &["no node 'mars'", "host, arm0 and s390x-user"]);
    run(&["/nonexistent.tbi"]).fails_with(2, &["/nonexistent.tbi"]);
    run(&["/etc/passwd"]).fails_with(2, &["passwd"]);
    run(&["/etc"]).fails_with(2, &["/etc"]);
    run(&["--on", "host:0", host_only]).fails_with(2, &["host:0"]);
    // An ELF header of this host without a valid program.
    let broken = machine.folder().join("broken");
    let mut bytes = std::fs::read(host_only).expect("the actor");
    bytes.truncate(4096);
    std::fs::write(&broken, bytes).expect("a file");
    let broken = broken.to_str().expect("a path of text");
    run(&[broken]).fails_with(2, &["broken", "cannot run on any node", "ELF header"]);
    assert!(machine.domains_on("host").is_empty(), "nothing started is left");
    machine.down();
}

#[test]
fn one_c_source_runs_everywhere() {
    let machine = Machine::up(&zoo());
    let source = machine.folder().join("hello.c");
    let text = r#"
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    unsigned x = 1;
    printf("rank %s: %s-endian, %d bits, %s\n", getenv("TOMBOLO_RANK"),
           *(unsigned char *)&x ? "little" : "big", (int)sizeof(void *) * 8, argc > 1 ? argv[1] : "-");
    return 0;
}
"#;
    std::fs::write(&source, text).expect("a source file");
    let image = machine.folder().join("hello.tbi");
    machine.tombolo(["build".as_ref(), source.as_os_str(), "-o".as_ref(), image.as_os_str()]).ok();
    let inspected = machine.tombolo(["image".as_ref(), "inspect".as_ref(), image.as_os_str()]).ok();
    for isa in ["x86_64", "aarch64", "riscv64", "s390x"] {
        assert!(inspected.contains(isa), "{inspected}");
    }
    let on = NODES.join(",");
    let image = image.to_str().expect("a path of text");
    let said = machine.tombolo(["run", "--on", &on, image, "word"]).ok();
    for (rank, node) in NODES.into_iter().enumerate() {
        let order = if node.starts_with("s390x") { "big" } else { "little" };
        let line = format!("[{rank}@{node}] rank {rank}: {order}-endian, 64 bits, word\n");
        assert!(said.contains(&line), "no {line} in\n{said}");
    }
    machine.down();
}

#[test]
fn domains_start_domains_on_other_nodes() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", "").with_user("s390x-user", "s390x"));
    let image = actor_image();
    let image = image.to_str().expect("a path of text");
    for (from, to) in [("host", "arm0"), ("arm0", "host"), ("arm0", "s390x-user"), ("s390x-user", "arm0")] {
        let said = machine.tombolo(["run", "--on", from, image, "parent", to, "exit", "5"]).ok();
        assert!(said.contains("child ended: Exited { status: 5 }"), "{from} to {to}:\n{said}");
        let said = machine.tombolo(["run", "--on", from, image, "parent", to, "flood", "stdout", "100000"]);
        assert!(said.ok_bytes().len() > 100_000, "the child's output goes to who started the job");
    }
    machine.down();
}

#[test]
fn ctrl_c_ends_the_job_everywhere() {
    let machine = Machine::up(&zoo());
    let on = NODES.join(",");
    let job = machine.start_actor(&on, &["sleep", "1000"]);
    for (rank, node) in NODES.into_iter().enumerate() {
        job.wait_for(&format!("[{rank}@{node}] sleeping"));
    }
    job.signal(Signal::INT);
    job.finish().fails_with(130, &["SIGINT"]);
    for node in NODES {
        assert!(machine.domains_on(node).is_empty(), "{node}");
    }
    machine.down();
}

#[test]
fn failed_rank_ends_the_others() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", ""));
    let job = machine.start_actor("host,arm0", &["sleep", "1000"]);
    job.wait_for("[0@host] sleeping");
    job.wait_for("[1@arm0] sleeping");
    let (victim, _) = machine.domains_on("arm0").pop().expect("it runs");
    machine.tombolo(["kill", &victim, "--grace", "0"]).ok();
    job.finish().fails_with(137, &["rank 1 on arm0", "SIGKILL", "the remaining domain was ended"]);
    machine.down();
}

#[test]
fn arguments_after_the_image_go_to_the_program() {
    let machine = Machine::up(&MachineFile::host());
    let own = ["-n", "24", "--on", "mars", "--env", "A=b", "-q", "--help"];
    let said = machine.tombolo(["run", "--on", "host", "/bin/echo", "x"].iter().chain(&own)).ok();
    assert_eq!(said, "x -n 24 --on mars --env A=b -q --help\n");
    let said = machine.tombolo(["run", "/bin/echo", "--on", "mars"]).ok();
    assert_eq!(said, "--on mars\n");
    // If the program fails on an option after the image, the error says that the program got it.
    let failed = machine.tombolo(["run", "/bin/false", "--on", "host"]);
    failed.fails_with(1, &["ended with status 1", "the program got --on, because it follows the image"]);
    machine.tombolo(["run", "--fast", "/bin/true"]).fails_with(2, &["--fast"]);
    machine.down();
}

/// Runs a job of two shells. The second can wait for the end of the first.
fn two_shells(machine: &Machine, options: &[&str], first: &str, second: &str) -> Finished {
    let fifo = machine.folder().join("fifo");
    let _ = std::fs::remove_file(&fifo);
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo");
    assert!(made.success());
    let fifo = fifo.display();
    let script =
        format!("if [ $TOMBOLO_RANK = 0 ]; then exec 3>{fifo}; {first}; else cat {fifo}; {second}; fi");
    machine.tombolo(["run", "--on", "host:2"].iter().chain(options).chain(&["/bin/sh", "-c", &script]))
}

#[test]
fn survivors_have_time_to_report_a_death() {
    let machine = Machine::up(&MachineFile::host());
    let finished = two_shells(&machine, &[], "kill -9 $$", "sleep 0.2; echo last words; exit 1");
    finished.fails_with(137, &["rank 0 on host", "SIGKILL"]);
    assert_eq!(finished.text(), "[1@host] last words\n");
    assert!(!finished.stderr.contains("was ended"), "it ended by itself: {finished}");
    machine.down();
}

#[test]
fn keep_going_spares_the_other_ranks() {
    let machine = Machine::up(&MachineFile::host());
    let finished = two_shells(&machine, &["--keep-going"], "exit 3", "sleep 3; echo went on");
    finished.fails_with(3, &["rank 0 on host", "ended with status 3"]);
    assert_eq!(finished.text(), "[1@host] went on\n");
    // The order in which the ends are reported is random; the status of the lowest rank counts.
    let finished = two_shells(&machine, &["--keep-going"], "exit 3", "exit 4");
    finished.fails_with(3, &["rank 0 on host", "2 of 2 domains failed"]);
    machine.down();
}

#[test]
fn program_that_ignores_sigterm_is_killed() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", ""));
    for node in ["host", "arm0"] {
        let job = machine.start_actor(node, &["ignore-term"]);
        job.wait_for("ignoring");
        job.signal(Signal::TERM);
        job.finish().fails_with(128 + 15, &["SIGTERM"]);
        assert!(machine.domains_on(node).is_empty(), "{node}");

        let job = machine.start_actor(node, &["ignore-term"]);
        job.wait_for("ignoring");
        let (id, _) = machine.domains_on(node).pop().expect("it runs");
        machine.tombolo(["kill", &id, "--grace", "0.3"]).ok();
        job.finish().fails_with(137, &["SIGKILL"]);
    }
    machine.down();
}

#[test]
fn job_ends_when_its_output_pipe_closes() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", ""));
    let mut command = machine.command();
    command.args(["run", "--on", "arm0"]).arg(actor_image()).args(["flood", "stdout", "100000000"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().expect("it runs");
    drop(child.stdout.take());
    let ended = tombolo_e2e::eventually(|| child.try_wait().expect("our child").is_some());
    assert!(ended, "it goes on without a reader");
    let gone = tombolo_e2e::eventually(|| machine.domains_on("arm0").is_empty());
    assert!(gone, "its domain goes on");
    machine.down();
}

#[test]
fn a_plain_host_needs_no_machine() {
    // The machine `local` is shared by all programs of this user; its monitor ends by itself a while after
    // the last use.
    let machine = Machine::new(&MachineFile::host());
    let start = || {
        let mut command = machine.command();
        command.env("TOMBOLO_MACHINE", "local").arg("run").arg(host_actor()).args(["exit", "3"]);
        tombolo_e2e::Running::start(&mut command)
    };
    let jobs: Vec<_> = (0..6).map(|_| start()).collect();
    for job in jobs {
        job.finish().fails_with(3, &["ended with status 3"]);
    }
    machine.has_ended();
}

#[test]
fn output_that_cannot_be_written_fails_the_command() {
    let machine = Machine::up(&MachineFile::host());
    // Repeated, because the domain may end before or after the command notices.
    for _ in 0..5 {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("the device");
        let mut command = machine.command();
        command.args(["run", "/bin/echo", "hello"]).stdout(full).stderr(std::process::Stdio::piped());
        let output = command.spawn().and_then(std::process::Child::wait_with_output).expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("cannot write the output: No space left on device"), "{said}");
    }
    machine.down();
}

#[test]
fn help_that_cannot_be_written_fails_the_command() {
    let machine = Machine::new(&MachineFile::host());
    for arguments in [&["--help"][..], &["--version"], &["run", "--help"], &["mpirun", "--help"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("the device");
        let mut command = machine.command();
        command.args(arguments).stdout(full).stderr(std::process::Stdio::piped());
        let output = command.spawn().and_then(std::process::Child::wait_with_output).expect("it runs");
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {message}");
        assert!(message.contains("cannot write the output: No space left on device"), "{message}");
    }
}

#[test]
fn non_utf8_machine_file_name_is_a_usage_error() {
    use std::os::unix::ffi::OsStrExt;

    let machine = Machine::new(&MachineFile::host());
    let name = std::ffi::OsStr::from_bytes(b"n\xff.toml");
    std::fs::copy(machine.file(), machine.folder().join(name)).expect("a copy");
    machine.tombolo(["up".as_ref(), name]).fails_with(2, &["is not valid UTF-8"]);
}
