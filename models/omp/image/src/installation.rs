//! Libraries that programs are linked with: the C library and the run-time of each instruction set, in the
//! kit.

use std::path::PathBuf;

use tombolo_base::Isa;
use tombolo_machine::Kit;
use tombolo_machine::build::gcc::{ISAS, Installed, Library};

pub use tombolo_machine::build::gcc::InstallationError;

/// Location in the kit.
const LIBRARY: Library = Library {
    what: "C library for OpenMP programs",
    name: "omp",
    subfolder: "",
    marker_file: "lib/libc.a",
    isas: ISAS,
};

/// Installed libraries for one instruction set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Installation(Installed);

impl Installation {
    /// Finds the kit's installation for `isa`.
    ///
    /// # Errors
    /// [`InstallationError`] if the kit does not have it.
    pub fn find(kit: &Kit, isa: Isa) -> Result<Installation, InstallationError> {
        LIBRARY.find(kit, isa).map(Installation)
    }

    /// Instruction set of the installation.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.0.isa
    }

    /// Version of the C library, such as `musl 1.2.3-1`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.0.version
    }

    /// Folder of the C library's headers.
    #[must_use]
    pub fn include(&self) -> PathBuf {
        self.0.folder.join("include")
    }

    /// Folder of headers that wrap the C library's of the same name and add what glibc's include. It comes
    /// first in the search order.
    #[must_use]
    pub fn include_changed(&self) -> PathBuf {
        self.0.folder.join("include-changed")
    }

    /// Path of a file of the C library or of the run-time.
    #[must_use]
    pub fn library(&self, name: &str) -> PathBuf {
        self.0.folder.join("lib").join(name)
    }

    /// Paths of the run-time and of the libraries that it needs, if they are installed. The unwinder comes
    /// with the run-time, because gcc's is built for glibc.
    pub fn run_time(&self) -> impl Iterator<Item = PathBuf> {
        let files = ["libgomp.a", "libunwind.a"].map(|name| self.library(name));
        files.into_iter().filter(|path| path.is_file())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_time_is_found_if_installed() {
        let folder = std::env::temp_dir().join(format!("tombolo-omp-{}", std::process::id()));
        let lib = folder.join("omp/aarch64/lib");
        std::fs::create_dir_all(&lib).unwrap();
        let kit = Kit::at(&folder);
        let find = |isa| Installation::find(&kit, isa).map_err(|error| error.to_string());
        assert!(find(Isa::Aarch64).unwrap_err().ends_with("`make omp`"));
        std::fs::write(folder.join("omp/aarch64/version"), "musl 1.2.3-1\n").unwrap();
        std::fs::write(lib.join("libc.a"), "").unwrap();
        let found = find(Isa::Aarch64).unwrap();
        assert_eq!((found.version(), found.run_time().count()), ("musl 1.2.3-1", 0));
        std::fs::write(lib.join("libgomp.a"), "").unwrap();
        assert_eq!(found.run_time().collect::<Vec<_>>(), [lib.join("libgomp.a")]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
