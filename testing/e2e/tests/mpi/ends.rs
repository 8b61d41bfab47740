//! Abnormal ends of MPI jobs: the cause that `tombolo mpirun` reports, and leftovers. Also calls at the
//! beginning and end of MPI that a program may repeat or abandon.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rustix::process::Signal;
use tombolo_e2e::mpi::Mpi;
use tombolo_e2e::{Finished, Machine, MachineFile, actor_image, eventually};

/// Runs the test program, which talks to its process manager as MPI does.
fn actors(machine: &Machine, words: &str) -> Finished {
    let image = actor_image();
    let image = image.to_str().expect("a path of text");
    machine.tombolo(["mpirun"].into_iter().chain(words.split(' ')).map(|word| match word {
        "IMAGE" => image,
        word => word,
    }))
}

/// Compiles an MPI program.
fn compile(machine: &Machine, name: &str, source: &str) {
    std::fs::write(machine.folder().join(name).with_extension("c"), source).expect("a source");
    let image = format!("{name}.tbi");
    machine.tombolo(["mpicc", "-O2", &format!("{name}.c"), "-o", &image]).ok();
}

/// Error code that MPICH passes to `MPI_Abort` when a peer is gone.
const ERROR_OF_MPICH: &str = "678509711";

#[test]
fn most_explanatory_rank_is_the_reason() {
    let machine = Machine::up(&MachineFile::host().with_user("arm-user", "aarch64"));
    let run = |words: &str| actors(&machine, &format!("--on host:2,arm-user IMAGE pmi {words}"));
    // Ranks that die as a consequence of the abort, with or without an abort of their own.
    let others = format!("0?sleep:50 0?abort:{ERROR_OF_MPICH} 0?raise:11 2?abort:{ERROR_OF_MPICH} 2?raise:6");
    run(&format!("init 1?abort:37 {others} hang"))
        .fails_with(37, &["rank 1 on host", "called MPI_Abort(37)"]);
    run(&format!("init {others} 1?abort:37 hang"))
        .fails_with(37, &["rank 1 on host", "called MPI_Abort(37)"]);
    // The reactions of other ranks arrive before the death itself is reported. mpirun also sends some of
    // these signals itself.
    for (signal, name) in [(9, "SIGKILL"), (15, "SIGTERM"), (6, "SIGABRT")] {
        let killed = run(&format!("init barrier 0?abort:{ERROR_OF_MPICH} 2?sleep:20 2?raise:{signal} hang"));
        killed.fails_with(128 + signal, &["rank 2 on arm-user", name]);
    }
    run(&format!("init barrier 0?abort:{ERROR_OF_MPICH} 2?sleep:20 2?exit:5 hang"))
        .fails_with(5, &["rank 2 on arm-user", "ended with status 5"]);
    let alone = run(&format!("init 1?abort:{ERROR_OF_MPICH} hang"));
    alone.fails_with(143, &["rank 1 on host", "met an error in MPI", ERROR_OF_MPICH, "2 ranks"]);
    machine.down();
}

/// Waits at barriers forever, except for a rank that aborts.
const BARRIERS: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **words) {
    int rank;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int met = 0;; met++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (met == 10 && rank == 0) { puts("met"); fflush(stdout); }
        if (met == 10 && count > 1 && rank == atoi(words[1])) MPI_Abort(MPI_COMM_WORLD, 37);
    }
}
"#;

/// With real MPI, whose ranks notice that others are gone and end in many ways.
#[test]
fn abort_and_kill_are_distinguished_from_follow_ups() {
    let Some(mpi) = Mpi::find() else { return };
    let machine = Machine::up(&mpi.with_user(MachineFile::host(), "arm-user"));
    compile(&machine, "barriers", BARRIERS);
    for on in ["host:4", "host:4", "host:4", "host:4", "host:2,arm-user:2"] {
        let aborted = machine.tombolo(["mpirun", "--on", on, "--timeout", "90", "barriers.tbi", "1"]);
        aborted.fails_with(37, &["rank 1 on host", "called MPI_Abort(37)", "3 ranks"]);
    }
    for by in [Signal::KILL, Signal::TERM] {
        let job = machine.start(["mpirun", "--on", "host:2,arm-user", "--timeout", "90", "barriers.tbi"]);
        job.wait_for("met");
        let (id, pid) = machine.domains_on("arm-user")[0].clone();
        match by {
            Signal::KILL => machine.kill(pid),
            _ => drop(machine.tombolo(["kill", &id]).ok()),
        }
        job.finish().fails_with(128 + by.as_raw(), &["rank 2 on arm-user", "was killed by"]);
    }
    machine.down();
}

/// Connects to a port where no process accepts: its owner waits in MPI or sleeps outside.
const CONNECT: &str = r#"
#include <mpi.h>
#include <stdio.h>
int main(int count, char **words) {
    int rank, error, class;
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm other;
    MPI_Info hints;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (rank == 1) {
        MPI_Info_create(&hints);
        MPI_Info_set(hints, "timeout", "2");
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        for (int turn = 0; turn < 2; turn++) {
            error = MPI_Comm_connect(port, hints, 0, MPI_COMM_SELF, &other);
            MPI_Error_class(error, &class);
            puts(class == MPI_ERR_PORT ? "no connection" : "an unexpected outcome");
        }
        MPI_Info_free(&hints);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) MPI_Close_port(port);
    MPI_Finalize();
    return 0;
}
"#;

#[test]
fn connect_without_accept_times_out() {
    let Some(mpi) = Mpi::find() else { return };
    let machine = Machine::up(&mpi.with_user(MachineFile::host(), "arm-user"));
    compile(&machine, "connect", CONNECT);
    for on in ["host:2", "host,arm-user"] {
        let said = machine.tombolo(["mpirun", "--on", on, "--timeout", "90", "connect.tbi"]).ok();
        assert_eq!(said, "no connection\nno connection\n", "{on}");
    }
    machine.down();
}

/// Initializes MPI three times, with sessions.
const SESSIONS: &str = r#"
#include <mpi.h>
#include <stdio.h>
int main(void) {
    for (int turn = 0; turn < 3; turn++) {
        MPI_Session session;
        MPI_Group world;
        MPI_Comm all;
        int rank, sum;
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
        MPI_Group_from_session_pset(session, "mpi://WORLD", &world);
        MPI_Comm_create_from_group(world, "again", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &all);
        MPI_Comm_rank(all, &rank);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all);
        if (rank == 0) printf("session %d: %d\n", turn, sum);
        fflush(stdout);
        MPI_Group_free(&world);
        MPI_Comm_free(&all);
        MPI_Session_finalize(&session);
    }
    return 0;
}
"#;

#[test]
fn reinitializing_mpi_works_silently() {
    let Some(mpi) = Mpi::find() else { return };
    let machine = Machine::up(&mpi.with_user(MachineFile::host(), "arm-user"));
    compile(&machine, "sessions", SESSIONS);
    for (on, sum) in [("host:4", 6), ("host:2,arm-user", 3)] {
        let job = machine.tombolo(["mpirun", "--on", on, "--timeout", "90", "sessions.tbi"]);
        let expected: String = (0..3).map(|turn| format!("session {turn}: {sum}\n")).collect();
        assert_eq!(job.ok(), expected, "{on}");
        // Regression: the host's loader complained about a library for the emulated processor.
        assert_eq!(job.stderr, "", "{on}");
    }
    machine.down();
}

/// Returns MPICH's shared-memory files that a process of this host has mapped.
fn files_of(pid: i32) -> BTreeSet<PathBuf> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("a process of ours");
    let paths = maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5));
    paths.filter(|path| path.starts_with("/dev/shm/mpich_")).map(PathBuf::from).collect()
}

#[test]
fn an_mpirun_that_is_killed_leaves_nothing() {
    let Some(mpi) = Mpi::find() else { return };
    let machine = Machine::up(&mpi.with_user(MachineFile::host(), "arm-user"));
    compile(&machine, "barriers", BARRIERS);
    let job = machine.start(["mpirun", "--on", "host:2,arm-user", "barriers.tbi"]);
    job.wait_for("met");
    let ranks = ["host", "arm-user"].map(|node| machine.domains_on(node));
    let files: BTreeSet<PathBuf> = ranks.iter().flatten().flat_map(|(_, pid)| files_of(*pid)).collect();
    assert!(files.len() >= 2 && files.iter().all(|file| file.exists()), "{files:?}");
    job.signal(Signal::KILL);
    assert_eq!(job.finish().status, 137);
    assert!(eventually(|| files.iter().all(|file| !file.exists())), "{files:?}");
    assert!(eventually(|| machine.processes("mpirun-cleaner").is_empty()));
    machine.down();
}

/// Opens a file collectively, and prints the result.
const FILES: &str = r#"
#include <mpi.h>
#include <stdio.h>
int main(int count, char **words) {
    int error, class, length;
    char text[MPI_MAX_ERROR_STRING];
    MPI_File file;
    MPI_Init(&count, &words);
    error = MPI_File_open(MPI_COMM_WORLD, words[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_Error_class(error, &class);
    MPI_Error_string(error, text, &length);
    puts(class == MPI_ERR_IO ? text : class == MPI_SUCCESS ? "opened" : "an unexpected outcome");
    if (error == MPI_SUCCESS) MPI_File_close(&file);
    MPI_Finalize();
    return 0;
}
"#;

#[test]
fn files_are_refused_where_nodes_have_their_own() {
    let Some(mpi) = Mpi::find() else { return };
    let machine = Machine::up(&mpi.with_vm(MachineFile::host(), "arm0"));
    compile(&machine, "files", FILES);
    let file = machine.folder().join("shared");
    let file = file.to_str().expect("a path of text");
    let run = |on: &str| machine.tombolo(["mpirun", "--on", on, "--timeout", "90", "files.tbi", file]).ok();
    assert_eq!(run("host:2"), "opened\nopened\n");
    let refused = run("host,arm0");
    let sentences = refused.matches("the nodes of this job have no file system in common").count();
    assert_eq!(sentences, 2, "{refused}");
    machine.down();
}

/// Writes and reads without checking for errors, with a file handle that initially has a stale value.
const CARELESS: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <string.h>
int main(int count, char **words) {
    int numbers[64] = {1, 2, 3}, refused = 0;
    MPI_File file;
    MPI_Init(&count, &words);
    memset(&file, 0x5a, sizeof file);
    MPI_File_open(MPI_COMM_WORLD, words[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    refused += MPI_File_write_at_all(file, 0, numbers, 64, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS;
    refused += MPI_File_read_at_all(file, 0, numbers, 64, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS;
    refused += MPI_File_close(&file) != MPI_SUCCESS;
    printf("%d calls were refused\n", refused);
    MPI_Finalize();
    return 0;
}
"#;

#[test]
fn ignored_file_refusal_is_explained() {
    let Some(mpi) = Mpi::find() else { return };
    let machine = Machine::up(&mpi.with_vm(MachineFile::host(), "arm0"));
    compile(&machine, "careless", CARELESS);
    let ran =
        machine.tombolo(["mpirun", "--on", "host,arm0", "--timeout", "90", "careless.tbi", "/tmp/shared"]);
    let complaints = ran.stderr.matches("tombolo: MPI-IO is refused: the nodes of this job").count();
    assert_eq!(complaints, 2, "{}", ran.stderr);
    assert_eq!(ran.ok(), "3 calls were refused\n3 calls were refused\n");
    machine.down();
}
