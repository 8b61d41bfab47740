//! Passes the layout of board programs to the linker: `tombolo-program.x`, see `tombolo build --bare`.

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    println!("cargo:rerun-if-changed=link");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("none") {
        return Ok(());
    }
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let isa = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let layout =
        std::fs::read_to_string(format!("link/{isa}.x"))? + &std::fs::read_to_string("link/program.x")?;
    std::fs::write(folder.join("tombolo-program.x"), layout)?;
    println!("cargo:rustc-link-search={}", folder.display());
    Ok(())
}
