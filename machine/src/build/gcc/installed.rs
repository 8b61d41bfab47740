//! What programs are linked with that is no part of a compiler: put into the kit for each instruction set, by
//! a goal of make.

use std::fs;
use std::path::{Path, PathBuf};

use tombolo_base::Isa;

use super::names;
use crate::Kit;
use crate::kit::VERSION;

/// The file, beside `version`, that says with which release of Tombolo a library was built. What was put
/// together by hand has none.
const RELEASE_FILE: &str = "release";

/// There is nothing to link with for an instruction set.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InstallationError {
    /// It has not been put into the kit.
    #[error("there is no {what} for {isa} in {}: run `make {goal}`", looked_at.display())]
    Missing {
        /// What is missing.
        what: &'static str,
        /// The instruction set.
        isa: Isa,
        /// Where it was looked for.
        looked_at: PathBuf,
        /// What `make` is asked for.
        goal: &'static str,
    },
    /// It was built with another release, whose programs are not understood by the monitors of this one.
    #[error(
        "the {what} for {isa} in {} is that of Tombolo {theirs}, and this is Tombolo {VERSION}: run `make {goal}`, or install both \
         of one release",
        looked_at.display()
    )]
    OtherRelease {
        /// What is missing.
        what: &'static str,
        /// The instruction set.
        isa: Isa,
        /// Where it is.
        looked_at: PathBuf,
        /// The release.
        theirs: String,
        /// What `make` is asked for.
        goal: &'static str,
    },
    /// It is made for other instruction sets.
    #[error("there is no {what} for {isa}; it is made for {}", names(isas))]
    NotMade {
        /// What is missing.
        what: &'static str,
        /// The instruction set.
        isa: Isa,
        /// The instruction sets that it is made for.
        isas: &'static [Isa],
    },
}

/// The instruction sets that MPI and the run-time of OpenMP are made for.
pub const ISAS: &[Isa] = &[Isa::X86_64, Isa::Aarch64];

/// Something that programs are linked with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Library {
    /// What people call it.
    pub what: &'static str,
    /// Its folder in the kit, which has one for each instruction set, and the goal of make that puts it
    /// there.
    pub name: &'static str,
    /// Where its files are in the folder of an instruction set: `version` says which it is.
    pub inside: &'static str,
    /// The file without which it is not there.
    pub proof: &'static str,
    /// The instruction sets that it is made for.
    pub isas: &'static [Isa],
}

/// It, for one instruction set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Installed {
    /// What it is for.
    pub isa: Isa,
    /// Its folder in the kit.
    pub tree: PathBuf,
    /// Where its files are.
    pub folder: PathBuf,
    /// Which it is, and of which version: `musl 1.2.3-1`.
    pub version: String,
}

impl Library {
    /// What the kit has for `isa`.
    ///
    /// # Errors
    /// [`InstallationError`].
    pub fn find(&self, kit: &Kit, isa: Isa) -> Result<Installed, InstallationError> {
        let Library { what, name: goal, isas, .. } = *self;
        if !isas.contains(&isa) {
            return Err(InstallationError::NotMade { what, isa, isas });
        }
        let tree = kit.root().join(self.name).join(isa.name());
        let folder = tree.join(self.inside);
        let missing = |looked_at: &Path| InstallationError::Missing {
            what,
            isa,
            looked_at: looked_at.to_owned(),
            goal,
        };
        let version = fs::read_to_string(folder.join("version")).map_err(|_| missing(&tree))?;
        let proof = folder.join(self.proof);
        if !proof.is_file() {
            return Err(missing(&proof));
        }
        if let Ok(release) = fs::read_to_string(folder.join(RELEASE_FILE))
            && release.trim() != VERSION
        {
            let theirs = release.trim().to_owned();
            return Err(InstallationError::OtherRelease { what, isa, looked_at: folder, theirs, goal });
        }
        Ok(Installed { isa, tree, folder, version: version.trim().to_owned() })
    }

    /// What the kit has.
    pub fn all(&self, kit: &Kit) -> impl Iterator<Item = Installed> {
        self.isas.iter().filter_map(|isa| self.find(kit, *isa).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_in_the_kit_is_named() {
        let library = Library { what: "such", name: "this", inside: "opt", proof: "lib/lib.a", isas: ISAS };
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
