//! `tombolo new`: its projects build and run unchanged outside the tree. Also `tombolo build` for C, and what
//! both commands refuse.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use tombolo_e2e::c::put_into_kit;
use tombolo_e2e::go::Go;
use tombolo_e2e::python::Python;
use tombolo_e2e::{Finished, Machine, MachineFile, Running, outside};

const PINGPONG: &str = include_str!("../../../../cli/templates/c/plain/main.c");

/// Brings up this host and an Arm virtual machine, as in the quick start.
fn two_nodes() -> Machine {
    Machine::up(&MachineFile::host().with_vm("arm0", ""))
}

/// Runs `tombolo` in a folder.
fn tombolo_in(machine: &Machine, folder: &Path, words: &[&str]) -> Finished {
    let mut command = machine.command();
    Running::start(command.current_dir(folder).args(words)).finish()
}

/// Builds in a folder and returns both output streams. No timeout, because compilers have none.
#[track_caller]
fn build(machine: &Machine, folder: &Path, words: &[&str]) -> (String, String) {
    let mut command = machine.command();
    let output =
        command.current_dir(folder).envs(outside::cargo_settings()).arg("build").args(words).output();
    let output = output.expect("the command runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{words:?} in {}\n{said}\n{errors}", folder.display());
    (said, errors)
}

/// Creates a project in the machine's folder.
fn project(machine: &Machine, words: &[&str]) -> PathBuf {
    let made = machine.tombolo(["new"].iter().chain(words));
    made.ok();
    assert!(made.stderr.contains("tombolo run --on host"), "{made}");
    machine.folder().join(words[0])
}

/// Builds a project and runs its image, which has the project's name.
fn build_and_run(machine: &Machine, folder: &Path, on: &str) -> String {
    let name = folder.file_name().and_then(|name| name.to_str()).expect("a name");
    let (built, _) = build(machine, folder, &[]);
    assert!(built.contains(&format!("{name}.tbi: ")) && built.contains("for x86_64, aarch64"), "{built}");
    tombolo_in(machine, folder, &["run", "--on", on, &format!("{name}.tbi")]).ok()
}

/// Asserts the programs' output, which differs between languages only in the first line of each.
fn assert_greetings(said: &str, clients: &[&str]) {
    let said: Vec<&str> =
        said.lines().map(|line| line.split_once("] ").map_or(line, |(_, rest)| rest)).collect();
    for client in clients {
        assert!(said.contains(&&*format!("hello {client}, from host")), "{client} in {said:?}");
    }
    assert!(said.contains(&"declined: no_name"), "{said:?}");
    assert!(said.contains(&&*format!("{} greetings from host", clients.len())), "{said:?}");
}

fn assert_buffers_returned(said: &str, stage: &str) {
    assert!(said.contains("4 buffers of 65536 bytes went round 200 times"), "{said}");
    assert!(said.contains(&format!("200 buffers came by {stage} as they should be")), "{said}");
    assert!(said.contains(" doubled 200 buffers"), "{said}");
}

#[test]
fn projects_in_rust_build_and_run_outside_the_tree() {
    let machine = two_nodes();
    let plain = project(&machine, &["there-and-back"]);
    let said = build_and_run(&machine, &plain, "host,arm0");
    assert!(said.contains("x86_64 on host -> aarch64 on arm0: 10000 round trips, median "), "{said}");
    let typed = project(&machine, &["greetings", "--typed", "--lang", "rust"]);
    assert_greetings(&build_and_run(&machine, &typed, "host,arm0,host"), &["arm0", "host"]);
    let pipeline = project(&machine, &["conveyor", "--pipeline"]);
    assert_buffers_returned(&build_and_run(&machine, &pipeline, "host,arm0,host"), "arm0");
    check_generated_stubs(&machine, &typed);
    machine.down();
}

/// Generated code of `tombolo idl compile` compiles in a crate that depends on `tombolo` alone.
fn check_generated_stubs(machine: &Machine, project: &Path) {
    let compile = |lang: &str, output: &str| {
        let words = ["idl", "compile", "greeter.tbl", "--lang", lang, "--output", output];
        tombolo_in(machine, project, &words).ok();
    };
    compile("rust", "src/stubs.rs");
    compile("rust-owned", "src/owned.rs");
    let manifest = fs::read_to_string(project.join("Cargo.toml")).expect("a manifest");
    let (manifest, _) =
        manifest.split_once("[build-dependencies]").expect("what the build script depends on");
    fs::write(project.join("Cargo.toml"), format!("{manifest}[workspace]\n")).expect("a manifest");
    fs::remove_file(project.join("build.rs")).expect("the build script");
    let program = "#![allow(dead_code)]\nmod owned;\nmod stubs;\n\nfn main() {\n    println!(\"{:?}\", stubs::GreetError::NO_NAME);\n}\n";
    fs::write(project.join("src/main.rs"), program).expect("a program");
    build(machine, project, &["--isa", "x86_64", "-o", "stubs.tbi"]);
    let said = tombolo_in(machine, project, &["run", "stubs.tbi"]).ok();
    assert!(said.contains("NO_NAME") || said.contains('1'), "{said}");
}

#[test]
fn projects_in_c_build_and_run_outside_the_tree() {
    ["x86_64", "aarch64"].iter().for_each(|isa| put_into_kit(isa));
    let machine = two_nodes();
    let plain = project(&machine, &["there-and-back", "--lang", "c"]);
    let said = build_and_run(&machine, &plain, "host,arm0");
    assert!(said.contains("host -> arm0: 10000 round trips, median "), "{said}");
    let typed = project(&machine, &["greetings", "--lang", "c", "--typed"]);
    assert_greetings(&build_and_run(&machine, &typed, "host,arm0,host"), &["arm0", "host"]);
    let pipeline = project(&machine, &["conveyor", "--lang", "c", "--pipeline"]);
    assert_buffers_returned(&build_and_run(&machine, &pipeline, "host,arm0,host"), "arm0");
    one_command_builds_a_file(&machine);
    machine.down();
}

/// The quick start: a single file without a project. Compiler options come after `--`.
fn one_command_builds_a_file(machine: &Machine) {
    let folder = machine.folder();
    fs::create_dir(folder.join("include")).expect("a folder");
    fs::write(folder.join("include/rounds.h"), "#include <math.h>\n").expect("a header");
    let program = PINGPONG
        .replace("@name@", "main")
        .replace("#include <tombolo.h>", "#include <tombolo.h>\n#include \"rounds.h\"");
    let program =
        program.replace("(double)times_ns[ROUNDS / 2] / 1000", "sqrt((double)times_ns[ROUNDS / 2])");
    fs::write(folder.join("main.c"), program).expect("a program");
    let options = ["main.c", "--", "-Iinclude", "-Wall", "-Wextra", "-Werror", "-lm"];
    let (built, errors) = build(machine, folder, &options);
    assert!(built.contains("main.tbi: ") && !errors.contains("warning"), "{built}\n{errors}");
    let said = tombolo_in(machine, folder, &["run", "--on", "arm0,host", "main.tbi"]).ok();
    assert!(said.contains("arm0 -> host: 10000 round trips, median "), "{said}");
}

#[test]
fn projects_in_python_run_without_an_image() {
    let machine = Machine::up(&MachineFile::host());
    let Some(python) = Python::of(&machine) else { return };
    let interpreter =
        Running::start(python.command(&machine).args(["-c", "import sys; print(sys.executable)"]))
            .finish()
            .ok();
    let path = format!("PYTHONPATH={}", python.packages().display());
    let run = |folder: &Path, on: &str| {
        let words = [
            "run",
            "--on",
            on,
            "--env",
            &path,
            "--env",
            "PYTHONDONTWRITEBYTECODE=1",
            interpreter.trim(),
            "main.py",
        ];
        tombolo_in(&machine, folder, &words).ok()
    };
    let plain = project(&machine, &["there-and-back", "--lang", "python"]);
    let said = run(&plain, "host:2");
    assert!(said.contains("host -> host: 10000 round trips, median "), "{said}");
    let typed = project(&machine, &["greetings", "--lang", "python", "--typed"]);
    assert_greetings(&run(&typed, "host:3"), &["host", "host"]);
    let pipeline = project(&machine, &["conveyor", "--lang", "python", "--pipeline"]);
    assert_buffers_returned(&run(&pipeline, "host:3"), "host");
    machine.down();
}

#[test]
fn projects_in_go_build_and_run_outside_the_tree() {
    if Go::find().is_none() {
        return;
    }
    let machine = two_nodes();
    let plain = project(&machine, &["there-and-back", "--lang", "go"]);
    let said = build_and_run(&machine, &plain, "host,arm0");
    assert!(said.contains("x86_64 on host -> aarch64 on arm0: 10000 round trips, median "), "{said}");
    let typed = project(&machine, &["greetings", "--typed", "--lang", "go"]);
    assert_greetings(&build_and_run(&machine, &typed, "host,arm0,host"), &["arm0", "host"]);
    machine.down();
}

/// Creates a machine without bringing it up: refusals need none.
fn machine_not_up() -> Machine {
    Machine::new(&MachineFile::host())
}

/// Lists the files of a folder, except those of a machine that is not up.
fn listing(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    names.retain(|name| name != "temporary" && name != "machine.toml");
    names.sort();
    names
}

#[test]
fn refused_project_leaves_nothing() {
    let machine = machine_not_up();
    for (name, why) in [
        ("a/b", "it is a path"),
        ("..", "it is a path"),
        ("2d", "begins with a letter"),
        ("größe", "begins with a letter"),
        ("match", "keyword"),
        ("test", "has that name"),
        ("", "value"),
    ] {
        machine.tombolo(["new", name]).fails_with(2, &[why]);
    }
    machine.tombolo(["new", "x", "--typed", "--pipeline"]).fails_with(2, &["cannot be used with"]);
    machine.tombolo(["new", "x", "--lang", "perl"]).fails_with(2, &["rust, c, go, python"]);
    machine
        .tombolo(["new", "x", "--lang", "go", "--pipeline"])
        .fails_with(2, &["programs in Go do not have"]);
    machine.tombolo(["new"]).fails_with(2, &["<NAME>"]);
    assert_eq!(listing(machine.folder()), [""; 0]);

    // A non-empty folder stays unchanged; an empty one becomes the project.
    fs::create_dir(machine.folder().join("full")).expect("a folder");
    fs::write(machine.folder().join("full/notes"), "mine").expect("a file");
    machine.tombolo(["new", "full"]).fails_with(2, &["full exists and is not empty"]);
    assert_eq!(listing(&machine.folder().join("full")), ["notes"]);
    machine.tombolo(["new", "full", "--lang", "c"]).fails_with(2, &["not empty"]);
    fs::write(machine.folder().join("file"), "").expect("a file");
    machine.tombolo(["new", "file"]).fails_with(2, &["file exists and is not a folder"]);
    fs::create_dir(machine.folder().join("empty")).expect("a folder");
    machine.tombolo(["new", "empty", "--lang", "c"]).ok();
    assert_eq!(listing(&machine.folder().join("empty")), [".gitignore", "README.md", "main.c"]);
    assert_eq!(listing(machine.folder()), ["empty", "file", "full"]);

    // Not even root can create anything in /proc.
    let refused = tombolo_in(&machine, Path::new("/proc"), &["new", "project"]);
    refused.fails_with(1, &["cannot create the folder project: "]);
    machine.assert_gone();
}

/// Of two processes that create the same project simultaneously one succeeds and the other is refused; no
/// partial project remains.
#[test]
fn project_is_created_atomically() {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let machine = machine_not_up();
    let name = format!("both{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let running: Vec<Running> = (0..4).map(|_| machine.start(["new", &name])).collect();
    let ended: Vec<Finished> = running.into_iter().map(Running::finish).collect();
    assert_eq!(ended.iter().filter(|ended| ended.status == 0).count(), 1, "{}", ended[0]);
    for refused in ended.iter().filter(|ended| ended.status != 0) {
        assert!(refused.stderr.contains("not empty"), "{refused}");
    }
    assert_eq!(listing(machine.folder()), [name.as_str()]);
    assert_eq!(
        listing(&machine.folder().join(&name)),
        [".gitignore", "Cargo.lock", "Cargo.toml", "README.md", "src"]
    );
}

#[test]
fn unsupported_sources_are_refused_with_alternatives() {
    let machine = machine_not_up();
    let folder = machine.folder();
    fs::create_dir(folder.join("empty")).expect("a folder");
    fs::create_dir(folder.join("snakes")).expect("a folder");
    for file in ["main.cpp", "main.rs", "page.html", "greeter.tbl", "snakes/main.py"] {
        fs::write(folder.join(file), "").expect("a file");
    }
    for (path, why) in [
        ("empty", "neither a Cargo.toml nor files in C or Go"),
        ("snakes", "a program in Python needs no image"),
        ("snakes/main.py", "a program in Python needs no image"),
        ("main.cpp", "tombolo image pack"),
        ("main.rs", "Cargo.toml"),
        ("greeter.tbl", "with the .c files"),
        ("page.html", "give a package folder, a Cargo.toml, a folder with files in C or Go, or .c files"),
        ("missing.c", "there is no missing.c"),
    ] {
        machine.tombolo(["build", path]).fails_with(2, &[why]);
    }
    machine.tombolo(["build", "main.rs", "page.html"]).fails_with(2, &["main.rs cannot be built"]);
    // An error in an interface is reported with its line, and nothing is compiled.
    fs::write(folder.join("main.c"), "#include \"greeter.h\"\nint main(void) { return 0; }\n")
        .expect("a file");
    fs::write(folder.join("greeter.tbl"), "package a;\nstruct A { @1 b: Enty }\n").expect("a file");
    let refused = machine.tombolo(["build", "--isa", "x86_64", "main.c", "greeter.tbl"]);
    refused.fails_with(2, &["there is no type `Enty`", "greeter.tbl:2:18"]);
    assert!(!folder.join("main.tbi").exists());
}
