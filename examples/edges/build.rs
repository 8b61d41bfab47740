//! Writes the stubs of `edges.tbl`.

use tombolo_idl::build::{BuildError, compile};
use tombolo_idl::rust::RustOptions;

fn main() -> Result<(), BuildError> {
    let options = RustOptions { runtime: "tombolo::interface".into(), ..RustOptions::default() };
    compile("edges.tbl", &options)?;
    Ok(())
}
