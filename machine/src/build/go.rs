//! Go programs, built by the go command, which compiles for every processor itself.

use std::path::PathBuf;
use std::process::Command;

use tombolo_base::{Isa, Target};

use super::{BuildError, Builder, GoProgram, Request, Scratch};
use crate::kit::find_program;

/// Name of the command, and of the Debian package that contains it.
const GO: (&str, &str) = ("go", "golang-go");

/// Arguments of each build. They omit local paths and the commit from the program, and debugger tables, which
/// are a third of a program that is sent to nodes. Panics still report their location.
const ARGUMENTS: [&str; 4] = ["build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w"];

pub(super) struct Toolchain<'a> {
    program: &'a GoProgram,
    request: &'a Request,
    scratch: Scratch,
}

impl<'a> Toolchain<'a> {
    pub(super) fn new(program: &'a GoProgram, request: &'a Request) -> Result<Toolchain<'a>, BuildError> {
        Ok(Toolchain { program, request, scratch: Scratch::new()? })
    }

    /// Returns the build command for one target. Without cgo a program is static and needs no C compiler.
    fn command(&self, target: Target, output: &PathBuf) -> Command {
        let mut command = Command::new(GO.0);
        command.current_dir(&self.program.folder);
        command.env("GOOS", "linux").env("GOARCH", architecture(target.isa)).env("CGO_ENABLED", "0");
        command.args(ARGUMENTS).arg("-o").arg(output).args(&self.request.arguments).arg(".");
        command
    }
}

impl Builder for Toolchain<'_> {
    fn name(&self) -> &str {
        &self.program.name
    }

    fn prepare(&mut self, target: Target) -> Result<String, BuildError> {
        if target.bare {
            return Err(BuildError::NotForBoards { target });
        }
        if find_program(GO.0).is_none() {
            let install = format!("apt-get install {}", GO.1);
            return Err(BuildError::MissingTool { target, tool: GO.0.to_owned(), install });
        }
        Ok(format!("go for {}", architecture(target.isa)))
    }

    fn build(&mut self, targets: &[Target]) -> Result<Vec<PathBuf>, BuildError> {
        let build = |target: &Target| {
            let tool = GO.0.to_owned();
            let output = self.scratch.path().join(target.name());
            let status = self
                .command(*target, &output)
                .status()
                .map_err(|source| BuildError::Start { tool: tool.clone(), source })?;
            let targets = vec![*target];
            match status.success() {
                // For a package that is not a program, go only checks it and writes no file.
                true if output.is_file() => Ok(output),
                true => Err(BuildError::NoExecutable { target: *target }),
                false => Err(BuildError::Compiler { targets, tool, status }),
            }
        };
        targets.iter().map(build).collect()
    }
}

/// Returns Go's name of an instruction set.
fn architecture(isa: Isa) -> &'static str {
    match isa {
        Isa::X86_64 => "amd64",
        Isa::Aarch64 => "arm64",
        Isa::Riscv64 => "riscv64",
        Isa::S390x => "s390x",
        Isa::I386 => "386",
        Isa::Armv7 => "arm",
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use crate::build::Source;

    #[test]
    fn a_build_is_static_and_for_the_processor_of_the_node() {
        let program = GoProgram { name: "hello".to_owned(), folder: "/hello".into() };
        let request = Request {
            arguments: vec!["-tags=x".to_owned()],
            ..Request::new(Source::Go(program.clone()), &[])
        };
        let toolchain = Toolchain::new(&program, &request).unwrap();
        let command = toolchain.command(Target::linux(Isa::Aarch64), &"/out".into());
        let arguments: Vec<&OsStr> = command.get_args().collect();
        assert_eq!(arguments[4..], ["-o", "/out", "-tags=x", "."]);
        for (name, value) in [("GOARCH", "arm64"), ("GOOS", "linux"), ("CGO_ENABLED", "0")] {
            assert!(
                command.get_envs().any(|set| set == (OsStr::new(name), Some(OsStr::new(value)))),
                "{name}"
            );
        }
        assert_eq!(command.get_current_dir(), Some(program.folder.as_path()));
    }

    #[test]
    fn boards_are_refused() {
        let program = GoProgram { name: "hello".to_owned(), folder: "/hello".into() };
        let request = Request::new(Source::Go(program.clone()), &[]);
        let mut toolchain = Toolchain::new(&program, &request).unwrap();
        let refused = toolchain.prepare(Target::bare(Isa::Aarch64)).unwrap_err().to_string();
        assert!(refused.starts_with("a program in Go cannot be built for aarch64-none"), "{refused}");
    }
}
