//! Where MPI is: in the kit for compilers and the host, at one path on every other node.

use std::path::{Path, PathBuf};

use tombolo::Isa;
use tombolo_machine::Kit;
use tombolo_machine::build::gcc::{self, ISAS, Installed, Library};

/// Where MPI is on every node but the host.
pub const PREFIX: &str = "/opt/tombolo/mpi";

/// The `sched_yield` of ranks, in a node's MPI.
pub(crate) const YIELD_LIBRARY: &str = "lib/libtombolo-yield.so";

/// Where it is in the kit: below a folder that nodes have at their roots.
const MPI: Library =
    Library { what: "MPI", name: "mpi", inside: PREFIX.split_at(1).1, proof: "lib/libmpi.so", isas: ISAS };

/// There is no MPI for an instruction set.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InstallationError {
    /// It is not in the kit, or not made at all.
    #[error(transparent)]
    Missing(#[from] gcc::InstallationError),
    /// The provider is not there, without which programs reach no other node.
    #[error("the provider for {isa} is missing, {}: run `make mpi`", looked_at.display())]
    NoProvider {
        /// The instruction set.
        isa: Isa,
        /// Where it was looked for.
        looked_at: PathBuf,
    },
}

/// MPI for one instruction set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Installation(Installed);

impl Installation {
    /// MPI for `isa`, in the kit.
    ///
    /// # Errors
    /// [`InstallationError::Missing`].
    pub fn find(kit: &Kit, isa: Isa) -> Result<Installation, InstallationError> {
        Ok(Installation(MPI.find(kit, isa)?))
    }

    /// Those that are in the kit.
    #[must_use]
    pub fn all(kit: &Kit) -> Vec<Installation> {
        MPI.all(kit).map(Installation).collect()
    }

    /// What it is for.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.0.isa
    }

    /// Which MPI it is, `mpich 5.0.2`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.0.version
    }

    /// The tree of files that nodes of `files = ["kit:mpi/ISA"]` have at their roots.
    #[must_use]
    pub fn tree(&self) -> &Path {
        &self.0.tree
    }

    /// Its libraries, headers and provider, as compilers on this host see them: `lib`, `include` and `fi` are
    /// there.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.0.folder.clone()
    }

    /// The same, as programs see it that run on the host itself, or on another node.
    #[must_use]
    pub fn folder_on(&self, host: bool) -> PathBuf {
        if host { self.folder() } else { PathBuf::from(PREFIX) }
    }

    /// Whether the `sched_yield` of ranks is there as well. They run without it, slower.
    pub(crate) fn has_yield(&self) -> bool {
        self.folder().join(YIELD_LIBRARY).is_file()
    }

    /// Whether the provider is there as well.
    ///
    /// # Errors
    /// [`InstallationError::NoProvider`].
    pub fn check_provider(&self) -> Result<(), InstallationError> {
        let looked_at = self.folder().join("fi/libtombolo-fi.so");
        if looked_at.is_file() {
            Ok(())
        } else {
            Err(InstallationError::NoProvider { isa: self.0.isa, looked_at })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_in_the_kit_is_named() {
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
