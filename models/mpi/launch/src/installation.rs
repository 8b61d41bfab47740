//! Where MPI is: in the kit for compilers and the host, at one path on every other node.

use std::fs;
use std::path::{Path, PathBuf};

use tombolo::Isa;
use tombolo_machine::Kit;

/// Where MPI is on every node but the host.
pub const PREFIX: &str = "/opt/tombolo/mpi";

/// The `sched_yield` of ranks, in a node's MPI.
pub(crate) const YIELD_LIBRARY: &str = "lib/libtombolo-yield.so";

/// There is no MPI for an instruction set.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InstallationError {
    /// MPI has not been put into the kit.
    #[error("there is no MPI for {isa} in {}: run `make mpi`", looked_at.display())]
    Missing {
        /// The instruction set.
        isa: Isa,
        /// Where it was looked for.
        looked_at: PathBuf,
    },
    /// MPI is made for other instruction sets.
    #[error("there is no MPI for {isa} nodes; it is made for {}", names(Installation::ISAS))]
    NotMade {
        /// The instruction set.
        isa: Isa,
    },
    /// The provider is not there, without which programs reach no other node.
    #[error("there is no provider for {isa}, {}: run `make mpi`", looked_at.display())]
    NoProvider {
        /// The instruction set.
        isa: Isa,
        /// Where it was looked for.
        looked_at: PathBuf,
    },
}

fn names(isas: &[Isa]) -> String {
    isas.iter().map(|isa| isa.name()).collect::<Vec<_>>().join(" and ")
}

/// MPI for one instruction set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Installation {
    isa: Isa,
    tree: PathBuf,
    version: String,
}

impl Installation {
    /// The instruction sets that MPI is made for.
    pub const ISAS: &[Isa] = &[Isa::X86_64, Isa::Aarch64];

    /// MPI for `isa`, in the kit.
    ///
    /// # Errors
    /// [`InstallationError::NotMade`] and [`InstallationError::Missing`].
    pub fn find(kit: &Kit, isa: Isa) -> Result<Installation, InstallationError> {
        if !Self::ISAS.contains(&isa) {
            return Err(InstallationError::NotMade { isa });
        }
        let tree = kit.root().join("mpi").join(isa.name());
        let missing = |looked_at: &Path| InstallationError::Missing { isa, looked_at: looked_at.to_owned() };
        let version =
            fs::read_to_string(inside(&tree).join("version")).map_err(|_| missing(&tree))?.trim().to_owned();
        let library = inside(&tree).join("lib/libmpi.so");
        if library.exists() { Ok(Installation { isa, tree, version }) } else { Err(missing(&library)) }
    }

    /// Those that are in the kit.
    #[must_use]
    pub fn all(kit: &Kit) -> Vec<Installation> {
        Self::ISAS.iter().filter_map(|isa| Installation::find(kit, *isa).ok()).collect()
    }

    /// What it is for.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Which MPI it is, `mpich 5.0.2`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The tree of files that nodes of `files = ["kit:mpi/ISA"]` have at their roots.
    #[must_use]
    pub fn tree(&self) -> &Path {
        &self.tree
    }

    /// Its libraries, headers and provider, as compilers on this host see them: `lib`, `include` and `fi` are there.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        inside(&self.tree)
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
            Err(InstallationError::NoProvider { isa: self.isa, looked_at })
        }
    }
}

/// Where MPI is in a tree.
fn inside(tree: &Path) -> PathBuf {
    tree.join(PREFIX.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_in_the_kit_is_named() {
        let folder = std::env::temp_dir().join(format!("tombolo-mpi-{}", std::process::id()));
        let mpi = folder.join("mpi/aarch64/opt/tombolo/mpi");
        fs::create_dir_all(mpi.join("lib")).unwrap();
        let kit = Kit::at(&folder);
        let find = |isa| Installation::find(&kit, isa).map_err(|error| error.to_string());
        let missing = find(Isa::Aarch64).unwrap_err();
        assert!(missing.starts_with("there is no MPI for aarch64 in ") && missing.ends_with("`make mpi`"));
        assert_eq!(
            find(Isa::S390x).unwrap_err(),
            "there is no MPI for s390x nodes; it is made for x86_64 and aarch64"
        );
        fs::write(mpi.join("version"), "mpich 5.0.2\n").unwrap();
        assert!(find(Isa::Aarch64).unwrap_err().contains("lib/libmpi.so: run `make mpi`"));
        fs::write(mpi.join("lib/libmpi.so"), "").unwrap();
        let found = find(Isa::Aarch64).unwrap();
        assert_eq!(found.version(), "mpich 5.0.2");
        assert_eq!((found.folder_on(true), found.folder_on(false)), (mpi.clone(), PREFIX.into()));
        assert!(found.check_provider().unwrap_err().to_string().contains("fi/libtombolo-fi.so"));
        assert_eq!(Installation::all(&kit), [found]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
