//! MPI programs, compiled the way users compile them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::cross::root;
use crate::kit::{locked, target, tombolo};
use crate::{MachineFile, skipped};

/// Names of the programs in `testing/mpi/programs`: each checks itself and prints the result.
pub const PROGRAMS: [&str; 8] =
    ["ring", "datatypes", "collectives", "matching", "onesided", "threads", "large", "everyone"];

/// The kit's MPI, and test programs built for every instruction set.
#[derive(Clone, Copy, Debug)]
pub struct Mpi {
    programs: &'static Path,
}

impl Mpi {
    /// Builds the programs once. Returns `None` and reports a skipped test if the kit has no MPI.
    ///
    /// # Panics
    /// When one cannot be built.
    #[must_use]
    pub fn find() -> Option<Mpi> {
        static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
        let kit = target().join("kit/mpi");
        for isa in ["x86_64", "aarch64"] {
            let provider = kit.join(isa).join("opt/tombolo/mpi/fi/libtombolo-fi.so");
            if !provider.is_file() {
                skipped(&format!("MPI: there is no {} (`make mpi`)", provider.display()));
                return None;
            }
        }
        Some(Mpi { programs: PROGRAMS.get_or_init(build) })
    }

    /// Path of a program's image.
    #[must_use]
    pub fn image(self, name: &str) -> PathBuf {
        self.programs.join(name).with_extension("tbi")
    }

    /// Path of a program's source file.
    #[must_use]
    pub fn source(name: &str) -> PathBuf {
        let folder = std::fs::canonicalize(root().join("testing/mpi/programs")).expect("the tree");
        folder.join(name).with_extension("c")
    }

    /// Folder that contains the libfabric provider for this host.
    #[must_use]
    pub fn provider_folder(self) -> PathBuf {
        target().join("kit/mpi").join(std::env::consts::ARCH).join("opt/tombolo/mpi/fi")
    }

    /// Installs mpi4py for this host and returns its Python. Returns `None` and reports a skipped test if the
    /// package index is unavailable.
    ///
    /// # Panics
    /// When the installation fails for another reason.
    #[must_use]
    pub fn python(self) -> Option<PathBuf> {
        let _lock = locked();
        let script = root().join("scripts/mpi4py.sh");
        let output = Command::new("sh").arg(script).arg("--host").arg(target()).output().expect("sh");
        match output.status.code() {
            Some(0) => Some(target().join("mpi4py/bin/python")),
            Some(3) => {
                skipped("mpi4py: the package index did not give it (scripts/mpi4py.sh)");
                None
            }
            _ => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        }
    }

    /// Adds an Arm virtual machine that can run MPI programs.
    #[must_use]
    pub fn with_vm(self, file: MachineFile, name: &str) -> MachineFile {
        let settings = "files = [\"kit:mpi/aarch64\"]\nwindow_mib = 128";
        file.with_vm_of(name, 768, settings)
    }

    /// Adds a user-mode emulation node for Arm that can run MPI programs.
    #[must_use]
    pub fn with_user(self, file: MachineFile, name: &str) -> MachineFile {
        file.with_user(name, "aarch64").with_setting("files = [\"kit:mpi/aarch64\"]")
    }
}

fn build() -> PathBuf {
    let _lock = locked();
    let folder = target().join("e2e/mpi");
    std::fs::create_dir_all(&folder).expect("a folder for programs");
    for name in PROGRAMS {
        let output = Command::new(tombolo())
            .args(["mpicc", "-std=c11", "-O2", "-Wall", "-Wextra", "-pedantic", "-Werror"])
            .arg(Mpi::source(name))
            .arg("-o")
            .arg(folder.join(name).with_extension("tbi"))
            .output()
            .expect("the command runs");
        assert!(output.status.success(), "no {name}: {}", String::from_utf8_lossy(&output.stderr));
    }
    folder
}
