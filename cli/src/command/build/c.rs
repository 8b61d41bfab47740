//! Additional inputs of C programs: the library for each instruction set, and headers of interfaces.

use std::fs;

use tombolo::nodes::Target;
use tombolo_cli_common::programs::build_part;
use tombolo_idl::c::{COptions, generate};
use tombolo_machine::Kit;
use tombolo_machine::build::gcc::{Installed, Library};
use tombolo_machine::build::{BOARD_C_LIBRARY, C_LIBRARY, CProgram, Request, Scratch, uses_library};

use super::Targets;
use crate::command::idl;
use crate::context::Context;
use crate::failure::Failure;

/// Version of the library that matches this command.
const VERSION: &str = concat!("tombolo ", env!("CARGO_PKG_VERSION"));

/// Writes the headers of a program's interfaces, which are removed when the result is dropped.
pub(super) fn write_headers(context: &Context, program: &CProgram) -> Result<Option<Scratch>, Failure> {
    if program.interfaces.is_empty() {
        return Ok(None);
    }
    let scratch = Scratch::new()?;
    for path in &program.interfaces {
        let header = scratch.path().join(path.with_extension("h").file_name().unwrap_or_default());
        let options = COptions { prefix: None, origin: path.to_string_lossy().into_owned() };
        let text = generate(&idl::read(context, path)?.model, &options)
            .map_err(|error| Failure::Interface(format!("error: {}: {error}", path.display())))?;
        fs::write(&header, text).map_err(Failure::system(format!("write {}", header.display())))?;
    }
    Ok(Some(scratch))
}

/// Adds the library to the request for each target whose program uses it. In a source tree, builds a missing
/// library. Removes optional targets that cannot be built.
pub(super) fn add_libraries(
    context: &Context,
    program: &CProgram,
    targets: &mut Targets,
    request: &mut Request,
) -> Result<(), Failure> {
    for target in targets.targets.clone() {
        let found = match uses_library(program, target, &request.arguments) {
            Ok(false) => continue,
            Ok(true) => library(context, target),
            Err(error) => Err(error.into()),
        };
        match found {
            Ok(library) if target.bare => request.board_libraries.push(library),
            Ok(library) => request.libraries.push(library),
            Err(failure) if targets.remove(target) => context.info(format!("left out: {failure}")),
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// Returns the library for a target, with the headers of this version.
fn library(context: &Context, target: Target) -> Result<Installed, Failure> {
    let (library, option) = if target.bare { (BOARD_C_LIBRARY, "--board-c") } else { (C_LIBRARY, "--c") };
    let isa = target.isa;
    if let Some(installed) = Kit::locate().ok().and_then(|kit| library.find(&kit, isa).ok())
        && installed.version == VERSION
    {
        return Ok(installed);
    }
    build_part(context, &format!("the {} for {isa}", library.what), &[option, isa.name()])?;
    let installed = library.find(&Kit::locate()?, isa)?;
    if installed.version == VERSION { Ok(installed) } else { Err(other_version(&library, &installed)) }
}

fn other_version(library: &Library, installed: &Installed) -> Failure {
    let Installed { isa, tree, version, .. } = installed;
    Failure::Usage {
        message: format!(
            "the {} for {isa} in {} is of {version}, and this command of {VERSION}",
            library.what,
            tree.display()
        ),
        hint: Some(
            "install the command and its kit from one package, or run `make c` or `make board-c` in the source tree",
        ),
    }
}
