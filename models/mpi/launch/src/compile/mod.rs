//! What `tombolo mpicc` does: one program in C or C++, compiled for every instruction set that there is MPI for.
//!
//! The words are those of gcc, and go to the compiler of each instruction set. What it makes is where a compiler would put
//! it: for this host at the path itself, for others beside it (objects in `.tombolo/<isa>`, which linking finds again), and a
//! program for all of them is an image as well.

mod sources;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sha2::{Digest, Sha256};
use tombolo::Isa;
use tombolo_machine::Image;
use tombolo_machine::build::gcc::{
    ALIKE, CommandLine, Goal, IMAGE, Said, Word, WordsError, beside, binutil, first, names, say, shell_words,
};
use tombolo_machine::build::{BuildError, Scratch, installed_compiler, write};
use tombolo_machine::image::ImageBuilder;

use crate::installation::{Installation, PREFIX};
use crate::mark;

/// The binary interface of MPI that a program is compiled for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Abi {
    /// MPICH's, shared by its relatives.
    #[default]
    Mpich,
    /// The one of the MPI standard, version 5: the same program runs with any MPI that has it.
    Standard,
}

impl Abi {
    const fn name(self) -> &'static str {
        match self {
            Abi::Mpich => "mpich",
            Abi::Standard => "standard",
        }
    }

    const fn library(self) -> &'static str {
        match self {
            Abi::Mpich => "-lmpi",
            Abi::Standard => "-lmpi_abi",
        }
    }
}

/// What to compile, and for what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The words for the compiler.
    pub words: Vec<String>,
    /// C++ whatever the files are called.
    pub cxx: bool,
    /// The binary interface.
    pub abi: Abi,
    /// MPI for each instruction set to compile for, at least one.
    pub installations: Vec<Installation>,
    /// Whether compilers may colour what they say.
    pub colour: bool,
}

/// Why nothing was compiled, or not all.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The command line cannot be compiled several times.
    #[error(transparent)]
    Words(#[from] WordsError),
    /// Several files cannot go to one.
    #[error("-o names one file, and several are compiled with -c")]
    OneOutput,
    /// The standard input can be read once.
    #[error("a program cannot come from the standard input: it is compiled more than once")]
    StandardInput,
    /// A file cannot be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// An object or library was compiled for this host only.
    #[error(
        "{} has no build for {isa}, which would be {}: compile it with `tombolo mpicc -c`, or choose other \
         instruction sets with --isa",
        path.display(),
        looked_at.display()
    )]
    NoForeignObject {
        /// The object that was named.
        path: PathBuf,
        /// For what one is missing.
        isa: Isa,
        /// Where it would be.
        looked_at: PathBuf,
    },
    /// A compiler is missing, or cannot be started; or what it made is no program.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Compilers found mistakes, and have said so.
    #[error("compiling for {} failed", names(isas))]
    Failed {
        /// For which instruction sets.
        isas: Vec<Isa>,
    },
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Compiled {
    /// What compilers said, each text once.
    pub said: Vec<Said>,
    /// What was asked for on standard output, by `-E` and its like.
    pub text: Vec<u8>,
    /// The image and where it is, if a program was made.
    pub image: Option<(PathBuf, Image)>,
    /// Whether all went well.
    pub failed: Vec<Isa>,
}

/// A source that uses `long double`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LongDouble {
    /// The source.
    pub path: PathBuf,
    /// The first line that does, from 1.
    pub line: usize,
}

/// One run of a compiler.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Run {
    isa: Isa,
    tool: String,
    words: Vec<String>,
    output: Option<PathBuf>,
    /// The hash of the source that becomes this object.
    source: Option<String>,
}

/// A request that has been understood: every compiler is there, and every object that is linked.
#[derive(Debug)]
pub struct Compilation {
    line: CommandLine,
    request: Request,
    scratch: Scratch,
    runs: Vec<Run>,
}

impl Compilation {
    /// Plans what to run.
    ///
    /// # Errors
    /// [`CompileError`]; nothing has been compiled then.
    pub fn plan(request: Request) -> Result<Compilation, CompileError> {
        let line = CommandLine::read(&request.words, request.cxx)?;
        let several = line.sources().nth(1).is_some();
        if line.goal == Goal::Objects && line.output.is_some() && several {
            return Err(CompileError::OneOutput);
        }
        if line.sources().chain(line.objects()).any(|path| path == Path::new("-")) && line.goal != Goal::Text
        {
            return Err(CompileError::StandardInput);
        }
        let mut compilation = Compilation { line, request, scratch: Scratch::new()?, runs: Vec::new() };
        compilation.plan_runs()?;
        Ok(compilation)
    }

    fn plan_runs(&mut self) -> Result<(), CompileError> {
        let installations = self.request.installations.clone();
        // One processor's text is as good as another's, and nobody wants it twice.
        let count = if self.line.goal == Goal::Text { 1 } else { installations.len() };
        for mpi in installations.iter().take(count) {
            let tool = installed_compiler(self.line.language, mpi.isa())?;
            let first = mpi.isa() == self.first();
            match self.line.goal {
                Goal::Program => {
                    let run = self.link(mpi, tool, first)?;
                    self.runs.push(run);
                }
                Goal::Objects => {
                    let sources: Vec<PathBuf> = self.line.sources().map(Path::to_owned).collect();
                    for source in sources {
                        let run = self.compile(mpi, (tool.clone(), &source), first)?;
                        self.runs.push(run);
                    }
                }
                Goal::Text => {
                    let mut words = self.line.words_for(mpi.isa(), true, |word| match word {
                        Word::Source(path) | Word::Object(path) => Some(path.clone()),
                        _ => None,
                    });
                    words.extend(include_words(mpi, self.request.abi));
                    if let Some(output) = &self.line.output {
                        words.extend(["-o".to_owned(), output.to_string_lossy().into_owned()]);
                    }
                    self.runs.push(Run { isa: mpi.isa(), tool, words, output: None, source: None });
                }
            }
        }
        Ok(())
    }

    /// The words that come before the caller's.
    fn first_words(&self) -> Vec<String> {
        let colour = self.request.colour.then(|| "-fdiagnostics-color=always".to_owned());
        ALIKE.iter().map(|word| (*word).to_owned()).chain(colour).collect()
    }

    /// One source to one object.
    fn compile(
        &self,
        mpi: &Installation,
        (tool, source): (String, &Path),
        first: bool,
    ) -> Result<Run, CompileError> {
        let object = match &self.line.output {
            Some(output) => output.clone(),
            None => PathBuf::from(source.file_name().unwrap_or_default()).with_extension("o"),
        };
        let output = self.beside(&object, mpi.isa());
        let mut words = self.first_words();
        let only =
            |word: &Word| matches!(word, Word::Source(path) if path == source).then(|| source.to_owned());
        words.extend(self.line.words_for(mpi.isa(), first, only));
        words.extend(include_words(mpi, self.request.abi));
        words.extend(["-o".to_owned(), output.to_string_lossy().into_owned()]);
        let source = Some(self.source_mark(source)?);
        Ok(Run { isa: mpi.isa(), tool, words, output: Some(output), source })
    }

    /// Everything to a program.
    fn link(&self, mpi: &Installation, tool: String, first: bool) -> Result<Run, CompileError> {
        let isa = mpi.isa();
        let marks = self.scratch.path().join(format!("{}.s", isa.name()));
        fs::write(&marks, self.marks(mpi)?).map_err(file_error("write", &marks))?;
        let output = self.scratch.path().join(isa.name());
        let mut missing = None;
        let mut words = vec![marks.to_string_lossy().into_owned()];
        words.extend(self.first_words());
        words.extend(self.line.words_for(isa, first, |word| match word {
            Word::Source(path) => Some(path.clone()),
            Word::Object(path) => {
                let found = self.beside(path, isa);
                if !found.exists() && found != *path {
                    missing.get_or_insert((path.clone(), found.clone()));
                }
                Some(found)
            }
            _ => None,
        }));
        if let Some((path, looked_at)) = missing {
            return Err(CompileError::NoForeignObject { path, isa, looked_at });
        }
        words.extend(include_words(mpi, self.request.abi));
        let own = isa == Isa::current();
        let library = mpi.folder().join("lib");
        let runtime = if own { library.clone() } else { Path::new(PREFIX).join("lib") };
        words.push(format!("-L{}", library.display()));
        words.push(format!("-Wl,-rpath,{},--enable-new-dtags", runtime.display()));
        words.push(format!("-Wl,-rpath-link,{0}:{0}/mpich", library.display()));
        words.push(self.request.abi.library().to_owned());
        words.extend(["-o".to_owned(), output.to_string_lossy().into_owned()]);
        Ok(Run { isa, tool, words, output: Some(output), source: None })
    }

    /// Where the build for `isa` is of something that is at `path` for the first instruction set.
    fn beside(&self, path: &Path, isa: Isa) -> PathBuf {
        beside(path, isa, self.first())
    }

    /// Whose builds are at the paths that the caller named.
    fn first(&self) -> Isa {
        first(&self.request.installations.iter().map(Installation::isa).collect::<Vec<_>>())
    }

    fn source_mark(&self, path: &Path) -> Result<String, CompileError> {
        let source = fs::read(path).map_err(file_error("read", path))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(format!("{name} {}", sources::hash(&source, self.line.definitions())))
    }

    /// What a program says of itself, as the assembler takes it.
    fn marks(&self, mpi: &Installation) -> Result<String, CompileError> {
        let made_with = format!("{}, ABI {}", mpi.version(), self.request.abi.name());
        let mut text = assembled(mark::MPI, &made_with);
        for source in self.line.sources() {
            text += &assembled(mark::SOURCE, &self.source_mark(source)?);
        }
        // Without it the linker believes that the program wants a stack that can be executed.
        text += ".section .note.GNU-stack,\"\",%progbits\n";
        Ok(text)
    }

    /// The sources that use `long double`, where builds for unlike processors are made.
    ///
    /// # Errors
    /// [`CompileError::File`].
    pub fn long_doubles(&self) -> Result<Vec<LongDouble>, CompileError> {
        let mut found = Vec::new();
        if self.request.installations.len() < 2 || self.line.goal == Goal::Text {
            return Ok(found);
        }
        for path in self.line.sources() {
            let source = fs::read(path).map_err(file_error("read", path))?;
            if let Some(line) = sources::long_double(&source) {
                found.push(LongDouble { path: path.to_owned(), line });
            }
        }
        Ok(found)
    }

    /// The commands, each with its instruction set, as one would type them.
    #[must_use]
    pub fn commands(&self) -> Vec<(Isa, String)> {
        self.runs.iter().map(|run| (run.isa, format!("{} {}", run.tool, shell_words(&run.words)))).collect()
    }

    /// Runs the compilers, those for different instruction sets at the same time.
    ///
    /// # Errors
    /// [`CompileError`], but not for what compilers find: that is [`Compiled::failed`].
    pub fn run(&self) -> Result<Compiled, CompileError> {
        for folder in self.runs.iter().filter_map(|run| run.output.as_deref()?.parent()) {
            fs::create_dir_all(folder).map_err(file_error("write", folder))?;
        }
        let done: Vec<(&Run, Result<Output, CompileError>)> = std::thread::scope(|scope| {
            let isas = self.request.installations.iter().map(Installation::isa);
            let threads: Vec<_> = isas.map(|isa| scope.spawn(move || self.execute_all(isa))).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().flat_map(join).collect()
        });
        let mut compiled = Compiled::default();
        for (run, output) in done {
            let output = output?;
            compiled.text.extend(&output.stdout);
            say(&mut compiled.said, run.isa, output.stderr);
            if !output.status.success() && !compiled.failed.contains(&run.isa) {
                compiled.failed.push(run.isa);
            }
        }
        if self.line.goal == Goal::Program && compiled.failed.is_empty() {
            compiled.image = Some(self.pack()?);
        }
        Ok(compiled)
    }

    fn execute_all(&self, isa: Isa) -> Vec<(&Run, Result<Output, CompileError>)> {
        self.runs.iter().filter(|run| run.isa == isa).map(|run| (run, self.execute(run))).collect()
    }

    fn execute(&self, run: &Run) -> Result<Output, CompileError> {
        let start = |tool: &str, command: &mut Command| {
            let tool = tool.to_owned();
            command.output().map_err(|source| CompileError::Build(BuildError::Start { tool, source }))
        };
        let output = start(&run.tool, Command::new(&run.tool).args(&run.words))?;
        let (Some(object), Some(source)) = (&run.output, &run.source) else { return Ok(output) };
        if !output.status.success() {
            return Ok(output);
        }
        // The assembler's own file cannot be had here, so the mark is put into what it made.
        let key = Sha256::digest(object.as_os_str().as_encoded_bytes());
        let key: String = key.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let note = self.scratch.path().join(format!("{}-{key}", run.isa.name()));
        fs::write(&note, mark::note(mark::SOURCE, source)).map_err(file_error("write", &note))?;
        let tool = binutil("objcopy", run.isa);
        let mut command = Command::new(&tool);
        command.arg("--add-section").arg(format!(".note.tombolo={}", note.display()));
        command.args(["--set-section-flags", ".note.tombolo=alloc,readonly,data"]);
        command.args(["--set-section-alignment", ".note.tombolo=4"]).arg(object);
        let marked = start(&tool, &mut command)?;
        // An object of another kind, of link-time optimisation say, is as good without.
        if marked.status.success() { Ok(output) } else { Ok(Output { stderr: marked.stderr, ..output }) }
    }

    /// Makes the image, and puts the first build where a compiler would put it.
    fn pack(&self) -> Result<(PathBuf, Image), CompileError> {
        let output = self.line.output.clone().unwrap_or_else(|| PathBuf::from("a.out"));
        let only_image = output.extension().is_some_and(|extension| extension == IMAGE);
        let mut image_path = output.clone();
        if !only_image {
            image_path.as_mut_os_string().push(format!(".{IMAGE}"));
        }
        let name = output.file_stem().and_then(|name| name.to_str()).unwrap_or("program");
        let mut builder = ImageBuilder::new(name);
        for run in &self.runs {
            let path = run.output.as_deref().unwrap_or(Path::new(""));
            let elf = fs::read(path).map_err(file_error("read", path))?;
            if run.isa == self.first() && !only_image {
                write(&output, &elf, 0o777).map_err(file_error("write", &output))?;
            }
            let unusable = |source| BuildError::Unusable { target: run.isa.into(), source };
            builder = builder.with_program(elf).map_err(unusable)?;
        }
        let image = builder.finish().map_err(BuildError::from)?;
        write(&image_path, image.as_bytes(), 0o666).map_err(file_error("write", &image_path))?;
        Ok((image_path, image))
    }
}

fn include_words(mpi: &Installation, abi: Abi) -> Vec<String> {
    let mut words = vec![format!("-I{}", mpi.folder().join("include").display())];
    if abi == Abi::Standard {
        words.push("-DMPI_ABI".to_owned());
    }
    words
}

/// A note as the assembler takes it. What is in quotes there has only characters that need no care.
fn assembled(kind: u32, value: &str) -> String {
    let bytes: Vec<String> = mark::note(kind, value).iter().map(u8::to_string).collect();
    format!(".section .note.tombolo,\"a\",%note\n.balign 4\n.byte {}\n", bytes.join(","))
}

fn file_error(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> CompileError {
    let path = path.to_owned();
    move |source| CompileError::File { action, path, source }
}
