//! `tombolo ompcc`: compiles one OpenMP program in C or C++ for every instruction set, with everything at
//! equal addresses.
//!
//! The command line is gcc's. Objects are compiled as the user requests, with additional options that make
//! processors compute alike and give each function and variable a section of its own. Linking is done here,
//! and twice (`link`).

mod cxx;
mod error;
mod link;
mod migrate;
mod object_names;
mod symbol_conflicts;
mod thread_locals;
mod wrapped;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tombolo_base::Isa;
use tombolo_machine::Image;
use tombolo_machine::build::gcc::{
    CommandLine, Goal, Outcome, Run, Word, common_options, embed_build, extract_build, file_error,
    foreign_object_path, pack, primary_isa, run_all, start,
};
use tombolo_machine::build::{Language, Scratch, installed_compiler};

use crate::installation::Installation;
use crate::report::Report;

pub use error::CompileError;

/// Options appended to the caller's so that they take precedence: every function and variable in a section of
/// its own, at an address fixed at link time, with debug information, and machine code from this compiler.
const LAYOUT_OPTIONS: [&str; 8] = [
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-pic",
    "-fno-pie",
    "-fno-lto",
    "-fno-common",
    // A compiler with offloading would make objects that other compilers do not.
    "-foffload=disable",
    "-g",
];

/// Command that makes objects for all instruction sets.
const COMMAND: &str = "tombolo ompcc";

/// Libraries that are part of the C library, or that are always linked.
const OWN_LIBRARIES: [&str; 11] =
    ["c", "m", "pthread", "rt", "dl", "util", "resolv", "gomp", "gcc", "stdc++", "supc++"];

/// Compilation request: what to compile, and for which instruction sets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Command line for the compiler.
    pub words: Vec<String>,
    /// Whether to compile as C++ regardless of file names.
    pub cxx: bool,
    /// Installations to link with, one for each instruction set; at least one.
    pub installations: Vec<Installation>,
    /// Variables, symbols and outlined functions that may differ between builds, because the user vouches for
    /// them.
    pub allow: Vec<String>,
    /// Whether compilers may colour their messages.
    pub colour: bool,
}

/// Result of a compilation.
#[derive(Debug, Default)]
pub struct Compiled {
    /// Status and messages of compilers and linkers.
    pub outcome: Outcome,
    /// Image and its path, if a program was requested.
    pub image: Option<(PathBuf, Image)>,
    /// Report about the layout.
    pub report: Option<Report>,
}

/// Input of the link step for one instruction set, in command-line order.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    /// Object, compiled by this or an earlier command.
    Object(PathBuf),
    /// Archive of objects.
    Archive(PathBuf),
}

/// Inputs of the link step for one instruction set.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Build {
    installation: Installation,
    tool: String,
    parts: Vec<Part>,
    /// Sources on the command line that the first parts were compiled from; `None` for other parts.
    sources: Vec<Option<PathBuf>>,
    /// The caller's options for the linker.
    linker_arguments: Vec<String>,
}

/// Validated request: every compiler and every object to link exists.
#[derive(Debug)]
pub struct Compilation {
    line: CommandLine,
    request: Request,
    scratch: Scratch,
    runs: Vec<Run>,
    builds: Vec<Build>,
    /// Objects, with the builds for other instruction sets to embed in them.
    embedded: Vec<(PathBuf, Isa, PathBuf)>,
}

impl Compilation {
    /// Plans the commands of a request.
    ///
    /// # Errors
    /// [`CompileError`]; nothing has been compiled in that case.
    pub fn plan(request: Request) -> Result<Compilation, CompileError> {
        let line = CommandLine::parse_multi_target(&request.words, request.cxx)?;
        check(&line)?;
        let (scratch, runs, builds, embedded) = (Scratch::new()?, Vec::new(), Vec::new(), Vec::new());
        let mut compilation = Compilation { line, request, scratch, runs, builds, embedded };
        let installations = compilation.request.installations.clone();
        // Preprocessed text and the like is needed for one instruction set only.
        let count = if compilation.line.goal == Goal::Text { 1 } else { installations.len() };
        for installation in installations.into_iter().take(count) {
            let tool = installed_compiler(compilation.line.language, installation.isa())?;
            let folder = compilation.scratch.path().join(installation.isa().name());
            fs::create_dir_all(&folder).map_err(file_error("write", &folder))?;
            match compilation.line.goal {
                Goal::Text => compilation.plan_text(&installation, tool)?,
                Goal::Objects => {
                    let sources: Vec<PathBuf> = compilation.line.sources().map(Path::to_owned).collect();
                    for source in sources {
                        let mut object = compilation.line.object_path_of(&source);
                        let isa = installation.isa();
                        if isa != compilation.first_isa() {
                            let build = foreign_object_path(&object, isa, compilation.scratch.path());
                            compilation.embedded.push((object, isa, build.clone()));
                            object = build;
                        }
                        compilation.plan_object(&installation, &tool, &source, object)?;
                    }
                }
                Goal::Program => compilation.plan_program(installation, tool)?,
            }
        }
        Ok(compilation)
    }

    /// Plans a command that prints text, such as preprocessed source or dependencies for make.
    fn plan_text(&mut self, installation: &Installation, tool: String) -> Result<(), CompileError> {
        let isa = installation.isa();
        let mut words = self.base_options(installation, &tool)?;
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

    /// Plans the compilation of one source to one object.
    fn plan_object(
        &mut self,
        installation: &Installation,
        tool: &str,
        source: &Path,
        object: PathBuf,
    ) -> Result<(), CompileError> {
        fs::metadata(source).map_err(file_error("read", source))?;
        let isa = installation.isa();
        let mut words = self.base_options(installation, tool)?;
        let only =
            |word: &Word| matches!(word, Word::Source(path) if path == source).then(|| source.to_owned());
        let first = isa == self.first_isa();
        words
            .extend(self.line.words_for(isa, first, only).into_iter().filter(|word| !is_linker_option(word)));
        let common = self.line.words.iter().any(|word| is_option(word, "-fcommon"));
        words.extend(layout_options(isa, common));
        words.extend(["-c", "-o"].map(str::to_owned));
        words.push(object.to_string_lossy().into_owned());
        self.runs.push(Run { isa, tool: tool.to_owned(), words, output: Some(object) });
        Ok(())
    }

    /// Plans a program: compiles sources to temporary objects, and collects the inputs of the link step.
    fn plan_program(&mut self, installation: Installation, tool: String) -> Result<(), CompileError> {
        let isa = installation.isa();
        let (mut parts, mut sources) = (Vec::new(), Vec::new());
        for (number, word) in self.line.words.clone().iter().enumerate() {
            match word {
                Word::Source(source) => {
                    let object = self.scratch.path().join(isa.name()).join(format!("source{number}.o"));
                    self.plan_object(&installation, &tool, source, object.clone())?;
                    sources.resize(parts.len(), None);
                    sources.push(Some(source.clone()));
                    parts.push(Part::Object(object));
                }
                Word::Object(path) => parts.push(self.resolve_file(path, isa)?),
                Word::Option(option) => {
                    if let Some(name) = library_name(option) {
                        parts.extend(self.resolve_library(name, isa)?);
                    }
                }
                Word::For(..) => {}
            }
        }
        let mut linker_arguments = self.line.words_for(isa, isa == self.first_isa(), |_| None);
        linker_arguments.retain(|word| word.starts_with("-Wl,"));
        self.builds.push(Build { installation, tool, parts, sources, linker_arguments });
        Ok(())
    }

    /// Resolves an existing object or archive to its build for `isa`.
    fn resolve_file(&self, path: &Path, isa: Isa) -> Result<Part, CompileError> {
        let found = extract_build(path, (isa, self.first_isa()), self.scratch.path(), COMMAND)?;
        let found = fs::canonicalize(&found).map_err(file_error("read", &found))?;
        let is_archive = found.extension().is_some_and(|extension| extension == "a");
        Ok(if is_archive { Part::Archive(found) } else { Part::Object(found) })
    }

    /// Resolves a library by name to an archive in one of the caller's `-L` folders.
    fn resolve_library(&self, name: &str, isa: Isa) -> Result<Option<Part>, CompileError> {
        if OWN_LIBRARIES.contains(&name) {
            return Ok(None);
        }
        let file = format!("lib{name}.a");
        let folders = self.line.options("-L");
        let found = folders.map(|folder| Path::new(folder).join(&file)).find(|path| path.exists());
        match found {
            Some(path) => self.resolve_file(&path, isa).map(Some),
            None => Err(CompileError::NoLibrary { name: name.to_owned() }),
        }
    }

    /// Returns the options that precede the caller's.
    fn base_options(&self, installation: &Installation, tool: &str) -> Result<Vec<String>, CompileError> {
        let mut words = common_options(self.request.colour);
        words.extend(["-nostdinc", "-D__TOMBOLO_OMPCC__=1"].map(str::to_owned));
        let mut folders =
            vec![installation.include_changed(), installation.include(), print_file_name(tool, "include")?];
        if self.line.language == Language::Cxx {
            words.extend(cxx::OPTIONS.map(str::to_owned));
            folders.splice(..0, cxx::header_folders(tool)?);
        }
        for folder in folders {
            words.extend(["-isystem".to_owned(), folder.to_string_lossy().into_owned()]);
        }
        Ok(words)
    }

    /// Returns the first options of the command line for generated code.
    fn thunk_options(&self, build: &Build) -> Result<migrate::CompilerOptions, CompileError> {
        let mut words = self.base_options(&build.installation, &build.tool)?;
        words.extend(layout_options(build.installation.isa(), false));
        let cxx = (self.line.language == Language::Cxx).then(|| words.clone());
        words.retain(|word| !cxx::OPTIONS.contains(&word.as_str()));
        Ok(migrate::CompilerOptions { c: words, cxx })
    }

    fn first_isa(&self) -> Isa {
        primary_isa(&self.isas())
    }

    fn isas(&self) -> Vec<Isa> {
        self.request.installations.iter().map(Installation::isa).collect()
    }

    /// Returns the compile commands, each with its instruction set, as they would be typed.
    #[must_use]
    pub fn commands(&self) -> Vec<(Isa, String)> {
        self.runs.iter().map(|run| (run.isa, run.command())).collect()
    }

    /// Compiles and links, in parallel for different instruction sets.
    ///
    /// # Errors
    /// [`CompileError`], except for errors that compilers and linkers report: those are in
    /// [`Outcome::failed`].
    pub fn run(&self) -> Result<Compiled, CompileError> {
        let is_cxx = self.line.language == Language::Cxx;
        let outcome = run_all(&self.runs, |run, mut output| {
            if is_cxx {
                cxx::explain_missing_streams(&mut output.stderr);
            }
            if output.status.success() && self.line.goal != Goal::Text {
                let number = self.runs.iter().position(|other| std::ptr::eq(other, run)).unwrap_or(0);
                let assembly = self.scratch.path().join(run.isa.name()).join(format!("again{number}.s"));
                if let Some(failed) = thread_locals::recompile(run, &assembly)? {
                    output = failed;
                }
            }
            Ok(output)
        })?;
        if outcome.failed.is_empty() {
            let first = self.first_isa();
            self.embedded
                .iter()
                .try_for_each(|(object, isa, build)| embed_build(object, first, *isa, build))?;
        }
        let mut compiled = Compiled { outcome, ..Compiled::default() };
        if self.line.goal == Goal::Program && compiled.outcome.failed.is_empty() {
            self.link(&mut compiled)?;
        }
        Ok(compiled)
    }

    /// Links all builds and creates the image.
    fn link(&self, compiled: &mut Compiled) -> Result<(), CompileError> {
        let keep_types = self.line.words.iter().any(
            |word| matches!(word, Word::Option(words) if words[0].starts_with("-g") && words[0] != "-g0"),
        );
        let mut builds = self.builds.clone();
        let words = builds.iter().map(|build| self.thunk_options(build));
        let words: Vec<migrate::CompilerOptions> = words.collect::<Result<_, _>>()?;
        migrate::add_thunks(&mut builds, &words, self.scratch.path(), &mut compiled.outcome)?;
        if !compiled.outcome.failed.is_empty() {
            return Ok(());
        }
        for build in &mut builds {
            if build.has_run_time()? {
                symbol_conflicts::rename_wrapped_functions(build, self.scratch.path())?;
            }
        }
        let linking = link::LinkStep {
            builds: &builds,
            scratch: self.scratch.path(),
            allow: &self.request.allow,
            keep_types,
        };
        let Some((programs, report)) = linking.run(&mut compiled.outcome)? else { return Ok(()) };
        compiled.image = pack(self.line.output.as_deref(), self.first_isa(), programs)?;
        compiled.report = Some(report);
        Ok(())
    }
}

/// Returns the options that follow the caller's. `common` keeps variables without a value common, as the
/// caller requested.
fn layout_options(isa: Isa, common: bool) -> Vec<String> {
    let words = LAYOUT_OPTIONS.iter().filter(|word| !(common && **word == "-fno-common"));
    // Inline atomics: the library functions would choose instructions by the processor at run time.
    let atomics = (isa == Isa::Aarch64).then_some(&"-mno-outline-atomics");
    let pointer = (isa == Isa::X86_64).then_some(&thread_locals::SEPARATE_POINTER_LOAD);
    words.chain(atomics).chain(pointer).map(|word| (*word).to_owned()).collect()
}

/// Refuses options that are incompatible with equal addresses.
fn check(line: &CommandLine) -> Result<(), CompileError> {
    if line.goal == Goal::Text {
        return Ok(());
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

/// Returns the library that an option names.
fn library_name(option: &[String]) -> Option<&str> {
    match option {
        [word, name] if word == "-l" => Some(name),
        [word] => word.strip_prefix("-l").filter(|name| !name.is_empty()),
        _ => None,
    }
}

fn is_option(word: &Word, option: &str) -> bool {
    matches!(word, Word::Option(words) if words[0] == option)
}

/// Returns whether an option is for the linker, which compile commands do not run.
fn is_linker_option(word: &str) -> bool {
    word.starts_with("-Wl,") || word.starts_with("-l") || word == "-static" || word == "-no-pie"
}

/// Returns the path of one of the compiler's own files.
fn print_file_name(tool: &str, name: &str) -> Result<PathBuf, CompileError> {
    let output = start(Command::new(tool).arg(format!("-print-file-name={name}")))?;
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}
