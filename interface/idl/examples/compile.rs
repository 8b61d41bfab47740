//! Prints the stubs of an interface file: `cargo run --example compile interfaces/kv.tbl`.
//!
//! - `--c`: stubs in C; `--c=old_` sets the prefix of their names to `old_`.
//! - `--python`: stubs in Python.
//! - `--go=PACKAGE`: stubs in Go; `--go=PACKAGE:MESSAGE,…` generates only the given messages.
//! - `--owned=Duration=core::time::Duration,…`: owned Rust types, with substitutes for declared types.
//! - `--doc`: the reference page, in Markdown.
//! - `--grammar`, without a file: the syntax highlighting grammar for editors.

use std::process::ExitCode;

use tombolo_idl::build;
use tombolo_idl::c::COptions;
use tombolo_idl::go::GoOptions;
use tombolo_idl::python::PythonOptions;
use tombolo_idl::rust::RustOptions;
use tombolo_idl::rust::owned::OwnedOptions;

/// Runtime of the generated code. It is for crates that `tombolo` depends on, which cannot refer to
/// `tombolo`.
const RUNTIME: &str = "tombolo_interface";

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["--grammar"] {
        print!("{}", tombolo_idl::editor::text_mate());
        return ExitCode::SUCCESS;
    }
    let what = arguments.first().filter(|first| first.starts_with("--")).cloned();
    arguments.drain(..usize::from(what.is_some()));
    let [path] = &arguments[..] else {
        eprintln!(
            "usage: compile [--c[=PREFIX] | --python | --go[=PACKAGE[:MESSAGE,…]] | --owned[=TYPE=HOW,…] | --doc] FILE.tbl | --grammar"
        );
        return ExitCode::from(2);
    };
    let text = match what.as_deref() {
        Some("--doc") => build::reference(path, path),
        Some(c) if c == "--c" || c.starts_with("--c=") => {
            let prefix = c.strip_prefix("--c=").map(str::to_owned);
            build::c(path, &COptions { prefix, origin: path.clone() })
        }
        Some(owned) if owned.starts_with("--owned") => {
            let held = owned.strip_prefix("--owned=").unwrap_or_default().split(',');
            let held = held.filter_map(|one| one.split_once('='));
            let held = held.filter_map(|(name, how)| Some((name.to_owned(), how.parse().ok()?)));
            let (runtime, origin, held) = (RUNTIME.to_owned(), path.clone(), held.collect());
            build::owned(path, &OwnedOptions { runtime, origin, held })
        }
        Some(go) if go == "--go" || go.starts_with("--go=") => {
            let words = go.strip_prefix("--go=").map(|words| words.split_once(':').unwrap_or((words, "")));
            let package = words.map(|(package, _)| package.to_owned());
            let only = words.filter(|_| go.contains(':')).map(|(_, only)| only.split(','));
            let only = only.map(|only| only.map(str::to_owned).collect());
            build::go(path, &GoOptions { package, only, origin: path.clone() })
        }
        Some("--python") => build::python(path, &PythonOptions { origin: path.clone() }),
        _ => build::rust(path, &RustOptions { runtime: RUNTIME.to_owned(), origin: path.clone() }),
    };
    match text {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
