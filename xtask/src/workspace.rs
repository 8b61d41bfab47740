//! The tree: where it is, its crates, its files.

use std::env;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::failure::Failure;
use crate::layers::Layers;

/// The workspace as cargo and git see it.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) layers: Layers,
    pub(crate) packages: Vec<Package>,
}

/// One crate of the workspace.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) license: Option<String>,
    #[serde(default)]
    pub(crate) description: Option<String>,
    #[serde(default)]
    pub(crate) documentation: Option<String>,
    /// Relative to the crate's folder.
    #[serde(default)]
    pub(crate) readme: Option<PathBuf>,
    /// The registries that it may go to: none for what is not public, absent for any.
    #[serde(default)]
    pub(crate) publish: Option<Vec<String>>,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

/// Something that a crate depends on.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Present only for crates of the workspace.
    pub(crate) path: Option<PathBuf>,
    /// `dev` or `build`; absent for what the crate itself uses.
    pub(crate) kind: Option<String>,
    #[serde(default)]
    pub(crate) optional: bool,
}

/// A library, program, test or example of a crate.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    /// `lib`, `bin`, `test` and so on; a library has one for each form that it is built in.
    pub(crate) kind: Vec<String>,
    pub(crate) src_path: PathBuf,
    /// Whether it has tests, as its manifest says.
    #[serde(default)]
    pub(crate) test: bool,
    /// Of a library: whether examples in its documentation are tested.
    #[serde(default)]
    pub(crate) doctest: bool,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: PathBuf,
    target_directory: PathBuf,
}

/// One file of the tree, as text.
#[derive(Clone, Debug)]
pub(crate) struct TextFile {
    /// Relative to the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Workspace {
    /// Asks cargo about the workspace that this tool belongs to.
    pub(crate) fn load() -> Result<Self, Failure> {
        // What cargo says now, not when it built this: two clones may share a target folder.
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

    /// The crates that users depend on, and those that these are made of.
    pub(crate) fn public_crates(&self) -> impl Iterator<Item = &str> {
        self.packages.iter().filter(|package| package.is_public()).map(|package| package.name.as_str())
    }

    /// Every text file that git tracks or would track. Files that are not UTF-8 are no text.
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
            // A file may be listed and gone: deleted, and not yet committed so.
            if let Ok(text) = std::fs::read_to_string(self.root.join(path)) {
                files.push(TextFile { path: path.to_owned(), text });
            }
        }
        Ok(files)
    }

    /// Where what only looks at sources, and tests on foreign instruction sets, are built: procedural macros
    /// and what they depend on are compiled once for all of them, and no step that needs the target folder
    /// waits for its lock.
    pub(crate) fn checks(&self) -> PathBuf {
        self.target.join("checks")
    }

    /// The same for model checkers.
    pub(crate) fn models(&self) -> PathBuf {
        self.target.join("models")
    }

    /// A cargo command in the root of the workspace, with its own target folder.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = Command::new(cargo());
        command.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        command
    }
}

impl Package {
    /// Whether it goes to the registry.
    pub(crate) fn is_public(&self) -> bool {
        self.publish.is_none()
    }

    /// The crate's folder relative to `root`, with `/`.
    pub(crate) fn folder(&self, root: &Path) -> String {
        let folder = self.manifest_path.parent().unwrap_or(&self.manifest_path);
        folder.strip_prefix(root).unwrap_or(folder).to_string_lossy().into_owned()
    }
}

/// The cargo that runs this tool.
fn cargo() -> String {
    env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Runs a command and gives what it printed; its complaints go to the terminal.
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

/// Runs one of the scripts that put what others made into the target folder. Whether the archives gave it.
pub(crate) fn fetch(workspace: &Workspace, script: &str) -> Result<bool, Failure> {
    /// With what such a script ends when an archive is out of reach.
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

/// Runs a command, and writes what it said in one piece when it has ended, apart from what others say
/// meanwhile.
pub(crate) fn execute_whole(command: &mut Command) -> Result<(), Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |source| Failure::NotStarted { program: program.clone(), source };
    let (mut said, writer) = io::pipe().map_err(failed)?;
    let second = writer.try_clone().map_err(failed)?;
    let mut child = command.stdout(writer).stderr(second).spawn().map_err(failed)?;
    // The command holds the writing ends until it is told anew; reading would not end before.
    command.stdout(Stdio::inherit()).stderr(Stdio::inherit());
    let mut text = Vec::new();
    said.read_to_end(&mut text).map_err(failed)?;
    let status = child.wait().map_err(failed)?;
    // A closed standard output is not a reason to stop the checks.
    let _ = io::stdout().lock().write_all(&text);
    if status.success() {
        Ok(())
    } else {
        Err(Failure::CommandFailed { command: line(command), status: status.to_string() })
    }
}

/// A command as one would type it.
pub(crate) fn line(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}
