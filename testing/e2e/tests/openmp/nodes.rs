//! OpenMP teams whose workers are domains on unlike nodes: images of `tombolo ompcc` with the kit's run-time.

use std::fs;
use std::path::Path;

use tombolo::Isa;
use tombolo_e2e::{Machine, MachineFile, eventually, omp};
use tombolo_machine::Image;
use tombolo_machine::image::ImageBuilder;

/// Modes with workers in separate address spaces.
const MODES: [&str; 2] = ["exclusive", "hybrid"];

/// Brings up a machine with these nodes and compiles programs. Returns `None` and reports a skipped test if
/// they cannot be compiled.
pub(crate) fn machine(file: &MachineFile, programs: &[&str]) -> Option<Machine> {
    if !omp::can_link() {
        return None;
    }
    let machine = Machine::up(file);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../omp/programs");
    for program in programs {
        let source = ["c", "cpp"].map(|end| folder.join(program).with_extension(end));
        let source = source.iter().find(|source| source.is_file()).expect("a program of testing/omp");
        compile(&machine, &source.to_string_lossy(), program, &[]);
    }
    Some(machine)
}

pub(crate) fn compile(machine: &Machine, source: &str, name: &str, options: &[&str]) {
    let output = format!("{name}.tbi");
    let words = [&["ompcc", "-O2", "-fopenmp", source, "-o", &output, "-lm"], options].concat();
    machine.tombolo(words).ok();
}

fn with_users() -> MachineFile {
    MachineFile::host().with_user("arm-user", "aarch64")
}

/// Returns the arguments that run a program on a node with environment variables.
fn run<'a>(on: &'a str, variables: &[&'a str], program: &'a [&'a str]) -> Vec<&'a str> {
    let mut words = vec!["run", "--on", on];
    for variable in variables {
        words.extend(["--env", *variable]);
    }
    words.extend(program);
    words
}

fn check_programs(machine: &Machine, on: &str, nodes: &str, programs: &[&str], threads: &[&str]) {
    for (mode, threads) in MODES.iter().flat_map(|mode| threads.iter().map(move |threads| (mode, threads))) {
        let (mode, threads) = (format!("OMP_TOMBOLO={mode}"), format!("OMP_NUM_THREADS={threads}"));
        for program in programs {
            let image = format!("{program}.tbi");
            let variables = [&mode, &threads, nodes, "OMP_CANCELLATION=true"];
            let said = machine.tombolo(run(on, &variables, &[&image])).ok();
            assert!(said.contains(": right"), "{program} on {on}, {nodes} {mode} {threads}: {said}");
        }
    }
}

#[test]
fn constructs_work_with_workers_of_other_isas() {
    let programs = ["regions", "loops", "tasks", "depend", "order", "nested", "cancel"];
    let Some(machine) = machine(&with_users(), &programs) else { return };
    check_programs(&machine, "host", "OMP_TOMBOLO_NODES=arm-user", &programs, &["3"]);
    check_programs(&machine, "arm-user", "OMP_TOMBOLO_NODES=host:2", &["regions", "tasks"], &["4"]);
    machine.down();
}

#[test]
fn cpp_objects_work_on_workers_of_other_isas() {
    let programs = ["classes", "objects"];
    let Some(machine) = machine(&with_users(), &programs) else { return };
    check_programs(&machine, "host", "OMP_TOMBOLO_NODES=arm-user", &programs, &["2", "5"]);
    check_programs(&machine, "arm-user", "OMP_TOMBOLO_NODES=host:2", &["classes"], &["3"]);
    let said = machine.tombolo(run("host", &["OMP_NUM_THREADS=3"], &["classes.tbi"])).ok();
    assert!(said.ends_with("classes: right\n8 names\n"), "{said}");
    machine.down();
}

#[test]
fn a_virtual_machine_behind_a_window_takes_part() {
    let programs = ["regions", "loops", "tasks", "nested"];
    let file = with_users().with_vm("arm0", "window_mib = 64");
    let Some(machine) = machine(&file, &programs) else { return };
    check_programs(&machine, "host", "OMP_TOMBOLO_NODES=all", &programs, &["5"]);
    check_programs(&machine, "arm0", "OMP_TOMBOLO_NODES=host", &["regions", "tasks"], &["4"]);
    machine.down();
}

/// Every thread uses some of its stack.
const COUNTS: &str = r#"
#include <stdio.h>
#include <string.h>
int use(char *frame);
int main(void)
{
    int threads = 0;
#pragma omp parallel reduction(+ : threads)
    {
        char frame[48 << 10];
        memset(frame, 1, sizeof frame);
        threads += use(frame);
    }
    printf("%d threads\n", threads);
    return 0;
}
__attribute__((noinline)) int use(char *frame) { return frame[4096]; }
"#;

#[test]
fn oversized_teams_fit_or_are_refused_with_remedy() {
    let file = MachineFile::host().with_vm("arm0", "window_mib = 64");
    let Some(machine) = machine(&file, &["ends"]) else { return };
    fs::write(machine.folder().join("counts.c"), COUNTS).unwrap();
    compile(&machine, "counts.c", "counts", &["-Wall"]);
    let (mode, nodes) = ("OMP_TOMBOLO=hybrid", "OMP_TOMBOLO_NODES=arm0");
    for threads in [48, 64, 128] {
        let count = format!("OMP_NUM_THREADS={threads}");
        let said = machine.tombolo(run("host", &[mode, nodes, &count], &["counts.tbi"])).ok();
        assert_eq!(said, format!("{threads} threads\n"));
    }
    // The size advised by the message suffices.
    let large = [mode, nodes, "OMP_NUM_THREADS=64", "OMP_STACKSIZE=4M"];
    let said = machine.tombolo(run("host", &large, &["counts.tbi"]));
    said.fails_with(
        1,
        &["no stack of 4096 KiB for another thread", "OMP_NUM_THREADS", "OMP_STACKSIZE, 64 KiB at least"],
    );
    let small = [mode, nodes, "OMP_NUM_THREADS=64", "OMP_STACKSIZE=64K"];
    assert_eq!(machine.tombolo(run("host", &small, &["counts.tbi"])).ok(), "64 threads\n");
    // For an arena that is too large the message advises one that fits, even if the program is not on the
    // node yet.
    let said = machine.tombolo(run("host", &[mode, nodes, "OMP_TOMBOLO_ARENA=1G"], &["ends.tbi", "well"]));
    said.fails_with(1, &["the arena cannot be had, 1073741824 bytes", "M makes it smaller"]);
    let smaller = format!("OMP_TOMBOLO_ARENA={}", advised_arena(&said.stderr));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../omp/programs/ends.c");
    compile(&machine, &source.to_string_lossy(), "other", &["-O1"]);
    machine.tombolo(run("host", &[mode, nodes, &smaller], &["other.tbi", "well"])).ok();
    let said = machine.tombolo(run("host", &[mode, nodes], &["ends.tbi", "heap"]));
    said.fails_with(
        3,
        &["gives it what is left of the window, a larger `window_mib` in the machine file more"],
    );
    let size = advised_arena(&said.stderr);
    let larger = format!("OMP_TOMBOLO_ARENA={size}");
    let said = machine.tombolo(run("host", &[mode, nodes, &larger], &["ends.tbi", "heap"]));
    said.fails_with(3, &[&format!("all {} MiB of the arena", size.trim_end_matches('M'))]);
    assert_eq!(larger, smaller);
    machine.down();
}

/// Returns the arena size that a message advises.
fn advised_arena(said: &str) -> &str {
    said.split("OMP_TOMBOLO_ARENA=").nth(1).and_then(|rest| rest.split(' ').next()).expect("a size")
}

/// Regions on a device after regions of one thread on the host: woken threads find no work and sleep again.
const TURNS: &str = r#"
#include <stdio.h>
int main(void)
{
    int field[1024] = {0}, sum = 0;
    for (int turn = 0; turn < 100; turn++) {
#pragma omp target teams distribute parallel for if(turn >= 70) map(tofrom : field) num_threads(8)
        for (int i = 0; i < 1024; i++)
            field[i] += 1;
    }
    for (int i = 0; i < 1024; i++)
        sum += field[i];
    printf("%d\n", sum);
    return 0;
}
"#;

#[test]
fn rewoken_sleepers_do_not_spin() {
    let file = MachineFile::host().with_vm("arm0", "window_mib = 64");
    let Some(machine) = machine(&file, &["ends"]) else { return };
    fs::write(machine.folder().join("turns.c"), TURNS).unwrap();
    compile(&machine, "turns.c", "turns", &["-Wall"]);
    for _ in 0..3 {
        let variables = ["OMP_TOMBOLO=hybrid", "OMP_TOMBOLO_NODES=arm0", "OMP_NUM_THREADS=4"];
        assert_eq!(machine.tombolo(run("host", &variables, &["turns.tbi"])).ok(), "102400\n");
    }
    machine.down();
}

#[test]
fn report_from_virtual_machine_goes_to_granted_file() {
    let file = MachineFile::host().with_vm("arm0", "window_mib = 64");
    let Some(machine) = machine(&file, &["report"]) else { return };
    for mode in MODES {
        let mode = format!("OMP_TOMBOLO={mode}");
        let variables = [&mode, "OMP_NUM_THREADS=2", "OMP_TOMBOLO_REPORT=report.jsonl"];
        machine.tombolo(run("arm0", &variables, &["report.tbi"])).fails_with(
            1,
            &[
                "OMP_TOMBOLO_REPORT=report.jsonl: node arm0 has no files of the host",
                "--grant report.jsonl:rw",
            ],
        );
        machine.tombolo(run("arm0", &variables, &["--grant", "report.jsonl:rw", "report.tbi"])).ok();
        let path = machine.folder().join("report.jsonl");
        let report = fs::read_to_string(&path).unwrap();
        assert!(report.contains("\"node\":\"arm0\"") && report.contains("loops._omp_fn.0"), "{report}");
        fs::remove_file(path).unwrap();
    }
    // Threads of one process do not use the machine; their measurements are printed all the same.
    let variables = ["OMP_NUM_THREADS=2", "OMP_TOMBOLO_REPORT=/no/such/folder/report.jsonl"];
    let said = machine.tombolo(run("arm0", &variables, &["report.tbi"]));
    said.ok();
    assert!(said.stderr.contains("cannot be written to /no/such/folder/report.jsonl"), "{said}");
    assert!(said.stderr.contains("loops._omp_fn.0"), "{said}");
    machine.down();
}

/// Data shared by a team: numbers, functions, a list on the heap, strings, thread-local variables.
const TOGETHER: &str = r#"
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __aarch64__
#define HERE "aarch64"
#else
#define HERE "x86_64"
#endif
enum { COUNT = 100000 };
static double field[COUNT];
static long hits;
static const char *titles[2];
static int squares(int x) { return x * x; }
static int cubes(int x) { return x * x * x; }
static int (*steps[2])(int) = { squares, cubes };
struct item { struct item *next; int value; };
static struct item *list;
static int own[3000];
#pragma omp threadprivate(own)
static void push(int value)
{
    struct item *item = malloc(sizeof *item);
    *item = (struct item){ list, value };
    list = item;
}
int main(void)
{
    double sum = 0;
    int local[2] = { 0 }, copied = 0;
    const char *variable = "";
    for (int i = 0; i < 10; i++)
        push(i);
    own[2999] = 21;
#pragma omp parallel reduction(+ : sum, copied) num_threads(2) copyin(own)
    {
        int me = omp_get_thread_num();
        titles[me] = HERE;
#pragma omp for
        for (int i = 0; i < COUNT; i++) {
            field[i] = i * 0.5;
            sum += field[i];
#pragma omp atomic
            hits++;
        }
        local[me] = steps[me](3 + me);
        copied = own[2999]++;
        if (me == 1)
            variable = getenv("OMP_OF_TEST");
#pragma omp critical
        push(100 + me);
#pragma omp barrier
#pragma omp single
        steps[0] = cubes;
    }
    int items = 0, total = 0;
    for (struct item *item = list; item; item = item->next) {
        items++;
        total += item->value;
    }
    printf("%s and %s: %.1f %ld, %d %d %d, %d items make %d, %d %d %s\n", titles[0], titles[1], sum, hits, local[0],
           local[1], steps[0](2), items, total, copied, own[2999], variable);
    return 0;
}
"#;

#[test]
fn workers_of_other_isas_share_data_and_functions() {
    let Some(machine) = machine(&with_users(), &[]) else { return };
    fs::write(machine.folder().join("together.c"), TOGETHER).unwrap();
    compile(&machine, "together.c", "together", &["-Wall"]);
    let variables = ["OMP_TOMBOLO=exclusive", "OMP_TOMBOLO_NODES=arm-user", "OMP_OF_TEST=told"];
    let said = machine.tombolo(run("host", &variables, &["together.tbi"])).ok();
    let right = "x86_64 and aarch64: 2499975000.0 100000, 9 64 8, 12 items make 246, 42 22 told\n";
    assert_eq!(said, right);
    // The program inherits the environment of the command.
    let mut command = machine.command();
    command.args(["run", "together.tbi"]).env("OMP_TOMBOLO", "exclusive").env("OMP_OF_TEST", "told");
    let output = command.env("OMP_TOMBOLO_NODES", "arm-user").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), right, "{output:?}");
    machine.down();
}

#[test]
fn builds_of_two_images_do_not_work_together() {
    let Some(machine) = machine(&with_users(), &[]) else { return };
    fs::write(machine.folder().join("together.c"), TOGETHER).unwrap();
    compile(&machine, "together.c", "one", &[]);
    compile(&machine, "together.c", "other", &["-O1"]);
    let image = |name: &str| Image::open(&machine.folder().join(name).with_extension("tbi")).unwrap();
    let (one, other) = (image("one"), image("other"));
    let program = |image: &Image, isa: Isa| image.program(isa).unwrap().bytes.to_vec();
    let mixed = ImageBuilder::new("mixed")
        .with_program(program(&one, Isa::X86_64))
        .and_then(|builder| builder.with_program(program(&other, Isa::Aarch64)))
        .unwrap();
    fs::write(machine.folder().join("mixed.tbi"), mixed.finish().unwrap().as_bytes()).unwrap();
    let variables = ["OMP_TOMBOLO=hybrid", "OMP_TOMBOLO_NODES=arm-user"];
    machine
        .tombolo(run("host", &variables, &["mixed.tbi"]))
        .fails_with(1, &["the worker on node arm-user is of another image than the program"]);
    machine.down();
}

#[test]
fn nested_functions_with_addresses_are_refused_with_remedy() {
    let Some(machine) = machine(&MachineFile::host(), &[]) else { return };
    let source = "
        __attribute__((noipa)) static int call(int (*function)(int)) { return function(1); }
        int main(void) {
            int base = 10;
            int add(int more) { return base + more; }
            return call(add);
        }";
    fs::write(machine.folder().join("nested.c"), source).unwrap();
    machine
        .tombolo(["ompcc", "-fopenmp", "nested.c", "-o", "nested.tbi"])
        .fails_with(1, &["needs an executable stack", "make that a function of its own"]);
    machine.down();
}

#[test]
fn invalid_nodes_are_refused_with_remedy() {
    let file = with_users().with_user("big", "s390x");
    let Some(machine) = machine(&file, &["regions"]) else { return };
    for (nodes, said) in [
        ("arm7", "unknown node arm7; the machine has host, arm-user, big"),
        ("big", "node big runs s390x, and OpenMP programs are made for x86_64 and aarch64"),
    ] {
        let nodes = format!("OMP_TOMBOLO_NODES={nodes}");
        let words = run("host", &["OMP_TOMBOLO=exclusive", &nodes], &["regions.tbi"]);
        machine.tombolo(words).fails_with(1, &[said]);
    }
    let variables = ["OMP_TOMBOLO_NODES=arm-user"];
    machine
        .tombolo(run("host", &variables, &["regions.tbi"]))
        .fails_with(1, &["OMP_TOMBOLO has to be exclusive or hybrid"]);
    machine.down();
}

#[test]
fn job_ends_entirely_when_any_domain_ends() {
    let Some(machine) = machine(&with_users(), &["ends"]) else { return };
    for (how, status, said) in [
        ("killed", 137, &["the worker on node ", "was ended by signal 9: the job ends"][..]),
        ("exit", 7, &[]),
        ("stack", 139, &["its stack is too small (OMP_STACKSIZE)"]),
        (
            "heap",
            3,
            &["out of memory: all 64 MiB of the arena are in use; OMP_TOMBOLO_ARENA=128M gives it more"],
        ),
        (
            "blocks",
            3,
            &["out of memory: all 64 MiB of the arena are in use; OMP_TOMBOLO_ARENA=128M gives it more"],
        ),
        (
            "tasks",
            1,
            &["out of memory: all 64 MiB of the runtime's memory are in use; OMP_TOMBOLO_ARENA=128M"],
        ),
        ("fork", 1, &["the program calls fork"]),
        ("main", 5, &[]),
    ] {
        for mode in MODES {
            let mode = format!("OMP_TOMBOLO={mode}");
            // The last of three threads is the second thread on arm-user.
            let nodes = "OMP_TOMBOLO_NODES=host:1,arm-user";
            let variables = [&mode, nodes, "OMP_TOMBOLO_ARENA=64M"];
            machine.tombolo(run("host", &variables, &["ends.tbi", how])).fails_with(status, said);
        }
    }
    // Threads have stacks of the system's size; the message for an overflow names that.
    let shared = "OMP_TOMBOLO=shared";
    machine.tombolo(run("host", &[shared], &["ends.tbi", "frames"])).ok();
    machine
        .tombolo(run("host", &[shared], &["ends.tbi", "main-deep"]))
        .fails_with(139, &["main on node host overflowed its stack of", "`ulimit -s` sets its size"]);
    machine.tombolo(run("host", &[shared, "OMP_STACKSIZE=256K"], &["ends.tbi", "stack"])).fails_with(
        139,
        &["thread 2 of a team of 3 on node host overflowed its stack of", "OMP_STACKSIZE sets its size"],
    );
    // The end of the job may be reported before that of its last worker.
    assert!(eventually(|| machine.domains_on("arm-user").is_empty()), "{:?}", machine.domains_on("arm-user"));
    // A stream opened by the program works in every worker, on any node, and nothing written is lost.
    for mode in MODES {
        let mode = format!("OMP_TOMBOLO={mode}");
        machine
            .tombolo(run("host", &[&mode, "OMP_TOMBOLO_NODES=host:1,arm-user"], &["ends.tbi", "file"]))
            .ok();
    }
    machine.down();
}

#[test]
fn lost_node_ends_the_job() {
    let Some(machine) = machine(&with_users(), &[]) else { return };
    let source = "#include <stdio.h>\n#include <unistd.h>\nint main(void)\n{\n#pragma omp parallel num_threads(2)\n\
                  { puts(\"begun\"); fflush(stdout); for (;;) sleep(1); }\n}\n";
    fs::write(machine.folder().join("stays.c"), source).unwrap();
    compile(&machine, "stays.c", "stays", &[]);
    let variables = ["OMP_TOMBOLO=hybrid", "OMP_TOMBOLO_NODES=arm-user"];
    let job = machine.start(run("host", &variables, &["stays.tbi"]));
    job.wait_for("begun\nbegun\n");
    machine.kill(machine.pid_of("arm-user"));
    job.finish().fails_with(1, &["the worker on node arm-user was lost with its node"]);
    machine.down();
}

#[test]
fn the_example_computes_the_same_wherever_its_workers_are() {
    let Some(machine) = machine(&with_users(), &[]) else { return };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/omp/heat.c");
    compile(&machine, &source.to_string_lossy(), "heat", &["-Wall", "-Wextra", "-Werror"]);
    let plate = |variables: &[&str]| {
        let said = machine.tombolo(run("host", variables, &["heat.tbi", "100", "20"])).ok();
        let (first, rows) =
            said.split_once('\n').map(|(first, rows)| (first.to_owned(), rows.to_owned())).unwrap();
        let row = |line: &str| line.split_whitespace().next().unwrap().parse::<u32>().unwrap();
        (first, rows.lines().map(row).collect::<Vec<_>>())
    };
    let (alone, rows) = plate(&[]);
    assert_eq!(rows, [98 * 20, 0]);
    let (both, rows) = plate(&["OMP_TOMBOLO=hybrid", "OMP_TOMBOLO_NODES=arm-user", "OMP_NUM_THREADS=2"]);
    assert_eq!((both, rows), (alone, vec![49 * 20, 49 * 20]));
    machine
        .tombolo(["run", "heat.tbi", "x"])
        .fails_with(2, &["x is no number from 3 to 20000", "usage: heat"]);
    machine.down();
}
