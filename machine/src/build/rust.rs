//! Rust programs, by cargo.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tombolo_base::{Isa, Target};

use super::toolchain::{Language, Linker, RustTarget, installed_compiler, rust_targets};
use super::{BuildError, Builder, Request, RustProgram};

const INSTALL_RUST: &str = "install Rust with rustup, see https://rustup.rs";

const STATIC_FLAGS: &str = "-C target-feature=+crt-static";

/// Linker argument with the memory layout of programs for boards; `tombolo-bare` passes its folder to the
/// linker.
const BOARD_FLAGS: &str = "-C link-arg=-Ttombolo-program.x";

/// Variables with flags for every target; cargo uses the first that is set.
const GLOBAL_FLAG_VARIABLES: [&str; 2] = ["CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS"];

/// One program of a package, and its build settings for cargo.
pub(super) struct Cargo<'a> {
    /// Folder of the package: cargo runs there, so that the package's own configuration and toolchain apply.
    folder: PathBuf,
    program: Program,
    request: &'a Request,
    targets: BTreeMap<Target, CargoTarget>,
}

/// Program that a package defines.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Program {
    package: String,
    /// `bin` or `example`.
    kind: &'static str,
    name: String,
    is_default: bool,
}

impl Program {
    fn argument(&self) -> String {
        format!("--{} {}", self.kind, self.name)
    }
}

/// Parameters of a cargo build for one target.
#[derive(Clone, PartialEq, Eq, Debug)]
struct CargoTarget {
    triple: String,
    environment: Vec<(String, OsString)>,
}

impl CargoTarget {
    /// Returns whether its variables affect other targets too.
    fn uses_global_flags(&self) -> bool {
        self.environment.iter().any(|(name, _)| GLOBAL_FLAG_VARIABLES.contains(&name.as_str()))
    }
}

impl<'a> Cargo<'a> {
    pub(super) fn new(
        manifest: &Path,
        program: &RustProgram,
        request: &'a Request,
    ) -> Result<Cargo<'a>, BuildError> {
        let manifest = manifest
            .canonicalize()
            .map_err(|source| BuildError::Read { path: manifest.to_owned(), source })?;
        let folder = manifest.parent().unwrap_or(Path::new("/")).to_owned();
        let programs = list_programs(&manifest, &folder)?;
        let program = choose(&manifest, &programs, program)?;
        Ok(Cargo { folder, program, request, targets: BTreeMap::new() })
    }
}

impl Builder for Cargo<'_> {
    fn name(&self) -> &str {
        &self.program.name
    }

    fn prepare(&mut self, target: Target) -> Result<String, BuildError> {
        let found = find_target(target, &self.folder)?;
        let triple = found.triple.clone();
        self.targets.insert(target, found);
        Ok(triple)
    }

    fn build(&mut self, targets: &[Target]) -> Result<Vec<PathBuf>, BuildError> {
        let mut programs = BTreeMap::new();
        for group in self.group_targets(targets) {
            let messages = self.run(&group)?;
            for target in group {
                let triple = self.targets.get(&target).map_or("", |found| found.triple.as_str());
                let program = executable(&messages, &self.program, triple);
                programs.insert(target, program.ok_or(BuildError::NoExecutable { target })?);
            }
        }
        let program =
            |target: &Target| programs.remove(target).ok_or(BuildError::NoExecutable { target: *target });
        targets.iter().map(program).collect()
    }
}

impl Cargo<'_> {
    /// Groups the targets by cargo runs. One run keeps every processor busy and compiles build scripts and
    /// procedural macros once. Boards get a separate run, since a run enables the features that a dependency
    /// needs for any of its targets; so do targets whose flags would affect the others.
    fn group_targets(&self, targets: &[Target]) -> Vec<Vec<Target>> {
        let separate = |target: &Target| self.targets.get(target).is_none_or(CargoTarget::uses_global_flags);
        let (separate, joined): (Vec<Target>, Vec<Target>) = targets.iter().copied().partition(separate);
        let (boards, nodes): (Vec<Target>, Vec<Target>) = joined.into_iter().partition(|target| target.bare);
        let groups = separate.into_iter().map(|target| vec![target]).chain([nodes, boards]);
        groups.filter(|group| !group.is_empty()).collect()
    }

    /// Runs cargo once and returns its messages.
    fn run(&self, targets: &[Target]) -> Result<Vec<u8>, BuildError> {
        let mut command = cargo(&self.folder);
        command.args(["build", "--message-format=json-render-diagnostics"]);
        command.args(["--profile", &self.request.profile, "--package", &self.program.package]);
        command.arg(format!("--{}", self.program.kind)).arg(&self.program.name);
        for found in targets.iter().filter_map(|target| self.targets.get(target)) {
            command.args(["--target", &found.triple]).envs(found.environment.iter().cloned());
        }
        let output = command
            .args(&self.request.arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .map_err(|source| BuildError::Start { tool: "cargo".to_owned(), source })?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let (targets, tool) = (targets.to_vec(), "cargo".to_owned());
        Err(BuildError::Compiler { targets, tool, status: output.status })
    }
}

fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(folder);
    command
}

/// Returns the executable of `program` for a target, from cargo's messages, one JSON object per line. They
/// identify a target only by the path: `<target>/<profile>/<program>`, with an additional folder for
/// examples.
fn executable(messages: &[u8], program: &Program, triple: &str) -> Option<PathBuf> {
    let depth = if program.kind == "example" { 3 } else { 2 };
    let is_for = |path: &PathBuf| path.ancestors().nth(depth).is_some_and(|folder| folder.ends_with(triple));
    let messages =
        messages.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    messages
        .filter(|message| message["reason"] == "compiler-artifact")
        .filter(|message| message["package_id"] == program.package.as_str())
        .filter(|message| message["target"]["name"] == program.name.as_str())
        .filter(|message| has_kind(&message["target"], program.kind))
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .find(is_for)
}

fn has_kind(target: &Value, kind: &str) -> bool {
    target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|found| found == kind))
}

/// Returns all programs of the package, or of every package of a virtual workspace.
fn list_programs(manifest: &Path, folder: &Path) -> Result<Vec<Program>, BuildError> {
    let mut command = cargo(folder);
    command.args(["metadata", "--no-deps", "--format-version=1", "--manifest-path"]).arg(manifest);
    let output = command.output().map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => BuildError::MissingTool {
            target: Isa::current().into(),
            tool: "cargo".to_owned(),
            install: INSTALL_RUST.to_owned(),
        },
        _ => BuildError::Start { tool: "cargo".to_owned(), source },
    })?;
    let refused = |message: String| BuildError::Manifest { manifest: manifest.to_owned(), message };
    if !output.status.success() {
        return Err(refused(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    let metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| refused(error.to_string()))?;
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_this_package =
        |package: &&Value| package["manifest_path"].as_str().is_some_and(|path| Path::new(path) == manifest);
    match packages.iter().find(is_this_package) {
        Some(package) => Ok(programs_of_package(package)),
        None => Ok(packages.iter().flat_map(programs_of_package).collect()),
    }
}

fn programs_of_package(package: &Value) -> Vec<Program> {
    let targets = package["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
    let program = |target: &Value| {
        let kind = ["bin", "example"].into_iter().find(|kind| has_kind(target, kind))?;
        let name = target["name"].as_str()?.to_owned();
        let is_default = kind == "bin" && package["default_run"] == name.as_str();
        Some(Program { package: package["id"].as_str()?.to_owned(), kind, name, is_default })
    };
    targets.iter().filter_map(program).collect()
}

/// Selects the requested program.
fn choose(manifest: &Path, programs: &[Program], wanted: &RustProgram) -> Result<Program, BuildError> {
    let named = |kind: &str, name: &str| -> Vec<&Program> {
        programs.iter().filter(|program| program.kind == kind && program.name == name).collect()
    };
    let (found, what) = match wanted {
        RustProgram::Bin(name) => (named("bin", name), format!("binary `{name}`")),
        RustProgram::Example(name) => (named("example", name), format!("example `{name}`")),
        RustProgram::Default => {
            let bins: Vec<&Program> = programs.iter().filter(|program| program.kind == "bin").collect();
            let default: Vec<&Program> = bins.iter().copied().filter(|program| program.is_default).collect();
            (if default.is_empty() { bins } else { default }, "binary".to_owned())
        }
    };
    let manifest = manifest.to_owned();
    let available = |programs: &[&Program]| programs.iter().map(|program| program.argument()).collect();
    match found[..] {
        [program] => Ok(program.clone()),
        [] => Err(BuildError::NoProgram {
            manifest,
            what,
            available: available(&programs.iter().collect::<Vec<_>>()),
        }),
        _ => Err(BuildError::SeveralPrograms { manifest, available: available(&found) }),
    }
}

/// Returns the Rust target for `target`: on an x86-64 host its own for itself, otherwise a static one.
fn find_target(target: Target, folder: &Path) -> Result<CargoTarget, BuildError> {
    let rustc = Rustc { folder };
    if target == Isa::X86_64.into() && target.isa == Isa::current() {
        return Ok(CargoTarget { triple: rustc.host(target)?, environment: Vec::new() });
    }
    let mut missing_linker = None;
    for candidate in rust_targets(target) {
        let (sysroot, libraries) = rustc.installation(target, candidate.triple)?;
        if !libraries.is_dir() {
            continue;
        }
        match find_linker(target, candidate, &sysroot) {
            Ok(linker) => {
                let flags = if target.bare { BOARD_FLAGS } else { STATIC_FLAGS };
                return Ok(static_target(candidate.triple, &linker, flags, |name| std::env::var_os(name)));
            }
            Err(error) => missing_linker = Some(error),
        }
    }
    let triples: Vec<String> = rust_targets(target).iter().map(|target| target.triple.to_owned()).collect();
    Err(missing_linker.unwrap_or_else(|| BuildError::MissingRustTarget {
        target,
        install: match crate::kit::find_program("rustup") {
            Some(_) => format!("rustup target add {}", triples[0]),
            None => format!("{INSTALL_RUST}, then run rustup target add {}", triples[0]),
        },
        triples,
    }))
}

/// Returns the linker for `candidate`, if it is installed.
fn find_linker(target: Target, candidate: &RustTarget, sysroot: &Path) -> Result<String, BuildError> {
    match candidate.linker {
        Linker::Gcc => installed_compiler(Language::C, target.isa),
        Linker::RustLld | Linker::Board => {
            let hosts = std::fs::read_dir(sysroot.join("lib/rustlib")).into_iter().flatten().flatten();
            let found = hosts.into_iter().any(|host| host.path().join("bin/rust-lld").is_file());
            if found || crate::kit::find_program("rust-lld").is_some() {
                return Ok("rust-lld".to_owned());
            }
            Err(BuildError::MissingTool {
                target,
                tool: "rust-lld".to_owned(),
                install: INSTALL_RUST.to_owned(),
            })
        }
    }
}

/// Returns the environment for cargo: linker and static linking, unless the user configured them. The user's
/// own settings for the target stay effective, because cargo merges the two.
fn static_target(
    triple: &str,
    linker: &str,
    ours: &str,
    variable: impl Fn(&str) -> Option<OsString>,
) -> CargoTarget {
    let prefix = format!("CARGO_TARGET_{}", triple.to_uppercase().replace('-', "_"));
    let mut environment = Vec::new();
    let linker_variable = format!("{prefix}_LINKER");
    if variable(&linker_variable).is_none() {
        environment.push((linker_variable, linker.into()));
    }
    // Cargo takes flags from the first of these only, so ours are appended to the user's.
    let flags = [
        GLOBAL_FLAG_VARIABLES[0].to_owned(),
        GLOBAL_FLAG_VARIABLES[1].to_owned(),
        format!("{prefix}_RUSTFLAGS"),
    ];
    let (name, present) = flags
        .iter()
        .find_map(|name| variable(name).map(|value| (name.clone(), value)))
        .unwrap_or_else(|| (flags[2].clone(), OsString::new()));
    let (separator, ours) =
        if name == flags[0] { ("\u{1f}", ours.replace(' ', "\u{1f}")) } else { (" ", ours.to_owned()) };
    let mut value = present;
    if !value.is_empty() {
        value.push(separator);
    }
    value.push(ours);
    environment.push((name, value));
    CargoTarget { triple: triple.to_owned(), environment }
}

/// The compiler that cargo uses in a folder.
struct Rustc<'a> {
    folder: &'a Path,
}

impl Rustc<'_> {
    fn query(&self, target: Target, arguments: &[&str]) -> Result<String, BuildError> {
        let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        let output = command
            .current_dir(self.folder)
            .args(arguments)
            .stderr(Stdio::inherit())
            .output()
            .map_err(|source| BuildError::Start { tool: "rustc".to_owned(), source })?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            let (targets, tool) = (vec![target], "rustc".to_owned());
            Err(BuildError::Compiler { targets, tool, status: output.status })
        }
    }

    /// Returns the default target of the compiler.
    fn host(&self, target: Target) -> Result<String, BuildError> {
        let version = self.query(target, &["-vV"])?;
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        Ok(host.unwrap_or("x86_64-unknown-linux-gnu").to_owned())
    }

    /// Returns the folder of the compiler, and that of the standard library for `triple`, which may not
    /// exist.
    fn installation(&self, target: Target, triple: &str) -> Result<(PathBuf, PathBuf), BuildError> {
        let sysroot = self.query(target, &["--print", "sysroot"])?;
        let libraries = self.query(target, &["--print", "target-libdir", "--target", triple])?;
        Ok((PathBuf::from(sysroot.trim()), PathBuf::from(libraries.trim())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(kind: &'static str, name: &str, is_default: bool) -> Program {
        Program { package: "p".to_owned(), kind, name: name.to_owned(), is_default }
    }

    fn chosen(programs: &[Program], wanted: &RustProgram) -> Result<String, String> {
        choose(Path::new("Cargo.toml"), programs, wanted)
            .map(|program| program.argument())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_only_or_the_named_program_is_built() {
        let programs = [program("bin", "a", false), program("example", "e", false)];
        assert_eq!(chosen(&programs, &RustProgram::Default), Ok("--bin a".to_owned()));
        assert_eq!(chosen(&programs, &RustProgram::Example("e".to_owned())), Ok("--example e".to_owned()));
        let two = [program("bin", "a", false), program("bin", "b", true)];
        assert_eq!(chosen(&two, &RustProgram::Default), Ok("--bin b".to_owned()));
        assert_eq!(chosen(&two, &RustProgram::Bin("a".to_owned())), Ok("--bin a".to_owned()));
    }

    #[test]
    fn ambiguous_choice_lists_the_alternatives() {
        let two = [program("bin", "a", false), program("bin", "b", false)];
        assert_eq!(
            chosen(&two, &RustProgram::Default),
            Err("Cargo.toml has several programs; choose one of --bin a, --bin b".to_owned())
        );
        assert_eq!(
            chosen(&two, &RustProgram::Bin("c".to_owned())),
            Err("Cargo.toml has no binary `c`; it has --bin a, --bin b".to_owned())
        );
        assert_eq!(
            chosen(&[], &RustProgram::Default),
            Err("Cargo.toml has no binary; it has no program at all".to_owned())
        );
    }

    #[test]
    fn user_cargo_settings_are_preserved() {
        let with = |variables: &'static [(&str, &str)]| {
            let target =
                static_target("s390x-unknown-linux-gnu", "s390x-linux-gnu-gcc", STATIC_FLAGS, |name| {
                    variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
                });
            let text = |value: &OsString| value.to_str().unwrap().to_owned();
            target.environment.iter().map(|(name, value)| (name.clone(), text(value))).collect::<Vec<_>>()
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let linker = pair("CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_LINKER", "s390x-linux-gnu-gcc");
        let own = "CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_RUSTFLAGS";
        assert_eq!(with(&[]), [linker.clone(), pair(own, STATIC_FLAGS)]);
        assert_eq!(
            with(&[("RUSTFLAGS", "-g")]),
            [linker.clone(), pair("RUSTFLAGS", "-g -C target-feature=+crt-static")]
        );
        assert_eq!(
            with(&[("RUSTFLAGS", "-g"), ("CARGO_ENCODED_RUSTFLAGS", "-g")]),
            [linker, pair("CARGO_ENCODED_RUSTFLAGS", "-g\u{1f}-C\u{1f}target-feature=+crt-static")]
        );
        assert_eq!(with(&[("CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_LINKER", "ld")]), [pair(own, STATIC_FLAGS)]);
    }

    #[test]
    fn executable_is_found_in_cargo_messages() {
        let line = |id: &str, kind: &str, path: &str| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"package_id\":\"{id}\",\
                 \"target\":{{\"kind\":[\"{kind}\"],\"name\":\"a\"}},\"executable\":{path}}}\n"
            )
        };
        let messages = format!(
            "not json\n{}{}{}{}{}",
            line("other", "bin", "\"/t/arm/release/a\""),
            line("p", "lib", "null"),
            line("p", "example", "\"/t/arm/release/examples/a\""),
            line("p", "bin", "\"/t/x86/release/a\""),
            line("p", "bin", "\"/t/arm/release/a\"")
        );
        let found = |kind, triple| executable(messages.as_bytes(), &program(kind, "a", false), triple);
        assert_eq!(found("bin", "arm"), Some(PathBuf::from("/t/arm/release/a")));
        assert_eq!(found("bin", "x86"), Some(PathBuf::from("/t/x86/release/a")));
        assert_eq!(found("example", "arm"), Some(PathBuf::from("/t/arm/release/examples/a")));
        assert_eq!(found("bin", "riscv"), None);
        assert_eq!(executable(b"", &program("bin", "a", false), "arm"), None);
    }
}
