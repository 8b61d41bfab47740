//! `tombolo mpicc` accepts gcc's options and builds for all instruction sets.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tombolo_e2e::mpi::Mpi;
use tombolo_e2e::{Machine, MachineFile, tombolo};

const MAIN: &str = r#"
#include <mpi.h>
#include <stdio.h>

int number(void);

int main(int count, char **words)
{
    int size;
    MPI_Init(&count, &words);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char small = (char)200;
    printf("%d of %d, char %s\n", number(), size, small < 0 ? "signed" : "unsigned");
    return MPI_Finalize();
}
"#;

/// Creates a machine with a node of emulated Arm programs, and puts sources into its folder.
fn machine(mpi: Mpi, sources: &[(&str, &str)]) -> Machine {
    let machine = Machine::new(&mpi.with_user(MachineFile::host(), "arm-user"));
    for (name, source) in sources {
        fs::write(machine.folder().join(name), source).unwrap();
    }
    machine
}

fn archive(machine: &Machine, archive: &str, object: &str) {
    let mut command = Command::new("ar");
    assert!(command.current_dir(machine.folder()).args(["rcs", archive, object]).status().unwrap().success());
}

#[test]
fn objects_and_sources_become_a_program_for_each_processor() {
    let Some(mpi) = Mpi::find() else { return };
    let util = "int number(void) { return NUMBER; }\n";
    let mut machine = machine(mpi, &[("main.c", MAIN), ("util.c", util)]);
    machine.tombolo(["mpicc", "-O2", "-DNUMBER=7", "-c", "util.c"]).ok();
    machine.tombolo(["mpicc", "-O2", "-Wall", "main.c", "util.o", "-o", "job", "-lm"]).ok();
    let image = machine.json(&["image", "inspect", "job.tbi"]);
    let isas: Vec<&str> = image["programs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|program| program["isa"].as_str().unwrap())
        .collect();
    assert_eq!(isas, ["x86_64", "aarch64"]);
    machine.bring_up();
    // The host's build runs by itself; every build runs where its libraries are, and the signedness of `char`
    // is the same everywhere.
    assert_eq!(machine.tombolo(["run", "./job"]).ok(), "7 of 1, char signed\n");
    assert_eq!(machine.tombolo(["run", "--on", "arm-user", "job.tbi"]).ok(), "7 of 1, char signed\n");
    // All builds travel with the object: under another name, and into an archive of any `ar`.
    machine.tombolo(["mpicc", "-O2", "-DNUMBER=8", "-c", "util.c"]).ok();
    fs::rename(machine.folder().join("util.o"), machine.folder().join("other.o")).unwrap();
    archive(&machine, "libutil.a", "other.o");
    for words in [&["libutil.a"][..], &["-L.", "-lutil"]] {
        let linked = machine.tombolo([&["mpicc", "main.c", "-o", "job"], words].concat());
        linked.ok();
        assert_eq!(linked.stderr, "");
        for build in ["./job", "job.tbi"] {
            let on = if build == "./job" { "host" } else { "arm-user" };
            assert_eq!(machine.tombolo(["run", "--on", on, build]).ok(), "8 of 1, char signed\n");
        }
    }
    // Host libraries in a folder named by the caller have no other builds and need none.
    machine.tombolo(["mpicc", "main.c", "other.o", "-L/usr/lib/x86_64-linux-gnu", "-lm", "-o", "job"]).ok();
    // A shared library is for this host only.
    machine.tombolo(["mpicc", "-shared", "-fPIC", "-DNUMBER=9", "util.c", "-o", "libutil.so"]).ok();
    let refused = machine.tombolo(["mpicc", "main.c", "libutil.so", "-o", "job"]);
    refused.fails_with(1, &["libutil.so is a shared library", "--disable-shared"]);
    assert!(
        machine.folder().join("libutil.so").exists() && !machine.folder().join("libutil.so.tbi").exists()
    );
    machine.down();
}

#[test]
fn programs_in_cxx_run_on_a_foreign_node() {
    let Some(mpi) = Mpi::find() else { return };
    let source = "#include <mpi.h>\n#include <iostream>\nint main(int count, char **words) { MPI_Init(&count, &words); \
                  std::cout << \"from C++\" << std::endl; return MPI_Finalize(); }\n";
    let mut machine = machine(mpi, &[("main.cpp", source)]);
    machine.tombolo(["mpicc", "--isa", "aarch64", "main.cpp", "-o", "job.tbi"]).ok();
    machine.bring_up();
    assert_eq!(machine.tombolo(["run", "--on", "arm-user", "job.tbi"]).ok(), "from C++\n");
    machine.down();
}

#[test]
fn compile_errors_are_reported_once_with_isas() {
    let Some(mpi) = Mpi::find() else { return };
    let only_arm = "#ifdef __aarch64__\nint x = nowhere;\n#endif\nint main(void) { return 0; }\n";
    let machine = machine(mpi, &[("both.c", "int main(void) { return nowhere; }\n"), ("arm.c", only_arm)]);
    let both = machine.tombolo(["mpicc", "both.c", "-o", "job"]);
    both.fails_with(
        1,
        &["for x86_64 and aarch64:\n", "both.c:1:", "error: compiling for x86_64 and aarch64 failed"],
    );
    assert_eq!(both.stderr.matches("undeclared (first use").count(), 1, "{both}");
    let arm = machine.tombolo(["mpicc", "arm.c", "-o", "job"]);
    arm.fails_with(1, &["for aarch64:\n", "arm.c:2:", "error: compiling for aarch64 failed"]);
    assert!(!machine.folder().join("job.tbi").exists() && !machine.folder().join("job").exists());
    machine.tombolo(["mpicc", "none.c"]).fails_with(1, &["cannot read none.c"]);
    machine.tombolo(["mpicc", "both.c", "-o"]).fails_with(1, &["-o needs a value"]);
    machine.tombolo(["mpicc", "--isa", "arm64", "both.c"]).fails_with(2, &["cannot be compiled for 'arm64'"]);
}

#[test]
fn ranks_on_a_foreign_node_have_threads_of_openmp() {
    let Some(mpi) = Mpi::find() else { return };
    let source = "#include <mpi.h>\n#include <stdio.h>\nint main(int count, char **words) { MPI_Init(&count, &words); \
        int sum = 0;\n#pragma omp parallel num_threads(3) reduction(+ : sum)\nsum++;\nprintf(\"%d threads\\n\", sum); \
        return MPI_Finalize(); }\n";
    let mut machine = machine(mpi, &[("threads.c", source)]);
    machine.tombolo(["mpicc", "-fopenmp", "threads.c", "-o", "threads"]).ok();
    machine.bring_up();
    let said = machine.tombolo(["mpirun", "--on", "host:1,arm-user:1", "threads.tbi"]).ok();
    assert_eq!(said, "3 threads\n3 threads\n");
    machine.down();
}

#[test]
fn foreign_object_is_refused_with_remedy() {
    let Some(mpi) = Mpi::find() else { return };
    let machine = machine(mpi, &[("main.c", "int main(void) { return 0; }\n")]);
    machine.tombolo(["mpicc", "--isa", "x86_64", "-c", "main.c"]).ok();
    let refused = machine.tombolo(["mpicc", "main.o", "-o", "job"]);
    refused.fails_with(1, &["main.o has no build for aarch64", "`tombolo mpicc -c`"]);
    machine.tombolo(["mpicc", "--isa", "x86_64", "main.o", "-o", "job"]).ok();
}

#[test]
fn long_double_warning_can_be_disabled() {
    let Some(mpi) = Mpi::find() else { return };
    let source = "/* long double */\nint main(void) { long double x = 1; return x != 1; }\n";
    let machine = machine(mpi, &[("main.c", source)]);
    let warned = machine.tombolo(["mpicc", "main.c", "-o", "job"]);
    warned.ok();
    assert!(warned.stderr.starts_with("main.c:2: warning: long double has 80 bits on x86_64"), "{warned}");
    for words in [["mpicc", "main.c", "-Wno-tombolo-long-double"], ["mpicc", "--isa=x86_64", "main.c"]] {
        let quiet = machine.tombolo(words);
        quiet.ok();
        assert_eq!(quiet.stderr, "", "{quiet}");
    }
}

#[test]
fn the_commands_are_shown_without_being_run() {
    let Some(mpi) = Mpi::find() else { return };
    let machine = machine(mpi, &[("main.c", "int main(void) { return 0; }\n")]);
    let shown = machine.tombolo(["mpicc", "-show", "-O3", "main.c", "-o", "job"]).ok();
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("gcc ") && lines[1].starts_with("aarch64-linux-gnu-gcc "), "{shown}");
    assert!(lines.iter().all(|line| line.contains(" -O3 main.c ") && line.contains(" -lmpi ")), "{shown}");
    assert!(!machine.folder().join("job").exists());
}

const CMAKE: &str = "
cmake_minimum_required(VERSION 3.16)
project(job C CXX)
find_package(MPI REQUIRED)
add_library(util STATIC util.c)
add_executable(job main.c)
target_link_libraries(job util MPI::MPI_C m)
add_executable(jobxx main.cpp)
target_link_libraries(jobxx MPI::MPI_CXX)
";

/// Creates the single-word wrapper scripts beside a link to the command, as in an installation.
fn wrappers(machine: &Machine) -> PathBuf {
    let folder = machine.folder().join("bin");
    fs::create_dir(&folder).unwrap();
    symlink(tombolo(), folder.join("tombolo")).unwrap();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/bin");
    for entry in fs::read_dir(scripts).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
    }
    folder
}

#[test]
fn cmake_builds_images_and_finds_what_its_own_compiler_needs() {
    let Some(mpi) = Mpi::find() else { return };
    if Command::new("cmake").arg("--version").output().is_err() {
        return tombolo_e2e::skipped("cmake: it is not installed");
    }
    let cxx = "#include <mpi.h>\n#include <iostream>\nint main(int count, char **words) { MPI_Init(&count, &words); \
               std::cout << \"from C++\" << std::endl; return MPI_Finalize(); }\n";
    let util = "int number(void) { return 7; }\n";
    let sources = [("main.c", MAIN), ("util.c", util), ("main.cpp", cxx), ("CMakeLists.txt", CMAKE)];
    let mut machine = machine(mpi, &sources);
    let bin = wrappers(&machine);
    for (build, c, cxx) in
        [("images", "CMAKE_C_COMPILER", "CMAKE_CXX_COMPILER"), ("host", "MPI_C_COMPILER", "MPI_CXX_COMPILER")]
    {
        let mut configure = Command::new("cmake");
        configure.args(["-S", ".", "-B", build]);
        configure.arg(format!("-D{c}={}", bin.join("tombolo-mpicc").display()));
        configure.arg(format!("-D{cxx}={}", bin.join("tombolo-mpicxx").display()));
        let mut make = Command::new("cmake");
        make.args(["--build", build]);
        for command in [&mut configure, &mut make] {
            let done = command.current_dir(machine.folder()).output().unwrap();
            assert!(done.status.success(), "{done:?}");
        }
    }
    assert!(!machine.folder().join("host/job.tbi").exists());
    machine.bring_up();
    assert_eq!(machine.tombolo(["run", "--on", "arm-user", "images/job.tbi"]).ok(), "7 of 1, char signed\n");
    assert_eq!(machine.tombolo(["run", "--on", "arm-user", "images/jobxx.tbi"]).ok(), "from C++\n");
    assert_eq!(machine.tombolo(["mpirun", "-n", "1", "host/job"]).ok(), "7 of 1, char signed\n");
    assert_eq!(machine.tombolo(["mpirun", "-n", "1", "host/jobxx"]).ok(), "from C++\n");
    machine.down();
}

#[test]
fn the_compilers_own_version_is_asked_for_by_v() {
    let Some(mpi) = Mpi::find() else { return };
    let machine = machine(mpi, &[("main.c", "int main(void) { return 0; }\n")]);
    let asked = machine.tombolo(["mpicc", "-v"]);
    asked.ok();
    assert!(asked.stderr.contains("gcc version"), "{asked}");
    let refused = machine.tombolo(["mpicc", "-mavx2", "-c", "main.c"]);
    refused.fails_with(1, &["compiling for aarch64 failed", "hint: ", "-Xarch_x86_64 -mavx2"]);
    let compiled =
        machine.tombolo(["mpicc", "-march=native", "-m64", "-Wl,-Map=job.map", "main.c", "-o", "job"]);
    compiled.ok();
    let map = fs::read_to_string(machine.folder().join("job.map")).unwrap();
    assert!(map.contains("elf64-x86-64") && !map.contains("aarch64"), "the host's linker writes the map");
}
