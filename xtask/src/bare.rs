//! `cargo xtask bare`: builds the protocol crates, and lints the crates for boards, for targets without an
//! operating system.

use crate::failure::Failure;
use crate::toolchain::Toolchain;
use crate::workspace::{Workspace, execute};

const TARGET: &str = "aarch64-unknown-none";

/// Crates for boards, which are also checked for the instruction sets of boards.
const ON_BOARDS: [&str; 9] = [
    "tombolo-platform-bare",
    "tombolo-bare",
    "tombolo-bare-c",
    "tombolo-board",
    "tombolo-c",
    "tombolo-litmus",
    "tombolo-placement",
    "tombolo-rcce",
    "tombolo-remote-peer",
];

/// Runs clippy on the crates for boards: their code is compiled, and thus linted, only for board targets.
fn check_boards(workspace: &Workspace) -> Result<(), Failure> {
    for target in [TARGET, "riscv64gc-unknown-none-elf"] {
        if !Toolchain::find()?.has(target) {
            println!("SKIPPED: this Rust has no library for {target}; with rustup, `make setup` adds it");
            continue;
        }
        let mut clippy = workspace.cargo();
        clippy.args(["clippy", "--target", target]);
        for package in ON_BOARDS {
            clippy.args(["--package", package]);
        }
        execute(clippy.args(["--", "-D", "warnings"]))?;
    }
    Ok(())
}

/// Builds every `no_std` crate for a target without `std`, and the base crate also without an allocator.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Failure> {
    if !Toolchain::find()?.has(TARGET) {
        println!("SKIPPED: this Rust has no library for {TARGET}; with rustup, `make setup` adds it");
        return Ok(());
    }
    let mut build = workspace.cargo();
    build.args(["build", "--target", TARGET]);
    for package in &workspace.layers.checks.no_std {
        build.args(["--package", package]);
    }
    execute(&mut build)?;
    check_boards(workspace)?;
    let mut without_allocator = workspace.cargo();
    without_allocator.args([
        "check",
        "--target",
        TARGET,
        "--package",
        "tombolo-base",
        "--no-default-features",
    ]);
    execute(&mut without_allocator)
}
