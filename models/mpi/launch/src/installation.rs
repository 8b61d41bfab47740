//! Location of the MPI library: in the kit on the host, and at a fixed path on other nodes.

use std::path::{Path, PathBuf};

use tombolo::Isa;
use tombolo_machine::Kit;
use tombolo_machine::build::gcc::{self, ISAS, Installed, Library};

/// Path of MPI on every node except the host.
pub const PREFIX: &str = "/opt/tombolo/mpi";

/// Path of the `sched_yield` replacement within an MPI installation.
pub(crate) const YIELD_LIBRARY: &str = "lib/libtombolo-yield.so";

/// Location in the kit: a tree that nodes mount at their roots.
const MPI: Library = Library {
    what: "MPI",
    name: "mpi",
    subfolder: PREFIX.split_at(1).1,
    marker_file: "lib/libmpi.so",
    isas: ISAS,
};

/// MPI is not installed for an instruction set.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InstallationError {
    /// It is missing from the kit.
    #[error(transparent)]
    Missing(#[from] gcc::InstallationError),
    /// Tombolo's libfabric provider is missing, without which ranks cannot reach other nodes.
    #[error("the provider for {isa} is missing, {}: run `make mpi`", searched.display())]
    NoProvider {
        /// The instruction set.
        isa: Isa,
        /// Path that was searched.
        searched: PathBuf,
    },
}

/// The MPI library for one instruction set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Installation(Installed);

impl Installation {
    /// Finds MPI for `isa` in the kit.
    ///
    /// # Errors
    /// [`InstallationError::Missing`].
    pub fn find(kit: &Kit, isa: Isa) -> Result<Installation, InstallationError> {
        Ok(Installation(MPI.find(kit, isa)?))
    }

    /// All installations in the kit.
    #[must_use]
    pub fn all(kit: &Kit) -> Vec<Installation> {
        MPI.all(kit).map(Installation).collect()
    }

    /// Instruction set of the library.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.0.isa
    }

    /// Name and version, such as `mpich 5.0.2`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.0.version
    }

    /// Tree of files that nodes with `files = ["kit:mpi/ISA"]` have at their roots.
    #[must_use]
    pub fn tree(&self) -> &Path {
        &self.0.tree
    }

    /// Folder on this host with `lib`, `include` and `fi` (the provider), for compilers.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.0.folder.clone()
    }

    /// The same folder as seen by programs, on the host or on another node.
    #[must_use]
    pub fn folder_on(&self, host: bool) -> PathBuf {
        if host { self.folder() } else { PathBuf::from(PREFIX) }
    }

    /// Whether the `sched_yield` replacement is installed. Ranks also run without it, but slower.
    pub(crate) fn has_yield(&self) -> bool {
        self.folder().join(YIELD_LIBRARY).is_file()
    }

    /// Checks that the provider is installed.
    ///
    /// # Errors
    /// [`InstallationError::NoProvider`].
    pub fn check_provider(&self) -> Result<(), InstallationError> {
        let searched = self.folder().join("fi/libtombolo-fi.so");
        if searched.is_file() {
            Ok(())
        } else {
            Err(InstallationError::NoProvider { isa: self.0.isa, searched })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_installation_is_named() {
        let folder = std::env::temp_dir().join(format!("tombolo-mpi-{}", std::process::id()));
        let mpi = folder.join("mpi/aarch64/opt/tombolo/mpi");
        std::fs::create_dir_all(mpi.join("lib")).unwrap();
        let kit = Kit::at(&folder);
        let find = |isa| Installation::find(&kit, isa).map_err(|error| error.to_string());
        let missing = find(Isa::Aarch64).unwrap_err();
        assert!(missing.starts_with("there is no MPI for aarch64 in ") && missing.ends_with("`make mpi`"));
        std::fs::write(mpi.join("version"), "mpich 5.0.2\n").unwrap();
        std::fs::write(mpi.join("lib/libmpi.so"), "").unwrap();
        let found = find(Isa::Aarch64).unwrap();
        assert_eq!((found.version(), found.tree()), ("mpich 5.0.2", folder.join("mpi/aarch64").as_path()));
        assert_eq!((found.folder_on(true), found.folder_on(false)), (mpi.clone(), PREFIX.into()));
        assert!(found.check_provider().unwrap_err().to_string().contains("fi/libtombolo-fi.so"));
        assert_eq!(Installation::all(&kit), [found]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
