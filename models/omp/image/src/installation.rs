//! What programs are linked with: the C library and the run-time of each instruction set, in the kit.

use std::fs;
use std::path::{Path, PathBuf};

use tombolo_base::Isa;
use tombolo_machine::Kit;
use tombolo_machine::build::gcc::names;

/// There is nothing to link with for an instruction set.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InstallationError {
    /// The C library has not been put into the kit.
    #[error("there is no C library for OpenMP programs on {isa} in {}: run `make omp`", looked_at.display())]
    Missing {
        /// The instruction set.
        isa: Isa,
        /// Where it was looked for.
        looked_at: PathBuf,
    },
    /// Programs are made for other instruction sets.
    #[error("OpenMP programs are not made for {isa}, only for {}", names(Installation::ISAS))]
    NotMade {
        /// The instruction set.
        isa: Isa,
    },
}

/// What there is for one instruction set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Installation {
    isa: Isa,
    folder: PathBuf,
    version: String,
}

impl Installation {
    /// The instruction sets that programs are made for.
    pub const ISAS: &[Isa] = &[Isa::X86_64, Isa::Aarch64];

    /// What the kit has for `isa`.
    ///
    /// # Errors
    /// [`InstallationError`].
    pub fn find(kit: &Kit, isa: Isa) -> Result<Installation, InstallationError> {
        if !Self::ISAS.contains(&isa) {
            return Err(InstallationError::NotMade { isa });
        }
        let folder = kit.root().join("omp").join(isa.name());
        let missing = |looked_at: &Path| InstallationError::Missing { isa, looked_at: looked_at.to_owned() };
        let version = fs::read_to_string(folder.join("version")).map_err(|_| missing(&folder))?;
        let library = folder.join("lib/libc.a");
        if !library.is_file() {
            return Err(missing(&library));
        }
        Ok(Installation { isa, folder, version: version.trim().to_owned() })
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

    /// Which C library it is, `musl 1.2.3-1`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The C library's headers.
    #[must_use]
    pub fn include(&self) -> PathBuf {
        self.folder.join("include")
    }

    /// A file of the C library, or of the run-time.
    #[must_use]
    pub fn library(&self, name: &str) -> PathBuf {
        self.folder.join("lib").join(name)
    }

    /// The run-time and what it is linked with, as far as they are there. What unwinds comes with the run-time: gcc's is made for
    /// glibc.
    pub fn run_time(&self) -> impl Iterator<Item = PathBuf> {
        let files = ["libgomp.a", "libunwind.a"].map(|name| self.library(name));
        files.into_iter().filter(|path| path.is_file())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_in_the_kit_is_named() {
        let folder = std::env::temp_dir().join(format!("tombolo-omp-{}", std::process::id()));
        let lib = folder.join("omp/aarch64/lib");
        fs::create_dir_all(&lib).unwrap();
        let kit = Kit::at(&folder);
        let find = |isa| Installation::find(&kit, isa).map_err(|error| error.to_string());
        assert!(find(Isa::Aarch64).unwrap_err().ends_with("`make omp`"));
        assert_eq!(
            find(Isa::Riscv64).unwrap_err(),
            "OpenMP programs are not made for riscv64, only for x86_64 and aarch64"
        );
        fs::write(folder.join("omp/aarch64/version"), "musl 1.2.3-1\n").unwrap();
        assert!(find(Isa::Aarch64).unwrap_err().contains("lib/libc.a: run `make omp`"));
        fs::write(lib.join("libc.a"), "").unwrap();
        let found = find(Isa::Aarch64).unwrap();
        assert_eq!((found.version(), found.run_time().count()), ("musl 1.2.3-1", 0));
        fs::write(lib.join("libgomp.a"), "").unwrap();
        assert_eq!(found.run_time().collect::<Vec<_>>(), [lib.join("libgomp.a")]);
        assert_eq!(Installation::all(&kit), [found]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
