//! Functions of the program that are called as functions of the C library are that ISO C does not reserve.
//!
//! A program may have a `read` or a `connect` of its own. The run-time takes calls of these names in hand,
//! and calls the C library's functions itself, so the program's get another name before anything is linked.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSymbol as _};
use tombolo_machine::build::gcc::{binutil, file_error, start};

use super::{Build, CompileError, Part, wrapped};
use crate::input::each_object;

/// What precedes a name of the program's.
const PREFIX: &str = "__tombolo_program_";

/// Gives functions of the program other names, in copies of its objects and archives.
pub(super) fn set_apart(build: &mut Build, scratch: &Path) -> Result<(), CompileError> {
    let names = names(build)?;
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
        let output = start(command.arg(&*path).arg(&renamed))?;
        if !output.status.success() {
            let what = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(file_error("write", &renamed)(std::io::Error::other(what)).into());
        }
        *path = renamed;
    }
    Ok(())
}

/// The functions that the program defines for all of its objects and the run-time takes in hand.
fn names(build: &Build) -> Result<BTreeSet<&'static str>, CompileError> {
    let taken: BTreeSet<&'static str> = wrapped::forwarded().collect();
    let mut names = BTreeSet::new();
    for part in &build.parts {
        let (Part::Object(path) | Part::Archive(path)) = part;
        let bytes = fs::read(path).map_err(file_error("read", path))?;
        each_object(&bytes, &path.to_string_lossy(), |object| {
            let file = ElfFile64::<Endianness>::parse(object)?;
            let own = file.symbols().filter(|symbol| symbol.is_global() && !symbol.is_undefined());
            names.extend(own.filter_map(|symbol| taken.get(symbol.name().unwrap_or_default())));
            Ok(())
        })?;
    }
    Ok(names)
}
