//! Writes the stubs of `greeter.tbl`.

fn main() -> Result<(), tombolo_idl::build::BuildError> {
    tombolo_idl::build::compile("greeter.tbl", &Default::default())?;
    Ok(())
}
