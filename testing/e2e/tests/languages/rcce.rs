//! RCCE programs on the host, on foreign processors of the other byte order, across windows, and on boards.

use std::path::{Path, PathBuf};

use tombolo_e2e::c::{AARCH64, S390X, boards, host_and, put_into_kit};
use tombolo_e2e::{Machine, MachineFile};

/// Brings up a virtual machine with a coherent window, one with a non-coherent window and a cache that evicts
/// at every fourth operation, and a node of foreign programs of the other byte order.
fn machine() -> Option<Machine> {
    // Updates the kit's libraries.
    AARCH64.library()?;
    S390X.library()?;
    put_into_kit("x86_64");
    let file = MachineFile::host()
        .with_vm("arm0", "")
        .with_vm("often", "coherence = \"flush\"\ncache_seed = 2\nevict_one_in = 4")
        .with_user("big", "s390x");
    Some(Machine::up(&file))
}

/// Builds a program of the tree for all nodes.
fn built(machine: &Machine, source: &str, arguments: &[&str]) -> String {
    built_for(machine, source, &[], arguments)
}

/// Builds a program of the tree with options that select the targets.
fn built_for(machine: &Machine, source: &str, options: &[&str], arguments: &[&str]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(source);
    let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
    let image: PathBuf = machine.folder().join(format!("{name}{}.tbi", arguments.len()));
    let image = image.display().to_string();
    let source = path.display().to_string();
    let mut words = vec!["build", &source, "-o", &image];
    words.extend(options);
    if !arguments.is_empty() {
        words.push("--");
        words.extend(arguments);
    }
    machine.tombolo(words).ok();
    image
}

#[test]
fn rcce_programs_run_on_all_nodes() {
    let Some(machine) = machine() else { return };
    let checks = built(&machine, "testing/e2e/c/rcce_checks.c", &[]);
    for (ranks, on) in [("3", "host:3"), ("3", "host:2,big"), ("3", "arm0,host:2"), ("3", "host,often,big")] {
        let said = machine.tombolo(["rccerun", "-nue", ranks, "--on", on, &checks]).ok();
        assert_eq!(said.matches("all as it should be").count(), 3, "{on}: {said}");
    }
    let pingpong = built(&machine, "examples/rcce/pingpong.c", &[]);
    for on in ["host,arm0", "often,host", "host,big"] {
        let said = machine.tombolo(["rccerun", "-nue", "2", "--on", on, &pingpong, "32768", "5"]).ok();
        assert!(said.contains("ping-pong: all bytes arrived"), "{on}: {said}");
    }
    let stencil = built(&machine, "examples/rcce/stencil.c", &[]);
    for on in ["host:2,arm0", "big,often,host"] {
        let said = machine.tombolo(["rccerun", "-nue", "3", "--on", on, &stencil, "20"]).ok();
        assert!(said.contains("equal to one rank's"), "{on}: {said}");
    }
    let share = built(&machine, "examples/rcce/share.c", &[]);
    let said = machine.tombolo(["rccerun", "-nue", "3", "--on", "host,often,big", &share]).ok();
    assert_eq!(said.matches("found 6413 primes").count(), 3, "{said}");
    mistakes(&machine, &pingpong);
    assert_eq!(machine.node("often")["window_used_bytes"], 0, "what jobs took of the window came back");
    machine.down();
}

/// Runs on an Arm board with caches that evict at every fourth operation, and on a board of each instruction
/// set with a coherent window, as far as the C library for boards is installed.
#[test]
fn programs_in_c_and_ranks_run_on_boards() {
    let of_boards = boards();
    if of_boards.is_empty() {
        return;
    }
    put_into_kit("x86_64");
    let evicting = "coherence = \"flush\"\ncache_seed = 3\nevict_one_in = 4";
    let file = MachineFile::host()
        .with_board("board", "aarch64", "")
        .with_board("evicting", "aarch64", evicting)
        .with_board("risc", "riscv64", "");
    let machine = Machine::up(&file);
    let isas = host_and(&of_boards);
    let built = |source: &str| built_for(&machine, source, &["--isa", &isas], &[]);
    let runtime = built_for(&machine, "testing/e2e/c/board_runtime.c", &["--isa", &isas[7..]], &[]);
    let checks = built("testing/e2e/c/rcce_checks.c");
    let (pingpong, share) = (built("examples/rcce/pingpong.c"), built("examples/rcce/share.c"));
    let has = |isa: &str| of_boards.contains(&isa);
    let all = [("board", "aarch64"), ("evicting", "aarch64"), ("risc", "riscv64")];
    for (board, _) in all.into_iter().filter(|(_, isa)| has(isa)) {
        let ended = machine.tombolo(["run", "--on", board, &runtime, "word", "two words"]);
        assert_eq!(ended.status, 3, "{board}: {ended}");
        let text = ended.to_string();
        assert!(text.contains("an error") && text.contains(&"x".repeat(600)), "{board}: {ended}");
        assert!(text.contains("at exit, without an end of line"), "{board}: {ended}");
        let on = format!("host:2,{board}");
        let said = machine.tombolo(["rccerun", "-nue", "3", "--on", &on, &checks]).ok();
        assert_eq!(said.matches("all as it should be").count(), 3, "{on}: {said}");
        let said = machine.tombolo(["rccerun", "-nue", "3", "--on", &on, &share]).ok();
        assert_eq!(said.matches("found 6413 primes").count(), 3, "{on}: {said}");
        let on = format!("host,{board}");
        let said = machine.tombolo(["rccerun", "-nue", "2", "--on", &on, &pingpong, "32768", "5"]).ok();
        assert!(said.contains("ping-pong: all bytes arrived"), "{on}: {said}");
        assert_eq!(machine.node(board)["window_used_bytes"], 0, "what jobs took of the window came back");
    }
    machine.down();
}

/// Runs ranks on two boards and the host, with rank 0 on any of them and with coherent and non-coherent
/// common windows.
#[test]
fn ranks_run_on_several_boards() {
    let of_boards = boards();
    let (Some(first), Some(second)) = (of_boards.first(), of_boards.last()) else { return };
    let isas = host_and(&of_boards);
    put_into_kit("x86_64");
    let evicting = "size_mib = 8\ncoherence = \"flush\"\ncache_seed = 3\nevict_one_in = 4";
    let file = MachineFile::host()
        .with_board("b0", first, "")
        .with_board("b1", second, "")
        .with_board("f0", first, "")
        .with_board("f1", second, "")
        .with_window("steady", &["host", "b0", "b1"], "size_mib = 8")
        .with_window("evicting", &["host", "f0", "f1"], evicting);
    let machine = Machine::up(&file);
    let built = |source: &str| built_for(&machine, source, &["--isa", &isas], &[]);
    let checks = built("testing/e2e/c/rcce_checks.c");
    let (pingpong, stencil) = (built("examples/rcce/pingpong.c"), built("examples/rcce/stencil.c"));
    let share = built("examples/rcce/share.c");
    for [one, other] in [["b0", "b1"], ["f0", "f1"]] {
        for on in [format!("host,{one},{other}"), format!("{one},{other},host")] {
            let said = machine.tombolo(["rccerun", "-nue", "3", "--on", &on, &checks]).ok();
            assert_eq!(said.matches("all as it should be").count(), 3, "{on}: {said}");
            let said = machine.tombolo(["rccerun", "-nue", "3", "--on", &on, &stencil, "20"]).ok();
            assert!(said.contains("equal to one rank's"), "{on}: {said}");
        }
        let on = format!("{other},host,{one}");
        let said = machine.tombolo(["rccerun", "-nue", "3", "--on", &on, &share]).ok();
        assert_eq!(said.matches("found 6413 primes").count(), 3, "{on}: {said}");
        for on in [format!("{one},{other}"), format!("{other},host")] {
            let said = machine.tombolo(["rccerun", "-nue", "2", "--on", &on, &pingpong, "32768", "5"]).ok();
            assert!(said.contains("ping-pong: all bytes arrived"), "{on}: {said}");
        }
    }
    let mistakes = built("testing/e2e/c/rcce_mistakes.c");
    for (mistake, on, said) in [
        ("leaves", "b0,b1,host", "RCCE_barrier: rank 1 on b1 has ended without RCCE_finalize"),
        ("first-leaves", "b0,b1,host", "RCCE_recv: rank 0 on b0 has ended without RCCE_finalize"),
        ("unequal", "f1,f0,host", "RCCE_barrier: unequal symmetric allocation"),
    ] {
        let ended = machine.tombolo(["rccerun", "-nue", "3", "--on", on, &mistakes, mistake]);
        ended.fails_with(1, &[said]);
        assert!(!ended.text().contains("went on"), "{ended}");
    }
    let apart = machine.tombolo(["rccerun", "-nue", "2", "--on", "b0,f0", &pingpong]);
    apart.fails_with(1, &["no window is reached by all nodes with ranks (b0, f0)"]);
    let domain = tombolo::Domain::attach_to_machine(machine.name()).expect("it is up");
    let windows = domain.windows().expect("it is up");
    assert!(windows.iter().all(|window| window.bytes.0 == 0), "what jobs took came back: {windows:?}");
    drop(domain);
    machine.down();
}

/// Jobs that cannot continue end with an error that names rank and call.
fn mistakes(machine: &Machine, pingpong: &str) {
    let image = built(machine, "testing/e2e/c/rcce_mistakes.c", &[]);
    for (mistake, said) in [
        ("leaves", "RCCE_barrier: rank 1 on host has ended without RCCE_finalize"),
        ("first-leaves", "RCCE_recv: rank 0 on host has ended without RCCE_finalize"),
        ("unequal", "RCCE_barrier: unequal symmetric allocation"),
        ("pending", "RCCE_finalize: requests are not complete: 0 sends, 1 receives"),
        ("lengths", "RCCE_bcast: rank 0 sent 100 bytes, and this receive is for 99"),
    ] {
        let ended = machine.tombolo(["rccerun", "-nue", "3", &image, mistake]);
        ended.fails_with(1, &[said]);
        assert!(!ended.text().contains("went on"), "{ended}");
    }
    machine.tombolo(["rccerun", "-nue", "3", &image, "aborts"]).fails_with(134, &["SIGABRT"]);
    let told = machine.tombolo(["rccerun", "-nue", "2", &image, "length"]).ok();
    assert!(told.contains("told"), "{told}");
    // Different buffer lengths, too little room, and nodes without a common window.
    let longer = built(machine, "examples/rcce/pingpong.c", &["-DRCCE_BUFF_SIZE_MAX=16384"]);
    let unequal = "rank 1 on host was built for message buffers of 16384 bytes, rank 0 for 8192";
    machine.tombolo(["run", pingpong, ":", &longer]).fails_with(1, &[unequal]);
    let short = machine.tombolo(["rccerun", "-nue", "2", "--buffer", "4096", pingpong]);
    short.fails_with(1, &["build it with -DRCCE_BUFF_SIZE_MAX=4096"]);
    let words = ["rccerun", "-nue", "2", "--on", "host,often", "--shared", "500000000", pingpong];
    machine.tombolo(words).fails_with(1, &["2 ranks with message buffers of 8192 bytes need"]);
    let apart = machine.tombolo(["rccerun", "-nue", "2", "--on", "arm0,often", pingpong]);
    apart.fails_with(1, &["no window is reached by all nodes with ranks (arm0, often)"]);
}
