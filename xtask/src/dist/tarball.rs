//! A tarball that can be unpacked anywhere.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Package;
use crate::failure::Failure;
use crate::installation::VERSION;
use crate::workspace::execute;

/// Makes `tombolo-<version>-<isa>-linux.tar.gz`, with one folder in it.
pub(super) fn make(package: &Package<'_>) -> Result<PathBuf, Failure> {
    let name = format!("tombolo-{VERSION}-{}-linux", package.architecture.isa);
    let draft = package.draft("tarball")?;
    package.lay_out(&package.items(Path::new("lib"))?, &draft.join(&name))?;
    let file = package.output.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    tar.arg(format!("--mtime=@{}", package.time)).arg("--use-compress-program=gzip -n");
    execute(tar.arg("--file").arg(&file).arg("--directory").arg(&draft).arg(&name))?;
    Ok(file)
}
