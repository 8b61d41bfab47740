//! Writes the stubs of `edges.tbl`.

use tombolo_idl::build::{BuildError, compile};

fn main() -> Result<(), BuildError> {
    compile("edges.tbl", &Default::default())?;
    Ok(())
}
