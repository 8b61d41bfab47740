//! Migrating threads: functions marked with `TOMBOLO_MIGRATE` run on other nodes, with arguments and results
//! of C types. The programs check themselves (`testing/omp/programs`).

use std::fs;
use std::process::Command;

use tombolo_e2e::{Finished, Machine, MachineFile, eventually, omp};

use crate::nodes::{compile, machine};

pub(crate) const HYBRID: &str = "OMP_TOMBOLO=hybrid";
pub(crate) const EXCLUSIVE: &str = "OMP_TOMBOLO=exclusive";
pub(crate) const PAGES: &str = "OMP_TOMBOLO_MEMORY=pages";
pub(crate) const USER: &str = "OMP_TOMBOLO_NODES=arm-user";
pub(crate) const VM: &str = "OMP_TOMBOLO_NODES=arm0";

pub(crate) fn run(machine: &Machine, variables: &[&str], words: &[&str]) -> Finished {
    machine.tombolo(all_words(variables, words))
}

pub(crate) fn all_words<'a>(variables: &[&'a str], words: &[&'a str]) -> Vec<&'a str> {
    let mut all = vec!["run", "--on", "host"];
    all.extend(variables.iter().flat_map(|variable| ["--env", variable]));
    all.extend(words);
    all
}

pub(crate) fn with_user() -> MachineFile {
    MachineFile::host().with_user("arm-user", "aarch64")
}

/// Expected output of programs whose threads really move.
const MOVES: [(&[&str], &str); 6] = [
    (&["migrate.tbi", "creates"], "creates: right\n"),
    (&["migrate.tbi", "join"], "join: right\n"),
    (&["migrate.tbi", "types"], "types: right\n"),
    (&["migrate.tbi", "library"], "library: right\n"),
    (&["migrate.tbi", "walk", "3"], "walk: right, moved\n"),
    (&["migrate.tbi", "threads", "2"], "threads: right, moved\n"),
];

/// C++ program: functions with C linkage migrate. They may catch exceptions of any type and take pointers to
/// objects of any type.
const CXX: &str = r#"
#include <cstdio>
#include <string>
#include <vector>
#include <tombolo_migrate.h>
struct point { double x; int n; };
extern "C" {
TOMBOLO_MIGRATE(measure)
point measure(const std::vector<std::string> *texts, point sum)
{
    for (auto &text : *texts) sum.n += text.size();
    try {
        throw 3;
    } catch (int caught) {
        sum.n += caught;
    }
    sum.x *= 2;
    return sum;
}
TOMBOLO_MIGRATE(node)
int node() { return tombolo_node(); }
}
int main(int count, char **)
{
    std::vector<std::string> texts{"abc", "a much longer string than fits into it"};
    tombolo_migrate(tombolo_nodes() - 1);
    point sum = measure(&texts, {1.5, 1});
    std::printf("%g %d on %d\n", sum.x, sum.n, node());
    if (count > 1) try {
        throw 4;
    } catch (int) {
        std::printf("%d\n", node());
    }
}
"#;

#[test]
fn calls_run_on_a_node_of_another_instruction_set() {
    let Some(machine) = machine(&with_user(), &["migrate", "migrate_threads"]) else { return };
    for mode in [HYBRID, EXCLUSIVE] {
        for (words, said) in MOVES {
            assert_eq!(run(&machine, &[mode, USER], words).ok(), *said, "{mode} {words:?}");
        }
        let said = run(&machine, &[mode, USER], &["migrate_threads.tbi", "6", "10"]).ok();
        assert_eq!(said, "threads: right on 2 nodes\n", "{mode}");
    }
    fs::write(machine.folder().join("moves.cpp"), CXX).unwrap();
    compile(&machine, "moves.cpp", "moves", &[]);
    assert_eq!(run(&machine, &[HYBRID, USER], &["moves.tbi"]).ok(), "3 45 on 1\n");
    // Also while the thread handles an exception.
    assert_eq!(run(&machine, &[HYBRID, USER], &["moves.tbi", "holds"]).ok(), "3 45 on 1\n1\n");
    assert_eq!(run(&machine, &[], &["moves.tbi", "holds"]).ok(), "3 45 on 0\n0\n");
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/omp/migrate.c");
    compile(&machine, example, "example", &["-Wall", "-Wextra"]);
    let said = run(&machine, &[HYBRID, USER, "OMP_NUM_THREADS=2"], &["example.tbi", "20"]).ok();
    // 20 times 100 calls of both functions on the host, the calls on the node, and the regions.
    assert!(said.contains("to node 1 and back") && said.contains("\n4043 calls, result 4022\n"), "{said}");
    // Without other nodes it is an ordinary program.
    for variables in [&[][..], &[HYBRID]] {
        assert_eq!(run(&machine, variables, &["migrate.tbi", "types"]).ok(), "types: right\n");
        let said = run(&machine, variables, &["migrate_threads.tbi", "4", "5"]).ok();
        assert_eq!(said, "threads: right on 1 nodes\n");
    }
    // The program ends on the node where it is.
    let ends = |word: &str| run(&machine, &[HYBRID, USER], &["migrate.tbi", word]);
    ends("ends").fails_with(7, &[]);
    assert_eq!(ends("leaps").ok(), "leaps: right\n");
    ends("deep").fails_with(139, &["OMP_STACKSIZE sets its size"]);
    let small = [HYBRID, USER, "OMP_TOMBOLO_ARENA=16M", "OMP_STACKSIZE=1M"];
    run(&machine, &small, &["migrate_threads.tbi", "100", "1"]).fails_with(1, &["not so: pthread_create"]);
    assert!(eventually(|| machine.domains_on("host").is_empty()), "{:?}", machine.domains_on("host"));
    machine.down();
}

#[test]
fn threads_move_between_the_host_and_virtual_machines() {
    let file = MachineFile::host().with_vm("arm0", "").with_vm("arm1", "");
    let Some(machine) = machine(&file, &["migrate", "migrate_threads"]) else { return };
    for (words, said) in MOVES {
        assert_eq!(run(&machine, &[HYBRID, VM], words).ok(), *said, "{words:?}");
    }
    let said = run(&machine, &[HYBRID, VM, "OMP_STACKSIZE=96K"], &["migrate_threads.tbi", "64", "3"]).ok();
    assert_eq!(said, "threads: right on 2 nodes\n");
    // Three nodes of which two share no memory: everything is sent in pages.
    let both = "OMP_TOMBOLO_NODES=arm0,arm1";
    for (words, said) in &MOVES[..5] {
        assert_eq!(run(&machine, &[HYBRID, both, PAGES], words).ok(), *said, "pages {words:?}");
    }
    let said = run(&machine, &[HYBRID, both], &["migrate_threads.tbi", "4", "3"]).ok();
    assert_eq!(said, "threads: right on 3 nodes\n");
    // Loss of the node that executes a call.
    for (node, nodes) in [("arm1", both), ("arm0", VM)] {
        let job = machine.start(all_words(&[HYBRID, nodes], &["migrate.tbi", "stays"]));
        job.wait_for("begun\n");
        machine.kill(machine.pid_of(node));
        job.finish().fails_with(1, &[&format!("the worker on node {node} was lost with its node")]);
    }
    machine.down();
}

/// Functions that cannot migrate, with the expected message.
const REFUSED: [(&str, &str); 12] = [
    ("int f(const char *text, ...) { return *text; }", "it takes a variable number of arguments"),
    ("int f(a) int a; { return a; }", "its parameters are not declared in parentheses"),
    ("static int f(void) { return 1; }", "is not defined for all sources where it is marked"),
    ("int f(void);", "is not defined for all sources where it is marked"),
    ("int f(long double x) { return x > 0; }", "`x`: long double has 80 bits on x86_64"),
    ("long double f(void) { return 1; }", "`result`: long double"),
    ("int f(long double *x) { return *x > 0; }", "`*x`: long double"),
    (
        "int f(va_list words) { return va_arg(words, int); }",
        "`words`: it is of another kind on x86_64 than on aarch64",
    ),
    ("struct s { int a : 3, b : 4; }; int f(struct s s) { return s.a; }", "`s`: it has bit-fields"),
    (
        "struct __attribute__((packed)) s { char a; int b; }; int f(struct s s) { return s.b; }",
        "`s`: it is packed",
    ),
    ("struct s { _Alignas(32) int a; }; int f(struct s s) { return s.a; }", "is set in the source"),
    (
        "typedef float v __attribute__((vector_size(16))); float f(v x) { return x[0]; }",
        "`x`: it is a vector",
    ),
];

#[test]
fn what_cannot_migrate_is_refused_by_name() {
    if !omp::can_link() {
        return;
    }
    let machine = Machine::new(&MachineFile::host());
    let compiled = |text: &str| {
        let source = format!(
            "#include <stdarg.h>\n#include <tombolo_migrate.h>\nTOMBOLO_MIGRATE(f)\n{text}\nint main(void) {{ return tombolo_migrate(0); }}\n"
        );
        fs::write(machine.folder().join("refused.c"), source).unwrap();
        machine.tombolo(["ompcc", "-w", "refused.c", "-o", "refused.tbi"])
    };
    for (text, said) in REFUSED {
        compiled(text).fails_with(1, &["TOMBOLO_MIGRATE cannot be followed", "`f` ", said]);
    }
    compiled("int f(void) { return 1; }").ok();
}

#[test]
fn programs_of_another_compiler_have_one_node() {
    let folder = std::env::temp_dir().join(format!("tombolo-migrate-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let tree = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let program = folder.join("migrate");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-fopenmp", "-I", &format!("{tree}/models/omp/gomp"), "-o"]).arg(&program);
    let Ok(compiled) = gcc.arg(format!("{tree}/testing/omp/programs/migrate.c")).arg("-lm").output() else {
        return tombolo_e2e::skipped("gcc is missing");
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    for word in ["types", "library", "walk", "threads"] {
        let done = Command::new(&program).arg(word).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&done.stdout), format!("{word}: right\n"), "{done:?}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

const LOCALS: &str = "thread_locals.tbi";

/// Threads keep their thread-local variables on all nodes: in migrating calls, in threads that start on
/// another node, and in regions.
fn check_thread_locals(machine: &Machine, variables: &[&str], nodes: u32) {
    for word in ["moves", "threads", "regions"] {
        for place in ["OMP_TOMBOLO_PTHREADS=here", "OMP_TOMBOLO_PTHREADS=spread"] {
            let variables = [variables, &[place, "OMP_STACKSIZE=128K"]].concat();
            let said = run(machine, &variables, &[LOCALS, word]).ok();
            assert_eq!(said, format!("{word}: right on {nodes} nodes\n"), "{variables:?}");
        }
    }
}

/// A C++ thread-local object that each thread constructs at its first use.
const CXX_LOCAL: &str = r#"
#include <cstdio>
#include <pthread.h>
#include <tombolo_migrate.h>
static int made;
struct counted { int number; counted() : number(++made) {} };
static thread_local counted mine;
extern "C" {
TOMBOLO_MIGRATE(same)
int same(const counted *of_caller) { return &mine == of_caller ? mine.number : -1; }
}
static void *run(void *)
{
    tombolo_migrate(tombolo_nodes() - 1);
    return (void *)(long)same(&mine);
}
int main()
{
    long seen = 0;
    for (int number = 0; number < 3; number++) {
        pthread_t thread;
        void *result;
        pthread_create(&thread, nullptr, run, nullptr);
        pthread_join(thread, &result);
        seen = seen * 10 + (long)result;
    }
    std::printf("%ld, %d made\n", seen, made);
}
"#;

/// Code that addresses a variable through the thread pointer, for one instruction set.
const BY_POINTER: &str = r#"
#include <pthread.h>
_Thread_local int number;
#ifdef __x86_64__
int peek(void) { int x; __asm__("movl %%fs:number@tpoff, %0" : "=r"(x)); return x; }
#else
int peek(void) { return number; }
#endif
static void *run(void *argument) { return peek() ? argument : 0; }
int main(void) { pthread_t thread; return pthread_create(&thread, 0, run, 0); }
"#;

#[test]
fn thread_locals_work_on_emulated_node() {
    let Some(machine) = machine(&with_user(), &["thread_locals"]) else { return };
    for mode in [HYBRID, EXCLUSIVE] {
        check_thread_locals(&machine, &[mode, USER], 2);
    }
    check_thread_locals(&machine, &[], 1);
    fs::write(machine.folder().join("local.cpp"), CXX_LOCAL).unwrap();
    compile(&machine, "local.cpp", "local", &[]);
    for variables in [&[HYBRID, USER, "OMP_TOMBOLO_PTHREADS=others"][..], &[]] {
        assert_eq!(run(&machine, variables, &["local.tbi"]).ok(), "123, 3 made\n", "{variables:?}");
    }
    fs::write(machine.folder().join("peek.c"), BY_POINTER).unwrap();
    let expected =
        ["peek.c finds the thread-local variable `number` by the thread pointer", "by `tombolo ompcc`"];
    machine.tombolo(["ompcc", "peek.c", "-o", "peek.tbi"]).fails_with(1, &expected);
    machine.down();
}

#[test]
fn thread_locals_work_on_virtual_machines() {
    let Some(machine) = machine(&MachineFile::host().with_vm("arm0", ""), &["thread_locals"]) else { return };
    check_thread_locals(&machine, &[HYBRID, VM], 2);
    check_thread_locals(&machine, &[HYBRID, VM, PAGES], 2);
    machine.down();
}
