//! Implementation of `tombolo mpicc`: compiles a C or C++ program for every instruction set with an MPI
//! library.
//!
//! gcc's options go to the compiler of each instruction set. The host's output goes where gcc would write it.
//! An object carries its builds for other instruction sets, which the link step extracts; a program also
//! becomes an image with all builds.

mod sources;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sha2::{Digest, Sha256};
use tombolo::Isa;
use tombolo_machine::Image;
use tombolo_machine::build::gcc::{
    CommandLine, Goal, Outcome, Run, Word, binutil, common_options, embed_build, extract_build, file_error,
    foreign_object_path, pack, primary_isa, run_all, start, write_program,
};
use tombolo_machine::build::{Scratch, installed_compiler};

use crate::installation::{Installation, PREFIX};
use crate::mark;

pub use tombolo_machine::build::gcc::CompileError;

/// Command that compiles objects for all instruction sets, for messages.
const COMMAND: &str = "tombolo mpicc";

/// MPI binary interface that a program is compiled for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Abi {
    /// ABI of MPICH and related libraries.
    #[default]
    Mpich,
    /// ABI of the MPI 5 standard; the program runs with every library that implements it.
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

/// Invocation of the compilers for one command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Options and files for gcc.
    pub words: Vec<String>,
    /// Compile as C++, regardless of file names.
    pub cxx: bool,
    /// MPI binary interface.
    pub abi: Abi,
    /// MPI installations, one per instruction set to compile for; at least one.
    pub installations: Vec<Installation>,
    /// Whether compilers may print colours.
    pub colour: bool,
}

/// Result of a compilation.
#[derive(Debug)]
pub struct Compiled {
    /// Status and messages of the compilers.
    pub outcome: Outcome,
    /// Image and its path, if a program was linked.
    pub image: Option<(PathBuf, Image)>,
}

/// A source that uses `long double`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LongDouble {
    /// The source.
    pub path: PathBuf,
    /// Line of the first use, counted from 1.
    pub line: usize,
}

/// A validated request: all compilers and all objects to be linked exist.
#[derive(Debug)]
pub struct Compilation {
    line: CommandLine,
    request: Request,
    scratch: Scratch,
    runs: Vec<Run>,
    /// Source mark of each object to be compiled.
    sources: HashMap<PathBuf, String>,
    /// Objects with the foreign builds to embed: object, instruction set, path of the build.
    foreign_objects: Vec<(PathBuf, Isa, PathBuf)>,
}

impl Compilation {
    /// Validates the request and plans the compiler runs.
    ///
    /// # Errors
    /// [`CompileError`]; nothing has been compiled then.
    pub fn plan(request: Request) -> Result<Compilation, CompileError> {
        let line = CommandLine::parse_multi_target(&request.words, request.cxx)?;
        let (scratch, runs, sources) = (Scratch::new()?, Vec::new(), HashMap::new());
        let mut compilation =
            Compilation { line, request, scratch, runs, sources, foreign_objects: Vec::new() };
        compilation.plan_runs()?;
        Ok(compilation)
    }

    fn plan_runs(&mut self) -> Result<(), CompileError> {
        let installations = self.request.installations.clone();
        let first = self.first();
        // Text output comes from one compiler, and images contain no shared libraries.
        let has_single_isa = self.line.goal == Goal::Text || self.is_shared();
        for mpi in installations.iter().filter(|mpi| !has_single_isa || mpi.isa() == first) {
            let tool = installed_compiler(self.line.language, mpi.isa())?;
            let folder = self.scratch.path().join(mpi.isa().name());
            fs::create_dir_all(&folder).map_err(file_error("write", &folder))?;
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
                    words.extend(compile_options(mpi, self.request.abi));
                    if let Some(output) = &self.line.output {
                        words.extend(["-o".to_owned(), output.to_string_lossy().into_owned()]);
                    }
                    self.runs.push(Run { isa: mpi.isa(), tool, words, output: None });
                }
            }
        }
        Ok(())
    }

    /// Plans the compilation of one source to one object.
    fn compile(
        &mut self,
        mpi: &Installation,
        (tool, source): (String, &Path),
        first: bool,
    ) -> Result<Run, CompileError> {
        let mut output = self.line.object_path_of(source);
        if !first {
            let build = foreign_object_path(&output, mpi.isa(), self.scratch.path());
            self.foreign_objects.push((output, mpi.isa(), build.clone()));
            output = build;
        }
        let mut words = common_options(self.request.colour);
        let only =
            |word: &Word| matches!(word, Word::Source(path) if path == source).then(|| source.to_owned());
        words.extend(self.line.words_for(mpi.isa(), first, only));
        words.extend(compile_options(mpi, self.request.abi));
        words.extend(["-o".to_owned(), output.to_string_lossy().into_owned()]);
        self.sources.insert(output.clone(), self.source_mark(source)?);
        Ok(Run { isa: mpi.isa(), tool, words, output: Some(output) })
    }

    /// Plans the link of a program.
    fn link(&self, mpi: &Installation, tool: String, first: bool) -> Result<Run, CompileError> {
        let isa = mpi.isa();
        let marks = self.scratch.path().join(format!("{}.s", isa.name()));
        fs::write(&marks, self.mark_assembly(mpi)?).map_err(file_error("write", &marks))?;
        let output = self.scratch.path().join(format!("{}.program", isa.name()));
        let mut missing = None;
        let mut words = vec![marks.to_string_lossy().into_owned()];
        if !first {
            // First in the search path, since the caller's folders have archives for this host.
            words.push(format!("-L{}", self.collect_archives(isa)?.display()));
        }
        words.extend(common_options(self.request.colour));
        words.extend(self.line.words_for(isa, first, |word| match word {
            Word::Source(path) => Some(path.clone()),
            Word::Object(path) => match self.build_for_isa(path, isa) {
                Ok(found) => Some(found),
                Err(error) => {
                    missing.get_or_insert(error);
                    None
                }
            },
            _ => None,
        }));
        if let Some(missing) = missing {
            return Err(missing);
        }
        words.extend(compile_options(mpi, self.request.abi));
        words.extend(link_options(mpi, self.request.abi));
        words.extend(["-o".to_owned(), output.to_string_lossy().into_owned()]);
        Ok(Run { isa, tool, words, output: Some(output) })
    }

    /// Returns the build for `isa` of an object or archive.
    fn build_for_isa(&self, path: &Path, isa: Isa) -> Result<PathBuf, CompileError> {
        extract_build(path, (isa, self.first()), self.scratch.path(), COMMAND)
    }

    /// Creates a folder with the builds for `isa` of those `-l` archives that are in the caller's `-L`
    /// folders.
    fn collect_archives(&self, isa: Isa) -> Result<PathBuf, CompileError> {
        let folder = self.scratch.path().join(format!("{}-libraries", isa.name()));
        fs::create_dir_all(&folder).map_err(file_error("write", &folder))?;
        for file in self.line.options("-l").map(|name| format!("lib{name}.a")) {
            let mut folders = self.line.options("-L").map(Path::new);
            let Some(found) = folders.find(|folder| folder.join(&file).is_file()) else { continue };
            match self.build_for_isa(&found.join(&file), isa) {
                Ok(build) => {
                    let place = folder.join(&file);
                    fs::rename(&build, &place).map_err(file_error("write", &place))?;
                }
                // A host library: the linker finds the one of its own instruction set.
                Err(CompileError::NoForeignObject { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(folder)
    }

    /// Instruction set whose output goes to the paths that the caller named.
    fn first(&self) -> Isa {
        primary_isa(&self.request.installations.iter().map(Installation::isa).collect::<Vec<_>>())
    }

    fn is_shared(&self) -> bool {
        self.line.words.contains(&Word::Option(vec!["-shared".to_owned()]))
    }

    fn source_mark(&self, path: &Path) -> Result<String, CompileError> {
        let source = fs::read(path).map_err(file_error("read", path))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(format!("{name} {}", sources::hash(&source, self.line.definitions())))
    }

    /// Assembler source with the marks of a program.
    fn mark_assembly(&self, mpi: &Installation) -> Result<String, CompileError> {
        let mpi_version = format!("{}, ABI {}", mpi.version(), self.request.abi.name());
        let mut text = note_assembly(mark::MPI, &mpi_version);
        for source in self.line.sources() {
            text += &note_assembly(mark::SOURCE, &self.source_mark(source)?);
        }
        // Without this section the linker makes the stack executable.
        text += ".section .note.GNU-stack,\"\",%progbits\n";
        Ok(text)
    }

    /// Finds sources that use `long double`, if the program is built for several instruction sets.
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

    /// The planned commands in shell syntax, with their instruction sets.
    #[must_use]
    pub fn commands(&self) -> Vec<(Isa, String)> {
        self.runs.iter().map(|run| (run.isa, run.command())).collect()
    }

    /// Runs the compilers, in parallel for different instruction sets.
    ///
    /// # Errors
    /// [`CompileError`]. Errors in the sources are not included: see [`Outcome::failed`].
    pub fn run(&self) -> Result<Compiled, CompileError> {
        let outcome = run_all(&self.runs, |run, output| self.add_source_mark(run, output))?;
        if outcome.failed.is_empty() {
            let first = self.first();
            self.foreign_objects
                .iter()
                .try_for_each(|(object, isa, build)| embed_build(object, first, *isa, build))?;
        }
        let image = match self.line.goal {
            Goal::Program if outcome.failed.is_empty() => self.pack()?,
            _ => None,
        };
        Ok(Compiled { outcome, image })
    }

    /// Adds the source mark to an object.
    fn add_source_mark(&self, run: &Run, output: Output) -> Result<Output, CompileError> {
        let Some(object) = run.output.as_ref().filter(|_| output.status.success()) else { return Ok(output) };
        let Some(source) = self.sources.get(object) else { return Ok(output) };
        // gcc runs the assembler itself, so the mark is added to its output.
        let key = Sha256::digest(object.as_os_str().as_encoded_bytes());
        let key: String = key.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let note = self.scratch.path().join(format!("{}-{key}", run.isa.name()));
        fs::write(&note, mark::note(mark::SOURCE, source)).map_err(file_error("write", &note))?;
        let mut command = Command::new(binutil("objcopy", run.isa));
        command.arg("--add-section").arg(format!(".note.tombolo={}", note.display()));
        command.args(["--set-section-flags", ".note.tombolo=alloc,readonly,data"]);
        command.args(["--set-section-alignment", ".note.tombolo=4"]).arg(object);
        let marked = start(&mut command)?;
        // The mark is optional: objcopy may not support the object's format.
        if marked.status.success() { Ok(output) } else { Ok(Output { stderr: marked.stderr, ..output }) }
    }

    /// Writes the image, and the first build to the path of `-o`.
    fn pack(&self) -> Result<Option<(PathBuf, Image)>, CompileError> {
        let linked = self.runs.iter().map(|run| {
            let path = run.output.as_deref().unwrap_or(Path::new(""));
            Ok((run.isa, fs::read(path).map_err(file_error("read", path))?))
        });
        let programs = linked.collect::<Result<Vec<_>, CompileError>>()?;
        if let ([(_, library)], true) = (&programs[..], self.is_shared()) {
            write_program(self.line.output.as_deref().unwrap_or(Path::new("a.out")), library)?;
            return Ok(None);
        }
        pack(self.line.output.as_deref(), self.first(), programs)
    }
}

/// Compiler options for MPI.
#[must_use]
pub fn compile_options(mpi: &Installation, abi: Abi) -> Vec<String> {
    let mut words = vec![format!("-I{}", mpi.folder().join("include").display())];
    if abi == Abi::Standard {
        words.push("-DMPI_ABI".to_owned());
    }
    words
}

/// Linker options for MPI.
#[must_use]
pub fn link_options(mpi: &Installation, abi: Abi) -> Vec<String> {
    let library = mpi.folder().join("lib");
    let runtime = if mpi.isa() == Isa::current() { library.clone() } else { Path::new(PREFIX).join("lib") };
    vec![
        format!("-L{}", library.display()),
        format!("-Wl,-rpath,{},--enable-new-dtags", runtime.display()),
        format!("-Wl,-rpath-link,{0}:{0}/mpich", library.display()),
        abi.library().to_owned(),
    ]
}

/// Encodes a note in assembler syntax.
fn note_assembly(kind: u32, value: &str) -> String {
    let bytes: Vec<String> = mark::note(kind, value).iter().map(u8::to_string).collect();
    format!(".section .note.tombolo,\"a\",%note\n.balign 4\n.byte {}\n", bytes.join(","))
}
