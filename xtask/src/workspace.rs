//! The source tree: its location, crates and files.

use std::env;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::failure::Failure;
use crate::layers::Layers;

/// Workspace as seen by cargo and git.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) layers: Layers,
    pub(crate) packages: Vec<Package>,
}

/// Crate of the workspace.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) license: Option<String>,
    #[serde(default)]
    pub(crate) description: Option<String>,
    #[serde(default)]
    pub(crate) documentation: Option<String>,
    /// Path relative to the crate's folder.
    #[serde(default)]
    pub(crate) readme: Option<PathBuf>,
    /// Registries that the crate may be published to: empty for private crates, `None` for no restriction.
    #[serde(default)]
    pub(crate) publish: Option<Vec<String>>,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

/// Dependency of a crate.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Folder of a path dependency; `None` for crates from a registry.
    pub(crate) path: Option<PathBuf>,
    /// `dev` or `build`; `None` for normal dependencies.
    pub(crate) kind: Option<String>,
    #[serde(default)]
    pub(crate) optional: bool,
}

/// Library, program, test or example of a crate.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    /// Kinds such as `lib`, `bin` or `test`; a library has one for each form that it is built in.
    pub(crate) kind: Vec<String>,
    pub(crate) src_path: PathBuf,
    /// Whether the manifest enables unit tests.
    #[serde(default)]
    pub(crate) test: bool,
    /// Whether the manifest enables tests of a library's documentation examples.
    #[serde(default)]
    pub(crate) doctest: bool,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: PathBuf,
    target_directory: PathBuf,
}

/// Text file of the tree.
#[derive(Clone, Debug)]
pub(crate) struct TextFile {
    /// Path relative to the root, separated by `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Workspace {
    /// Loads the workspace that this tool belongs to with `cargo metadata`.
    pub(crate) fn load() -> Result<Self, Failure> {
        // Use cargo's value at run time, not at compile time: two clones may share a target folder.
        let here = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let manifest = Path::new(&here).join("../Cargo.toml");
        let output = capture(
            Command::new(cargo())
                .args(["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path"])
                .arg(&manifest),
        )?;
        let metadata: Metadata =
            serde_json::from_str(&output).map_err(|error| Failure::malformed("cargo metadata", error))?;
        let layers = Layers::load(&metadata.workspace_root)?;
        Ok(Self {
            root: metadata.workspace_root,
            target: metadata.target_directory,
            layers,
            packages: metadata.packages,
        })
    }

    /// Returns the names of the crates that users depend on, and of those that these depend on.
    pub(crate) fn public_crates(&self) -> impl Iterator<Item = &str> {
        self.packages.iter().filter(|package| package.is_public()).map(|package| package.name.as_str())
    }

    /// Reads every text file that git tracks or would track. Files that are not UTF-8 are left out.
    pub(crate) fn text_files(&self) -> Result<Vec<TextFile>, Failure> {
        let listing = capture(Command::new("git").current_dir(&self.root).args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]))?;
        let mut files = Vec::new();
        for path in listing.split('\0').filter(|path| !path.is_empty()) {
            // A listed file may be missing: deleted, but the deletion is not committed.
            if let Ok(text) = std::fs::read_to_string(self.root.join(path)) {
                files.push(TextFile { path: path.to_owned(), text });
            }
        }
        Ok(files)
    }

    /// Returns the target folder of source checks and of tests on foreign instruction sets: procedural macros
    /// and their dependencies are compiled once for all of them, and no step on the main target folder waits
    /// for their lock.
    pub(crate) fn checks(&self) -> PathBuf {
        self.target.join("checks")
    }

    /// Returns the shared target folder of the model checkers.
    pub(crate) fn models(&self) -> PathBuf {
        self.target.join("models")
    }

    /// Returns a cargo command that runs in the workspace root with its target folder.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = Command::new(cargo());
        command.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        command
    }
}

impl Package {
    /// Returns whether the crate is published to the registry.
    pub(crate) fn is_public(&self) -> bool {
        self.publish.is_none()
    }

    /// Returns the crate's folder relative to `root`, separated by `/`.
    pub(crate) fn folder(&self, root: &Path) -> String {
        let folder = self.manifest_path.parent().unwrap_or(&self.manifest_path);
        folder.strip_prefix(root).unwrap_or(folder).to_string_lossy().into_owned()
    }
}

/// Returns the path of the cargo that runs this tool.
fn cargo() -> String {
    env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Runs a command and returns its standard output; its standard error goes to the terminal.
pub(crate) fn capture(command: &mut Command) -> Result<String, Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|source| Failure::NotStarted { program, source })?;
    if !output.status.success() {
        return Err(Failure::CommandFailed { command: line(command), status: output.status.to_string() });
    }
    String::from_utf8(output.stdout).map_err(|error| Failure::malformed(line(command), error))
}

/// Runs a command on the terminal.
pub(crate) fn execute(command: &mut Command) -> Result<(), Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|source| Failure::NotStarted { program, source })?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::CommandFailed { command: line(command), status: status.to_string() })
    }
}

/// Runs a script that fetches third-party files into the target folder. Returns whether the archives were
/// reachable.
pub(crate) fn fetch(workspace: &Workspace, script: &str) -> Result<bool, Failure> {
    /// Exit status of such a script when an archive is unreachable.
    const UNREACHABLE: i32 = 3;
    let mut command = Command::new("sh");
    command.current_dir(&workspace.root).arg(script).arg(&workspace.target);
    let failed = |source| Failure::NotStarted { program: "sh".to_owned(), source };
    let status = command.status().map_err(failed)?;
    match status.code() {
        Some(0) => Ok(true),
        Some(UNREACHABLE) => Ok(false),
        _ => Err(Failure::CommandFailed { command: line(&command), status: status.to_string() }),
    }
}

/// Runs a command and writes its output in one piece after it has ended, so that outputs of parallel commands
/// do not mix.
pub(crate) fn execute_buffered(command: &mut Command) -> Result<(), Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |source| Failure::NotStarted { program: program.clone(), source };
    let (mut reader, writer) = io::pipe().map_err(failed)?;
    let second = writer.try_clone().map_err(failed)?;
    let mut child = command.stdout(writer).stderr(second).spawn().map_err(failed)?;
    // `command` keeps the write ends open until its streams are replaced; otherwise reading would never reach
    // the end.
    command.stdout(Stdio::inherit()).stderr(Stdio::inherit());
    let mut text = Vec::new();
    reader.read_to_end(&mut text).map_err(failed)?;
    let status = child.wait().map_err(failed)?;
    // A closed standard output does not stop the checks.
    let _ = io::stdout().lock().write_all(&text);
    if status.success() {
        Ok(())
    } else {
        Err(Failure::CommandFailed { command: line(command), status: status.to_string() })
    }
}

/// Returns the command line of a command.
pub(crate) fn line(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}
