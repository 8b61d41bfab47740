//! The library for C programs on boards: `board-c/<isa>` in the kit, with its headers.

use std::fs;
use std::path::Path;

use crate::failure::Failure;
use crate::placing::{RELEASE_FILE, install, write_release};
use crate::workspace::{Workspace, execute};

/// Instruction set of a board, with its Rust target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BoardTarget {
    isa: &'static str,
    triple: &'static str,
}

const ALL: [BoardTarget; 2] = [
    BoardTarget { isa: "aarch64", triple: "aarch64-unknown-none" },
    BoardTarget { isa: "riscv64", triple: "riscv64gc-unknown-none-elf" },
];

/// Headers to install, by source folder.
const HEADERS: [(&str, &[&str]); 2] = [
    ("runtime/c/include", &["tombolo.h", "tombolo/interface.h", "tombolo/wire.h"]),
    ("models/rcce/include", &["RCCE.h", "iRCCE.h"]),
];

/// Parses the name of an instruction set.
pub(crate) fn target(isa: &str) -> Result<BoardTarget, String> {
    ALL.into_iter().find(|target| target.isa == isa).ok_or_else(|| {
        let names = ALL.map(|target| target.isa).join(" and ");
        format!("the library for C on boards is made for {names}")
    })
}

/// Builds and installs `<kit>/board-c/<isa>` for the given targets, or for all if `wanted` is empty.
pub(crate) fn build(workspace: &Workspace, kit: &Path, wanted: &[BoardTarget]) -> Result<(), Failure> {
    let wanted = if wanted.is_empty() { &ALL[..] } else { wanted };
    wanted.iter().try_for_each(|target| build_for(workspace, kit, *target))
}

fn build_for(workspace: &Workspace, kit: &Path, target: BoardTarget) -> Result<(), Failure> {
    let mut cargo = workspace.cargo();
    cargo.args(["rustc", "--package", "tombolo-rcce", "--lib", "--crate-type", "staticlib"]);
    execute(cargo.args(["--profile", "node", "--target", target.triple]))?;
    let built = workspace.target.join(target.triple).join("node");
    let folder = kit.join("board-c").join(target.isa);
    for (own, headers) in HEADERS {
        for header in headers {
            install(&workspace.root.join(own).join(header), &folder.join("include").join(header))?;
        }
    }
    install(&workspace.root.join("runtime/bare-c/support/board.c"), &folder.join("lib/board.c"))?;
    // Concatenate the linker script as the build script of `tombolo-bare` does for Rust programs.
    let layouts = workspace.root.join("runtime/bare/link");
    let read = |path: &Path| fs::read_to_string(path).map_err(Failure::file("reading", path));
    let layout = read(&layouts.join(format!("{}.x", target.isa)))? + &read(&layouts.join("program.x"))?;
    let script = built.join("board.ld");
    fs::write(&script, layout).map_err(Failure::file("writing", &script))?;
    install(&script, &folder.join("lib/board.ld"))?;
    let version = built.join("libtombolo.version");
    fs::write(&version, format!("tombolo {}\n", env!("CARGO_PKG_VERSION")))
        .map_err(Failure::file("writing", &version))?;
    // The version file is written last: it marks the installation as complete.
    install(&built.join("libtombolo_rcce.a"), &folder.join("lib/libtombolo.a"))?;
    write_release(&folder.join(RELEASE_FILE))?;
    install(&version, &folder.join("version"))
}
