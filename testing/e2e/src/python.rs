//! Python programs, with the package laid out as if installed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cross::{Library, root};
use crate::kit::{locked, target};
use crate::{Machine, MachineFile, Running, skipped};

/// An interpreter and a copy of the package, for the tests of one machine.
#[derive(Clone, Debug)]
pub struct Python {
    interpreter: PathBuf,
    packages: PathBuf,
}

impl Python {
    /// Links the package together from its sources and the library that cargo built for the tests. Returns
    /// `None` and reports a skipped test if there is no recent enough Python.
    ///
    /// # Panics
    /// When the links cannot be created.
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

    /// Folder that contains the package.
    #[must_use]
    pub fn packages(&self) -> &Path {
        &self.packages
    }

    /// Returns the command line that runs one of the package's test programs as a domain on the host.
    #[must_use]
    pub fn script(&self, name: &str) -> Vec<String> {
        let script = source().join("tests").join(name);
        let interpreter = self.interpreter.display().to_string();
        let path = format!("PYTHONPATH={}", self.packages.display());
        vec!["/usr/bin/env".to_owned(), path, interpreter, script.display().to_string()]
    }

    /// Returns a command that runs Python in the folder of its tests, with access to the machine.
    #[must_use]
    pub fn command(&self, machine: &Machine) -> Command {
        let mut command = Command::new(&self.interpreter);
        for (name, value) in machine.command().get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        // `tombolo.interfaces` looks for the interface files in the tree.
        let path = std::env::join_paths([self.packages.clone(), source().join("../..")]);
        command
            .current_dir(source().join("tests"))
            .env("PYTHONPATH", path.expect("paths without colons"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("PYTHONIOENCODING", "utf-8");
        command
    }
}

/// Folder in a virtual machine that corresponds to the root of the tree.
const GUEST: &str = "opt/tombolo";

const NATIVE: Library =
    Library { package: "tombolo-python", crate_type: "cdylib", file: "libtombolo_native.so", flags: "" };

/// Debian's Python for Arm virtual machines, and the package built for it.
#[derive(Clone, Debug)]
pub struct GuestPython {
    /// Root file system with the interpreter.
    root: PathBuf,
    library: PathBuf,
}

impl GuestPython {
    /// Downloads Debian's Python and builds the package's library. Returns `None` and reports a skipped test
    /// if the Debian archive is unavailable or this Rust has no library for the target.
    ///
    /// # Panics
    /// When the download or the build fails for another reason.
    #[must_use]
    pub fn of_arm() -> Option<GuestPython> {
        let library = NATIVE.build("aarch64-unknown-linux-gnu", "Python on Arm")?;
        let _lock = locked();
        let script = root().join("scripts/fetch-vm-python.sh");
        let output = Command::new("sh").arg(script).arg(target()).output().expect("sh");
        match output.status.code() {
            Some(0) => Some(GuestPython { root: target().join("kit/python/aarch64"), library }),
            Some(3) => {
                skipped("Python on Arm: the archive of Debian did not give it (scripts/fetch-vm-python.sh)");
                None
            }
            _ => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        }
    }

    /// Adds a virtual machine with this Python, the package and the tests of the tree.
    #[must_use]
    pub fn on_vm(&self, file: MachineFile, name: &str) -> MachineFile {
        let files = format!("files = [{:?}, \"{name}-files\"]", self.root.display().to_string());
        file.with_vm(name, &files)
    }

    /// Copies the package and its tests to the folder that [`on_vm`](Self::on_vm) names in the machine file.
    /// Must run before the machine comes up.
    ///
    /// # Panics
    /// When a file cannot be copied.
    pub fn install(&self, machine: &Machine, name: &str) {
        let own = machine.folder().join(format!("{name}-files")).join(GUEST);
        copy_files(&source().join("python/tombolo"), &own.join("packages/tombolo"), "");
        copy_files(&source().join("python/tombolo/interfaces"), &own.join("packages/tombolo/interfaces"), "");
        copy_files(&source().join("tests"), &own.join("runtime/python/tests"), ".py");
        copy_files(&root().join("interfaces"), &own.join("interfaces"), ".tbl");
        let native = own.join("packages/tombolo/_native.abi3.so");
        fs::copy(&self.library, native).expect("the library of the package");
    }

    /// Adds a test program of the package and its arguments to a `tombolo run` on that virtual machine.
    ///
    /// # Panics
    /// When there is no interpreter or `words` is empty.
    pub fn add_to<'a>(&self, command: &'a mut Command, words: &[&str]) -> &'a mut Command {
        let interpreter = fs::canonicalize(self.root.join("usr/bin/python3")).expect("an interpreter");
        let path = format!("PYTHONPATH=/{GUEST}/packages");
        let script = format!("/{GUEST}/runtime/python/tests/{}", words[0]);
        command.args(["--env", &path, "--env", "PYTHONDONTWRITEBYTECODE=1"]);
        command.arg(interpreter).arg(script).args(&words[1..])
    }

    /// Starts such a program as a domain of that node.
    #[must_use]
    pub fn start(&self, machine: &Machine, node: &str, words: &[&str]) -> Running {
        let mut command = machine.command();
        command.args(["run", "--on", node]);
        Running::start(self.add_to(&mut command, words))
    }
}

/// Copies the files of a folder whose names end with `end`.
fn copy_files(from: &Path, to: &Path, end: &str) {
    fs::create_dir_all(to).expect("a folder");
    for file in fs::read_dir(from).expect("a folder of the tree") {
        let path = file.expect("a file of the tree").path();
        let name = path.file_name().expect("a name").to_owned();
        if path.is_file() && name.to_string_lossy().ends_with(end) {
            fs::copy(&path, to.join(name)).expect("a copy");
        }
    }
}

/// The folder of the package and its tests.
fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runtime/python")
}

/// Finds a recent enough Python on this host; `TOMBOLO_PYTHON` is tried first.
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
