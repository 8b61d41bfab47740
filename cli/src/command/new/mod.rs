//! `tombolo new`

mod draft;
mod name;
mod templates;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use tombolo_cli_common::programs::{installed_folder, own_source_tree};

use crate::context::Context;
use crate::failure::Failure;
use draft::Draft;
use templates::{Values, fill_template};

/// Creates a project: a small program that builds and runs at once
///
/// The default program sends a message back and forth between two nodes. Programs in Rust, C and Go are built
/// into an image for all nodes. One in Python needs no image: `tombolo run` starts the interpreter on nodes
/// that have it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo new hello                        in Rust: ping-pong between two nodes
  tombolo new hello --lang c               in C
  tombolo new hello --lang go              in Go
  tombolo new greetings --typed            a typed service and its clients, with an interface file
  tombolo new frames --pipeline            three stages that buffers go through, without a copy
  tombolo new greetings --typed --lang python

What to type next:
  cd hello
  tombolo up
  tombolo build
  tombolo run --on host,arm0 hello.tbi")]
pub(crate) struct Options {
    /// The name of the project, its folder and its program: letters, digits, `-` and `_`
    #[arg(value_parser = name::validate)]
    name: String,

    /// The programming language
    #[arg(long, visible_alias = "language", default_value = "rust")]
    lang: Language,

    /// A typed service and its clients, with an interface file
    #[arg(long, conflicts_with = "pipeline")]
    typed: bool,

    /// A pipeline whose stages pass buffers on without copying them
    #[arg(long)]
    pipeline: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Language {
    Rust,
    C,
    Go,
    Python,
}

/// Variant of the example program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flavour {
    Plain,
    Typed,
    Pipeline,
}

impl Options {
    fn flavour(&self) -> Flavour {
        match (self.typed, self.pipeline) {
            (true, _) => Flavour::Typed,
            (_, true) => Flavour::Pipeline,
            _ => Flavour::Plain,
        }
    }
}

impl Language {
    fn name(self) -> &'static str {
        match self {
            Language::Rust => "Rust",
            Language::C => "C",
            Language::Go => "Go",
            Language::Python => "Python",
        }
    }

    /// Returns the commands that build and run the program.
    fn steps(self, flavour: Flavour, name: &str) -> Vec<String> {
        if self == Language::Python {
            let count = if flavour == Flavour::Pipeline { 3 } else { 2 };
            return vec![
                // The interpreter itself: `python3` may be a script, which does not run as a domain.
                "python=$(python3 -c 'import sys; print(sys.executable)')".to_owned(),
                format!("tombolo run --on host:{count} \"$python\" main.py"),
            ];
        }
        let nodes = if flavour == Flavour::Pipeline { "host,arm0,host" } else { "host,arm0" };
        let run = format!("tombolo run --on {nodes} {name}.tbi");
        vec!["tombolo up".to_owned(), "tombolo build".to_owned(), run]
    }
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let (language, flavour, name) = (options.lang, options.flavour(), options.name.as_str());
    if (language, flavour) == (Language::Go, Flavour::Pipeline) {
        return Err(Failure::Usage {
            message: "a pipeline passes buffers on, which programs in Go do not have".to_owned(),
            hint: Some("choose rust, c or python"),
        });
    }
    let sources = Sources::find()?;
    let crates = match (language, &sources) {
        (Language::Rust | Language::Go, None) => return Sources::missing(language),
        (Language::Rust | Language::Go, Some(sources)) => Some(sources),
        (Language::C | Language::Python, _) => None,
    };
    let python = Sources::python(sources.as_ref());
    let rust = crates.map(|crates| crates.root.to_string_lossy()).unwrap_or_default();
    let steps = language.steps(flavour, name);
    let values = Values { name, rust: &rust, python: &python, steps: &steps };
    let draft = Draft::new(Path::new(name))?;
    for (path, text) in templates::files(language, flavour) {
        draft.write(path, &fill_template(text, &values))?;
    }
    if (language, flavour) == (Language::Go, Flavour::Typed) {
        draft.write("greeter/greeter.go", &templates::stubs_in_go()?)?;
    }
    draft.write("README.md", &templates::readme(language, flavour, &values))?;
    draft.write(".gitignore", templates::gitignore(language))?;
    if let (Language::Rust, Some(crates)) = (language, crates) {
        crates.copy_lock(&draft)?;
    }
    draft.finish()?;
    let mut summary =
        format!("made {name}, a program in {}; to build and run it:\n  cd {name}", language.name());
    if language == Language::Python {
        summary.push_str(&format!("\n  pip install {python}    # once, in a virtual environment"));
    }
    steps.iter().for_each(|step| summary.push_str(&format!("\n  {step}")));
    context.info(summary);
    Ok(())
}

/// Location of the crates and the packages for Go and Python that a project depends on: the source tree that
/// this command was built in, or its installation. They are in no registry, and have this command's version.
struct Sources {
    root: PathBuf,
}

impl Sources {
    /// Path below an installation's prefix.
    const INSTALLED: &str = "share/tombolo/rust";

    /// Finds the sources; `None` if only a package for Python is installed.
    fn find() -> Result<Option<Sources>, Failure> {
        let places = own_source_tree()?.into_iter().chain([installed_folder(Self::INSTALLED)?]);
        Ok(places.into_iter().find(|root| has_crate(root)).map(|root| Sources { root }))
    }

    /// Reports that the dependencies of a project are missing.
    fn missing(language: Language) -> Result<(), Failure> {
        let installed = installed_folder(Self::INSTALLED)?;
        Err(Failure::Usage {
            message: format!(
                "the {} `tombolo`, which projects in {} depend on, is not in {}",
                if language == Language::Go { "module" } else { "crate" },
                language.name(),
                installed.display()
            ),
            hint: Some("install the whole package, or use the command that was built in the source tree"),
        })
    }

    /// Returns the argument for pip to install.
    fn python(sources: Option<&Sources>) -> String {
        let package = sources.map(|sources| sources.root.join("runtime/python"));
        match package.filter(|package| package.join("pyproject.toml").is_file()) {
            Some(package) => package.to_string_lossy().into_owned(),
            None => format!("tombolo=={}", env!("CARGO_PKG_VERSION")),
        }
    }

    /// Copies the lock file with the versions that Tombolo is tested with; cargo drops unused entries.
    fn copy_lock(&self, draft: &Draft) -> Result<(), Failure> {
        let lock = self.root.join("Cargo.lock");
        match std::fs::read_to_string(&lock) {
            Ok(text) => draft.write("Cargo.lock", &text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Failure::system(format!("read {}", lock.display()))(error)),
        }
    }
}

fn has_crate(root: &Path) -> bool {
    root.join("runtime/tombolo/Cargo.toml").is_file()
}
