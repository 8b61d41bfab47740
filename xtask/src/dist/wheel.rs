//! The Python wheel, which includes the command and the parts of nodes that it needs.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Package;
use super::stage::normalise_metadata;
use crate::failure::Failure;
use crate::installation::{Item, VERSION, What};
use crate::workspace::{Workspace, capture};

/// Script that packs the wheel. `pip install` of the sources runs this tool through the same script.
const PACKER: &str = "runtime/python/wheel_builder.py";

/// Tag of the oldest Python whose stable ABI the extension module is built for; Cargo.toml passes it to PyO3.
const PYTHON: &str = "cp39-abi3";

/// Path of the library for C in an installation.
const C_LIBRARY: &str = "lib/tombolo/kit/c";

/// Builds `tombolo-<version>-cp39-abi3-manylinux_<glibc>_<isa>.whl`. Files that pip installs below its prefix
/// have the same layout as in every other installation, so that the command finds its parts.
pub(super) fn make(package: &Package<'_>) -> Result<PathBuf, Failure> {
    let draft = package.create_staging("wheel")?;
    let mut items = package.source.programs();
    // Leave out the library for C, which users of the command need: with it, the wheel would exceed the 100
    // MB limit of the package index.
    items.extend(package.source.kit()?.into_iter().filter(|item| !item.path.starts_with(C_LIBRARY)));
    items.extend(package.architecture.foreign_monitors(package.workspace)?);
    let native = package.source.built.join("libtombolo_native.so");
    let native = Item { path: "_native.abi3.so".into(), what: What::File(native, 0o755) };
    package.stage_items(&items, &draft.join("prefix"))?;
    package.stage_items(&[native], &draft.join("package"))?;
    let licences = draft.join("licences");
    let texts =
        package.sbom()?.into_iter().map(|(name, text)| Item { path: name.into(), what: What::Text(text) });
    let own = ["LICENSE-APACHE", "LICENSE-MIT"]
        .map(|name| Item { path: name.into(), what: What::File(package.workspace.root.join(name), 0o644) });
    package.stage_items(&texts.chain(own).collect::<Vec<_>>(), &licences)?;

    let libc = package.libc_version()?.replace('.', "_");
    let tag = format!("{PYTHON}-manylinux_{libc}_{}", package.architecture.isa);
    pack(package.workspace, &tag, &draft, package.time, &package.output)
}

/// Packs a draft and returns the path of the file in the folder `output`.
pub(super) fn pack(
    workspace: &Workspace,
    tag: &str,
    draft: &Path,
    time: u64,
    output: &Path,
) -> Result<PathBuf, Failure> {
    normalise_metadata(draft, time)?;
    let mut pack = Command::new(std::env::var_os("TOMBOLO_PYTHON").unwrap_or_else(|| "python3".into()));
    pack.current_dir(&workspace.root).env("SOURCE_DATE_EPOCH", time.to_string());
    pack.arg(PACKER).args(["--version", VERSION, "--tag", tag, "--parts"]).arg(draft);
    let file_name = capture(pack.arg("--output").arg(output))?;
    Ok(output.join(file_name.trim()))
}
