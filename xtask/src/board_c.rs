//! What programs in C on boards are linked with, in the kit: `board-c/<isa>` with the headers of what it has.

use std::fs;
use std::path::Path;

use crate::failure::Failure;
use crate::placing::{RELEASE_FILE, install, stamp};
use crate::workspace::{Workspace, execute};

/// An instruction set of boards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BoardTarget {
    isa: &'static str,
    triple: &'static str,
}

const ALL: [BoardTarget; 2] = [
    BoardTarget { isa: "aarch64", triple: "aarch64-unknown-none" },
    BoardTarget { isa: "riscv64", triple: "riscv64gc-unknown-none-elf" },
];

/// The headers, by the folder that they are in.
const HEADERS: [(&str, &[&str]); 2] = [
    ("runtime/c/include", &["tombolo.h", "tombolo/interface.h", "tombolo/wire.h"]),
    ("models/rcce/include", &["RCCE.h", "iRCCE.h"]),
];

/// The target of an instruction set, by its name.
pub(crate) fn target(isa: &str) -> Result<BoardTarget, String> {
    ALL.into_iter().find(|target| target.isa == isa).ok_or_else(|| {
        let names = ALL.map(|target| target.isa).join(" and ");
        format!("the library for C on boards is made for {names}")
    })
}

/// Puts `<kit>/board-c/<isa>` in place for each of these, or for all.
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
    // As the build script of `tombolo-bare` puts it together for programs in Rust.
    let layouts = workspace.root.join("runtime/bare/link");
    let read = |path: &Path| fs::read_to_string(path).map_err(Failure::file("reading", path));
    let layout = read(&layouts.join(format!("{}.x", target.isa)))? + &read(&layouts.join("program.x"))?;
    let script = built.join("board.ld");
    fs::write(&script, layout).map_err(Failure::file("writing", &script))?;
    install(&script, &folder.join("lib/board.ld"))?;
    let version = built.join("libtombolo.version");
    fs::write(&version, format!("tombolo {}\n", env!("CARGO_PKG_VERSION")))
        .map_err(Failure::file("writing", &version))?;
    // The version comes last: with it the library is in place.
    install(&built.join("libtombolo_rcce.a"), &folder.join("lib/libtombolo.a"))?;
    stamp(&folder.join(RELEASE_FILE))?;
    install(&version, &folder.join("version"))
}
