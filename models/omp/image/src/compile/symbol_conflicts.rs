//! Renames functions of the program whose names are those of C library functions that ISO C does not reserve,
//! such as `read`.
//!
//! The run-time wraps calls of these names, and calls the C library's functions itself. So the program's own
//! functions are renamed before anything is linked.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSymbol as _};
use tombolo_machine::build::gcc::{binutil, file_error, run_writer};

use super::{Build, CompileError, Part, wrapped};
use crate::input::for_each_object;

/// Prefix of renamed functions.
const PREFIX: &str = "__tombolo_program_";

/// Renames functions of the program, in copies of its objects and archives.
pub(super) fn rename_wrapped_functions(build: &mut Build, scratch: &Path) -> Result<(), CompileError> {
    let names = wrapped_definitions(build)?;
    if names.is_empty() {
        return Ok(());
    }
    let folder = scratch.join(build.isa().name());
    fs::create_dir_all(&folder).map_err(file_error("write", &folder))?;
    let tool = binutil("objcopy", build.isa());
    for (number, part) in build.parts.iter_mut().enumerate() {
        let (Part::Object(path) | Part::Archive(path)) = part;
        let mut file = OsString::from(format!("apart{number}-"));
        file.push(path.file_name().unwrap_or_default());
        let renamed = folder.join(file);
        let mut command = Command::new(&tool);
        command.args(names.iter().map(|name| format!("--redefine-sym={name}={PREFIX}{name}")));
        run_writer(command.arg(&*path).arg(&renamed), &renamed)?;
        *path = renamed;
    }
    Ok(())
}

/// Returns the functions that the program defines globally and the run-time wraps.
fn wrapped_definitions(build: &Build) -> Result<BTreeSet<&'static str>, CompileError> {
    let wrapped_names: BTreeSet<&'static str> = wrapped::forwarded_functions().collect();
    let mut names = BTreeSet::new();
    for part in &build.parts {
        let (Part::Object(path) | Part::Archive(path)) = part;
        let bytes = fs::read(path).map_err(file_error("read", path))?;
        for_each_object(&bytes, &path.to_string_lossy(), |object| {
            let file = ElfFile64::<Endianness>::parse(object)?;
            let own = file.symbols().filter(|symbol| symbol.is_global() && !symbol.is_undefined());
            names.extend(own.filter_map(|symbol| wrapped_names.get(symbol.name().unwrap_or_default())));
            Ok(())
        })?;
    }
    Ok(names)
}
