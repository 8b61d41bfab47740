//! `cargo xtask install`: installs the files listed in `installation` below a prefix.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use clap::Args;

use crate::dist;
use crate::failure::Failure;
use crate::installation::Item;
use crate::workspace::Workspace;

/// Installs the command with its manual, the monitor of this host, libraries and headers for C, and the parts
/// of foreign nodes if `cargo xtask kit` has built them.
///
/// The installation is relocatable: no installed file contains its own path.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo xtask install --prefix ~/.local
  cargo xtask install --prefix /usr --libdir lib/x86_64-linux-gnu --destdir debian/tmp
  cargo xtask install --prefix ~/.local --remove")]
pub(crate) struct Options {
    /// Folder to install below
    #[arg(long, value_name = "FOLDER", default_value = "/usr/local")]
    prefix: PathBuf,

    /// Folder of libraries, relative to the prefix
    #[arg(long, value_name = "FOLDER", default_value = "lib")]
    libdir: PathBuf,

    /// Put everything below this folder, as if it were `/`: for packages
    #[arg(long, value_name = "FOLDER")]
    destdir: Option<PathBuf>,

    /// Remove what was installed there
    #[arg(long)]
    remove: bool,
}

/// Installs the files, or removes them with `--remove`.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<(), Failure> {
    let prefix = std::path::absolute(&options.prefix).map_err(Failure::file("finding", &options.prefix))?;
    let libdir = relative(&options.libdir)?;
    let below = match &options.destdir {
        Some(folder) => folder.join(prefix.strip_prefix("/").unwrap_or(&prefix)),
        None => prefix,
    };
    if options.remove {
        return remove(&dist::native(workspace)?.items(&libdir)?, &below);
    }
    let source = dist::build_native(workspace)?;
    let items = source.items(&libdir)?;
    for item in &items {
        item.install(&below)?;
    }
    println!("installed {} files in {}", items.len(), below.display());
    Ok(())
}

/// Validates a relative path without `..`.
fn relative(path: &Path) -> Result<PathBuf, Failure> {
    if path.components().all(|part| matches!(part, Component::Normal(_))) && path != Path::new("") {
        return Ok(path.components().collect());
    }
    Err(Failure::Found(format!("--libdir is relative to the prefix, such as lib; {} is not", path.display())))
}

/// Removes the files that `install` installed, and Tombolo's own folders that are empty afterwards.
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
        // A folder that is not empty stays.
        own.for_each(|folder| drop(fs::remove_dir(prefix.join(folder))));
    }
    println!("removed {removed} files from {}", prefix.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_stay_below_the_prefix() {
        for path in ["", "/lib", "../lib", "lib/../.."] {
            assert!(relative(Path::new(path)).is_err(), "{path}");
        }
        assert_eq!(relative(Path::new("lib64/")).ok(), Some("lib64".into()));
    }
}
