//! The committed stubs match the compiler's output, and the interface files are formatted.

use std::fs;
use std::path::{Path, PathBuf};

use tombolo_idl::build;
use tombolo_idl::rust::RustOptions;
use tombolo_idl::rust::owned::OwnedOptions;

/// Runtime of the committed stubs. They are for crates that `tombolo` depends on, which cannot refer to
/// `tombolo`.
const RUNTIME: &str = "tombolo_interface";

fn interfaces(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interfaces").join(folder);
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|ending| ending == "tbl")).collect();
    paths.sort();
    paths
}

/// Interface file of the façade's file transfer metadata. It has no stubs, only owned types.
const FACADES: &str = "files";

#[test]
fn stubs_are_up_to_date() {
    assert!(!interfaces("").is_empty());
    for path in interfaces("") {
        let stem = path.file_stem().unwrap().to_str().unwrap();
        if stem == FACADES {
            continue;
        }
        let origin = format!("interfaces/{stem}.tbl");
        let text = build::rust(&path, &RustOptions { runtime: RUNTIME.to_owned(), origin }).unwrap();
        let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/{stem}.rs"));
        let committed = fs::read_to_string(committed).unwrap_or_default();
        assert!(committed == text, "{stem}.rs is stale; `cargo xtask codegen` writes it anew");
    }
}

#[test]
fn owned_types_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (stem, path) in
        [("everything", "src/everything_owned.rs"), (FACADES, "../../runtime/files/src/messages.rs")]
    {
        let origin = format!("interfaces/{stem}.tbl");
        let options = OwnedOptions { runtime: RUNTIME.to_owned(), origin, ..OwnedOptions::default() };
        let text = build::owned(folder.join(format!("../../interfaces/{stem}.tbl")), &options).unwrap();
        let committed = fs::read_to_string(folder.join(path)).unwrap_or_default();
        assert!(committed == text, "{path} is stale; `cargo xtask codegen` writes it anew");
    }
}

#[test]
fn interface_files_are_formatted() {
    for path in interfaces("").into_iter().chain(interfaces("control")) {
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(
            tombolo_idl::format(&text).unwrap(),
            text,
            "{}: `tombolo idl fmt` puts it right",
            path.display()
        );
    }
}
