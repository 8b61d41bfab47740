//! Libraries that programs are linked with and that are not part of a compiler. A make goal installs them
//! into the kit for each instruction set.

use std::fs;
use std::path::{Path, PathBuf};

use tombolo_base::Isa;

use super::isa_list;
use crate::Kit;
use crate::kit::VERSION;

/// File beside `version` with the release of Tombolo that a library was built with. Libraries installed by
/// hand have none.
const RELEASE_FILE: &str = "release";

/// Reason why a library for an instruction set cannot be linked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InstallationError {
    /// The library is not installed in the kit.
    #[error("there is no {what} for {isa} in {}: run `make {goal}`", searched.display())]
    Missing {
        /// Name of the missing library.
        what: &'static str,
        /// The instruction set.
        isa: Isa,
        /// Folder that was searched.
        searched: PathBuf,
        /// Goal of `make` that installs it.
        goal: &'static str,
    },
    /// The library was built with another release, whose programs are incompatible with the monitors of this
    /// one.
    #[error(
        "the {what} for {isa} in {} is that of Tombolo {library_release}, and this is Tombolo {VERSION}: run `make {goal}`, or install both \
         of one release",
        searched.display()
    )]
    OtherRelease {
        /// Name of the library.
        what: &'static str,
        /// The instruction set.
        isa: Isa,
        /// Folder of the library.
        searched: PathBuf,
        /// Release that it was built with.
        library_release: String,
        /// Goal of `make` that installs it.
        goal: &'static str,
    },
    /// The library is not available for this instruction set.
    #[error("there is no {what} for {isa}; it is made for {}", isa_list(isas))]
    NotMade {
        /// Name of the library.
        what: &'static str,
        /// The instruction set.
        isa: Isa,
        /// Instruction sets that it is available for.
        isas: &'static [Isa],
    },
}

/// Instruction sets supported by MPI and the OpenMP runtime.
pub const ISAS: &[Isa] = &[Isa::X86_64, Isa::Aarch64];

/// A library that programs are linked with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Library {
    /// Display name of the library.
    pub what: &'static str,
    /// Name of its folder in the kit, which has a subfolder for each instruction set, and of the make goal
    /// that installs it.
    pub name: &'static str,
    /// Subfolder of its files in the folder of an instruction set; contains `version`.
    pub subfolder: &'static str,
    /// File whose existence proves that it is installed.
    pub marker_file: &'static str,
    /// Instruction sets that it is available for.
    pub isas: &'static [Isa],
}

/// A library installed for one instruction set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Installed {
    /// Instruction set of the library.
    pub isa: Isa,
    /// Folder of the library in the kit.
    pub tree: PathBuf,
    /// Folder of its files.
    pub folder: PathBuf,
    /// Name and version: `musl 1.2.3-1`.
    pub version: String,
}

impl Library {
    /// Finds the library in the kit for `isa`.
    ///
    /// # Errors
    /// [`InstallationError`] with the remedy.
    pub fn find(&self, kit: &Kit, isa: Isa) -> Result<Installed, InstallationError> {
        let Library { what, name: goal, isas, .. } = *self;
        if !isas.contains(&isa) {
            return Err(InstallationError::NotMade { what, isa, isas });
        }
        let tree = kit.root().join(self.name).join(isa.name());
        let folder = tree.join(self.subfolder);
        let missing =
            |searched: &Path| InstallationError::Missing { what, isa, searched: searched.to_owned(), goal };
        let version = fs::read_to_string(folder.join("version")).map_err(|_| missing(&tree))?;
        let marker_file = folder.join(self.marker_file);
        if !marker_file.is_file() {
            return Err(missing(&marker_file));
        }
        if let Ok(release) = fs::read_to_string(folder.join(RELEASE_FILE))
            && release.trim() != VERSION
        {
            let library_release = release.trim().to_owned();
            return Err(InstallationError::OtherRelease {
                what,
                isa,
                searched: folder,
                library_release,
                goal,
            });
        }
        Ok(Installed { isa, tree, folder, version: version.trim().to_owned() })
    }

    /// Returns the library for all installed instruction sets.
    pub fn all(&self, kit: &Kit) -> impl Iterator<Item = Installed> {
        self.isas.iter().filter_map(|isa| self.find(kit, *isa).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_missing_from_the_kit_is_reported() {
        let library =
            Library { what: "such", name: "this", subfolder: "opt", marker_file: "lib/lib.a", isas: ISAS };
        let root = std::env::temp_dir().join(format!("tombolo-installed-{}", std::process::id()));
        let folder = root.join("this/aarch64/opt");
        fs::create_dir_all(folder.join("lib")).unwrap();
        let kit = Kit::at(&root);
        let find = |isa| library.find(&kit, isa);
        let error = |isa| find(isa).unwrap_err().to_string();
        assert_eq!(error(Isa::S390x), "there is no such for s390x; it is made for x86_64 and aarch64");
        let missing = error(Isa::Aarch64);
        assert!(missing.starts_with("there is no such for aarch64 in ") && missing.ends_with("`make this`"));
        fs::write(folder.join("version"), "it 1.2\n").unwrap();
        assert!(error(Isa::Aarch64).contains("lib/lib.a: run `make this`"));
        fs::write(folder.join("lib/lib.a"), "").unwrap();
        let found = find(Isa::Aarch64).unwrap();
        assert_eq!((found.version.as_str(), &found.folder), ("it 1.2", &folder));
        assert_eq!(library.all(&kit).collect::<Vec<_>>(), [found]);
        fs::write(folder.join("release"), format!("{VERSION}\n")).unwrap();
        assert_eq!(find(Isa::Aarch64).map(|found| found.version), Ok("it 1.2".to_owned()));
        fs::write(folder.join("release"), "0.0.9\n").unwrap();
        let refusal = format!(
            "the such for aarch64 in {} is that of Tombolo 0.0.9, and this is Tombolo {VERSION}: run `make this`, or install \
             both of one release",
            folder.display()
        );
        assert_eq!(error(Isa::Aarch64), refusal);
        fs::remove_dir_all(&root).unwrap();
    }
}
