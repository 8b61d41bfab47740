//! C programs, by gcc and Debian's cross compilers.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tombolo_base::Target;

use super::toolchain::{Language, installed_compiler};
use super::{BuildError, Builder};

pub(super) struct Compiler<'a> {
    files: &'a [PathBuf],
    arguments: &'a [String],
    name: String,
    scratch: Scratch,
}

impl<'a> Compiler<'a> {
    /// A program of `files`, called like the first; `arguments` follow the files.
    pub(super) fn new(files: &'a [PathBuf], arguments: &'a [String]) -> Result<Compiler<'a>, BuildError> {
        let stem = files.first().and_then(|file| file.file_stem()).and_then(|stem| stem.to_str());
        let name = stem.unwrap_or("program").to_owned();
        Ok(Compiler { files, arguments, name, scratch: Scratch::new()? })
    }
}

impl Builder for Compiler<'_> {
    fn name(&self) -> &str {
        &self.name
    }

    fn prepare(&mut self, target: Target) -> Result<String, BuildError> {
        c_compiler_for(target)
    }

    fn build(&mut self, target: Target) -> Result<PathBuf, BuildError> {
        let tool = c_compiler_for(target)?;
        let output = self.scratch.path.join(target.name());
        let mut command = Command::new(&tool);
        command.args(["-O2", "-pthread", "-static", "-o"]).arg(&output);
        // Behind `./` a file name that starts with a dash is no option.
        command.args(self.files.iter().map(|file| Path::new(".").join(file))).args(self.arguments);
        let status = command.status().map_err(|source| BuildError::Start { tool: tool.clone(), source })?;
        if status.success() { Ok(output) } else { Err(BuildError::Compiler { target, tool, status }) }
    }
}

fn c_compiler_for(target: Target) -> Result<String, BuildError> {
    if target.bare {
        Err(BuildError::NotForBoards { target })
    } else {
        installed_compiler(Language::C, target.isa)
    }
}

/// A folder of this process alone, gone with the value.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes one among the temporary files.
    ///
    /// # Errors
    /// [`BuildError::Write`].
    pub fn new() -> Result<Scratch, BuildError> {
        let folder = std::env::temp_dir();
        let mut number = 0_u32;
        loop {
            let path = folder.join(format!("tombolo-build-{}-{number}", std::process::id()));
            // Making it fails if it exists, so nobody else can have put something there.
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Scratch { path }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && number < 1000 => {
                    number += 1;
                }
                Err(source) => return Err(BuildError::Write { path, source }),
            }
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left is in a folder for temporary files; there is nothing better to do about it.
        let _ = fs::remove_dir_all(&self.path);
    }
}
