//! `tombolo ompcc`: one program for unlike processors, with all symbols at equal addresses.

use std::fs;
use std::process::Command;

use tombolo_e2e::{Machine, MachineFile, omp};

/// GCC's OpenMP entry points for one thread: only the placement is under test.
const ONE_THREAD: &str = "\
#include <stdbool.h>
void GOMP_parallel(void (*region)(void *), void *data, unsigned threads, unsigned flags)
{ (void)threads; (void)flags; region(data); }
int omp_get_num_threads(void) { return 1; }
int omp_get_thread_num(void) { return 0; }
void GOMP_barrier(void) {}
";

/// A program with one of every kind of object that has an address.
const MAIN: &str = r#"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int number_of_other(void);
const char *name_of_other(void);
extern const double table[4];

int zeros[1000];
int numbers[3] = { 1, 2, 3 };
static int counter = 5;
_Thread_local int mine = 7;
_Thread_local char more[100];
struct pair { char small; double large; const char *text; } pair = { 'x', 0.5, "text of a pair" };
static int twice(int x) { static int calls = 3; calls++; return 2 * x + calls; }
static int thrice(int x) { static int calls = 4; calls++; return 3 * x + calls; }
int (*functions[])(int) = { twice, thrice, abs };
void (*region_of[2])(void *);

#define SHOW(what) printf("%s %p\n", #what, (void *)(what))

int main(int count, char **words)
{
    if (count > 2 && strcmp(words[1], "read") == 0) {
        for (int i = 2; i < count; i++)
            puts((const char *)strtoull(words[i], NULL, 0));
        return 0;
    }
    if (count > 1) {
        printf("%p %p %p\n", (void *)pair.text, (void *)name_of_other(), (void *)"a text that only main has");
        return 0;
    }
    double sum = 0;
    int seen[4] = { 0 };
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < 1000; i++) {
        zeros[i] = i * numbers[i % 3];
        sum += sqrt(i) + table[i % 4];
    }
#pragma omp parallel
    {
        seen[1] = functions[0](counter) + functions[1](mine);
        more[3] = 1;
    }
    SHOW(main); SHOW(zeros); SHOW(numbers); SHOW(&counter); SHOW(&pair); SHOW(twice); SHOW(thrice);
    SHOW(functions); SHOW(functions[0]); SHOW(functions[2]); SHOW(table); SHOW(number_of_other);
    SHOW(printf); SHOW(stdout); SHOW(malloc); SHOW(memmove); SHOW(memcpy); SHOW(exp); SHOW(qsort); SHOW(&region_of);
    char *heap = malloc(100);
    snprintf(heap, 100, "%.9f %d %d %d %s", sum, seen[1], number_of_other(), (int)more[3], pair.text);
    puts(heap);
    free(heap);
    return exp(0) == 1 ? 0 : 1;
}
"#;

/// Static symbols with the same names as in the other source.
const OTHER: &str = r#"
#include <stdio.h>
static int counter = 9;
static int twice(int x) { static int calls = 30; return x + ++calls; }
const double table[4] = { 0.25, 0.5, 0.75, 1 };
int common_number[50];
int number_of_other(void)
{
    int found = 0;
#pragma omp parallel
    { found += twice(counter); common_number[counter]++; }
    printf("&counter of other %p\n", (void *)&counter);
    printf("common_number %p\n", (void *)common_number);
    return found;
}
const char *name_of_other(void) { return "other"; }
"#;

/// Creates a machine with a node of emulated Arm programs, and puts sources into its folder.
fn machine(sources: &[(&str, &str)]) -> Option<Machine> {
    if !omp::can_compile() {
        return None;
    }
    let machine = Machine::new(&MachineFile::host().with_user("arm-user", "aarch64"));
    for (name, source) in sources {
        fs::write(machine.folder().join(name), source).unwrap();
    }
    Some(machine)
}

/// Runs a host program without a machine and returns its output.
fn run_here(machine: &Machine, name: &str) -> String {
    let output = Command::new(machine.folder().join(name)).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn addresses_and_strings_are_equal_in_all_builds() {
    let sources = [("main.c", MAIN), ("other.c", OTHER), ("one.c", ONE_THREAD)];
    let Some(mut machine) = machine(&sources) else { return };
    machine.tombolo(["ompcc", "-O2", "-fopenmp", "-fcommon", "-c", "other.c", "one.c"]).ok();
    let command =
        ["ompcc", "-O2", "-fopenmp", "-Wall", "-Werror", "main.c", "other.o", "one.o", "-o", "job", "-lm"];
    let report = machine.json(&command);
    let symbols = &report["symbols"];
    assert_eq!(symbols["different"].as_array().unwrap().len(), 0, "{symbols}");
    assert!(
        symbols["common"].as_u64() == symbols["equal"].as_u64() && symbols["common"].as_u64() > Some(120)
    );
    assert_eq!((symbols["outlined"].as_u64(), report["frames_compared"].as_u64()), (Some(3), Some(3)));
    assert!(report["variables_compared"].as_u64() > Some(10), "{report}");
    for area in report["areas"].as_array().unwrap() {
        if ["shared data", "shared zeros"].contains(&area["name"].as_str().unwrap()) {
            assert!(area["slots"].as_u64() > Some(1) && area["slots"] == area["in_all"], "{area}");
        }
    }
    machine.bring_up();
    let run = |on: &str, words: &[&str]| {
        machine.tombolo([&["run", "--on", on, "job.tbi"][..], words].concat()).ok()
    };
    let (x86, arm) = (run("host", &[]), run("arm-user", &[]));
    assert_eq!(x86, arm);
    assert!(x86.lines().count() == 23 && x86.contains("\nmemmove 0x1"), "{x86}");
    // Equal strings may be at two addresses; a string of another build must be readable like one's own.
    for (of, by) in [("host", "arm-user"), ("arm-user", "host"), ("host", "host")] {
        let places = run(of, &["where"]);
        let places: Vec<&str> = places.split_whitespace().collect();
        let texts = run(by, &[&["read"][..], &places].concat());
        assert_eq!(texts, "text of a pair\nother\na text that only main has\n");
    }
    // The file at the compiler's usual output path runs by itself.
    assert_eq!(run_here(&machine, "job"), x86);
    machine.down();
}

#[test]
fn report_is_printed_as_text() {
    let Some(machine) =
        machine(&[("main.c", "#include <stdio.h>\nint main(void) { return puts(\"x\") < 0; }\n")])
    else {
        return;
    };
    let shown = machine.tombolo(["ompcc", "main.c", "-o", "job.tbi", "--report"]).ok();
    let lines: Vec<&str> = shown.lines().collect();
    assert!(
        lines[0].starts_with("layout ") && lines[0].contains(", for x86_64 and aarch64, with musl "),
        "{shown}"
    );
    assert!(lines[2].starts_with("AREA ") && shown.contains("\nshared zeros "), "{shown}");
    assert!(shown.contains(" common symbols at equal addresses, 0 outlined functions\n"), "{shown}");
    assert!(shown.contains("\nonly for aarch64: "), "{shown}");
    assert!(machine.folder().join("job.tbi").exists() && !machine.folder().join("job").exists());
}

#[test]
fn unequal_symbols_are_refused_with_reason() {
    let head = "#include <pthread.h>\n#include <setjmp.h>\n#include <stdarg.h>\n#include <sys/stat.h>\n#include <threads.h>\n\
                int use(void *, ...);\n";
    let cases = [
        (
            "long double total;",
            "",
            "`total` cannot be shared: long double has 80 bits on x86_64 and 128 on aarch64",
        ),
        (
            "struct { int n; struct { double d; long double sums[4]; } in; } all;",
            "",
            "`all` cannot be shared: all.in.sums[]: long double",
        ),
        (
            "struct node { struct node *next; long double v; } *list;",
            "",
            "`list` cannot be shared: list->v: long double",
        ),
        (
            "va_list words;",
            "",
            "`words` cannot be shared: va_list says where a processor passes arguments (24 bytes on x86_64, 32 on aarch64)",
        ),
        (
            "static struct stat file;",
            "use(&file);",
            "`file` cannot be shared: stat is laid out by the kernel of each processor (144 bytes on x86_64, 128 on aarch64)",
        ),
        ("mtx_t lock;", "", "`lock` cannot be shared: mtx_t works in one process alone"),
        ("", "static cnd_t once[2]; use(once);", "`once` cannot be shared: once[]: cnd_t works"),
        (
            "",
            "long double x = 1;\n#pragma omp parallel\nuse(&x);",
            "`main._omp_fn.0` is given `x`: long double has 80 bits",
        ),
        (
            "",
            "long double x[2] = { 1 };\n#pragma omp parallel\nuse(&x[1]);",
            "`main._omp_fn.0` is given `x[]`: long double",
        ),
        (
            "",
            "long double x = 1;\n#pragma omp parallel firstprivate(x)\nuse(&x);",
            "`main._omp_fn.0` is given `x`: long double",
        ),
        (
            "#ifdef __x86_64__\nint layout[3];\n#else\nint layout[4];\n#endif",
            "",
            "`layout` cannot be shared: it has 3 elements on x86_64 and 4 on aarch64",
        ),
        (
            "#ifdef __x86_64__\nlong kind;\n#else\ndouble kind;\n#endif",
            "",
            "`kind` cannot be shared: it is another kind of number",
        ),
        (
            "struct {\n#ifdef __x86_64__\nint gap;\n#endif\nint x; } layout;",
            "",
            "`layout` cannot be shared: layout.gap: it is another member on x86_64 than on aarch64",
        ),
        (
            "",
            "\n#ifdef __x86_64__\n#pragma omp parallel\nuse(0);\n#endif\n",
            "`main._omp_fn.0` is outlined in the build for x86_64 and not in that for aarch64",
        ),
        (
            "",
            "\n#ifdef __x86_64__\n#pragma omp parallel\nuse(0);\n#else\n\n#pragma omp parallel\nuse(0);\n#endif\n",
            "the compilers number the regions of this source differently",
        ),
    ];
    let Some(machine) =
        machine(&[("one.c", ONE_THREAD), ("use.c", "int use(void *x, ...) { return x != 0; }\n")])
    else {
        return;
    };
    machine.tombolo(["ompcc", "-O2", "-c", "one.c", "use.c"]).ok();
    for (globals, code, message) in cases {
        let source = format!("{head}{globals}\nint main(void) {{ {code} return 0; }}\n");
        fs::write(machine.folder().join("main.c"), source).unwrap();
        let refused = machine.tombolo(["ompcc", "-O2", "-fopenmp", "main.c", "use.o", "one.o", "-o", "job"]);
        refused.fails_with(1, &["cannot be the same in all builds:", "main.c:", message]);
        assert!(!machine.folder().join("job.tbi").exists(), "{message}");
    }
}

/// GCC's entry points for tasks, which are executed immediately.
const TASKS_AT_ONCE: &str = "\
#include <stdbool.h>
bool GOMP_single_start(void) { return true; }
void GOMP_task(void (*task)(void *), void *data, void (*copy)(void *, void *), long size, long align, bool deferred,
    unsigned flags, void **depend, int priority, void *detach)
{ (void)copy; (void)size; (void)align; (void)deferred; (void)flags; (void)depend; (void)priority; (void)detach; task(data); }
";

#[test]
fn regions_whose_body_is_one_call_are_the_same_in_all_builds() {
    // Each body ends in a jump to another function. Their lengths vary, so that in some builds the next
    // function begins where one ends.
    let mut source = "#include <stdio.h>\nint work(int *sum, ...);\nint main(void)\n{ int sums[2] = { 0 };\n\
                      #pragma omp parallel\n#pragma omp single\nfor (int i = 0; i < 2; i++) {\n"
        .to_owned();
    for count in 1..=20 {
        let arguments: String = (1..=count % 6).map(|argument| format!(", {argument}")).collect();
        source += &format!("#pragma omp task firstprivate(i) shared(sums)\n\nwork(&sums[i]{arguments});\n");
    }
    source += "}\nprintf(\"%d %d\\n\", sums[0], sums[1]); return 0; }\n";
    let sources = [
        ("main.c", source.as_str()),
        ("work.c", "int work(int *sum, ...) { return ++*sum; }\n"),
        ("one.c", ONE_THREAD),
        ("tasks.c", TASKS_AT_ONCE),
    ];
    let Some(machine) = machine(&sources) else { return };
    machine.tombolo(["ompcc", "-O2", "-fopenmp", "main.c", "work.c", "one.c", "tasks.c", "-o", "job"]).ok();
    assert_eq!(run_here(&machine, "job"), "20 20\n");
}

#[test]
fn headers_declare_what_glibc_headers_do() {
    let sources = [
        (
            "types.c",
            "#include <stdlib.h>\nstruct timeval now; fd_set set; int32_t small; u_int32_t number; struct timespec then;\n\
             int main(void) { return (int)(now.tv_sec + small + number + then.tv_nsec + FD_ISSET(0, &set)); }\n",
        ),
        ("print.c", "#include <malloc.h>\nint main(void) { return puts(\"x\") < 0; }\n"),
        (
            "begin.c",
            "#include <string.h>\n__BEGIN_DECLS\nint main(void) __THROW;\n__END_DECLS\nint main(void) { return 0; }\n",
        ),
        (
            "types.cpp",
            "#include <cstdlib>\n#include <vector>\nint main() { std::vector<int32_t> all(3); timeval now = {}; \
             return int(now.tv_usec + all[0]); }\n",
        ),
    ];
    let Some(machine) = machine(&sources) else { return };
    for (name, _) in sources {
        machine.tombolo(["ompcc", "-O2", "-Wall", "-Werror", name, "-o", "job"]).ok();
        assert!(Command::new(machine.folder().join("job")).status().unwrap().success(), "{name}");
    }
    // Extensions are hidden when standard C is requested.
    machine.tombolo(["ompcc", "-std=c11", "types.c"]).fails_with(1, &["types.c:2:", "int32_t"]);
}

#[test]
fn unshared_data_and_allowed_names_are_accepted() {
    let source = "#include <stdarg.h>\n#include <stdio.h>\n#include <time.h>\n#include <wchar.h>\nva_list words; FILE *file; \
                  wchar_t wide; struct tm when; time_t then; union { char c; double d; struct { unsigned a : 3, b : 29; } bits; } mixed; \
                  _Bool flag; __int128 large; void (*call)(long double);\nint use(void *);\n\
                  int main(void) { int n = 0;\n#pragma omp parallel\n{ long double inner = n; n += use(&inner); }\n\
                  file = stdout; fprintf(file, \"%d %d\\n\", n, 0); return 0; }\n";
    let Some(machine) = machine(&[
        ("main.c", source),
        ("one.c", ONE_THREAD),
        ("use.c", "int use(void *x) { return x != 0; }\n"),
    ]) else {
        return;
    };
    let command = ["ompcc", "-fopenmp", "main.c", "use.c", "one.c", "-o", "job"];
    machine
        .tombolo(command)
        .fails_with(1, &["one thing cannot be", "`words` cannot be shared: va_list", "--allow words"]);
    let allowed = machine.tombolo([&command[..], &["--allow", "words"]].concat());
    allowed.ok();
    assert!(
        allowed.stderr.starts_with("allowed: main.c:5: `words` cannot be shared: va_list says"),
        "{allowed}"
    );
    assert_eq!(run_here(&machine, "job"), "1 0\n");
}

#[test]
fn errors_and_unsupported_options_are_reported() {
    let sources = [
        ("main.c", "int main(void) { return nowhere(); }\n"),
        ("main.cpp", "#include <iostream>\nint main() {}\n"),
    ];
    let Some(machine) = machine(&sources) else { return };
    let says = |words: &[&str], status, texts: &[&str]| {
        machine.tombolo([&["ompcc"], words].concat()).fails_with(status, texts);
        assert!(!machine.folder().join("a.out.tbi").exists());
    };
    says(
        &["-w", "main.c"],
        1,
        &["undefined reference to `nowhere'", "error: compiling for x86_64 and aarch64 failed"],
    );
    says(
        &["-Werror", "-Wall", "main.c"],
        1,
        &["for x86_64 and aarch64:\n", "main.c:1:", "implicit declaration"],
    );
    says(&["main.cpp"], 1, &["streams and locales of C++ are not there"]);
    says(
        &["-Ofast", "main.c"],
        1,
        &["-Ofast cannot be followed: it lets each compiler compute in an order of its own"],
    );
    says(&["-shared", "main.c"], 1, &["-shared cannot be followed"]);
    says(&["main.c", "-lodd"], 1, &["there is no libodd.a in any folder of -L"]);
    says(&["none.c"], 1, &["cannot read none.c"]);
    says(&["--isa", "riscv64", "main.c"], 2, &["cannot be compiled for 'riscv64'"]);
    machine.tombolo(["ompcc", "--isa", "x86_64", "-w", "-c", "main.c", "-o", "missing.o"]).ok();
    says(
        &["-w", "main.c", "missing.o"],
        1,
        &["missing.o has no build for aarch64", "compile it with `tombolo ompcc -c`"],
    );
    // An object that gcc itself wrote over ours is for this host only, and so is an archive of it.
    machine.tombolo(["ompcc", "-w", "-c", "main.c"]).ok();
    let in_folder = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        assert!(command.args(&words[1..]).current_dir(machine.folder()).status().unwrap().success());
    };
    in_folder(&["gcc", "-w", "-c", "main.c"]);
    says(&["main.o"], 1, &["main.o has no build for aarch64"]);
    in_folder(&["ar", "rcs", "libmain.a", "main.o"]);
    says(&["libmain.a"], 1, &["main.o in libmain.a has no build for aarch64"]);
}
