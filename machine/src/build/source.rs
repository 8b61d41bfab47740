//! Determines the program to build from paths.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::BuildError;

/// Source of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// A program of a cargo package.
    Rust {
        /// Manifest (`Cargo.toml`) of the package or workspace.
        manifest: PathBuf,
        /// Selected program of the package.
        program: RustProgram,
    },
    /// A program in C.
    C(CProgram),
    /// A program in Go.
    Go(GoProgram),
}

/// Selection among the programs of a cargo package.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum RustProgram {
    /// The only binary, or the one that `default-run` names.
    #[default]
    Default,
    /// The binary of that name.
    Bin(String),
    /// The example of that name.
    Example(String),
}

/// Files of one C program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CProgram {
    /// Name of the program, derived from its folder or its first C file.
    pub name: String,
    /// C files, at least one.
    pub files: Vec<PathBuf>,
    /// Interface files, whose headers the C files include.
    pub interfaces: Vec<PathBuf>,
}

/// A Go package that is a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GoProgram {
    /// Name of the program, derived from its folder.
    pub name: String,
    /// Folder of the package, in or below that of its `go.mod`.
    pub folder: PathBuf,
}

impl Source {
    /// Detects the type of a program from its paths: a package folder, a `Cargo.toml`, a folder with files in
    /// Go or C, or one or more `.c` files with the `.tbl` files that they use. `program` selects among the
    /// programs of a package.
    ///
    /// # Errors
    /// [`BuildError::NoSuchFile`], [`BuildError::NothingInFolder`], or [`BuildError::UnknownSource`] with the
    /// alternatives.
    pub fn detect(paths: &[PathBuf], program: RustProgram) -> Result<Source, BuildError> {
        if let Some(path) = paths.iter().find(|path| !path.exists()) {
            return Err(BuildError::NoSuchFile { path: path.clone() });
        }
        match paths {
            [path] if path.join("Cargo.toml").is_file() => {
                Ok(Source::Rust { manifest: path.join("Cargo.toml"), program })
            }
            [path] if path.is_file() && path.ends_with("Cargo.toml") => {
                Ok(Source::Rust { manifest: path.clone(), program })
            }
            [path] if path.is_dir() => detect_in_folder(path),
            _ => detect_from_files(paths),
        }
    }
}

/// Returns whether a path has this extension.
fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension() == Some(OsStr::new(extension))
}

/// Returns a package of Go, or the C files and interface files of a folder; subfolders are ignored.
fn detect_in_folder(folder: &Path) -> Result<Source, BuildError> {
    let unreadable = |source| BuildError::Read { path: folder.to_owned(), source };
    let entries = fs::read_dir(folder).map_err(unreadable)?.collect::<Result<Vec<_>, _>>();
    let mut paths: Vec<PathBuf> = entries.map_err(unreadable)?.iter().map(|entry| entry.path()).collect();
    paths.sort();
    let of = |extension: &str| -> Vec<PathBuf> {
        paths.iter().filter(|path| has_extension(path, extension) && path.is_file()).cloned().collect()
    };
    let real = folder.canonicalize().map_err(unreadable)?;
    let name = real.file_name().and_then(OsStr::to_str).unwrap_or("program").to_owned();
    if !of("go").is_empty() {
        return Ok(Source::Go(GoProgram { name, folder: folder.to_owned() }));
    }
    let files = of("c");
    if files.is_empty() {
        return Err(BuildError::NothingInFolder {
            folder: folder.to_owned(),
            has_python: !of("py").is_empty(),
        });
    }
    Ok(Source::C(CProgram { name, files, interfaces: of("tbl") }))
}

fn detect_from_files(paths: &[PathBuf]) -> Result<Source, BuildError> {
    let known = |path: &&PathBuf| path.is_file() && (has_extension(path, "c") || has_extension(path, "tbl"));
    if let Some(path) = paths.iter().find(|path| !known(path)) {
        return Err(BuildError::UnknownSource { path: Some(path.clone()) });
    }
    let (files, interfaces): (Vec<_>, Vec<_>) =
        paths.iter().cloned().partition(|path| has_extension(path, "c"));
    let Some(first) = files.first() else {
        return Err(BuildError::UnknownSource { path: paths.first().cloned() });
    };
    let name = first.file_stem().and_then(OsStr::to_str).unwrap_or("program").to_owned();
    Ok(Source::C(CProgram { name, files, interfaces }))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str, files: &[&str]) -> Folder {
            let path = std::env::temp_dir().join(format!("tombolo-source-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            files.iter().for_each(|file| fs::write(path.join(file), "").unwrap());
            Folder(path)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn detect(paths: &[PathBuf]) -> Result<Source, String> {
        Source::detect(paths, RustProgram::Default).map_err(|error| error.to_string())
    }

    #[test]
    fn package_is_detected_by_its_manifest() {
        let package = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let manifest = package.join("Cargo.toml");
        let rust = Source::Rust { manifest: manifest.clone(), program: RustProgram::Default };
        for path in [package, manifest] {
            assert_eq!(detect(&[path]).unwrap(), rust);
        }
    }

    #[test]
    fn a_folder_with_c_files_is_a_program_of_all_of_them() {
        let folder = Folder::new("c", &["util.c", "main.c", "echo.tbl", "README.md", "util.h"]);
        let name = folder.0.file_name().unwrap().to_str().unwrap().to_owned();
        let Ok(Source::C(program)) = detect(std::slice::from_ref(&folder.0)) else { panic!("it is in C") };
        assert_eq!(program.name, name);
        assert_eq!(program.files, [folder.path("main.c"), folder.path("util.c")]);
        assert_eq!(program.interfaces, [folder.path("echo.tbl")]);
        let Ok(Source::C(program)) = detect(&[folder.path("echo.tbl"), folder.path("util.c")]) else {
            panic!("it is in C")
        };
        assert_eq!((program.name.as_str(), program.interfaces.len()), ("util", 1));
    }

    #[test]
    fn a_folder_with_go_files_is_a_package_of_go() {
        let folder = Folder::new("go", &["main.go", "go.mod", "greeter.tbl"]);
        let name = folder.0.file_name().unwrap().to_str().unwrap().to_owned();
        let program = GoProgram { name, folder: folder.0.clone() };
        assert_eq!(detect(std::slice::from_ref(&folder.0)).unwrap(), Source::Go(program));
        assert!(detect(&[folder.path("main.go")]).unwrap_err().contains("the folder of its package"));
    }

    #[test]
    fn unbuildable_source_is_refused_with_a_hint() {
        let folder = Folder::new("none", &["main.cpp", "main.rs", "main.py", "echo.tbl", "page.html"]);
        let empty = Folder::new("empty", &["README.md"]);
        let error = |names: &[&str]| {
            let paths: Vec<PathBuf> = names.iter().map(|name| folder.path(name)).collect();
            detect(&paths).unwrap_err()
        };
        assert!(detect(&["/nonexistent.c".into()]).unwrap_err().starts_with("there is no /nonexistent.c"));
        assert!(
            detect(std::slice::from_ref(&empty.0))
                .unwrap_err()
                .contains("neither a Cargo.toml nor files in C or Go")
        );
        assert!(detect(std::slice::from_ref(&folder.0)).unwrap_err().contains("Python needs no image"));
        assert!(error(&["main.cpp"]).contains("`tombolo image pack`"));
        assert!(error(&["main.rs"]).contains("Cargo.toml"));
        assert!(error(&["main.py"]).contains("Python needs no image"));
        assert!(error(&["echo.tbl"]).contains("with the .c files"));
        for text in [error(&["page.html"]), detect(&[]).unwrap_err()] {
            assert!(
                text.ends_with("a package folder, a Cargo.toml, a folder with files in C or Go, or .c files"),
                "{text}"
            );
        }
    }
}
