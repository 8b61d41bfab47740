//! Runs compilers, those for different instruction sets in parallel.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tombolo_base::Isa;

use super::super::BuildError;
use super::{CompileError, Diagnostics, IMAGE, add_diagnostics, file_error, quote_arguments};
use crate::image::{Image, ImageBuilder};
use crate::replace::write_output;

/// A single invocation of a compiler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// Instruction set that it compiles for.
    pub isa: Isa,
    /// Name of the compiler.
    pub tool: String,
    /// Command-line arguments.
    pub words: Vec<String>,
    /// Output file, unless the output is text.
    pub output: Option<PathBuf>,
}

impl Run {
    /// Returns the command line as typed in a shell.
    #[must_use]
    pub fn command(&self) -> String {
        format!("{} {}", self.tool, quote_arguments(&self.words))
    }

    /// Runs the compiler and collects its output.
    ///
    /// # Errors
    /// The compiler cannot be started.
    fn start(&self) -> Result<Output, CompileError> {
        start(Command::new(&self.tool).args(&self.words))
    }
}

/// Combined result of several compilers.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Diagnostics, each text once.
    pub diagnostics: Vec<Diagnostics>,
    /// Text for standard output, requested by options such as `-E`.
    pub text: Vec<u8>,
    /// Instruction sets for which a compiler failed.
    pub failed: Vec<Isa>,
}

impl Outcome {
    /// Records the diagnostics of a compiler or linker and whether it succeeded.
    pub fn record(&mut self, isa: Isa, diagnostics: Vec<u8>, success: bool) {
        add_diagnostics(&mut self.diagnostics, isa, diagnostics);
        if !success && !self.failed.contains(&isa) {
            self.failed.push(isa);
        }
    }
}

/// Runs compilers: sequentially for one instruction set, in parallel for different ones. Calls `then` after
/// each that could be started; it may change the output.
///
/// # Errors
/// A compiler cannot be started, or an error of `then`. Errors reported by compilers are not errors here; see
/// [`Outcome::failed`].
pub fn run_all(
    runs: &[Run],
    then: impl Fn(&Run, Output) -> Result<Output, CompileError> + Sync,
) -> Result<Outcome, CompileError> {
    let mut isas: Vec<Isa> = Vec::new();
    for run in runs {
        if !isas.contains(&run.isa) {
            isas.push(run.isa);
        }
    }
    let done = for_each(&isas, |isa| {
        let runs = runs.iter().filter(|run| run.isa == *isa);
        runs.map(|run| run.start().and_then(|output| then(run, output))).collect::<Vec<_>>()
    });
    let mut outcome = Outcome::default();
    for (isa, outputs) in isas.iter().zip(done) {
        for output in outputs {
            let output = output?;
            outcome.text.extend(&output.stdout);
            outcome.record(*isa, output.stderr, output.status.success());
        }
    }
    Ok(outcome)
}

/// Runs a tool to completion and collects its output.
///
/// # Errors
/// [`BuildError::Start`] if it cannot be started.
pub fn start(command: &mut Command) -> Result<Output, CompileError> {
    let tool = command.get_program().to_string_lossy().into_owned();
    command.output().map_err(|source| CompileError::Build(BuildError::Start { tool, source }))
}

/// Runs a tool that writes a file.
///
/// # Errors
/// [`BuildError::Start`], or [`CompileError::File`] with the tool's message.
pub fn run_writer(command: &mut Command, path: &Path) -> Result<(), CompileError> {
    let output = start(command)?;
    if output.status.success() {
        return Ok(());
    }
    let diagnostics = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(file_error("write", path)(std::io::Error::other(diagnostics)))
}

/// Writes the program to the output path. Replaces a regular file atomically; writes into devices and pipes
/// such as `/dev/null`. Returns whether it is a regular file.
///
/// # Errors
/// [`CompileError::File`] if it cannot be written.
pub fn write_program(path: &Path, elf: &[u8]) -> Result<bool, CompileError> {
    write_output(path, elf, 0o777).map_err(file_error("write", path))
}

/// Runs `work` on each item in parallel and returns the results in item order.
pub fn for_each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = items.iter().map(|item| scope.spawn(move || work(item))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, R>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    })
}

/// Packs a program's builds into an image and writes the one for `first` to `output`, or `a.out`, unless that
/// path is the image itself. Returns the image's path; there is none if the output is not a regular file
/// ([`write_program`]).
///
/// # Errors
/// A build is not a program, or a file cannot be written.
pub fn pack(
    output: Option<&Path>,
    first: Isa,
    programs: Vec<(Isa, Vec<u8>)>,
) -> Result<Option<(PathBuf, Image)>, CompileError> {
    let output = output.unwrap_or(Path::new("a.out"));
    let only_image = output.extension().is_some_and(|extension| extension == IMAGE);
    let mut image_path = output.to_owned();
    if !only_image {
        image_path.as_mut_os_string().push(format!(".{IMAGE}"));
    }
    let name = output.file_stem().and_then(|name| name.to_str()).unwrap_or("program");
    let mut builder = ImageBuilder::new(name);
    for (isa, elf) in programs {
        if isa == first && !only_image && !write_program(output, &elf)? {
            return Ok(None);
        }
        let unusable = |source| BuildError::Unusable { target: isa.into(), source };
        builder = builder.with_program(elf).map_err(unusable)?;
    }
    let image = builder.finish().map_err(BuildError::from)?;
    write_output(&image_path, image.as_bytes(), 0o666).map_err(file_error("write", &image_path))?;
    Ok(Some((image_path, image)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn shell(isa: Isa, script: &str) -> Run {
        Run { isa, tool: "sh".into(), words: vec!["-c".into(), script.into()], output: None }
    }

    #[test]
    fn equal_diagnostics_are_merged_and_failures_reported() {
        let runs = [
            shell(Isa::X86_64, "echo why >&2"),
            shell(Isa::X86_64, "echo text; echo more >&2; exit 1"),
            shell(Isa::Aarch64, "echo why >&2"),
        ];
        assert_eq!(runs[0].command(), "sh -c 'echo why >&2'");
        let outcome = run_all(&runs, |_, output| Ok(output)).unwrap();
        let diagnostics: Vec<(usize, &[u8])> = outcome
            .diagnostics
            .iter()
            .map(|diagnostics| (diagnostics.isas.len(), diagnostics.text.as_slice()))
            .collect();
        assert_eq!(diagnostics, [(2, &b"why\n"[..]), (1, b"more\n")]);
        assert_eq!((outcome.text, outcome.failed), (b"text\n".to_vec(), vec![Isa::X86_64]));
    }

    /// Uses a pipe in place of a device, which only root can create.
    #[test]
    fn pipe_output_is_written_and_gets_no_image() {
        let folder = std::env::temp_dir().join(format!("tombolo-pack-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let pipe = folder.join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let mut reader = Command::new("cat").arg(&pipe).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let programs = vec![(Isa::X86_64, b"program".to_vec())];
        assert!(pack(Some(&pipe), Isa::X86_64, programs).unwrap().is_none());
        let mut read = Vec::new();
        std::io::Read::read_to_end(reader.stdout.as_mut().unwrap(), &mut read).unwrap();
        reader.wait().unwrap();
        let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!((read.as_slice(), left), (&b"program"[..], vec!["pipe".into()]));
    }

    #[test]
    fn compiler_that_cannot_be_started_is_named() {
        let run = Run { tool: "/nonexistent/cc".into(), ..shell(Isa::X86_64, "") };
        let text = run_all(&[run], |_, output| Ok(output)).unwrap_err().to_string();
        assert!(text.starts_with("cannot run /nonexistent/cc: "), "{text}");
    }
}
