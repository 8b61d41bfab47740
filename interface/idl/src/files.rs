//! Compilation of files that include other files.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use crate::ast::{Body, File};
use crate::check;
use crate::diagnostic::{Diagnostic, Mistakes, Source};
use crate::model::Model;
use crate::parser;

/// Maximum number of files read for one compilation.
const MAX_FILES: usize = 256;

/// Error of compiling a file and the files that it includes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file could not be read.
    #[error("{}: {error}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The file, or one that it includes, has mistakes.
    #[error("{0}")]
    Mistakes(FileMistakes),
}

/// Mistakes, with the sources that they refer to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileMistakes {
    mistakes: Mistakes,
    sources: Vec<Text>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Text {
    /// Offset in the concatenation of all texts.
    base: usize,
    path: String,
    text: String,
}

impl FileMistakes {
    /// Renders all mistakes for a terminal, each with its file and line.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let sources = self.sources.iter().map(|Text { base, path, text }| (*base, Source { path, text }));
        self.mistakes.render_among(&sources.collect::<Vec<_>>(), colour)
    }
}

impl std::fmt::Display for FileMistakes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.render(false))
    }
}

/// Model of a compiled file, and the files that were read for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compiled {
    /// Model of the file.
    pub model: Model,
    /// Paths of the file and of all files that it includes. The model depends on all of them.
    pub files: Vec<PathBuf>,
}

/// Compiles a file, with the types and constants of the files that it includes.
///
/// # Errors
/// [`FileError`] if the file cannot be read, or if it or an included file has mistakes. An included file that
/// cannot be read is a mistake of the file that includes it.
pub fn compile_file(path: impl AsRef<Path>) -> Result<Compiled, FileError> {
    let path = path.as_ref();
    let mut reader = Reader::default();
    let text = fs::read_to_string(path).map_err(|error| FileError::File { path: path.to_owned(), error })?;
    let model = match reader.read(path, text, false) {
        Some(file) if reader.mistakes.is_empty() => {
            let declarations = std::mem::take(&mut reader.included).into_iter().chain(file.declarations);
            check::check(&File { declarations: declarations.collect(), ..file })
        }
        _ => Err(std::mem::take(&mut reader.mistakes)),
    };
    let Reader { sources, files, packages, .. } = reader;
    match model {
        Ok(model) => Ok(Compiled { model: Model { packages, ..model }, files }),
        Err(mistakes) => {
            Err(FileError::Mistakes(FileMistakes { mistakes: Mistakes::sorted(mistakes), sources }))
        }
    }
}

#[derive(Default)]
struct Reader {
    sources: Vec<Text>,
    files: Vec<PathBuf>,
    /// Files read so far; `false` for those whose includes are still being read.
    done: BTreeMap<PathBuf, bool>,
    /// Declarations of completed included files, each file after those that it includes.
    included: Vec<crate::ast::Declaration>,
    /// Package of each included file, by file stem.
    packages: BTreeMap<String, String>,
    mistakes: Vec<Diagnostic>,
}

impl Reader {
    /// Parses a file and the files that it includes. Returns the file if it is the one to compile; adds the
    /// declarations of an included file to `included`.
    fn read(&mut self, path: &Path, text: String, is_included: bool) -> Option<File> {
        let name = normal(path);
        self.done.insert(name.clone(), false);
        self.files.push(path.to_owned());
        let base = self.sources.last().map_or(0, |last| last.base + last.text.len() + 1);
        let parsed = parser::parse_at(&text, base);
        self.sources.push(Text { base, path: path.to_string_lossy().into_owned(), text });
        let file = match parsed {
            Ok(file) => file,
            Err(mistakes) => {
                self.mistakes.extend(mistakes);
                return None;
            }
        };
        for used in &file.uses {
            if let Err(mistake) = self.include(path, used) {
                self.mistakes.push(mistake);
            }
        }
        self.done.insert(name, true);
        if !is_included {
            return Some(file);
        }
        let module = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        self.packages.extend(module.clone().zip(file.package.as_ref().map(|name| name.text.clone())));
        let visible =
            |declaration: &crate::ast::Declaration| !matches!(declaration.body, Body::Interface { .. });
        self.included.extend(
            file.declarations
                .into_iter()
                .filter(visible)
                .map(|declaration| crate::ast::Declaration { module: module.clone(), ..declaration }),
        );
        None
    }

    fn include(&mut self, from: &Path, used: &crate::ast::Name) -> Result<(), Diagnostic> {
        let path = from.with_file_name("").join(&used.text);
        let wrong = |message: String, label: &str| Diagnostic::new(&used.span, message, label);
        match self.done.get(&normal(&path)) {
            Some(true) => return Ok(()),
            Some(false) => {
                return Err(wrong(format!("`{}` includes itself", used.text), "the cycle closes here")
                    .hint("move what both need to a third file"));
            }
            None => {}
        }
        if self.sources.len() >= MAX_FILES {
            return Err(wrong(format!("more than {MAX_FILES} files are included"), "one too many")
                .hint("merge some of them"));
        }
        let text = fs::read_to_string(&path).map_err(|error| {
            wrong(format!("cannot read {}: {error}", path.display()), "included here")
                .hint("paths start at the folder of the file that includes")
        })?;
        self.read(&path, text, true);
        Ok(())
    }
}

/// Removes `.` from a path, and `..` after a normal component. Does not resolve symbolic links.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if normal.file_name().is_some() => {
                normal.pop();
            }
            component => normal.push(component),
        }
    }
    normal
}
