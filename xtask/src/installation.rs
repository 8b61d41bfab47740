//! Files of an installation of Tombolo, for `make install` and all packages.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::atomic_write::replace_file;
use crate::failure::Failure;
use crate::kit::{PROGRAMS, WRAPPERS, WRAPPERS_FOLDER};
use crate::rust_sources;
use crate::workspace::Workspace;

/// Version of all crates of the tree.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Folder of the kit below the prefix; `machine/src/kit.rs` looks for it there.
const KIT: &str = "lib/tombolo/kit";

/// Parts of the kit that are installed if they have been built. The other parts (Python and mpi4py for
/// virtual machines) are fetched per user for the user's machine files.
const KIT_PARTS: [&str; 9] = ["version", "aarch64", "riscv64", "s390x", "c", "board-c", "mpi", "omp", "gomp"];

/// Images that commands look for in the kit, and one to try a machine with. The other images are for the
/// tests and examples of the tree.
const IMAGES: [&str; 8] =
    ["bare-pingpong", "bench", "copies", "devices", "hubs", "litmus", "pingpong", "xipx"];

/// Installed file: its destination and its content.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// Path relative to the prefix.
    pub(crate) path: PathBuf,
    pub(crate) what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    /// Copy of a file, with this mode.
    File(PathBuf, u32),
    /// File with this text.
    Text(String),
    /// Symbolic link to a file in the same folder.
    Link(String),
}

/// Inputs of an installation.
pub(crate) struct Source<'a> {
    pub(crate) workspace: &'a Workspace,
    /// Folder with the programs and libraries of the host.
    pub(crate) built: PathBuf,
    /// Instruction set of the host.
    pub(crate) isa: &'a str,
    /// Folder with manual pages and completions, laid out as below a prefix.
    pub(crate) documents: PathBuf,
}

impl Source<'_> {
    /// Returns all installed files, with libraries in `libdir`, ordered by path.
    pub(crate) fn items(&self, libdir: &Path) -> Result<Vec<Item>, Failure> {
        let mut items = self.programs();
        items.extend(self.libraries(libdir)?);
        items.extend(self.kit()?);
        add_folder(&mut items, &self.documents, Path::new(""))?;
        let root = &self.workspace.root;
        for manager in ["system", "user"] {
            for unit in ["tombolo-machine@.service", "tombolo-join@.service"] {
                let source = root.join("packaging").join(unit);
                items.push(file(Path::new("lib/systemd").join(manager).join(unit), source, 0o644));
            }
        }
        add_folder(&mut items, &root.join("machines"), Path::new("share/tombolo/machines"))?;
        for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
            items.push(file(Path::new("share/doc/tombolo").join(name), root.join(name), 0o644));
        }
        for rust_sources::SourceFile { path, text } in rust_sources::files(self.workspace)? {
            items.push(Item { path: Path::new(rust_sources::FOLDER).join(path), what: What::Text(text) });
        }
        items.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(items)
    }

    /// Returns the commands and the monitor.
    pub(crate) fn programs(&self) -> Vec<Item> {
        let others = PROGRAMS.iter().map(|program| format!("tombolo-{program}"));
        let names = ["tombolo".to_owned(), "tombolod".to_owned()].into_iter().chain(others);
        let programs = names.map(|name| file(Path::new("bin").join(&name), self.built.join(&name), 0o755));
        let folder = self.workspace.root.join(WRAPPERS_FOLDER);
        let wrappers = WRAPPERS.map(|name| file(Path::new("bin").join(name), folder.join(name), 0o755));
        programs.chain(wrappers).collect()
    }

    /// Returns the headers and libraries for C programs.
    fn libraries(&self, libdir: &Path) -> Result<Vec<Item>, Failure> {
        let source = self.workspace.root.join("runtime/c");
        let major = VERSION.split('.').next().unwrap_or(VERSION);
        let link = |path: &str, to: &str| Item { path: libdir.join(path), what: What::Link(to.to_owned()) };
        let text = |path: PathBuf, name: &str| -> Result<Item, Failure> {
            let template = source.join("install").join(name);
            let text = fs::read_to_string(&template).map_err(Failure::file("reading", &template))?;
            let folder = path.parent().unwrap_or(&path);
            Ok(Item { what: What::Text(fill_template(&text, folder, libdir, VERSION)), path })
        };
        let shared = format!("libtombolo.so.{VERSION}");
        let soname = format!("libtombolo.so.{major}");
        let cmake = libdir.join("cmake/Tombolo");
        let mut items = vec![
            file(libdir.join("libtombolo.a"), self.built.join("libtombolo_c.a"), 0o644),
            file(libdir.join(&shared), self.built.join("libtombolo_c.so"), 0o755),
            link(&soname, &shared),
            link("libtombolo.so", &soname),
            text(libdir.join("pkgconfig/tombolo.pc"), "tombolo.pc")?,
            text(cmake.join("TomboloConfig.cmake"), "TomboloConfig.cmake")?,
            text(cmake.join("TomboloConfigVersion.cmake"), "TomboloConfigVersion.cmake")?,
            text("share/tombolo/tombolo.mk".into(), "tombolo.mk")?,
        ];
        for header in [
            "tombolo.h",
            "tombolo/wire.h",
            "tombolo/interface.h",
            "tombolo/files.h",
            "tombolo/group.h",
            "tombolo/hubs.h",
            "tombolo/hub_names.h",
            "tombolo/capabilities.h",
            "tombolo/opening.h",
            "tombolo/tasks.h",
            "tombolo/values.h",
        ] {
            let path = Path::new("include").join(header);
            items.push(file(path, source.join("include").join(header), 0o644));
        }
        Ok(items)
    }

    /// Returns the parts of nodes that have been built.
    pub(crate) fn kit(&self) -> Result<Vec<Item>, Failure> {
        let kit = self.workspace.target.join("kit");
        let mut items = Vec::new();
        for part in KIT_PARTS {
            let (source, path) = (kit.join(part), Path::new(KIT).join(part));
            // Host programs load libgomp, so only the host's build is installed.
            let (source, path) = match part {
                "gomp" => (source.join(self.isa), path.join(self.isa)),
                _ => (source, path),
            };
            if source.is_file() {
                items.push(file(path, source, 0o644));
            } else {
                add_folder(&mut items, &source, &path)?;
            }
        }
        for image in IMAGES {
            let path = Path::new("images").join(image).with_extension("tbi");
            if kit.join(&path).is_file() {
                items.push(file(Path::new(KIT).join(&path), kit.join(&path), 0o644));
            }
        }
        Ok(items)
    }
}

fn file(path: PathBuf, source: PathBuf, mode: u32) -> Item {
    Item { path, what: What::File(source, mode) }
}

/// Adds a folder and its content, if it exists.
fn add_folder(items: &mut Vec<Item>, source: &Path, path: &Path) -> Result<(), Failure> {
    let entries = match fs::read_dir(source) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure::file("reading", source)(error)),
    };
    for entry in entries {
        let entry = entry.map_err(Failure::file("reading", source))?;
        let (from, path) = (entry.path(), path.join(entry.file_name()));
        if let Some(to) =
            fs::read_link(&from).ok().as_deref().and_then(Path::to_str).filter(|to| !to.contains('/'))
        {
            items.push(Item { path, what: What::Link(to.to_owned()) });
            continue;
        }
        // Symbolic links are followed, so that their targets are copied.
        let data = fs::metadata(&from).map_err(Failure::file("reading", &from))?;
        if data.is_dir() {
            add_folder(items, &from, &path)?;
        } else {
            let mode = if data.permissions().mode() & 0o111 == 0 { 0o644 } else { 0o755 };
            items.push(file(path, from, mode));
        }
    }
    Ok(())
}

/// Fills in a template of `runtime/c/install` for its installed location.
fn fill_template(text: &str, folder: &Path, libdir: &Path, version: &str) -> String {
    let up = vec![".."; folder.components().count()].join("/");
    let mut numbers = version.split('.');
    text.replace("@UP@", &up)
        .replace("@LIBDIR@", &libdir.to_string_lossy())
        .replace("@VERSION@", version)
        .replace("@MAJOR@", numbers.next().unwrap_or_default())
        .replace("@MINOR@", numbers.next().unwrap_or_default())
}

impl Item {
    /// Installs the item below `prefix` atomically: running programs keep the old file.
    pub(crate) fn install(&self, prefix: &Path) -> Result<(), Failure> {
        replace_file(&prefix.join(&self.path), |path| {
            let mode = |mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
            match &self.what {
                What::File(source, rights) => fs::copy(source, path).and_then(|_| mode(*rights)),
                What::Text(text) => fs::write(path, text).and_then(|()| mode(0o644)),
                What::Link(to) => symlink(to, path),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_locate_the_prefix_relatively() {
        let libdir = Path::new("lib/x86_64-linux-gnu");
        let text = fill_template(
            "@UP@ @LIBDIR@ @VERSION@ @MAJOR@ @MINOR@",
            &libdir.join("pkgconfig"),
            libdir,
            "1.2.3",
        );
        assert_eq!(text, "../../.. lib/x86_64-linux-gnu 1.2.3 1 2");
    }
}
