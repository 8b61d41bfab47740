//! The architectures that packages are made for.

use std::fs;
use std::process::Command;

use crate::failure::Failure;
use crate::installation::{Item, Source, What};
use crate::kit::select_installed;
use crate::toolchain::{Toolchain, add_target};
use crate::workspace::{Workspace, execute};

/// Architecture that packages are made for.
#[derive(Debug)]
pub(super) struct Architecture {
    /// Name as spelled by `tombolo_base::Isa`.
    pub(super) isa: &'static str,
    /// Name of the Debian architecture.
    pub(super) debian: &'static str,
    /// Debian's multiarch triplet, the folder of its libraries.
    pub(super) multiarch: &'static str,
    /// Rust target triple with glibc, the C library of Debian.
    pub(super) triple: &'static str,
}

/// All supported architectures.
pub(super) const ARCHITECTURES: [Architecture; 2] = [
    Architecture {
        isa: "x86_64",
        debian: "amd64",
        multiarch: "x86_64-linux-gnu",
        triple: "x86_64-unknown-linux-gnu",
    },
    Architecture {
        isa: "aarch64",
        debian: "arm64",
        multiarch: "aarch64-linux-gnu",
        triple: "aarch64-unknown-linux-gnu",
    },
];

/// Target of the monitor for x86-64 nodes, which are foreign on Arm. On x86-64 only the host's own monitor is
/// needed.
const FOREIGN_X86_64: &str = "x86_64-unknown-linux-musl";

impl Architecture {
    /// Returns the architecture of this machine.
    pub(super) fn native() -> Result<&'static Architecture, Failure> {
        let host = Toolchain::find()?.host()?;
        let isa = host.split('-').next().unwrap_or(&host);
        ARCHITECTURES.iter().find(|architecture| architecture.isa == isa).ok_or_else(|| {
            Failure::Found(format!("packages are made on and for x86_64 and aarch64; this machine is {isa}"))
        })
    }

    fn is_native(&self) -> Result<bool, Failure> {
        Ok(Architecture::native()?.isa == self.isa)
    }

    /// Describes the files of an installation, which need not be built yet.
    pub(super) fn source<'a>(&'a self, workspace: &'a Workspace) -> Source<'a> {
        // Native programs are in the kit's build folder.
        let native = Architecture::native().is_ok_and(|native| native.isa == self.isa);
        let profile = if native { "release".into() } else { format!("{}/release", self.triple) };
        Source {
            workspace,
            built: workspace.target.join(profile),
            isa: self.isa,
            documents: workspace.target.join("documents"),
        }
    }

    /// Builds the missing files of an installation.
    pub(super) fn build<'a>(&'a self, workspace: &'a Workspace) -> Result<Source<'a>, Failure> {
        let source = self.source(workspace);
        let mut cargo = workspace.cargo();
        cargo.args(["build", "--release"]);
        select_installed(&mut cargo);
        if self.is_native()? {
            cargo.args(["--package", "tombolo-documents", "--bin", "tombolo-documents"]);
            execute(&mut cargo)?;
            write_documents(&source)?;
        } else {
            if !Toolchain::find()?.has(self.triple) {
                return Err(Failure::Found(format!(
                    "packages for {} need Rust's library for {1}: `rustup target add {1}`",
                    self.isa, self.triple
                )));
            }
            execute(cargo.args(["--target", self.triple]))?;
        }
        Ok(source)
    }

    /// Builds and returns what the kit of this architecture contains in addition: the monitor for x86-64
    /// nodes where x86-64 is foreign.
    pub(super) fn foreign_monitors(&self, workspace: &Workspace) -> Result<Vec<Item>, Failure> {
        if self.isa == "x86_64" || !Toolchain::find()?.has(FOREIGN_X86_64) {
            return Ok(vec![]);
        }
        let mut cargo = workspace.cargo();
        cargo.args(["build", "--profile", "node", "--package", "tombolod", "--bin", "tombolod"]);
        add_target(&mut cargo, FOREIGN_X86_64);
        execute(&mut cargo)?;
        let built = workspace.target.join(FOREIGN_X86_64).join("node/tombolod");
        Ok(vec![Item { path: "lib/tombolo/kit/x86_64/tombolod".into(), what: What::File(built, 0o755) }])
    }
}

/// Writes manual pages and completions into an empty folder, so that no file of a removed command remains.
fn write_documents(source: &Source<'_>) -> Result<(), Failure> {
    let folder = &source.documents;
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(Failure::file("removing", folder))?;
    }
    execute(Command::new(source.built.join("tombolo-documents")).arg(folder))
}
