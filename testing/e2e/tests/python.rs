//! Programs in Python: its own tests, on a machine of this test, with what cargo built.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tombolo_e2e::{Machine, MachineFile, Running};

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runtime/python")
}

/// A Python that is new enough, if this machine has one.
fn python() -> Option<PathBuf> {
    let named = std::env::var_os("TOMBOLO_PYTHON").map(PathBuf::from);
    let usual = ["python3", "/usr/bin/python3"].map(PathBuf::from);
    named.into_iter().chain(usual).find(|python| {
        let ask = "import sys; sys.exit(sys.version_info < (3, 9))";
        let mut command = Command::new(python);
        command.args(["-I", "-c", ask]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    })
}

/// Says past the harness, which shows nothing of a test that passes, what was left out and why.
fn skipped(what: &str) {
    let _ = writeln!(std::io::stdout(), "\nSKIPPED {what}");
}

/// The package as it would be installed: the sources, and the library that cargo built for this test.
fn assembled(folder: &Path) {
    let package = folder.join("tombolo");
    fs::create_dir_all(&package).unwrap();
    for file in fs::read_dir(source().join("python/tombolo")).unwrap() {
        let file = file.unwrap();
        symlink(fs::canonicalize(file.path()).unwrap(), package.join(file.file_name())).unwrap();
    }
    let exe = std::env::current_exe().expect("a program knows its own path");
    let library = exe.with_file_name("libtombolo_native.so");
    assert!(library.exists(), "{} is not there", library.display());
    symlink(library, package.join("_native.abi3.so")).unwrap();
}

/// Python, as a program of the machine, with the package where it looks.
fn command(machine: &Machine, python: &Path, packages: &Path) -> Command {
    let mut command = Command::new(python);
    for (name, value) in machine.command().get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
        .current_dir(source().join("tests"))
        .env("PYTHONPATH", packages)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // What a test leaves open is a mistake of the test.
        .args(["-W", "error::ResourceWarning"]);
    command
}

#[test]
fn the_tests_of_the_python_package_pass() {
    let Some(python) = python() else {
        return skipped("python: there is no Python 3.9 or newer (Debian: python3)");
    };
    let machine = Machine::up(&MachineFile::host());
    let packages = machine.folder().join("packages");
    assembled(&packages);
    let mut unittest = command(&machine, &python, &packages);
    let finished = Running::start(unittest.args(["-m", "unittest", "discover", "-v"])).finish();
    let said = finished.stderr.clone();
    finished.ok();
    assert!(said.contains("\nOK"), "{said}");
    machine.down();
}
