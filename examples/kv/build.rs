//! Writes the stubs of `interfaces/kv.tbl`.

use tombolo_idl::build::{BuildError, compile};

fn main() -> Result<(), BuildError> {
    compile("../../interfaces/kv.tbl", &Default::default())?;
    Ok(())
}
