//! Sources of the crates that Rust programs depend on, as part of an installation: until they are in a
//! registry, `tombolo new` refers to them by path.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::workspace::Workspace;

/// Folder of the sources below the prefix; `tombolo new` looks there.
pub(crate) const FOLDER: &str = "share/tombolo/rust";

/// Crates that programs depend on directly: those of the book's table, and the ones for boards and for stubs.
/// Their dependencies are determined from the workspace.
const CRATES: [&str; 13] = [
    "tombolo",
    "tombolo-admin",
    "tombolo-bare",
    "tombolo-copies",
    "tombolo-files",
    "tombolo-group",
    "tombolo-hubs",
    "tombolo-idl",
    "tombolo-objects",
    "tombolo-pages",
    "tombolo-placement",
    "tombolo-realtime",
    "tombolo-tasks",
];

/// Source file, with its path below [`FOLDER`].
pub(crate) struct SourceFile {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// Returns the files of the crates and of the Go module, the licence texts, the lock file, and a workspace
/// manifest for just these crates.
pub(crate) fn files(workspace: &Workspace) -> Result<Vec<SourceFile>, Failure> {
    let wanted = crates(workspace);
    let folders: Vec<(String, bool)> = workspace
        .packages
        .iter()
        .map(|package| (package.folder(&workspace.root), wanted.contains(&package.name)))
        .collect();
    let mut files = Vec::new();
    for file in workspace.text_files()? {
        let text = match file.path.as_str() {
            "Cargo.toml" => manifest(&file.text, &folders)
                .ok_or_else(|| Failure::malformed("Cargo.toml", "it has no list `members`"))?,
            "Cargo.lock" | "LICENSE-APACHE" | "LICENSE-MIT" => file.text,
            path if is_of_crate(path, &folders) || is_of_go(path) => file.text,
            _ => continue,
        };
        files.push(SourceFile { path: file.path.into(), text });
    }
    Ok(files)
}

/// Returns the crates and the crates of the tree that they transitively depend on.
fn crates(workspace: &Workspace) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut waiting: Vec<String> = CRATES.map(str::to_owned).into();
    while let Some(name) = waiting.pop() {
        let package = workspace.packages.iter().find(|package| package.name == name);
        let needed = package.iter().flat_map(|package| &package.dependencies);
        let needed = needed.filter(|needed| needed.path.is_some() && needed.kind.as_deref() != Some("dev"));
        waiting.extend(needed.map(|needed| needed.name.clone()).filter(|name| !found.contains(name)));
        found.insert(name);
    }
    found
}

/// Returns whether a file belongs to a wanted crate and not to a test. Crate folders may be nested.
fn is_of_crate(path: &str, folders: &[(String, bool)]) -> bool {
    let holds = |folder: &str| Path::new(path).starts_with(folder);
    let own = folders.iter().filter(|(folder, _)| holds(folder)).max_by_key(|(folder, _)| folder.len());
    own.is_some_and(|(folder, is_wanted)| *is_wanted && !holds(&format!("{folder}/tests")))
}

/// Returns whether a file belongs to the Go module, excluding tests and programs that tests run.
fn is_of_go(path: &str) -> bool {
    let Some(path) = path.strip_prefix("runtime/go/") else { return false };
    let is_tested = path.starts_with("internal/speaker/") || path.contains("testdata/");
    !is_tested && (path == "go.mod" || (path.ends_with(".go") && !path.ends_with("_test.go")))
}

/// Rewrites the workspace manifest to have only these members.
fn manifest(text: &str, folders: &[(String, bool)]) -> Option<String> {
    let (before, rest) = text.split_once("members = [")?;
    let (_, after) = rest.split_once(']')?;
    let members = folders.iter().filter(|(_, is_wanted)| *is_wanted);
    let members: String = members.map(|(folder, _)| format!("    {folder:?},\n")).collect();
    Some(format!("{before}members = [\n{members}]{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_of_the_crate_whose_folder_is_deepest() {
        let folders = [("transport".to_owned(), true), ("transport/conformance".to_owned(), false)];
        assert!(is_of_crate("transport/src/lib.rs", &folders));
        assert!(!is_of_crate("transport/conformance/src/lib.rs", &folders));
        assert!(!is_of_crate("transport/tests/all.rs", &folders));
        assert!(!is_of_crate("xtask/src/main.rs", &folders));
    }

    #[test]
    fn the_crates_of_the_book_come_with_all_that_they_depend_on() {
        let workspace = Workspace::load().expect("the workspace");
        let book = include_str!("../../docs/book/src/api.md");
        let rows = book.lines().filter_map(|line| line.strip_prefix("| `tombolo")?.split_once("` | `"));
        let rows: Vec<(String, &str)> = rows
            .filter_map(|(name, rest)| Some((format!("tombolo{name}"), rest.split_once('`')?.0)))
            .collect();
        assert!(rows.len() > 10, "{rows:?}");
        let wanted = crates(&workspace);
        let files = files(&workspace).expect("the files");
        for (name, folder) in &rows {
            assert!(CRATES.contains(&&**name), "{name} is in the book alone");
            assert!(wanted.contains(name), "{name}");
            let manifest = Path::new(folder).join("Cargo.toml");
            assert!(files.iter().any(|file| file.path == manifest), "no {}", manifest.display());
        }
        for name in CRATES {
            let package = workspace.packages.iter().find(|package| package.name == name);
            assert!(package.is_some(), "there is no crate {name}");
        }
    }

    #[test]
    fn the_module_for_go_comes_without_its_tests() {
        for path in ["runtime/go/go.mod", "runtime/go/channel.go", "runtime/go/internal/ring/ring.go"] {
            assert!(is_of_go(path), "{path}");
        }
        for path in ["runtime/go/ring_test.go", "runtime/go/internal/speaker/main.go", "examples/go/go.mod"] {
            assert!(!is_of_go(path), "{path}");
        }
    }

    #[test]
    fn the_manifest_has_the_members_that_are_there() {
        let text = "[workspace]\nmembers = [\n    \"a\",\n    \"b\",\n]\n[workspace.package]\n";
        let folders = [("a".to_owned(), true), ("b".to_owned(), false)];
        let manifest = manifest(text, &folders).expect("a manifest");
        assert_eq!(manifest, "[workspace]\nmembers = [\n    \"a\",\n]\n[workspace.package]\n");
    }
}
