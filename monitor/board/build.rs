//! Selects the linker script of the board's instruction set when the monitor is built for a board.

fn main() {
    println!("cargo:rerun-if-changed=link");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        let isa = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
        println!("cargo:rustc-link-arg-bins=-T{folder}/link/{isa}.x");
        println!("cargo:rustc-link-arg-bins=-T{folder}/link/sections.x");
    }
}
