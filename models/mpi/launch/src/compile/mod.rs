//! What `tombolo mpicc` does: one program in C or C++, compiled for every instruction set that there is MPI
//! for.
//!
//! The words are those of gcc, and go to the compiler of each instruction set. What it makes is where a
//! compiler would put it, for this host. An object carries its builds for others, which linking finds again;
//! a program for all of them is an image as well.

mod sources;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sha2::{Digest, Sha256};
use tombolo::Isa;
use tombolo_machine::Image;
use tombolo_machine::build::gcc::{
    CommandLine, Goal, Outcome, Run, Word, aside, binutil, carried, carry, file_error, first, first_words,
    pack, put, run_all, start,
};
use tombolo_machine::build::{Scratch, installed_compiler};

use crate::installation::{Installation, PREFIX};
use crate::mark;

pub use tombolo_machine::build::gcc::CompileError;

/// What makes objects for all instruction sets.
const COMMAND: &str = "tombolo mpicc";

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

/// What came of it.
#[derive(Debug)]
pub struct Compiled {
    /// What compilers did and said.
    pub outcome: Outcome,
    /// The image and where it is, if a program was made.
    pub image: Option<(PathBuf, Image)>,
}

/// A source that uses `long double`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LongDouble {
    /// The source.
    pub path: PathBuf,
    /// The first line that does, from 1.
    pub line: usize,
}

/// A request that has been understood: every compiler is there, and every object that is linked.
#[derive(Debug)]
pub struct Compilation {
    line: CommandLine,
    request: Request,
    scratch: Scratch,
    runs: Vec<Run>,
    /// The hash of the source that becomes an object.
    sources: HashMap<PathBuf, String>,
    /// Objects, and the builds for other instruction sets that they are to carry.
    carried: Vec<(PathBuf, Isa, PathBuf)>,
}

impl Compilation {
    /// Plans what to run.
    ///
    /// # Errors
    /// [`CompileError`]; nothing has been compiled then.
    pub fn plan(request: Request) -> Result<Compilation, CompileError> {
        let line = CommandLine::read_for_several(&request.words, request.cxx)?;
        let (scratch, runs, sources) = (Scratch::new()?, Vec::new(), HashMap::new());
        let mut compilation = Compilation { line, request, scratch, runs, sources, carried: Vec::new() };
        compilation.plan_runs()?;
        Ok(compilation)
    }

    fn plan_runs(&mut self) -> Result<(), CompileError> {
        let installations = self.request.installations.clone();
        let first = self.first();
        // The text of one instruction set is enough, and no image has shared libraries.
        let is_alone = self.line.goal == Goal::Text || self.is_shared();
        for mpi in installations.iter().filter(|mpi| !is_alone || mpi.isa() == first) {
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
                    words.extend(compile_words(mpi, self.request.abi));
                    if let Some(output) = &self.line.output {
                        words.extend(["-o".to_owned(), output.to_string_lossy().into_owned()]);
                    }
                    self.runs.push(Run { isa: mpi.isa(), tool, words, output: None });
                }
            }
        }
        Ok(())
    }

    /// One source to one object.
    fn compile(
        &mut self,
        mpi: &Installation,
        (tool, source): (String, &Path),
        first: bool,
    ) -> Result<Run, CompileError> {
        let mut output = self.line.object_of(source);
        if !first {
            let build = aside(&output, mpi.isa(), self.scratch.path());
            self.carried.push((output, mpi.isa(), build.clone()));
            output = build;
        }
        let mut words = first_words(self.request.colour);
        let only =
            |word: &Word| matches!(word, Word::Source(path) if path == source).then(|| source.to_owned());
        words.extend(self.line.words_for(mpi.isa(), first, only));
        words.extend(compile_words(mpi, self.request.abi));
        words.extend(["-o".to_owned(), output.to_string_lossy().into_owned()]);
        self.sources.insert(output.clone(), self.source_mark(source)?);
        Ok(Run { isa: mpi.isa(), tool, words, output: Some(output) })
    }

    /// Everything to a program.
    fn link(&self, mpi: &Installation, tool: String, first: bool) -> Result<Run, CompileError> {
        let isa = mpi.isa();
        let marks = self.scratch.path().join(format!("{}.s", isa.name()));
        fs::write(&marks, self.marks(mpi)?).map_err(file_error("write", &marks))?;
        let output = self.scratch.path().join(format!("{}.program", isa.name()));
        let mut missing = None;
        let mut words = vec![marks.to_string_lossy().into_owned()];
        if !first {
            // Before the caller's folders, whose archives are for this host.
            words.push(format!("-L{}", self.libraries(isa)?.display()));
        }
        words.extend(first_words(self.request.colour));
        words.extend(self.line.words_for(isa, first, |word| match word {
            Word::Source(path) => Some(path.clone()),
            Word::Object(path) => match self.found(path, isa) {
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
        words.extend(compile_words(mpi, self.request.abi));
        words.extend(link_words(mpi, self.request.abi));
        words.extend(["-o".to_owned(), output.to_string_lossy().into_owned()]);
        Ok(Run { isa, tool, words, output: Some(output) })
    }

    /// The build for `isa` of an object or archive.
    fn found(&self, path: &Path, isa: Isa) -> Result<PathBuf, CompileError> {
        carried(path, (isa, self.first()), self.scratch.path(), COMMAND)
    }

    /// A folder with the builds for `isa` of the archives that the caller names by `-l`, of the caller's
    /// folders.
    fn libraries(&self, isa: Isa) -> Result<PathBuf, CompileError> {
        let folder = self.scratch.path().join(format!("{}-libraries", isa.name()));
        fs::create_dir_all(&folder).map_err(file_error("write", &folder))?;
        for file in self.line.options("-l").map(|name| format!("lib{name}.a")) {
            let mut folders = self.line.options("-L").map(Path::new);
            let Some(found) = folders.find(|folder| folder.join(&file).is_file()) else { continue };
            match self.found(&found.join(&file), isa) {
                Ok(build) => {
                    let place = folder.join(&file);
                    fs::rename(&build, &place).map_err(file_error("write", &place))?;
                }
                // One of the host's own libraries: the linker looks for that of its instruction set.
                Err(CompileError::NoForeignObject { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(folder)
    }

    /// Whose builds are at the paths that the caller named.
    fn first(&self) -> Isa {
        first(&self.request.installations.iter().map(Installation::isa).collect::<Vec<_>>())
    }

    fn is_shared(&self) -> bool {
        self.line.words.contains(&Word::Option(vec!["-shared".to_owned()]))
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
        self.runs.iter().map(|run| (run.isa, run.command())).collect()
    }

    /// Runs the compilers, those for different instruction sets at the same time.
    ///
    /// # Errors
    /// [`CompileError`], but not for what compilers find: that is [`Outcome::failed`].
    pub fn run(&self) -> Result<Compiled, CompileError> {
        let outcome = run_all(&self.runs, |run, output| self.mark(run, output))?;
        if outcome.failed.is_empty() {
            let first = self.first();
            self.carried.iter().try_for_each(|(object, isa, build)| carry(object, first, *isa, build))?;
        }
        let image = match self.line.goal {
            Goal::Program if outcome.failed.is_empty() => self.pack()?,
            _ => None,
        };
        Ok(Compiled { outcome, image })
    }

    /// Puts into an object of which source it was made.
    fn mark(&self, run: &Run, output: Output) -> Result<Output, CompileError> {
        let Some(object) = run.output.as_ref().filter(|_| output.status.success()) else { return Ok(output) };
        let Some(source) = self.sources.get(object) else { return Ok(output) };
        // The assembler's own file cannot be had here, so the mark is put into what it made.
        let key = Sha256::digest(object.as_os_str().as_encoded_bytes());
        let key: String = key.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let note = self.scratch.path().join(format!("{}-{key}", run.isa.name()));
        fs::write(&note, mark::note(mark::SOURCE, source)).map_err(file_error("write", &note))?;
        let mut command = Command::new(binutil("objcopy", run.isa));
        command.arg("--add-section").arg(format!(".note.tombolo={}", note.display()));
        command.args(["--set-section-flags", ".note.tombolo=alloc,readonly,data"]);
        command.args(["--set-section-alignment", ".note.tombolo=4"]).arg(object);
        let marked = start(&mut command)?;
        // An object of another kind, of link-time optimisation say, is as good without.
        if marked.status.success() { Ok(output) } else { Ok(Output { stderr: marked.stderr, ..output }) }
    }

    /// Makes the image, and puts the first build where a compiler would put it.
    fn pack(&self) -> Result<Option<(PathBuf, Image)>, CompileError> {
        let linked = self.runs.iter().map(|run| {
            let path = run.output.as_deref().unwrap_or(Path::new(""));
            Ok((run.isa, fs::read(path).map_err(file_error("read", path))?))
        });
        let programs = linked.collect::<Result<Vec<_>, CompileError>>()?;
        if let ([(_, library)], true) = (&programs[..], self.is_shared()) {
            put(self.line.output.as_deref().unwrap_or(Path::new("a.out")), library)?;
            return Ok(None);
        }
        pack(self.line.output.as_deref(), self.first(), programs)
    }
}

/// What a compiler is told of MPI.
#[must_use]
pub fn compile_words(mpi: &Installation, abi: Abi) -> Vec<String> {
    let mut words = vec![format!("-I{}", mpi.folder().join("include").display())];
    if abi == Abi::Standard {
        words.push("-DMPI_ABI".to_owned());
    }
    words
}

/// What a linker is told of MPI.
#[must_use]
pub fn link_words(mpi: &Installation, abi: Abi) -> Vec<String> {
    let library = mpi.folder().join("lib");
    let runtime = if mpi.isa() == Isa::current() { library.clone() } else { Path::new(PREFIX).join("lib") };
    vec![
        format!("-L{}", library.display()),
        format!("-Wl,-rpath,{},--enable-new-dtags", runtime.display()),
        format!("-Wl,-rpath-link,{0}:{0}/mpich", library.display()),
        abi.library().to_owned(),
    ]
}

/// A note as the assembler takes it. What is in quotes there has only characters that need no care.
fn assembled(kind: u32, value: &str) -> String {
    let bytes: Vec<String> = mark::note(kind, value).iter().map(u8::to_string).collect();
    format!(".section .note.tombolo,\"a\",%note\n.balign 4\n.byte {}\n", bytes.join(","))
}
