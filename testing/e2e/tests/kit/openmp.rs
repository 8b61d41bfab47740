//! OpenMP programs compiled by GCC, run with our `libgomp.so.1`. Each checks itself (`testing/omp/programs`).

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tombolo_e2e::{libgomp, skipped};

/// Fewer and more threads than processors, and a number that divides no loop evenly.
const THREADS: [&str; 4] = ["1", "2", "4", "7"];

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../omp/programs").join(name)
}

/// Compiles a program with the author's options. Returns `None` and reports a skipped test if the compiler is
/// missing.
fn compile(compiler: &str, name: &str) -> Option<PathBuf> {
    static COMPILED: Mutex<BTreeMap<String, Option<PathBuf>>> = Mutex::new(BTreeMap::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    compiled.entry(name.to_owned()).or_insert_with(|| compile_uncached(compiler, name)).clone()
}

fn compile_uncached(compiler: &str, name: &str) -> Option<PathBuf> {
    let folder = libgomp().join("../../../e2e/omp");
    std::fs::create_dir_all(&folder).expect("a folder");
    let program = folder.join(name.replace('.', "-"));
    let output = Command::new(compiler)
        .args(["-O2", "-fopenmp", "-o"])
        .arg(&program)
        .arg(source(name))
        .current_dir(&folder)
        .output();
    match output {
        Ok(output) => {
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
            Some(program)
        }
        Err(error) => {
            skipped(&format!("{name}: {compiler} is not installed ({error})"));
            None
        }
    }
}

/// Runs a program with our library and a timeout.
fn run(program: &Path, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new("timeout");
    command.arg("120").arg(program).env("LD_LIBRARY_PATH", libgomp());
    command.envs(variables.iter().copied()).output().expect("it starts")
}

/// Modes of `OMP_TOMBOLO`: workers are threads or processes.
const MODES: [&str; 2] = ["shared", "exclusive"];

fn check_program(compiler: &str, name: &str, variables: &[(&str, &str)]) {
    let Some(program) = compile(compiler, name) else { return };
    for (threads, mode) in THREADS.iter().flat_map(|threads| MODES.map(|mode| (*threads, mode))) {
        let mut all = vec![("OMP_NUM_THREADS", threads), ("OMP_TOMBOLO", mode)];
        all.extend_from_slice(variables);
        let output = run(&program, &all);
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name} with {all:?}: {}: {said}", output.status);
        assert!(said.contains(": right"), "{name} with {all:?}: {said}");
    }
}

#[test]
fn library_has_symbol_versions_of_libgomp() {
    let output =
        Command::new("readelf").args(["-W", "--dyn-syms"]).arg(libgomp().join("libgomp.so.1")).output();
    let symbols = String::from_utf8(output.expect("readelf runs").stdout).expect("text");
    for name in [
        "GOMP_parallel@@GOMP_4.0",
        "GOMP_teams4@@GOMP_5.1",
        "omp_set_lock_@@OMP_3.0",
        "omp_calloc@@OMP_5.0.2",
        "omp_target_memcpy_rect_async@@OMP_5.1.1",
    ] {
        assert!(symbols.contains(name), "{name} is missing");
    }
    assert!(!symbols.contains("rust_"), "nothing else is visible");
}

#[test]
fn regions() {
    check_program("gcc", "regions.c", &[]);
}

#[test]
fn loops() {
    check_program("gcc", "loops.c", &[]);
    check_program("gcc", "loops.c", &[("OMP_SCHEDULE", "guided,3")]);
}

#[test]
fn order() {
    check_program("gcc", "order.c", &[]);
}

#[test]
fn locks() {
    check_program("gcc", "locks.c", &[]);
}

#[test]
fn tasks() {
    check_program("gcc", "tasks.c", &[]);
    check_program("gcc", "tasks.c", &[("OMP_WAIT_POLICY", "passive")]);
}

#[test]
fn dependences() {
    check_program("gcc", "depend.c", &[("OMP_MAX_TASK_PRIORITY", "3")]);
}

#[test]
fn cancellation() {
    check_program("gcc", "cancel.c", &[]);
    check_program("gcc", "cancel.c", &[("OMP_CANCELLATION", "true")]);
}

#[test]
fn regions_within_regions() {
    check_program("gcc", "nested.c", &[]);
    check_program("gcc", "nested.c", &[("OMP_PROC_BIND", "spread"), ("OMP_PLACES", "threads")]);
}

#[test]
fn functions_of_the_program_with_names_of_the_c_library() {
    check_program("gcc", "own_names.c", &[]);
}

#[test]
fn places() {
    for places in ["threads", "{0}, {0}, {0}", "0,0"] {
        check_program("gcc", "places.c", &[("OMP_PLACES", places), ("OMP_PROC_BIND", "spread")]);
    }
}

#[test]
fn the_host_as_a_device() {
    check_program("gcc", "host.c", &[]);
}

#[test]
fn children_of_fork_have_regions_where_workers_are_threads() {
    let Some(program) = compile("gcc", "forks.c") else { return };
    let output = run(&program, &[]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "forks: right\n", "{output:?}");
}

#[test]
fn objects_of_cpp() {
    check_program("g++", "objects.cpp", &[]);
}

#[test]
fn fortran() {
    check_program("gfortran", "fortran.f90", &[]);
}

#[test]
fn display_env_shows_settings_and_invalid_values() {
    let Some(program) = compile("gcc", "locks.c") else { return };
    let output = run(
        &program,
        &[
            ("OMP_DISPLAY_ENV", "verbose"),
            ("OMP_SCHEDULE", "guided,7"),
            ("OMP_NUM_THREADS", "several"),
            ("OMP_STACKSIZE", "2M"),
        ],
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    for expected in
        ["OMP_SCHEDULE = 'GUIDED,7'", "OMP_STACKSIZE = '2097152'", "OMP_NUM_THREADS=several makes no sense"]
    {
        assert!(said.contains(expected), "{expected} is missing: {said}");
    }
}

#[test]
fn thread_affinity_is_displayed_once() {
    let Some(program) = compile("gcc", "loops.c") else { return };
    for mode in MODES {
        let output = run(
            &program,
            &[
                ("OMP_NUM_THREADS", "3"),
                ("OMP_TOMBOLO", mode),
                ("OMP_DISPLAY_AFFINITY", "true"),
                ("OMP_AFFINITY_FORMAT", "at %L: %n of %N"),
            ],
        );
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        for id in 0..3 {
            let line = format!("at 1: {id} of 3");
            assert_eq!(said.lines().filter(|&said| said == line).count(), 1, "{mode}: {line}: {said}");
        }
    }
}

#[test]
fn a_report_names_regions() {
    let Some(program) = compile("gcc", "locks.c") else { return };
    let output = run(&program, &[("OMP_TOMBOLO_REPORT", "1"), ("OMP_NUM_THREADS", "2")]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("main._omp_fn.0"), "{said}");
}

/// Parses the lines of a report for programs that concern regions, by the name of the region.
fn regions_of(report: &str) -> BTreeMap<String, serde_json::Value> {
    let parse = |line: &str| -> serde_json::Value {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
    };
    let named = |line: serde_json::Value| Some((line["region"].as_str()?.to_owned(), line));
    report.lines().map(parse).filter_map(named).collect()
}

#[test]
fn report_lists_work_of_each_thread() {
    let Some(program) = compile("gcc", "report.c") else { return };
    for mode in MODES {
        let file = program.with_file_name(format!("report-{mode}-{}.jsonl", std::process::id()));
        let path = file.to_str().expect("text");
        let output =
            run(&program, &[("OMP_TOMBOLO_REPORT", path), ("OMP_NUM_THREADS", "3"), ("OMP_TOMBOLO", mode)]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report = std::fs::read_to_string(&file).expect("a report");
        std::fs::remove_file(&file).expect("it is there");
        let regions = regions_of(&report);
        for (region, iterations, tasks) in [("loops._omp_fn.0", 1000, 0), ("tasks._omp_fn.0", 0, 20)] {
            let line = regions.get(region).unwrap_or_else(|| panic!("{region} is missing: {report}"));
            let sum = |list: &str, what: &str| {
                let list = line[list].as_array().expect("a list");
                list.iter().map(|at| at[what].as_u64().expect("a number")).sum::<u64>()
            };
            assert_eq!((&line["runs"], &line["threads"]), (&3.into(), &3.into()), "{line}");
            for list in ["by_node", "by_thread"] {
                assert_eq!(
                    (sum(list, "iterations"), sum(list, "tasks")),
                    (3 * iterations, 3 * tasks),
                    "{line}"
                );
                // A thread is either busy or waiting.
                let total = line["total_ns"].as_u64().expect("a number");
                assert_eq!(sum(list, "busy_ns") + sum(list, "waited_ns"), 3 * total, "{line}");
            }
            assert!(line["imbalance"].as_f64().is_some_and(|imbalance| imbalance >= 1.0), "{line}");
        }
    }
}

#[test]
fn report_has_the_requested_format() {
    let Some(program) = compile("gcc", "report.c") else { return };
    let said = |form: &str| {
        let output = run(&program, &[("OMP_TOMBOLO_REPORT", form), ("OMP_NUM_THREADS", "2")]);
        assert!(output.status.success(), "{form}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let nodes = said("1");
    assert!(nodes.contains("2 on host: busy") && !nodes.contains("thread 1"), "{nodes}");
    let threads = said("2");
    assert!(threads.contains("2 on host: busy") && threads.contains("thread 1 (host): busy"), "{threads}");
    assert_eq!(regions_of(&said("json")).len(), 2);
    assert_eq!(said("0"), "");
    assert!(said("perhaps").contains("OMP_TOMBOLO_REPORT=perhaps makes no sense"));
    assert!(said("/no/such/folder/report").contains("cannot be written to /no/such/folder/report"));
}

#[test]
fn missing_mandatory_device_is_an_error() {
    let Some(program) = compile("gcc", "host.c") else { return };
    let output = run(&program, &[("OMP_TARGET_OFFLOAD", "mandatory")]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("OMP_TARGET_OFFLOAD is mandatory"), "{said}");
}

/// Runs `ends.c` with workers that are processes and returns status and output; asserts that no worker is
/// left.
fn ends(how: &str, more: &[(&str, &str)]) -> (Option<i32>, String) {
    let program = compile("gcc", "ends.c").expect("gcc is there");
    // Other tests may run the same program concurrently.
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    let mark = format!("{}-{}", std::process::id(), NUMBERS.fetch_add(1, Ordering::Relaxed));
    let mut command = Command::new("timeout");
    command.arg("60").arg(&program).arg(how).env("LD_LIBRARY_PATH", libgomp());
    command.env("OMP_TOMBOLO", "exclusive").env("TOMBOLO_OMP_MARK", &mark).envs(more.iter().copied());
    let output = command.output().expect("it starts");
    let left: Vec<_> = std::fs::read_dir("/proc")
        .expect("processes")
        .flatten()
        .filter_map(|entry| std::fs::read(entry.path().join("environ")).ok())
        .filter(|environment| environment.windows(mark.len()).any(|part| part == mark.as_bytes()))
        .collect();
    assert!(left.is_empty(), "{how}: {} processes are left", left.len());
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code().or_else(|| Some(128 + output.status.signal()?)), said)
}

fn assert_ends(how: &str, more: &[(&str, &str)], status: i32, words: &[&str]) {
    let (code, said) = ends(how, more);
    assert_eq!(code, Some(status), "{how}: {said}");
    for word in words {
        assert!(said.contains(word), "{how}: {word} is missing: {said}");
    }
}

#[test]
fn worker_processes_end_with_the_program() {
    assert_ends("well", &[], 0, &["2 of 2 workers have a process of their own"]);
    assert_ends("prints", &[], 0, &["printed by a worker", "2 of 2"]);
    assert_ends("file", &[], 0, &["2 of 2"]);
    assert_ends("main", &[], 5, &["2 of 2"]);
    assert_ends("shell", &[], 0, &["out of a shell"]);
    for mode in MODES.into_iter().chain(["hybrid"]) {
        // Exit handlers of the program run once, or not at all.
        for (how, status, times) in [("exit", 7, 1), ("gone", 6, 0)] {
            let (code, said) = ends(how, &[("OMP_TOMBOLO", mode)]);
            assert_eq!(
                (code, said.matches("at the end").count()),
                (Some(status), times),
                "{how}, {mode}: {said}"
            );
        }
    }
}

#[test]
fn children_of_threaded_program_end_immediately() {
    assert_ends("children", &[("OMP_TOMBOLO", "shared")], 0, &[]);
}

#[test]
fn ordered_output_of_threads_keeps_its_order() {
    let Some(program) = compile("gcc", "printed.c") else { return };
    let mut expected: Vec<String> = (0..1000).map(|line| format!("line {line} of a thousand")).collect();
    expected.insert(0, "before".to_owned());
    expected.push("after".to_owned());
    for mode in MODES.into_iter().chain(["hybrid"]) {
        let variables = [("OMP_TOMBOLO", mode), ("OMP_TOMBOLO_GROUP", "2"), ("OMP_NUM_THREADS", "4")];
        let output = run(&program, &variables);
        assert!(output.status.success(), "{mode}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[..1002], expected, "{mode}");
        // Lines written under `critical` come in any order, but unbroken.
        let whole = |line: &&str| line.starts_with("a whole line of ") && line.ends_with(" at once");
        assert_eq!(lines[1002..].iter().filter(|line| whole(line)).count(), 1000, "{mode}");
        assert_eq!(lines.len(), 2002, "{mode}");
    }
}

#[test]
fn threads_of_the_program_can_have_regions() {
    assert_ends("created", &[("OMP_TOMBOLO", "shared")], 0, &["3 threads"]);
    for mode in ["exclusive", "hybrid"] {
        let words = ["1 threads", "regions of threads that the program creates itself have one thread each"];
        assert_ends("created", &[("OMP_TOMBOLO", mode)], 0, &words);
    }
}

#[test]
fn lost_worker_ends_job_with_reason() {
    assert_ends("killed", &[], 128 + 9, &["worker process", "ended by signal 9", "the job ends"]);
    let words = [
        "thread 2 of a team of 3 on node",
        "overflowed its stack of 256 KiB; OMP_STACKSIZE sets its size",
        "signal 11",
    ];
    assert_ends("stack", &[("OMP_STACKSIZE", "256K")], 128 + 11, &words);
}

#[test]
fn small_main_stack_is_reported_with_remedy() {
    let arena = ("OMP_TOMBOLO_ARENA", "32M");
    let words = [
        "main on node",
        "overflowed its stack of 4096 KiB",
        "ulimit -s",
        "OMP_TOMBOLO_ARENA=64M gives it more",
    ];
    for mode in ["exclusive", "hybrid"] {
        // Overflow into the guard pages step by step, and with a frame that skips them.
        for how in ["main-deep", "main-wide"] {
            assert_ends(how, &[arena, ("OMP_TOMBOLO", mode)], 128 + 11, &words);
        }
        // The system's stack limit is lower than the arena's.
        let (code, said) = ends("main-deep", &[("OMP_TOMBOLO", mode)]);
        let is_said = said.contains("`ulimit -s` sets its size") && !said.contains("OMP_TOMBOLO_ARENA");
        assert!(code == Some(128 + 11) && is_said, "{said}");
    }
}

#[test]
fn small_system_stack_is_reported_with_remedy() {
    let shared = ("OMP_TOMBOLO", "shared");
    for how in ["main-deep", "main-wide"] {
        assert_ends(
            how,
            &[shared],
            128 + 11,
            &["main on node host overflowed its stack of ", "`ulimit -s` sets its size"],
        );
    }
    let words =
        ["thread 2 of a team of 3 on node host overflowed its stack of 256 KiB; OMP_STACKSIZE sets its size"];
    assert_ends("stack", &[shared, ("OMP_STACKSIZE", "256K")], 128 + 11, &words);
    assert_ends("frames", &[shared], 0, &["0 of 2 workers"]);
    // Any other fault ends the program as usual.
    let (code, said) = ends("fault", &[shared]);
    assert!(code == Some(128 + 11) && !said.contains("overflowed"), "{said}");
}

#[test]
fn full_arena_is_reported_with_remedy() {
    let arena = ("OMP_TOMBOLO_ARENA", "64M");
    for mode in ["exclusive", "hybrid"] {
        // Exhausts the heap with large blocks, which leave room for small ones, and with small blocks.
        for how in ["heap", "blocks"] {
            let words =
                ["all 64 MiB of the arena are in use; OMP_TOMBOLO_ARENA=128M gives it more", "no memory"];
            assert_ends(how, &[arena, ("OMP_TOMBOLO", mode)], 3, &words);
        }
    }
    let words = ["1099511627776 MiB were asked for at once, and the arena has 64"];
    assert_ends("huge", &[arena], 3, &words);
    for mode in ["exclusive", "hybrid", "shared"] {
        let words = ["all 64 MiB of the runtime's memory are in use; OMP_TOMBOLO_ARENA=128M gives it more"];
        assert_ends("tasks", &[arena, ("OMP_TOMBOLO", mode)], 1, &words);
    }
}

#[test]
fn unsupported_uses_of_worker_processes_are_reported() {
    assert_ends("fork", &[], 1, &["calls fork", "before"]);
    assert_ends("well", &[("OMP_TOMBOLO", "several")], 1, &["OMP_TOMBOLO=several: there are"]);
    for mode in MODES {
        let variables = [("OMP_TOMBOLO", mode), ("OMP_TOMBOLO_NODES", "arm:2,vm")];
        assert_ends("well", &variables, 1, &["OMP_TOMBOLO_NODES=arm,vm: only", "ompcc"]);
    }
}
