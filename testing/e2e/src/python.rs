//! Programs in Python, with the package as it would be installed.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Machine;

/// An interpreter and the package, for one machine.
#[derive(Clone, Debug)]
pub struct Python {
    interpreter: PathBuf,
    packages: PathBuf,
}

impl Python {
    /// A Python that is new enough, with the package out of the sources and the library that cargo built for the tests;
    /// `None`, aloud, where this machine has no such Python.
    ///
    /// # Panics
    /// When the package cannot be put together.
    #[must_use]
    pub fn of(machine: &Machine) -> Option<Python> {
        let Some(interpreter) = interpreter() else {
            skipped("python: there is no Python 3.9 or newer (Debian: python3)");
            return None;
        };
        let packages = machine.folder().join("packages");
        let package = packages.join("tombolo");
        fs::create_dir_all(&package).expect("a folder for the package");
        let sources = fs::read_dir(source().join("python/tombolo")).expect("the sources of the package");
        for file in sources {
            let file = file.expect("a file of the package");
            let real = fs::canonicalize(file.path()).expect("a file of the package");
            symlink(real, package.join(file.file_name())).expect("a link to a file of the package");
        }
        let exe = std::env::current_exe().expect("a program knows its own path");
        let library = exe.with_file_name("libtombolo_native.so");
        assert!(library.exists(), "{} is not there", library.display());
        symlink(library, package.join("_native.abi3.so")).expect("a link to the library");
        Some(Python { interpreter, packages })
    }

    /// Python as a program that may attach to the machine, in the folder of its tests.
    #[must_use]
    pub fn command(&self, machine: &Machine) -> Command {
        let mut command = Command::new(&self.interpreter);
        for (name, value) in machine.command().get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        // The tree is where `tombolo.interfaces` finds the interface files.
        let path = std::env::join_paths([self.packages.clone(), source().join("../..")]);
        command
            .current_dir(source().join("tests"))
            .env("PYTHONPATH", path.expect("paths without colons"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("PYTHONIOENCODING", "utf-8");
        command
    }
}

/// Where the package and its tests are.
fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runtime/python")
}

/// A Python that is new enough, if this machine has one; `TOMBOLO_PYTHON` says which comes first.
fn interpreter() -> Option<PathBuf> {
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
    // A terminal that is gone is no reason to fail.
    let _ = writeln!(std::io::stdout(), "\nSKIPPED {what}");
}
