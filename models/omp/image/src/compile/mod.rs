//! What `tombolo ompcc` does: one OpenMP program in C, compiled for every instruction set, with everything at equal addresses.
//!
//! The words are those of gcc. Objects are compiled as a user would, but for words that make processors compute alike and give
//! each function and variable a section of its own; linking is done here, and twice (`link`).

mod error;
mod link;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tombolo_base::Isa;
use tombolo_machine::Image;
use tombolo_machine::build::gcc::{
    ALIKE, CommandLine, Goal, IMAGE, Said, Word, beside, first, say, shell_words,
};
use tombolo_machine::build::{BuildError, Language, Scratch, installed_compiler, write};
use tombolo_machine::image::ImageBuilder;

use crate::installation::Installation;
use crate::report::Report;

pub use error::CompileError;

/// Said after the caller's words, so that it holds: every function and variable in a section of its own, at an address that
/// is fixed when it is linked, with its types told, and code by this compiler.
const LAID_OUT: [&str; 7] =
    ["-ffunction-sections", "-fdata-sections", "-fno-pic", "-fno-pie", "-fno-lto", "-fno-common", "-g"];

/// Libraries that are in the C library, or are linked in any case.
const OWN_LIBRARIES: [&str; 9] = ["c", "m", "pthread", "rt", "dl", "util", "resolv", "gomp", "gcc"];

/// What to compile, and for what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The words for the compiler.
    pub words: Vec<String>,
    /// What to link with for each instruction set, at least one.
    pub installations: Vec<Installation>,
    /// Variables, symbols and outlined functions that may differ between builds, for their owner knows what they are.
    pub allow: Vec<String>,
    /// Whether compilers may colour what they say.
    pub colour: bool,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Compiled {
    /// What compilers and linkers said, each text once.
    pub said: Vec<Said>,
    /// Text that was asked for.
    pub text: Vec<u8>,
    /// For which instruction sets it failed.
    pub failed: Vec<Isa>,
    /// The image and where it is, if a program was asked for.
    pub image: Option<(PathBuf, Image)>,
    /// What its layout is.
    pub report: Option<Report>,
}

/// A compiler's run.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Run {
    isa: Isa,
    tool: String,
    words: Vec<String>,
    output: Option<PathBuf>,
}

/// What goes into linking, in the order of the command line, for one instruction set.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    /// An object, compiled here or before.
    Object(PathBuf),
    /// An archive of objects.
    Archive(PathBuf),
}

/// The parts of a program for one instruction set.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Build {
    installation: Installation,
    tool: String,
    parts: Vec<Part>,
    /// What the caller says to the linker.
    linker_words: Vec<String>,
}

/// A request that has been understood: every compiler is there, and every object that is linked.
#[derive(Debug)]
pub struct Compilation {
    line: CommandLine,
    request: Request,
    scratch: Scratch,
    runs: Vec<Run>,
    builds: Vec<Build>,
}

impl Compilation {
    /// Plans what to run.
    ///
    /// # Errors
    /// [`CompileError`]; nothing has been compiled then.
    pub fn plan(request: Request) -> Result<Compilation, CompileError> {
        let line = CommandLine::read(&request.words, false)?;
        check(&line)?;
        let mut compilation =
            Compilation { line, request, scratch: Scratch::new()?, runs: Vec::new(), builds: Vec::new() };
        let installations = compilation.request.installations.clone();
        // One processor's text is as good as another's, and nobody wants it twice.
        let count = if compilation.line.goal == Goal::Text { 1 } else { installations.len() };
        for installation in installations.into_iter().take(count) {
            let tool = installed_compiler(Language::C, installation.isa())?;
            match compilation.line.goal {
                Goal::Text => compilation.ask(&installation, tool)?,
                Goal::Objects => {
                    let sources: Vec<PathBuf> = compilation.line.sources().map(Path::to_owned).collect();
                    for source in sources {
                        let object = match &compilation.line.output {
                            Some(output) => output.clone(),
                            None => PathBuf::from(source.file_name().unwrap_or_default()).with_extension("o"),
                        };
                        let object = compilation.beside(&object, installation.isa());
                        compilation.compile(&installation, &tool, &source, object)?;
                    }
                }
                Goal::Program => compilation.build(installation, tool)?,
            }
        }
        Ok(compilation)
    }

    /// Text for people or make.
    fn ask(&mut self, installation: &Installation, tool: String) -> Result<(), CompileError> {
        let isa = installation.isa();
        let mut words = self.first_words(installation, &tool)?;
        words.extend(self.line.words_for(isa, true, |word| match word {
            Word::Source(path) | Word::Object(path) => Some(path.clone()),
            _ => None,
        }));
        if let Some(output) = &self.line.output {
            words.extend(["-o".to_owned(), output.to_string_lossy().into_owned()]);
        }
        self.runs.push(Run { isa, tool, words, output: None });
        Ok(())
    }

    /// One source to one object.
    fn compile(
        &mut self,
        installation: &Installation,
        tool: &str,
        source: &Path,
        object: PathBuf,
    ) -> Result<(), CompileError> {
        if !source.exists() {
            let source_error = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(CompileError::File { action: "read", path: source.to_owned(), source: source_error });
        }
        let isa = installation.isa();
        let mut words = self.first_words(installation, tool)?;
        let only =
            |word: &Word| matches!(word, Word::Source(path) if path == source).then(|| source.to_owned());
        let first = isa == self.first();
        words.extend(self.line.words_for(isa, first, only).into_iter().filter(|word| !for_linker(word)));
        let common = self.line.words.iter().any(|word| is_option(word, "-fcommon"));
        words.extend(
            LAID_OUT
                .iter()
                .filter(|word| !(common && **word == "-fno-common"))
                .map(|word| (*word).to_owned()),
        );
        if isa == Isa::Aarch64 {
            // Atomics without a call to a library, which would choose by the processor that it finds.
            words.push("-mno-outline-atomics".to_owned());
        }
        words.extend(["-c", "-o"].map(str::to_owned));
        words.push(object.to_string_lossy().into_owned());
        self.runs.push(Run { isa, tool: tool.to_owned(), words, output: Some(object) });
        Ok(())
    }

    /// Everything to a program: sources to objects that nobody sees, and what is linked.
    fn build(&mut self, installation: Installation, tool: String) -> Result<(), CompileError> {
        let isa = installation.isa();
        let mut parts = Vec::new();
        for (number, word) in self.line.words.clone().iter().enumerate() {
            match word {
                Word::Source(source) => {
                    let object = self.scratch.path().join(isa.name()).join(format!("source{number}.o"));
                    self.compile(&installation, &tool, source, object.clone())?;
                    parts.push(Part::Object(object));
                }
                Word::Object(path) => parts.push(self.part(path, isa)?),
                Word::Option(option) => {
                    if let Some(name) = library(option) {
                        parts.extend(self.library(name, isa)?);
                    }
                }
                Word::For(..) => {}
            }
        }
        let words = self.line.words.iter().filter_map(|word| match word {
            Word::Option(words) if words[0].starts_with("-Wl,") => Some(words[0].clone()),
            _ => None,
        });
        let linker_words = words.collect();
        self.builds.push(Build { installation, tool, parts, linker_words });
        Ok(())
    }

    /// An object or archive that is there already.
    fn part(&self, path: &Path, isa: Isa) -> Result<Part, CompileError> {
        let found = self.beside(path, isa);
        if !found.exists() && found != *path {
            return Err(CompileError::NoForeignObject { path: path.to_owned(), isa, looked_at: found });
        }
        let found = fs::canonicalize(&found).map_err(file_error("read", &found))?;
        let is_archive = found.extension().is_some_and(|extension| extension == "a");
        Ok(if is_archive { Part::Archive(found) } else { Part::Object(found) })
    }

    /// A library that is linked by its name: an archive in a folder that the caller names.
    fn library(&self, name: &str, isa: Isa) -> Result<Option<Part>, CompileError> {
        if OWN_LIBRARIES.contains(&name) {
            return Ok(None);
        }
        let file = format!("lib{name}.a");
        let folders = self.line.words.iter().filter_map(|word| match word {
            Word::Option(words) if words[0] == "-L" => words.get(1).map(String::as_str),
            Word::Option(words) => words[0].strip_prefix("-L"),
            _ => None,
        });
        let found = folders.map(|folder| Path::new(folder).join(&file)).find(|path| path.exists());
        match found {
            Some(path) => self.part(&path, isa).map(Some),
            None => Err(CompileError::NoLibrary { name: name.to_owned() }),
        }
    }

    /// The words that come before the caller's.
    fn first_words(&self, installation: &Installation, tool: &str) -> Result<Vec<String>, CompileError> {
        let mut words: Vec<String> = ALIKE.iter().map(|word| (*word).to_owned()).collect();
        words.extend(self.request.colour.then(|| "-fdiagnostics-color=always".to_owned()));
        words.push("-nostdinc".to_owned());
        for folder in [installation.include(), print_file_name(tool, "include")?] {
            words.extend(["-isystem".to_owned(), folder.to_string_lossy().into_owned()]);
        }
        Ok(words)
    }

    fn first(&self) -> Isa {
        first(&self.isas())
    }

    fn isas(&self) -> Vec<Isa> {
        self.request.installations.iter().map(Installation::isa).collect()
    }

    fn beside(&self, path: &Path, isa: Isa) -> PathBuf {
        beside(path, isa, self.first())
    }

    /// The commands that compile, each with its instruction set, as one would type them.
    #[must_use]
    pub fn commands(&self) -> Vec<(Isa, String)> {
        self.runs.iter().map(|run| (run.isa, format!("{} {}", run.tool, shell_words(&run.words)))).collect()
    }

    /// Compiles and links, for different instruction sets at the same time.
    ///
    /// # Errors
    /// [`CompileError`], but not for what compilers and linkers find: that is [`Compiled::failed`].
    pub fn run(&self) -> Result<Compiled, CompileError> {
        for folder in self.runs.iter().filter_map(|run| run.output.as_deref()?.parent()) {
            fs::create_dir_all(folder).map_err(file_error("write", folder))?;
        }
        let mut compiled = Compiled::default();
        let isas = self.isas();
        let done = for_each(&isas, |isa| {
            let runs = self.runs.iter().filter(|run| run.isa == *isa);
            runs.map(|run| start(&run.tool, Command::new(&run.tool).args(&run.words))).collect::<Vec<_>>()
        });
        for (isa, outputs) in isas.iter().zip(done) {
            for output in outputs {
                let output = output?;
                compiled.text.extend(&output.stdout);
                compiled.take(*isa, output.stderr, output.status.success());
            }
        }
        if self.line.goal == Goal::Program && compiled.failed.is_empty() {
            self.link(&mut compiled)?;
        }
        Ok(compiled)
    }

    /// Links all builds and makes the image.
    fn link(&self, compiled: &mut Compiled) -> Result<(), CompileError> {
        let keep_types = self.line.words.iter().any(
            |word| matches!(word, Word::Option(words) if words[0].starts_with("-g") && words[0] != "-g0"),
        );
        let linking = link::Linking {
            builds: &self.builds,
            scratch: self.scratch.path(),
            allow: &self.request.allow,
            keep_types,
        };
        let Some((programs, report)) = linking.run(compiled)? else { return Ok(()) };
        compiled.image = Some(self.pack(&programs)?);
        compiled.report = Some(report);
        Ok(())
    }

    /// Makes the image, and puts the first build where a compiler would put it.
    fn pack(&self, programs: &[(Isa, Vec<u8>)]) -> Result<(PathBuf, Image), CompileError> {
        let output = self.line.output.clone().unwrap_or_else(|| PathBuf::from("a.out"));
        let only_image = output.extension().is_some_and(|extension| extension == IMAGE);
        let mut image_path = output.clone();
        if !only_image {
            image_path.as_mut_os_string().push(format!(".{IMAGE}"));
        }
        let name = output.file_stem().and_then(|name| name.to_str()).unwrap_or("program");
        let mut builder = ImageBuilder::new(name);
        for (isa, elf) in programs {
            if *isa == self.first() && !only_image {
                write(&output, elf, 0o777).map_err(file_error("write", &output))?;
            }
            let unusable = |source| BuildError::Unusable { target: (*isa).into(), source };
            builder = builder.with_program(elf.clone()).map_err(unusable)?;
        }
        let image = builder.finish().map_err(BuildError::from)?;
        write(&image_path, image.as_bytes(), 0o666).map_err(file_error("write", &image_path))?;
        Ok((image_path, image))
    }
}

impl Compiled {
    /// Takes note of what a compiler or linker said, and whether it succeeded.
    fn take(&mut self, isa: Isa, text: Vec<u8>, success: bool) {
        say(&mut self.said, isa, text);
        if !success && !self.failed.contains(&isa) {
            self.failed.push(isa);
        }
    }
}

/// Refuses what cannot be compiled so.
fn check(line: &CommandLine) -> Result<(), CompileError> {
    if line.goal == Goal::Objects && line.output.is_some() && line.sources().nth(1).is_some() {
        return Err(CompileError::OneOutput);
    }
    if line.goal == Goal::Text {
        return Ok(());
    }
    if line.sources().chain(line.objects()).any(|path| path == Path::new("-")) {
        return Err(CompileError::StandardInput);
    }
    if line.language == Language::Cxx {
        return Err(CompileError::Cxx);
    }
    for word in &line.words {
        let Word::Option(words) = word else { continue };
        let option = words[0].as_str();
        let why = match option {
            "-shared" | "-r" | "-pie" | "-static-pie" => "a program is linked, static and at fixed addresses",
            "-T" | "-Wl,-T" => "the linker's script is what makes addresses equal",
            "-m32" | "-mx32" | "-mcmodel=medium" | "-mcmodel=large" => {
                "pointers have 64 bits, and what is linked lies below 2 GiB"
            }
            "-Ofast" | "-ffast-math" | "-funsafe-math-optimizations" | "-fassociative-math" => {
                "it lets each compiler compute in an order of its own, and workers of one team would find different results"
            }
            _ => continue,
        };
        return Err(CompileError::Option { option: option.to_owned(), why });
    }
    Ok(())
}

/// The name of a library that an option names.
fn library(option: &[String]) -> Option<&str> {
    match option {
        [word, name] if word == "-l" => Some(name),
        [word] => word.strip_prefix("-l").filter(|name| !name.is_empty()),
        _ => None,
    }
}

fn is_option(word: &Word, option: &str) -> bool {
    matches!(word, Word::Option(words) if words[0] == option)
}

/// Words that are said to the linker, which is not run by them.
fn for_linker(word: &str) -> bool {
    word.starts_with("-Wl,") || word.starts_with("-l") || word == "-static" || word == "-no-pie"
}

/// Where a compiler has a file of its own.
fn print_file_name(tool: &str, name: &str) -> Result<PathBuf, CompileError> {
    let output = start(tool, Command::new(tool).arg(format!("-print-file-name={name}")))?;
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

fn start(tool: &str, command: &mut Command) -> Result<Output, CompileError> {
    let tool = tool.to_owned();
    command.output().map_err(|source| CompileError::Build(BuildError::Start { tool, source }))
}

/// Does something for each of several at the same time, and returns what came of it in their order.
fn for_each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = items.iter().map(|item| scope.spawn(move || work(item))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, R>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    })
}

fn file_error(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> CompileError {
    let path = path.to_owned();
    move |source| CompileError::File { action, path, source }
}
