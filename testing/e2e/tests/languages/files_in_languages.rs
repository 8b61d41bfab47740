//! Host files granted to a job, used from C and Python, on the host and on nodes without them.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;
use std::process::Command;

use tombolo_e2e::c::{AARCH64, HOST, S390X, Toolchain};
use tombolo_e2e::python::{GuestPython, Python};
use tombolo_e2e::{Machine, MachineFile, Running};

/// Creates the granted files in the machine's folder.
fn put_files(machine: &Machine) {
    let files = machine.folder().join("files");
    fs::create_dir_all(files.join("data/below")).unwrap();
    fs::create_dir_all(files.join("out")).unwrap();
    fs::write(files.join("secret"), "nobody may see this").unwrap();
    fs::write(files.join("data/hello"), "hello from the host\nzwölf\n").unwrap();
    fs::write(files.join("data/île"), "abcdefgh").unwrap();
}

/// Returns a command in that folder that runs a program on a node with the files granted.
fn granted(machine: &Machine, node: &str, variables: &[(&str, &OsStr)]) -> Command {
    let files = machine.folder().join("files");
    let _ = fs::remove_dir_all(files.join("out"));
    fs::create_dir_all(files.join("out")).unwrap();
    let mut command = machine.command();
    command.current_dir(files).args(["run", "--on", node, "--grant", "data", "--grant", "out:rw"]);
    for (name, value) in variables {
        let mut variable = OsString::from(format!("{name}="));
        variable.push(value);
        command.arg("--env").arg(variable);
    }
    command
}

fn run(command: &mut Command, node: &str) {
    let said = Running::start(command).finish().ok();
    assert!(said.contains(&format!("all of it on {node}")), "{said}");
}

fn run_c(machine: &Machine, node: &str, toolchain: Toolchain) {
    let Some(library) = toolchain.library() else { return };
    let program = machine.folder().join(format!("files-{node}"));
    toolchain.build(&["testing/e2e/c/files.c"], &library, &program);
    run(granted(machine, node, &[]).arg(program), node);
    let left = fs::read(machine.folder().join("files/out/large")).unwrap();
    assert_eq!(left.len(), 4096, "what was written is in the file");
}

/// Returns the path of the interpreter itself, which may be behind wrapper scripts.
fn interpreter(python: &Python, machine: &Machine) -> String {
    let mut ask = python.command(machine);
    let said = Running::start(ask.args(["-I", "-c", "import sys; print(sys.executable)"])).finish().ok();
    let path = Path::new(said.trim()).canonicalize().unwrap();
    path.display().to_string()
}

#[test]
fn programs_in_c_read_write_and_map_files() {
    let machine = MachineFile::host().with_vm("arm0", "").with_user("s390x-user", "s390x");
    let machine = Machine::up(&machine);
    put_files(&machine);
    for (node, toolchain) in [("host", HOST), ("arm0", AARCH64), ("s390x-user", S390X)] {
        run_c(&machine, node, toolchain);
    }
    machine.down();
}

#[test]
fn programs_in_python_read_write_and_map_files() {
    let guest = GuestPython::of_arm();
    let mut machine = match &guest {
        Some(guest) => Machine::new(&guest.on_vm(MachineFile::host(), "arm0")),
        None => Machine::new(&MachineFile::host()),
    };
    if let Some(guest) = &guest {
        guest.install(&machine, "arm0");
    }
    machine.bring_up();
    put_files(&machine);
    if let Some(python) = Python::of(&machine) {
        let like = python.command(&machine);
        let variables: Vec<(String, OsString)> = like
            .get_envs()
            .filter(|(name, _)| name.to_string_lossy().starts_with("PYTHON"))
            .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value?.to_owned())))
            .collect();
        let script = fs::canonicalize(like.get_current_dir().unwrap().join("files_job.py")).unwrap();
        let variables: Vec<(&str, &OsStr)> =
            variables.iter().map(|(name, value)| (name.as_str(), value.as_os_str())).collect();
        let mut command = granted(&machine, "host", &variables);
        run(command.arg(interpreter(&python, &machine)).arg(script), "host");
    }
    if let Some(guest) = &guest {
        let mut command = granted(&machine, "arm0", &[]);
        run(guest.add_to(&mut command, &["files_job.py"]), "arm0");
    }
    machine.down();
}
