//! `tombolo mpirun`: ranks on every kind of node, how they find each other, and how jobs end.
//!
//! Most tests use ranks that talk to their process manager as MPI does, but without MPI, which has its own
//! tests.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use tombolo_e2e::mpi::Mpi;
use tombolo_e2e::{Finished, Machine, MachineFile, Running, actor_image, eventually, host_actor};

fn start(machine: &Machine, words: &str) -> Running {
    let image = actor_image();
    let image = image.to_str().expect("a path of text");
    let host = host_actor();
    let host = host.to_str().expect("a path of text");
    let words = words.split(' ').map(|word| word.replace("IMAGE", image).replace("HOST", host));
    machine.start(["mpirun".to_owned()].into_iter().chain(words))
}

/// Runs `tombolo mpirun` with these words, replacing `IMAGE` and `HOST` by the paths of the test program.
fn mpirun(machine: &Machine, words: &str) -> Finished {
    start(machine, words).finish()
}

/// Returns the sorted lines of a job's output.
fn lines(finished: &Finished) -> Vec<String> {
    let mut lines: Vec<String> = finished.ok().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn duo() -> MachineFile {
    MachineFile::host().with_user("arm-user", "aarch64")
}

#[test]
fn ranks_on_every_kind_of_node_find_each_other() {
    let file = MachineFile::host()
        .with_vm("arm0", "")
        .with_user("arm-user", "aarch64")
        .with_user("riscv-user", "riscv64")
        .with_user("s390x-user", "s390x");
    let machine = Machine::up(&file);
    let on = "host:2,arm0:2,arm-user,riscv-user,s390x-user";
    let meet = mpirun(
        &machine,
        &format!(
            "--on {on} --label IMAGE pmi init put:card=at barrier get:card-6 get:none barrier finalize tell:I"
        ),
    );
    let nodes = ["host", "host", "arm0", "arm0", "arm-user", "riscv-user", "s390x-user"];
    let mut expected: Vec<String> = nodes
        .iter()
        .enumerate()
        .flat_map(|(rank, node)| {
            [
                format!("[{rank}@{node}] cmd=get_result rc=0 value=at"),
                format!("[{rank}@{node}] cmd=get_result rc=-1 msg=not_found value=unknown"),
                format!("[{rank}@{node}] I rank {rank} of 7"),
            ]
        })
        .collect();
    expected.sort();
    assert_eq!(lines(&meet), expected);
    // A killed rank takes all others with it, on every node.
    for (rank, node) in [(1, "host"), (2, "arm0"), (4, "arm-user")] {
        let killed = mpirun(&machine, &format!("--on {on} IMAGE pmi init {rank}?raise:9 barrier"));
        killed.fails_with(
            128 + 9,
            &[&format!("rank {rank} on {node}"), "SIGKILL before MPI_Finalize", "6 ranks"],
        );
    }
    let alone = mpirun(&machine, "--on host,arm0,s390x-user IMAGE pmi 1?exit:0 init barrier");
    alone.fails_with(1, &["rank 1 on arm0", "ended before MPI_Init, while others"]);
    let aborted = mpirun(&machine, &format!("--on {on} IMAGE pmi init 3?abort:7 barrier"));
    aborted.fails_with(7, &["rank 3 on arm0", "called MPI_Abort(7)"]);
    // The loss of a node ends the job.
    let lost = start(&machine, "--on host,arm0 --label IMAGE pmi init barrier tell:met hang");
    lost.wait_for("[1@arm0] met");
    machine.kill(machine.pid_of("arm0"));
    lost.finish().fails_with(1, &["rank 1 on arm0", "was lost with its node"]);
    assert_eq!(machine.domains_on("host"), []);
    machine.down();
}

#[test]
fn first_failed_rank_ends_job_with_its_status() {
    let machine = Machine::up(&duo());
    let run = |words: &str| mpirun(&machine, &format!("--on host:2,arm-user IMAGE pmi {words}"));
    run("init barrier finalize").ok();
    run("tell:none-of-MPI").ok();
    run("2?exit:5 hang")
        .fails_with(5, &["rank 2 on arm-user", "ended with status 5", "the remaining 2 ranks"]);
    run("init finalize 1?exit:6 sleep:200").fails_with(6, &["rank 1 on host", "status 6"]);
    run("1?raise:15 hang").fails_with(128 + 15, &["rank 1 on host", "SIGTERM"]);
    run("init 0?exit:0 barrier").fails_with(1, &["rank 0 on host", "without MPI_Finalize, while others"]);
    run("init 2?abort:300 barrier").fails_with(300 - 256, &["rank 2 on arm-user", "MPI_Abort(300)"]);
    run("init 2?abort:0 barrier").fails_with(1, &["MPI_Abort(0)"]);
    // The last rank exits without finalizing and must not keep others waiting.
    run("init barrier finalize 0?sleep:100").ok();
    let late = mpirun(&machine, "--on host:2,arm-user --timeout 1.5 IMAGE pmi init hang");
    late.fails_with(124, &["did not end within 1.5 s", "3 ranks"]);
    assert_eq!(machine.domains_on("arm-user"), []);
    machine.down();
}

#[test]
fn invalid_pmi_messages_end_the_job() {
    let machine = Machine::up(&duo());
    for (words, said) in [
        ("init 1?raw:GET\\n barrier", "rank 1 on arm-user"),
        ("init 1?raw:GET\\n barrier", "'GET' is not a line of PMI-1"),
        ("init 1?raw:cmd=dance\\n barrier", "asks for 'dance'"),
        ("init 0?raw:cmd=put\\n barrier", "its 'put' is not usable: it has no 'key'"),
        ("0?raw:cmd=barrier_in\\n init barrier", "asks for 'barrier_in' before 'init'"),
        ("0?raw:cmd\\n hang", "'cmd' is not a line of PMI-1"),
        ("0?raw:mcmd=spawn\\nendcmd\\n hang", "it has no usable 'execname'"),
        ("init 1?raw:mcmd=spawn\\nendcmd\\n barrier", "a request to start programs is not usable"),
        ("init 1?deaf barrier", "does not read what it is answered"),
    ] {
        mpirun(&machine, &format!("--on host,arm-user IMAGE pmi {words}")).fails_with(1, &[said]);
    }
    let long = "x".repeat(9000);
    mpirun(&machine, &format!("--on host,arm-user IMAGE pmi init 0?raw:cmd={long} barrier"))
        .fails_with(1, &["a line is longer than 8192 bytes"]);
    machine.down();
}

#[test]
fn spawned_ranks_belong_to_the_job() {
    let machine = Machine::up(&duo());
    let image = actor_image();
    let image = image.to_str().expect("a path of text");
    let child = "init,barrier,get:parent,variable:PMI_SPAWNED,finalize,tell:child";
    let run = |node: &str, steps: &str| {
        let spawn = format!("0?spawn:2,{node},{image},{steps}");
        mpirun(
            &machine,
            &format!("--on host,arm-user --label IMAGE pmi init {spawn} barrier finalize tell:parent"),
        )
    };
    let spread = lines(&run("", child));
    for line in [
        "[0@host] cmd=spawn_result rc=0",
        "[0@host] parent rank 0 of 2",
        "[1:0@host] child rank 0 of 2",
        "[1:0@host] PMI_SPAWNED=1",
        "[1:1@arm-user] child rank 1 of 2",
        "[1:1@arm-user] cmd=get_result rc=0 value=here",
    ] {
        assert!(spread.iter().any(|said| said == line), "no {line} in {spread:#?}");
    }
    let there = lines(&run("arm-user", child));
    assert!(there.iter().any(|said| said == "[1:0@arm-user] child rank 0 of 2"), "{there:#?}");
    let nowhere = lines(&run("mars", child));
    assert!(
        nowhere.iter().any(|said| said.starts_with("[0@host] cmd=spawn_result rc=-1 msg=")),
        "{nowhere:#?}"
    );
    // A count after the node's name works as in `--on`.
    let few = lines(&run("arm-user:1", child));
    assert!(few.iter().any(|said| said.starts_with("[0@host] cmd=spawn_result rc=-1 msg=")), "{few:#?}");
    // Spawned ranks end with the others, and the others with them.
    let failed = run("arm-user", "init,raise:9");
    failed.fails_with(128 + 9, &["rank 1:", "on arm-user", "SIGKILL"]);
    assert_eq!(machine.domains_on("arm-user"), []);
    machine.down();
}

#[test]
fn published_services_end_with_their_job() {
    let machine = Machine::up(&MachineFile::host());
    let steps = "init publish:my/sea=port#1$ publish:my/sea=port#2$ barrier tell:there hang";
    let first = start(&machine, &format!("-n 1 HOST pmi {steps}"));
    let said = first.wait_for("there");
    assert!(said.contains("cmd=publish_result rc=0\ncmd=publish_result rc=-1"), "{said}");
    let second =
        mpirun(&machine, "-n 1 HOST pmi init lookup:my/sea unpublish:my/sea lookup:other finalize").ok();
    let answers: Vec<&str> = second.lines().collect();
    assert_eq!(answers[0], "cmd=lookup_result rc=0 port=port#1$");
    assert!(answers[1].starts_with("cmd=unpublish_result rc=-1"), "it is another's: {second}");
    assert_eq!(answers[2], "cmd=lookup_result rc=-1 msg=no_such_service");
    first.signal(Signal::INT);
    assert_eq!(first.finish().status, 130);
    let gone = mpirun(&machine, "-n 1 HOST pmi init lookup:my/sea finalize").ok();
    assert_eq!(gone, "cmd=lookup_result rc=-1 msg=no_such_service\n");
    machine.down();
}

#[test]
fn input_goes_to_the_selected_rank() {
    let machine = Machine::up(&duo());
    let text = "word ".repeat(40_000).into_bytes();
    for (who, first, second) in [("0", 200_000, 0), ("all", 200_000, 200_000), ("none", 0, 0)] {
        let mut running = start(&machine, &format!("--on host,arm-user --stdin {who} IMAGE pmi read"));
        running.feed(text.clone());
        let said = lines(&running.finish());
        let expected = [format!("rank 0 read {first} bytes"), format!("rank 1 read {second} bytes")];
        assert_eq!(said, expected, "--stdin {who}");
    }
    machine.down();
}

#[test]
fn several_programs_are_one_job_and_lines_stay_whole() {
    let machine = Machine::up(&duo());
    let summary = machine.folder().join("summary.json");
    let words = format!(
        "--json {} -n 1 HOST pmi init barrier finalize tell:one : -np 2 -x GIVEN=x --on arm-user IMAGE pmi init barrier \
         variable:GIVEN finalize tell:two",
        summary.display()
    );
    let both = mpirun(&machine, &words);
    let expected = ["GIVEN=x", "GIVEN=x", "one rank 0 of 3", "two rank 1 of 3", "two rank 2 of 3"];
    assert_eq!(lines(&both), expected);
    let text = std::fs::read_to_string(&summary).expect("a summary");
    let summary: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((summary["status"].as_u64(), summary["reason"].is_null()), (Some(0), true));
    assert_eq!(summary["ranks"][2]["node"], "arm-user");
    assert_eq!(summary["ranks"][2]["status"], 0);
    let many = mpirun(&machine, "-n 6 HOST mutter 500");
    assert!(many.ok().lines().all(|line| line.len() < 100), "lines are mixed");
    machine.down();
}

#[test]
fn host_commands_run_from_their_path() {
    let machine = Machine::up(&duo());
    let folder = machine.folder().join("own");
    std::fs::create_dir_all(&folder).expect("a folder");
    let script = |name: &str, text: &str| -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("a script");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
        path
    };
    let shown = script("shown", "#!/bin/sh\necho $0 $PMI_RANK $1 $HERE_ALONE\n");
    // Ranks get the environment and working directory of the user.
    let mut command = machine.command();
    command.args(["mpirun", "-n", "2", shown.to_str().expect("text"), "a b"]).env("HERE_ALONE", "yes");
    let said = lines(&Running::start(&mut command).finish());
    let path = shown.display();
    assert_eq!(said, [format!("{path} 0 a b yes"), format!("{path} 1 a b yes")]);
    // Programs are found on PATH and relative to the current folder.
    assert_eq!(mpirun(&machine, "-n 2 sh -c true").ok(), "");
    assert_eq!(mpirun(&machine, "-n 1 own/shown x").ok().split(' ').nth(1), Some("0"));
    mpirun(&machine, &format!("--on arm-user {path}"))
        .fails_with(1, &["is a script, which runs on the host alone"]);
    mpirun(&machine, "--on arm-user HOST pmi").fails_with(1, &["no build for aarch64", "node arm-user"]);
    // An executable is not copied, so it knows its own folder.
    let own = mpirun(&machine, "-n 1 HOST tell").ok();
    assert!(own.contains(&format!("argument 0: \"{}\"", host_actor().display())), "{own}");
    machine.down();
}

#[test]
fn invalid_options_start_nothing() {
    let machine = Machine::up(&duo());
    for (words, status, said) in [
        ("-n 0 HOST pmi", 2, "at least one rank"),
        ("-n 5000 HOST pmi", 2, "at most 4096 ranks"),
        ("-n 7 --on host:2,arm-user:3 IMAGE pmi", 2, "the number of ranks is 7, but the named nodes take 5"),
        ("-n 2 --on mars IMAGE pmi", 1, "no node 'mars'"),
        ("-n 2 nowhere", 2, "program 'nowhere' not found"),
        ("-n 2 ./Cargo", 2, "program './Cargo' not found"),
        ("-n 2 HOST pmi : : HOST", 2, "required arguments"),
        ("--shared-memory none HOST", 2, "invalid value"),
        ("--on host", 2, "required arguments"),
    ] {
        mpirun(&machine, words).fails_with(status, &[said]);
    }
    assert_eq!(machine.domains_on("host"), []);
    machine.down();
}

#[test]
fn interrupted_mpirun_leaves_no_domains() {
    let machine = Machine::up(&duo());
    let run = || {
        let running = start(&machine, "--on host:2,arm-user:2 --label IMAGE pmi init barrier tell:met hang");
        running.wait_for("[3@arm-user] met");
        running
    };
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let running = run();
        running.signal(signal);
        running.finish().fails_with(status, &["the remaining 4 ranks were ended"]);
        assert_eq!((machine.domains_on("host"), machine.domains_on("arm-user")), (vec![], vec![]));
    }
    let running = run();
    running.signal(Signal::KILL);
    assert_eq!(running.finish().status, 137);
    assert!(
        eventually(|| machine.domains_on("host").is_empty() && machine.domains_on("arm-user").is_empty())
    );
    machine.down();
}

#[test]
fn many_ranks_start_and_meet() {
    let machine = Machine::up(&duo());
    let all = mpirun(&machine, "-n 64 HOST pmi init put:k=v barrier get:k-63 finalize");
    assert_eq!(lines(&all), vec!["cmd=get_result rc=0 value=v"; 64]);
    let turns = mpirun(&machine, "-n 6 --on host,arm-user --map round-robin --label IMAGE pmi tell:I");
    let expected: Vec<String> = (0..6)
        .map(|rank| {
            format!("[{rank}@{}] I rank {rank} of 6", if rank % 2 == 0 { "host" } else { "arm-user" })
        })
        .collect();
    assert_eq!(lines(&turns), expected);
    machine.down();
}

/// MPI program that stays until it is killed, or lists MPICH's files in shared memory.
const STAY: &str = r#"
#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **words) {
    if (count > 1) {
        DIR *folder = opendir("/dev/shm");
        struct dirent *file;
        while (folder && (file = readdir(folder)))
            if (strncmp(file->d_name, "mpich_", 6) == 0) puts(file->d_name);
        return folder ? 0 : 1;
    }
    MPI_Init(&count, &words);
    MPI_Barrier(MPI_COMM_WORLD);
    puts("stays");
    fflush(stdout);
    for (;;) pause();
}
"#;

/// Returns MPICH's shared-memory files that a process of this host has mapped.
fn files_of(pid: i32) -> BTreeSet<PathBuf> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("a process of ours");
    let paths = maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5));
    paths.filter(|path| path.starts_with("/dev/shm/mpich_")).map(PathBuf::from).collect()
}

/// With real MPI: its files in shared memory are removed with the job, however that ends.
#[test]
fn a_job_that_is_killed_leaves_no_files_of_mpi() {
    let Some(mpi) = Mpi::find() else { return };
    let machine = Machine::up(&mpi.with_vm(mpi.with_user(MachineFile::host(), "arm-user"), "arm0"));
    std::fs::write(machine.folder().join("stay.c"), STAY).expect("a source");
    machine.tombolo(["mpicc", "stay.c", "-o", "stay.tbi"]).ok();
    let run = |on: &str| {
        let job = machine.start(["mpirun", "--on", on, "--label", "--timeout", "90", "./stay.tbi"]);
        for (rank, node) in on.split(',').enumerate() {
            job.wait_for(&format!("[{rank}@{node}] stays"));
        }
        let ranks = ["host", "arm-user"].map(|node| machine.domains_on(node));
        let files: BTreeSet<PathBuf> = ranks.iter().flatten().flat_map(|(_, pid)| files_of(*pid)).collect();
        assert!(files.len() >= 2 && files.iter().all(|file| file.exists()), "{files:?}");
        (job, ranks[0][0].1, files)
    };
    let none_stays = |files: &BTreeSet<PathBuf>| files.iter().all(|file| !file.exists());
    let on_arm0 = || lines(&machine.tombolo(["mpirun", "--on", "arm0", "./stay.tbi", "list"]));
    for (end, status) in [("a rank", 137), ("a rank on arm0", 143), ("the job", 130)] {
        let (job, rank, files) = run("host,arm-user,arm0");
        assert_eq!(on_arm0().len(), 1);
        match end {
            "a rank" => machine.kill(rank),
            "a rank on arm0" => drop(machine.tombolo(["kill", &machine.domains_on("arm0")[0].0]).ok()),
            _ => job.signal(Signal::INT),
        }
        job.finish().fails_with(status, &["the remaining "]);
        assert!(none_stays(&files), "{end}: {files:?}");
        assert_eq!(on_arm0(), Vec::<String>::new(), "{end}");
    }
    // A killed mpirun cannot remove them; a later one does, once they are old.
    let (job, _, files) = run("host,arm-user");
    job.signal(Signal::KILL);
    assert_eq!(job.finish().status, 137);
    assert!(
        eventually(|| machine.domains_on("host").is_empty() && machine.domains_on("arm-user").is_empty())
    );
    let long_ago = SystemTime::now() - Duration::from_secs(120);
    for file in files.iter().filter_map(|path| std::fs::File::open(path).ok()) {
        file.set_modified(long_ago).expect("it is ours");
    }
    machine.tombolo(["mpirun", "-n", "1", "true"]).ok();
    assert!(none_stays(&files), "{files:?}");
    machine.down();
}

/// With real MPI: MPICH over Tombolo's provider.
#[test]
fn unmodified_mpi_programs_run_on_nodes_of_other_isas() {
    let Some(mpi) = Mpi::find() else { return };
    let machine = Machine::up(&mpi.with_vm(mpi.with_user(MachineFile::host(), "arm-user"), "arm0"));
    let ring = mpi.image("ring");
    let ring = ring.to_str().expect("a path of text");
    for on in ["host:3", "host:2,arm-user:2", "host:2,arm0:2"] {
        let said = machine.tombolo(["mpirun", "--on", on, "--timeout", "90", ring]).ok();
        assert!(said.contains("ring: right on"), "{on}: {said}");
    }
    // `MPI_Comm_split_type` reports shared memory correctly.
    let source = "#include <mpi.h>\n#include <stdio.h>\nint main(int count, char **words) { MPI_Comm near; int ranks, rank; \
                  MPI_Init(&count, &words); MPI_Comm_rank(MPI_COMM_WORLD, &rank); \
                  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near); \
                  MPI_Comm_size(near, &ranks); printf(\"%d near\\n\", ranks); fflush(stdout); \
                  if (count > 1 && rank == 1) MPI_Abort(MPI_COMM_WORLD, 9); \
                  if (count > 1) MPI_Barrier(MPI_COMM_WORLD); return MPI_Finalize(); }\n";
    std::fs::write(machine.folder().join("near.c"), source).expect("a source");
    machine.tombolo(["mpicc", "near.c", "-o", "near"]).ok();
    // The host runs the executable, the other node the image beside it.
    let near = |whose: &str| {
        let words =
            ["mpirun", "--on", "host:2,arm-user", "--shared-memory", whose, "--timeout", "90", "./near"];
        lines(&machine.tombolo(words))
    };
    assert_eq!(near("tombolo"), ["1 near", "1 near", "1 near"]);
    assert_eq!(near("mpi"), ["1 near", "2 near", "2 near"]);
    let aborted = machine.tombolo(["mpirun", "--on", "host,arm0", "--timeout", "90", "./near", "abort"]);
    aborted.fails_with(9, &["rank 1 on arm0", "called MPI_Abort(9)"]);
    machine.down();
}
