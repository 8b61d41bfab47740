//! `tombolo idl`

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use tombolo_idl::c::{self, COptions};
use tombolo_idl::compatibility::{Verdict, compare, verdict};
use tombolo_idl::go::{self, GoOptions};
use tombolo_idl::python::{self, PythonOptions};
use tombolo_idl::rust::owned::{self, Held, OwnedOptions};
use tombolo_idl::rust::{RUNTIME, RustOptions, generate};
use tombolo_idl::{Compiled, FileError, Mistakes, Source, compile_file};

use crate::context::{Context, print};
use crate::failure::Failure;

/// Compiles, formats, compares and documents interface files
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo idl compile interfaces/kv.tbl --output src/kv.rs       write the stubs in Rust
  tombolo idl compile interfaces/kv.tbl --lang c -o kv.h         write them in C
  tombolo idl compile interfaces/kv.tbl --lang python -o kv.py   write them in Python
  tombolo idl compile interfaces/kv.tbl --lang go -o kv/kv.go    write them in Go
  tombolo idl fmt interfaces/kv.tbl                              format it
  tombolo idl check old/kv.tbl interfaces/kv.tbl                 do old peers still work?")]
pub(crate) struct Options {
    #[command(subcommand)]
    command: IdlCommand,
}

#[derive(Subcommand, Debug)]
enum IdlCommand {
    Compile(CompileOptions),
    Fmt(FmtOptions),
    Check(CheckOptions),
    Doc(DocOptions),
}

/// Writes the stubs of an interface file
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo idl compile interfaces/kv.tbl
  tombolo idl compile interfaces/kv.tbl --output src/kv.rs
  tombolo idl compile interfaces/kv.tbl --lang c --output kv.h --prefix store_
  tombolo idl compile machine.tbl --lang rust-owned --hold Duration=core::time::Duration --hold Attribute=map")]
struct CompileOptions {
    /// The interface file
    file: PathBuf,

    /// The language of the stubs
    #[arg(long, visible_alias = "language", default_value = "rust")]
    lang: Language,

    /// The file to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// The module path of the Rust run-time, for a crate that does not depend on `tombolo`
    #[arg(long, value_name = "PATH", default_value = RUNTIME)]
    runtime: String,

    /// Write the dependencies of the stubs to this file, in the syntax of make
    #[arg(long, value_name = "FILE", requires = "output")]
    depfile: Option<PathBuf>,

    /// How a type is held in owned Rust types: `pair` for a struct of two fields, `map` for lists of such a
    /// struct, or the path of a Rust type that replaces it
    #[arg(long, value_name = "TYPE=HOW", value_parser = parse_held_type)]
    hold: Vec<(String, Held)>,

    /// The prefix of names in C [default: the last word of the package and `_`]
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,

    /// The package in Go [default: the last word of the interface file's package]
    #[arg(long, value_name = "NAME")]
    package: Option<String>,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Language {
    /// A module
    Rust,
    /// A module of owned types, without clients and servers
    RustOwned,
    /// A header
    C,
    /// A module
    Python,
    /// A file of a package
    Go,
}

impl CompileOptions {
    /// Returns an option that has no effect on stubs in the selected language, and a language for it.
    fn misplaced(&self) -> Option<(&'static str, &'static str)> {
        let is_rust = matches!(self.lang, Language::Rust | Language::RustOwned);
        let checks = [
            (self.prefix.is_some() && !matches!(self.lang, Language::C), "--prefix", "c"),
            (self.package.is_some() && !matches!(self.lang, Language::Go), "--package", "go"),
            (!self.hold.is_empty() && !matches!(self.lang, Language::RustOwned), "--hold", "rust-owned"),
            (self.runtime != RUNTIME && !is_rust, "--runtime", "rust"),
        ];
        checks.into_iter().find_map(|(is_misplaced, option, lang)| is_misplaced.then_some((option, lang)))
    }
}

fn parse_held_type(text: &str) -> Result<(String, Held), String> {
    let (name, how) = text.split_once('=').ok_or("say it as TYPE=HOW")?;
    Ok((name.to_owned(), how.parse().unwrap_or_else(|never| match never {})))
}

/// Formats interface files
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo idl fmt interfaces/kv.tbl
  tombolo idl fmt --check interfaces/kv.tbl interfaces/everything.tbl")]
struct FmtOptions {
    /// The interface files
    #[arg(required = true)]
    files: Vec<PathBuf>,

    /// Change nothing; exit with status 1 if a file is not formatted
    #[arg(long)]
    check: bool,
}

/// Compares two versions of an interface file: do old peers still work?
///
/// Exits with status 1 if old and new programs would misunderstand each other. An incompatible change is
/// allowed together with a higher version of the interface: the programs then refuse to connect.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo idl check old/kv.tbl interfaces/kv.tbl")]
struct CheckOptions {
    /// The old file
    old: PathBuf,

    /// The new file
    new: PathBuf,
}

/// Writes the reference of an interface file, as a page of Markdown
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo idl doc interfaces/kv.tbl
  tombolo idl doc interfaces/kv.tbl --output docs/kv.md")]
struct DocOptions {
    /// The interface file
    file: PathBuf,

    /// The file to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<u8, Failure> {
    match &options.command {
        IdlCommand::Compile(options) => compile(context, options),
        IdlCommand::Fmt(options) => format(context, options),
        IdlCommand::Check(options) => check(context, options),
        IdlCommand::Doc(options) => document(context, options),
    }
}

fn compile(context: &Context, options: &CompileOptions) -> Result<u8, Failure> {
    if let Some((option, lang)) = options.misplaced() {
        return Err(Failure::Usage {
            message: format!("{option} has no effect on stubs in this language; it is for --lang {lang}"),
            hint: None,
        });
    }
    let Compiled { model, files } = read(context, &options.file)?;
    let origin = options.file.to_string_lossy().into_owned();
    let stubs = match options.lang {
        Language::Rust => generate(&model, &RustOptions { runtime: options.runtime.clone(), origin })
            .map_err(|taken| Failure::Interface(format!("error: {taken}")))?,
        Language::RustOwned => {
            let held = options.hold.iter().cloned().collect();
            owned::generate(&model, &OwnedOptions { runtime: options.runtime.clone(), origin, held })
                .map_err(|error| Failure::Interface(format!("error: {error}")))?
        }
        Language::C => c::generate(&model, &COptions { prefix: options.prefix.clone(), origin })
            .map_err(|error| Failure::Interface(format!("error: {error}")))?,
        Language::Python => python::generate(&model, &PythonOptions { origin })
            .map_err(|taken| Failure::Interface(format!("error: {taken}")))?,
        Language::Go => {
            let package = options.package.clone();
            go::generate(&model, &GoOptions { origin, package, only: None })
                .map_err(|error| Failure::Interface(format!("error: {error}")))?
        }
    };
    match &options.output {
        None => print(stubs)?,
        Some(path) => {
            fs::write(path, stubs).map_err(write_failure(path))?;
            if let Some(depfile) = &options.depfile {
                fs::write(depfile, make_rule(path, &files)).map_err(write_failure(depfile))?;
            }
            context.info(format!("wrote {}", path.display()));
        }
    }
    Ok(0)
}

/// Formats dependencies in the syntax of make: when one of the files changes the stubs are stale. A missing
/// file is not an error.
fn make_rule(stubs: &Path, files: &[PathBuf]) -> String {
    let escaped =
        |path: &Path| path.to_string_lossy().replace('$', "$$").replace('#', "\\#").replace(' ', "\\ ");
    let all: Vec<String> = files.iter().map(|path| escaped(path)).collect();
    let gone: String = all.iter().map(|path| format!("{path}:\n")).collect();
    format!("{}: {}\n{gone}", escaped(stubs), all.join(" "))
}

fn document(context: &Context, options: &DocOptions) -> Result<u8, Failure> {
    let model = read(context, &options.file)?.model;
    let page = tombolo_idl::document::markdown(&model, &options.file.to_string_lossy());
    match &options.output {
        None => print(page)?,
        Some(path) => {
            fs::write(path, page).map_err(write_failure(path))?;
            context.info(format!("wrote {}", path.display()));
        }
    }
    Ok(0)
}

fn format(context: &Context, options: &FmtOptions) -> Result<u8, Failure> {
    let mut different = 0;
    for path in &options.files {
        let text = fs::read_to_string(path).map_err(Failure::unreadable(path))?;
        let tidy = tombolo_idl::format(&text)
            .map_err(|mistakes| interface_failure(context, path, &text, &mistakes))?;
        if tidy == text {
            continue;
        }
        if options.check {
            different = 1;
            print(format!("{} is not formatted; `tombolo idl fmt` formats it\n", path.display()))?;
        } else {
            fs::write(path, tidy).map_err(write_failure(path))?;
            context.info(format!("wrote {}", path.display()));
        }
    }
    Ok(different)
}

fn check(context: &Context, options: &CheckOptions) -> Result<u8, Failure> {
    let changes = compare(&read(context, &options.old)?.model, &read(context, &options.new)?.model);
    for change in &changes {
        let word = match change.verdict {
            Verdict::Compatible => "compatible",
            Verdict::Versioned => "versioned",
            Verdict::Breaking => "BREAKING",
        };
        print(format!("{word:<10}  {}: {}\n", change.place, change.what))?;
    }
    let (summary, status) = match verdict(&changes) {
        Verdict::Compatible => ("older peers continue to work", 0),
        Verdict::Versioned => ("older peers are refused when they connect: the version differs", 0),
        Verdict::Breaking => (
            "older peers would misinterpret messages: revert the BREAKING changes, or increase the version",
            1,
        ),
    };
    context.info(summary);
    Ok(status)
}

/// Reads an interface file; mistakes are rendered with their source lines.
pub(super) fn read(context: &Context, path: &Path) -> Result<Compiled, Failure> {
    match compile_file(path) {
        Ok(compiled) => Ok(compiled),
        Err(FileError::File { path, error }) => Err(Failure::unreadable(path)(error)),
        Err(FileError::Mistakes(mistakes)) => Err(Failure::Interface(mistakes.render(context.colour_errors))),
        Err(other) => Err(Failure::Interface(other.to_string())),
    }
}

/// Renders mistakes with their source lines.
fn interface_failure(context: &Context, path: &Path, text: &str, mistakes: &Mistakes) -> Failure {
    let source = Source { path: &path.to_string_lossy(), text };
    Failure::Interface(mistakes.render(&source, context.colour_errors))
}

fn write_failure(path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    Failure::system(format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depfile_lists_the_sources_of_stubs() {
        let rule = make_rule(Path::new("out/kv.h"), &["a b.tbl".into(), "c$#.tbl".into()]);
        assert_eq!(rule, "out/kv.h: a\\ b.tbl c$$\\#.tbl\na\\ b.tbl:\nc$$\\#.tbl:\n");
    }
}
