//! Functions that migrate: each build gets an object with the thunks of the functions that sources mark.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tombolo_base::Isa;
use tombolo_machine::build::gcc::{Outcome, file_error, for_each, start};

use super::{Build, CompileError, Part};
use crate::marks::Marks;
use crate::types::{self, MARK_PREFIX};

/// Additional source for C++ programs.
const EXCEPTIONS: &str = include_str!("exceptions.cpp");

/// First options of a compiler's command line, by language.
pub(super) struct CompilerOptions {
    /// Options for C.
    pub(super) c: Vec<String>,
    /// Options for C++, if the program is in C++.
    pub(super) cxx: Option<Vec<String>>,
}

/// Generates and compiles the thunks, and adds them to each build.
pub(super) fn add_thunks(
    builds: &mut [Build],
    words: &[CompilerOptions],
    scratch: &Path,
    outcome: &mut Outcome,
) -> Result<(), CompileError> {
    let names = marked_functions(builds)?;
    if names.is_empty() {
        return Ok(());
    }
    let debug_programs = for_each(builds, |build| {
        link_for_debug_info(build, &names, &scratch.join(build.installation.isa().name()))
    });
    let debug_programs: Vec<Vec<u8>> = debug_programs.into_iter().collect::<Result<_, _>>()?;
    let programs: Vec<(Isa, &[u8])> = builds
        .iter()
        .zip(&debug_programs)
        .map(|(build, bytes)| (build.installation.isa(), bytes.as_slice()))
        .collect();
    let thunks = types::thunks(&programs, &names)?;
    if !thunks.refused.is_empty() {
        return Err(CompileError::CannotMigrate { refused: thunks.refused });
    }
    for ((build, words), source) in builds.iter_mut().zip(words).zip(&thunks.sources) {
        let folder = scratch.join(build.installation.isa().name());
        // The thunks are compiled with `-fexceptions`, so exceptions pass through C code.
        let object = compile(build, (&words.c, "c"), &folder.join("migrate.c"), source, outcome)?;
        build.parts.push(Part::Object(object));
        if let Some(words) = &words.cxx {
            let path = folder.join("exceptions.cpp");
            let object = compile(build, (words, "c++"), &path, EXCEPTIONS, outcome)?;
            build.parts.push(Part::Object(object));
        }
    }
    Ok(())
}

/// Compiles a generated source for a build, to an object beside it.
fn compile(
    build: &Build,
    (words, language): (&[String], &str),
    path: &Path,
    source: &str,
    outcome: &mut Outcome,
) -> Result<PathBuf, CompileError> {
    fs::write(path, source).map_err(file_error("write", path))?;
    let object = path.with_extension("o");
    let mut command = Command::new(&build.tool);
    command
        .args(words)
        .args(["-x", language, "-O2", "-w", "-fno-builtin", "-fexceptions", "-g0", "-c", "-o"])
        .arg(&object)
        .arg(path);
    let output = start(&mut command)?;
    outcome.record(build.installation.isa(), output.stderr, output.status.success());
    Ok(object)
}

/// Returns the marked functions; all builds must define the same ones.
fn marked_functions(builds: &[Build]) -> Result<Vec<String>, CompileError> {
    let mut all: BTreeSet<String> = BTreeSet::new();
    let mut marks = Vec::new();
    for build in builds {
        let mut of_build = Marks::default();
        for part in &build.parts {
            let (Part::Object(path) | Part::Archive(path)) = part;
            let bytes = fs::read(path).map_err(file_error("read", path))?;
            of_build.scan(&bytes, &path.to_string_lossy())?;
        }
        all.extend(of_build.functions.keys().cloned());
        marks.push(of_build);
    }
    let mut wrong =
        all.iter().filter(|name| marks.iter().any(|of_build| of_build.functions.get(*name) != Some(&true)));
    match wrong.next() {
        Some(name) => Err(CompileError::NotDefined { name: name.clone() }),
        None => Ok(all.iter().cloned().collect()),
    }
}

/// Links the program's parts only to read their debug information: the result need not be complete.
fn link_for_debug_info(build: &Build, names: &[String], folder: &Path) -> Result<Vec<u8>, CompileError> {
    fs::create_dir_all(folder).map_err(file_error("write", folder))?;
    let program: PathBuf = folder.join("described");
    let mut command = Command::new(&build.tool);
    command.args(["-nostdlib", "-static", "-no-pie", "-Wl,-e,0", "-Wl,--unresolved-symbols=ignore-all"]);
    // C++ registers destructors with this symbol. It is hidden, so the linker would report it in spite of the
    // option above.
    command.arg("-Wl,--defsym=__dso_handle=0");
    command.args(["-Wl,--noinhibit-exec", "-Wl,-z,muldefs", "-o"]).arg(&program);
    command.args(names.iter().map(|name| format!("-Wl,-u,{MARK_PREFIX}{name}")));
    for part in &build.parts {
        let (Part::Object(path) | Part::Archive(path)) = part;
        command.arg(path);
    }
    let output = start(&mut command)?;
    fs::read(&program).map_err(|_| CompileError::LinkerDeviated {
        isa: build.installation.isa(),
        what: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}
