//! Prints the stubs of an interface file: `cargo run --example compile interfaces/kv.tbl`, with `--c` those in C, with
//! `--c=old_` those whose names begin with `old_`, with `--doc` the reference; with `--grammar` alone that for editors.

use std::process::ExitCode;

use tombolo_idl::build;
use tombolo_idl::c::COptions;
use tombolo_idl::rust::RustOptions;

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["--grammar"] {
        print!("{}", tombolo_idl::editor::text_mate());
        return ExitCode::SUCCESS;
    }
    let documents = arguments.first().is_some_and(|first| first == "--doc");
    arguments.drain(..usize::from(documents));
    let in_c = arguments.first().and_then(|first| first.strip_prefix("--c")).map(str::to_owned);
    arguments.drain(..usize::from(in_c.is_some()));
    let [path] = &arguments[..] else {
        eprintln!("usage: compile [--c[=PREFIX] | --doc] FILE.tbl | --grammar");
        return ExitCode::from(2);
    };
    let text = if documents {
        build::reference(path, path)
    } else if let Some(prefix) = in_c {
        let prefix = prefix.strip_prefix('=').map(str::to_owned);
        build::c(path, &COptions { origin: path.clone(), prefix })
    } else {
        build::rust(path, &RustOptions { origin: path.clone(), ..RustOptions::default() })
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
