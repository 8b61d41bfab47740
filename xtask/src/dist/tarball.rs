//! Tarballs that can be unpacked anywhere.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Package;
use super::stage::normalise_metadata;
use crate::failure::Failure;
use crate::installation::VERSION;
use crate::workspace::execute;

/// Builds `tombolo-<version>-<isa>-linux.tar.gz`, which contains a single top-level folder.
pub(super) fn make(package: &Package<'_>) -> Result<PathBuf, Failure> {
    let name = format!("tombolo-{VERSION}-{}-linux", package.architecture.isa);
    let draft = package.create_staging("tarball")?;
    package.stage_items(&package.items(Path::new("lib"))?, &draft.join(&name))?;
    let file = package.output.join(format!("{name}.tar.gz"));
    pack(&draft, &name, package.time, &file)?;
    Ok(file)
}

/// Packs the folder `name` of a draft.
pub(super) fn pack(draft: &Path, name: &str, time: u64, file: &Path) -> Result<(), Failure> {
    normalise_metadata(draft, time)?;
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    // `-n` omits the file name and the time from the gzip header.
    tar.arg("--use-compress-program=gzip -n").arg("--file").arg(file);
    execute(tar.arg("--directory").arg(draft).arg(name))
}
