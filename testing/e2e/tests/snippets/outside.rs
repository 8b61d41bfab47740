//! Compiles Rust, C and Python blocks in a project outside the workspace, as a user of the crate would.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tombolo_e2e::python::Python;
use tombolo_e2e::{Machine, outside};

use crate::extract::Snippet;
use crate::tree;

/// Interface files of the tree whose stubs fragments may use, as `crate::kv` and the like.
const INTERFACES: [&str; 3] = ["greeter", "kv", "rights"];

/// A cargo workspace outside the tree.
pub(crate) struct Project {
    folder: PathBuf,
}

/// Target triple of this host. `tombolo build` passes the same target, so sessions reuse compiled crates.
fn host() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

/// Path of the program compiled from a block.
pub(crate) fn program(block: &Snippet) -> PathBuf {
    outside::folder().join(host()).join("release").join(block.name())
}

impl Project {
    /// Creates an empty workspace with the tree's versions of dependencies.
    pub(crate) fn new(folder: &Path) -> Project {
        fs::create_dir_all(folder).expect("a folder for the project");
        fs::copy(tree().join("Cargo.lock"), folder.join("Cargo.lock")).expect("a lock file");
        Project { folder: folder.to_owned() }
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder of the project");
        fs::write(path, text).expect("a file of the project");
    }

    /// Adds blocks of Rust, and the packages that blocks quote.
    pub(crate) fn add(&self, blocks: &[&Snippet]) {
        let quoted: BTreeSet<&str> = blocks.iter().filter_map(|block| package_of(block.from()?)).collect();
        let mut members = vec!["snippets".to_owned()];
        for package in quoted {
            copy_folder(&tree().join("examples").join(package), &self.folder.join("examples").join(package));
            self.write(&format!("examples/{package}/Cargo.toml"), &manifest(package));
            members.push(format!("examples/{package}"));
        }
        copy_folder(&tree().join("interfaces"), &self.folder.join("interfaces"));
        self.write("Cargo.toml", &format!("[workspace]\nresolver = \"3\"\nmembers = {members:?}\n"));
        self.write("snippets/Cargo.toml", &manifest("snippets"));
        self.write("snippets/build.rs", BUILD);
        let mut library = String::from("#![allow(warnings)]\n");
        for name in INTERFACES {
            let _ = writeln!(
                library,
                "pub mod {name} {{ include!(concat!(env!(\"OUT_DIR\"), \"/{name}.rs\")); }}"
            );
        }
        for block in blocks.iter().filter(|block| block.from().is_none()) {
            let name = block.name();
            if block.text.contains("fn main()") {
                self.write(&format!("snippets/src/bin/{name}.rs"), &block.text);
            } else {
                let _ = writeln!(library, "pub mod {name};");
                self.write(&format!("snippets/src/{name}.rs"), &module(block));
            }
        }
        self.write("snippets/src/lib.rs", &library);
    }

    /// Compiles everything.
    ///
    /// # Errors
    /// The compiler's messages; file names contain page and line.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut command = Command::new("cargo");
        command.args(["build", "--quiet", "--workspace", "--release", "--target", &host()]);
        run(command.current_dir(&self.folder).envs(outside::cargo_settings()))
    }
}

/// Returns the package of the tree that contains a file.
fn package_of(path: &str) -> Option<&str> {
    path.strip_prefix("examples/")?.split_once('/').map(|(package, _)| package)
}

/// Returns a manifest with the dependency as a user would write it; `Cargo.lock` fixes the versions.
fn manifest(name: &str) -> String {
    let root = fs::canonicalize(tree()).expect("the tree");
    let root = root.display();
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [dependencies]\ntombolo = {{ path = \"{root}/runtime/tombolo\" }}\n\
         tombolo-admin = {{ path = \"{root}/runtime/admin\" }}\n\
         tombolo-copies = {{ path = \"{root}/runtime/copies\" }}\n\
         tombolo-files = {{ path = \"{root}/runtime/files\" }}\n\
         tombolo-group = {{ path = \"{root}/runtime/group\" }}\n\
         tombolo-hubs = {{ path = \"{root}/runtime/hubs\" }}\n\
         tombolo-pages = {{ path = \"{root}/models/pages\" }}\n\
         tombolo-objects = {{ path = \"{root}/models/objects\" }}\n\
         tombolo-xipx = {{ path = \"{root}/models/xipx\" }}\n\
         tombolo-realtime = {{ path = \"{root}/models/realtime\" }}\n\n\
         [build-dependencies]\ntombolo-idl = {{ path = \"{root}/interface/idl\" }}\n"
    )
}

const BUILD: &str = r#"use tombolo_idl::build::compile;
use tombolo_idl::rust::RustOptions;

fn main() {
    let options = RustOptions { runtime: "tombolo::interface".into(), ..RustOptions::default() };
    for name in ["greeter", "kv", "rights"] {
        compile(format!("../interfaces/{name}.tbl"), &options).expect("an interface file of the tree");
    }
}
"#;

/// Wraps a fragment into a function in its own module.
fn module(block: &Snippet) -> String {
    let asynchronous = if block.text.contains(".await") { "async " } else { "" };
    let text = &block.text;
    format!(
        "// {block}\nuse std::time::Duration;\nuse tombolo::*;\n\
         use tombolo::{{bulk::*, latency::*, names::*, region::*, spawn::*, waitset::*}};\n\
         pub {asynchronous}fn snippet({}) -> Result<(), Box<dyn std::error::Error>> {{\n{text}\n;Ok(())\n}}\n",
        block.given()
    )
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).unwrap_or_else(|error| panic!("{}: {error}", from.display())) {
        let path = entry.expect("an entry of the tree").path();
        let copy = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy_folder(&path, &copy);
        } else {
            fs::copy(&path, &copy).expect("a copy");
        }
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = [output.stdout, output.stderr].concat();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&said).into_owned()) }
}

/// Compiles a C block with the installed headers. A fragment with `given` parameters is the body of a
/// function; one without is compiled at file scope.
///
/// # Errors
/// The compiler's messages.
pub(crate) fn check_c(block: &Snippet, folder: &Path) -> Result<(), String> {
    let (includes, rest): (Vec<&str>, Vec<&str>) =
        block.text.lines().partition(|line| line.starts_with("#include"));
    let mut text = includes.join("\n");
    text.push_str("\n#include <stdbool.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n");
    text.push_str("#include <tombolo.h>\n#include \"kv.h\"\n#include \"rights.h\"\n");
    let (given, rest) = (block.given(), rest.join("\n"));
    let _ = match (given, rest.contains("int main(")) {
        (_, true) | ("", _) => writeln!(text, "#line {} \"{}\"\n{rest}", block.line, block.page),
        (given, _) => {
            writeln!(text, "void snippet({given})\n{{\n#line {} \"{}\"\n{rest}\n}}", block.line, block.page)
        }
    };
    let source = folder.join(format!("{}.c", block.name()));
    fs::write(&source, text).expect("a file of the test");
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=c11", "-fopenmp", "-fsyntax-only", "-Wall", "-Werror", "-Wno-unused"]);
    for include in ["runtime/c/include", "models/rcce/include", "interface/c", "models/omp/gomp"] {
        gcc.arg("-I").arg(tree().join(include));
    }
    run(gcc.arg(&source)).map_err(|error| format!("{block}: {error}"))
}

/// Checks Python blocks page by page: their syntax, that names imported from `tombolo` exist, and that other
/// names were defined earlier on the page.
///
/// # Errors
/// A list of all errors.
pub(crate) fn check_python(blocks: &[&Snippet], python: &Python, machine: &Machine) -> Result<(), String> {
    let folder = machine.folder().join("python");
    fs::create_dir_all(&folder).expect("a folder for blocks");
    let mut list = String::new();
    for block in blocks {
        let file = folder.join(format!("{}.py", block.name()));
        fs::write(&file, &block.text).expect("a file of the test");
        let _ = writeln!(list, "{}\t{}\t{}\t{}", block.page, block.line, block.given(), file.display());
    }
    let list_file = folder.join("list");
    fs::write(&list_file, list).expect("a file of the test");
    let script = folder.join("check.py");
    fs::write(&script, include_str!("check.py")).expect("a file of the test");
    run(python.command(machine).arg(&script).arg(&list_file))
}
