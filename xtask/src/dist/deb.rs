//! The Debian package.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Package;
use super::stage::normalise_metadata;
use crate::failure::Failure;
use crate::installation::{Item, VERSION, What};
use crate::workspace::{capture, execute};

/// Installation prefix of the package's files.
const PREFIX: &str = "usr";

/// Maintainer scripts and triggers that are the same for every architecture, with their modes.
const CONTROL: [(&str, u32); 3] = [("postinst", 0o755), ("postrm", 0o755), ("triggers", 0o644)];

/// Builds `tombolo_<version>_<architecture>.deb`.
pub(super) fn make(package: &Package<'_>) -> Result<PathBuf, Failure> {
    let draft = package.create_staging("deb")?;
    let libdir = Path::new("lib").join(package.architecture.multiarch);
    let mut items = package.items(&libdir)?;
    let debian = package.workspace.root.join("packaging/debian");
    let copyright = What::File(debian.join("copyright"), 0o644);
    items.push(Item { path: "share/doc/tombolo/copyright".into(), what: copyright });
    package.stage_items(&items, &draft.join(PREFIX))?;

    let control = draft.join("DEBIAN");
    fs::create_dir(&control).map_err(Failure::file("creating", &control))?;
    let write = |name: &str, text: &str, mode: u32| {
        let path = control.join(name);
        fs::write(&path, text)
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(mode)))
            .map_err(Failure::file("writing", &path))
    };
    let read = |name: &str| {
        let path = debian.join(name);
        fs::read_to_string(&path).map_err(Failure::file("reading", &path))
    };
    for (name, mode) in CONTROL {
        write(name, &read(name)?, mode)?;
    }
    write("md5sums", &sums(&draft, &items)?, 0o644)?;
    let text = read("control")?
        .replace("@VERSION@", VERSION)
        .replace("@ARCHITECTURE@", package.architecture.debian)
        .replace("@LIBC@", &package.libc_version()?)
        .replace("@SIZE@", &kibibytes(&draft, &items)?.to_string());
    write("control", &text, 0o644)?;

    let file = package.output.join(format!("tombolo_{VERSION}_{}.deb", package.architecture.debian));
    pack(&draft, package.time, &file)?;
    Ok(file)
}

/// Packs a draft folder that contains `DEBIAN`.
pub(super) fn pack(draft: &Path, time: u64, file: &Path) -> Result<(), Failure> {
    normalise_metadata(draft, time)?;
    let mut build = Command::new("dpkg-deb");
    build.env("SOURCE_DATE_EPOCH", time.to_string()).env("TZ", "UTC");
    execute(build.args(["--root-owner-group", "-Zxz", "--build"]).arg(draft).arg(file))
}

/// Returns the `md5sums` file: one line of `md5sum` output per file.
fn sums(draft: &Path, items: &[Item]) -> Result<String, Failure> {
    let mut command = Command::new("md5sum");
    command.current_dir(draft).arg("--");
    let files = items.iter().filter(|item| !matches!(item.what, What::Link(_)));
    let mut paths: Vec<PathBuf> = files.map(|item| Path::new(PREFIX).join(&item.path)).collect();
    paths.sort();
    capture(command.args(paths))
}

/// Returns the installed size in KiB, as dpkg computes it.
fn kibibytes(draft: &Path, items: &[Item]) -> Result<u64, Failure> {
    let mut sum = 0;
    for item in items.iter().filter(|item| !matches!(item.what, What::Link(_))) {
        let path = draft.join(PREFIX).join(&item.path);
        sum += fs::metadata(&path).map_err(Failure::file("reading", &path))?.len().div_ceil(1024);
    }
    Ok(sum)
}
