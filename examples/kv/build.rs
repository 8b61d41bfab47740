//! Writes the stubs of `interfaces/kv.tbl`.

use tombolo_idl::build::{BuildError, compile};
use tombolo_idl::rust::RustOptions;

fn main() -> Result<(), BuildError> {
    let options = RustOptions { runtime: "tombolo::interface".into(), ..RustOptions::default() };
    compile("../../interfaces/kv.tbl", &options)?;
    Ok(())
}
