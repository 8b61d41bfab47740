//! `cargo xtask install`: the command, the monitors, and what programs in C are built with, below a prefix.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use clap::Args;

use crate::failure::Failure;
use crate::place::place;
use crate::rust_sources;
use crate::workspace::{Workspace, execute};

/// Builds the command, the monitor of this host and the libraries for C, and installs them with headers, files for
/// pkg-config, CMake and make, and the parts of foreign nodes if `cargo xtask kit` has built them.
///
/// What is installed can be moved: nothing in it says where it lies.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo xtask install --prefix ~/.local
  cargo xtask install --prefix /usr --libdir lib/x86_64-linux-gnu --destdir debian/tmp
  cargo xtask install --prefix ~/.local --remove")]
pub(crate) struct Options {
    /// Below which folder
    #[arg(long, value_name = "FOLDER", default_value = "/usr/local")]
    prefix: PathBuf,

    /// Where libraries go, relative to the prefix
    #[arg(long, value_name = "FOLDER", default_value = "lib")]
    libdir: PathBuf,

    /// Put everything below this folder, as if it were `/`: for packages
    #[arg(long, value_name = "FOLDER")]
    destdir: Option<PathBuf>,

    /// The cargo profile to build with
    #[arg(long, default_value = "release")]
    profile: String,

    /// Remove what was installed there
    #[arg(long)]
    remove: bool,
}

/// One thing that is installed.
struct Item {
    /// Relative to the prefix.
    path: PathBuf,
    what: What,
}

enum What {
    /// A copy of a file, with these rights.
    File(PathBuf, u32),
    /// A text.
    Text(String),
    /// A link to something in the same folder.
    Link(String),
}

/// Installs, or removes.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<(), Failure> {
    let prefix = std::path::absolute(&options.prefix).map_err(Failure::file("finding", &options.prefix))?;
    let libdir = relative(&options.libdir)?;
    let below = match &options.destdir {
        Some(folder) => folder.join(prefix.strip_prefix("/").unwrap_or(&prefix)),
        None => prefix,
    };
    if options.remove {
        return remove(&items(workspace, &options.profile, &libdir)?, &below);
    }
    build(workspace, &options.profile)?;
    let items = items(workspace, &options.profile, &libdir)?;
    for item in &items {
        install(item, &below)?;
    }
    println!("installed {} files in {}", items.len(), below.display());
    Ok(())
}

/// A path that stays where it begins.
fn relative(path: &Path) -> Result<PathBuf, Failure> {
    if path.components().all(|part| matches!(part, Component::Normal(_))) && path != Path::new("") {
        return Ok(path.components().collect());
    }
    Err(Failure::Found(format!("--libdir is relative to the prefix, such as lib; {} is not", path.display())))
}

fn build(workspace: &Workspace, profile: &str) -> Result<(), Failure> {
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--profile", profile]);
    execute(cargo.args(["--package", "tombolo-cli", "--package", "tombolod", "--package", "tombolo-c"]))
}

/// All that is installed.
fn items(workspace: &Workspace, profile: &str, libdir: &Path) -> Result<Vec<Item>, Failure> {
    let built = workspace.target.join(if profile == "dev" { "debug" } else { profile });
    let source = workspace.root.join("runtime/c");
    let version = env!("CARGO_PKG_VERSION");
    let major = version.split('.').next().unwrap_or(version);
    let file = |path: PathBuf, source: PathBuf, mode| Item { path, what: What::File(source, mode) };
    let link = |path: &str, to: &str| Item { path: libdir.join(path), what: What::Link(to.to_owned()) };
    let text = |path: PathBuf, name: &str| -> Result<Item, Failure> {
        let template = source.join("install").join(name);
        let text = fs::read_to_string(&template).map_err(Failure::file("reading", &template))?;
        let folder = path.parent().unwrap_or(&path);
        Ok(Item { what: What::Text(filled(&text, folder, libdir, version)), path })
    };
    let shared = format!("libtombolo.so.{version}");
    let soname = format!("libtombolo.so.{major}");
    let cmake = libdir.join("cmake/Tombolo");
    let mut items = vec![
        file("bin/tombolo".into(), built.join("tombolo"), 0o755),
        file("bin/tombolod".into(), built.join("tombolod"), 0o755),
        file(libdir.join("libtombolo.a"), built.join("libtombolo_c.a"), 0o644),
        file(libdir.join(&shared), built.join("libtombolo_c.so"), 0o755),
        link(&soname, &shared),
        link("libtombolo.so", &soname),
        text(libdir.join("pkgconfig/tombolo.pc"), "tombolo.pc")?,
        text(cmake.join("TomboloConfig.cmake"), "TomboloConfig.cmake")?,
        text(cmake.join("TomboloConfigVersion.cmake"), "TomboloConfigVersion.cmake")?,
        text("share/tombolo/tombolo.mk".into(), "tombolo.mk")?,
    ];
    for header in ["tombolo.h", "tombolo/wire.h", "tombolo/interface.h", "tombolo/files.h"] {
        items.push(file(Path::new("include").join(header), source.join("include").join(header), 0o644));
    }
    let kit = workspace.target.join("kit");
    for isa in ["aarch64", "riscv64", "s390x", "mpi/x86_64", "mpi/aarch64", "c"] {
        add_folder(&mut items, &kit.join(isa), &Path::new("lib/tombolo/kit").join(isa))?;
    }
    for rust_sources::SourceFile { path, text } in rust_sources::files(workspace)? {
        items.push(Item { path: Path::new(rust_sources::FOLDER).join(path), what: What::Text(text) });
    }
    Ok(items)
}

/// Adds a part of the kit with all that it has, if it has been built.
fn add_folder(items: &mut Vec<Item>, source: &Path, path: &Path) -> Result<(), Failure> {
    let entries = match fs::read_dir(source) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure::file("reading", source)(error)),
    };
    for entry in entries {
        let entry = entry.map_err(Failure::file("reading", source))?;
        let data = entry.metadata().map_err(Failure::file("reading", entry.path()))?;
        let path = path.join(entry.file_name());
        if data.is_dir() {
            add_folder(items, &entry.path(), &path)?;
        } else {
            let mode = if data.permissions().mode() & 0o111 == 0 { 0o644 } else { 0o755 };
            items.push(Item { path, what: What::File(entry.path(), mode) });
        }
    }
    Ok(())
}

/// A file of `runtime/c/install`, for where it will lie.
fn filled(text: &str, folder: &Path, libdir: &Path, version: &str) -> String {
    let up = vec![".."; folder.components().count()].join("/");
    let mut numbers = version.split('.');
    text.replace("@UP@", &up)
        .replace("@LIBDIR@", &libdir.to_string_lossy())
        .replace("@VERSION@", version)
        .replace("@MAJOR@", numbers.next().unwrap_or_default())
        .replace("@MINOR@", numbers.next().unwrap_or_default())
}

/// Puts it there at once: programs that use what was there go on using that.
fn install(item: &Item, prefix: &Path) -> Result<(), Failure> {
    place(&prefix.join(&item.path), |path| {
        let mode = |mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        match &item.what {
            What::File(source, rights) => fs::copy(source, path).and_then(|_| mode(*rights)),
            What::Text(text) => fs::write(path, text).and_then(|()| mode(0o644)),
            What::Link(to) => symlink(to, path),
        }
    })
}

/// Removes what `install` put there, and folders of Tombolo's own that are empty then.
fn remove(items: &[Item], prefix: &Path) -> Result<(), Failure> {
    let mut removed = 0;
    for item in items {
        let path = prefix.join(&item.path);
        match fs::remove_file(&path) {
            Ok(()) => removed += 1,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Failure::file("removing", &path)(error)),
        }
        let own = item.path.ancestors().skip(1).take_while(|folder| {
            folder.components().any(|part| part.as_os_str().eq_ignore_ascii_case("tombolo"))
        });
        // One that still has something in it stays.
        own.for_each(|folder| drop(fs::remove_dir(prefix.join(folder))));
    }
    println!("removed {removed} files from {}", prefix.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_say_where_the_prefix_is_from_where_they_lie() {
        let libdir = Path::new("lib/x86_64-linux-gnu");
        let text =
            filled("@UP@ @LIBDIR@ @VERSION@ @MAJOR@ @MINOR@", &libdir.join("pkgconfig"), libdir, "1.2.3");
        assert_eq!(text, "../../.. lib/x86_64-linux-gnu 1.2.3 1 2");
    }

    #[test]
    fn libraries_stay_below_the_prefix() {
        for path in ["", "/lib", "../lib", "lib/../.."] {
            assert!(relative(Path::new(path)).is_err(), "{path}");
        }
        assert_eq!(relative(Path::new("lib64/")).ok(), Some("lib64".into()));
    }
}
