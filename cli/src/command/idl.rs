//! `tombolo idl`

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use tombolo_idl::c::{self, COptions};
use tombolo_idl::compatibility::{Verdict, compare, verdict};
use tombolo_idl::rust::{RustOptions, generate};
use tombolo_idl::{FileError, Mistakes, Model, Source, compile_file};

use crate::context::{Context, print};
use crate::failure::Failure;

/// Compiles interface files, formats them and compares them
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo idl compile interfaces/kv.tbl --output src/kv.rs   write the stubs in Rust
  tombolo idl compile interfaces/kv.tbl --lang c -o kv.h     write them in C
  tombolo idl fmt interfaces/kv.tbl                          write the file as it should be written
  tombolo idl check old/kv.tbl interfaces/kv.tbl             do peers of before go on working?")]
pub(crate) struct Options {
    #[command(subcommand)]
    command: IdlCommand,
}

#[derive(Subcommand, Debug)]
enum IdlCommand {
    Compile(CompileOptions),
    Fmt(FmtOptions),
    Check(CheckOptions),
}

/// Writes stubs
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo idl compile interfaces/kv.tbl
  tombolo idl compile interfaces/kv.tbl --output src/kv.rs --runtime tombolo::interface
  tombolo idl compile interfaces/kv.tbl --lang c --output kv.h --prefix store_")]
struct CompileOptions {
    /// The interface file
    file: PathBuf,

    /// The language of the stubs
    #[arg(long, visible_alias = "language", default_value = "rust")]
    lang: Language,

    /// Where to write them; to the terminal if it is not said
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Path of what stubs stand on, in the crate that they are part of
    #[arg(long, value_name = "PATH", default_value = "tombolo_interface")]
    runtime: String,

    /// What names in C begin with [default: the last word of the package and `_`]
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Language {
    /// A module
    Rust,
    /// A header
    C,
}

/// Writes interface files as they should be written
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo idl fmt interfaces/kv.tbl
  tombolo idl fmt --check interfaces/kv.tbl interfaces/everything.tbl")]
struct FmtOptions {
    /// The files
    #[arg(required = true)]
    files: Vec<PathBuf>,

    /// Write nothing; end with status 1 if a file is written otherwise
    #[arg(long)]
    check: bool,
}

/// Says what changed between two versions of a file, and whether peers of before go on working
///
/// Ends with status 1 if they would misunderstand each other. A change that breaks them is allowed when the version
/// of the interface grows: they are then refused when they connect.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo idl check old/kv.tbl interfaces/kv.tbl")]
struct CheckOptions {
    /// The file as it was
    old: PathBuf,

    /// The file as it is
    new: PathBuf,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<u8, Failure> {
    match &options.command {
        IdlCommand::Compile(options) => compile(context, options),
        IdlCommand::Fmt(options) => format(context, options),
        IdlCommand::Check(options) => check(context, options),
    }
}

fn compile(context: &Context, options: &CompileOptions) -> Result<u8, Failure> {
    let model = read(context, &options.file)?;
    let origin = options.file.to_string_lossy().into_owned();
    let stubs = match options.lang {
        Language::Rust => generate(&model, &RustOptions { runtime: options.runtime.clone(), origin })
            .map_err(|taken| Failure::Interface(format!("error: {taken}")))?,
        Language::C => c::generate(&model, &COptions { prefix: options.prefix.clone(), origin })
            .map_err(|error| Failure::Interface(format!("error: {error}")))?,
    };
    match &options.output {
        None => print(stubs)?,
        Some(path) => {
            fs::write(path, stubs).map_err(failed("write", path))?;
            context.say(format!("wrote {}", path.display()));
        }
    }
    Ok(0)
}

fn format(context: &Context, options: &FmtOptions) -> Result<u8, Failure> {
    let mut different = 0;
    for path in &options.files {
        let text = fs::read_to_string(path).map_err(failed("read", path))?;
        let tidy = tombolo_idl::format(&text).map_err(|mistakes| shown(context, path, &text, &mistakes))?;
        if tidy == text {
            continue;
        }
        if options.check {
            different = 1;
            print(format!("{} is written otherwise\n", path.display()))?;
        } else {
            fs::write(path, tidy).map_err(failed("write", path))?;
            context.say(format!("wrote {}", path.display()));
        }
    }
    Ok(different)
}

fn check(context: &Context, options: &CheckOptions) -> Result<u8, Failure> {
    let changes = compare(&read(context, &options.old)?, &read(context, &options.new)?);
    for change in &changes {
        let word = match change.verdict {
            Verdict::Compatible => "compatible",
            Verdict::Versioned => "versioned",
            Verdict::Breaking => "BREAKING",
        };
        print(format!("{word:<10}  {}: {}\n", change.place, change.what))?;
    }
    let (summary, status) = match verdict(&changes) {
        Verdict::Compatible => ("peers of before go on working", 0),
        Verdict::Versioned => ("peers of before are refused when they connect: the version is another", 0),
        Verdict::Breaking => {
            ("peers of before would misunderstand: undo what is BREAKING, or let the version grow", 1)
        }
    };
    context.say(summary);
    Ok(status)
}

fn read(context: &Context, path: &Path) -> Result<Model, Failure> {
    match compile_file(path) {
        Ok(compiled) => Ok(compiled.model),
        Err(FileError::File { path, error }) => Err(failed("read", &path)(error)),
        Err(FileError::Mistakes(mistakes)) => Err(Failure::Interface(mistakes.render(context.colour_errors))),
        Err(other) => Err(Failure::Interface(other.to_string())),
    }
}

/// Mistakes as they are drawn.
fn shown(context: &Context, path: &Path, text: &str, mistakes: &Mistakes) -> Failure {
    let source = Source { path: &path.to_string_lossy(), text };
    Failure::Interface(mistakes.render(&source, context.colour_errors))
}

fn failed(verb: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    let operation = format!("{verb} {}", path.display());
    move |source| Failure::System { operation, source }
}
