//! Layout of installed files and their C library requirements.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Package;
use crate::failure::Failure;
use crate::installation::{Item, What};
use crate::workspace::{capture, execute};

impl Package<'_> {
    /// Creates an empty staging folder for a package of this kind.
    pub(super) fn create_staging(&self, kind: &str) -> Result<PathBuf, Failure> {
        let folder =
            self.workspace.target.join("dist/draft").join(format!("{kind}-{}", self.architecture.isa));
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(Failure::file("removing", &folder))?;
        }
        fs::create_dir_all(&folder).map_err(Failure::file("creating", &folder))?;
        Ok(folder)
    }

    /// Returns all items of an installation, including the monitors that are foreign on this architecture.
    pub(super) fn items(&self, libdir: &Path) -> Result<Vec<Item>, Failure> {
        let mut items = self.source.items(libdir)?;
        items.extend(self.architecture.foreign_monitors(self.workspace)?);
        let documents = Path::new("share/doc/tombolo");
        for (name, text) in self.sbom()? {
            items.push(Item { path: documents.join(name), what: What::Text(text) });
        }
        Ok(items)
    }

    /// Installs items below `prefix` and strips debug information from the files that this project built.
    pub(super) fn stage_items(&self, items: &[Item], prefix: &Path) -> Result<(), Failure> {
        for item in items {
            item.install(prefix)?;
            let is_archive = item.path.extension().is_some_and(|end| end == "a");
            let is_built =
                matches!(&item.what, What::File(source, _) if source.starts_with(&self.source.built));
            let isa = if is_built { Some(self.architecture.isa) } else { isa_of_archive(&item.path) };
            if let Some(isa) = isa {
                let amount = if is_archive { "--strip-debug" } else { "--strip-unneeded" };
                // Deterministic archives contain no times or owners, which keeps packages reproducible.
                let mut strip = Command::new(format!("{isa}-linux-gnu-strip"));
                execute(
                    strip.args(["--enable-deterministic-archives", amount]).arg(prefix.join(&item.path)),
                )?;
            }
        }
        Ok(())
    }

    /// Returns the newest glibc symbol version that programs and shared libraries of the host require, such
    /// as `2.34`.
    pub(super) fn libc_version(&self) -> Result<String, Failure> {
        let mut newest = (0, 0);
        for item in self.source.items(Path::new("lib"))? {
            let What::File(path, _) = &item.what else { continue };
            let is_of_host =
                path.starts_with(&self.source.built) || is_loaded_on(self.architecture.isa, &item.path);
            if !is_of_host || !is_program_or_library(path)? {
                continue;
            }
            let versions = capture(Command::new("readelf").args(["--version-info", "--wide"]).arg(path))?;
            newest = newest.max(newest_glibc_version(&versions));
        }
        if newest == (0, 0) {
            return Err(Failure::malformed("readelf", "no program uses a version of the C library"));
        }
        Ok(format!("{}.{}", newest.0, newest.1))
    }
}

/// Returns whether programs of a host of this instruction set load a kit file. Files for virtual machines
/// come with their own C library.
fn is_loaded_on(isa: &str, path: &Path) -> bool {
    let kit = Path::new("lib/tombolo/kit");
    [kit.join("gomp").join(isa), kit.join("mpi").join(isa).join("opt")].iter().any(|it| path.starts_with(it))
}

/// Returns whether a file is in ELF format and may therefore require symbol versions.
fn is_program_or_library(path: &Path) -> Result<bool, Failure> {
    let mut magic = [0; 4];
    let mut file = fs::File::open(path).map_err(Failure::file("reading", path))?;
    match file.read_exact(&mut magic) {
        Ok(()) => Ok(magic == *b"\x7fELF"),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(Failure::file("reading", path)(error)),
    }
}

/// Normalises modes and times of all files in a draft, so that packages do not depend on the umask and the
/// clock of this machine.
pub(super) fn normalise_metadata(draft: &Path, time: u64) -> Result<(), Failure> {
    execute(Command::new("chmod").args(["--recursive", "u=rwX,go=rX"]).arg(draft))?;
    let mut touch = Command::new("find");
    touch.arg(draft).args(["-exec", "touch", "--no-dereference", "--date", &format!("@{time}"), "{}", "+"]);
    execute(&mut touch)
}

/// Returns the instruction set of an archive that OpenMP programs are linked with. Most of such an archive is
/// debug information.
fn isa_of_archive(path: &Path) -> Option<&str> {
    let rest = path.strip_prefix("lib/tombolo/kit/omp").ok()?;
    rest.extension().filter(|end| *end == "a")?;
    rest.iter().next()?.to_str()
}

/// Returns the newest glibc version in the output of `readelf --version-info`.
fn newest_glibc_version(output: &str) -> (u32, u32) {
    let versions: BTreeSet<(u32, u32)> = output
        .split("GLIBC_")
        .skip(1)
        .filter_map(|rest| {
            let number = rest.split(|c: char| !(c.is_ascii_digit() || c == '.')).next()?;
            let mut parts = number.split('.').map(str::parse);
            Some((parts.next()?.ok()?, parts.next()?.ok()?))
        })
        .collect();
    versions.into_iter().next_back().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_are_told_from_other_files() {
        let isa = |path: &'static str| isa_of_archive(Path::new(path));
        assert_eq!(isa("lib/tombolo/kit/omp/aarch64/lib/libgomp.a"), Some("aarch64"));
        assert_eq!(isa("lib/tombolo/kit/omp/aarch64/copyright"), None);
        assert_eq!(isa("lib/libtombolo.a"), None);
    }

    #[test]
    fn loaded_libraries_count_for_libc_version() {
        let counts = |path: &str| is_loaded_on("aarch64", Path::new(path));
        assert!(counts("lib/tombolo/kit/gomp/aarch64/libgomp.so.1"));
        assert!(counts("lib/tombolo/kit/mpi/aarch64/opt/tombolo/mpi/fi/libtombolo-fi.so"));
        assert!(!counts("lib/tombolo/kit/mpi/aarch64/lib/aarch64-linux-gnu/libc.so.6"));
        assert!(!counts("lib/tombolo/kit/mpi/x86_64/opt/tombolo/mpi/fi/libtombolo-fi.so"));
    }

    #[test]
    fn only_programs_and_libraries_name_versions() {
        let this = std::env::current_exe().expect("this test");
        assert!(is_program_or_library(&this).expect("it can be read"));
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert!(!is_program_or_library(&manifest).expect("it can be read"));
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let output = "0x0010: Name: GLIBC_2.3.4  Flags: none\n0x0020:   Name: GLIBC_2.34  Flags: none  Version: 3\n\
                    0x0030: Name: GLIBC_2.9  Flags: none\n0x40: Name: GLIBC_PRIVATE";
        assert_eq!(newest_glibc_version(output), (2, 34));
        assert_eq!(newest_glibc_version("No version information found in this file."), (0, 0));
    }
}
