//! Jobs of several images, and ranks that restart after a failure.

use rustix::process::Signal;
use tombolo_e2e::{Finished, Machine, MachineFile, actor_image, eventually, host_actor};

fn actor() -> String {
    actor_image().display().to_string()
}

fn run(machine: &Machine, words: &[&str]) -> Finished {
    machine.tombolo(["run"].iter().chain(words))
}

#[test]
fn several_images_are_one_job_on_all_nodes() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", ""));
    let actor = actor();
    let words = ["-n", "2", "-e", "A=1", &actor, "tell", "first", ":", "-n", "2", "--on", "host,arm0", "-e"];
    let said =
        run(&machine, &[&words[..], &["B=2", &actor, "tell", r"\:", ":", &actor, "tell", "-n"]].concat());
    let said = said.ok();
    for (rank, node, argument) in
        [(0, "host", "first"), (1, "host", "first"), (2, "host", ":"), (3, "arm0", ":"), (4, "host", "-n")]
    {
        for line in [
            format!("variable TOMBOLO_RANK=\"{rank}\""),
            "variable TOMBOLO_SIZE=\"5\"".into(),
            format!("argument 2: \"{argument}\""),
        ] {
            assert!(said.contains(&format!("[{rank}@{node}] {line}\n")), "no {line} of {rank} in\n{said}");
        }
    }
    machine.down();
}

#[test]
fn programs_of_one_job_talk_to_each_other() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", ""));
    let (actor, host) = (actor(), host_actor().display().to_string());
    let words =
        ["--on", "arm0", &actor, "connect", "meeting", "64", "16", "1", ":", "--on", "host", &host, "serve"];
    let job = machine.start(["run"].iter().chain(&words).chain(&["meeting", "64", "16", "1"]));
    job.wait_for("connected to host");
    job.wait_for("on arm0");
    job.signal(Signal::INT);
    job.finish().fails_with(130, &["SIGINT"]);
    machine.down();
}

#[test]
fn the_death_of_one_program_ends_the_others() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", ""));
    let (actor, host) = (actor(), host_actor().display().to_string());
    let job = machine.start(["run", &host, "sleep", "1000", ":", "--on", "arm0", &actor, "sleep", "1000"]);
    job.wait_for("[0@host] sleeping");
    job.wait_for("[1@arm0] sleeping");
    let (victim, _) = machine.domains_on("arm0").pop().expect("it runs");
    machine.tombolo(["kill", &victim, "--grace", "0"]).ok();
    job.finish().fails_with(137, &["rank 1 on arm0", "SIGKILL", "the remaining domain was ended"]);
    machine.down();
}

#[test]
fn bad_jobs_of_several_images_are_refused_before_anything_starts() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", ""));
    let host = host_actor().display().to_string();
    for words in
        [&[":", &host][..], &[&host, "tell", ":"], &[&host, ":", ":", &host], &[&host, ":", "-n", "2"]]
    {
        run(&machine, words).fails_with(2, &["an image is missing before or after an argument `:`", r"'\:'"]);
    }
    for option in ["--keep-going", "--restart=on-failure", "--machine=x"] {
        let name = option.split('=').next().expect("a name");
        run(&machine, &[&host, "tell", ":", option, &host])
            .fails_with(2, &[name, "holds for the whole job", "before the first image"]);
    }
    run(&machine, &[&host, ":", "--fast", &host]).fails_with(2, &["--fast"]);
    run(&machine, &[&host, ":", "-n", "0", &host]).fails_with(2, &["1 to 4096"]);
    run(&machine, &["-n", "4000", &host, ":", "-n", "97", &host]).fails_with(2, &["4096", "4097"]);
    run(&machine, &[&host, "tell", ":", "/nonexistent.tbi"])
        .fails_with(2, &["/nonexistent.tbi", "tombolo build"]);
    run(&machine, &[&host, ":", "--on", "mars", &host]).fails_with(1, &["no node 'mars'"]);
    run(&machine, &[&host, ":", "--on", "arm0", &host]).fails_with(1, &["no build for aarch64", "arm0"]);
    run(&machine, &["-n", &host]).fails_with(2, &["--no-input"]);
    assert!(machine.domains_on("host").is_empty(), "nothing started is left");
    machine.down();
}

/// A script that fails until its rank has been restarted twice.
const THIRD_TIME: &str =
    "echo life $TOMBOLO_RESTARTS of $TOMBOLO_RANK/$TOMBOLO_SIZE; [ $TOMBOLO_RESTARTS = 2 ] || exit 3";

#[test]
fn failed_rank_is_restarted_and_job_succeeds() {
    let machine = Machine::up(&MachineFile::host());
    let words =
        ["--restart", "on-failure:2", "--restart-delay", "0.01", "-n", "2", "/bin/sh", "-c", THIRD_TIME];
    let finished = run(&machine, &words);
    let said = finished.ok();
    for rank in 0..2 {
        for life in 0..3 {
            assert!(said.contains(&format!("[{rank}@host] life {life} of {rank}/2\n")), "{said}");
        }
        for restart in ["restart 1 of 2 in 0.01 s", "restart 2 of 2 in 0.02 s"] {
            let line = format!("rank {rank} on host ended with status 3; {restart}\n");
            assert!(finished.stderr.contains(&line), "no {line} in {finished}");
        }
    }
    machine.down();
}

#[test]
fn rank_fails_after_its_last_restart() {
    let machine = Machine::up(&MachineFile::host());
    let restart = ["--restart", "on-failure:1", "--restart-delay", "0"];
    let job = |options: &[&str]| {
        let script = "if [ $TOMBOLO_RANK = 1 ]; then exit 3; else sleep 3; echo went on; fi";
        run(&machine, &[&restart[..], options, &["-n", "2", "/bin/sh", "-c", script]].concat())
    };
    let ended = job(&[]);
    ended.fails_with(
        3,
        &["rank 1 on host", "ended with status 3 after 1 restart; the remaining domain was ended"],
    );
    assert!(!ended.text().contains("went on"), "{ended}");
    let kept = job(&["--keep-going"]);
    kept.fails_with(3, &["rank 1 on host", "after 1 restart"]);
    assert!(kept.text().contains("[0@host] went on"), "{kept}");
    machine.down();
}

#[test]
fn rank_that_succeeds_or_is_stopped_is_not_restarted() {
    let machine = Machine::up(&MachineFile::host());
    let restart = ["--restart", "on-failure", "/bin/sh", "-c"];
    let once = |script: &str| run(&machine, &[&restart[..], &[script]].concat());
    assert_eq!(once("echo once").ok(), "once\n");
    let asked = once("echo once; kill -TERM $$");
    asked.fails_with(143, &["SIGTERM"]);
    assert_eq!(asked.text(), "once\n");
    for wrong in ["always", "on-failure:0", "on-failure:x", "sometimes"] {
        run(&machine, &["--restart", wrong, "/bin/true"]).fails_with(2, &["--restart", "on-failure"]);
    }
    machine.down();
}

#[test]
fn ctrl_c_ends_a_job_that_waits_for_a_restart() {
    let machine = Machine::up(&MachineFile::host());
    let words =
        ["run", "--restart", "on-failure", "--restart-delay", "1000", "/bin/sh", "-c", "echo life; exit 3"];
    let job = machine.start(words);
    job.wait_for("life");
    assert!(eventually(|| machine.domains_on("host").is_empty()), "it has ended");
    job.signal(Signal::INT);
    let finished = job.finish();
    finished.fails_with(130, &["SIGINT"]);
    assert_eq!(finished.text(), "life\n");
    machine.down();
}

#[test]
fn restarted_rank_is_a_new_domain_with_its_name() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", ""));
    let (actor, host) = (actor(), host_actor().display().to_string());
    for (node, image) in [("host", &host), ("arm0", &actor)] {
        let words =
            ["run", "--restart", "on-failure", "--on", node, image, "serve", "again", "64", "16", "1"];
        let server = machine.start(words);
        server.wait_for("serving");
        machine.actor("host", &["connect", "again", "64", "16", "1"]).ok();
        let (victim, _) = machine.domains_on(node).pop().expect("it runs");
        machine.tombolo(["kill", &victim, "--grace", "0"]).ok();
        let next = || machine.domains_on(node).pop().is_some_and(|(id, _)| id != victim);
        assert!(eventually(next), "no new domain on {node}");
        machine.actor("host", &["connect", "again", "64", "16", "1"]).ok();
        server.signal(Signal::TERM);
        server.finish().fails_with(143, &["SIGTERM"]);
    }
    machine.down();
}

#[test]
fn rank_restarts_with_its_node() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", ""));
    let actor = actor();
    let words = ["run", "--restart", "on-failure:20", "--restart-delay", "0.5", "--on", "arm0"];
    let job = machine.start(words.iter().chain(&[actor.as_str(), "sleep", "1000"]));
    job.wait_for("sleeping");
    let (before, _) = machine.domains_on("arm0").pop().expect("it runs");
    machine.kill(machine.pid_of("arm0"));
    assert!(eventually(|| machine.node("arm0")["state"] != "up"), "the node is down");
    machine.tombolo(["restart", "arm0"]).ok();
    let back = || machine.domains_on("arm0").pop().map(|(id, _)| id);
    assert!(eventually(|| back().is_some()), "no new domain");
    let after = back().expect("it runs");
    let generation = |id: &str| id.split('.').nth(1).map(str::to_owned);
    assert_ne!(generation(&before), generation(&after), "{before} and {after}");
    job.signal(Signal::INT);
    job.finish().fails_with(130, &["SIGINT"]);
    machine.down();
}
