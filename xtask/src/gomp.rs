//! OpenMP in the kit: `libgomp.so.1`, linked with the symbol versions of GCC's libgomp.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::failure::Failure;
use crate::kit::select_installed;
use crate::placing::install;
use crate::toolchain::Toolchain;
use crate::workspace::{Workspace, execute};

/// Folder of the crate in the source tree.
const CRATE: &str = "models/omp/gomp";

/// Functions that the library calls under its own names (`models/omp/gomp/src/own_calls.rs`), because a
/// program may define functions with the original names.
const OWN_CALLS: [&str; 14] = [
    "read",
    "write",
    "writev",
    "open64",
    "close",
    "lseek64",
    "poll",
    "kill",
    "getpid",
    "getppid",
    "waitpid",
    "nanosleep",
    "isatty",
    "eventfd",
];

/// Builds and installs `<kit>/gomp/<isa>/libgomp.so.1` for this host.
///
/// Rust builds an archive, which the C linker turns into the library: for shared libraries, rustc passes its
/// own version script, which cannot assign symbol versions.
pub(crate) fn build(workspace: &Workspace, kit: &Path) -> Result<(), Failure> {
    let host = Toolchain::find()?.host()?;
    let isa = host.split('-').next().unwrap_or(&host);
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--release"]);
    select_installed(&mut cargo);
    execute(cargo.args(["--package", "tombolo-gomp"]))?;
    let folder = workspace.target.join("gomp").join(isa);
    fs::create_dir_all(&folder).map_err(Failure::file("creating", &folder))?;
    let library = folder.join("libgomp.so.1");
    let archive = folder.join("libgomp.a");
    let mut rename = Command::new("objcopy");
    rename.args(OWN_CALLS.map(|name| format!("--redefine-sym={name}=tombolo_omp_own_{name}")));
    execute(rename.arg(workspace.target.join("release/libtombolo_gomp.a")).arg(&archive))?;
    let versions = workspace.root.join(CRATE).join("libgomp.map");
    let mut link = Command::new("cc");
    link.args(["-shared", "-s", "-o"]).arg(&library);
    link.args(["-Wl,-soname,libgomp.so.1", "-Wl,--version-script"]).arg(&versions);
    link.arg("-Wl,--whole-archive").arg(&archive);
    // `nodelete`: the library cannot be unloaded, because threads run in it and its thread-local variable has
    // a static TLS offset.
    link.args(["-Wl,--no-whole-archive", "-Wl,--gc-sections", "-Wl,-Bsymbolic", "-Wl,-z,nodelete"]);
    link.args(["-Wl,-z,now", "-Wl,-z,relro", "-lpthread", "-ldl", "-static-libgcc"]);
    execute(&mut link)?;
    install(&library, &kit.join("gomp").join(isa).join("libgomp.so.1"))
}
